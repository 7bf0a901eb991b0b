"""Checks of notebook 10: MTP tensors by their names, experts that a call reads, the paired ratio of a bench.

Takes: the reader's function.  Returns: a ``Result``, and prints one line.
Must not know: notebooks, pictures.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable, Sequence
from typing import Any

from ..lab import families
from .base import Exercise, Mistake, Result, check, read_flag, read_number

# -- is_mtp(name, num_layers) -> True or False ------------------------------------------------------------------------


def _is_mtp(name: str, num_layers: int) -> bool:
    layer = re.search(r"\blayers\.(\d+)\.", name)
    return "mtp" in name or bool(layer and int(layer.group(1)) >= num_layers)


def _last_number(name: str, num_layers: int) -> bool:
    numbers = re.findall(r"\.(\d+)\.", name)
    return "mtp" in name or bool(numbers and int(numbers[-1]) >= num_layers)


IS_MTP = Exercise(
    "is_mtp",
    _is_mtp,
    [
        ("model.layers.61.eh_proj.weight", 61),
        ("model.layers.60.self_attn.o_proj.weight", 61),
        ("model.layers.6.mlp.experts.200.down_proj.weight", 61),
        ("model.layers.61.mlp.experts.7.down_proj.weight", 61),
        ("model.layers.62.shared_head.norm.weight", 61),
        ("mtp.fc.weight", 48),
        ("mtp.layers.0.self_attn.q_proj.weight", 48),
        ("model.mtp_layers.0.input_proj.weight", 36),
        ("model.layers.9.mlp.up_proj.weight", 30),
        ("model.embed_tokens.weight", 61),
    ],
    read_flag,
    [
        Mistake("only mtp", lambda name, n: "mtp" in name, "You looked for mtp in the name. DeepSeek and GLM number "
                "the MTP layer on behind the model's own layers."),
        Mistake("only numbers", lambda name, n: "mtp" not in name and _is_mtp(name, n), "You looked at layer numbers. "
                "Qwen and MiMo count their MTP layers from 0 under a name of their own."),
        Mistake("above", lambda name, n: "mtp" in name or _is_mtp(name, n + 1), "Layers count from 0: a model of n "
                "layers ends with n - 1, and number n is the first that is not its own."),
        Mistake("the last one too", lambda name, n: _is_mtp(name, n - 1), "You took the model's own last layer as "
                "well: layers count from 0, and n - 1 still belongs to it."),
        Mistake("last number", _last_number, "You read a number that is no layer's: experts are numbered, too."),
        Mistake("as text", lambda name, n: "mtp" in name or _text_compare(name, n), "You compared the numbers as "
                'text: there "9" comes after "30". Turn them into int.'),
        Mistake("the other way round", lambda name, n: not _is_mtp(name, n), "The other way round: True is for the "
                "tensors of the MTP layer."),
    ],
    "So a loader knows which tensors it must place, every one of them, and which are left for the model.",
    argument_names=("name", "num_layers"),
)  # fmt: skip


def _text_compare(name: str, num_layers: int) -> bool:
    layer = re.search(r"\blayers\.(\d+)\.", name)
    return bool(layer and layer.group(1) >= str(num_layers))


def check_is_mtp(function: Callable[[str, int], Any]) -> Result:
    """``is_mtp(name, num_layers)``: does this tensor of a checkpoint belong to an MTP layer?"""
    return check(IS_MTP, function)


# -- experts_read(experts, chosen, rows) -> experts -------------------------------------------------------------------

EXPERTS_READ = Exercise(
    "experts_read",
    families.distinct_experts,
    [(256, 8, 1), (256, 8, 3), (512, 10, 3), (128, 8, 96), (4, 2, 2)],
    read_number,
    [
        Mistake("no overlap", lambda e, c, rows: c * rows, "You let every row choose experts that no other row has "
                "chosen. Some are chosen twice, and read once."),
        Mistake("no overlap, capped", lambda e, c, rows: min(e, c * rows), "You let every row choose experts that no "
                "other row has chosen, until there are none left. Some are chosen twice, and read once."),
        Mistake("one row", lambda e, c, rows: c, "That is what one row reads. The rows of a call choose each for "
                "itself."),
        Mistake("left alone", lambda e, c, rows: e * (1 - c / e) ** rows, "Those are the experts that nobody chose. "
                "The call reads the others."),
        Mistake("one choice a row", lambda e, c, rows: e * (1 - (1 - 1 / e) ** rows), "You let each row choose a "
                "single expert; it takes chosen of them."),
        Mistake("chosen draws", lambda e, c, rows: e * (1 - (1 - 1 / e) ** (c * rows)), "You let a row choose the "
                "same expert twice. Its experts are different ones: a given one is among them with probability "
                "chosen ÷ experts."),
        Mistake("a share", lambda e, c, rows: 1 - (1 - c / e) ** rows, "That is the share. Wanted is the number of "
                "experts."),
    ],
    "Three rows read nearly three times the experts of one; a hundred rows read nearly all, and more are free again.",
    argument_names=("experts", "chosen", "rows"),
    hints={0: "One row reads just the experts that it chose."},
)  # fmt: skip


def check_experts_read(function: Callable[[int, int, int], Any]) -> Result:
    """``experts_read(experts, chosen, rows)``: how many different experts a call reads in a layer, on average."""
    return check(EXPERTS_READ, function)


# -- paired_ratio(plain, arm) -> times as fast ------------------------------------------------------------------------

Times = Sequence[Sequence[float]]


def _paired(plain: Times, arm: Times) -> float:
    each = [statistics.median(p / a for p, a in zip(*pair, strict=True)) for pair in zip(plain, arm, strict=True)]
    return statistics.median(each)


def _flat(times: Times) -> list[float]:
    return [one for row in times for one in row]


PAIRED_RATIO = Exercise(
    "paired_ratio",
    _paired,
    [
        ([[2.0, 2.0, 9.0], [4.0, 4.0, 4.0], [6.0, 6.0, 6.0]], [[1.0, 1.0, 3.0], [4.0, 5.0, 4.0], [4.0, 4.0, 2.0]]),
        ([[1.0, 2.0, 4.0], [3.0, 3.0, 9.0], [8.0, 8.0, 8.0]], [[1.0, 1.0, 1.0], [1.0, 2.0, 4.0], [9.0, 2.0, 5.0]]),
        ([[1.0], [2.0], [30.0]], [[2.0], [1.0], [10.0]]),
        ([[1.0, 1.0, 6.0], [2.0, 2.0, 6.0], [4.0, 4.0, 4.0]], [[1.0, 1.0, 1.0], [1.0, 1.0, 1.0], [1.0, 1.0, 1.0]]),
    ],
    read_number,
    [
        Mistake("upside down", lambda plain, arm: _paired(arm, plain), "Upside down: plain ÷ arm, so that 2 means "
                "twice as fast."),
        Mistake("sums", lambda plain, arm: sum(_flat(plain)) / sum(_flat(arm)), "You divided the sums. One slow "
                "moment, or one slow prompt, then decides for all."),
        Mistake("mean", lambda plain, arm: statistics.fmean(
            statistics.fmean(p / a for p, a in zip(*pair, strict=True)) for pair in zip(plain, arm, strict=True)),
            "You took means. One slow moment of the machine moves a mean; take medians."),
        Mistake("medians apart", lambda plain, arm: statistics.median(
            statistics.median(p) / statistics.median(a) for p, a in zip(plain, arm, strict=True)),
            "You took the medians of both sides apart. Divide within each pair first: what was run in the same "
            "minute met the same machine."),
        Mistake("all at once", lambda plain, arm: statistics.median(
            p / a for p, a in zip(_flat(plain), _flat(arm), strict=True)),
            "You took one median over everything. First each prompt's own over its repeats, then that of the prompts."),
    ],
    "Pairs take the machine's mood out, the first median its slow moments, the second the odd prompt.",
    argument_names=("plain", "arm"),
)  # fmt: skip


def check_paired_ratio(function: Callable[[Times, Times], Any]) -> Result:
    """``paired_ratio(plain, arm)``: seconds a token, a list of repeats for each prompt → times as fast as plain."""
    return check(PAIRED_RATIO, function)
