"""The one place that touches transformers' calling conventions, which change between its minor versions.

Takes: a model, ids, a ``SlotCache``.  Returns: logits and hidden states.
Must not know: anything else of this library.

Two things differ: the cache travels as ``past_key_values=`` up to 5.17 and as ``cache=`` in 5.24; and models with
several kinds of attention layers want a dict of masks, one for each kind.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

from ..cache import SlotCache

#: Attention layers whose roll-back is a counter. Recurrent layers (Gated DeltaNet, Mamba) would need snapshots.
_KNOWN_LAYERS = {"full_attention", "sliding_attention"}


def _slot_layer():
    from transformers.cache_utils import CacheLayerMixin

    class SlotLayer(CacheLayerMixin):
        """One layer of a SlotCache, in the shape in which transformers hands over keys and values."""

        is_sliding = False

        def __init__(self, slots: SlotCache, index: int) -> None:
            super().__init__()
            self.slots, self.index = slots, index

        def lazy_initialization(self, *args) -> None:
            self.is_initialized = True

        def update(self, key_states: Tensor, value_states: Tensor, *args, **kwargs) -> tuple[Tensor, Tensor]:
            return self.slots.write(self.index, key_states, value_states)

        def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
            return self.slots.visible, 0

        def get_seq_length(self) -> int:
            return max(self.slots.lengths)

        def get_max_length(self) -> int:
            return -1

    return SlotLayer


@contextmanager
def quiet() -> Iterator[None]:
    """Without transformers' own progress bars, for weights that load in a second or two."""
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()


def text_config(model: torch.nn.Module):
    """The part of a model's config that describes its language model."""
    return model.config.get_text_config() if hasattr(model.config, "get_text_config") else model.config


def token_ids(ids: object) -> set[int]:
    """The ids in what configs hold: None, a number, a list of numbers, or a tensor or array of them."""
    ids = ids.tolist() if hasattr(ids, "tolist") else ids
    return {ids} if isinstance(ids, int) else set(ids or ())


def check_supported(name: str, model: torch.nn.Module) -> None:
    """Raise ValueError for kinds of models whose reason is known; ``self_check.examine`` finds out about all others."""
    if getattr(model.config, "is_encoder_decoder", False):
        raise ValueError(
            f"{name} is an encoder-decoder: its decoder also reads what an encoder made of another text, which this "
            "library does not give it. Use a decoder-only model"
        )
    unknown = set(getattr(text_config(model), "layer_types", None) or ()) - _KNOWN_LAYERS
    if unknown or getattr(model, "_is_stateful", False):
        kinds = ", ".join(sorted(unknown)) or "recurrent state"
        raise ValueError(
            f"{name} has layers of the kind {kinds}: their state cannot be rolled back by moving a counter, so this "
            "library cannot decode with it. Use a model with attention layers only"
        )
    if getattr(text_config(model), "alibi", False) or text_config(model).model_type == "bloom":
        raise ValueError(
            f"{name} has ALiBi positions, which its model derives from a mask of another shape than a slot cache "
            "gives: this library cannot decode with it. Use a model with rotary or learned positions"
        )


def max_length(name: str, config) -> tuple[int, str]:
    """The longest text in tokens, and a sentence where that is less than the model could read.

    The rotary factors of a ``longrope`` model change for all of a call's rows when the largest position in it passes
    the original length: then keys in the cache, neighbours in the batch and drafts would each have other factors than
    the text alone. Up to there they are constant. Those of a ``dynamic`` one change at max_position_embeddings.
    """
    names = ("max_position_embeddings", "max_target_positions", "max_seq_len")
    sizes = (getattr(config, name, None) for name in names)
    longest = next((size for size in sizes if isinstance(size, int) and size > 0), 1 << 20)
    original = min((size for size in map(_original_length, _rotary_settings(config)) if size), default=longest)
    if original >= longest:
        return longest, ""
    return original, (
        f"{name} is read up to {original} tokens, its original length, instead of {longest}: beyond it the rotary "
        "factors of all tokens would change (longrope)"
    )


def _rotary_settings(config) -> list[dict]:
    """The settings of rotary positions: one dict, or one for each kind of layer."""
    settings = getattr(config, "rope_parameters", None) or {}
    return [settings, *(one for one in settings.values() if isinstance(one, dict))]


def _original_length(settings: dict) -> int | None:
    return settings.get("original_max_position_embeddings") if settings.get("rope_type") == "longrope" else None


class Caller:
    """Calls one model. Made once, so that looking at its signature is not repeated."""

    def __init__(self, model: torch.nn.Module) -> None:
        self.model = model
        self.is_toy = getattr(model, "is_toy", False)
        names = inspect.signature(model.forward).parameters
        self.keyword = "cache" if "cache" in names else "past_key_values"
        self.keeps_logits = "logits_to_keep" in names
        config = text_config(model)
        self.window = getattr(config, "sliding_window", None)
        self.kinds = set(getattr(config, "layer_types", None) or ())

    def __call__(
        self, ids: Tensor, cache: SlotCache, rows: Sequence[int] | None, want_hidden: bool, max_length: int
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """rows: the rows whose logits are wanted, the same for every sequence; None: all."""
        keep = {}
        if rows is not None and self.keeps_logits:
            keep["logits_to_keep"] = torch.tensor(rows, device=ids.device)
        output = self.model(
            input_ids=ids,
            position_ids=cache.positions.clamp_max(max_length - 1),  # padding rows may stick out
            attention_mask=self._masks(cache),
            use_cache=True,
            output_hidden_states=want_hidden,
            **{self.keyword: cache if self.is_toy else wrapped(cache)},
            **keep,
        )
        logits = output.logits
        if rows is not None and not self.keeps_logits:
            logits = logits[:, rows]
        return logits, (self._hidden_states(output, ids) if want_hidden else ())

    def _hidden_states(self, output, ids: Tensor) -> tuple[Tensor, ...]:
        """Raises ValueError for a model that keeps several streams, or none: drafters could not tell rows apart."""
        states = output.hidden_states or ()
        if not states or any(one.shape[:2] != ids.shape for one in states):
            raise ValueError(
                f"{type(self.model).__name__} gives no hidden states of the shape (sequences, tokens, size), so that "
                "no drafter can read them: use ngram or a draft model"
            )
        return states

    def score(self, hidden: Tensor) -> Tensor:
        """(…, size) after the final norm → (…, V) logits."""
        return self.model.get_output_embeddings()(hidden)

    def _masks(self, cache: SlotCache) -> Tensor | dict[str, Tensor]:
        if len(self.kinds) > 1:
            return {
                kind: self._mask(cache, self.window if kind == "sliding_attention" else None) for kind in self.kinds
            }
        slides = self.kinds == {"sliding_attention"} or (not self.kinds and self.window is not None)
        return self._mask(cache, self.window if slides else None)

    def _mask(self, cache: SlotCache, window: int | None) -> Tensor:
        seen = cache.mask(window)
        if getattr(text_config(self.model), "_attn_implementation", "sdpa") != "eager":  # it may be set at any time
            return seen
        dtype = next(self.model.parameters()).dtype
        return torch.zeros_like(seen, dtype=dtype).masked_fill(~seen, torch.finfo(dtype).min)


def wrapped(cache: SlotCache):
    """A SlotCache as the kind of object that transformers' attention layers write to."""
    found = getattr(cache, "_wrapped", None)
    if found is None:
        from transformers.cache_utils import Cache

        layer = _slot_layer()
        found = Cache(layers=[layer(cache, index) for index in range(len(cache.layers))])
        cache._wrapped = found
    return found


def shared_copy(module: torch.nn.Module) -> torch.nn.Module:
    """A copy whose weights are the module's own tensors: its parts may be exchanged, and the module stays as it is.

    Hooks are not copied. transformers installs its own (they collect hidden states) at the first call that needs them.
    """
    tensors = (*module.parameters(), *module.buffers())
    made = copy.deepcopy(module, {id(tensor): tensor for tensor in tensors})
    for part in made.modules():
        part._forward_hooks.clear()
        part._forward_pre_hooks.clear()
        part.__dict__.pop("_output_capturing_hooks_installed", None)
    return made


def with_layers(model: torch.nn.Module, layers: torch.nn.ModuleList, norm: torch.nn.Module) -> torch.nn.Module:
    """The model, its embedding and lm_head shared, with these decoder layers and final norm in place of its own."""
    made = shared_copy(model)
    inner, config = made.get_decoder(), text_config(made)
    before, config.num_hidden_layers = config.num_hidden_layers, len(layers)
    for name, value in config.to_dict().items():
        if "layer" in name and isinstance(value, list) and len(value) == before:  # such as layer_types
            setattr(config, name, value[: len(layers)])
    inner.layers, inner.norm = layers, norm
    return made


def first_line(error: BaseException) -> str:
    """An exception's kind, and as much of its text as a sentence can quote."""
    return f"{type(error).__name__}: {(str(error).strip().splitlines() or [''])[0][:160]}"


class Decoder:
    """The parts of a model that a head borrows: embedding, lm_head, one more layer of its own kind, norms, rotary.

    Raises ValueError for a model that is not built of decoder layers between an embedding and a final norm.
    """

    def __init__(self, model: torch.nn.Module) -> None:
        self.model = model
        self.config = text_config(model)
        inner = model.get_decoder() if hasattr(model, "get_decoder") else None
        if not all(hasattr(inner, part) for part in ("layers", "norm", "rotary_emb")):
            raise ValueError(
                f"{type(model).__name__} is not built of layers, norm and rotary_emb: a head cannot borrow its parts. "
                "Use a target of the Llama, Qwen, Mistral or DeepSeek kind"
            )
        self.layers, self.norm, self.rotary = inner.layers, inner.norm, inner.rotary_emb
        self.embedding, self.lm_head = model.get_input_embeddings(), model.get_output_embeddings()
        names = inspect.signature(type(self.layers[-1]).forward).parameters
        self.keyword = "cache" if "cache" in names else "past_key_values"
        # Some have rotary factors for each kind of attention.
        self.is_typed = "layer_type" in inspect.signature(self.rotary.forward).parameters
        self.max_length, _ = max_length("", self.config)

    def check_one_attention_each(self) -> None:
        """Raise ValueError for layers with several attentions (LongCat): they cannot be numbered as a cache's are."""
        if len(self.layers) != self.config.num_hidden_layers:
            raise ValueError(
                f"{type(self.model).__name__} has {len(self.layers)} layers, but {self.config.num_hidden_layers} in "
                "its cache: layers of it cannot be picked by number. Use another drafter, such as mtp or medusa"
            )

    def new_layer(self, index: int = 0, like: int = -1) -> torch.nn.Module:
        """A layer like the target's layer ``like``, with fresh weights; it keeps keys and values in layer ``index``.

        Raises ValueError for a layer that cannot be made or called by itself.
        """
        like %= len(self.layers)
        weight = self.embedding.weight
        with self._borrowing("a decoder layer"), torch.no_grad():
            with torch.random.fork_rng(devices=()):
                torch.manual_seed(index)
                made = type(self.layers[like])(self.config, layer_idx=like)
                made.apply(self.model._init_weights)  # a mixture of experts is not initialised when it is made
            made.to(weight.device, next(self.layers.parameters()).dtype)
            for part in made.modules():
                if hasattr(part, "layer_idx"):
                    part.layer_idx = index
            cache = SlotCache(index + 1, 1, weight.device, 2)
            cache.begin(2)
            self.run(made, self.embedding(cache.positions), cache.positions, cache.mask(), wrapped(cache), like)
        return made

    @contextmanager
    def _borrowing(self, what: str) -> Iterator[None]:
        """What goes wrong inside, in the model's own code, becomes a ValueError that says so."""
        try:
            yield
        except Exception as error:
            raise ValueError(
                f"a head cannot borrow {what} from {type(self.model).__name__} ({first_line(error)}): "
                "use a target of the Llama, Qwen, Mistral or DeepSeek kind"
            ) from error

    def new_norm(self) -> torch.nn.Module:
        """A norm of the target's kind with gain 1. Raises ValueError for one that has no gain."""
        made = copy.deepcopy(self.norm)
        with self._borrowing("a norm"):
            self.set_gain(made, 1.0)
        return made

    def gain(self, norm: torch.nn.Module) -> Tensor:
        """(size,) float32: what a norm of the target's kind multiplies by. Gemma's norms keep it without the 1."""
        return norm.weight.detach().float() + self._gain_of_zero

    @torch.no_grad()
    def set_gain(self, norm: torch.nn.Module, gain: Tensor | float) -> None:
        norm.weight.copy_(torch.as_tensor(gain, dtype=torch.float32) - self._gain_of_zero)

    @property
    def _gain_of_zero(self) -> float:
        return 1.0 if "gemma" in type(self.norm).__name__.lower() else 0.0

    @torch.no_grad()
    def last_layer_scale(self, generator: torch.Generator) -> float:
        """The root mean square of what the last layer reads: the median over positions of a text of random ids.

        The first position is left out: in many models it is far larger than all others.
        """
        weight = self.embedding.weight
        ids = torch.randint(weight.shape[0], (4, 32), generator=generator).to(weight.device)
        states = self.model(input_ids=ids, output_hidden_states=True).hidden_states[-2]
        return float(states[:, 1:].float().square().mean(-1).sqrt().median())

    def turn(self, x: Tensor, position_ids: Tensor, like: int = -1) -> tuple[Tensor, Tensor]:
        """Cosines and sines of (B, L) positions, (B, L, head size) each, for a layer like the target's ``like``."""
        kind = {"layer_type": self.config.layer_types[like]} if self.is_typed else {}
        return self.rotary(x, position_ids.clamp_max(self.max_length - 1), **kind)  # padding may stick out

    def run(
        self, layer: torch.nn.Module, x: Tensor, positions: Tensor, mask: Tensor, cache: object, like: int = -1
    ) -> Tensor:
        """(B, L, size) through one layer. mask: (B, 1, L, S) bool; cache: what ``wrapped`` gives, or None."""
        output = layer(
            x,
            attention_mask=mask,
            position_ids=positions,
            position_embeddings=self.turn(x, positions, like),
            use_cache=cache is not None,
            **{self.keyword: cache},
        )
        return output[0] if isinstance(output, tuple) else output
