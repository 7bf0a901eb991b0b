"""The run: every arm on every prompt with every seed, a batch at a time, going on where an earlier run stopped.

Takes: a target, arms, prompts, seeds, a file.  Returns: rows, one for each text.
Must not know: what is measured on the texts.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ... import __version__
from ...decode import generate
from ...drafters import Drafter
from ...longrun import SEED_SCHEME, bar
from ...models import Target
from ...records import Generation, by_position
from .arms import Arm
from .files import add, claim


@dataclass(frozen=True)
class Text:
    """One text to be made. seed: None at temperature 0, where there is nothing to draw."""

    prompt: dict
    seed: int | None

    @property
    def key(self) -> tuple:
        return (self.prompt["id"], self.seed)


def seed_of(prompt_id: str, seed: int) -> int:
    """The seed of one prompt, whichever prompts stand beside it: numbers spread over 32 bits.

    It is the same in every arm, so that texts are pairs, and neighbours do not share a stream.
    """
    return zlib.crc32(f"{seed} {prompt_id}".encode())


def run(
    target: Target,
    arms: Sequence[Arm],
    prompts: Sequence[dict],
    out: str | Path,
    seeds: Sequence[int] = (0,),
    max_new_tokens: int = 256,
    batch: int = 50,
    progress: bool = True,
) -> list[dict]:
    """Decode what ``out`` lacks and append it; return all rows.

    prompts: dicts with id, kind and prompt.  seeds: each gives every prompt one text an arm; one text at temperature 0.
    max_new_tokens: every text has exactly so many tokens (the end of text is passed over), as measures drift with
        length.
    out: a ``.jsonl`` file. A run that was killed goes on; at worst one batch is decoded again.
    Raises ValueError for a file of another run, names that occur twice, prompts that leave no room for the tokens,
    drafters without weights; nothing is written then.
    """
    arms, prompts, seeds = list(arms), list(prompts), [int(seed) for seed in seeds]
    _check(arms, prompts, seeds, {"batch": batch, "max_new_tokens": max_new_tokens})
    by_length = sorted(prompts, key=lambda one: len(target.encode(one["prompt"])))  # neighbours share a batch
    _check_room(target, by_length[-1], max_new_tokens)
    drafters: dict[tuple, Drafter | None] = {}
    for arm in arms:
        if arm.drafting not in drafters:
            drafters[arm.drafting] = arm.load(target)
    first = header(target, arms, prompts, seeds, max_new_tokens)
    rows = claim(out, first)
    _check_arms(Path(out), rows, arms)
    there = {(row["arm"], row["prompt"], row["seed"]) for row in rows}
    jobs = [
        (arm, texts)
        for arm in arms
        for texts in _batches(arm, by_length, seeds, batch)
        if any((arm.name, *text.key) not in there for text in texts)
    ]
    watched = bar(jobs, "experiment", progress, unit="batch")
    for arm, texts in watched:
        watched.set_postfix_str(arm.name)
        made = _decode(target, arm, drafters[arm.drafting], texts, max_new_tokens)
        new = [row for row in made if (row["arm"], row["prompt"], row["seed"]) not in there]
        add(out, first, new)
        rows += new
    return rows


def header(
    target: Target, arms: Sequence[Arm], prompts: Sequence[dict], seeds: Sequence[int], max_new_tokens: int
) -> dict:
    """What decides the texts, apart from the arms, which stand in the rows. No path, no machine."""
    import torch
    import transformers

    weights = {arm.drafter: arm.weights(target) for arm in arms}
    text = json.dumps([[one["id"], one["prompt"]] for one in prompts])
    return {
        "experiment": "arms x prompts x seeds",
        "format": 1,
        "target": target.name,
        "fingerprint": target.fingerprint(),
        "dtype": str(target.dtype).removeprefix("torch."),
        "drafters": {name: _sha256(path.read_bytes()) for name, path in weights.items() if path is not None},
        "prompts": {"count": len(prompts), "sha256": _sha256(text.encode())},
        "seeds": list(seeds),
        "seed_scheme": SEED_SCHEME,
        "max_new_tokens": max_new_tokens,
        "ignore_eos": True,
        "versions": {
            "mtp_tutorial": __version__,
            "torch": torch.__version__.partition("+")[0],
            "transformers": transformers.__version__,
        },
    }


# -- Inside ---------------------------------------------------------------------------------------------------------


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _check(arms: Sequence[Arm], prompts: Sequence[dict], seeds: Sequence[int], sizes: Mapping[str, int]) -> None:
    for name, things in (
        ("arms", [arm.name for arm in arms]),
        ("prompts", [one["id"] for one in prompts]),
        ("seeds", seeds),
    ):
        if not things:
            raise ValueError(f"no {name}: give at least one")
        if len(set(things)) < len(things):
            twice = next(one for one in things if list(things).count(one) > 1)
            raise ValueError(f"{twice!r} occurs twice among the {name}: pairs are found by name, so give each its own")
    if len({seed_of(one["id"], seed) for one in prompts for seed in seeds}) < len(prompts) * len(seeds):
        raise ValueError("two texts would share a random stream: give other seeds")
    for name, size in sizes.items():
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise ValueError(f"{name}={size!r}: use a whole number, 1 or more")


def _check_room(target: Target, longest: dict, max_new_tokens: int) -> None:
    """Every text must reach the same length, that of the longest prompt too."""
    room = target.max_length - len(target.encode(longest["prompt"]))
    if max_new_tokens > room:
        raise ValueError(
            f"max_new_tokens={max_new_tokens}: prompt {longest['id']!r} leaves room for {room} tokens in the context "
            f"of {target.name}; every text must reach the same length, so use fewer tokens"
        )


def _check_arms(path: Path, rows: Sequence[dict], arms: Sequence[Arm]) -> None:
    """An arm that is there already must be the same arm."""
    mine = {arm.name: arm.as_dict() for arm in arms}
    for row in rows:
        wanted = mine.get(row["arm"], {})
        for name, value in wanted.items():
            if row.get(name) != value:
                raise ValueError(
                    f"{path} holds another arm {row['arm']!r}: its {name} is {row.get(name)!r}, this run's {value!r}. "
                    "Give the arm another name, or another file"
                )


def _batches(arm: Arm, prompts: Sequence[dict], seeds: Sequence[int], size: int) -> Iterator[list[Text]]:
    """The texts of an arm, always in the same batches."""
    for seed in seeds if arm.temperature > 0 else (None,):
        texts = [Text(one, None if seed is None else seed_of(one["id"], seed)) for one in prompts]
        yield from (texts[start : start + size] for start in range(0, len(texts), size))


def _decode(
    target: Target, arm: Arm, drafter: Drafter | None, texts: Sequence[Text], max_new_tokens: int
) -> list[dict]:
    found = generate(
        target,
        [text.prompt["prompt"] for text in texts],
        **arm.options(drafter),
        max_new_tokens=max_new_tokens,
        ignore_eos=True,
        seed=[text.seed or 0 for text in texts],
    )
    return [_row(arm, text, one) for text, one in zip(texts, found, strict=True)]


def _row(arm: Arm, text: Text, one: Generation) -> dict:
    rounds = [r for r in one.rounds if not r.is_prefill]
    drafted, accepted = by_position(rounds, 0 if arm.is_plain else arm.k)
    return {
        **arm.as_dict(),
        "prompt": text.prompt["id"],
        "kind": text.prompt["kind"],
        "seed": text.seed,
        "rounds": len(rounds),
        "drafted": drafted,
        "accepted": accepted,
        "text": one.text,
        "ids": one.tokens,
    }
