"""Axis-aligned mixtures in several columns from private rows alone: range, groups, directions, sketch, and rounds from there.

Three disjoint blocks of interleaved rows. Pairs of the first show the scales of each column, the second the places of its values,
each at the whole (epsilon, delta). All releases on the third, `rest`, have Gaussian noise: their rhos add up to at most the
allowance. Cells of its columns give groups of rows that single columns separate (`column_modes`); Gram matrices of the groups give
directions of overlapping components, and sums of cosines and sines the mixture along them (`sketch`). From there a few rounds of
private expectation-maximization go on, and a count of the fit is the last release. Privacy note: `mechanisms/notes/sketch.md`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from scipy.special import ndtri

from fastpubpriv._types import FloatArray
from fastpubpriv.errors import warn
from fastpubpriv.mixtures import mixture_tuning as tuning
from fastpubpriv.mixtures.axis_aligned import candidates, column_modes, dp_em, em
from fastpubpriv.mixtures.axis_aligned.column_modes import ColumnModes
from fastpubpriv.mixtures.axis_aligned.em import AxisMethod, LearnedMixture, Mixtures, Task
from fastpubpriv.mixtures.axis_aligned.sketch_start import (
    Frames,
    ProjectedShares,
    find_components,
)
from fastpubpriv.mixtures.fit import (
    MOST_COUNTED,
    MeasuredFit,
    count_draws,
    count_share,
    gaussian_tv,
    measure,
)
from fastpubpriv.mixtures.list_decoding.results import SCALE_MASS
from fastpubpriv.mixtures.separated.soft_em import (
    LAST,
    StartState,
    early_share,
    unspent_share,
)
from fastpubpriv.privacy import ApproxDP
from fastpubpriv.privacy.conversions import gdp_mu
from fastpubpriv.privacy.spending import WHOLE, Spending, spending_of
from fastpubpriv.results.reasons import Reason
from fastpubpriv.session import Session
from fastpubpriv.sources import Rows
from fastpubpriv.sources.views import ChosenColumns, DistantPairs, each_row, interleave_rows

EpsilonDelta = tuple[Fraction, Fraction]

# ---- Blocks of rows, and shares of the budget, from public numbers.


@dataclass(frozen=True, slots=True)
class BlockShares:
    """Shares of the rows: for pairs (0 where variances are known) and for places; and the maximum number of scales of a column."""

    pairs: float
    places: float
    scales: int

    @classmethod
    def of(cls, n: int, dim: int, k: int, cost: EpsilonDelta, *, known_std: bool) -> BlockShares:
        """Return the shares that thresholds of histograms at this (epsilon, delta) ask for."""
        scales = 1
        for more in range(2, 1 if known_std else tuning.COLUMN_SCALES + 1):
            if threshold(more * dim, cost) <= tuning.MOST_THRESHOLD * n:
                scales = more
        least, most, many = tuning.PLACE_ROWS
        of_component, few = tuning.PLACE_THRESHOLDS
        visible = threshold(dim * min(scales, k + 1), cost) / n
        if few * visible > most:
            most = many
        places = min(max(of_component * k * visible, least), most)
        if known_std:
            return cls(0.0, places, scales)
        at_least, of_pairs, most = tuning.PAIR_THRESHOLDS
        visible = threshold(dim, cost) / n
        # only pairs within a component show its scale
        wanted = max(at_least * visible, min(of_pairs * k * k * visible, most))
        fewest, most = tuning.PAIR_ROWS
        return cls(min(max(wanted, fewest), most), places, scales)

    @property
    def rest(self) -> float:
        """Share of the other rows."""
        return 1.0 - self.pairs - self.places

    def split(self, rows: Rows) -> tuple[Rows | None, Rows, Rows]:
        """Return the pairs of the first block, None where variances are known; the rows for places; and the rest."""
        shares = [self.places, self.rest]
        if self.pairs:
            shares.insert(0, self.pairs)
        thousandths = [round(1000.0 * share) for share in shares]
        *before, places, rest = interleave_rows(rows, *thousandths)
        pairs = DistantPairs(before[0]) if before else None
        return pairs, places, rest


def threshold(histograms: int, cost: EpsilonDelta) -> float:
    """Return the least count that so many joint stable histograms release at an (epsilon, delta), within 15 percent.

    A count of noise alone is released with probability delta; Gaussian noise is better for several histograms (`stable_event`).
    """
    epsilon, delta = cost
    hidden = float(delta) / histograms
    noise_std = math.sqrt(2.0 * histograms) / gdp_mu(epsilon, delta)
    gaussian = -noise_std * float(ndtri(hidden))
    scale = 2.0 * histograms / float(epsilon)
    exponential = -scale * math.log(2.0 * hidden)
    return 1.0 + min(gaussian, exponential)


@dataclass(frozen=True, slots=True, kw_only=True)
class StartPlan:
    """Shares of the Gaussian allowance of `rest`, and the number of early rounds, from public numbers."""

    early: Fraction  # share of an early round
    rounds: int  # maximum number of early rounds; at least EARLY_ROUNDS
    count: Fraction  # share of the count of the fit

    @classmethod
    def of(cls, n: int, dim: int, k: int, spending: Spending, *, known_std: bool) -> StartPlan:
        """Return the plan for n rows of `rest`."""
        noise = dp_em.whole_noise(dim, spending, known_std=known_std, wider=tuning.AXIS_EARLY_CLIP)
        relative = noise * math.sqrt(2.0 * dim) * k / n
        return cls.of_noise(relative, spending, diagonal=True)

    @classmethod
    def of_noise(cls, relative: float, spending: Spending, *, diagonal: bool) -> StartPlan:
        """Return the plan for the relative noise of the covariances in one round that costs all of `spending`."""
        share = early_share(relative, spending, diagonal=diagonal)
        rounds = min(int(tuning.BEFORE_LAST / share), tuning.MOST_MORE)
        early = Fraction(share).limit_denominator(10**6)
        return cls(early=early, rounds=rounds, count=count_share(spending))

    @property
    def least_last(self) -> Fraction:
        """Smallest share of the last round, which gets what the stages before it leave."""
        started = sum(tuning.START_SHARES, self.count)
        return 1 - started - self.rounds * self.early


def costs_of(spending: Spending) -> dict[str, Spending]:
    """Return what each release of the start may cost."""
    shares = tuning.START_SHARES._asdict()
    return {name: spending.part(share) for name, share in shares.items()}


def longest_sketch(components: int) -> int:
    """Return the maximum length of the statistic of a row: cosines and sines of each group."""
    return 2 * tuning.FREQUENCIES[1] * components


def most_draws(n: int, dim: int, n_components: int, *, known_std: bool) -> int:
    """Return an upper bound on the noise draws of a run."""
    width = dp_em.statistic_dim(n_components, dim, known_std=known_std)
    rounds = (tuning.MOST_MORE + 2) * width
    histograms = (tuning.COLUMN_SCALES + 1) * n * dim
    cells = (candidates.MOST_EDGES + n_components * n_components) * dim + tuning.MOST_COMBINATIONS
    start = n_components * (dim + 1) ** 2 + longest_sketch(n_components)
    return histograms + cells + start + rounds + count_draws(n_components) + 2**16


def check(
    task: Task, pairs: Rows | None, places: Rows, n_rest: int, scales: int, plan: StartPlan
) -> None:
    """Raise before the debit if a stage has no noise grid or memory; warn if rows are too few, all by public numbers."""
    rounds = [tuning.START_SHARES.first, plan.early, plan.least_last, WHOLE]
    check_round = partial(dp_em.check, known_std=task.known_std, shares=rounds)
    for parts in range(1, task.n_components + 1):
        check_round(task.run.account, n_rest, task.run.rows.dim, parts)
    check_start(task, pairs, places, n_rest, scales, plan)


def check_start(
    task: Task, pairs: Rows | None, places: Rows, n_rest: int, scales: int, plan: StartPlan
) -> None:
    """Raise or warn, as `check` does, by all stages but the rounds."""
    # Checked for the maximum numbers: fewer histograms or components need less.
    run = task.run
    dim = run.rows.dim
    k = task.n_components
    event = candidates.check_stages(run, pairs, places, dim * scales)
    costs = costs_of(run.account.spending)
    of_column = Fraction(1, dim)
    for name in ("cells", "matching"):
        costs[name].part(of_column).grid("count", 1, n_rest)
    costs["combinations"].grid("count", tuning.MOST_COMBINATIONS, n_rest)
    costs["sketch"].grid("sum", longest_sketch(k), n_rest)
    count = run.account.spending.part(plan.count)
    count.grid("count", count_draws(k), n_rest)
    for parts in range(1, k + 1):
        costs["grams"].grid("shared", dim + 1, n_rest, parts=parts)
    # Then not even rows of one component, or all in one cell, would reach the thresholds.
    lacking = (event.count_threshold + 2.0 * event.count_noise_std) / places.n
    if pairs is not None:
        needed = threshold(dim, run.account.approx_left) / SCALE_MASS
        lacking = max(lacking, needed / pairs.n)
    if lacking > 1.0:
        n = run.rows.n
        needed_rows = math.ceil(lacking * n)
        warn(
            f"{run.account.name}: {n} rows in {dim} columns are too few for {task.start_name} here: it takes about "
            f"{needed_rows} in one place for it to show; pass more rows, a larger budget, fewer columns, or public "
            "rows (x_pub)",
        )


# ---- Rounds.


def run_rounds(
    task: Task, run: Session, frames: Frames, shares: ProjectedShares, plan: StartPlan
) -> StartState:
    """Release a first round of the components, early rounds while they move, and one with everything that is left."""
    floor = em.STD_FLOOR * frames.deviations.max(axis=0)
    nobody = np.zeros((0, run.rows.dim))
    one_round = partial(dp_em.advance, run, nobody, known_std=task.known_std, floor=floor)
    of_groups = frames.rows / frames.rows.sum()
    within = np.concatenate([fit.weights[0] for fit in shares.fits])
    group_of = shares.group_of
    weights = of_groups[group_of] * within
    at = Mixtures(weights, frames.centers[group_of], frames.deviations[group_of])
    state = StartState(name="sketch", at=dp_em.parameters_of(at), assigned=shares)
    state = one_round(state, share=tuning.START_SHARES.first, name="first round")
    if task.known_std:
        stds = np.ones(state.at.means.shape)
        at = Mixtures(state.at.weights, state.at.means, stds)
        state = replace(state, at=dp_em.parameters_of(at))
    return rounds_from(run, state, one_round, plan)


def rounds_from(
    run: Session, state: StartState, one_round: Callable[..., StartState], plan: StartPlan
) -> StartState:
    """Release early rounds while components move, and one with everything that is left."""
    for number in range(plan.rounds):
        if number >= tuning.EARLY_ROUNDS and state.moved < tuning.SETTLED:
            break
        state = one_round(state, share=plan.early, name=f"round {number + 1}")
    # Shares of releases that were not needed are not lost: rhos add up even if shares depend on released values.
    return one_round(state, share=unspent_share(run), name=LAST)


def count_of_fit(
    run: Session,
    columns: list[ColumnModes],
    *,
    weights: FloatArray,
    means: FloatArray,
    covariances: FloatArray,
) -> MeasuredFit:
    """Release the count of the fit, by the columns of values that are not rounded.

    Without such columns it is by all of them, and no reason follows: steps of rounded values look like a misfit.
    """
    smooth = tuple(j for j, column in enumerate(columns) if column.smooth)
    counted = smooth or tuple(range(len(columns)))
    if len(counted) < len(columns):
        chosen = ChosenColumns(counted)
        run = run.on(each_row(run.rows, chosen, len(counted)))
    covariances = covariances[:, counted][:, :, counted]
    means = means[:, counted]
    weights = weights / weights.sum()
    nobody = np.zeros((0, len(counted)))
    fit = measure(run, weights, means, covariances, public=nobody)
    return replace(fit, graded=bool(smooth))


@dataclass(frozen=True, slots=True)
class ShownPlaces:
    """Released places of the values of each column, shares of tied pairs, bounds on steps, and the rows that showed the places."""

    places: list[list[candidates.DyadicScale]]
    tied: list[float]
    steps: list[float]
    rows: int

    @classmethod
    def of(cls, task: Task, pairs: Rows | None, rows: Rows, scales: int) -> ShownPlaces:
        """Release scales of the columns by pairs, and places by `rows`."""
        shown = candidates.shown_scales(task.run, pairs, scales, task.n_components)
        of_columns, tied, steps = shown
        places = candidates.shown_places(task.run.block(rows), of_columns)
        return cls(places, tied, steps, rows.n)

    def release_columns(self, task: Task, run: Session, cost: Spending) -> list[ColumnModes]:
        """Release cells of the columns by the rows of `run`; return the fit of each column."""
        marginals = partial(column_modes.marginals, tied=self.tied, steps=self.steps, cost=cost)
        return marginals(task, run, self.places, self.rows)


def learn(task: Task) -> LearnedMixture:
    """Run all stages."""
    rows = task.run.rows
    account = task.run.account
    dim = rows.dim
    k = task.n_components
    known_std = task.known_std
    shares = BlockShares.of(rows.n, dim, k, account.approx_left, known_std=known_std)
    pairs, place_rows, rest = shares.split(rows)
    plan = StartPlan.of(rest.n, dim, k, account.spending, known_std=known_std)
    check(task, pairs, place_rows, rest.n, shares.scales, plan)
    account.open()
    shown = ShownPlaces.of(task, pairs, place_rows, shares.scales)
    run = task.run.block(rest)
    costs = costs_of(account.spending)
    columns = shown.release_columns(task, run, costs["cells"])
    if not any(column.fit.size for column in columns):
        nothing = em.choose(run, candidates.nothing(), diagnostics={"anchors": []})
        return em.measured(task, nothing, run)
    groups = column_modes.find_groups(task, run, columns, costs["combinations"], costs["matching"])
    frames = Frames.of(groups, rest.n)
    assigned = find_components(k, run, groups, frames, costs)
    state = run_rounds(task, run, frames, assigned, plan)
    facts: dict[str, Any] = {"anchors": groups.chosen, "groups": groups.size}
    facts["directions"] = [len(each.matrix) for each in assigned.projections.values()]
    facts["rounds"] = state.rounds
    facts["tied_share"] = [column.tied for column in columns]
    facts["step"] = [column.step for column in columns]
    at = dp_em.mixtures_of(state.at)
    learned = LearnedMixture(weights=at.weights, means=at.means, stds=at.stds, diagnostics=facts)
    is_whole = all(column.is_known for column in columns)
    low = dp_em.lost_in_noise(at.weights, dim, rest.n, 0, state.count_std)
    within = task.bounded(learned)
    fit = count_of_fit(
        run, columns, weights=within.weights, means=within.means, covariances=within.covariances
    )
    reason = None if is_whole else Reason.FALLBACK
    return replace(learned, reason=reason, low=low, fit=fit, predicted=gaussian_tv(*state.errors))


def seconds(n: int, dim: int, components: int, size: int) -> float:
    """Return the run time of a search on each column, a sketch and its fit, and rounds."""
    rounds = tuning.MOST_MORE * n * components * dim * 3.0 * em.ROW_SECONDS
    search = dim * em.SEARCH_SECONDS * min(components, tuning.COLUMN_MODES) / 2.0
    sketched = min(n, MOST_COUNTED) * tuning.FREQUENCIES[1] * 8.0 * em.ROW_SECONDS
    return search + rounds + sketched + components


def predict(
    n: int, dim: int, components: int, n_pub: int, budget: ApproxDP
) -> tuple[float, dict[str, float]]:
    """Return the expected l2 error of the mean of an average component, in its standard deviations, and comparisons."""
    spending = spending_of(budget, most_draws(n, dim, components, known_std=False))
    cost = budget.epsilon, budget.delta
    rest = n * BlockShares.of(n, dim, components, cost, known_std=False).rest
    plan = StartPlan.of(max(round(rest), 1), dim, components, spending, known_std=False)
    noise = dp_em.whole_noise(dim, spending.part(plan.least_last)) / rest
    error = components * math.sqrt(dim * (1.0 / (components * rest) + noise**2))
    return error, {"rows_of_rounds": rest, "without_privacy": math.sqrt(dim * components / n)}


METHOD = AxisMethod(
    name="sketch",
    learn=learn,
    draws=most_draws,
    predict=predict,
    seconds=seconds,
    needs_delta=True,
    columns="several",
    least_rows=tuning.START_LEAST_ROWS,
)
