"""Drafters: what they propose, and that their own caches are right after every roll-back."""

from __future__ import annotations

import copy
import warnings

import pytest
import torch
from helpers import STEADY
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from tiny import Calls, Watch, fresh_prefill, tiny, worst

import mtp_tutorial as mt
from mtp_tutorial.drafters import DRAFTERS
from mtp_tutorial.models import toys, wrap
from mtp_tutorial.models.toys import random_toy
from mtp_tutorial.sampling import inverse_cdf

GREEDY = mt.Sampling(temperature=0)
TOY = random_toy(6, order=2, seed=1)


def said(*rows: list[int]) -> mt.Verdict:
    """What a drafter is told: these tokens, of which all but the last were accepted."""
    width = max(map(len, rows))
    tokens = torch.tensor([row + [-1] * (width - len(row)) for row in rows])
    return mt.Verdict(tokens, torch.tensor([len(row) - 1 for row in rows]), torch.zeros(len(rows), dtype=torch.bool))


def first_said(token: int, batch: int = 1) -> mt.Verdict:
    return mt.Verdict(
        torch.full((batch, 1), token), torch.zeros(batch, dtype=torch.int64), torch.zeros(batch, dtype=torch.bool)
    )


# -- N-gram ---------------------------------------------------------------------------------------------------------


def ngram(text: list[int], k: int = 4, **options) -> list[int]:
    """What prompt lookup drafts after ``text``."""
    drafter = mt.load_drafter("ngram", random_toy(10, order=1), **options)
    drafter.start(drafter.target, [text[:-1]], ())
    drafter.commit(first_said(text[-1]), ())
    return drafter.propose(torch.tensor([k]), GREEDY, torch.zeros(1, k)).tokens[0].tolist()


def test_ngram_drafts_what_followed_the_same_words():
    assert ngram([1, 2, 3, 4, 5, 1, 2, 3]) == [4, 5, 1, 2]
    assert ngram([1, 2, 3, 4, 5, 1, 2, 3], k=2) == [4, 5]


def test_ngram_prefers_the_longest_match():
    # 3 was last followed by 9, but "2 3" by 4.
    text = [1, 2, 3, 4, 7, 3, 9, 2, 3]
    assert ngram(text, k=1, max_ngram=3) == [4]
    assert ngram(text, k=1, max_ngram=1) == [9]


def test_of_several_places_ngram_takes_the_latest():
    assert ngram([5, 1, 5, 2, 5, 3, 5], k=1) == [3]


def test_ngram_drafts_fewer_at_the_end_of_the_text_and_nothing_without_a_match():
    assert ngram([1, 2, 1], k=4) == [2, 1]
    assert ngram([7, 7], k=4) == [7]
    assert ngram([1, 2, 3], k=4) == []
    assert ngram([1], k=4) == []


def test_ngram_needs_at_least_min_ngram_words_in_common():
    text = [1, 2, 9, 3, 2]
    assert ngram(text, k=1, min_ngram=1) == [9]
    assert ngram(text, k=1, min_ngram=2) == []


@settings(STEADY, max_examples=150)
@given(
    st.lists(st.integers(0, 3), min_size=2, max_size=30), st.integers(0, 6), st.integers(1, 4), st.integers(0, 3),
    st.integers(1, 29),
)  # fmt: skip
def test_ngram_finds_what_a_slow_search_finds(text, k, smallest, more, cut):
    cut = min(cut, len(text) - 1)
    drafter = mt.load_drafter("ngram", random_toy(4, order=1), min_ngram=smallest, max_ngram=smallest + more)
    drafter.start(drafter.target, [text[:cut]], ())
    for token in text[cut:]:  # the text grows as rounds go by
        drafter.commit(first_said(token), ())
    expected: list[int] = []
    for size in range(smallest + more, smallest - 1, -1):
        starts = [i for i in range(len(text) - size) if text[i : i + size] == text[-size:]]
        if starts and len(text) >= size:
            expected = text[starts[-1] + size :][:k]
            break
    draft = drafter.propose(torch.tensor([k]), GREEDY, torch.zeros(1, k))
    assert draft.tokens[0].tolist() == expected and draft.probs is None


def test_ngram_keeps_sequences_apart_and_follows_those_that_stay():
    drafter = mt.load_drafter("ngram", random_toy(10, order=1))
    drafter.start(drafter.target, [[1, 2, 1], [3, 4, 5], [6, 7, 6]], ())
    drafter.commit(said([2], [3], [7]), ())
    k = torch.tensor([2, 2, 1])
    assert drafter.propose(k, GREEDY, torch.zeros(3, 2)).tokens.tolist() == [[1, 2], [4, 5], [6, -1]]
    drafter.keep([2, 0])
    assert drafter.propose(k[:2], GREEDY, torch.zeros(2, 2)).tokens.tolist() == [[6, 7], [1, 2]]


# -- Oracle ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("accuracy", [0.0, 0.2, 0.5, 0.9, 1.0])
def test_the_oracle_is_right_as_often_as_it_was_told(accuracy):
    drafter = mt.load_drafter("oracle", TOY, accuracy=accuracy)
    k = 1  # so that each draft token is a trial of its own
    found = mt.generate(TOY, [[1, 2]] * 60, drafter, num_speculative_tokens=k, sampling=GREEDY, max_new_tokens=60)
    tried, right = sum(g.num_drafted for g in found), sum(g.num_accepted for g in found)
    assert tried > 1500
    assert stats.binomtest(right, tried, accuracy).pvalue > 1e-4
    if 0 < accuracy < 1:  # the bound is tight enough to tell a slider that is off by a tenth
        assert stats.binomtest(right, tried, accuracy - 0.1).pvalue < 1e-4


def test_the_oracles_draft_is_right_until_its_first_mistake():
    drafter = mt.load_drafter("oracle", TOY, accuracy=0.7)
    found = mt.generate(TOY, [[1, 2]] * 100, drafter, num_speculative_tokens=4, sampling=GREEDY, max_new_tokens=30)
    whole = [r for g in found for r in g.rounds[1:-1]]
    assert all(r.num_drafted == 4 for r in whole)
    lengths = [r.num_accepted for r in whole]
    for n in range(5):
        p = 0.7**n * (0.3 if n < 4 else 1)
        assert stats.binomtest(lengths.count(n), len(lengths), p).pvalue > 1e-4


def test_the_oracle_replays_what_it_is_given_for_all_or_for_each():
    plain = mt.generate(TOY, [[1, 2], [3, 4]], sampling=GREEDY, max_new_tokens=12)
    for each in (plain, [g.tokens for g in plain], [torch.tensor(g.tokens) for g in plain]):
        drafter = mt.load_drafter("oracle", TOY, continuation=each)
        fast = mt.generate(TOY, [[1, 2], [3, 4]], drafter, sampling=GREEDY, max_new_tokens=12)
        assert all(g.acceptance_rate == 1 for g in fast)
    for one in (plain[0], plain[0].tokens, torch.tensor(plain[0].tokens)):
        drafter = mt.load_drafter("oracle", TOY, continuation=one)
        fast = mt.generate(TOY, [[1, 2], [1, 2]], drafter, sampling=GREEDY, max_new_tokens=12)
        assert all(g.acceptance_rate == 1 for g in fast)


def test_the_oracle_drafts_nothing_when_its_recording_is_over():
    plain = mt.generate(TOY, [1, 2], sampling=GREEDY, max_new_tokens=12)
    drafter = mt.load_drafter("oracle", TOY, continuation=plain.tokens[:6])
    fast = mt.generate(TOY, [1, 2], drafter, sampling=GREEDY, max_new_tokens=12)
    assert fast.tokens == plain.tokens
    assert [r.num_drafted for r in fast.rounds] == [0, 4, *[0] * 6]
    empty = mt.load_drafter("oracle", TOY, continuation=[])
    assert mt.generate(TOY, [1, 2], empty, sampling=GREEDY, max_new_tokens=12).num_drafted == 0


@pytest.mark.parametrize("accuracy", [-0.1, 1.1, float("nan"), "1", True])
def test_an_accuracy_that_is_no_probability_is_refused(accuracy):
    with pytest.raises(ValueError, match="from 0 to 1"):
        mt.load_drafter("oracle", TOY, accuracy=accuracy)


@pytest.mark.parametrize("continuation", [[6], [0, -1], [0.5], "the cat", 3, [[1], [2]], [None]])
def test_a_recording_that_cannot_be_replayed_is_refused(continuation):
    drafter = mt.load_drafter("oracle", TOY, continuation=continuation)
    with pytest.raises(ValueError, match="oracle"):
        mt.generate(TOY, [1, 2], drafter, max_new_tokens=4)


# -- Draft model ----------------------------------------------------------------------------------------------------


class Witness:
    """A draft-model drafter beside one that starts from scratch in each round: both must draft the same."""

    needs_hidden = ()

    def __init__(self, drafter, temperature: float) -> None:
        self.drafter, self.temperature, self.largest = drafter, temperature, 0.0
        self.vocab_size = drafter.vocab_size

    def start(self, target, prompts, hidden) -> None:
        self.drafter.start(target, prompts, hidden)

    def propose(self, k, sampling, uniforms):
        draft = self.drafter.propose(k, sampling, uniforms)
        model = self.drafter.model.model
        for row, want in enumerate(k.tolist()):
            text, tokens = list(self.drafter.texts[row]), []
            for step in range(want):
                with torch.no_grad():
                    logits = model(input_ids=torch.tensor([text])).logits[0, -1]
                shape = mt.Sampling(temperature=self.temperature)
                probs = mt.probabilities(logits, shape)
                token = int(probs.argmax() if self.temperature == 0 else inverse_cdf(probs, uniforms[row, step]))
                if draft.probs is not None:
                    self.largest = max(self.largest, float((draft.probs[row, step] - probs).abs().max()))
                text.append(token)
                tokens.append(token)
            assert draft.tokens[row].tolist() == tokens + [-1] * (draft.tokens.shape[1] - want)
        return draft

    def commit(self, verdict, hidden) -> None:
        self.drafter.commit(verdict, hidden)
        self.check()

    def keep(self, rows) -> None:
        self.drafter.keep(rows)
        self.check()

    def check(self) -> None:
        """What its cache holds is what reading the text afresh would put there."""
        cache = self.drafter.cache
        for row, text in enumerate(self.drafter.texts):
            length = cache.lengths[row]
            assert length < len(text)
            self.largest = max(self.largest, worst(cache.read(row), fresh_prefill(self.drafter.model, text[:length])))


class Cycling:
    def __init__(self, lengths) -> None:
        self.lengths, self.calls = lengths, 0

    def choose(self, sequences):
        self.calls += 1
        return [self.lengths[(self.calls + i) % len(self.lengths)] for i in sequences]

    def observe(self, rounds):
        pass


@pytest.mark.parametrize("temperature", [0.0, 0.7])
@pytest.mark.parametrize("draft_seed", [0, 1], ids=["self-draft", "another model"])
def test_the_draft_models_cache_is_right_after_every_round(draft_seed, temperature):
    target, model = tiny(), tiny(seed=draft_seed)
    witness = Witness(mt.load_drafter("draft", target, model=model, temperature=temperature), temperature)
    found = mt.generate(
        target, [[3, 4, 5, 6], [7], [8, 9, 3]], witness, num_speculative_tokens=Cycling([3, 0, 1, 4]),
        sampling=mt.Sampling(temperature=0.5), max_new_tokens=18, seed=6,
    )  # fmt: skip
    rounds = [r for g in found for r in g.rounds]
    assert any(r.bonus for r in rounds) or draft_seed  # all accepted: the cache then lacks the last draft token
    assert any(r.num_accepted < r.num_drafted for r in rounds) or not draft_seed
    assert witness.largest < 1e-12


def test_after_an_all_accepted_round_the_missing_token_is_read_with_the_next():
    target = tiny()
    drafter = mt.load_drafter("draft", target, model=target)
    with Calls(target) as calls:
        g = mt.generate(target, [3, 4, 5], drafter, num_speculative_tokens=3, sampling=GREEDY, max_new_tokens=9)
    assert [r.num_accepted for r in g.rounds] == [0, 3, 3]
    # The prompt twice; then each round three calls of the draft model and one of the target. After the first round all
    # was accepted, so the second begins with two tokens: the last draft token, which was never fed, and the bonus.
    assert calls.widths == [3, 3, 1, 1, 1, 4, 2, 1, 1, 4]


@pytest.mark.parametrize("temperature,expected", [(0.0, None), (0.7, 0.7), ("same", 0.3)])
def test_a_sampled_draft_records_what_it_was_drawn_from(temperature, expected):
    other = random_toy(6, order=2, seed=2)
    watch = Watch()
    drafter = mt.load_drafter("draft", TOY, model=other, temperature=temperature)
    sampling = mt.Sampling(temperature=0.3, top_k=4)
    mt.generate(TOY, [1, 2], drafter, sampling=sampling, max_new_tokens=8, hooks=watch)
    for _, draft, *_ in watch.seen[1:]:
        if expected is None:
            assert draft.probs is None
        else:
            # It takes the request's cuts, at its own temperature.
            assert (draft.probs > 0).sum(-1).max() <= 4
    if expected is not None:
        text = [1, 2, int(watch.seen[0][4].tokens[0, 0])]
        logits = other.model(input_ids=torch.tensor([text])).logits[0, -1]
        shape = mt.Sampling(temperature=expected, top_k=4)
        assert torch.equal(watch.seen[1][1].probs[0, 0], mt.probabilities(logits, shape))


def test_the_same_temperature_as_a_greedy_request_drafts_greedily():
    watch = Watch()
    drafter = mt.load_drafter("draft", TOY, model=random_toy(6, order=2, seed=2), temperature="same")
    mt.generate(TOY, [1, 2], drafter, sampling=GREEDY, max_new_tokens=8, hooks=watch)
    assert all(draft.probs is None for _, draft, *_ in watch.seen)


def test_a_self_draft_is_always_accepted():
    for temperature, sampling in (
        (0, GREEDY),
        ("same", mt.Sampling(temperature=0.8)),
        ("same", mt.Sampling(top_p=0.7)),
    ):
        drafter = mt.load_drafter("draft", TOY, model=TOY, temperature=temperature)
        for rule in ("rejection", "block"):
            assert mt.generate(TOY, [1, 2], drafter, rule, sampling=sampling, max_new_tokens=30).acceptance_rate == 1


def test_a_transformers_model_can_be_the_draft_model():
    target = tiny()
    drafter = mt.load_drafter("draft", target, model=tiny(seed=1).model)
    plain = mt.generate(target, [3, 4], sampling=GREEDY, max_new_tokens=8)
    assert mt.generate(target, [3, 4], drafter, sampling=GREEDY, max_new_tokens=8).tokens == plain.tokens


def test_a_drafter_can_be_used_again():
    for name, options in (("ngram", {}), ("oracle", {"accuracy": 0.5}), ("draft", {"model": random_toy(6, seed=2)})):
        drafter = mt.load_drafter(name, TOY, **options)
        first = mt.generate(TOY, [[1, 2], [3]], drafter, max_new_tokens=9)
        mt.generate(TOY, [[5]], drafter, max_new_tokens=3)
        again = mt.generate(TOY, [[1, 2], [3]], drafter, max_new_tokens=9)
        assert [g.tokens for g in again] == [g.tokens for g in first]


# -- Loading --------------------------------------------------------------------------------------------------------


def test_drafters_say_what_the_loop_needs_to_know():
    for name, options in (("ngram", {}), ("oracle", {}), ("draft", {"model": TOY})):
        drafter = mt.load_drafter(name, TOY, **options)
        assert isinstance(drafter, DRAFTERS[name]) and drafter.needs_hidden == ()
        assert drafter.vocab_size in (None, 6)


@pytest.mark.parametrize(
    "name,options,message",
    [
        ("no such drafter", {}, "known: ngram, draft, oracle"),
        (["ngram"], {}, "known: ngram, draft, oracle"),
        ("ngram", {"max_gram": 3}, "max_gram"),
        ("ngram", {"max_ngram": 2.5}, "ngram"),
        ("ngram", {"max_ngram": 1, "min_ngram": 2}, "1 <= min_ngram <= max_ngram"),
        ("ngram", {"min_ngram": 0}, "1 <= min_ngram <= max_ngram"),
        ("oracle", {"accurracy": 1}, "accurracy"),
        ("draft", {}, "no draft model for random toy .*pass model="),
        ("draft", {"model": 5}, "named by a string"),
        ("draft", {"model": TOY, "temperature": -1}, "temperature=-1"),
        ("draft", {"model": TOY, "temperature": "warm"}, "temperature='warm'"),
        ("draft", {"model": random_toy(5)}, "vocabulary of 5 tokens, random toy .* one of 6"),
        ("draft", {"model": tiny()}, "vocabulary of 24 tokens"),
    ],
)
def test_loading_says_what_is_wrong(name, options, message):
    with pytest.raises(ValueError, match=message):
        mt.load_drafter(name, TOY, **options)


def test_a_draft_model_that_numbers_the_words_differently_is_refused():
    words = [f"t{i}" for i in (1, 0, 2, 3, 4, 5)]
    swapped = toys.make("swapped", words, TOY.model.table)
    with pytest.raises(
        ValueError, match=r"swapped and random toy .* number the token 't[01]' differently \([01] and [01]\)"
    ):
        mt.load_drafter("draft", TOY, model=swapped)


def test_a_drafter_is_made_for_a_target():
    with pytest.raises(ValueError, match="pass what mt.load returned"):
        mt.load_drafter("ngram", "toy")


# -- A draft model with a shorter context than its target --------------------------------------------------------------


@pytest.fixture
def short():
    """The tiny target's own weights, made for texts of 24 tokens (the target reads 160)."""
    model = copy.deepcopy(tiny().model)
    model.config.max_position_embeddings = 24
    return wrap(model, name="short")


def texts(*lengths: int) -> list[list[int]]:
    return [[3 + (7 * i + length) % 20 for i in range(length)] for length in lengths]


def test_a_draft_model_stops_where_its_context_ends(short):
    (prompt,) = texts(18)
    drafter = mt.load_drafter("draft", tiny(), model=short)
    options = {"sampling": GREEDY, "max_new_tokens": 40, "ignore_eos": True}
    with pytest.warns(UserWarning, match="context of 24 tokens.*without drafts") as caught:
        found = mt.generate(tiny(), prompt, drafter, num_speculative_tokens=4, **options)
    assert len(caught) == 1 and found.tokens == mt.generate(tiny(), prompt, **options).tokens
    assert found.acceptance_rate == 1.0  # the same weights: only a clamped position could make it guess otherwise
    length = len(prompt) + 1
    for one in found.rounds[1:]:  # the last draft token is never read, so it may be the 25th
        assert one.num_drafted == max(min(4, 25 - length), 0)
        length += len(one.tokens)
    assert length == 58


def test_sequences_beyond_a_draft_models_context_leave_the_others_drafting(short):
    prompts = texts(30, 4, 20)
    drafter = mt.load_drafter("draft", tiny(), model=short, temperature=1.0)
    options = {"max_new_tokens": 12, "ignore_eos": True, "seed": [5, 6, 7]}
    with Calls(short) as calls, pytest.warns(UserWarning, match="context") as caught:
        found = mt.generate(tiny(), prompts, drafter, **options)
    assert len(caught) == 1 and max(calls.widths) == 20
    drafted = [[one.num_drafted for one in g.rounds[1:]] for g in found]
    assert not any(drafted[0]) and all(drafted[1][:-1])
    assert drafted[2][0] == 4 and not drafted[2][-1]
    for prompt, seed, together in zip(prompts, options["seed"], found, strict=True):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            alone = mt.generate(tiny(), prompt, drafter, **{**options, "seed": [seed]})
        assert alone.tokens == together.tokens


def test_a_draft_model_that_no_prompt_fits_is_never_run(short):
    drafter = mt.load_drafter("draft", tiny(), model=short)
    with Calls(short) as calls, pytest.warns(UserWarning, match="context"):
        found = mt.generate(tiny(), texts(25, 40), drafter, sampling=GREEDY, max_new_tokens=6, ignore_eos=True)
    assert not calls.ids and not any(g.num_drafted for g in found)
    with warnings.catch_warnings():  # a text that stays within the context says nothing
        warnings.simplefilter("error")
        mt.generate(tiny(), texts(18)[0], drafter, sampling=GREEDY, max_new_tokens=6, ignore_eos=True)
