"""What a gated LoRA is asked for: masks behind a text say what the target says once it knows the tokens there.

Takes: a head and a batch of texts with the target's hidden states.  Returns: a loss and numbers for the log.
Must not know: the loop, where texts come from.

A text is read once, by the target, without gradients: no row of it depends on what is trained. Then the masks of many
anchors are read in one call behind it. Mask j of the anchor at position i stands at position i + 1 + j and sees the
text up to i and the masks of its own anchor up to itself, which is what it sees when it drafts after token i.

Ref: Samragh et al., arXiv 2507.11851 (there the losses of the mask and of the sampler head are cross-entropies with the
    text's own tokens).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ..cache import SlotCache
from ..drafters.gated_lora import GatedLora
from ..models.adapter import Caller
from .loop import Batch
from .objectives import Distillation

#: What each part of the loss weighs: KL divergence of the sampler head's guess, of the mask's own, and the distance of
#: hidden states. The last two only help the first; in short runs on nano they cost acceptance when they weigh as much.
SAMPLER, MASK, CONSISTENCY = 1.0, 0.3, 0.1


class GatedLoraObjective(Distillation):
    """The weighted sum of three parts, over the masks of ``anchors`` random positions of each text's answer:

    - KL divergence from the target's distribution to the one of the sampler head, which is told the true token before;
    - the same to the one of the mask's hidden state itself;
    - the latent consistency loss: mean squared distance of the mask's hidden state from the target's own at that
      position. It is divided by the mean square of the latter, so that its weight means the same for every target.

    Mask j weighs ``decay ** j``; only masks at whose position a next token is wanted count.
    """

    head: GatedLora

    def __init__(
        self,
        head: GatedLora,
        recorded: Sequence[int],
        frequent: Tensor,
        decay: float = 0.7,
        anchors: int = 16,
        weights: tuple[float, float, float] = (SAMPLER, MASK, CONSISTENCY),
    ) -> None:
        super().__init__(head, recorded, frequent, decay)
        if anchors < 1:
            raise ValueError(f"anchors={anchors}: use at least one a text")
        self.anchors, self.weights = anchors, weights

    def loss(self, batch: Batch, generator: torch.Generator) -> tuple[Tensor, dict[str, float]]:
        """The loss, and for mask j: kl{j+1} and match{j+1} of the sampler head; and the mean ``consistency``."""
        anchors = choose_anchors(batch.wanted, self.anchors, generator)
        hidden = read_masks(self.head, batch.ids, anchors)
        (final,) = self.states(batch, (-1,))
        total, row, distances = 0 * hidden.sum(), {}, []  # in a batch without a wanted mask the loss is 0
        for j in range(self.head.num_masks):
            place = (anchors + 1 + j).clamp_max(batch.ids.shape[1] - 1)  # no next token follows the last: never wanted
            wanted = batch.wanted.gather(1, place) & (anchors >= 0)
            text, anchor = wanted.nonzero(as_tuple=True)
            if not len(text):
                continue
            place = place[text, anchor]
            theirs, mine = final[text, place].float(), hidden[text, anchor, j]
            teacher = self.scores(theirs)
            student = self.scores(self.head.sample(mine, batch.ids[text, place]))
            parts = (
                _kl(teacher, student),
                _kl(teacher, self.scores(mine)),
                (mine.float() - theirs).square().mean() / theirs.square().mean(),
            )
            total = total + self.decay**j * sum(w * part for w, part in zip(self.weights, parts, strict=True))
            row[f"kl{j + 1}"] = float(parts[0].detach())
            row[f"match{j + 1}"] = float((student.argmax(-1) == teacher.argmax(-1)).float().mean())
            distances.append(float(parts[2].detach()))
        if distances:
            row["consistency"] = sum(distances) / len(distances)
        return total, row


def _kl(teacher: Tensor, student: Tensor) -> Tensor:
    """(N, F) log-probabilities → the mean KL divergence in nats."""
    return torch.nn.functional.kl_div(student, teacher, log_target=True, reduction="none").sum(-1).mean()


def choose_anchors(wanted: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """(B, L) bool → (B, ≤ count) positions, at random and none twice; -1 where a text has too few.

    An anchor is a wanted position whose next one is wanted, too: the first mask stands there.
    """
    fit = wanted[:, :-1] & wanted[:, 1:]
    lots = torch.rand(fit.shape, generator=generator).to(fit.device).masked_fill(~fit, -1)
    drawn, places = lots.topk(min(count, fit.shape[1]), dim=1)
    return places.masked_fill(drawn < 0, -1)


def read_masks(head: GatedLora, ids: Tensor, anchors: Tensor) -> Tensor:
    """The hidden states at the masks of each anchor: ids (B, L), anchors (B, A) → (B, A, num_masks, size).

    An anchor of -1 gives numbers without meaning.
    """
    (batch, length), gated = ids.shape, head.gated
    text = SlotCache(gated.num_layers, batch, ids.device, length)
    with torch.no_grad():
        text.begin(length)
        # The target itself, not its gated copy: these rows are the same in both, and it computes no LoRA.
        Caller(head.decoder.model)(ids, text, [0], False, gated.max_length)
    masks = torch.tensor(head.mask_ids, device=ids.device).expand(*anchors.shape, -1).flatten(1)
    rows = _BehindAnchors(text, anchors.clamp_min(0), head.num_masks)
    states = Caller(gated.model)(masks, rows, [0], True, gated.max_length)[1][-1]
    return states.unflatten(1, (anchors.shape[1], head.num_masks))


class _BehindAnchors(SlotCache):
    """Stands in for a cache while the masks of all anchors are read at once: keys and values of the text, then those of
    the masks, which keep their gradients."""

    def __init__(self, text: SlotCache, anchors: Tensor, num_masks: int) -> None:
        super().__init__(len(text.layers), text.batch, text.device, capacity=0)
        self.text, self.length = text, text.visible
        self.anchors = anchors.repeat_interleave(num_masks, 1)  # (B, A · num_masks)
        self.owner = torch.arange(anchors.shape[1], device=self.device).repeat_interleave(num_masks)
        step = torch.arange(num_masks, device=self.device).repeat(anchors.shape[1])
        self.positions = self.anchors + 1 + step
        self.visible = self.length + self.positions.shape[1]

    def mask(self, window: int | None = None) -> Tensor:
        """(B, 1, A · num_masks, L + A · num_masks) bool."""
        places = torch.arange(self.length, device=self.device).expand(self.batch, -1)
        in_text = places[:, None] <= self.anchors[..., None]
        behind = self.positions[..., None] - torch.cat([places, self.positions], 1)[:, None]
        own = (self.owner[:, None] == self.owner) & (behind[..., self.length :] >= 0)
        seen = torch.cat([in_text, own], -1)
        return (seen if window is None else seen & (behind < window))[:, None]

    def write(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        held = (part[:, :, : self.length] for part in self.text.layers[layer])
        return tuple(torch.cat([old.to(new.dtype), new], 2) for old, new in zip(held, (keys, values), strict=True))
