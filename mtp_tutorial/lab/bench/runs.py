"""The run: arms in turn, prompt by prompt, in one process, going on where an earlier run stopped.

Takes: a target, arms, prompts, a file.  Returns: the first line of the file, and rows, one for each timed call.
Must not know: what is made of the rows.

All arms decode one group of prompts, one after the other, before the next group comes; the order is turned by one each
time, so that a machine that grows warm or busy does so for all alike. First each arm decodes a little that is not
counted. Rows with ``part`` "costs" come from other prompts than those with "measured": they price a round for the
prediction.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from ...longrun import append_rows, bar
from ...models import Target
from ...records import Sampling
from ...training.acceptance import held_out_prompts
from ..experiment import read, seed_of
from ..experiment.files import claim
from . import machine
from .arms import Arm
from .cost import memory_bandwidth
from .measure import Bench, Group

MEASURED, COSTS = "measured", "costs"
#: what may differ between the runs that fill one file
_ANEW = ("date", "bandwidth", "machine")


@dataclass(frozen=True)
class Plan:
    """What is run.

    kinds: of prompts; None for all.  prompts: of each kind; a batch takes as many of one kind at a time.
    costs: prompts of each kind, other ones, that price a round; 0 leaves the prediction out.
    repeats: how often each group is decoded, at temperatures above 0 with another seed each time.
    threads: of torch; None leaves them.
    Raises ValueError for what is out of range.
    """

    kinds: tuple[str, ...] | None = None
    prompts: int = 2
    batches: tuple[int, ...] = (1,)
    temperatures: tuple[float, ...] = (0.0, 0.6)
    top_k: int = 50
    top_p: float = 1.0
    max_new_tokens: int = 64
    repeats: int = 3
    costs: int = 1
    threads: int | None = None
    ignore_eos: bool = True

    def __post_init__(self) -> None:
        low = {"prompts": 1, "max_new_tokens": 2, "repeats": 1, "costs": 0}
        numbers = [(name, getattr(self, name), least) for name, least in low.items()]
        numbers += [("batch", batch, 1) for batch in self.batches]
        numbers += [("threads", self.threads, 1)] if self.threads is not None else []
        for name, value, least in numbers:
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise ValueError(f"{name}={value!r}: use a whole number, {least} or more")
        for name in ("batches", "temperatures"):
            values = getattr(self, name)
            if not values or len(set(values)) < len(values):
                raise ValueError(f"{name}={values!r}: give at least one, each once")
        for temperature in self.temperatures:
            self.sampling(temperature)

    def sampling(self, temperature: float) -> Sampling:
        if temperature == 0:  # the filters change nothing then
            return Sampling(temperature=0)
        return Sampling(temperature=temperature, top_k=self.top_k, top_p=self.top_p)


def run(
    target: Target,
    arms: Sequence[Arm],
    plan: Plan,
    out: str | Path,
    progress: bool = True,
    loaded: Mapping[str, object] | None = None,
) -> tuple[dict, list[dict]]:
    """Measure what ``out`` (a ``.jsonl`` file) lacks and append it, a group of prompts at a time; (header, rows).

    loaded: what ``mt.load`` was told beside the name, for the file's first line.
    Raises ValueError for arms that cannot do it (transformers' speculation in batches), prompts that are too few or
    too long, and a file of another run or another machine; nothing is written then.
    """
    _check(arms, plan)
    measured = groups(target, plan)
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(plan.threads or threads)
        bench = Bench(target, arms)
        first, rows = _open(Path(out), target, plan, loaded or {})
        there = {_key(row) for row in rows}
        jobs = [job for job in _jobs(measured, plan) if any((*job.key, arm.name) not in there for arm in arms)]
        if jobs:
            _warm_up(bench, arms, jobs, plan)
        for turn, job in enumerate(bar(jobs, "bench", progress, unit="group")):
            new = []
            for place, arm in enumerate(_turned(job.arms(arms), turn)):
                if (*job.key, arm.name) not in there:
                    numbers = bench.run(
                        arm, job.seeded(), plan.sampling(job.temperature), plan.max_new_tokens, plan.ignore_eos
                    )
                    new.append({**job.columns(), "arm": arm.name, "place": place, **numbers})
            append_rows(Path(out), new)
            rows += new
    finally:
        torch.set_num_threads(threads)
    return first, rows


def prompts(target_name: str, each: int) -> list[dict]:
    """The first ``each`` held-out prompts of each kind: dicts with id, kind and prompt."""
    return held_out_prompts(target_name, each)


def groups(target: Target, plan: Plan) -> dict[str, dict[int, list[Group]]]:
    """part → batch → groups of prompts. Those of "costs" share no prompt with those of "measured".

    Raises ValueError for a kind that there is not, too few prompts, or prompts that leave no room for the tokens.
    """
    most = plan.prompts + plan.costs
    found = prompts(target.name, most)
    kinds = list(dict.fromkeys(one["kind"] for one in found))
    for kind in plan.kinds or ():
        if kind not in kinds:
            raise ValueError(f"unknown kind of prompt {kind!r}; for {target.name}: {', '.join(kinds)}")
    made: dict[str, dict[int, list[Group]]] = {MEASURED: {}, COSTS: {}}
    for batch, kind in itertools.product(plan.batches, plan.kinds or kinds):
        mine = [one for one in found if one["kind"] == kind]
        if len(mine) < most:
            raise ValueError(
                f"{most} prompts of kind {kind!r} are wanted ({plan.prompts} measured, {plan.costs} for costs); there "
                f"are {len(mine)}"
            )
        for part, chosen in ((MEASURED, mine[: plan.prompts]), (COSTS, mine[plan.prompts :])):
            made[part].setdefault(batch, []).extend(_grouped(target, kind, chosen, batch, plan) if chosen else [])
    for part in made.values():  # one of each kind, then the next of each
        for batch, unsorted in part.items():
            part[batch] = sorted(unsorted, key=lambda group: int(group.key.rpartition("#")[2]))
    return made


@dataclass(frozen=True)
class Job:
    """One group of prompts that all arms decode in turn."""

    part: str
    batch: int
    temperature: float
    repeat: int
    group: Group

    @property
    def key(self) -> tuple:
        return (self.part, self.batch, self.temperature, self.repeat, self.group.key)

    def arms(self, arms: Sequence[Arm]) -> list[Arm]:
        """Nothing is predicted of transformers, so it needs no costs."""
        return [arm for arm in arms if self.part == MEASURED or not arm.theirs]

    def seeded(self) -> Group:
        seeds = tuple(seed_of(f"{self.group.key} {i}", self.repeat) for i in range(self.batch))
        return replace(self.group, seeds=seeds)

    def columns(self) -> dict:
        names = ("part", "batch", "temperature", "repeat", "group")
        return {**dict(zip(names, self.key)), "kind": self.group.kind}


# -- Inside ---------------------------------------------------------------------------------------------------------


def _grouped(target: Target, kind: str, prompts: Sequence[dict], batch: int, plan: Plan) -> Iterator[Group]:
    """Full batches of one kind. Prompts come round again, with other seeds, where they are fewer than a batch."""
    ids = [tuple(target.encode(one["prompt"])) for one in prompts]
    longest = max(map(len, ids))
    if longest + plan.max_new_tokens > target.max_length:
        raise ValueError(
            f"max_new_tokens={plan.max_new_tokens}: a prompt of {longest} tokens ({kind}) leaves room for "
            f"{target.max_length - longest} in the context of {target.name}; use fewer"
        )
    turns = itertools.cycle(ids)
    for index in range(max(1, len(ids) // batch)):
        yield Group(f"{kind}#{index}", kind, tuple(itertools.islice(turns, batch)), ())


def _jobs(made: dict[str, dict[int, list[Group]]], plan: Plan) -> Iterator[Job]:
    """Costs before and after what is measured, so that they are of the same weather; a repeat after the other."""
    for repeat in range(plan.repeats):
        for batch, temperature in itertools.product(plan.batches, plan.temperatures):
            if repeat in (0, plan.repeats - 1):
                for group in made[COSTS].get(batch, ()):
                    yield Job(COSTS, batch, temperature, repeat, group)
            for group in made[MEASURED][batch]:
                yield Job(MEASURED, batch, temperature, repeat, group)


def _turned(arms: Sequence[Arm], by: int) -> list[Arm]:
    by %= len(arms)
    return [*arms[by:], *arms[:by]]


def _warm_up(bench: Bench, arms: Sequence[Arm], jobs: Sequence[Job], plan: Plan) -> None:
    """A few tokens of each arm at each batch size and temperature."""
    seen = {(job.batch, job.temperature): job for job in reversed(jobs)}
    for job in seen.values():
        for arm in arms:
            bench.run(arm, job.seeded(), plan.sampling(job.temperature), min(16, plan.max_new_tokens), plan.ignore_eos)


def _check(arms: Sequence[Arm], plan: Plan) -> None:
    for arm in arms:
        if arm.theirs and arm.who != "plain" and max(plan.batches) > 1:
            raise ValueError(f"arm {arm.name!r}: speculation in transformers takes batch size 1; leave it out here")


def _key(row: dict) -> tuple:
    return tuple(row[name] for name in ("part", "batch", "temperature", "repeat", "group", "arm"))


def _open(path: Path, target: Target, plan: Plan, loaded: Mapping[str, object]) -> tuple[dict, list[dict]]:
    """The file's first line and its rows. A file that is there must be of this run and this machine."""
    header = _header(target, plan, loaded)
    if path.exists() and path.stat().st_size:
        theirs, _ = read(path)
        steady = {key: value for key, value in header.items() if key not in _ANEW}
        kept = {key: theirs[key] for key in _ANEW if key in theirs}
        mine, there = header["machine"], kept.get("machine", {})
        if (mine["cpu"], mine.get("gpu")) != (there.get("cpu"), there.get("gpu")):
            raise ValueError(f"{path} was measured on another machine ({there.get('cpu')}): give another file")
        return {**steady, **kept}, claim(path, {**steady, **kept})
    header["bandwidth"] = memory_bandwidth(device=target.device)
    return header, claim(path, header)


def _header(target: Target, plan: Plan, loaded: Mapping[str, object]) -> dict:
    return {
        "experiment": "bench",
        "format": 1,
        **machine.of_target(target),
        "loaded": dict(loaded),
        "max_new_tokens": plan.max_new_tokens,
        "prompts": plan.prompts,
        "costs": plan.costs,
        "top_k": plan.top_k,
        "top_p": plan.top_p,
        "ignore_eos": plan.ignore_eos,
        "threads": torch.get_num_threads(),
        "versions": machine.versions(),
        "machine": machine.describe(target.device),
        "date": machine.today(),
    }
