"""How often drafts are accepted: every drafter, draft length and temperature, on held-out prompts, by kind.

Takes: a target, drafters, prompts.  Returns: tidy rows, and Markdown tables of them.
Must not know: how a drafter was trained.

    python -m mtp_tutorial.training.acceptance --target nano --out data/nano/acceptance.jsonl
    python -m mtp_tutorial.training.acceptance --show data/nano/acceptance.jsonl

Everything is decoded live, in batches, with rule ``rejection``: what is counted is what a server would count. A second
run goes on with the settings that the file lacks.
"""

from __future__ import annotations

import argparse
import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from ..decode import generate
from ..drafters import DRAFTERS, UNTRAINED, bundled, load_drafter
from ..drafters.base import Drafter
from ..longrun import SEED_SCHEME, append_rows, bar, check_seed_scheme, go_on, read_rows, seed_scheme
from ..models import Target, load
from ..records import Generation, Sampling
from ..records import by_position as counts_by_position
from .corpus import KINDS
from .corpus import prompts as beginnings
from .selfdistill import fitting, read_prompts

PROMPTS = Path(__file__).resolve().parents[2] / "data" / "prompts"
OVERALL = "all kinds"


@dataclass(frozen=True)
class Setting:
    """One run. drafting: "greedy", or "sampled" (at the request's own temperature)."""

    drafter: str
    drafting: str
    temperature: float
    k: int


def settings(
    drafters: Sequence[str], lengths: Sequence[int] = (2, 4), temperatures: Sequence[float] = (0, 0.6, 1)
) -> list[Setting]:
    """All that differ: n-grams have nothing to sample from, and at T = 0 a sampled draft is the greedy one."""
    every = itertools.product(temperatures, lengths, drafters, ("greedy", "sampled"))
    return [
        Setting(drafter, drafting, temperature, k)
        for temperature, k, drafter, drafting in every
        if drafting == "greedy" or (drafter not in ("ngram", "oracle") and temperature > 0)
    ]


def held_out_prompts(target_name: str, per_kind: int | None = None) -> list[dict]:
    """Held-out prompts: beginnings of made-up texts for nano, requests for everything else; dicts with kind, prompt."""
    if target_name == "nano":
        return [
            {"id": f"{kind}-{i}", "kind": kind, "prompt": text}
            for kind in KINDS
            for i, text in enumerate(beginnings(kind, per_kind or 50))
        ]
    found = read_prompts(PROMPTS, "heldout")
    if per_kind is None:
        return found
    return [
        one for kind in sorted({p["kind"] for p in found}) for one in [p for p in found if p["kind"] == kind][:per_kind]
    ]


def measure(
    target: Target,
    drafter: Drafter,
    setting: Setting,
    prompts: Sequence[dict],
    max_new_tokens: int = 128,
    batch: int = 32,
    seed: int = 0,
) -> list[dict]:
    """A row a kind, and one for all: rounds, tokens of rounds, and for each draft position how many were drafted and
    accepted. Prompt i is keyed by (seed, i)."""
    if batch < 1:
        raise ValueError(f"batch={batch!r}: use a whole number, 1 or more")
    order = sorted(range(len(prompts)), key=lambda i: len(target.encode(prompts[i]["prompt"])))
    found: list[Generation | None] = [None] * len(prompts)
    for start in range(0, len(order), batch):
        group = order[start : start + batch]
        made = generate(
            target,
            [prompts[i]["prompt"] for i in group],
            drafter,
            num_speculative_tokens=setting.k,
            sampling=Sampling(temperature=setting.temperature),
            max_new_tokens=max_new_tokens,
            seed=[(seed, i) for i in group],
        )
        for i, one in zip(group, made, strict=True):
            found[i] = one
    kinds = sorted({one["kind"] for one in prompts})
    rows = [_row(OVERALL, setting, found)]
    return rows + [
        _row(kind, setting, [g for g, one in zip(found, prompts, strict=True) if one["kind"] == kind]) for kind in kinds
    ]


def _row(kind: str, setting: Setting, generations: Iterable[Generation]) -> dict:
    rounds = [one for g in generations for one in g.rounds if not one.is_prefill]
    drafted, accepted = counts_by_position(rounds, setting.k)
    return {
        **asdict(setting),
        "kind": kind,
        "rounds": len(rounds),
        "tokens": sum(len(one.tokens) for one in rounds),
        "drafted": drafted,
        "accepted": accepted,
        "seed_scheme": SEED_SCHEME,
    }


def mean_acceptance_length(row: dict) -> float:
    """Tokens a round, the recovered or bonus token included."""
    return row["tokens"] / row["rounds"] if row["rounds"] else math.nan


def by_position(row: dict) -> list[float]:
    """For each draft position, the share of *all* rounds in which it was accepted, as vLLM reports it.

    A round that drafted less counts as one that accepted less, so that 1 + the sum is the mean acceptance length but
    for texts that end inside a draft.
    """
    return [n / row["rounds"] if row["rounds"] else math.nan for n in row["accepted"]]


def times_above(rows: Sequence[dict], kind: str, other: str) -> dict[float, tuple[int, int]]:
    """Temperature → (in how many settings ``kind`` brings more tokens a round than ``other``, of how many settings)."""
    names = tuple(Setting.__dataclass_fields__)
    length = {(*(row[name] for name in names), row["kind"]): mean_acceptance_length(row) for row in rows}
    found: dict[float, tuple[int, int]] = {}
    for setting in dict.fromkeys(key[:-1] for key in length):
        if (*setting, kind) in length and (*setting, other) in length:
            won, of = found.get(setting[2], (0, 0))
            found[setting[2]] = won + (length[*setting, kind] > length[*setting, other]), of + 1
    return found


def markdown(rows: Sequence[dict]) -> str:
    """Two tables: acceptance by position and mean acceptance length overall; then mean acceptance length by kind."""
    longest = max(row["k"] for row in rows)
    overall = [row for row in rows if row["kind"] == OVERALL]
    keys = list(dict.fromkeys((r["drafter"], r["drafting"], r["temperature"]) for r in overall))
    lengths = sorted({row["k"] for row in overall})
    head = [
        "drafter",
        "drafts",
        "T",
        *(f"pos {i + 1}" for i in range(longest)),
        *(f"length, k={k}" for k in lengths),
    ]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for key in keys:
        mine = {r["k"]: r for r in overall if (r["drafter"], r["drafting"], r["temperature"]) == key}
        shares = by_position(mine[longest]) if longest in mine else [math.nan] * longest
        cells = [*map(str, key), *("" if math.isnan(share) else f"{share:.2f}" for share in shares)]
        cells += [f"{mean_acceptance_length(mine[k]):.2f}" if k in mine else "" for k in lengths]
        lines.append("| " + " | ".join(cells) + " |")
    kinds = [kind for kind in dict.fromkeys(row["kind"] for row in rows) if kind != OVERALL]
    head = ["drafter", "drafts", "T", "k", *kinds]
    lines += ["", "| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for row in overall:
        same = {
            r["kind"]: r
            for r in rows
            if all(r[name] == row[name] for name in ("drafter", "drafting", "temperature", "k"))
        }
        cells = [row["drafter"], row["drafting"], str(row["temperature"]), str(row["k"])]
        lines.append(
            "| " + " | ".join([*cells, *(f"{mean_acceptance_length(same[kind]):.2f}" for kind in kinds)]) + " |"
        )
    return "\n".join(lines)


def sweep(
    target: Target, wanted: Sequence[Setting], prompts: Sequence[dict], out: Path, progress: bool = True, **options
) -> list[dict]:
    """Measure what ``out`` lacks, a setting at a time, and append its rows; return all rows.

    Raises ValueError, before anything is measured, for an unknown drafter, or when ``out`` was drawn with another seed
    scheme.
    """
    check_drafters(one.drafter for one in wanted)
    prompts = fitting(target, prompts)
    _, rows = go_on(out, "acceptance")
    check_seed_scheme(out, rows)
    there = {Setting(r["drafter"], r["drafting"], r["temperature"], r["k"]) for r in rows}
    for setting in bar([one for one in wanted if one not in there], "acceptance", progress):
        found = measure(target, _drafter(target, setting), setting, prompts, **options)
        append_rows(out, found)
        rows += found
    return rows


def check_drafters(names: Iterable[str]) -> None:
    """Raise ValueError for a drafter that there is not, before the others are measured."""
    for name in names:
        if name.partition("-")[0] not in DRAFTERS:
            raise ValueError(f"unknown drafter {name!r}; known: {', '.join(DRAFTERS)}")


def _drafter(target: Target, setting: Setting) -> Drafter:
    """By name; "mtp-stack" is an "mtp" drafter with the repository's weights of that name."""
    options = {"temperature": "same"} if setting.drafting == "sampled" else {}
    kind, _, variant = setting.drafter.partition("-")
    if kind not in UNTRAINED:
        options["frequent"] = None  # the head as it was trained, whatever is the default where speed counts
    if variant:
        options["weights"] = bundled(target, setting.drafter)
    return load_drafter(kind, target, **options)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure acceptance into a file, or print the tables of one (--show)."""
    parser = argparse.ArgumentParser(prog="python -m mtp_tutorial.training.acceptance", description=main.__doc__)
    parser.add_argument("--target", default="nano")
    parser.add_argument("--drafters", nargs="+", default=["ngram", "draft", "mtp", "medusa"])
    parser.add_argument("--per-kind", type=int, default=None, help="prompts a kind; all by default")
    parser.add_argument("--max-new-tokens", type=int, default=128)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--out", type=Path, help="JSON Lines; a second run goes on with what it lacks")
    parser.add_argument("--show", type=Path, help="measure nothing: print the tables of this file")
    chosen = parser.parse_args(arguments)
    if chosen.show is None and chosen.out is None:
        parser.error("--out is missing: the file for the rows")
    try:
        rows = read_rows(chosen.show, "acceptance") if chosen.show else _run(chosen)
    except (ValueError, OSError) as error:
        parser.error(str(error))
    print(markdown(rows), f"Seed scheme: {', '.join(sorted({seed_scheme(row) for row in rows}))}", sep="\n\n")


def _run(chosen: argparse.Namespace) -> list[dict]:
    target, prompts = load(chosen.target), held_out_prompts(chosen.target, chosen.per_kind)
    options = {"max_new_tokens": chosen.max_new_tokens, "batch": chosen.batch}
    return sweep(target, settings(chosen.drafters), prompts, chosen.out, **options)


if __name__ == "__main__":
    main()
