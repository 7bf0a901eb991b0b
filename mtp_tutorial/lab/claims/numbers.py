"""The numbers that decide, each worked out when it is asked for: exact laws, stored measurements, small runs.

Takes: nothing.  Returns: a few words with a number in them.
Must not know: verdicts.

Whatever touches a model runs in float64, so that the words come out alike on every machine.
"""

from __future__ import annotations

import functools
import json

import torch

from ...decode import generate
from ...drafters import load_drafter
from ...drafters.weights import DATA
from ...longrun import read_rows
from ...models import load
from ...records import Draft, Sampling
from ...sampling import exponential_noise, exponential_race, generator, inverse_cdf, probabilities
from ...training.acceptance import OVERALL, by_position, mean_acceptance_length
from .. import theory
from ..drafts import draft_after
from ..exact import LARGEST, marginal, output_law, plain_law, table, total_variation
from ..gate import leak
from ..museum import EXHIBITS
from ..stats import clean_runs, rate_excluded
from .papers import REPORTED

GREEDY = Sampling(temperature=0)
LOGITS, WARM = torch.tensor([3.0, 2.0], dtype=torch.float64), Sampling(temperature=0.6)


def _words(values, digits: int = 2) -> str:
    return ", ".join(f"{value:.{digits}f}" for value in values)


def _law(rule: str, row: torch.Tensor, draft: int = 0) -> list[float]:
    """The first token's law when token ``draft`` is drafted without randomness."""
    found = marginal(output_law(rule, Draft(torch.tensor([[draft]])), row.expand(2, -1)))
    return [found.get(token, 0.0) for token in range(len(row))]


# -- A --------------------------------------------------------------------------------------------------------------


def a1() -> str:
    uniforms = torch.arange(100_000, dtype=torch.float64) / 100_000
    row = probabilities(LOGITS, GREEDY).expand(len(uniforms), 2)
    return f"{len(inverse_cdf(row, uniforms).unique())} token for {len(uniforms):,} uniform numbers"


def a2() -> str:
    return f"{_words(probabilities(LOGITS, Sampling()))} → {_words(probabilities(LOGITS, WARM))}"


def a3() -> str:
    row = probabilities(LOGITS, WARM)
    return ", ".join(f"{u:.2f} → {'好的'[int(inverse_cdf(row, u))]}" for u in (0.30, 0.90))


def a4() -> str:
    row, draws = probabilities(LOGITS, WARM), 100_000
    won = exponential_race(row.expand(draws, 2), exponential_noise((draws, 2), generator(0, 0)))
    return f"{float((won == 0).double().mean()):.2f} in {draws:,} races, {float(row[0]):.2f} by softmax"


def a6() -> str:
    return f"{theory.expected_tokens(0, 2):.0f} to {theory.expected_tokens(1, 2):.0f} tokens a target call at k = 2"


def a7() -> str:
    row = probabilities(LOGITS, GREEDY).expand(3, 2)
    drafts = [Draft(torch.tensor([[a, b]])) for a in (0, 1) for b in (0, 1)]
    worst = max(total_variation(output_law("rejection", draft, row), plain_law(row, 3)) for draft in drafts)
    return f"total variation {worst if worst > LARGEST else 0:g} at T = 0"


def a8() -> str:
    row = probabilities(LOGITS, WARM)
    return f"({_words(_law('rejection', row), 3)}) with drafts, ({_words(row, 3)}) without"


def a9() -> str:
    row = probabilities(LOGITS, WARM)
    return f"的, not the argmax: {_law('rejection', row)[1]:.3f} with drafts, {float(row[1]):.3f} without"


def a10() -> str:
    shown = EXHIBITS["R17"].demonstrate()
    return f"({_words(shown.wrong, 1)}) where the target says ({_words(shown.right, 1)})"


def a11() -> str:
    least = 100 * rate_excluded(2)
    return f"two clean runs exclude rates above {least:.0f} % only; for 0.92 % it takes {clean_runs(0.0092)}"


# -- B --------------------------------------------------------------------------------------------------------------


def _nano():
    return load("nano", device="cpu", dtype=torch.float64)


def b1() -> str:
    target = _nano()
    head = json.loads((DATA / "nano" / "mtp" / "config.json").read_text(encoding="utf-8"))["parameters"]
    return f"{head:,} more weights beside nano's {sum(w.numel() for w in target.model.parameters()):,}"


def b2() -> str:
    target, calls = _nano(), []
    drafter = load_drafter("mtp", target)
    forward = drafter.head.forward
    drafter.head.forward = lambda *given: calls.append(given) or forward(*given)
    draft_after(target, drafter, target.encode("One morning, Lena"), 4)
    return f"{len(calls)} calls of the head for 4 draft tokens"


def b3() -> str:
    return f"another first token moves the second guess by {_moved('mtp'):.2f} (MTP), {_moved('medusa'):.0f} (Medusa)"


@functools.cache
def _moved(name: str) -> float:
    """Total variation between the second guess's distributions after two different first guesses."""
    target = _nano()
    drafter, text = load_drafter(name, target, temperature=2.0), target.encode("Ben: Have you seen my")
    one, two = (draft_after(target, drafter, text, 2, uniforms=(u, 0.5)) for u in (0.1, 0.9))
    assert one.tokens[0, 0] != two.tokens[0, 0]
    return float((one.probs[0, 1] - two.probs[0, 1]).abs().sum()) / 2


def measured(target: str, drafter: str, temperature: float, k: int, kind: str = OVERALL) -> dict:
    """A row of the stored acceptance table, drafts greedy. Raises ValueError when it has no such row."""
    for row in read_rows(DATA / target / "acceptance.jsonl"):
        if (row["drafter"], row["drafting"], row["temperature"], row["k"], row["kind"]) == (
            drafter, "greedy", temperature, k, kind,
        ):  # fmt: skip
            return row
    raise ValueError(f"data/{target}/acceptance.jsonl has no row for {drafter}, T = {temperature}, k = {k}, {kind}")


def b4() -> str:
    kept = by_position(measured("nano", "mtp", 0, 4))
    judged = [now / before for before, now in zip([1.0, *kept], kept)]
    return f"positions 1 to 4: {_words(kept)}; once judged: {_words(judged)} (nano, T = 0)"


def b5() -> str:
    worst: dict[str, float] = {}
    lossless = {}
    for row in table():
        worst[row["rule"]] = max(worst.get(row["rule"], 0.0), row["total_variation"])
        lossless[row["rule"]] = row["lossless"]
    kept = [rule for rule in worst if lossless[rule]]
    assert all(worst[rule] < LARGEST for rule in kept)
    lossy = [worst[rule] for rule in worst if not lossless[rule]]
    others = f"at worst {min(lossy):.2f} to {max(lossy):.2f} for {len(lossy)} lossy ones"
    return f"total variation 0 for {len(kept)} rules, {others}"


def b6() -> str:
    toy = load("toy-beijing")
    run = generate(toy, "我想从北京开车", load_drafter("draft", toy, model=load("toy-beijing-draft")), sampling=GREEDY)
    rejected = sum(one.num_accepted < one.num_drafted for one in run.rounds)
    assert rejected
    return f"{rejected} rejection, {len(run.rounds)} rounds, {run.target_calls} target calls"


def b7() -> str:
    first, later = (EXHIBITS[name].demonstrate() for name in ("R1", "R1b"))
    return f"{first.wrong[0]:g} and, after an acceptance, {later.wrong[0]:g} instead of {first.right[0]:g}"


def b8() -> str:
    target = _nano()
    head, text = load_drafter("gated_lora", target).head, target.encode("One morning, Lena")
    return (
        f"largest change {leak(target, head, text):g}; {leak(target, head, text, held_open=True):.1f} without the gate"
    )


def _papers(benchmark: str, model: str) -> str:
    found = [one for one in REPORTED if one.benchmark == benchmark and model in one.model]
    return ", ".join(f"{one.plain} → {one.trained}" for one in found) + f" (arXiv {found[0].paper})"


def b9() -> str:
    return f"TriviaQA {_papers('TriviaQA', 'MoE')}"


def b10() -> str:
    return f"HumanEval {_papers('HumanEval', '13B')}; {_papers('HumanEval', 'MoE')}"


def b11() -> str:
    cold, warm = (mean_acceptance_length(measured("smollm2", "mtp", t, 2)) for t in (0, 0.6))
    return (
        f"at most {theory.expected_tokens(1, 2):.0f} tokens a round at k = 2; here {cold:.2f} (T = 0), {warm:.2f} (0.6)"
    )


# -- C --------------------------------------------------------------------------------------------------------------


def c1() -> str:
    size = theory.MODEL_70B.parameters * theory.MODEL_70B.bytes_each / 1e9
    return f"{theory.weights_milliseconds():.1f} ms; {size:.0f} GB are {-(-size // 80):.0f} cards of 80 GB"


def c2() -> str:
    target = _nano()
    text = target.encode("One morning, Lena carried some rice to the attic.")
    cache = target.new_cache(1)
    target.forward(torch.tensor([text[:-5]]), [len(text) - 5], cache)
    rows = target.forward(torch.tensor([text[-5:]]), [5], cache)[0][0]
    worst = 0.0
    for i in range(5):
        seen = text[: len(text) - 4 + i]
        alone = target.forward(torch.tensor([seen]), [len(seen)], target.new_cache(1))[0][0, -1]
        worst = max(worst, float((alone - rows[i]).abs().max()))
    return f"five rows of one call and of five calls: equal within {'1e-10' if worst < 1e-10 else f'{worst:.0e}'}"


def c3() -> str:
    toy = load("toy-beijing")
    run = generate(toy, "我想从北京开车", load_drafter("draft", toy, model=load("toy-beijing-draft")), sampling=GREEDY)
    one = run.rounds[1]
    return f"{one.num_accepted} of {one.num_drafted} accepted, {len(one.tokens)} tokens, 1 target call"


def c5() -> str:
    return f"{theory.expected_tokens(0, 4):.0f} to {theory.expected_tokens(1, 4):.0f} tokens at k = 4"


def c6() -> str:
    toy = load("toy")
    options = {"sampling": GREEDY, "max_new_tokens": 40, "ignore_eos": True}
    run = generate(toy, "the cat", load_drafter("oracle", toy, accuracy=0.0), **options)
    return f"{run.target_calls} calls for {len(run.tokens)} tokens when every draft token is wrong"


def c7() -> str:
    article = theory.ARTICLE
    parts = []
    for tokens in (5, 2, 1):
        each = theory.milliseconds_a_token(tokens)
        parts.append(f"{each:.0f} ms ({article.target_call / each:.2f}×)")
    return ", ".join(parts)


def c8() -> str:
    memory, arithmetic = theory.memory_and_arithmetic(1, 4)
    return f"5 rows: {memory:.0f} ms of memory, {arithmetic:.1f} ms of arithmetic"


def c9() -> str:
    memory, plain = theory.memory_and_arithmetic(256, 0)
    _, drafted = theory.memory_and_arithmetic(256, 4)
    return f"{memory:.0f} ms of memory against {plain:.0f} ms for 256 rows, {drafted:.0f} ms for 256 × 5"


def c10() -> str:
    found = []
    for kind in ("json", "code", "fiction", "chat"):
        two, four = (mean_acceptance_length(measured("smollm2", "mtp", 0, k, kind)) for k in (2, 4))
        found.append(f"{kind} {two:.2f} ({four:.2f})")
    return f"tokens a round at k = 2 (4): {', '.join(found)}; SmolLM2, T = 0"


def c11() -> str:
    best = {
        batch: theory.best_k_under_load(0.8, theory.MODEL_70B, theory.DRAFTER_7B, theory.GPU, batch)
        for batch in (1, 64, 512)
    }
    return "best k " + ", ".join(f"{k} at batch {batch}" for batch, k in best.items()) + " (0.8 accepted)"


def c13() -> str:
    head, model = (mean_acceptance_length(measured("smollm2", name, 0.6, 2)) for name in ("mtp", "draft"))
    return f"{head:.2f} tokens a round with the head, {model:.2f} with the small model (T = 0.6)"


def c14() -> str:
    layers = [
        json.loads((DATA / "nano" / name / "config.json").read_text(encoding="utf-8"))["settings"]["num_layers"]
        for name in ("mtp", "mtp-stack")
    ]
    return f"here {layers[0]} head applied k times, and a stack of {layers[1]}"


def c17() -> str:
    return f"{theory.speedup(0, 4, theory.ARTICLE.draft_cost):.2f} times as fast when nothing is accepted (C7's costs)"
