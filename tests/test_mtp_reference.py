"""Our MTP head against transformers' own ``MtpModel``: the same random weights, the same outputs, the same drafts.

transformers gives an MTP model to the families whose checkpoints carry MTP layers. Mellum has one in 5.24, not in 5.17;
GLM-4.5's family has one in both.

The tiny models are drawn in float64. Their norms and their rotary angles stay float32, as transformers writes them:
the same positions give the same numbers to the last bits, shifted positions give them to about 1e-6.
"""

from __future__ import annotations

import inspect

import pytest
import torch
from transformers import modeling_layers

import mtp_tutorial as mt
from mtp_tutorial.drafters.mtp import MtpDrafter
from mtp_tutorial.drafters.mtp_head import MtpHead
from mtp_tutorial.models import wrap

if not hasattr(modeling_layers, "MtpModel"):
    pytest.skip("this transformers has no MtpModel (it came with 5.14)", allow_module_level=True)

from transformers import Glm4MoeConfig, Glm4MoeForCausalLM  # noqa: E402
from transformers.cache_utils import MtpCache  # noqa: E402

#: A prompt of one token leaves the head nothing to read before the first round.
PROMPTS = [[3], [1, 1, 1], [0, 2, 3, 2, 0], [2, 1, 3, 0, 1, 2, 3, 3, 0, 2, 2, 1, 1, 0]]
TEXT = [3, 1, 0, 1, 1, 2, 2, 0, 3, 3, 0, 1]
SHAPE = dict(
    vocab_size=4, hidden_size=32, intermediate_size=48, num_hidden_layers=1, num_attention_heads=4,
    num_key_value_heads=2, head_dim=8, max_position_embeddings=256, bos_token_id=None, eos_token_id=None,
    pad_token_id=None,
)  # fmt: skip
EXPERTS = dict(moe_intermediate_size=24, num_experts_per_tok=2)


def glm4_moe(layers):
    # Our head's layer is built like layer 0 of the target, theirs has experts always: let layer 0 have experts.
    config = Glm4MoeConfig(
        **SHAPE, **EXPERTS, n_routed_experts=4, first_k_dense_replace=0, use_qk_norm=True, num_mtp_layers=layers
    )
    return Glm4MoeForCausalLM(config)


def mellum(layers):
    pytest.importorskip("transformers.models.mellum")
    from transformers import MellumConfig, MellumForCausalLM

    if "num_mtp_layers" not in inspect.signature(MellumConfig.__init__).parameters:
        pytest.skip("this transformers has Mellum without MTP layers (5.17 and before)")
    # Sliding layers have a window and a RoPE base of their own, which our head does not know: full attention only.
    model = MellumForCausalLM(
        MellumConfig(
            **SHAPE, **EXPERTS, num_experts=4, num_mtp_layers=1, layer_types=["full_attention"],
            mtp_layer_types=["full_attention"] * layers, mtp_mlp_layer_types=["sparse"] * layers,
        )
    )  # fmt: skip
    model.config.num_mtp_layers = layers  # more than one is refused when a config is made, and works
    # Mellum's rotary embedding wants to be told the type of the layer: let it know the one there is.
    rotary = model.model.rotary_emb
    plain = rotary.forward
    rotary.forward = lambda x, position_ids, layer_type="full_attention": plain(x, position_ids, layer_type)
    return model


every_family = pytest.mark.parametrize("family", [glm4_moe, mellum], ids=lambda family: family.__name__)


def draw(module, seed):
    """Weights with opinions, every one of them: fresh experts hold whatever lay in memory."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in module.parameters():
            if weight.ndim == 1:
                weight.uniform_(0.5, 1.5, generator=generator)
            else:
                weight.normal_(0, 1.5 * weight.shape[-1] ** -0.5, generator=generator)


def trio(family, layers):
    """A target, our head, and transformers' MTP model with the weights of our head."""
    model = family(layers).double().eval()
    model.set_experts_implementation("eager")  # the grouped one has no float64
    draw(model, 1)
    target = wrap(model, None, family.__name__)
    head = MtpHead(target, layers)
    draw(head.layers, 2)
    theirs = modeling_layers.MtpModel(model, layers).double().eval()
    theirs.layers.load_state_dict(
        {name.replace("block.", "mtp_block."): weight for name, weight in head.layers.state_dict().items()}
    )
    return target, head, theirs


def read_by_target(target, text):
    """The target's hidden states of a text, (1, L, size): after the final norm."""
    return target.forward(torch.tensor([text]), [len(text)], target.new_cache(1), layers=(-1,))[1][0]


def empty_cache(target):
    cache = MtpCache(config=target.model.config.get_mtp_config())
    cache.activate_past_recording()
    return cache


def call(theirs, ids, hidden, first, cache):
    """One call of their model: the drafted tokens, and what each layer gave.

    first: the position of the first pair. They count a pair at the position of its token, so a text starts at 1.
    """
    given = []
    hooks = [layer.register_forward_hook(lambda layer, args, output: given.append(output)) for layer in theirs.layers]
    try:
        positions = first + torch.arange(ids.shape[1])[None]
        with torch.no_grad():
            tokens = theirs(ids, hidden, torch.ones_like(ids), positions, cache)[0]
    finally:
        for hook in hooks:
            hook.remove()
    return tokens[0].tolist(), given


def their_draft(target, theirs, text, k):
    """k tokens, made from the whole text at once: one call of a stack, one layer over and over."""
    cache = empty_cache(target)
    ids, hidden = torch.tensor([text[1:]]), read_by_target(target, text[:-1])
    tokens, given = call(theirs, ids, hidden, 1, cache)
    while len(theirs.layers) == 1 and len(tokens) < k:
        token, given = call(theirs, torch.tensor([tokens[-1:]]), given[0][:, -1:], len(text) - 1 + len(tokens), cache)
        tokens += token
    return tokens[:k]


# -- Outputs ----------------------------------------------------------------------------------------------------------


def our_outputs(head, ids, hidden):
    """What each layer of our head gives: layer s reads the outputs of layer s - 1, and the tokens one further on.

    ids: (1, L + layers - 1), so that the last layer finds its tokens.
    """
    outputs, length = [], hidden.shape[1]
    for step in range(len(head.layers)):
        with torch.no_grad():
            hidden = head(step, ids[:, step : step + length], hidden, mt.SlotCache(1, 1))
        outputs.append(hidden)
    return outputs


@every_family
@pytest.mark.parametrize("layers", [1, 3])
def test_each_layer_gives_the_same_numbers(family, layers):
    """Layer by layer at the positions we use: nothing is left but the last bits."""
    target, head, theirs = trio(family, layers)
    ids, length = torch.tensor([TEXT]), len(TEXT) - layers
    hidden = read_by_target(target, TEXT[:length])
    found = our_outputs(head, ids[:, 1:], hidden)
    positions, seen = torch.arange(length)[None], torch.ones(length, length, dtype=torch.bool).tril()[None, None]
    for step, layer in enumerate(theirs.layers):
        embedded = theirs.embed_tokens(ids[:, 1 + step : 1 + step + length])
        with torch.no_grad():
            rotary = target.model.model.rotary_emb(embedded, positions)
            hidden = layer(embedded, hidden, rotary, seen, positions, None)
        torch.testing.assert_close(found[step], hidden, rtol=0, atol=1e-10)


@every_family
@pytest.mark.parametrize("layers", [1, 3])
def test_the_model_as_a_whole_gives_the_same_outputs(family, layers):
    """Their own loop, masks, cache and positions: from 1 in the first layer, one more in each further one.

    RoPE turns by differences of positions, so where a text starts does not matter but for the rounding of its angles.
    """
    target, head, theirs = trio(family, layers)
    for text in PROMPTS[1:]:
        hidden = read_by_target(target, text[:-1])
        tokens, expected = call(theirs, torch.tensor([text[1:]]), hidden, 1, empty_cache(target))
        found = our_outputs(head, torch.tensor([text[1:] + tokens]), hidden)
        for ours, given in zip(found, expected, strict=True):
            torch.testing.assert_close(ours, given, rtol=0, atol=1e-5)


@every_family
def test_two_norms_swapped_are_found(family):
    """The comparison can fail: with the embedding's norm and the hidden state's exchanged the outputs differ."""
    target, head, theirs = trio(family, 1)
    layer, hidden = theirs.layers[0], read_by_target(target, TEXT[:-1])
    layer.enorm, layer.hnorm = layer.hnorm, layer.enorm
    _, expected = call(theirs, torch.tensor([TEXT[1:]]), hidden, 1, empty_cache(target))
    (found,) = our_outputs(head, torch.tensor([TEXT[1:]]), hidden)
    assert float((found - expected[0]).abs().max()) > 1e-3


# -- Drafts -----------------------------------------------------------------------------------------------------------


@every_family
@pytest.mark.parametrize("layers, k", [(1, 4), (3, 3)])
def test_every_draft_is_the_same(family, layers, k):
    """Round after round of real decoding, prompts of unequal length in one batch, against theirs made from scratch."""
    target, head, theirs = trio(family, layers)
    settings = dict(num_speculative_tokens=k, sampling=mt.Sampling(temperature=0), max_new_tokens=10)
    compared = 0
    for prompt, found in zip(PROMPTS, mt.generate(target, PROMPTS, MtpDrafter(target, head), **settings), strict=True):
        text = list(prompt)
        for one in found.rounds:
            if one.num_drafted:
                assert list(one.draft_tokens) == their_draft(target, theirs, text, one.num_drafted)
                compared += 1
            text += one.tokens
    assert compared >= 10


@every_family
def test_one_layer_drafts_on_through_forward_layer(family):
    """The loop that their ``forward_layer`` is for: one layer, each draft token the input of the next."""
    target, head, theirs = trio(family, 1)
    if not hasattr(theirs, "forward_layer"):
        pytest.skip("this transformers has no MtpModel.forward_layer (5.17 and before)")
    for text in PROMPTS[1:]:
        cache, drafted, hidden = empty_cache(target), [], read_by_target(target, text[:-1])
        ids, positions = torch.tensor([text[1:]]), torch.arange(1, len(text))[None]
        while len(drafted) < 5:
            with torch.no_grad():
                hidden = theirs.forward_layer(0, hidden, positions, cache, input_ids=ids)[:, -1:]
                ids = theirs.shared_head(hidden).argmax(-1)
            drafted.append(int(ids))
            positions = positions[:, -1:] + 1
        assert drafted == their_draft(target, theirs, text, 5)


# -- Decoding ---------------------------------------------------------------------------------------------------------


@every_family
@pytest.mark.parametrize("layers", [1, 3])
def test_decoding_takes_the_same_rounds_as_generate_with_use_mtp(family, layers, monkeypatch):
    """Greedy ``generate(use_mtp=True)``: the same text, and the same draft in every round."""
    target, head, theirs = trio(family, layers)
    # They load MTP layers from a checkpoint on disk: hand over the ones in memory instead.
    monkeypatch.setattr(modeling_layers.MtpModel, "from_pretrained", lambda *args, **options: theirs)
    drafts = []
    theirs.register_forward_hook(lambda model, args, output: drafts.append(output[0][0].tolist()))
    accepted = 0
    for prompt in PROMPTS[2:]:  # theirs fails where a prompt has fewer tokens than the stack has layers
        drafts.clear()
        text = target.model.generate(
            torch.tensor([prompt]), attention_mask=torch.ones(1, len(prompt), dtype=torch.int64), do_sample=False,
            use_mtp=True, max_new_tokens=16,
        )  # fmt: skip
        found = mt.generate(
            target, prompt, MtpDrafter(target, head), num_speculative_tokens=layers,
            sampling=mt.Sampling(temperature=0), max_new_tokens=16,
        )  # fmt: skip
        assert text[0, len(prompt) :].tolist() == list(found.tokens)
        ours = [list(one.draft_tokens) for one in found.rounds[1:]]  # the last one ends where the text does
        assert [draft[: len(our)] for draft, our in zip(drafts, ours, strict=True)] == ours
        assert len(ours[0]) == layers
        accepted += sum(one.num_accepted for one in found.rounds)
    assert accepted > 0  # so what they do after an accepted token was compared, too
