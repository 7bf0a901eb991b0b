"""One timed call of one arm: what it decoded, and where the seconds went.

Takes: an arm, a group of prompts, a temperature.  Returns: a row of plain numbers.
Must not know: which arms are compared, files, summaries.

``seconds`` is the decoding alone, from the first call to the last token of the batch; ``seconds_call`` is the whole
call as its caller sees it (ours looks at its arguments before, and writes the text after). The prefill has columns of
its own; ``drafting``, ``verifying`` and ``elsewhere`` are those of the rounds after it. On an accelerator a call
returns before it is done, so there only sums of the three can be trusted.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence

from ...decode import generate
from ...models import Target
from ...records import Generation, Round, Sampling, by_position
from .arms import Arm
from .baseline import Baseline
from .plan import Group
from .traffic import Reading, counted, reading

PARTS = ("drafting", "verifying", "elsewhere")


class Bench:
    """Loads what each arm needs once, and runs arms as often as wanted.

    An adaptive arm keeps its controller from text to text, as a server does: one for each temperature and batch size.
    """

    def __init__(self, target: Target, arms: Sequence[Arm]) -> None:
        self.target = target
        self.drafters: dict[tuple, object] = {}
        self.readings: dict[tuple, Reading] = {}
        self.controllers: dict[tuple, object] = {}
        for arm in arms:
            if arm.theirs and arm.name not in self.drafters:
                self.drafters[arm.name] = Baseline(target, arm.who, arm.k, **arm.options)
            elif arm.drafting not in self.drafters:
                self.drafters[arm.drafting] = drafter = arm.load(target)
                self.readings[arm.drafting] = reading(target, drafter)

    def run(self, arm: Arm, group: Group, sampling: Sampling, max_new_tokens: int, ignore_eos: bool = True) -> dict:
        """Decode a group of prompts with one arm. Raises ValueError as ``generate`` does."""
        options = {"max_new_tokens": max_new_tokens, "ignore_eos": ignore_eos, "sampling": sampling}
        if arm.theirs:
            return self._theirs(arm, group, options)
        k = self.controllers.setdefault((arm.name, sampling, len(group.prompts)), arm.controller())
        drafter = self.drafters[arm.drafting]
        with counted(drafter) as steps:
            began = time.perf_counter()
            found = generate(
                self.target,
                [list(prompt) for prompt in group.prompts],
                drafter,
                num_speculative_tokens=k,
                seed=list(group.seeds),
                **options,
            )
            seconds = time.perf_counter() - began
        return {"seconds_call": seconds, **of_generations(found, self.readings[arm.drafting], *steps)}

    def _theirs(self, arm: Arm, group: Group, options: Mapping) -> dict:
        answer = self.drafters[arm.name](group.prompts, seed=group.seeds[0], **options)
        calls, timed = answer.target, len(answer.target.seconds) > 1
        prefill = calls.seconds[0] if timed else None
        tokens = sum(map(len, answer.tokens))
        verifying, drafting = sum(calls.seconds[1:]), sum(answer.assistant.seconds)
        spent = {
            "drafting": drafting,
            "verifying": verifying,
            "elsewhere": max(answer.seconds - prefill - verifying - drafting, 0.0) if timed else None,
        }
        rounds = len(calls.rows) - 1
        return {
            "seconds_call": answer.seconds,
            "seconds": answer.seconds,
            "tokens": tokens,
            "target_calls": len(calls.rows),
            "rounds": rounds * len(group.prompts),
            "draft_calls": len(answer.assistant.rows),
            "rows_a_call": sum(calls.rows[1:]) / rounds if rounds else None,
            "prefill": {"drafting": None, "verifying": prefill, "elsewhere": None},
            **(spent if timed else dict.fromkeys(PARTS)),
        }


def of_generations(found: Sequence[Generation], read: Reading, steps: int | None = None) -> dict:
    """The columns of one batch that our own loop decoded. steps: of the drafter's head, where they were counted."""
    together = batch_rounds(found)
    later = [[one for one in rounds if not one.is_prefill] for rounds in together[1:]]
    flat = [one for rounds in later for one in rounds]
    drafted, accepted = by_position(flat, max((one.num_drafted for one in flat), default=0))
    target, drafter = read.of_rounds(later, steps)
    prefill = together[0][0]
    return {
        "seconds": found[0].seconds,
        "tokens": sum(len(one.tokens) for one in found),
        "tokens_later": sum(len(one.tokens) for one in flat),
        "target_calls": len(together),
        "rounds": len(flat),
        "drafted": drafted,
        "accepted": accepted,
        "prefill": {part: getattr(prefill, f"seconds_{part}") for part in PARTS},
        **{part: sum(getattr(rounds[0], f"seconds_{part}") for rounds in later) for part in PARTS},
        "draft_steps": steps,
        "bytes_target": target,
        "bytes_drafter": drafter,
        "shapes": shapes(later),
    }


def batch_rounds(found: Sequence[Generation]) -> list[list[Round]]:
    """The rounds of a batch, those of one target call together. A sequence that ended is in no later ones."""
    longest = max(len(one.rounds) for one in found)
    return [[one.rounds[i] for one in found if i < len(one.rounds)] for i in range(longest)]


def shapes(together: Sequence[Sequence[Round]]) -> list[dict]:
    """Rounds by shape, with the median seconds of each part. A shape: live sequences, draft tokens of the longest."""
    found: dict[tuple[int, int], list[Round]] = {}
    for rounds in together:
        found.setdefault((len(rounds), max(one.num_drafted for one in rounds)), []).append(rounds[0])
    return [
        {
            "live": live,
            "drafted": drafted,
            "count": len(rounds),
            **{part: statistics.median(getattr(one, f"seconds_{part}") for one in rounds) for part in PARTS},
        }
        for (live, drafted), rounds in sorted(found.items())
    ]
