"""The gate: an entry that changes the target's law is refused, whatever its score.

Takes: a target, an entry, what it played.  Returns: a ``Ruling``: five figures, and the museum's name of the fault.
Must not know: which entries there are.

Each instrument is made for one way of cheating, by will or by mistake; its limit lies where right code never comes.
Probabilities are as in ``lab.instruments``: 1 - p above .999999 means that a right entry in a million looks like this.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from ...decode import generate
from ...models import Target
from ...records import Draft, Sampling, Verdict
from ...sampling import probabilities
from ...verify import ratio, residual
from .. import losslessness
from ..experiment.prompts import prompts_for
from ..instruments import Finding
from ..museum import EXHIBITS
from .task import SAMPLING, SEED, Entry, Score, play

#: Drafting uniforms for each place, short texts for the law, places for the first token.
GRID, SAMPLES, PLACES = 256, 400, 4
_RARE = 1 - 1e-6

WEIGHTS, GREEDY = "the target's weights", "texts at temperature 0"
FIRST, COINS, LAW = "law of the first token", "coins of judged tokens", "samples against the law"


@dataclass(frozen=True)
class Ruling:
    """What the gate says of one entry. exhibit: the museum's name of the fault, None for an entry that may play."""

    name: str
    findings: tuple[Finding, ...]
    exhibit: str | None
    why: str
    accepted_share: float  # of the draft tokens that were played

    @property
    def accepted(self) -> bool:
        return self.exhibit is None

    def figure(self, instrument: str) -> float:
        """What one instrument measured."""
        return next(one.figure for one in self.findings if one.instrument == instrument)

    def report(self) -> dict[str, float]:
        """first_token: a total variation.  coins_p, law_p: p-values.  accepted: share of the draft tokens played."""
        figures = {"first_token": self.figure(FIRST), "coins_p": 1 - self.figure(COINS), "law_p": 1 - self.figure(LAW)}
        return {**figures, "accepted": self.accepted_share}

    @property
    def message(self) -> str:
        """One sentence or two, for a reader."""
        if self.exhibit is None:
            return f"{self.name} may play: it leaves the target's law as it is."
        numbers = "; ".join(_words(one) for one in self.findings if one.caught)
        title = EXHIBITS[self.exhibit].title
        return f"{self.name} is refused: {self.why} In the museum: {self.exhibit}, {title}. ({numbers})"


def _words(one: Finding) -> str:
    if one.instrument in (COINS, LAW):
        return f"{one.instrument}: p below 0.000001"
    if one.instrument == FIRST:
        return f"{one.instrument}: total variation {one.figure:.2f}"
    return f"{one.instrument}: {one.figure:g} changed"


def examine(target: Target, entry: Entry, score: Score | None = None, samples: int = SAMPLES) -> Ruling:
    """Turn the instruments on an entry. score: what ``play`` returned; None plays now."""
    before = target.fingerprint()
    score = play(target, entry) if score is None else score
    probe = _Probe(target, entry)
    figures = {
        GREEDY: float(_greedy_differences(target, entry)),
        FIRST: probe.distance,
        COINS: 1 - _uniformity(score),
        LAW: 1 - _sampled(target, entry, samples),
    }
    figures = {WEIGHTS: float(target.fingerprint() != before), **figures}
    limits = {WEIGHTS: 0.0, GREEDY: 0.0, FIRST: 0.05, COINS: _RARE, LAW: _RARE}
    findings = tuple(Finding(name, figure, limits[name]) for name, figure in figures.items())
    share = score.acceptance_rate
    caught = {one.instrument for one in findings if one.caught}
    return Ruling(entry.name, findings, *_diagnosis(caught, probe), math.nan if share is None else share)


def _diagnosis(caught: set[str], probe: _Probe) -> tuple[str | None, str]:
    """(exhibit, sentence), from what was caught and from what the first drafts look like."""
    if not caught:
        return None, ""
    if caught & {WEIGHTS, GREEDY}:
        return "R14b", "the target itself no longer says what it said: its weights, its cache or its rows were changed."
    if FIRST in caught:
        if probe.lengths_vary:
            return (
                "R19",
                "it draws a token, looks at it, and hands over only some: those are not drawn from draft_probs.",
            )
        if probe.always_accepted:
            return "R3", "the draft_probs that it reports for its tokens are so small that every coin accepts them."
        return "R6", "its tokens are not drawn from the draft_probs that it reports."
    if COINS in caught:
        return "uniform_reused", "it knows the coins before it drafts: it guesses where they are small."
    return "R12", "single positions look right, whole texts do not."


def _greedy_differences(target: Target, entry: Entry, texts: int = 8, tokens: int = 24) -> int:
    """How many texts at temperature 0 are not those of plain decoding."""
    prompts = [one["prompt"] for one in prompts_for(target.name, texts)]
    run = {"sampling": Sampling(temperature=0), "max_new_tokens": tokens}
    plain = generate(target, prompts, **run)
    return sum(a.tokens != b.tokens for a, b in zip(plain, generate(target, prompts, **entry.options(target), **run)))


class _Probe:
    """The first draft token behind a few beginnings, for drafting uniforms on a fine grid.

    distance: the largest total variation between the law of the first emitted token and the target's own. The coins are
    integrated exactly; the drafting uniforms run over the grid.
    """

    def __init__(self, target: Target, entry: Entry) -> None:
        self.distance, self.lengths_vary, self.always_accepted = 0.0, False, True
        for text in open_places(target):
            draft, row = first_drafts(target, entry, text)
            lengths = draft.lengths
            self.lengths_vary |= bool((lengths != lengths[0]).any())
            law = _emitted(draft, row).mean(0)
            self.distance = max(self.distance, float((law - row).abs().sum() / 2))
            if int(lengths.max()):
                accepted = ratio(draft, row.expand(GRID, draft.tokens.shape[1] + 1, -1))[:, 0]
                self.always_accepted &= bool((accepted[lengths > 0] >= 1).all())


@torch.no_grad()
def open_places(target: Target, shortest: int = 6, longest: int = 16) -> list[list[int]]:
    """PLACES beginnings behind which the target's favourite has a probability near ½, one a prompt.

    Where only one token is possible, every drafter has the right law.
    """
    found = []
    for one in prompts_for(target.name, PLACES):
        ids = target.encode(one["prompt"])[:longest]
        logits = target.forward(torch.tensor([ids], device=target.device), [len(ids)], target.new_cache(1))[0]
        rows = probabilities(logits[0], SAMPLING).double()
        off = (rows.amax(-1)[shortest - 1 :] - 0.5).abs()
        found.append(ids[: shortest + int(off.argmin())])
    return found


@torch.no_grad()
def first_drafts(target: Target, entry: Entry, text: Sequence[int]) -> tuple[Draft, torch.Tensor]:
    """(GRID drafts behind ``text``, the target's (V,) row there); draft i has uniforms near (i + ½) ÷ GRID."""
    drafter, read, last = entry.make(target), list(text[:-1]), text[-1]
    layers = tuple(getattr(drafter, "needs_hidden", ()))
    cache = target.new_cache(1, len(text))
    ids = torch.tensor([read], device=target.device)
    one = target.forward(ids, [len(read)], cache, layers=layers, last_only=True)[1]
    logits = target.forward(torch.tensor([[last]], device=target.device), [1], cache, last_only=True)[0]
    hidden = tuple(states.expand(GRID, -1, -1) for states in one)
    drafter.start(target, [read] * GRID, hidden)
    ones = torch.full((GRID, 1), last), torch.zeros(GRID, dtype=torch.int64), torch.zeros(GRID, dtype=torch.bool)
    drafter.commit(Verdict(*ones), tuple(rows[:, -1:] for rows in hidden))
    places = (torch.arange(GRID, dtype=torch.float64) + 0.5) / GRID
    # Later positions in another order each, so that all of them see the whole grid.
    k = 3
    shuffled = [places[torch.randperm(GRID, generator=torch.Generator().manual_seed(i))] for i in range(1, k)]
    uniforms = torch.stack([places, *shuffled], 1).to(target.device)
    return drafter.propose(torch.full((GRID,), k), SAMPLING, uniforms), probabilities(logits[0, -1], SAMPLING).double()


def _emitted(draft: Draft, row: torch.Tensor) -> torch.Tensor:
    """(GRID, V): the law of the first emitted token for each draft, with the coins integrated."""
    count, k = draft.tokens.shape
    rows = row.expand(count, -1)
    if k == 0:
        return rows
    here = torch.zeros(count, dtype=torch.int64, device=row.device)
    accept = ratio(draft, row.expand(count, k + 1, -1))[:, :1].clamp(0, 1)
    token = torch.nn.functional.one_hot(draft.tokens[:, 0].clamp_min(0), len(row)).to(row.dtype)
    rest = residual(rows, draft, here)
    rest = rest / rest.sum(-1, keepdim=True)
    return torch.where((draft.tokens[:, :1] < 0), rows, accept * token + (1 - accept) * rest)


def _uniformity(score: Score) -> float:
    """p-value of "the coin of the first draft token of a round is uniform on [0, 1)"; 1 where nothing was drafted.

    A drafter decides before the coin falls, so its coins are like all coins.
    """
    from scipy.stats import kstest

    coins = [one.coins[0] for g in score.generations for one in g.rounds if one.num_drafted]
    return float(kstest(coins, "uniform").pvalue) if coins else 1.0


def _sampled(target: Target, entry: Entry, count: int) -> float:
    """p-value of short texts against the target's law over them, as in ``lab.losslessness``."""
    prompt = losslessness.PROMPT if target.name == "nano" else prompts_for(target.name, 1)[0]["prompt"]
    ids = target.encode(prompt, chat=False)
    run = {"sampling": losslessness.SAMPLING, "max_new_tokens": losslessness.LENGTH}
    made = generate(target, [list(ids)] * count, **entry.options(target), **run, seed=SEED + 500_000)
    law = losslessness.law(target, ids, losslessness.SAMPLING, losslessness.LENGTH)
    return losslessness.p_value([tuple(one.tokens) for one in made], law)
