"""Toys: next-token tables with exactly known probabilities, in the shape of a model.

Takes: a table, or rules written as text.  Returns: a ``Target``.
Must not know: anything outside models and cache.

A toy of order n looks at the last n tokens. It reads them back from the KV cache's slots, as a transformer reads keys
and values, so every fault of a cache shows in it. Its hidden state is the context as a one-hot vector; its lm_head is
the table.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import SimpleNamespace

import torch
from torch import Tensor

from ..cache import SlotCache
from .target import Target

#: Stands for log 0 in a table. It is finite, so that 0 · log 0 stays 0 in the lm_head's matrix product.
_NEVER = -1e30


class ToyModel(torch.nn.Module):
    """A causal model that is a table: (V+1)^order contexts → V logits. Index V stands for 'nothing before'."""

    is_toy = True

    def __init__(self, table: Tensor) -> None:
        super().__init__()
        vocabulary = table.shape[-1]
        self.order = table.ndim - 1
        if any(size != vocabulary + 1 for size in table.shape[:-1]) or self.order < 1:
            raise ValueError(f"a table of order n has the shape (V+1,)*n + (V,), got {tuple(table.shape)}")
        if bool((table < 0).any()) or bool(((table.sum(-1) - 1).abs() > 1e-9).any()):
            raise ValueError("each row of a toy's table must be a distribution: not negative, with sum 1")
        self.table = table
        never = max(_NEVER, torch.finfo(table.dtype).min)
        logits = table.log().masked_fill(table == 0, never).reshape(-1, vocabulary)
        self.embed_tokens = torch.nn.Embedding.from_pretrained(torch.eye(vocabulary, dtype=table.dtype))
        self.lm_head = torch.nn.Linear(*logits.shape, bias=False, dtype=table.dtype)
        self.lm_head.weight = torch.nn.Parameter(logits.T.contiguous(), requires_grad=False)
        self.config = SimpleNamespace(
            vocab_size=vocabulary, hidden_size=len(logits), num_hidden_layers=1, max_position_embeddings=1 << 16
        )

    @property
    def device(self) -> torch.device:
        return self.lm_head.weight.device

    def get_input_embeddings(self) -> torch.nn.Module:
        return self.embed_tokens

    def get_output_embeddings(self) -> torch.nn.Module:
        return self.lm_head

    def forward(
        self,
        input_ids: Tensor,
        position_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        cache: SlotCache | None = None,
        use_cache: bool = True,
        output_hidden_states: bool = False,
        logits_to_keep: int | Tensor = 0,
    ) -> SimpleNamespace:
        if cache is None:
            cache = SlotCache(1, len(input_ids), input_ids.device, input_ids.shape[1])
            cache.begin(input_ids.shape[1])
            position_ids, attention_mask = cache.positions, cache.mask()
        keys = input_ids.to(self.table.dtype)[:, None, :, None]  # the key of a token is its id
        slots = cache.write(0, keys, keys)[0][:, 0, :, 0]
        vocabulary = self.config.vocab_size
        context = torch.zeros_like(input_ids)
        for back in reversed(range(self.order)):
            place = position_ids - back
            index = place.clamp(0, slots.shape[1] - 1)
            seen = attention_mask[:, 0].gather(2, index[..., None])[..., 0] & (place >= 0)
            token = torch.where(seen, slots.gather(1, index).to(torch.int64), vocabulary)
            context = context * (vocabulary + 1) + token
        hidden = torch.nn.functional.one_hot(context, self.config.hidden_size).to(self.table.dtype)
        kept = hidden[:, logits_to_keep] if isinstance(logits_to_keep, Tensor) else hidden[:, -logits_to_keep:]
        states = (self.embed_tokens(input_ids), hidden) if output_hidden_states else None
        return SimpleNamespace(logits=self.lm_head(kept), hidden_states=states)


class ToyTokenizer:
    """Words, numbered. Chinese characters need no spaces; a word it does not know becomes ``<unk>`` if it has one."""

    chat_template = None

    def __init__(self, words: Sequence[str], joiner: str = " ") -> None:
        self.words, self.joiner = list(words), joiner
        self.ids = {word: i for i, word in enumerate(self.words)}
        longest_first = "|".join(map(re.escape, sorted(self.words, key=len, reverse=True)))
        self._parts = re.compile(r"<\w+>|\w+|[^\w\s]" if joiner else rf"{longest_first}|\S")

    def __call__(self, text: str, add_special_tokens: bool = True) -> dict[str, list[int]]:
        ids = []
        for part in self._parts.findall(text):
            if part not in self.ids and "<unk>" not in self.ids:
                raise ValueError(f"this toy does not know {part!r}; its words: {' '.join(self.words)}")
            ids.append(self.ids.get(part, self.ids.get("<unk>")))
        return {"input_ids": ids}

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = False) -> str:
        words = [self.words[i] for i in ids]
        if skip_special_tokens:
            words = [word for word in words if not (word.startswith("<") and word.endswith(">"))]
        return self.joiner.join(words)

    def get_vocab(self) -> dict[str, int]:
        return dict(self.ids)


def table_from_rules(words: Sequence[str], rules: Mapping[str, Mapping[str, float]], order: int) -> Tensor:
    """A table from ``{"the cat": {"sat": 0.6, …}}``: the longest rule that matches the last words holds.

    A rule's numbers are normalised. "" is the rule for everything else.
    """
    ids = {word: i for i, word in enumerate(words)}
    vocabulary = len(words)
    table = torch.zeros((vocabulary + 1,) * order + (vocabulary,), dtype=torch.float64)
    for context in sorted(rules, key=lambda text: len(text.split())):  # short ones first, longer ones write over them
        row = torch.zeros(vocabulary, dtype=torch.float64)
        for word, weight in rules[context].items():
            row[ids[word]] = weight
        where = [ids[word] for word in context.split()]
        table[(Ellipsis, *where, slice(None))] = row / row.sum()
    return table


def make(
    name: str,
    words: Sequence[str],
    table: Tensor,
    joiner: str = " ",
    device: str | torch.device = "cpu",
    dtype: torch.dtype = torch.float64,
) -> Target:
    """A toy target from its words and its table."""
    model = ToyModel(table.to(device=device, dtype=dtype)).eval()
    eos = {i for i, word in enumerate(words) if word == "<eos>"}
    return Target(
        name, model, ToyTokenizer(words, joiner), torch.device(device), dtype, len(words),
        model.config.max_position_embeddings, frozenset(eos), 1,
    )  # fmt: skip


def random_toy(vocab_size: int = 5, order: int = 2, seed: int = 0, spread: float = 1.5, eos: bool = False) -> Target:
    """A toy whose rows are softmaxes of normal noise: a larger ``spread`` makes them more peaked.

    eos: makes the last id the end of text.
    """
    generator = torch.Generator().manual_seed(seed)
    shape = (vocab_size + 1,) * order + (vocab_size,)
    table = (spread * torch.randn(shape, generator=generator, dtype=torch.float64)).softmax(-1)
    words = [f"t{i}" for i in range(vocab_size)]
    if eos:
        words[-1] = "<eos>"
    return make(f"random toy (V={vocab_size}, order={order}, seed={seed})", words, table)


def random_llama(vocab_size: int = 19, seed: int = 0, num_layers: int = 2) -> Target:
    """A real transformer beside the tables: a few Llama layers with random weights in float64, without a tokenizer."""
    from transformers import LlamaConfig, LlamaForCausalLM

    from . import wrap

    config = LlamaConfig(
        vocab_size=vocab_size, hidden_size=32, intermediate_size=48, num_hidden_layers=num_layers,
        num_attention_heads=4, num_key_value_heads=2, initializer_range=0.4,  # wide: every token shows
    )  # fmt: skip
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = LlamaForCausalLM(config)
    return wrap(model.double(), name="Llama")


_CAT_WORDS = "<eos> <unk> the a cat dog sat ran on under mat tree . and then it slept".split()
_CAT_RULES = {
    "": {"the": 6, "a": 2, "it": 1, "then": 1},
    "the": {"cat": 5, "dog": 3, "mat": 1, "tree": 1},
    "a": {"dog": 4, "cat": 3, "tree": 2, "mat": 1},
    "cat": {"sat": 6, "slept": 2, "ran": 1, "and": 1},
    "dog": {"ran": 6, "sat": 2, "slept": 1, "and": 1},
    "it": {"sat": 3, "ran": 3, "slept": 4},
    "sat": {"on": 6, "under": 3, ".": 1},
    "ran": {"under": 4, ".": 4, "and": 2},
    "slept": {".": 5, "on": 3, "under": 2},
    "on": {"the": 8, "a": 2},
    "under": {"the": 6, "a": 4},
    "on the": {"mat": 8, "tree": 1, "dog": 1},
    "under the": {"tree": 8, "mat": 2},
    "on a": {"mat": 7, "tree": 3},
    "under a": {"tree": 9, "mat": 1},
    "mat": {".": 7, "and": 3},
    "tree": {".": 7, "and": 3},
    "and": {"then": 5, "the": 3, "it": 2},
    "then": {"the": 5, "it": 4, "a": 1},
    ".": {"the": 5, "then": 2, "a": 1, "it": 1, "<eos>": 1},
}

_BEIJING_WORDS = ["<eos>", "<unk>", *"我 想 从 北京 开车 去 上海 看 朋友 的 ， 吃 饭 天津 家 玩 。".split()]
_BEIJING_RULES = {
    "": {"我": 1},
    "我": {"想": 9, "去": 1},
    "想": {"从": 6, "去": 4},
    "从": {"北京": 8, "天津": 2},
    "北京": {"开车": 7, "去": 3},
    "天津": {"玩": 6, "看": 4},
    "开车": {"去": 1},
    "去": {"上海": 6, "天津": 3, "北京": 1},
    "上海": {"看": 7, "玩": 3},
    "看": {"朋友": 8, "家": 2},
    "朋友": {"，": 6, "。": 3, "的": 1},
    "的": {"家": 1},
    "家": {"。": 6, "吃": 4},
    "，": {"吃": 6, "玩": 4},
    "吃": {"饭": 1},
    "饭": {"。": 1},
    "玩": {"。": 8, "，": 2},
    "。": {"<eos>": 9, "我": 1},
    "<eos>": {"<eos>": 1},
    "朋友 的": {"家": 9, "饭": 1},
    # Never said, since "，" does not follow "的". A cache that keeps the rejected "的" reads it all the same.
    "的 ，": {"家": 8, "吃": 2},
}
#: The draft model of the 北京 sentence: right about 上海, 看 and 朋友, wrong about what follows.
_BEIJING_DRAFT_RULES = {**_BEIJING_RULES, "朋友": {"的": 7, "，": 2, "。": 1}, "": {"我": 1}}

#: English for the words of the 北京 sentence: "I want to drive from Beijing to Shanghai to see a friend".
BEIJING_GLOSS = dict(
    zip(
        _BEIJING_WORDS,
        [
            "<eos>",
            "<unk>",
            *"I;want;from;Beijing;drive;go;Shanghai;see;friend;'s;comma;eat;meal;Tianjin;home;play;period".split(";"),
        ],
        strict=True,
    )
)


def load_toy(name: str, device: str | torch.device = "cpu", dtype: torch.dtype = torch.float64) -> Target:
    """One of TOYS. Raises KeyError for another name."""
    words, rules, order, joiner = TOYS[name]
    return make(name, words, table_from_rules(words, rules, order), joiner, device, dtype)


TOYS = {
    "toy": (_CAT_WORDS, _CAT_RULES, 2, " "),
    "toy-beijing": (_BEIJING_WORDS, _BEIJING_RULES, 2, ""),
    "toy-beijing-draft": (_BEIJING_WORDS, _BEIJING_DRAFT_RULES, 2, ""),
}
