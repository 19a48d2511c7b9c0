"""What the paper reports, to stand beside our figures: V. Beliaev, Agon, 2026, arXiv 2607.07690.

Accuracies are percent of 300 held-out problems, lengths thousands of tokens of the final stage. Every trained figure of
the paper is one training run. The names are those of its LaTeX labels.
"""

from dataclasses import dataclass

CITED = "V. Beliaev, Agon: Competitive Cross-Model RL with Implicit Rival Grading of Reasoning, 2026, arXiv 2607.07690"
SETTING = "Qwen3-0.6B on DeepMath-103K, difficulty 8"


@dataclass(frozen=True)
class Reported:
    """A figure of the paper: percent, its interval where it has one, and thousands of tokens of the final stage."""

    accuracy: float
    interval: tuple[float, float] | None = None
    length: float | None = None


# tab:main and tab:ci; margin and fixed-roles from tab:ablations, agon-density from tab:density.
MAIN: dict[str, Reported] = {
    "zero-shot": Reported(23, (18.4, 28.3), 6.1),
    "grpo": Reported(30, (25.0, 35.4), 8.1),
    "self-refine": Reported(32, (26.9, 37.5), 7.9),
    "grpo, two passes": Reported(35, (29.7, 40.7), 8.0),
    "moa": Reported(34, (28.8, 39.5), 6.9),
    "shared": Reported(32, (26.9, 37.5), 7.4),
    "coop": Reported(46, (40.3, 51.8), 5.1),
    "agon": Reported(61, (55.2, 66.6), 3.5),
    "margin": Reported(49),
    "fixed-roles": Reported(52),
    "agon-density": Reported(60, None, 2.6),
}
MAIN_SOURCE = "tab:main, tab:ci, tab:ablations, tab:density"

# tab:scaling: zero-shot, grpo, agon.
SCALING: dict[str, tuple[float, float, float]] = {
    "qwen3-0.6b": (23, 30, 61),
    "qwen3-1.7b": (38, 46, 70),
    "qwen3-4b": (52, 59, 71),
    "qwen3.5-2b": (44, 50, 70),
    "gemma-4-e4b": (50, 58, 73),
}

# tab:transfer, on Qwen3-0.6B.
TRANSFER: dict[str, dict[str, float]] = {
    "gsm8k": {"zero-shot": 62, "grpo": 68, "agon": 75},
    "math-500": {"zero-shot": 45, "grpo": 52, "agon": 64},
}

# tab:code, Qwen3-1.7B on CodeContests EASY.
CODE: dict[str, Reported] = {
    "zero-shot": Reported(18, None, 5.2),
    "grpo": Reported(24, None, 7.3),
    "coop": Reported(29, None, 4.8),
    "agon": Reported(34, None, 3.9),
}

# fig:results (b): accuracy after so many training problems.
PROBLEMS = (0, 500, 1000, 1500, 2000, 2500, 3000)
OVER_TRAINING: dict[str, tuple[float, ...]] = {
    "grpo": (23.0, 28.3, 29.7, 31.3, 29.3, 30.7, 30.0),
    "self-refine": (26.0, 27.7, 31.7, 30.3, 33.0, 31.7, 32.0),
    "coop": (34.0, 36.3, 41.3, 43.7, 45.3, 44.7, 46.0),
    "agon": (35.0, 41.7, 45.3, 50.7, 54.3, 58.3, 61.0),
}


@dataclass(frozen=True)
class Ablation:
    """A factor of tab:ablations (or of ours, which the paper has not): the variant and what it is held against."""

    factor: str
    variant: str
    against: str

    @property
    def reported(self) -> float | None:
        """The paper's difference in points."""
        one, other = MAIN.get(self.variant), MAIN.get(self.against)
        return other.accuracy - one.accuracy if one and other else None


ABLATIONS = (
    Ablation("competition (reward)", "coop", "agon"),
    Ablation("information exchange", "shared", "agon"),
    Ablation("reward form", "margin", "agon"),
    Ablation("role assignment", "fixed-roles", "agon"),
    Ablation("length tiebreak", "agon-density", "agon"),
    Ablation("competition without exchange", "hidden", "agon"),
    Ablation("pressure against shaping", "shuffled", "agon"),
)
