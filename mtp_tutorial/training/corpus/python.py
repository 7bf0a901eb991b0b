"""Python: a small function with a docstring, then asserts that hold.

Takes: a random generator.  Returns: one piece of source text.
Must not know: the other kinds.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from .words import COLORS, FOODS, NAMES, THINGS

LISTS = ("numbers", "values", "items", "scores", "prices", "ages")
ELEMENTS = ("number", "value", "item", "x", "n", "entry")
RESULTS = ("total", "result", "found", "answer", "out")
WORDS = ("word", "text", "name", "line", "key")

# Name, parameters, docstring, body. {xs} a list of numbers, {x} an element, {r} the result, {s} a word, {c} a number.
_NUMBERS = (
    ("sum_{xs}", "{xs}", "Add up the {xs}.", "{r} = 0\nfor {x} in {xs}:\n    {r} += {x}\nreturn {r}"),
    ("largest", "{xs}", "Return the largest of the {xs}.",
     "{r} = {xs}[0]\nfor {x} in {xs}:\n    if {x} > {r}:\n        {r} = {x}\nreturn {r}"),
    ("smallest", "{xs}", "Return the smallest of the {xs}.",
     "{r} = {xs}[0]\nfor {x} in {xs}:\n    if {x} < {r}:\n        {r} = {x}\nreturn {r}"),
    ("count_above", "{xs}", "Count the {xs} above {c}.",
     "{r} = 0\nfor {x} in {xs}:\n    if {x} > {c}:\n        {r} += 1\nreturn {r}"),
    ("keep_even", "{xs}", "Keep the even {xs}.", "return [{x} for {x} in {xs} if {x} % 2 == 0]"),
    ("keep_below", "{xs}", "Keep the {xs} below {c}.", "return [{x} for {x} in {xs} if {x} < {c}]"),
    ("add_{c}", "{xs}", "Add {c} to each of the {xs}.", "return [{x} + {c} for {x} in {xs}]"),
    ("times_{c}", "{xs}", "Multiply each of the {xs} by {c}.",
     "{r} = []\nfor {x} in {xs}:\n    {r}.append({x} * {c})\nreturn {r}"),
    ("sorted_{xs}", "{xs}", "Return the {xs} from small to large.", "return sorted({xs})"),
    ("reverse_{xs}", "{xs}", "Return the {xs} from last to first.", "return {xs}[::-1]"),
    ("first_and_last", "{xs}", "Return the first and the last of the {xs}.", "return [{xs}[0], {xs}[-1]]"),
)  # fmt: skip
_STRINGS = (
    ("length_of_{s}", "{s}", "Count the letters of the {s}.", "return len({s})"),
    ("shout", "{s}", "Return the {s} in capital letters.", "return {s}.upper()"),
    ("reverse_{s}", "{s}", "Return the {s} backwards.", "return {s}[::-1]"),
    ("count_letter_e", "{s}", "Count how often e stands in the {s}.",
     "{r} = 0\nfor letter in {s}:\n    if letter == 'e':\n        {r} += 1\nreturn {r}"),
    ("starts_with_b", "{s}", "Say whether the {s} starts with b.", "return {s}.startswith('b')"),
    ("greet", "{s}", "Greet by the {s}.", "return 'Hello, ' + {s} + '!'"),
    ("first_letter", "{s}", "Return the first letter of the {s}.", "return {s}[0]"),
)  # fmt: skip
_PAIRS = (
    ("add", "a, b", "Add two numbers.", "return a + b"),
    ("multiply", "a, b", "Multiply two numbers.", "{r} = a * b\nreturn {r}"),
    ("difference", "a, b", "Return how far two numbers lie apart.", "if a > b:\n    return a - b\nreturn b - a"),
    ("maximum", "a, b", "Return the larger of two numbers.", "if a > b:\n    return a\nreturn b"),
    ("is_multiple", "a, b", "Say whether a is a multiple of b.", "return a % b == 0"),
)
_REPEATS = (
    ("repeat_{s}", "{s}, times", "Repeat the {s}.", "return {s} * times"),
    ("take", "{s}, times", "Return the first letters of the {s}.", "return {s}[:times]"),
)


def make(rng: random.Random) -> str:
    """One function and its asserts."""
    templates, arguments = rng.choices((
        (_NUMBERS, lambda: (_numbers(rng),)),
        (_STRINGS, lambda: (_word(rng),)),
        (_PAIRS, lambda: (rng.randint(1, 20), rng.randint(1, 9))),
        (_REPEATS, lambda: (_word(rng), rng.randint(2, 3))),
    ), (11, 7, 5, 2))[0]  # fmt: skip
    slots = {"xs": rng.choice(LISTS), "x": rng.choice(ELEMENTS), "r": rng.choice(RESULTS), "s": rng.choice(WORDS)}
    slots["c"] = str(rng.randint(2, 9))
    name, parameters, says, body = (part.format_map(slots) for part in rng.choice(templates))
    lines = [f"def {name}({parameters}):", f'    """{says}"""', *("    " + line for line in body.splitlines())]
    return "\n".join([*lines, "", *_asserts("\n".join(lines), name, arguments, rng.choice((1, 2, 2, 3)))])


def _asserts(source: str, name: str, arguments: Callable[[], tuple], count: int) -> list[str]:
    """What the function returns, found by running it."""
    names: dict = {}
    exec(source, names)  # source is a template of this module
    found = []
    for _ in range(count):
        given = arguments()
        value = names[name](*given)
        says = f" is {value!r}" if isinstance(value, bool) else f" == {value!r}"
        found.append(f"assert {name}({', '.join(map(repr, given))}){says}")
    return found


def _numbers(rng: random.Random) -> list[int]:
    return [rng.randint(0, 20) for _ in range(rng.randint(3, 5))]


def _word(rng: random.Random) -> str:
    return rng.choice(rng.choice((THINGS, COLORS, FOODS, NAMES)))
