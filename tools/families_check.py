"""Every causal model class of transformers, tiny and with random weights: decoded rightly, or refused with a reason?

    python tools/families_check.py                      all of them, as a table
    python tools/families_check.py llama gpt_neo …      these
    python tools/families_check.py --json report.json   the rows as a file, too

A row says what ``models.wrap`` allows (all, batch 1, or refused and why), and whether greedy texts are those of
transformers' ``generate``: alone, in a ragged batch, and with drafts that are often wrong. Exit status 1 when a model
that is allowed decodes otherwise.
"""

from __future__ import annotations

import argparse
import inspect
import json
import sys
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

import mtp_tutorial as mt
from mtp_tutorial.drafters import NgramDrafter, OracleDrafter
from mtp_tutorial.lab.families import drawn
from mtp_tutorial.models import wrap

WINDOW, LAYERS = 8, 3
#: What configs call their sizes; each takes those it knows.
SIZES = {
    "vocab_size": 61, "max_position_embeddings": 96, "n_positions": 96, "max_target_positions": 96, "n_ctx": 96,
    "max_seq_len": 96, "hidden_size": 32, "n_embd": 32, "d_model": 32, "emb_dim": 32, "word_embed_proj_dim": 32,
    "embedding_size": 32, "input_embedding_size": 32, "intermediate_size": 48, "ffn_dim": 48, "n_inner": 48,
    "d_inner": 48, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "dff": 48, "num_hidden_layers": LAYERS, "n_layer":
    LAYERS, "n_layers": LAYERS, "num_layers": LAYERS, "encoder_layers": LAYERS, "decoder_layers": LAYERS,
    "num_decoder_layers": LAYERS, "num_attention_heads": 4, "n_head": 4, "n_heads": 4, "num_heads": 4,
    "encoder_attention_heads": 4, "decoder_attention_heads": 4, "num_encoder_attention_heads": 4,
    "num_decoder_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "dim_head": 8, "rotary_dim": 8,
    "moe_intermediate_size": 24, "shared_expert_intermediate_size": 24, "num_experts": 4, "num_local_experts": 4,
    "n_routed_experts": 4, "num_experts_per_tok": 2, "n_group": 1, "topk_group": 1, "moe_num_experts": 4, "moe_k":
    2, "moe_topk": 2, "q_lora_rank": 16, "kv_lora_rank": 16, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8,
    "v_head_dim": 8, "first_k_dense_replace": 1, "sliding_window": WINDOW, "local_attention": WINDOW, "is_decoder":
    True, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "initializer_range": 0.4,
}  # fmt: skip
MIXED = {"layer_types": ["sliding_attention", "full_attention", "sliding_attention"]}
MLA = {"num_key_value_heads": 4}
GEMMA = {
    "num_hidden_layers": 4, "layer_types": ["sliding_attention", "full_attention"] * 2, "num_kv_shared_layers": 2,
    "vocab_size_per_layer_input": 61, "hidden_size_per_layer_input": 8,
}  # fmt: skip
LONGROPE = {
    "rope_type": "longrope", "rope_theta": 1e4, "original_max_position_embeddings": 32,
    "short_factor": [1.0] * 4, "long_factor": [8.0] * 4,
}  # fmt: skip
#: A family's name in transformers → what it needs beside SIZES.
NEEDS: dict[str, dict] = {
    "axk1": MLA, "axk2": MLA, "deepseek_v2": MLA, "deepseek_v3": MLA, "deepseek_v32": MLA, "glm4_moe_lite": MLA,
    "glm_moe_dsa": MLA, "minicpm3": MLA, "youtu": MLA, "dots3_note_text": MLA,
    "sarvam_mla": MLA, "gemma3n_text": GEMMA | {"laurel_rank": 8, "activation_sparsity_pattern": [0.0] * 4},
    "longcat_flash": MLA | {"ffn_hidden_size": 48, "expert_ffn_hidden_size": 24, "zero_expert_num": 2},
    "gemma4_text": GEMMA, "dots1": {"n_shared_experts": 1}, "cpmant": {"dim_ff": 48},
    "cohere2": MIXED, "cohere2_moe": MIXED, "gemma3_text": MIXED, "exaone4": MIXED, "olmo3": MIXED, "afmoe": MIXED,
    "exaone_moe": MIXED, "kolibri1": MIXED, "dory": MIXED,
    "gpt_neo": {"window_size": WINDOW, "attention_types": [[["global", "local", "global"], 1]]},
}  # fmt: skip


@dataclass(frozen=True)
class Variant:
    """A model that is no family of its own. model: its class; None takes the family's."""

    family: str
    settings: dict
    model: str | None = None
    dtype: torch.dtype | None = None  # None: float64 where the class can be called so, else float32


VARIANTS = {
    "llama longrope": Variant("llama", {"rope_parameters": LONGROPE}),
    "llama dynamic": Variant("llama", {
        "max_position_embeddings": 32, "rope_parameters": {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 4.0},
    }),
    "llama yarn": Variant("llama", {"rope_parameters": {
        "rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0, "original_max_position_embeddings": 24,
    }}),
    "phi3 longrope": Variant("phi3", {"rope_parameters": LONGROPE, "original_max_position_embeddings": 32}),
    "llama eager": Variant("llama", {"attn_implementation": "eager"}),
    "gemma2 eager": Variant("gemma2", {"attn_implementation": "eager"}),
    "qwen2 mixed": Variant("qwen2", {"use_sliding_window": True, "max_window_layers": 1}),
    "qwen3 mixed": Variant("qwen3", {"use_sliding_window": True, "max_window_layers": 1}),
    "bert encoder": Variant("bert", {"is_decoder": False}),
    "roberta encoder": Variant("roberta", {"is_decoder": False}),
    "t5": Variant("t5", {}, "T5ForConditionalGeneration"),
    "bart seq2seq": Variant("bart", {"is_decoder": False}, "BartForConditionalGeneration"),
    "falcon alibi": Variant("falcon", {"alibi": True}),
    "mixtral float64": Variant("mixtral", {}, dtype=torch.float64),
    "xglm float64": Variant("xglm", {}, dtype=torch.float64),
    "llama bfloat16": Variant("llama", {}, dtype=torch.bfloat16),
}  # fmt: skip
PROMPTS = [[5, 9, 3], [7, 4, 31, 15, 12, 60, 33, 8, 9, 10, 20], [11, 12, 13, 14, 15] * 3]
NEW, LARGEST = 24, 5_000_000  # tokens generated; weights of a model that still counts as tiny
PENALTY = 1.5  # random weights repeat themselves, and a text of one token hides faults
GREEDY = mt.Sampling(temperature=0, repetition_penalty=PENALTY)


@dataclass
class Row:
    """What came out for one family. The agreements: None where it was not tried."""

    family: str
    verdict: str  # "all", "batch 1", "refused", "not built"
    why: str = ""
    dtype: str = ""
    alone: bool | None = None
    batch: bool | None = None
    speculative: bool | None = None
    rejected: int = 0  # draft tokens, so that roll-backs have occurred

    @property
    def is_wrong(self) -> bool:
        return False in (self.alone, self.batch, self.speculative)


def names() -> list[str]:
    """All families of transformers that are made for causal decoding, and the variants."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    return [*MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, *VARIANTS]


def built(name: str) -> torch.nn.Module:
    """The tiny model, its weights drawn. Raises ValueError for one that is not tiny after all."""
    import transformers
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    variant = VARIANTS.get(name, Variant(name, {}))
    kind = transformers.CONFIG_MAPPING[variant.family]
    known = inspect.signature(kind.__init__).parameters.keys() | getattr(kind, "__dataclass_fields__", {}).keys()
    sizes = {key: value for key, value in SIZES.items() if key in known}
    config = kind(**{**sizes, **NEEDS.get(variant.family, {}), **variant.settings})
    make = getattr(transformers, variant.model or MODEL_FOR_CAUSAL_LM_MAPPING_NAMES[variant.family])
    with torch.device("meta"):
        weights = sum(weight.numel() for weight in make(config).parameters())
    if weights > LARGEST:
        raise ValueError(f"{weights:,} weights")
    model = drawn(make(config).eval(), seed=0).to(variant.dtype or torch.float64)
    model.generation_config = transformers.GenerationConfig(pad_token_id=0)  # without ids that are forced or end a text
    return model if variant.dtype or _runs(model) else model.float()


def _runs(model: torch.nn.Module) -> bool:
    try:
        model(input_ids=torch.tensor([[3, 4]]))
    except Exception:  # whatever it may be
        return False
    return True


def check(name: str) -> Row:
    """One family's row."""
    try:
        model = built(name)
    except Exception as error:  # a class that cannot be made tiny this way says nothing about this library
        return Row(name, "not built", _line(error))
    row = Row(name, "all", dtype=str(next(model.parameters()).dtype).removeprefix("torch."))
    try:
        target = wrap(model, name=name)
    except ValueError as error:
        row.verdict, row.why = "refused", _line(error)
        return row
    row.verdict, row.why = (
        ("batch 1", target.batch_refusal) if target.batch_refusal else ("all", "; ".join(target.notes))
    )
    try:
        compare(target, row)
    except Exception as error:  # what is allowed must not fail
        row.alone, row.why = False, _line(error)
    return row


def compare(target: mt.Target, row: Row) -> None:
    """Fill in whether the greedy texts are transformers' own."""
    right = [reference(target.model, prompt, target.max_length) for prompt in PROMPTS]
    row.alone = decoded(target, right, False) == right
    row.batch = None if target.batch_refusal else decoded(target, right, True) == right
    rejected = Counter()
    row.speculative = all(
        decoded(target, right, together, drafter, rejected) == right
        for together in ((False,) if target.batch_refusal else (False, True))
        for drafter in (NgramDrafter, lambda target, texts: OracleDrafter(target, texts, accuracy=0.6))
    )
    row.rejected = rejected["tokens"]


def reference(model: torch.nn.Module, prompt: list[int], max_length: int) -> list[int]:
    """What transformers' own ``generate`` makes of a prompt, greedily."""
    new = min(NEW, max_length - len(prompt))
    ids = torch.tensor([prompt])
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = model.generate(
            ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=new, repetition_penalty=PENALTY
        )
    return made[0, len(prompt) :].tolist()


def decoded(
    target: mt.Target, right: list[list[int]], together: bool, drafter: Callable | None = None, rejected: Counter = None
) -> list[list[int]]:
    """The greedy texts of the prompts, in one batch or one by one."""
    found = []
    for group in [list(range(len(PROMPTS)))] if together else [[i] for i in range(len(PROMPTS))]:
        guesses = [right[i] for i in group]
        used = None
        if drafter is not None:
            used = drafter(target) if drafter is NgramDrafter else drafter(target, guesses)
        found += mt.generate(
            target, [PROMPTS[i] for i in group], used, sampling=GREEDY, max_new_tokens=NEW, ignore_eos=True
        )
    if rejected is not None:
        rejected["tokens"] += sum(one.num_drafted - one.num_accepted for g in found for one in g.rounds)
    return [g.tokens for g in found]


def _line(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".replace("ValueError: ", "").split("\n")[0][:240]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("families", nargs="*", help="names as transformers has them, or of a variant; none: all")
    parser.add_argument("--json", type=Path, help="write the rows here, too")
    options = parser.parse_args(arguments)
    unknown = sorted(set(options.families) - set(names()))
    if unknown:
        parser.error(f"no family {unknown[0]!r}; there are: {', '.join(names())}")
    warnings.simplefilter("ignore")
    import transformers

    transformers.logging.set_verbosity_error()
    torch.manual_seed(0)  # this program's own: some classes draw weights that are not parameters
    rows = []
    for name in options.families or names():
        rows.append(check(name))
        print(f"\r{len(rows)} {name:<40}", end="", file=sys.stderr)
    print(file=sys.stderr)
    show(rows)
    if options.json:
        options.json.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n", encoding="utf-8")
    return int(any(row.is_wrong for row in rows))


def show(rows: list[Row]) -> None:
    def mark(value: bool | None) -> str:
        return {None: "–", True: "yes", False: "[red]NO[/red]"}[value]

    table = Table("family", "dtype", "allowed", "alone", "batch", "drafts", "rejected", "why")
    for row in rows:
        agreements = map(mark, (row.alone, row.batch, row.speculative))
        table.add_row(row.family, row.dtype, row.verdict, *agreements, str(row.rejected or ""), row.why)
    console = Console()
    console.print(table)
    counts = Counter("WRONG" if row.is_wrong else row.verdict for row in rows)
    console.print(", ".join(f"{verdict}: {count}" for verdict, count in counts.most_common()))


if __name__ == "__main__":
    sys.exit(main())
