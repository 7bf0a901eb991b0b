"""Checks of notebook 02: milliseconds of a token from bytes, the rows that are free, the seconds of a call.

Takes: the reader's function.  Returns: a ``Result``, and prints one line.
Must not know: notebooks, pictures.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..lab import theory
from .base import Exercise, Mistake, Result, check, read_number

# -- token_milliseconds(billions, bits, terabytes) -> milliseconds ----------------------------------------------------


def _token(billions: float, bits: float, terabytes: float) -> float:
    weights = theory.Weights(billions * 1e9, bits / 8)
    return theory.weights_milliseconds(weights, theory.Machine(terabytes * 1e12, peak=1e12))


TOKEN_MILLISECONDS = Exercise(
    "token_milliseconds",
    _token,
    [(70, 16, 3.0), (70, 4, 3.0), (8, 8, 2.0), (0.135, 16, 0.02)],
    read_number,
    [
        Mistake(
            "bits as bytes",
            lambda billions, bits, terabytes: billions * bits / terabytes,
            "You took bits for bytes: 8 bits are one byte.",
        ),
        Mistake(
            "always two bytes",
            lambda billions, bits, terabytes: billions * 2 / terabytes,
            "You took 2 bytes for every weight. That is 16 bits; here the bits vary.",
        ),
        Mistake(
            "one byte a weight",
            lambda billions, bits, terabytes: billions / terabytes,
            "You left out the size of a weight: bits ÷ 8 bytes each.",
        ),
        Mistake(
            "seconds",
            lambda billions, bits, terabytes: _token(billions, bits, terabytes) / 1000,
            "Those are seconds. Wanted are milliseconds.",
        ),
        Mistake(
            "upside down",
            lambda billions, bits, terabytes: 1000 / _token(billions, bits, terabytes),
            "That is tokens a second. Wanted is the time of one token: bytes ÷ bandwidth.",
        ),
        Mistake(
            "terabytes as gigabytes",
            lambda billions, bits, terabytes: 1000 * _token(billions, bits, terabytes),
            "A thousand times too much: one TB/s is 1000 GB/s, and billions of bytes are GB.",
        ),
    ],
    "Bytes ÷ bandwidth: no machine writes a token of a single text faster than it can read its weights.",
    argument_names=("billions", "bits", "terabytes"),
)


def check_token_milliseconds(function: Callable[[float, float, float], Any]) -> Result:
    """``token_milliseconds(billions, bits, terabytes)``: weights, bits each, TB/s → the least time of a token in ms."""
    return check(TOKEN_MILLISECONDS, function)


# -- free_rows(bytes_each, bandwidth, peak) -> rows -------------------------------------------------------------------


def _free(bytes_each: float, bandwidth: float, peak: float) -> float:
    return theory.critical_rows(theory.Weights(1e9, bytes_each), theory.Machine(bandwidth, peak))


FREE_ROWS = Exercise(
    "free_rows",
    _free,
    [(2.0, 3e12, 989e12), (0.5, 3e12, 989e12), (4.0, 2e10, 2e11), (1.0, 1e12, 3e14)],
    read_number,
    [
        Mistake(
            "one FLOP a weight",
            lambda bytes_each, bandwidth, peak: 2 * _free(bytes_each, bandwidth, peak),
            "Twice too many: each weight takes two FLOPs a row, a multiplication and an addition.",
        ),
        Mistake(
            "FLOPs a byte",
            lambda bytes_each, bandwidth, peak: peak / bandwidth,
            "That is the machine's FLOPs for each byte it can read. A row takes 2 FLOPs for each weight of "
            "bytes_each bytes: multiply by bytes_each, divide by 2.",
        ),
        Mistake(
            "bytes left out",
            lambda bytes_each, bandwidth, peak: peak / (2 * bandwidth),
            "You left out how many bytes a weight has. The larger it is, the longer it takes to read, and the more "
            "rows fit into that time.",
        ),
        Mistake(
            "bytes below",
            lambda bytes_each, bandwidth, peak: peak / (2 * bandwidth * bytes_each),
            "You divided by bytes_each. Larger weights take longer to read, so more rows fit into that time: multiply.",
        ),
        Mistake(
            "upside down",
            lambda bytes_each, bandwidth, peak: 1 / _free(bytes_each, bandwidth, peak),
            "Upside down: wanted is reading time ÷ arithmetic time of one row.",
        ),
    ],
    "The number of weights is not in it: large and small models have the same edge on the same machine.",
    tolerance=1e-3,
    argument_names=("bytes_each", "bandwidth", "peak"),
)


def check_free_rows(function: Callable[[float, float, float], Any]) -> Result:
    """``free_rows(bytes_each, bandwidth, peak)``: rows whose arithmetic takes as long as reading the weights."""
    return check(FREE_ROWS, function)


# -- call_seconds(weight_bytes, kv_bytes, flops, bandwidth, peak) -> seconds ------------------------------------------


def _call(weight_bytes: float, kv_bytes: float, flops: float, bandwidth: float, peak: float) -> float:
    machine = theory.Machine(bandwidth, peak)
    weights = theory.Weights(flops / 2, 2 * weight_bytes / flops, kv_bytes)  # one row of all its arithmetic
    return theory.forward_seconds(weights, machine, rows=1, context=1)


CALL_SECONDS = Exercise(
    "call_seconds",
    _call,
    [
        (140e9, 0.0, 140e9, 3e12, 989e12),
        (140e9, 0.0, 180e12, 3e12, 989e12),
        (140e9, 80e9, 36e12, 3e12, 989e12),
        (16e9, 40e9, 8e12, 2e12, 300e12),
    ],
    read_number,
    [
        Mistake(
            "sum",
            lambda w, kv, flops, bandwidth, peak: (w + kv) / bandwidth + flops / peak,
            "You added the two times. Reading and computing go on side by side: the longer one sets the time.",
        ),
        Mistake(
            "the shorter",
            lambda w, kv, flops, bandwidth, peak: min((w + kv) / bandwidth, flops / peak),
            "You took the shorter of the two. The call is over when both are done.",
        ),
        Mistake(
            "reading only",
            lambda w, kv, flops, bandwidth, peak: (w + kv) / bandwidth,
            "You left out the arithmetic. With many rows it takes longer than reading.",
        ),
        Mistake(
            "arithmetic only",
            lambda w, kv, flops, bandwidth, peak: flops / peak,
            "You left out the reading. With few rows it takes far longer than the arithmetic.",
        ),
        Mistake(
            "no keys and values",
            lambda w, kv, flops, bandwidth, peak: max(w / bandwidth, flops / peak),
            "You left out the KV cache: its bytes are read by every call, too.",
        ),
    ],
    "The longer of two times: that is the whole roofline model.",
    tolerance=1e-9,
    argument_names=("weight_bytes", "kv_bytes", "flops", "bandwidth", "peak"),
    hints={2: "Here keys and values weigh more than half as much as the weights."},
)


def check_call_seconds(function: Callable[[float, float, float, float, float], Any]) -> Result:
    """``call_seconds(weight_bytes, kv_bytes, flops, bandwidth, peak)``: the seconds of one call on the roofline."""
    return check(CALL_SECONDS, function)
