"""What the bundled target has learned: loss by kind on held-out texts, and how it goes on with held-out prompts.

Takes: the folder of the model.  Returns: Markdown.
Must not know: how it was trained.

    python -m mtp_tutorial.training.nano --report
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from ..decode import generate
from ..models import Target, load
from ..records import Sampling
from .corpus import KINDS, prompts, texts


@torch.no_grad()
def held_out_loss(target: Target, kind: str, count: int = 100, seed: int = 0) -> float:
    """Nats a token over ``count`` held-out texts, each read alone: every token but the first, and the end."""
    end = min(target.eos_ids)
    total, tokens = 0.0, 0
    for text in texts(kind, count, seed, held_out=True):
        ids = torch.tensor([*target.encode(text, chat=False), end], device=target.device)[None, : target.max_length]
        logits = target.model(input_ids=ids[:, :-1], use_cache=False).logits
        total += float(torch.nn.functional.cross_entropy(logits[0].double(), ids[0, 1:], reduction="sum"))
        tokens += ids.shape[1] - 1
    return total / tokens


def samples(target: Target, kind: str, count: int = 3, temperature: float = 0.6, seed: int = 0) -> list[tuple]:
    """(prompt, continuation) for ``count`` held-out prompts."""
    begun = prompts(kind, count, seed)
    made = generate(target, begun, sampling=Sampling(temperature=temperature), max_new_tokens=160, seed=seed)
    return [(prompt, one.text) for prompt, one in zip(begun, made, strict=True)]


def report(folder: Path, kinds: Sequence[str] = KINDS, count: int = 100) -> str:
    """Markdown: a table of losses, then three samples a kind with ``▸`` where the model goes on."""
    target = load(str(folder), device="cpu", dtype="float32")
    lines = ["| kind | held-out loss, nats a token |", "|---|---|"]
    lines += [f"| {kind} | {held_out_loss(target, kind, count):.3f} |" for kind in kinds]
    for kind in kinds:
        lines += ["", f"### {kind}"]
        for prompt, text in samples(target, kind):
            lines += ["", "```text", f"{prompt}▸{text}", "```"]
    return "\n".join(lines)
