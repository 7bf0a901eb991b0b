"""The command line of a server, flag by flag: what each does, and what it means for speculation.

Takes: a command for ``vllm serve``.  Returns: a row for each flag; the same settings as a command for SGLang.
Must not know: models, metrics; nothing is started.

Ref: vLLM 0.32 and 0.33, ``config/speculative.py`` and ``config/cache.py``; SGLang 0.5.23, ``arg_groups/fields``.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass

#: Article B's command.
ARTICLE_COMMAND = (
    "VLLM_USE_MODELSCOPE=true vllm serve Qwen/Qwen3.6-27B --port 8000 --tensor-parallel-size 8 "
    "--max-model-len 262144 --reasoning-parser qwen3 --speculative-config "
    """'{"method":"qwen3_next_mtp","num_speculative_tokens":2}'"""
)


@dataclass(frozen=True)
class Flag:
    """does: what it sets.  speculation: what that means for drafts; empty: nothing.  sglang: the flag there."""

    does: str
    speculation: str = ""
    sglang: str = ""


FLAGS: dict[str, Flag] = {
    "VLLM_USE_MODELSCOPE": Flag("where the weights are fetched: ModelScope in place of Hugging Face", "",
                                "SGLANG_USE_MODELSCOPE"),
    "model": Flag("the target", "the MTP layer lies in the same checkpoint; a copy without it cannot draft",
                  "--model-path"),
    "--port": Flag("where requests and /metrics are answered", "the port to read the counters from", "--port"),
    "--tensor-parallel-size": Flag(
        "over how many GPUs each weight matrix is split",
        "the draft layer is split alike; all ranks must flip the same coins", "--tp-size",
    ),
    "--max-model-len": Flag(
        "the longest request, prompt and answer", "the draft layer keeps keys and values of every token, too",
        "--context-length",
    ),
    "--reasoning-parser": Flag("splits the answer into thoughts and reply", "", "--reasoning-parser"),
    "--speculative-config": Flag("speculation, as JSON", "all of it; without this flag there are no drafts",
                                 "--speculative-algorithm and others"),
    "--gpu-memory-utilization": Flag(
        "the share of each GPU's memory that may be filled (0.92 when not given)",
        "draft layer and wider calls leave less of it for keys and values", "--mem-fraction-static",
    ),
    "--enable-prefix-caching": Flag(
        "prompts that begin alike share keys and values", "committed tokens only; rejected drafts never enter",
        "on; --disable-radix-cache",
    ),
    "--max-num-seqs": Flag("how many requests share a call", "rows of a call: up to (k + 1) times as many",
                           "--max-running-requests"),
    "--dtype": Flag("the number format", "in 16 bits near-ties part greedy texts, with drafts or without", "--dtype"),
    "--served-model-name": Flag("the name that requests use", "the label model_name in the metrics",
                                "--served-model-name"),
}  # fmt: skip

#: Keys of ``--speculative-config``; SGLang's counterpart where it has one.
CONFIG: dict[str, Flag] = {
    "method": Flag("who drafts", "mtp, eagle3, draft_model, ngram …", "--speculative-algorithm"),
    "num_speculative_tokens": Flag("k, the draft tokens a round",
                                   "one MTP layer runs k times; acceptance falls with each", "--speculative-num-steps"),
    "model": Flag("the drafter's own weights", "not needed for MTP", "--speculative-draft-model-path"),
    "rejection_sample_method": Flag("the verify rule",
                                    "standard and block are lossless; fly is not; synthetic makes numbers up"),
    "draft_sample_method": Flag("how drafts are chosen", "greedy unless set to probabilistic"),
    "num_speculative_tokens_per_batch_size": Flag("k by load, rows [from, to, k]", "notebook 05: ByBatchSize",
                                                  "--speculative-adaptive (by acceptance)"),
    "enable_adaptive_verification": Flag("how much is verified follows load and acceptance", "notebook 05"),
    "prompt_lookup_max": Flag("longest n-gram that is looked up", "ngram only"),
    "prompt_lookup_min": Flag("shortest n-gram that is looked up", "ngram only"),
    "draft_tensor_parallel_size": Flag("over how many GPUs the drafter is split", "1 or the target's number"),
}  # fmt: skip

#: vLLM's short spellings
SHORT = {
    "-tp": "--tensor-parallel-size", "-pp": "--pipeline-parallel-size", "-dp": "--data-parallel-size",
    "-sc": "--speculative-config", "-q": "--quantization",
}  # fmt: skip
_FLAG = re.compile(r"--?[A-Za-z]")  # a value such as -1 is none

METHODS = {"mtp": "NEXTN", "eagle": "EAGLE", "eagle3": "EAGLE3", "ngram": "NGRAM", "draft_model": "STANDALONE"}


@dataclass(frozen=True)
class Command:
    """A command taken apart. flags: name → its value, "" for a switch; the model goes by "model"."""

    environment: Mapping[str, str]
    flags: Mapping[str, str]

    @property
    def config(self) -> dict:
        """The JSON of --speculative-config. Raises ValueError when it is none, with the likely reason."""
        given = self.flags.get("--speculative-config")
        if given is None:
            return {}
        try:
            found = json.loads(given)
        except json.JSONDecodeError as error:
            hint = "" if '"' in given else " The shell took the double quotes: put single quotes round the whole"
            raise ValueError(f"--speculative-config {given!r} is no JSON ({error.msg}).{hint}") from error
        if not isinstance(found, dict):
            raise ValueError(f'--speculative-config {given!r}: use a JSON object, such as {{"method": "mtp"}}')
        return found


def split_command(command: str) -> Command:
    """Take a command apart as a shell does: environment, model, flags. ValueError unless it is ``vllm serve``."""
    try:
        words = shlex.split(re.sub(r"\\\r?\n", "", command))  # as a shell, which joins lines that end in a backslash
    except ValueError as error:
        raise ValueError(f"{command!r:.80}: a quote is open ({error})") from error
    environment = {}
    while words and "=" in words[0] and not words[0].startswith("-"):
        name, _, value = words.pop(0).partition("=")
        environment[name] = value
    if words[:2] != ["vllm", "serve"]:
        raise ValueError(f"{command!r:.80}: give a command that begins with vllm serve")
    flags, words = {}, words[2:]
    while words:
        word = words.pop(0)
        if not _FLAG.match(word):
            if "model" in flags:
                raise ValueError(
                    f"{word!r} belongs to no flag: a value too many, or quotes missing round one with blanks"
                )
            flags["model"] = word
            continue
        name, equals, value = word.partition("=")
        if not equals and words and not _FLAG.match(words[0]):
            value = words.pop(0)
        flags[SHORT.get(name, name.replace("_", "-"))] = value
    return Command(environment, flags)


def explain(command: str) -> list[dict]:
    """A row for each part of a ``vllm serve`` command: flag, value, does, speculation, sglang, note.

    note: what is wrong or out of date with it. A flag that is not known here gets empty words. Raises ValueError as
    ``split_command``, and for a --speculative-config that is no JSON.
    """
    taken = split_command(command)
    parts = [*taken.environment.items(), *((n, v) for n, v in taken.flags.items() if n != "--speculative-config")]
    found = [_row(name, value, FLAGS.get(name, Flag(""))) for name, value in parts]
    for name, value in taken.config.items():
        found.append(_row(f"{name} (speculative)", value, CONFIG.get(name, Flag("")), _note(name, value)))
    if taken.config and not {"num_speculative_tokens"} & taken.config.keys():
        note = "not given: vLLM takes what the drafter's configuration says, or refuses to start"
        found.append(_row("num_speculative_tokens (speculative)", "", CONFIG["num_speculative_tokens"], note))
    return found


def for_sglang(command: str) -> str:
    """The same settings for SGLang 0.5.23, with metrics on.

    k goes to --speculative-num-steps; --speculative-num-draft-tokens counts the rows of the verify call, so it is
    k + 1 (with --speculative-eagle-topk 1, a chain and no tree). A flag that has no counterpart here is left out.
    """
    taken, words = split_command(command), []
    for name, value in taken.environment.items():
        if FLAGS.get(name, Flag("")).sglang:
            words.append(f"{FLAGS[name].sglang}={value}")
    words += ["python", "-m", "sglang.launch_server"]
    for name, value in taken.flags.items():
        other = FLAGS.get(name, Flag("")).sglang
        if name != "--speculative-config" and other.startswith("--"):
            words += [other, *([value] if value else [])]
    config = taken.config
    if config:
        method = _method(str(config.get("method", "")))
        if method not in METHODS:
            raise ValueError(
                f"method {config.get('method')!r}: no counterpart known in SGLang; known: {', '.join(METHODS)}"
            )
        words += ["--speculative-algorithm", METHODS[method]]
        if config.get("model"):
            words += ["--speculative-draft-model-path", str(config["model"])]
        k = config.get("num_speculative_tokens")
        if k is not None and not _is_length(k):
            raise ValueError(f"num_speculative_tokens is {k!r}: use a whole number, 1 or more")
        if k and method == "ngram":
            words += ["--speculative-num-draft-tokens", str(k + 1)]
        elif k:
            words += ["--speculative-num-steps", str(k), "--speculative-eagle-topk", "1"]
            words += ["--speculative-num-draft-tokens", str(k + 1)]
    return shlex.join([*words, "--enable-metrics"])


# -- Inside ---------------------------------------------------------------------------------------------------------


def _is_length(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _method(name: str) -> str:
    """vLLM took one name a family once (qwen3_next_mtp, deepseek_mtp …); today all are mtp."""
    return "mtp" if name.endswith("mtp") else name


def _note(name: str, value: object) -> str:
    if name == "method" and _method(str(value)) != value:
        return "renamed: write mtp; the old name still works, with a warning"
    if name == "num_speculative_tokens" and not _is_length(value):
        return "use a whole number, 1 or more"
    return "" if name in CONFIG else "not known here; vLLM refuses keys that it does not know"


def _row(name: str, value: object, flag: Flag, note: str = "") -> dict:
    row = {"flag": name, "value": str(value), "does": flag.does, "speculation": flag.speculation}
    return row | {"sglang": flag.sglang, "note": note}
