"""How an exercise is checked: the reader's function against a right one, on a few small cases.

Takes: the reader's function.  Returns: a ``Result``, and prints its one line.
Must not know: notebooks, pictures.

A wrong answer is met with a reason. Each exercise carries the mistakes people make, as functions: when the reader's
answers are those of a known mistake, its explanation is shown; otherwise the first case that differs, with what is
special about that case.
"""

from __future__ import annotations

import inspect
import math
import textwrap
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

NOT_ATTEMPTED, PASSED, FAILED = "not attempted", "passed", "failed"
_SIGNS = {NOT_ATTEMPTED: "○", PASSED: "✓", FAILED: "✗"}


@dataclass(frozen=True)
class Result:
    """What a check found. ``status`` is "passed", "failed" or "not attempted"."""

    exercise: str
    status: str
    message: str

    @property
    def passed(self) -> bool:
        return self.status == PASSED

    def __str__(self) -> str:
        return f"{_SIGNS[self.status]} {self.exercise}: {self.status}. {self.message}".rstrip()

    def __repr__(self) -> str:
        return f"<{self.exercise}: {self.status}>"

    def _ipython_display_(self) -> None:
        """Nothing: the line was printed already, and a notebook need not show it twice."""


def report(exercise: str, status: str, message: str = "") -> Result:
    """Print the result, wrapped between words (JupyterLab would break a long line within them), and hand it back."""
    result = Result(exercise, status, message)
    print(textwrap.fill(str(result), 80, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False))
    return result


@dataclass(frozen=True)
class Mistake:
    """A known wrong answer: a function that makes it, and what to tell the reader."""

    name: str
    function: Callable[..., Any]
    message: str


@dataclass(frozen=True)
class Exercise:
    """One exercise.

    solution: a right function.
    cases: argument tuples; a case on which a function raises counts as an answer, too.
    read: turns an answer into plain Python and raises TypeError or ValueError, saying what was wanted, when it can't.
    praise: said when it passes.
    hints: index of a case → what is special about it; said when that case is the first wrong one and no mistake fits.
    argument_names, describe: how a case is put into words: by name and value, or by a function of the case.
    """

    name: str
    solution: Callable[..., Any]
    cases: Sequence[tuple]
    read: Callable[[Any], Any]
    mistakes: Sequence[Mistake] = ()
    praise: str = ""
    tolerance: float = 1e-6
    argument_names: Sequence[str] = ()
    describe: Callable[[tuple], str] | None = None
    hints: Mapping[int, str] = field(default_factory=dict)


class Broken:
    """An answer that is none: what was raised, or an unusable value."""

    def __init__(self, words: str, kind: str) -> None:
        self.words, self.kind = words, kind


def answer(exercise: Exercise, function: Callable[..., Any], case: tuple) -> Any:
    """What a function answers in one case, as plain Python; ``None`` when it answers nothing; ``Broken`` on trouble."""
    try:
        value = function(*(_copy(argument) for argument in case))
    except NotImplementedError:
        return None
    except Exception as error:
        return Broken(f"it {raised(error, function)}", type(error).__name__)
    if value is None or value is Ellipsis:
        return None
    try:
        return exercise.read(value)
    except Exception as error:
        return Broken(f"it returned {show(value)}: {error}", "unreadable")


def raised(error: Exception, function: Callable[..., Any]) -> str:
    """In words: what was raised and, where it came from within the reader's own code, in which line."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    own = [frame for frame in traceback.extract_tb(error.__traceback__) if code and frame.filename == code.co_filename]
    words = f"raised {type(error).__name__}: {error}"
    return f"{words} (line {own[-1].lineno}: {own[-1].line:.80})" if own else words


def _copy(argument: Any) -> Any:
    """A fresh copy, so that a function that changes its arguments in place spoils no other case."""
    if hasattr(argument, "clone"):
        return argument.clone()
    return list(argument) if isinstance(argument, list) else argument


def check(exercise: Exercise, function: Callable[..., Any]) -> Result:
    """Judge a reader's function and print one line."""
    if function is None or function is Ellipsis:
        return report(exercise.name, NOT_ATTEMPTED, "Write the function, then run this cell again.")
    if not callable(function):
        return report(exercise.name, FAILED, f"Pass the function itself, not {show(function)}.")
    given = [answer(exercise, function, case) for case in exercise.cases]
    if all(one is None for one in given):
        return report(exercise.name, NOT_ATTEMPTED, "It returns nothing yet.")
    wanted = [answer(exercise, exercise.solution, case) for case in exercise.cases]
    wrong = [i for i, one in enumerate(given) if not same(one, wanted[i], exercise.tolerance)]
    if not wrong:
        return report(exercise.name, PASSED, exercise.praise)
    first = wrong[0]
    mistake = _known(exercise, given, wrong)
    if mistake is not None:
        return report(exercise.name, FAILED, f"{mistake.message} {_counterexample(exercise, first, given, wanted)}")
    words = f"{exercise.hints.get(first, '')} {_counterexample(exercise, first, given, wanted)}"
    return report(exercise.name, FAILED, words.strip())


def _known(exercise: Exercise, given: list, wrong: list[int]) -> Mistake | None:
    """The mistake that gives the reader's answers.

    One that gives them in every case comes first. Failing that, cases in which either of the two has no answer (many
    trip over an empty list) are left out, as long as two wrong answers agree.
    """
    near = None
    for mistake in exercise.mistakes:
        made = [answer(exercise, mistake.function, case) for case in exercise.cases]
        if all(same(one, other, exercise.tolerance) for one, other in zip(given, made)):
            return mistake
        both = [i for i in range(len(made)) if _is_value(given[i]) and _is_value(made[i])]
        agree = all(same(given[i], made[i], exercise.tolerance) for i in both)
        if near is None and agree and len(set(both) & set(wrong)) >= 2:
            near = mistake
    return near


def _is_value(one: Any) -> bool:
    return one is not None and not isinstance(one, Broken)


def _counterexample(exercise: Exercise, index: int, given: list, wanted: list) -> str:
    """In words: the call, what came, what should have come."""
    case, got = exercise.cases[index], given[index]
    names = exercise.argument_names or [""] * len(case)
    arguments = ", ".join(f"{name}={show(value)}" if name else show(value) for name, value in zip(names, case))
    call = f"{exercise.name}({arguments})" if exercise.describe is None else exercise.describe(case)
    if isinstance(got, Broken):
        return f"For {call} {got.words}. Wanted: {show(wanted[index])}."
    if got is None:
        return f"For {call} it returned nothing. Wanted: {show(wanted[index])}."
    return f"For {call} it gave {show(got)}. Wanted: {show(wanted[index])}."


def same(left: Any, right: Any, tolerance: float) -> bool:
    """Equal up to ``tolerance``, through lists; NaN equals NaN; two failures are equal when their kind is."""
    if isinstance(left, Broken) or isinstance(right, Broken):
        return isinstance(left, Broken) and isinstance(right, Broken) and left.kind == right.kind
    if isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
        return len(left) == len(right) and all(same(a, b, tolerance) for a, b in zip(left, right))
    if isinstance(left, (list, tuple)) or isinstance(right, (list, tuple)) or left is None or right is None:
        return left is right
    if isinstance(left, str) or isinstance(right, str):
        return left == right
    if math.isnan(left) or math.isnan(right):
        return math.isnan(left) and math.isnan(right)
    return left == right or abs(left - right) <= tolerance


def show(value: Any) -> str:
    """A value in few, stable characters: four decimals, no tensor wrappers, cut when long."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    text = _text(value)
    return text if len(text) <= 160 else text[:157] + "…"


def _text(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return str(value)
    if isinstance(value, float):
        return f"{value:.4f}".rstrip("0").rstrip(".") if math.isfinite(value) else str(value)
    if isinstance(value, (list, tuple)):
        inner = ", ".join(_text(v) for v in value)
        return f"({inner})" if isinstance(value, tuple) else f"[{inner}]"
    if isinstance(value, (int, str)):
        return repr(value)
    return f"a {type(value).__name__}"


# -- Readers: from what a reader's function returned to plain Python --------------------------------------------------


def _plain(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else value


def read_number(value: Any) -> float:
    """One real number."""
    value = _plain(value)
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError("return one number")
    return float(value)


def read_int(value: Any) -> int:
    """One whole number."""
    try:
        number = read_number(value)
    except TypeError:
        number = math.nan
    if not math.isfinite(number) or number != int(number):
        raise TypeError("return one whole number")
    return int(number)


def read_flag(value: Any) -> int:
    """One boolean; 0 and 1 will do."""
    value = _plain(value)
    if not isinstance(value, (bool, int)) or value not in (0, 1):
        raise TypeError("return True or False")
    return int(value)


def word_reader(words: Sequence[str]) -> Callable[[Any], str]:
    """A reader of one of these words."""

    def read_word(value: Any) -> str:
        if not isinstance(value, str) or value not in words:
            raise TypeError(f"return one of {', '.join(map(repr, words))}")
        return value

    return read_word


def read_row(value: Any) -> list[float]:
    """One row of numbers."""
    value = _plain(value)
    if not isinstance(value, (list, tuple)) or not value:
        raise TypeError("return a row of numbers, one for each token")
    return [read_number(_plain(v)) for v in value]


def read_flags(value: Any) -> list[int]:
    """One row of booleans; 0 and 1, whole or not, will do."""
    value = _plain(value)
    if not isinstance(value, (list, tuple)) or not value:
        raise TypeError("return a row of True and False")
    row = [_plain(v) for v in value]
    if any(not isinstance(v, (bool, int, float)) or v not in (0, 1) for v in row):
        raise TypeError("return True or False for each token")
    return [int(v) for v in row]


def read_matrix(value: Any) -> list[list[int]]:
    """A matrix of booleans."""
    value = _plain(value)
    if not isinstance(value, (list, tuple)):
        raise TypeError("return a matrix of True and False")
    return [read_flags(row) for row in value]


def read_tokens_and_count(value: Any) -> tuple[list[int], int]:
    """(tokens, a whole number)."""
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        raise TypeError("return two things: the list of tokens, and how many were accepted")
    tokens = _plain(value[0])
    if not isinstance(tokens, (list, tuple)):
        raise TypeError("the first thing must be a list of tokens")
    return [read_int(_plain(t)) for t in tokens], read_int(value[1])


def read_two_rows(value: Any) -> tuple[list[float], list[float]]:
    """Two rows of numbers."""
    value = _plain(value)
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        raise TypeError("return two rows: what acceptance brings, and what recovery brings")
    return read_row(value[0]), read_row(value[1])
