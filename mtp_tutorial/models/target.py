"""A target: a causal language model, its tokenizer, and one forward call over slots.

Takes: token ids and a ``SlotCache``.  Returns: logits of the rows asked for, and hidden states.
Must not know: drafters, verify rules, the loop.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from ..cache import SlotCache
from . import adapter, compiled, fast, invariant, threads

Messages = list[dict[str, str]]


@dataclass
class Target:
    """A model ready to decode. ``model`` stays as transformers (or the toy) made it.

    vocab_size: the width of the logits.  max_length: the longest sequence the model was made for, in tokens.
    eos_ids: the ids that end a text.
    """

    name: str
    model: torch.nn.Module
    tokenizer: object
    device: torch.device
    dtype: torch.dtype
    vocab_size: int
    max_length: int
    eos_ids: frozenset[int]
    num_layers: int
    notes: tuple[str, ...] = ()  # what a reader should know, such as "dequantised from Q4_1"
    batch_refusal: str = ""  # why only one text at a time comes out right; empty where batches do, too
    takes_short_way: bool = False  # forward calls go through ``fast.py``
    is_compiled: bool = False  # … as programs compiled for each shape
    is_batch_invariant: bool = False  # a token's logits do not depend on what else a call reads
    _calls: object = field(default=None, repr=False)

    def __repr__(self) -> str:
        weights = sum(weight.numel() for weight in self.model.parameters())
        return (
            f"Target({self.name!r}: {type(self.model).__name__}, {weights:,} parameters in {self.num_layers} layers, "
            f"{str(self.dtype).removeprefix('torch.')} on {self.device}, {self.vocab_size:,} token ids, "
            f"context {self.max_length:,})"
        )

    @property
    def is_chat(self) -> bool:
        """True when the tokenizer knows how to write a conversation."""
        return getattr(self.tokenizer, "chat_template", None) is not None

    def new_cache(self, batch: int, capacity: int = 256) -> SlotCache:
        """An empty cache for ``batch`` sequences with room for ``capacity`` tokens each; it grows when needed."""
        self.check_batch(batch)
        capacity = compiled.capacity(capacity) if self.is_compiled else capacity
        return SlotCache(self.num_layers, batch, self.device, capacity)

    def check_batch(self, batch: int) -> None:
        """Raise ValueError for several sequences at a time on a model that decodes them rightly alone only."""
        if batch > 1 and self.batch_refusal:
            raise ValueError(f"{self.batch_refusal}; {batch} were given")

    def fingerprint(self) -> str:
        """A short hash of the weights: tells one target from another, whatever their names or dtypes."""
        digest = hashlib.sha256()
        for name, weight in sorted(self.model.state_dict().items()):
            flat = weight.detach().flatten()
            digest.update(f"{name} {tuple(weight.shape)}".encode())
            # A sample is enough; bf16 values, so that the same weights hash alike in every dtype they are loaded in.
            sample = flat[:: max(1, len(flat) // 4096)]
            digest.update(sample.to(torch.bfloat16).float().cpu().numpy().tobytes())
        return digest.hexdigest()[:16]

    def threads(self) -> AbstractContextManager[None]:
        """A context in which torch uses as many threads as this model can make use of now (models/threads.py).

        A compiled model keeps the number that is set, as torch would compile it once more for every other one; so does
        a batch-invariant one, as the order of additions in a product may change with the number of threads.
        """
        is_free = self.device.type == "cpu" and not (self.is_compiled or self.is_batch_invariant)
        return threads.fitted(self._weight_bytes) if is_free else nullcontext()

    @cached_property
    def _weight_bytes(self) -> int:
        return sum(weight.numel() * weight.element_size() for weight in self.model.parameters())

    @torch.no_grad()
    def forward(
        self,
        ids: Tensor,
        counts: Sequence[int],
        cache: SlotCache,
        last_only: bool = False,
        layers: Sequence[int] = (),
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """One model call: read new tokens behind what the cache holds, and move its counters on.

        ids: (B, L) int64; row b holds ``counts[b]`` real tokens, then padding (any valid id).
        last_only: logits of each sequence's last real token only, (B, 1, V); otherwise (B, L, V).
        layers: which hidden states to return, each (B, L, hidden): 0 the embedding, i after layer i,
            -1 after the final norm.
        """
        width = ids.shape[1]
        cache.begin(width)
        rows: Sequence[int] | None = None
        if last_only:
            rows = sorted({max(count, 1) - 1 for count in counts})
        with self.threads():
            logits, hidden = self._caller()(ids, cache, rows, bool(layers), self.max_length)
        cache.advance(counts)
        if last_only and len(rows) > 1:
            which = torch.tensor([rows.index(max(count, 1) - 1) for count in counts], device=logits.device)
            logits = logits[torch.arange(len(ids), device=logits.device), which][:, None]
        return logits, tuple(hidden[layer] for layer in layers)

    @torch.no_grad()
    def score(self, hidden: Tensor) -> Tensor:
        """(…, size) hidden states after the final norm → (…, V) logits, by the model's own lm_head."""
        return self._caller().score(hidden)

    def _caller(self) -> adapter.Caller | fast.FastCaller | compiled.CompiledCaller | invariant.InvariantCaller:
        """What reads the model: the model itself, or the fused pass where it is on."""
        if self._calls is None:
            short = compiled.CompiledCaller if self.is_compiled else fast.FastCaller
            caller = short(self.model) if self.takes_short_way else adapter.Caller(self.model)
            self._calls = invariant.InvariantCaller(caller) if self.is_batch_invariant else caller
        return self._calls

    # -- Text -------------------------------------------------------------------------------------------------------

    def encode(self, prompt: str | Messages | Sequence[int], chat: bool = True) -> list[int]:
        """The ids of a prompt: a string (one user turn on a chat model unless ``chat`` is False), messages, or ids.

        A text that a chat template wrote out goes with ``chat=False``; it keeps the one BOS token that it begins with.
        Raises ValueError for an empty prompt, ids outside the vocabulary, messages on a model without a template, or
        messages that the template refuses, in its own words.
        """
        if isinstance(prompt, str):
            if not prompt:
                raise ValueError("the prompt is empty: give at least one character")
            if self.tokenizer is None:
                raise ValueError(f"{self.name} came without a tokenizer: give a list of ids instead of a string")
            if chat and self.is_chat:
                self._warn_of_two_templates(prompt)
                prompt = [{"role": "user", "content": prompt}]
            else:
                return self._checked(self._read(prompt))
        prompt = prompt.tolist() if isinstance(prompt, (Tensor, np.ndarray)) else prompt
        if not isinstance(prompt, (list, tuple)):
            raise ValueError(f"a prompt is a string, messages, or a list of ids; got {type(prompt).__name__}")
        prompt = list(prompt)
        if prompt and isinstance(prompt[0], dict):
            if not self.is_chat:
                raise ValueError(f"{self.name} has no chat template: give a string or token ids instead of messages")
            return self._checked(self._read(self._rendered(prompt), add_special_tokens=False))
        return self._checked(prompt)

    def _rendered(self, messages: Messages) -> str:
        """The conversation as its chat template writes it, up to where the answer begins."""
        try:
            return self.tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
        except Exception as error:  # a template is a program of its own
            from jinja2 import TemplateError

            if not all(_is_message(message) for message in messages):
                raise ValueError('each message must be a dict such as {"role": "user", "content": "…"}') from error
            words = f"{error}" if isinstance(error, TemplateError) else f"{type(error).__name__}: {error}"
            roles = [message["role"] for message in messages]
            cures = ["put the system text at the beginning of the first user message"] if "system" in roles else []
            if any(one == two for one, two in zip(roles, roles[1:])):
                cures.append("join messages of the same role that follow one another")
            raise ValueError(
                f"the chat template of {self.name} refuses these messages ({', '.join(roles)}): {words.rstrip('.')}. "
                f"To have it accept them, {', or '.join(cures) or 'change them to what it allows'}; or pass the text "
                "itself, as one string, with chat=False"
            ) from error

    def _warn_of_two_templates(self, text: str) -> None:
        """Warn when a user's turn looks like a conversation that a chat template has written out already."""
        before, _, after = self._rendered([{"role": "user", "content": "\0"}]).partition("\0")
        special = {str(token) for token in getattr(self.tokenizer, "added_tokens_decoder", {}).values()}
        seen = sorted(token for token in special if token in before + after and token in text)
        if not seen and after.strip() and text.rstrip().endswith(after.strip()):
            seen = [after.strip()]
        if seen:
            warnings.warn(
                f"the prompt holds {', '.join(seen)}, as if a chat template had written it, and the template of "
                f"{self.name} wraps it once more: pass such a text with chat=False, or give the messages themselves",
                stacklevel=3,
            )

    def _read(self, text: str, **options) -> list[int]:
        """Text → ids, by the tokenizer."""
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise ValueError(
                f"the prompt holds {text[error.start]!r}, which is no character (text read from bytes that are not "
                "UTF-8 holds such): decode it with the encoding it was written in"
            ) from error
        bos = getattr(self.tokenizer, "bos_token", None)
        if bos and text.startswith(bos):  # written by a chat template: its special tokens are all there
            options["add_special_tokens"] = False
        return list(self.tokenizer(text, **options)["input_ids"])

    def _checked(self, ids: list[int]) -> list[int]:
        if not ids:
            raise ValueError("the prompt is empty: give at least one token")
        if any(isinstance(i, bool) or not isinstance(i, (int, np.integer)) for i in ids):
            raise ValueError("a prompt of ids must hold whole numbers only")
        ids = [int(i) for i in ids]
        if min(ids) < 0 or max(ids) >= self.vocab_size:
            bad = min(ids) if min(ids) < 0 else max(ids)
            raise ValueError(f"the prompt holds the id {bad}; {self.name} knows ids 0 to {self.vocab_size - 1}")
        if len(ids) >= self.max_length:
            raise ValueError(
                f"the prompt has {len(ids)} tokens; {self.name} reads at most {self.max_length} "
                "and needs room for one more: shorten it"
            )
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        """The text of the ids, special tokens left out. Without a tokenizer: the ids themselves."""
        if self.tokenizer is None:
            return " ".join(map(str, ids))
        return self.tokenizer.decode(list(ids), skip_special_tokens=True)

    def pieces(self, ids: Sequence[int]) -> tuple[str, ...]:
        """The text each token adds, special tokens shown. Joined they give the whole text.

        A token that holds only part of a character adds nothing; the one that completes it adds the character.
        """
        text = GrowingText(self.decode if self.tokenizer is None else self.tokenizer.decode)
        return tuple(text.add([token], end == len(ids)) for end, token in enumerate(ids, 1))


class GrowingText:
    """The text of a list of ids that grows, decoded a short stretch at a time: from tokens whose text is settled.

    decode: ids → text.
    """

    def __init__(self, decode: Callable[[Sequence[int]], str]) -> None:
        self.decode, self.ids, self.start, self.read = decode, [], 0, 0

    def add(self, tokens: Sequence[int], is_last: bool = False) -> str:
        """The text that these tokens add; "" while they end within a character, unless nothing follows them."""
        self.ids += tokens
        before, now = self.decode(self.ids[self.start : self.read]), self.decode(self.ids[self.start :])
        if now.endswith("\ufffd") and not is_last:
            return ""
        if len(now) > len(before):  # tokens without text of their own would not tell the next one what it follows
            self.start, self.read = self.read, len(self.ids)
        return now[len(before) :]


def _is_message(message: object) -> bool:
    whole = isinstance(message, dict) and isinstance(message.get("role"), str)
    return whole and (message.get("content") is not None or "tool_calls" in message)


def check_same_vocabulary(target: Target, other: Target) -> None:
    """Raise ValueError unless both number the same tokens alike."""
    if target.vocab_size != other.vocab_size:
        raise ValueError(
            f"{other.name} has a vocabulary of {other.vocab_size} tokens, {target.name} one of {target.vocab_size}: "
            "a drafter must number the same tokens alike; use a model of the target's own family"
        )
    mine, theirs = (getattr(t.tokenizer, "get_vocab", lambda: None)() for t in (target, other))
    if mine is not None and theirs is not None and mine != theirs:
        word = next(w for w in mine.keys() | theirs.keys() if mine.get(w) != theirs.get(w))
        raise ValueError(
            f"{other.name} and {target.name} number the token {word!r} differently "
            f"({theirs.get(word)} and {mine.get(word)}): use a model of the target's own family"
        )
