"""An MTP head whose weights were loaded wrongly, or are another target's: what it costs, and what it cannot touch.

Takes: a target with a stored head, a fault.  Returns: a drafter; the numbers that a reader would look at.
Must not know: how heads draft, verify rules.

None of the faults raises an error in a loader that only looks at shapes. Real loaders had each of them.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from ..decode import generate
from ..drafters import load_drafter
from ..drafters.mtp import MtpDrafter
from ..drafters.mtp_head import MtpLayer
from ..models import Target, load
from ..records import Sampling, by_position
from . import losslessness
from .families.tiny import drawn


def _halves(layer: MtpLayer) -> None:
    """The projection reads [embedding; hidden]; MiMo's is stored as [hidden; embedding]."""
    embedding, hidden = layer.eh_proj.weight.chunk(2, 1)
    layer.eh_proj.weight.copy_(torch.cat([hidden, embedding], 1))


def _norms(layer: MtpLayer) -> None:
    """The embedding's norm and the hidden state's, exchanged."""
    layer.enorm, layer.hnorm = layer.hnorm, layer.enorm


def _gains(layer: MtpLayer) -> None:
    """Qwen stores a norm's gain less 1; whoever takes it for the gain itself gets this."""
    for weight in (one for one in layer.parameters() if one.ndim == 1):
        weight -= 1


def _random(layer: MtpLayer) -> None:
    """Tensors that were not found stay as the constructor drew them."""
    drawn(layer, 0)


#: fault → what it does to the head's layer
FAULTS: dict[str, Callable[[MtpLayer], None] | None] = {
    "right": None,
    "norms": _norms,
    "halves": _halves,
    "1 + w": _gains,
    "random": _random,
}


def drafter(fault: str, target: Target, dtype: torch.dtype = torch.float64) -> MtpDrafter:
    """nano's stored head with a fault, on a target of nano's shape. Raises ValueError for an unknown fault.

    The target may have other weights than the head was trained for: this is the check that the library makes elsewhere.
    """
    if fault not in FAULTS:
        raise ValueError(f"no fault {fault!r}; there are: {', '.join(FAULTS)}")
    head = load_drafter("mtp", load("nano", dtype=dtype)).head
    change = FAULTS[fault]
    if change is not None:
        with torch.no_grad():
            for layer in head.layers:
                change(layer)
    return MtpDrafter(target, head)


@torch.no_grad()
def changed(amount: float, seed: int = 0, dtype: torch.dtype = torch.float64) -> Target:
    """nano with noise of ``amount`` times its own spread added to every matrix: a target trained on, a head that was
    not."""
    target, generator = load("nano", dtype=dtype), torch.Generator().manual_seed(seed)
    for weight in (one for one in target.model.parameters() if one.ndim > 1):
        weight += amount * weight.std() * torch.randn(weight.shape, generator=generator, dtype=dtype)
    return target


def judge(
    target: Target, made: MtpDrafter, prompts: list[str], k: int = 4, tokens: int = 40, samples: int = 400
) -> dict:
    """What a reader can see of a head: at temperature 0 on the prompts, and at 1 on texts of four tokens.

    Returns ``length`` (tokens a round), ``shares`` (of rounds that accept position 1, 2, …), ``same`` (all greedy texts
    are those without drafts), ``p_value`` (``samples`` texts under rejection against the target's law), and
    ``p_lossy``, the same under a rule that is known to be lossy.
    """
    options = {"sampling": Sampling(temperature=0), "max_new_tokens": tokens, "ignore_eos": True}
    plain = generate(target, prompts, **options)
    found = generate(target, prompts, made, num_speculative_tokens=k, **options)
    rounds = [one for text in found for one in text.rounds if one.num_drafted == k]
    shares = [accepted / len(rounds) for accepted in by_position(rounds, k)[1]]
    ids, length = target.encode(losslessness.PROMPT, chat=False), losslessness.LENGTH
    law = losslessness.law(target, ids, losslessness.SAMPLING, length)
    p_values = [
        losslessness.p_value(list(losslessness.samples(target, ids, made, rule, count=samples)), law)
        for rule in ("rejection", losslessness.CONTROL)
    ]
    return {
        "length": 1 + sum(shares),
        "shares": shares,
        "same": [one.tokens for one in plain] == [one.tokens for one in found],
        "p_value": p_values[0],
        "p_lossy": p_values[1],
    }
