"""What all trained heads share: they borrow the target's parts, and score tokens with its lm_head or some rows of it.

Takes: a target.  Returns: a module whose weights are its own only, and a drafting head.
Must not know: how drafts are chosen or judged, how heads are trained, where weights lie.

Ref: FR-Spec, arXiv 2502.14856 (drafting over a frequency-ranked part of the vocabulary).
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from ..models import Target
from ..models.adapter import Decoder
from ..models.packed import Packed, is_linear, product


class Head(nn.Module):
    """A trained guesser that belongs to one target.

    settings: what to pass, beside the target, to make a head of the same shape.
    reads: the target's hidden states that it reads (-1: after the final norm; i: after layer i).
    """

    name: str
    reads: tuple[int, ...] = (-1,)

    def __init__(self, target: Target, **settings) -> None:
        super().__init__()
        self.settings = settings
        self._borrowed = (Decoder(target.model),)  # in a tuple, so that the target's weights are not the head's

    @property
    def decoder(self) -> Decoder:
        return self._borrowed[0]

    def embed(self, ids: Tensor) -> Tensor:
        return self.decoder.embedding(ids).detach()  # the target's: it learns nothing here

    def ready(self, target: Target) -> None:
        """At the end of making one: on the target's device, in its dtype, for use."""
        self.to(device=target.device, dtype=target.dtype).eval()

    def start_from_target(self, generator: torch.Generator) -> None:
        """Give the weights a start from which they train fast."""
        raise NotImplementedError


class DraftingHead(nn.Module):
    """The target's lm_head, or those rows of it that belong to the most frequent tokens.

    frequent: (F,) ids, or None for all. Fewer rows make a draft cheaper; a token that has none is never drafted, which
    costs acceptance where the target says it and changes no output (the verify rule sees to that).
    """

    def __init__(self, target: Target, frequent: Tensor | None = None) -> None:
        super().__init__()
        self.vocab_size = target.vocab_size
        self.frequent = None if frequent is None else _checked(frequent, target).sort().values
        self._target = (target,)  # in a tuple, so that the target's weights are not the head's
        lm_head = target.model.get_output_embeddings
        self._some = Packed(lm_head, self._rows, copies=lambda weight: True)

    def _rows(self, lm_head: nn.Module) -> Callable[[Tensor], Tensor] | None:
        if not is_linear(lm_head):
            return None
        weight, bias = lm_head.weight.detach(), lm_head.bias
        rows = weight[self.frequent], None if bias is None else bias.detach()[self.frequent]
        if self._target[0].takes_short_way:
            return product([rows])
        return lambda hidden: nn.functional.linear(hidden, *rows)

    def forward(self, hidden: Tensor) -> Tensor:
        """(…, size) → (…, V) logits; -inf for the tokens that are not scored."""
        return self.spread(self.compact(hidden))

    def compact(self, hidden: Tensor) -> Tensor:
        """(…, size) → (…, F) logits of the tokens that are scored, in the order of their ids."""
        target = self._target[0]
        if self.frequent is None:
            return target.score(hidden)
        rows = self._some()
        return target.score(hidden)[..., self.frequent] if rows is None else rows(hidden)

    def spread(self, logits: Tensor) -> Tensor:
        """(…, F) → (…, V): -inf for the tokens that are not scored."""
        if self.frequent is None:
            return logits
        full = logits.new_full((*logits.shape[:-1], self.vocab_size), -torch.inf)
        return full.index_copy_(-1, self.frequent, logits)

    def ids(self, places: Tensor) -> Tensor:
        """Places among the scored tokens → token ids."""
        return places if self.frequent is None else self.frequent[places]


def _checked(frequent: Tensor, target: Target) -> Tensor:
    ids = torch.as_tensor(frequent, device=target.device)
    if ids.ndim != 1 or not len(ids) or ids.dtype.is_floating_point or ids.dtype == torch.bool:
        raise ValueError("frequent= is a list of token ids, at least one")
    ids = ids.long()
    if int(ids.min()) < 0 or int(ids.max()) >= target.vocab_size:
        raise ValueError(
            f"frequent= holds the id {int(ids.max() if int(ids.min()) >= 0 else ids.min())}; {target.name} knows "
            f"ids 0 to {target.vocab_size - 1}"
        )
    if len(ids.unique()) < len(ids):
        raise ValueError("frequent= names a token twice: each id once")
    return ids
