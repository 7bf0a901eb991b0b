"""What is compared: an arm is one way of decoding, written in one line.

Takes: words such as ``mtp:k=2,frequent=4096``.  Returns: an ``Arm``, and the drafter behind it.
Must not know: clocks, prompts, files.

``plain`` decodes plainly. A drafter's name, then ``k=`` a number or ``adaptive``, then options of ``load_drafter``.
With ``hf-`` in front it is transformers: ``hf-plain``, ``hf-assistant`` (our stored draft model), ``hf-lookup``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ...decode import check_k
from ...drafters import DRAFTERS, Drafter, bundled, load_drafter
from ...models import Target
from ...records import Controller
from ..controllers import ByThroughput

PLAIN, ADAPTIVE, THEIRS = "plain", "adaptive", "hf-"
#: transformers' ways: name → (how many draft tokens when nothing is said, what they may be told)
MODES = {
    "plain": (None, ()),
    "assistant": (None, ("k", "confidence", "weights", "frequent")),  # transformers has defaults of its own
    "lookup": (10, ("k",)),  # 10 is PromptLookupCandidateGenerator's own
}
DEFAULT_K = 4


@dataclass(frozen=True)
class Arm:
    """One way of decoding.

    name: as it was written.  who: "plain", a drafter, or one of MODES.  k: a number, "adaptive", or None for plain
        decoding and for transformers' own choice.  options: for ``load_drafter``; for transformers: see MODES.
    """

    name: str
    who: str
    theirs: bool = False
    k: int | str | None = None
    options: dict[str, object] = field(default_factory=dict)

    @property
    def is_plain(self) -> bool:
        return self.who == PLAIN and not self.theirs

    @property
    def drafting(self) -> tuple:
        """Arms that share it can share a drafter, one after the other."""
        return (self.theirs, self.who, *sorted((name, str(value)) for name, value in self.options.items()))

    def load(self, target: Target) -> Drafter | None:
        """The drafter; None decodes plainly. "mtp-stack" is an "mtp" with the repository's weights of that name."""
        if self.is_plain:
            return None
        kind, _, variant = self.who.partition("-")
        weights = {"weights": bundled(target, self.who)} if variant and "weights" not in self.options else {}
        return load_drafter(kind, target, **weights, **self.options)

    def controller(self) -> int | Controller:
        """The number of draft tokens, or a new controller that chooses it."""
        return ByThroughput() if self.k == ADAPTIVE else 0 if self.k is None else self.k


def parse(words: str) -> Arm:
    """An arm from its line. Raises ValueError saying what would do."""
    if not isinstance(words, str) or not words.strip():
        raise ValueError(f"arm {words!r}: write plain, mtp:k=2, ngram:k=4, mtp:adaptive, hf-plain, hf-assistant …")
    name = words.strip()
    who, _, rest = name.partition(":")
    theirs = who.startswith(THEIRS)
    who = who.removeprefix(THEIRS)
    known = MODES if theirs else (PLAIN, *DRAFTERS)
    if (who if theirs else who.partition("-")[0]) not in known:
        ours, hf = ", ".join((PLAIN, *DRAFTERS)), ", ".join(THEIRS + mode for mode in MODES)
        raise ValueError(f"arm {name!r}: unknown; known are {ours}; and, of transformers, {hf}")
    told = _options(name, rest)
    k = told.pop("k", None)
    if theirs:
        default, allowed = MODES[who]
        _refuse(name, set(told) | ({"k"} if k is not None else set()), allowed)
        k = default if k is None else k
        if k == ADAPTIVE:
            raise ValueError(f"arm {name!r}: transformers has no such controller; leave k out for its own choice")
    elif who == PLAIN:
        _refuse(name, set(told) | ({"k"} if k is not None else set()), ())
    else:
        k = DEFAULT_K if k is None else k
    if k not in (None, ADAPTIVE):
        check_k(k)
    return Arm(name, who, theirs, k, told)


def parse_all(lines: Sequence[str]) -> list[Arm]:
    """Several arms; plain decoding comes first, as all others are compared with it. Raises ValueError for repeats."""
    arms = [parse(line) for line in lines]
    names = [arm.name for arm in arms]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"arm {twice!r} occurs twice: once is enough, --repeats says how often it runs")
    plain = [arm for arm in arms if arm.is_plain] or [parse(PLAIN)]
    return plain + [arm for arm in arms if not arm.is_plain]


def options(items: Iterable[str], where: str) -> dict[str, object]:
    """["frequent=4096", "short=false"] → {"frequent": 4096, "short": False}. where: for the ValueError."""
    found: dict[str, object] = {}
    for item in items:
        key, equals, value = (part.strip() for part in item.partition("="))
        if not equals or not key or not value:
            raise ValueError(f"{where}: {item!r} is no option; write key=value, such as k=2 or frequent=4096")
        if key in found:
            raise ValueError(f"{where}: {key} is given twice")
        found[key] = _value(value)
    return found


def _options(name: str, rest: str) -> dict[str, object]:
    items = [f"k={ADAPTIVE}" if item.strip() == ADAPTIVE else item for item in rest.split(",") if item.strip()]
    found = options(items, f"arm {name!r}")
    k = found.get("k")
    if k is not None and k != ADAPTIVE and not isinstance(k, int):
        raise ValueError(f"arm {name!r}: k={k!r}; use a whole number, or adaptive")
    return found


def _value(text: str) -> object:
    """A number, yes or no, or the words themselves."""
    if text.lower() in ("true", "false", "none"):
        return {"true": True, "false": False, "none": None}[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


def _refuse(name: str, given: set[str], allowed: Sequence[str]) -> None:
    for option in sorted(given - set(allowed)):
        what = f"takes {', '.join(allowed)} only" if allowed else "takes no options"
        raise ValueError(f"arm {name!r} {what}, not {option}")
