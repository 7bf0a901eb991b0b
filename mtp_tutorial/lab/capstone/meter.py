"""What a drafter's work costs: the weights that it reads, beside those that a call of the target reads.

Takes: a drafter.  Returns: the same drafter, and how much it read for each draft.
Must not know: what is drafted, verify rules, scores.

At batch 1 a call takes as long as its weights take to be read (notebook 05). So the meter counts the elements of the
matrix in every product of torch that runs inside the drafter: ``mm``, ``addmm``, ``mv``, ``addmv``, ``linear``. Nobody
has to declare a price. Tables, Python's dicts and look-ups of embeddings cost nothing, however large they are; a
product in numpy would escape the meter, and is against the rules of the game.
"""

from __future__ import annotations

from collections.abc import Sequence, Set

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from ...drafters import Drafter
from ...models import Target
from ...records import Draft, Sampling, Verdict
from ..museum.engine_bugs import Wrapped

#: Name of the operation → which argument is the matrix.
_MATRIX = {"mm": 1, "addmm": 2, "mv": 0, "addmv": 1, "linear": 1}


class WeightsRead(TorchDispatchMode):
    """Within it, ``elements`` counts what matrix products read, and ``again`` what they read of the target's layers.

    layers: where the weights of the target's layers lie in memory.
    """

    def __init__(self, layers: Set[int] = frozenset()) -> None:
        super().__init__()
        self.layers, self.elements, self.again = layers, 0, 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        place = _MATRIX.get(func.overloadpacket.__name__)
        if place is not None and args[place].data_ptr() in self.layers:
            self.again += args[place].numel()
        elif place is not None:
            self.elements += args[place].numel()
        return func(*args, **(kwargs or {}))


def lm_head(target: Target) -> Tensor:
    """(V, size) the weights that turn hidden states into logits."""
    return target.model.get_output_embeddings().weight


def weights_of_a_call(target: Target) -> int:
    """The weights that a call of the target reads: all but the embedding, of which it looks up a few rows, unless the
    embedding is its lm_head as well."""
    model = target.model
    embedding, head = model.get_input_embeddings().weight, lm_head(target)
    count = sum(p.numel() for p in model.parameters())
    return count if embedding is head or embedding.data_ptr() == head.data_ptr() else count - embedding.numel()


class Metered(Wrapped):
    """A drafter under the meter: what the start of the text and then each draft read, in target calls.

    ``read``: weights of its own, and the target's lm_head.  ``again``: of the target's layers, which is running it.

    What ``commit`` and ``keep`` read is counted with the draft before them.
    """

    def __init__(self, inner: Drafter, target: Target) -> None:
        super().__init__(inner)
        self.once = weights_of_a_call(target)
        shared = {target.model.get_input_embeddings().weight.data_ptr(), lm_head(target).data_ptr()}
        self.layers = {p.data_ptr() for p in target.model.parameters()} - shared
        self.read: list[float] = []
        self.again: list[float] = []

    def _run(self, function, *arguments):
        with WeightsRead(self.layers) as meter:
            found = function(*arguments)
        self.read[-1] += meter.elements / self.once
        self.again[-1] += meter.again / self.once
        return found

    def start(self, target: Target, prompts: Sequence[Sequence[int]], hidden: tuple[Tensor, ...]) -> None:
        self.read, self.again = [0.0], [0.0]
        self._run(super().start, target, prompts, hidden)

    def propose(self, k: Tensor, sampling: Sampling, uniforms: Tensor) -> Draft:
        self.read.append(0.0)
        self.again.append(0.0)
        return self._run(super().propose, k, sampling, uniforms)

    def commit(self, verdict: Verdict, hidden: tuple[Tensor, ...]) -> None:
        self._run(super().commit, verdict, hidden)

    def keep(self, rows: Sequence[int]) -> None:
        self._run(super().keep, rows)
