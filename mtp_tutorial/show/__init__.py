"""Pictures, panels and coloured text: the only room that knows matplotlib and ipywidgets.

Takes: numbers and the records of a generation.  Returns: things a notebook or a terminal shows.
Must not know: how models, drafters and verify rules work.

Names are loaded on first use, so that the command line gets coloured text without matplotlib.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_WHERE = {
    "LOOKS": "colors",
    "look": "colors",
    "Picture": "picture",
    "figure": "picture",
    "Panel": "panel",
    "slider": "panel",
    "choice": "panel",
    "switch": "panel",
    "TokenView": "tokens",
    "show_tokens": "tokens",
    "show_pieces": "tokens",
    "rich_tokens": "tokens",
    "rich_piece": "tokens",
    "rich_legend": "tokens",
    "draw_segment": "plots_sampling",
    "draw_filters": "plots_sampling",
    "draw_histogram": "plots_sampling",
    "draw_samplers": "plots_sampling",
    "sampler_draws": "plots_sampling",
    "chi_square": "plots_sampling",
    "draw_race": "plots_race",
    "draw_mask": "plots_cache",
    "draw_cache": "plots_cache",
    "cache_stages": "plots_cache",
    "draw_round": "plots_rounds",
    "draw_timeline": "plots_rounds",
    "draw_accept": "plots_verify",
    "draw_boxes": "plots_boxes",
    "draw_laws": "plots_laws",
    "draw_distances": "plots_lossless",
    "draw_p_values": "plots_lossless",
    "draw_fits": "plots_lossless",
    "draw_same_word": "plots_lossless",
    "draw_near_ties": "plots_lossless",
    "draw_exhibit": "plots_museum",
    "Table": "table",
    "show_table": "table",
    "head_parts": "plots_head",
    "head_moments": "plots_pairs",
    "draw_head": "plots_head",
    "draw_steps": "plots_pairs",
    "draw_relatives": "plots_relatives",
    "draw_probe": "plots_learning",
    "draw_training": "plots_learning",
    "draw_acceptance": "plots_learning",
    "AGREEMENT": "plots_decoding",
    "agreement": "plots_decoding",
    "draw_coins": "plots_decoding",
    "draw_overlap": "plots_decoding",
    "draw_lengths": "plots_decoding",
    "draw_seconds": "plots_decoding",
    "draw_by_position": "plots_position",
    "draw_speed_up": "plots_speed",
    "draw_calls": "plots_speed",
    "draw_loads": "plots_speed",
    "draw_roofline": "plots_roofline",
    "draw_families": "plots_families",
    "draw_cost": "plots_roofline",
    "draw_server": "plots_speed",
    "draw_counted": "plots_serving",
    "draw_switch": "plots_serving",
    "draw_kinds": "plots_control",
    "draw_trace": "plots_control",
    "draw_bench": "plots_bench",
    "draw_batches": "plots_bench",
    "draw_costs": "plots_costs",
    "draw_forest": "plots_case",
    "draw_positions": "plots_case",
    "draw_clean_runs": "plots_case",
    "draw_repeats": "plots_repeats",
    "repeated_pieces": "repeats",
    "draw_leaderboard": "plots_capstone",
    "draw_prices": "plots_capstone",
    "draw_rush": "plots_capstone",
    "segment_panel": "panels.sampling",
    "filter_panel": "panels.sampling",
    "sampler_panel": "panels.sampling",
    "mask_panel": "panels.rounds",
    "cache_panel": "panels.rounds",
    "round_panel": "panels.rounds",
    "accept_panel": "panels.rounds",
    "law_panel": "panels.rounds",
    "head_panel": "panels.heads",
    "steps_panel": "panels.heads",
    "decoding_panel": "panels.rounds",
    "position_panel": "panels.speed",
    "speed_panel": "panels.speed",
    "load_panel": "panels.speed",
    "roofline_panel": "panels.roofline",
    "families_panel": "panels.families",
    "switch_panel": "panels.serving",
    "price_panel": "panels.board",
    "museum_panel": "panels.cases",
    "clean_runs_panel": "panels.cases",
    "repetition_panel": "panels.cases",
}

__all__ = sorted(_WHERE)


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_WHERE[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
