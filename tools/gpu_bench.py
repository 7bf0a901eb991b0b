"""Checks and timings on a GPU in at most eight minutes, written to data/traces/<gpu>.json.

    python tools/gpu_bench.py                     on a CUDA GPU
    python tools/gpu_bench.py --tiny --out F.json the same at a tiny size, on any machine, in seconds

Takes a device and minutes; returns a file: the machine, what the doctor says, checks in float32, timings. A part that
would not fit into the minutes left is skipped, and the file says so. Exit code 1 when a check fails.

Timings: SmolLM2 where it has been fetched (`mtp-tutorial fetch smollm2`), and always random weights in the shape of a
Llama of 8 billion parameters in bf16. Random weights cost what real ones cost; what they say means nothing, so the
drafts come from an oracle: a recording of the model's own greedy text, spoilt with a given probability.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from pathlib import Path

import torch

import mtp_tutorial as mt
from mtp_tutorial import doctor
from mtp_tutorial.drafters import OracleDrafter
from mtp_tutorial.lab import bench, near_ties
from mtp_tutorial.lab.bench import machine
from mtp_tutorial.lab.bench.measure import Bench
from mtp_tutorial.lab.bench.plan import Group
from mtp_tutorial.models import smollm2, wrap

TRACES = Path(__file__).resolve().parents[1] / "data" / "traces"
NEAR_TIE = 1e-3  # in logits, as in tests/test_smollm2.py
ACCURACY = 0.8  # how often the oracle is right
GREEDY = mt.Sampling(temperature=0)
#: the shape of Llama 3 with 8 billion parameters, and one that any machine can do
LARGE = {
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "max_position_embeddings": 8192,
}
TINY = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 256,
    "max_position_embeddings": 512,
}


class Budget:
    """The seconds that are left."""

    def __init__(self, minutes: float) -> None:
        self.end = time.monotonic() + 60 * minutes
        self.skipped: list[str] = []

    def allows(self, what: str, seconds: float) -> bool:
        """Whether a part that takes so long still fits; if not, that is noted."""
        left = self.end - time.monotonic()
        if left < seconds:
            self.skipped.append(f"{what}: {left:.0f} s were left, {seconds:.0f} are wanted")
        return left >= seconds


# -- Checks -----------------------------------------------------------------------------------------------------------


def checks(device: torch.device, tiny: bool) -> list[dict]:
    """Greedy equality and the cache, in float32 on a small model; TF32, which is not float32, is switched off."""
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    name = "nano" if tiny or not smollm2.is_cached() else "smollm2"
    target = mt.load(name, device=device, dtype="float32")
    prompts = [target.encode(one["prompt"]) for one in bench.prompts(name, 1 if tiny else 2)]
    return [
        *(greedy_equality(target, drafter, prompts, 16 if tiny else 48) for drafter in ("mtp", "ngram")),
        cache_against_prefill(target, prompts[0]),
    ]


def greedy_equality(target: mt.Target, drafter: str, prompts: list[list[int]], tokens: int) -> dict:
    """Speculative greedy decoding says what plain decoding says; a token may differ at a near-tie only."""
    compared = near_ties.compare(
        target, mt.load_drafter(drafter, target), prompts, max_new_tokens=tokens, ignore_eos=True
    )
    flipped = [one for one in compared if one.flipped]
    return {
        "check": f"greedy equality, {drafter}, {target.name} in float32",
        "passed": all(one.margin < NEAR_TIE for one in flipped),
        "tokens": len(compared),
        "flipped": len(flipped),
        "largest_margin_of_a_flip": max((one.margin for one in flipped), default=None),
    }


@torch.no_grad()
def cache_against_prefill(target: mt.Target, prompt: list[int], tokens: int = 12) -> dict:
    """After rounds with rejected drafts the cache gives the logits that a fresh call on the whole text gives."""
    text = mt.generate(target, prompt, max_new_tokens=tokens, ignore_eos=True, sampling=GREEDY).tokens
    ids = [*prompt, *text]
    cache = target.new_cache(1)
    target.forward(torch.tensor([prompt], device=target.device), [len(prompt)], cache)
    rows = []
    for token in text:
        wrong = [(token + i) % target.vocab_size for i in (1, 2, 3)]  # a draft that is thrown away again
        logits, _ = target.forward(torch.tensor([[token, *wrong]], device=target.device), [4], cache)
        cache.roll_back([cache.lengths[0] - 3])
        rows.append(logits[0, 0])
    fresh, _ = target.forward(torch.tensor([ids], device=target.device), [len(ids)], target.new_cache(1))
    difference = float((torch.stack(rows).double() - fresh[0, len(prompt) :].double()).abs().max())
    name = f"cache against prefill, {target.name} in float32"
    return {"check": name, "passed": difference < NEAR_TIE, "largest_difference": difference}


# -- Timings ----------------------------------------------------------------------------------------------------------


def real_model(device: torch.device, tiny: bool, folder: Path) -> dict:
    """A model with trained drafters: ours and transformers' arms on held-out prompts."""
    name = "nano" if tiny else "smollm2"
    target = mt.load(name, device=device)
    arms = bench.parse_all(["mtp:k=2", "mtp:k=4", "mtp:adaptive", "ngram:k=4", "hf-plain", "hf-assistant", "hf-lookup"])
    plan = bench.Plan(
        kinds=("json",) if tiny else ("chat", "code", "json"),
        prompts=1 if tiny else 2,
        temperatures=(0.0,) if tiny else (0.0, 0.6),
        max_new_tokens=8 if tiny else 96,
        repeats=1 if tiny else 2,
    )
    header, rows = bench.run(target, arms, plan, folder / "rows.jsonl")
    return {"header": header, "rows": bench.summary(header, rows)}


def random_model(device: torch.device, tiny: bool, budget: Budget, bandwidth: dict) -> dict:
    """Random weights in the shape of a large model: plain decoding, the oracle at several k, transformers."""
    target = wrap(random_weights(device, tiny), name="random weights" if tiny else "random weights, 8 B shape")
    tokens, prompt, batches = (8, 8, (1, 2)) if tiny else (96, 64, (1, 8, 32))
    arms = bench.parse_all(["oracle:k=2", "oracle:k=4", "hf-plain"])
    rows = []
    for batch in batches:
        if budget.allows(f"random weights at batch {batch}", 0 if tiny else 75):
            rows += _timed(target, arms, batch, tokens, prompt, repeats=1 if tiny else 3)
    header = {
        **machine.of_target(target),
        "max_new_tokens": tokens,
        "prompt_tokens": prompt,
        "top_k": 0,
        "accuracy": ACCURACY,
        "threads": torch.get_num_threads(),
        "machine": machine.describe(device),
        "bandwidth": bandwidth,
    }
    return {"header": header, "rows": bench.summary(header, rows)}


def random_weights(device: torch.device, tiny: bool) -> torch.nn.Module:
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(**(TINY if tiny else LARGE), tie_word_embeddings=False, bos_token_id=1, eos_token_id=2)
    with device:
        return LlamaForCausalLM._from_config(config, dtype=torch.bfloat16).eval()


def _timed(target: mt.Target, arms: list[bench.Arm], batch: int, tokens: int, prompt: int, repeats: int) -> list[dict]:
    """Rows as those of ``bench.run``: the arms in turns on two groups of prompts, one of which prices the rounds."""
    runner, rows = Bench(target, arms), []
    for part in ("costs", "measured"):
        seed = torch.Generator().manual_seed(len(part) + 100 * batch)
        ids = torch.randint(3, target.vocab_size, (batch, prompt), generator=seed).tolist()
        group = Group(part, "random ids", tuple(map(tuple, ids)), tuple(range(batch)))
        for arm in arms:
            if arm.who == "oracle":
                said = recorded(target, ids, arm.k, tokens)
                runner.drafters[arm.drafting, arm.k] = OracleDrafter(target, said, ACCURACY)
        for repeat in range(-1, repeats):  # the first is not counted
            for arm in arms[repeat % len(arms) :] + arms[: repeat % len(arms)]:
                if arm.who == "oracle":
                    runner.drafters[arm.drafting] = runner.drafters[arm.drafting, arm.k]
                found = runner.run(arm, group, GREEDY, tokens)
                columns = {"part": part, "batch": batch, "temperature": 0.0, "repeat": repeat, "group": part}
                if repeat >= 0 and (part == "measured" or not arm.theirs):
                    rows.append({**columns, "kind": group.kind, "arm": arm.name, **found})
    return rows


def recorded(target: mt.Target, prompts: list[list[int]], k: int, tokens: int) -> list[list[int]]:
    """What the target says greedily when it verifies k drafts.

    A call on k + 1 rows rounds otherwise than one on a single row, and random weights have many near-ties. So the text
    of plain decoding is verified, what comes of it is verified again, and so on, until it stays.
    """
    options = {"sampling": GREEDY, "max_new_tokens": tokens, "ignore_eos": True}
    said = [one.tokens for one in mt.generate(target, prompts, **options)]
    for _ in range(6):
        drafter = OracleDrafter(target, said)
        found = [one.tokens for one in mt.generate(target, prompts, drafter, num_speculative_tokens=k, **options)]
        if found == said:
            break
        said = found
    return said


# -- The whole --------------------------------------------------------------------------------------------------------


def measure(device: torch.device, minutes: float, tiny: bool, folder: Path) -> dict:
    """Everything, as one dict. folder: for rows that nobody needs afterwards."""
    began, budget = time.monotonic(), Budget(minutes)
    found = {
        "trace": "gpu bench",
        "format": 1,
        "tiny": tiny,
        "date": machine.today(),
        "machine": machine.describe(device),
        "versions": machine.versions(),
        "doctor": [
            one.as_dict() for one in doctor.examine() if one.what in ("device", "dtype", "torch", "transformers")
        ],
        "bandwidth": bench.memory_bandwidth(megabytes=64 if tiny else 4096, device=device),
        "checks": [],
        "timings": [],
    }
    if budget.allows("checks", 0 if tiny else 60):
        found["checks"] = checks(device, tiny)
    if budget.allows("random weights", 0 if tiny else 120):
        found["timings"].append(random_model(device, tiny, budget, found["bandwidth"]))
        if device.type == "cuda":
            torch.cuda.empty_cache()
    if not tiny and not smollm2.is_cached():
        budget.skipped.append("smollm2: it is not here; `mtp-tutorial fetch smollm2` brings it")
    elif budget.allows("a real model", 0 if tiny else 120):
        found["timings"].append(real_model(device, tiny, folder))
    return {**found, "skipped": budget.skipped, "seconds": round(time.monotonic() - began, 1)}


def sentences(found: dict) -> list[str]:
    """What a reader wants to know first."""
    lines = [f"{'passed' if one['passed'] else 'FAILED'}: {one['check']}" for one in found["checks"]]
    for timing in found["timings"]:
        name = timing["header"]["target"]
        for row in (row for row in timing["rows"] if row["kind"] == bench.OVERALL):
            line = f"{name}, batch {row['batch']}, T = {row['temperature']:g}, {row['arm']}: "
            line += f"{row['tokens_per_second']:.1f} tokens/s, {row['ratio']:.2f} × plain"
            if row["predicted"] is not None and row["arm"] != "plain":
                line += f", predicted {row['predicted']:.2f}, off by {row['predicted_off']:+.0%}"
            if row["bandwidth_share"] is not None:
                line += f", {row['bandwidth_share']:.0%} of the memory bandwidth"
            lines.append(line)
    return [*lines, *(f"skipped: {one}" for one in found["skipped"]), f"{found['seconds']:.0f} s in all"]


def main(arguments: list[str] | None = None) -> int:
    import tempfile

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--minutes", type=float, default=8.0)
    parser.add_argument("--tiny", action="store_true", help="a tiny size, on the CPU")
    parser.add_argument("--out", type=Path, help="by default data/traces/<gpu>.json")
    chosen = parser.parse_args(arguments)
    device = torch.device("cpu" if chosen.tiny else chosen.device)
    if device.type == "cuda" and not torch.cuda.is_available():
        parser.error("torch sees no CUDA GPU here: use --tiny, or another machine")
    if chosen.tiny and chosen.out is None:
        parser.error("--tiny needs --out: its figures are no trace to keep")
    with tempfile.TemporaryDirectory() as folder:
        found = measure(device, chosen.minutes, chosen.tiny, Path(folder))
    name = found["machine"].get("gpu", "cpu").lower()
    out = chosen.out or TRACES / f"{re.sub('[^a-z0-9]+', '-', name).strip('-')}.json"
    temporary = out.with_name(out.name + ".tmp")
    temporary.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    temporary.replace(out)
    print("\n".join(sentences(found)))
    return 0 if all(one["passed"] for one in found["checks"]) else 1


if __name__ == "__main__":
    sys.exit(main())
