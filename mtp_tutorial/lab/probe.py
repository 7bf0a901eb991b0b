"""What a hidden state knows of the token after next, by the simplest reader there is: one matrix.

Takes: a target, texts.  Returns: shares of right guesses.
Must not know: heads, drafters.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ..models import Target

#: What a guess may read → how it is put together from the next token's embedding and the hidden state.
READS = {
    "nothing": lambda embedding, hidden: hidden[:, :0],
    "the next token": lambda embedding, hidden: embedding,
    "the hidden state": lambda embedding, hidden: hidden,
    "both": lambda embedding, hidden: torch.cat([embedding, hidden], 1),
}


def share_right(x: Tensor, y: Tensor, x_new: Tensor, y_new: Tensor, lm_head: Tensor) -> float:
    """Fit the matrix that leads from x to y best; how often does what it says of x_new name y_new's own choice?"""
    ones = torch.nn.functional.pad  # a column of ones: the fit may add a constant
    matrix = torch.linalg.lstsq(ones(x, (0, 1), value=1.0), y).solution
    guess = ones(x_new, (0, 1), value=1.0) @ matrix
    return float(((guess @ lm_head.T).argmax(1) == (y_new @ lm_head.T).argmax(1)).double().mean())


def pairs(target: Target, texts: Sequence[str], length: int = 160) -> tuple[Tensor, Tensor, Tensor]:
    """For every position i of the texts: the embedding of the token at i + 1, the hidden states of i and of i + 1.

    Each (positions, size), in float64. length: how many tokens of a text are read at most.
    """
    embedding = target.model.get_input_embeddings().weight.detach().double()
    found = []
    for text in texts:
        ids = torch.tensor([target.encode(text, chat=False)[:length]], device=target.device)
        hidden = target.forward(ids, [ids.shape[1]], target.new_cache(1), layers=(-1,))[1][0][0].double()
        found.append((embedding[ids[0, 1:]], hidden[:-1], hidden[1:]))
    return tuple(torch.cat(part) for part in zip(*found, strict=True))


def token_after_next(target: Target, known: Sequence[str], new: Sequence[str]) -> dict[str, float]:
    """What a guess reads → how often it names what the target will choose one position later.

    The matrices are fitted on the texts ``known`` and tried on ``new``. Raises ValueError when either is empty.
    """
    if not known or not new:
        raise ValueError("give texts to fit on and others to try on, at least one each")
    (embedding, hidden, y), (embedding_new, hidden_new, y_new) = pairs(target, known), pairs(target, new)
    lm_head = target.model.get_output_embeddings().weight.detach().double()
    return {
        name: share_right(read(embedding, hidden), y, read(embedding_new, hidden_new), y_new, lm_head)
        for name, read in READS.items()
    }
