"""The 41 statements.

Takes: nothing.  Returns: ``CLAIMS`` by key, their rows as plain dicts, a Markdown table.
Must not know: how a number is worked out.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from . import numbers as n
from .claim import HOLDS, HOLDS_CORRECTED, NOT_HERE, TRAINING, WRONG, Claim

_ALL = (
    # A: a served model that repeated itself
    Claim(
        "A1", "At temperature 0 the largest raw logit wins: no division, no softmax, no random number.", HOLDS,
        "penalties, if on, come before", ("01",),
        "tests/test_sampling.py::test_temperature_zero_is_one_hot_at_the_lowest_id_among_the_largest", n.a1,
    ),
    Claim(
        "A2", "Logits 3 and 2 become probabilities; dividing them by 0.6 first sharpens these.", HOLDS,
        "as the article has it", ("01",),
        "tests/test_sampling.py::test_probabilities_are_those_of_transformers", n.a2,
    ),
    Claim(
        "A3", "A uniform number that falls on a token's stretch of [0, 1) picks that token.", HOLDS,
        "as the article has it", ("01",), "tests/test_sampling.py::test_inverse_cdf_stretches_are_half_open", n.a3,
    ),
    Claim(
        "A4", "Dividing each probability by exponential noise and taking the largest is the same draw.", HOLDS,
        "proved in closed form", ("01",), "tests/test_sampling.py::test_the_race_in_closed_form", n.a4,
    ),
    Claim(
        "A5", "k = 2 from one MTP layer that runs twice, both drafts by argmax at any temperature.", HOLDS,
        "vLLM's default; it can draw its drafts, too", ("06",),
        "tests/test_mtp.py::test_every_draft_is_the_one_made_from_scratch",
    ),
    Claim(
        "A6", "A target call then brings at most three tokens; one or two after a rejection.", HOLDS,
        "for any rule", ("03",), "tests/test_decode.py::test_a_rejection_at_any_place_of_the_draft", n.a6,
    ),
    Claim(
        "A7", "Temperature 0 with MTP: every token is the target's argmax.", HOLDS,
        "of the row at hand; a near-tie may round to another text than plain decoding", ("07", "09"),
        "tests/test_decode.py::test_at_temperature_zero_every_rule_and_drafter_says_what_plain_decoding_says", n.a7,
    ),
    Claim(
        "A8", "At 0.6 a draft token stays if its probability reaches the coin; else one of the others is drawn.", HOLDS,
        "the others in proportion to p", ("04", "07"),
        "tests/test_exact.py::test_a_lossless_rule_emits_the_targets_own_law", n.a8,
    ),
    Claim(
        "A9", "So tokens that are not the argmax get in, and that is why the model repeats itself.", WRONG,
        "they get in without MTP as often; no event changes its probability", ("04", "07", "08"),
        "tests/test_experiment.py::test_a_lossless_rule_does_not_repeat_more_whoever_drafts", n.a9,
    ),
    Claim(
        "A10", "SGLang verifies by argmax on some devices, also above 0, and does not repeat itself.", HOLDS_CORRECTED,
        "it did so once; the temperature is then ignored, it loops more, and was taken out as a fault",
        ("04", "07", "08"), "mtp-tutorial museum R17", n.a10,
    ),
    Claim(
        "A11", "Two outputs each with and without MTP show the cause.", WRONG, "far too few to show anything",
        ("08", "09"), "tests/test_stats.py::test_clean_runs_exclude_a_rate", n.a11,
    ),
    Claim(
        "A12", "Switching sparse attention (DSA) off changed nothing.", NOT_HERE,
        "needs that model; a drafter's attention cannot change the law of a lossless rule", ("08",),
    ),
    # B: does guessing cost quality?
    Claim(
        "B1", "Against a separate draft model, MTP needs no extra model and saves memory.", HOLDS_CORRECTED,
        "so it does; against plain decoding, its weights, cache and compute come on top", ("06",),
        "tests/test_mtp.py::test_the_heads_weights_hold_nothing_of_the_target", n.b1,
    ),
    Claim(
        "B2", "One pass predicts the next token and the one after it.", HOLDS_CORRECTED,
        "parallel heads do; an MTP head is called once for each draft token", ("06",),
        "tests/test_heads.py::test_medusa_drafts_no_more_than_it_has_heads", n.b2,
    ),
    Claim(
        "B3", "The second guess does not see what the first one was.", HOLDS_CORRECTED,
        "true of parallel heads; an MTP head reads its own draft token", ("06",),
        "tests/test_mtp.py::test_every_draft_is_the_one_made_from_scratch", n.b3,
    ),
    Claim(
        "B4", "A wrong first guess spoils the later ones, and errors pile up in the text.", HOLDS_CORRECTED,
        "in the draft; never in the text, since what follows a rejection is dropped", ("06", "09"),
        "tests/test_data.py::test_unrolled_training_holds_up_at_positions_2_and_3", n.b4,
    ),
    Claim(
        "B5", "MTP gives up a little quality for speed.", WRONG,
        "not under a lossless rule; the lossy ones do", ("04", "09"), "mtp-tutorial rules", n.b5,
    ),
    Claim(
        "B6", "After a rejection the engine falls back to generating one token by itself.", WRONG,
        "the rejecting row already holds the answer", ("03",),
        "tests/test_decode.py::test_rounds_add_up_to_the_text_and_to_the_model_calls", n.b6,
    ),
    Claim(
        "B7", "The pseudo-code of its verification keeps the distribution.", WRONG,
        "the draft token is drawn again from the full row", ("04", "09"), "mtp-tutorial museum R1b", n.b7,
    ),
    Claim(
        "B8", "Gated LoRA leaves the next-token outputs as they are.", HOLDS, "bit for bit", ("06", "09"),
        "tests/test_gated_lora.py::test_next_token_outputs_are_unchanged_bit_for_bit", n.b8,
    ),
    Claim(
        "B9", "MTP models are somewhat weaker on knowledge (TriviaQA).", TRAINING,
        "no source given; published results point both ways", ("09",), None, n.b9,
    ),
    Claim(
        "B10", "MTP raises HumanEval by 11 %, and long texts hold together better.", TRAINING,
        "no source given; two papers report gains for large models, of other sizes", ("09",), None, n.b10,
    ),
    Claim(
        "B11", "It is two to five times as fast.", HOLDS_CORRECTED,
        "depends on acceptance, draft cost and load; k + 1 is the ceiling", ("07", "09"),
        "tests/test_theory.py::test_speed_up_is_tokens_over_cost", n.b11,
    ),
    Claim(
        "B12", "The command for vLLM, flag by flag.", HOLDS_CORRECTED,
        "newer versions call the method mtp and warn at qwen3_next_mtp", ("11",),
        "tests/test_serving.py::test_article_b_flag_by_flag",
    ),
    # C: the basics
    Claim(
        "C1", "70 billion weights in 16 bits are 140 GB; at 3 TB/s a token takes 47 ms.", HOLDS_CORRECTED,
        "the sum holds, but 140 GB do not fit into one H100", ("02",),
        "tests/test_theory.py::test_c1_weights_in_47_milliseconds", n.c1,
    ),
    Claim(
        "C2", "The causal mask lets one call verify all guesses.", HOLDS, "and without it the rows are wrong", ("03",),
        "tests/test_cache.py::test_the_mask_shows_each_row_the_slots_up_to_its_own", n.c2,
    ),
    Claim(
        "C3", "北京: three words kept, one replaced, four tokens from one call.", HOLDS, "shown on a toy", ("03",),
        "tests/test_decode.py::test_a_rejection_at_any_place_of_the_draft", n.c3,
    ),
    Claim(
        "C4", "The row that rejects a token supplies its replacement; no further call.", HOLDS,
        "a verify rule has no model to call", ("03",),
        "tests/test_decode.py::test_rounds_add_up_to_the_text_and_to_the_model_calls", n.b6,
    ),
    Claim(
        "C5", "A round brings 1 to k + 1 tokens.", HOLDS, "for any rule", ("03",),
        "tests/test_verify.py::test_verdicts_are_well_formed", n.c5,
    ),
    Claim(
        "C6", "Never more target calls than plain decoding; the drafts are the price.", HOLDS,
        "also when every guess is wrong", ("03",),
        "tests/test_decode.py::test_rounds_add_up_to_the_text_and_to_the_model_calls", n.c6,
    ),
    Claim(
        "C7", "100 ms a target call, 10 ms a draft step, k = 4: 28, 70 or 140 ms a token.", HOLDS,
        "and 70 ms is a clear gain, not a bare one", ("05",),
        "tests/test_theory.py::test_c7_28_70_140_and_where_it_begins_to_pay", n.c7,
    ),
    Claim(
        "C8", "At batch 1 five times the arithmetic costs next to nothing.", HOLDS,
        "where memory sets the pace, as on the article's GPU", ("02", "05"),
        "tests/test_theory.py::test_c8_c9_memory_against_arithmetic", n.c8,
    ),
    Claim(
        "C9", "At batch 256 arithmetic comes to set the pace, and drafts compete for it.", HOLDS_CORRECTED,
        "at the peak of the data sheet not quite; the drafts tip it", ("02", "05"),
        "tests/test_theory.py::test_c9_the_drafts_tip_it", n.c9,
    ),
    Claim(
        "C10", "Code and JSON are accepted more often than chat and fiction.", HOLDS_CORRECTED,
        "JSON is; for code our prompts do not settle it", ("05",), None, n.c10,
    ),
    Claim(
        "C11", "The best k drifts with the load, and engines adapt it.", HOLDS, "down to no drafts at all", ("05",),
        "tests/test_theory.py::test_best_k_falls_with_the_batch", n.c11,
    ),
    Claim(
        "C12", "A head is two norms, a projection and a decoder layer; embedding and lm_head are shared.", HOLDS,
        "and one more norm behind the layer", ("06",),
        "tests/test_mtp.py::test_a_layer_gives_what_transformers_own_mtp_layer_gives",
    ),
    Claim(
        "C13", "Heads are accepted more often than a separate small model.", HOLDS,
        "on SmolLM2, both trained for about as long; no law", ("07",), None, n.c13,
    ),
    Claim(
        "C14", "One head fed back k times, or several heads.", HOLDS, "both exist", ("06",),
        "tests/test_mtp_reference.py::test_every_draft_is_the_same", n.c14,
    ),
    Claim(
        "C15", "MTP guesses, speculation verifies: two things.", HOLDS, "swap either without the other", ("03",),
        "tests/test_losslessness.py::test_at_temperature_1_samples_follow_the_targets_law",
    ),
    Claim(
        "C16", "Rejected slots need no cleaning, a counter moves back; the prefix cache holds no drafts.",
        HOLDS_CORRECTED, "not for models that keep a running sum", ("03",),
        "tests/test_cache.py::test_the_cache_after_any_roll_back_equals_a_fresh_prefill",
    ),
    Claim(
        "C17", "Lossless promises never worse, not always faster.", HOLDS, "below the break-even it is slower",
        ("07", "09"), "tests/test_theory.py::test_break_even_is_where_the_gain_is_none", n.c17,
    ),
)  # fmt: skip

#: key → claim, in the order of the articles
CLAIMS: Mapping[str, Claim] = MappingProxyType({claim.key: claim for claim in _ALL})


def get(key: str) -> Claim:
    """The statement of that key. Raises ValueError listing the known ones."""
    if key not in CLAIMS:
        raise ValueError(f"no statement {key!r}; known: {', '.join(CLAIMS)}")
    return CLAIMS[key]


def rows(letter: str = "") -> list[dict]:
    """Tidy rows in plain values, every number worked out (a few seconds): key, statement, verdict, number, where.

    letter: "A", "B" or "C" for one article, "" for all.
    """
    chosen = [claim for claim in _ALL if claim.key.startswith(letter)]
    if not chosen:
        raise ValueError(f"no article {letter!r}: use A, B or C")
    return [
        {
            "key": claim.key,
            "statement": claim.says,
            "verdict": claim.verdict,
            "because": claim.because,
            "number": "" if claim.number is None else claim.number(),
            "notebooks": list(claim.notebooks),
            "test": claim.test,
        }
        for claim in chosen
    ]


def markdown(found: list[dict] | None = None) -> str:
    """The rows as a Markdown table. found: what ``rows`` returned; None works them all out."""
    lines = ["| | the articles say | verdict | number | notebooks |", "|---|---|---|---|---|"]
    for row in rows() if found is None else found:
        cells = [
            f"**{row['key']}**",
            row["statement"],
            f"**{row['verdict']}**: {row['because']}",
            row["number"],
            ", ".join(row["notebooks"]),
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)
