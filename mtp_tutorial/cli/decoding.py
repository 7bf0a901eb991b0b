"""``generate``: one prompt, and how each of its tokens came about.

Takes: options.  Returns: text or JSON.
Must not know: how decoding is done.
"""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from .app import Json, app, pairs, print_json, readable, terminal

if TYPE_CHECKING:
    from ..models import Target
    from ..records import Generation


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
    seed: Annotated[int, typer.Option(help="The same seed gives the same text on one machine in one dtype.")] = 0,
    chat: Annotated[bool, typer.Option(help="Send the prompt as a user's turn, or as raw text.")] = True,
    device: Annotated[str | None, typer.Option(help="cpu, cuda, cuda:1 …")] = None,
    dtype: Annotated[str | None, typer.Option(help="float32, bfloat16, float16 or float64.")] = None,
    as_json: Json = False,
) -> None:
    """Decode a prompt, plainly or speculatively, and show how each token came about."""
    from rich.text import Text

    import mtp_tutorial as mt

    from ..decode import check_k
    from ..verify import get_rule

    # All checked before a model is loaded.
    sampling = mt.Sampling(temperature, top_k, top_p, min_p, repetition_penalty, frequency_penalty, presence_penalty)
    params = get_rule(rule).check_params(pairs(rule_param or []))
    check_k(num_speculative_tokens)
    if prompt == "-" and sys.stdin is None:
        raise ValueError("--prompt - reads the prompt from standard input, which is closed: pipe a text into it")
    text = sys.stdin.read() if prompt == "-" else prompt
    console = terminal(stderr=as_json)
    with console.status(Text(f"loading {target}")):
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
        print_json({**_facts(found), "settings": settings})
    else:
        show(console, model, found, speculative=guesser is not None)


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


def _number(value: float) -> float | None:
    return None if math.isnan(value) else value


def _seconds(found: Generation) -> dict[str, float]:
    return {
        part: sum(getattr(one, f"seconds_{part}") for one in found.rounds)
        for part in ("drafting", "verifying", "elsewhere")
    }


def show(console, target: Target, found: Generation, speculative: bool) -> None:
    """Coloured tokens and a summary. Without colours the tokens carry letters instead."""
    from rich.table import Table

    from ..show.tokens import rich_legend, rich_tokens

    letters = not console.is_terminal or console.is_dumb_terminal
    tokens = rich_tokens(found, letters=letters)
    tokens.plain = readable(tokens.plain)  # a model may write control characters, too
    console.print(tokens, soft_wrap=True)
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
        console.print(f"note: {note}", style="dim")
