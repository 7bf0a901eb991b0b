"""Packed weights that count only for as long as the modules they were made from are what they were.

A fused pass computes what modules would compute, without calling them, from copies of their weights in the layout that
the CPU's kernels read fastest. So it must notice when those modules would compute something else. A teaching package
is hooked, patched and edited all the time, and the model's own behaviour always wins.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.modules import module as torch_module

#: Numbers of each packed weight that are compared at every call.
SAMPLE = 32


class Packed:
    """What ``pack(module)`` returns while it stands for the module; None while the module itself must be called.

    module: a module, or a function that returns the one in use (it may be exchanged).
    pack: module → its packed form, or None for a module that it does not know.
    called: module → those of its submodules that the packed form calls as modules: they behave as they do.
    extra: module → dicts beside the modules' own that decide what it computes, such as its config's.
    copies: weight → whether the packed form holds a copy of it, so that edits in place do not reach it.

    **What is noticed, at the next call:** hooks (any module's, and torch's global ones), modules added, exchanged or
    reordered, another ``forward`` of a module or of its class, any attribute that was set, training mode, and every
    edit of a weight that torch counts: assignment (to ``.data`` too), ``load_state_dict``, in-place operations under
    ``no_grad``. In-place operations on ``.data`` and writes through numpy are not counted by torch. Those that change a
    whole weight are noticed at the next call as well, by a sample of each weight; those that change a part of one, such
    as a row, are noticed when the next text begins (``thorough``), where all weights are read once.
    """

    def __init__(
        self,
        module: nn.Module | Callable[[], nn.Module],
        pack: Callable[[nn.Module], object],
        called: Callable[[nn.Module], Iterable[nn.Module]] | None = None,
        extra: Callable[[nn.Module], Sequence[dict]] | None = None,
        copies: Callable[[Tensor], bool] | None = None,
    ) -> None:
        self.module, self.pack, self.called, self.extra, self.copies = module, pack, called, extra, copies
        self.state: _State | None = None
        self.made: tuple = ()  # empty: not packed yet; else the packed form, and the sums of the weights in it

    def __getstate__(self) -> dict:
        """Copies pack for themselves."""
        return {**vars(self), "state": None, "made": ()}

    def __call__(self, thorough: bool = False):
        """thorough: compare all of every weight that was copied, instead of a sample."""
        module = self.module if isinstance(self.module, nn.Module) else self.module()
        state, made = self.state, self.made
        if state is None or not state.holds(module) or (thorough and made and not state.same_sums(made[1])):
            self.made = made = ()  # the old copies go before new ones are made
            called = () if self.called is None else self.called(module)
            extra = () if self.extra is None else self.extra(module)
            self.state = state = _State(module, called, extra, packs if self.copies is None else self.copies)
        if state.is_hooked():
            return None
        if not made:
            sums = state.sums()
            packed = self.pack(module) if state.runs_as_written() else None
            self.made = made = (packed, sums if packed is not None else None)
        return made[0]


class Begun:
    """Tells the first call of a text from later ones, by its cache."""

    def __init__(self) -> None:
        self.caches: weakref.WeakSet = weakref.WeakSet()

    def __reduce__(self) -> tuple:
        return Begun, ()  # a copy has seen no text; a WeakSet could not be pickled

    def first(self, cache: object) -> bool:
        cache = getattr(cache, "whole", cache)  # a part of a cache stands for all of it
        if cache in self.caches:
            return False
        self.caches.add(cache)
        return True


class _State:
    """All that decides what a module computes, in the form that is compared fastest."""

    def __init__(
        self, module: nn.Module, called: Iterable[nn.Module], extra: Iterable[dict], copies: Callable[[Tensor], bool]
    ) -> None:
        others = {part for one in called for part in one.modules()}
        self.module = module
        self.modules = [part for part in module.modules() if part not in others]
        self.types = [type(part) for part in self.modules]
        self.methods = _methods(self.types)
        # A module keeps its attributes in one dict, its submodules, parameters and buffers in three more.
        self.dicts = [vars(part) for part in self.modules]
        self.dicts += [held for part in self.modules for held in (part._modules, part._parameters, part._buffers)]
        self.dicts += extra
        self.kept = [dict(held) for held in self.dicts]
        self.hooks = [held for part in self.modules for held in (part._forward_hooks, part._forward_pre_hooks)]
        self.hooks += [torch_module._global_forward_hooks, torch_module._global_forward_pre_hooks]
        tensors = [one for part in self.modules for held in (part._parameters, part._buffers) for one in held.values()]
        self.weights = [one for one in dict.fromkeys(tensors) if one is not None]
        self.edits = self._edits()
        self.copied = [weight.detach() for weight in self.weights if copies(weight)]
        rows = [weight[len(weight) // 2] if weight.ndim > 1 else weight for weight in self.copied]
        self.samples = [row[:SAMPLE] for row in rows]
        self.sampled = torch.cat(self.samples) if self.samples else None

    def holds(self, module: nn.Module) -> bool:
        """Whether ``module`` is the same, and as it was: about 0.15 ms for a model of 400 modules."""
        if module is not self.module or _methods(self.types) != self.methods:
            return False
        try:  # values are compared by identity first; those that were replaced may not like to be compared
            same = self.dicts == self.kept and list(map(type, self.modules)) == self.types
            same = same and self._edits() == self.edits
        except Exception:
            return False
        if not same or self.sampled is None:
            return same
        now = torch.cat(self.samples)
        return torch.equal(now, self.sampled) or torch.allclose(now, self.sampled, 0, 0, equal_nan=True)

    def _edits(self) -> tuple[list[int], list[int]]:
        """Where each weight lies, and how often torch saw it written to."""
        return list(map(Tensor.data_ptr, self.weights)), list(map(attrgetter("_version"), self.weights))

    def is_hooked(self) -> bool:
        """Whether someone else than transformers, which collects hidden states so, has a hook on a module."""
        return any(not belongs(hook, "transformers.utils") for held in self.hooks if held for hook in held.values())

    def runs_as_written(self) -> bool:
        """No forward was put in place of a module's own or of its class's, and nothing is dropped out."""
        usual = all(
            belongs(method, "transformers", "torch", "mtp_tutorial") for pair in self.methods for method in pair
        )
        return usual and not any(part.training or "forward" in vars(part) for part in self.modules)

    def sums(self) -> list[Tensor]:
        """For each row of each copied weight, the sum of its bits: it changes with any number in it, and may stay the
        same only where the numbers of a row change places."""
        return [_words(weight).sum(-1, dtype=torch.int64) for weight in self.copied]

    def same_sums(self, before: list[Tensor] | None) -> bool:
        return before is None or all(map(torch.equal, self.sums(), before))


def _methods(types: Sequence[type]) -> list[tuple[Callable, Callable]]:
    return [(kind.forward, kind.__call__) for kind in dict.fromkeys(types) if hasattr(kind, "forward")]


def belongs(method: Callable, *packages: str) -> bool:
    """Whether a function belongs to one of these packages: by its name, and by the file that its code is in."""
    name, code = f"{getattr(method, '__module__', '')}.", getattr(method, "__code__", None)
    place = "" if code is None else code.co_filename.replace(os.sep, ".")
    return any(name.startswith(f"{one}.") and f".{one}." in place for one in packages)


def _words(weight: Tensor) -> Tensor:
    """The bits of a weight as whole numbers, as wide ones as its rows and its place allow."""
    weight = weight if weight.stride(-1) == 1 else weight.contiguous()
    size = weight.element_size()
    steps = (weight.shape[-1], weight.storage_offset(), *weight.stride()[:-1])
    wide = all(step * size % 8 == 0 for step in steps)
    return weight.view(torch.int64 if wide else {1: torch.uint8, 2: torch.int16, 4: torch.int32}[size])


# -- Products ---------------------------------------------------------------------------------------------------------


def is_linear(part: nn.Module) -> bool:
    """Whether a module does what ``product`` does with its weight; quantised ones and adapters do more."""
    return type(part) is nn.Linear and type(getattr(part, "weight", None)) is nn.Parameter


def joined(*linears: nn.Linear) -> Callable[[Tensor], Tensor]:
    """Linear layers that read the same input as one, their outputs side by side."""
    return product([(linear.weight, linear.bias) for linear in linears])


def product(parts: Sequence[tuple[Tensor, Tensor | None]]) -> Callable[[Tensor], Tensor]:
    """x → x · Wᵀ + b for one or more (weight, bias) that read the same input, their outputs side by side."""
    parts = [(weight.detach(), None if bias is None else bias.detach()) for weight, bias in parts]
    weights, biases = zip(*parts, strict=True)
    if not packs(weights[0]):
        if len(parts) == 1:
            return lambda x: functional.linear(x, *parts[0])
        return lambda x: torch.cat([functional.linear(x, *part) for part in parts], -1)
    bias = None if biases[0] is None else torch.cat(biases)
    packed = torch.ops.mkldnn._reorder_linear_weight(torch.cat(weights) if len(parts) > 1 else weights[0], 1)
    call = torch.ops.mkldnn._linear_pointwise
    return lambda x: call(x, packed, bias, "none", [], "")


def packs(weight: Tensor) -> bool:
    """Whether torch can lay this matrix out for oneDNN's kernels: that is what its own compiler does on a CPU."""
    ready = weight.device.type == "cpu" and weight.dtype == torch.bfloat16 and torch.backends.mkldnn.is_available()
    return ready and hasattr(torch.ops.mkldnn, "_reorder_linear_weight") and _has_bf16_kernels()


def _has_bf16_kernels() -> bool:
    asks = getattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", None)
    return bool(asks and asks())
