"""The other side: ``transformers.generate`` on the same weights, prompts and dtype.

Takes: a target, a mode, prompt ids, how to sample.  Returns: tokens and the seconds behind them.
Must not know: our own loop, arms of ours.

Modes: plain; assistant, with our stored draft model as a model of its own; lookup (prompt lookup). Where nothing is
said, transformers' own defaults hold. In 5.24 an assistant drafts at most 20 tokens a round, on a constant schedule,
and stops where its confidence falls below 0.4. ``k`` sets another number and, so that it is a number, no confidence.
Both sides pass over the end of text alike: transformers would read its ids from the model's generation config, which
is put aside for the call. (To forbid the token by ``min_new_tokens`` would change the law and cost time.)
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

import torch

from ...drafters import DraftModelDrafter
from ...models import Target
from ...records import Sampling


@dataclass
class Calls:
    """The calls of one model while it was watched: rows of each, and seconds of each."""

    rows: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class Answer:
    """tokens: one list a prompt, the prompt excluded.  target, assistant: their calls.  seconds: of the whole call."""

    tokens: list[list[int]]
    seconds: float
    target: Calls
    assistant: Calls


class Baseline:
    """One mode of transformers, ready to be run again and again.

    mode: "plain", "assistant" or "lookup".  k: draft tokens a round; None leaves it to transformers (10 for lookup).
    confidence: below it the assistant stops drafting; None is transformers' own 0.4, or 0 when ``k`` is given.
    options: for the draft model, as ``load_drafter("draft", …)`` takes them. Without ``frequent`` it scores all tokens,
        with the target's own lm_head.
    """

    def __init__(
        self,
        target: Target,
        mode: str = "plain",
        k: int | None = None,
        confidence: float | None = None,
        **options,
    ) -> None:
        if mode not in ("plain", "assistant", "lookup"):
            raise ValueError(f"mode={mode!r}: use plain, assistant or lookup")
        if getattr(target.model, "is_toy", False):
            raise ValueError(f"{target.name} is no model of transformers: compare on nano or smollm2")
        self.target, self.mode = target, mode
        self.assistant, self.more = None, {}
        if mode == "lookup":
            self.more["prompt_lookup_num_tokens"] = k or 10
        elif mode == "assistant":
            self.assistant = DraftModelDrafter(target, **{"frequent": None, **options}).model.model
            if options.get("frequent") is None:  # nothing of ours in it but the weights
                self.assistant.set_output_embeddings(target.model.get_output_embeddings())
            self.told = {} if k is None else {"num_assistant_tokens": k, "num_assistant_tokens_schedule": "constant"}
            if k is not None or confidence is not None:
                self.told["assistant_confidence_threshold"] = confidence or 0.0

    def __call__(
        self,
        prompts: Sequence[Sequence[int]],
        sampling: Sampling,
        max_new_tokens: int,
        seed: int = 0,
        ignore_eos: bool = True,
    ) -> Answer:
        """Decode a batch of prompts, given as ids. Speculation of transformers takes one prompt at a time.

        Raises ValueError for a batch with speculation, and for penalties that transformers has not.
        """
        if self.mode != "plain" and len(prompts) > 1:
            raise ValueError(f"hf-{self.mode}: speculation in transformers takes batch size 1, not {len(prompts)}")
        ids, mask = self._padded(prompts)
        config = self._config(sampling, max_new_tokens, ignore_eos)
        more = {} if self.assistant is None else {"assistant_model": self.assistant}
        with ExitStack() as stack:
            stack.enter_context(_quiet())
            stack.enter_context(self.target.threads())  # as our own loop does it
            stack.enter_context(torch.random.fork_rng(_cuda_devices(self.target.device)))
            stack.enter_context(self._blank(self.target.model))
            target = stack.enter_context(watched(self.target.model, self.target.device))
            assistant = Calls()
            if self.assistant is not None:
                stack.enter_context(self._blank(self.assistant, **self.told))
                assistant = stack.enter_context(watched(self.assistant, self.target.device))
            torch.manual_seed(seed)
            _wait_for(self.target.device)
            began = time.perf_counter()
            found = self.target.model.generate(ids, attention_mask=mask, generation_config=config, **more)
            _wait_for(self.target.device)
            seconds = time.perf_counter() - began
        rows = found[:, ids.shape[1] :].tolist()
        return Answer([self._until_end(row, ignore_eos) for row in rows], seconds, target, assistant)

    def _config(self, sampling: Sampling, max_new_tokens: int, ignore_eos: bool):
        from transformers import GenerationConfig

        if sampling.frequency_penalty or sampling.presence_penalty:
            raise ValueError("transformers has no frequency or presence penalty: leave them out to compare")
        config = GenerationConfig(
            do_sample=sampling.temperature > 0,
            max_new_tokens=max_new_tokens,
            eos_token_id=None if ignore_eos else sorted(self.target.eos_ids),
            pad_token_id=min(self.target.eos_ids, default=0),
            repetition_penalty=sampling.repetition_penalty if sampling.repetition_penalty != 1 else None,
            **self.more,
        )
        if sampling.temperature > 0:
            config.temperature, config.top_k, config.top_p = sampling.temperature, sampling.top_k, sampling.top_p
            config.min_p = sampling.min_p or None
        return config

    @contextmanager
    def _blank(self, model: torch.nn.Module, **settings) -> Iterator[None]:
        """A generation config without the model's own settings, as transformers fills gaps from there.

        It is new for each call: an assistant's schedule would else carry what it learnt into the next text.
        """
        from transformers import GenerationConfig

        kept = model.generation_config
        model.generation_config = GenerationConfig(**settings)
        try:
            yield
        finally:
            model.generation_config = kept

    def _padded(self, prompts: Sequence[Sequence[int]]) -> tuple[torch.Tensor, torch.Tensor]:
        width = max(map(len, prompts))  # on the left, as transformers wants it
        ids = torch.tensor([[0] * (width - len(row)) + list(row) for row in prompts], device=self.target.device)
        mask = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in prompts], device=self.target.device)
        return ids, mask

    def _until_end(self, row: list[int], ignore_eos: bool) -> list[int]:
        if ignore_eos:
            return row
        end = next((i + 1 for i, token in enumerate(row) if token in self.target.eos_ids), len(row))
        return row[:end]


@contextmanager
def watched(model: torch.nn.Module, device: torch.device) -> Iterator[Calls]:
    """Counts and times a model's calls. On an accelerator calls return before they are done, so seconds stay empty."""
    calls, began = Calls(), [0.0]

    def before(module, args, kwargs) -> None:
        calls.rows.append(int(kwargs["input_ids"].shape[1]))
        began[0] = time.perf_counter()

    def after(module, args, kwargs, output) -> None:
        if device.type == "cpu":
            calls.seconds.append(time.perf_counter() - began[0])

    hooks = (
        model.register_forward_pre_hook(before, with_kwargs=True),
        model.register_forward_hook(after, with_kwargs=True),
    )
    try:
        yield calls
    finally:
        for hook in hooks:
            hook.remove()


@contextmanager
def _quiet() -> Iterator[None]:
    """Without transformers' advice: its own speculation passes itself options that it calls deprecated."""
    from transformers.utils import logging

    level = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(level)


def _wait_for(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _cuda_devices(device: torch.device) -> list[torch.device]:
    return [device] if device.type == "cuda" else []
