"""The loop: plain decoding is a speculative round that drafts nothing.

Takes: a target, prompts, a drafter, a verify rule.  Returns: rounds as they happen, and finished texts.
Must not know: how a drafter guesses, how a rule judges, the lab.

A round: the drafter proposes k_b tokens for sequence b; one forward call reads the last token and the draft, k_b + 1
rows; the verify rule keeps a prefix and adds one token; the counters of the caches move back to what was kept. Nothing
is computed twice, and the bonus token costs no call of its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from .cache import PrefixCache, SlotCache
from .drafters import Drafter, load_drafter
from .models import Target
from .records import Controller, Draft, Generation, Round, Sampling, Verdict
from .sampling import DRAFTING, VERIFYING, generator, probabilities_unchecked
from .verify import RULES, Rule, at_draft, get_rule

MAX_DRAFT = 64

Messages = list[dict[str, str]]
Prompt = str | Messages | Sequence[int]


class Hooks:
    """Places where the lab looks on, or puts a fault in, without the engine knowing the lab. By default: no change."""

    #: Raise ValueError when a used row of the target holds NaN.
    check_nan = True

    def probabilities(
        self, logits: Tensor, sampling: Sampling, history: Tensor | None, prompt_lengths: Tensor | None, draft: Tensor
    ) -> Tensor:
        """(B, L, V) logits → the target's distributions. ``history`` is None unless penalties are on."""
        return probabilities_unchecked(logits, sampling, history, prompt_lengths, draft)

    def uniforms(self, generators: Sequence[torch.Generator], drafted: Sequence[int]) -> Tensor:
        """(B, k_max+1, 2) float64: sequence b draws k_b coins, then k_b + 1 draws, never more."""
        found = torch.zeros(len(drafted), max(drafted, default=0) + 1, 2, dtype=torch.float64)
        for row, (source, k) in enumerate(zip(generators, drafted, strict=True)):
            numbers = torch.rand(2 * k + 1, generator=source, dtype=torch.float64)
            found[row, :k, 0] = numbers[:k]
            found[row, : k + 1, 1] = numbers[k:]
        return found

    def hidden(self, hidden: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """The target's hidden states on their way to the drafter."""
        return hidden

    def ends(self, token: int, eos_ids: frozenset[int]) -> bool:
        """Whether the text ends with this token."""
        return token in eos_ids

    def observe(
        self, sequences: Sequence[int], draft: Draft, target_probs: Tensor, uniforms: Tensor, verdict: Verdict
    ) -> None:
        """Sees the tensors of each round, the prefill included (its draft is empty)."""


@dataclass
class _Sequence:
    """One text in the making."""

    index: int
    prompt: list[int]
    verifying: torch.Generator
    drafting: torch.Generator
    tokens: list[int] = field(default_factory=list)
    rounds: list[Round] = field(default_factory=list)
    text: str | None = None  # set when a stop string cuts it
    finish_reason: str | None = None

    @property
    def ids(self) -> list[int]:
        return self.prompt + self.tokens


def generate(
    target: Target,
    prompts: Prompt | Sequence[Prompt],
    drafter: Drafter | str | None = None,
    rule: str | Rule = "rejection",
    rule_params: Mapping[str, float] | None = None,
    num_speculative_tokens: int | Controller = 4,
    sampling: Sampling | None = None,
    max_new_tokens: int = 128,
    stop: str | Sequence[str] = (),
    ignore_eos: bool = False,
    seed: int | Sequence[int] = 0,
    chat: bool = True,
    cache_factory: Callable[[Target, int, int], SlotCache] | None = None,
    hooks: Hooks | None = None,
    prefix_cache: PrefixCache | None = None,
) -> Generation | list[Generation]:
    """Decode one prompt, or a batch of them with ragged acceptance; return a Generation, or a list of them.

    prompts: a string (one user turn on a chat model; raw text with ``chat=False``), a list of messages, a list of ids,
        or a list of any of these, which returns a list.
    drafter: None decodes plainly; a name that ``load_drafter`` knows; or a drafter.
    rule, rule_params: the verify rule (a name from RULES, or a Rule) and its parameters. The first token comes from the
        prefill and never passes it.
    num_speculative_tokens: k, 0 to 64, or a Controller that chooses it in each round.
    sampling: None is Sampling(): temperature 1.
    stop: strings that end the text. The tokens keep what completed the string; ``text`` ends before it.
    seed: sequence i gets ``seed + i``, or one seed each as a list. What a sequence says depends on its own seed only.
    cache_factory: (target, batch, capacity) → SlotCache.  hooks: see Hooks.
    prefix_cache: reuses the keys and values of texts decoded before. Not used with drafters that read hidden states.
    Raises ValueError for bad input, before anything is decoded.
    """
    engine = _Engine(
        target,
        prompts,
        drafter,
        rule=rule,
        rule_params=rule_params,
        num_speculative_tokens=num_speculative_tokens,
        sampling=sampling,
        max_new_tokens=max_new_tokens,
        stop=stop,
        ignore_eos=ignore_eos,
        seed=seed,
        chat=chat,
        cache_factory=cache_factory,
        hooks=hooks,
        prefix_cache=prefix_cache,
    )
    started = time.perf_counter()
    for _ in engine.rounds():
        pass
    seconds = time.perf_counter() - started
    found = [engine.generation(sequence, seconds) for sequence in engine.sequences]
    return found if engine.is_batch else found[0]


def stream(
    target: Target, prompts: Prompt | Sequence[Prompt], drafter: Drafter | str | None = None, **options
) -> Iterator[Round]:
    """As ``generate``, with the same options, but yields each Round as it happens.

    The prefill comes first, then one Round a live sequence and target call.
    """
    return _Engine(target, prompts, drafter, **options).rounds()


class _Engine:
    def __init__(
        self,
        target: Target,
        prompts: Prompt | Sequence[Prompt],
        drafter: Drafter | str | None = None,
        rule: str | Rule = "rejection",
        rule_params: Mapping[str, float] | None = None,
        num_speculative_tokens: int | Controller = 4,
        sampling: Sampling | None = None,
        max_new_tokens: int = 128,
        stop: str | Sequence[str] = (),
        ignore_eos: bool = False,
        seed: int | Sequence[int] = 0,
        chat: bool = True,
        cache_factory: Callable[[Target, int, int], SlotCache] | None = None,
        hooks: Hooks | None = None,
        prefix_cache: PrefixCache | None = None,
    ) -> None:
        if not isinstance(target, Target):
            raise ValueError(f"target must be what mt.load returned, not {type(target).__name__}")
        if target.model.training:
            raise ValueError(
                f"{target.name} is in training mode, where dropout makes it another model at each call: "
                "run target.model.eval() first"
            )
        self.target = target
        self.rule = get_rule(rule)
        if not isinstance(rule_params or {}, Mapping):
            raise ValueError(f"rule_params={rule_params!r}: use a dict of names and numbers such as {{'delta': 0.2}}")
        self.rule_params = self.rule.check_params(rule_params or {})
        self.controller = _controller(num_speculative_tokens)
        self.sampling = Sampling() if sampling is None else sampling
        if not isinstance(self.sampling, Sampling):
            raise ValueError(f"sampling must be an mt.Sampling, got {type(sampling).__name__}")
        if not _is_whole(max_new_tokens) or max_new_tokens < 1:
            raise ValueError(f"max_new_tokens={max_new_tokens!r}: use a whole number, 1 or more")
        self.max_new_tokens = int(max_new_tokens)
        stop = () if stop is None else stop
        self.stop = tuple(stop) if isinstance(stop, (list, tuple)) else (stop,)
        if any(not isinstance(text, str) or not text for text in self.stop):
            raise ValueError(f"stop={stop!r}: use a string that is not empty, or a list of those; () for none")
        self.eos_ids = frozenset() if ignore_eos else target.eos_ids
        self.hooks = Hooks() if hooks is None else hooks
        if not isinstance(self.hooks, Hooks):
            raise ValueError(f"hooks={hooks!r:.60}: use mt.Hooks() or an object of a class that extends it")
        self.drafter = load_drafter(drafter, target) if isinstance(drafter, str) else drafter
        if self.drafter is not None and (isinstance(drafter, type) or not hasattr(self.drafter, "propose")):
            raise ValueError(f"drafter={drafter!r:.60}: use None, a name that load_drafter knows, or what it returned")
        width = getattr(self.drafter, "vocab_size", None)
        if width not in (None, target.vocab_size):
            raise ValueError(
                f"the drafter has a vocabulary of {width} tokens, {target.name} one of "
                f"{target.vocab_size}: load a drafter for this target with mt.load_drafter(name, target)"
            )
        self.is_batch = _is_batch(prompts)
        prompts = list(prompts) if self.is_batch else [prompts]
        if not prompts:
            raise ValueError("the list of prompts is empty: give at least one")
        seeds = _seeds(seed, len(prompts))
        self.sequences = [
            _Sequence(i, target.encode(prompt, chat), generator(s, VERIFYING), generator(s, DRAFTING))
            for i, (prompt, s) in enumerate(zip(prompts, seeds, strict=True))
        ]
        self.live = list(self.sequences)
        room = max(len(s.prompt) for s in self.sequences) + min(max_new_tokens, 4096) + MAX_DRAFT + 1
        capacity = min(room, target.max_length + MAX_DRAFT + 1)
        if not (cache_factory is None or callable(cache_factory)):
            raise ValueError(f"cache_factory={cache_factory!r:.60}: use a function of (target, batch, capacity)")
        make = cache_factory or Target.new_cache
        self.cache = make(target, len(self.sequences), capacity)
        self._check_cache()
        self.prefix_cache = prefix_cache
        if prefix_cache is not None:
            if not isinstance(prefix_cache, PrefixCache):
                raise ValueError(f"prefix_cache={prefix_cache!r:.60}: use an mt.PrefixCache(), or None")
            prefix_cache.claim(target.model)
        self.layers = tuple(getattr(self.drafter, "needs_hidden", ()))
        if not all(_is_whole(layer) and -1 <= layer <= target.num_layers for layer in self.layers):
            raise ValueError(
                f"the drafter wants the hidden states of the layers {self.layers}; {target.name} has -1 (after the "
                f"final norm) and 0 (the embedding) to {target.num_layers}"
            )
        self.turn = object()  # marks the drafter while it works for this call

    def _check_cache(self) -> None:
        """Raise ValueError when what ``cache_factory`` made cannot hold this batch."""
        batch, layers = len(self.sequences), self.target.num_layers
        if not isinstance(self.cache, SlotCache) or (self.cache.batch, len(self.cache.layers)) != (batch, layers):
            raise ValueError(f"cache_factory must return a SlotCache for {batch} sequences and {layers} layers")
        if any(held >= len(s.prompt) for held, s in zip(self.cache.lengths, self.sequences, strict=True)):
            raise ValueError("cache_factory returned a cache that holds a text already: make a new one at each call")

    # -- The loop ---------------------------------------------------------------------------------------------------

    def rounds(self) -> Iterator[Round]:
        yield from self._prefill()
        while self.live:
            yield from self._round()

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
        nothing = torch.zeros(len(self.live), 0, dtype=torch.int64, device=self.target.device)
        # The first token is drawn plainly, whatever the rule: with an empty draft, rejection does just that.
        verdict, facts = self._judge(RULES["rejection"], {}, Draft.trusted(nothing), logits)
        rounds = self._record(before, list(self.cache.lengths), verdict, facts)
        clock.lap("elsewhere")
        if self.drafter is not None:
            hidden = self.hooks.hidden(hidden)
            self.drafter.turn = self.turn
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
            nothing = torch.zeros(len(self.live), 0, dtype=torch.int64, device=self.target.device)
            return Draft.trusted(nothing), [0] * len(self.live)
        if self.drafter.turn is not self.turn:
            raise ValueError(
                "this drafter was started for another text before this one ended, and has forgotten it: "
                "give each stream a drafter of its own"
            )
        wanted = self._wanted()
        uniforms = torch.zeros(len(wanted), max(wanted), dtype=torch.float64)
        for row, (sequence, k) in enumerate(zip(self.live, wanted, strict=True)):
            uniforms[row, :k] = torch.rand(k, generator=sequence.drafting, dtype=torch.float64)
        draft = self.drafter.propose(torch.tensor(wanted), self.sampling, uniforms.to(self.target.device))
        return draft, self._counted(draft, wanted)

    def _wanted(self) -> list[int]:
        """How many tokens each live sequence is to draft: the controller's choice, as far as the context reaches."""
        wanted = _plain(self.controller.choose([s.index for s in self.live]))
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
        lost = q.isnan().any(1, keepdim=True)  # the drafter's: a NaN makes its whole row NaN
        flags = [verdict.num_accepted[:, None], verdict.bonus[:, None], bad, lost]
        columns = [verdict.tokens, *flags, draft.tokens, p, q]
        packed = torch.cat([column.to(torch.float64) for column in columns], 1).cpu()
        parts = packed.split([column.shape[1] for column in columns], 1)
        if self.hooks.check_nan and bool(parts[3].any()):
            raise ValueError(
                f"{self.target.name} gave logits that make no distribution (NaN, +inf, or a row all -inf) after "
                f"{sum(len(s.tokens) for s in self.live)} new tokens: look for an overflow; a wider dtype may do"
            )
        if self.hooks.check_nan and bool(parts[4].any()):
            raise ValueError(
                "the drafter gave probabilities that hold NaN: look for an overflow in its model; a wider dtype may do"
            )
        host = Verdict(parts[0].long(), parts[1].long()[:, 0], parts[2].bool()[:, 0])
        draft_tokens, p, q = parts[5].long().tolist(), parts[6].tolist(), parts[7].tolist()
        return host, {"drafted": drafted, "tokens": draft_tokens, "p": p, "q": q, "uniforms": uniforms.tolist()}

    def _record(self, before: list[int], written: list[int], verdict: Verdict, facts: dict) -> list[Round]:
        """Emit the tokens, end texts, roll the cache back, and write down what happened."""
        emitted = [
            self._emit(s, [t for t in row if t >= 0]) for s, row in zip(self.live, verdict.tokens.tolist(), strict=True)
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

    def _emit(self, sequence: _Sequence, tokens: list[int]) -> int:
        """Append tokens until the text ends; return how many were."""
        for count, token in enumerate(tokens, 1):
            sequence.tokens.append(token)
            if self.hooks.ends(token, self.eos_ids):
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

    def _cut(self, sequence: _Sequence) -> str | None:
        """The text before the first stop string, or None when there is none."""
        text = self.target.decode(sequence.tokens)
        places = [place for place in map(text.find, self.stop) if place >= 0]
        return text[: min(places)] if places else None

    def _leave(self, rounds: list[Round], clock: _Clock) -> list[Round]:
        """File the rounds; sequences that ended leave the batch, and their committed tokens go to the prefix cache."""
        rounds = [clock.stamp(done) for done in rounds]
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

    def generation(self, sequence: _Sequence, seconds: float) -> Generation:
        text = self.target.decode(sequence.tokens) if sequence.text is None else sequence.text
        return Generation(
            tokens=list(sequence.tokens),
            text=text,
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

    def stamp(self, done: Round) -> Round:
        return replace(done, **{f"seconds_{name}": seconds for name, seconds in self.spent.items()})


class _Fixed:
    """The Controller behind a plain number."""

    def __init__(self, k: int) -> None:
        self.k = k

    def choose(self, sequences: Sequence[int]) -> list[int]:
        return [self.k] * len(sequences)

    def observe(self, rounds: Sequence[Round]) -> None:
        pass


def check_k(k: int) -> None:
    """Raise ValueError unless k is a draft length: 0 to 64."""
    if not _is_whole(k) or not 0 <= k <= MAX_DRAFT:
        raise ValueError(f"num_speculative_tokens={k!r}: use a whole number from 0 to {MAX_DRAFT}")


def _controller(k: int | Controller) -> Controller:
    if hasattr(k, "choose") and hasattr(k, "observe") and not isinstance(k, type):
        return k
    check_k(k)
    return _Fixed(int(k))


def _is_batch(prompts: Prompt | Sequence[Prompt]) -> bool:
    """True for a list of prompts, False for one: a string, a list of messages (dicts), or a list of ids."""
    if isinstance(prompts, (Tensor, np.ndarray)):
        return prompts.ndim == 2
    if isinstance(prompts, str):
        return False
    if not isinstance(prompts, (list, tuple)):
        raise ValueError(f"a prompt is a string, messages, or a list of ids; got {type(prompts).__name__}")
    return bool(prompts) and not isinstance(prompts[0], (dict, int, np.integer))


def _seeds(seed: int | Sequence[int], count: int) -> list[int]:
    seed = _plain(seed)
    if _is_whole(seed):
        return [int(seed) + i for i in range(count)]
    try:
        seeds = list(seed)
    except TypeError as error:
        raise ValueError(f"seed={seed!r}: use a whole number, or one for each prompt") from error
    if len(seeds) != count:
        raise ValueError(f"{len(seeds)} seeds for {count} prompts: give one each, or a single number")
    return seeds


def _is_whole(value: object) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def _plain(value: object) -> object:
    """Tensors and arrays as Python numbers or lists of them; anything else as it is."""
    return value.tolist() if hasattr(value, "tolist") else value


def _last_rows(hidden: Tensor, rows: Sequence[Sequence[int]]) -> Tensor:
    """(B, L, size) and the real rows of each sequence → (B, 1, size): the last real one."""
    last = torch.tensor([len(row) - 1 for row in rows], device=hidden.device)
    return hidden[torch.arange(len(rows), device=hidden.device), last][:, None]
