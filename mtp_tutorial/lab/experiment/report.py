"""The summary as tables for people.

Takes: a summary.  Returns: Markdown.
Must not know: how it was computed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...verify import RULES
from .verdict import WORDS, amount

HEAD = ("arm", "seq-rep-4", "tail loops", "repeated sentences", "distinct-2", "longest repeat", "length", "by position")


def headline(found: Mapping) -> str:
    """The whole summary in one sentence: whether lossless speculation repeats itself, and which other arms do."""
    compared = [arm for arm in found["arms"] if arm["differences"]]
    if not compared:
        return "Nothing to compare: run plain decoding at the same temperature beside the other arms."
    lossless = [arm for arm in compared if _is_lossless(arm)]
    others = [arm for arm in compared if not _is_lossless(arm)]
    alpha, said = found["settings"]["alpha"], []
    for arms, what in ((lossless, "lossless speculation"), (others, "a lossy rule or a fault")):
        if arms:
            more, less = (_moved(arms, alpha, sign) for sign in (1, -1))
            parts = [f"more in {len(more)} ({', '.join(more)})"] * bool(more)
            parts += [f"less in {len(less)} ({', '.join(less)})"] * bool(less)
            how = f"repeats {' and '.join(parts)}" if parts else "no difference was seen in any"
            said.append(f"with {what}, {how} of {len(arms)} {'arm' if len(arms) == 1 else 'arms'}")
    return f"Against plain decoding: {'; '.join(said)}."


def _is_lossless(arm: Mapping) -> bool:
    """Whether nothing but rounding should tell the arm's texts from plain decoding's."""
    rule = RULES[arm["rule"]]
    right = rule.lossless_at_zero if arm["temperature"] == 0 else rule.is_lossless(**arm.get("rule_params", {}))
    return right and "bug" not in arm


def _moved(arms: Sequence[Mapping], alpha: float, sign: int) -> list[str]:
    """The names of the arms in which some measure differs in this direction (1: more repetition, -1: less)."""
    return [
        arm["arm"]
        for arm in arms
        if any(cell["p_adjusted"] <= alpha and cell["mean"] * sign > 0 for cell in arm["differences"].values())
    ]


def markdown(found: Mapping) -> str:
    """The verdict in a sentence; each arm's measures with intervals, its differences and verdict; another drafter."""
    level, settings = f"{found['settings']['level']:.0%}", found["settings"]
    prompts = max(arm["prompts"] for arm in found["arms"])
    loop = settings["loop"]
    lines = [
        f"**{headline(found)}**",
        "",
        f"{found['target']}: {len(found['arms'])} arms, {prompts} prompts, {found['max_new_tokens']} tokens a text. "
        f"In brackets: {level} intervals over prompts (tail loops: exact). A tail loop: the last {loop['repeats']} × P "
        f"tokens have a period P of {loop['min_period']} to {loop['max_period']}. Length: tokens a round.",
        "",
        *_table(HEAD, [_measures(arm) for arm in found["arms"]]),
        "",
        "Against plain decoding at the same temperature, pair by pair (prompt and seed); p-values by Holm over all:",
        "",
        *_table(
            ("arm", *(part for called, unit in WORDS.values() for part in (f"{called}{unit and ', ' + unit}", "p"))),
            [[arm["arm"], *_cells(arm["differences"])] for arm in found["arms"] if arm["differences"]],
        ),
        "",
        *(f"- **{arm['arm']}**: {arm['verdict']}{_zero(arm)}." for arm in found["arms"] if arm["differences"]),
    ]
    if found["swaps"]:
        lines += ["", "A random drafter in place of the other one, everything else equal:", ""]
        lines += [f"- **{one['arm']}** against **{one['other']}**: {one['verdict']}." for one in found["swaps"]]
    return "\n".join([*lines, "", f"Texts were drawn with the seed scheme `{found['seed_scheme']}`."])


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return ["| " + " | ".join(head) + " |", "|" + "---|" * len(head), *("| " + " | ".join(row) + " |" for row in rows)]


def _measures(arm: Mapping) -> list[str]:
    m = arm["measures"]
    positions = [_number(one, "{:.2f}", short=True) for one in arm["acceptance_by_position"]]
    return [
        arm["arm"],
        _number(m["seq_rep_4"], "{:.3f}"),
        _number(m["tail_loop"], "{:.1%}"),
        _number(m["sentence_repeats"], "{:.1%}"),
        _number(m["distinct_2"], "{:.3f}"),
        _number(m["longest_repeat"], "{:.1f}"),
        _number(arm["mean_acceptance_length"], "{:.2f}"),
        ", ".join(positions) or "-",
    ]


def _number(cell: Mapping | None, form: str, short: bool = False) -> str:
    if cell is None:
        return "-"
    mean, low, high = (form.format(cell[part]) for part in ("mean", "low", "high"))
    return mean if short else f"{mean} ({low} to {high})"


def _cells(differences: Mapping) -> list[str]:
    found = []
    for name, cell in differences.items():
        mean, low, high = (amount(name, cell[part]) for part in ("mean", "low", "high"))
        found += [f"{mean} ({low} to {high})", f"{cell['p_adjusted']:.2g}"]
    return found


def _zero(arm: Mapping) -> str:
    """Said of an arm that hardly draws at all: half of its texts or more are those of temperature 0."""
    found = arm["as_at_zero"]
    if not found or 2 * found["equal"] < max(found["begin_alike"], 1):
        return ""
    return f"; {found['equal']} of the {found['begin_alike']} texts that begin as at temperature 0 are wholly so"
