"""Checks of the notebooks' exercises: ``check_…(your_function)`` prints one kind line and returns a ``Result``.

Takes: the reader's function.  Returns: a ``Result`` whose ``status`` is "passed", "failed" or "not attempted".
Must not know: notebooks, pictures.
"""

from .base import Exercise, Mistake, Result
from .sampling import check_exponential_race, check_pick, check_softmax_with_temperature, check_top_p_mask

__all__ = [
    "Exercise",
    "Mistake",
    "Result",
    "check_exponential_race",
    "check_pick",
    "check_softmax_with_temperature",
    "check_top_p_mask",
]
