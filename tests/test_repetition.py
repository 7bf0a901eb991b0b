"""Measures of repetition: by hand on small texts, and against slow definitions on random ones."""

from __future__ import annotations

import functools
import itertools

import numpy as np
import pytest
import torch
from helpers import STEADY
from hypothesis import given
from hypothesis import strategies as st

import mtp_tutorial as mt
from mtp_tutorial.lab import repetition as rep

IDS = st.lists(st.integers(0, 3), max_size=24)


def test_n_grams_by_hand():
    ids = [1, 2, 3, 1, 2, 3, 4]  # 123 231 312 123 234
    assert rep.seq_rep_n(ids, 3) == pytest.approx(1 / 5)
    assert rep.distinct_n(ids, 3) == pytest.approx(4 / 5)
    assert rep.seq_rep_n([7] * 10, 4) == pytest.approx(6 / 7)
    assert rep.seq_rep_n([1, 2], 3) == 0 and rep.seq_rep_n([], 1) == 0
    assert rep.distinct_n([1, 2], 3) == 1


@pytest.mark.parametrize(
    "measure", [lambda x: rep.seq_rep_n(x, 2), rep.longest_repeat, lambda x: rep.tail_loop(x, 1, 3, 2)]
)
def test_tensors_arrays_tuples_and_text_read_alike(measure):
    """A tensor's numbers are not equal as keys of a set: read as they come, they would never repeat."""
    ids = [1, 2, 1, 2, 1, 2]
    found = [measure(x) for x in (ids, tuple(ids), torch.tensor(ids), np.array(ids), "ababab", ["a", "b"] * 3)]
    assert found == [found[0]] * len(found)


@STEADY
@given(IDS, st.integers(1, 4))
def test_the_two_shares_add_up_and_a_marked_place_has_said_it_before(ids, n):
    assert rep.seq_rep_n(ids, n) + rep.distinct_n(ids, n) == pytest.approx(1)
    marked = rep.repeated_places(ids, n)
    for place in range(len(ids)):
        grams = [start for start in range(place - n + 1, place + 1) if 0 <= start <= len(ids) - n]
        before = [any(ids[e : e + n] == ids[start : start + n] for e in range(start)) for start in grams]
        assert marked[place] is any(before)


@STEADY
@given(IDS)
def test_longest_repeat_against_all_pairs(ids):
    slow = 0
    for a, b in itertools.combinations(range(len(ids)), 2):
        same = 0
        while b + same < len(ids) and ids[a + same] == ids[b + same]:
            same += 1
        slow = max(slow, same)
    found = rep.longest_repeat(ids)
    assert found.length == rep.longest_repeated_substring(ids) == slow
    if slow:
        assert found.first < found.second
        assert ids[found.first : found.first + slow] == ids[found.second : found.second + slow]


@STEADY
@given(IDS)
def test_of_several_longest_repeats_the_one_that_is_over_first_is_named(ids):
    found = rep.longest_repeat(ids)
    stretches = [tuple(ids[i : i + found.length]) for i in range(len(ids) - found.length + 1)]
    if found.length:
        assert found.second == min(i for i, one in enumerate(stretches) if one in stretches[:i])
        assert found.first == stretches.index(stretches[found.second])


def test_long_texts_are_measured():
    """Each n-gram written out, these would take from gigabytes to a terabyte."""
    ids = np.random.default_rng(0).permutation(1_500_000)  # more items than Unicode has characters
    ids[900_000:901_000] = ids[300_000:301_000]
    assert rep.longest_repeat(ids) == rep.Repeat(1000, 300_000, 900_000)
    assert rep.longest_repeat("ab" * 100_000) == rep.Repeat(199_998, 0, 2)
    assert rep.seq_rep_n("ab" * 100_000, 50_000) == pytest.approx(1 - 2 / 150_001)
    assert sum(rep.repeated_places("ab" * 100_000, 50_000)) == 199_998


@STEADY
@given(IDS, st.integers(1, 4), st.integers(0, 6), st.integers(1, 4))
def test_tail_loops_against_the_definition(ids, low, more, repeats):
    periods = [
        p
        for p in range(low, low + more + 1)
        if repeats * p <= len(ids) and all(ids[i] == ids[i + p] for i in range(len(ids) - repeats * p, len(ids) - p))
    ]
    found = rep.has_tail_loop(ids, low, low + more, repeats)
    assert type(found) is bool and found is bool(periods)
    loop = rep.tail_loop(ids, low, low + more, repeats)
    if loop is not None:
        assert loop.period == periods[0] and loop.repeats >= repeats
        assert all(ids[i] == ids[i + loop.period] for i in range(loop.start, len(ids) - loop.period))


def test_a_loop_must_be_at_the_end_and_long_enough():
    looping = [9, 1, 2, 3, 1, 2, 3, 1, 2, 3]
    assert rep.tail_loop(looping, 1, 8, 3) == rep.Loop(3, 1, 3.0)
    assert not rep.has_tail_loop(looping, 1, 8, 4)
    assert not rep.has_tail_loop([*looping, 5], 1, 8, 3)
    assert not rep.has_tail_loop(looping, 1, 2, 3)  # the period is out of range
    assert rep.has_tail_loop([5] * 12, 4, 64, 3) and not rep.has_tail_loop([1, 2, 5, 5, 5], 4, 64, 3)
    assert rep.tail_loop([1, 2, 3, 1, 2, 3, 1, 2], 1, 8, 2) == rep.Loop(3, 0, 8 / 3)


def test_sentences_end_where_a_reader_ends_them():
    text = 'He said "no." Then 3.5 km, e.g.x.y, later… Done!\nNext line\n\nlast “好。”他走了。'
    assert rep.sentences(text) == [
        'He said "no."', "Then 3.5 km, e.g.x.y, later…", "Done!", "Next line", "last “好。”他走了。"
    ]  # fmt: skip
    assert rep.sentences("") == [] and rep.sentences(" \n ") == []


def test_the_share_of_repeated_sentences():
    assert rep.repeated_sentence_share("A b. A b. A b. C.") == pytest.approx(2 / 3)
    assert rep.repeated_sentence_share("A b. C. A b. C.") == 0  # said again, but not one after the other
    assert rep.repeated_sentence_share("A b.  A\tb.") == 1
    assert rep.repeated_sentence_share("") == rep.repeated_sentence_share("one") == 0
    assert rep.repeated_sentence_share(rep.split_ids([5, 0, 5, 0, 6, 0, 6], {0})) == pytest.approx(1 / 3)
    assert rep.split_ids([0, 5, 0], {0}) == [(0,), (5, 0)] and rep.split_ids([], {0}) == []


def test_words_for_n_grams_of_text():
    assert rep.words("It's 3.5 — 你好, you_too") == ["it", "'", "s", "3", ".", "5", "—", "你", "好", ",", "you_too"]
    assert rep.seq_rep_n(rep.words("go home now. Go home later."), 2) == pytest.approx(1 / 7)


def test_longer_texts_repeat_more_and_windows_of_one_length_do_not():
    """The reason for fixed windows: the same source, twice the length, another number."""
    ids = np.random.default_rng(0).integers(0, 12, 4096)
    short, long = rep.seq_rep_n(ids[:256], 3), rep.seq_rep_n(ids, 3)
    assert long > short + 0.4
    windows = rep.by_window(functools.partial(rep.seq_rep_n, n=3), ids, 256)
    assert len(windows) == 16 and max(windows) < long - 0.3
    with pytest.raises(ValueError, match="do not fill a window of 5000"):
        rep.by_window(len, ids, 5000)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: rep.seq_rep_n([1], 0), "n=0: use a whole number"),
        (lambda: rep.distinct_n([1], 1.5), "n=1.5"),
        (lambda: rep.seq_rep_n(7, 2), "got int"),
        (lambda: rep.seq_rep_n([[1, 2], [3, 4]], 2), "several texts"),
        (lambda: rep.seq_rep_n({1, 2}, 2), "got set"),
        (lambda: rep.has_tail_loop([1], 0, 2, 2), "min_period=0"),
        (lambda: rep.has_tail_loop([1], 3, 2, 2), "min_period=3, max_period=2"),
        (lambda: rep.has_tail_loop([1], 1, 2, 0), "repeats=0"),
        (lambda: rep.sentences([1, 2]), "split_ids"),
    ],
)
def test_bad_input(call, said):
    with pytest.raises(ValueError, match=said):
        call()


def test_the_names_that_outside_checks_call():
    assert mt.lab.repetition.seq_rep_n([1, 1, 1], 1) == pytest.approx(2 / 3)
    assert mt.lab.repetition.has_tail_loop([1, 2, 1, 2], 1, 2, 2) is True
