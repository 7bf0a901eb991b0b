"""How fast things are, measured as ratios and rates inside one run.

Takes: what is timed.  Returns: rates, with their spread.
Must not know: notebooks and pictures.
"""

from __future__ import annotations

from .rules import judged_per_second

__all__ = ["judged_per_second"]
