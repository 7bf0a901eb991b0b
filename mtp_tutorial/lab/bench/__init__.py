"""How fast things are, measured as ratios and rates inside one run.

Takes: what is timed.  Returns: rates, with their spread.
Must not know: notebooks and pictures.
"""

from __future__ import annotations

from .arms import Arm, options, parse, parse_all
from .baseline import Baseline
from .cost import cache_bytes, forward_cost, memory_bandwidth, weight_bytes
from .costs import Costs
from .plan import Plan, prompts
from .rules import judged_per_second
from .runs import run
from .summaries import OVERALL, summary

__all__ = [
    "OVERALL",
    "Arm",
    "Baseline",
    "Costs",
    "Plan",
    "cache_bytes",
    "forward_cost",
    "judged_per_second",
    "memory_bandwidth",
    "options",
    "parse",
    "parse_all",
    "prompts",
    "run",
    "summary",
    "weight_bytes",
]
