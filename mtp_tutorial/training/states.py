"""Hidden states of the target over its own answers, computed once and shared by all heads.

Takes: a target and a folder of answers.  Returns: texts with their hidden states, from disk.
Must not know: heads, losses.

A head reads the target's last hidden state (after the final norm). One forward call over a whole text gives all of
them, so the target need not run while a head is trained. bf16: two bytes a number, 1.2 KB a token for smollm2.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from ..models import Target
from .selfdistill import Answer, fingerprint, read_answers
from .updates import whole


@dataclass(frozen=True)
class Text:
    """One prompt with its answer. ids: (L,) int64; states: (L, size) bf16; prompt: how many ids are the prompt."""

    id: str
    kind: str
    ids: Tensor
    states: Tensor
    prompt: int


def make_states(target: Target, answers: Path, folder: Path, batch: int = 16, progress: bool = True) -> None:
    """Compute the hidden states of every answer into ``folder``, a file for each shard; go on where a run stopped.

    Raises ValueError when the folder holds states of another target.
    """
    from tqdm.auto import tqdm

    folder.mkdir(parents=True, exist_ok=True)
    mark = folder / "fingerprint"
    mine = fingerprint(target)
    if mark.exists() and mark.read_text() != mine:
        raise ValueError(f"{folder} holds hidden states of another target: give another folder, or delete that one")
    whole(mark, lambda temporary: temporary.write_text(mine))
    shards = sorted(Path(answers).glob("shard-*.npz"))
    silent = not progress or bool(os.environ.get("CI"))
    for shard in tqdm(shards, desc="hidden states", unit="shard", disable=silent or None):
        path = folder / f"{shard.stem}.safetensors"
        if path.exists():
            continue
        texts = list(read_answers(shard))
        rows = _states(target, texts, batch)
        states = torch.cat(rows).to(torch.bfloat16)
        whole(path, lambda temporary, states=states: save_file({"states": states}, temporary))


def _states(target: Target, texts: Sequence[Answer], batch: int) -> list[Tensor]:
    """(L, size) for each text, in their order; texts of a like length share a call."""
    found: list[Tensor] = [torch.empty(0)] * len(texts)
    order = sorted(range(len(texts)), key=lambda i: len(texts[i].prompt) + len(texts[i].answer))
    for start in range(0, len(order), batch):
        group = order[start : start + batch]
        rows = [texts[i].prompt + texts[i].answer for i in group]
        width = max(map(len, rows))
        ids = torch.tensor([row + [0] * (width - len(row)) for row in rows], device=target.device)
        cache = target.new_cache(len(rows), width)
        _, (states,) = target.forward(ids, [len(row) for row in rows], cache, last_only=True, layers=(-1,))
        for i, row, state in zip(group, rows, states, strict=True):
            found[i] = state[: len(row)].cpu()
    return found


def read_texts(answers: Path, folder: Path) -> list[Text]:
    """Every text with its hidden states; the states stay on disk until they are touched."""
    found = []
    for shard in sorted(Path(answers).glob("shard-*.npz")):
        path = folder / f"{shard.stem}.safetensors"
        if not path.exists():
            continue
        states = load_file(path)["states"]
        place = 0
        for one in read_answers(shard):
            ids = torch.tensor(one.prompt + one.answer)
            found.append(Text(one.id, one.kind, ids, states[place : place + len(ids)], len(one.prompt)))
            place += len(ids)
        if place != len(states):
            raise ValueError(f"{path} does not belong to {shard}: it has {len(states)} rows for {place} tokens")
    return found
