"""Self-distilled text: the target answers the prompts, and a head is trained on what it said.

Takes: a target, prompts, a folder.  Returns: shards of answers on disk.
Must not know: heads, losses.

A head that learns from the target's own words meets in training what it will meet when it drafts. The answers are
made in batches and kept in shards; a run that was interrupted goes on where it stopped. Each shard is written to a
temporary name and renamed.

Ref: FastMTP, arXiv 2509.18362, section 3 (self-distilled data).
"""

from __future__ import annotations

import hashlib
import json
import warnings
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
import torch
from torch import Tensor

from ..decode import generate
from ..longrun import SEED_SCHEME, bar, seed_scheme
from ..models import Target
from ..records import Sampling
from .states import Recorder, read_states, write_states
from .updates import whole

MANIFEST = "manifest.json"
ROOM = 32  # tokens that a prompt must leave for its answer


@dataclass(frozen=True)
class Settings:
    """What decides the answers: change one and they are other answers."""

    temperature: float = 0.8
    max_new_tokens: int = 256
    samples: int = 1  # answers a prompt
    batch: int = 64
    seed: int = 0


@dataclass(frozen=True)
class Answer:
    """One prompt and one answer, as token ids."""

    id: str
    kind: str
    prompt: list[int]
    answer: list[int]


@dataclass(frozen=True)
class Text:
    """One prompt with its answer. ids: (L,) int64; prompt: how many of them are the prompt.

    states: (L - 1, size of all recorded layers) bf16: what the target made of each token but the last.
    """

    id: str
    kind: str
    ids: Tensor
    states: Tensor
    prompt: int


def read_prompts(folder: Path, split: str, kinds: Sequence[str] | None = None) -> list[dict[str, str]]:
    """The prompts of ``data/prompts``: dicts with id, kind, split and prompt, in a fixed order.

    Raises ValueError when the folder holds none of that split.
    """
    found = []
    for path in sorted(Path(folder).glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            one = json.loads(line)
            if one["split"] == split and (kinds is None or one["kind"] in kinds):
                found.append(one)
    if not found:
        raise ValueError(
            f"no prompts of the split {split!r} in {folder}: expected *.jsonl files with id, kind, split, prompt"
        )
    return found


def fitting(target: Target, prompts: Sequence[dict], room: int = ROOM) -> list[dict]:
    """The prompts that leave room for ``room`` tokens in the target's context; a warning tells how many do not.

    Raises ValueError when none does.
    """
    target.encode("a")  # raises what has nothing to do with length

    def fits(one: dict) -> bool:
        try:
            return len(target.encode(one["prompt"])) + room <= target.max_length
        except ValueError:  # longer than the context
            return False

    found = [one for one in prompts if fits(one)]
    if not found:
        raise ValueError(
            f"none of {len(prompts)} prompts leaves room for {room} tokens in the context of {target.name}, "
            f"{target.max_length} tokens: use a target with a longer one"
        )
    if len(found) < len(prompts):
        warnings.warn(
            f"{len(prompts) - len(found)} of {len(prompts)} prompts are left out: with {room} tokens of text they are "
            f"longer than the context of {target.name}, {target.max_length} tokens",
            stacklevel=2,
        )
    return found


def make_answers(
    target: Target,
    prompts: Sequence[dict],
    folder: Path,
    settings: Settings = Settings(),
    layers: Sequence[int] = (),
    progress: bool = True,
) -> None:
    """Answer each prompt ``settings.samples`` times into ``folder``; go on where an earlier run stopped.

    prompts: dicts with id, kind and prompt (a string, messages or ids).
    layers: the hidden states to write down beside the answers (see ``states``), as the target makes them anyway.
    Raises ValueError when the folder holds answers of another target, other prompts, settings or layers.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    mine = _claim(folder, target, prompts, settings, layers)
    # Neighbours in length share a batch, so that little of a prefill is padding; the seed goes with the answer.
    # No batch holds two samples: whoever asks for more of them adds shards to those that are there.
    by_length = sorted(enumerate(prompts), key=lambda job: (len(job[1]["prompt"]), job[0]))
    batches = [
        [(sample * len(prompts) + number, (one, sample)) for number, one in by_length[i : i + settings.batch]]
        for sample in range(settings.samples)
        for i in range(0, len(by_length), settings.batch)
    ]
    shards = [folder / f"shard-{index:05d}.npz" for index in range(len(batches))]
    if not all(path.exists() for path in shards) and seed_scheme(mine) != SEED_SCHEME:
        raise ValueError(
            f"{folder} holds answers drawn with {seed_scheme(mine)}, and some are missing; this version draws with "
            f"{SEED_SCHEME}. Give another folder, or delete that one"
        )
    for index, (path, batch) in enumerate(zip(shards, bar(batches, "answers", progress, unit="batch"), strict=True)):
        if path.exists():
            continue
        recorder = Recorder(tuple(layers)) if layers else None
        found = generate(
            target,
            [one["prompt"] for _, (one, _) in batch],
            recorder,
            num_speculative_tokens=0,
            sampling=Sampling(temperature=settings.temperature),
            max_new_tokens=settings.max_new_tokens,
            seed=[(settings.seed, number) for number, _ in batch],
        )
        if recorder is not None:  # before the answers: where those are, the states are
            write_states(folder, index, recorder.states())
        _write(
            path,
            [
                Answer(f"{one['id']}#{sample}", one["kind"], list(g.prompt_tokens), g.tokens)
                for (_, (one, sample)), g in zip(batch, found, strict=True)
            ],
        )


def read_answers(folder: Path) -> Iterator[Answer]:
    """The answers of a folder, shard by shard, or of one shard."""
    folder = Path(folder)
    for path in sorted(folder.glob("shard-*.npz")) if folder.is_dir() else [folder]:
        try:
            with path.open("rb") as file, np.load(file) as shard:
                ids, kinds = shard["ids"].tolist(), shard["kinds"].tolist()
                prompts = np.split(shard["prompts"].astype(np.int64), shard["prompt_ends"][:-1])
                answers = np.split(shard["answers"].astype(np.int64), shard["answer_ends"][:-1])
        except (OSError, EOFError, KeyError, ValueError, BadZipFile, zlib.error) as error:
            raise ValueError(
                f"{path} is damaged ({type(error).__name__}): delete it, and the next run makes it again"
            ) from error
        for name, kind, prompt, answer in zip(ids, kinds, prompts, answers, strict=True):
            yield Answer(name, kind, prompt.tolist(), answer.tolist())


def read_texts(folder: Path, samples: int | None = None) -> list[Text]:
    """Every answer with its hidden states. Raises ValueError when the folder holds none.

    samples: only the first so many answers to each prompt; None: all that are there.
    """
    found = []
    for path in sorted(Path(folder).glob("shard-*.npz")):
        answers = list(read_answers(path))
        texts = [torch.tensor(one.prompt + one.answer) for one in answers]
        states = read_states(Path(folder), int(path.stem.split("-")[1]), [len(ids) - 1 for ids in texts])
        found += [
            Text(one.id, one.kind, ids, rows, len(one.prompt))
            for one, ids, rows in zip(answers, texts, states, strict=True)
            if samples is None or int(one.id.rpartition("#")[2]) < samples
        ]
    if not found:
        raise ValueError(f"no answers in {folder}: make some first")
    return found


def _claim(folder: Path, target: Target, prompts: Sequence[dict], settings: Settings, layers: Sequence[int]) -> dict:
    """Write down whose answers these are, or check it; return what the folder's manifest states."""
    text = json.dumps([[one["id"], one["prompt"]] for one in prompts])
    mine = {
        "target": target.name,
        "fingerprint": target.fingerprint(),
        "prompts": hashlib.sha256(text.encode()).hexdigest()[:16],
        "settings": {name: value for name, value in asdict(settings).items() if name != "samples"},
        "layers": list(layers),
    }
    path = folder / MANIFEST
    if path.exists():
        try:
            theirs = dict(json.loads(path.read_text()))
        except (ValueError, TypeError) as error:
            raise ValueError(
                f"{path} is damaged ({type(error).__name__}): delete {folder}, and the answers are made again"
            ) from error
        theirs.get("settings", {}).pop("samples", None)  # more of them are added, fewer are read
        for key, value in mine.items():
            if theirs.get(key) != value:
                raise ValueError(
                    f"{folder} holds answers of another run: its {key} is {theirs.get(key)!r}, this run's {value!r}. "
                    "Give another folder, or delete that one"
                )
        return theirs
    mine["seed_scheme"] = SEED_SCHEME
    whole(path, lambda temporary: temporary.write_text(json.dumps(mine, indent=2) + "\n"))
    return mine


def _write(path: Path, answers: list[Answer]) -> None:
    """One shard: ids as uint32 (uint16 where they fit), texts one after another with the places where each ends."""

    def joined(rows: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
        flat = np.concatenate([np.asarray(row) for row in rows])
        small = np.uint16 if flat.max() < 1 << 16 else np.uint32
        return flat.astype(small), np.cumsum([len(row) for row in rows])

    prompts, prompt_ends = joined([one.prompt for one in answers])
    texts, text_ends = joined([one.answer for one in answers])
    columns = {
        "ids": np.array([one.id for one in answers]),
        "kinds": np.array([one.kind for one in answers]),
        "prompts": prompts,
        "prompt_ends": prompt_ends,
        "answers": texts,
        "answer_ends": text_ends,
    }

    def write(temporary: Path) -> None:
        with temporary.open("wb") as file:  # numpy would add an ending to a name
            np.savez_compressed(file, **columns)

    whole(path, write)
