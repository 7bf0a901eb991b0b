"""What a figure was measured on.

Takes: a target, a number of threads.  Returns: plain facts for the first line of a file.
Must not know: what is measured.
"""

from __future__ import annotations

import datetime
import os
import platform
from pathlib import Path

import torch

from ... import __version__
from ...models import Target


def describe(device: torch.device | str = "cpu") -> dict:
    """The machine: processor, cores, memory, and the accelerator where one is used. No names, no paths."""
    import psutil

    where = torch.device(device)
    found = {
        "cpu": _cpu_name(),
        "cores": psutil.cpu_count(logical=False) or os.cpu_count(),
        "logical_cores": os.cpu_count(),
        "memory_gb": round(psutil.virtual_memory().total / 1e9, 1),
        "system": platform.system(),
        "architecture": platform.machine(),
    }
    if where.type == "cuda":
        facts = torch.cuda.get_device_properties(where)
        found |= {"gpu": facts.name, "gpu_memory_gb": round(facts.total_memory / 1e9, 1), "cuda": torch.version.cuda}
    return found


def versions() -> dict[str, str]:
    """Python and the packages that decide how fast things are."""
    import transformers

    return {
        "mtp_tutorial": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
    }


def today() -> str:
    return datetime.datetime.now(datetime.UTC).date().isoformat()


def of_target(target: Target) -> dict:
    """The model: its name, weights and dtype."""
    return {
        "target": target.name,
        "fingerprint": target.fingerprint(),
        "parameters": sum(weight.numel() for weight in target.model.parameters()),
        "dtype": str(target.dtype).removeprefix("torch."),
        "device": target.device.type,
        "short_way": getattr(target, "takes_short_way", False),  # models/fast.py in place of the model's own forward
    }


def _cpu_name() -> str:
    """The processor's name where the system tells it: Linux in a file, others through ``platform``."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    found = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)}
    name = found.get("model name") or platform.processor() or platform.machine()
    flags = found.get("flags", "").split()
    return name + "".join(f", {flag}" for flag in ("avx512_bf16", "amx_bf16") if flag in flags)
