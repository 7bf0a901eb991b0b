"""``train``: a drafter from beginning to end.

Takes: options.  Returns: a folder of weights, and how often its drafts are accepted.
Must not know: how training is done.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .app import Json, app, pairs, print_json, print_markdown


@app.command()
def train(
    drafter: Annotated[str, typer.Option(help="mtp, medusa, eagle, gated_lora or draft.")] = "mtp",
    target: Annotated[str, typer.Option(help="nano, smollm2, a Hugging Face id or a folder.")] = "nano",
    out: Annotated[
        Path | None, typer.Option(help="The folder for the weights; by default TARGET-DRAFTER here.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A head for nano in less than a minute, for a class.")] = False,
    steps: Annotated[int | None, typer.Option(help="Updates of the weights, in place of the recipe's.")] = None,
    shape: Annotated[
        list[str] | None, typer.Option(help="A setting of the head: name=number, such as num_layers=2. Repeatable.")
    ] = None,
    unroll: Annotated[int | None, typer.Option(help="For mtp and eagle: how many drafting steps are trained.")] = None,
    work: Annotated[
        Path | None, typer.Option(help="The folder for answers and checkpoints; by default in the user's cache.")
    ] = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same weights.")] = 0,
    device: Annotated[str | None, typer.Option(help="cpu, cuda, cuda:1 …")] = None,
    as_json: Json = False,
) -> None:
    """Train a drafter on the target's own answers, and report how often its drafts are accepted."""
    from dataclasses import replace

    import mtp_tutorial as mt

    from ..training import acceptance, run

    model = mt.load(target, device=device)
    plan = run.recipe(model, drafter, quick)
    if steps is not None:
        if steps < 1:
            raise ValueError(f"--steps {steps}: train for one step or more")
        plan = replace(plan, schedule=replace(plan.schedule, steps=steps))
    if shape:
        given = {name: int(value) if value.is_integer() else value for name, value in pairs(shape, "--shape").items()}
        plan = replace(plan, shape=plan.shape | given)
    if unroll is not None:
        if unroll < 1 or drafter not in ("mtp", "eagle"):
            raise ValueError(f"--unroll {unroll}: from 1 on, and for mtp and eagle only")
        plan = replace(plan, objective=plan.objective | {"unroll": unroll})
    place = out or Path(f"{target.replace('/', '--')}-{drafter}")
    rows = run.train_drafter(model, drafter, place, work or run.work_folder(model, quick), plan, seed, report_prompts=5)
    if as_json:
        print_json({"weights": str(place), "acceptance": rows})
        return
    print_markdown(acceptance.markdown(rows))
    print(f'weights in {place}: mt.load_drafter("{drafter}", target, weights="{place}")')
