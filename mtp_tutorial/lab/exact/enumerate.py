"""The exact law of a verify rule, by enumeration instead of sampling.

Takes: a rule, a draft, the target's rows.  Returns: the probability of every emitted sequence, to rounding.
Must not know: models and drafters; a law is about distributions only.

How: a rule is a function of its uniforms that is constant on boxes. The rule names the breakpoints of each
uniform, the boxes between them are listed, the rule is run inside each, and the box's volume is added to what it
emitted. Random points of each box must agree (two at least, many where the boxes are few), so that a forgotten
breakpoint cannot go unnoticed.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from ...records import Draft, Verdict
from ...verify import Rule, check_rows, get_rule, verify

Law = dict[tuple[int, ...], float]
Rows = Tensor | Callable[[tuple[int, ...]], Tensor]

#: Breakpoints closer than this are one: between them the rule's own rounding decides.
_MERGE = 1e-14
_CHUNK = 1 << 15  # boxes evaluated at a time, fewer where the rows are long:
_NUMBERS = 1 << 22  # probabilities looked at together
_LOOKS = 1 << 8  # points evaluated at least
#: What is enumerated at most, about half a minute's work: boxes, probabilities looked at in them, sequences.
MOST_BOXES, MOST_NUMBERS, MOST_SEQUENCES = 1 << 23, 1 << 30, 1 << 18


def output_law(rule: str | Rule, draft: Draft, target_probs: Rows, **params: float) -> Law:
    """The probability of each sequence of k + 1 tokens that a round, completed by plain sampling, emits.

    draft: B = 1. With ``draft.probs`` None, the law given those tokens. Otherwise the law integrated over tokens drawn
        from ``draft.probs``; ``draft.tokens`` then only says how many are drafted. ``draft.probs`` may be a callable.
    target_probs: (1, k+1, V) or (k+1, V), or a callable.
    A callable takes the tokens of the round so far (a tuple of ints) and returns the (V,) row that follows them.
    A round that ends early is continued by plain sampling, so that all laws are over sequences of one length.
    Raises ValueError when B is not 1, shapes do not fit, a breakpoint is missing, or there is too much to enumerate.
    """
    rule = get_rule(rule)
    _check_draft(draft)
    target_row = _as_rows(target_probs)
    length = draft.tokens.shape[1] + 1
    emitted: Law = {}
    for volume, verdict in _boxes(rule, draft, target_row, params):
        for tokens, weight in _grouped(verdict, volume):
            emitted[tokens] = emitted.get(tokens, 0.0) + weight
    return _completed(emitted, target_row, length)


def accepted_law(rule: str | Rule, draft: Draft, target_probs: Rows, **params: float) -> dict[int, float]:
    """The probability of each number of accepted draft tokens, under the same conventions as ``output_law``."""
    _check_draft(draft)
    law = dict.fromkeys(range(int(draft.lengths[0]) + 1), 0.0)
    for volume, verdict in _boxes(get_rule(rule), draft, _as_rows(target_probs), params):
        for n, weight in zip(verdict.num_accepted.tolist(), volume.tolist(), strict=True):
            law[n] += weight
    return law


def plain_law(target_probs: Rows, length: int) -> Law:
    """The law of ``length`` tokens of plain sampling: the yardstick of every lossless rule.

    Raises ValueError for more sequences than can be listed.
    """
    return _completed({(): 1.0}, _as_rows(target_probs), length)


def total_variation(law_a: Law, law_b: Law) -> float:
    """Half the summed absolute difference: the largest difference that any event's probability can show."""
    return 0.5 * sum(abs(law_a.get(key, 0.0) - law_b.get(key, 0.0)) for key in law_a.keys() | law_b.keys())


def marginal(law: Law, position: int = 0) -> dict[int, float]:
    """The law of one position of the sequence: token id → probability."""
    found: dict[int, float] = {}
    for tokens, p in law.items():
        found[tokens[position]] = found.get(tokens[position], 0.0) + p
    return dict(sorted(found.items()))


# -- Inside ---------------------------------------------------------------------------------------------------------


def _check_draft(draft: Draft) -> None:
    if not isinstance(draft, Draft):
        raise ValueError(f"draft must be a Draft, got {type(draft).__name__}: use Draft(tokens, probs)")
    if draft.tokens.shape[0] != 1:
        raise ValueError(f"an exact law is that of one sequence (B = 1), got B = {draft.tokens.shape[0]}")


def _as_rows(rows: Rows) -> Callable[[tuple[int, ...]], Tensor]:
    """A tensor of rows by position, or a callable, as one callable prefix → (V,) float64. Each row is checked."""

    widths: set[int] = set()

    @functools.cache
    def row(prefix: tuple[int, ...]) -> Tensor:
        found = find(prefix)
        widths.update(found.shape[-1:])
        if found.ndim != 1 or len(widths) != 1:
            raise ValueError(f"rows({prefix}) must be one row, (V,), as wide as the others; got {tuple(found.shape)}")
        check_rows(f"rows({prefix})", found)
        return found

    if isinstance(rows, Tensor):
        table = rows.squeeze(0) if rows.ndim == 3 else rows
        if table.ndim != 2:
            raise ValueError(f"target_probs must be (1, k+1, V) or (k+1, V) for an exact law, got {tuple(rows.shape)}")
        table = table.to(torch.float64)

        def find(prefix: tuple[int, ...]) -> Tensor:
            if len(prefix) >= len(table):
                raise ValueError(f"a row for position {len(prefix)} is needed, but {len(table)} rows were given")
            return table[len(prefix)]
    elif callable(rows):

        def find(prefix: tuple[int, ...]) -> Tensor:
            found = rows(prefix)
            try:
                return torch.as_tensor(found, dtype=torch.float64)
            except (TypeError, ValueError, RuntimeError) as error:
                raise ValueError(f"rows({prefix}) must be one row of V numbers, got {type(found).__name__}") from error
    else:
        raise ValueError(f"target_probs must be a tensor or a function prefix -> (V,) row, got {type(rows).__name__}")

    return row


def _completed(emitted: Law, target_row: Callable, length: int) -> Law:
    """Every sequence of ``length`` tokens that plain sampling makes of what was emitted."""
    law: Law = {}
    for tokens, weight in emitted.items():
        for rest, p in _continuations(tokens, target_row, length):
            law[rest] = law.get(rest, 0.0) + weight * p
            if len(law) > MOST_SEQUENCES:
                raise ValueError(
                    f"more than {MOST_SEQUENCES:,} sequences of {length} tokens are possible (V = "
                    f"{len(target_row(()))}): use fewer tokens or a smaller vocabulary, or filter the rows (top-k)"
                )
    return dict(sorted(law.items()))


def _continuations(
    tokens: tuple[int, ...], target_row: Callable, length: int
) -> Iterator[tuple[tuple[int, ...], float]]:
    """Every way in which plain sampling completes ``tokens`` to ``length`` tokens, with its probability."""
    if len(tokens) >= length:
        yield tokens[:length], 1.0
        return
    for token, p in enumerate(target_row(tokens).tolist()):
        if p > 0:
            for rest, q in _continuations((*tokens, token), target_row, length):
                yield rest, p * q


def _drafts(draft: Draft) -> Iterator[tuple[float, Draft]]:
    """Each draft that may be drawn, with its probability."""
    if draft.probs is None:
        yield 1.0, draft
        return
    k, k_b = draft.tokens.shape[1], int(draft.lengths[0])
    row = _as_rows(draft.probs)
    if k_b == 0:
        yield 1.0, Draft(draft.tokens)
        return
    for tokens, weight in _continuations((), row, k_b):
        rows = torch.stack([row(tokens[:i]) for i in range(k_b)])
        padded = torch.tensor([[*tokens, *([-1] * (k - k_b))]])
        yield weight, Draft(padded, torch.cat([rows, rows.new_zeros(k - k_b, rows.shape[1])])[None])


def _count_drafts(draft: Draft) -> int:
    """How many drafts may be drawn; counting ends where there are too many to enumerate."""
    if draft.probs is None:
        return 1
    every = _continuations((), _as_rows(draft.probs), int(draft.lengths[0]))
    return sum(1 for _ in itertools.islice(every, MOST_BOXES // _LOOKS + 1))


def _boxes(rule: Rule, draft: Draft, target_row: Callable, params: dict) -> Iterator[tuple[Tensor, Verdict]]:
    """(n,) volumes and the verdicts of n boxes at a time, over every draft and every box of its uniforms."""
    params = rule.check_params(params)
    if not callable(rule.breakpoints):
        raise ValueError(
            f"rule {rule.name!r} has no breakpoints, so that nobody knows where its decision changes: give it "
            "Rule(breakpoints=points(coins, weights)), or estimate from samples with verify"
        )
    generator = torch.Generator().manual_seed(0)
    drafts = _count_drafts(draft)
    for weight, one in _drafts(draft):
        k, k_b = one.tokens.shape[1], int(one.lengths[0])
        tokens = tuple(one.tokens[0, :k_b].tolist())
        rows = [target_row(tokens[: min(i, k_b)]) for i in range(k + 1)]
        target = torch.stack(rows)[None]
        verify(rule, one, target, torch.zeros(1, k + 1, 2, dtype=torch.float64), **params)  # checks what was given
        edges = [_edges(found) for pair in rule.breakpoints(one, target, **params) for found in pair]
        edges += [_edges(target.new_zeros(0))] * (2 * (k + 1) - len(edges))
        cells = [len(e) - 1 for e in edges]
        boxes = math.prod(cells)
        most = min(MOST_BOXES, MOST_NUMBERS // target.numel())
        if max(boxes, _LOOKS) * drafts > most:
            each = f" for each of {drafts:,} drafts" if drafts > 1 else ""
            raise ValueError(
                f"the uniforms of a round have {boxes:,} boxes{each}; at most {most:,} can be enumerated. Use fewer "
                "draft tokens or a smaller vocabulary, or estimate from samples with verify"
            )
        chunk = max(1, min(_CHUNK, _NUMBERS // target.numel()))
        for start in range(0, boxes, chunk):
            places = torch.unravel_index(torch.arange(start, min(start + chunk, boxes)), cells)
            low = torch.stack([e[i] for e, i in zip(edges, places)], 1)
            width = torch.stack([e.diff()[i] for e, i in zip(edges, places)], 1)
            yield weight * width.prod(1), _agreed(rule, one, target, low, width, params, generator)


def _edges(found: Tensor) -> Tensor:
    """Breakpoints → the ends of the cells of [0, 1)."""
    inner = found.to(torch.float64)
    inner = inner[(inner > _MERGE) & (inner < 1 - _MERGE)].sort().values
    if len(inner) > 1:
        inner = inner[torch.cat([torch.tensor([True]), inner.diff() > _MERGE])]
    return torch.cat([inner.new_zeros(1), inner, inner.new_ones(1)])


def _agreed(
    rule: Rule, draft: Draft, target: Tensor, low: Tensor, width: Tensor, params: dict, generator: torch.Generator
) -> Verdict:
    """The verdict in each box, found at random points that must agree."""
    n, k = len(low), draft.tokens.shape[1]
    looks = max(2, _LOOKS // n)
    tokens = draft.tokens.expand(looks * n, k)
    probs = None if draft.probs is None else draft.probs.expand(looks * n, -1, -1)
    # Not at the very edge of a box, where rounding decides.
    edge = (1e-13 / width).clamp_max(0.45)
    inside = edge + (1 - 2 * edge) * torch.rand(looks, *low.shape, generator=generator, dtype=torch.float64)
    uniforms = (low + width * inside).reshape(looks * n, k + 1, 2)
    verdict = rule.decide(Draft.trusted(tokens, probs), target.expand(looks * n, -1, -1), uniforms, **params)
    seen = verdict.tokens.view(looks, n, k + 1)
    if bool((seen != seen[0]).any()):
        raise ValueError(
            f"rule {rule.name!r} is not constant between its breakpoints: it must name every point where it changes"
        )
    return Verdict(verdict.tokens[:n], verdict.num_accepted[:n], verdict.bonus[:n])


def _grouped(verdict: Verdict, volume: Tensor) -> Iterator[tuple[tuple[int, ...], float]]:
    """Equal outputs added up, so that each is completed once."""
    distinct, where = verdict.tokens.unique(dim=0, return_inverse=True)
    weights = torch.zeros(len(distinct), dtype=torch.float64).index_add_(0, where, volume)
    for row, weight in zip(distinct.tolist(), weights.tolist(), strict=True):
        yield tuple(token for token in row if token >= 0), weight


def all_sequences(vocabulary: int, length: int) -> list[tuple[int, ...]]:
    """Every sequence of ``length`` ids, in order: the keys of a law over a small vocabulary."""
    return list(itertools.product(range(vocabulary), repeat=length))
