"""The exhibits at work: small cases whose right and wrong numbers are known exactly.

Takes: a broken rule or a fault.  Returns: a ``Demonstration``.
Must not know: the exhibits' texts.

Laws come from ``lab.exact``. Faults of the engine run on toys, tables with known probabilities, and what the verify
rule was shown is compared with the table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from ...decode import Hooks, generate
from ...drafters import Drafter, load_drafter
from ...models import Target, toys
from ...records import Draft, Sampling, Verdict
from ...verify import RULES, Rule, verify
from ..exact import marginal, output_law, separate_noise_law, shared_noise_law
from .exhibit import Demonstration
from .second_article import article_law

P, Q = (0.5, 0.3, 0.2), (0.2, 0.3, 0.5)
AT_06 = tuple((torch.tensor(P, dtype=torch.float64).pow(1 / 0.6) / sum(p ** (1 / 0.6) for p in P)).tolist())
GREEDY, PLAIN = Sampling(temperature=0), Sampling()


def doubles(rows) -> Tensor:
    return torch.as_tensor(rows, dtype=torch.float64)


def greedy_draft(*tokens: int) -> Draft:
    return Draft(torch.tensor([tokens]))


def drawn_from(*q: float) -> Draft:
    return Draft(torch.zeros(1, 1, dtype=torch.int64), doubles([[q]]))


def names(count: int) -> tuple[str, ...]:
    return tuple(f"token {i}" for i in range(count))


# -- Rules ---------------------------------------------------------------------------------------------------------


def first_token(
    rule: Rule, draft: Draft, predicted: Sequence[float], digits: int = 3, row: Sequence[float] = P
) -> Callable[[], Demonstration]:
    """The law of the first token of a round that drafts one token. row: the target's distribution, the right law."""

    def run() -> Demonstration:
        found = marginal(output_law(rule, draft, doubles([row, row])))
        wrong = tuple(found.get(token, 0.0) for token in range(len(row)))
        return Demonstration("law of the first token", names(len(row)), tuple(row), wrong, tuple(predicted), digits)

    return run


def one_coin(rule: Rule) -> Demonstration:
    """Two draft tokens, accepted with .6 and .5 one by one."""
    rows = doubles([(0.6, 0.4), (0.5, 0.5), (0.5, 0.5)])

    def both(rule: Rule | str) -> tuple[float, float]:
        law = output_law(rule, greedy_draft(0, 0), rows)
        return marginal(law)[0], sum(p for tokens, p in law.items() if tokens[:2] == (0, 0))

    labels = ("first token is the draft token", "both are")
    return Demonstration("share of rounds", labels, both("rejection"), both(rule), (0.6, 0.5))


def duplicate(rule: Rule) -> Demonstration:
    """Given that the draft token was accepted, how often does the bonus token say it again?"""
    rows = doubles([(0.5, 0.3, 0.2), (0.1, 0.6, 0.3)])  # after token 0 the target hardly ever says it again

    def again(rule: Rule | str) -> float:
        law = output_law(rule, greedy_draft(0), rows)
        return law[0, 0] / marginal(law)[0]

    label = ("the same token twice in a row",)
    return Demonstration("law of the bonus token", label, (again("rejection"),), (again(rule),), (0.5,))


def second_token(rule: Rule, predicted: Sequence[float]) -> Demonstration:
    """Rows that differ: the first token's law shows which row a rule looked at."""
    rows = doubles([(0.5, 0.3, 0.2), (0.1, 0.3, 0.6), (0.4, 0.4, 0.2)])

    def law(rule: Rule | str) -> tuple[float, ...]:
        found = marginal(output_law(rule, greedy_draft(0, 1), rows))
        return tuple(found.get(token, 0.0) for token in range(3))

    return Demonstration("law of the first token", names(3), law("rejection"), law(rule), tuple(predicted))


def article() -> Demonstration:
    """The law of the token after an accepted one, with a drafter that always says token 0."""
    rows = {(): doubles([1, 0, 0])}  # the first token is certain, and so accepted: the second is what we look at
    law = article_law(lambda prefix: rows.get(prefix, doubles(P)), lambda prefix: 0, k=2, length=2)
    after = tuple(law.get((0, token), 0.0) for token in range(3))
    return Demonstration("law at a position after an acceptance", names(3), P, after, (0.875, 0.075, 0.05))


def shared_noise() -> Demonstration:
    p, q = (0.4, 0.3, 0.1, 0.2), (0.3, 0.05, 0.6, 0.05)
    right, wrong = separate_noise_law(p, q).tolist(), shared_noise_law(p, q).tolist()
    return Demonstration("law of the first token", names(4), tuple(right), tuple(wrong), (0.35, 0.34, 0.10, 0.21), 2)


# -- The engine ----------------------------------------------------------------------------------------------------


class Says:
    """A drafter without any thought: ``plan(tokens said so far, k)`` is its draft."""

    needs_hidden: tuple[int, ...] = ()
    vocab_size = None

    def __init__(self, plan: Callable[[list[int], int], Sequence[int]]) -> None:
        self.plan = plan

    def start(self, target: Target, prompts: Sequence[Sequence[int]], hidden: tuple[Tensor, ...]) -> None:
        self.said: list[list[int]] = [[] for _ in prompts]

    def propose(self, k: Tensor, sampling: Sampling, uniforms: Tensor) -> Draft:
        rows = [list(self.plan(said, want))[:want] for said, want in zip(self.said, k.tolist(), strict=True)]
        return Draft.of_lists(rows, "cpu")

    def commit(self, verdict: Verdict, hidden: tuple[Tensor, ...]) -> None:
        for said, tokens in zip(self.said, verdict.tokens.tolist(), strict=True):
            said.extend(token for token in tokens if token >= 0)

    def keep(self, rows: Sequence[int]) -> None:
        self.said = [self.said[row] for row in rows]


def toy(rows: dict[tuple[int, ...], Sequence[float]], size: int, order: int = 1, eos: int | None = None) -> Target:
    """A table target: context → row; ``()`` is the row of every context that has none of its own."""
    table = doubles(rows[()]).expand((size + 1,) * order + (size,)).clone()
    for context, row in rows.items():
        if context:
            table[(Ellipsis, *context, slice(None))] = doubles(row)
    words = [f"t{i}" if i != eos else "<eos>" for i in range(size)]
    return toys.make("museum", words, table)


def watched(options: dict) -> tuple[dict, list[tuple]]:
    """Options of ``generate`` whose hooks, the fault's or the engine's own, also keep what each round was shown.

    Returns the options, and a list that fills with (sequences, draft, target_probs, uniforms, verdict).
    """
    hooks, seen = options.get("hooks", Hooks()), []
    observe = hooks.observe

    def keep(*what) -> None:
        observe(*what)
        seen.append(what)

    hooks.observe = keep
    return {**options, "hooks": hooks}, seen


def shown(options: dict, *args, **more) -> tuple[list[Tensor], list[int]]:
    """Run ``generate`` with these options; the rows that each round was shown, and the tokens."""
    options, seen = watched(options)
    tokens = generate(*args, **options, **more).tokens
    return [rows[0] for _, _, rows, _, _ in seen], tokens


def stale_slot(bug: Callable[[Drafter | None], dict]) -> Demonstration:
    """Token 2 is drafted and cannot be: it is always rejected. Which context has the row after the recovered token?

    The toy looks at the last two tokens. Its text is 0 1 0 1 …; the contexts with the rejected 2 have rows of their
    own, which nobody should ever see.
    """
    rows = {(): (0.5, 0.5, 0.0), (0, 1): (1.0, 0.0, 0.0), (1, 0): (0.0, 1.0, 0.0)}
    rows |= {(2, 1): (0.9, 0.1, 0.0), (2, 0): (0.7, 0.3, 0.0), (0, 2): (0.6, 0.4, 0.0), (1, 2): (0.2, 0.8, 0.0)}
    target, plan = toy(rows, 3, order=2), Says(lambda said, k: [2])
    run = {"num_speculative_tokens": 1, "max_new_tokens": 4, "sampling": PLAIN}
    right, _ = shown({"drafter": plan}, target, [0, 1], **run)
    wrong, _ = shown({"drafter": plan, **bug(plan)}, target, [0, 1], **run)
    # Round 0 is the prefill and says 0; round 1 rejects 2 and recovers 1; round 2 is the first that can be wrong.
    return Demonstration(
        "p of the next token, after 0 1 0 and a recovered 1",
        names(2),
        tuple(right[2][0, :2].tolist()),
        tuple(wrong[2][0, :2].tolist()),
        (0.9, 0.1) if bug.__name__ == "keeps_rejected" else (0.6, 0.4),
    )


def unpenalised(bug: Callable[[Drafter | None], dict]) -> Demonstration:
    """A drafter that says the same token three times, and a frequency penalty of 1 against it."""
    target = toy({(): (0.5, 0.5)}, 2)
    run = {"num_speculative_tokens": 3, "max_new_tokens": 5, "sampling": Sampling(frequency_penalty=1.0), "seed": 1}
    plan = Says(lambda said, k: [0] * k)
    right, tokens = shown({"drafter": plan}, target, [1], **run)
    wrong, _ = shown({"drafter": plan, **bug(plan)}, target, [1], **run)
    first = tokens[0]  # what the prefill said counts in every row
    p = torch.sigmoid(doubles([-1.0 if first == 0 else 1.0])).item()
    labels = tuple(f"p(token 0) in row {i}" for i in range(3))
    return Demonstration(
        "target rows of the first round",
        labels,
        tuple(right[1][:3, 0].tolist()),
        tuple(wrong[1][:3, 0].tolist()),
        (round(p, 3),) * 3,
    )


def self_draft(bug: Callable[[Drafter | None], dict]) -> Demonstration:
    """A target that drafts for itself is right each time, unless its own cache is short."""
    target = toys.random_llama()
    drafter = load_drafter("draft", target, model=target)
    run = {"num_speculative_tokens": 2, "max_new_tokens": 24, "sampling": GREEDY, "ignore_eos": True}
    right = generate(target, [1, 2, 3], drafter, **run)
    wrong = generate(target, [1, 2, 3], **bug(drafter), **run)
    assert right.tokens == wrong.tokens  # the law does not move: only the drafts are worse
    return Demonstration("T = 0, k = 2", ("acceptance rate",), (right.acceptance_rate,), (wrong.acceptance_rate,))


def stale_states(bug: Callable[[Drafter | None], dict]) -> Demonstration:
    """Nano's MTP head, fed with the right hidden states and with those of the row before."""
    from ...models import load

    target = load("nano")
    drafter = load_drafter("mtp", target)
    prompts = ["One morning, Lena", '{"name": "', "def total(", "Ben: Have you seen my"]
    run = {"num_speculative_tokens": 2, "max_new_tokens": 40, "sampling": GREEDY, "ignore_eos": True, "chat": False}
    right = generate(target, prompts, drafter, **run)
    wrong = generate(target, prompts, **bug(drafter), **run)
    assert [g.tokens for g in right] == [g.tokens for g in wrong]

    def rate(found) -> float:
        return sum(g.num_accepted for g in found) / sum(g.num_drafted for g in found)

    return Demonstration("nano with its MTP head, T = 0, k = 2", ("acceptance rate",), (rate(right),), (rate(wrong),))


def reused_uniform() -> Demonstration:
    """d ~ q by the inverse CDF of u, accepted if u < p/q: the law by walking u through [0, 1) in tenths.

    All places where a decision changes (.2, .4 and .5) are tenths, so the middle of each stands for all of it.
    """
    draws = doubles([0.05 + 0.1 * i for i in range(10)])
    target = doubles([P, P]).expand(10, 2, 3)
    tokens = torch.searchsorted(doubles(Q).cumsum(0), draws, right=True)[:, None]
    draft = Draft(tokens, doubles([Q]).expand(10, 1, 3))

    def law(coin: Tensor) -> tuple[float, ...]:
        uniforms = torch.zeros(10, 2, 2, dtype=torch.float64)
        uniforms[:, 0, 0] = coin
        found = verify("rejection", draft, target, uniforms).tokens[:, 0]
        return tuple((found.bincount(minlength=3).double() / 10).tolist())

    right = torch.stack([doubles(law(doubles([0.05 + 0.1 * i] * 10))) for i in range(10)]).mean(0)
    return Demonstration("law of the first token", names(3), tuple(right.tolist()), law(draws), (0.7, 0.3, 0.0))


def every_round_alike(bug: Callable[[Drafter | None], dict]) -> Demonstration:
    """A fair coin as a target: how often does a token equal the one before it?"""
    target = toy({(): (0.5, 0.5)}, 2)

    def repeats(options: dict) -> float:
        tokens = generate(target, [0], **options, max_new_tokens=401, sampling=PLAIN, seed=0).tokens[1:]
        return sum(a == b for a, b in zip(tokens, tokens[1:], strict=False)) / (len(tokens) - 1)

    return Demonstration("a fair coin", ("same token as before",), (repeats({}),), (repeats(bug(None)),), (1.0,))


def nan_becomes_a_token(bug: Callable[[Drafter | None], dict]) -> Demonstration:
    """The row after the draft token is NaN; the draft token is always accepted. What comes next?"""
    target = toy({(): (0.0, 0.5, 0.5)}, 3)  # token 0 cannot be said
    run = {"num_speculative_tokens": 1, "max_new_tokens": 20, "sampling": PLAIN}
    plan = Says(lambda said, k: [1])
    tokens = generate(target, [1], plan, **bug(plan), **run).tokens
    right = generate(target, [1], plan, **run).tokens
    labels = ("share of token 0, which has probability 0",)
    return Demonstration("tokens said", labels, (right.count(0) / len(right),), (tokens.count(0) / len(tokens),))


def past_the_end(bug: Callable[[Drafter | None], dict]) -> Demonstration:
    """The text ends with its second token; a draft goes on past it."""
    target = toy({(): (1.0, 0.0, 0.0), (0,): (0.0, 1.0, 0.0), (1,): (0.0, 0.0, 1.0)}, 3, eos=1)
    run = {"num_speculative_tokens": 2, "max_new_tokens": 8, "sampling": GREEDY}
    plan = Says(lambda said, k: [1, 2])

    def after(options: dict) -> float:
        tokens = generate(target, [2], **options, **run).tokens
        return float(len(tokens) - 1 - tokens.index(1))

    label = ("tokens after the end of text",)
    return Demonstration("T = 0, k = 2", label, (after({"drafter": plan}),), (after({"drafter": plan, **bug(plan)}),))


def filters(bug: Callable[[Drafter | None], dict]) -> Demonstration:
    """top_k = 2 and top_p = .55 on (.4, .3, .2, .1): top-k leaves (.571, .429), of which .571 alone reaches .55."""
    target = toy({(): (0.4, 0.3, 0.2, 0.1)}, 4)
    run = {"num_speculative_tokens": 1, "max_new_tokens": 3, "sampling": Sampling(top_k=2, top_p=0.55)}
    plan = Says(lambda said, k: [0])
    right, _ = shown({"drafter": plan}, target, [0], **run)
    wrong, _ = shown({"drafter": plan, **bug(plan)}, target, [0], **run)
    return Demonstration(
        "the target's row", names(4), tuple(right[1][0].tolist()), tuple(wrong[1][0].tolist()), (0.571, 0.429, 0, 0)
    )


def lossy_by_design(name: str, predicted: Sequence[float]) -> Callable[[], Demonstration]:
    return first_token(RULES[name], greedy_draft(0), predicted)
