"""N-gram drafter (prompt lookup): what followed the last words when they were said before?

Takes: the tokens so far.  Returns: the tokens that followed the same n-gram last time.
Must not know: any model's insides. It never runs one.

Ref: Saxena, prompt lookup decoding, 2023; vLLM ``v1/spec_decode/ngram_proposer.py``.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from ..models import Target
from ..records import Draft, Sampling, Verdict


class NgramDrafter:
    """Looks for the last ``max_ngram`` tokens earlier in the text, then for fewer, down to ``min_ngram``.

    Of several places the latest counts.

    Where nothing matches, it drafts nothing, and the round is a plain one.
    """

    needs_hidden: tuple[int, ...] = ()
    vocab_size = None

    def __init__(self, target: Target, max_ngram: int = 3, min_ngram: int = 1) -> None:
        if not 1 <= min_ngram <= max_ngram:
            raise ValueError(f"min_ngram={min_ngram}, max_ngram={max_ngram}: use 1 <= min_ngram <= max_ngram")
        self.target = target
        self.sizes = range(max_ngram, min_ngram - 1, -1)

    def start(self, target: Target, prompts: Sequence[Sequence[int]], hidden: tuple[Tensor, ...]) -> None:
        self.device = target.device
        self.texts: list[list[int]] = [[] for _ in prompts]
        # For each sequence: n-gram → where what followed it begins. A later place overwrites an earlier one.
        self.places: list[dict[tuple[int, ...], int]] = [{} for _ in prompts]
        for row, prompt in enumerate(prompts):
            self._extend(row, prompt)

    def _extend(self, row: int, tokens: Sequence[int]) -> None:
        text, places = self.texts[row], self.places[row]
        for token in tokens:
            # The n-grams that end just before this token are followed by it.
            for size in self.sizes:
                if len(text) >= size:
                    places[tuple(text[-size:])] = len(text)
            text.append(token)

    def propose(self, k: Tensor, sampling: Sampling, uniforms: Tensor) -> Draft:
        found = [self.after(row, (), want) for row, want in enumerate(k.tolist())]
        return Draft.of_lists(found, self.device)

    def after(self, row: int, draft: Sequence[int], k: int, longest_only: bool = False) -> list[int]:
        """Up to k tokens that followed the end of this text, or of ``draft`` behind it, the last time.

        longest_only: only n-grams of the largest size count.
        """
        text, places = self.texts[row], self.places[row]
        end = [*text[-self.sizes[0] :], *draft]
        for size in self.sizes[:1] if longest_only else self.sizes:
            place = places.get(tuple(end[-size:])) if len(end) >= size else None
            if place is not None and k > 0:
                return text[place : place + k]
        return []

    def commit(self, verdict: Verdict, hidden: tuple[Tensor, ...]) -> None:
        for row, tokens in enumerate(verdict.tokens.tolist()):
            self._extend(row, [token for token in tokens if token >= 0])

    def keep(self, rows: Sequence[int]) -> None:
        self.texts = [self.texts[row] for row in rows]
        self.places = [self.places[row] for row in rows]
