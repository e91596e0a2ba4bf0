"""The record of a method for axis-aligned mixtures, what it is asked, and what it answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from fastpubpriv._types import BoolArray, FloatArray
from fastpubpriv.methods import Method
from fastpubpriv.mixtures.axis_aligned.run_time import choice_rows
from fastpubpriv.privacy import ApproxDP
from fastpubpriv.run import Run


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Task:
    """A call after its arguments have been checked. Everything here is public but the rows behind `run`."""

    run: Run
    n_components: int
    min_weight: float
    failure_prob: float
    candidates: int
    accuracy: float | None = None
    public: FloatArray | None = None
    held_out: int = 0  # rows in a hundred that "dp_em" keeps for a choice among its iterations
    known_std: bool = False  # every component has standard deviation one in every coordinate


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AxisMethod(Method):
    """A method of `learn_axis_aligned_mixture`.

    learn(task: Task) -> Learned; draws(n, dim, components, *, known_std); prepare(n, components, dim, accuracy, budget,
    failure_prob, *, known_std); predict(n, dim, components, n_pub, budget) -> (error, details), None where the error is that of the
    choice.
    """

    seconds: Callable[[int, int, int, int], float]  # rough run time for n, dim, components and the length of the list
    candidates: int = 0  # length of the list by default
    shares: tuple[int, ...] = (1,)  # of the rows, by stage; the last stage chooses among the candidates
    held_out_choices: int = 0  # how many answers rows held out choose among; 0 where none are
    most_columns: int | None = None
    choice_only: bool = False  # nothing is released but a choice: of an (epsilon, delta) only epsilon is spent
    refuses_inaccurate: bool = False  # `prepare` refuses where the wanted accuracy is not guaranteed
    details: Callable[[int, ApproxDP], dict[str, float]] | None = None  # of components and budget, for `plan`

    def choice_rows(self, n: int) -> int:
        """Rows that the choice among candidates is made on."""
        return choice_rows(n, self.shares)

    def choice_share(self, held_out: int) -> float:
        """Share of the rows that choose, where `held_out` in a hundred are held out."""
        return held_out / 100.0 if self.held_out_choices else self.shares[-1] / sum(self.shares)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Learned:
    """A learnt mixture in the coordinates of the rows that the learner saw.

    `unseen` (k,) marks components so narrow that a released histogram does not show their width, `low` (k,) those that noise hides.
    `status` is "ok"; "shortlist" when the choice was among the heaviest of the theorem's candidates; "fallback" when the mixture is
    a public stand-in that no private row speaks for; or "empty" when a stage of the search found nothing and a coarser answer was
    chosen. Decided from released values only.
    """

    weights: FloatArray
    means: FloatArray
    stds: FloatArray
    status: str = "ok"
    diagnostics: dict[str, Any] = field(default_factory=dict)
    unseen: BoolArray | None = None
    low: BoolArray | None = None
