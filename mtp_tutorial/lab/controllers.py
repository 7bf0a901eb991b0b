"""How many tokens to draft next: controllers for ``mt.generate(num_speculative_tokens=…)``.

Takes: the rounds so far.  Returns: a draft length for each live sequence.
Must not know: models, drafters, verify rules, the tokens that are about to be drafted.

A controller is asked before anything is drafted, and is told only of rounds that are over. Whatever it does with that,
it cannot change the law of the text: after any history, a round with any k continues it with the target's own law. (A
decision that looks at the drafted token itself can; exhibit R19 of the museum does.) It may change the *sample* that a
seed gives, as it changes how many uniforms a round uses.
"""

from __future__ import annotations

import math
import statistics
from collections import deque
from collections.abc import Sequence

from ..decode import MAX_DRAFT, check_k
from ..records import Round
from .theory import expected_tokens
from .theory.numbers import number, whole

__all__ = ["ByAcceptance", "ByBatchSize", "ByThroughput", "Fixed"]


class Fixed:
    """Always k."""

    def __init__(self, k: int) -> None:
        check_k(k)
        self.k = int(k)

    def choose(self, sequences: Sequence[int]) -> list[int]:
        return [self.k] * len(sequences)

    def observe(self, rounds: Sequence[Round]) -> None:
        pass


class ByAcceptance:
    """One more than what was accepted lately: each sequence has its own moving average of accepted draft tokens.

    k = round(average) + 1, from min_k to max_k: it always probes one step beyond. It knows nothing of costs, so it
    drafts at any load.
    start: the average that a sequence begins with.  smoothing: the weight of the newest round, above 0, at most 1.
    Ref: SGLang, adaptive speculative decoding (there one average for the batch, and a few candidate lengths).
    """

    def __init__(self, max_k: int = 8, min_k: int = 1, start: float = 2.0, smoothing: float = 0.2) -> None:
        check_k(max_k)
        self.max_k, self.min_k = int(max_k), whole("min_k", min_k)
        if self.min_k > self.max_k:
            raise ValueError(f"min_k={min_k}, max_k={max_k}: use a min_k that is not above max_k")
        self.start = number("start", start)
        self.smoothing = number("smoothing", smoothing, 0, 1, "a number above 0, at most 1")
        if self.smoothing == 0:
            raise ValueError("smoothing=0: use a number above 0, at most 1; at 0 nothing would be learnt")
        self.average: dict[int, float] = {}

    def choose(self, sequences: Sequence[int]) -> list[int]:
        self.average = {s: self.average.get(s, self.start) for s in sequences}  # forgets those that left
        return [min(max(round(self.average[s]) + 1, self.min_k), self.max_k) for s in sequences]

    def observe(self, rounds: Sequence[Round]) -> None:
        for one in rounds:
            if one.is_prefill:  # a new text under this number
                self.average[one.sequence] = self.start
            elif one.num_drafted:
                before = self.average.get(one.sequence, self.start)
                self.average[one.sequence] = before + self.smoothing * (one.num_accepted - before)


class ByBatchSize:
    """A table by the number of live sequences: rows (from, to, k), both ends included.

    As vLLM reads ``num_speculative_tokens_per_batch_size``: the first row starts at 1, rows do not overlap, a gap and
    everything past the last row take the k of the row before.
    Raises ValueError for a table that breaks these rules.

    >>> ByBatchSize([(1, 64, 3), (65, 128, 1), (129, 512, 0)]).k_for(100)
    1
    """

    def __init__(self, table: Sequence[Sequence[int]]) -> None:
        try:
            rows = [tuple(row) for row in table]
        except TypeError as error:
            raise ValueError(f"table={table!r}: use rows of three numbers, (from, to, k)") from error
        if any(len(row) != 3 for row in rows):
            raise ValueError(f"table={table!r}: use rows of three numbers, (from, to, k)")
        rows = sorted((whole("from", low, 1), whole("to", high, 1), whole("k", k)) for low, high, k in rows)
        if not rows or rows[0][0] != 1:
            raise ValueError("the table's first row must start at batch size 1, such as (1, 64, 3)")
        for (_, end, _), (start, *_) in zip(rows, rows[1:]):
            if start <= end:
                raise ValueError(f"two rows of the table hold batch size {start}: let each start after the one before")
        for low, high, k in rows:
            check_k(k)
            if low > high:
                raise ValueError(f"the row ({low}, {high}, {k}) ends before it starts")
        self.table = tuple(rows)

    def k_for(self, batch: int) -> int:
        """The draft length for this many live sequences."""
        return [k for low, _, k in self.table if low <= batch][-1]

    def choose(self, sequences: Sequence[int]) -> list[int]:
        return [self.k_for(len(sequences))] * len(sequences) if sequences else []

    def observe(self, rounds: Sequence[Round]) -> None:
        pass


class ByThroughput:
    """The k with the most predicted tokens a second: measured acceptance by position ÷ measured seconds a round.

    Seconds are kept apart for batch sizes 1, 2-3, 4-7, …; each candidate is tried ``tries`` times in such a class, then
    the best is used. A longer draft takes no less time than a shorter one, so a candidate that would lose even at the
    shorter one's time is left out, until acceptance rises.
    From time to time the candidate that was tried longest ago is tried again: ``explore_every`` rounds apart at least,
    and only when the seconds that such rounds have lost so far, this one included, stay below ``explore_share`` of the
    time. So what is a little slower is looked at often, and what is far slower seldom. k = 0 is a candidate:
    speculation switches itself off, and the exploring rounds switch it on again.
    candidates: the draft lengths to choose from.  window: how many of the last rounds a time is the median of.
    decay: how much older rounds count, for the acceptance rates.
    The seconds are the machine's, so the same seed may give another text in another run; the law is the same.
    Ref: vLLM, adaptive verification (there: step costs profiled at start-up, a budget of draft tokens for the batch);
    Liu et al., arXiv 2406.14066 (goodput).
    """

    def __init__(
        self,
        candidates: Sequence[int] = (0, 1, 2, 4, 8),
        tries: int = 2,
        explore_every: int = 32,
        window: int = 15,
        decay: float = 0.98,
        explore_share: float = 0.02,
    ) -> None:
        for k in candidates:
            check_k(k)
        self.candidates = tuple(sorted({int(k) for k in candidates}))
        if not self.candidates:
            raise ValueError("candidates is empty: give draft lengths such as (0, 1, 2, 4)")
        self.tries, self.explore_every = whole("tries", tries, 1), whole("explore_every", explore_every, 2)
        self.window = whole("window", window, 1)
        self.decay = number("decay", decay, 0, 1, "a number from 0 to 1; 1 forgets nothing")
        self.explore_share = number("explore_share", explore_share, 0, 1, "a share of the time, from 0 to 1")
        self.judged, self.kept = [0.0] * MAX_DRAFT, [0.0] * MAX_DRAFT
        self.seconds: dict[tuple[int, int], deque[float]] = {}  # (class of batch sizes, k) → rounds
        self.tried: dict[tuple[int, int], int] = {}  # … → the round in which it was last tried
        self.clock, self.next_look = 0, self.explore_every
        self.saved, self.is_looking = 0.0, False  # seconds that may be lost by looking at others; is this such a round?
        self.k = 0  # what was chosen for the round under way

    def rates(self, k: int) -> list[float]:
        """Conditional acceptance rates of positions 1 … k. One seen little is taken to be like the one before."""
        found: list[float] = []
        for kept, judged in zip(self.kept[:k], self.judged):
            before = found[-1] if found else 0.5
            found.append((kept + before) / (judged + 1))
        return found

    def predicted(self, batch: int) -> dict[int, float]:
        """k → tokens a second of a batch, for the candidates that were timed at such a batch size."""
        times = {k: self.seconds.get((batch.bit_length(), k)) for k in self.candidates}
        medians = {k: max(statistics.median(found), 1e-12) for k, found in times.items() if found}
        return {
            k: batch * expected_tokens(self.rates(k), k) / min(s for other, s in medians.items() if other >= k)
            for k in medians
        }

    def choose(self, sequences: Sequence[int]) -> list[int]:
        batch = len(sequences)
        speeds, hopes = self.predicted(batch), self._hopes(batch)
        best = max(speeds, key=lambda k: speeds[k], default=None)
        tries = {k: len(self.seconds.get((batch.bit_length(), k), ())) for k in self.candidates}
        unknown = [
            k
            for k, count in tries.items()
            if count < min(self.tries, self.window) and (count or best is None or hopes.get(k, math.inf) > speeds[best])
        ]
        self.clock += 1
        if unknown:
            self.k, self.is_looking = min(unknown, key=lambda k: tries[k]), False
            return [self.k] * batch
        self.k, self.is_looking = best, False
        if self.clock >= self.next_look:
            other = min(self.candidates, key=lambda k: self.tried.get((batch.bit_length(), k), 0))
            lost = batch * expected_tokens(self.rates(other), other) * (1 / hopes[other] - 1 / speeds[best])
            if lost <= self.saved:
                self.k, self.next_look, self.is_looking = other, self.clock + self.explore_every, other != best
        return [self.k] * batch

    def _hopes(self, batch: int) -> dict[int, float]:
        """As ``predicted``; a candidate that was not timed yet takes no less time than the next shorter one."""
        found, seconds = {}, None
        for k in self.candidates:
            if timed := self.seconds.get((batch.bit_length(), k)):
                seconds = max(statistics.median(timed), 1e-12)
            if seconds is not None:
                found[k] = batch * expected_tokens(self.rates(k), k) / seconds
        return found

    def observe(self, rounds: Sequence[Round]) -> None:
        rounds = [one for one in rounds if not one.is_prefill]  # some servers read prompts in the same call
        if not rounds:
            return
        batch, seconds = len(rounds), rounds[0].seconds  # shared by the batch
        key = (batch.bit_length(), self.k)
        self.seconds.setdefault(key, deque(maxlen=self.window)).append(seconds)
        self.tried[key] = self.clock
        self.saved += self.explore_share * seconds
        if self.is_looking:
            speeds = self.predicted(batch)
            self.saved -= seconds * (1 - speeds[self.k] / max(speeds.values()))
        if self.k == 0:
            return
        self.judged = [n * self.decay for n in self.judged]
        self.kept = [n * self.decay for n in self.kept]
        for one in rounds:
            for i in range(one.num_accepted):
                self.kept[i] += 1
                self.judged[i] += 1
            # A text that ends inside its draft leaves the next position unjudged. A drafter that proposed less than it
            # was asked for (n-gram) counts as rejected there: what matters is what asking for k brings.
            if one.num_accepted < self.k and one.kinds and one.kinds[-1] != "accepted":
                self.judged[one.num_accepted] += 1
