"""The text that the bundled model learns: four kinds that differ in how well the next token can be foreseen.

Takes: a kind, a count, a seed.  Returns: texts, always the same ones.
Must not know: models, tokenizers (but for a function that counts tokens), how the texts are used.

JSON and Python follow schemas, so most tokens are settled by those before; prose and dialogue choose freely among many
words. Text number i depends on kind, seed and i alone. Held-out texts are drawn from seeds that training never uses.

>>> print(texts("python", 1, seed=5)[0].splitlines()[0])
def first_and_last(items):
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from . import dialogue, prose, python, records

_MAKERS: dict[str, Callable[[random.Random], str]] = {
    "prose": prose.make,
    "dialogue": dialogue.make,
    "json": records.make,
    "python": python.make,
}
#: The kinds of text.
KINDS = tuple(_MAKERS)


def texts(kind: str, count: int, seed: int = 0, held_out: bool = False) -> list[str]:
    """``count`` texts of one kind. held_out: from the seeds that training never uses.

    Raises ValueError for an unknown kind.
    """
    return [_text(kind, index, seed, held_out) for index in range(count)]


def prompts(kind: str, count: int, seed: int = 0, held_out: bool = True) -> list[str]:
    """The beginnings of ``count`` texts: a quarter to a half of each, ending where a word ends.

    Raises ValueError for an unknown kind.
    """
    found = []
    for index, text in enumerate(texts(kind, count, seed, held_out)):
        cut = int(len(text) * random.Random(f"cut {kind} {seed} {index}").uniform(0.25, 0.5))
        while cut < len(text) and (text[cut].isalnum() or not text[cut - 1].isalnum()):
            cut += 1
        found.append(text[:cut])
    return found


def corpus(tokens: int, encode: Callable[[str], Sequence[int]], seed: int = 0) -> list[list[int]]:
    """Encoded texts of all kinds in equal shares, mixed, with ``tokens`` ids or slightly more in total."""
    found: list[list[int]] = []
    have, made = dict.fromkeys(KINDS, 0), dict.fromkeys(KINDS, 0)
    while sum(have.values()) < tokens:
        kind = min(KINDS, key=have.__getitem__)
        found.append(list(encode(_text(kind, made[kind], seed, False))))
        made[kind] += 1
        have[kind] += len(found[-1])
    random.Random(f"order {seed}").shuffle(found)
    return found


def _text(kind: str, index: int, seed: int, held_out: bool) -> str:
    if kind not in _MAKERS:
        raise ValueError(f"unknown kind of text {kind!r}: use one of {', '.join(KINDS)}")
    return _MAKERS[kind](random.Random(f"{'held-out' if held_out else 'training'} {kind} {seed} {index}"))
