"""Weights of trained heads: a folder each, beside the data or anywhere else.

Takes: a folder, a target.  Returns: a head filled with its weights, and the tokens it ranks as most frequent.
Must not know: how heads are trained or used.

A folder holds ``config.json`` (which head, of what shape, for which target) and ``model.safetensors`` (the head's own
weights; and ``frequent``, ids ordered from the most frequent one). Embedding and lm_head are the target's.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import torch
from torch import Tensor

from ..models import Target
from .head import Head

CONFIG, WEIGHTS = "config.json", "model.safetensors"
DATA = Path(__file__).resolve().parents[2] / "data"


def bundled(target: Target, name: str) -> Path:
    """Where the repository keeps the weights of a head for one of its own targets."""
    return DATA / target.name / name


def save(folder: Path, head: Head, target: Target, frequent: Tensor | None = None, facts: dict | None = None) -> None:
    """Write a head's weights under a temporary name, then rename. facts: what a reader of config.json should know.

    bf16 for a target in bf16, float32 for others.
    """
    from safetensors.torch import save_file

    dtype = torch.bfloat16 if target.dtype in (torch.bfloat16, torch.float16) else torch.float32
    tensors = {name: weight.detach().to("cpu", dtype).contiguous() for name, weight in head.state_dict().items()}
    if frequent is not None:
        tensors["frequent"] = frequent.to("cpu", torch.int32)
    config = {
        "drafter": head.name,
        "settings": head.settings,
        "target": target.name,
        "fingerprint": target.fingerprint(),
        "parameters": sum(weight.numel() for weight in head.parameters()),
        **(facts or {}),
    }
    folder = Path(folder)
    temporary = folder.with_name(folder.name + ".tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    save_file(tensors, temporary / WEIGHTS)
    (temporary / CONFIG).write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    if folder.exists():
        shutil.rmtree(folder)
    temporary.replace(folder)


def load(kind: type[Head], target: Target, folder: str | Path | None = None) -> tuple[Head, Tensor | None]:
    """A head of that kind for this target, and its frequent tokens (None when it ranks none).

    folder: None takes the repository's own. Raises ValueError for weights that are missing, damaged, of another kind
    of head or of another target.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    place = bundled(target, kind.name) if folder is None else Path(folder)
    if not (place / CONFIG).is_file():
        train = f"`mtp-tutorial train --target {target.name} --drafter {kind.name} --out FOLDER`"
        raise ValueError(
            f"no weights of a {kind.name!r} drafter for {target.name} in {place}: train some with {train} and pass "
            "weights=FOLDER"
        )
    try:
        config = json.loads((place / CONFIG).read_text(encoding="utf-8"))
        found, settings, owner = config["drafter"], dict(config["settings"]), config["fingerprint"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{place / CONFIG} is damaged ({error!r}): bring the folder here again") from error
    if found != kind.name:
        raise ValueError(f"{place} holds the weights of a {found!r} drafter, not of a {kind.name!r} one")
    if owner != target.fingerprint():
        raise ValueError(
            f"{place} was trained for another target ({config.get('target')!r} with weights {owner}); {target.name} "
            f"has weights {target.fingerprint()}: a head drafts for the target it was trained on"
        )
    try:
        tensors = load_file(place / WEIGHTS)
    except (OSError, SafetensorError) as error:
        raise ValueError(f"{place / WEIGHTS} is missing or damaged ({error}): bring the folder here again") from error
    frequent = tensors.pop("frequent", None)
    try:
        head = kind(target, **settings)
        _fill(head, tensors)
    except (RuntimeError, TypeError, ValueError) as error:
        raise ValueError(f"{place} does not fit its own config.json: {error}") from error
    return head, None if frequent is None else frequent.long()


def _fill(head: Head, tensors: dict[str, Tensor]) -> None:
    """Every tensor in its place, none missing, none left over, none with NaN."""
    wanted = head.state_dict()
    missing, extra = sorted(wanted.keys() - tensors.keys()), sorted(tensors.keys() - wanted.keys())
    if missing or extra:
        raise ValueError(f"missing tensors {missing[:3]}, unknown tensors {extra[:3]}")
    for name, weight in tensors.items():
        if weight.shape != wanted[name].shape:
            raise ValueError(f"{name} has shape {tuple(weight.shape)} instead of {tuple(wanted[name].shape)}")
        if not bool(weight.isfinite().all()):
            raise ValueError(f"{name} holds NaN or infinity")
    head.load_state_dict(tensors)
