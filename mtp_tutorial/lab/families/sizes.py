"""How many weights a model has, and how many of them a call and a draft step read.

Takes: a family's name.  Returns: ``Sizes``.
Must not know: GPUs, seconds. Nothing is fetched: a model is laid out from its config, without its numbers.

A mixture of experts reads more of them with more rows. The rows are taken to choose independently and evenly;
neighbours that choose alike read less.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import torch
from torch import nn

from ..theory.numbers import number, whole
from .shapes import of


@dataclass(frozen=True)
class Sizes:
    """Numbers of weights. total: of the model without MTP.  dense: read by every call (no embedding, no experts).

    expert: of one routed expert.  experts, chosen: of each layer of experts; 0 without.  expert_layers: how many.
    layers: of the model.  head: of the MTP layer in all.  head_dense: read by each of its steps beside experts and
    lm_head.  lm_head: the target's, which a step scores with.
    """

    total: int
    dense: int
    expert: int
    experts: int
    chosen: int
    expert_layers: int
    layers: int
    head: int
    head_dense: int
    lm_head: int

    @property
    def active(self) -> int:
        """Weights used for one token, the embedding aside."""
        return self.dense + self.expert_layers * self.chosen * self.expert

    def read(self, rows: float) -> float:
        """Weights that one call on ``rows`` rows reads."""
        return self.dense + self.expert_layers * self.expert * distinct_experts(self.experts, self.chosen, rows)

    def step(self, rows: float = 1, scored: float = 1.0) -> float:
        """Weights that one draft step on ``rows`` rows reads. scored: the share of the lm_head that it scores."""
        routed = self.expert * distinct_experts(self.experts, self.chosen, rows)
        return self.head_dense + routed + number("scored", scored, 0, 1) * self.lm_head

    def step_active(self, scored: float = 1.0) -> float:
        """Weights that a draft step multiplies each row with."""
        return self.head_dense + self.chosen * self.expert + scored * self.lm_head


def distinct_experts(experts: int, chosen: int, rows: float) -> float:
    """Of one layer's experts, how many are read by a call on ``rows`` rows, on average: each row takes ``chosen``.

    An expert is left alone by a row with probability 1 - chosen/experts, and by all of them with that to the power of
    rows. 0 for a model without experts.

    >>> distinct_experts(256, 8, 1), round(distinct_experts(256, 8, 3), 2), distinct_experts(0, 0, 3)
    (8.0, 23.26, 0.0)
    """
    if not whole("experts", experts):
        return 0.0
    return experts * (1 - (1 - whole("chosen", chosen, 1) / experts) ** number("rows", rows))


@cache
def sizes(family: str) -> Sizes:
    """The numbers of weights of a family, counted on its layers as transformers builds them.

    Its MTP layer: two norms, a projection, a decoder layer as the model's last one, a final norm. Families without one
    are counted as if they had it.
    """
    import transformers

    one = of(family)
    made = getattr(transformers, one.config)(**one.settings)
    with torch.device("meta"), _without_notes():
        model = transformers.AutoModelForCausalLM.from_config(made)
    last, embedding = model.get_decoder().layers[-1], _count(model.get_input_embeddings())
    routed = [part for part in map(_routed, model.get_decoder().layers) if part]
    experts = (getattr(made, "n_routed_experts", None) or getattr(made, "num_experts", None) or 0) if routed else 0
    size, total = made.hidden_size, _count(model)
    head = 2 * size * size + 3 * size + _count(last)
    tied = made.tie_word_embeddings
    return Sizes(
        total=total,
        dense=total - sum(routed) - (0 if tied else embedding),
        expert=routed[-1] // experts if experts else 0,
        experts=experts,
        chosen=made.num_experts_per_tok if experts else 0,
        expert_layers=len(routed),
        layers=made.num_hidden_layers,
        head=head,
        head_dense=head - _routed(last),
        lm_head=_count(model.get_output_embeddings()),
    )


# -- Inside ---------------------------------------------------------------------------------------------------------


def _count(module: nn.Module) -> int:
    return sum(weight.numel() for weight in module.parameters())


def _routed(layer: nn.Module) -> int:
    """Weights of a layer's routed experts; those that every token uses have "shared" in their names."""
    return sum(weight.numel() for name, weight in layer.named_parameters() if ".experts." in name)


class _without_notes:
    """Without transformers' notes on kernels that are not installed: nothing is computed here."""

    def __enter__(self) -> None:
        from transformers.utils import logging

        self.before = logging.get_verbosity()
        logging.set_verbosity_error()

    def __exit__(self, *_: object) -> None:
        from transformers.utils import logging

        logging.set_verbosity(self.before)
