"""The command line: what it prints, what it refuses, and that its JSON is what the library returns."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import mtp_tutorial as mt
from mtp_tutorial import cli, doctor
from mtp_tutorial.models import smollm2


def run(*words: str, stdin: str | None = None):
    return CliRunner().invoke(cli.app, list(words), input=stdin)


TOY = ("generate", "--target", "toy", "--prompt", "the cat sat on", "--seed", "3", "-n", "12")


def test_json_is_the_librarys_own_answer():
    result = run(*TOY, "--drafter", "ngram", "-k", "2", "-t", "0.6", "--json")
    found = json.loads(result.stdout)
    target = mt.load("toy")
    expected = mt.generate(
        target, "the cat sat on", "ngram", num_speculative_tokens=2, seed=3, max_new_tokens=12,
        sampling=mt.Sampling(temperature=0.6),
    )  # fmt: skip
    assert found["tokens"] == expected.tokens
    assert found["text"] == expected.text
    assert found["kinds"] == expected.kinds
    assert found["target_calls"] == expected.target_calls == len(found["rounds"])
    assert found["settings"]["sampling"]["temperature"] == 0.6


def test_rates_that_do_not_exist_are_null_in_json():
    found = json.loads(run(*TOY, "--json").stdout)
    assert found["acceptance_rate"] is None
    assert found["settings"]["drafter"] == "none"


def test_text_shows_tokens_with_letters_and_a_summary():
    result = run(*TOY, "--drafter", "oracle", "--accuracy", "0.5", "-t", "0")
    assert result.exit_code == 0
    for words in ("target calls", "acceptance rate", "mean acceptance length", "seconds", "recovered[R]"):
        assert words in result.stdout


def test_plain_decoding_shows_no_rates():
    assert "acceptance" not in run(*TOY).stdout


def test_rule_parameters_reach_the_rule():
    found = json.loads(
        run(*TOY, "--drafter", "ngram", "--rule", "relaxed", "--rule-param", "delta=0.5", "--json").stdout
    )
    assert found["settings"]["rule_params"] == {"delta": 0.5}


def test_a_draft_model_is_named_by_its_own_option():
    words = ("--target", "toy-beijing", "--drafter", "draft", "--draft-model", "toy-beijing-draft", "-t", "0", "--json")
    found = json.loads(run("generate", "--prompt", "我想从北京开车去", "-n", "5", *words).stdout)
    assert found["num_accepted"] > 0


def test_a_prompt_can_come_from_standard_input():
    found = json.loads(run("generate", "--target", "toy", "--prompt", "-", "-n", "3", "--json", stdin="the cat").stdout)
    assert found["num_tokens"] == 3


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--temperature", "-1"), "temperature=-1.0"),
        (("--top-p", "0"), "top_p=0.0"),
        (("-k", "65"), "num_speculative_tokens=65"),
        (("--rule", "magic"), "known: greedy, rejection"),
        (("--rule-param", "delta"), "write name=value"),
        (("--rule-param", "delta=0.5"), "has no parameter 'delta'"),
        (("--drafter", "magic"), "known: ngram, draft, oracle"),
        (("--drafter", "draft"), "no draft model for toy"),
        (("--drafter", "mtp"), "no weights of a 'mtp' drafter for toy"),
        (("--drafter", "mtp", "--weights", "nowhere"), "in nowhere"),
        (("--drafter", "ngram", "--frequent", "5"), "has no weights"),
        (("--drafter", "draft", "--draft-model", "toy", "--frequent", "5"), "leave out --weights and --frequent"),
        (("--target", "no-such-model"), "Known names: toy"),
        (("--seed", "-4"), "seed=-4"),
        (("--prompt", ""), "prompt is empty"),
        (("-n", "0"), "max_new_tokens=0"),
        (("--device", "abacus"), "unknown device"),
        (("--dtype", "int3"), "unknown dtype"),
    ],
)
def test_bad_input_is_refused_with_a_message_that_helps(words, said):
    result = run(*TOY, *words)
    assert isinstance(result.exception, ValueError)
    assert said in str(result.exception)


def test_bad_input_ends_with_one_clear_line_and_exit_code_2():
    command = [sys.executable, "-m", "mtp_tutorial.cli", *TOY, "--temperature", "-1"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert result.returncode == 2
    assert result.stderr.startswith("error: temperature=-1.0")
    assert result.stderr.count("\n") == 1


def test_version_and_help():
    assert run("--version").stdout.strip() == mt.__version__
    listed = run("--help").stdout
    for command in ("generate", "fetch", "doctor", "train"):
        assert command in listed


# -- doctor and fetch -----------------------------------------------------------------------------------------------


def test_doctor_reports_everything_a_reader_needs():
    found = json.loads(run("doctor", "--json").stdout)
    names = {one["what"] for one in found}
    assert {"Python", "torch", "transformers", "device", "dtype", "memory", "model cache", "smollm2"} <= names
    assert all(one["remedy"] for one in found if one["status"] == "problem")
    assert "what to do" in run("doctor").stdout


WINDOWS = """raise OSError("[WinError 1114] A dynamic link library (DLL) initialization routine failed. Error loading "
              "C:/venv/torch/lib/c10.dll or one of its dependencies.")"""
LINUX = 'raise ImportError("libcudart.so.12: cannot open shared object file: No such file or directory")'
ABSENT = """raise ModuleNotFoundError("No module named 'torch'", name="torch")"""


def run_with_torch(folder, source: str, *words: str, code: str | None = None):
    """The command (or some code) in a process whose torch is ``source``."""
    (folder / "torch").mkdir()
    (folder / "torch" / "__init__.py").write_text(source)
    root = Path(mt.__file__).parents[1]
    env = {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{root}"}
    command = [sys.executable, "-c", code] if code else [sys.executable, "-m", "mtp_tutorial.cli", *words]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize(
    "source,found,cure",
    [
        (WINDOWS, "WinError 1114", r"Visual C\+\+ Redistributable.*TORCH_SPEC"),
        (LINUX, "libcudart.so.12", "TORCH_SPEC.*CPU build"),
        (ABSENT, "missing", "make lab"),
    ],
)
def test_doctor_names_the_cures_of_a_torch_that_cannot_be_imported(tmp_path, source, found, cure):
    result = run_with_torch(tmp_path, source, "doctor", "--json")
    (torch,) = (one for one in json.loads(result.stdout) if one["what"] == "torch")
    assert (torch["status"], result.returncode) == ("problem", 1)
    assert found in torch["found"] and re.search(cure, torch["remedy"])
    assert ("Visual C++" in torch["remedy"]) == (source == WINDOWS)


def test_doctor_prints_its_table_without_torch(tmp_path):
    result = run_with_torch(tmp_path, WINDOWS, "doctor")
    assert result.returncode == 1 and "what to do" in result.stdout and "transformers" in result.stdout


def test_other_commands_name_the_cure_in_one_line(tmp_path):
    result = run_with_torch(tmp_path, WINDOWS, *TOY)
    assert result.returncode == 2 and result.stderr.count("\n") == 1
    assert "Visual C++" in result.stderr and "mtp-tutorial doctor" in result.stderr


def test_the_library_points_to_doctor_when_torch_cannot_be_imported(tmp_path):
    result = run_with_torch(tmp_path, WINDOWS, code="import mtp_tutorial as mt; mt.load")
    assert "WinError 1114" in result.stderr and "mtp-tutorial doctor" in result.stderr


def test_doctor_goes_on_when_another_package_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "psutil", None)
    found = {one.what: one for one in doctor.examine()}
    assert found["packages"].status == "problem" and "psutil" in found["packages"].found
    assert "nano" in found


def test_doctor_tells_whether_the_hub_answers(monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    hub = next(one for one in doctor.examine() if one.what == "Hugging Face hub")
    assert hub.status == "note" and "HF_HUB_OFFLINE is set" in hub.found and "HF_ENDPOINT" in hub.remedy
    monkeypatch.setattr("mtp_tutorial.models.pretrained.hub_problem", lambda timeout: None)
    hub = next(one for one in doctor.examine() if one.what == "Hugging Face hub")
    assert hub.status == "ok" and "answers" in hub.found and hub.remedy == ""


def test_doctor_says_what_to_do_about_a_missing_model(monkeypatch, tmp_path):
    monkeypatch.setenv("MTP_TUTORIAL_CACHE", str(tmp_path))
    finding = next(one for one in doctor.examine() if one.what == "smollm2")
    assert (finding.status, finding.found) == ("note", "not cached")
    assert "mtp-tutorial fetch smollm2" in finding.remedy


def test_doctor_calls_a_damaged_model_a_problem_and_exits_with_1(monkeypatch, tmp_path):
    monkeypatch.setenv("MTP_TUTORIAL_CACHE", str(tmp_path))
    smollm2.folder().mkdir(parents=True)
    (smollm2.folder() / "model.safetensors").write_bytes(b"half")
    result = run("doctor", "--json")
    assert result.exit_code == 1
    assert any(one["what"] == "smollm2" and one["status"] == "problem" for one in json.loads(result.stdout))


def test_doctor_names_a_package_outside_its_range(monkeypatch):
    monkeypatch.setattr(doctor.importlib.metadata, "requires", lambda name: ["torch<1", "no-such-package>=2"])
    found = {one.what: one for one in doctor.examine()}
    assert found["torch"].status == "problem" and 'pip install "torch<1"' in found["torch"].remedy
    assert found["no-such-package"].found == "missing"


def test_fetch_knows_one_name_only():
    assert "known: smollm2" in str(run("fetch", "gpt-17").exception)


def test_fetch_of_a_cached_model_does_nothing(monkeypatch, tmp_path):
    monkeypatch.setattr(smollm2, "is_cached", lambda: True)
    monkeypatch.setattr(smollm2, "_download", lambda *a: pytest.fail("it should not download"))
    assert "was already" in run("fetch", "smollm2").stdout


def test_tables_fold_words_that_do_not_fit(monkeypatch, capsys):
    from mtp_tutorial.cli.app import print_markdown

    monkeypatch.setenv("COLUMNS", "80")
    head = [
        "arm",
        "seq-rep-4",
        "tail loops",
        "repeated sentences",
        "distinct-2",
        "longest repeat",
        "length",
        "position",
    ]
    row = ["random-R14b", *["0.079 (0.072 to 0.086)"] * (len(head) - 1)]
    print_markdown("\n".join("| " + " | ".join(cells) + " |" for cells in (head, ["---"] * len(head), row)))
    said = capsys.readouterr().out
    assert "…" not in said and max(map(len, said.splitlines())) <= 80
    assert "random-R14b" in said and said.count("0.086)") == len(head) - 1


def test_the_rules_are_listed_whole_at_80_columns(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    said = run("rules").stdout
    assert "…" not in said and max(map(len, said.splitlines())) <= 80
