"""What all drafters with a trained head share: its weights, its options, the texts so far.

Takes: a target, and a head or a folder of weights.  Returns: the common half of a drafter.
Must not know: how a kind of head guesses.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from ..models import Target
from ..records import Sampling, Verdict
from . import weights as stored
from .choice import Choice
from .head import DraftingHead, Head


class HeadDrafter:
    """Drafts greedily by default, whatever the request's temperature (as vLLM does).

    head: a head for this target; None loads one.
    weights: the folder it is loaded from; None takes the repository's own for this target.
    temperature: 0 drafts greedily; above 0 tokens are drawn at it with the request's filters; "same": at the request's.
    frequent: the tokens that the head scores (FR-Spec): None for all, a number for so many of the most frequent ones
        that the weights rank, or a list of ids. Fewer are cheaper and still lossless. "auto": 1 in 12 where a large
        vocabulary makes that pay and the weights rank tokens, else all.
    min_confidence: a sequence's draft ends before the first token whose row gives no token this probability (the head's
        own row over the tokens it scores, at temperature 1). The decision sees the row only, never the token drawn from
        it, so it is lossless; exhibit R19 of the museum is the one that is not.
    """

    kind: type[Head]

    def __init__(
        self,
        target: Target,
        head: Head | None = None,
        weights: str | Path | None = None,
        temperature: float | str = 0.0,
        frequent: int | Sequence[int] | Tensor | str | None = "auto",
        min_confidence: float = 0.0,
    ) -> None:
        self.target, self.temperature = target, Choice.check(temperature)
        number = isinstance(min_confidence, (int, float)) and not isinstance(min_confidence, bool)
        if not number or not 0 <= min_confidence < 1:
            raise ValueError(f"min_confidence={min_confidence!r}: use a number from 0 (never stop early) to below 1")
        self.min_confidence = min_confidence
        if head is not None and weights is not None:
            raise ValueError("pass head= or weights=, not both")
        if head is not None and not isinstance(head, self.kind):
            raise ValueError(f"head= must be a {self.kind.__name__}, got {type(head).__name__}")
        ranked = None
        if head is None:
            head, ranked = stored.load(self.kind, target, weights)
        self.head = head
        self.needs_hidden = tuple(head.reads)
        self.vocab_size = target.vocab_size
        self.scores = DraftingHead(target, most_frequent(frequent, ranked, target.vocab_size))

    def start(self, target: Target, prompts: Sequence[Sequence[int]], hidden: tuple[Tensor, ...]) -> None:
        self.texts = [list(prompt) for prompt in prompts]
        self.prompt_lengths = [len(prompt) for prompt in prompts]

    def commit(self, verdict: Verdict, hidden: tuple[Tensor, ...]) -> None:
        for text, tokens in zip(self.texts, verdict.tokens.tolist(), strict=True):
            text += [token for token in tokens if token >= 0]

    def keep(self, rows: Sequence[int]) -> None:
        self.texts = [self.texts[row] for row in rows]
        self.prompt_lengths = [self.prompt_lengths[row] for row in rows]

    def choice(self, sampling: Sampling) -> Choice:
        """The tokens of one proposal, empty to begin with."""
        return Choice(self.temperature, sampling, self.texts, self.prompt_lengths)

    def guess(self, choice: Choice, hidden: Tensor, uniforms: Tensor) -> Tensor | None:
        """One token more for each sequence: (B, size) hidden → (B,) bool, is the head sure enough? None: all are."""
        logits = self.scores.compact(hidden)
        if choice.is_argmax:
            choice.take(self.scores.ids(logits.argmax(-1)))
        else:
            choice.pick(self.scores.spread(logits), uniforms)
        if not self.min_confidence:
            return None
        return logits.float().softmax(-1).amax(-1) >= self.min_confidence


class Ends:
    """How many tokens each sequence drafts, as sequences stop early one after the other. k: (B,) as asked for."""

    def __init__(self, k: Tensor) -> None:
        self.k = k

    def stop(self, step: int, sure: Tensor | None) -> bool:
        """Draft token ``step`` was guessed; a draft not sure of it ends before it. True when all have ended."""
        if sure is None:
            return False
        unsure = ~sure.to(self.k.device)
        self.k = torch.where(unsure, self.k.clamp_max(step), self.k)
        return int(self.k.max()) <= step


#: Scoring 1 token in so many is the rule for vocabularies of at least so many tokens, where the lm_head is what a
#: draft step mostly costs. SmolLM2: 4,096 of 49,152.
ONE_IN, LARGE = 12, 16_384


def most_frequent(
    frequent: int | Sequence[int] | Tensor | str | None, ranked: Tensor | None, vocabulary: int
) -> Tensor | None:
    """The ids that ``frequent=`` asks for. Raises ValueError for a number without a ranking, or one too large."""
    if isinstance(frequent, str):
        if frequent != "auto":
            raise ValueError(f'frequent={frequent!r}: use "auto", None, a number or a list of token ids')
        frequent = min(vocabulary // ONE_IN, len(ranked)) if ranked is not None and vocabulary >= LARGE else None
    if frequent is None:
        return None
    if isinstance(frequent, int) and not isinstance(frequent, bool):
        if ranked is None:
            raise ValueError(f"frequent={frequent}: these weights rank no tokens; pass the ids themselves")
        if not 1 <= frequent <= len(ranked):
            raise ValueError(f"frequent={frequent}: these weights rank {len(ranked)} tokens; use 1 to {len(ranked)}")
        return ranked[:frequent]
    try:
        return torch.as_tensor(frequent)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(f"frequent= is None, a number or a list of token ids, not {frequent!r}") from error
