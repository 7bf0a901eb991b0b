"""Models of transformers: a local folder, or an id on the Hugging Face hub.

transformers, safetensors, pickle, json and torch each have their own exceptions for a model that cannot be loaded. They
are translated here, and nowhere else: whatever goes wrong is a ValueError that names what was given and what would do.
"""

from __future__ import annotations

import json
import os
import pickle
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from .smollm2 import FetchError

#: Options that say where files come from: the tokenizer has to come from the same place as the weights.
_SOURCE_OPTIONS = (
    "cache_dir", "force_download", "local_files_only", "revision", "subfolder", "token", "trust_remote_code",
    "gguf_file",
)  # fmt: skip


@contextmanager
def value_errors_only(what: str) -> Iterator[None]:
    """Any exception raised inside becomes a ValueError that begins with ``what``; KeyboardInterrupt stays itself."""
    try:
        yield
    except ValueError:
        raise
    except Exception as error:
        raise ValueError(f"{what} ({_in_short(error)})") from error


def load(source: str | Path, name: str, device: torch.device, dtype: torch.dtype, options: dict, known: str):
    """The model and its tokenizer. ``name`` is what the reader wrote, ``known`` lists the names that need no hub.

    Raises ValueError for a folder or an option that does not do, FetchError (a ValueError) for an id that the hub does
    not have, or that cannot be fetched.
    """
    from transformers import AutoModelForCausalLM, AutoTokenizer

    if "torch_dtype" in options:
        raise ValueError(f"torch_dtype={options['torch_dtype']!r}: the option is called dtype, so write dtype=…")
    source, given, unreachable = os.path.expanduser(source), list(options), None
    if os.path.isfile(source):
        raise ValueError(f"{name!r:.90} is a file: give the folder it is in, for a GGUF file with gguf_file='its name'")
    options = dict(options)
    if not os.path.isdir(source) and not options.get("local_files_only"):
        # What does not look like owner/name is a misspelt name or path: there is no use in asking the hub.
        asks = re.fullmatch(r"[\w-][\w.-]*/[\w.-]+", source) is not None
        # Without this look transformers retries each of several files for the better part of a minute.
        unreachable = hub_problem(timeout=10) if asks else None
        options["local_files_only"] = not asks or unreachable is not None
    try:
        where = {key: options[key] for key in _SOURCE_OPTIONS if key in options}
        tokenizer = AutoTokenizer.from_pretrained(source, **where)
        settings = {"ignore_mismatched_sizes": True, **options}
        model, report = AutoModelForCausalLM.from_pretrained(source, dtype=dtype, output_loading_info=True, **settings)
        if "ignore_mismatched_sizes" not in options:
            _check_fit(model, report)
        return (model if "device_map" in options else model.to(device)), tokenizer
    except Exception as error:
        raise _refusal(source, name, dtype, given, known, unreachable, error) from error


def hub_endpoint() -> str:
    """The address of the hub, and which variable says so."""
    from huggingface_hub import constants

    return (
        f"{constants.ENDPOINT} ({'as HF_ENDPOINT says' if os.environ.get('HF_ENDPOINT') else 'HF_ENDPOINT is not set'})"
    )


def hub_problem(timeout: float) -> str | None:
    """Why the Hugging Face hub cannot be asked, or None when it answers. Takes at most ``timeout`` seconds."""
    from huggingface_hub import constants
    from huggingface_hub.utils import get_session

    if constants.is_offline_mode():
        return "HF_HUB_OFFLINE is set"
    found = [f"no answer within {timeout:g} seconds"]

    def ask() -> None:
        try:
            get_session().head(constants.ENDPOINT, timeout=timeout)  # any answer will do, also "not found"
            found[0] = None
        except Exception as error:
            found[0] = _in_short(error)

    # In a thread, since looking up a name heeds no timeout.
    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(timeout)
    return found[0]


def _check_fit(model: torch.nn.Module, report: dict) -> None:
    """Raise ValueError when config.json describes another model than the weights are of.

    transformers only logs that, and fills what is missing with random numbers.
    """
    misfits = [f"{key} is {tuple(stored)} in the file and {tuple(wanted)} by config.json"
               for key, stored, wanted in sorted(report["mismatched_keys"])]  # fmt: skip
    if getattr(model.config, "quantization_config", None) is None:  # scales may be computed rather than stored
        misfits += [f"{key} is not in the file" for key in sorted(report["missing_keys"])]
    if misfits:
        more = f" and {len(misfits) - 2} more" if len(misfits) > 2 else ""
        raise ValueError(f"config.json does not fit the weights: {'; '.join(misfits[:2])}{more}")


def _refusal(
    source: str, name: str, dtype: torch.dtype, given: list[str], known: str, unreachable: str | None, error: Exception
) -> ValueError:
    """What to tell a reader whose model did not load. given: the options that the reader gave."""
    why = _in_short(error)
    if isinstance(error, TypeError) and (unknown := [key for key in given if f"'{key}'" in str(error)]):
        return ValueError(
            f"unknown option {', '.join(unknown)}: transformers' from_pretrained does not take it for {name!r:.90} "
            f"({why}). Leave it out"
        )
    if isinstance(error, (MemoryError, torch.OutOfMemoryError)):
        return ValueError(
            f"there is not enough memory for {name!r:.90} in {str(dtype).removeprefix('torch.')} ({why}): use "
            "dtype='bfloat16', device='cpu', device_map='auto', or a smaller model"
        )
    advice = f", or correct the options {', '.join(given)}" if given else ""
    if os.path.isdir(source):
        if isinstance(error, pickle.UnpicklingError):
            why = "its .bin file is damaged, or holds more than tensors and is not read, since it could run any program"
        return ValueError(
            f"{name!r:.90} cannot be loaded, or is damaged: {why}{_lacks(Path(source))}. A folder that loads was made "
            f"by save_pretrained, of a causal LM and of its tokenizer: bring it here again{advice}. Known names: "
            f"{known}"
        )
    if unreachable and isinstance(error, OSError):
        return FetchError(
            f"unknown model {name!r:.90}: it is not on this disk, and the hub {hub_endpoint()} cannot be asked: "
            f"{unreachable}. Connect to the network, set HF_ENDPOINT to a mirror that you can reach, or give a local "
            "folder made by save_pretrained (HF_HUB_OFFLINE=1 keeps to what is cached; unset it to fetch more). Known "
            f"names: {known}"
        )
    return FetchError(
        f"unknown model {name!r:.90}, or it is damaged or cannot be reached ({why}). Known names: {known}; else give a "
        f"local folder made by save_pretrained, or a Hugging Face id as owner/name with the network up{advice}"
    )


def _in_short(error: Exception) -> str:
    """ "KeyError: 'added_tokens'": the kind of error, and how its message begins, on one line."""
    said = " ".join(str(error).split())
    said = said if len(said) <= 240 else said[:239] + "…"
    kind = "" if said and isinstance(error, (ValueError, OSError)) else type(error).__name__
    return ": ".join(filter(None, (kind, said)))


def _lacks(folder: Path) -> str:
    """'; it has no …': what a model's folder must have and this one has not."""
    try:
        names = {path.name for path in folder.iterdir()}
    except OSError as error:
        return f"; it cannot be read ({_in_short(error)})"
    missing = [] if "config.json" in names else ["config.json"]
    if not any(name.endswith((".safetensors", ".bin", ".gguf")) for name in names):
        missing.append("weights (model.safetensors)")
    if not any(name.startswith(("tokenizer", "vocab", "spiece", "sentencepiece")) for name in names):
        missing.append("tokenizer (tokenizer.json)")
    for index in folder.glob("*.index.json"):
        try:
            missing += sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()) - names)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            missing.append(f"readable {index.name}")
    return f"; it has no {', '.join(missing)}" if missing else ""
