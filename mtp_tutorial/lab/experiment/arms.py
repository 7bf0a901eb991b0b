"""What is compared: one way of decoding each.

Takes: names of drafters, rules and exhibits.  Returns: ``Arm``, and the options of ``generate`` behind it.
Must not know: prompts, files, measures.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from ...decode import check_k
from ...drafters import DRAFTERS, UNTRAINED, Drafter, bundled, load_drafter
from ...models import Target
from ...records import Sampling
from ...verify import get_rule
from ..drafts import RandomDrafter

RANDOM = "random"
#: Drafters that can only copy or guess: they have no distribution that a bug could hand over.
_WITHOUT_PROBS = ("ngram", "oracle", RANDOM)


@dataclass(frozen=True)
class Arm:
    """One way of decoding.

    drafter: None decodes plainly; "random"; or a name that ``load_drafter`` knows, "mtp-stack" meaning an "mtp" with
        the repository's weights of that name.
    bug: an exhibit of ``lab.museum`` that is switched in. Its own rule, if it has one, takes the place of ``rule``.
    Raises ValueError for an unknown name, a temperature or k out of range, or a bug without a drafter.
    """

    name: str
    drafter: str | None = None
    drafter_options: Mapping[str, object] = field(default_factory=dict)
    rule: str = "rejection"
    rule_params: Mapping[str, float] = field(default_factory=dict)
    temperature: float = 0.6
    k: int = 2
    bug: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name or "," in self.name:
            raise ValueError(f"name={self.name!r}: an arm is named by a string without commas")
        Sampling(temperature=self.temperature)
        check_k(self.k)
        get_rule(self.rule).check_params(self.rule_params)
        kind = None if self.drafter is None else self.drafter.partition("-")[0]
        if kind is not None and kind not in (RANDOM, *DRAFTERS):
            raise ValueError(
                f"arm {self.name!r}: unknown drafter {self.drafter!r}; known: {RANDOM}, {', '.join(DRAFTERS)}"
            )
        if self.bug is not None:
            if self.drafter is None:
                raise ValueError(f"arm {self.name!r}: the bug {self.bug} needs a drafter to go wrong with")
            if exhibit(self.bug).loop is not None:
                raise ValueError(f"arm {self.name!r}: {self.bug} replaces the whole loop and cannot be switched in")

    @property
    def is_plain(self) -> bool:
        return self.drafter is None

    @property
    def way(self) -> tuple:
        """What an arm does, whoever drafts: two arms that share it differ in their drafters only."""
        return (self.rule, tuple(sorted(self.rule_params.items())), self.temperature, self.k, self.bug)

    @property
    def drafting(self) -> tuple:
        """Who drafts, and how: arms that share it can share a drafter, one after the other."""
        sampled = self.temperature if self.bug is not None and exhibit(self.bug).needs_sampled else None
        return (
            self.drafter,
            tuple(sorted((name, str(value)) for name, value in self.drafter_options.items())),
            sampled,
        )

    def as_dict(self) -> dict:
        """The columns that say how a row was made; a folder of weights by its last name."""
        found = asdict(self)
        found["drafter_options"] = {
            name: Path(value).name if name == "weights" else value for name, value in self.drafter_options.items()
        }
        return {"arm": found.pop("name"), **found}

    @classmethod
    def of_row(cls, row: Mapping) -> Arm:
        """The arm of a row, as far as the row tells."""
        return cls(row["arm"], **{name: row[name] for name in cls.__dataclass_fields__ if name != "name"})

    # -- From names to things -----------------------------------------------------------------------------------

    def load(self, target: Target) -> Drafter | None:
        """The drafter, sampled at the arm's temperature if the bug needs that. Raises ValueError without weights."""
        if self.drafter is None:
            return None
        if self.drafter == RANDOM:
            return RandomDrafter(target)
        kind, _, variant = self.drafter.partition("-")
        options = dict(self.drafter_options)
        if kind not in UNTRAINED:
            options.setdefault("frequent", None)  # all tokens: arms must not change with what is fastest
        if variant:
            options.setdefault("weights", bundled(target, self.drafter))
        if self.bug is not None and exhibit(self.bug).needs_sampled:
            options["temperature"] = self.temperature
        return load_drafter(kind, target, **options)

    def weights(self, target: Target) -> Path | None:
        """The file of the drafter's weights; None for a drafter that has none here."""
        if self.drafter is None or self.drafter.partition("-")[0] in _WITHOUT_PROBS:
            return None
        folder = self.drafter_options.get("weights") or bundled(target, self.drafter)
        path = Path(folder) / "model.safetensors"
        return path if path.is_file() else None

    def options(self, drafter: Drafter | None) -> dict:
        """The keyword arguments of ``generate``; the state of a bug is fresh at each call."""
        base = {"drafter": drafter, "rule": self.rule, "rule_params": dict(self.rule_params)}
        if self.bug is not None:
            switched = exhibit(self.bug).options(drafter)
            base = {**base, **({"rule_params": {}} if "rule" in switched else {}), **switched}
        return {**base, "num_speculative_tokens": self.k, "sampling": Sampling(temperature=self.temperature)}


def exhibit(name: str):
    """The exhibit of that name. Raises ValueError listing the known ones."""
    from ..museum import EXHIBITS

    if name not in EXHIBITS:
        raise ValueError(f"unknown bug {name!r}; known: {', '.join(EXHIBITS)}")
    return EXHIBITS[name]


#: The bugs that fit "only at T > 0, and only with multi-token prediction".
SUSPECTS = ("R1", "R3", "R6", "R13", "R14b")


def repetition_case(drafter: str = "mtp", temperature: float = 0.6, k: int = 2) -> list[Arm]:
    """The arms of the case, in the order of its tables.

    At ``temperature``: plain decoding; the drafter under ``rejection``, under argmax verification, and under each
    suspect; the same once more with a random drafter, whose names begin with "random-". At temperature 0: plain, and
    with the drafter. Raises ValueError for a drafter that is not known.
    """
    ways = [("rejection", {}), ("greedy", {"rule": "greedy"}), *((bug, {"bug": bug}) for bug in SUSPECTS)]
    common = {"temperature": temperature, "k": k}
    arms = [Arm("off", **common)]
    for who, prefix in ((drafter, ""), (RANDOM, "random-")):
        arms += [
            Arm(prefix + name, who, **common, **way)
            for name, way in ways
            if not (name == "R6" and who.partition("-")[0] in _WITHOUT_PROBS)
        ]
    return [*arms, Arm("off-T0", temperature=0, k=k), Arm("on-T0", drafter, temperature=0, k=k)]


def chosen(arms: Sequence[Arm], names: Sequence[str]) -> list[Arm]:
    """The arms of these names, in their own order. Raises ValueError listing the known ones."""
    known = {arm.name: arm for arm in arms}
    for name in names:
        if name not in known:
            raise ValueError(f"unknown arm {name!r}; known: {', '.join(known)}")
    return [arm for arm in arms if arm.name in names]
