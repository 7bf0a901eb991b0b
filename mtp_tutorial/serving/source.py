"""Where metrics come from: the address of a live server, or a file.

Takes: an http address or a path.  Returns: the text.
Must not know: what the metrics mean.
"""

from __future__ import annotations

import asyncio
import gzip
import io
import math
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import httpx

#: Bytes, on the wire and unpacked. A large deployment's page has a few million; reading ten takes some seconds.
LARGEST = 10_000_000


class MetricsError(ValueError):
    """The text could not be had, or holds no metrics of speculation; the message says what would do."""


def read_text(where: str | Path, timeout: float = 10.0) -> str:
    """The text of ``/metrics``: from an address that starts with http:// or https://, else from a file (.gz will do).

    An address without a path gets ``/metrics``. timeout: seconds for the whole answer, however slowly it comes.
    Raises MetricsError, a ValueError, that names what was asked for and what would do.
    """
    if not 0 < timeout < math.inf:
        raise MetricsError(f"timeout={timeout!r}: use a number of seconds above 0")
    if str(where).startswith(("http://", "https://")):
        content = _fetch(str(where), timeout)
    else:
        content = _read_file(where)
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise MetricsError(f"{where}: cannot be read as text ({error})") from error


def _read_file(where: str | Path) -> bytes:
    path = Path(where).expanduser()
    if not path.is_file():
        raise MetricsError(
            f"{where}: no such file. Give a file with the text of /metrics, or the address of a server, such as "
            "http://localhost:8000/metrics (with http:// in front)"
        )
    try:
        with path.open("rb") as file:
            content = _limited(where, file.read(LARGEST + 1))
    except OSError as error:
        raise MetricsError(f"{where}: cannot be read ({error})") from error
    return _unpacked(where, content) if path.suffix == ".gz" else content


def _fetch(address: str, timeout: float) -> bytes:
    import httpx

    try:
        url = httpx.URL(address)
        if url.path in ("", "/"):
            url = url.copy_with(path="/metrics")
        # A thread, as a notebook has an event loop of its own already.
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(asyncio.run, _download(url, timeout)).result()
    except httpx.InvalidURL as error:
        raise MetricsError(f"{address}: no address ({error}). Write http://localhost:8000/metrics") from error
    except TimeoutError as error:
        raise MetricsError(
            f"{address}: no whole answer within {timeout:g} seconds. Is the server up and not stuck?"
        ) from error
    except httpx.HTTPError as error:
        raise MetricsError(
            f"{address}: cannot be reached ({error}). Check host and port, and that the server listens on this network"
        ) from error


async def _download(url: httpx.URL, timeout: float) -> bytes:
    """The body of the answer. httpx's own timeouts are for each read, so that one byte a second would never end."""
    import httpx

    headers = {"Accept": "text/plain", "Accept-Encoding": "gzip"}
    async with asyncio.timeout(timeout), httpx.AsyncClient(timeout=None, follow_redirects=True) as client:
        async with client.stream("GET", url, headers=headers) as answer:
            if answer.status_code != 200:
                raise MetricsError(
                    f"{url}: the server answered {answer.status_code} {answer.reason_phrase}. vLLM serves metrics at "
                    "/metrics; SGLang does so when started with --enable-metrics"
                )
            content = bytearray()
            async for part in answer.aiter_raw():  # packed as it came, so that nothing unpacks without limit
                content += part
                _limited(url, content)
    packing = answer.headers.get("Content-Encoding", "identity").lower()
    if packing not in ("identity", "gzip"):
        raise MetricsError(f"{url}: the answer is packed as {packing!r}, which was not asked for; only gzip was")
    return _unpacked(url, bytes(content)) if packing == "gzip" else bytes(content)


def _unpacked(where: object, content: bytes) -> bytes:
    """gzip undone, at most ``LARGEST`` bytes of it."""
    try:
        return _limited(where, gzip.GzipFile(fileobj=io.BytesIO(content)).read(LARGEST + 1))
    except (OSError, EOFError, zlib.error) as error:
        raise MetricsError(f"{where}: damaged gzip data ({error})") from error


def _limited(where: object, content: bytes) -> bytes:
    if len(content) > LARGEST:
        raise MetricsError(f"{where}: more than {LARGEST:,} bytes, which is no page of metrics")
    return content
