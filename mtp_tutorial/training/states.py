"""Hidden states of the target over its own answers, written down once and shared by all heads.

Takes: what the target computes while it answers.  Returns: states on disk, a file for each shard of answers.
Must not know: heads, losses.

A head reads hidden states of the target. The target computes them anyway when it answers, so they are recorded then
and need no call of their own, and the target need not run while a head is trained. bf16: two bytes a number, 1.2 KB a
token for one layer of smollm2.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from ..models import Target
from ..records import Draft, Sampling, Verdict
from .updates import whole


class Recorder:
    """A drafter that drafts nothing and keeps the hidden states that pass by.

    layers: which ones; -1 is after the final norm, i after layer i.
    """

    vocab_size = None

    def __init__(self, layers: tuple[int, ...]) -> None:
        self.needs_hidden = layers

    def start(self, target: Target, prompts: Sequence[Sequence[int]], hidden: tuple[Tensor, ...]) -> None:
        # The prompt's last state comes again with the first token, in ``commit``.
        self.rows = [[_kept(hidden, row, len(prompt) - 1)] for row, prompt in enumerate(prompts)]
        self.live, self.device = list(range(len(prompts))), target.device

    def propose(self, k: Tensor, sampling: Sampling, uniforms: Tensor) -> Draft:
        return Draft.of_lists([[]] * len(k), self.device)

    def commit(self, verdict: Verdict, hidden: tuple[Tensor, ...]) -> None:
        for row, index in enumerate(self.live):
            self.rows[index].append(_kept(hidden, row, 1))

    def keep(self, rows: Sequence[int]) -> None:
        self.live = [self.live[row] for row in rows]

    def states(self) -> list[Tensor]:
        """For each sequence (L, size of all layers) bf16 over prompt and answer, without the last token's.

        No call has read the last token, and nobody needs its state: nothing follows it.
        """
        return [torch.cat(rows) for rows in self.rows]


def _kept(hidden: tuple[Tensor, ...], row: int, count: int) -> Tensor:
    return torch.cat([h[row, :count] for h in hidden], -1).to("cpu", torch.bfloat16)


def states_path(folder: Path, shard: int) -> Path:
    return folder / f"states-{shard:05d}.safetensors"


def write_states(folder: Path, shard: int, states: Sequence[Tensor]) -> None:
    """The states of one shard of answers, one text after another."""
    joined = torch.cat(list(states))
    whole(states_path(folder, shard), lambda temporary: save_file({"states": joined}, temporary))


def read_states(folder: Path, shard: int, lengths: Sequence[int]) -> list[Tensor]:
    """(length, size of all layers) for each text of a shard; they stay on disk until they are touched.

    Raises ValueError when the file is missing or belongs to other texts.
    """
    path = states_path(folder, shard)
    if not path.is_file():
        raise ValueError(f"{path} is missing: the answers were made without their hidden states; make them again")
    try:
        states = load_file(path)["states"]
    except (OSError, KeyError, SafetensorError) as error:
        raise ValueError(
            f"{path} is damaged ({type(error).__name__}): delete it and shard-{shard:05d}.npz beside it, and the next "
            "run makes both"
        ) from error
    if len(states) != sum(lengths):
        raise ValueError(f"{path} belongs to other answers: it has {len(states)} rows for {sum(lengths)} tokens")
    return list(states.split(list(lengths)))
