"""Gated LoRA drafter: mask tokens behind the text ask the target itself for the tokens further ahead.

Takes: the text so far.  Returns: drafts, from a forward call of its own over the target with masks.
Must not know: verify rules, the loop.

A target that reads a mask in place of a token it has not seen yet can learn to say what comes after that token. What it
learns must not change what it says otherwise, so the learned part, a low-rank addition to each linear layer, is gated:
it acts in the rows of masks only. Every other row is computed as in the target, bit for bit, and no such row sees a
mask. So draft token 1, from the row of the last token, is the target's own next token; mask j gives draft token j + 2.

What this costs: the call is a whole forward call of the target, and verification is another. Draft token 1 is nearly
always right, but has been paid for. So compare the mean acceptance length *per target forward*: this drafter makes two
of them a round. Apple's own scheme makes one: its call verifies the draft with masks behind every draft token
("quadratic decoding", k drafts × k masks), so whatever is accepted, the masks behind it have made the next draft.

Ref: Samragh et al., arXiv 2507.11851. Here the sampler head has a residual and no norms, so that it can start from the
    mask's own guess.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ..models import Target, wrap
from ..models.adapter import Decoder, first_line, shared_copy
from ..records import Draft, Sampling
from .head import Head
from .head_drafter import Ends, HeadDrafter


class Gate:
    """Which rows of the call under way are masks: ``rows``, (B, L, 1) bool. One gate serves all layers of a model."""

    rows: Tensor


class Lora(nn.Module):
    """up(down(x)), of rank r: (…, n) → (…, m). Zero as long as ``up`` is."""

    def __init__(self, linear: nn.Linear, rank: int) -> None:
        super().__init__()
        self.down = nn.Linear(linear.in_features, rank, bias=False)
        self.up = nn.Linear(rank, linear.out_features, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, x: Tensor) -> Tensor:
        return self.up(self.down(x.to(self.down.weight.dtype)))


class GatedLinear(nn.Module):
    """The target's linear layer; where the gate is open, plus LoRA."""

    def __init__(self, linear: nn.Linear, lora: Lora, gate: Gate) -> None:
        super().__init__()
        self.linear, self.lora, self.gate = linear, lora, gate

    @property
    def weight(self) -> Tensor:
        return self.linear.weight

    def forward(self, x: Tensor) -> Tensor:
        y = self.linear(x)
        opened = self.gate.rows.reshape(*x.shape[:-1], 1)  # some models flatten B and L
        # A choice, not y + gate · LoRA: adding 0 turns -0.0 into 0.0, and 0 · inf is NaN.
        return torch.where(opened, y + self.lora(x).to(y.dtype), y)


class MaskEmbedding(nn.Module):
    """The vectors of the masks, (num_masks, size)."""

    def __init__(self, num_masks: int, size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(num_masks, size))


class GatedEmbedding(nn.Module):
    """The target's embedding, and behind its V ids the masks: id V + j is mask j. It sets the gate for the call."""

    def __init__(self, embedding: nn.Module, masks: MaskEmbedding, vocab_size: int, gate: Gate) -> None:
        super().__init__()
        self.embedding, self.masks, self.vocab_size, self.gate = embedding, masks, vocab_size, gate

    @property
    def weight(self) -> Tensor:
        return self.embedding.weight

    def forward(self, ids: Tensor) -> Tensor:
        is_mask = ids >= self.vocab_size
        self.gate.rows = is_mask[..., None]
        tokens = self.embedding(ids.masked_fill(is_mask, 0))
        masks = nn.functional.embedding((ids - self.vocab_size).clamp_min(0), self.masks.weight)
        return torch.where(is_mask[..., None], masks.to(tokens.dtype), tokens)


class GatedLora(Head):
    """Mask embeddings, a LoRA of rank ``rank`` for every linear layer of every decoder layer, and a sampler head.

    gated: a Target with the same weights as the target, which reads mask ids, too. It gives hidden states only: its
        lm_head is left out, since a drafter scores a few rows and not with all of it (see ``DraftingHead``).
    """

    name = "gated_lora"
    reads = ()  # it makes its own forward call

    def __init__(self, target: Target, rank: int = 8, num_masks: int = 4) -> None:
        super().__init__(target, rank=rank, num_masks=num_masks)
        if rank < 1:
            raise ValueError(f"rank={rank}: a LoRA has at least rank 1")
        if num_masks < 1:
            raise ValueError(f"num_masks={num_masks}: use at least one mask")
        size = self.decoder.config.hidden_size
        self.num_masks = num_masks
        self.masks = MaskEmbedding(num_masks, size)
        self.loras = nn.ModuleList()
        self.sampler = nn.Sequential(nn.Linear(2 * size, size), nn.SiLU(), nn.Linear(size, size))
        self._gated = (self._with_gates(target, rank),)  # in a tuple: the target's weights are not the head's
        self.ready(target)
        self._check_gates(target)

    @property
    def gated(self) -> Target:
        return self._gated[0]

    @property
    def mask_ids(self) -> list[int]:
        return [self.gated.vocab_size + j for j in range(self.num_masks)]

    def _with_gates(self, target: Target, rank: int) -> Target:
        """A copy of the target with gated modules in place of its linear layers and its embedding."""
        model, gate = shared_copy(target.model), Gate()
        for module in model.modules():  # the same numbers, but training must leave no gradients in the target
            for name, weight in module.named_parameters(recurse=False):
                setattr(module, name, nn.Parameter(weight.detach(), requires_grad=False))
        for layer in Decoder(model).layers:
            loras = nn.ModuleDict()
            linears = [(name, module) for name, module in layer.named_modules() if isinstance(module, nn.Linear)]
            for name, linear in linears:
                if "experts." in name:  # these see some of the rows only, in another order
                    continue
                lora = loras[name.replace(".", "_")] = Lora(linear, rank)
                layer.set_submodule(name, GatedLinear(linear, lora, gate))
            self.loras.append(loras)
        model.set_input_embeddings(GatedEmbedding(model.get_input_embeddings(), self.masks, target.vocab_size, gate))
        model.set_output_embeddings(nn.Identity())
        return wrap(model, target.tokenizer, f"{target.name} with masks")

    @torch.no_grad()
    def _check_gates(self, target: Target) -> None:
        """Raise ValueError where a linear layer reads other rows than those of the call, to which the gate belongs."""
        cache = self.gated.new_cache(1, 4)
        try:
            for ids in ([0, 0], [0, self.mask_ids[0]]):
                ids = torch.tensor([ids], device=target.device)
                self.gated.forward(ids, [2], cache, last_only=True, layers=(-1,))
        except Exception as error:
            raise ValueError(
                f"gated LoRA cannot be put into {target.name} ({type(target.model).__name__}): {first_line(error)}. In "
                "DeepSeek, for instance, some linear layers read the whole cache, and the gate knows the rows of a "
                "call only. Use another drafter, such as mtp"
            ) from error

    def sample(self, hidden: Tensor, previous: Tensor) -> Tensor:
        """The sampler head: hidden states at masks (…, size), corrected by the token before → (…, size).

        previous: (…) int64, the token at the mask's own position, which the mask did not see.
        """
        dtype = self.sampler[0].weight.dtype
        hidden = hidden.to(dtype)
        return hidden + self.sampler(torch.cat([hidden, self.embed(previous).to(dtype)], -1))

    @torch.no_grad()
    def start_from_target(self, generator: torch.Generator) -> None:
        """LoRA and sampler begin without effect; the masks as the mean token with a little noise, each its own."""

        def normal(weight: Tensor, deviation: float) -> None:
            weight.copy_(torch.randn(weight.shape, generator=generator) * deviation)

        for lora in (lora for layer in self.loras for lora in layer.values()):
            normal(lora.down.weight, lora.down.in_features**-0.5)
            lora.up.weight.zero_()
        first, _, last = self.sampler
        normal(first.weight, first.in_features**-0.5)
        first.bias.zero_()
        last.weight.zero_()
        last.bias.zero_()
        tokens = self.decoder.embedding.weight.float()
        normal(self.masks.weight, 0.1 * float(tokens.std()))
        self.masks.weight += tokens.mean(0)


class GatedLoraDrafter(HeadDrafter):
    """Drafts at most ``num_masks + 1`` tokens.

    head: a GatedLora for this target. For the other options see ``HeadDrafter``.

    Its cache holds committed tokens only. A round reads those it lacks and then the masks, whose slots are given back
    as soon as the draft is made; draft tokens are never read.
    """

    kind = GatedLora

    @torch.no_grad()
    def start(self, target: Target, prompts: Sequence[Sequence[int]], hidden: tuple[Tensor, ...]) -> None:
        super().start(target, prompts, hidden)
        self.cache = self.head.gated.new_cache(len(prompts), max(self.prompt_lengths) + 128)
        self._read(self.texts)

    def keep(self, rows: Sequence[int]) -> None:
        super().keep(rows)
        self.cache.keep(rows)

    @torch.no_grad()
    def propose(self, k: Tensor, sampling: Sampling, uniforms: Tensor) -> Draft:
        longest = min(int(k.max()) if len(k) else 0, self.head.num_masks + 1)
        if longest == 0:
            return Draft.of_lists([[]] * len(k), self.target.device)
        unread = [text[length:] for text, length in zip(self.texts, self.cache.lengths, strict=True)]
        masks = self.head.mask_ids[: longest - 1]
        hidden = self._read([tokens + masks for tokens in unread])
        self.cache.roll_back([len(text) for text in self.texts])
        # The last committed token's row, then the masks', which stand in another column for each sequence.
        last = torch.tensor([len(tokens) - 1 for tokens in unread], device=hidden.device)
        columns = last[:, None] + torch.arange(longest, device=hidden.device)
        hidden = hidden[torch.arange(len(unread), device=hidden.device)[:, None], columns]
        choice, ends = self.choice(sampling), Ends(k)
        for step in range(longest):
            row = self.head.sample(hidden[:, step], choice.tokens[-1]) if step else hidden[:, 0]
            if ends.stop(step, self.guess(choice, row, uniforms[:, step])):
                break
        return choice.draft(ends.k)

    def _read(self, rows: Sequence[list[int]]) -> Tensor:
        """Feed each sequence its ids behind what the cache holds; return the hidden states, (B, L, size)."""
        width = max(map(len, rows))
        ids = torch.tensor([row + [0] * (width - len(row)) for row in rows], device=self.target.device)
        return self.head.gated.forward(ids, [len(row) for row in rows], self.cache, last_only=True, layers=(-1,))[1][0]
