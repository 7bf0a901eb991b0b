"""Drafters: who guesses.

Takes: a target.  Returns: something that proposes draft tokens and is told what became of them.
Must not know: verify rules, the loop.
"""

from __future__ import annotations

from ..models import Target
from .base import Drafter, check_drafter
from .draft_model import DraftModelDrafter
from .eagle import EagleDrafter
from .gated_lora import GatedLoraDrafter
from .joined import JoinedDrafter
from .medusa import MedusaDrafter
from .mtp import MtpDrafter
from .ngram import NgramDrafter
from .oracle import OracleDrafter
from .weights import bundled

__all__ = [
    "DRAFTERS",
    "UNTRAINED",
    "DraftModelDrafter",
    "Drafter",
    "EagleDrafter",
    "GatedLoraDrafter",
    "JoinedDrafter",
    "MedusaDrafter",
    "MtpDrafter",
    "NgramDrafter",
    "OracleDrafter",
    "bundled",
    "check_drafter",
    "load_drafter",
]

#: name → class
DRAFTERS = {
    "ngram": NgramDrafter,
    "draft": DraftModelDrafter,
    "oracle": OracleDrafter,
    "mtp": MtpDrafter,
    "medusa": MedusaDrafter,
    "eagle": EagleDrafter,
    "gated_lora": GatedLoraDrafter,
    "joined": JoinedDrafter,
}

#: Those without weights of their own.
UNTRAINED = ("ngram", "oracle")


def load_drafter(name: str, target: Target, **options) -> Drafter:
    """A drafter for ``target`` by name.

    ``"ngram"`` (max_ngram=3, min_ngram=1), ``"oracle"`` (continuation=None, accuracy=1), and those with weights:
    ``"draft"``, ``"mtp"``, ``"medusa"``, ``"eagle"``, ``"gated_lora"`` (weights=None, temperature=0, frequent="auto",
    min_confidence=0; "draft" takes model= as well and has no confidence), and ``"joined"``: mtp and ngram in one
    (head_tokens=2). The repository has weights for its own targets. Raises ValueError for an unknown name
    or option, for a vocabulary that is not the target's, and for weights that are missing, damaged or another target's.
    """
    if not isinstance(name, str) or name not in DRAFTERS:
        raise ValueError(f"unknown drafter {name!r}; known: {', '.join(DRAFTERS)}")
    if not isinstance(target, Target):
        raise ValueError(f"a drafter is made for a target: pass what mt.load returned, not {type(target).__name__}")
    try:
        return DRAFTERS[name](target, **options)
    except TypeError as error:
        raise ValueError(f"drafter {name!r}: {error}; see help(mt.load_drafter) for its options") from error
