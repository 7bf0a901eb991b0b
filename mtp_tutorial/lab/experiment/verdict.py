"""A verdict in words, from the numbers of one comparison.

Takes: differences with p-values, intervals and what could have been seen.  Returns: a sentence.
Must not know: arms, rows.
"""

from __future__ import annotations

from collections.abc import Mapping

#: measure → how it is called, and what a difference is counted in: shares of texts and of sentences in points.
WORDS = {
    "seq_rep_4": ("seq-rep-4", ""),
    "tail_loop": ("tail loops", "points"),
    "sentence_repeats": ("repeated sentences", "points"),
}


def amount(measure: str, value: float) -> str:
    """A difference with its sign: +0.123, or +12.3 where it is in points (hundredths)."""
    return f"{100 * value:+.1f}" if WORDS[measure][1] else f"{value:+.3f}"


def verdict(differences: Mapping | None, same: Mapping | None, alpha: float, power: float) -> str:
    """One sentence: what repeats more or less, with its interval; or that nothing was seen, and what would have been.

    differences: measure → mean, low, high, p_adjusted, detectable; None when there is nothing to compare with.
    same: at temperature 0, on how many prompts the texts are equal.
    """
    if differences is None:
        return "nothing to compare with"
    if same is not None and not same["different"]:
        return f"the same text on all {same['prompts']} prompts"
    before = "" if same is None else _of_texts(same) + "; "
    found = {name: cell for name, cell in differences.items() if cell["p_adjusted"] <= alpha}
    if not found:
        return before + "no difference seen; " + _what_would_have_been(differences, power)
    parts = []
    for sign, word in ((1, "repeats more"), (-1, "repeats less")):
        mine = [_with_interval(name, cell) for name, cell in found.items() if cell["mean"] * sign > 0]
        if mine:
            parts.append(f"{word}: {', '.join(mine)}")
    return before + "; ".join(parts)


def _of_texts(same: Mapping) -> str:
    equal, part = same["prompts"] - same["different"], same["first_difference"]
    return f"the same text on {equal} of {same['prompts']} prompts, the others part at token {part} or later"


def _with_interval(name: str, cell: Mapping) -> str:
    called, unit = WORDS[name]
    mean, low, high = (amount(name, cell[part]) for part in ("mean", "low", "high"))
    return f"{called} {mean}{unit and ' ' + unit} ({low} to {high})"


def _what_would_have_been(differences: Mapping, power: float) -> str:
    """The power statement. A measure whose pairs are all equal has no spread to compute it from."""
    seen = []
    for name, cell in differences.items():
        called, unit = WORDS[name]
        if cell["detectable"]:
            seen.append(f"{amount(name, cell['detectable']).lstrip('+')}{unit and ' ' + unit} in {called}")
    equal = [WORDS[name][0] for name, cell in differences.items() if cell["detectable"] == 0]
    blind = [WORDS[name][0] for name, cell in differences.items() if cell["detectable"] is None]
    said = []
    if seen:
        said.append(f"a mean difference of {' or '.join(seen)} would have been, with power {power:g}")
    if equal:
        said.append(f"{' and '.join(equal)} equal in every pair")
    if blind:
        said.append(f"so few pairs could not have shown any in {' and '.join(blind)}")
    return "; ".join(said)
