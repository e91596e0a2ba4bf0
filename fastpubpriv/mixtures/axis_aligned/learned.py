"""What the learners of axis-aligned mixtures are asked, and what they answer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from fastpubpriv._types import FloatArray
from fastpubpriv.run import Run


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Task:
    """A call after its arguments have been checked. Everything here is public but the rows behind `run`."""

    run: Run
    n_components: int
    min_weight: float
    failure_prob: float
    candidates: int
    public: FloatArray | None = None
    held_out: int = 0  # rows in a hundred that "dp_em" keeps for a choice among its iterations
    known_std: bool = False  # every component has standard deviation one in every coordinate


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Learned:
    """A learnt mixture in the coordinates of the rows that the learner saw.

    `status` is "ok"; "fallback" when the mixture is a public stand-in that no private row speaks for; or "empty" when a stage of
    the search found nothing and a coarser answer was chosen. Decided from released values only.
    """

    weights: FloatArray
    means: FloatArray
    stds: FloatArray
    status: str = "ok"
    diagnostics: dict[str, Any] = field(default_factory=dict)
