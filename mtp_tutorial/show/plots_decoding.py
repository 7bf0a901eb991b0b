"""Pictures of MTP decoding: what a coin and an argmax say of the same draft tokens, tokens a round, seconds a round.

Takes: rows of ``lab.watch``, shares of accepted draft tokens, seconds.  Returns: from each draw function, the numbers
    drawn.
Must not know: models, how a rule decides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .colors import GRID, INK, LOOKS
from .numbers import Labels, bars, headline, namer, short

if TYPE_CHECKING:
    from ..lab.watch import Judged

KEEP, DROP = LOOKS["accepted"].color, LOOKS["recovered"].color

#: (argmax match keeps it, the coin keeps it) → (words, colour, hatch)
AGREEMENT = {
    (True, True): ("both keep it", "#8FD3BC", ""),
    (True, False): ("only argmax match keeps it", "#F5C77E", "//"),
    (False, True): ("only the coin keeps it", "#9ECAE9", ".."),
    (False, False): ("both drop it", "#E3E3E3", "xx"),
}


def agreement(judged: Sequence[Judged]) -> dict[tuple[bool, bool], int]:
    """How many draft tokens each pair of verdicts got: (argmax match keeps it, the coin keeps it) → count.

    The draft tokens were chosen without randomness, so rule ``rejection`` keeps one whose coin is below p.
    """
    verdicts = [(one.match, one.coin < one.p) for one in judged]
    return {pair: verdicts.count(pair) for pair in AGREEMENT}


def draw_coins(fig: Any, judged: Sequence[Judged], labels: Labels = None, most: int = 24) -> list[dict]:
    """Each judged draft token with p, its coin, and what two rules say of it. Rounds are parted by lines.

    judged: rows of one sequence, drafted greedily.  most: how many are drawn, the first ones.
    Returns a row a token: round, token, p, coin, match, kept (by the coin).
    """
    from matplotlib.patches import Patch

    shown, name = list(judged)[:most], namer(labels)
    if not shown:
        raise ValueError("no draft token was judged: give the rows of a run with a drafter")
    axes = fig.subplots()
    rows = []
    for x, one in enumerate(shown):
        kept = one.coin < one.p
        _, color, hatch = AGREEMENT[one.match, kept]
        bars(axes, x, one.p, color, hatch, width=0.8)
        axes.plot([x], [one.coin], marker="D", markersize=7, color=INK, linestyle="none")
        for y, good in ((-0.09, one.match), (-0.2, kept)):
            style = {"ha": "center", "va": "center", "fontweight": "bold", "color": KEEP if good else DROP}
            axes.text(x, y, "✓" if good else "✗", **style)
        if x and one.round != shown[x - 1].round:
            axes.axvline(x - 0.5, color=GRID, linewidth=1.2, zorder=0)
        rows.append({"round": one.round, "token": name(one.token), "p": one.p, "coin": one.coin, "match": one.match,
                     "kept": kept})  # fmt: skip
    for y, words in ((-0.09, "argmax match"), (-0.2, "coin below p")):
        axes.text(-0.75, y, words, ha="right", va="center", fontsize=10)
    axes.set_xticks(range(len(rows)), [short(row["token"], 10) for row in rows], rotation=90, fontsize=9)
    axes.set_xlim(-0.6, max(len(rows), 8) - 0.4)
    axes.set_ylim(-0.26, 1.04)
    axes.set_yticks([0, 0.25, 0.5, 0.75, 1])
    axes.axhline(0, color=INK, linewidth=0.8)
    axes.set_ylabel("p(draft token), and its coin ◆", loc="top")
    axes.tick_params(axis="x", length=0)
    found = agreement(shown)
    handles = [
        Patch(facecolor=color, hatch=hatch, edgecolor=INK, label=f"{words} ({found[pair]})")
        for pair, (words, color, hatch) in AGREEMENT.items()
    ]
    fig.legend(handles=handles, loc="outside lower center", ncols=4, columnspacing=1.2)
    differ = found[True, False] + found[False, True]
    headline(fig, f"{len(rows)} draft tokens, two verdicts each: they differ on {differ}")
    return rows


draw_coins.height = 430


def draw_overlap(fig: Any, judged: Sequence[Judged]) -> dict[str, float]:
    """For each judged draft token: how often a greedy draft would be accepted there, and how often a sampled one.

    Returns the two means: greedy, sampled.
    """
    if not judged:
        raise ValueError("no draft token was judged: give the rows of a run with a drafter")
    axes = fig.subplots()
    axes.plot([0, 1], [0, 1], color=INK, linewidth=1, linestyle="--", label="the same")
    axes.scatter([one.greedy for one in judged], [one.overlap for one in judged], s=26, color=LOOKS["target"].color,
                 alpha=0.5, edgecolors="none", label="one judged draft position")  # fmt: skip
    means = {
        "greedy": sum(one.greedy for one in judged) / len(judged),
        "sampled": sum(one.overlap for one in judged) / len(judged),
    }
    axes.plot(*[[mean] for mean in means.values()], marker="*", markersize=19, color=DROP, markeredgecolor=INK,
              linestyle="none", label=f"mean: {means['greedy']:.2f} and {means['sampled']:.2f}")  # fmt: skip
    axes.set_xlabel("accepted if drafted greedily: p(favourite of the drafter)")
    axes.set_ylabel("accepted if drawn from q: Σ min(p, q)")
    axes.set_xlim(-0.03, 1.03)
    axes.set_ylim(-0.03, 1.03)
    axes.set_box_aspect(1)
    fig.legend(loc="outside lower center", ncols=3, columnspacing=1.2)
    lead = means["greedy"] - means["sampled"]
    words = "both are accepted about equally often" if abs(lead) < 0.01 else (
        f"{'greedy' if lead > 0 else 'sampled'} drafts are accepted more often"
    )  # fmt: skip
    headline(fig, f"{len(judged)} draft positions: {words}")
    return means


draw_overlap.height = 520

#: (colour, hatch) of the parts of a round's tokens: the target's own, then draft positions 1, 2, …
PARTS = (("#C9C9C9", ""), ("#009E73", ""), ("#8FD3BC", ".."), ("#F3E88A", "--"), ("#F0A37A", "++"))


def draw_lengths(fig: Any, groups: Mapping[str, Mapping[str, Sequence[float]]]) -> list[dict]:
    """Tokens a round as a sum: one of the target's own, and for each draft position the share of rounds accepting it.

    groups: title → name → the shares of draft positions 1, 2, …  Each group has a panel, all the same names.
    Returns a row a bar: group, name, shares, length.
    """
    columns = fig.subplots(1, len(groups), sharey=True, squeeze=False)[0]
    names = list(dict.fromkeys(name for series in groups.values() for name in series))
    longest = max(len(shares) for series in groups.values() for shares in series.values())
    rows = []
    for axes, (title, series) in zip(columns, groups.items()):
        for name, shares in series.items():
            left, y = 0.0, -names.index(name)
            for i, width in enumerate((1.0, *shares)):
                color, hatch = PARTS[min(i, len(PARTS) - 1)]
                style = {"edgecolor": INK, "linewidth": 0.8, "height": 0.68}
                axes.barh(y, width, left=left, color=color, hatch=hatch, **style)
                left += width
            axes.text(left + 0.03, y, f"{left:.2f}", va="center", fontsize=10)
            rows.append({"group": title, "name": name, "shares": list(shares), "length": left})
        axes.set_title(title)
        axes.set_xlabel("tokens a round")
    highest = max(row["length"] for row in rows)
    for axes in columns:
        axes.set_xlim(0, highest * 1.16)
        axes.set_yticks([-i for i in range(len(names))], names)
        axes.tick_params(axis="y", length=0)
    words = ["the target's own token", *(f"draft position {i + 1}" for i in range(longest))]
    _legend(fig, [(label, *PARTS[min(i, len(PARTS) - 1)]) for i, label in enumerate(words)])
    best = max(rows, key=lambda row: row["length"])
    headline(fig, f"tokens a round: most {best['length']:.2f} ({best['name']}, {best['group']})")
    return rows


draw_lengths.height = 360

SECONDS = {
    "verifying": ("the target's call", "#9ECAE9", ""),
    "drafting": ("drafting", "#F5C77E", "//"),
    "elsewhere": ("elsewhere", "#C9C9C9", "xx"),
}


def draw_seconds(fig: Any, rows: Sequence[Mapping[str, Any]]) -> list[dict]:
    """Milliseconds a round by what they went on, and milliseconds a token.

    rows: dicts with name, verifying, drafting, elsewhere (seconds a round) and tokens (a round); the first one is
        what the others are compared with.
    Returns a row each: name, round and token (milliseconds), speed_up.
    """
    left, right = fig.subplots(1, 2, sharey=True)
    found = []
    for i, row in enumerate(rows):
        place = 0.0
        for key, (_, color, hatch) in SECONDS.items():
            width = 1000 * row[key]
            left.barh(-i, width, left=place, color=color, hatch=hatch, edgecolor=INK, linewidth=0.8, height=0.6)
            place += width
        left.text(place * 1.01, -i, f" {place:.1f}", va="center")
        token = place / row["tokens"]
        found.append({"name": row["name"], "round": place, "token": token})
    for i, row in enumerate(found):
        row["speed_up"] = found[0]["token"] / row["token"]
        right.barh(-i, row["token"], color=LOOKS["accepted"].color, alpha=0.7, edgecolor=INK, linewidth=0.8, height=0.6)
        right.text(row["token"], -i, f"  {row['token']:.1f}  ({row['speed_up']:.2f}×)", va="center")
    left.set_yticks([-i for i in range(len(found))], [row["name"] for row in found])
    left.set_xlim(0, 1.18 * max(row["round"] for row in found))
    right.set_xlim(0, 1.4 * max(row["token"] for row in found))
    left.set_title("a round")
    right.set_title("a token: the round ÷ its tokens")
    for axes in (left, right):
        axes.set_xlabel("milliseconds")
        axes.tick_params(axis="y", length=0)
    _legend(fig, SECONDS.values())
    best = max(found, key=lambda row: row["speed_up"])
    headline(fig, f"per token, {best['name']} is {best['speed_up']:.2f} times as fast as {found[0]['name']}"
             if best is not found[0] else f"per token, nothing is faster than {found[0]['name']}")  # fmt: skip
    return found


draw_seconds.height = 300


def _legend(fig: Any, looks: Any) -> None:
    from matplotlib.patches import Patch

    handles = [Patch(facecolor=color, hatch=hatch, edgecolor=INK, label=label) for label, color, hatch in looks]
    fig.legend(handles=handles, loc="outside lower center", ncols=len(handles), columnspacing=1.2)
