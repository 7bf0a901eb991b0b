"""A tiny model of a real family, with random weights: to try a loader or a head on, without fetching anything.

Takes: a seed.  Returns: a transformers model in float64.
Must not know: targets, drafters.
"""

from __future__ import annotations

import torch
from torch import nn

#: GLM-4.5's layer with four experts; end-of-text ids there are none, as there is no text.
TINY = {
    "vocab_size": 64, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": 128, "moe_intermediate_size": 24,
    "num_experts_per_tok": 2, "n_routed_experts": 4, "first_k_dense_replace": 0, "use_qk_norm": True,
    "num_mtp_layers": 1, "bos_token_id": None, "eos_token_id": None, "pad_token_id": None,
}  # fmt: skip


def tiny_glm(seed: int = 0) -> nn.Module:
    """Two layers in the shape of GLM-4.5's, every weight drawn."""
    from transformers import Glm4MoeConfig, Glm4MoeForCausalLM

    model = Glm4MoeForCausalLM(Glm4MoeConfig(**TINY)).double().eval()
    model.set_experts_implementation("eager")  # the grouped one has no float64
    return drawn(model, seed)


def drawn(module: nn.Module, seed: int) -> nn.Module:
    """The module, every weight of it drawn anew: gains of norms from 0.5 to 1.5, matrices normal."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in module.parameters():
            if weight.ndim == 1:
                weight.uniform_(0.5, 1.5, generator=generator)
            else:
                weight.normal_(0, 1.5 * weight.shape[-1] ** -0.5, generator=generator)
    return module
