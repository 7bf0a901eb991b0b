"""The MTP head as DeepSeek-V3 builds it: two norms, a projection, one decoder layer, a final norm.

Takes: hidden states of the target and the embeddings of the tokens that followed them.  Returns: hidden states from
    which the target's own lm_head reads the token after that.
Must not know: how drafts are chosen or judged.

The embedding and the lm_head are the target's. They are used, never copied or stored.

Ref: DeepSeek-V3, arXiv 2412.19437, section 2.2; transformers ``modeling_layers.py:MtpLayer``.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ..cache import SlotCache
from ..models import Target
from ..models.adapter import Decoder, wrapped
from ..models.fast import FastLayer, FastNorm, is_norm, knows, turns
from ..models.packed import Packed, is_linear, joined
from .head import Head


class MtpLayer(nn.Module):
    """x = proj([enorm(embedding); hnorm(hidden)]) → one decoder layer of the target's kind → post_norm.

    embedding, hidden: (B, L, size). Row i pairs the hidden state of position i with the token at position i + 1; its
    output predicts the token at position i + 2, and is the hidden state that the next step of the head takes.
    """

    def __init__(self, decoder: Decoder, short: bool = False) -> None:
        """short: forward calls without gradients take the short way of ``models/fast.py``."""
        super().__init__()
        size = decoder.config.hidden_size
        self.enorm, self.hnorm, self.post_norm = (decoder.new_norm() for _ in range(3))
        self.eh_proj = nn.Linear(2 * size, size, bias=False)
        self.block = decoder.new_layer()
        self._packed = Packed(self, _packed) if short else None

    def mix(self, embedding: Tensor, hidden: Tensor) -> Tensor:
        return self.eh_proj(torch.cat([self.enorm(embedding), self.hnorm(hidden)], -1))

    def forward(self, decoder: Decoder, embedding: Tensor, hidden: Tensor, cache: SlotCache) -> Tensor:
        """One call behind what ``cache`` (of one layer) holds; the caller moves its counters on."""
        cache.begin(embedding.shape[1])
        x = self.mix(embedding, hidden)
        return self.post_norm(decoder.run(self.block, x, cache.positions, cache.mask(), wrapped(cache)))

    def short(self, decoder: Decoder, embedding: Tensor, hidden: Tensor, cache: SlotCache) -> Tensor:
        """What ``forward`` does, by the short way of ``models/fast.py`` where that is known and needs no gradients."""
        packed = None
        if self._packed is not None and not torch.is_grad_enabled():
            packed = self._packed(thorough=not any(cache.lengths))
        if packed is None:
            return self(decoder, embedding, hidden, cache)
        cache.begin(embedding.shape[1])
        enorm, hnorm, post_norm, mix, block = packed
        x = mix(torch.cat([enorm(embedding), hnorm(hidden)], -1))
        turn = turns(decoder.turn, x, cache.positions)
        return post_norm(block(x, turn, block.mask(cache), cache))


def _packed(layer: MtpLayer) -> tuple | None:
    home, norms = type(layer.block).__module__, (layer.enorm, layer.hnorm, layer.post_norm)
    if not (knows(layer.block) and is_linear(layer.eh_proj) and all(is_norm(norm, home) for norm in norms)):
        return None
    return *map(FastNorm, norms), joined(layer.eh_proj), FastLayer(layer.block)


class MtpHead(Head):
    """One MTP layer applied k times, or a stack of several: step s uses layer ``s % len(layers)``."""

    name = "mtp"

    def __init__(self, target: Target, num_layers: int = 1) -> None:
        super().__init__(target, num_layers=num_layers)
        if num_layers < 1:
            raise ValueError(f"num_layers={num_layers}: an MTP head has at least one layer")
        self.layers = nn.ModuleList(MtpLayer(self.decoder, target.takes_short_way) for _ in range(num_layers))
        self.ready(target)

    def read(self, hidden: tuple[Tensor, ...]) -> Tensor:
        """The target's hidden states of ``reads`` → what the first step takes, (B, L, size)."""
        return hidden[0]

    def forward(self, step: int, ids: Tensor, hidden: Tensor, cache: SlotCache) -> Tensor:
        """Step ``step`` of drafting: (B, L) ids and (B, L, size) hidden → (B, L, size)."""
        layer = self.layers[step % len(self.layers)]
        return layer.short(self.decoder, self.embed(ids), hidden, cache)

    @torch.no_grad()
    def start_from_target(self, generator: torch.Generator) -> None:
        """A start that trains fast: the block and the final norm are copies of the target's last ones, and the block
        reads what the target's last layer reads, at the scale it is used to.

        The head is given states after the target's final norm. ``hnorm`` takes that norm's gain away again and brings
        the scale back; the projection passes the result on and adds little of the embedding. Without that scale the
        copied block hardly speaks, and training takes ten times as long.
        """
        decoder = self.decoder
        scale, gain = decoder.last_layer_scale(generator), decoder.gain(decoder.norm)
        floor = 0.05 * gain.abs().median()  # an entry near 0 cannot be undone
        gain = torch.where(gain.abs() < floor, floor, gain)
        for layer in self.layers:
            layer.block.load_state_dict(decoder.layers[-1].state_dict())
            layer.post_norm.load_state_dict(decoder.norm.state_dict())
            decoder.set_gain(layer.enorm, scale)
            decoder.set_gain(layer.hnorm, scale * gain.square().mean().sqrt() / gain)
            size = layer.eh_proj.out_features
            noise = torch.randn(size, size, generator=generator) * (0.3 / size**0.5)
            weight = torch.cat([noise, torch.eye(size)], 1)  # [e; h]: the embedding's half first
            layer.eh_proj.weight.copy_(weight)
