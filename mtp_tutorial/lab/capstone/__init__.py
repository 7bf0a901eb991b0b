"""The course's last task: write a drafter or a controller, and find a place on the leaderboard.

Takes: entries.  Returns: scores that repeat exactly, rulings of the gate, tables.
Must not know: notebooks, pictures.

>>> from mtp_tutorial.lab import capstone
>>> capstone.writes("nothing", lambda ids, k: []).k
4
"""

from __future__ import annotations

from .board import Standing, leaderboard, table, wall_clock
from .entries import SHIPPED, Joined, SaysSmallQ, Writes, always_right, next_words, submissions, writes
from .load import CONTROLLERS, LoadScore, examine_controller, from_rule, play_load, trace
from .meter import Metered, weights_of_a_call
from .referee import Ruling, examine
from .task import ROW, SAMPLING, Entry, Play, Score, play, practice_prompts, practice_texts, tune

__all__ = [
    "CONTROLLERS", "ROW", "SAMPLING", "SHIPPED", "Entry", "Joined", "LoadScore", "Metered", "Play", "Ruling",
    "SaysSmallQ", "Score", "Standing", "Writes", "always_right", "examine", "examine_controller", "from_rule",
    "leaderboard", "next_words", "play", "play_load", "practice_prompts", "practice_texts", "submissions", "table",
    "trace", "tune", "wall_clock", "weights_of_a_call", "writes",
]  # fmt: skip
