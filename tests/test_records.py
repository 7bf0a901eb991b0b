"""The records check themselves, and rates are derived from the rounds."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import torch

from mtp_tutorial.records import KINDS, Draft, Generation, Round, Sampling, Verdict

# -- Sampling ---------------------------------------------------------------------------------------------------------


def test_sampling_leaves_the_models_distribution_alone_by_default():
    assert dataclasses.asdict(Sampling()) == {
        "temperature": 1.0,
        "top_k": 0,
        "top_p": 1.0,
        "min_p": 0.0,
        "repetition_penalty": 1.0,
        "frequency_penalty": 0.0,
        "presence_penalty": 0.0,
    }
    assert not Sampling().has_penalties


@pytest.mark.parametrize(
    "settings",
    [
        {"temperature": 0},
        {"temperature": 1e-300},
        {"temperature": np.float64(0.6)},
        {"top_k": 10**9},
        {"top_p": 1},
        {"top_p": 1e-300},
        {"min_p": 0},
        {"min_p": 1},
        {"repetition_penalty": 0.5},
        {"frequency_penalty": -2.0},
        {"presence_penalty": -2},
    ],
)
def test_the_ends_of_the_ranges_are_allowed(settings):
    Sampling(**settings)


@pytest.mark.parametrize("name", ["repetition_penalty", "frequency_penalty", "presence_penalty"])
def test_any_penalty_is_noticed(name):
    assert Sampling(**{name: 1.5}).has_penalties


NOT_NUMBERS = (math.nan, math.inf, -math.inf, True, "0.5", None, 10**400, 1j)
BAD_SAMPLING = [
    *[("temperature", value, "0 for greedy") for value in (-0.1, -1, *NOT_NUMBERS)],
    *[("top_k", value, "whole number; 0 keeps every token") for value in (-1, 1.0, 0.5, True, "3", None, math.nan)],
    *[("top_p", value, r"\(0, 1\]; 1 keeps every token") for value in (0, 0.0, -0.1, 1.0001, *NOT_NUMBERS)],
    *[("min_p", value, r"\[0, 1\]; 0 keeps every token") for value in (-0.1, 1.0001, *NOT_NUMBERS)],
    *[("repetition_penalty", value, "above 0; 1 is off") for value in (0, -1.0, *NOT_NUMBERS)],
    *[("frequency_penalty", value, "finite number; 0 is off") for value in NOT_NUMBERS],
    *[("presence_penalty", value, "finite number; 0 is off") for value in NOT_NUMBERS],
]


@pytest.mark.parametrize(("name", "value", "advice"), BAD_SAMPLING, ids=lambda x: str(x)[:20])
def test_a_setting_out_of_range_is_refused_with_its_value_and_what_would_do(name, value, advice):
    with pytest.raises(ValueError, match=advice) as error:
        Sampling(**{name: value})
    assert str(error.value).startswith(f"{name}={value!r}: use ")


def test_records_cannot_be_changed():
    for record in (
        Sampling(),
        Draft(torch.zeros(1, 1, dtype=torch.int64)),
        Round(0, 0, (), ()),
        Generation([], "", ()),
    ):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(record, dataclasses.fields(record)[0].name, None)
    assert dataclasses.is_dataclass(Verdict)


# -- Draft ------------------------------------------------------------------------------------------------------------


def ids(*rows):
    return torch.tensor(rows, dtype=torch.int64)


def test_a_draft_knows_how_many_tokens_each_row_drafts():
    assert Draft(ids([3, 4, 5], [3, -1, -1], [-1, -1, -1], [0, 0, -1])).lengths.tolist() == [3, 1, 0, 2]
    assert Draft(torch.zeros(2, 0, dtype=torch.int64)).lengths.tolist() == [0, 0]
    assert Draft(torch.zeros(0, 3, dtype=torch.int64)).lengths.tolist() == []


def test_a_draft_takes_a_tensor_of_probabilities_none_or_a_callable():
    tokens = ids([2, -1])
    assert Draft(tokens).probs is None
    Draft(tokens, torch.full((1, 2, 3), torch.nan))  # the values are the verify rule's to check
    Draft(tokens, torch.ones(1, 2, 3, dtype=torch.float16))
    Draft(tokens, lambda prefix: torch.ones(3) / 3)


THREE = torch.ones(2, 2, 3) / 3
BAD_DRAFTS = {
    "a list": ([[1, 2]], None, r"int64 tensor of shape \(B, k\), got list"),
    "one dimension": (torch.tensor([1, 2]), None, r"got \(2,\) torch.int64"),
    "other integers": (torch.ones(1, 2, dtype=torch.int32), None, r"got \(1, 2\) torch.int32"),
    "numbers that are not ids": (torch.ones(1, 2), None, r"got \(1, 2\) torch.float32"),
    "an id below -1": (ids([1, -2]), None, r"the id -2: use ids >= 0, or -1 for 'no draft here'"),
    "a gap": (ids([1, 2], [-1, 2]), None, r"token after a -1: -1 may only fill the end of a row"),
    "a gap before id 0": (ids([-1, 0]), None, r"token after a -1"),
    "a gap in the middle": (ids([1, -1, 2]), None, r"token after a -1"),
    "probs of another batch": (ids([1, 2]), THREE, r"\(1, 2, 'V'\), got \(2, 2, 3\)"),
    "probs of another length": (ids([1], [2]), THREE, r"\(2, 1, 'V'\), got \(2, 2, 3\)"),
    "probs by token only": (ids([1, 2], [0, 1]), torch.ones(2, 2), r"\(2, 2, 'V'\), got \(2, 2\)"),
    "probs as a list": (ids([1]), [[[0.5, 0.5]]], r"\(1, 1, 'V'\), got list"),
    "integer probs": (ids([1]), torch.ones(1, 1, 3, dtype=torch.int64), r"floating point, got torch.int64"),
    "an id past the vocabulary": (ids([1, 3], [0, 0]), THREE, r"the id 3, but Draft.probs has a vocabulary of 3"),
}


@pytest.mark.parametrize("what", BAD_DRAFTS)
def test_a_bad_draft_is_refused_with_what_was_given(what):
    tokens, probs, message = BAD_DRAFTS[what]
    with pytest.raises(ValueError, match=message):
        Draft(tokens, probs)


def test_a_trusted_draft_is_the_same_record_unchecked():
    tokens, probs = ids([1, -1]), torch.ones(1, 2, 3) / 3
    trusted = Draft.trusted(tokens, probs)
    assert isinstance(trusted, Draft) and trusted.tokens is tokens and trusted.probs is probs
    assert trusted.lengths.tolist() == [1]
    assert Draft.trusted(ids([-1, 1])).probs is None


# -- Round and Generation ---------------------------------------------------------------------------------------------


def rounds():
    """Prefill; two drafted, one accepted; two drafted, both accepted; nothing drafted."""
    return (
        Round(0, 0, (7,), ("prefill",), seconds_verifying=1.0),
        Round(0, 1, (1, 2), ("accepted", "recovered"), draft_tokens=(1, 9), num_accepted=1, seconds_drafting=0.25),
        Round(0, 2, (3, 4, 5), ("accepted", "accepted", "bonus"), draft_tokens=(3, 4), num_accepted=2),
        Round(0, 3, (6,), ("plain",), seconds_elsewhere=0.5),
    )


def test_rates_are_derived_from_the_rounds():
    g = Generation([7, 1, 2, 3, 4, 5, 6], "text", rounds())
    assert g.target_calls == 4
    assert (g.num_accepted, g.num_drafted, g.acceptance_rate) == (3, 4, 0.75)
    assert g.mean_acceptance_length == 2.0  # six tokens in three rounds: the prefill belongs to no rate
    assert g.acceptance_by_position == [1.0, 0.5]
    assert g.kinds == ["prefill", "accepted", "recovered", "accepted", "accepted", "bonus", "plain"]
    assert set(g.kinds) == set(KINDS)


def test_a_round_says_what_it_was():
    prefill, second, third, plain = rounds()
    assert prefill.is_prefill and not second.is_prefill
    assert [r.bonus for r in rounds()] == [False, False, True, False]
    assert [r.num_drafted for r in rounds()] == [0, 2, 2, 0]
    assert (prefill.seconds, second.seconds, plain.seconds) == (1.0, 0.25, 0.5)


def test_rates_without_a_draft_or_a_round_are_not_numbers():
    nothing = Generation([], "", ())
    assert math.isnan(nothing.acceptance_rate) and math.isnan(nothing.mean_acceptance_length)
    assert nothing.target_calls == 0 and nothing.acceptance_by_position == [] and nothing.kinds == []
    plain = Generation([7, 6], "", (rounds()[0], rounds()[3]))
    assert math.isnan(plain.acceptance_rate) and plain.mean_acceptance_length == 1.0


def test_a_round_cut_short_by_the_end_of_the_text_counts_what_was_emitted():
    cut = Round(0, 1, (1, 2), ("accepted", "accepted"), draft_tokens=(1, 2), num_accepted=2)
    assert not cut.bonus and cut.num_drafted == 2
    g = Generation([7, 1, 2], "", (rounds()[0], cut))
    assert g.acceptance_rate == 1.0 and g.mean_acceptance_length == 2.0
