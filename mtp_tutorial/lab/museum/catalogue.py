"""The exhibits, one after the other: what is wrong, who met it, what it does, what is right.

Takes: nothing.  Returns: ``EXHIBITS``, and ``NOT_BUGS`` for what only looks like one.
Must not know: how a demonstration works.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType

from ...verify import RULES, Rule, full_row, points, ratio, row_at, without_draft
from ..exact import shared_noise_law
from . import engine_bugs, engine_demos, law_demos, rules, second_article
from .exhibit import Exhibit, own_loop
from .law_demos import AT_06, Q, drawn_from, first_token, greedy_draft

_REJECTION = RULES["rejection"]


def _coins(draft, target_probs, **params):
    return ratio(draft, target_probs)[0]


def _without_draft_row(draft, target_probs, n):
    return without_draft(row_at(target_probs, n), draft, n)


def _broken(name: str, decide, breakpoints, at_zero: bool = True, **params: float) -> Rule:
    sentence = decide.__doc__.split("\n\n")[0].replace("\n    ", " ")
    ranges = MappingProxyType(dict.fromkeys(params, (1e-6, 1e6)))
    return Rule(name, decide, False, at_zero, sentence, "lab.museum", breakpoints, MappingProxyType(params), ranges)


_R1 = _broken("R1", rules.resample_full, points(_coins, full_row))
_R2 = _broken("R2", rules.match_or_coin, rules.match_or_coin_points)
_R3 = _broken("R3", rules.coin_zero, _REJECTION.breakpoints)
_R4 = _broken("R4", rules.argmax_recovery, points(_coins, full_row))
_R5 = _broken("R5", rules.coin_draws_too, rules.coin_draws_too_points)
_R6 = _broken("R6", rules.argmax_draft_soft_q, rules.argmax_draft_points)
_R7 = _broken("R7", rules.only_draft_removed, points(_coins, _without_draft_row))
_R8 = _broken("R8", rules.resample_full, points(_coins, full_row))
_R9 = _broken("R9", rules.residual_at_one, rules.residual_at_one_points, temperature=0.6)
_R10 = _broken("R10", rules.temperature_twice, rules.temperature_twice_points, temperature=0.6)
_R12 = _broken("R12", rules.one_coin, rules.one_coin_points)
_R13 = _broken("R13", rules.bonus_row_before, points(_coins, rules.bonus_row_before_weights), at_zero=False)
_R18 = _broken("R18", rules.residual_short, rules.residual_short_points, at_zero=False)
_R19 = _broken("R19", rules.unlikely_dropped, rules.unlikely_dropped_points, threshold=0.3)
_NEXT_ROW = _broken("next_row", rules.next_row, points(_coins, rules.next_row_weights), at_zero=False)
_SHIFTED = _broken("shifted_rows", rules.shifted_rows, rules.shifted_rows_points, at_zero=False)

_ONE_HOT, _SAMPLED = greedy_draft(0), drawn_from(*Q)

_ALL = (
    Exhibit(
        "R1", "resample from the full p",
        "The draft token is rejected with probability 1 - p(d), and then drawn again from the whole row: it gets a "
        "second chance, and ends with 2p - p². The second article's pseudo-code does this in its first position.",
        "The pseudo-code of the article on MTP and accuracy; a common first draft of the algorithm",
        "Take the draft token out of the row before the recovered token is drawn (rule `rejection`).",
        first_token(_R1, _ONE_HOT, (0.75, 0.15, 0.10)), rule=_R1, code=(rules.resample_full,),
    ),
    Exhibit(
        "R1b", "the second article's code to the letter",
        "A rejection after an acceptance emits nothing: the next round drafts at the same place. A greedy drafter says "
        "the same token again, so it has three chances and ends with 1 - (1 - p)³. No bonus token is ever drawn.",
        "The pseudo-code of the article on MTP and accuracy",
        "The rejected row is already there: draw the recovered token from it, at once (rule `rejection`).",
        law_demos.article, engine_bug=own_loop("R1b"), loop=second_article.article_round,
        code=(second_article.article_round,),
    ),
    Exhibit(
        "R2", "accept on a match or on the coin",
        "The verifier draws the target's own token and accepts when it equals the draft; when it does not, it also "
        "looks at the coin. Either test alone is right. Both together accept too often.",
        "rtp-llm 1295",
        "Use one test: the coin (`rejection`) or the match (`sample_and_match`).",
        first_token(_R2, _ONE_HOT, (0.75, 0.15, 0.10)), rule=_R2, code=(rules.match_or_coin,),
    ),
    Exhibit(
        "R3", "the coin is always 0",
        "A deterministic threshold in the place of a random number: each draft token that is possible at all is "
        "accepted, so the text follows the drafter. Acceptance is near 100 % and flat over the positions.",
        "vllm-ascend 13730 (u hard-coded to 0); fastllm 728 (99/97/94 % before, 72/53/40 % after the fix, and the "
        "loops were gone)",
        "Draw a fresh uniform in [0, 1) for each position.",
        first_token(_R3, _ONE_HOT, (1, 0, 0)), rule=_R3, code=(rules.coin_zero,),
    ),
    Exhibit(
        "R4", "argmax of the residual",
        "After a rejection the most probable remaining token is taken instead of one drawn from what remains. The rare "
        "tokens disappear.",
        "A shortcut that greedy code invites; no public report is known to us",
        "Draw from the residual.",
        first_token(_R4, _ONE_HOT, (0.5, 0.5, 0)), rule=_R4, code=(rules.argmax_recovery,),
    ),
    Exhibit(
        "R5", "the coin draws the recovered token, too",
        "A rejection says that the coin was large. Drawing the recovered token with the same number therefore always "
        "falls on the upper end of the residual.",
        "vllm-ascend 16370",
        "Draw the recovered token with a uniform of its own.",
        first_token(_R5, _ONE_HOT, (0.5, 0.1, 0.4)), rule=_R5, code=(rules.coin_draws_too,),
    ),
    Exhibit(
        "R6", "argmax draft, scored with a soft q",
        "The drafter always says its favourite, but hands over its softmax as if the token had been drawn from it. The "
        "ratio p/q is too large, and what p has less than q is never made up for.",
        "transformers 32867; jaymody/speculative-sampling 3",
        "Score a token with the distribution it was really drawn from: one-hot for an argmax (`Draft.probs` None).",
        first_token(_R6, drawn_from(0.6, 0.3, 0.1), (0.833, 0, 0.167)), rule=_R6,
        engine_bug=engine_bugs.argmax_of_soft, needs_sampled=True, code=(rules.argmax_draft_soft_q,),
    ),
    Exhibit(
        "R7", "soft acceptance, one-hot residual",
        "The draft token was drawn from q and is judged by p/q, which is right. The residual then only lacks the draft "
        "token, which would be right for a draft without randomness.",
        "xllm 2175",
        "The residual is max(p - q, 0) over all tokens.",
        first_token(_R7, _SAMPLED, (0.3875, 0.4125, 0.2), 4), rule=_R7, code=(rules.only_draft_removed,),
    ),
    Exhibit(
        "R8", "soft acceptance, full p",
        "R1 with a drafter that draws its tokens: after a rejection the whole row is drawn from.",
        "As R1, in code that meets a drafter with probabilities",
        "The residual is max(p - q, 0) over all tokens.",
        first_token(_R8, _SAMPLED, (0.35, 0.39, 0.26)), rule=_R8, code=(rules.resample_full,),
    ),
    Exhibit(
        "R9", "accept at T, recover at 1",
        "Temperature is applied to the row that judges and forgotten for the row that recovers.",
        "Kin of lattice 974 (temperature never reached the verifier)",
        "Process the logits once, and use that one row for both.",
        first_token(_R9, _ONE_HOT, (0.608, 0.235, 0.157), row=AT_06), rule=_R9, code=(rules.residual_at_one,),
    ),
    Exhibit(
        "R10", "temperature applied twice",
        "The sampler has divided the logits by T already when the verifier does it again: at T = .6 the model runs at "
        ".36.",
        "Kin of SGLang 36173 (two paths that process logits in different ways)",
        "Process the logits once.",
        first_token(_R10, _ONE_HOT, (0.757, 0.183, 0.059), row=AT_06), rule=_R10, code=(rules.temperature_twice,),
    ),
    Exhibit(
        "R11", "draft and recovery share their noise",
        "Both tokens are drawn by Gumbel-max with the same noise. A token that just lost with that noise is not a "
        "fresh draw for the residual.",
        "vLLM 54282",
        "Give the recovered token noise of its own.",
        law_demos.shared_noise, engine_bug=own_loop("R11"), loop=shared_noise_law,
        code=(shared_noise_law,),
    ),
    Exhibit(
        "R12", "one coin for a whole round",
        "All positions use the same acceptance coin. Each one alone is accepted as often as it should be; together "
        "they are accepted too often. A test that looks at single positions passes.",
        "Kin of vllm-ascend 16370 (a uniform used twice)",
        "One coin for each position.",
        partial(law_demos.one_coin, _R12), rule=_R12, code=(rules.one_coin,),
    ),
    Exhibit(
        "R13", "the bonus token from the row before",
        "After k accepted tokens the bonus is drawn from row k-1, the row that the last draft token came from. So it "
        "often says that token once more.",
        "Kin of openvino.genai 4190 (a wrong row for the replacement)",
        "Row i follows i draft tokens: the bonus comes from row k.",
        partial(law_demos.duplicate, _R13), rule=_R13, code=(rules.bonus_row_before, rules.bonus_row_before_weights),
    ),
    Exhibit(
        "R14a", "the recovered token is never read",
        "The roll-back takes the slot behind the accepted tokens for filled. It is: with the rejected token. The next "
        "row follows the rejected token, not the recovered one.",
        "vLLM 9730 (KV wrong round the bonus token)",
        "The counter goes back to the accepted tokens; the recovered token is read next, in its slot.",
        partial(engine_demos.stale_slot, engine_bugs.reads_rejected), engine_bug=engine_bugs.reads_rejected,
        code=(engine_bugs.ReadsRejected,),
    ),
    Exhibit(
        "R14b", "the rejected token stays visible",
        "The roll-back stops one slot short. The recovered token is read behind the rejected one, and every later row "
        "sees a text with one foreign token in it for each rejection.",
        "mlx-lm 1109 and vLLM 39273 (rejected drafts stay in caches that cannot be trimmed)",
        "Roll the counter back to the accepted tokens.",
        partial(engine_demos.stale_slot, engine_bugs.keeps_rejected), engine_bug=engine_bugs.keeps_rejected,
        code=(engine_bugs.KeepsRejected,),
    ),
    Exhibit(
        "R15", "penalties frozen for the round",
        "The counts behind the penalties are taken once, before the round. A token that the draft says three times is "
        "judged three times as if it had not been said.",
        "SGLang 33643 (counted once a step); vLLM 18902 (ignored); mlx-lm 1175 (history misses the last token)",
        "Row i counts the draft tokens before it as said.",
        partial(engine_demos.unpenalised, engine_bugs.frozen_penalties), engine_bug=engine_bugs.frozen_penalties,
        code=(engine_bugs.FrozenPenalties,),
    ),
    Exhibit(
        "R16", "accept what is near the top (`relaxed`)",
        "A draft token is accepted when its probability is within δ of the largest. It is meant so: more tokens a "
        "round, paid for with another distribution. Nothing says by how much.",
        "Threshold rules of serving engines; this library's rule `relaxed`",
        "Use a lossless rule, or say that it is lossy and measure what it does.",
        law_demos.lossy_by_design("relaxed", (1, 0, 0)), rule=RULES["relaxed"], by_design=True,
        code=(RULES["relaxed"].decide,),
    ),
    Exhibit(
        "R17", "argmax match at T > 0 (`greedy`)",
        "The verifier keeps what the target would say at temperature 0. The request's temperature is ignored: every "
        "seed gives the same text. It hides a fault of the stochastic path, and a greedy text has loops of its own.",
        "SGLang 37134 and 32495 (the verifier ignored the temperature, and accuracy fell: removed); lattice 974; this "
        "library's rule `greedy`",
        "Use `rejection` or `sample_and_match` whenever T > 0.",
        law_demos.lossy_by_design("greedy", (1, 0, 0)), rule=RULES["greedy"], by_design=True,
        code=(RULES["greedy"].decide,),
    ),
    Exhibit(
        "R18", "the residual is not normalised",
        "The inverse CDF is run over weights that do not sum to 1. Whatever is missing falls on the last token of the "
        "vocabulary.",
        "A slip that an inverse CDF invites; no public report is known to us",
        "Divide by the sum, or scale the uniform by it.",
        first_token(_R18, _ONE_HOT, (0.5, 0.15, 0.35)), rule=_R18, code=(rules.residual_short,),
    ),
    Exhibit(
        "R19", "drop a drawn token because q gave it little",
        "A drafter draws a token, sees that its own probability is low, and withdraws it. What is left was not drawn "
        "from q, but is judged as if it had been.",
        "Early stopping by confidence, applied to the token instead of the row",
        "Decide by what came before the token, or draft greedily: both are lossless.",
        first_token(_R19, _SAMPLED, (0.4, 0.36, 0.24)), rule=_R19, code=(rules.unlikely_dropped,),
    ),
    Exhibit(
        "next_row", "recovered from the row after",
        "The replacement is drawn from row n+1, the row that follows the token that was just rejected.",
        "openvino.genai 4190",
        "The recovered token takes the place of the rejected one, so it comes from the same row.",
        partial(law_demos.second_token, _NEXT_ROW, (0.5, 0.167, 0.333)), rule=_NEXT_ROW,
        code=(rules.next_row, rules.next_row_weights),
    ),
    Exhibit(
        "shifted_rows", "every row one too late",
        "Draft token i is judged by the row that follows it. Off by one, as when the row of the last committed token "
        "is forgotten.",
        "Kin of openvino.genai 4190",
        "Row 0 follows the last committed token and judges the first draft token.",
        partial(law_demos.second_token, _SHIFTED, (0.1, 0.3, 0.6)), rule=_SHIFTED,
        code=(rules.shifted_rows, rules._shifted),
    ),
    Exhibit(
        "drafter_cache_short", "the drafter's cache is short by one",
        "After a round in which every draft token was accepted, the drafter has not read its own last one: it said it "
        "and stopped. If nobody feeds it later, all that follows is drafted from a text with a gap. The output stays "
        "right; acceptance falls, and nothing says why.",
        "gpt-fast 219 has the same symptom (an interface changed, and acceptance fell)",
        "Before the next draft, read whatever the cache lacks: one token after a rejection, two after a full round.",
        partial(engine_demos.self_draft, engine_bugs.short_by_one), engine_bug=engine_bugs.short_by_one, lossless=True,
        code=(engine_bugs.ShortByOne,),
    ),
    Exhibit(
        "stale_hidden", "hidden states of the row before",
        "The head is fed with the state of the row before the one it needs. The output stays right; acceptance "
        "falls.",
        "vLLM 47448 (the state before the norm was fed back) and 34385 (lm_head not shared, nothing accepted) have the "
        "same symptom",
        "The state of position i goes with the token at i + 1.",
        partial(engine_demos.stale_states, engine_bugs.stale_hidden), engine_bug=engine_bugs.stale_hidden,
        lossless=True, code=(engine_bugs.StaleHidden,),
    ),
    Exhibit(
        "uniform_reused", "the draft's uniform is the coin",
        "A token is drafted with a uniform, and the same number then decides whether it is accepted. Tokens at the "
        "lower end are always kept, those at the upper end never.",
        "Kin of vllm-ascend 16370 and vLLM 54282 (noise used twice)",
        "Drafting and verification have random streams of their own, seeded apart.",
        law_demos.reused_uniform, engine_bug=engine_bugs.uniform_reused, needs_sampled=True,
        code=(engine_bugs.DraftCoins, engine_bugs.ReusedUniforms),
    ),
    Exhibit(
        "reseeded_generator", "seeded again before each round",
        "Every round meets the same numbers. Where the target hesitates in the same way twice, it decides in the same "
        "way twice.",
        "feifeibear/LLMSpeculativeSampling (seeded before every uniform); vLLM 6038 (the request's seed ignored) is "
        "the opposite slip",
        "Seed once for each request.",
        partial(engine_demos.every_round_alike, engine_bugs.reseeded), engine_bug=engine_bugs.reseeded,
        code=(engine_bugs.Reseeded,),
    ),
    Exhibit(
        "nan_row", "a row of NaN becomes a token",
        "An overflow makes one row NaN. Comparisons with NaN are false, so the search through the cumulative sum stops "
        "at the first id: a token that looks valid, and may even be impossible.",
        "vLLM 41834, 53029",
        "Look for NaN in every row that is used, and stop with an error.",
        partial(engine_demos.nan_becomes_a_token, engine_bugs.nan_row), engine_bug=engine_bugs.nan_row,
        code=(engine_bugs.NanPasses, engine_bugs.NanRow),
    ),
    Exhibit(
        "past_eos", "decoding past an accepted end of text",
        "The loop looks for the end of text in the last token of a round only. An end among the accepted draft tokens "
        "is passed over, and what follows is said and counted.",
        "transformers 47912; vLLM 56101 (acceptance counted past the end)",
        "Stop at the first end of text, inside an accepted draft as well.",
        partial(engine_demos.past_the_end, engine_bugs.past_eos), engine_bug=engine_bugs.past_eos,
        code=(engine_bugs.PastEos,),
    ),
    Exhibit(
        "filter_order", "filters combined in another way",
        "Plain decoding applies top-p to what top-k left; the verifier measures both on the full row. The two paths "
        "keep different tokens, so speculation changes the law although the rule is right.",
        "SGLang 36173; transformers 47932 (q returned before top-k, drawn after it)",
        "One function for all three: plain decoding, drafts, verification.",
        partial(engine_demos.filters, engine_bugs.filters_joined), engine_bug=engine_bugs.filters_joined,
        code=(engine_bugs.FiltersJoined,),
    ),
)  # fmt: skip

#: name → exhibit
EXHIBITS: Mapping[str, Exhibit] = MappingProxyType({exhibit.name: exhibit for exhibit in _ALL})

#: What only looks like a bug: each leaves the law as it is.
NOT_BUGS: Mapping[str, str] = MappingProxyType(
    {
        "L1": "Any choice of draft tokens, even noise: accept with p(d), else draw from p without d.",
        "L2": "Draw the target's own token and compare it with the draft (`sample_and_match`).",
        "L3": "A random drafter: it is slow, and the texts follow the same law.",
        "L4": "Siblings of a tree that share one coin, compared with the sum of their probabilities.",
    }
)


def get(name: str) -> Exhibit:
    """The exhibit of that name. Raises ValueError listing the known ones."""
    if name not in EXHIBITS:
        raise ValueError(f"the museum has no exhibit {name!r}; it has: {', '.join(EXHIBITS)}")
    return EXHIBITS[name]
