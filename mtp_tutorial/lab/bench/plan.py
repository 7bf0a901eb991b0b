"""What is run: settings, and the prompts in groups.

Takes: numbers, a target.  Returns: a ``Plan``, and ``Group``s of prompts as ids.
Must not know: arms, clocks, files.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ...models import Target
from ...records import Sampling
from ...training.acceptance import held_out_prompts

MEASURED, COSTS = "measured", "costs"


@dataclass(frozen=True)
class Group:
    """Prompts that are decoded together. key: tells it from others.  seeds: one a prompt."""

    key: str
    kind: str
    prompts: tuple[tuple[int, ...], ...]
    seeds: tuple[int, ...]


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
