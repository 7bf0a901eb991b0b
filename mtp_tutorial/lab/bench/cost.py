"""What one call costs: seconds against rows and batch, the bytes it reads, and how fast the memory hands them over.

Takes: a target, sizes.  Returns: plain rows of seconds and bytes, with their spread.
Must not know: drafters, verify rules, notebooks.

All sizes are measured in turns: each repeat walks through all of them, so that a slow moment of the machine hits them
alike. The first walk warms up and does not count.
"""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Callable, Iterator, Sequence

import torch

from ...models import Target
from ..theory.numbers import whole


def memory_bandwidth(
    megabytes: int = 512, repeats: int = 5, threads: int | None = None, device: str | torch.device | None = None
) -> dict:
    """How fast a device reads memory: a sum over ``megabytes`` MB of float32 numbers, ``repeats`` times.

    megabytes: should be several times the largest CPU cache, else it is the cache that is measured.
    threads: of torch on a CPU; None: as they are set.  device: None is the CPU.
    Returns gb_per_s (median), lowest, highest, in 10⁹ bytes a second, and megabytes, threads, device (a string).
    Raises ValueError for sizes below 1.
    """
    numbers = torch.ones(whole("megabytes", megabytes, 1) * 250_000, device=device or "cpu")
    with _threads(threads):
        (seconds,) = _in_turns([numbers.sum], repeats, numbers.device)
        used = torch.get_num_threads()
    rates = [numbers.nbytes / 1e9 / one for one in seconds]
    return {
        "gb_per_s": statistics.median(rates),
        "lowest": min(rates),
        "highest": max(rates),
        "megabytes": megabytes,
        "threads": used,
        "device": str(numbers.device),
    }


def weight_bytes(target: Target) -> int:
    """The bytes of weights that one call reads: every weight once.

    An input embedding of its own is left out: a call looks up a row of it for each token. Where the lm_head is the same
    matrix, it is read whole. A mixture of experts reads less than this; it is counted as if all experts were used.
    """
    embedding, head = target.model.get_input_embeddings(), target.model.get_output_embeddings()
    looked_up = None if head is None or head.weight is embedding.weight else embedding.weight
    return sum(weight.nbytes for weight in target.model.parameters() if weight is not looked_up)


@torch.no_grad()
def cache_bytes(target: Target, tokens: int) -> int:
    """The bytes of keys and values that ``tokens`` tokens of one sequence occupy, and a call reads.

    It is found by reading one token into a cache. Sliding windows, which read only the last slots, are not considered.
    """
    cache = target.new_cache(1, 1)
    target.forward(torch.zeros(1, 1, dtype=torch.int64, device=target.device), [1], cache)
    held = sum(part.nbytes for pair in cache.layers if pair is not None for part in pair)
    return whole("tokens", tokens) * held // cache.capacity


def forward_cost(
    target: Target,
    rows: Sequence[int] = (1, 2, 3, 5, 9, 17, 33),
    batches: Sequence[int] = (1,),
    context: int = 64,
    repeats: int = 9,
    seed: int = 0,
    threads: int | None = None,
    last_only: bool = False,
) -> list[dict]:
    """Seconds of one call for each number of rows and each batch, measured in turns.

    rows: new tokens of each sequence, as ids drawn at random; 1 is a decoding step, k + 1 a verify call.
    context: tokens of each sequence that lie in the cache before.  last_only: logits of the last row only, as in the
    prefill; otherwise of all rows, as in a verify call.  threads: of torch on a CPU; None: as they are set.
    Returns a row for each pair: batch, rows, seconds (median), lowest, highest, tokens_per_second (all rows of all
    sequences), bytes (weights, and keys and values of context and rows), gb_per_s.
    Raises ValueError for sizes below 1, and where context and rows exceed the target's longest sequence.
    """
    sizes = [(whole("batches", b, 1), whole("rows", n, 1)) for b in batches for n in rows]
    if not sizes:
        raise ValueError("rows and batches: give at least one number each")
    longest = whole("context", context) + max(n for _, n in sizes)
    if longest > target.max_length:
        raise ValueError(f"context + rows = {longest}; {target.name} reads at most {target.max_length} tokens")
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(target.vocab_size, (max(b for b, _ in sizes), longest), generator=generator).to(target.device)
    with _threads(threads):
        caches = {batch: _filled(target, ids[:batch, :context], longest) for batch in {b for b, _ in sizes}}
        calls = [_call(target, ids[:b, context : context + n], caches[b], last_only) for b, n in sizes]
        timed = _in_turns(calls, repeats, target.device)
    weights, each = weight_bytes(target), cache_bytes(target, 1)
    found = []
    for (batch, new), seconds in zip(sizes, timed, strict=True):
        middle, read = statistics.median(seconds), weights + batch * (context + new) * each
        found.append(
            {
                "batch": batch,
                "rows": new,
                "seconds": middle,
                "lowest": min(seconds),
                "highest": max(seconds),
                "tokens_per_second": batch * new / middle,
                "bytes": read,
                "gb_per_s": read / 1e9 / middle,
            }
        )
    return found


def _filled(target: Target, ids: torch.Tensor, capacity: int):
    """A cache that holds these tokens, with room for ``capacity`` of each sequence."""
    cache = target.new_cache(len(ids), capacity)
    if ids.shape[1]:
        target.forward(ids, [ids.shape[1]] * len(ids), cache, last_only=True)
    return cache


def _call(target: Target, ids: torch.Tensor, cache, last_only: bool) -> Callable[[], None]:
    """One forward call on these ids; the counter goes back, so that the next one finds the same context."""
    before, counts = list(cache.lengths), [ids.shape[1]] * len(ids)

    def call() -> None:
        target.forward(ids, counts, cache, last_only)
        cache.roll_back(before)

    return call


def _in_turns(calls: Sequence[Callable[[], object]], repeats: int, device: torch.device) -> list[list[float]]:
    """Seconds of each call in each of ``repeats`` walks through all of them, after one that is not counted."""
    seconds: list[list[float]] = [[] for _ in calls]
    for _ in range(whole("repeats", repeats, 1) + 1):
        for call, mine in zip(calls, seconds):
            _wait(device)
            began = time.perf_counter()
            call()
            _wait(device)
            mine.append(time.perf_counter() - began)
    return [mine[1:] for mine in seconds]


def _wait(device: torch.device) -> None:
    """A GPU works on after a call has come back: wait for it."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


@contextlib.contextmanager
def _threads(count: int | None) -> Iterator[None]:
    """``count`` threads of torch for a while."""
    before = torch.get_num_threads()
    if count is not None:
        torch.set_num_threads(whole("threads", count, 1))
    try:
        yield
    finally:
        torch.set_num_threads(before)
