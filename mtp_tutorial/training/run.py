"""Training a drafter from beginning to end: answers, head, loop, weights, report.

Takes: a target, the name of a drafter, a folder.  Returns: a folder of weights, and how often its drafts are accepted.
Must not know: verify rules, the lab.

    mtp-tutorial train --target nano --drafter mtp --out my-head

A second run goes on where the first stopped: the answers of a target are made once and shared by all its heads.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import torch

from ..drafters import DRAFTERS
from ..drafters import weights as stored
from ..drafters.eagle import EagleHead, low_middle_high
from ..drafters.gated_lora import GatedLora
from ..drafters.head import Head
from ..drafters.medusa import MedusaHead
from ..drafters.mtp_head import MtpHead
from ..drafters.small_model import SmallModel
from ..models import Target, cache_dir
from .acceptance import PROMPTS, Setting, held_out_prompts, measure
from .corpus import KINDS
from .corpus import prompts as beginnings
from .loop import Schedule, train
from .objective_gated_lora import GatedLoraObjective
from .objectives import Distillation, MedusaObjective, MtpObjective, SmallModelObjective, most_frequent_tokens
from .selfdistill import Settings, fitting, make_answers, read_prompts, read_texts


@dataclass(frozen=True)
class Recipe:
    """How a drafter is trained for a target.

    shape: the head's own settings.  objective: options of its objective.  answers: what it is trained on.
    prompts: how many prompts of each kind (None: all).  frequent: how many tokens the loss looks at.
    """

    shape: dict = field(default_factory=dict)
    objective: dict = field(default_factory=dict)
    answers: Settings = Settings()
    prompts: int | None = None
    frequent: int = 6144
    schedule: Schedule = Schedule()


#: drafter → its head and its objective
KINDS_OF_HEAD: dict[str, tuple[type[Head], Callable[..., Distillation]]] = {
    "mtp": (MtpHead, MtpObjective),
    "eagle": (EagleHead, MtpObjective),
    "medusa": (MedusaHead, MedusaObjective),
    "gated_lora": (GatedLora, GatedLoraObjective),
    "draft": (SmallModel, SmallModelObjective),
}

_NANO = Recipe(
    answers=Settings(temperature=0.8, max_new_tokens=160, samples=1, batch=128),
    prompts=1000,
    frequent=1024,
    schedule=Schedule(steps=600, batch=16, lr_matrices=5e-2, lr_rest=1.5e-2, warmup=10),
)
_SMOLLM2 = Recipe(
    answers=Settings(temperature=0.8, max_new_tokens=256, samples=1, batch=64),
    frequent=4096,
    schedule=Schedule(steps=560, batch=16, lr_matrices=8e-3, lr_rest=3e-3, warmup=10),
)
_QUICK = replace(
    _NANO,
    answers=Settings(temperature=0.8, max_new_tokens=96, samples=1, batch=96),
    prompts=48,
    schedule=Schedule(steps=80, batch=16, lr_matrices=4e-2, lr_rest=1e-2, warmup=10),
)


#: shapes other than a head's own defaults
_SHAPES: dict[str | tuple[str, str], dict] = {
    "draft": {"num_layers": 3},
    ("nano", "draft"): {"num_layers": 1},
    ("nano", "gated_lora"): {"rank": 32},
}
#: what differs from the schedule of the target
_SCHEDULES: dict[tuple[str, str], dict] = {
    ("nano", "gated_lora"): {"lr_matrices": 2e-2, "lr_rest": 1e-2},  # small matrices, added to the target's own
    ("other", "draft"): {"steps": 350},
    ("other", "medusa"): {"steps": 800},
}


def recipe(target: Target, drafter: str, quick: bool = False) -> Recipe:
    """The repository's own recipe. Raises ValueError for a drafter that is not trained."""
    if drafter not in KINDS_OF_HEAD:
        raise ValueError(f"drafter {drafter!r} is not trained; these are: {', '.join(KINDS_OF_HEAD)}")
    if quick:
        if target.name != "nano":
            raise ValueError("--quick trains a head of the bundled nano only: use --target nano")
        return _QUICK
    found = _NANO if target.name == "nano" else _SMOLLM2
    changed = _SCHEDULES.get(("nano" if target.name == "nano" else "other", drafter), {})
    shape = _SHAPES.get((target.name, drafter), _SHAPES.get(drafter, {}))
    return replace(found, shape=shape, schedule=replace(found.schedule, **changed))


def training_prompts(target: Target, per_kind: int | None = None) -> list[dict]:
    """Beginnings of made-up texts for nano, the training split of ``data/prompts`` for everything else."""
    if target.name == "nano":
        return [
            {"id": f"{kind}-{i}", "kind": kind, "prompt": text}
            for kind in KINDS
            for i, text in enumerate(beginnings(kind, per_kind or 1000, held_out=False))
        ]
    return read_prompts(PROMPTS, "train")


def recorded_layers(target: Target) -> tuple[int, ...]:
    """The hidden states to write down: nano's are small, so that every kind of head finds what it reads."""
    return (*low_middle_high(target.num_layers), -1) if target.name == "nano" else (-1,)


def work_folder(target: Target, quick: bool = False) -> Path:
    """Where answers and checkpoints of a target are kept between runs."""
    return cache_dir() / "training" / (target.name.replace("/", "--") + ("-quick" if quick else ""))


def train_drafter(
    target: Target,
    drafter: str,
    out: Path,
    work: Path,
    plan: Recipe,
    seed: int = 0,
    progress: bool = True,
    report_prompts: int | None = 5,
) -> list[dict]:
    """Train a head for ``target`` and write its weights to ``out``; return how often its drafts are accepted.

    work: answers and checkpoints; a second run with the same plan goes on from them.
    report_prompts: how many held-out prompts of each kind are decoded for the report, at k = 4, T = 0 and 0.6.
    A target's own context may be shorter than some prompts: those are left out, with a warning.
    Raises ValueError when ``out`` is a file, ``work`` belongs to another target, prompts or answers (nothing is lost),
    for a setting that the head has not, and for damaged files in ``work``.
    """
    out, work = Path(out), Path(work)
    if out.exists() and not (out / stored.CONFIG).is_file():
        raise ValueError(f"{out} is there and holds no drafter's weights: give another folder with --out")
    began = time.monotonic()
    layers = recorded_layers(target)
    kind, objective = KINDS_OF_HEAD[drafter]
    schedule = replace(plan.schedule, seed=seed)
    # All that can be refused is refused before the first answer is made.
    head = _head(target, kind, plan.shape)
    checkpoint = work / f"{drafter}-{_mark(plan, schedule)}.pt"
    prompts = fitting(target, training_prompts(target, plan.prompts))
    held_out = fitting(target, held_out_prompts(target.name, report_prompts)) if report_prompts != 0 else []
    make_answers(target, prompts, work / "answers", plan.answers, layers, progress)
    texts = read_texts(work / "answers", plan.answers.samples)
    frequent = most_frequent_tokens(texts, plan.frequent)
    head.start_from_target(torch.Generator().manual_seed(seed))
    log = train(objective(head, layers, frequent, **plan.objective), texts, schedule, checkpoint, progress)
    facts = {
        "training": {
            "texts": len(texts),
            "answer_tokens": sum(len(text.ids) - text.prompt for text in texts),
            "answers": asdict(plan.answers),
            "schedule": asdict(schedule),
            "objective": plan.objective,
            "minutes": round((time.monotonic() - began) / 60, 1),
            "log": thinned(log),
        }
    }
    stored.save(out, head, target, frequent, facts)
    return report(target, drafter, out, held_out) if held_out else []


def _head(target: Target, kind: type[Head], shape: Mapping[str, int]) -> Head:
    """A head of that shape. Raises ValueError for a setting that it has not."""
    known = [name for name in inspect.signature(kind).parameters if name != "target"]
    for name, value in shape.items():
        if name not in known:
            raise ValueError(f"a {kind.name} head has no setting {name!r}; it has: {', '.join(known) or 'none'}")
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ValueError(f"{name}={value!r}: use a whole number, 1 or more")
    return kind(target, **shape)


def _mark(plan: Recipe, schedule: Schedule) -> str:
    """Eight letters for what decides the weights, so that each plan has a checkpoint of its own."""
    what = json.dumps(asdict(replace(plan, schedule=schedule)), sort_keys=True)
    return hashlib.sha256(what.encode()).hexdigest()[:8]


def report(target: Target, drafter: str, weights: Path, prompts: Sequence[dict]) -> list[dict]:
    """Rows of ``acceptance``: greedy drafts, k = 4, at T = 0 and 0.6."""
    rows = []
    for temperature in (0.0, 0.6):
        made = DRAFTERS[drafter](target, weights=weights)
        rows += measure(target, made, Setting(drafter, "greedy", temperature, 4), prompts, max_new_tokens=64)
    return rows


def thinned(log: Sequence[dict[str, float]], rows: int = 40) -> list[dict[str, float]]:
    """The log in about ``rows`` rows, each the mean over the steps since the one before."""
    width = max(1, len(log) // rows)
    found = []
    for start in range(0, len(log), width):
        part = log[start : start + width]
        row = {"step": part[-1]["step"] + 1}
        for name in dict.fromkeys(name for one in part for name in one if name != "step"):
            values = [one[name] for one in part if name in one]
            row[name] = round(sum(values) / len(values), 4)
        found.append(row)
    return found
