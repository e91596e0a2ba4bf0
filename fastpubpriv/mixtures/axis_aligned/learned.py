"""The record of a method for axis-aligned mixtures, what it is asked, and what it answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fastpubpriv._types import BoolArray, FloatArray
from fastpubpriv.mechanisms.selection.candidates import Hypotheses
from fastpubpriv.mechanisms.selection.hypotheses import HypothesisChoice, epsilon_of, law_for, prepare
from fastpubpriv.methods import Method
from fastpubpriv.mixtures.axis_aligned.binned_em import Mixtures
from fastpubpriv.privacy import ApproxDP
from fastpubpriv.run import Run

# ---- The last stage of the learners: a private choice among the candidates -------------------------------------------


def hypotheses_of(weights: FloatArray, means: FloatArray, stds: FloatArray) -> Hypotheses:
    """A list for the selection from (m, k), (m, k, dim) and (m, k, dim); entries that are not usable are left out."""
    with np.errstate(all="ignore"):
        usable = np.isfinite(weights).all(axis=1)
        total = np.where(usable, weights.sum(axis=1), 1.0)
        return Hypotheses.from_arrays(weights / total[:, None], means, stds**2)


def line(mixtures: Mixtures) -> Hypotheses:
    """The same for mixtures on the line."""
    return hypotheses_of(mixtures.weights, mixtures.means[:, :, None], mixtures.stds[:, :, None])


def choose(task: Task, run: Run, listed: Mixtures | Hypotheses, *, status: str, diagnostics: dict[str, Any]) -> Learned:
    """Select one candidate by the rows of a run, with all of its account's budget; a public stand-in when there is none."""
    hypotheses = line(listed) if isinstance(listed, Mixtures) else listed
    facts = {**diagnostics, "candidates": hypotheses.size}
    dim = run.rows.dim
    if hypotheses.size == 0:
        return Learned(
            weights=np.ones(1), means=np.zeros((1, dim)), stds=np.ones((1, dim)), status="fallback", diagnostics=facts
        )
    index = 0
    if hypotheses.size > 1:
        account = run.account
        if isinstance(account.budget, ApproxDP):
            law, epsilon = "permute_and_flip", account.approx_left[0]
        else:
            law = law_for(account)
            epsilon = epsilon_of(account.allowance, law, pure=account.pure)
        method, evaluation = prepare(hypotheses, run.rows.n, threads=run.executor.threads)
        choice = HypothesisChoice(evaluation=evaluation, size=hypotheses.size, law=law)
        index = run.release(choice, name="choice", cost=epsilon, method=method).index
    facts["chosen"] = int(hypotheses.positions[index])
    present = hypotheses.weights[index] > 0.0
    return Learned(
        weights=hypotheses.weights[index][present],
        means=hypotheses.means[index][present],
        stds=np.sqrt(hypotheses.spreads[index][present]),
        status=status,
        diagnostics=facts,
    )


# ---- Rough run times of the methods on one core of a small shared machine, fitted to a table of runs: an order of
# magnitude, no more
# All take (n, dim, components, size), `size` being the length of the list.

_SEARCH_SECONDS = 0.25  # of candidates for one column, for each component
_ROW_SECONDS = 4e-9  # of a pass, for each number that a row is turned into
_PAIR_SECONDS = 5e-8  # of two candidates on the line
_DENSITY_SECONDS = 2.5e-11  # of a product of densities in more columns


def choice_rows(n: int, shares: tuple[int, ...]) -> int:
    """Rows that the choice among candidates is made on: the last block."""
    return max(1, n * shares[-1] // sum(shares))


def iterating(n: int, dim: int, components: int, size: int, *, steps: int) -> float:
    """EM in passes over the rows."""
    return 0.1 + steps * n * components * dim * 12.0 * _ROW_SECONDS


def on_the_line(n: int, dim: int, components: int, size: int) -> float:
    """A search on one column, and a choice by public cells."""
    return _SEARCH_SECONDS * components + 60.0 * n * _ROW_SECONDS + size * size / 2.0 * _PAIR_SECONDS / 10.0


def _densities(dim: int, components: int, size: int, rows: int) -> float:
    return 2.0 * (size * size / 2.0) * components * (dim + 4) * (1024 + rows / 2.0) * _DENSITY_SECONDS


def column_by_column(n: int, dim: int, components: int, size: int, *, steps: int, shares: tuple[int, ...]) -> float:
    """A search on each column, EM, and a choice by densities."""
    work = steps * n * components * dim * 3.0 * _ROW_SECONDS
    search = dim * _SEARCH_SECONDS * components / 2.0
    return search + work + _densities(dim, components, size, choice_rows(n, shares))


def choosing(n: int, dim: int, components: int, size: int, *, shares: tuple[int, ...] = (1,)) -> float:
    """A list, and the choice from it."""
    if dim == 1:
        return 0.3 + (size * size / 2.0 * _PAIR_SECONDS + 60.0 * n * _ROW_SECONDS)
    return 0.3 + _densities(dim, components, size, choice_rows(n, shares))


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
