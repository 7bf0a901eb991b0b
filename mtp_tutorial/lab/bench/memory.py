"""How much memory decoding takes beyond a process with its libraries imported, against weights and cache.

Takes: a target's name, a drafter's, how much to decode.  Returns: bytes, by what they are.
Must not know: clocks.

Run it in a process of its own: ``python -m mtp_tutorial.lab.bench.memory --target smollm2``. The bundled nano decodes a
few tokens first, so that every library is imported and its code paged in; what the process holds then is the base line.
Linux only: the peak is ``VmHWM`` of /proc/self/status, set back before the target is loaded.
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path

from ...decode import generate
from ...drafters import load_drafter
from ...models import load
from ...records import Sampling
from .cost import cache_bytes, weight_bytes

FIELDS = ("VmHWM", "VmRSS", "RssAnon", "RssFile")


def resident() -> dict[str, int]:
    """Bytes of this process: the peak, now, of that its own, of that mapped files. Raises OSError without /proc."""
    text = Path("/proc/self/status").read_text()
    return {name: 1024 * int(re.search(rf"{name}:\s+(\d+)", text)[1]) for name in FIELDS}


def measure(target: str, drafter: str | None = "mtp", k: int = 2, tokens: int = 128, batch: int = 1, **options) -> dict:
    """Load a target and decode; peak beyond the base line ÷ (weights + cache).

    options: for ``mt.load``.  Returns weights, cache and drafter (bytes that they need), base, loaded and decoded
    (``resident`` at these points), beyond (the peak's bytes above the base line) and ratio.
    """
    _decode(load("nano"), "mtp", 2, 8, 1)
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
    base = resident()
    model = load(target, **options)
    loaded = resident()
    used = _decode(model, drafter, k, tokens, batch)
    decoded = resident()
    weights, cache = weight_bytes(model), batch * cache_bytes(model, used["longest"])
    beyond = decoded["VmHWM"] - base["VmRSS"]
    return {
        "target": target,
        "weights": weights,
        "cache": cache,
        "drafter": used["drafter"],
        "base": base,
        "loaded": loaded,
        "decoded": decoded,
        "beyond": beyond,
        "ratio": beyond / (weights + cache),
    }


def _decode(model, name: str | None, k: int, tokens: int, batch: int) -> dict:
    drafter = None if name is None else load_drafter(name, model)
    head = getattr(drafter, "head", None)
    found = generate(
        model,
        ["Explain what a cache is."] * batch,
        drafter,
        num_speculative_tokens=k,
        sampling=Sampling(temperature=0.6, top_k=50),
        max_new_tokens=tokens,
        ignore_eos=True,
    )
    return {
        "longest": max(len(one.prompt_tokens) + len(one.tokens) for one in found),
        "drafter": sum(weight.nbytes for weight in head.parameters()) if head is not None else 0,
    }


def main() -> None:
    """Print one measurement as JSON."""
    parser = argparse.ArgumentParser(prog="python -m mtp_tutorial.lab.bench.memory", description=main.__doc__)
    parser.add_argument("--target", default="smollm2")
    parser.add_argument("--drafter", default="mtp")
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--batch", type=int, default=1)
    chosen = parser.parse_args()
    print(json.dumps(measure(chosen.target, chosen.drafter, tokens=chosen.tokens, batch=chosen.batch), indent=1))


if __name__ == "__main__":
    main()
