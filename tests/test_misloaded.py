"""Heads loaded wrongly: acceptance falls, the greedy text stays, and the law would show if it did not."""

import pytest
import torch

import mtp_tutorial as mt
from mtp_tutorial.lab import families, misloaded


@pytest.fixture(scope="module")
def nano():
    return mt.load("nano", dtype=torch.float64)


def test_a_wrong_head_costs_tokens_and_no_text(nano):
    found = {
        fault: misloaded.judge(nano, misloaded.drafter(fault, nano), ["[\n  {"], tokens=24, samples=400)
        for fault in ("right", "halves")
    }
    assert found["right"]["length"] > 2 > 1.4 > found["halves"]["length"]
    for one in found.values():
        assert one["same"] and one["p_value"] > 1e-4 > one["p_lossy"]


@pytest.mark.parametrize("fault", [name for name in misloaded.FAULTS if name != "right"])
def test_each_fault_changes_the_head_and_no_shape(nano, fault):
    right, wrong = (misloaded.drafter(name, nano).head.state_dict() for name in ("right", fault))
    assert {k: v.shape for k, v in right.items()} == {k: v.shape for k, v in wrong.items()}
    assert any(not torch.equal(right[name], wrong[name]) for name in right)


def test_the_library_refuses_a_head_of_another_target():
    with pytest.raises(ValueError, match="was trained for another target"):
        mt.load_drafter("mtp", misloaded.changed(0.1))
    with pytest.raises(ValueError, match="no fault 'x'; there are: right"):
        misloaded.drafter("x", None)


def test_a_tiny_model_is_the_same_each_time():
    one, two = (families.tiny_glm(3) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), two.parameters(), strict=True))
    assert not torch.equal(families.tiny_glm(4).lm_head.weight, one.lm_head.weight)
