"""How much a text repeats itself: n-grams, substrings, sentences, loops at its end.

Takes: token ids, words, or a string (which counts as its characters).  Returns: shares, lengths, places.
Must not know: models, who made the text, what is normal.

These measures drift with length: a longer text has said more that can be said again. Compare texts of one length, or
look at windows of one length (``by_window``). Report loops at the end apart: a text that loops has no other problem.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

import numpy as np

Items = Sequence[Hashable]

#: A sentence ends at a line break, at 。！？, and at . ! ? … with what closes a quotation, if a space follows.
_SENTENCE_END = re.compile(r"\n+|(?<=[。！？])(?![」』”’）])|(?<=[.!?…])[\"'”’)\]]*(?=\s)")
#: A Chinese, Japanese or Korean character is a word; so is a run of other letters and digits, and each sign.
_CJK = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_WORD = re.compile(rf"[{_CJK}]|[^\W{_CJK}]+|[^\w\s]")


def seq_rep_n(ids: Items, n: int) -> float:
    """The share of n-grams that are not the first of their kind: 1 - distinct ÷ all. 0 with fewer than n ids.

    Raises ValueError unless n is 1 or more.  Ref: Welleck et al., arXiv 1908.04319, section 6 (seq-rep-n).

    >>> seq_rep_n([1, 2, 1, 2, 1], 2)  # 12, 21, 12, 21
    0.5
    """
    grams = _numbered(_items(ids), n)
    return 1 - _distinct(grams) / len(grams) if len(grams) else 0.0


def distinct_n(ids: Items, n: int) -> float:
    """The share of distinct n-grams among all: 1 - seq_rep_n. 1 with fewer than n ids.

    Raises ValueError unless n is 1 or more.  Ref: Li et al., arXiv 1510.03055, section 5 (distinct-n).
    """
    grams = _numbered(_items(ids), n)
    return _distinct(grams) / len(grams) if len(grams) else 1.0


@dataclass(frozen=True)
class Repeat:
    """The same ``length`` items stand at ``first`` and again at ``second``, counted from 0. The two may overlap."""

    length: int
    first: int
    second: int


def longest_repeat(ids: Items) -> Repeat:
    """The longest stretch that occurs twice, and where; the earliest one if there are several. Length 0: none.

    >>> longest_repeat("banana")
    Repeat(length=3, first=1, second=3)
    """
    numbers, length = _numbered(_items(ids), 1), 1
    if _distinct(numbers) == len(numbers):
        return Repeat(0, 0, 0)
    while _distinct(longer := _paired(numbers, length)) < len(longer):
        numbers, length = longer, 2 * length
    # What occurs twice has shorter stretches that do, so the rest, less than ``length``, can be bisected.
    low, high = 0, length
    while high - low > 1:
        middle = (low + high) // 2
        longer = _paired(numbers, middle)
        low, high = (middle, high) if _distinct(longer) < len(longer) else (low, middle)
    found = _paired(numbers, low) if low else numbers
    second = int(_seen_before(found)[0])
    return Repeat(length + low, int(np.flatnonzero(found == found[second])[0]), second)


def longest_repeated_substring(ids: Items) -> int:
    """The length of the longest stretch that occurs twice, in ids (or characters, or words).

    >>> longest_repeated_substring("banana")
    3
    """
    return longest_repeat(ids).length


def repeated_places(ids: Items, n: int) -> list[bool]:
    """For each id, whether it is part of an n-gram that was said before: what a picture colours.

    Raises ValueError unless n is 1 or more.

    >>> repeated_places("abcab", 2)
    [False, False, False, True, True]
    """
    items = _items(ids)
    begins = _seen_before(_numbered(items, n))
    edges = np.zeros(len(items) + 1, np.int64)  # +1 where a marked stretch begins, -1 behind its end
    edges[begins] += 1
    edges[begins + n] -= 1
    return (edges.cumsum()[:-1] > 0).tolist()


# -- Loops at the end -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Loop:
    """The ids from ``start`` on repeat with ``period``, ``repeats`` times (the last time perhaps in part)."""

    period: int
    start: int
    repeats: float


def tail_loop(ids: Items, min_period: int, max_period: int, repeats: int) -> Loop | None:
    """The loop that the text ends in, by the smallest period that fits; None when it ends in none.

    The last ``repeats`` × P ids must have period P, a number from ``min_period`` to ``max_period``, smallest or not:
    with min_period = 4 and repeats = 3, one token said 12 times is a loop, said 3 times it is none.
    Raises ValueError unless 1 ≤ min_period ≤ max_period and repeats ≥ 1 (1 is no repetition: any text fits).

    >>> tail_loop("so it goes, goes, goes, goes,", 1, 10, 3)
    Loop(period=6, start=5, repeats=4.0)
    """
    for name, value in (("min_period", min_period), ("max_period", max_period), ("repeats", repeats)):
        _whole(name, value)
    if max_period < min_period:
        raise ValueError(f"min_period={min_period}, max_period={max_period}: use 1 <= min_period <= max_period")
    items = _items(ids)
    for period in range(min_period, min(max_period, len(items) // repeats) + 1):
        start = len(items) - period
        while start > 0 and items[start - 1] == items[start - 1 + period]:
            start -= 1
        if len(items) - start >= repeats * period:
            return Loop(period, start, (len(items) - start) / period)
    return None


def has_tail_loop(ids: Items, min_period: int, max_period: int, repeats: int) -> bool:
    """Whether the last ``repeats`` × P ids have period P for some P from ``min_period`` to ``max_period``.

    Raises ValueError as ``tail_loop`` does.
    """
    return tail_loop(ids, min_period, max_period, repeats) is not None


# -- Sentences and words --------------------------------------------------------------------------------------------


def sentences(text: str) -> list[str]:
    """The sentences of a text, spaces trimmed; a line break ends one, so that lines of code and lists count too.

    >>> sentences("It rains. It rains. 他来了。他来了。")
    ['It rains.', 'It rains.', '他来了。', '他来了。']
    """
    if not isinstance(text, str):
        raise ValueError(f"sentences are found in a string, got {type(text).__name__}: use split_ids for token ids")
    places = [0, *(found.end() for found in _SENTENCE_END.finditer(text)), len(text)]
    pieces = (" ".join(text[a:b].split()) for a, b in zip(places, places[1:], strict=False))
    return [piece for piece in pieces if piece]


def split_ids(ids: Sequence[int], ends: set[int] | frozenset[int]) -> list[tuple[int, ...]]:
    """Token ids cut into sentences: each ends with one of the ids ``ends`` (those of a full stop, a line break …)."""
    found, start, items = [], 0, _items(ids)
    for place, token in enumerate(items, 1):
        if token in ends or place == len(items):
            found.append(tuple(items[start:place]))
            start = place
    return found


def repeated_sentence_share(text: str | Items) -> float:
    """Of the sentences that follow another one, the share that say the same as the one before. 0 with fewer than two.

    text: a string, or sentences that are cut already (``split_ids``).

    >>> repeated_sentence_share("It rains. It rains. It pours.")
    0.5
    """
    said = sentences(text) if isinstance(text, str) else _items(text)
    pairs = list(zip(said, said[1:], strict=False))
    return sum(a == b for a, b in pairs) / len(pairs) if pairs else 0.0


def words(text: str) -> list[str]:
    """Words and signs, in small letters; a Chinese, Japanese or Korean character is a word. For n-grams of words.

    >>> words("Again, 再来!")
    ['again', ',', '再', '来', '!']
    """
    return [text[start:end].lower() for start, end in word_places(text)]


def word_places(text: str) -> list[tuple[int, int]]:
    """Where each of ``words(text)`` stands: (start, end) in characters, for pictures."""
    return [found.span() for found in _WORD.finditer(text)]


def by_window(measure: Callable[[Items], float], ids: Items, length: int) -> list[float]:
    """A measure over each whole window of ``length`` ids, side by side; what is left at the end is not looked at.

    Raises ValueError when not even one window fits: a shorter text cannot be compared.

    >>> by_window(lambda window: distinct_n(window, 1), "aabbabab", 4)
    [0.5, 0.5]
    """
    _whole("length", length)
    items = _items(ids)
    if len(items) < length:
        raise ValueError(f"{len(items)} ids do not fill a window of {length}: use a shorter window or longer texts")
    return [measure(items[start : start + length]) for start in range(0, len(items) - length + 1, length)]


# -- Inside ---------------------------------------------------------------------------------------------------------


def _whole(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{name}={value!r}: use a whole number, 1 or more")


def _items(ids: object) -> Items:
    """A string, list or tuple as it is; tensors and arrays, whose numbers are not equal as keys, as lists."""
    items = ids.tolist() if hasattr(ids, "tolist") else ids
    if not isinstance(items, (str, list, tuple)):
        raise ValueError(f"give a list of token ids, of words, or a string; got {type(ids).__name__}")
    if items and isinstance(items[0], list):
        raise ValueError("this looks like several texts: give one at a time")
    return items


def _numbered(items: Items, n: int) -> np.ndarray:
    """(N - n + 1,) int64: a number for each n-gram, the same for equal ones, 0 … distinct - 1.

    An n-gram is a pair of shorter ones, so that log n rounds of sorting will do, however long it is.
    """
    _whole("n", n)
    known: dict[Hashable, int] = {}
    found = np.fromiter((known.setdefault(item, len(known)) for item in items), np.int64, len(items))
    length = 1
    while length < n:
        shift = min(length, n - length)
        found, length = _paired(found, shift), length + shift
    return found


def _paired(numbers: np.ndarray, shift: int) -> np.ndarray:
    """Stretches and those that begin ``shift`` places later, numbered as pairs: stretches longer by ``shift``."""
    if len(numbers) <= shift:
        return numbers[:0]
    pairs = numbers[: len(numbers) - shift] * (numbers.max() + 1) + numbers[shift:]
    return np.unique(pairs, return_inverse=True)[1]


def _distinct(numbers: np.ndarray) -> int:
    return int(numbers.max()) + 1 if len(numbers) else 0


def _seen_before(numbers: np.ndarray) -> np.ndarray:
    """The places whose number stands at an earlier place, too."""
    _, first = np.unique(numbers, return_index=True)
    again = np.ones(len(numbers), dtype=bool)
    again[first] = False
    return np.flatnonzero(again)
