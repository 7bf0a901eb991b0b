"""``costs``: what rounds cost by batch and draft length, when drafts stop paying, and how the controller fares.

Takes: options.  Returns: tables, JSON, a picture.
Must not know: how anything is measured.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .app import Json, app, check_file, print_json, terminal

BEYOND = (128, 256)  # batch sizes that are modelled


@app.command()
def costs(
    target: Annotated[str, typer.Option(help="nano, smollm2, a Hugging Face id or a folder.")] = "nano",
    drafter: Annotated[str, typer.Option(help="A drafter that the target has weights for.")] = "mtp",
    batch: Annotated[list[int] | None, typer.Option(help="Repeatable; 1 to 64 by default.")] = None,
    k: Annotated[
        list[int] | None, typer.Option("--k", help="Draft lengths, 0 among them; 0 to 4 and 8 by default.")
    ] = None,
    temperature: Annotated[
        list[float] | None, typer.Option("--temperature", "-t", help="Repeatable; 0 and 0.6 by default.")
    ] = None,
    walks: Annotated[int, typer.Option(help="How often each draft length is timed.")] = 9,
    load: Annotated[
        list[str] | None, typer.Option("--load", help="An option of mt.load, such as short=false. Repeatable.")
    ] = None,
    device: Annotated[str | None, typer.Option(help="cpu, cuda, cuda:1 …")] = None,
    out: Annotated[Path | None, typer.Option(help="The record, .json; by default costs-TARGET.json here.")] = None,
    show: Annotated[Path | None, typer.Option(help="Measure nothing: read this record.")] = None,
    picture: Annotated[Path | None, typer.Option(help="Also draw the first temperature into this .png file.")] = None,
    as_json: Json = False,
) -> None:
    """Time rounds of decoding by batch and draft length; say from which batch on drafts stop paying.

    Tokens a round are those of the acceptance that comes with the target's weights.
    """
    from ..lab import bench as lab
    from ..lab.bench import costs as recorded
    from ..lab.bench import sweep

    check_file("--picture", picture, ".png")
    check_file("--out", out, ".json")
    if show is None:
        import mtp_tutorial as mt

        show = out or Path(f"costs-{target.replace('/', '--')}.json")
        model = mt.load(target, device=device, **lab.options(load or (), "--load"))
        at = tuple(temperature or (0.0, 0.6))
        sweep.check_recorded(model.name, drafter, at)
        found = recorded.record(
            model,
            mt.load_drafter(drafter, model),
            drafter,
            batches=tuple(batch or recorded.BATCHES),
            lengths=tuple(k or recorded.LENGTHS),
            temperatures=at,
            walks=walks,
        )
        recorded.write(found, show)
    else:
        found = recorded.read(show)
    with terminal(stderr=True).status("the controller serves simulated crowds"):
        told = [sweep.report(found, one, BEYOND) for one in sweep.temperatures(found)]
    if picture is not None:
        from ..show.picture import figure
        from ..show.plots_costs import draw_costs

        drawn = figure(draw_costs, rows=told[0]["curves"], adaptive=told[0]["adaptive"])
        picture.parent.mkdir(parents=True, exist_ok=True)
        picture.write_bytes(drawn.png)
    if as_json:
        print_json({"header": {name: value for name, value in found.items() if name != "rows"}, "reports": told})
        return
    _print(found, told)


def _print(found: dict, told: list[dict]) -> None:
    from rich.table import Table

    console = terminal()
    where = found["machine"].get("gpu") or found["machine"]["cpu"]
    console.print(f"{found['target']} with {found['drafter']}, {where}, {found['threads']} threads")
    for one in told:
        ways = [*(f"k = {k}" if k else "plain" for k in one["lengths"]), "adaptive"]
        table = Table("batch", *ways, "best k", box=None, pad_edge=False)
        for row in one["table"]:
            mark = "" if row["is_measured"] else " *"
            cells = [f"{value:.0f}" for value in row["tokens_per_second"].values()]
            table.add_row(f"{row['batch']}{mark}", *cells, f"{row['best']}: {row['adaptive_of_best']:.3f}")
        title = f"\nT = {one['temperature']:g}: tokens a second of the whole batch"
        console.print(title, style="bold")
        console.print(table)
        for k, batch in one["crossovers"].items():
            when = f"up to batch {batch - 1}" if batch and batch > 1 else "never" if batch else "at every batch"
            console.print(f"k = {k} pays {when}")
        sweep = ", ".join(f"{name} {value:.2f}" for name, value in one["sweep"].items())
        console.print(f"over the measured sweep, × k = 0 (geometric mean): {sweep}")
    console.print(
        "\nbest k: the best fixed one in the simulated server, and what share of its speed the controller reaches."
        "  *: modelled",
        style="dim",
    )
