"""Draft-model drafter: a second, smaller causal model with the target's vocabulary runs ahead.

Takes: the tokens so far.  Returns: k tokens, each from one forward call of the draft model.
Must not know: verify rules; the target only by its vocabulary.

Ref: Leviathan et al., arXiv 2211.17192; Chen et al., arXiv 2302.01318.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from ..models import Target, check_same_vocabulary, load, wrap
from ..records import Draft, Sampling, Verdict
from . import weights as stored
from .choice import Choice
from .head_drafter import most_frequent
from .small_model import SmallModel


class DraftModelDrafter:
    """Drafts greedily by default, whatever the request's temperature (as vLLM does).

    model: a Target, a transformers model, a Hugging Face id or a folder; the target itself makes a self-draft. None
        takes the small model that the repository trained for this target.
    weights: a folder of such a small model, in place of ``model``.
    temperature: 0 drafts greedily (``Draft.probs`` is None); above 0 the tokens are drawn at that temperature, with the
        request's top-k, top-p, min-p and penalties, and the distributions are recorded; "same" takes the request's own.
    frequent: for a small model, the tokens that it scores (see ``HeadDrafter``).

    A draft model may have a shorter context than its target. A sequence that outgrows it is decoded without drafts from
    there on, and a warning says so, once for each batch.
    """

    needs_hidden: tuple[int, ...] = ()

    def __init__(
        self,
        target: Target,
        model: object = None,
        weights: str | Path | None = None,
        temperature: float | str = 0.0,
        frequent: int | Sequence[int] | Tensor | str | None = "auto",
    ) -> None:
        self.model = _model(target, model, weights, frequent)
        check_same_vocabulary(target, self.model)
        self.vocab_size = self.model.vocab_size
        self.temperature = Choice.check(temperature)

    def start(self, target: Target, prompts: Sequence[Sequence[int]], hidden: tuple[Tensor, ...]) -> None:
        self.texts = [list(prompt) for prompt in prompts]
        self.prompt_lengths = [len(prompt) for prompt in prompts]
        self.cache = self.model.new_cache(len(prompts), min(max(self.prompt_lengths), self.model.max_length) + 128)
        self.has_warned = False
        if any(self._room()):
            self._read_unread()

    def _room(self) -> list[int]:
        """How many tokens each sequence can draft. The last of them is never read, so it may lie past the context."""
        return [max(self.model.max_length + 1 - len(text), 0) for text in self.texts]

    def _warn_once(self, longest: int) -> None:
        if not self.has_warned:
            self.has_warned = True
            warnings.warn(
                f"the drafter ({self.model.name}) has a context of {self.model.max_length} tokens: a text has reached "
                f"{longest}, so it is decoded without drafts from there on. The output stays right but comes more "
                "slowly; a draft model with as long a context as the target's would go on drafting",
                stacklevel=2,
            )

    def _read_unread(self) -> Tensor:
        """Feed each sequence that still fits the context (at least one does) what its cache lacks."""
        pairs = zip(self.texts, self.cache.lengths, self._room(), strict=True)
        return self._read([text[length:] if room else [] for text, length, room in pairs])

    def _read(self, rows: list[list[int]]) -> Tensor:
        """Feed each sequence its tokens (at least one somewhere); return the logits after the last, (B, 1, V)."""
        width = max(map(len, rows))
        ids = torch.tensor([row + [0] * (width - len(row)) for row in rows], device=self.model.device)
        return self.model.forward(ids, [len(row) for row in rows], self.cache, last_only=True)[0]

    def propose(self, k: Tensor, sampling: Sampling, uniforms: Tensor) -> Draft:
        room = self._room()
        if any(want and not free for want, free in zip(k.tolist(), room, strict=True)):
            self._warn_once(max(map(len, self.texts)))
        k = k.minimum(torch.tensor(room, device=k.device))
        wanted = k.tolist()
        longest = max(wanted, default=0)
        if longest == 0:
            return Draft.of_lists([[]] * len(wanted), self.model.device)
        choice = self.choice(sampling)
        # What the cache lacks: the last token, and after an all-accepted round the last draft token before it.
        logits = self._read_unread()
        for step in range(longest):
            token = choice.pick(logits[:, 0], uniforms[:, step])
            if step + 1 < longest:
                counts = [int(step + 1 < want) for want in wanted]
                logits = self.model.forward(token[:, None], counts, self.cache, last_only=True)[0]
        return choice.draft(k)

    def choice(self, sampling: Sampling) -> Choice:
        """The tokens of one proposal, empty to begin with."""
        return Choice(self.temperature, sampling, self.texts, self.prompt_lengths)

    def commit(self, verdict: Verdict, hidden: tuple[Tensor, ...]) -> None:
        accepted = verdict.num_accepted.tolist()
        # Right in the cache: the old text and the accepted draft tokens, as far as they were fed. The last draft
        # token never was, so after an all-accepted round it is missing, and the next call reads it first.
        self.cache.roll_back(
            [
                min(length, len(text) + n)
                for length, text, n in zip(self.cache.lengths, self.texts, accepted, strict=True)
            ]
        )
        for text, tokens in zip(self.texts, verdict.tokens.tolist(), strict=True):
            text.extend(token for token in tokens if token >= 0)

    def keep(self, rows: Sequence[int]) -> None:
        self.texts = [self.texts[row] for row in rows]
        self.prompt_lengths = [self.prompt_lengths[row] for row in rows]
        self.cache.keep(rows)


def _model(target: Target, model: object, weights: str | Path | None, frequent: object) -> Target:
    """What the options name, as a Target."""
    if model is None:
        if weights is None and not stored.bundled(target, SmallModel.name).is_dir():
            raise ValueError(
                f"the repository has no draft model for {target.name}: pass model= (a Target, a transformers model, an "
                "id or a folder), or weights= (a folder that `mtp-tutorial train --drafter draft` made)"
            )
        small, ranked = stored.load(SmallModel, target, weights)
        return small.as_target(target, most_frequent(frequent, ranked, target.vocab_size))
    if weights is not None:
        raise ValueError("pass model= or weights=, not both")
    if isinstance(model, SmallModel):
        return model.as_target(target, most_frequent(frequent, None, target.vocab_size))
    if frequent not in (None, "auto"):
        raise ValueError("frequent= goes with the repository's own small models, not with model=")
    if isinstance(model, torch.nn.Module):
        return wrap(model, name="draft model")
    return model if isinstance(model, Target) else load(model, device=target.device)
