"""What a call costs: the bytes are counted exactly; of the clock only what holds on any machine is asked."""

import pytest
import torch
from tiny import Calls, tiny

import mtp_tutorial as mt
from mtp_tutorial.lab import bench


def test_bandwidth_has_its_range_and_leaves_the_threads_alone():
    before = torch.get_num_threads()
    found = bench.memory_bandwidth(megabytes=1, repeats=3, threads=1)
    assert 0 < found["lowest"] <= found["gb_per_s"] <= found["highest"]
    assert (found["megabytes"], found["threads"], found["device"]) == (1, 1, "cpu")
    assert torch.get_num_threads() == before


def test_bandwidth_is_bytes_over_the_median_second(monkeypatch):
    ticks = iter([0, 9, 10, 10.5, 20, 20.25, 30, 30.125])  # one walk to warm up, then 1/2, 1/4 and 1/8 of a second
    monkeypatch.setattr(bench.cost.time, "perf_counter", lambda: next(ticks))
    found = bench.memory_bandwidth(megabytes=2, repeats=3)
    assert [found[key] for key in ("lowest", "gb_per_s", "highest")] == pytest.approx([0.004, 0.008, 0.016])


@pytest.mark.parametrize("tied", [True, False])
def test_weights_are_counted_once_and_a_looked_up_embedding_not(tied):
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=50, hidden_size=8, intermediate_size=12, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=1, tie_word_embeddings=tied, pad_token_id=0,
    )  # fmt: skip
    target = mt.models.wrap(LlamaForCausalLM(config).double(), name="tiny")
    matrices = 8 * 8 + 8 * 4 * 2 + 8 * 8 + 3 * 8 * 12  # q, k and v, o, the three of the MLP
    norms, lm_head = 3 * 8, 50 * 8
    assert bench.weight_bytes(target) == 8 * (matrices + norms + lm_head)


def test_the_cache_of_a_token_is_keys_and_values_of_every_layer():
    target = tiny()  # 2 layers, 2 key heads of size 8, float64
    assert bench.cache_bytes(target, 1) == 2 * 2 * 2 * 8 * 8
    assert bench.cache_bytes(target, 10) == 10 * bench.cache_bytes(target, 1) and bench.cache_bytes(target, 0) == 0


def test_sizes_are_walked_in_turns_from_the_same_context():
    target = tiny()
    with Calls(target) as calls:
        found = bench.forward_cost(target, rows=(1, 3), batches=(1, 2), context=5, repeats=2)
    shapes = [tuple(ids.shape) for ids in calls.ids]
    walk = [(1, 1), (1, 3), (2, 1), (2, 3)]
    assert sorted(shapes[:2]) == [(1, 5), (2, 5)] and shapes[2:-1] == 3 * walk and shapes[-1] == (1, 1)
    assert [(row["batch"], row["rows"]) for row in found] == walk
    for row in found:
        assert 0 < row["lowest"] <= row["seconds"] <= row["highest"]
        assert row["tokens_per_second"] == row["batch"] * row["rows"] / row["seconds"]
        read = bench.weight_bytes(target) + row["batch"] * bench.cache_bytes(target, 5 + row["rows"])
        assert row["bytes"] == read and row["gb_per_s"] == read / 1e9 / row["seconds"]


def test_the_same_seed_gives_the_same_ids_and_the_prefill_asks_for_one_row():
    target, seen = tiny(), []
    for seed in (1, 1, 2):
        with Calls(target) as calls:
            bench.forward_cost(target, rows=(4,), context=0, repeats=1, seed=seed, last_only=True)
        seen.append(calls.ids[0].tolist())
    assert seen[0] == seen[1] != seen[2]


def test_toys_are_measured_too():
    (row,) = bench.forward_cost(mt.load("toy"), rows=(2,), context=3, repeats=1)
    assert row["bytes"] > 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"rows": ()}, "at least one"),
        ({"rows": (0,)}, "rows=0: use a whole number, 1 or more"),
        ({"batches": (0,)}, "batches=0"),
        ({"context": -1}, "context=-1"),
        ({"repeats": 0}, "repeats=0"),
        ({"threads": 0}, "threads=0"),
        ({"context": 159, "rows": (1, 2)}, "context . rows = 161; tiny llama 0 reads at most 160"),
    ],
)
def test_bad_sizes_are_named(options, words):
    with pytest.raises(ValueError, match=words):
        bench.forward_cost(tiny(), **options)
    with pytest.raises(ValueError, match="megabytes=0"):
        bench.memory_bandwidth(megabytes=0)
