"""Training the bundled target: its tokenizer, its size, the loop.

Takes: a folder, a number of steps, a seed.  Returns: a folder that transformers loads, and a row of numbers a step.
Must not know: drafters, verify rules, the lab.

    python -m mtp_tutorial.training.nano --out data/nano

A second run goes on from the checkpoint that the first left beside the model. The text is made afresh from the seed
(see ``corpus``), so nothing is downloaded.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor

from ..longrun import bar
from ..models import native_bf16
from ..models.adapter import quiet
from .corpus import KINDS, corpus, texts
from .updates import make_optimizers, update, whole

CHECKPOINT = "checkpoint.pt"
LOG = "training.jsonl"
SECONDS_BETWEEN_CHECKPOINTS = 60


@dataclass(frozen=True)
class Recipe:
    """What decides the weights, but for the rounding of the machine. Lengths are in tokens."""

    vocabulary: int = 1024
    hidden: int = 128
    layers: int = 4
    heads: int = 4
    kv_heads: int = 2
    intermediate: int = 352
    context: int = 512
    steps: int = 8000
    batch: int = 4
    corpus_tokens: int = 18_000_000
    lr_matrices: float = 1.5e-2  # Muon
    lr_rest: float = 5e-3  # AdamW: embedding and norms
    warmup: int = 30
    seed: int = 0


def make_tokenizer(vocabulary: int = 1024, seed: int = 0, count: int = 2000):
    """A byte-level BPE tokenizer of ``vocabulary`` tokens, learned from ``count`` texts of each kind.

    ``<eos>`` is 0 and ``<pad>`` is 1; nothing is put before or after a text.
    """
    from transformers import GPT2Tokenizer

    empty = GPT2Tokenizer(unk_token="<eos>", bos_token="<eos>", eos_token="<eos>", pad_token="<pad>")
    return empty.train_new_from_iterator(
        (text for kind in KINDS for text in texts(kind, count, seed)), vocabulary, show_progress=False
    )


def make_model(recipe: Recipe) -> torch.nn.Module:
    """A Llama with random weights drawn from the recipe's seed; the global random state is left as it was."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=recipe.vocabulary,
        hidden_size=recipe.hidden,
        intermediate_size=recipe.intermediate,
        num_hidden_layers=recipe.layers,
        num_attention_heads=recipe.heads,
        num_key_value_heads=recipe.kv_heads,
        max_position_embeddings=recipe.context,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=0,
        pad_token_id=1,
    )
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(recipe.seed)
        return LlamaForCausalLM(config)


def rows(encoded: Sequence[Sequence[int]], length: int, end: int = 0) -> Tensor:
    """(N, length) int64: texts one after another with ``end`` behind each; every row starts where a text starts."""
    found, row = [], []
    for text in encoded:
        row += [*text, end]
        if len(row) >= length:
            found.append(row[:length])
            row = []
    return torch.tensor(found, dtype=torch.int64)


def _batches(data: Tensor, recipe: Recipe) -> Iterator[Tensor]:
    """(batch, context + 1) each, for ever, in an order that the seed decides."""
    epoch = 0
    while True:
        order = list(range(len(data)))
        random.Random(f"batches {recipe.seed} {epoch}").shuffle(order)
        for start in range(0, len(order) - recipe.batch + 1, recipe.batch):
            yield data[order[start : start + recipe.batch]]
        epoch += 1


def train(out: Path, recipe: Recipe = Recipe(), progress: bool = True) -> list[dict[str, float]]:
    """Train the target into ``out/target``; go on from ``out/checkpoint.pt`` where there is one.

    Returns a row a step: step, loss in nats a token, seconds since the first step. The checkpoint is deleted once the
    model is written. Raises ValueError when the checkpoint was made by another recipe.
    """
    out.mkdir(parents=True, exist_ok=True)
    tokenizer, model = make_tokenizer(recipe.vocabulary, recipe.seed), make_model(recipe)
    encoded = corpus(recipe.corpus_tokens, lambda text: tokenizer(text)["input_ids"], recipe.seed)
    source = _batches(rows(encoded, recipe.context + 1), recipe)
    matrices = [p for name, p in model.named_parameters() if p.ndim == 2 and "embed" not in name]
    rest = [p for name, p in model.named_parameters() if p.ndim != 2 or "embed" in name]
    optimizers = make_optimizers(matrices, rest, weight_decay=0.01, betas=(0.9, 0.98))
    start, log = _resume(out / CHECKPOINT, recipe, model, optimizers)
    before = log[-1]["seconds"] if log else 0.0
    for _ in range(start):
        next(source)
    model.train()
    began = saved = time.monotonic()
    shown = bar(range(start, recipe.steps), "nano", progress, initial=start, total=recipe.steps)
    for step in shown:
        ids = next(source)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=native_bf16()):
            logits = model(input_ids=ids[:, :-1], use_cache=False).logits
        loss = torch.nn.functional.cross_entropy(logits.float().flatten(0, 1), ids[:, 1:].flatten())
        loss.backward()
        rates = recipe.lr_matrices, recipe.lr_rest
        update(model, optimizers, rates, step, recipe.steps, recipe.warmup)
        now = time.monotonic()
        log.append({"step": step, "loss": round(float(loss.detach()), 4), "seconds": round(before + now - began, 1)})
        shown.set_postfix({"loss": log[-1]["loss"]}, refresh=False)
        if now - saved > SECONDS_BETWEEN_CHECKPOINTS:
            _save(out / CHECKPOINT, recipe, model, optimizers, step + 1, log)
            saved = now
    _publish(out, model, tokenizer, log)
    return log


def _resume(path: Path, recipe: Recipe, model: torch.nn.Module, optimizers: list) -> tuple[int, list]:
    """The step to go on with, and the rows so far; weights and optimizers are filled."""
    if not path.exists():
        return 0, []
    saved = torch.load(path, weights_only=True)
    if saved["recipe"] != asdict(recipe):
        raise ValueError(f"{path} was made by another recipe: give another folder, or delete that file")
    model.load_state_dict(saved["model"])
    for optimizer, state in zip(optimizers, saved["optimizers"], strict=True):
        optimizer.load_state_dict(state)
    return saved["step"], saved["log"]


def _save(
    path: Path, recipe: Recipe, model: torch.nn.Module, optimizers: list, step: int, log: list[dict[str, float]]
) -> None:
    state = {"recipe": asdict(recipe), "model": model.state_dict(), "step": step, "log": log}
    state["optimizers"] = [optimizer.state_dict() for optimizer in optimizers]
    whole(path, lambda temporary: torch.save(state, temporary))


def _publish(out: Path, model: torch.nn.Module, tokenizer, log: list[dict[str, float]]) -> None:
    """Write model, tokenizer and log, each under a temporary name first; then the checkpoint is no longer needed."""

    def write(folder: Path) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        with quiet():
            model.eval().save_pretrained(folder)
        tokenizer.save_pretrained(folder)

    whole(out / "target", write)
    lines = "".join(json.dumps(row) + "\n" for row in log)
    whole(out / LOG, lambda temporary: temporary.write_text(lines, encoding="utf-8"))
    (out / CHECKPOINT).unlink(missing_ok=True)


def main(arguments: Sequence[str] | None = None) -> None:
    """The command: train the target, or print what the stored one does (``--report``)."""
    parser = argparse.ArgumentParser(prog="python -m mtp_tutorial.training.nano", description=main.__doc__)
    parser.add_argument("--out", type=Path, default=Path("data/nano"), help="the folder of the model")
    parser.add_argument("--steps", type=int, default=Recipe.steps, help="updates of the weights")
    parser.add_argument(
        "--corpus-tokens", type=int, default=Recipe.corpus_tokens, help="how much text; then it repeats"
    )
    parser.add_argument("--seed", type=int, default=Recipe.seed)
    parser.add_argument("--report", action="store_true", help="train nothing: print losses and samples as Markdown")
    chosen = parser.parse_args(arguments)
    if chosen.report:
        from .nano_report import report

        print(report(chosen.out / "target"))
        return
    log = train(chosen.out, Recipe(steps=chosen.steps, corpus_tokens=chosen.corpus_tokens, seed=chosen.seed))
    last = log[-50:]
    mean = sum(row["loss"] for row in last) / len(last)
    print(
        f"{len(log)} steps in {log[-1]['seconds'] / 60:.1f} min, loss {mean:.3f} nats a token over the last {len(last)}"
    )


if __name__ == "__main__":
    main()
