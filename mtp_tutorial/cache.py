"""A KV cache whose roll-back is a counter, and a prefix cache that holds committed tokens only.

Takes: keys and values of one layer, the number of new tokens of each sequence.  Returns: all keys and values so far.
Must not know: what the tokens say, who drafted them, which of them were accepted.

Shapes: B sequences, H heads, S slots, D head size, L new rows.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import torch
from torch import Tensor


class SlotCache:
    """Slot i of a sequence holds the keys and values of its token i.

    ``lengths[b]`` counts the slots that sequence b has committed. A forward call writes behind them and moves the
    counters on; a roll-back moves them back. Rejected slots are never cleaned: no mask reaches past a counter, and the
    next call writes over them.
    """

    def __init__(self, num_layers: int, batch: int, device: torch.device | str = "cpu", capacity: int = 256) -> None:
        self.device = torch.device(device)
        self.lengths: list[int] = [0] * batch
        self.capacity = capacity
        self.layers: list[tuple[Tensor, Tensor] | None] = [None] * num_layers
        self.positions = torch.zeros(batch, 0, dtype=torch.int64, device=self.device)  # (B, L) of the call under way
        self.visible = 0  # how many slots the call under way can see at most

    @property
    def batch(self) -> int:
        return len(self.lengths)

    def begin(self, width: int) -> None:
        """Open a forward call of ``width`` rows a sequence: its tokens go to the slots behind each counter."""
        self.visible = max(self.lengths, default=0) + width
        if self.visible > self.capacity:
            self.grow(max(self.visible, 2 * self.capacity))
        starts = torch.tensor(self.lengths, device=self.device)
        self.positions = starts[:, None] + torch.arange(width, device=self.device)

    def mask(self, window: int | None = None) -> Tensor:
        """(B, 1, L, S) bool: row i of the call under way sees the slots up to its own position.

        window: with sliding-window attention, only the last ``window`` of them.
        """
        slots = torch.arange(self.visible, device=self.device)
        behind = self.positions[:, None, :, None] - slots
        return (behind >= 0) if window is None else (behind >= 0) & (behind < window)

    def write(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Put (B, H, L, D) keys and values into their slots; return those of every visible slot."""
        slots = self.slots(layer, keys, values)
        if self.batch == 1:  # one stretch of slots: a plain copy does
            start = self.lengths[0]
            for held, new in zip(slots, (keys, values), strict=True):
                held[:, :, start : start + new.shape[2]] = new
            return slots[0][:, :, : self.visible], slots[1][:, :, : self.visible]
        rows = torch.arange(self.batch, device=keys.device)[:, None]
        places = self.positions.to(keys.device)  # layers may lie on several devices
        for held, new in zip(slots, (keys, values), strict=True):
            held[rows, :, places] = new.transpose(1, 2)
        return slots[0][:, :, : self.visible], slots[1][:, :, : self.visible]

    def slots(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """All slots of a layer, (B, H, capacity, D) each; made at the first call, like ``keys`` and ``values``."""
        if self.layers[layer] is None:
            self.layers[layer] = tuple(
                new.new_zeros(self.batch, new.shape[1], self.capacity, new.shape[3]) for new in (keys, values)
            )
        return self.layers[layer]

    def advance(self, counts: Sequence[int]) -> None:
        """Close the forward call: sequence b has ``counts[b]`` tokens more. Rows beyond that were padding."""
        self.lengths = [length + count for length, count in zip(self.lengths, counts, strict=True)]

    def roll_back(self, lengths: Sequence[int]) -> None:
        """Move the counters back to ``lengths``. Nothing else happens: that is the whole roll-back.

        Raises ValueError for a counter that would move forward or below 0.
        """
        for now, then in zip(self.lengths, lengths, strict=True):
            if not 0 <= then <= now:
                raise ValueError(f"a roll-back to {then} slots from {now}: the counter may only move back, not below 0")
        self.lengths = list(lengths)

    def keep(self, rows: Sequence[int]) -> None:
        """Keep these sequences, in this order; the others leave the batch."""
        self.lengths = [self.lengths[row] for row in rows]
        index = torch.tensor(list(rows), dtype=torch.int64)
        self.layers = [
            None if pair is None else tuple(held.index_select(0, index.to(held.device)) for held in pair)
            for pair in self.layers
        ]

    def read(self, row: int) -> list[tuple[Tensor, Tensor]]:
        """A copy of the committed keys and values of one sequence: (H, length, D) each, a pair a layer."""
        length = self.lengths[row]
        return [tuple(held[row, :, :length].clone() for held in pair) for pair in self.layers if pair is not None]

    def load(self, row: int, pairs: Sequence[tuple[Tensor, Tensor]], length: int) -> None:
        """Fill the first ``length`` slots of one sequence from ``read``'s pairs and set its counter."""
        if length > self.capacity:
            self.grow(length)
        for layer, pair in enumerate(pairs):
            if self.layers[layer] is None:
                self.layers[layer] = tuple(
                    part.new_zeros(self.batch, part.shape[0], self.capacity, part.shape[2]) for part in pair
                )
            for held, part in zip(self.layers[layer], pair, strict=True):
                held[row, :, :length] = part[:, :length]
        self.lengths[row] = length

    def grow(self, capacity: int) -> None:
        """Room for ``capacity`` slots of each sequence."""
        more = capacity - self.capacity
        self.layers = [
            None if pair is None else tuple(torch.nn.functional.pad(held, (0, 0, 0, more)) for held in pair)
            for pair in self.layers
        ]
        self.capacity = capacity


class PrefixCache:
    """Keys and values of texts already read, found again by their first tokens.

    It holds committed tokens only: what ``store`` gets is cut at the cache's counter, so a draft that was not
    accepted can never be served to another request. The oldest text goes first when there are too many.
    One prefix cache belongs to one target, with its weights and hooks as they were: after they change, start a new
    one, since keys and values made before stay as they are.
    """

    def __init__(self, max_texts: int = 16) -> None:
        if max_texts < 1:
            raise ValueError(f"max_texts={max_texts}: use 1 or more")
        self.max_texts = max_texts
        self.texts: OrderedDict[tuple[int, ...], list[tuple[Tensor, Tensor]]] = OrderedDict()
        self.owner: object = None

    def claim(self, owner: object) -> None:
        """Bind the cache to a target. Raises ValueError when it already holds another target's texts."""
        if self.owner is not None and self.owner is not owner:
            raise ValueError("this prefix cache holds keys and values of another target: use one PrefixCache a target")
        self.owner = owner

    def lookup(self, tokens: Sequence[int]) -> tuple[int, list[tuple[Tensor, Tensor]]]:
        """How many first tokens of ``tokens`` some stored text shares with it, and that text's keys and values."""
        best, found = 0, ()
        for text in self.texts:
            shared = next(
                (i for i, (a, b) in enumerate(zip(text, tokens, strict=False)) if a != b), min(len(text), len(tokens))
            )
            if shared > best:
                best, found = shared, text
        if best:
            self.texts.move_to_end(found)
        return best, self.texts.get(found, [])

    def store(self, tokens: Sequence[int], cache: SlotCache, row: int) -> None:
        """Keep the committed part of a sequence: the first ``cache.lengths[row]`` of its tokens."""
        committed = tuple(tokens[: cache.lengths[row]])
        if not committed:
            return
        self.texts[committed] = cache.read(row)
        self.texts.move_to_end(committed)
        while len(self.texts) > self.max_texts:
            self.texts.popitem(last=False)
