"""Real servers from outside: metrics read, subtracted, refused; a live server; a command line taken apart."""

from __future__ import annotations

import gzip
import json
import math
import shlex
import socket
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mtp_tutorial import serving
from mtp_tutorial.cli import app
from mtp_tutorial.lab import theory
from mtp_tutorial.serving import counters, source

TRACES = Path(__file__).resolve().parents[1] / "data" / "traces"


def page(
    drafts=10, drafted=30, accepted=(6, 3, 1), engine="0", model="m", created=100.0, kept=None, others=True
) -> str:
    """A vLLM server's text, shortened."""
    labels = f'engine="{engine}",model_name="{model}"'
    values = {"drafts": drafts, "draft_tokens": drafted, "accepted_tokens": sum(accepted) if kept is None else kept}
    lines = []
    for name, value in values.items():
        lines += [f"# TYPE vllm:spec_decode_num_{name}_total counter"]
        lines += [f"vllm:spec_decode_num_{name}_total{{{labels}}} {value:.1f}"]
        lines += [f"# TYPE vllm:spec_decode_num_{name}_created gauge"]
        lines += [f"vllm:spec_decode_num_{name}_created{{{labels}}} {created}"]
    lines += ["# TYPE vllm:spec_decode_num_accepted_tokens_per_pos_total counter"]
    for i, count in enumerate(accepted):
        lines += [f'vllm:spec_decode_num_accepted_tokens_per_pos_total{{{labels},position="{i}"}} {count:.1f}']
    if others:
        lines += ["# TYPE vllm:generation_tokens_total counter", f"vllm:generation_tokens_total{{{labels}}} 32.0"]
        lines += ["# TYPE vllm:request_success_total counter"]
        for reason, count in (("stop", 1), ("length", 1), ("abort", 0)):
            lines += [f'vllm:request_success_total{{{labels},finished_reason="{reason}"}} {count:.1f}']
    return "\n".join(lines) + "\n"


def one(text: str) -> serving.Counters:
    (found,) = serving.parse(text).vllm
    return found


# -- Counters -------------------------------------------------------------------------------------------------------


def test_rates_known_by_hand():
    found = one(page())
    assert found.labels == {"engine": "0", "model_name": "m"} and found.created == 100.0
    assert found.acceptance_rate == pytest.approx(10 / 30) and found.mean_acceptance_length == 2.0  # 1 + 10/10
    assert found.by_position == [0.6, 0.3, 0.1] and found.judged == [10, 6, 3]
    assert found.conditional == pytest.approx([0.6, 0.5, 1 / 3])
    assert found.mean_acceptance_length == pytest.approx(theory.expected_tokens(found.conditional, 3))
    assert found.full_drafts and not one(page(drafted=28)).full_drafts


def test_calls_without_a_draft_are_what_is_left():
    found = one(page())  # 32 tokens, 2 from prompts' own calls, 20 from the ten rounds, so 10 calls said one each
    assert (found.generated, found.requests, found.undrafted_rounds) == (32, 2, 10)
    assert found.tokens_per_call == pytest.approx(30 / 20)
    bare = one(page(others=False))
    assert bare.undrafted_rounds is None and math.isnan(bare.tokens_per_call)


def test_intervals_have_the_denominators_they_name():
    found = one(page(drafts=1000, drafted=2000, accepted=(500, 5)))
    assert found.intervals()[1] == counters.wilson_interval(5, 1000)
    assert found.intervals(conditional=True)[1] == counters.wilson_interval(5, 500)
    assert all(low < rate < high for rate, (low, high) in zip(found.by_position, found.intervals()))


def test_the_lengths_interval_is_two_standard_errors_of_the_rounds():
    found = one(page(drafts=100, drafted=300, accepted=(60, 30, 10)))
    each = [0] * 40 + [1] * 30 + [2] * 20 + [3] * 10  # accepted tokens of each round
    mean = sum(each) / 100
    error = math.sqrt(sum((x - mean) ** 2 for x in each) / 100 / 100)
    assert found.length_interval == pytest.approx((2 - 1.96 * error, 2 + 1.96 * error))


def test_before_the_first_round_nothing_is_known_and_nothing_breaks():
    found = one(page(0, 0, (0, 0)))
    assert math.isnan(found.acceptance_rate) and math.isnan(found.mean_acceptance_length)
    assert all(map(math.isnan, [*found.by_position, *found.conditional, *found.length_interval]))
    (row,) = serving.rows(serving.parse(page(0, 0, (0, 0))))
    assert row["acceptance_rate"] is None and row["conditional"] == [None, None]
    json.dumps(row, allow_nan=False)


def test_several_engines_are_apart_until_they_are_added_up():
    found = serving.parse(page() + page(20, 60, (10, 2, 0), engine="1") + page(1, 3, (1, 1, 1), model="other"))
    assert len(found.vllm) == 3
    both = serving.total(found.vllm[:2])
    assert (both.drafts, both.draft_tokens, both.accepted, both.generated) == (30, 90, (16, 5, 1), 64)
    with pytest.raises(ValueError, match="rates of different models"):
        serving.total(found.vllm)
    with pytest.raises(ValueError, match="no counters"):
        serving.total([])


# -- Two readings ---------------------------------------------------------------------------------------------------


def test_a_difference_is_the_time_between():
    found = serving.difference(one(page()), one(page(25, 75, (15, 6, 2))))
    assert (found.drafts, found.draft_tokens, found.accepted, found.was_reset) == (15, 45, (9, 3, 1), False)
    assert found.accepted_tokens == 13 and found.generated == 0


@pytest.mark.parametrize(
    "after", [page(4, 12, (2, 1, 0)), page(40, 120, (20, 9, 3), created=500.0), page(40, 80, (20, 9))]
)
def test_a_server_that_began_anew_is_noticed(after):
    found = serving.difference(one(page()), one(after))
    assert found.was_reset and found.drafts == one(after).drafts
    if len(found.accepted) == 3:
        (row,) = serving.rows(serving.parse(after), before=serving.parse(page()))
        assert row["was_reset"] and row["accepted"] == list(one(after).accepted)


def test_readings_of_two_engines_have_no_difference():
    with pytest.raises(ValueError, match='two engines: engine="0", model_name="m" and engine="1"'):
        serving.difference(one(page()), one(page(engine="1")))
    with pytest.raises(serving.MetricsError, match="another server"):
        serving.rows(serving.parse(page(engine="1")), before=serving.parse(page()))
    with pytest.raises(serving.MetricsError, match="another server"):
        serving.rows(serving.parse(page(model="other")), before=serving.parse(page()))
    with pytest.raises(ValueError, match="two servers, or swapped"):  # a start never moves back
        serving.rows(serving.parse(page(25, 75, (15, 6, 2), created=50.0)), before=serving.parse(page()))


def test_an_engine_that_was_added_counts_from_its_own_start():
    both = serving.parse(page(25, 75, (15, 6, 2)) + page(engine="1"))
    old, new = serving.rows(both, before=serving.parse(page()))
    assert (old["drafts"], old["was_reset"]) == (15, False) and (new["drafts"], new["was_reset"]) == (10, True)


# -- SGLang ---------------------------------------------------------------------------------------------------------

SGLANG = """# TYPE sglang:spec_accept_length gauge
sglang:spec_accept_length{model_name="q",tp_rank="0"} 2.25
sglang:spec_accept_rate{model_name="q",tp_rank="0"} 0.625
sglang:spec_num_steps{model_name="q",tp_rank="0"} 2.0
sglang:spec_num_draft_tokens{model_name="q",tp_rank="0"} 3.0
sglang:spec_block_accept_length{model_name="q",tp_rank="0"} 0.0
"""


def test_sglangs_gauges():
    (found,) = serving.parse(SGLANG).sglang
    assert (found.accept_length, found.accept_rate, found.steps, found.draft_tokens) == (2.25, 0.625, 2, 3)
    assert found.accept_length == 1 + found.accept_rate * found.steps
    older = "\n".join(SGLANG.splitlines()[:2])
    assert serving.parse(older).sglang[0] == serving.Gauges({"model_name": "q", "tp_rank": "0"}, 2.25, None)
    assert "no interval" in CliRunner().invoke(app, ["metrics", write(SGLANG)]).stdout


def test_gauges_that_a_page_lacks_are_unknown_rather_than_zero():
    rate = 'sglang:spec_accept_rate{model_name="q"} 0.625\n'
    shown = CliRunner().invoke(app, ["metrics", write(rate)]).stdout
    assert "0.625" in shown and "unknown" in shown and "speculation is off" not in shown
    assert "speculation is off" in CliRunner().invoke(app, ["metrics", write(rate.replace("0.625", "0.0"))]).stdout


def test_gauges_cannot_be_subtracted():
    for now, before in ((SGLANG, SGLANG), (SGLANG, page()), (page(), SGLANG)):
        with pytest.raises(serving.MetricsError, match="--before"):
            serving.rows(serving.parse(now), before=serving.parse(before))


# -- What is refused ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("<!DOCTYPE html><html></html>", "a web page, not metrics"),
        ('{"detail":"Not Found"}', "JSON, not metrics"),
        ("", "0 metrics, none of vLLM or SGLang"),
        ("node_cpu_seconds_total 3\n", "1 metrics, none of vLLM"),
        ("# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running 0\n", "none of speculation: is it on"),
        ("sglang:num_running_reqs 0\n", "metrics of sglang, but none of speculation"),
        (page().replace("30.0", "NaN"), "is nan: a reading that cannot be used"),
        (page().replace("30.0", "-1"), "cannot be used"),
        (page().replace("30.0", "30.5"), "not a count"),
        (page(kept=9), "contradict one another"),
        (page(accepted=(3, 6, 1)), "contradict one another"),
        (page().replace('position="1"', 'position="7"'), "some are missing"),
        (page().replace("num_drafts_total", "num_others_total"), "num_drafts_total is missing"),
        ("vllm:spec_decode_num_drafts_total{ 3\n", "no Prometheus text"),
        (SGLANG.replace("2.25", "NaN"), "is nan"),
        (page().replace('position="1"', 'position="abc"'), "position='abc'.*no number"),
        (page().replace("30.0", "1e300"), "1e.300: not a count"),
        (page().replace("} 32.0", "} NaN"), "generation_tokens_total is nan"),
        (page(accepted=(), kept=10), "per_pos_total is missing.*proxy"),
    ],
)
def test_what_is_no_reading_is_refused_with_a_reason(text, words):
    with pytest.raises(serving.MetricsError, match=words):
        serving.parse(text)


def write(text: str, name: str = "metrics.txt") -> str:
    import tempfile

    path = Path(tempfile.mkdtemp()) / name
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_a_file_and_its_errors(tmp_path):
    path = tmp_path / "m.txt"
    path.write_text(page())
    assert serving.load(path).vllm[0].drafts == 10
    with pytest.raises(serving.MetricsError, match="no such file.*with http:// in front"):
        serving.load("localhost:8000/metrics")
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(serving.MetricsError, match="cannot be read as text"):
        serving.load(path)
    path.write_text("<html>")
    with pytest.raises(serving.MetricsError, match="m.txt: this is a web page"):
        serving.load(path)


def test_a_file_is_limited_packed_and_unpacked(tmp_path, monkeypatch):
    monkeypatch.setattr(source, "LARGEST", 20_000)
    path = tmp_path / "m.txt.gz"
    path.write_bytes(gzip.compress(page().encode()))
    assert serving.load(path).vllm[0].drafts == 10
    path.write_bytes(gzip.compress(b"# " + bytes(10_000_000)))
    with pytest.raises(serving.MetricsError, match="more than 20,000 bytes"):
        serving.load(path)
    for damaged in (gzip.compress(page().encode())[:-20], b"no gzip", gzip.compress(page().encode())[:10] + bytes(90)):
        path.write_bytes(damaged)
        with pytest.raises(serving.MetricsError, match="m.txt.gz: damaged gzip"):
            serving.load(path)
    (tmp_path / "long.txt").write_text("# " + "x" * 30_000)
    with pytest.raises(serving.MetricsError, match="more than 20,000 bytes"):
        serving.load(tmp_path / "long.txt")


@contextmanager
def raw_server(*parts: bytes, pause: float = 0.0):
    """A server that answers one request with these bytes, a pause after each; it stops when the other side hangs up.
    Yields its address and a list of how many bytes were sent."""
    sent = [0]
    listener = socket.create_server(("127.0.0.1", 0))
    over = threading.Event()

    def answer():
        connection, _ = listener.accept()
        with connection:
            connection.recv(65536)
            try:
                for part in parts:
                    connection.sendall(part)
                    sent[0] += len(part)
                    if pause and over.wait(pause):
                        return
            except OSError:  # the other side hung up
                pass

    thread = threading.Thread(target=answer, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/metrics", sent
    finally:
        over.set()
        thread.join()
        listener.close()


HEAD = b"HTTP/1.1 200 OK\r\nConnection: close\r\n"


@pytest.mark.parametrize("slow", [HEAD + b"\r\n" + bytes(500), HEAD + b"X-Filler: " + b"x" * 500])
def test_an_answer_that_trickles_ends_at_the_timeout(slow):
    with raw_server(*(slow[i : i + 1] for i in range(len(slow))), pause=0.02) as (address, sent):
        with pytest.raises(serving.MetricsError, match="no whole answer within 0.3 seconds"):
            serving.load(address, timeout=0.3)
        assert sent[0] < len(slow)


def test_an_answer_is_limited_while_it_comes(monkeypatch):
    monkeypatch.setattr(source, "LARGEST", 20_000)
    with raw_server(HEAD + b"\r\n", *[b"# filler\n" * 100_000] * 50) as (address, sent):
        with pytest.raises(serving.MetricsError, match="more than 20,000 bytes"):
            serving.load(address)
    assert sent[0] < 45_000_000


@pytest.mark.parametrize("packing", ["gzip", "identity", "br"])
def test_an_answer_is_limited_unpacked(monkeypatch, packing):
    monkeypatch.setattr(source, "LARGEST", 20_000)
    head = HEAD + b"Content-Encoding: " + packing.encode() + b"\r\n\r\n"
    bodies = {"gzip": gzip.compress(page().encode()), "identity": page().encode(), "br": b"\x00"}
    with raw_server(head + bodies[packing]) as (address, _):
        if packing == "br":
            with pytest.raises(serving.MetricsError, match="packed as 'br'"):
                serving.load(address)
        else:
            assert serving.load(address).vllm[0].drafts == 10
    if packing == "gzip":
        with raw_server(head + gzip.compress(bytes(10_000_000))) as (address, _):
            with pytest.raises(serving.MetricsError, match="more than 20,000 bytes"):
                serving.load(address)


@pytest.mark.parametrize("timeout", ["inf", "nan", "0", "-1"])
def test_a_timeout_is_a_number_of_seconds(timeout):
    said = CliRunner().invoke(app, ["metrics", "http://127.0.0.1:9", "--timeout", timeout])
    assert "timeout" in str(said.exception) and "above 0" in str(said.exception)


@contextmanager
def server(answers: dict[str, tuple[int, str]]):
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            status, text = answers.get(self.path, (404, "no"))
            self.send_response(status)
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_):
            pass

    httpd = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=httpd.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{httpd.server_port}"
    finally:
        httpd.shutdown()
        httpd.server_close()
        thread.join()


def test_a_live_server():
    with server({"/metrics": (200, page()), "/web": (200, "<html>hello</html>")}) as address:
        assert serving.load(address).vllm[0].drafts == 10  # /metrics is added
        assert serving.load(f"{address}/metrics") == serving.load(f"{address}/")
        with pytest.raises(serving.MetricsError, match="a web page"):
            serving.load(f"{address}/web")
        with pytest.raises(serving.MetricsError, match="answered 404 .*--enable-metrics"):
            serving.load(f"{address}/v1/metrics")
    with pytest.raises(serving.MetricsError, match="cannot be reached"):
        serving.load(address)
    with pytest.raises(serving.MetricsError, match="no address|cannot be reached"):
        serving.load("http://[")


# -- The command ----------------------------------------------------------------------------------------------------


def test_the_command_prints_text_and_json(tmp_path):
    before, after = tmp_path / "before.txt", tmp_path / "after.txt"
    before.write_text(page())
    after.write_text(page(25, 75, (15, 6, 2)))
    said = CliRunner().invoke(app, ["metrics", str(after)]).stdout
    assert "mean acceptance length   1.92" in said and "once judged" in said and "25" in said
    (row,) = json.loads(CliRunner().invoke(app, ["metrics", str(after), "--before", str(before), "--json"]).stdout)
    assert row["drafts"] == 15 and row["by_position"] == pytest.approx([0.6, 0.2, 1 / 15])
    again = CliRunner().invoke(app, ["metrics", str(before), "--before", str(after)]).stdout
    assert "started in between" in again
    assert "no round has drafted" in CliRunner().invoke(app, ["metrics", write(page(0, 0, (0,)))]).stdout
    assert "no such file" in str(CliRunner().invoke(app, ["metrics", "nowhere"]).exception)


# -- The flags ------------------------------------------------------------------------------------------------------


def test_article_b_flag_by_flag():
    found = {row["flag"]: row for row in serving.explain(serving.ARTICLE_COMMAND)}
    assert list(found) == [
        "VLLM_USE_MODELSCOPE", "model", "--port", "--tensor-parallel-size", "--max-model-len", "--reasoning-parser",
        "method (speculative)", "num_speculative_tokens (speculative)",
    ]  # fmt: skip
    assert all(row["does"] for row in found.values())
    assert [name for name, row in found.items() if row["note"]] == ["method (speculative)"]
    assert "renamed" in found["method (speculative)"]["note"]
    assert not any(row["note"] for row in serving.explain(serving.ARTICLE_COMMAND.replace("qwen3_next_mtp", "mtp")))


def test_article_b_for_sglang():
    words = shlex.split(serving.for_sglang(serving.ARTICLE_COMMAND))
    assert words[:4] == ["SGLANG_USE_MODELSCOPE=true", "python", "-m", "sglang.launch_server"]
    given = dict(zip(words[4:-1:2], words[5::2]))
    assert given["--speculative-algorithm"] == "NEXTN" and given["--speculative-num-steps"] == "2"
    assert given["--speculative-num-draft-tokens"] == "3" and given["--tp-size"] == "8"
    assert words[-1] == "--enable-metrics"
    ngram = serving.for_sglang(
        """vllm serve m --speculative-config '{"method": "ngram", "num_speculative_tokens": 3}'"""
    )
    assert "--speculative-num-draft-tokens 4" in ngram and "num-steps" not in ngram
    assert "speculative" not in serving.for_sglang("vllm serve m")
    with pytest.raises(ValueError, match="no counterpart known"):
        serving.for_sglang("""vllm serve m --speculative-config '{"method": "suffix"}'""")


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("python serve.py", "begins with vllm serve"),
        ("vllm serve 'm", "a quote is open"),
        ('vllm serve m --speculative-config {"method":"mtp"}', "The shell took the double quotes"),
        ("vllm serve m --speculative-config '[1]'", "use a JSON object"),
        ("vllm serve m n", "belongs to no flag"),
    ],
)
def test_a_command_that_cannot_work_is_refused(command, words):
    with pytest.raises(ValueError, match=words):
        serving.explain(command)


def test_a_command_is_read_over_several_lines_and_with_short_flags():
    command = """vllm serve m \\
        -tp 8 --max-model-len -1 \\
        -sc '{"method": "mtp", "num_speculative_tokens": 2}'"""
    assert serving.split_command(command).flags == {
        "model": "m", "--tensor-parallel-size": "8", "--max-model-len": "-1",
        "--speculative-config": '{"method": "mtp", "num_speculative_tokens": 2}',
    }  # fmt: skip
    assert "--tp-size 8" in serving.for_sglang(command)
    assert serving.explain(command.replace("\n", "\r\n")) == serving.explain(command)


@pytest.mark.parametrize("k", ['"two"', "2.5", "0", "true", "[2]"])
def test_a_draft_length_that_is_none_is_named(k):
    command = f"""vllm serve m --speculative-config '{{"method": "mtp", "num_speculative_tokens": {k}}}'"""
    rows = {row["flag"]: row for row in serving.explain(command)}
    assert "whole number" in rows["num_speculative_tokens (speculative)"]["note"]
    with pytest.raises(ValueError, match="num_speculative_tokens.*whole number"):
        serving.for_sglang(command)


def test_a_flag_that_is_not_known_gets_no_story():
    command = """vllm serve m --foo=1 --enable_prefix_caching --speculative-config '{"method":"mtp","steps":2}'"""
    found = {row["flag"]: row for row in serving.explain(command)}
    assert found["--foo"]["does"] == "" and found["--foo"]["value"] == "1"
    assert found["--enable-prefix-caching"]["value"] == ""
    assert "not known here" in found["steps (speculative)"]["note"]
    assert "not given" in found["num_speculative_tokens (speculative)"]["note"]


# -- The recorded servers -------------------------------------------------------------------------------------------


def recorded(server: str, when: str) -> serving.Counters:
    (found,) = serving.load(TRACES / f"vllm-metrics-{server}-{when}.txt").vllm
    return found


@pytest.mark.parametrize("server", ["mtp", "ngram"])
def test_a_recorded_server_adds_up(server):
    before, middle, after = (recorded(server, when) for when in ("before", "middle", "after"))
    assert (before.drafts, before.generated, before.requests) == (0, 0, 0)
    assert (middle.requests, after.requests, after.generated) == (18, 36, 1592)
    late = serving.difference(middle, after)
    assert not late.was_reset and late.drafts == after.drafts - middle.drafts
    assert serving.difference(before, after).accepted == after.accepted
    assert after.full_drafts == (server == "mtp")


def test_what_the_readme_of_the_traces_says():
    middle, after, ngram = recorded("mtp", "middle"), recorded("mtp", "after"), recorded("ngram", "after")
    late = serving.difference(middle, after)
    assert f"{middle.mean_acceptance_length:.2f}, {late.mean_acceptance_length:.2f}" == "1.83, 1.41"
    assert f"{after.mean_acceptance_length:.2f}, {after.tokens_per_call:.2f}" == "1.59, 1.57"
    assert f"{ngram.mean_acceptance_length:.2f}, {ngram.tokens_per_call:.2f}" == "1.58, 1.24"
