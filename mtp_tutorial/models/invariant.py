"""Batch-invariant calls: a token's logits are the same, bit for bit, whatever else the call reads.

Floating-point sums depend on their order, and a matrix product or an attention kernel picks the order by the shapes it
is given. So in bf16 and float32 the logits of a token differ in the last bits with the number of rows read at once
(plain decoding, a verify call, a prompt) and with the batch, and at a near tie another token is generated.

Here every product has one shape. Positions are cut into blocks of ``WIDTH`` on a fixed grid, position p lies in block
p // WIDTH, and a call reads whole blocks, one sequence and one block after the other. Rows of a block that are not new
are filled with padding and thrown away. So a token's row has the same place in a product of the same shape, and sees
the same number of slots, in whichever call it is read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from ..cache import SlotCache

#: Rows of a block.
WIDTH = 16


class InvariantCaller:
    """Calls one model through another caller. The same signature as ``adapter.Caller``."""

    def __init__(self, caller: Callable) -> None:
        self.caller = caller

    def score(self, hidden: Tensor) -> Tensor:
        """(…, size) after the final norm → (…, V) logits; not batch-invariant (only drafters ask for it)."""
        return self.caller.score(hidden)

    def __call__(
        self, ids: Tensor, cache: SlotCache, rows: Sequence[int] | None, want_hidden: bool, max_length: int
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """rows: the rows whose logits are wanted, the same for every sequence; None: all."""
        wanted = range(ids.shape[1]) if rows is None else rows
        found = [self._one(ids[b], b, cache, wanted, want_hidden, max_length) for b in range(len(ids))]
        logits, hidden = zip(*found, strict=True)
        return torch.cat(logits), tuple(torch.cat(states) for states in zip(*hidden, strict=True))

    def _one(
        self, ids: Tensor, b: int, cache: SlotCache, wanted: Sequence[int], want_hidden: bool, max_length: int
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """One sequence's (L,) new ids, block by block."""
        first = cache.lengths[b]
        end, logits, hidden = first + len(ids), [], []
        for start in range(first // WIDTH * WIDTH, end, WIDTH):
            new = range(max(first, start), min(end, start + WIDTH))  # positions
            block = ids.new_zeros(1, WIDTH)
            block[0, new.start - start : new.stop - start] = ids[new.start - first : new.stop - first]
            scores, states = self.caller(block, Block(cache, b, start, new), None, want_hidden, max_length)
            logits.append(scores[:, [first + row - start for row in wanted if first + row in new]])
            hidden.append(tuple(part[:, new.start - start : new.stop - start] for part in states))
        return torch.cat(logits, 1), tuple(torch.cat(parts, 1) for parts in zip(*hidden, strict=True))


class Block(SlotCache):
    """One sequence of a cache as a cache of its own, for a call that reads one block and keeps the rows at ``new``."""

    def __init__(self, cache: SlotCache, row: int, start: int, new: range) -> None:
        self.whole, self.row, self.start, self.new = cache, row, start, new
        self.device, self.layers, self.lengths = cache.device, cache.layers, [start]
        self.positions = torch.arange(start, start + WIDTH, device=cache.device)[None]
        self.visible = start + WIDTH
        if self.visible > cache.capacity:
            cache.grow(max(self.visible, 2 * cache.capacity))
            self.layers = cache.layers
        self.capacity = cache.capacity

    def write(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        slots, new = self.whole.slots(layer, keys, values), slice(self.new.start, self.new.stop)
        for held, made in zip(slots, (keys, values), strict=True):
            held[self.row, :, new] = made[0, :, self.new.start - self.start : self.new.stop - self.start]
        return tuple(held[self.row : self.row + 1, :, : self.visible] for held in slots)
