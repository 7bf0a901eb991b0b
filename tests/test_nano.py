"""The bundled model and the text it learned: the same each time, of four kinds, valid within its kind."""

import json

import pytest
import torch

import mtp_tutorial as mt
from mtp_tutorial import doctor
from mtp_tutorial.models import nano as nano_model
from mtp_tutorial.training import nano, nano_report
from mtp_tutorial.training.corpus import KINDS, corpus, prompts, texts

# -- the text ---------------------------------------------------------------------------------------------------------


def test_there_are_four_kinds():
    assert set(KINDS) == {"prose", "dialogue", "json", "python"}


@pytest.mark.parametrize("kind", KINDS)
def test_texts_depend_on_the_seed_alone(kind):
    assert texts(kind, 20, seed=3) == texts(kind, 30, seed=3)[:20]
    assert texts(kind, 20, seed=3) != texts(kind, 20, seed=4)


@pytest.mark.parametrize("kind", KINDS)
def test_few_texts_occur_twice(kind):
    found = texts(kind, 2000)
    assert len(set(found)) > 0.97 * len(found)


@pytest.mark.parametrize("kind", KINDS)
def test_held_out_texts_are_fresh(kind):
    common = set(texts(kind, 2000)) & set(texts(kind, 200, held_out=True))
    assert len(common) < 10  # the shortest ones meet by chance


@pytest.mark.parametrize("kind", KINDS)
def test_prompts_begin_held_out_texts(kind):
    whole = texts(kind, 50, seed=7, held_out=True)
    begun = prompts(kind, 50, seed=7)
    assert begun == prompts(kind, 50, seed=7)
    for text, prompt in zip(whole, begun, strict=True):
        assert text.startswith(prompt) and 0 < len(prompt) < len(text)
        assert prompt[-1].isalnum() and not text[len(prompt)].isalnum()


def test_an_unknown_kind_is_refused():
    for make in (texts, prompts):
        with pytest.raises(ValueError, match="prose, dialogue, json, python"):
            make("verse", 1)


def test_no_slot_is_left_open():
    for kind in ("prose", "dialogue"):
        assert not [text for text in texts(kind, 1000) if "{" in text or "}" in text]


def test_articles_fit_their_nouns():
    text = " ".join(texts("prose", 1000) + texts("dialogue", 1000))
    assert " an umbrella" in text and " an owl" in text and " a umbrella" not in text and " a owl" not in text
    assert " an h" not in text and " a e" not in text


def test_prose_has_whole_sentences():
    for text in texts("prose", 500):
        assert text[0].isupper() or text[0] == '"'
        assert text[-1] in '."' and 4 <= text.count(". ") + 1 <= 14


def test_two_people_speak_in_turn():
    for text in texts("dialogue", 500):
        speakers = [line.split(": ")[0] for line in text.splitlines()]
        assert len(set(speakers)) == 2 and len(speakers) % 2 == 0
        assert all(one != other for one, other in zip(speakers, speakers[1:], strict=False))


def test_json_texts_parse_and_agree_with_themselves():
    seen = set()
    for text in texts("json", 500):
        found = json.loads(text)
        for record in found if isinstance(found, list) else [found]:
            seen.add(record["type"])
            if record["type"] == "order":
                assert record["total"] == record["quantity"] * record["price"]
            if record["type"] == "farm":
                assert record["total"] == sum(one["count"] for one in record["animals"])
            if record["type"] == "reading":
                assert (record["lowest"], record["highest"]) == (min(record["values"]), max(record["values"]))
            if record["type"] == "trip":
                assert len(set(record["stops"])) == 3
    assert seen == {"person", "order", "reading", "book", "trip", "farm"}


def test_python_texts_compile_and_their_asserts_hold():
    for text in texts("python", 500):
        assert text.startswith("def ") and "\nassert " in text and '"""' in text
        exec(compile(text, "<text>", "exec"), {})


def test_the_corpus_has_equal_shares():
    encoded = corpus(40_000, str.encode, seed=1)
    assert 40_000 <= sum(map(len, encoded)) < 42_000
    assert encoded == corpus(40_000, str.encode, seed=1) != corpus(40_000, str.encode, seed=2)
    share = sum(len(ids) for ids in encoded if bytes(ids).startswith(b"def ")) / 40_000
    assert 0.23 < share < 0.27


# -- the tokenizer and the loop ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tokenizer():
    return nano.make_tokenizer(count=500)


def test_the_tokenizer_is_made_alike_each_time(tokenizer):
    assert tokenizer.get_vocab() == nano.make_tokenizer(count=500).get_vocab()
    assert len(tokenizer) == 1024 and (tokenizer.eos_token_id, tokenizer.pad_token_id) == (0, 1)


@pytest.mark.parametrize("text", ["  two  spaces \n\n\tand a tab", "Ünï 北京 🙂", "if x:\n    return 17", "x"])
def test_the_tokenizer_gives_back_any_text(tokenizer, text):
    assert tokenizer.decode(tokenizer(text)["input_ids"]) == text


def test_rows_start_where_texts_start():
    made = nano.rows([[5, 6, 7], [8, 9], [10], [11, 12, 13, 14], [15]], 6)
    assert made.tolist() == [[5, 6, 7, 0, 8, 9], [10, 0, 11, 12, 13, 14]]


SMALL = nano.Recipe(vocabulary=300, hidden=16, layers=1, heads=2, kv_heads=1, intermediate=32, context=32, steps=6,
                    batch=2, corpus_tokens=3000, warmup=2)  # fmt: skip


def test_a_second_run_goes_on_where_the_first_stopped(tmp_path, monkeypatch):
    whole = nano.train(tmp_path / "whole", SMALL, progress=False)
    publish = nano._publish
    monkeypatch.setattr(nano, "_publish", lambda *given: None)
    real, calls = nano._batches, []

    def failing(data, recipe):
        for batch in real(data, recipe):
            calls.append(batch)
            if len(calls) == 4:
                raise KeyboardInterrupt
            yield batch

    monkeypatch.setattr(nano, "_batches", failing)
    monkeypatch.setattr(nano, "SECONDS_BETWEEN_CHECKPOINTS", 0)
    with pytest.raises(KeyboardInterrupt):
        nano.train(tmp_path / "parts", SMALL, progress=False)
    monkeypatch.setattr(nano, "_batches", real)
    monkeypatch.setattr(nano, "_publish", publish)
    assert (tmp_path / "parts" / nano.CHECKPOINT).exists()
    parts = nano.train(tmp_path / "parts", SMALL, progress=False)
    assert [row["step"] for row in parts] == list(range(6))
    assert [row["loss"] for row in parts] == pytest.approx([row["loss"] for row in whole], abs=1e-3)
    assert {path.name for path in (tmp_path / "parts").iterdir()} == {"target", nano.LOG}


def test_a_checkpoint_of_another_recipe_is_refused(tmp_path):
    nano._save(tmp_path / nano.CHECKPOINT, nano.Recipe(seed=9), torch.nn.Linear(1, 1), [], 3, [])
    with pytest.raises(ValueError, match="another recipe"):
        nano.train(tmp_path, SMALL, progress=False)
    assert [path.name for path in tmp_path.iterdir()] == [nano.CHECKPOINT]


def test_the_seed_of_the_caller_is_left_alone():
    torch.manual_seed(1)
    wanted = torch.rand(1)
    torch.manual_seed(1)
    nano.make_model(SMALL)
    assert torch.equal(torch.rand(1), wanted)


# -- the stored model -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def target():
    return mt.load("nano", device="cpu")


@pytest.fixture(scope="module")
def exact():
    return mt.load("nano", device="cpu", dtype="float64")


def test_nano_loads_as_it_is_described(target):
    assert target.name == "nano" and target.dtype == torch.float32 and not target.is_chat
    assert (target.vocab_size, target.max_length, target.eos_ids) == (1024, 512, frozenset({0}))
    assert 500_000 < sum(p.numel() for p in target.model.parameters()) < 3_000_000


def test_the_stored_tokenizer_is_the_one_that_the_code_makes(target):
    assert target.tokenizer.get_vocab() == nano.make_tokenizer().get_vocab()
    for kind in KINDS:
        for text in texts(kind, 50, seed=8):
            assert target.decode(target.encode(text)) == text


def test_a_missing_folder_is_told_with_a_way_out(tmp_path, monkeypatch):
    monkeypatch.setattr(nano_model, "folder", lambda: tmp_path / "target")
    with pytest.raises(ValueError, match="pip install -e"):
        mt.load("nano")
    finding = next(one for one in doctor.examine() if one.what == "nano")
    assert finding.status == doctor.NOTE and "pip install -e" in finding.remedy


def test_the_doctor_finds_nano():
    assert next(one for one in doctor.examine() if one.what == "nano").status == doctor.OK


@pytest.mark.parametrize("kind", KINDS)
def test_greedy_speculation_writes_the_plain_text(exact, kind):
    begun = prompts(kind, 3, seed=1)
    options = {"sampling": mt.Sampling(temperature=0), "max_new_tokens": 60}
    plain = mt.generate(exact, begun, **options)
    guessed = mt.generate(exact, begun, drafter=mt.load_drafter("ngram", exact), rule="rejection", **options)
    assert [one.tokens for one in guessed] == [one.tokens for one in plain]
    assert all(1 <= len(one.tokens) <= 60 for one in plain)
    assert sum(one.target_calls for one in guessed) < sum(one.target_calls for one in plain)


def test_the_kinds_differ_in_predictability(target):
    loss = {kind: nano_report.held_out_loss(target, kind, count=25) for kind in KINDS}
    assert max(loss["json"], loss["python"]) < 0.9 * min(loss["prose"], loss["dialogue"])
    assert loss["json"] < 0.7 * loss["prose"]
    assert max(loss.values()) < 2


def test_most_continued_json_parses(target):
    made = nano_report.samples(target, "json", count=10, temperature=0.0)
    valid = 0
    for prompt, text in made:
        try:
            json.loads(prompt + text)
            valid += 1
        except ValueError:
            pass
    assert valid >= 7


def test_the_report_shows_every_kind():
    said = nano_report.report(nano_model.folder(), kinds=("python",), count=3)
    assert "| python | 0." in said and said.count("```text") == 3 and "▸" in said


def test_the_command_trains_and_reports(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(nano, "train", lambda out, recipe: [{"step": 0, "loss": 1.0, "seconds": 60.0}])
    nano.main(["--out", str(tmp_path), "--steps", "1"])
    assert "1 steps in 1.0 min, loss 1.000 nats" in capsys.readouterr().out
    monkeypatch.setattr(nano_report, "report", lambda folder: f"report of {folder.name}")
    nano.main(["--out", str(tmp_path), "--report"])
    assert capsys.readouterr().out == "report of target\n"
