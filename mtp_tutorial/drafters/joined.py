"""Two drafters in one: what was said before is looked up first, a trained head guesses where nothing is found.

Takes: the target's hidden states and the tokens so far.  Returns: drafts.
Must not know: verify rules, the loop.

A lookup costs nothing and is often right for many tokens in a row, in code, in JSON, in a text that quotes its prompt.
A head is right more evenly and costs a step a token. So the head drafts a few tokens where no lookup answers, and its
draft is continued by lookups for free.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ..models import Target
from ..records import Draft, Sampling, Verdict
from .mtp import MtpDrafter
from .ngram import NgramDrafter


class JoinedDrafter:
    """``mtp`` joined with ``ngram``. Drafts greedily.

    head_tokens: the head drafts at most so many of the k tokens; lookups may fill the rest.
    min_ngram, max_ngram: for the lookups that come before the head. Those that continue its draft match max_ngram.
    options: for ``MtpDrafter`` (weights, frequent, min_confidence); temperature stays 0.
    """

    def __init__(self, target: Target, head_tokens: int = 2, min_ngram: int = 3, max_ngram: int = 4, **options) -> None:
        if isinstance(head_tokens, bool) or not isinstance(head_tokens, int) or head_tokens < 1:
            raise ValueError(f"head_tokens={head_tokens!r}: use a whole number, 1 or more")
        if options.get("temperature", 0) != 0:
            raise ValueError(f"temperature={options['temperature']!r}: this drafter drafts greedily; leave it out")
        self.head, self.lookup = MtpDrafter(target, **options), NgramDrafter(target, max_ngram, min_ngram)
        self.head_tokens = head_tokens
        self.needs_hidden, self.vocab_size = self.head.needs_hidden, self.head.vocab_size

    def start(self, target: Target, prompts: Sequence[Sequence[int]], hidden: tuple[Tensor, ...]) -> None:
        self.head.start(target, prompts, hidden)
        self.lookup.start(target, prompts, ())

    def commit(self, verdict: Verdict, hidden: tuple[Tensor, ...]) -> None:
        self.head.commit(verdict, hidden)
        self.lookup.commit(verdict, ())

    def keep(self, rows: Sequence[int]) -> None:
        self.head.keep(rows)
        self.lookup.keep(rows)

    def propose(self, k: Tensor, sampling: Sampling, uniforms: Tensor) -> Draft:
        wanted = k.tolist()
        found = [self.lookup.after(row, (), want) for row, want in enumerate(wanted)]
        # The head need not run for a sequence whose lookup answered: what it has not read yet waits for its next call.
        ask = [0 if tokens else min(k, self.head_tokens) for tokens, k in zip(found, wanted, strict=True)]
        guessed = self.head.propose(torch.tensor(ask), sampling, uniforms).tokens.tolist()
        for row, (tokens, want) in enumerate(zip(guessed, wanted, strict=True)):
            tokens = [token for token in tokens if token >= 0]
            if tokens:
                found[row] = tokens + self.lookup.after(row, tokens, want - len(tokens), longest_only=True)
        return Draft.of_lists(found, self.head.target.device)
