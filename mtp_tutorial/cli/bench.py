"""``bench``: how fast each way of decoding is, and what was predicted.

Takes: options.  Returns: tables, JSON, a picture.
Must not know: how anything is measured.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .app import Json, app, check_file, print_json, terminal

#: what is compared when nothing is said
ARMS = ("plain", "mtp:k=2", "mtp:adaptive", "ngram:k=4", "hf-plain", "hf-assistant", "hf-lookup")


@app.command()
def bench(
    target: Annotated[str, typer.Option(help="nano, smollm2, a Hugging Face id or a folder.")] = "nano",
    arms: Annotated[
        list[str] | None,
        typer.Option(
            "--arms", "-a", help="plain, mtp:k=2, mtp:adaptive, ngram:k=4, hf-plain, hf-assistant … Repeatable."
        ),
    ] = None,
    kinds: Annotated[
        list[str] | None, typer.Option("--kinds", help="Kinds of prompts; repeatable; all by default.")
    ] = None,
    prompts: Annotated[int, typer.Option(help="Held-out prompts of each kind.")] = 2,
    batch: Annotated[list[int] | None, typer.Option(help="Prompts decoded together; repeatable. 1 by default.")] = None,
    temperature: Annotated[
        list[float] | None, typer.Option("--temperature", "-t", help="Repeatable; 0 and 0.6 by default.")
    ] = None,
    top_k: Annotated[int, typer.Option(help="0 keeps every token.")] = 50,
    top_p: Annotated[float, typer.Option(help="1 keeps every token.")] = 1.0,
    tokens: Annotated[int, typer.Option(help="Tokens a text; every text gets as many.")] = 64,
    repeats: Annotated[int, typer.Option(help="How often each prompt is decoded.")] = 3,
    costs: Annotated[int, typer.Option(help="Other prompts of each kind that price a round for the prediction.")] = 1,
    ignore_eos: Annotated[
        bool, typer.Option("--ignore-eos/--stop-at-eos", help="Pass over the end of text, on both sides alike.")
    ] = True,
    threads: Annotated[int | None, typer.Option(help="Threads of torch; all cores by default.")] = None,
    load: Annotated[
        list[str] | None, typer.Option("--load", help="An option of mt.load, such as short=false. Repeatable.")
    ] = None,
    device: Annotated[str | None, typer.Option(help="cpu, cuda, cuda:1 …")] = None,
    dtype: Annotated[str | None, typer.Option(help="float32, bfloat16, float16 or float64.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="The file for the rows, .jsonl; by default bench-TARGET.jsonl here.")
    ] = None,
    show: Annotated[Path | None, typer.Option(help="Run nothing: sum up this file, .jsonl or .jsonl.gz.")] = None,
    picture: Annotated[Path | None, typer.Option(help="Also draw the speed-ups into this .png file.")] = None,
    as_json: Json = False,
) -> None:
    """Measure tokens a second, ours and transformers', beside what theory predicts.

    All arms decode each prompt in turn. Run it again after an interruption: it goes on with what the file lacks.
    """
    import mtp_tutorial as mt

    from ..lab import bench as lab
    from ..longrun import read

    check_file("--picture", picture, ".png")
    check_file("--out", out, ".jsonl")
    if show is None:
        wanted = lab.parse_all(arms or ARMS)
        plan = lab.Plan(
            kinds=tuple(kinds) if kinds else None,
            prompts=prompts,
            batches=tuple(batch or (1,)),
            temperatures=tuple(temperature or (0.0, 0.6)),
            top_k=top_k,
            top_p=top_p,
            max_new_tokens=tokens,
            repeats=repeats,
            costs=costs,
            threads=threads,
            ignore_eos=ignore_eos,
        )
        show = out or Path(f"bench-{target.replace('/', '--')}.jsonl")
        loaded = lab.options(load or (), "--load")
        model = mt.load(target, device=device, dtype=dtype, **loaded)
        header, rows = lab.run(model, wanted, plan, show, loaded=loaded)
    else:
        header, rows = read(show, "bench")
    found = lab.summary(header, rows)
    if picture is not None:
        from ..show.picture import figure
        from ..show.plots_bench import draw_bench

        picture.parent.mkdir(parents=True, exist_ok=True)
        picture.write_bytes(figure(draw_bench, rows=found).png)
    if as_json:
        print_json({"header": header, "rows": found})
        return
    _print(header, found)


def _print(header: dict, found: list[dict]) -> None:
    from rich.table import Column, Table

    from ..lab.bench import report

    console = terminal()
    for batch, temperature in report.settings(found):
        console.print(f"\n{report.title(header, batch, temperature)}", style="bold")
        for columns, cells in report.tables(found, batch, temperature):
            whole = ("arm", "÷ plain", "÷ hf-plain", "which is")
            table = Table(*(Column(name, no_wrap=name in whole) for name in columns), box=None, pad_edge=False)
            for line in cells:
                table.add_row(*line)
            console.print(table)
            console.print()
    console.print(report.NOTE, style="dim")
    if header.get("bandwidth"):
        rate = header["bandwidth"]["gb_per_s"]
        console.print(f"memory bandwidth, measured: {rate:.1f} GB/s", style="dim")
