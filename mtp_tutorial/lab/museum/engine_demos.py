"""Faults of the engine at work, on toys: tables with known probabilities.

Takes: a fault.  Returns: a ``Demonstration``.
Must not know: the exhibits' texts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from ...decode import Hooks, generate
from ...drafters import Drafter, load_drafter
from ...models import Target, load, toys
from ...records import Sampling
from ..drafts import Says
from .exhibit import Demonstration
from .law_demos import doubles, names

GREEDY, PLAIN = Sampling(temperature=0), Sampling()


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
