"""One statement of an article, its verdict, and where that comes from.

Takes: plain words, and a function that computes the number.  Returns: a ``Claim``.
Must not know: which statements there are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

HOLDS = "holds"
HOLDS_CORRECTED = "holds with a correction"
WRONG = "wrong"
TRAINING = "about training"  # says something of how a model was made, not of how it is decoded
NOT_HERE = "not testable here"
VERDICTS = (HOLDS, HOLDS_CORRECTED, WRONG, TRAINING, NOT_HERE)

#: Every notebook of the course, the ones to come as well.
NOTEBOOKS = {
    "00": "00_start_here",
    "01": "01_logits_temperature_sampling",
    "02": "02_why_decoding_is_slow",
    "03": "03_draft_and_verify",
    "04": "04_lossless_sampling",
    "05": "05_acceptance_and_speedup",
    "06": "06_mtp_heads",
    "07": "07_mtp_decoding",
    "08": "08_the_repetition_bug",
    "09": "09_accuracy_and_losslessness",
    "10": "10_real_models",
    "11": "11_serving",
    "12": "12_capstone",
}


@dataclass(frozen=True)
class Claim:
    """A row of the table.

    key: the article's letter and a number.  says: the statement, in our words.  verdict: one of ``VERDICTS``.
    because: the verdict in a few words.  notebooks: where a reader finds it settled.
    test: "tests/test_x.py::test_y", or a command ("mtp-tutorial rules"): where a machine does; None without one.
    number: a function without arguments that works the deciding number out and puts it into words; None without one.
    Raises ValueError for an unknown verdict or notebook.
    """

    key: str
    says: str
    verdict: str
    because: str
    notebooks: tuple[str, ...]
    test: str | None = None
    number: Callable[[], str] | None = None

    def __post_init__(self) -> None:
        if self.verdict not in VERDICTS:
            raise ValueError(f"{self.key}: unknown verdict {self.verdict!r}; known: {', '.join(VERDICTS)}")
        unknown = [one for one in self.notebooks if one not in NOTEBOOKS]
        if unknown or not self.notebooks:
            raise ValueError(f"{self.key}: notebooks {self.notebooks} must name some of {', '.join(NOTEBOOKS)}")
