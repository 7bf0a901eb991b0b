"""The same forward call in fewer steps, for models of the Llama kind in half precision.

Takes: a transformers model, ids, a ``SlotCache``.  Returns: logits of the rows asked for, and hidden states.
Must not know: anything else of this library.

At batch 1 a small model on a CPU spends as much time between its matrix products as in them: masks built again in each
layer, keys and values copied for every query head, queries and keys turned one after the other. And the products
themselves read weights that lie in memory as a file has them, not as the CPU's kernels like them best. This module does
what the model does in fewer steps, with weights laid out once for those kernels. The model itself stays as it is.

The results are the model's own up to the order of additions: a rounding apart in bf16, about 1e-6 in float64, where the
model still takes its norms in float32.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from ..cache import SlotCache
from .adapter import text_config

#: Their layers are: norm, attention with rotary positions, norm, gated MLP. Qwen3 has a norm on queries and keys, too.
KINDS = ("LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM")
_PAGE_OUT = 21  # Linux's MADV_PAGEOUT: these pages may be dropped; they are read again from where they came when needed


def supports(model: nn.Module) -> bool:
    """Whether ``FastCaller`` can do what this model does: the kind, the activation, no window, a single device."""
    if type(model).__name__ not in KINDS:
        return False
    config = text_config(model)
    kinds = set(getattr(config, "layer_types", None) or ())
    slides = "sliding_attention" in kinds or (not kinds and getattr(config, "sliding_window", None) is not None)
    devices = {tensor.device for tensor in model.parameters()}
    plain = all(type(part) is nn.Linear for layer in model.get_decoder().layers for part in _linears(layer))
    usual = config.hidden_act in ("silu", "swish") and getattr(config, "_attn_implementation", "sdpa") == "sdpa"
    return not slides and plain and usual and len(devices) == 1


def _linears(layer: nn.Module) -> list[nn.Module]:
    """What multiplies in a layer; another kind of module there (quantised, with adapters) has ways of its own."""
    attention, mlp = layer.self_attn, layer.mlp
    return [
        attention.q_proj,
        attention.k_proj,
        attention.v_proj,
        attention.o_proj,
        mlp.gate_proj,
        mlp.up_proj,
        mlp.down_proj,
    ]


class FastCaller:
    """Calls one model. The same signature as ``adapter.Caller``.

    Weights that are changed in place, or exchanged, are noticed and laid out again.
    """

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.decoder = model.get_decoder()
        self._laid = Laid(model, self._lay_out)

    def _lay_out(self) -> tuple[list[FastLayer], FastNorm, Callable[[Tensor], Tensor]]:
        for weight in (part.weight for part in self._laid.linears if _packs(part.weight)):
            _not_needed_now(weight)  # all at once, so that matrices to come and packed ones are not held together
        _give_back()
        head = self.model.get_output_embeddings()
        lm_head = joined(head) if type(head) is nn.Linear else head
        return [FastLayer(layer) for layer in self.decoder.layers], FastNorm(self.decoder.norm), lm_head

    @property
    def is_watched(self) -> bool:
        """Somebody hooked the model, or put another forward in its place: then it must be called itself."""
        model = self.model
        return bool(model._forward_hooks or model._forward_pre_hooks or "forward" in vars(model))

    def __call__(
        self, ids: Tensor, cache: SlotCache, rows: Sequence[int] | None, want_hidden: bool, max_length: int
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """rows: the rows whose logits are wanted, the same for every sequence; None: all."""
        layers, norm, lm_head = self._laid()
        x = self.decoder.embed_tokens(ids)
        turn = turns(self.decoder.rotary_emb, x, cache.positions.clamp_max(max_length - 1))  # padding may stick out
        mask = layers[0].mask(cache)
        hidden = [x]
        for index, layer in enumerate(layers):
            x = layer(x, turn, mask, cache, index)
            hidden.append(x)
        hidden[-1] = x = norm(x)
        wanted = x if rows is None or len(rows) == x.shape[1] else x[:, list(rows)]
        return lm_head(wanted), (tuple(hidden) if want_hidden else ())

    def score(self, hidden: Tensor) -> Tensor:
        """(…, size) after the final norm → (…, V) logits."""
        return self._laid()[2](hidden)


class Laid:
    """What ``make`` makes of a module's weights; made again when they have changed since."""

    def __init__(self, module: nn.Module, make: Callable[[], object]) -> None:
        self.linears = [part for part in module.modules() if isinstance(part, nn.Linear)]
        self.make = make
        self.state: list = []

    def __call__(self):
        weights = [part.weight for part in self.linears]
        state = [(weight.data_ptr(), weight._version) for weight in weights]
        if state != self.state:
            self.made, self.state = self.make(), state
        return self.made


class FastLayer:
    """One decoder layer, its matrices joined where they read the same input."""

    def __init__(self, layer: nn.Module) -> None:
        attention, mlp = layer.self_attn, layer.mlp
        self.scaling, self.head_size = attention.scaling, attention.head_dim
        self.heads = attention.q_proj.out_features // self.head_size
        self.kv_heads = attention.k_proj.out_features // self.head_size
        self.group = self.heads // self.kv_heads
        self.norm_in, self.norm_out = FastNorm(layer.input_layernorm), FastNorm(layer.post_attention_layernorm)
        self.norm_q = FastNorm(attention.q_norm) if hasattr(attention, "q_norm") else None
        self.norm_k = FastNorm(attention.k_norm) if hasattr(attention, "k_norm") else None
        self.qkv = product(
            [(part.weight, part.bias) for part in (attention.q_proj, attention.k_proj, attention.v_proj)]
        )
        self.o = product([(attention.o_proj.weight, attention.o_proj.bias)])
        self.gate_up = product([(part.weight, part.bias) for part in (mlp.gate_proj, mlp.up_proj)])
        self.down = product([(mlp.down_proj.weight, mlp.down_proj.bias)])

    def mask(self, cache: SlotCache) -> Tensor | None:
        """(B, 1, group · L, S) bool, or None where every row sees every slot: one new token in a single sequence."""
        if cache.batch == 1 and cache.positions.shape[1] == 1:
            return None
        return cache.mask().repeat(1, 1, self.group, 1)

    def __call__(
        self, x: Tensor, turn: tuple[Tensor, Tensor], mask: Tensor | None, cache: SlotCache, index: int
    ) -> Tensor:
        """(B, L, size) → (B, L, size); keys and values go to layer ``index`` of the cache."""
        x = x + self._attention(self.norm_in(x), turn, mask, cache, index)
        gate, up = self.gate_up(self.norm_out(x)).chunk(2, -1)
        return x + self.down(functional.silu(gate) * up)

    def _attention(
        self, x: Tensor, turn: tuple[Tensor, Tensor], mask: Tensor | None, cache: SlotCache, index: int
    ) -> Tensor:
        batch, rows, _ = x.shape
        turning, v = (
            self.qkv(x).view(batch, rows, -1, self.head_size).split((self.heads + self.kv_heads, self.kv_heads), 2)
        )
        if self.norm_q is not None:
            q, k = turning.split((self.heads, self.kv_heads), 2)
            turning = torch.cat([self.norm_q(q), self.norm_k(k)], 2)
        q, k = turned(turning, turn).split((self.heads, self.kv_heads), 2)
        keys, values = cache.write(index, k.transpose(1, 2), v.transpose(1, 2))
        # The query heads that share a key head become rows of it: the keys need not be copied for each of them.
        q = q.transpose(1, 2).reshape(batch, self.kv_heads, self.group * rows, self.head_size)
        seen = functional.scaled_dot_product_attention(q, keys, values, attn_mask=mask, scale=self.scaling)
        seen = seen.view(batch, self.heads, rows, self.head_size).transpose(1, 2)
        return self.o(seen.reshape(batch, rows, -1))


class FastNorm:
    """Root mean square norm; in float32 whatever the model's dtype, as transformers does it."""

    def __init__(self, norm: nn.Module) -> None:
        self.norm, self.epsilon = norm, norm.variance_epsilon

    def __call__(self, x: Tensor) -> Tensor:
        wide = x if x.dtype == torch.float64 else x.float()
        size = torch.linalg.vector_norm(wide, dim=-1, keepdim=True)
        scale = torch.rsqrt(size.square_().div_(x.shape[-1]).add_(self.epsilon))
        return self.norm.weight * (wide * scale).to(x.dtype)


def turns(rotary: nn.Module, x: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
    """Cosines and sines of (B, L) positions, each (B, L, 1, head size)."""
    cos, sin = rotary(x, positions)
    return cos[:, :, None], sin[:, :, None]


def turned(x: Tensor, turn: tuple[Tensor, Tensor]) -> Tensor:
    """(B, L, heads, head size) queries or keys, turned by their positions."""
    cos, sin = turn
    one, two = x.chunk(2, -1)
    return x * cos + torch.cat([-two, one], -1) * sin


def joined(*linears: nn.Linear) -> Callable[[Tensor], Tensor]:
    """Linear layers that read the same input as one, their outputs side by side."""
    return product([(linear.weight, linear.bias) for linear in linears])


def product(parts: Sequence[tuple[Tensor, Tensor | None]]) -> Callable[[Tensor], Tensor]:
    """x → x · Wᵀ + b for one or more (weight, bias) that read the same input, their outputs side by side."""
    parts = [(weight.detach(), None if bias is None else bias.detach()) for weight, bias in parts]
    weights, biases = zip(*parts, strict=True)
    if not _packs(weights[0]):
        if len(parts) == 1:
            return lambda x: functional.linear(x, *parts[0])
        return lambda x: torch.cat([functional.linear(x, *part) for part in parts], -1)
    bias = None if biases[0] is None else torch.cat(biases)
    packed = torch.ops.mkldnn._reorder_linear_weight(torch.cat(weights) if len(parts) > 1 else weights[0], 1)
    for weight in weights:
        _not_needed_now(weight)
    call = torch.ops.mkldnn._linear_pointwise
    return lambda x: call(x, packed, bias, "none", [], "")


def _packs(weight: Tensor) -> bool:
    """Whether torch can lay this matrix out for oneDNN's kernels: that is what its own compiler does on a CPU."""
    ready = weight.device.type == "cpu" and weight.dtype == torch.bfloat16 and torch.backends.mkldnn.is_available()
    return ready and hasattr(torch.ops.mkldnn, "_reorder_linear_weight") and _has_bf16_kernels()


def _has_bf16_kernels() -> bool:
    asks = getattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", None)
    return bool(asks and asks())


def _not_needed_now(weight: Tensor) -> None:
    """Tell Linux that it may drop the pages of weights that lie in memory as the file has them.

    They are packed now, and would be held twice. Nothing is lost: whoever reads them gets them from the file again.
    """
    try:
        call, page = ctypes.CDLL(None).madvise, os.sysconf("SC_PAGESIZE")
        begin = -(-weight.data_ptr() // page) * page
        length = weight.data_ptr() + weight.numel() * weight.element_size() - begin
        if length > 0:
            call(ctypes.c_void_p(begin), ctypes.c_size_t(length // page * page), _PAGE_OUT)
    except (OSError, AttributeError, ValueError):  # another system: nothing to tell
        pass


def _give_back() -> None:
    """Hand memory that was freed back to Linux: reading a tokenizer leaves some 20 MB behind."""
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (OSError, AttributeError, TypeError):  # another system, another C library: nothing to hand back
        pass
