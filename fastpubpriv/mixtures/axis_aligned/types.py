"""The record of a method for axis-aligned mixtures, its problem and its answer, and columns of rounded values.

Where many rows share a value (counts, answers, constants), a density says little about them, and a status says so. Nothing is
released for it. Differences of pairs of rows are counted in dyadic bins, and a difference of zero is in none of them: what the
released counts leave unexplained, beyond what a threshold may hide, are pairs that tie. Public rows show theirs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fastpubpriv._types import BoolArray, FloatArray
from fastpubpriv.mechanisms.candidates import Hypotheses
from fastpubpriv.mechanisms.histograms import StableRelease
from fastpubpriv.mechanisms.selection import HypothesisChoice, epsilon_of, law_for, prepare
from fastpubpriv.mixtures.axis_aligned.em import Mixtures
from fastpubpriv.privacy import ApproxDP
from fastpubpriv.session import Method, Run

# The record of a method for axis-aligned mixtures, what it is asked, and what it answers.

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


# Of a Gaussian's differences the threshold hides a few bins of its tails: their counts halve from bin to bin.
HIDDEN_BINS = 4.0
DEVIATIONS = 3.0
# Widths in steps from which a lattice is as good as a density, and how many times more ties than a lattice makes are no lattice's.
STEPS_WIDE = 2.0
MOST_UNEXPLAINED = 3.0
# The share of pairs of public rows that tie in a column of atoms, and the fewest that show it.
PUBLIC_SHARE = 0.05
LEAST_TIED = 3
# A component narrower than another one by this factor may stand for one value.
NARROW = 100.0
# A width below this share of the mean's size is the rounding of numbers.
ROUNDING = 1e-9


def tied_shares(found: StableRelease, pairs: int, components: int) -> list[float]:
    """For each column the share of its pairs that tie, from the released dyadic bins of their differences; 0 if none need to."""
    shares = []
    for histogram in found.histograms:
        hidden = HIDDEN_BINS * found.threshold * components
        hidden += DEVIATIONS * found.noise_std * math.sqrt(max(1, len(histogram.counts)))
        missing = pairs - float(np.sum(histogram.counts))
        shares.append(missing / pairs if missing > hidden else 0.0)
    return shares


def finest_differences(found: StableRelease) -> list[float]:
    """For each column an upper bound of the step between values: the end of the finest released bin; inf where there is none."""
    return [
        math.ldexp(1.0, min(int(np.min(histogram.keys)) + 1, 1023)) if len(histogram.keys) else math.inf
        for histogram in found.histograms
    ]


def public_ties(x_pub: FloatArray) -> tuple[list[float], list[float]]:
    """For each column the share of pairs of public rows that tie, 0 below what chance and rounding may do, and the least step."""
    n_pub = len(x_pub)
    shares, steps = [], []
    for column in x_pub.T:
        values, counts = np.unique(column, return_counts=True)
        tied = float(np.sum(counts * (counts - 1.0))) / 2.0
        share = tied / max(1.0, n_pub * (n_pub - 1.0) / 2.0)
        shares.append(share if tied >= LEAST_TIED and share > PUBLIC_SHARE else 0.0)
        gaps = np.diff(values)
        gaps = gaps[gaps > ROUNDING * float(np.abs(values).max())]
        steps.append(float(gaps.min()) if len(gaps) else math.inf)
    return shares, steps


def expected_ties(weights: FloatArray, means: FloatArray, stds: FloatArray, step: float) -> float:
    """Share of pairs of a mixture (k,) on the line that tie when its values are rounded to multiples of `step`."""
    spread = np.hypot(stds[:, None], stds)
    apart = np.minimum(np.abs(means[:, None] - means) / np.maximum(spread, 1e-300), 40.0)
    same = np.minimum(step * np.exp(-0.5 * apart**2) / (math.sqrt(2.0 * math.pi) * np.maximum(spread, 1e-300)), 1.0)
    return float(weights @ same @ weights)


def atoms_of(
    weights: FloatArray, means: FloatArray, stds: FloatArray, tied: list[float], steps: list[float]
) -> BoolArray:
    """Which components (k,) of a mixture (k,), (k, dim) stand for values that many rows share.

    In a column of ties those that are not much wider than the step between its values; all of them where that does not explain
    the ties. Whole minutes of a component that is many minutes wide are as good as a density.
    """
    found = np.zeros(len(weights), dtype=bool)
    for j, (share, step) in enumerate(zip(tied, steps, strict=True)):
        if share > 0.0:
            explained = expected_ties(weights, means[:, j], stds[:, j], step)
            found |= (stds[:, j] < STEPS_WIDE * step) | (share > MOST_UNEXPLAINED * explained)
    return found


def component_status(
    learned: Learned, tied: list[float], steps: list[float], *, known_std: bool = False
) -> tuple[str, ...]:
    """For each component: the learner's status, "atoms" in a column of ties, "low_count", "narrow", or "ok"."""
    weights, means, stds = learned.weights, learned.means, learned.stds
    if learned.status == "fallback":
        return (learned.status,) * len(means)
    atoms = atoms_of(weights / weights.sum(), means, stds, tied, steps)
    if learned.status == "empty" and learned.unseen is not None:
        atoms = (
            atoms | learned.unseen
        )  # no two rows differ by a scale that shows, and cells of every size show no width
    size = np.abs(means).max(axis=0)
    narrow = np.any((stds * NARROW < stds.max(axis=0)) | (stds < ROUNDING * size), axis=1)
    if learned.unseen is not None and not known_std:
        narrow = narrow | learned.unseen
    low = np.zeros(len(means), dtype=bool) if learned.low is None else learned.low
    words = []
    for place in range(len(means)):
        if atoms[place]:
            words.append("atoms")
        elif learned.status != "ok":
            words.append(learned.status)
        else:
            words.append("low_count" if low[place] else "narrow" if narrow[place] else "ok")
    return tuple(words)
