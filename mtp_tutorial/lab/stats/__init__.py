"""The statistics of this room: is there a difference, how large is it, and what would have been seen?

Takes: counts, numbers, yes and no.  Returns: p-values, intervals, sample sizes.
Must not know: what was counted.

All of it is scipy underneath; what is added is what goes wrong otherwise: small cells are merged, duplicates of one
prompt are clustered, and a test that could not have failed raises an error instead of passing.
"""

from .counts import Result, chi_square, chi_square_two, g_test, g_test_two, merge_small
from .intervals import Interval, bootstrap_interval, exact_interval, paired_share_interval, wilson_interval
from .pairs import holm, mcnemar, sign_flip
from .power import (
    chi_square_power,
    chi_square_samples,
    clean_runs,
    detectable_difference,
    detectable_share,
    pairs_needed,
    rate_excluded,
)

__all__ = [
    "Interval", "Result", "bootstrap_interval", "chi_square", "chi_square_power", "chi_square_samples",
    "chi_square_two", "clean_runs", "detectable_difference", "detectable_share", "exact_interval", "g_test",
    "g_test_two", "holm", "mcnemar", "merge_small", "paired_share_interval", "pairs_needed", "rate_excluded",
    "sign_flip", "wilson_interval",
]  # fmt: skip
