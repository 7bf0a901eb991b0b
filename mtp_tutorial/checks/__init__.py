"""Checks of the notebooks' exercises: ``check_…(your_function)`` prints one kind line and returns a ``Result``.

Takes: the reader's function, or an answer.  Returns: a ``Result``; ``status`` is "passed", "failed", "not attempted".
Must not know: notebooks, pictures.
"""

from .accuracy import check_after_acceptance, check_judge_texts, check_total_variation
from .base import Exercise, Mistake, Result
from .capstone import check_convict, check_draft_length, check_learn
from .case import check_clean_runs, check_has_tail_loop, check_suspect
from .decoding import check_expected_acceptance, check_follows_the_coin, check_speed_up
from .drafting import check_greedy_verify, check_roll_back, check_tokens_per_round, check_verification_mask
from .heads import check_mix, check_predicted_position, check_shifted_kl
from .laws import check_full_p_law, check_one_hot_law
from .lossless import check_accept_probability, check_acceptance, check_rejection_sample, check_residual
from .models import check_experts_read, check_is_mtp, check_paired_ratio
from .quiz import QUESTIONS
from .sampling import check_exponential_race, check_pick, check_softmax_with_temperature, check_top_p_mask
from .serving import check_choose_k, check_length_from_counters, check_rate_between
from .slow import check_call_seconds, check_free_rows, check_token_milliseconds
from .speed import check_best_length, check_conditional_rates, check_expected_tokens
from .start import check_acceptance_rate, check_answer, check_mean_acceptance_length

__all__ = [
    "QUESTIONS",
    "Exercise",
    "Mistake",
    "Result",
    "check_accept_probability",
    "check_acceptance",
    "check_acceptance_rate",
    "check_after_acceptance",
    "check_answer",
    "check_best_length",
    "check_call_seconds",
    "check_choose_k",
    "check_clean_runs",
    "check_conditional_rates",
    "check_convict",
    "check_draft_length",
    "check_expected_acceptance",
    "check_expected_tokens",
    "check_experts_read",
    "check_exponential_race",
    "check_follows_the_coin",
    "check_free_rows",
    "check_full_p_law",
    "check_greedy_verify",
    "check_has_tail_loop",
    "check_is_mtp",
    "check_judge_texts",
    "check_learn",
    "check_length_from_counters",
    "check_mean_acceptance_length",
    "check_mix",
    "check_one_hot_law",
    "check_paired_ratio",
    "check_pick",
    "check_predicted_position",
    "check_rate_between",
    "check_rejection_sample",
    "check_residual",
    "check_roll_back",
    "check_shifted_kl",
    "check_softmax_with_temperature",
    "check_speed_up",
    "check_suspect",
    "check_token_milliseconds",
    "check_tokens_per_round",
    "check_top_p_mask",
    "check_total_variation",
    "check_verification_mask",
]
