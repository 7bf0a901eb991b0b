"""The drafters' task: fixed texts, fixed seeds, and a score that repeats exactly.

Takes: a target, an entry.  Returns: a ``Score``: tokens for each target call's worth of cost.
Must not know: which entries there are, who is refused.

Every text is decoded alone, at temperature 0.6 under rule ``rejection``. Its cost, in plain calls of the target:

    1 for each target call  +  ROW for each draft token it verifies  +  what the drafter reads (see ``meter``)

A drafter that runs the target's layers itself pays a call for that. The first token costs a call as well, so plain
decoding scores exactly 1. Nothing is timed: with a target in float64 an entry has the same score on every machine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from ...decode import check_k, generate
from ...drafters import Drafter
from ...longrun import bar
from ...models import Target
from ...records import Controller, Generation, Sampling
from ...training.selfdistill import read_prompts
from ..experiment.prompts import prompts_for
from ..stats import Interval, bootstrap_interval
from .meter import Metered

#: A further row of a target call, in calls. SmolLM2's call on five rows takes about 1.12 of its call on one.
ROW = 0.03
#: What is decoded: so many held-out prompts of all kinds, so many tokens at most.
TEXTS, TOKENS = 12, 32
SAMPLING = Sampling(temperature=0.6)
SEED = 2026


@dataclass(frozen=True)
class Entry:
    """What takes part. name: in the table.  make: target → a fresh drafter, or None for plain decoding.

    k: how many draft tokens a round, 0 to 64, or a function that makes a fresh controller.
    note: a few words for the table.
    """

    name: str
    make: Callable[[Target], Drafter | None]
    k: int | Callable[[], Controller] = 4
    note: str = ""

    def __post_init__(self) -> None:
        if not callable(self.make):
            raise ValueError(f"make={self.make!r:.60}: use a function of the target that returns a drafter")
        if not callable(self.k):
            check_k(self.k)

    def options(self, target: Target) -> dict:
        """The arguments of ``generate`` that make the entry play: a fresh drafter, k or a fresh controller."""
        return {"drafter": self.make(target), "num_speculative_tokens": self.k() if callable(self.k) else self.k}


@dataclass(frozen=True)
class Play:
    """One text of an entry. tokens: emitted.  calls: of the target.  drafted: draft tokens that were verified.

    read: weights of its own (and lm_head) that the drafter read, in target calls.  again: of the target's layers, where
        the drafter runs the target itself.
    """

    kind: str
    tokens: int
    calls: int
    drafted: int
    read: float
    again: float
    generation: Generation = field(repr=False, compare=False)

    def cost(self, row: float = ROW, weights: float = 1.0) -> float:
        """In plain target calls. row: of a further row.  weights: of as many weights of a drafter as the target has."""
        return self.calls + self.again + row * self.drafted + weights * self.read


@dataclass(frozen=True)
class Score:
    """The plays of one entry. ``float(score)`` is tokens ÷ cost; plain decoding has 1."""

    entry: Entry
    plays: tuple[Play, ...]

    def at(self, row: float = ROW, weights: float = 1.0) -> float:
        """The score with another price list; nothing is decoded again."""
        return sum(play.tokens for play in self.plays) / sum(play.cost(row, weights) for play in self.plays)

    def __float__(self) -> float:
        return self.at()

    def interval(self, row: float = ROW, weights: float = 1.0) -> Interval:
        """95 %, by drawing texts anew: what other prompts of the same kinds might give."""
        costs = [play.cost(row, weights) for play in self.plays]
        return bootstrap_interval([play.tokens for play in self.plays], weights=costs, resamples=2000)

    def lead(self, other: Score) -> Interval:
        """95 % of the mean difference, text by text, of tokens ÷ cost: this entry minus ``other``.

        Raises ValueError when the two did not play the same texts.
        """
        if len(self.plays) != len(other.plays):
            raise ValueError(f"{len(self.plays)} texts and {len(other.plays)}: compare entries that played the same")
        pairs = zip(self.plays, other.plays)
        return bootstrap_interval([a.tokens / a.cost() - b.tokens / b.cost() for a, b in pairs], resamples=2000)

    @property
    def generations(self) -> list[Generation]:
        return [play.generation for play in self.plays]

    @property
    def acceptance_rate(self) -> float | None:
        """Accepted ÷ drafted tokens; None where nothing was drafted."""
        rounds = [one for g in self.generations for one in g.rounds]
        drafted = sum(one.num_drafted for one in rounds)
        return sum(one.num_accepted for one in rounds) / drafted if drafted else None

    def row(self) -> dict:
        """A tidy row: name, k, score, low, high, tokens a round, acceptance rate, read a draft, note."""
        rounds = [one for g in self.generations for one in g.rounds if not one.is_prefill]
        low, high = self.interval()
        return {
            "name": self.entry.name,
            "k": "controller" if callable(self.entry.k) else self.entry.k,
            "score": self.at(),
            "low": low,
            "high": high,
            "tokens_a_round": sum(len(one.tokens) for one in rounds) / len(rounds),
            "acceptance_rate": self.acceptance_rate,
            "read_a_round": sum(play.read + play.again for play in self.plays) / len(rounds),
            "note": self.entry.note,
        }


def practice_prompts(target: Target, count: int = 100) -> list[str]:
    """Prompts to learn from and to tune on: none of them, and none of their texts, is scored."""
    if target.name == "nano":
        from ...training import corpus

        each = -(-count // len(corpus.KINDS))
        found = [corpus.prompts(kind, each, held_out=False) for kind in corpus.KINDS]
        return [prompt for turn in zip(*found) for prompt in turn][:count]
    from ...training.acceptance import PROMPTS

    return [one["prompt"] for one in read_prompts(PROMPTS, "train")][:count]


def practice_texts(target: Target, count: int = 100, tokens: int = 48, seed: int = 0) -> list[list[int]]:
    """What the target itself says to practice prompts, at the game's temperature: ids, the prompt's before its own."""
    made = generate(
        target, practice_prompts(target, count), sampling=SAMPLING, max_new_tokens=tokens, seed=SEED + 10_000 + seed
    )
    return [[*g.prompt_tokens, *g.tokens] for g in made]


def play(
    target: Target, entry: Entry, texts: int = TEXTS, prompts: Sequence[dict] | None = None, progress: bool = False
) -> Score:
    """Decode the game's texts with an entry.

    prompts: others than the scored ones, as dicts with kind and prompt; ``tune`` passes those of practice.
    Raises ValueError for what is no entry, and for a drafter that does not fit the target.
    """
    if not isinstance(entry, Entry):
        raise ValueError(f"entry={entry!r:.60}: use capstone.Entry(name, function of the target, k)")
    found = []
    chosen = prompts_for(target.name, texts) if prompts is None else prompts
    for i, one in enumerate(bar(chosen, entry.name, progress)):
        options = entry.options(target)
        meter = options["drafter"] = None if options["drafter"] is None else Metered(options["drafter"], target)
        made = generate(target, one["prompt"], **options, sampling=SAMPLING, max_new_tokens=TOKENS, seed=(SEED, i))
        drafted = sum(r.num_drafted for r in made.rounds)
        read, again = (sum(meter.read), sum(meter.again)) if meter else (0.0, 0.0)
        found.append(Play(one["kind"], len(made.tokens), made.target_calls, drafted, read, again, made))
    return Score(entry, tuple(found))


def tune(
    target: Target, entry: Entry, lengths: Sequence[int] = (1, 2, 3, 4, 6), texts: int = TEXTS
) -> dict[int, float]:
    """k → score on *practice* prompts. Choose k here: tuned on the scored texts, it would be fitted to their luck."""
    prompts = [{"kind": "practice", "prompt": prompt} for prompt in practice_prompts(target, 200)[-texts:]]
    return {k: float(play(target, replace(entry, k=k), prompts=prompts)) for k in lengths}
