"""The bundled target, stored in the repository: ``data/nano/target``.

Takes: nothing.  Returns: the folder that transformers loads.
Must not know: the rest of the library, nor how the model was trained.
"""

from __future__ import annotations

from pathlib import Path

from .smollm2 import FetchError

NOTE = "nano, a model of about one million parameters: it knows four kinds of made-up text and nothing else"


def folder() -> Path:
    """Where it lies: beside the package, in a clone of the repository."""
    return Path(__file__).resolve().parents[2] / "data" / "nano" / "target"


def is_there() -> bool:
    return all((folder() / name).is_file() for name in ("config.json", "model.safetensors", "tokenizer.json"))


def find() -> Path:
    """The folder. Raises FetchError (a ValueError) when the package was installed without the repository's data."""
    if not is_there():
        raise FetchError(
            f"nano is not in {folder()}: it comes with the repository, so clone that and install it with "
            "`pip install -e .`, or use mt.load('toy')"
        )
    return folder()
