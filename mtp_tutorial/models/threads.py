"""How many threads a computation may use: as many as there are cores that no other process is using.

OpenMP's threads wait for one another by spinning. As long as each has a core of its own, that is the fastest way to
wait; but when another process takes one of the cores, every parallel step lasts until the operating system has given
the slowest thread its turn, and decoding becomes ten to seventy times slower. With no more threads than free cores,
none of them ever waits for a turn, and all that is lost is the work of the thread left out.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import psutil
import torch

#: Seconds over which the use of the cores is averaged. The operating system counts in steps of about 0.01.
WINDOW = 0.2
#: A core counts as free while others use less than this share of it.
SPARE = 0.25
#: A model whose weights take fewer bytes runs on one thread. Its steps are too short to share, and its results do not
#: depend on how busy the machine is: the order of additions in a product may change with the number of threads.
SMALL = 16 << 20


class Cores:
    """Watches how many of the cores that this process may use are idle, or busy with this process itself."""

    def __init__(self) -> None:
        self._last = self._read()
        self._free: float | None = None

    def free(self) -> float | None:
        """The number of free cores, averaged over ``WINDOW`` seconds or more; None where that can't be told."""
        if self._last is not None and time.perf_counter() - self._last[0] >= WINDOW:
            before, self._last = self._last, self._read()
            self._free = None if self._last is None else free_between(before, self._last)
        return self._free

    @staticmethod
    def _read() -> tuple[float, float, float, float] | None:
        """Now, and the seconds spent so far: by all cores together, by idle ones, and by this process."""
        try:
            every = psutil.cpu_times(percpu=True)
            cores = [every[core] for core in usable()]
        except Exception:  # sandboxes hide or garble what psutil reads, and it raises errors of many kinds
            return None
        # Linux counts the time of guest systems twice: it is part of ``user`` and ``nice`` as well.
        total = sum(sum(core) - getattr(core, "guest", 0) - getattr(core, "guest_nice", 0) for core in cores)
        idle = sum(core.idle + getattr(core, "iowait", 0) for core in cores)
        return time.perf_counter(), total, idle, time.process_time()


def usable() -> list[int]:
    """The cores that this process may use."""
    if hasattr(psutil.Process, "cpu_affinity"):  # Linux and Windows
        return psutil.Process().cpu_affinity()
    return list(range(psutil.cpu_count()))


def free_between(before: tuple[float, ...], after: tuple[float, ...]) -> float | None:
    """Free cores between two readings of ``Cores``; None where the system does not count, as in some sandboxes."""
    seconds, total, idle, own = (b - a for a, b in zip(before, after, strict=True))
    return (idle + own) / seconds if total > 0 else None


def fitting(limit: int, free: float | None, weight_bytes: int = SMALL) -> int:
    """How many threads to use for a model with that many bytes of weights, of ``limit`` that are allowed."""
    if weight_bytes < SMALL:
        return 1
    return limit if free is None else max(1, min(limit, int(free + SPARE)))


_cores = Cores()
_inside: Counter[int] = Counter()  # Python threads of this process that compute now; they share the free cores


@contextmanager
def fitted(weight_bytes: int = SMALL) -> Iterator[None]:
    """A stretch of work on the CPU in which torch uses no more threads than there are free cores.

    The number of threads that is set on entry is the limit, and is restored at the end: what the reader chose by
    ``torch.set_num_threads`` or OMP_NUM_THREADS holds. torch gives a new Python thread the number that was set last in
    any thread; one that starts while another one computes may therefore call ``torch.set_num_threads`` itself.
    """
    me, limit, free = threading.get_ident(), torch.get_num_threads(), _cores.free()
    _inside[me] += 1
    torch.set_num_threads(fitting(limit, None if free is None else free / len(_inside), weight_bytes))
    try:
        yield
    finally:
        torch.set_num_threads(limit)
        _inside[me] -= 1
        if not _inside[me]:
            del _inside[me]
