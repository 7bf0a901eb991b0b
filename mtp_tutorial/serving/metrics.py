"""The metrics of speculation in a server's Prometheus text: vLLM's counters, SGLang's gauges.

Takes: Prometheus text (0.0.4), a file or an address.  Returns: a ``Reading``; rows for tables and JSON.
Must not know: models, decoding.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from .counters import Counters, Gauges, difference, words
from .source import MetricsError, read_text

_VLLM, _SGLANG = "vllm:spec_decode_num_", "sglang:spec_"
_PER_POSITION = _VLLM + "accepted_tokens_per_pos_total"


@dataclass(frozen=True)
class Reading:
    """One page of metrics: an entry for each engine and model."""

    vllm: tuple[Counters, ...] = ()
    sglang: tuple[Gauges, ...] = ()


def load(where: str | Path, timeout: float = 10.0) -> Reading:
    """``parse(read_text(where))``, with the place named in each error."""
    text = read_text(where, timeout)
    try:
        return parse(text)
    except ValueError as error:
        raise MetricsError(f"{where}: {error}") from error


def parse(text: str) -> Reading:
    """The metrics of speculation in Prometheus text.

    Raises MetricsError, a ValueError: for text that is none (a web page, JSON), for a server that does not speculate,
    for NaN, negative or contradicting counts.
    """
    if text.lstrip().startswith(("<", "{")):
        kind = "a web page" if text.lstrip().startswith("<") else "JSON"
        raise MetricsError(f"this is {kind}, not metrics. They lie at /metrics of the server's own port")
    samples = _samples(text)
    counters = [_counters(labels, found, samples) for labels, found in _series(samples, _VLLM).items()]
    gauges = [_gauges(labels, found) for labels, found in _series(samples, _SGLANG).items()]
    if not counters and not gauges:
        engine = next((name for name in ("vllm", "sglang") if any(s[0].startswith(name + ":") for s in samples)), None)
        if engine:
            raise MetricsError(
                f"metrics of {engine}, but none of speculation: is it on? vLLM needs --speculative-config, SGLang "
                "--speculative-algorithm"
            )
        raise MetricsError(
            f"{len(samples)} metrics, none of vLLM or SGLang. Ask the engine's own port at /metrics, not a proxy's"
        )
    return Reading(tuple(counters), tuple(gauges))


def rows(reading: Reading, before: Reading | None = None) -> list[dict]:
    """A tidy row for each engine and model, for tables and JSON; NaN becomes None.

    before: an earlier reading; the rows then tell of the time between. An engine that it lacks, beside others that it
        has, was started in between: its counts are those since then, and ``was_reset`` is True.
    Raises MetricsError when ``before`` is of another server, or of one without counters: nothing can be subtracted.
    """
    earlier = None if before is None else {_key(one.labels): one for one in before.vllm}
    if earlier is not None:
        _check_same_server(reading, earlier)
    found = []
    for one in reading.vllm:
        if earlier is not None:
            there = earlier.get(_key(one.labels))
            one = replace(one, was_reset=True) if there is None else difference(there, one)
        found.append(_row(one))
    for one in reading.sglang:
        row = {"engine": "sglang", "labels": dict(one.labels), "mean_acceptance_length": one.accept_length}
        row |= {"acceptance_rate": one.accept_rate, "num_steps": one.steps, "num_draft_tokens": one.draft_tokens}
        found.append(row)
    return found


# -- Inside ---------------------------------------------------------------------------------------------------------

#: Prometheus carries counts as float64: above this they are no longer whole.
_LARGEST_COUNT = 2**53


def _check_same_server(reading: Reading, earlier: Mapping[tuple, Counters]) -> None:
    if not reading.vllm or not earlier:
        raise MetricsError(
            "an earlier reading is subtracted from vLLM's counters. SGLang's gauges are averages over the last rounds: "
            "leave out --before"
        )
    now = [_key(one.labels) for one in reading.vllm]
    if not set(now) & earlier.keys():
        raise MetricsError(
            f"the earlier reading is of another server: {words(dict(next(iter(earlier))))} there, "
            f"{words(dict(now[0]))} now. Give two readings of the same one"
        )


Sample = tuple[str, Mapping[str, str], float]


def _samples(text: str) -> list[Sample]:
    from prometheus_client.parser import text_string_to_metric_families

    try:
        families = list(text_string_to_metric_families(text))
    except Exception as error:  # the parser raises whatever comes of a line it cannot read
        raise MetricsError(f"this is no Prometheus text ({type(error).__name__}: {error})") from error
    return [(sample.name, sample.labels, sample.value) for family in families for sample in family.samples]


def _key(labels: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(labels.items()))


def _series(samples: Sequence[Sample], prefix: str) -> dict[tuple, dict[str, float]]:
    """Labels (without the position) → name → value; a counter by position goes by ``name/position``."""
    found: dict[tuple, dict[str, float]] = {}
    for name, labels, value in samples:
        if not name.startswith(prefix):
            continue
        if not math.isfinite(value) or value < 0:
            raise MetricsError(f"{name}{{{words(labels)}}} is {value}: a reading that cannot be used; read again")
        rest = {label: word for label, word in labels.items() if label != "position"}
        place = f"/{labels['position']}" if "position" in labels else ""
        found.setdefault(_key(rest), {})[name + place] = value
    return found


def _counters(key: tuple, found: Mapping[str, float], samples: Sequence[Sample]) -> Counters:
    labels = dict(key)

    def count(name: str) -> int:
        if name not in found:
            raise MetricsError(f"{name} is missing for {words(labels)}: the text is cut short or of another version")
        if found[name] > _LARGEST_COUNT or found[name] != int(found[name]):
            raise MetricsError(f"{name} is {found[name]}: not a count")
        return int(found[name])

    written = [n.rpartition("/")[2] for n in found if n.startswith(_PER_POSITION + "/")]
    if unusable := [place for place in written if not (place.isascii() and place.isdigit())]:
        raise MetricsError(f"position={unusable[0]!r} of {_PER_POSITION}: no number of a draft position")
    places = sorted(map(int, written))
    if places != list(range(len(places))):
        raise MetricsError(f"positions {places} of {_PER_POSITION}: some are missing, the text is cut short")
    drafts, drafted, kept = (count(f"{_VLLM}{name}_total") for name in ("drafts", "draft_tokens", "accepted_tokens"))
    if kept and not places:
        raise MetricsError(
            f"{_PER_POSITION} is missing for {words(labels)}: a proxy or a scrape rule dropped it, or the version is "
            "another. Ask the engine's own port; the rates by position are counted there"
        )
    accepted = tuple(count(f"{_PER_POSITION}/{place}") for place in places)
    steps = [drafts, *accepted]
    if sum(accepted) != kept or kept > drafted or any(a < b for a, b in zip(steps, steps[1:])):
        raise MetricsError(
            f"counts that contradict one another for {words(labels)}: {drafts} rounds, {drafted} drafted, {kept} "
            f"accepted, by position {list(accepted)}. Were they read while being written? Read again"
        )
    others = {name: [v for n, lab, v in samples if n == name and labels.items() <= lab.items()]
              for name in ("vllm:generation_tokens_total", "vllm:request_success_total")}  # fmt: skip
    for name, values in others.items():
        if not all(0 <= value <= _LARGEST_COUNT for value in values):
            raise MetricsError(f"{name} is {' + '.join(map(str, values))}: not a count")
    sums = [int(sum(values)) if values else None for values in others.values()]
    return Counters(labels, drafts, drafted, kept, accepted, *sums, created=found.get(f"{_VLLM}drafts_created"))


def _gauges(key: tuple, found: Mapping[str, float]) -> Gauges:
    length, rate = found.get("sglang:spec_accept_length"), found.get("sglang:spec_accept_rate")
    steps, drafted = found.get("sglang:spec_num_steps"), found.get("sglang:spec_num_draft_tokens")
    return Gauges(dict(key), length, rate, *(None if x is None else int(x) for x in (steps, drafted)))


def _row(one: Counters) -> dict:
    def plain(values: Iterable) -> list:
        return [[plain_number(x) for x in v] if isinstance(v, tuple) else plain_number(v) for v in values]

    def plain_number(value: float) -> float | None:
        return None if isinstance(value, float) and math.isnan(value) else value

    row = {"engine": "vllm", "labels": dict(one.labels)}
    row |= {name: getattr(one, name) for name in ("drafts", "draft_tokens", "accepted_tokens", "generated", "requests")}
    row["accepted"] = list(one.accepted)
    row |= {name: plain_number(getattr(one, name)) for name in
            ("acceptance_rate", "mean_acceptance_length", "tokens_per_call")}  # fmt: skip
    row["length_interval"] = plain([one.length_interval])[0]
    row |= {name: plain(getattr(one, name)) for name in ("by_position", "conditional", "judged")}
    row |= {"by_position_intervals": plain(one.intervals()), "conditional_intervals": plain(one.intervals(True))}
    return row | {name: getattr(one, name) for name in ("undrafted_rounds", "full_drafts", "was_reset")}
