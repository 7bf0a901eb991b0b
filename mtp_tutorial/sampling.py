"""Logits become probabilities, probabilities become a token.

Takes: logits, a ``Sampling``, what was said so far, uniforms.  Returns: probabilities and token ids.
Must not know: models, caches, drafters, verify rules.

Shapes: B sequences, L rows, N history tokens, k draft tokens, V vocabulary.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from .records import Draft, Sampling

#: Roles of the random streams of one sequence. They are seeded apart so that drafts and coins are independent.
VERIFYING, DRAFTING = 0, 1


def probabilities(
    logits: Tensor,
    sampling: Sampling,
    history: Tensor | None = None,
    prompt_lengths: Tensor | None = None,
    draft: Tensor | Draft | None = None,
) -> Tensor:
    """The distribution that ``sampling`` makes of ``logits``: same shape, float32 at least, each row sums to 1.

    The order is penalties → temperature → top-k → top-p → min-p, as in transformers. vLLM applies min-p before
    top-k and top-p; the two orders differ only when min-p is combined with them.

    logits: (B, L, V), or (…, V) when there is no history.
    history: (B, N) int64, the ids so far, -1 where there is none.
    prompt_lengths: (B,) int64, how many leading columns of ``history`` are the prompt. None: none of them.
    draft: (B, k) int64 (or a Draft): row i also counts ``draft[:, :i]`` as output, as if those tokens had been said.
    Raises ValueError on NaN or +inf logits, on a row that is all -inf, and on shapes that do not fit.

    >>> probabilities(torch.tensor([3.0, 2.0]), Sampling(temperature=0.6)).round(decimals=2).tolist()
    [0.8399999737739563, 0.1599999964237213]
    """
    probs = probabilities_unchecked(logits, sampling, history, prompt_lengths, draft)
    bad = probs.isnan().any(-1)
    if bool(bad.any()):
        rows = bad.nonzero().tolist()[:4]
        raise ValueError(
            f"logits hold NaN or +inf, or a row that is all -inf (rows {rows}): no distribution can be made of them. "
            "Look for an overflow in the model (a wider dtype may do) or for a mask that forbids every token"
        )
    return probs


def probabilities_unchecked(
    logits: Tensor,
    sampling: Sampling,
    history: Tensor | None = None,
    prompt_lengths: Tensor | None = None,
    draft: Tensor | Draft | None = None,
) -> Tensor:
    """As ``probabilities``, but a bad row comes back as NaN instead of raising, so that the host need not wait."""
    if not isinstance(logits, Tensor) or not logits.is_floating_point() or logits.ndim == 0 or logits.shape[-1] == 0:
        raise ValueError(f"logits must be a floating point tensor of shape (…, V), got {_describe(logits)}")
    if not isinstance(sampling, Sampling):
        raise ValueError(f"sampling must be an mt.Sampling such as Sampling(temperature=0.6), got {sampling!r}")
    x = logits.float() if logits.dtype in (torch.float16, torch.bfloat16) else logits
    if sampling.has_penalties:
        x = _penalise(x, sampling, history, prompt_lengths, draft)
    if (few := _among_top_k(x, sampling)) is not None:
        return few
    top = x.amax(-1, keepdim=True)  # NaN wins a maximum, so one look at it finds every bad row
    top = _finite(top)
    if sampling.temperature == 0:
        one_hot = torch.zeros_like(x).scatter_(-1, x.argmax(-1, keepdim=True), 1.0)
        return one_hot + 0 * top
    # The largest becomes 0, so that a tiny temperature cannot overflow; one the dtype can't hold is brought into range.
    x = (x - top) / _divisor(sampling, x.dtype)
    vocabulary = x.shape[-1]
    if 0 < sampling.top_k < vocabulary:
        x = torch.where(x < x.topk(sampling.top_k, dim=-1).values[..., -1:], -torch.inf, x)
    if sampling.top_p < 1:
        x = torch.where(_outside(x.softmax(-1), max(sampling.top_p, torch.finfo(x.dtype).tiny)), -torch.inf, x)
    probs = x.softmax(-1)
    if sampling.min_p > 0:
        small = probs < sampling.min_p * probs.amax(-1, keepdim=True)
        probs = x.masked_fill(small, -torch.inf).softmax(-1)
    return probs


def _finite(top: Tensor) -> Tensor:
    return torch.where(top.isfinite(), top, torch.nan)


def _divisor(sampling: Sampling, dtype: torch.dtype) -> float:
    limits = torch.finfo(dtype)
    return min(max(sampling.temperature, limits.tiny), limits.max)


def _among_top_k(x: Tensor, sampling: Sampling) -> Tensor | None:
    """The distribution when top-k is the only filter of a large vocabulary: made of k logits instead of all.

    None where the long way has to be gone: with other filters, or where equals of the k-th logit stay as well. On a GPU
    looking for those would cost a transfer.
    """
    k, alone = sampling.top_k, sampling.top_p == 1 and sampling.min_p == 0 and sampling.temperature > 0
    if not alone or not 0 < k < _LIKELIEST or x.shape[-1] <= 4 * _LIKELIEST or x.device.type != "cpu":
        return None
    found, ids = x.topk(k + 1, dim=-1)
    if bool((found[..., k - 1] == found[..., k]).any()):
        return None
    kept = ((found[..., :k] - _finite(found[..., :1])) / _divisor(sampling, x.dtype)).softmax(-1)
    return torch.zeros_like(x).scatter_(-1, ids[..., :k], kept)


#: The nucleus is looked for among so many tokens first: sorting all of a large vocabulary takes ten times as long.
_LIKELIEST = 1024


def _outside(probs: Tensor, top_p: float) -> Tensor:
    """(…, V) bool: the tokens that top-p drops. Of equal ones those with the lower ids come first.

    A token stays while the mass before it is below top_p: the smallest set whose mass reaches top_p.
    """
    if probs.device.type == "cpu" and probs.shape[-1] > 4 * _LIKELIEST:  # a GPU sorts faster than the host can look
        ids = probs.topk(_LIKELIEST, dim=-1).indices.sort(dim=-1).values
        ordered, order = probs.gather(-1, ids).sort(dim=-1, descending=True, stable=True)
        before = _mass_before(ordered)
        # The least likely of them may have equals that were left out: all that counts must lie above it.
        if bool((before.masked_fill(ordered > ordered[..., -1:], torch.inf).amin(-1) >= top_p).all()):
            outside = torch.ones_like(probs, dtype=torch.bool)
            return outside.scatter_(-1, ids.gather(-1, order), before >= top_p)
    ordered, ids = probs.sort(dim=-1, descending=True, stable=True)
    return torch.zeros_like(probs, dtype=torch.bool).scatter_(-1, ids, _mass_before(ordered) >= top_p)


def _mass_before(ordered: Tensor) -> Tensor:
    before = torch.zeros_like(ordered)
    before[..., 1:] = ordered.cumsum(-1)[..., :-1]
    return before


def _penalise(
    logits: Tensor,
    sampling: Sampling,
    history: Tensor | None,
    prompt_lengths: Tensor | None,
    draft: Tensor | Draft | None,
) -> Tensor:
    """Repetition, then frequency and presence penalties. Ref: vLLM model_executor/layers/utils.py, apply_penalties."""
    if history is None and draft is None:
        raise ValueError(
            "penalties are on, but neither history nor draft was given: pass history=(B, N) ids, or turn them off"
        )
    x = logits.reshape(-1, 1, logits.shape[-1]) if logits.ndim < 3 else logits
    if x.ndim != 3:
        raise ValueError(f"with penalties, logits must be (B, L, V) or (B, V), got {tuple(logits.shape)}")
    batch, rows, vocabulary = x.shape
    output = torch.zeros(batch, rows, vocabulary, dtype=torch.int32, device=x.device)
    seen = output.bool()
    if history is not None:
        if not _are_ids(history) or len(history) != batch:
            raise ValueError(
                f"history must be an int64 tensor of shape (B, N) with B = {batch}, got {_describe(history)}"
            )
        place = torch.arange(history.shape[1], device=x.device)
        starts = [0] * batch if prompt_lengths is None else prompt_lengths
        try:
            starts = torch.as_tensor(starts)
        except (TypeError, ValueError, RuntimeError) as error:
            raise ValueError(f"prompt_lengths must be (B,) whole numbers, got {_describe(prompt_lengths)}") from error
        if starts.shape != (batch,):
            raise ValueError(f"prompt_lengths must be (B,) with B = {batch}, got {tuple(starts.shape)}")
        starts = starts.to(x.device)
        said = _counts(history, vocabulary)
        output += _counts(history.masked_fill(place < starts[:, None], -1), vocabulary)[:, None]
        seen |= (said > 0)[:, None]
    tokens = draft.tokens if isinstance(draft, Draft) else draft
    if tokens is not None and rows > 1:
        if not _are_ids(tokens) or tokens.shape[0] != batch or tokens.shape[1] < rows - 1:
            raise ValueError(
                f"draft must be an int64 tensor (B, k) with B = {batch} and k >= {rows - 1}, got {_describe(tokens)}"
            )
        for row in range(1, rows):  # row i sees the draft tokens before it
            output[:, row] += _counts(tokens[:, :row], vocabulary)
    seen |= output > 0
    r = sampling.repetition_penalty
    x = torch.where(seen, torch.where(x > 0, x / r, x * r), x)
    count = output.to(x.dtype)  # a Python number times an integer tensor would be rounded to float32
    x = x - sampling.frequency_penalty * count - sampling.presence_penalty * (count > 0).to(x.dtype)
    return x.reshape(logits.shape)


def _counts(ids: Tensor, vocabulary: int) -> Tensor:
    """(B, N) ids, -1 for none → (B, V) int32: how often each id occurs."""
    if ids.numel() and int(ids.max()) >= vocabulary:
        raise ValueError(
            f"the history or draft holds the id {int(ids.max())}, but the vocabulary has {vocabulary} tokens"
        )
    counts = torch.zeros(len(ids), vocabulary + 1, dtype=torch.int32, device=ids.device)
    safe = torch.where(ids < 0, vocabulary, ids)  # the extra column swallows the padding
    return counts.scatter_add_(1, safe, torch.ones_like(safe, dtype=torch.int32))[:, :vocabulary]


def inverse_cdf(weights: Tensor, uniforms: Tensor) -> Tensor:
    """The token whose half-open stretch of [0, 1) holds the uniform: the first id with ``u < cumulative sum``.

    weights: (…, V), not negative; they need not sum to 1.  uniforms: (…) in [0, 1), or one number.
    Returns (…) int64. A row without any mass gives id 0.

    >>> inverse_cdf(torch.tensor([[0.84, 0.16], [0.84, 0.16]]), torch.tensor([0.30, 0.90])).tolist()
    [0, 1]
    """
    total = weights.to(torch.float64).cumsum(-1)
    point = (torch.as_tensor(uniforms, dtype=torch.float64).unsqueeze(-1) * total[..., -1:]).contiguous()
    if total.ndim > 1:
        total = total.expand(*point.shape[:-1], -1).contiguous()  # a row for each point
    found = torch.searchsorted(total, point, right=True)  # how many sums do not exceed the point
    # u * total can round up to total itself: the last id that adds mass is the answer then.
    last = torch.searchsorted(total, total[..., -1:].contiguous())
    return torch.minimum(found, last).masked_fill(total[..., -1:].isnan(), 0).squeeze(-1)  # NaN: the caller looks


def exponential_race(probs: Tensor, noise: Tensor) -> Tensor:
    """argmax of ``probs / noise`` with noise ~ Exp(1): the same law as ``inverse_cdf``. Returns (…) int64.

    Each token is a runner whose finishing time noise/p is exponential with rate p; it comes first with probability p.
    Ref: vLLM ``v1/sample/ops/topk_topp_sampler.py:random_sample``.
    """
    return (probs / noise.clamp_min(torch.finfo(noise.dtype).tiny)).argmax(-1)


def gumbel_max(logits: Tensor, noise: Tensor) -> Tensor:
    """argmax of ``logits + noise`` with Gumbel noise: draws from softmax(logits). Returns (…) int64.

    It is the exponential race seen through a logarithm: -log(noise/p) = log p + Gumbel.
    """
    return (logits + noise).argmax(-1)


def exponential_noise(shape: tuple[int, ...], generator: torch.Generator, dtype: torch.dtype = torch.float64) -> Tensor:
    """Exp(1) noise for ``exponential_race``."""
    return torch.empty(shape, dtype=dtype).exponential_(generator=generator)


def gumbel_noise(shape: tuple[int, ...], generator: torch.Generator, dtype: torch.dtype = torch.float64) -> Tensor:
    """Standard Gumbel noise for ``gumbel_max``: minus the logarithm of Exp(1) noise."""
    return -exponential_noise(shape, generator, dtype).clamp_min(torch.finfo(dtype).tiny).log()


def stream_key(seed: int | tuple[int, int]) -> tuple[int, int]:
    """The pair (seed, sequence) that keys the random streams of one sequence; a number s is the pair (s, 0).

    Each below 2**128, the length up to which SeedSequence keeps a seed apart from its spawn key; ValueError otherwise.
    """
    pair = seed if isinstance(seed, (tuple, list)) else (seed, 0)
    if len(pair) != 2 or not all(_is_seed(number) for number in pair):
        raise ValueError(
            f"seed={seed!r}: use a whole number, 0 or more and below 2**128, or a pair (seed, sequence) of such numbers"
        )
    return int(pair[0]), int(pair[1])


def generator(seed: int | tuple[int, int], role: int) -> torch.Generator:
    """The random stream of one sequence for one role (VERIFYING or DRAFTING), on the CPU. seed: see ``stream_key``.

    torch's generator takes 32 bits of what SeedSequence returns, so of n streams about n² / 2**33 pairs coincide.
    """
    number, sequence = stream_key(seed)
    state = np.random.SeedSequence(number, spawn_key=(sequence, role)).generate_state(1, np.uint64)[0]
    return torch.Generator().manual_seed(int(state))


def _is_seed(number: object) -> bool:
    return isinstance(number, (int, np.integer)) and not isinstance(number, bool) and 0 <= number < 2**128


def _are_ids(x: object) -> bool:
    """True for a matrix of whole numbers."""
    return isinstance(x, Tensor) and x.ndim == 2 and x.dtype in (torch.int64, torch.int32)


def _describe(x: object) -> str:
    return f"{x.dtype} {tuple(x.shape)}" if isinstance(x, Tensor) else type(x).__name__
