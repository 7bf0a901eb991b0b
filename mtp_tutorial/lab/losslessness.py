"""Does a real drafter under a lossless rule leave the target's law as it is? Samples against the law by enumeration.

Takes: a target, drafters, rules.  Returns: tidy rows with a p-value each, and a Markdown table of them.
Must not know: how drafters or rules work.

    python -m mtp_tutorial.lab.losslessness --out data/nano/losslessness.jsonl
    python -m mtp_tutorial.lab.losslessness --show data/nano/losslessness.jsonl

With top-k = 4 there are at most 256 continuations of four tokens, so the target's law over them can be computed. Token
1 comes from the prefill, which no draft touches; tokens 2 to 4 are compared with their law given token 1. A rule that
is known to be lossy runs beside the others: if its samples passed, the test could not have failed.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch

from ..decode import generate
from ..drafters import DRAFTERS, load_drafter
from ..drafters.base import Drafter
from ..longrun import SEED_SCHEME, append_rows, bar, check_seed_scheme, go_on, read_rows, seed_scheme
from ..models import Target, load
from ..records import Sampling
from ..sampling import probabilities
from ..training.acceptance import check_drafters
from ..verify import RULES
from .stats import merge_small

SAMPLING = Sampling(temperature=1.0, top_k=4)
PROMPT = "Ben: Have you seen my"  # nano goes on in many ways here
LENGTH, K, SAMPLES = 4, 3, 20_000
#: Always the target's favourite among its own words: lossy at T > 0, and the samples must show it.
CONTROL = "greedy"


def law(target: Target, prompt: Sequence[int], sampling: Sampling, length: int) -> dict[tuple[int, ...], float]:
    """The probability of every continuation of ``length`` tokens that has one, a level of the tree at a time.

    A continuation that ends with an end-of-text token is not made longer.
    """
    found: dict[tuple[int, ...], float] = {(): 1.0}
    for _ in range(length):
        open_ones = [one for one in found if not (one and one[-1] in target.eos_ids)]
        ids = torch.tensor([[*prompt, *one] for one in open_ones], device=target.device)
        cache = target.new_cache(len(ids), ids.shape[1])
        logits, _ = target.forward(ids, [ids.shape[1]] * len(ids), cache, last_only=True)
        rows = probabilities(logits[:, -1], sampling).double().cpu()
        for one, row in zip(open_ones, rows, strict=True):
            p = found.pop(one)
            for token in row.nonzero().flatten().tolist():
                found[(*one, token)] = p * float(row[token])
    return found


def samples(
    target: Target,
    prompt: Sequence[int],
    drafter: Drafter | None,
    rule: str,
    sampling: Sampling = SAMPLING,
    length: int = LENGTH,
    k: int = K,
    count: int = SAMPLES,
    batch: int = 1000,
    seed: int = 0,
) -> Iterator[tuple[int, ...]]:
    """``count`` continuations; sample i is keyed by ``(seed, i)``."""
    for start in range(0, count, batch):
        size = min(batch, count - start)
        made = generate(
            target,
            [list(prompt)] * size,
            drafter,
            rule,
            num_speculative_tokens=k,
            sampling=sampling,
            max_new_tokens=length,
            seed=[(seed, start + i) for i in range(size)],
        )
        yield from (tuple(one.tokens) for one in made)


def p_value(found: Sequence[tuple[int, ...]], expected: dict[tuple[int, ...], float]) -> float:
    """χ² of the tokens after the first, given the first. 0 when a sample is impossible.

    For each first token, cells that expect fewer than 5 samples are merged; its own count is taken as given.
    """
    from scipy.stats import chi2

    counts, firsts = Counter(found), Counter(one[0] for one in found)
    if any(one not in expected for one in counts):
        return 0.0
    statistic, freedom = 0.0, 0
    for first, count in firsts.items():
        mine = [one for one in expected if one[0] == first]
        law = np.array([expected[one] for one in mine])
        seen, wanted = merge_small(np.array([float(counts[one]) for one in mine]), count * law / law.sum())
        statistic += float(((seen - wanted) ** 2 / wanted).sum())
        freedom += wanted.shape[1] - 1
    return float(chi2.sf(statistic, freedom)) if freedom else 1.0


def sweep(
    target: Target,
    drafters: Sequence[str],
    rules: Sequence[str],
    out: Path,
    count: int = SAMPLES,
    prompt: str = PROMPT,
    progress: bool = True,
) -> list[dict]:
    """Every drafter under every rule; go on with what ``out`` lacks.

    Drafts are sampled where the drafter can (the harder case: the rule must know their distribution), else greedy. For
    the control they are greedy. Raises ValueError when ``out`` was drawn with another seed scheme.
    """
    check_drafters(drafters)
    if count < 1:
        raise ValueError(f"count={count!r}: use one sample or more")
    _, rows = go_on(out, "losslessness")
    check_seed_scheme(out, rows)
    there = {(row["drafter"], row["drafts"], row["rule"]) for row in rows}
    ids = target.encode(prompt, chat=False)
    expected = law(target, ids, SAMPLING, LENGTH)
    every = [
        (name, "greedy" if name in ("ngram", "oracle") or rule == CONTROL else "sampled", rule)
        for name in drafters
        for rule in rules
    ]
    wanted = [one for one in every if one not in there]
    for name, drafts, rule in bar(wanted, "losslessness", progress):
        options = {"temperature": "same"} if drafts == "sampled" else {}
        if name == "oracle":  # one recording for all, right now and then
            recording = generate(target, ids, sampling=Sampling(temperature=0), max_new_tokens=LENGTH + K)
            options = {"continuation": recording, "accuracy": 0.7}
        drafter = load_drafter(name, target, **options)
        found = list(samples(target, ids, drafter, rule, count=count, seed=len(rows)))
        row = {"drafter": name, "drafts": drafts, "rule": rule, "lossless": RULES[rule].lossless, "samples": count}
        rows.append({**row, "p_value": p_value(found, expected), "seed_scheme": SEED_SCHEME})
        append_rows(out, rows[-1:])
    return rows


def markdown(rows: Sequence[dict]) -> str:
    """p-values: a row a drafter, a column a rule."""
    rules = list(dict.fromkeys(row["rule"] for row in rows))
    lines = ["| drafter | " + " | ".join(rules) + " |", "|" + "---|" * (len(rules) + 1)]
    for name in dict.fromkeys(row["drafter"] for row in rows):
        mine = {row["rule"]: f"{row['p_value']:.2g} ({row['drafts']})" for row in rows if row["drafter"] == name}
        lines.append("| " + " | ".join([name, *(mine.get(rule, "") for rule in rules)]) + " |")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Sample every drafter under every lossless rule and test the samples, or print the table of a file (--show)."""
    parser = argparse.ArgumentParser(prog="python -m mtp_tutorial.lab.losslessness", description=main.__doc__)
    parser.add_argument("--target", default="nano")
    parser.add_argument("--drafters", nargs="+", default=list(DRAFTERS))
    parser.add_argument("--samples", type=int, default=SAMPLES)
    parser.add_argument("--out", type=Path, help="JSON Lines; a second run goes on with what it lacks")
    parser.add_argument("--show", type=Path, help="sample nothing: print the table of this file")
    chosen = parser.parse_args(arguments)
    if chosen.show is None and chosen.out is None:
        parser.error("--out is missing: the file for the rows")
    try:
        rows = read_rows(chosen.show, "losslessness") if chosen.show else _run(chosen)
    except (ValueError, OSError) as error:
        parser.error(str(error))
    print(markdown(rows), f"Seed scheme: {', '.join(sorted({seed_scheme(row) for row in rows}))}", sep="\n\n")


def _run(chosen: argparse.Namespace) -> list[dict]:
    rules = [*(name for name, rule in RULES.items() if rule.lossless), CONTROL]
    return sweep(load(chosen.target), chosen.drafters, rules, chosen.out, chosen.samples)


if __name__ == "__main__":
    main()
