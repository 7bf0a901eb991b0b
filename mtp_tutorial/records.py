"""The records that travel between rooms: frozen dataclasses, no behaviour beyond checking themselves.

Takes: plain numbers and tensors.  Returns: the same, named and validated.
Must not know: models, drafters, verify rules.

Shapes: B sequences, k draft tokens, V vocabulary.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Protocol

import torch
from torch import Tensor

#: How a token came to be in the text. ``prefill`` is the first token, which no draft had a chance at;
#: ``plain`` is a token of a round that drafted nothing.
KINDS = ("prefill", "plain", "accepted", "recovered", "bonus")


def _shortened(text: str, width: int = 60) -> str:
    """A text as Python writes it, cut at ``width`` characters."""
    return repr(text if len(text) <= width else text[: width - 1] + "…")


def _real(name: str, value: float, low: float, high: float, *, open_low: bool = False, what: str) -> None:
    """Raise ValueError unless ``value`` is a finite number in the given range."""
    ok = isinstance(value, Real) and not isinstance(value, bool)
    if ok:  # numpy's narrow floats would overflow where they are compared with Python's largest
        number = value if isinstance(value, int) else float(value)
        ok = abs(number) <= sys.float_info.max and (number > low if open_low else number >= low) and number <= high
    if not ok:
        raise ValueError(f"{name}={value!r}: {what}")


@dataclass(frozen=True)
class Sampling:
    """How logits become a distribution. Temperature 0 means greedy: all mass on the lowest id among the largest logits.

    ``repetition_penalty`` counts prompt and output; ``frequency_penalty`` and ``presence_penalty`` count output only.
    Raises ValueError when a setting is out of range.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0

    def __post_init__(self) -> None:
        big = math.inf
        _real("temperature", self.temperature, 0, big, what="use 0 for greedy decoding or a finite number above 0")
        if isinstance(self.top_k, bool) or not isinstance(self.top_k, Integral) or self.top_k < 0:
            raise ValueError(f"top_k={self.top_k!r}: use a whole number; 0 keeps every token")
        _real("top_p", self.top_p, 0, 1, open_low=True, what="use a number in (0, 1]; 1 keeps every token")
        _real("min_p", self.min_p, 0, 1, what="use a number in [0, 1]; 0 keeps every token")
        _real(
            "repetition_penalty", self.repetition_penalty, 0, big, open_low=True, what="use a number above 0; 1 is off"
        )
        _real("frequency_penalty", self.frequency_penalty, -big, big, what="use a finite number; 0 is off")
        _real("presence_penalty", self.presence_penalty, -big, big, what="use a finite number; 0 is off")
        for name, value in list(vars(self).items()):  # numpy's numbers and fractions become Python's
            if type(value) not in (int, float):
                object.__setattr__(self, name, int(value) if name == "top_k" else float(value))

    @property
    def has_penalties(self) -> bool:
        """True when the distribution depends on what was said before, beyond the model's own logits."""
        return self.repetition_penalty != 1 or self.frequency_penalty != 0 or self.presence_penalty != 0


@dataclass(frozen=True)
class Draft:
    """What a drafter proposes for B sequences: up to k tokens each.

    tokens: (B, k) int64. -1 may appear as a suffix only: row b drafts the k_b tokens before it.
    probs: (B, k, V), exactly the distributions the tokens were drawn from; None when they were chosen without
        randomness (each distribution is then one-hot at its token). Ignored where the token is -1.
        ``lab.exact`` also accepts a callable ``prefix -> (V,)`` here, for distributions that follow the prefix.
    Raises ValueError when shapes, types or the -1 suffix are wrong.
    """

    tokens: Tensor
    probs: Tensor | Callable | None = None

    def __post_init__(self) -> None:
        tokens, probs = self.tokens, self.probs
        if not isinstance(tokens, Tensor) or tokens.ndim != 2 or tokens.dtype != torch.int64:
            got = f"{tuple(tokens.shape)} {tokens.dtype}" if isinstance(tokens, Tensor) else type(tokens).__name__
            raise ValueError(f"Draft.tokens must be an int64 tensor of shape (B, k), got {got}")
        if tokens.numel() and int(tokens.min()) < -1:
            raise ValueError(f"Draft.tokens holds the id {int(tokens.min())}: use ids >= 0, or -1 for 'no draft here'")
        if tokens.shape[1] > 1 and bool(((tokens[:, :-1] < 0) & (tokens[:, 1:] >= 0)).any()):
            raise ValueError("Draft.tokens has a token after a -1: -1 may only fill the end of a row")
        if probs is None or (callable(probs) and not isinstance(probs, Tensor)):
            return
        if not isinstance(probs, Tensor) or probs.ndim != 3 or probs.shape[:2] != tokens.shape:
            got = tuple(probs.shape) if isinstance(probs, Tensor) else type(probs).__name__
            raise ValueError(f"Draft.probs must have the shape (B, k, V) = {(*tokens.shape, 'V')}, got {got}")
        if not probs.is_floating_point():
            raise ValueError(f"Draft.probs must be floating point, got {probs.dtype}")
        if tokens.numel() and int(tokens.max()) >= probs.shape[2]:
            raise ValueError(
                f"Draft.tokens holds the id {int(tokens.max())}, but Draft.probs has a vocabulary of {probs.shape[2]}"
            )

    @classmethod
    def trusted(cls, tokens: Tensor, probs: Tensor | None = None) -> Draft:
        """The same record without the checks, which would make the host wait for an accelerator; for the loop."""
        draft = object.__new__(cls)
        object.__setattr__(draft, "tokens", tokens)
        object.__setattr__(draft, "probs", probs)
        return draft

    @classmethod
    def of_lists(cls, rows: Sequence[Sequence[int]], device: torch.device | str) -> Draft:
        """A draft chosen without randomness from one list of ids a sequence; empty lists draft nothing."""
        width = max(map(len, rows), default=0)
        tokens = torch.tensor([[*row, *[-1] * (width - len(row))] for row in rows], dtype=torch.int64)
        return cls.trusted(tokens.reshape(len(rows), width).to(device))

    @property
    def lengths(self) -> Tensor:
        """(B,) int64: k_b, how many tokens each row drafts."""
        return (self.tokens >= 0).sum(1)


@dataclass(frozen=True)
class Verdict:
    """What a verify rule decides.

    tokens: (B, k+1) int64, -1 padded: the accepted draft tokens, then one recovered or bonus token.
    num_accepted: (B,) int64.
    bonus: (B,) bool: every draft token was accepted, and the last token was drawn from row k_b.
    """

    tokens: Tensor
    num_accepted: Tensor
    bonus: Tensor


@dataclass(frozen=True)
class Round:
    """One target call as one sequence saw it, in plain Python numbers.

    The first round of a sequence is its prefill: one token, no draft. What lies past the end of the text
    (EOS, a stop string, the token budget) is not recorded, neither as emitted nor as drafted.
    Seconds are those of the whole batch, shared by its sequences.

    Probabilities are those that the verify rule saw: after temperature, penalties and filters. At temperature 0 each
    row is therefore one-hot: ``target_probs`` holds 1.0 for the token that greedy decoding takes and 0.0 for every
    other, however close it came. That is no fault of the logits; a run at temperature 1 records the model's own
    confidence.

    The texts of a sequence's rounds, joined, are its generation's text. A token that ends within a character therefore
    adds its text to the round that completes the character, and text that may become a stop string waits as well.
    """

    sequence: int  # which prompt
    index: int  # 0 is the prefill
    tokens: tuple[int, ...]  # emitted
    kinds: tuple[str, ...]  # one of KINDS for each emitted token
    draft_tokens: tuple[int, ...] = ()
    draft_probs: tuple[float, ...] = ()  # q(d): 1.0 where the draft was chosen without randomness
    target_probs: tuple[float, ...] = ()  # p(d); at temperature 0 always 0.0 or 1.0
    coins: tuple[float, ...] = ()  # acceptance coins, one for each draft token
    draws: tuple[float, ...] = ()  # the uniforms behind recovered and bonus tokens, one for each target row
    num_accepted: int = 0
    cache_before: int = 0  # committed slots in the KV cache when the round began
    cache_written: int = 0  # slots after the target call, drafts included
    cache_after: int = 0  # slots left after the roll-back
    seconds_drafting: float = 0.0
    seconds_verifying: float = 0.0  # the target's forward call
    seconds_elsewhere: float = 0.0  # sampling, verify rule, bookkeeping
    text: str = ""  # what this round adds to the text, special tokens left out

    def __repr__(self) -> str:
        how = "prefill" if self.is_prefill else f"accepted {self.num_accepted} of {self.num_drafted}"
        last = "" if self.is_prefill or not self.kinds else f", ends in {self.kinds[-1]}"
        tokens = ", ".join(map(str, self.tokens))
        return (
            f"Round({self.index} of sequence {self.sequence}: {_shortened(self.text)}, tokens [{tokens}], {how}{last})"
        )

    @property
    def num_drafted(self) -> int:
        return len(self.draft_tokens)

    @property
    def bonus(self) -> bool:
        """True when the last token of the round is a bonus."""
        return bool(self.kinds) and self.kinds[-1] == "bonus"

    @property
    def is_prefill(self) -> bool:
        return self.index == 0

    @property
    def seconds(self) -> float:
        return self.seconds_drafting + self.seconds_verifying + self.seconds_elsewhere


def by_position(rounds: Sequence[Round], k: int) -> tuple[list[int], list[int]]:
    """For draft positions 1 … k: in how many rounds the position was drafted, and in how many it was accepted."""
    drafted = [sum(one.num_drafted > i for one in rounds) for i in range(k)]
    return drafted, [sum(one.num_accepted > i for one in rounds) for i in range(k)]


@dataclass(frozen=True)
class Generation:
    """One finished text with the rounds that made it. Rates are derived from the rounds, never stored."""

    tokens: list[int]  # the prompt excluded, EOS included
    text: str
    rounds: tuple[Round, ...]
    prompt_tokens: tuple[int, ...] = ()
    finish_reason: str = "length"  # "eos", "stop" or "length"
    seconds: float = 0.0  # from the call to the last token of the batch
    pieces: tuple[str, ...] = ()  # the text of each token alone

    def __repr__(self) -> str:
        facts = [f"{len(self.tokens)} tokens ({self.finish_reason})", f"{self.target_calls} target calls"]
        if self.num_drafted:
            facts.append(f"acceptance rate {self.acceptance_rate:.3f} ({self.num_accepted} of {self.num_drafted})")
            facts.append(f"{self.mean_acceptance_length:.2f} tokens per round")
        return f"Generation({_shortened(self.text)}, {', '.join(facts)})"

    @property
    def target_calls(self) -> int:
        """Forward calls of the target that served this text: the prefill and one a round."""
        return len(self.rounds)

    @property
    def num_drafted(self) -> int:
        return sum(r.num_drafted for r in self.rounds)

    @property
    def num_accepted(self) -> int:
        return sum(r.num_accepted for r in self.rounds)

    @property
    def acceptance_rate(self) -> float:
        """Accepted draft tokens ÷ draft tokens; NaN when nothing was drafted."""
        return self.num_accepted / self.num_drafted if self.num_drafted else math.nan

    @property
    def mean_acceptance_length(self) -> float:
        """Tokens a round, recovered and bonus tokens included, the prefill left out; NaN without a round."""
        rounds = [r for r in self.rounds if not r.is_prefill]
        return sum(len(r.tokens) for r in rounds) / len(rounds) if rounds else math.nan

    @property
    def acceptance_by_position(self) -> list[float]:
        """For each draft position: the share of rounds that drafted it in which it was accepted."""
        longest = max((r.num_drafted for r in self.rounds), default=0)
        return [accepted / drafted for drafted, accepted in zip(*by_position(self.rounds, longest), strict=True)]

    @property
    def kinds(self) -> list[str]:
        """How each token of ``tokens`` came about: one of KINDS."""
        return [kind for r in self.rounds for kind in r.kinds]


class Controller(Protocol):
    """Decides how many tokens each sequence drafts in the next round. ``lab.controllers`` supplies some."""

    def choose(self, sequences: Sequence[int]) -> Sequence[int]:
        """The draft length (0…64) of each live sequence, named by its index in the batch."""

    def observe(self, rounds: Sequence[Round]) -> None:
        """Told what each live sequence's last round brought."""
