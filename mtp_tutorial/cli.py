"""The ``mtp-tutorial`` command.

Takes: the command line.  Returns: text for people, or JSON for programs.
Must not know: how anything is done; it asks the library and shows the answer.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from .models import Target
    from .records import Generation

app = typer.Typer(
    help="Learn, measure and debug speculative decoding and multi-token prediction.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]


def main() -> None:
    """Run the command. Bad input ends with one clear line and exit code 2, not with a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal that cannot show a character shows "?" in its place
    try:
        app()
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(2) from error


@app.callback(invoke_without_command=True)
def _root(
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
) -> None:
    if version:
        from . import __version__

        print(__version__)
        raise typer.Exit


@app.command()
def generate(
    prompt: Annotated[str, typer.Option(help="The prompt; - reads it from standard input.")],
    target: Annotated[str, typer.Option(help="toy, toy-beijing, smollm2, a Hugging Face id or a folder.")] = "smollm2",
    drafter: Annotated[
        str, typer.Option(help="none (plain decoding), ngram, mtp, medusa, eagle, gated_lora, draft or oracle.")
    ] = "none",
    draft_model: Annotated[
        str | None, typer.Option(help="For --drafter draft: an id, a folder or a known name.")
    ] = None,
    draft_temperature: Annotated[float, typer.Option(help="0 drafts greedily; above, drafts are sampled at it.")] = 0.0,
    weights: Annotated[str | None, typer.Option(help="A folder that `mtp-tutorial train` made.")] = None,
    frequent: Annotated[
        int | None, typer.Option(help="Let a trained drafter score so many of the most frequent tokens only.")
    ] = None,
    accuracy: Annotated[float, typer.Option(help="For --drafter oracle: how often it is right.")] = 1.0,
    num_speculative_tokens: Annotated[
        int, typer.Option("--num-speculative-tokens", "-k", help="Draft tokens a round.")
    ] = 4,
    rule: Annotated[str, typer.Option(help="The verify rule.")] = "rejection",
    rule_param: Annotated[
        list[str] | None, typer.Option(help="A rule's parameter: name=value. May be repeated.")
    ] = None,
    temperature: Annotated[float, typer.Option("--temperature", "-t", help="0 is greedy.")] = 1.0,
    top_k: Annotated[int, typer.Option(help="0 keeps every token.")] = 0,
    top_p: Annotated[float, typer.Option(help="1 keeps every token.")] = 1.0,
    min_p: Annotated[float, typer.Option(help="0 keeps every token.")] = 0.0,
    repetition_penalty: Annotated[float, typer.Option(help="1 is off.")] = 1.0,
    frequency_penalty: Annotated[float, typer.Option(help="0 is off.")] = 0.0,
    presence_penalty: Annotated[float, typer.Option(help="0 is off.")] = 0.0,
    max_new_tokens: Annotated[int, typer.Option("--max-new-tokens", "-n")] = 128,
    stop: Annotated[list[str] | None, typer.Option(help="A string that ends the text. May be repeated.")] = None,
    ignore_eos: Annotated[bool, typer.Option("--ignore-eos", help="Go on past the end-of-text token.")] = False,
    seed: Annotated[int, typer.Option(help="The same seed gives the same text.")] = 0,
    chat: Annotated[bool, typer.Option(help="Send the prompt as a user's turn, or as raw text.")] = True,
    device: Annotated[str | None, typer.Option(help="cpu, cuda, cuda:1 …")] = None,
    dtype: Annotated[str | None, typer.Option(help="float32, bfloat16, float16 or float64.")] = None,
    as_json: Json = False,
) -> None:
    """Decode a prompt, plainly or speculatively, and show how each token came about."""
    from rich.console import Console

    import mtp_tutorial as mt

    from .decode import check_k
    from .verify import get_rule

    # All checked before a model is loaded.
    sampling = mt.Sampling(temperature, top_k, top_p, min_p, repetition_penalty, frequency_penalty, presence_penalty)
    params = get_rule(rule).check_params(_pairs(rule_param or []))
    check_k(num_speculative_tokens)
    if prompt == "-" and sys.stdin is None:
        raise ValueError("--prompt - reads the prompt from standard input, which is closed: pipe a text into it")
    text = sys.stdin.read() if prompt == "-" else prompt
    console = Console(stderr=as_json)
    with console.status(f"loading {target}"):
        model = mt.load(target, device=device, dtype=dtype)
        guesser = _drafter(drafter, model, draft_model, draft_temperature, accuracy, weights, frequent)
    with console.status("decoding"):
        found = mt.generate(
            model, text, guesser, rule=rule, rule_params=params, num_speculative_tokens=num_speculative_tokens,
            sampling=sampling, max_new_tokens=max_new_tokens, stop=stop or (), ignore_eos=ignore_eos, seed=seed,
            chat=chat,
        )  # fmt: skip
    if as_json:
        settings = {
            "target": target, "drafter": drafter, "rule": rule, "rule_params": params,
            "num_speculative_tokens": num_speculative_tokens, "sampling": vars(sampling), "seed": seed,
        }  # fmt: skip
        _print_json({**_facts(found), "settings": settings})
    else:
        _show(console, model, found, speculative=guesser is not None)


def _pairs(items: list[str], option: str = "--rule-param") -> dict[str, float]:
    """["delta=0.2"] → {"delta": 0.2}."""
    found = {}
    for item in items:
        name, _, value = item.partition("=")
        try:
            found[name] = float(value)
        except ValueError:
            raise ValueError(f"{option} {item!r}: write name=value with a number, such as delta=0.2") from None
    return found


def _drafter(
    name: str,
    target: Target,
    model: str | None,
    temperature: float,
    accuracy: float,
    weights: str | None,
    frequent: int | None,
):
    import mtp_tutorial as mt

    given = {"weights": weights, "frequent": frequent, "model": model}
    given = {option: value for option, value in given.items() if value is not None}
    if name == "draft" and model is not None and given.keys() & {"weights", "frequent"}:
        raise ValueError("--draft-model is a model of its own: leave out --weights and --frequent")
    if name in ("none", "ngram", "oracle") and given:
        raise ValueError(f"--drafter {name} has no weights: leave out --weights, --frequent and --draft-model")
    if name == "none":
        return None
    options = {"ngram": {}, "oracle": {"accuracy": accuracy}}
    return mt.load_drafter(name, target, **options.get(name, {"temperature": temperature, **given}))


def _facts(found: Generation) -> dict:
    """A Generation as JSON: rates that do not exist are null."""
    rounds = [
        {name: value for name, value in vars(one).items() if name not in ("sequence", "draws")} for one in found.rounds
    ]
    return {
        "text": found.text,
        "tokens": found.tokens,
        "pieces": list(found.pieces),
        "kinds": found.kinds,
        "finish_reason": found.finish_reason,
        "num_tokens": len(found.tokens),
        "target_calls": found.target_calls,
        "num_drafted": found.num_drafted,
        "num_accepted": found.num_accepted,
        "acceptance_rate": _number(found.acceptance_rate),
        "acceptance_by_position": found.acceptance_by_position,
        "mean_acceptance_length": _number(found.mean_acceptance_length),
        "seconds": found.seconds,
        "seconds_by_part": _seconds(found),
        "rounds": rounds,
    }


def _print_json(found: object) -> None:
    """Readable where the output takes every character, escaped where it does not."""
    unicode = (getattr(sys.stdout, "encoding", None) or "").lower().startswith("utf")
    print(json.dumps(found, ensure_ascii=not unicode, indent=2))


def _number(value: float) -> float | None:
    return None if math.isnan(value) else value


def _seconds(found: Generation) -> dict[str, float]:
    return {
        part: sum(getattr(one, f"seconds_{part}") for one in found.rounds)
        for part in ("drafting", "verifying", "elsewhere")
    }


def _show(console, target: Target, found: Generation, speculative: bool) -> None:
    """Coloured tokens and a summary. Without colours the tokens carry letters instead."""
    from rich.table import Table

    from .show.tokens import rich_legend, rich_tokens

    letters = not console.is_terminal or console.is_dumb_terminal
    console.print(rich_tokens(found, letters=letters), soft_wrap=True)
    kinds = [kind for kind in ("accepted", "recovered", "bonus", "prefill", "plain") if kind in found.kinds]
    console.print(rich_legend(kinds, letters=letters))
    table = Table(show_header=False, box=None, pad_edge=False)
    rows = [("tokens", f"{len(found.tokens)} ({found.finish_reason})"), ("target calls", str(found.target_calls))]
    if speculative:
        rate = found.acceptance_rate
        shown = (
            "nothing was drafted" if math.isnan(rate) else f"{rate:.1%} ({found.num_accepted} of {found.num_drafted})"
        )
        length = found.mean_acceptance_length
        rows.append(("acceptance rate", shown))
        rows.append(("mean acceptance length", "no round" if math.isnan(length) else f"{length:.2f} tokens a round"))
    parts = ", ".join(f"{seconds:.2f} {part}" for part, seconds in _seconds(found).items())
    rows.append(("seconds", f"{found.seconds:.2f} ({parts})"))
    for name, value in rows:
        table.add_row(name, value)
    console.print(table)
    for note in target.notes:
        console.print(f"note: {note}", style="dim", markup=False, highlight=False)


@app.command()
def fetch(
    name: Annotated[str, typer.Argument(help="smollm2")] = "smollm2",
) -> None:
    """Bring a model into the cache, so that a workshop can go on without a network."""
    from .models import smollm2

    if name != "smollm2":
        raise ValueError(f"{name!r} cannot be fetched; known: smollm2. Toys are built in")
    there = smollm2.is_cached()
    folder = smollm2.fetch()
    print(f"smollm2 {'was already' if there else 'is now'} in {folder}")


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

    from rich.console import Console

    import mtp_tutorial as mt

    from .training import acceptance, run

    model = mt.load(target, device=device)
    plan = run.recipe(model, drafter, quick)
    if steps is not None:
        if steps < 1:
            raise ValueError(f"--steps {steps}: train for one step or more")
        plan = replace(plan, schedule=replace(plan.schedule, steps=steps))
    if shape:
        plan = replace(plan, shape=plan.shape | {name: int(value) for name, value in _pairs(shape, "--shape").items()})
    if unroll is not None:
        if unroll < 1 or drafter not in ("mtp", "eagle"):
            raise ValueError(f"--unroll {unroll}: from 1 on, and for mtp and eagle only")
        plan = replace(plan, objective=plan.objective | {"unroll": unroll})
    place = out or Path(f"{target.replace('/', '--')}-{drafter}")
    rows = run.train_drafter(model, drafter, place, work or run.work_folder(model, quick), plan, seed, report_prompts=5)
    if as_json:
        _print_json({"weights": str(place), "acceptance": rows})
        return
    from rich.markdown import Markdown

    Console().print(Markdown(acceptance.markdown(rows)))
    print(f'weights in {place}: mt.load_drafter("{drafter}", target, weights="{place}")')


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
    from rich.console import Console
    from rich.markdown import Markdown

    import mtp_tutorial as mt

    from .lab import experiment as lab

    if show is None:
        wanted = lab.repetition_case(drafter, temperature, num_speculative_tokens)
        if arms is not None:
            wanted = lab.chosen(wanted, [name.strip() for name in arms.split(",") if name.strip()])
        asked = lab.prompts_for(target, prompts)
        show = out or Path(f"repetition-{target.replace('/', '--')}.jsonl")
        model = mt.load(target, device=device, dtype=dtype)
        lab.run(model, wanted, asked, show, range(seeds), tokens, batch)
    found = lab.summary(*lab.read(show))
    if as_json:
        _print_json(found)
        return
    Console().print(Markdown(lab.markdown(found)))


@app.command()
def doctor(as_json: Json = False) -> None:
    """Report Python, packages, device, memory and cached models, and what to do about each problem."""
    from rich.console import Console
    from rich.table import Table

    from .doctor import PROBLEM, examine

    findings = examine()
    if as_json:
        _print_json([one.as_dict() for one in findings])
    else:
        table = Table("what", "found", "status", "what to do", box=None, pad_edge=False)
        styles = {"ok": "green", "note": "yellow", "problem": "bold red"}
        for one in findings:
            table.add_row(one.what, one.found, f"[{styles[one.status]}]{one.status}[/]", one.remedy)
        Console().print(table)
    if any(one.status == PROBLEM for one in findings):
        raise typer.Exit(1)


if __name__ == "__main__":
    main()
