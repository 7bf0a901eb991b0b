"""``rules``, ``museum`` and ``experiment``: the lab from the command line.

Takes: options.  Returns: text or JSON.
Must not know: how a law is computed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .app import Json, app, check_file, print_json, print_markdown, terminal


@app.command()
def rules(
    speed: Annotated[bool, typer.Option("--speed", help="Also time each rule, on one thread.")] = False,
    as_json: Json = False,
) -> None:
    """List the verify rules: which are lossless, by how much the others are not, and where they come from."""
    from rich.table import Table
    from rich.text import Text

    from ..lab import exact
    from ..lab.bench import judged_per_second
    from ..verify import RULES

    laws = exact.table()
    found = []
    for rule in RULES.values():
        ways = {row["way"]: row["total_variation"] for row in laws if row["rule"] == rule.name}
        found.append(
            {
                "rule": rule.name,
                "lossless": rule.lossless,
                "lossless_at_zero": rule.lossless_at_zero,
                "total_variation": max(ways.values()),
                "total_variation_by_way": ways,
                "params": dict(rule.params),
                "sentence": rule.sentence,
                "reference": rule.reference,
                **({"speed": judged_per_second(rule)} if speed else {}),
            }
        )
    if as_json:
        print_json(found)
        return
    timed = ["drafts a second"] if speed else []
    columns = ["rule", "lossless", "total variation", *timed, "what it does", "reference"]
    table = Table(*columns, box=None, pad_edge=False)
    for one in found:
        lossless = "yes" if one["lossless"] else "at T = 0" if one["lossless_at_zero"] else "no"
        rate = [f"{one['speed']['per_second']:,.0f}"] if speed else []
        distance = _distance(one["total_variation"])
        table.add_row(Text(one["rule"], "bold"), lossless, distance, *rate, one["sentence"], one["reference"])
    console = terminal()
    console.print(table)
    console.print(
        f"total variation: to plain sampling, over {exact.K + 1} tokens of a vocabulary of {exact.VOCABULARY}, by "
        f"enumeration; the worst of {len(exact.WAYS)} ways of drafting. Below {exact.LARGEST:g} it is rounding."
    )
    if speed:
        sizes = found[0]["speed"]
        console.print(
            f"drafts a second: k = {sizes['k']}, a vocabulary of {sizes['vocabulary']}, {sizes['batch']} at a time, "
            "one thread, float64, drafts with distributions; the median of several calls."
        )


def _distance(value: float) -> str:
    from ..lab.exact import LARGEST

    return f"0 ({value:.0e})" if value < LARGEST else f"{value:.3f}"


@app.command()
def museum(
    name: Annotated[str | None, typer.Argument(help="An exhibit, such as R1; without one, all are listed.")] = None,
    table: Annotated[
        bool, typer.Option("--table", help="Which instrument catches which exhibit; takes about a minute.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show a real bug beside its fix: what it does, by its numbers, who met it, and its code."""
    from rich.table import Column, Table
    from rich.text import Text

    from ..lab.museum import EXHIBITS, get

    console = terminal()
    if name is not None:
        exhibit = get(name)
        if as_json:
            print_json({**exhibit.as_dict(), "source": exhibit.source()})
        else:
            _show_exhibit(console, exhibit)
    elif table:
        _show_mutations(console, as_json)
    elif as_json:
        print_json([exhibit.as_dict() for exhibit in EXHIBITS.values()])
    else:
        columns = ("what is wrong", "measure", "right", "here", "as predicted")
        listing = Table(Column("exhibit", no_wrap=True), *columns, box=None, pad_edge=False)
        for exhibit in EXHIBITS.values():
            shown = exhibit.demonstrate()
            said = {None: "", True: "yes", False: "NO"}[shown.as_predicted]
            numbers = _numbers(shown.right), _numbers(shown.wrong)
            listing.add_row(Text(exhibit.name, "bold"), exhibit.title, shown.what, *numbers, said)
        console.print(listing)
        print("mtp-tutorial museum NAME shows one; mtp-tutorial museum --table shows what catches them.")


def _numbers(values: tuple[float, ...]) -> str:
    return " ".join(f"{value:.4g}" for value in values)


def _show_exhibit(console, exhibit) -> None:
    from rich.syntax import Syntax
    from rich.table import Table
    from rich.text import Text

    console.print(Text.assemble((exhibit.name, "bold"), f"  {exhibit.title}\n"))
    console.print(exhibit.story)
    console.print(f"\nreported: {exhibit.report}")
    console.print(f"fix: {exhibit.fix}\n")
    shown = exhibit.demonstrate()
    numbers = Table(shown.what, "right", "here", "predicted", box=None, pad_edge=False)
    predicted = shown.predicted or (None,) * len(shown.labels)
    for label, right, wrong, said in zip(shown.labels, shown.right, shown.wrong, predicted, strict=True):
        numbers.add_row(label, f"{right:.4f}", f"{wrong:.4f}", "" if said is None else f"{said:g}")
    console.print(numbers)
    console.print()
    console.print(Syntax(exhibit.source(), "python", background_color="default", word_wrap=True))


def _show_mutations(console, as_json: bool) -> None:
    from rich.table import Table

    from ..lab.instruments import INSTRUMENTS, mutations

    with terminal(stderr=True).status("every instrument looks at every exhibit"):
        found = mutations()
    if as_json:
        print_json(found)
        return
    names = dict.fromkeys(row["exhibit"] for row in found)
    numbers = {name: str(i) for i, name in enumerate(INSTRUMENTS, 1)}  # ten names side by side need 200 columns
    listing = Table("exhibit", *numbers.values(), box=None, pad_edge=False)
    for name in names:
        by_instrument = {row["instrument"]: row for row in found if row["exhibit"] == name}
        cells = (by_instrument.get(one) for one in INSTRUMENTS)
        listing.add_row(
            "the right code" if name == "none" else name,
            *("" if cell is None else "yes" if cell["caught"] else "-" for cell in cells),
        )
    console.print(listing)
    console.print(
        "\nyes: caught by", *(f"{number} {name}" for name, number in numbers.items()), sep="\n", highlight=False
    )


@app.command()
def experiment(
    target: Annotated[str, typer.Option(help="nano, smollm2, a Hugging Face id or a folder.")] = "nano",
    drafter: Annotated[str, typer.Option(help="The drafter of the arms: mtp, medusa, draft, ngram …")] = "mtp",
    arms: Annotated[
        str | None, typer.Option(help="Names with commas between them; by default all of the case.")
    ] = None,
    prompts: Annotated[int, typer.Option(help="How many prompts, of every kind in turn.")] = 200,
    seeds: Annotated[int, typer.Option(help="Texts a prompt; at temperature 0 it is always one.")] = 1,
    tokens: Annotated[int, typer.Option(help="Tokens a text; every text gets as many.")] = 256,
    temperature: Annotated[float, typer.Option("--temperature", "-t", help="Of the arms that draw tokens.")] = 0.6,
    num_speculative_tokens: Annotated[
        int, typer.Option("--num-speculative-tokens", "-k", help="Draft tokens a round.")
    ] = 2,
    batch: Annotated[int, typer.Option(help="Texts decoded at a time.")] = 50,
    out: Annotated[
        Path | None, typer.Option(help="The file for the rows, .jsonl; by default repetition-TARGET.jsonl here.")
    ] = None,
    show: Annotated[Path | None, typer.Option(help="Run nothing: sum up this file, .jsonl or .jsonl.gz.")] = None,
    device: Annotated[str | None, typer.Option(help="cpu, cuda, cuda:1 …")] = None,
    dtype: Annotated[str | None, typer.Option(help="float32, bfloat16, float16 or float64.")] = None,
    as_json: Json = False,
) -> None:
    """Does speculation make a model repeat itself? Right and broken rules against plain decoding, with a verdict.

    Run it again after an interruption: it goes on with what the file lacks.
    """
    import mtp_tutorial as mt

    from ..lab import experiment as lab

    check_file("--out", out, ".jsonl")
    if show is None:
        if prompts < 2:
            raise ValueError(f"--prompts {prompts}: use 2 or more, as intervals are over prompts")
        wanted = lab.repetition_case(drafter, temperature, num_speculative_tokens)
        if arms is not None:
            wanted = lab.chosen(wanted, [name.strip() for name in arms.split(",") if name.strip()])
        asked = lab.prompts_for(target, prompts)
        show = out or Path(f"repetition-{target.replace('/', '--')}.jsonl")
        model = mt.load(target, device=device, dtype=dtype)
        lab.run(model, wanted, asked, show, range(seeds), tokens, batch)
    found = lab.summary(*lab.read(show, "arms x prompts x seeds"))
    if as_json:
        print_json(found)
        return
    print_markdown(lab.markdown(found))
