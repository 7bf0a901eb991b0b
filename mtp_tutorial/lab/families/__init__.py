"""Models that ship an MTP layer, and three without: what a call and a draft step read, and the speed-up on named GPUs.

Takes: a family's name, a GPU, k, acceptance.  Returns: numbers of weights, seconds by the roofline, a speed-up.
Must not know: weights and checkpoints; nothing is fetched, nothing measured.
"""

from __future__ import annotations

from .predict import Predicted, predict
from .shapes import FAMILIES, GPUS, Family, Gpu, of
from .sizes import Sizes, distinct_experts, sizes
from .tiny import drawn, tiny_glm

__all__ = [
    "FAMILIES",
    "GPUS",
    "Family",
    "Gpu",
    "Predicted",
    "Sizes",
    "distinct_experts",
    "drawn",
    "of",
    "predict",
    "sizes",
    "tiny_glm",
]
