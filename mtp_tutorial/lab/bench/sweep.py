"""From recorded costs and recorded acceptance: tokens a second over the batch, the crossover, and the controller.

Takes: ``Costs``, rows of acceptance.  Returns: tidy rows.
Must not know: models, clocks.

Two ways to the same numbers. ``curves`` multiplies: batch · tokens a round ÷ seconds of a round. ``compare`` serves
requests one after the other in a full batch (``server_sim``), the only way for a controller that learns as it goes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ...drafters.weights import DATA
from ...longrun import read_rows
from ...records import Controller
from .. import server_sim
from ..controllers import ByThroughput, Fixed
from ..theory import expected_tokens
from ..theory.numbers import Alpha, whole
from .costs import Costs

OVERALL = "all kinds"
ADAPTIVE = "adaptive"


def acceptance_rates(
    rows: Sequence[Mapping], drafter: str = "mtp", temperature: float = 0.0, drafting: str = "greedy", k: int = 4
) -> dict[str, list[float]]:
    """Kind of prompt (and "all kinds") → the conditional acceptance rate of each position.

    rows: as ``training.acceptance`` writes them. Raises ValueError when they lack the setting.
    """
    setting = {"drafter": drafter, "temperature": temperature, "drafting": drafting, "k": k}
    mine = [row for row in rows if setting.items() <= row.items()]
    if not mine:
        raise ValueError(f"no acceptance is recorded for {setting}")
    found = {}
    for row in mine:
        judged = [row["rounds"], *row["accepted"]]
        found[row["kind"]] = [part / of if of else 0.0 for of, part in zip(judged, row["accepted"])]
    return found


def longer(rates: Sequence[float], k: int) -> list[float]:
    """The rates of positions 1 … k; beyond those that were recorded, the last one goes on."""
    return [*rates, *[rates[-1]] * max(k - len(rates), 0)][:k]


def curves(
    costs: Mapping[str, Costs], rates: Sequence[float], batches: Sequence[int], lengths: Sequence[int]
) -> list[dict]:
    """Tokens a second of the whole batch for each draft length and batch, k = 0 being plain decoding.

    costs: which ("median", "lowest", "highest") → ``Costs``; the range comes from the fastest and the slowest round.
    Returns a row each: k, batch, tokens_per_second, low, high, ratio (to k = 0), is_measured.
    """
    found = []
    for k in lengths:
        for batch in batches:
            tokens = batch * expected_tokens(longer(rates, k), k)
            cost, plain = (costs["median"].of_round(batch, n) for n in (k, 0))
            low, high = (tokens / costs[which].of_round(batch, k).seconds for which in ("highest", "lowest"))
            speed = tokens / cost.seconds
            found.append(
                {
                    "k": k, "batch": batch, "tokens_per_second": speed, "low": low, "high": high,
                    "ratio": speed * plain.seconds / batch, "is_measured": cost.is_measured,
                }
            )  # fmt: skip
    return found


def crossover(costs: Costs, rates: Sequence[float], k: int, limit: int = 1024) -> int | None:
    """The smallest batch from which on, up to ``limit``, k draft tokens are slower than none; None: there is none."""
    tokens = expected_tokens(longer(rates, k), whole("k", k, 1))
    lost = None
    for batch in range(whole("limit", limit, 1), 0, -1):
        if tokens / costs.of_round(batch, k).seconds >= 1 / costs.of_round(batch, 0).seconds:
            return lost
        lost = batch
    return lost


def compare(
    costs: Costs,
    kinds: Mapping[str, Alpha],
    batches: Sequence[int],
    lengths: Sequence[int],
    adaptive: Callable[[], Controller] = ByThroughput,
    turns: int = 8,
    new_tokens: tuple[int, int] = (64, 192),
    seed: int = 0,
) -> list[dict]:
    """A server that is never idle, at each batch size: every fixed k and the controller, on the same texts.

    kinds: mixed evenly, each with its acceptance rates.  turns: requests ÷ batch, at least 64 requests in all.
    Prompts have one token, so that rounds alone are compared.
    Returns rows of ``server_sim``, with ``policy`` ("k = 0" …, "adaptive") and ``batch``.
    """
    policies: dict[str, Callable[[], Controller]] = {f"k = {k}": lambda k=k: Fixed(k) for k in lengths}
    policies[ADAPTIVE] = adaptive
    rows = []
    for batch in batches:
        generator = np.random.default_rng(seed)
        count = max(64, turns * batch)
        requests = server_sim.make_requests(count, generator, kinds, prompt_tokens=1, new_tokens=new_tokens)
        rows += server_sim.compare(requests, policies, {"batch": batch}, max_batch=batch, costs=costs)
    return rows


def adaptive_curve(served: Sequence[Mapping], lines: Sequence[Mapping]) -> list[dict]:
    """The controller in the form of ``curves``, without a range: nothing in it is random.

    served: of ``compare``.  lines: of ``curves``. The ratio to k = 0 is that of the simulated server, and tokens a
    second are this ratio times the curve's k = 0: a server's own figure is a little lower, as its last texts run in a
    batch that is no longer full.
    """
    speed = {(row["policy"], row["batch"]): row["tokens_per_second"] for row in served}
    found = []
    for plain in (row for row in lines if row["k"] == 0 and (ADAPTIVE, row["batch"]) in speed):
        ratio = speed[ADAPTIVE, plain["batch"]] / speed["k = 0", plain["batch"]]
        tokens = dict.fromkeys(("tokens_per_second", "low", "high"), ratio * plain["tokens_per_second"])
        found.append({"batch": plain["batch"], **tokens, "ratio": ratio, "is_measured": plain["is_measured"]})
    return found


def scores(rows: Sequence[Mapping]) -> dict:
    """Who is how good. rows: of ``compare``.

    Returns ``batches``: a row each with batch, best (the best fixed policy), and of_best: policy → its tokens a second
    ÷ those of the best; and ``sweep``: policy → the geometric mean over the batches of tokens a second ÷ those of
    k = 0.
    """
    speed = {(row["policy"], row["batch"]): row["tokens_per_second"] for row in rows}
    policies, batches = list(dict.fromkeys(p for p, _ in speed)), list(dict.fromkeys(b for _, b in speed))
    fixed = [policy for policy in policies if policy != ADAPTIVE]
    table = []
    for batch in batches:
        best = max(fixed, key=lambda policy: speed[policy, batch])
        each = {policy: speed[policy, batch] / speed[best, batch] for policy in policies}
        table.append({"batch": batch, "best": best, "of_best": each})
    sweep = {p: math.prod(speed[p, b] / speed["k = 0", b] for b in batches) ** (1 / len(batches)) for p in policies}
    return {"batches": table, "sweep": sweep}


def temperatures(found: Mapping) -> list[float]:
    """Those of a record, in its order."""
    return list(dict.fromkeys(row["temperature"] for row in found["rows"]))


def report(
    found: Mapping, temperature: float, beyond: Sequence[int] = (), rows: Sequence[Mapping] | None = None
) -> dict:
    """All that is said of a record at one temperature.

    beyond: further batch sizes, which are modelled.  rows: of acceptance; None: those that come with the target.
    Returns ``lengths``; ``curves`` and ``adaptive`` for the picture; ``table``: a row a batch with tokens_per_second by
    way, best (the best fixed policy in the simulated server), adaptive_of_best, is_measured; ``crossovers``: k → batch;
    ``sweep`` as in ``scores``, over the measured batches.
    """
    rows = recorded_acceptance(found["target"]) if rows is None else rows
    every = acceptance_rates(rows, found["drafter"], temperature)
    kinds = {kind: rates for kind, rates in every.items() if kind != OVERALL}
    costs = {which: Costs(found, temperature, which) for which in ("median", "lowest", "highest")}
    middle = costs["median"]
    batches = [*middle.batches, *(b for b in beyond if b > middle.batches[-1])]
    served = compare(middle, kinds, batches, middle.lengths)
    lines = curves(costs, every[OVERALL], batches, middle.lengths)
    adaptive = adaptive_curve(served, lines)
    table = []
    for one, mine in zip(scores(served)["batches"], adaptive, strict=True):
        speeds = {f"k = {row['k']}": row["tokens_per_second"] for row in lines if row["batch"] == one["batch"]}
        speeds[ADAPTIVE] = mine["tokens_per_second"]
        table.append(
            {
                "batch": one["batch"], "tokens_per_second": speeds, "best": one["best"],
                "adaptive_of_best": one["of_best"][ADAPTIVE], "is_measured": mine["is_measured"],
            }
        )  # fmt: skip
    return {
        "temperature": temperature,
        "lengths": middle.lengths,
        "curves": lines,
        "adaptive": adaptive,
        "table": table,
        "crossovers": {k: crossover(middle, every[OVERALL], k) for k in middle.lengths if k},
        "sweep": scores([row for row in served if row["batch"] in middle.batches])["sweep"],
    }


def check_recorded(target: str, drafter: str, temperatures: Sequence[float]) -> None:
    """Raise ValueError when ``report`` would lack the acceptance of one of these temperatures."""
    rows = recorded_acceptance(target)
    for temperature in temperatures:
        acceptance_rates(rows, drafter, temperature)


def recorded_acceptance(target: str) -> list[dict]:
    """The rows of acceptance that come with a target's weights. Raises ValueError where there are none."""
    path = DATA / target / "acceptance.jsonl"
    if not path.exists():
        raise ValueError(f"no acceptance comes with {target!r}: give rows=, as training.acceptance measures them")
    return read_rows(path, "acceptance")
