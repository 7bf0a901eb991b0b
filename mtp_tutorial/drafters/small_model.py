"""A draft model made of the kinds of the target's first layers, between the target's embedding and lm_head.

Takes: a target.  Returns: a module with the weights of those layers and a norm; and a model of transformers from it.
Must not know: how drafts are chosen or judged.

Ref: Leviathan et al., arXiv 2211.17192 (any model with the target's vocabulary drafts); DistilBERT, arXiv 1910.01108
    (a student that starts from some of its teacher's layers).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ..models import Target, adapter, wrap
from .head import DraftingHead, Head


class SmallModel(Head):
    """``num_layers`` decoder layers and a final norm. Embedding and lm_head are the target's."""

    name = "draft"

    def __init__(self, target: Target, num_layers: int = 2) -> None:
        super().__init__(target, num_layers=num_layers)
        if not 1 <= num_layers <= target.num_layers:
            raise ValueError(f"num_layers={num_layers}: use 1 to {target.num_layers}, as many as the target has")
        self.decoder.check_one_attention_each()
        self.layers = nn.ModuleList(self.decoder.new_layer(index, like=index) for index in range(num_layers))
        self.norm = self.decoder.new_norm()
        self.ready(target)
        # transformers' own code runs these layers; in a tuple, so that the target's weights are not the head's.
        self._model = (adapter.with_layers(target.model, self.layers, self.norm),)

    def forward(self, ids: Tensor) -> Tensor:
        """(B, L) ids → (B, L, size) after the final norm, without a cache: for training."""
        x = self.embed(ids).to(next(self.layers.parameters()).dtype)
        return self._model[0].get_decoder()(inputs_embeds=x, use_cache=False).last_hidden_state

    @torch.no_grad()
    def start_from_target(self, generator: torch.Generator) -> None:
        """The target's first layers and its final norm.

        Its last layer in place of the last of these trains more slowly: it expects what all before it have made.
        """
        for layer, source in zip(self.layers, self.decoder.layers, strict=False):
            layer.load_state_dict(source.state_dict())
        self.norm.load_state_dict(self.decoder.norm.state_dict())

    def as_target(self, target: Target, frequent: Tensor | None = None) -> Target:
        """A causal model of transformers that decodes with these layers; frequent: as for ``DraftingHead``."""
        model = adapter.shared_copy(self._model[0])
        if frequent is not None or target.takes_short_way:  # the short way has laid out the target's own lm_head
            model.set_output_embeddings(DraftingHead(target, frequent))
        return wrap(model, target.tokenizer, f"the draft model of {target.name}")
