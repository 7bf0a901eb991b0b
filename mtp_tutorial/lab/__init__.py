"""Measuring and breaking: the instruments that decide whether speculation changed the outputs.

Nothing in the engine imports this room.
"""

from __future__ import annotations

import importlib

_MODULES = (
    "bench",
    "capstone",
    "claims",
    "controllers",
    "drafts",
    "exact",
    "experiment",
    "families",
    "gate",
    "guesses",
    "instruments",
    "losslessness",
    "misloaded",
    "museum",
    "near_ties",
    "probe",
    "repetition",
    "server_sim",
    "stats",
    "theory",
    "watch",
)
__all__ = list(_MODULES)


def __getattr__(name: str):
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
