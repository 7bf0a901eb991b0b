"""What papers report of training for several tokens: the figures behind B9 and B10, read from their tables.

Takes: nothing.  Returns: rows.
Must not know: any model; nothing here was measured by this project.

In all of these rows both models are decoded one token at a time. What differs is how they were trained.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Reported:
    """One line of a paper's table. paper: arXiv id.  table: its number there.  model: in words.

    plain, trained: the score (percent) after training for the next token, and for more tokens as well.
    """

    paper: str
    table: str
    model: str
    benchmark: str
    plain: float
    trained: float

    @property
    def points(self) -> float:
        """The difference in percentage points."""
        return self.trained - self.plain

    @property
    def relative(self) -> float:
        """The difference as a share of the plain score."""
        return self.trained / self.plain - 1


def _gloeckle(benchmark: str, scores: dict[str, tuple[float, float]]) -> list[Reported]:
    return [
        Reported("2404.19737", "S7", f"{size}, 4 tokens", benchmark, plain, trained)
        for size, (plain, trained) in scores.items()
    ]


def _deepseek(benchmark: str, small: tuple[float, float], large: tuple[float, float]) -> list[Reported]:
    models = {"MoE 15.7B, 1 more token": small, "MoE 228.7B, 1 more token": large}
    return [Reported("2412.19437", "4", model, benchmark, *scores) for model, scores in models.items()]


#: Gloeckle et al., "Better & Faster Large Language Models via Multi-token Prediction", table S7, pass@1, code models;
#: DeepSeek-AI, "DeepSeek-V3 Technical Report", table 4, the module dropped for decoding.
REPORTED: tuple[Reported, ...] = (
    *_gloeckle(
        "HumanEval",
        {
            "0.3B": (1.9, 1.2),
            "0.6B": (2.9, 2.7),
            "1.3B": (4.6, 4.8),
            "3B": (7.2, 7.2),
            "6.7B": (12.8, 13.8),
            "13B": (14.1, 15.8),
        },
    ),
    *_deepseek("HumanEval", (20.7, 26.8), (44.5, 53.7)),
    *_deepseek("MBPP", (35.8, 36.8), (61.6, 62.2)),
    *_deepseek("GSM8K", (25.4, 31.4), (72.3, 74.0)),
    *_deepseek("MMLU", (50.0, 53.3), (67.5, 66.6)),
    *_deepseek("TriviaQA", (56.9, 57.7), (67.0, 67.3)),
    *_deepseek("NaturalQuestions", (22.7, 22.3), (27.2, 28.5)),
)
