"""Self-distilled answers: made in batches, kept in shards, gone on with after an interruption."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

import mtp_tutorial as mt
from mtp_tutorial.longrun import SEED_SCHEME
from mtp_tutorial.models import toys
from mtp_tutorial.training import selfdistill
from mtp_tutorial.training.selfdistill import Settings, make_answers, read_answers, read_prompts, read_texts
from mtp_tutorial.training.states import write_states

SETTINGS = Settings(temperature=0.8, max_new_tokens=12, samples=2, batch=3, seed=5)


@pytest.fixture
def toy():
    return mt.load("toy")


@pytest.fixture
def prompts(tmp_path):
    folder = tmp_path / "prompts"
    folder.mkdir()
    words = ["the cat", "a dog ran", "it sat", "then"]
    rows = [{"id": f"t{i}", "kind": "prose", "split": "train", "prompt": w} for i, w in enumerate(words)]
    rows.append({"id": "h0", "kind": "prose", "split": "heldout", "prompt": "under the"})
    (folder / "prose.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n")
    return folder


def as_tuples(folder):
    return [(one.id, one.kind, tuple(one.prompt), tuple(one.answer)) for one in read_answers(folder)]


def test_splits_are_kept_apart(prompts):
    assert [one["id"] for one in read_prompts(prompts, "train")] == ["t0", "t1", "t2", "t3"]
    assert [one["id"] for one in read_prompts(prompts, "heldout")] == ["h0"]
    with pytest.raises(ValueError, match="no prompts of the split 'test'"):
        read_prompts(prompts, "test")


def test_every_prompt_is_answered_as_often_as_asked_with_its_own_seed(toy, prompts, tmp_path):
    train = read_prompts(prompts, "train")
    make_answers(toy, train, tmp_path / "out", SETTINGS)
    found = as_tuples(tmp_path / "out")
    assert sorted(one[0] for one in found) == sorted(f"t{i}#{s}" for i in range(4) for s in range(2))
    again = mt.generate(
        toy, "the cat", sampling=mt.Sampling(temperature=0.8), max_new_tokens=12, seed=(SETTINGS.seed, 4)
    )  # t0's second answer is job 4
    assert next(one for one in found if one[0] == "t0#1")[3] == tuple(again.tokens)


def test_an_interrupted_run_goes_on_and_ends_the_same(toy, prompts, tmp_path, monkeypatch):
    train = read_prompts(prompts, "train")
    make_answers(toy, train, tmp_path / "whole", SETTINGS)
    calls = []
    real = selfdistill.generate

    def dies_in_the_second_batch(*args, **kwargs):
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return real(*args, **kwargs)

    monkeypatch.setattr(selfdistill, "generate", dies_in_the_second_batch)
    with pytest.raises(KeyboardInterrupt):
        make_answers(toy, train, tmp_path / "halves", SETTINGS)
    assert len(list((tmp_path / "halves").glob("shard-*.npz"))) == 1
    make_answers(toy, train, tmp_path / "halves", SETTINGS)
    assert as_tuples(tmp_path / "halves") == as_tuples(tmp_path / "whole")
    assert len(calls) == 5  # four batches and the one that died: the finished one was not made again


def test_more_samples_are_added_to_those_that_are_there_and_fewer_are_read(tmp_path):
    target = toys.random_llama()
    asked = [{"id": f"p{i}", "kind": "any", "prompt": list(range(1, i + 2))} for i in range(4)]
    make_answers(target, asked, tmp_path, replace(SETTINGS, samples=1), layers=(-1,))
    first = {path.name: path.read_bytes() for path in tmp_path.glob("shard-*")}
    make_answers(target, asked, tmp_path, SETTINGS, layers=(-1,))
    assert first.items() <= {path.name: path.read_bytes() for path in tmp_path.glob("shard-*")}.items()
    make_answers(target, asked, tmp_path, replace(SETTINGS, samples=1), layers=(-1,))  # nothing left to do
    one, two = read_texts(tmp_path, samples=1), read_texts(tmp_path)
    assert [text.id for text in one] == [text.id for text in two if text.id.endswith("#0")]
    assert (len(one), len(two)) == (4, 8)


def test_a_folder_of_another_run_is_refused_and_left_alone(toy, prompts, tmp_path):
    train = read_prompts(prompts, "train")
    out = tmp_path / "out"
    make_answers(toy, train, out, SETTINGS)
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    with pytest.raises(ValueError, match="its settings is"):
        make_answers(toy, train, out, Settings(temperature=1.0))
    with pytest.raises(ValueError, match="its layers is"):
        make_answers(toy, train, out, SETTINGS, layers=(-1,))
    with pytest.raises(ValueError, match="its prompts is"):
        make_answers(toy, train[:2], out, SETTINGS)
    other = toys.make("toy", toy.tokenizer.words, toy.model.table.flip(0))
    with pytest.raises(ValueError, match="its fingerprint is"):
        make_answers(other, train, out, SETTINGS)
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before


def test_answers_of_the_earlier_seed_scheme_are_read_but_not_added_to(toy, prompts, tmp_path):
    train, out = read_prompts(prompts, "train"), tmp_path / "out"
    make_answers(toy, train, out, SETTINGS)
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest.pop("seed_scheme") == SEED_SCHEME
    (out / "manifest.json").write_text(json.dumps(manifest))
    make_answers(toy, train, out, SETTINGS)  # whole: nothing is drawn
    with pytest.raises(ValueError, match=r"seed \+ sequence, role.*some are missing"):
        make_answers(toy, train, out, replace(SETTINGS, samples=3))


def test_states_are_recorded_beside_the_answers_and_are_those_of_a_call_alone(tmp_path):
    target = toys.random_llama()
    asked = [{"id": f"p{i}", "kind": "any", "prompt": list(range(1, i + 2))} for i in range(4)]
    make_answers(target, asked, tmp_path, SETTINGS, layers=(0, 2, -1))
    texts = read_texts(tmp_path)
    assert len(texts) == 8
    for text in texts:
        ids = text.ids[None]
        alone = target.forward(ids, [ids.shape[1]], target.new_cache(1), layers=(0, 2, -1))[1]
        expected = torch.cat(alone, -1)[0, :-1].to(torch.bfloat16)
        torch.testing.assert_close(text.states, expected)


def test_recording_changes_no_answer(toy, prompts, tmp_path):
    train = read_prompts(prompts, "train")
    make_answers(toy, train, tmp_path / "plain", SETTINGS)
    make_answers(toy, train, tmp_path / "recorded", SETTINGS, layers=(-1,))
    assert as_tuples(tmp_path / "recorded") == as_tuples(tmp_path / "plain")


def test_missing_or_foreign_states_are_named(toy, prompts, tmp_path):
    train = read_prompts(prompts, "train")
    make_answers(toy, train, tmp_path / "out", SETTINGS)
    with pytest.raises(ValueError, match="made without their hidden states"):
        read_texts(tmp_path / "out")
    write_states(tmp_path / "out", 0, [torch.zeros(3, 2)])
    with pytest.raises(ValueError, match="belongs to other answers: it has 3 rows"):
        read_texts(tmp_path / "out")
    with pytest.raises(ValueError, match="no answers in"):
        read_texts(tmp_path / "nowhere")


def test_a_fingerprint_tells_weights_apart_and_not_dtypes(toy):
    assert toy.fingerprint() == mt.load("toy").fingerprint() == mt.load("toy", dtype="float32").fingerprint()
    assert toy.fingerprint() != mt.load("toy-beijing").fingerprint()


def test_small_ids_are_kept_in_two_bytes(toy, prompts, tmp_path):
    make_answers(toy, read_prompts(prompts, "train"), tmp_path / "out", SETTINGS)
    with np.load(next((tmp_path / "out").glob("shard-*.npz"))) as shard:
        assert shard["answers"].dtype == np.uint16
