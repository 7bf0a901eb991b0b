"""Targets: the toys, the bundled nano, SmolLM2, any Hugging Face id or local folder, on CPU or GPU.

Takes: a name.  Returns: a ``Target``.
Must not know: drafters, verify rules, the loop.
"""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import torch

from . import adapter, fast, nano, pretrained, smollm2, threads, toys
from .self_check import examine
from .smollm2 import FetchError, cache_dir
from .target import Target, check_same_vocabulary

__all__ = ["NAMES", "FetchError", "Target", "cache_dir", "check_same_vocabulary", "load", "wrap"]

#: The names that ``load`` knows by heart.
NAMES = (*toys.TOYS, "nano", "smollm2")
_DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.float64)  # float8 and narrower: torch stores them only


def load(
    name: str,
    device: str | torch.device | None = None,
    dtype: torch.dtype | str | None = None,
    short: bool | None = None,
    compile: bool = False,
    batch_invariant: bool = False,
    **options,
) -> Target:
    """A target by name: ``"toy"``, ``"toy-beijing"``, ``"nano"``, ``"smollm2"``, a Hugging Face id or a local folder.

    device: None picks a CUDA GPU where there is one, else the CPU; toys stay on the CPU.
    dtype: None picks float64 for toys, float32 for nano; for smollm2 bf16 on CUDA and on CPUs with native bf16, else
        float32; for other models bf16 on CUDA, else float32.
    short: forward calls take the short way of ``models/fast.py``, which adds numbers up in another order than the
        model itself. None: where speed is the point, that is in bf16 and float16, for models that it knows.
    compile: the short way as programs compiled by torch for each shape that occurs (models/compiled.py). That takes
        the better part of a minute a shape on a CPU; worth it for long runs, and on a GPU.
    batch_invariant: the same seed gives the same text, alone, in a batch, behind a prefix cache and, at T = 0, with any
        drafter: each token's logits are computed in products of one fixed shape (models/invariant.py). In float64 that
        holds for texts anyway; in bf16 and float32 it does not, as sums round differently with the shape of a call.
        It costs speed: sequences are read one after the other, so a batch is no faster than its texts alone.
    options: handed on to transformers' ``from_pretrained`` (``device_map="auto"`` spreads a model over several GPUs).
    Raises ValueError for an unknown name, device, dtype or option, a damaged or incomplete folder, or a model that this
    library cannot decode with (``wrap``); FetchError (a ValueError) when weights cannot be brought here.
    """
    if not isinstance(name, (str, Path)) or not str(name):
        raise ValueError(f"a model is named by a string, got {name!r}; known names: {', '.join(NAMES)}")
    where = _device(device, "cpu" if str(name) in toys.TOYS else None)
    kind = _dtype(dtype)
    if str(name) in toys.TOYS:
        given = {**options, "short": short, "compile": compile, "batch_invariant": batch_invariant}
        more = [option for option in given if option in options or given[option]]
        if more:
            raise ValueError(f"toys take device and dtype only, not {', '.join(more)}")
        return toys.load_toy(str(name), where, kind or torch.float64)
    if str(name) == "nano":
        source, notes = nano.find(), (nano.NOTE,)
        kind = kind or torch.float32
    elif str(name) == "smollm2":
        source, notes = smollm2.fetch(), (smollm2.NOTE,)
        kind = kind or (torch.bfloat16 if where.type == "cuda" or native_bf16() else torch.float32)
    else:
        source, notes = name, ()
        kind = kind or (torch.bfloat16 if where.type == "cuda" else torch.float32)
    with adapter.quiet() if name in ("nano", "smollm2") else nullcontext():
        model, tokenizer = pretrained.load(source, str(name), where, kind, options, ", ".join(NAMES))
    return wrap(model, tokenizer, str(name), notes, short, compile, batch_invariant)


@pretrained.value_errors_only("a target is made of a causal LM of transformers with all its weights in memory")
def wrap(
    model: torch.nn.Module,
    tokenizer=None,
    name: str | None = None,
    notes: tuple[str, ...] = (),
    short: bool | None = None,
    compile: bool = False,
    batch_invariant: bool = False,
) -> Target:
    """A target made of a transformers model in memory. short, compile, batch_invariant: see ``load``.

    The first model of a class and configuration is called five times on a few random tokens, to see whether texts come
    out right through a cache that is rolled back, alone and in a batch (see ``self_check``). Where only batches are
    wrong, the target refuses batches: ``Target.batch_refusal`` says why.
    Raises ValueError for a model that decodes wrongly even alone or fails when it is called, for weights not in memory
    or in no dtype that torch computes in, and for ``short=True`` or ``compile=True`` where there is no short way.
    """
    if not hasattr(model, "config") or not hasattr(model, "get_input_embeddings"):
        raise ValueError(f"a target is made of a causal LM of transformers, not of a {type(model).__name__}")
    config = adapter.text_config(model)
    name = name or config.model_type
    adapter.check_supported(name, model)
    weights = next(model.parameters())
    _check_weights(name, model, weights.dtype)
    if tokenizer is not None and not hasattr(tokenizer, "decode"):
        raise ValueError(
            f"tokenizer={tokenizer!r:.60}: use the tokenizer of transformers that goes with {name}, or None"
        )
    if compile and short is False:
        raise ValueError("compile=True compiles the short way: leave short=False out")
    if compile and batch_invariant:
        raise ValueError("batch_invariant=True reads blocks of one shape, which compile=True does not: choose one")
    if (short or compile) and not fast.supports(model):
        raise ValueError(
            f"{'short' if short else 'compile'}=True: there is a short way for {', '.join(fast.KINDS)} on one device, "
            f"without a window on attention; {name} is a {type(model).__name__}. Leave it out"
        )
    if short is None:
        short = compile or weights.dtype in (torch.bfloat16, torch.float16) and fast.supports(model)
    generation = getattr(model, "generation_config", None)
    ends = getattr(generation, "eos_token_id", None)  # may be 0
    ends = getattr(config, "eos_token_id", None) if ends is None else ends
    own = getattr(tokenizer, "eos_token_id", None)
    model.eval()
    max_length, cut = adapter.max_length(name, config)
    with threads.fitted():
        batch_refusal, note = examine(model, name, max_length)
    return Target(
        name=name,
        model=model,
        tokenizer=tokenizer,
        device=model.get_input_embeddings().weight.device,
        dtype=weights.dtype,
        vocab_size=config.vocab_size,
        max_length=max_length,
        eos_ids=frozenset(adapter.token_ids(ends) | adapter.token_ids(own)),
        num_layers=config.num_hidden_layers,
        notes=(*notes, *filter(None, (cut, note))),
        batch_refusal=batch_refusal,
        takes_short_way=bool(short),
        is_compiled=bool(compile),
        is_batch_invariant=bool(batch_invariant),
    )


def native_bf16() -> bool:
    """True when this CPU multiplies bf16 numbers in hardware (AVX512-BF16 or AMX), so that bf16 is not slower."""
    capabilities = getattr(torch.cpu, "get_capabilities", dict)()
    return bool(capabilities.get("avx512_bf16") or capabilities.get("amx_bf16"))


def _device(device: str | torch.device | None, default: str | None) -> torch.device:
    if device is None:
        return torch.device(default or ("cuda" if torch.cuda.is_available() else "cpu"))
    try:
        chosen = torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise ValueError(f"unknown device {device!r}: use 'cpu', 'cuda' or 'cuda:0'") from error
    if chosen.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(
            f"device {device!r} was asked for, but torch sees no CUDA GPU: use device='cpu', or install a CUDA "
            "build of torch"
        )
    try:
        if chosen.type == "meta":
            raise TypeError("it holds no numbers")
        torch.zeros(1, dtype=torch.float64, device=chosen)
    except (RuntimeError, TypeError, AssertionError, ImportError) as error:
        why = str(error).splitlines()[0][:120]
        raise ValueError(
            f"device {device!r} is not there, or has no 64-bit floats, in which tokens are drawn ({why}): "
            "use device='cpu', or 'cuda' with an NVIDIA or AMD GPU"
        ) from error
    return chosen


def _check_weights(name: str, model: torch.nn.Module, dtype: torch.dtype) -> None:
    """Raise ValueError for weights that hold no numbers, or that torch cannot compute with."""
    placed = hasattr(model, "hf_device_map")  # accelerate brings what it keeps elsewhere when a layer needs it
    if model.get_input_embeddings().weight.is_meta or not placed and any(w.is_meta for w in model.parameters()):
        raise ValueError(
            f"{name} has weights on the meta device, which hold no numbers: load it with mt.load, or with "
            "from_pretrained and a device_map that keeps the embedding in memory"
        )
    if dtype not in _DTYPES:
        raise ValueError(
            f"{name} has weights in {dtype}, in which torch does not compute: use model.to(torch.bfloat16)"
        )


def _dtype(dtype: torch.dtype | str | None) -> torch.dtype | None:
    if isinstance(dtype, str):
        dtype = getattr(torch, dtype, dtype)
    if dtype is not None and dtype not in _DTYPES:
        raise ValueError(
            f"unknown dtype {dtype!r}, or one that torch cannot compute in: use 'float32', 'bfloat16', 'float16' or "
            "'float64'"
        )
    return dtype
