"""The short way as one compiled program for each shape: (sequences, new rows, slots).

Takes: what ``fast.FastCaller`` takes.  Returns: the same.
Must not know: anything else of this library.

A compiled call has no Python between its steps, and on a GPU it is a single graph launch. It costs a compilation for
each shape, the better part of a minute on a CPU, so shapes must be few: calls of up to ``WIDEST`` rows are compiled,
prompts are not, and caches are made in steps of ``STEP`` slots. torch keeps what it compiled on disk for the next run.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from ..cache import SlotCache
from .fast import FastCaller, is_usual, settings, turned, turns
from .packed import Begun, Packed

#: Rows of a sequence in one call that are still compiled: the last token and the longest draft.
WIDEST = 65
#: A cache's slots come in multiples of it.
STEP = 256


def capacity(slots: int) -> int:
    """The number of slots, rounded up so that few shapes occur."""
    return -(-slots // STEP) * STEP


class CompiledCaller:
    """Calls one model. The same signature as ``adapter.Caller``.

    backend: torch.compile's; None takes inductor, on a CPU with the weights frozen into the program (they are laid out
        once for its kernels, as in ``fast``), on a GPU with CUDA graphs.
    """

    def __init__(self, model: nn.Module, backend: str | None = None) -> None:
        self.model, self.backend = model, backend
        self.short = FastCaller(model)
        # Everything is watched: what is called inside a program is called as it was when it was compiled.
        self._begun = Begun()
        self._program = Packed(model, self._compile, extra=settings, copies=self._freezes)

    def _freezes(self, weight: Tensor) -> bool:
        return self.backend is None and weight.device.type == "cpu"

    def score(self, hidden: Tensor) -> Tensor:
        """(…, size) after the final norm → (…, V) logits."""
        return self.short.score(hidden)

    def _compile(self, model: nn.Module):
        if not is_usual(model):
            return None
        if self.backend is not None:
            return torch.compile(_Step(model), dynamic=False, backend=self.backend)
        if next(model.parameters()).device.type == "cpu":
            return torch.compile(_Step(model), dynamic=False, options={"freezing": True})
        return torch.compile(_Step(model), dynamic=False, mode="reduce-overhead")

    def __call__(
        self, ids: Tensor, cache: SlotCache, rows: Sequence[int] | None, want_hidden: bool, max_length: int
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """rows: the rows whose logits are wanted, the same for every sequence; None: all."""
        width = ids.shape[1]
        # The cache gets its tensors in the first call, which reads the prompt and is not compiled.
        if width > WIDEST or any(pair is None for pair in cache.layers) or type(cache) is not SlotCache:
            return self.short(ids, cache, rows, want_hidden, max_length)
        program = self._program(thorough=self._begun.first(cache))
        if program is None:
            return self.short(ids, cache, rows, want_hidden, max_length)
        keys, values = map(list, zip(*cache.layers, strict=True))
        turning = cache.positions.clamp_max(max_length - 1)  # padding may stick out
        logits, hidden = program(ids, cache.positions, turning, keys, values, want_hidden)
        # A CUDA graph writes its outputs to the same place each time.
        logits = logits.clone() if logits.is_cuda else logits
        hidden = tuple(states.clone() if states.is_cuda else states for states in hidden)
        return logits if rows is None or len(rows) == width else logits[:, list(rows)], hidden


class _Step(nn.Module):
    """A forward call as a function of tensors alone; every slot of the cache is looked at, those ahead are masked."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.decoder, self.lm_head = model.get_decoder(), model.get_output_embeddings()

    def forward(
        self, ids: Tensor, positions: Tensor, turning: Tensor, keys: list[Tensor], values: list[Tensor], keep: bool
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        x = self.decoder.embed_tokens(ids)
        turn = turns(self.decoder.rotary_emb, x, turning)
        group = self.decoder.layers[0].self_attn.num_key_value_groups
        slots = torch.arange(keys[0].shape[2], device=ids.device)
        mask = (positions[:, None, :, None] >= slots).repeat(1, 1, group, 1)
        hidden = [x]
        for layer in self.decoder.layers[: self.decoder.config.num_hidden_layers]:
            held = keys[layer.self_attn.layer_idx], values[layer.self_attn.layer_idx]
            x = x + _attention(layer.self_attn, layer.input_layernorm(x), turn, mask, positions, *held)
            y, mlp = layer.post_attention_layernorm(x), layer.mlp
            x = x + mlp.down_proj(functional.silu(mlp.gate_proj(y)) * mlp.up_proj(y))
            hidden.append(x)
        hidden[-1] = x = self.decoder.norm(x)
        return self.lm_head(x), (tuple(hidden) if keep else ())


def _attention(
    part: nn.Module,
    x: Tensor,
    turn: tuple[Tensor, Tensor],
    mask: Tensor,
    positions: Tensor,
    keys: Tensor,
    values: Tensor,
) -> Tensor:
    """As ``FastLayer``'s, but on all slots: (B, kv heads, slots, head size) keys and values, written in place."""
    batch, rows, _ = x.shape
    q, k, v = (product(x).view(batch, rows, -1, part.head_dim) for product in (part.q_proj, part.k_proj, part.v_proj))
    if hasattr(part, "q_norm"):
        q, k = part.q_norm(q), part.k_norm(k)
    q, k = turned(q, turn), turned(k, turn)
    which = torch.arange(batch, device=x.device)[:, None]
    keys[which, :, positions] = k
    values[which, :, positions] = v
    kv_heads, group = k.shape[2], q.shape[2] // k.shape[2]
    q = q.transpose(1, 2).reshape(batch, kv_heads, group * rows, part.head_dim)
    seen = functional.scaled_dot_product_attention(q, keys, values, attn_mask=mask, scale=part.scaling)
    seen = seen.view(batch, kv_heads * group, rows, part.head_dim).transpose(1, 2)
    return part.o_proj(seen.reshape(batch, rows, -1))
