"""The loop itself: prefill, then rounds of draft, verify, commit.

Takes: a ``Request``.  Returns: rounds as they happen.
Must not know: how a drafter guesses, how a rule judges, the lab.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from weakref import WeakValueDictionary

import torch
from torch import Tensor

from ..records import Draft, Generation, Round, Verdict
from ..verify import RULES, Rule, at_draft, is_distribution, lowest_and_sum
from .request import Request, TextInMaking, check_k, plain_numbers

#: id of a drafter → the engine that started it last. Kept here because a drafter need not have an attribute for it. An
#: engine holds its drafter, so no other object can have that id while the entry is there.
_LAST_STARTED: WeakValueDictionary[int, Engine] = WeakValueDictionary()


class Engine(Request):
    """A request on its way: ``rounds()`` decodes it, once."""

    def __init__(self, *args, **options) -> None:
        super().__init__(*args, **options)
        self.live = list(self.sequences)  # in the order of the cache's rows

    def rounds(self) -> Iterator[Round]:
        step = self._prefill
        while self.live:
            with self.target.threads():  # not while the caller holds a round: its own work keeps the threads it had
                rounds = step()
            yield from rounds
            step = self._round

    def _prefill(self) -> list[Round]:
        """Target call 1: read the prompts, emit one token each."""
        clock = _Clock()
        reuse = self.prefix_cache is not None and not self.layers
        for row, sequence in enumerate(self.live):
            if reuse:  # the last token is always read: its logits are what the first new token is drawn from
                shared, pairs = self.prefix_cache.lookup(sequence.prompt[:-1])
                if shared:
                    self.cache.load(row, pairs, shared)
        before = list(self.cache.lengths)
        unread = [s.prompt[length:] for s, length in zip(self.live, before, strict=True)]
        clock.lap("elsewhere")
        logits, hidden = self.target.forward(
            self._padded(unread), [len(row) for row in unread], self.cache, last_only=True, layers=self.layers
        )
        clock.lap("verifying")
        nothing = Draft.of_lists([[]] * len(self.live), self.target.device)
        # The first token is drawn plainly, whatever the rule: with an empty draft, rejection does just that.
        verdict, facts = self._judge(RULES["rejection"], {}, nothing, logits)
        rounds = self._record(before, list(self.cache.lengths), verdict, facts)
        clock.lap("elsewhere")
        if self.drafter is not None:
            hidden = self.hooks.hidden(hidden)
            _LAST_STARTED[id(self.drafter)] = self
            self.drafter.start(self.target, [s.prompt for s in self.live], hidden)
            self.drafter.commit(verdict, tuple(_last_rows(h, unread) for h in hidden))
            clock.lap("drafting")
        return self._leave(rounds, clock)

    def _round(self) -> list[Round]:
        clock = _Clock()
        draft, drafted = self._draft()
        clock.lap("drafting")
        before = list(self.cache.lengths)
        last = torch.tensor([[s.tokens[-1]] for s in self.live], device=self.target.device)
        ids = torch.cat([last, draft.tokens.clamp_min(0)], 1)
        clock.lap("elsewhere")
        ids = self.hooks.reads([s.index for s in self.live], ids)
        logits, hidden = self.target.forward(ids, [k + 1 for k in drafted], self.cache, layers=self.layers)
        clock.lap("verifying")
        plain = self.drafter is None
        rule, params = (RULES["rejection"], {}) if plain else (self.rule, self.rule_params)
        verdict, facts = self._judge(rule, params, draft, logits, drafted)
        rounds = self._record(before, list(self.cache.lengths), verdict, facts)
        clock.lap("elsewhere")
        if self.drafter is not None:
            self.drafter.commit(verdict, self.hooks.hidden(hidden))
            clock.lap("drafting")
        return self._leave(rounds, clock)

    def _draft(self) -> tuple[Draft, list[int]]:
        """The drafter's proposal, and how many tokens each sequence drafts."""
        if self.drafter is None:
            return Draft.of_lists([[]] * len(self.live), self.target.device), [0] * len(self.live)
        if _LAST_STARTED.get(id(self.drafter)) is not self:
            raise ValueError(
                "this drafter was started for another text before this one ended, and has forgotten it: "
                "give each stream a drafter of its own"
            )
        wanted = self._wanted()
        uniforms = torch.zeros(len(wanted), max(wanted), dtype=torch.float64)
        for row, (sequence, k) in enumerate(zip(self.live, wanted, strict=True)):
            uniforms[row, :k] = torch.rand(k, generator=sequence.drafting, dtype=torch.float64)
        draft = self.drafter.propose(torch.tensor(wanted), self.sampling, uniforms.to(self.target.device))
        drafted = self._counted(draft, wanted)
        longest = max(drafted)
        if longest < draft.tokens.shape[1]:  # columns in which nobody drafts would be read for nothing
            draft = Draft.trusted(draft.tokens[:, :longest], None if draft.probs is None else draft.probs[:, :longest])
        return draft, drafted

    def _wanted(self) -> list[int]:
        """How many tokens each live sequence is to draft: the controller's choice, as far as the context reaches."""
        wanted = plain_numbers(self.controller.choose([s.index for s in self.live]))
        try:
            wanted = list(wanted)
        except TypeError as error:
            raise ValueError(f"the controller chose {wanted!r}: choose a draft length for each sequence") from error
        if len(wanted) != len(self.live):
            raise ValueError(f"the controller chose {len(wanted)} draft lengths for {len(self.live)} sequences")
        for k in wanted:
            check_k(k)
        # No draft token may lie past the longest sequence the model was made for.
        return [
            min(k, self.target.max_length - len(s.prompt) - len(s.tokens))
            for k, s in zip(wanted, self.live, strict=True)
        ]

    def _counted(self, draft: Draft, wanted: list[int]) -> list[int]:
        """How many tokens each sequence drafts. Raises ValueError for a draft that this target cannot read."""
        if not isinstance(draft, Draft):
            raise ValueError(f"the drafter proposed a {type(draft).__name__}: propose must return an mt.Draft")
        vocabulary, (batch, k) = self.target.vocab_size, draft.tokens.shape
        if batch != len(wanted):
            raise ValueError(f"the drafter proposed for {batch} sequences, but {len(wanted)} are live")
        if draft.probs is not None and tuple(getattr(draft.probs, "shape", ())) != (batch, k, vocabulary):
            raise ValueError(
                f"the drafter's probs must be a tensor of shape {(batch, k, vocabulary)}, the last number being "
                f"{self.target.name}'s vocabulary; load a drafter for this target with mt.load_drafter(name, target)"
            )
        highest = draft.tokens.amax(1) if k else draft.tokens.new_full((batch,), -1)
        drafted, highest = torch.stack([(draft.tokens >= 0).sum(1), highest]).tolist()
        if max(highest) >= vocabulary:
            raise ValueError(
                f"the drafter proposed the id {max(highest)}; {self.target.name} knows ids 0 to {vocabulary - 1}"
            )
        if any(found > want for found, want in zip(drafted, wanted, strict=True)):
            raise ValueError(f"the drafter proposed {drafted} tokens where at most {wanted} were asked for")
        return drafted

    def _judge(
        self, rule: Rule, params: dict, draft: Draft, logits: Tensor, drafted: Sequence[int] | None = None
    ) -> tuple[Verdict, dict[str, list]]:
        """Logits → distributions → verdict. Everything the host needs comes over in one transfer."""
        drafted = [0] * len(self.live) if drafted is None else drafted
        history = lengths = None
        if self.sampling.has_penalties:
            history = self._padded([s.ids for s in self.live], fill=-1)
            lengths = torch.tensor([len(s.prompt) for s in self.live], device=self.target.device)
        target_probs = self.hooks.probabilities(logits, self.sampling, history, lengths, draft.tokens)
        uniforms = self.hooks.uniforms([s.verifying for s in self.live], drafted)
        coins = uniforms.to(target_probs.device)
        verdict = rule.decide(draft, target_probs, coins, **params)
        self.hooks.observe([s.index for s in self.live], draft, target_probs, coins, verdict)
        p = at_draft(target_probs, draft)
        q = torch.ones_like(p) if draft.probs is None else at_draft(draft.probs, draft)
        rows = torch.arange(target_probs.shape[1], device=p.device)
        used = rows <= torch.tensor(drafted, device=p.device)[:, None]
        bad = (target_probs.sum(-1).isnan() & used).any(1, keepdim=True)  # a NaN anywhere in a row makes its sum NaN
        ones = torch.ones_like(p)  # chosen without randomness
        lowest, total = (ones, ones) if draft.probs is None else lowest_and_sum(draft.probs)
        flags = [verdict.num_accepted[:, None], verdict.bonus[:, None], bad]
        columns = [verdict.tokens, *flags, draft.tokens, p, q, lowest, total]
        packed = torch.cat([column.to(torch.float64) for column in columns], 1).cpu()
        parts = packed.split([column.shape[1] for column in columns], 1)
        if self.hooks.check_nan and bool(parts[3].any()):
            raise ValueError(
                f"{self.target.name} gave logits that make no distribution (NaN, +inf, or a row all -inf) after "
                f"{sum(len(s.tokens) for s in self.live)} new tokens: look for an overflow; a wider dtype may do"
            )
        if self.hooks.check_nan and draft.probs is not None:
            self._check_drafted(parts[4], parts[7], parts[8])
        host = Verdict(parts[0].long(), parts[1].long()[:, 0], parts[2].bool()[:, 0])
        draft_tokens, p, q = parts[4].long().tolist(), parts[5].tolist(), parts[6].tolist()
        return host, {"drafted": drafted, "tokens": draft_tokens, "p": p, "q": q, "uniforms": uniforms.tolist()}

    def _check_drafted(self, tokens: Tensor, lowest: Tensor, total: Tensor) -> None:
        """Raise ValueError unless every row that a draft token was drawn from is a distribution. All (B, k)."""
        wrong = (tokens >= 0) & ~is_distribution(lowest, total)
        if not bool(wrong.any()):
            return
        row, place = wrong.nonzero()[0].tolist()
        low, mass = float(lowest[row, place]), float(total[row, place])
        where = f"for draft token {place + 1} of sequence {self.live[row].index}"
        if math.isnan(mass):
            raise ValueError(
                f"the drafter gave probabilities that hold NaN {where}: look for an overflow in its model; a wider "
                "dtype may do"
            )
        raise ValueError(
            f"the drafter gave probabilities that are no distribution {where}: the lowest is {low:.4g}, the sum "
            f"{mass:.4g}. Give Draft.probs as the token was drawn from it, after softmax and filters, without negative "
            "numbers and with sum 1; or None for tokens chosen without randomness"
        )

    def _record(self, before: list[int], written: list[int], verdict: Verdict, facts: dict) -> list[Round]:
        """Emit the tokens, end texts, roll the cache back, and write down what happened."""
        emitted = [
            self._emit(s, [t for t in row if t >= 0], n)
            for s, row, n in zip(self.live, verdict.tokens.tolist(), verdict.num_accepted.tolist(), strict=True)
        ]
        rounds, after = [], []
        for row, (sequence, count) in enumerate(zip(self.live, emitted, strict=True)):
            k = facts["drafted"][row]
            accepted = min(int(verdict.num_accepted[row]), count)
            drafted = min(k, count) if sequence.finish_reason else k  # what lies past the end was not drafted
            first = not sequence.rounds
            last = "prefill" if first else "plain" if k == 0 else "bonus" if bool(verdict.bonus[row]) else "recovered"
            after.append(written[row] - k + accepted)
            rounds.append(
                Round(
                    sequence=sequence.index,
                    index=len(sequence.rounds),
                    tokens=tuple(sequence.tokens[-count:]),
                    kinds=("accepted",) * accepted + (last,) * (count - accepted),
                    draft_tokens=tuple(facts["tokens"][row][:drafted]),
                    draft_probs=tuple(facts["q"][row][:drafted]),
                    target_probs=tuple(facts["p"][row][:drafted]),
                    coins=tuple(coin for coin, _ in facts["uniforms"][row][:drafted]),
                    draws=tuple(draw for _, draw in facts["uniforms"][row][: k + 1]),
                    num_accepted=accepted,
                    cache_before=before[row],
                    cache_written=written[row],
                    cache_after=after[row],
                )
            )
        self.cache.roll_back(after)
        return rounds

    def _emit(self, sequence: TextInMaking, tokens: list[int], num_accepted: int) -> int:
        """Append tokens until the text ends; return how many were. The first ``num_accepted`` are draft tokens."""
        for count, token in enumerate(tokens, 1):
            sequence.tokens.append(token)
            if self.hooks.ends(token, self.eos_ids, accepted=count <= num_accepted):
                sequence.finish_reason = "eos"
            elif self.stop and (text := self._cut(sequence)) is not None:
                sequence.text, sequence.finish_reason = text, "stop"
            elif len(sequence.tokens) >= self.max_new_tokens:
                sequence.finish_reason = "length"
            elif len(sequence.prompt) + len(sequence.tokens) >= self.target.max_length:
                sequence.finish_reason = "length"
            if sequence.finish_reason:
                return count
        return len(tokens)

    def _cut(self, sequence: TextInMaking) -> str | None:
        """The text before the first stop string, or None when there is none."""
        text = self.target.decode(sequence.tokens)
        places = [place for place in map(text.find, self.stop) if place >= 0]
        return text[: min(places)] if places else None

    def _new_text(self, sequence: TextInMaking, tokens: Sequence[int]) -> str:
        """What a round's tokens, the last of their sequence, add to the text that the rounds before have told."""
        if sequence.finish_reason is not None:
            if sequence.text is None:  # no stop string has cut it
                sequence.text = self.target.decode(sequence.tokens)
            return sequence.text[sequence.shown :]
        text = sequence.waiting + sequence.growing.add(tokens)
        beginnings = (stop[:length] for stop in self.stop for length in range(1, len(stop)))
        settled = len(text) - max((len(start) for start in beginnings if text.endswith(start)), default=0)
        sequence.waiting, sequence.shown = text[settled:], sequence.shown + settled
        return text[:settled]

    def _leave(self, rounds: list[Round], clock: _Clock) -> list[Round]:
        """File the rounds; sequences that ended leave the batch, and their committed tokens go to the prefix cache."""
        texts = [self._new_text(s, done.tokens) for s, done in zip(self.live, rounds, strict=True)]
        rounds = [clock.stamp(done, text) for done, text in zip(rounds, texts, strict=True)]
        for sequence, done in zip(self.live, rounds, strict=True):
            sequence.rounds.append(done)
        self.controller.observe(rounds)
        rows = [row for row, sequence in enumerate(self.live) if sequence.finish_reason is None]
        if len(rows) < len(self.live):
            if self.prefix_cache is not None:
                for row, sequence in enumerate(self.live):
                    if sequence.finish_reason is not None:
                        self.prefix_cache.store(sequence.ids, self.cache, row)
            self.live = [self.live[row] for row in rows]
            if rows:
                self.cache.keep(rows)
                if self.drafter is not None:
                    self.drafter.keep(rows)
        return rounds

    def _padded(self, rows: Sequence[Sequence[int]], fill: int = 0) -> Tensor:
        width = max(map(len, rows))
        return torch.tensor([[*row, *[fill] * (width - len(row))] for row in rows], device=self.target.device)

    def generation(self, sequence: TextInMaking, seconds: float) -> Generation:
        return Generation(
            tokens=list(sequence.tokens),
            text=sequence.text,
            rounds=tuple(sequence.rounds),
            prompt_tokens=tuple(sequence.prompt),
            finish_reason=sequence.finish_reason or "length",
            seconds=seconds,
            pieces=self.target.pieces(sequence.tokens),
        )


class _Clock:
    """Adds up seconds by what they were spent on."""

    def __init__(self) -> None:
        self.at = time.perf_counter()
        self.spent = {"drafting": 0.0, "verifying": 0.0, "elsewhere": 0.0}

    def lap(self, on: str) -> None:
        now = time.perf_counter()
        self.spent[on] += now - self.at
        self.at = now

    def stamp(self, done: Round, text: str) -> Round:
        return replace(done, text=text, **{f"seconds_{name}": seconds for name, seconds in self.spent.items()})


def _last_rows(hidden: Tensor, rows: Sequence[Sequence[int]]) -> Tensor:
    """(B, L, size) and the real rows of each sequence → (B, 1, size): the last real one."""
    last = torch.tensor([len(row) - 1 for row in rows], device=hidden.device)
    return hidden[torch.arange(len(rows), device=hidden.device), last][:, None]
