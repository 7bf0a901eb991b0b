"""Pictures of what speculation gains on paper: over acceptance and k, over the batch, and why a call takes its time.

Takes: acceptance rates, costs, sizes of models and machines.  Returns: from each draw function, the numbers drawn.
Must not know: real models; the numbers are those of ``lab.theory``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..lab import theory
from .colors import GRID, INK, LINES, LOOKS
from .numbers import headline

MEMORY, ARITHMETIC = ("#9ECAE9", ""), ("#F5C77E", "//")


def draw_speed_up(
    fig: Any, draft_cost: float = 0.1, verify_cost: float = 1.0, max_k: int = 12, article_k: int = 4
) -> dict[str, list[dict]]:
    """The speed-up over acceptance rate and draft length, with the break-even, the best k, and the article's points.

    draft_cost, verify_cost: as in ``theory.speedup``.  article_k: the k at which the article's 5, 2 and 1 tokens a
        round are marked (all accepted, one accepted, none).
    Returns ``grid`` (alpha, k, speed_up), ``best`` (alpha, k) and ``points`` (words, alpha, k, tokens, speed_up).
    """
    from matplotlib.colors import TwoSlopeNorm

    alphas, lengths = [i / 50 for i in range(51)], list(range(max_k + 1))
    table = [[theory.speedup(alpha, k, draft_cost, verify_cost) for alpha in alphas] for k in lengths]
    axes = fig.subplots()
    norm = TwoSlopeNorm(1.0, vmin=0.25, vmax=4.0)
    mesh = axes.pcolormesh(alphas, lengths, table, cmap="PuOr", norm=norm, shading="nearest", rasterized=True)
    levels = [
        level for level in (0.5, 0.75, 1.5, 2, 3, 5) if min(map(min, table[1:])) < level < max(map(max, table[1:]))
    ]
    lines = axes.contour(alphas, lengths[1:], table[1:], levels=levels, colors=INK, linewidths=0.7, linestyles=":")
    axes.clabel(lines, fmt="%g×", fontsize=9)
    even = [(theory.break_even_acceptance(k, draft_cost, verify_cost), k) for k in lengths[1:]]
    even = [(alpha, k) for alpha, k in even if alpha <= 1]
    if even:
        axes.plot(*zip(*even), color=INK, linewidth=2.4, label="break-even: 1×")
    best = [{"alpha": a, "k": theory.best_k(a, draft_cost, max_k, verify_cost)} for a in alphas]
    axes.plot([row["alpha"] for row in best], [row["k"] for row in best], color=LOOKS["accepted"].color, linewidth=2,
              linestyle="--", drawstyle="steps-mid", label="best k")  # fmt: skip
    points = []
    for tokens, words, marker in ((article_k + 1, "all accepted", "^"), (2, "one accepted", "s"), (1, "none", "v")):
        alpha = theory.acceptance_for(tokens, article_k)
        gain = theory.speedup(alpha, article_k, draft_cost, verify_cost)
        points.append({"words": words, "alpha": alpha, "k": article_k, "tokens": tokens, "speed_up": gain})
        axes.plot([alpha], [article_k], marker=marker, markersize=12, color="white", markeredgecolor=INK,
                  linestyle="none", label=f"{words}: {gain:.2f}×", clip_on=False, zorder=5)  # fmt: skip
    axes.set_xlim(0, 1)
    axes.set_ylim(-0.5, max_k + 0.5)
    axes.set_yticks(lengths[:: 2 if max_k > 12 else 1])
    axes.set_xlabel("acceptance rate of each draft token, once judged")
    axes.set_ylabel("draft tokens a round, k")
    fig.colorbar(mesh, ax=axes, label="times as fast as plain decoding", ticks=[0.25, 0.5, 0.75, 1, 2, 3, 4])
    fig.legend(loc="outside lower center", ncols=5, columnspacing=1.2)
    cost = f"a draft step at {draft_cost:g} target calls" + (f", a verify call at {verify_cost:g}" * (verify_cost != 1))
    headline(fig, f"speed-up, {cost}; the marks at k = {article_k}: "
             + ", ".join(f"{point['speed_up']:.2f}×" for point in points))  # fmt: skip
    grid = [
        {"alpha": alpha, "k": k, "speed_up": gain} for k, row in zip(lengths, table) for alpha, gain in zip(alphas, row)
    ]
    return {"grid": grid, "best": best, "points": points}


draw_speed_up.height = 460


def draw_calls(
    fig: Any,
    calls: Sequence[tuple[int, int]] = ((1, 0), (1, 4), (256, 0), (256, 4)),
    weights: theory.Weights = theory.MODEL_70B,
    machine: theory.Machine = theory.GPU,
) -> list[dict]:
    """Milliseconds of memory and of arithmetic of one target call; it takes as long as the longer of the two.

    calls: (batch, k) each.  Returns a row each: batch, k, rows, memory, arithmetic, bound ("memory", "arithmetic").
    """
    axes = fig.subplots()
    found = []
    for i, (batch, k) in enumerate(calls):
        memory, arithmetic = theory.memory_and_arithmetic(batch, k, weights, machine)
        for y, value, (color, hatch), words in (
            (-i + 0.2, memory, MEMORY, "reading the weights"),
            (-i - 0.2, arithmetic, ARITHMETIC, "arithmetic"),
        ):
            style = {"edgecolor": INK, "linewidth": 0.8, "height": 0.38, "label": None if i else words}
            axes.barh(y, value, color=color, hatch=hatch, **style)
            weight = "bold" if value == max(memory, arithmetic) else "normal"
            axes.text(value, y, f" {value:.1f}" if value < 10 else f" {value:.0f}", va="center", fontweight=weight)
        bound = "memory" if memory >= arithmetic else "arithmetic"
        found.append({"batch": batch, "k": k, "rows": batch * (k + 1), "memory": memory, "arithmetic": arithmetic,
                      "bound": bound})  # fmt: skip
    rows = [f"{row['rows']} row" + "s" * (row["rows"] > 1) for row in found]
    names = [f"batch {row['batch']}, k = {row['k']}\n{words}" for row, words in zip(found, rows)]
    axes.set_yticks([-i for i in range(len(found))], names)
    axes.set_xlim(0, 1.12 * max(max(row["memory"], row["arithmetic"]) for row in found))
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel("milliseconds of one target call; the longer bar sets its time")
    fig.legend(loc="outside lower center", ncols=2)
    edge = theory.critical_rows(weights, machine)
    headline(
        fig, f"up to {edge:.0f} rows a call takes as long as reading the weights; beyond, arithmetic sets the pace"
    )
    return found


draw_calls.height = 340


def draw_loads(
    fig: Any,
    alphas: Sequence[float] = (0.9, 0.8, 0.6, 0.3),
    fixed_k: int = 4,
    target: theory.Weights = theory.MODEL_70B,
    drafter: theory.Weights = theory.DRAFTER_7B,
    machine: theory.Machine = theory.GPU,
    context: float = 0.0,
    batches: Sequence[int] = (1, 2, 4, 8, 16, 32, 64, 96, 128, 192, 256, 384, 512),
) -> list[dict]:
    """The best k over the batch size, and what it gains beside a fixed k; a curve for each acceptance rate.

    Returns a row each: alpha, batch, best_k, gain_best, gain_fixed (tokens a second ÷ those of plain decoding).
    """
    left, right = fig.subplots(1, 2)
    rows: list[dict] = []
    for i, alpha in enumerate(alphas):
        color, marker, style = LINES[i % len(LINES)]
        mine = []
        for batch in batches:
            best = theory.best_k_under_load(alpha, target, drafter, machine, batch, context)
            plain, gained, kept = (
                theory.tokens_per_second(alpha, target, drafter, machine, batch, k, context) for k in (0, best, fixed_k)
            )
            mine.append({"alpha": alpha, "batch": batch, "best_k": best, "gain_best": gained / plain,
                         "gain_fixed": kept / plain})  # fmt: skip
        look = {"color": color, "marker": marker, "markersize": 6, "linewidth": 2}
        left.plot(batches, [row["best_k"] for row in mine], linestyle=style, label=f"acceptance {alpha:g}", **look)
        right.plot(batches, [row["gain_best"] for row in mine], linestyle=style, **look)
        right.plot(batches, [row["gain_fixed"] for row in mine], linestyle=style, alpha=0.35, **look)
        rows += mine
    for axes in (left, right):
        axes.set_xscale("log", base=2)
        axes.set_xticks([b for b in batches if b & (b - 1) == 0], [str(b) for b in batches if b & (b - 1) == 0])
        axes.minorticks_off()
        axes.set_xlabel("batch size")
        axes.grid(axis="y", color=GRID)
    right.axhline(1, color=INK, linewidth=1)
    left.set_title("best draft length")
    right.set_title(f"gain over plain: best k (bold), k = {fixed_k} (pale)")
    left.set_ylabel("k")
    left.set_ylim(bottom=-0.3)
    right.set_ylim(bottom=0)
    fig.legend(loc="outside lower center", ncols=len(alphas))
    first = next(iter(alphas))
    ends = [row["best_k"] for row in rows if row["alpha"] == first]
    moves = "falls" if ends[-1] < ends[0] else "rises" if ends[-1] > ends[0] else "goes"
    headline(fig, f"at acceptance {first:g} the best k {moves} from {ends[0]} at batch {batches[0]} to {ends[-1]} "
             f"at batch {batches[-1]}")  # fmt: skip
    return rows


draw_loads.height = 420


def draw_server(
    fig: Any,
    rows: Sequence[Mapping[str, Any]],
    load: str = "max_batch",
    words: str = "requests at a time",
    plain: str | None = None,
) -> list[dict]:
    """A simulated server under several loads: throughput against the policy ``plain``, and the time of a token.

    rows: those of ``server_sim.compare``, with a column ``load``.  words: what the load is.  plain: the policy that
        the others are compared with; the first one when None.
    Returns a row each: policy, load, gain, milliseconds (the median request's time per token), mean_k.
    """
    if not rows:
        raise ValueError("no rows: give those of lab.server_sim.compare")
    policies = list(dict.fromkeys(row["policy"] for row in rows))
    loads = list(dict.fromkeys(row[load] for row in rows))
    plain = policies[0] if plain is None else plain
    if plain not in policies:
        raise ValueError(f"plain={plain!r}: the rows have the policies {', '.join(policies)}")
    base = {row[load]: row["tokens_per_second"] for row in rows if row["policy"] == plain}
    left, right = fig.subplots(1, 2)
    found = []
    for i, policy in enumerate(policies):
        color, marker, style = LINES[i % len(LINES)]
        mine = {row[load]: row for row in rows if row["policy"] == policy}
        here = [
            {"policy": policy, "load": x, "gain": mine[x]["tokens_per_second"] / base[x],
             "milliseconds": 1000 * mine[x]["time_per_token_p50"], "mean_k": mine[x]["mean_k"]}
            for x in loads if x in mine
        ]  # fmt: skip
        places = [loads.index(row["load"]) for row in here]
        look = {"color": color, "marker": marker, "linestyle": style, "markersize": 7, "linewidth": 2}
        left.plot(places, [row["gain"] for row in here], label=policy, **look)
        right.plot(places, [row["milliseconds"] for row in here], **look)
        found += here
    for axes in (left, right):
        axes.set_xticks(range(len(loads)), [f"{x:g}" for x in loads])
        axes.set_xlabel(words)
        axes.grid(axis="y", color=GRID)
    left.set_title(f"tokens a second ÷ those of “{plain}”")
    right.set_title("milliseconds a token, the median request")
    left.set_ylim(bottom=0)
    right.set_ylim(bottom=0)
    fig.legend(loc="outside lower center", ncols=min(len(policies), 5), columnspacing=1.2)
    winners = [max((r for r in found if r["load"] == x), key=lambda row: row["gain"]) for x in (loads[0], loads[-1])]
    headline(fig, "most tokens a second: " + "; ".join(
        f"{row['policy']} at {row['load']:g} ({row['gain']:.2f}×)" for row in winners))  # fmt: skip
    return found


draw_server.height = 430
