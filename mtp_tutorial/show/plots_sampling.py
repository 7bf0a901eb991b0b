"""Pictures of one token being drawn: temperature and the segment, filters, samplers against the exact law.

Takes: logits or probabilities, settings, uniforms.  Returns: from each draw function, the numbers drawn.
Must not know: models, verify rules, widgets.

Every draw function here is called as ``figure(draw, **values)`` or given to a ``Panel``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from .colors import INK, LOOKS, token_look
from .numbers import as_list, as_probs, bars, headline, names


def _probabilities(logits: list[float], **settings: Any) -> list[float]:
    import torch

    from ..records import Sampling
    from ..sampling import probabilities

    return probabilities(torch.tensor(logits, dtype=torch.float64), Sampling(**settings)).tolist()


def _pick(probs: list[float], u: float) -> int:
    import torch

    from ..sampling import inverse_cdf

    return int(inverse_cdf(torch.tensor(probs, dtype=torch.float64), torch.tensor(u, dtype=torch.float64)))


def draw_segment(
    fig: Any, logits: Any = (3.0, 2.0), labels: Sequence[str] | None = None, temperature: float = 1.0, u: float = 0.30
) -> list[dict]:
    """Logits → ÷ temperature → softmax → the segment [0, 1), and the token whose stretch holds ``u``.

    Returns one row a token: token, logit, scaled, probability, start, end, chosen.
    """
    logits = as_list(logits)
    labels = names(labels, len(logits))
    probs = _probabilities(logits, temperature=temperature)
    scaled = [x / temperature if temperature else math.nan for x in logits]
    chosen = _pick(probs, u)
    top = fig.subplot_mosaic([["logits", "probs"], ["line", "line"]], height_ratios=[1.7, 1])
    _logit_bars(top["logits"], logits, scaled, labels, temperature)
    _probability_bars(top["probs"], probs, labels)
    ends = _segment(top["line"], probs, labels, u, chosen)
    return [
        {
            "token": label, "logit": logits[i], "scaled": scaled[i], "probability": probs[i],
            "start": ends[i] - probs[i], "end": ends[i], "chosen": i == chosen,
        }
        for i, label in enumerate(labels)
    ]  # fmt: skip


def _logit_bars(axes: Any, logits: list[float], scaled: list[float], labels: list[str], temperature: float) -> None:
    x = range(len(logits))
    size, digits = (10, 2) if len(logits) <= 4 else (8, 1)
    bars(axes, [i - 0.2 if temperature else i for i in x], logits, "#FFFFFF", width=0.38, label="logit")
    if temperature:
        bars(axes, [i + 0.2 for i in x], scaled, LOOKS["target"].color, "//", width=0.38, label="logit ÷ T", alpha=0.75)
    for i in x:
        shown = ((i - 0.2, logits[i]), (i + 0.2, scaled[i])) if temperature else ((i, logits[i]),)
        for place, value in shown:
            _over(axes, place, value, f"{round(value, digits):g}", size)
    axes.set_xticks(list(x), labels)
    axes.margins(y=0.18)
    axes.axhline(0, color=INK, linewidth=0.8)
    axes.set_ylabel("logit")
    axes.legend(loc="upper right", ncols=2, borderaxespad=0)
    axes.set_title(f"T = {temperature:g}: " + ("nothing is divided" if not temperature else "logits divided by T"))
    axes.set_ylim(top=max(axes.get_ylim()[1], 0.1) * 1.15)


def _over(axes: Any, x: float, value: float, text: str, size: int = 10) -> None:
    """A number at the end of its bar."""
    below = value < 0
    axes.annotate(
        text, (x, value), xytext=(0, -3 if below else 3), textcoords="offset points", ha="center",
        va="top" if below else "bottom", fontsize=size,
    )  # fmt: skip


def _probability_bars(axes: Any, probs: list[float], labels: list[str]) -> None:
    for i, p in enumerate(probs):
        color, hatch = token_look(i)
        bars(axes, i, p, color, hatch, width=0.6)
        _over(axes, i, p, f"{p:.2f}")
    axes.set_xticks(range(len(probs)), labels)
    axes.set_ylim(0, 1.12)
    axes.set_ylabel("probability")
    axes.set_title("softmax: they sum to 1" if 0 < min(probs) else "probabilities: they sum to 1")


def _segment(axes: Any, probs: list[float], labels: list[str], u: float, chosen: int) -> list[float]:
    """The segment with the coin; returns where each stretch ends."""
    ends, start = [], 0.0
    for i, p in enumerate(probs):
        color, hatch = token_look(i)
        axes.barh(
            0, p, left=start, height=0.7, color=color, hatch=hatch, edgecolor=INK, linewidth=2 if i == chosen else 0.8
        )
        if p > 0.01 * len(labels[i]) + 0.015:
            box = {"facecolor": "white", "edgecolor": "none", "pad": 1.5, "alpha": 0.85}
            axes.text(start + p / 2, 0, labels[i], ha="center", va="center", bbox=box)
        start += p
        ends.append(start)
    axes.plot([u, u], [-0.35, 0.62], color=INK, linewidth=2)
    axes.plot([u], [0.62], marker="v", color=INK, markersize=9, clip_on=False)
    side = "left" if u < 0.85 else "right"
    axes.annotate(
        f"u = {u:.2f}",
        (u, 0.62),
        xytext=(8 if side == "left" else -8, 0),
        textcoords="offset points",
        ha=side,
        va="center",
    )
    axes.set_xlim(0, 1)
    axes.set_ylim(-0.36, 0.95)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.set_xlabel("the segment [0, 1): each token owns a stretch as long as its probability")
    stretch = f"[{ends[chosen] - probs[chosen]:.2f}, {ends[chosen]:.2f})"
    axes.set_title(f"u = {u:.2f} lies in {stretch}: the token is {labels[chosen]}")
    return ends


def draw_filters(
    fig: Any,
    logits: Any,
    labels: Sequence[str] | None = None,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    min_p: float = 0.0,
) -> list[dict]:
    """Which tokens top-k, top-p and min-p keep, and what the kept ones' probabilities become.

    top-p works on what top-k left, min-p on what top-p left.
    Returns one row a token, most probable first: token, before, cumulative (of what top-k left), kept, after.
    """
    logits = as_list(logits)
    labels = names(labels, len(logits))
    before = _probabilities(logits, temperature=temperature)
    after = _probabilities(logits, temperature=temperature, top_k=int(top_k), top_p=top_p, min_p=min_p)
    pool = _probabilities(logits, temperature=temperature, top_k=int(top_k))  # top-p cuts what top-k left
    order = sorted(range(len(logits)), key=lambda i: (-before[i], i))
    rows, total = [], 0.0
    for i in order:
        total += pool[i]
        rows.append(
            {"token": labels[i], "before": before[i], "cumulative": total, "kept": after[i] > 0, "after": after[i]}
        )
    left, right = fig.subplots(1, 2, sharey=True)
    high = max(r["after"] for r in rows)
    for x, row in enumerate(rows):
        style = ("#56B4E9", "") if row["kept"] else ("#EEEEEE", "xx")
        bars(left, x, row["before"], *style, width=0.7)
        bars(right, x, row["after"], "#56B4E9", "", width=0.7)
        if row["kept"]:
            _over(right, x, row["after"], f"{row['after']:.2f}")
    _limits(left, rows, top_k, top_p, min_p)
    for axes in (left, right):
        axes.set_xticks(range(len(rows)), [r["token"] for r in rows], rotation=0 if max(map(len, labels)) < 6 else 35)
        axes.set_xlabel("token, most probable first")
    left.set_ylabel("probability")
    left.set_ylim(0, max(high * 1.12, 1.02 if top_p < 1 else 0))
    kept = sum(r["kept"] for r in rows)
    mass = sum(r["before"] for r in rows if r["kept"])
    headline(fig, f"{kept} of {len(rows)} tokens are kept; they held {mass:.2f} of the mass")
    left.set_title("before: what is crossed out is cut")
    right.set_title("after: the rest is divided by its sum")
    if left.get_legend_handles_labels()[0]:
        fig.legend(loc="outside lower center", ncols=2)
    return rows


def _limits(axes: Any, rows: list[dict], top_k: int, top_p: float, min_p: float) -> None:
    """The lines at which the three filters cut."""
    if 0 < top_k < len(rows):
        axes.axvline(top_k - 0.5, color=INK, linestyle="--", linewidth=1.5, label=f"top-k: the first {top_k}")
    if top_p < 1:
        word = "cumulated" if not 0 < top_k < len(rows) else "cumulated, of what top-k leaves"
        axes.plot(
            range(len(rows)), [r["cumulative"] for r in rows], color="#D55E00", marker="o", markersize=4, label=word
        )
        axes.axhline(top_p, color="#D55E00", linestyle=":", linewidth=1.8, label=f"top-p: reach {top_p:.2f}")
    if min_p > 0:
        floor = min_p * rows[0]["before"]
        axes.axhline(
            floor, color="#0072B2", linestyle="-.", linewidth=1.8, label=f"min-p: {min_p:.2f} × largest = {floor:.3f}"
        )


def draw_histogram(fig: Any, probs: Any, draws: Mapping[str, Any], labels: Sequence[str] | None = None) -> list[dict]:
    """How often each sampler drew each token, against the exact law.

    draws: name of a sampler → the token ids it drew.
    The band is two standard deviations of a count, ± 2·√(n·p·(1 - p)); the title gives Pearson's χ² and its p-value:
    how often a right sampler would stray at least that far.
    Returns one row a sampler: sampler, counts, expected, chi2, p_value.
    """
    probs = as_probs(probs)
    labels = names(labels, len(probs))
    rows = []
    all_axes = fig.subplots(1, len(draws), sharey=True, squeeze=False)[0]
    for axes, (name, ids) in zip(all_axes, draws.items(), strict=True):
        ids = [int(i) for i in as_list(ids)]
        counts = [ids.count(i) for i in range(len(probs))]
        expected = [len(ids) * p for p in probs]
        chi2, p_value = chi_square(counts, expected)
        rows.append({"sampler": name, "counts": counts, "expected": expected, "chi2": chi2, "p_value": p_value})
        for i, count in enumerate(counts):
            bars(axes, i, count, *token_look(i), width=0.7, label="drawn" if i == 0 else None)
            spread = 2 * math.sqrt(expected[i] * (1 - probs[i]))
            axes.errorbar(
                i, expected[i], yerr=spread, color=INK, marker="_", markersize=16, capsize=6, linewidth=1.6,
                label="expected ± 2 standard deviations" if i == 0 else None,
            )  # fmt: skip
        axes.set_xticks(range(len(probs)), labels)
        between = ", " if len(draws) < 4 else "\n"  # four titles side by side are too narrow for one line
        axes.set_title(f"{name}\nχ² = {chi2:.2f}{between}p-value {_p_words(p_value)}")
        axes.set_xlabel("token")
    all_axes[0].set_ylabel("times drawn")
    all_axes[0].set_ylim(0, 1.08 * max(max(r["counts"] + r["expected"]) for r in rows))
    fig.legend(*all_axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    drawn = {sum(r["counts"]) for r in rows}
    headline(fig, f"{' / '.join(str(n) for n in sorted(drawn))} draws each, against the exact law")
    return rows


def _p_words(p_value: float) -> str:
    """A p-value in two decimals; a small one in three, the smallest as a bound."""
    return "below 0.001" if p_value < 0.001 else f"{p_value:.3f}" if p_value < 0.01 else f"{p_value:.2f}"


def chi_square(counts: Sequence[float], expected: Sequence[float]) -> tuple[float, float]:
    """(Pearson's χ², its p-value). Tokens of probability 0 count as infinitely far off when they were drawn."""
    from scipy.special import chdtrc

    cells = [(c, e) for c, e in zip(counts, expected, strict=True) if c or e]
    if any(e == 0 for _, e in cells):
        return math.inf, 0.0
    chi2 = sum((c - e) ** 2 / e for c, e in cells)
    if len(cells) < 2:
        return chi2, 1.0
    return chi2, float(chdtrc(len(cells) - 1, chi2))


def sampler_draws(probs: Any, n: int, seed: int = 0) -> dict[str, list[int]]:
    """``n`` tokens from each of the three samplers of ``mtp_tutorial.sampling``, each with noise of its own."""
    import torch

    from .. import sampling

    p = torch.tensor(as_probs(probs), dtype=torch.float64)
    rows = p.expand(n, -1)
    streams = [sampling.generator(seed, role) for role in range(3)]
    uniforms = torch.rand(n, dtype=torch.float64, generator=streams[0])
    race = sampling.exponential_noise((n, len(p)), streams[1])
    gumbel = sampling.gumbel_noise((n, len(p)), streams[2])
    return {
        "inverse CDF": sampling.inverse_cdf(rows, uniforms).tolist(),
        "exponential race": sampling.exponential_race(rows, race).tolist(),
        "Gumbel-max": sampling.gumbel_max(rows.log(), gumbel).tolist(),
    }


def draw_samplers(
    fig: Any, probs: Any, labels: Sequence[str] | None = None, n: int = 1000, seed: int = 0
) -> list[dict]:
    """Inverse CDF, exponential race and Gumbel-max side by side, ``n`` fresh draws each. Rows as ``draw_histogram``."""
    return draw_histogram(fig, probs, sampler_draws(probs, n, seed), labels)
