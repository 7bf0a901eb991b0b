"""``metrics``: what a server's counters say of its drafts.

Takes: an address or a file.  Returns: text or JSON.
Must not know: how metrics are read.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

import typer

from .app import Json, app, print_json, readable, terminal


@app.command()
def metrics(
    where: Annotated[str, typer.Argument(help="The address of a server's /metrics, or a file with its text.")],
    before: Annotated[
        Path | None, typer.Option(help="A file with an earlier reading: report the time between the two.")
    ] = None,
    timeout: Annotated[float, typer.Option(help="Seconds to wait for a server.")] = 10.0,
    as_json: Json = False,
) -> None:
    """Acceptance by a server's own counters (vLLM) or gauges (SGLang): rates, tokens a round, by position."""
    from rich.table import Table
    from rich.text import Text

    from ..serving import load, rows

    found = rows(load(where, timeout), load(before) if before else None)
    if as_json:
        print_json(found)
        return
    console = terminal()
    for row in found:
        labels = ", ".join(f"{name} {word}" for name, word in row["labels"].items())
        console.print(Text.assemble((row["engine"], "bold"), readable(f"  {labels}")))
        if row["engine"] == "sglang":
            _show_gauges(row)
            continue
        if row["was_reset"]:
            print("the server was started in between: these are the counts since its start")
        if not row["drafts"]:
            print("no round has drafted anything yet")
            continue
        low, high = row["length_interval"] if None not in row["length_interval"] else (math.nan, math.nan)
        print(f"rounds that drafted      {row['drafts']:,}")
        print(f"acceptance rate          {row['acceptance_rate']:.3f}  (accepted ÷ drafted tokens)")
        print(f"mean acceptance length   {row['mean_acceptance_length']:.2f}  ({low:.2f} to {high:.2f})")
        if row["tokens_per_call"] is not None and row["undrafted_rounds"]:
            print(f"tokens a target call     {row['tokens_per_call']:.2f}  (with the calls that had no draft)")
        table = Table("position", "of all rounds", "95 %", "once judged", "95 %", "judged in", box=None, pad_edge=False)
        for i, judged in enumerate(row["judged"]):
            cells = []
            for name in ("by_position", "conditional"):
                value, (low, high) = row[name][i], row[f"{name}_intervals"][i]
                cells += ["-", ""] if value is None else [f"{value:.3f}", f"{low:.3f} to {high:.3f}"]
            table.add_row(str(i + 1), *cells, f"{judged:,}")
        console.print(table)
        print("Intervals as if rounds were independent; rounds of one text are alike, so the truth is wider.")
        if not row["full_drafts"]:
            print("Some drafts were shorter than k: 'once judged' is then a lower bound from position 2 on.")


def _show_gauges(row: dict) -> None:
    rate, length = row["acceptance_rate"], row["mean_acceptance_length"]
    if not rate and not length and (rate, length) != (None, None):
        print("0: speculation is off, or no round is over yet")
        return
    absent = "unknown: not on this page"
    print(f"acceptance rate          {absent if rate is None else f'{rate:.3f}'}  (accepted ÷ drafted tokens)")
    print(f"mean acceptance length   {absent if length is None else f'{length:.2f}'}")
    print("Ratios over the last rounds only, without counts: no interval can be worked out.")
