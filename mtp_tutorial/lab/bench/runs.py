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

from ...longrun import SEED_SCHEME, bar, read
from ...models import Target
from ..experiment import seed_of
from ..experiment.files import add, claim
from . import machine
from .arms import Arm
from .cost import memory_bandwidth
from .measure import Bench
from .plan import COSTS, MEASURED, Group, Plan, groups

#: what may differ between the runs that fill one file
_ANEW = ("date", "bandwidth", "machine")


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
            add(out, first, new)
            rows += new
    finally:
        torch.set_num_threads(threads)
    return first, rows


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


def _jobs(made: dict[str, dict[int, list[Group]]], plan: Plan) -> Iterator[Job]:
    """A repeat after the other; the costs, in the first and the last of them, spread among what is measured."""
    for repeat in range(plan.repeats):
        for batch, temperature in itertools.product(plan.batches, plan.temperatures):
            chosen = [(MEASURED, group) for group in made[MEASURED][batch]]
            if repeat in (0, plan.repeats - 1):
                prices = made[COSTS].get(batch, [])
                for i, group in reversed(list(enumerate(prices))):
                    chosen.insert(round((i + 0.5) * len(made[MEASURED][batch]) / len(prices)), (COSTS, group))
            for part, group in chosen:
                yield Job(part, batch, temperature, repeat, group)


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
        theirs, _ = read(path, "bench")
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
        "seed_scheme": SEED_SCHEME,
        "threads": torch.get_num_threads(),
        "versions": machine.versions(),
        "machine": machine.describe(target.device),
        "date": machine.today(),
    }
