"""The summary in words: which columns a reader sees, and how a number is written.

Takes: the rows of a summary.  Returns: column names and cells; Markdown.
Must not know: models, clocks, how a table is printed.
"""

from __future__ import annotations

from collections.abc import Sequence

from .summaries import OVERALL

#: column → how its cell is made; two tables, so that each fits into a terminal
SPEED = {
    "arm": lambda row: row["arm"],
    "tokens/s": lambda row: f"{row['tokens_per_second']:.1f}",
    "÷ plain": lambda row: with_interval(row),
    "theory": lambda row: _number(row["predicted"], "{:.2f}"),
    "measured": lambda row: _number(row["measured"] if row["predicted"] else None, "{:.2f}"),
    "calls": lambda row: _number(row["target_calls"], "{:.0f}"),
    "tokens a round": lambda row: _number(row["mean_acceptance_length"], "{:.2f}"),
}
AGAINST = {
    "arm": lambda row: row["arm"],
    "÷ hf-plain": lambda row: with_interval(row["hf_plain"]) if row["hf_plain"] else "",
    "÷ the best of transformers": lambda row: with_interval(row["hf_best"]) if row["hf_best"] else "",
    "which is": lambda row: row["hf_best_arm"] or "",
}
WHERE = {
    "arm": lambda row: row["arm"],
    "accepted": lambda row: _number(row["acceptance_rate"], "{:.0%}"),
    "by position": lambda row: _positions(row["acceptance_by_position"] or ()),
    "draft": lambda row: _share(row, "drafting_seconds"),
    "verify": lambda row: _share(row, "verifying_seconds"),
    "else": lambda row: _share(row, "elsewhere_seconds"),
    "MB/token": lambda row: _number(row["bytes_per_token"], "{:.1f}", 1e-6),
    "of bandwidth": lambda row: _number(row["bandwidth_share"], "{:.0%}"),
}
NOTE = (
    "÷ plain: seconds a token of plain decoding ÷ those of the arm, paired by prompt; the median prompt, its 95 % "
    "interval where there are three prompts or more, else the range. theory and measured: the speed-up after the "
    "prefill; theory prices rounds on other prompts. tokens a round: for transformers, tokens a call of the target. "
    "by position: accepted, given that all before were. draft, verify, else: of the seconds after the prefill."
)


def with_interval(row: dict) -> str:
    """A ratio with its interval, or its range where the prompts are too few for one."""
    if row["ratio"] is None:
        return ""
    low, high = row["ratio_low"], row["ratio_high"]
    low, high = (row["lowest"], row["highest"]) if low is None else (low, high)
    return f"{row['ratio']:.2f} ({low:.2f}–{high:.2f})"


def settings(rows: Sequence[dict]) -> list[tuple[int, float]]:
    """(batch, temperature) in the order of the rows."""
    return list(dict.fromkeys((row["batch"], row["temperature"]) for row in rows))


def tables(rows: Sequence[dict], batch: int, temperature: float) -> list[tuple[list[str], list[list[str]]]]:
    """(column names, cells), an arm a line: speed; against transformers; where the time goes; the ratio by kind."""
    mine = [row for row in _at(rows, batch, temperature) if row["kind"] == OVERALL]
    compared = any(row["hf_plain"] or row["hf_best"] for row in mine)
    found = []
    for columns in (SPEED, AGAINST, WHERE) if compared else (SPEED, WHERE):
        found.append((list(columns), [[make(row) for make in columns.values()] for row in mine]))
    return [*found, kinds_table(rows, batch, temperature)]


def kinds_table(rows: Sequence[dict], batch: int, temperature: float) -> tuple[list[str], list[list[str]]]:
    """Column names and cells: the ratio to plain decoding by kind of prompt, an arm a line."""
    mine = _at(rows, batch, temperature)
    kinds = [kind for kind in dict.fromkeys(row["kind"] for row in mine) if kind != OVERALL]
    by = {(row["arm"], row["kind"]): row for row in mine}
    cells = [
        [arm, *(_number(by[arm, kind]["ratio"], "{:.2f}") if (arm, kind) in by else "" for kind in kinds)]
        for arm in dict.fromkeys(row["arm"] for row in mine)
    ]
    return ["arm", *kinds], cells


def title(header: dict, batch: int, temperature: float) -> str:
    """One line above a table."""
    machine = header["machine"]
    where = machine.get("gpu", machine["cpu"])
    filters = f", top-k {header['top_k']}" * (header["top_k"] > 0 and temperature > 0)
    threads = f"{header['threads']} thread" + "s" * (header["threads"] > 1)
    return (
        f"{header['target']} in {header['dtype']}, batch {batch}, T = {temperature:g}{filters}, "
        f"{header['max_new_tokens']} tokens a text; {where}, {threads}"
    )


def markdown(header: dict, rows: Sequence[dict]) -> str:
    """The tables of each setting."""
    parts = []
    for batch, temperature in settings(rows):
        parts.append(f"**{title(header, batch, temperature)}**")
        for columns, cells in tables(rows, batch, temperature):
            lines = [columns, ["---"] * len(columns), *cells]
            parts.append("\n".join("| " + " | ".join(line) + " |" for line in lines))
    return "\n\n".join(parts)


# -- Inside ---------------------------------------------------------------------------------------------------------


def _at(rows: Sequence[dict], batch: int, temperature: float) -> list[dict]:
    return [row for row in rows if (row["batch"], row["temperature"]) == (batch, temperature)]


def _number(value: float | None, form: str, scale: float = 1.0) -> str:
    return "" if value is None else form.format(value * scale)


def _positions(rates: Sequence[float]) -> str:
    """The first four, as the later ones rest on few drafts."""
    return " ".join(f"{rate:.2f}" for rate in rates[:4]) + (" …" if len(rates) > 4 else "")


def _share(row: dict, part: str) -> str:
    parts = [row[name] for name in ("drafting_seconds", "verifying_seconds", "elsewhere_seconds")]
    if row[part] is None or not sum(parts):
        return ""
    return f"{row[part] / sum(parts):.0%}"
