"""What rounds cost on a machine: a record of seconds by batch and draft length, and costs read from it.

Takes: a target and a drafter to be measured, or a record.  Returns: a record (plain dicts), seconds of a round.
Must not know: what is made of the seconds.

A record is made by decoding: the held-out prompts in one batch, k changed from round to round, each k once in every
walk through them in an order drawn anew. So a slow moment of the machine hits all k alike, and what is timed is what a
server would pay: drafting (with the reading of what was accepted), the target's call on k + 1 rows a sequence, and the
rest (distributions, the verify rule, bookkeeping).
"""

from __future__ import annotations

import itertools
import json
import os
import random
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import torch

from ... import longrun
from ...decode import MAX_DRAFT, stream
from ...drafters import Drafter
from ...models import Target
from ...records import Round, Sampling
from ..theory import RoundSeconds, expected_tokens
from ..theory.numbers import Alpha, whole
from . import machine
from .measure import PARTS
from .plan import prompts

BATCHES, LENGTHS = (1, 2, 4, 8, 16, 32, 64), (0, 1, 2, 3, 4, 8)


def record(
    target: Target,
    drafter: Drafter,
    name: str,
    batches: Sequence[int] = BATCHES,
    lengths: Sequence[int] = LENGTHS,
    temperatures: Sequence[float] = (0.0, 0.6),
    top_k: int = 50,
    walks: int = 9,
    context: int = 64,
    seed: int = 0,
    progress: bool = True,
) -> dict:
    """Time rounds of each batch and each draft length, k = 0 among them.

    name: the drafter's, for the record.  walks: how often each k is timed, after one walk that is not counted.
    context: prompts are cut to their last so many tokens.
    Returns ``costs-format`` 1: facts of model and machine, and ``rows``, each with temperature, batch, k, rows (of the
    target's call), rounds (how many were timed), and for drafting, verifying, elsewhere and seconds (their sum) the
    median, lowest and highest, in seconds.
    Raises ValueError for sizes below 1, draft lengths without 0, and texts that would leave the target's context.
    """
    batches, lengths = _sizes("batches", batches, 1), _sizes("lengths", lengths, 0)
    if lengths[0] != 0 or len(lengths) < 2 or lengths[-1] > MAX_DRAFT:
        raise ValueError(f"lengths={lengths}: 0 must be among them, and one more at least; none above {MAX_DRAFT}")
    if len(batches) < 2:
        raise ValueError(f"batches={batches}: two or more are needed, as costs between and beyond them are on lines")
    most = (whole("walks", walks, 1) + 1) * sum(k + 1 for k in lengths) + 1
    if whole("context", context, 1) + most > target.max_length:
        raise ValueError(
            f"{context} tokens of prompt and {most} of text: {target.name} reads at most {target.max_length}"
        )
    ids = [target.encode(one["prompt"])[-context:] for one in prompts(target.name, 1)]
    rows = []
    for temperature, batch in longrun.bar(
        list(itertools.product(temperatures, batches)), "costs", progress, unit="batch"
    ):
        sampling = Sampling(temperature=temperature, top_k=top_k) if temperature else Sampling(temperature=0)
        turns = Turns(lengths, walks + 1, random.Random(seed))
        texts = [ids[i % len(ids)] for i in range(batch)]
        for _ in stream(
            target, texts, drafter, num_speculative_tokens=turns, sampling=sampling, max_new_tokens=most,
            ignore_eos=True, seed=seed,
        ):  # fmt: skip
            if turns.is_over:
                break
        for k in lengths:
            mine = turns.timed[k][1:]
            parts = {part: [getattr(one, f"seconds_{part}") for one in mine] for part in PARTS}
            parts["seconds"] = [one.seconds for one in mine]
            rows.append(
                {
                    "temperature": temperature, "batch": batch, "k": k, "rows": batch * (k + 1), "rounds": len(mine),
                    **{part: _spread(each) for part, each in parts.items()},
                }
            )  # fmt: skip
    return {
        "experiment": "costs",
        "costs-format": 1,
        **machine.of_target(target),
        "drafter": name,
        "top_k": top_k,
        "context": context,
        "seed": seed,
        "threads": torch.get_num_threads(),
        "versions": machine.versions(),
        "machine": machine.describe(target.device),
        "date": machine.today(),
        "rows": rows,
    }


class Turns:
    """A controller that walks through the draft lengths, each walk in an order of its own, and keeps the rounds."""

    def __init__(self, lengths: Sequence[int], walks: int, shuffle: random.Random) -> None:
        self.order = [k for _ in range(walks) for k in shuffle.sample(list(lengths), len(lengths))]
        self.timed: dict[int, list[Round]] = {k: [] for k in lengths}
        self.place = 0

    @property
    def is_over(self) -> bool:
        return self.place >= len(self.order)

    def choose(self, sequences: Sequence[int]) -> list[int]:
        return [self.order[self.place]] * len(sequences)

    def observe(self, rounds: Sequence[Round]) -> None:
        if not rounds[0].is_prefill:
            self.timed[self.order[self.place]].append(rounds[0])  # the seconds are shared by the batch
            self.place += 1


def write(found: Mapping, path: str | Path) -> None:
    """A record as JSON, a row a line."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    head = json.dumps({key: value for key, value in found.items() if key != "rows"}, indent=1)
    rows = ",\n".join("  " + json.dumps(row) for row in found["rows"])
    waiting = path.with_name(path.name + ".part")
    waiting.write_text(f'{head[:-2]},\n "rows": [\n{rows}\n ]\n}}\n', encoding="utf-8")
    os.replace(waiting, path)


def read(path: str | Path) -> dict:
    """A record from its file. Raises ValueError for a file that is none."""
    found, rows = longrun.read(path, "costs")
    if found.get("costs-format") != 1 or not rows:
        raise ValueError(f"{path} holds no record of costs: give a file that `mtp-tutorial costs --out` wrote")
    return found


class Costs:
    """Seconds of a round at any batch and draft length, from a record.

    Between recorded sizes seconds are on the straight line between them. Beyond the largest batch they go on as on the
    roofline's slope, where arithmetic sets the pace and each row costs the same: the line through the two largest.
    Likewise beyond the largest k. Both are a model, and ``is_measured`` says so.
    which: "median", "lowest" or "highest" of the rounds that were timed.
    Raises ValueError for a temperature that the record lacks.
    """

    def __init__(self, found: Mapping, temperature: float = 0.0, which: str = "median") -> None:
        there = sorted({row["temperature"] for row in found["rows"]})
        if temperature not in there:
            raise ValueError(f"temperature={temperature!r}: the record has {', '.join(f'{t:g}' for t in there)}")
        rows = [row for row in found["rows"] if row["temperature"] == temperature]
        self.batches, self.lengths = (sorted({row[name] for row in rows}) for name in ("batch", "k"))
        self.table = {(row["batch"], row["k"]): [row[part][which] for part in PARTS] for row in rows}
        if len(self.batches) < 2 or len(self.lengths) < 2 or len(self.table) < len(self.batches) * len(self.lengths):
            raise ValueError("the record needs two batches and two draft lengths at least, and each pair of them")

    def of_round(self, batch: int, k: int) -> RoundSeconds:
        """A round in which each of ``batch`` sequences drafts k tokens."""
        batch, k = whole("batch", batch, 1), whole("k", k)
        edge = min(batch, self.batches[-1]), min(k, self.lengths[-1])
        at_edge = self._parts(*edge)
        if edge == (batch, k) and batch >= self.batches[0]:
            return RoundSeconds(*at_edge, is_measured=True)
        # Noise may let a line fall; more rows never cost less.
        return RoundSeconds(*map(max, self._parts(batch, k), at_edge), is_measured=False)

    def _parts(self, batch: int, k: int) -> list[float]:
        across, along = _between(self.batches, batch), _between(self.lengths, k)
        return [
            max(sum(share * more * self.table[b, n][i] for b, share in across for n, more in along), 0.0)
            for i in range(len(PARTS))
        ]

    def round_seconds(self, lengths: Sequence[int], context: float = 0, prompt_tokens: int = 0) -> RoundSeconds:
        """A round of sequences that draft so many tokens each, with new prompts read in the same call.

        The engine pads: the round costs as if all drafted as many as the longest. A prompt's tokens cost what further
        rows cost at the largest recorded sizes.  context: not looked at; the record's is what it is.
        """
        found = self.of_round(len(lengths), max(lengths)) if lengths else RoundSeconds(0.0, 0.0, 0.0, True)
        return replace(found, verifying=found.verifying + prompt_tokens * self.row)

    @property
    def row(self) -> float:
        """Seconds of a further row in the target's call, where there are many."""
        low, high = ((b, self.lengths[-1]) for b in self.batches[-2:])
        verifying = PARTS.index("verifying")
        more = (high[0] - low[0]) * (high[1] + 1)
        return max(self.table[high][verifying] - self.table[low][verifying], 0.0) / more

    def tokens_per_second(self, alpha: Alpha, batch: int, k: int) -> float:
        """Of the whole batch: batch · ``theory.expected_tokens(alpha, k)`` ÷ seconds of a round."""
        return batch * expected_tokens(alpha, k) / self.of_round(batch, k).seconds


# -- Inside ---------------------------------------------------------------------------------------------------------


def _sizes(name: str, values: Sequence[int], least: int) -> list[int]:
    found = [whole(name, value, least) for value in values]
    if not found or len(set(found)) < len(found):
        raise ValueError(f"{name}={list(values)}: give at least one, each once")
    return sorted(found)


def _spread(values: Sequence[float]) -> dict[str, float]:
    return {
        "median": round(statistics.median(values), 7),
        "lowest": round(min(values), 7),
        "highest": round(max(values), 7),
    }


def _between(known: Sequence[int], x: int) -> list[tuple[int, float]]:
    """Two known places and their shares, so that a value at x is on the line through them; also beyond the ends."""
    right = next((i for i, place in enumerate(known) if place >= x), len(known) - 1)
    right = max(right, 1)
    low, high = known[right - 1], known[right]
    share = (x - low) / (high - low)
    return [(low, 1 - share), (high, share)]
