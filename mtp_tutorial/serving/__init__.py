"""Real servers from outside: their metrics, and the flags of their command lines.

Takes: Prometheus text, a file or an address; a command line.  Returns: counters with rates and intervals; rows.
Must not know: models, decoding; a server is what it says over HTTP.
"""

from .counters import Counters, Gauges, difference, total
from .flags import ARTICLE_COMMAND, CONFIG, FLAGS, Command, Flag, explain, for_sglang, split_command
from .metrics import Reading, load, parse, rows
from .source import MetricsError, read_text

__all__ = [
    "ARTICLE_COMMAND", "CONFIG", "FLAGS", "Command", "Counters", "Flag", "Gauges", "MetricsError", "Reading",
    "difference", "explain", "for_sglang", "load", "parse", "read_text", "rows", "split_command", "total",
]  # fmt: skip
