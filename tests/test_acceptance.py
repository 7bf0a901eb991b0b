"""Training from beginning to end on the bundled nano, and measuring acceptance: small, whole, resumable."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import pytest
import torch
from typer.testing import CliRunner

import mtp_tutorial as mt
from mtp_tutorial import cli
from mtp_tutorial.lab import losslessness
from mtp_tutorial.training import acceptance, run
from mtp_tutorial.training.acceptance import OVERALL, Setting
from mtp_tutorial.training.loop import Schedule
from mtp_tutorial.training.selfdistill import Settings, fitting

PLAN = run.Recipe(
    answers=Settings(temperature=0.8, max_new_tokens=8, batch=8),
    prompts=2,
    frequent=64,
    schedule=Schedule(steps=3, batch=4, warmup=1),
)


@pytest.fixture(scope="module")
def nano():
    return mt.load("nano")


@pytest.fixture(scope="module")
def trained(nano, tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained")
    rows = run.train_drafter(nano, "mtp", folder / "mtp", folder / "work", PLAN, report_prompts=1)
    return folder, rows


def test_a_trained_drafter_can_be_loaded_and_says_how_it_was_made(nano, trained):
    folder, rows = trained
    drafter = mt.load_drafter("mtp", nano, weights=folder / "mtp", frequent=32)
    assert mt.generate(nano, "Max:", drafter, max_new_tokens=6).tokens
    config = json.loads((folder / "mtp" / "config.json").read_text())
    assert config["drafter"] == "mtp" and config["target"] == "nano" and config["training"]["texts"] == 8
    assert [row["step"] for row in config["training"]["log"]] == [1, 2, 3]
    assert {(row["temperature"], row["kind"]) for row in rows} == {
        (t, kind) for t in (0.0, 0.6) for kind in (OVERALL, "dialogue", "json", "prose", "python")
    }


def test_heads_of_one_target_share_their_answers(nano, trained, monkeypatch):
    folder, _ = trained
    monkeypatch.setattr("mtp_tutorial.training.selfdistill.generate", lambda *args, **options: pytest.fail("again"))
    for drafter in ("medusa", "eagle", "draft", "gated_lora"):
        plan = replace(PLAN, shape={"num_layers": 1} if drafter == "draft" else {})
        rows = run.train_drafter(nano, drafter, folder / drafter, folder / "work", plan, report_prompts=0)
        assert rows == [] and (folder / drafter / "config.json").is_file()
        mt.load_drafter(drafter, nano, weights=folder / drafter)


def test_a_second_run_goes_on_from_what_is_there(nano, trained, tmp_path):
    folder, _ = trained
    run.train_drafter(nano, "mtp", tmp_path / "again", folder / "work", PLAN, report_prompts=0)
    first, second = (
        mt.load_drafter("mtp", nano, weights=path).head.state_dict() for path in (folder / "mtp", tmp_path / "again")
    )
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_a_cache_of_another_plan_and_a_folder_with_other_things_are_refused(nano, trained, tmp_path):
    folder, _ = trained
    other = replace(PLAN, prompts=1)
    with pytest.raises(ValueError, match="its prompts is"):
        run.train_drafter(nano, "mtp", tmp_path / "x", folder / "work", other)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("dear")
    with pytest.raises(ValueError, match="holds no drafter's weights"):
        run.train_drafter(nano, "mtp", tmp_path / "mine", folder / "work", PLAN)
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "dear" and not (tmp_path / "x").exists()


def test_each_plan_has_a_checkpoint_of_its_own(nano, trained, tmp_path):
    """Trained again with one step less, in the same folder: neither refused nor mixed up."""
    folder, _ = trained
    before = {path: path.read_bytes() for path in (folder / "work").glob("mtp-*.pt")}
    plan = replace(PLAN, schedule=replace(PLAN.schedule, steps=2))
    run.train_drafter(nano, "mtp", tmp_path / "shorter", folder / "work", plan, report_prompts=0)
    assert len(json.loads((tmp_path / "shorter" / "config.json").read_text())["training"]["log"]) == 2
    assert before and all(path.read_bytes() == content for path, content in before.items())


@pytest.mark.parametrize(
    ("shape", "words"),
    [
        ("nope=1", "no setting 'nope'; it has: num_layers"),
        ("num_layers=inf", "num_layers=inf: use a whole number"),
        ("num_layers=nan", "num_layers=nan: use a whole number"),
        ("num_layers=1.5", "num_layers=1.5: use a whole number"),
        ("num_layers=0", "num_layers=0: use a whole number"),
    ],
)
def test_a_shape_that_cannot_be_is_refused_before_an_answer_is_made(monkeypatch, tmp_path, shape, words):
    monkeypatch.setattr(run, "_QUICK", PLAN)
    monkeypatch.setattr(run, "make_answers", lambda *args: pytest.fail("work began"))
    words_given = ["train", "--quick", "--shape", shape, "--out", str(tmp_path / "o"), "--work", str(tmp_path / "w")]
    said = CliRunner().invoke(cli.app, words_given)
    assert isinstance(said.exception, ValueError) and words in str(said.exception)
    assert not list(tmp_path.iterdir())


def test_damaged_work_is_named_with_what_would_do(nano, trained, tmp_path):
    folder, _ = trained
    work = tmp_path / "work"
    for name, words in {
        "mtp-*.pt": "mtp-.*pt is damaged.*delete it",
        "answers/shard-*.npz": "shard-00000.npz is damaged.*delete it",
        "answers/states-*.safetensors": "states-00000.safetensors is damaged.*delete it",
        "answers/manifest.json": "manifest.json is damaged.*delete",
    }.items():
        shutil.rmtree(work, ignore_errors=True)
        shutil.copytree(folder / "work", work)
        for path in work.glob(name):
            path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
        with pytest.raises(ValueError, match=words):
            run.train_drafter(nano, "mtp", tmp_path / "x", work, PLAN, report_prompts=0)
        assert not (tmp_path / "x").exists()


def test_own_prompts_longer_than_a_short_context_are_left_out_before_work_begins(nano, monkeypatch, tmp_path):
    """A target of 128 tokens: some of the package's own prompts do not fit, and none of them stops the training."""
    short = replace(nano, max_length=128)
    long = {"id": "long", "kind": "prose", "prompt": "Max: " * 100}
    for name in ("training_prompts", "held_out_prompts"):
        made = getattr(run, name)
        monkeypatch.setattr(run, name, lambda *args, made=made: [long, *made(*args)])
    with pytest.warns(UserWarning, match=r"1 of \d prompts are left out.*128 tokens"):
        rows = run.train_drafter(short, "mtp", tmp_path / "mtp", tmp_path / "work", PLAN, report_prompts=1)
    assert rows and json.loads((tmp_path / "mtp" / "config.json").read_text())["training"]["texts"] == 8
    with pytest.raises(ValueError, match="none of 9 prompts leaves room for 32 tokens.*33 tokens"):
        fitting(replace(nano, max_length=33), run.training_prompts(nano, 2))


def test_an_unknown_drafter_is_refused_before_the_others_are_measured(nano, tmp_path):
    out = tmp_path / "rows.jsonl"
    wanted = acceptance.settings(["ngram", "magic"], lengths=(2,), temperatures=(0,))
    with pytest.raises(ValueError, match="unknown drafter 'magic'; known: ngram"):
        acceptance.sweep(nano, wanted, acceptance.held_out_prompts("nano", 1), out)
    with pytest.raises(ValueError, match="unknown drafter 'magic'"):
        losslessness.sweep(nano, ["ngram", "magic"], ["rejection"], out)
    with pytest.raises(ValueError, match="max_new_tokens=0"):
        acceptance.sweep(nano, wanted[:1], acceptance.held_out_prompts("nano", 1), out, max_new_tokens=0)
    assert not out.exists()


def test_recipes_name_what_can_be_trained(nano):
    with pytest.raises(ValueError, match="'ngram' is not trained; these are: mtp, eagle"):
        run.recipe(nano, "ngram")
    with pytest.raises(ValueError, match="use --target nano"):
        run.recipe(mt.load("toy"), "mtp", quick=True)
    assert run.recipe(nano, "draft").shape == {"num_layers": 1}


def test_the_command_trains_and_reports(monkeypatch, tmp_path):
    monkeypatch.setattr(run, "_QUICK", PLAN)
    words = ["train", "--quick", "--out", str(tmp_path / "head"), "--work", str(tmp_path / "work"), "--steps", "2"]
    result = CliRunner().invoke(cli.app, [*words, "--unroll", "1", "--json"])
    assert result.exit_code == 0, result.output
    assert len(json.loads(result.stdout)["acceptance"]) == 10
    config = json.loads((tmp_path / "head" / "config.json").read_text())
    assert config["training"]["objective"] == {"unroll": 1} and config["training"]["schedule"]["steps"] == 2
    stack = ["train", "--quick", "--out", str(tmp_path / "stack"), "--work", str(tmp_path / "work2"), "--steps", "1"]
    result = CliRunner().invoke(cli.app, [*stack, "--shape", "num_layers=2"])
    assert result.exit_code == 0 and "pos 1" in result.stdout
    assert json.loads((tmp_path / "stack" / "config.json").read_text())["settings"] == {"num_layers": 2}


@pytest.mark.parametrize(
    "words,said",
    [
        (("--drafter", "magic"), "not trained; these are"),
        (("--steps", "0"), "--steps 0"),
        (("--unroll", "0"), "--unroll 0"),
        (("--drafter", "medusa", "--unroll", "2"), "for mtp and eagle only"),
        (("--shape", "num_layers"), "--shape 'num_layers': write name=value"),
        (("--target", "toy", "--quick"), "use --target nano"),
    ],
)
def test_bad_training_options_are_refused(words, said, tmp_path):
    result = CliRunner().invoke(cli.app, ["train", "--out", str(tmp_path / "x"), *words])
    assert isinstance(result.exception, ValueError) and said in str(result.exception)


# -- Measuring ------------------------------------------------------------------------------------------------------


def test_a_row_counts_what_the_rounds_say(nano):
    prompts = acceptance.held_out_prompts("nano", 2)
    setting = Setting("ngram", "greedy", 0.6, 3)
    rows = acceptance.measure(nano, mt.load_drafter("ngram", nano), setting, prompts, max_new_tokens=20, batch=3)
    found = [
        mt.generate(
            nano, one["prompt"], mt.load_drafter("ngram", nano), num_speculative_tokens=3,
            sampling=mt.Sampling(temperature=0.6), max_new_tokens=20, seed=(0, i),
        )
        for i, one in enumerate(prompts)
    ]  # fmt: skip
    rounds = [one for g in found for one in g.rounds if not one.is_prefill]
    assert rows[0]["kind"] == OVERALL and rows[0]["rounds"] == len(rounds)
    assert rows[0]["tokens"] == sum(len(one.tokens) for one in rounds)
    assert rows[0]["accepted"] == [sum(one.num_accepted > i for one in rounds) for i in range(3)]
    for name in ("rounds", "tokens"):
        assert sum(row[name] for row in rows[1:]) == rows[0][name]
    assert acceptance.mean_acceptance_length(rows[0]) == pytest.approx(rows[0]["tokens"] / rows[0]["rounds"])


def test_a_sweep_measures_only_what_the_file_lacks(nano, tmp_path):
    prompts, out = acceptance.held_out_prompts("nano", 1), tmp_path / "rows.jsonl"
    some = [Setting("ngram", "greedy", 0.0, 2)]
    first = acceptance.sweep(nano, some, prompts, out, max_new_tokens=8)
    more = [*some, Setting("ngram", "greedy", 1.0, 2)]
    rows = acceptance.sweep(nano, more, prompts, out, max_new_tokens=8)
    assert rows[:5] == first and len(rows) == 10 and acceptance.read_rows(out) == rows
    out.write_text("".join(json.dumps({k: v for k, v in row.items() if k != "seed_scheme"}) + "\n" for row in rows))
    with pytest.raises(ValueError, match=r"drawn with the seed scheme SeedSequence\(\[seed \+ sequence, role\]\)"):
        acceptance.sweep(nano, more, prompts, out, max_new_tokens=8)


def test_settings_leave_out_what_would_be_the_same():
    found = acceptance.settings(["ngram", "mtp"])
    assert len(found) == len(set(found)) == 6 + 10
    assert not any(one.drafting == "sampled" and (one.drafter == "ngram" or one.temperature == 0) for one in found)


def test_tables_show_positions_lengths_and_kinds():
    row = {"drafter": "mtp", "drafting": "greedy", "temperature": 0, "drafted": [8, 8], "rounds": 8, "tokens": 14}
    rows = [{**row, "k": 2, "kind": kind, "accepted": [4, 2]} for kind in (OVERALL, "json")]
    lines = acceptance.markdown(rows).splitlines()
    assert lines[0] == "| drafter | drafts | T | pos 1 | pos 2 | length, k=2 |"
    assert lines[2] == "| mtp | greedy | 0 | 0.50 | 0.25 | 1.75 |"
    assert lines[-1] == "| mtp | greedy | 0 | 2 | 1.75 |"


def test_held_out_prompts_of_every_kind():
    found = acceptance.held_out_prompts("smollm2", 3)
    kinds = [one["kind"] for one in found]
    assert len(set(kinds)) == 10 and all(kinds.count(kind) == 3 for kind in kinds)
    assert len(acceptance.held_out_prompts("smollm2")) == 320


def test_how_often_one_kind_is_above_another():
    def row(temperature, k, kind, tokens):
        return {"drafter": "mtp", "drafting": "greedy", "temperature": temperature, "k": k, "kind": kind,
                "rounds": 10, "tokens": tokens}  # fmt: skip

    rows = [row(0, 2, "json", 20), row(0, 2, "chat", 15), row(0, 4, "json", 20), row(0, 4, "chat", 20)]
    rows += [row(1, 2, "json", 12), row(1, 2, "chat", 11), row(1, 4, "json", 12)]
    assert acceptance.times_above(rows, "json", "chat") == {0: (1, 2), 1: (1, 1)}
    assert acceptance.times_above(rows, "json", "fiction") == {}
