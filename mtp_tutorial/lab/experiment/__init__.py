"""Does speculation change what is said? Arms × prompts × seeds, paired, on disk, with a verdict in words.

Takes: a target, arms, prompts.  Returns: rows as JSON Lines; a summary with intervals, tests and verdicts.
Must not know: how a rule, a drafter or a bug works.

    mtp-tutorial experiment --target nano --out repetition-nano.jsonl
    mtp-tutorial experiment --show repetition-nano.jsonl

``repetition_case`` is the case that this course settles: does multi-token prediction at temperature 0.6 make a model
repeat itself, and if it does, which fault would do so?
"""

from ...longrun import read
from .arms import Arm, chosen, repetition_case
from .files import recorded
from .prompts import prompts_for
from .report import markdown
from .runs import run, seed_of
from .summaries import LOOP, MEASURES, summary

__all__ = [
    "LOOP", "MEASURES", "Arm", "chosen", "markdown", "prompts_for", "read", "recorded", "repetition_case", "run",
    "seed_of", "summary",
]  # fmt: skip
