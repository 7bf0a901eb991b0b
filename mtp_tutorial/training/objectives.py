"""What each kind of head is asked for: the target's own distribution, at the place the head guesses.

Takes: a head and a batch of texts with the target's hidden states.  Returns: a loss and numbers for the log.
Must not know: the loop, where texts come from.

The loss is the KL divergence from the target's whole next-token distribution, which teaches several times faster than
the token that happened to be drawn. It is taken over the most frequent tokens only, which makes the lm_head cheap.

An MTP or EAGLE head is unrolled over several steps, as in drafting: step 1 reads the target's hidden states, each later
step the output of the one before. Step s at position i sees the true pairs up to i and its own chain of guesses, never
another position's.

Ref: Hinton et al., arXiv 1503.02531 (distillation); EAGLE-3, arXiv 2503.01840 (training-time test); FastMTP,
    arXiv 2509.18362; Medusa, arXiv 2401.10774, section 2.2 (a weight that falls with the place).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import torch
from torch import Tensor

from ..drafters.head import Head
from ..drafters.medusa import MedusaHead
from ..drafters.mtp_head import MtpHead
from ..drafters.small_model import SmallModel
from .loop import Batch
from .selfdistill import Text


def most_frequent_tokens(texts: Sequence[Text], count: int) -> Tensor:
    """(≤ count,) ids, the one that the answers use most first."""
    seen = Counter(token for text in texts for token in text.ids[text.prompt :].tolist())
    return torch.tensor([token for token, _ in sorted(seen.items(), key=lambda item: (-item[1], item[0]))[:count]])


class Distillation:
    """The mean KL divergence from the target, over the places that a head guesses.

    recorded: the layers whose states the texts carry, in order; the last must be -1.
    frequent: (F,) ids that the loss looks at.  decay: place s weighs ``decay ** (s - 1)``.
    """

    def __init__(self, head: Head, recorded: Sequence[int], frequent: Tensor, decay: float = 0.7) -> None:
        if not recorded or recorded[-1] != -1 or any(layer not in recorded for layer in head.reads):
            raise ValueError(
                f"the texts carry the hidden states of layers {list(recorded)}; a {head.name!r} head needs "
                f"{[*head.reads, -1]}: make the answers again with those"
            )
        self.head, self.recorded, self.decay = head, list(recorded), decay
        lm_head = head.decoder.lm_head.weight.detach()
        self.rows = lm_head[frequent.to(lm_head.device)]

    def states(self, batch: Batch, layers: Sequence[int]) -> tuple[Tensor, ...]:
        """(B, L, size) for each of the layers."""
        parts = batch.states.chunk(len(self.recorded), -1)
        return tuple(parts[self.recorded.index(layer)] for layer in layers)

    def guesses(self, batch: Batch) -> list[tuple[int, Tensor]]:
        """(shift, outputs): row i of the outputs, (B, L - shift, size), is a guess of what the target's last state of
        position i + shift says."""
        raise NotImplementedError

    def loss(self, batch: Batch, generator: torch.Generator) -> tuple[Tensor, dict[str, float]]:
        guesses = self.guesses(batch)
        furthest = max(shift for shift, _ in guesses)
        wanted = batch.wanted.clone()
        wanted[:, :furthest] = False  # what the furthest guess cannot reach, none is asked for
        text, place = wanted.nonzero(as_tuple=True)
        (final,) = self.states(batch, (-1,))
        teacher = self.scores(final[text, place])
        total, row = torch.zeros((), device=final.device), {}
        for number, (shift, outputs) in enumerate(guesses, 1):
            student = self.scores(outputs[text, place - shift])
            kl = torch.nn.functional.kl_div(student, teacher, log_target=True, reduction="none").sum(-1).mean()
            total = total + self.decay ** (number - 1) * kl
            row[f"kl{number}"] = float(kl.detach())
            row[f"match{number}"] = float((student.argmax(-1) == teacher.argmax(-1)).float().mean())
        return total, row

    def scores(self, hidden: Tensor) -> Tensor:
        """(N, size) → (N, F) log-probabilities over the frequent tokens."""
        return torch.nn.functional.linear(hidden.to(self.rows.dtype), self.rows).float().log_softmax(-1)


class MtpObjective(Distillation):
    """For MTP and EAGLE heads: ``unroll`` steps, each reading what the one before gave."""

    head: MtpHead

    def __init__(
        self, head: MtpHead, recorded: Sequence[int], frequent: Tensor, decay: float = 0.7, unroll: int = 3
    ) -> None:
        super().__init__(head, recorded, frequent, decay)
        self.unroll = unroll

    def guesses(self, batch: Batch) -> list[tuple[int, Tensor]]:
        states = self.head.read(self.states(batch, self.head.reads))
        return list(enumerate(unrolled(self.head, batch.ids, states, self.unroll), 1))


class MedusaObjective(Distillation):
    """Head s reads the state of position i and guesses what that of position i + s says."""

    head: MedusaHead

    def guesses(self, batch: Batch) -> list[tuple[int, Tensor]]:
        (final,) = self.states(batch, (-1,))
        hidden = final.to(self.head.blocks[0].weight.dtype)
        length = hidden.shape[1]
        return [(s, self.head(hidden[:, : length - s], s - 1)) for s in range(1, len(self.head.blocks) + 1)]


class SmallModelObjective(Distillation):
    """A draft model reads the text and guesses what the target's state of the same position says."""

    head: SmallModel

    def guesses(self, batch: Batch) -> list[tuple[int, Tensor]]:
        return [(0, self.head(batch.ids))]


class _Chain:
    """Stands in for a KV cache in training: every step's keys and values, one after another, with their gradients."""

    def __init__(self) -> None:
        self.keys: list[Tensor] = []
        self.values: list[Tensor] = []

    def update(self, keys: Tensor, values: Tensor, *args, **kwargs) -> tuple[Tensor, Tensor]:
        self.keys.append(keys)
        self.values.append(values)
        return torch.cat(self.keys, 2), torch.cat(self.values, 2)


def chain_mask(length: int, step: int) -> Tensor:
    """(1, 1, n_s, n_1 + … + n_s) bool with n_s = length - s: what step s (from 1) may see.

    Position i sees the pairs of step 1 up to i, and of each later step its own pair only.
    """
    rows = torch.arange(length - step)[:, None]
    parts = [torch.arange(length - 1) <= rows]
    parts += [torch.arange(length - earlier) == rows for earlier in range(2, step + 1)]
    return torch.cat(parts, 1)[None, None]


def unrolled(head: MtpHead, ids: Tensor, states: Tensor, unroll: int) -> list[Tensor]:
    """Outputs of steps 1 … unroll: (B, L - s, size) each; row i of step s predicts the token at position i + s + 1.

    ids: (B, L) int64; states: (B, L, size), what the head's first step reads.
    """
    length = ids.shape[1]
    dtype = head.layers[0].eh_proj.weight.dtype
    embedded = head.embed(ids).to(dtype)
    hidden, found = states.to(dtype), []
    chains = [_Chain() for _ in head.layers]
    for step in range(1, unroll + 1):
        n = length - step
        layer = head.layers[(step - 1) % len(head.layers)]
        x = layer.mix(embedded[:, step:], hidden[:, :n])
        positions = torch.arange(n, device=ids.device)[None] + step - 1
        chain = chains[(step - 1) % len(head.layers)]
        if len(head.layers) == 1:
            mask = chain_mask(length, step)
        else:  # a layer of a stack reads its pairs once, all of them true ones in training
            mask, chain = torch.ones(n, n, dtype=torch.bool).tril()[None, None], _Chain()
        block = head.decoder.run(layer.block, x, positions.expand(len(ids), -1), mask.to(ids.device), chain)
        hidden = layer.post_norm(block)
        found.append(hidden)
    return found
