"""Pictures of exact laws: what a rule emits, against what plain sampling emits.

Takes: laws, each a dict from a tuple of token ids to its probability.  Returns: the numbers drawn.
Must not know: how a law was computed, widgets.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .colors import INK
from .numbers import Labels, bars, headline, namer, short

#: (colour, hatch) of the laws side by side; the yardstick comes first.
_LAWS = (("#0072B2", ""), ("#E69F00", "//"), ("#CC79A7", ".."), ("#009E73", "xx"))


def _keyed(law: Mapping[Any, float]) -> dict[tuple[int, ...], float]:
    return {key if isinstance(key, tuple) else (key,): float(p) for key, p in law.items()}


def compare(
    laws: Mapping[str, Mapping[Any, float]], reference: str | None = None
) -> tuple[list[dict], dict[str, float]]:
    """(rows, distances): one row a sequence, with its probability under each law; the total variation to the reference.

    reference: the name of the yardstick; the first law when None. Raises ValueError on an unknown name or no law.
    """
    if not laws:
        raise ValueError("give at least one law")
    reference = next(iter(laws)) if reference is None else reference
    if reference not in laws:
        raise ValueError(f"no law named {reference!r}; there are: {', '.join(laws)}")
    keyed = {name: _keyed(law) for name, law in laws.items()}
    sequences = sorted({key for law in keyed.values() for key in law})
    rows = [{"sequence": s, **{name: law.get(s, 0.0) for name, law in keyed.items()}} for s in sequences]
    distances = {name: 0.5 * sum(abs(row[name] - row[reference]) for row in rows) for name in laws if name != reference}
    return rows, distances


def draw_laws(
    fig: Any,
    laws: Mapping[str, Mapping[Any, float]],
    reference: str | None = None,
    labels: Labels = None,
    top: int = 12,
) -> list[dict]:
    """Up to four laws side by side, and below, how far each lies from the reference.

    top: how many sequences are shown, most probable first when there are more; the others are summed up.
    Returns all rows: sequence (a tuple of ids) and its probability under each law.
    """
    if len(laws) > len(_LAWS):
        raise ValueError(f"{len(laws)} laws: a picture holds at most {len(_LAWS)}")
    rows, distances = compare(laws, reference)
    reference = reference or next(iter(laws))
    order = [reference, *(name for name in laws if name != reference)]
    name = namer(labels)
    shown = _largest(rows, order, top)
    words = [_words(row["sequence"], name) for row in shown]
    above, below = fig.subplots(2, 1, height_ratios=[2.2, 1], sharex=True)
    width = 0.84 / len(order)
    for i, law in enumerate(order):
        x = [place + (i - (len(order) - 1) / 2) * width for place in range(len(shown))]
        bars(above, x, [row[law] for row in shown], *_LAWS[i], width=width, label=law)
        if law != reference:
            bars(below, x, [row[law] - row[reference] for row in shown], *_LAWS[i], width=width)
    above.set_ylabel("probability")
    columns = max(1, min(len(order), 110 // (max(map(len, order)) + 8)))
    fig.legend(*above.get_legend_handles_labels(), loc="outside lower center", ncols=columns)
    above.set_ylim(0, 1.08 * max(max(row[law] for law in order) for row in shown))
    below.axhline(0, color=INK, linewidth=0.8)
    worst = max((abs(row[law] - row[reference]) for row in shown for law in order), default=0.0)
    below.set_ylim(-1.25 * max(worst, 0.01), 1.25 * max(worst, 0.01))
    below.set_ylabel("difference")
    below.set_title(f"minus “{reference}”" + ("" if worst > 1e-12 else ": nothing, to twelve decimals"))
    long = max(map(len, words)) * len(words) > 90
    below.set_xticks(range(len(shown)), words, rotation=35 if long else 0, ha="right" if long else "center")
    below.set_xlabel("emitted sequence")
    said = ", ".join(f"“{law}” {_distance(d)}" for law, d in distances.items())
    headline(fig, f"total variation from “{reference}”: {said}" if said else f"the law of “{reference}”")
    return rows


draw_laws.height = 480


def _distance(value: float) -> str:
    return "0" if value < 1e-12 else f"{value:.3f}" if value >= 0.0005 else f"{value:.1e}"


def _largest(rows: list[dict], order: list[str], top: int) -> list[dict]:
    """The ``top`` most probable rows in the order of their ids, then the sum of the others."""
    if len(rows) <= top:
        return rows
    by_size = sorted(rows, key=lambda row: -max(row[law] for law in order))
    kept = sorted(by_size[: top - 1], key=lambda row: row["sequence"])
    others = by_size[top - 1 :]
    return [*kept, {"sequence": None, **{law: sum(row[law] for row in others) for law in order}}]


def _words(sequence: tuple[int, ...] | None, name: Any) -> str:
    return "all others" if sequence is None else " ".join(short(name(token), 10) for token in sequence)
