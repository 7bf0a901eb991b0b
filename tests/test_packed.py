"""The model's own behaviour wins over the fused pass, whatever was done to the model, and whenever."""

from __future__ import annotations

import contextlib
import copy
import pickle

import pytest
import torch
from test_fast import made, read
from torch import nn

import mtp_tutorial as mt
from mtp_tutorial.drafters.head import DraftingHead
from mtp_tutorial.drafters.mtp_head import MtpHead
from mtp_tutorial.models import fast, packed, wrap

IDS = [[[3, 4, 5, 6]], [[7]], [[8, 9, 10]]]
GREEDY = {"sampling": mt.Sampling(temperature=0), "max_new_tokens": 6, "ignore_eos": True}


class Watched:
    """A tiny bf16 Llama that takes the fused pass by default, and how many of its calls went to the model itself."""

    def __init__(self) -> None:
        self.model = made("llama", torch.bfloat16)
        for part in self.model.modules():  # wide enough that every part matters
            if isinstance(part, nn.Linear):
                nn.init.normal_(part.weight, 0, 0.15)
        self.target, self.own = wrap(self.model), wrap(self.model, short=False)
        self.calls = 0
        plain = self.target._caller().plain

        def counted(*args):
            self.calls += 1
            return plain(*args)

        self.target._caller().plain = counted
        self.before = read(self.target, IDS)
        assert self.calls == 0  # without a reason it takes the fused pass

    @property
    def layers(self) -> nn.ModuleList:
        return self.model.model.layers

    def difference(self) -> float:
        """The largest, against the model itself, in units of the largest logit."""
        pairs = zip(read(self.target, IDS), read(self.own, IDS), strict=True)
        return max(float((a.float() - b.float()).abs().max() / b.float().abs().max()) for a, b in pairs)

    def change(self) -> float:
        now = read(self.own, IDS)
        return float((now[0].float() - self.before[0].float()).abs().max() / self.before[0].float().abs().max())


@pytest.fixture
def watched():
    return Watched()


@contextlib.contextmanager
def hook(handle):
    try:
        yield
    finally:
        handle.remove()


@contextlib.contextmanager
def put(owner, name, value):
    """An attribute for a while."""
    missing = object()
    before = vars(owner).get(name, missing) if not isinstance(owner, nn.Module) else missing
    before = getattr(owner, name) if before is missing and name in getattr(owner, "_modules", ()) else before
    setattr(owner, name, value)
    try:
        yield
    finally:
        if before is missing:
            delattr(owner, name)
        else:
            setattr(owner, name, before)


def twice(function):
    """Another function, which a call can't be told from but by what it returns."""

    def doubled(*args, **kwargs):
        found = function(*args, **kwargs)
        return tuple(2 * part for part in found) if isinstance(found, tuple) else 2 * found

    return doubled


def negated_attention(*args, **kwargs):
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    return -sdpa_attention_forward(*args, **kwargs)[0], None


@contextlib.contextmanager
def parametrized(linear):
    from torch.nn.utils import parametrize

    class Negative(nn.Module):
        def forward(self, weight):
            return -weight

    parametrize.register_parametrization(linear, "weight", Negative())
    yield
    parametrize.remove_parametrizations(linear, "weight", leave_parametrized=False)


@contextlib.contextmanager
def attention_registry():
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS as known

    before = known["sdpa"]
    known.register("sdpa", negated_attention)
    try:
        yield
    finally:
        known.register("sdpa", before)


@contextlib.contextmanager
def dropout(model):
    for layer in model.model.layers:
        layer.self_attn.attention_dropout = 0.5
    model.train()
    yield
    model.eval()
    for layer in model.model.layers:
        layer.self_attn.attention_dropout = 0.0


class LoraLinear(nn.Linear):
    def forward(self, x):
        return super().forward(x) - 2 * x[..., :1]


def lora(linear):
    made = LoraLinear(linear.in_features, linear.out_features, bias=False, dtype=linear.weight.dtype).eval()
    made.weight = linear.weight
    return made


def llama(name):
    from transformers.models.llama import modeling_llama

    return modeling_llama if name is None else getattr(modeling_llama, name)


#: What is done to the model for a while; meanwhile it is called itself.
ASIDE = {
    "hook on a layer": lambda w: hook(w.layers[1].register_forward_hook(lambda m, i, o: -o)),
    "hook on an MLP": lambda w: hook(w.layers[1].mlp.register_forward_hook(lambda m, i, o: -o)),
    "hook on a matrix": lambda w: hook(w.layers[0].self_attn.q_proj.register_forward_hook(lambda m, i, o: -o)),
    "pre-hook": lambda w: hook(w.layers[2].register_forward_pre_hook(lambda m, i: (-i[0], *i[1:]))),
    "hook with kwargs": lambda w: hook(
        w.layers[0].self_attn.register_forward_hook(lambda m, i, k, o: (-o[0], o[1]), with_kwargs=True)
    ),
    "hook on the decoder's norm": lambda w: hook(w.model.model.norm.register_forward_hook(lambda m, i, o: -o)),
    "global hook": lambda w: hook(
        nn.modules.module.register_module_forward_hook(
            lambda m, i, o: -o if type(m).__name__ == "LlamaMLP" else None
        )
    ),
    "patched layer": lambda w: put(w.layers[1], "forward", twice(w.layers[1].forward)),
    "patched matrix": lambda w: put(w.layers[1].mlp.up_proj, "forward", twice(w.layers[1].mlp.up_proj.forward)),
    "patched class": lambda w: put(llama("LlamaMLP"), "forward", twice(llama("LlamaMLP").forward)),
    "patched class of torch": lambda w: put(nn.Linear, "forward", twice(nn.Linear.forward)),
    "patched function": lambda w: put(llama(None), "apply_rotary_pos_emb", twice(llama("apply_rotary_pos_emb"))),
    "attention registered anew": lambda w: attention_registry(),
    "another activation": lambda w: put(w.layers[1].mlp, "act_fn", nn.Tanh().eval()),
    "another norm": lambda w: put(
        w.layers[1], "input_layernorm", nn.LayerNorm(32, dtype=torch.bfloat16).eval()
    ),
    "another MLP": lambda w: put(w.layers[1], "mlp", nn.Linear(32, 32, dtype=torch.bfloat16).eval()),
    "LoRA": lambda w: put(w.layers[1].mlp, "down_proj", lora(w.layers[1].mlp.down_proj)),
    "parametrization": lambda w: parametrized(w.layers[1].mlp.down_proj),
}  # fmt: skip


@pytest.mark.parametrize("case", ASIDE)
def test_the_fused_pass_steps_aside_and_comes_back(watched, case):
    plain = mt.generate(watched.target, [3, 4, 5], **GREEDY).tokens
    with ASIDE[case](watched):
        calls = watched.calls
        assert watched.difference() == 0 and watched.calls == calls + len(IDS)
        assert watched.change() > 0.1
        emitted = mt.generate(watched.target, [3, 4, 5], **GREEDY).tokens
        assert emitted == mt.generate(watched.own, [3, 4, 5], **GREEDY).tokens != plain
    calls = watched.calls
    assert watched.difference() < 0.03 and watched.change() < 0.03 and watched.calls == calls
    assert mt.generate(watched.target, [3, 4, 5], **GREEDY).tokens == plain


@pytest.mark.parametrize("case", ["hook on an MLP", "patched layer", "patched class", "LoRA", "another norm"])
def test_what_was_done_before_the_target_was_made_counts_too(case):
    watched = Watched()
    with ASIDE[case](watched):
        assert torch.equal(read(wrap(watched.model), IDS)[0], read(watched.own, IDS)[0])


def test_dropout_is_not_left_out(watched):
    with dropout(watched.model):
        calls = watched.calls
        read(watched.target, IDS)
        assert watched.calls == calls + len(IDS)
    assert watched.difference() < 0.03


def assign(w):
    w.layers[1].mlp.down_proj.weight = nn.Parameter(-w.layers[1].mlp.down_proj.weight.detach())


def assign_data(w):
    w.layers[1].mlp.down_proj.weight.data = -w.layers[1].mlp.down_proj.weight.data


def set_(w):
    with torch.no_grad():
        w.layers[1].mlp.down_proj.weight.set_(-w.layers[1].mlp.down_proj.weight)


def load(w):
    w.model.load_state_dict({name: -value for name, value in w.model.state_dict().items()})


def through_numpy(w):
    w.layers[1].mlp.down_proj.weight.detach().view(torch.int16).numpy()[:] ^= -(1 << 15)


def no_grad(w):
    with torch.no_grad():
        w.layers[1].mlp.down_proj.weight.mul_(-1)


def state_dict(w):
    w.model.state_dict()["model.layers.1.mlp.down_proj.weight"].mul_(-1)


def swap(w):
    w.layers[0], w.layers[2] = w.layers[2], w.layers[0]


def twice_the_same(w):
    w.layers[2] = w.layers[1]


def fewer(w):
    del w.layers[1]


def config(w):
    w.model.config.num_hidden_layers = 2


def new_lm_head(w):
    w.model.lm_head = nn.Linear(32, w.model.lm_head.out_features, bias=False, dtype=torch.bfloat16).eval()


def new_linear(w):
    w.layers[1].mlp.up_proj = nn.Linear(32, 48, bias=False, dtype=torch.bfloat16).eval()


def scaling(w):
    w.layers[0].self_attn.scaling = 3.0


def epsilon(w):
    w.layers[0].input_layernorm.variance_epsilon = 5.0


#: Changes that stay. torch counts the first ones; the second ones it doesn't, and they change a whole weight.
COUNTED = [assign, assign_data, set_, load, no_grad, state_dict, swap, twice_the_same, fewer, config, new_lm_head,
           new_linear, scaling, epsilon]  # fmt: skip
SILENT = {
    "matrix": lambda w: w.layers[1].mlp.down_proj.weight.data.mul_(-1),
    "matrix, by numpy": through_numpy,
    "lm_head": lambda w: w.model.lm_head.weight.data.mul_(-1),
    "norm": lambda w: w.model.model.norm.weight.data.mul_(-1),
    "embedding": lambda w: w.model.model.embed_tokens.weight.data.mul_(-1),
}
#: torch counts none of these, and they change a part of a weight.
PARTS = {
    "neuron": lambda w: w.layers[0].mlp.gate_proj.weight.data[17].mul_(-9),
    "column": lambda w: w.layers[0].mlp.down_proj.weight.data[:, 40].mul_(-99),
    "head": lambda w: w.layers[0].self_attn.v_proj.weight.data[:8].zero_(),
    "token": lambda w: w.model.lm_head.weight.data[3].mul_(-9),
    "number": lambda w: w.layers[0].self_attn.o_proj.weight.data[5, 7].fill_(9),
}


@pytest.mark.parametrize("edit", [*COUNTED, *SILENT.values(), *PARTS.values()], ids=lambda edit: edit.__name__)
def test_an_edit_counts_from_the_next_text_on(watched, edit):
    edit(watched)
    assert watched.change() > 0.03 and watched.difference() < 0.03
    assert watched.calls == 0  # packed anew: it still takes the fused pass


@pytest.mark.parametrize("edit", [*COUNTED, *SILENT.values()], ids=lambda edit: edit.__name__)
def test_an_edit_of_a_whole_weight_counts_at_the_next_call(watched, edit):
    logits = []
    for target in (watched.target, watched.own):
        cache = target.new_cache(1)
        target.forward(torch.tensor([[3, 4, 5]]), [3], cache)
        logits.append((target, cache))
    edit(watched)
    ours, theirs = (target.forward(torch.tensor([[6]]), [1], cache)[0].float() for target, cache in logits)
    assert (ours - theirs).abs().max() / theirs.abs().max() < 0.03


def test_hidden_states_once_asked_for_do_not_switch_it_off(watched):
    """transformers leaves hooks of its own behind then."""
    watched.model(input_ids=torch.tensor([[1, 2]]), output_hidden_states=True)
    assert watched.layers[0]._forward_hooks
    read(watched.target, IDS)
    assert watched.calls == 0


def test_attention_set_to_eager_gets_the_mask_that_it_adds(watched):
    watched.model.set_attn_implementation("eager")
    assert watched.difference() == 0 and watched.change() < 0.05 and watched.calls > 0


def test_nothing_is_packed_twice_without_a_reason(monkeypatch):
    times = []
    monkeypatch.setattr(fast, "_pack_layers", lambda model, pack=fast._pack_layers: times.append(1) or pack(model))
    model = made("llama", torch.bfloat16)
    target = wrap(model)
    for _ in range(3):
        mt.generate(target, [3, 4, 5], **GREEDY)
        handle = model.register_forward_hook(lambda *args: None)
        mt.generate(target, [3, 4, 5], **GREEDY)
        handle.remove()
    assert len(times) == 1


def test_a_compiled_target_steps_aside_too(watched):
    from mtp_tutorial.models.compiled import CompiledCaller

    target = wrap(watched.model, compile=True)
    target._calls = CompiledCaller(watched.model, backend="eager")
    assert (read(target, IDS)[0] - watched.before[0]).abs().max() < 0.1
    for case in ("hook on an MLP", "patched layer", "patched class", "another activation"):
        with ASIDE[case](watched):
            assert all(map(torch.equal, read(target, IDS), read(watched.own, IDS))), case
    swap(watched)
    pairs = zip(read(target, IDS), read(watched.own, IDS), strict=True)
    assert all((a - b).abs().max() / b.abs().max() < 0.03 for a, b in pairs)


# -- Heads ------------------------------------------------------------------------------------------------------------


def step(target, head):
    from mtp_tutorial.cache import SlotCache

    generator = torch.Generator().manual_seed(1)
    hidden = torch.randn(1, 3, 32, generator=generator).to(torch.bfloat16)
    with torch.no_grad():
        return head(0, torch.tensor([[1, 2, 3]]), hidden, SlotCache(1, 1)).float()


def test_a_heads_own_behaviour_wins_too(watched):
    own, head = MtpHead(watched.own), MtpHead(watched.target)
    for one in (own, head):
        one.start_from_target(torch.Generator().manual_seed(0))
    before = step(watched.target, head)
    edits = [
        lambda layer: layer.block.register_forward_hook(lambda m, i, o: -o),
        lambda layer: setattr(layer.block.mlp, "act_fn", nn.Tanh().eval()),
        lambda layer: layer.eh_proj.weight.data.mul_(-1),
        lambda layer: layer.block.mlp.up_proj.weight.data[3].mul_(-50),
    ]
    for edit in edits:
        for one in (own, head):
            edit(one.layers[0])
        now, expected = step(watched.target, head), step(watched.own, own)
        assert (now - before).abs().max() > 0.01 and (now - expected).abs().max() < 0.05
        before = now


@pytest.mark.parametrize("frequent", [None, torch.tensor([1, 3, 7])])
def test_drafts_are_scored_by_the_lm_head_in_use(watched, frequent):
    scores, hidden = DraftingHead(watched.target, frequent), torch.randn(2, 32).to(torch.bfloat16)
    rows = slice(None) if frequent is None else frequent
    for edit in (lambda w: None, SILENT["lm_head"], new_lm_head):
        edit(watched)
        expected = watched.model.lm_head(hidden)[:, rows]
        torch.testing.assert_close(scores.compact(hidden), expected, rtol=0.02, atol=0.02)
    with hook(watched.model.lm_head.register_forward_hook(lambda m, i, o: o + 9)):
        torch.testing.assert_close(scores.compact(hidden), expected + 9, rtol=0.02, atol=0.05)


def test_the_check_looks_at_every_weight_that_was_copied():
    """Not vacuous: on a CPU with bf16 kernels all matrices are copies, and each is sampled."""
    model = made("llama", torch.bfloat16)
    target = wrap(model)
    read(target, IDS)
    state = target._caller()._layers.state
    copies = [part.weight for part in model.model.layers.modules() if isinstance(part, nn.Linear)]
    if packed.packs(copies[0]):
        assert {weight.data_ptr() for weight in copies} <= {weight.data_ptr() for weight in state.copied}


@pytest.mark.parametrize("again", [copy.deepcopy, lambda target: pickle.loads(pickle.dumps(target))])
def test_a_target_that_has_decoded_can_be_copied_and_pickled(again):
    target = wrap(made("llama"), short=True)
    options = {"max_new_tokens": 6, "ignore_eos": True}
    text = mt.generate(target, [3, 4, 5], **options)
    assert mt.generate(again(target), [3, 4, 5], **options).tokens == text.tokens
