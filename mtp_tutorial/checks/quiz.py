"""The questions behind ``check_answer``: a number each, and what to say to the likely wrong ones.

Takes: nothing.  Returns: ``QUESTIONS``, by name; the first two digits are the notebook's.
Must not know: notebooks, pictures.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Question:
    """A question with one number as its answer. ``wrong``: a likely wrong answer → why it is wrong."""

    text: str
    answer: float
    why: str
    wrong: Mapping[float, str] = field(default_factory=dict)
    tolerance: float = 1e-9


QUESTIONS: dict[str, Question] = {
    "00-most": Question(
        "k = 4 draft tokens: how many tokens does one round emit at most?",
        5,
        "Four accepted tokens and a bonus.",
        {4: "You forgot the bonus: when all four are accepted, the last row gives one more token."},
    ),
    "00-least": Question(
        "k = 4 draft tokens: how many tokens does one round emit at least?",
        1,
        "The rejected first token is replaced by a recovered one.",
        {0: "A round never comes back empty: the row that rejects a token also gives its replacement."},
    ),
    "00-extra-calls": Question(
        "How many further target calls does a recovered token cost?",
        0,
        "The row that rejected the draft token already holds the answer.",
        {1: "No further call: the row that rejected the draft token already holds the distribution to draw from."},
    ),
    "01-temperature": Question(
        "Logits 3 and 2, T = 0.6: how probable is the first token (two decimals)?",
        0.84,
        "5 and 3.33 after the division; exp(5) ÷ (exp(5) + exp(3.33)) = 0.84.",
        {
            0.73: "That is T = 1. Divide the logits by 0.6 first.",
            0.16: "That is the second token.",
            0.65: "You multiplied by 0.6. Divide.",
        },
        0.0051,
    ),
    "01-segment": Question(
        "Token 0 owns [0, 0.84), token 1 owns [0.84, 1). Which token does u = 0.90 give?",
        1,
        "0.90 lies in [0.84, 1).",
        {0: "0.90 lies beyond 0.84, where token 0's stretch ends."},
    ),
    "01-hot": Question(
        "Two tokens, T grows without bound: how probable is the first token in the end?",
        0.5,
        "All logits shrink to 0, so all tokens become equally likely.",
        {1: "That is T = 0. A large T flattens.", 0: "A large T flattens: no token vanishes."},
        0.005,
    ),
    "02-eight": Question(
        "8 billion weights in 8 bits, a memory of 2 TB/s: at least how many milliseconds does a token take?",
        4,
        "8 GB ÷ 2 TB/s.",
        {8: "That is with 16 bits a weight, 2 bytes. Here it is one byte.", 0.004: "Those are seconds."},
        0.001,
    ),
    "02-five": Question(
        "Reading takes 47 ms, one row of arithmetic 0.14 ms. How long does a call on 5 rows take (ms)?",
        47,
        "0.7 ms of arithmetic fit into the 47 ms of reading.",
        {
            235: "The weights are read once, for all rows together.",
            0.7: "That is the arithmetic. The weights must be read as well.",
            47.7: "Reading and computing go on side by side: the longer one counts.",
        },
        0.1,
    ),
    "02-edge": Question(
        "A machine reads 1 TB/s and computes 100 TFLOPS; weights have 2 bytes. How many rows are free?",
        100,
        "100 TFLOPS · 2 bytes ÷ (2 FLOPs · 1 TB/s).",
        {200: "Each weight takes two FLOPs a row.", 50: "A weight has two bytes: reading takes twice as long."},
        0.5,
    ),
    "03-beijing": Question(
        "Four draft tokens, three accepted, the fourth replaced: how many tokens did this one target call bring?",
        4,
        "Three accepted and one recovered.",
        {3: "You forgot the recovered token.", 5: "Five would need four accepted tokens and a bonus."},
    ),
    "03-rows": Question(
        "k = 4: how many rows does the verify call have?",
        5,
        "The last token of the text and the four draft tokens.",
        {4: "The last token of the text is fed, too: its row judges the first draft token."},
    ),
    "03-counter": Question(
        "10 slots are written after the call; 4 tokens were drafted, 3 accepted. What does the counter say then?",
        9,
        "One token was rejected; the recovered one is written by the next call.",
        {
            10: "The rejected token's slot still counts.",
            8: "The recovered token needs no room yet.",
            6: "The accepted tokens' slots stay.",
        },
    ),
    "04-accept": Question(
        "p(d) = 0.3 and q(d) = 0.6: with which probability is the draft token d accepted?",
        0.5,
        "min(1, 0.3/0.6).",
        {
            0.3: "That would be right for a draft chosen without randomness, q = 1.",
            1: "The drafter proposes d too often, so some must be rejected.",
            0.18: "Divide p by q.",
        },
        0.001,
    ),
    "04-alpha": Question(
        "p = (0.5, 0.3, 0.2), q = (0.2, 0.3, 0.5): how often is a token drawn from q accepted?",
        0.7,
        "Σ min(p, q) = 0.2 + 0.3 + 0.2.",
        {0.3: "That is what is rejected.", 0.29: "Σ p·q is what sample-and-match accepts."},
        0.001,
    ),
    "04-one-hot": Question(
        "The draft is always token d, p(d) = 0.5, the rule is right: how often is d emitted?",
        0.5,
        "As often as without a draft: p(d).",
        {
            0.75: "That is bug R1, where a rejection is followed by a draw from the full p.",
            1: "It is rejected half the time.",
        },
        0.001,
    ),
    "04-r1": Question(
        "As before, but after a rejection the token is drawn from the full p: how often is d emitted?",
        0.75,
        "2p - p² = 0.5 + 0.5 · 0.5.",
        {0.5: "That is the right law. Here d has a second chance after its rejection."},
        0.001,
    ),
    "05-article": Question(
        "A target call takes 100 ms, a draft step 10 ms, k = 4, and a round brings 2 tokens on average: how many "
        "milliseconds a token?",
        70,
        "(4 · 10 + 100) ÷ 2, which is 1.43 times as fast as 100.",
        {
            35: "A round brings 2 tokens, not 4.",
            28: "That is with all four accepted and a bonus: 140 ÷ 5.",
            140: "That is the round. It brings 2 tokens.",
            50: "Drafting takes time, too: 40 ms a round.",
        },
        0.51,
    ),
    "05-break-even": Question(
        "The same costs: how many tokens must a round bring, so that drafting is no slower than plain decoding?",
        1.4,
        "A round costs 140 ms, as much as 1.4 plain calls.",
        {
            1: "With 1 token a round of 140 ms is slower than a plain call of 100 ms.",
            2: "With 2 it is already 1.43 times as fast.",
            5: "That is the most a round can bring.",
            0.29: "That is the acceptance rate at the break-even. Asked: tokens a round.",
        },
        0.001,
    ),
    "05-rate": Question(
        "k = 4, and each draft token that is judged is accepted with probability 0.5. What does an engine report as "
        "accepted ÷ drafted (two decimals)?",
        0.23,
        "A round accepts 0.5 + 0.25 + 0.125 + 0.0625 = 0.94 of 4 draft tokens.",
        {
            0.5: "Draft tokens behind a rejection are counted as drafted, although nobody judged them.",
            0.48: "That is tokens a round ÷ 4. The target's own token is not an accepted one.",
            0.39: "That is tokens a round ÷ 5.",
            0.94: "Those are the accepted tokens of a round. Divide them by the 4 drafted ones.",
        },
        0.0051,
    ),
    "05-rows": Question(
        "At 330 rows a GPU computes as long as it reads. How many sequences fit into a batch at k = 4 before drafts "
        "cost time?",
        66,
        "Each sequence takes k + 1 = 5 rows: 330 ÷ 5.",
        {
            330: "That is without drafts. With k = 4 each sequence takes 5 rows.",
            82: "Each sequence takes k + 1 rows, its last token among them.",
            82.5: "Each sequence takes k + 1 rows, its last token among them.",
        },
        0.01,
    ),
    "06-calls": Question(
        "One MTP head, k = 4: how many calls of the head make one draft?",
        4,
        "One call a draft token, each fed with what the one before gave.",
        {
            1: "That is Medusa, whose heads all read the same state. This head needs its own token first.",
            5: "The fifth token of the round, the bonus, is the target's own.",
            0: "The target's call gives hidden states, not drafts: the head has to be called.",
        },
    ),
    "06-pairs": Question(
        "k = 4, all four draft tokens accepted, one bonus: how many true pairs does the head's next call read?",
        5,
        "The target read the last token and the four drafts: five hidden states, each paired with the token after it.",
        {
            4: "The bonus token has a pair, too: with the hidden state of draft token 4.",
            1: "The guesses were rolled back, so the accepted ones are read again, this time with the target's states.",
            0: "The guesses were rolled back, so the accepted ones are read again, this time with the target's states.",
        },
    ),
    "06-forwards": Question(
        "A gated LoRA brings 3 tokens a round and drafts with a call of its own: tokens per target call?",
        1.5,
        "Two calls of the target a round: one with masks that drafts, one that verifies.",
        {3: "You forgot the call that makes the draft: it runs through the whole target."},
        0.001,
    ),
    "07-texts": Question(
        "T = 0.6, argmax match, 100 seeds that happen to share their first token: how many different texts?",
        1,
        "After the first token nothing is drawn: each token is the target's favourite.",
        {
            100: "No number is drawn after the first token, so the seed cannot matter.",
            8: "Those were the seeds of the prediction, and this rule made one text of them.",
        },
    ),
    "07-favourite": Question(
        "T = 0.6, rule rejection, a greedy draft; the draft token is the target's favourite, p = 0.4: how often is it "
        "accepted?",
        0.4,
        "With p, favourite or not.",
        {1: "That is argmax match. Rejection sampling asks the coin.", 0.6: "That is how often it is rejected."},
        0.001,
    ),
    "07-length": Question(
        "k = 2. Position 1 is accepted in 0.6 of the rounds; once judged, position 2 is accepted in 0.5 of the cases. "
        "Tokens a round?",
        1.9,
        "1 + 0.6 + 0.6 · 0.5.",
        {
            2.1: "0.5 holds only where position 1 was accepted: its share of all rounds is 0.6 · 0.5.",
            0.9: "You forgot the target's own token, one in each round.",
            1.6: "That is position 1 alone. Position 2 adds its share of all rounds, 0.6 · 0.5.",
            1.3: "You left out position 1 alone: it brings 0.6, whatever happens at position 2.",
        },
        0.001,
    ),
    "07-gain": Question(
        "A round brings 1.9 tokens. A draft step costs 0.1 of a plain call, k = 2, and the verify call 1.05: how many "
        "times as fast as plain decoding (two decimals)?",
        1.52,
        "1.9 ÷ (2 · 0.1 + 1.05).",
        {
            1.9: "You forgot what a round costs: 2 · 0.1 + 1.05 = 1.25 plain calls.",
            1.81: "Drafting costs time, too.",
            1.65: "k = 2 means two draft steps.",
        },
        0.0051,
    ),
    "08-two": Question(
        "Two outputs, both clean: which share of looping runs do they exclude at 95 % (two decimals)?",
        0.78,
        "1 - √0.05: with a rate of 0.78, both are clean in 0.22² = 5 % of cases. Lower rates stay possible.",
        {
            0.05: "That is the level. Solve (1 - rate)² = 0.05.",
            0.95: "That is the level. Solve (1 - rate)² = 0.05.",
            0.5: "At a rate of 0.5 both are clean in 25 % of cases: not excluded.",
            0.22: "That is 1 - rate.",
        },
        0.0051,
    ),
    "08-pattern": Question(
        "With and without MTP 30 % of all outputs repeat. How often are two outputs without MTP both clean?",
        0.49,
        "0.7 · 0.7.",
        {
            0.09: "That is how often both repeat.",
            0.7: "That is one output.",
            0.51: "That is how often at least one repeats.",
            0.42: "That is exactly one of the two.",
        },
        0.0051,
    ),
    "08-many": Question(
        "42 comparisons, nothing wrong anywhere, each tested at 5 % without correction: how many false alarms on "
        "average?",
        2.1,
        "42 · 0.05. Holm's correction makes even one of them rare.",
        {
            0.05: "That is for each of them.",
            42: "That would be a test that always rings.",
            0: "Each comparison rings falsely in 5 of 100 cases.",
        },
        0.01,
    ),
    "09-noise": Question(
        "The drafter proposes random tokens, the rule is rejection, k = 2: total variation to plain sampling?",
        0,
        "The rule is lossless whatever was drafted. Only the number of rounds suffers.",
        {1: "That would be a law without anything in common. The rule decides the law, the drafter the speed."},
        0.001,
    ),
    "09-margin": Question(
        "Rounding moves each logit by at most 0.05. Up to which margin can two tokens change places?",
        0.1,
        "One may fall by 0.05 while the other rises by 0.05.",
        {0.05: "Both logits move: one may fall while the other rises.", 0.025: "Add the two movements up."},
        0.001,
    ),
    "09-problems": Question(
        "A model solves 14.1 % of 164 problems, another one 12 % more than that. How many problems are the difference "
        "(nearest whole number)?",
        3,
        "0.141 · 164 = 23.1 problems, and 12 % of these are 2.8.",
        {
            20: "Those are 12 percentage points. 12 % more than 14.1 % is 15.8 %.",
            26: "That is what the better model solves.",
            23: "That is what the first model solves.",
            2: "2.8, to be rounded.",
        },
        0.001,
    ),
    "09-third": Question(
        "Article B's code, behind an accepted token: p(d) = 0.4. How often is d said (three decimals)?",
        0.784,
        "1 - 0.6³: two drafts and one draw from the full row.",
        {
            0.64: "That is the first position of a round: two chances.",
            0.4: "That is the right law.",
            0.216: "That is how often it is not said.",
        },
        0.0011,
    ),
    "10-milliseconds": Question(
        "8 billion weights are read in 16 bits at 3.2 TB/s: at least how many milliseconds does a plain token take?",
        5,
        "16 GB ÷ 3.2 TB/s.",
        {
            2.5: "Two bytes a weight: 16 GB.",
            40: "16 bits are 2 bytes.",
            0.005: "Those are seconds.",
            200: "That is tokens a second.",
        },
        0.001,
    ),
    "10-ratio": Question(
        "A draft step reads a tenth of a call, k = 2, 2.4 tokens a round, the verify call costs a plain one: speed-up?",
        2,
        "2.4 ÷ (1 + 2 · 0.1).",
        {
            2.4: "That would be with free drafts.",
            2.18: "There are two draft steps in a round.",
            1.85: "A round has two draft steps and one call of the target: 1.2.",
        },
        0.01,
    ),
    "10-experts": Question(
        "256 experts, each row takes 8: how many do two rows read, on average (two decimals)?",
        15.75,
        "256 · (1 - (1 - 8/256)²): a quarter of an expert is chosen by both.",
        {
            16: "Now and then both rows choose the same expert. It is read once.",
            8: "Each row chooses for itself.",
            0.06: "That is the share of the experts.",
        },
        0.0051,
    ),
    "10-stale": Question(
        "A head that was trained for another target, rule rejection: total variation to the target's law?",
        0,
        "The rule decides the law. The head decides the speed.",
        {1: "That would be a law without anything in common. The verify call is the target's own."},
        0.001,
    ),
    "11-length": Question(
        "A vLLM server: 400 drafts, 1200 draft tokens, 500 accepted tokens. Mean acceptance length (two decimals)?",
        2.25,
        "1 + 500 ÷ 400: each round says a recovered or bonus token as well.",
        {
            1.25: "You forgot the target's own token: no counter of drafts has it.",
            0.42: "That is the acceptance rate, accepted ÷ drafted.",
            1.42: "You divided by draft tokens. A round is a draft.",
        },
        0.0051,
    ),
    "11-sglang": Question(
        "k = 2 in vLLM: what is SGLang's --speculative-num-draft-tokens (a chain, topk 1)?",
        3,
        "It counts the rows of the verify call: two draft tokens and the last committed one.",
        {2: "That is --speculative-num-steps. This flag counts the rows of the verify call."},
    ),
    "11-calls": Question(
        "500 rounds with a draft bring 1.6 tokens each, 300 calls had nothing to draft. "
        "Tokens a call (three decimals)?",
        1.375,
        "(500 · 1.6 + 300) ÷ 800: a call without a draft brings one token.",
        {
            1.6: "The 300 calls without a draft are calls, too.",
            1.0: "The rounds with a draft bring more than one.",
            1.3: "That is the mean of 1.6 and 1. There are more rounds of the first kind.",
        },
        0.0011,
    ),
    "11-rows": Question(
        "Further rows are free up to 330, k = 2: up to how many live requests do the drafts cost the target nothing?",
        110,
        "Each request brings k + 1 = 3 rows.",
        {
            165: "Each request brings three rows: its last committed token, and two draft tokens.",
            330: "That is without drafts.",
        },
    ),
    "12-segment": Question(
        "Logits 3 and 2, temperature 0.6: the probability of the first (two decimals)?",
        0.84,
        "5 against 3.33, and 1 ÷ (1 + e^-1.67) = 0.84.",
        {0.73: "That is temperature 1. Divide the logits by 0.6 first.", 0.16: "That is the second one's."},
        0.0051,
    ),
    "12-tokens": Question(
        "k = 3, each judged draft token is accepted with 0.5: tokens a round?",
        1.875,
        "1 + 0.5 + 0.25 + 0.125.",
        {
            2.5: "You added the rates. Position 2 is judged only where position 1 was accepted.",
            0.875: "You forgot the target's own token.",
            1.75: "That is k = 2.",
        },
        0.006,
    ),
    "12-score": Question(
        "2.5 tokens a round, k = 2, a row costs 0.03, a drafter's step reads 0.4 of the target's weights: the score of "
        "a round (two decimals)?",
        1.34,
        "2.5 ÷ (1 + 2 · 0.03 + 2 · 0.4).",
        {
            2.36: "The drafter reads its weights, too.",
            1.39: "The rows cost something, too.",
            1.75: "Two steps read 0.8.",
        },
        0.0051,
    ),
    "12-stuck": Question(
        "p(d) = 0.4, a greedy draft d, the coin always 0: total variation of the first token to the target's law?",
        0.6,
        "d is always said: 1 in place of 0.4, and the others lose as much.",
        {
            1.2: "Half the summed difference: what one token gains, others lose.",
            0.4: "It gains 1 - 0.4.",
            0: "That is the right coin.",
        },
        0.001,
    ),
    "12-rows": Question(
        "330 rows are free, 110 requests are live: the longest draft whose verification costs no further time?",
        2,
        "110 · (2 + 1) = 330.",
        {3: "Each request has a row of its own beside its draft: 110 · 4 = 440.", 1: "330 ÷ 110 - 1."},
    ),
}
