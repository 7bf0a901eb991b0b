"""Learn, measure and debug speculative decoding and multi-token prediction (MTP).

The public names live here. Nothing heavy is imported until a name is used.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING

__version__ = "0.1.0"

#: public name → the module that defines it
_HOMES = {
    "Sampling": "records",
    "Draft": "records",
    "Verdict": "records",
    "Round": "records",
    "Generation": "records",
    "Controller": "records",
    "probabilities": "sampling",
    "inverse_cdf": "sampling",
    "exponential_race": "sampling",
    "gumbel_max": "sampling",
    "Rule": "verify",
    "RULES": "verify",
    "verify": "verify",
    "Target": "models",
    "load": "models",
    "load_drafter": "drafters",
    "generate": "decode",
    "stream": "decode",
    "Hooks": "decode",
    "SlotCache": "cache",
    "PrefixCache": "cache",
}
_ROOMS = ("checks", "drafters", "lab", "serving", "show")

__all__ = ["__version__", *_HOMES, *_ROOMS]  # noqa: PLE0604


def __getattr__(name: str):
    if name in _HOMES:
        value = getattr(_import(_HOMES[name]), name)
    elif name in _ROOMS:
        value = _import(name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def _import(module: str) -> ModuleType:
    try:
        return importlib.import_module(f"{__name__}.{module}")
    except (ImportError, OSError) as error:
        if "torch" not in sys.modules:
            error.add_note("torch cannot be imported here: `mtp-tutorial doctor` (or `make doctor`) names the cures")
        raise


def __dir__() -> list[str]:
    return sorted(__all__)


class _Package(ModuleType):
    """Keeps ``mt.verify`` the function: importing the module ``verify`` would put the module in its place."""

    def __setattr__(self, name: str, value: object) -> None:
        if not (isinstance(value, ModuleType) and name in _HOMES):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


if TYPE_CHECKING:
    from . import checks, drafters, lab, serving, show
    from .cache import PrefixCache, SlotCache
    from .decode import Hooks, generate, stream
    from .drafters import load_drafter
    from .models import Target, load
    from .records import Controller, Draft, Generation, Round, Sampling, Verdict
    from .sampling import exponential_race, gumbel_max, inverse_cdf, probabilities
    from .verify import RULES, Rule, verify
