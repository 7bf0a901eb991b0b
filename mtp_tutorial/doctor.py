"""Looks at this machine: what is installed, what is cached, and what to do about each problem.

Takes: nothing.  Returns: findings, each with a remedy where there is one.
Must not know: the loop, drafters, pictures.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import time
from dataclasses import asdict, dataclass
from pathlib import Path

OK, NOTE, PROBLEM = "ok", "note", "problem"
_GIB = 1 << 30


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at. status: ok, note (works, but could be better) or problem (something will fail)."""

    what: str
    found: str
    status: str = OK
    remedy: str = ""

    def as_dict(self) -> dict[str, str]:
        return asdict(self)


def examine() -> list[Finding]:
    """Everything, in the order in which a reader would fix it."""
    broken = torch_problem()
    if broken is not None:  # nothing below the packages can be asked without torch
        return [_python(), *(one for one in _packages() if one.what != "torch"), broken]
    found = [_python(), *_packages()]
    for look in (_machine, _models):
        try:
            found += look()
        except ImportError as error:
            found.append(Finding("packages", _in_short(error), PROBLEM, "install them again: pip install -e ."))
    return found


def _in_short(error: Exception) -> str:
    said = " ".join(str(error).split())
    return f"{type(error).__name__}: {said if len(said) <= 300 else said[:299] + '…'}"


def torch_problem() -> Finding | None:
    """Why torch cannot be imported and what cures that, or None when it can."""
    try:
        import torch  # noqa: F401
    except Exception as error:  # OSError for a library that does not load, ImportError, whatever else it trips over
        why = _in_short(error)
        if isinstance(error, ModuleNotFoundError) and error.name == "torch":
            return Finding("torch", "missing", PROBLEM, "run: make lab, or pip install torch in this environment")
        cures = []
        if "WinError" in why or ".dll" in why.lower() or "DLL load failed" in why:
            cures.append(
                "install Microsoft's newest Visual C++ Redistributable (X64; search for \"latest supported Visual C++ "
                'Redistributable"), start the computer anew, and try again'
            )
        cures.append(
            "install torch again, or another build or version of it: pip install --force-reinstall torch==VERSION, or "
            "make lab TORCH_SPEC=torch==VERSION; without an NVIDIA GPU take the CPU build (README, Start)"
        )
        return Finding("torch", f"cannot be imported ({why})", PROBLEM, "; if that does not help, ".join(cures))
    return None


def _python() -> Finding:
    return Finding("Python", f"{platform.python_version()} on {platform.system()} {platform.machine()}")


def _packages() -> list[Finding]:
    """Each pinned dependency whose installed version is outside its range, and the ones that matter most."""
    from packaging.requirements import Requirement

    found = []
    shown = {"torch", "transformers", "jupyterlab", "ipywidgets", "matplotlib"}
    for line in importlib.metadata.requires("mtp_tutorial") or ():
        need = Requirement(line)
        if need.marker is not None:  # an extra
            continue
        try:
            version = importlib.metadata.version(need.name)
        except importlib.metadata.PackageNotFoundError:
            found.append(Finding(need.name, "missing", PROBLEM, f'run: pip install "{need.name}{need.specifier}"'))
            continue
        if version not in need.specifier and not need.specifier.contains(version, prereleases=True):
            remedy = f'run: pip install "{need.name}{need.specifier}"'
            found.append(Finding(need.name, f"{version}, outside {need.specifier}", PROBLEM, remedy))
        elif need.name in shown:
            found.append(Finding(need.name, version))
    return found


def _machine() -> list[Finding]:
    import psutil
    import torch

    from .models import native_bf16

    if torch.cuda.is_available():
        where = torch.cuda.get_device_properties(0)
        found = [Finding("device", f"cuda: {where.name}, {where.total_memory / _GIB:.0f} GiB")]
        dtype = "bfloat16"
    else:
        remedy = ""
        if shutil.which("nvidia-smi"):
            remedy = "there is an NVIDIA driver, but this torch has no CUDA: install a CUDA build of torch"
        found = [Finding("device", f"cpu, {torch.get_num_threads()} threads", NOTE if remedy else OK, remedy), _cores()]
        dtype = "bfloat16" if native_bf16() else "float32"
    found.append(Finding("dtype", f"smollm2 runs in {dtype}, nano in float32, toys in float64"))
    memory = psutil.virtual_memory()
    text = f"{memory.available / _GIB:.1f} GiB free of {memory.total / _GIB:.1f} GiB"
    low = memory.available < 2 * _GIB
    found.append(
        Finding("memory", text, NOTE if low else OK, "smollm2 wants about 2 GiB: close other programs" if low else "")
    )
    return found


def _cores() -> Finding:
    """Whether other programs keep cores busy, and how many threads models use because of that."""
    import torch

    from .models.threads import WINDOW, Cores, fitting, usable

    cores = Cores()
    time.sleep(WINDOW)
    free, limit = cores.free(), torch.get_num_threads()
    if free is None:
        return Finding("cores", "this system does not tell how busy its cores are: models use all threads", NOTE)
    text = f"{max(0.0, len(usable()) - free):.1f} of {len(usable())} busy with other programs; smollm2 would use "
    text += f"{fitting(limit, free)} of {limit} threads now, nano one"
    busy = fitting(limit, free) < limit
    return Finding("cores", text, NOTE if busy else OK, "close other programs to decode at full speed" if busy else "")


def _models() -> list[Finding]:
    from .models import NAMES, cache_dir, nano, smollm2

    base = cache_dir()
    existing = next(path for path in (base, *base.parents) if os.path.exists(path))  # path.exists() may raise
    free = shutil.disk_usage(existing).free
    text, remedy = f"{_short(base)}, {free / _GIB:.1f} GiB free", ""
    if not smollm2.is_cached():
        if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
            what = "cannot be written" if existing.is_dir() else "is no folder"
            text, remedy = f"{_short(existing)} {what}", "set MTP_TUTORIAL_CACHE to a folder of your own"
        elif free < _GIB:
            remedy = "free 1 GiB, or set MTP_TUTORIAL_CACHE to a folder on another disk"
    found = [
        Finding("model cache", text, PROBLEM if remedy else OK, remedy),
        Finding("toys", ", ".join(name for name in NAMES if name.startswith("toy")) + " (built in)"),
    ]  # fmt: skip
    if nano.is_there():
        size = sum(path.stat().st_size for path in nano.folder().iterdir())
        found.append(Finding("nano", f"stored in the repository, {size / 1e6:.0f} MB"))
    else:
        found.append(
            Finding("nano", "not there", NOTE, "clone the repository and install from there: pip install -e .")
        )
    if smollm2.is_cached():
        size = sum(path.stat().st_size for path in smollm2.folder().iterdir())
        found.append(Finding("smollm2", f"cached, {size / 1e6:.0f} MB"))
    elif os.path.exists(smollm2.folder()):
        found.append(Finding("smollm2", "damaged", PROBLEM, "run: mtp-tutorial fetch smollm2 (it is made anew)"))
    else:
        found.append(
            Finding("smollm2", "not cached", NOTE, "run: mtp-tutorial fetch smollm2 (93 MB) while there is a network")
        )
    return [*found, *_cached_from_hub(), _hub_answers()]


def _short(path: Path) -> str:
    """The path with ~ for the reader's home folder."""
    return f"~/{path.relative_to(Path.home())}" if path.is_relative_to(Path.home()) else str(path)


def _cached_from_hub() -> list[Finding]:
    """Hugging Face models already on this disk."""
    from huggingface_hub import scan_cache_dir
    from huggingface_hub.errors import CacheNotFound

    try:
        repos = sorted(repo.repo_id for repo in scan_cache_dir().repos if repo.repo_type == "model")
    except (CacheNotFound, OSError):
        repos = []
    shown = ", ".join(repos[:8]) + (f" and {len(repos) - 8} more" if len(repos) > 8 else "")
    return [Finding("Hugging Face models", shown or "none cached")]


def _hub_answers() -> Finding:
    """Whether more can be fetched. Nothing here needs it but models named as owner/name."""
    from .models.pretrained import hub_endpoint, hub_problem

    why = hub_problem(timeout=2)
    if why is None:
        return Finding("Hugging Face hub", f"{hub_endpoint()} answers")
    remedy = "only models that are not cached need it: connect to the network, unset HF_HUB_OFFLINE, or set HF_ENDPOINT"
    return Finding("Hugging Face hub", f"{hub_endpoint()}: {why}", NOTE, f"{remedy} to a mirror that you can reach")
