"""A museum of real bugs, each runnable beside its fix.

Takes: the name of an exhibit.  Returns: a broken twin of the right code, its report, its fix, its numbers.
Must not know: what an experiment does with them.

>>> from mtp_tutorial.lab import museum
>>> shown = museum.EXHIBITS["R1"].demonstrate()
>>> [round(p, 3) for p in shown.wrong]
[0.75, 0.15, 0.1]
"""

from __future__ import annotations

from .catalogue import EXHIBITS, NOT_BUGS, get
from .exhibit import Demonstration, Exhibit
from .second_article import article_law, article_round

__all__ = ["EXHIBITS", "NOT_BUGS", "Demonstration", "Exhibit", "article_law", "article_round", "get"]
