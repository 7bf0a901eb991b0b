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
    grams = _grams(_items(ids), n)
    return 1 - len(set(grams)) / len(grams) if grams else 0.0


def distinct_n(ids: Items, n: int) -> float:
    """The share of distinct n-grams among all: 1 - seq_rep_n. 1 with fewer than n ids.

    Raises ValueError unless n is 1 or more.  Ref: Li et al., arXiv 1510.03055, section 5 (distinct-n).
    """
    grams = _grams(_items(ids), n)
    return len(set(grams)) / len(grams) if grams else 1.0


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
    letters = _letters(_items(ids))
    best = Repeat(0, 0, 0)
    low, high = 1, len(letters) - 1  # whatever occurs twice has shorter pieces that do: the length can be bisected
    while low <= high:
        length = (low + high) // 2
        found = _first_repeat(letters, length)
        if found is None:
            high = length - 1
        else:
            best, low = Repeat(length, *found), length + 1
    return best


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
    marked, seen = [False] * len(items), set()
    for place, gram in enumerate(_grams(items, n)):
        if gram in seen:
            marked[place : place + n] = [True] * n
        seen.add(gram)
    return marked


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


def _grams(items: Items, n: int) -> list[str]:
    """Every n-gram, as a string: pieces of strings are made and compared much faster than those of lists."""
    _whole("n", n)
    letters = _letters(items)
    return [letters[i : i + n] for i in range(len(letters) - n + 1)]


def _letters(items: Items) -> str:
    """A letter for each distinct item, whichever."""
    numbers: dict[Hashable, int] = {}
    return items if isinstance(items, str) else "".join(chr(numbers.setdefault(x, len(numbers))) for x in items)


def _first_repeat(letters: str, length: int) -> tuple[int, int] | None:
    """The places of the first stretch of that length that was there before."""
    seen: dict[str, int] = {}
    for place, gram in enumerate(_grams(letters, length)):
        if gram in seen:
            return seen[gram], place
        seen[gram] = place
    return None
