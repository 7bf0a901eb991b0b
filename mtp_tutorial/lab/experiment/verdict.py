"""A verdict in words, from the numbers of one comparison.

Takes: differences with p-values, intervals and what could have been seen.  Returns: a sentence.
Must not know: arms, rows.
"""

from __future__ import annotations

from collections.abc import Mapping

#: measure → how it is called, and how its numbers are written.
WORDS = {
    "seq_rep_4": ("seq-rep-4", "{:+.3f}"),
    "tail_loop": ("tail loops", "{:+.1%}"),
    "sentence_repeats": ("repeated sentences", "{:+.1%}"),
}


def verdict(differences: Mapping | None, same: Mapping | None, alpha: float, power: float) -> str:
    """One sentence: what repeats more or less, with its interval; or that nothing was seen, and what would have been.

    differences: measure → mean, low, high, p_adjusted, detectable; None when there is nothing to compare with.
    same: at temperature 0, on how many prompts the texts are equal.
    """
    if differences is None:
        return "nothing to compare with"
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
    if not same["different"]:
        return f"the same text on all {same['prompts']} prompts"
    equal, part = same["prompts"] - same["different"], same["first_difference"]
    return f"the same text on {equal} of {same['prompts']} prompts, the others part at token {part} or later"


def _with_interval(name: str, cell: Mapping) -> str:
    called, form = WORDS[name]
    mean, low, high = (form.format(cell[part]) for part in ("mean", "low", "high"))
    return f"{called} {mean} ({low} to {high})"


def _what_would_have_been(differences: Mapping, power: float) -> str:
    """The power statement. A measure whose pairs are all equal has no spread to compute it from."""
    seen = [
        "{} in {}".format(WORDS[name][1].format(cell["detectable"]).lstrip("+"), WORDS[name][0])
        for name, cell in differences.items()
        if cell["detectable"]
    ]
    equal = [WORDS[name][0] for name, cell in differences.items() if cell["detectable"] == 0]
    said = []
    if seen:
        said.append(f"a mean difference of {' or '.join(seen)} would have been, with power {power:g}")
    if equal:
        said.append(f"{' and '.join(equal)} equal in every pair")
    return "; ".join(said) if said else "so few pairs could not have shown any"
