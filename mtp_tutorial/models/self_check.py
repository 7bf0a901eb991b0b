"""Whether a model decodes rightly through a slot cache, measured by its own forward call on a few random tokens.

Some models take positions from the length of the cache instead of from ``position_ids``, read masks in a way of their
own, look at later tokens, or cannot be called at all. None of that is written in a config, so it is tried. Two texts
are read without a cache; then again through one, in wide and narrow calls, with drafts that are rolled back and
overwritten, alone and in a batch of unequal lengths. The logits must be the same up to rounding.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from ..cache import SlotCache
from .adapter import Caller, first_line, text_config, token_ids

#: (right tokens, wrong ones that are rolled back) of each call after the first, which reads what these leave over.
LONG, SHORT = ((1, 2), (1, 0)), ((3, 0), (1, 0))
TOKENS, SHORTER_BY = 8, 3
#: Multiplications that a call may cost on a CPU so that the texts are longer than a window on attention.
CHEAP = 5e9
#: For each dtype the relative difference of logits below which nothing is looked into, and the relative size of a
#: rounding. In float64 many models still take norms and rotary factors in float32.
ROUNDING = {torch.float64: (1e-6, 1e-7), torch.float32: (1e-5, 1e-6), torch.float16: (5e-4, 1e-3)}
COARSE = (4e-3, 8e-3)  # bfloat16, and everything narrower
#: A larger difference is a fault when it is more than this many times what one rounding of the embeddings causes.
#: Tiny models of two dozen families: at most 1 where all was right; where it was not, 2.2 to 60 in bfloat16, 18 to 430
#: in float16, more than 50,000 in float32.
FACTOR = 2

#: What was found, by class and configuration. Refused models are not remembered: a mended one may follow.
_found: dict[tuple, tuple[str, str]] = {}


def examine(model: nn.Module, name: str, max_length: int) -> tuple[str, str]:
    """Why batches are refused ("" where they are right), and what a reader should know of the model ("" for nothing).

    Raises ValueError for a model that decodes wrongly even one text alone, that looks at later tokens, or that fails
    when it is called.
    """
    config, weight = text_config(model), next(model.parameters())
    choices = tuple(getattr(config, f"_{part}_implementation", None) for part in ("attn", "experts"))
    key = (type(model), repr(config.to_dict()), choices, weight.dtype, weight.device, max_length)
    if key not in _found and max_length >= TOKENS:
        try:
            with warnings.catch_warnings(), torch.no_grad():
                warnings.simplefilter("ignore")
                check = _Check(model, max_length)
                result = check.result()
        except _Refused as error:
            raise ValueError(f"{name} ({type(model).__name__}) {error}") from error.__cause__
        if not check.has_compared:  # such as with an lm_head of zeros: another model of the class may show more
            return result
        _found[key] = result
    batches, note = _found.get(key, ("", ""))
    return batches and f"{name} {batches}", note and f"{name} {note}"


class _Refused(Exception):
    """The rest of a sentence that begins with the model's name."""


class _Check:
    """The comparison for one model. Shapes: two texts of n tokens; V logits for each."""

    def __init__(self, model: nn.Module, max_length: int) -> None:
        config = text_config(model)
        self.model, self.max_length, self.num_layers = model, max_length, config.num_hidden_layers
        self.embedding = model.get_input_embeddings()
        self.device, self.dtype = self.embedding.weight.device, next(model.parameters()).dtype
        self.generator = torch.Generator().manual_seed(0)
        special = set().union(*(token_ids(getattr(config, f"{kind}_token_id", None)) for kind in ("pad", "bos", "eos")))
        usual = [token for token in range(min(config.vocab_size, 1 << 15)) if token not in special]
        self.usual = torch.tensor(usual or [0])
        length = TOKENS + _window(config)
        affordable = CHEAP * (1 if self.device.type == "cpu" else 100)
        if 2 * length * sum(weight.numel() for weight in model.parameters()) > affordable:
            length = TOKENS
        self.texts = self.random(2, min(length, max_length))
        self.difference = 0.0  # the last one that was too large, for the message
        self.noise: float | None = None
        self.has_compared = False  # whether any logits could be told apart

    def random(self, *shape: int) -> Tensor:
        return self.usual[torch.randint(len(self.usual), shape, generator=self.generator)].to(self.device)

    def result(self) -> tuple[str, str]:
        """Sentences as ``examine`` returns them, without the model's name. Raises _Refused.

        A good model is called five times: for each text alone, and three times for the ragged batch.
        """
        own = self.tried("cannot be called", self.each_alone)
        ragged, why = None, ""
        try:
            ragged = self.tried("cannot be called with a slot cache in a batch", self.read, LONG, SHORT)
        except _Refused as error:
            why = str(error)
        if ragged and self.same(ragged, own):
            return "", ""
        why = why or f"gives other logits in a ragged batch than alone ({self.difference:.1g} of their size)"
        alone, note = self.tried("cannot be called with a slot cache", self.read, LONG), ""
        if not self.same(alone, own):
            numbered = self.each_alone(number=True)
            note = "numbers positions from 0, here and in transformers' generate"
            if not self.same(alone, numbered):
                raise self.refusal(own)
            if ragged and self.same(ragged, numbered):
                return "", note
        return f"{why}: give it one prompt at a time", note

    def refusal(self, own: Tensor) -> _Refused:
        """Why even one text alone comes out wrong."""
        difference = self.difference
        begin = self.own(self.texts[:1, :-SHORTER_BY])
        if not self.same([[(0, begin[0])]], own):
            return _Refused(
                "looks at later tokens: its logits change with the text behind them, so that no text can be made from "
                "them token by token. Use a causal model (of an encoder such as BERT: one with is_decoder=True; of a "
                "quantised model: one that does not scale its activations by the largest in the whole call)"
            )
        return _Refused(
            f"gives other logits through a cache that is rolled back than by its own forward call ({difference:.1g} of "
            "their size), so that this library cannot decode with it. Use a decoder whose attention goes by "
            "position_ids and attention_mask, such as those of the Llama kind"
        )

    # -- Calls ------------------------------------------------------------------------------------------------------

    def tried(self, fails: str, call: Callable, *arguments):
        """What the call returns. An exception in the model's own code becomes a sentence that begins with ``fails``."""
        try:
            return call(*arguments)
        except torch.OutOfMemoryError:
            raise
        except Exception as error:
            do = "try dtype='float32', or " if self.dtype != torch.float32 else ""
            raise _Refused(
                f"{fails} ({first_line(error)}): {do}use a causal model of transformers that takes input_ids alone"
            ) from error

    def each_alone(self, number: bool = False) -> Tensor:
        return torch.cat([self.own(text, number) for text in self.texts.split(1)])

    def own(self, texts: Tensor, number: bool = False) -> Tensor:
        """(B, n, V): the model's own forward call, without a cache of ours. number: positions from 0 are passed."""
        known = inspect.signature(self.model.forward).parameters
        options: dict[str, object] = {"use_cache": False} if "use_cache" in known else {}
        if number:
            options["position_ids"] = torch.arange(texts.shape[1], device=self.device).expand(len(texts), -1)
        return self.model(input_ids=texts, **options).logits

    def read(self, *plans: Sequence[tuple[int, int]]) -> list[list[tuple[int, Tensor]]]:
        """The texts through a slot cache, as planned: for each text, (first place, logits (m, V)) of each call."""
        call, found = Caller(self.model), [[] for _ in plans]
        length = self.texts.shape[1]
        cache = SlotCache(self.num_layers, len(plans), self.device, length + 4)
        ends = [length - SHORTER_BY * (plan is SHORT) for plan in plans]
        first = [(end - sum(right for right, _ in plan), 0) for end, plan in zip(ends, plans, strict=True)]
        for step in zip(*([begin, *plan] for begin, plan in zip(first, plans, strict=True)), strict=True):
            counts, places = [right + wrong for right, wrong in step], list(cache.lengths)
            ids = self.random(len(plans), max(counts))  # also what pads the shorter rows
            for row, ((right, _), place) in enumerate(zip(step, places, strict=True)):
                ids[row, :right] = self.texts[row, place : place + right]
            cache.begin(ids.shape[1])
            logits, _ = call(ids, cache, None, False, self.max_length)
            cache.advance(counts)
            cache.roll_back([place + right for place, (right, _) in zip(places, step, strict=True)])
            for row, ((right, _), place) in enumerate(zip(step, places, strict=True)):
                found[row].append((place, logits[row, :right]))
        return found

    # -- Comparison -------------------------------------------------------------------------------------------------

    def same(self, read: list[list[tuple[int, Tensor]]], right: Tensor) -> bool:
        """Whether what ``read`` found differs from (B, n, V) logits by rounding only; by the median row of each call.

        In half precision a rounding may be blown up, where experts are chosen at near-ties, for instance. So a large
        difference is compared with what noise of the size of one rounding causes in the model's own call.
        """
        differences = [
            float(_differences(logits, right[row, place : place + len(logits)]).nanmedian())
            for row, calls in enumerate(read)
            for place, logits in calls
        ]
        known = [one for one in differences if one == one]
        self.has_compared = self.has_compared or bool(known)
        worst = max(known, default=0.0)
        if worst <= self.rounding[0] or worst <= FACTOR * self.measured_noise():
            return True
        self.difference = worst
        return False

    @property
    def rounding(self) -> tuple[float, float]:
        if self.dtype == torch.float32 and self.device.type != "cpu":
            return ROUNDING[torch.float16]  # a GPU may multiply float32 with the digits of float16
        return ROUNDING.get(self.dtype, COARSE)

    def measured_noise(self) -> float:
        """The relative difference in nine of ten rows that one rounding of the embeddings makes."""
        if self.noise is None:
            size = self.rounding[1]

            def perturb(module, inputs, output):
                return output * (1 + size * torch.randn(output.shape, generator=self.generator).to(output))

            right = self.own(self.texts[:1])
            handle = self.embedding.register_forward_hook(perturb)
            try:
                noisy = self.own(self.texts[:1])
            finally:
                handle.remove()
            self.noise = float(_differences(noisy[0], right[0]).nanquantile(0.9))
        return self.noise


def _differences(found: Tensor, right: Tensor) -> Tensor:
    """(m,): by how much the rows of (m, V) logits differ, relative to the size of the right ones; NaN for NaN."""
    found, right = (x.double() - x.double().amax(-1, keepdim=True) for x in (found, right))
    found, right = (x.clamp_min(-100).sub(x.clamp_min(-100).mean(-1, keepdim=True)) for x in (found, right))
    return (found - right).norm(dim=-1) / right.norm(dim=-1)


def _window(config) -> int:
    """The widest window on attention that the configuration speaks of; 0 without."""
    settings = {name: size for name, size in config.to_dict().items() if isinstance(size, int)}
    return max((n for name, n in settings.items() if "window" in name or "chunk" in name or "local" in name), default=0)
