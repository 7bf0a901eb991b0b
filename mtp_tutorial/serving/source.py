"""Where metrics come from: the address of a live server, or a file.

Takes: an http address or a path.  Returns: the text.
Must not know: what the metrics mean.
"""

from __future__ import annotations

import gzip
from pathlib import Path

MOST = 50_000_000  # bytes; a server's page has some hundred thousand


class MetricsError(ValueError):
    """The text could not be had, or holds no metrics of speculation; the message says what would do."""


def read_text(where: str | Path, timeout: float = 10.0) -> str:
    """The text of ``/metrics``: from an address that starts with http:// or https://, else from a file (.gz will do).

    An address without a path gets ``/metrics``. timeout: seconds.
    Raises MetricsError, a ValueError, that names what was asked for and what would do.
    """
    if str(where).startswith(("http://", "https://")):
        return _fetch(str(where), timeout)
    path = Path(where).expanduser()
    if not path.is_file():
        raise MetricsError(
            f"{where}: no such file. Give a file with the text of /metrics, or the address of a server, such as "
            "http://localhost:8000/metrics (with http:// in front)"
        )
    try:
        content = path.read_bytes()
        return (gzip.decompress(content) if path.suffix == ".gz" else content).decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise MetricsError(f"{where}: cannot be read as text ({error})") from error


def _fetch(address: str, timeout: float) -> str:
    import httpx

    try:
        url = httpx.URL(address)
        if url.path in ("", "/"):
            url = url.copy_with(path="/metrics")
        answer = httpx.get(url, timeout=timeout, follow_redirects=True, headers={"Accept": "text/plain"})
    except httpx.InvalidURL as error:
        raise MetricsError(f"{address}: no address ({error}). Write http://localhost:8000/metrics") from error
    except httpx.TimeoutException as error:
        raise MetricsError(
            f"{address}: no answer within {timeout:g} seconds. Is the server up and not stuck?"
        ) from error
    except httpx.HTTPError as error:
        raise MetricsError(
            f"{address}: cannot be reached ({error}). Check host and port, and that the server listens on this network"
        ) from error
    if answer.status_code != 200:
        raise MetricsError(
            f"{url}: the server answered {answer.status_code} {answer.reason_phrase}. vLLM serves metrics at /metrics; "
            "SGLang does so when started with --enable-metrics"
        )
    if len(answer.content) > MOST:
        raise MetricsError(f"{url}: {len(answer.content):,} bytes are no page of metrics")
    return answer.text
