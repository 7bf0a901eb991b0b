"""Prompts of many kinds, in an order of which every beginning is balanced.

Takes: a target's name, a number.  Returns: dicts with id, kind and prompt.
Must not know: arms.
"""

from __future__ import annotations

import itertools

from ...training.acceptance import PROMPTS, held_out_prompts
from ...training.selfdistill import read_prompts


def prompts_for(target_name: str, count: int = 200) -> list[dict]:
    """``count`` prompts: the first of each kind, then the second of each, and so on.

    Beginnings of held-out texts for nano; for any other target held-out requests, and where those are used up, requests
    that drafters were trained on. The first n of more prompts are the same as n prompts.
    Raises ValueError for count < 1, and for more prompts than there are.
    """
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise ValueError(f"prompts={count!r}: use a whole number, 1 or more")
    found = _round_robin(held_out_prompts(target_name, count if target_name == "nano" else None))
    if len(found) < count:
        found += _round_robin(read_prompts(PROMPTS, "train"))
    if len(found) < count:
        raise ValueError(f"prompts={count}: there are {len(found)} for {target_name}")
    return [{name: one[name] for name in ("id", "kind", "prompt")} for one in found[:count]]


def _round_robin(prompts: list[dict]) -> list[dict]:
    kinds: dict[str, list[dict]] = {}
    for one in prompts:
        kinds.setdefault(one["kind"], []).append(one)
    turns = itertools.zip_longest(*kinds.values())
    return [one for turn in turns for one in turn if one is not None]
