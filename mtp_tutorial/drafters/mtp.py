"""MTP drafter: a light head on the target's hidden states guesses several tokens ahead.

Takes: the target's hidden states and the tokens that followed them.  Returns: drafts.
Must not know: verify rules, the loop.

The head reads pairs: the hidden state of position i and the token at position i + 1. Pairs whose token is committed
come from the target itself and stay in the head's own KV cache. Pairs made while drafting are guesses about guesses:
they are read behind the committed ones and rolled back as soon as the draft is made, and the next call reads the true
pairs in their place. So after each round, an all-accepted one included, the head's cache lacks nothing.

Ref: vLLM ``v1/spec_decode/eagle.py`` (one head applied k times); DeepSeek-V3, arXiv 2412.19437.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ..cache import SlotCache
from ..models import Target
from ..records import Draft, Sampling, Verdict
from .head_drafter import Ends, HeadDrafter
from .mtp_head import MtpHead


class MtpDrafter(HeadDrafter):
    """One layer applied k times, or a stack whose layer s makes draft token s. For the options see ``HeadDrafter``."""

    kind = MtpHead

    # -- The contract -----------------------------------------------------------------------------------------------

    @torch.no_grad()
    def start(self, target: Target, prompts: Sequence[Sequence[int]], hidden: tuple[Tensor, ...]) -> None:
        super().start(target, prompts, hidden)
        states = self.head.read(hidden)
        batch, room = len(prompts), max(map(len, prompts)) + 128
        self.caches = [SlotCache(1, batch, target.device, room) for _ in self.head.layers]
        # For each layer and sequence, the hidden states it has yet to read: the target's for the first layer, the
        # outputs of the layer before for the others. The prompt's last one waits for the first new token.
        self.unread = [[states[row, : len(prompt) - 1] for row, prompt in enumerate(prompts)]]
        self.unread += [[states[row, :0] for row in range(batch)] for _ in self.head.layers[1:]]

    @torch.no_grad()
    def commit(self, verdict: Verdict, hidden: tuple[Tensor, ...]) -> None:
        super().commit(verdict, hidden)
        states = self.head.read(hidden)
        for row, count in enumerate((verdict.tokens >= 0).sum(1).tolist()):
            self.unread[0][row] = torch.cat([self.unread[0][row], states[row, :count]])

    def keep(self, rows: Sequence[int]) -> None:
        super().keep(rows)
        self.unread = [[held[row] for row in rows] for held in self.unread]
        for cache in self.caches:
            cache.keep(rows)

    @torch.no_grad()
    def propose(self, k: Tensor, sampling: Sampling, uniforms: Tensor) -> Draft:
        longest = int(k.max()) if len(k) else 0
        if longest == 0:
            return Draft.of_lists([[]] * len(k), self.target.device)
        choice, ends = self.choice(sampling), Ends(k)
        layers = len(self.head.layers)
        settled = [list(cache.lengths) for cache in self.caches]  # where each counter goes back to in the end
        fresh: list[Tensor] = [held[:0] for held in self.unread[0]]  # outputs of the layer before, in this call
        certain = [0] * len(k)  # how many of them belong to committed pairs
        for step in range(longest):
            if step < layers:
                drafted = torch.stack(choice.tokens, 1).tolist() if choice.tokens else [[] for _ in self.texts]
                fresh, certain = self._read(step, fresh, certain, drafted)
                settled[step] = [length + n for length, n in zip(settled[step], certain, strict=True)]
                last = torch.stack([rows[-1] for rows in fresh])
            else:  # each layer has read its pairs: go on with single pairs of guesses
                cache = self.caches[step % layers]
                last = self.head(step, choice.tokens[-1][:, None], last[:, None], cache)[:, 0]
                cache.advance([1] * len(k))
            sure = self.guess(choice, last, uniforms[:, step])
            if ends.stop(step, sure):
                break
        if step + 1 < layers:  # the next layer did not run: it will read these later
            self._wait(step + 1, fresh, certain)
        for cache, lengths in zip(self.caches, settled, strict=True):
            cache.roll_back(lengths)
        return choice.draft(ends.k)

    # -- Inside -----------------------------------------------------------------------------------------------------

    def _read(
        self, layer: int, fresh: list[Tensor], certain: list[int], drafted: list[list[int]]
    ) -> tuple[list[Tensor], list[int]]:
        """Layer ``layer`` reads its unread pairs, then the pairs whose token is a draft token.

        Returns, for each sequence, its outputs and how many of them belong to committed pairs.
        """
        waiting = [torch.cat([held, new]) for held, new in zip(self.unread[layer], fresh, strict=True)]
        said = [(text + draft)[-len(rows) :] for text, draft, rows in zip(self.texts, drafted, waiting, strict=True)]
        counts = [len(rows) for rows in waiting]
        width = max(counts)
        ids = torch.tensor([row + [0] * (width - len(row)) for row in said], device=self.target.device)
        hidden = torch.stack([torch.nn.functional.pad(rows, (0, 0, 0, width - len(rows))) for rows in waiting])
        outputs = self.head(layer, ids, hidden, self.caches[layer])
        self.caches[layer].advance(counts)
        committed = [max(count - layer, 0) for count in counts]  # the last ``layer`` tokens are draft tokens
        # Hidden states of committed pairs whose next token is not committed yet wait for the next round.
        held = [len(h) + n for h, n in zip(self.unread[layer], certain, strict=True)]
        if layer:
            self.unread[layer] = [rows[done:there] for rows, done, there in zip(waiting, committed, held, strict=True)]
        else:
            self.unread[0] = [rows[:0] for rows in waiting]
        return [outputs[row, :count] for row, count in enumerate(counts)], committed

    def _wait(self, layer: int, fresh: list[Tensor], certain: list[int]) -> None:
        self.unread[layer] = [
            torch.cat([held, new[:n]]) for held, new, n in zip(self.unread[layer], fresh, certain, strict=True)
        ]
