"""How a drafter that has logits picks its tokens: greedily, or at a temperature of its own.

Takes: logits, the request's sampling, what was said.  Returns: draft distributions, tokens, a ``Draft``.
Must not know: where the logits come from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from ..records import Draft, Sampling
from ..sampling import inverse_cdf, probabilities_unchecked


class Choice:
    """The tokens of one proposal, step by step.

    temperature: 0 drafts greedily, whatever the request's temperature (as vLLM does); above 0 the tokens are drawn at
        it with the request's filters and penalties, and the distributions recorded; "same": at the request's own.
    texts: the ids of each sequence so far.  prompt_lengths: how many of them are its prompt.
    """

    def __init__(
        self,
        temperature: float | str,
        sampling: Sampling,
        texts: Sequence[list[int]],
        prompt_lengths: Sequence[int],
    ) -> None:
        own = sampling.temperature if temperature == "same" else float(temperature)
        self.sampling = replace(sampling, temperature=own)
        self.texts, self.prompt_lengths = texts, prompt_lengths
        self.tokens: list[Tensor] = []
        self.probs: list[Tensor] = []

    @staticmethod
    def check(temperature: float | str) -> float | str:
        """The temperature itself. Raises ValueError unless it is a number from 0 or "same"."""
        if temperature != "same":
            Sampling(temperature=temperature)
        return temperature

    @property
    def is_argmax(self) -> bool:
        """The likeliest token is taken and nothing bends the logits: no distribution need be made."""
        return self.sampling.temperature == 0 and not self.sampling.has_penalties

    def pick(self, logits: Tensor, uniforms: Tensor) -> Tensor:
        """(B, V) logits and (B,) uniforms → (B,) the next draft token of each sequence."""
        history = lengths = None
        if self.sampling.has_penalties:  # they count the draft tokens before this one, too
            width = max(map(len, self.texts))
            said = torch.tensor([text + [-1] * (width - len(text)) for text in self.texts], device=logits.device)
            history = torch.cat([said, *(token[:, None] for token in self.tokens)], 1)
            lengths = torch.tensor(self.prompt_lengths, device=logits.device)
        probs = probabilities_unchecked(logits[:, None], self.sampling, history, lengths)[:, 0]
        token = probs.argmax(-1) if self.sampling.temperature == 0 else inverse_cdf(probs, uniforms)
        self.probs.append(probs)
        return self.take(token)

    def take(self, token: Tensor) -> Tensor:
        """(B,) the next draft token of each sequence, chosen without randomness."""
        self.tokens.append(token)
        return token

    def draft(self, k: Tensor) -> Draft:
        """The proposal: the first ``k`` (B,) tokens of each sequence."""
        if not self.tokens:
            return Draft.of_lists([[]] * len(k), k.device)
        longest = int(k.max())
        tokens = torch.stack(self.tokens[:longest], 1) if longest else self.tokens[0].new_empty(len(k), 0)
        beyond = torch.arange(tokens.shape[1], device=tokens.device) >= k.to(tokens.device)[:, None]
        greedy = self.sampling.temperature == 0
        return Draft.trusted(
            tokens.masked_fill(beyond, -1), None if greedy or not longest else torch.stack(self.probs[:longest], 1)
        )
