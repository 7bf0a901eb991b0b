"""What three articles say about multi-token prediction, where each statement is settled, and how.

Takes: nothing.  Returns: 41 rows, the published figures behind two of them, a Markdown table.
Must not know: notebooks' contents; it names them only.

Article A reports on a served model that repeated itself, B asks whether guessing costs quality, C explains the basics.

>>> from mtp_tutorial.lab import claims
>>> claims.get("C1").verdict
'holds with a correction'
>>> claims.get("C1").number()
'46.7 ms; 140 GB are 2 cards of 80 GB'
"""

from __future__ import annotations

from .claim import HOLDS, HOLDS_CORRECTED, NOT_HERE, NOTEBOOKS, TRAINING, VERDICTS, WRONG, Claim
from .papers import REPORTED, Reported
from .rows import CLAIMS, get, markdown, rows

__all__ = [
    "CLAIMS",
    "HOLDS",
    "HOLDS_CORRECTED",
    "NOTEBOOKS",
    "NOT_HERE",
    "REPORTED",
    "TRAINING",
    "VERDICTS",
    "WRONG",
    "Claim",
    "Reported",
    "get",
    "markdown",
    "rows",
]
