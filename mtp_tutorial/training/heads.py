"""Training an MTP head: what it is asked for, and the loop.

Takes: texts with the target's hidden states.  Returns: a trained head, checkpoints on the way.
Must not know: verify rules, prompts, how the texts were made.

The head is unrolled over several steps, as in drafting: step 1 reads the target's hidden states, each later step the
output of the one before. Step s at position i sees the true pairs up to i and its own chain of guesses, never another
position's. It learns the target's whole distribution, not only the token that was drawn: that teaches several times
faster. The loss is restricted to the most frequent tokens, which makes the lm_head cheap.

Ref: EAGLE-3, arXiv 2503.01840 (training-time test); FastMTP, arXiv 2509.18362; Hinton et al., arXiv 1503.02531.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from ..drafters.mtp_head import MtpHead
from .states import Text
from .updates import make_optimizers, update, whole


@dataclass(frozen=True)
class Schedule:
    """steps: updates of the weights. unroll: drafting steps trained. decay: weight of step s is ``decay ** (s-1)``."""

    steps: int = 2000
    batch: int = 16
    unroll: int = 3
    decay: float = 0.7
    lr_matrices: float = 3e-3  # Muon
    lr_rest: float = 1e-3  # AdamW, for norms
    warmup: int = 50
    seed: int = 0
    minutes_between_checkpoints: float = 5.0


class _Chain:
    """Stands in for a KV cache in training: every step's keys and values, one after another, with their gradients."""

    def __init__(self) -> None:
        self.keys: list[Tensor] = []
        self.values: list[Tensor] = []

    def update(self, keys: Tensor, values: Tensor, *args, **kwargs) -> tuple[Tensor, Tensor]:
        self.keys.append(keys)
        self.values.append(values)
        return torch.cat(self.keys, 2), torch.cat(self.values, 2)


def chain_mask(length: int, step: int) -> Tensor:
    """(1, 1, n_s, n_1 + … + n_s) bool with n_s = length - s: what step s (from 1) may see.

    Position i sees the pairs of step 1 up to i, and of each later step its own pair only.
    """
    rows = torch.arange(length - step)[:, None]
    parts = [torch.arange(length - 1) <= rows]
    parts += [torch.arange(length - earlier) == rows for earlier in range(2, step + 1)]
    return torch.cat(parts, 1)[None, None]


def unrolled(head: MtpHead, ids: Tensor, states: Tensor, unroll: int) -> list[Tensor]:
    """Outputs of steps 1 … unroll: (B, L - s, size) each; row i of step s predicts the token at position i + s + 1.

    ids: (B, L) int64; states: (B, L, size), the target's hidden states.
    """
    length = ids.shape[1]
    dtype = head.layers[0].eh_proj.weight.dtype
    embedded = head.embed(ids).to(dtype)
    hidden, found = states.to(dtype), []
    chains = [_Chain() for _ in head.layers]
    for step in range(1, unroll + 1):
        n = length - step
        layer = head.layers[(step - 1) % len(head.layers)]
        x = layer.mix(embedded[:, step:], hidden[:, :n])
        positions = torch.arange(n, device=ids.device)[None] + step - 1
        chain = chains[(step - 1) % len(head.layers)]
        if len(head.layers) == 1:
            mask = chain_mask(length, step)
        else:  # a layer of a stack reads its pairs once, all of them true ones in training
            mask, chain = torch.ones(n, n, dtype=torch.bool).tril()[None, None], _Chain()
        block = head.decoder.run(layer.block, x, positions.expand(len(ids), -1), mask.to(ids.device), chain)
        hidden = layer.post_norm(block)
        found.append(hidden)
    return found


def losses(
    head: MtpHead, ids: Tensor, states: Tensor, wanted: Tensor, rows: Tensor, unroll: int
) -> list[tuple[Tensor, float]]:
    """For each step: the mean KL divergence from the target's distribution, and how often the favourites agree.

    wanted: (B, L) bool, the positions whose *next* token is to be predicted (the answers').
    rows: (F, size), the lm_head's rows of the frequent tokens.
    """
    found = []
    for step, outputs in enumerate(unrolled(head, ids, states, unroll), 1):
        here = wanted[:, step:]  # the target's state at i + step predicts the token at i + step + 1
        teacher = (states[:, step:][here].to(rows.dtype) @ rows.T).float().log_softmax(-1)
        student = (outputs[here].to(rows.dtype) @ rows.T).float().log_softmax(-1)
        kl = torch.nn.functional.kl_div(student, teacher, log_target=True, reduction="none").sum(-1).mean()
        found.append((kl, float((student.argmax(-1) == teacher.argmax(-1)).float().mean())))
    return found


def frequent_tokens(texts: Sequence[Text], count: int) -> Tensor:
    """(count,) ids, ascending: the tokens that the answers use most."""
    seen = Counter(token for text in texts for token in text.ids[text.prompt :].tolist())
    return torch.tensor(sorted(token for token, _ in seen.most_common(count)))


def batches(texts: Sequence[Text], size: int, generator: torch.Generator) -> Iterator[list[Text]]:
    """Endless batches of texts of like length, in a new order each time round."""
    by_length = sorted(texts, key=lambda text: len(text.ids))
    groups = [by_length[i : i + size] for i in range(0, len(by_length), size)]
    while True:
        for i in torch.randperm(len(groups), generator=generator).tolist():
            yield groups[i]


def _padded(group: Sequence[Text]) -> tuple[Tensor, Tensor, Tensor]:
    """(B, L) ids, (B, L, size) states, (B, L) bool: positions whose next token belongs to the answer."""
    width = max(len(text.ids) for text in group)
    ids = torch.zeros(len(group), width, dtype=torch.int64)
    states = torch.zeros(len(group), width, group[0].states.shape[1], dtype=group[0].states.dtype)
    wanted = torch.zeros(len(group), width, dtype=torch.bool)
    for row, text in enumerate(group):
        n = len(text.ids)
        ids[row, :n], states[row, :n] = text.ids, text.states
        wanted[row, text.prompt - 1 : n - 1] = True
    return ids, states, wanted


def train(
    head: MtpHead, texts: Sequence[Text], frequent: Tensor, schedule: Schedule, checkpoint: Path, progress: bool = True
) -> list[dict[str, float]]:
    """Train ``head`` in place; a second call with the same checkpoint goes on where the first stopped.

    The weights are float32 while they are trained, whatever they are used in later. Returns a row a logged step.
    """
    from tqdm.auto import tqdm

    generator = torch.Generator().manual_seed(schedule.seed)
    head.float().train()
    matrices = [p for p in head.parameters() if p.ndim == 2]
    rest = [p for p in head.parameters() if p.ndim != 2]
    optimizers = make_optimizers(matrices, rest)
    start, log = 0, []
    if checkpoint.exists():
        saved = torch.load(checkpoint, weights_only=True)
        head.load_state_dict(saved["head"])
        for optimizer, state in zip(optimizers, saved["optimizers"], strict=True):
            optimizer.load_state_dict(state)
        start, log = saved["step"], saved["log"]
        generator.set_state(saved["generator"])
    rows = head.decoder.lm_head.weight[frequent].detach().to(torch.bfloat16)
    source = batches(texts, schedule.batch, generator)
    saved_at = time.monotonic()
    silent = not progress or bool(os.environ.get("CI"))
    bar = tqdm(range(start, schedule.steps), desc="training", disable=silent or None, initial=start)
    for step in bar:
        ids, states, wanted = _padded(next(source))
        with torch.autocast("cpu", dtype=torch.bfloat16):
            found = losses(head, ids, states, wanted, rows, schedule.unroll)
            total = sum(schedule.decay**i * kl for i, (kl, _) in enumerate(found))
        total.backward()
        rates = schedule.lr_matrices, schedule.lr_rest
        update(head, optimizers, rates, step, schedule.steps, schedule.warmup)
        row = {"step": step} | {f"kl{i}": float(kl.detach()) for i, (kl, _) in enumerate(found, 1)}
        row |= {f"match{i}": match for i, (_, match) in enumerate(found, 1)}
        log.append(row)
        bar.set_postfix({key: f"{value:.3f}" for key, value in row.items() if key != "step"}, refresh=False)
        if time.monotonic() - saved_at > 60 * schedule.minutes_between_checkpoints or step + 1 == schedule.steps:
            _save(checkpoint, head, optimizers, step + 1, log, generator)
            saved_at = time.monotonic()
    head.eval()
    return log


def _save(path: Path, head: MtpHead, optimizers: list, step: int, log: list, generator: torch.Generator) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    state = {
        "head": head.state_dict(),
        "optimizers": [optimizer.state_dict() for optimizer in optimizers],
        "step": step,
        "log": log,
        "generator": generator.get_state(),
    }
    whole(path, lambda temporary: torch.save(state, temporary))
