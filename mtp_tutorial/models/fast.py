"""The same forward call in fewer steps, for models of the Llama kind in half precision.

Takes: a transformers model, ids, a ``SlotCache``.  Returns: logits of the rows asked for, and hidden states.
Must not know: anything else of this library.

At batch 1 a small model on a CPU spends as much time between its matrix products as in them: masks built again in each
layer, keys and values copied for every query head, queries and keys turned one after the other. And the products
themselves read weights that lie in memory as a file has them, not as the CPU's kernels like them best. This module does
what the model does in fewer steps, with weights packed once for those kernels. The model itself stays as it is, and
wherever it no longer does what this module knows, because it was hooked, patched or rebuilt, it is called itself
(``packed.py`` says what is noticed, and when).

The results are the model's own up to the order of additions: a rounding apart in bf16, about 1e-6 in float64, where the
model still takes its norms in float32.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from ..cache import SlotCache
from .adapter import Caller, text_config
from .packed import Begun, Packed, belongs, is_linear, joined, product

#: Their layers are: norm, attention with rotary positions, norm, gated MLP. Qwen3 has a norm on queries and keys, too.
KINDS = ("LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM")
_PARTS = {
    "self_attn": {"q_proj", "k_proj", "v_proj", "o_proj"},
    "mlp": {"gate_proj", "up_proj", "down_proj", "act_fn"},
    "input_layernorm": set(),
    "post_attention_layernorm": set(),
}


def supports(model: nn.Module) -> bool:
    """Whether ``FastCaller`` can do what this model does: the kind, the activation, no window, a single device."""
    if type(model).__name__ not in KINDS:
        return False
    config = text_config(model)
    kinds = set(getattr(config, "layer_types", None) or ())
    slides = "sliding_attention" in kinds or (not kinds and getattr(config, "sliding_window", None) is not None)
    devices = {tensor.device for tensor in model.parameters()}
    usual = config.hidden_act in ("silu", "swish") and getattr(config, "_attn_implementation", "sdpa") == "sdpa"
    return not slides and usual and len(devices) == 1 and all(map(knows, model.get_decoder().layers))


def knows(layer: nn.Module) -> bool:
    """Whether this is a decoder layer as transformers builds it: these parts, of its own classes, and no others.

    Another kind of module in it (quantised, with adapters, somebody's own) has ways of its own.
    """
    home = type(layer).__module__
    if not home.startswith("transformers.models.") or layer._modules.keys() != _PARTS.keys():
        return False
    for name, inner in _PARTS.items():
        part = getattr(layer, name)
        norms = {"q_norm", "k_norm"} & part._modules.keys()
        if type(part).__module__ != home or part._modules.keys() - norms != inner or len(norms) == 1:
            return False
        if not all(is_norm(part, home) for part in ([part] if not inner else [getattr(part, n) for n in norms])):
            return False
    attention, mlp = layer.self_attn, layer.mlp
    reading = [attention.q_proj, attention.k_proj, attention.v_proj], [mlp.gate_proj, mlp.up_proj]
    linears = [*reading[0], attention.o_proj, *reading[1], mlp.down_proj]
    return (
        type(mlp.act_fn).__name__ in ("SiLU", "SiLUActivation")
        and type(mlp.act_fn).__module__.startswith(("transformers.", "torch."))
        and all(map(is_linear, linears))
        and len({(one.weight.dtype, one.weight.device) for one in linears}) == 1
        and all(len({one.bias is None for one in together}) == 1 for together in reading)
    )


def is_norm(part: nn.Module, home: str) -> bool:
    return type(part).__module__ == home and type(part).__name__.endswith("RMSNorm")


class FastCaller:
    """Calls one model, or does what it would do. The same signature as ``adapter.Caller``."""

    def __init__(self, model: nn.Module) -> None:
        self.model, self.plain = model, Caller(model)
        self._layers = Packed(model, _pack_layers, _called, settings)
        self._lm_head = Packed(model.get_output_embeddings, _pack_lm_head)
        self._begun = Begun()

    def __call__(
        self, ids: Tensor, cache: SlotCache, rows: Sequence[int] | None, want_hidden: bool, max_length: int
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """rows: the rows whose logits are wanted, the same for every sequence; None: all."""
        begins = self._begun.first(cache)
        packed = self._layers(thorough=begins)
        if packed is None:
            return self.plain(ids, cache, rows, want_hidden, max_length)
        decoder, layers, norm = packed
        x = decoder.embed_tokens(ids)
        turn = turns(decoder.rotary_emb, x, cache.positions.clamp_max(max_length - 1))  # padding may stick out
        mask = layers[0].mask(cache)
        hidden = [x]
        for layer in layers:
            x = layer(x, turn, mask, cache)
            hidden.append(x)
        hidden[-1] = x = norm(x)
        wanted = x if rows is None or len(rows) == x.shape[1] else x[:, list(rows)]
        return self.score(wanted, begins), (tuple(hidden) if want_hidden else ())

    def score(self, hidden: Tensor, begins: bool = False) -> Tensor:
        """(…, size) after the final norm → (…, V) logits."""
        return (self._lm_head(thorough=begins) or self.model.get_output_embeddings())(hidden)


def _pack_layers(model: nn.Module) -> tuple[nn.Module, list[FastLayer], FastNorm] | None:
    if not is_usual(model):
        return None
    decoder = model.get_decoder()
    layers = decoder.layers[: decoder.config.num_hidden_layers]  # as the model itself does
    return decoder, [FastLayer(layer) for layer in layers], FastNorm(decoder.norm)


def is_usual(model: nn.Module) -> bool:
    """Whether the whole model is built as transformers builds it, whatever was done to it since it was wrapped."""
    decoder, home = model.get_decoder(), type(model).__module__
    return (
        home.startswith("transformers.models.")
        and model._modules.keys() == {"model", "lm_head"}
        and type(decoder).__module__ == home
        and decoder._modules.keys() == {"embed_tokens", "layers", "norm", "rotary_emb"}
        and type(decoder.layers) is nn.ModuleList
        and len(decoder.layers[: decoder.config.num_hidden_layers]) > 0
        and is_norm(decoder.norm, home)
        and supports(model)
        and all(belongs(function, "transformers", "kernels") for function in _functions(home))
    )


def _functions(home: str) -> list[Callable]:
    """The functions that an attention layer calls, as they are found when it calls them."""
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS as known

    return [known["sdpa"], sys.modules[home].apply_rotary_pos_emb]


def _pack_lm_head(lm_head: nn.Module) -> Callable[[Tensor], Tensor] | None:
    return joined(lm_head) if is_linear(lm_head) else None


def _called(model: nn.Module) -> list[nn.Module]:
    """They answer for themselves: what was done to them is seen in what they return."""
    decoder = model.get_decoder()
    called = getattr(decoder, "embed_tokens", None), getattr(decoder, "rotary_emb", None), model.get_output_embeddings()
    return [part for part in called if part is not None]


def settings(model: nn.Module) -> list[dict]:
    """What else a layer's forward looks at: its config, and functions that it finds by name."""
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS as known

    functions = [getattr(known, name) for name in ("_global_mapping", "_local_mapping") if hasattr(known, name)]
    return [vars(text_config(model)), vars(sys.modules[type(model).__module__]), *functions]


class FastLayer:
    """One decoder layer, its matrices joined where they read the same input."""

    def __init__(self, layer: nn.Module) -> None:
        attention, mlp = layer.self_attn, layer.mlp
        self.scaling, self.head_size, self.index = attention.scaling, attention.head_dim, attention.layer_idx
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

    def __call__(self, x: Tensor, turn: tuple[Tensor, Tensor], mask: Tensor | None, cache: SlotCache) -> Tensor:
        """(B, L, size) → (B, L, size); keys and values go to the layer's own place in the cache."""
        x = x + self._attention(self.norm_in(x), turn, mask, cache)
        gate, up = self.gate_up(self.norm_out(x)).chunk(2, -1)
        return x + self.down(functional.silu(gate) * up)

    def _attention(self, x: Tensor, turn: tuple[Tensor, Tensor], mask: Tensor | None, cache: SlotCache) -> Tensor:
        batch, rows, _ = x.shape
        turning, v = (
            self.qkv(x).view(batch, rows, -1, self.head_size).split((self.heads + self.kv_heads, self.kv_heads), 2)
        )
        if self.norm_q is not None:
            q, k = turning.split((self.heads, self.kv_heads), 2)
            turning = torch.cat([self.norm_q(q), self.norm_k(k)], 2)
        q, k = turned(turning, turn).split((self.heads, self.kv_heads), 2)
        keys, values = cache.write(self.index, k.transpose(1, 2), v.transpose(1, 2))
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


def turns(rotary: Callable, x: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
    """Cosines and sines of (B, L) positions, each (B, L, 1, head size)."""
    cos, sin = rotary(x, position_ids=positions)  # as the model calls it
    return cos[:, :, None], sin[:, :, None]


def turned(x: Tensor, turn: tuple[Tensor, Tensor]) -> Tensor:
    """(B, L, heads, head size) queries or keys, turned by their positions."""
    cos, sin = turn
    one, two = x.chunk(2, -1)
    return x * cos + torch.cat([-two, one], -1) * sin
