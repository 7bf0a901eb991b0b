"""Published shapes of models, most of which ship an MTP layer, and GPUs as their data sheets have them.

Takes: a name.  Returns: a ``Family``, a ``Gpu``.
Must not know: how anything is counted or predicted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .. import theory
from ..theory.numbers import whole


@dataclass(frozen=True)
class Family:
    """A published shape. config: the class in transformers, and ``settings`` where its defaults are another model's.

    published: billions of weights in all, and used for a token, as its makers say.  has_mtp: its checkpoints carry one.
    """

    name: str
    config: str
    settings: Mapping[str, object]
    published: tuple[float, float]
    source: str
    has_mtp: bool = True


_HUB = "https://huggingface.co/"
_LLAMA = {"num_key_value_heads": 8, "vocab_size": 128256, "tie_word_embeddings": False}
FAMILIES = {
    one.name: one
    for one in (
        Family(
            "SmolLM2-135M", "LlamaConfig",
            {"hidden_size": 576, "intermediate_size": 1536, "num_hidden_layers": 30, "num_attention_heads": 9,
             "num_key_value_heads": 3, "vocab_size": 49152, "tie_word_embeddings": True},
            (0.135, 0.135), _HUB + "HuggingFaceTB/SmolLM2-135M-Instruct", False,
        ),
        Family(
            "8 B (as Llama-3-8B)", "LlamaConfig",
            {**_LLAMA, "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
             "num_attention_heads": 32},
            (8.03, 8.03), _HUB + "meta-llama/Meta-Llama-3-8B", False,
        ),
        Family(
            "70 B (as Llama-3-70B)", "LlamaConfig",
            {**_LLAMA, "hidden_size": 8192, "intermediate_size": 28672, "num_hidden_layers": 80,
             "num_attention_heads": 64},
            (70.6, 70.6), _HUB + "meta-llama/Meta-Llama-3-70B", False,
        ),
        Family("Qwen3-Next-80B-A3B", "Qwen3NextConfig", {}, (80, 3), _HUB + "Qwen/Qwen3-Next-80B-A3B-Instruct"),
        Family(
            "GLM-4.5", "Glm4MoeConfig",
            {"hidden_size": 5120, "intermediate_size": 12288, "moe_intermediate_size": 1536, "head_dim": 128,
             "n_routed_experts": 160, "first_k_dense_replace": 3, "num_hidden_layers": 92, "use_qk_norm": True,
             "attention_bias": True},
            (355, 32), _HUB + "zai-org/GLM-4.5",
        ),
        Family("DeepSeek-V3", "DeepseekV3Config", {}, (671, 37), "arXiv 2412.19437, section 4.2"),
    )
}  # fmt: skip


@dataclass(frozen=True)
class Gpu:
    """An accelerator as its data sheet has it. memory: gigabytes.  machine: its bandwidth, and dense 16-bit FLOPs."""

    name: str
    machine: theory.Machine
    memory: float
    source: str = "NVIDIA's data sheet"

    def several(self, count: int) -> theory.Machine:
        """``count`` of them that share all work evenly and talk for free."""
        return theory.Machine(self.machine.bandwidth * whole("count", count, 1), self.machine.peak * count)


GPUS = {
    one.name: one
    for one in (
        Gpu("RTX 4090", theory.Machine(1.008e12, 165e12), 24, "NVIDIA's white paper on Ada"),
        Gpu("A100 80 GB SXM", theory.Machine(2.039e12, 312e12), 80),
        Gpu("H100 SXM", theory.Machine(3.35e12, 989e12), 80),
        Gpu("H200 SXM", theory.Machine(4.8e12, 989e12), 141),
    )
}


def of(family: str) -> Family:
    """A family by name. Raises ValueError listing them."""
    if family not in FAMILIES:
        raise ValueError(f"no family {family!r}; there are: {', '.join(FAMILIES)}")
    return FAMILIES[family]
