"""Checks of notebook 07: expected acceptance from recorded rounds, the speed-up that costs predict, which rule was on.

Takes: the reader's function.  Returns: a ``Result``, and prints one line.
Must not know: notebooks, pictures.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..records import Round
from .base import Exercise, Mistake, Result, check, read_number


def _round(index: int, accepted: int, *numbers: tuple[float, float]) -> Round:
    """A round of greedy draft tokens with (p, coin) each; it ends in a recovered or bonus token."""
    drafted = len(numbers)
    last = "plain" if not drafted else "bonus" if accepted == drafted else "recovered"
    return Round(
        0,
        index,
        tuple(range(accepted + 1)),
        ("accepted",) * accepted + (last,),
        tuple(range(drafted)),
        (1.0,) * drafted,
        tuple(p for p, _ in numbers),
        tuple(coin for _, coin in numbers),
        num_accepted=accepted,
    )


def _rounds(*rounds: tuple[int, Sequence[tuple[float, float]]]) -> list[Round]:
    return [Round(0, 0, (0,), ("prefill",)), *(_round(i, n, *numbers) for i, (n, numbers) in enumerate(rounds, 1))]


def _judged(rounds: Sequence[Round]) -> list[tuple[float, float, bool]]:
    """(p, coin, accepted) of each draft token that was judged."""
    return [
        (p, coin, i < r.num_accepted)
        for r in rounds
        for i, (p, coin) in enumerate(zip(r.target_probs, r.coins))
        if i <= r.num_accepted
    ]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _describe(case: tuple) -> str:
    rounds = [r for r in case[0] if not r.is_prefill]
    return (
        f"rounds with target_probs {[list(r.target_probs) for r in rounds]}, coins {[list(r.coins) for r in rounds]} "
        f"and num_accepted {[r.num_accepted for r in rounds]}"
    )


# -- expected_acceptance(rounds) -> a share --------------------------------------------------------------------------

_ONE_MORE = (
    "You divided by num_accepted + 1 in each round. That counts the rejected token as well, but where the whole draft "
    "was accepted, or nothing drafted, there is none: count the tokens that were judged."
)


def _judged_p(rounds: Sequence[Round]) -> float:
    return sum(p for p, _, _ in _judged(rounds))


EXPECTED = Exercise(
    "expected_acceptance",
    lambda rounds: _mean([p for p, _, _ in _judged(rounds)]),
    [
        (_rounds((2, [(0.9, 0.2), (0.7, 0.1)])),),
        (_rounds((0, [(0.2, 0.6), (0.8, 0.1)]), (1, [(0.6, 0.3), (0.4, 0.5)])),),
        (_rounds((1, [(0.5, 0.4), (0.1, 0.9)]), (0, []), (0, [(0.0, 0.5), (1.0, 0.5)])),),
    ],
    read_number,
    [
        Mistake(
            "all draft tokens",
            lambda rs: _mean([p for r in rs for p in r.target_probs]),
            "You counted draft tokens that nobody judged. After a rejection the rest of the draft is dropped, so its p "
            "decides nothing.",
        ),
        Mistake(
            "the acceptance rate",
            lambda rs: sum(r.num_accepted for r in rs) / sum(r.num_drafted for r in rs),
            "That is what happened, accepted ÷ drafted. Wanted is what was to be expected: the mean of p.",
        ),
        Mistake(
            "the share accepted",
            lambda rs: _mean([float(kept) for _, _, kept in _judged(rs)]),
            "That is what the coins brought. Wanted is what was to be expected before they fell: the mean of p.",
        ),
        Mistake(
            "one more in full rounds",
            lambda rs: _judged_p(rs) / sum(r.num_accepted + 1 for r in rs if r.num_drafted),
            _ONE_MORE,
        ),
        Mistake(
            "one more in every round",
            lambda rs: _judged_p(rs) / sum(r.num_accepted + 1 for r in rs if not r.is_prefill),
            _ONE_MORE,
        ),
        Mistake(
            "one more in the prefill, too", lambda rs: _judged_p(rs) / sum(r.num_accepted + 1 for r in rs), _ONE_MORE
        ),
        Mistake(
            "divided by drafted",
            lambda rs: _judged_p(rs) / sum(r.num_drafted for r in rs),
            "You divided by all that was drafted. Draft tokens behind a rejection are not judged: divide by those that "
            "were.",
        ),
        Mistake(
            "the accepted ones only",
            lambda rs: _mean([p for p, _, kept in _judged(rs) if kept]),
            "You left out the rejected token of each round. It was judged as well.",
        ),
        Mistake(
            "the first ones only",
            lambda rs: _mean([r.target_probs[0] for r in rs if r.target_probs]),
            "That is position 1 alone. The second draft token is judged wherever the first was accepted.",
        ),
        Mistake(
            "mean of rounds",
            lambda rs: _mean([_mean([p for p, _, _ in _judged([r])]) for r in rs if r.num_drafted]),
            "You averaged in each round first: one with a single judged token then weighs as much as one with two.",
        ),
    ],
    "The mean of p over all judged draft tokens. The coins scatter round it.",
    describe=_describe,
)


def check_expected_acceptance(function: Callable[[list[Round]], Any]) -> Result:
    """``expected_acceptance(rounds)``: rounds with greedy drafts under ``rejection`` → the mean p of judged drafts."""
    return check(EXPECTED, function)


# -- speed_up(tokens_a_round, k, draft_step, verify_call, plain_call) -> a factor ------------------------------------


def _speed_up(tokens: float, k: int, draft: float, verify: float, plain: float) -> float:
    return tokens * plain / (k * draft + verify)


SPEED_UP = Exercise(
    "speed_up",
    _speed_up,
    [(5.0, 4, 10.0, 100.0, 100.0), (1.0, 4, 10.0, 100.0, 100.0), (1.8, 2, 3.0, 25.0, 23.0), (2.5, 3, 20.0, 60.0, 50.0)],
    read_number,
    [
        Mistake(
            "one draft step",
            lambda n, k, d, v, p: n * p / (d + v),
            "A round makes k draft tokens, so it takes k draft steps.",
        ),
        Mistake(
            "drafts for nothing",
            lambda n, k, d, v, p: n * p / v,
            "Drafting costs time, too: k steps in each round.",
        ),
        Mistake(
            "k verify calls",
            lambda n, k, d, v, p: n * p / (k * (d + v)),
            "You counted the verify call k times. One call verifies the whole draft: k · draft_step + verify_call.",
        ),
        Mistake(
            "a verify call for each row",
            lambda n, k, d, v, p: n * p / (k * d + (k + 1) * v),
            "You counted the verify call k + 1 times. It is one call on k + 1 rows, and verify_call is its whole time.",
        ),
        Mistake(
            "one token more",
            lambda n, k, d, v, p: (n + 1) * p / (k * d + v),
            "You added a token: tokens_a_round holds the recovered or bonus token already.",
        ),
        Mistake(
            "the slow-down",
            lambda n, k, d, v, p: (k * d + v) / (n * p),
            "That is upside down: how many times as long a token takes.",
        ),
        Mistake(
            "all accepted",
            lambda n, k, d, v, p: (k + 1) * p / (k * d + v),
            "k + 1 tokens are the most that a round brings. Take the mean, tokens_a_round.",
        ),
        Mistake(
            "a round's time",
            lambda n, k, d, v, p: p / (k * d + v),
            "That compares a round with a plain call. A round brings more tokens than one: multiply.",
        ),
        Mistake(
            "the plain call twice",
            lambda n, k, d, v, p: n * p / (k * d + p),
            "The call that verifies reads k + 1 rows and has a time of its own, verify_call.",
        ),
        Mistake(
            "time of a token",
            lambda n, k, d, v, p: (k * d + v) / n,
            "That is the time of a token, in milliseconds. The speed-up is plain_call divided by it.",
        ),
    ],
    "Below 1, drafting makes it slower: the second case.",
    argument_names=("tokens_a_round", "k", "draft_step", "verify_call", "plain_call"),
    hints={0: "A round takes 4 · 10 + 100 = 140 ms and brings 5 tokens: 28 ms each."},
)


def check_speed_up(function: Callable[[float, int, float, float, float], Any]) -> Result:
    """``speed_up(tokens_a_round, k, draft_step, verify_call, plain_call)``: milliseconds → times as fast as plain."""
    return check(SPEED_UP, function)


# -- follows_the_coin(rounds) -> bool --------------------------------------------------------------------------------


def _read_bool(value: Any) -> int:
    value = value.tolist() if hasattr(value, "tolist") else value
    if not isinstance(value, (bool, int, float)) or value not in (0, 1):
        raise TypeError("return True or False")
    return int(value)


def _follows(rounds: Sequence[Round]) -> bool:
    return all(accepted == (coin < p) for p, coin, accepted in _judged(rounds))


def _every_token(rounds: Sequence[Round]) -> bool:
    return all(
        (i < r.num_accepted) == (coin < p) for r in rounds for i, (p, coin) in enumerate(zip(r.target_probs, r.coins))
    )


COIN = Exercise(
    "follows_the_coin",
    _follows,
    [
        (_rounds((2, [(0.9, 0.2), (0.7, 0.1)]), (1, [(0.6, 0.3), (0.4, 0.5)])),),
        (_rounds((0, [(0.2, 0.6), (0.8, 0.1)]), (2, [(0.3, 0.1), (0.9, 0.8)])),),
        (_rounds((2, [(0.9, 0.2), (0.55, 0.7)])),),
        (_rounds((1, [(0.9, 0.2), (0.3, 0.1)])),),
        (_rounds((0, []), (0, [(0.4, 0.7), (0.0, 0.5)])),),
        (_rounds((2, [(0.2, 0.1), (0.3, 0.2)]), (0, [(0.8, 0.9), (0.9, 0.1)])),),
    ],
    _read_bool,
    [
        Mistake(
            "not judged",
            _every_token,
            "You looked at draft tokens behind a rejection. Nobody judged them, so they prove nothing.",
        ),
        Mistake(
            "accepted ones only",
            lambda rs: all(coin < p for p, coin, kept in _judged(rs) if kept),
            "You looked at accepted tokens only. One rejected although its coin lies below p gives a rule away, too.",
        ),
        Mistake(
            "rejected ones only",
            lambda rs: all(coin >= p for p, coin, kept in _judged(rs) if not kept),
            "You looked at rejected tokens only. One accepted although its coin lies above p gives a rule away, too.",
        ),
        Mistake(
            "the wrong way round",
            lambda rs: not _follows(rs),
            "The wrong way round: return True when no judged token contradicts the coin.",
        ),
        Mistake(
            "always True",
            lambda rs: True,
            "You return True whatever was recorded. Look for a token that contradicts its coin.",
        ),
        Mistake(
            "always False",
            lambda rs: False,
            "You return False whatever was recorded. Where no judged token contradicts its coin, return True.",
        ),
        Mistake(
            "one half",
            lambda rs: all(kept == (p > 0.5) for p, _, kept in _judged(rs)),
            "p above one half decides nothing: a token with p = 0.2 is accepted in one of five cases.",
        ),
    ],
    "One accepted token with its coin above p, or one rejected with its coin below, and it was another rule.",
    hints={
        2: "The second draft token was accepted with p = 0.55, although its coin was 0.7.",
        3: "The second draft token was rejected with p = 0.3, although its coin was 0.1.",
        4: "A round may draft nothing.",
    },
    describe=_describe,
)


def check_follows_the_coin(function: Callable[[list[Round]], Any]) -> Result:
    """``follows_the_coin(rounds)``: rounds with greedy drafts → whether each verdict is that of ``rejection``."""
    return check(COIN, function)
