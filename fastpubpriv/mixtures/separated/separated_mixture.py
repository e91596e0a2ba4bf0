"""`learn_separated_mixture`: mixtures from many private rows and few public ones or none (paper A, Algorithms 3 to 10)."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from fastpubpriv import session, validation
from fastpubpriv._types import FloatArray, Keep, MixtureMethod, Mode, RowsPerPerson
from fastpubpriv.defaults import FAILURE_PROB
from fastpubpriv.errors import BudgetError, InputError, warn
from fastpubpriv.estimators.output_bounds import Box, bounded, checked_bounds
from fastpubpriv.estimators.radii import failure_probability
from fastpubpriv.estimators.user_level import user_level
from fastpubpriv.gaussians.public_prior import column_scales, constant_text
from fastpubpriv.kernels.mixture_rows import prepare
from fastpubpriv.mixtures import fit
from fastpubpriv.mixtures import mixture_tuning as tuning
from fastpubpriv.mixtures.axis_aligned import bounded_range, dp_em
from fastpubpriv.mixtures.axis_aligned.axis_method import Task
from fastpubpriv.mixtures.em_rounds import StartState, check_axis_rounds
from fastpubpriv.mixtures.public_em import (
    column_variances,
    without_far,
)
from fastpubpriv.mixtures.separated import searches, soft_em, without_public
from fastpubpriv.mixtures.separated.leaf_gaussians import (
    check_components,
    check_leaf_grids,
    leaf_draws,
    leaf_frames,
    lifted_errors,
    release_leaf_gaussians,
    search_facts,
    warn_if_hopeless,
    with_fit_of_leaves,
)
from fastpubpriv.mixtures.separated.public_shapes import (
    refuse_too_much,
)
from fastpubpriv.mixtures.separated.searches import SearchMethod, Shape
from fastpubpriv.mixtures.separated.soft_em import EmRoundPlan
from fastpubpriv.privacy import Budget, Ledger
from fastpubpriv.privacy.calibrated_budget import has_delta
from fastpubpriv.privacy.spending import noise_of
from fastpubpriv.results.mixture import MixtureResult
from fastpubpriv.results.reasons import Reason
from fastpubpriv.session import Session
from fastpubpriv.sources import Rows


@user_level
def learn_separated_mixture(
    x_priv: Any,
    *,
    x_pub: Any = None,
    n_components: int,
    budget: Budget,
    min_weight: float | None = None,
    method: MixtureMethod = "auto",
    mode: Mode = "practical",
    failure_prob: float = FAILURE_PROB,
    weight_floor: float = 0.05,
    bounds: Any = None,
    columns: Any = None,
    person: Any = None,
    keep: Keep | None = None,
    rows_per_person: RowsPerPerson | None = None,
    ledger: Ledger | None = None,
    random_state: int | None = None,
    threads: int | None = None,
    progress: bool | None = None,
) -> MixtureResult:
    """Weights, means and covariances of separated Gaussian components, found with the help of a few public rows.

    Parameters
    ----------
    x_priv : (n_priv, dim) array-like, path, frame, table or Rows
        Private rows.
        A row with a missing or infinite entry belongs to no component but counts in n_priv.
    x_pub : (n_pub, dim) array-like, path, frame or table, optional
        Public rows from the same mixture, not all equal, at least n_components of them; some of each component. If they have
        another distribution, only accuracy suffers. Without them see the notes.
    budget : ZCDP, ApproxDP or PureDP
        Spent whole, and debited before `x_priv` is read.
        PureDP is possible with "soft_em", which then starts from public rows alone, and with "public_pca". Without public rows it
        must be ApproxDP, unless `bounds` are finite in every column.
    bounds : (lowest, highest), optional
        What columns can hold, known without the data: numbers, or vectors (dim,); an end may be infinite. Means are clipped to
        them, and no Gaussian stays wider than a column within them can be. One whose mean lay more than one of its deviations
        outside says "clipped". Private rows are not clipped, and nothing is spent on it.
    columns : str, int or list of these, optional
        Numeric columns by name or, of an array, by number, the same for both data sets; by default all of `x_priv`, in their
        order. Where both data sets have names for their columns, these are matched by name.
        In any units: in mode "practical", the coordinates of the search are chosen from public rows
        (`diagnostics["scaling"]`).
    person : str or (n_priv,) array-like, optional
        Column that says whose row it is, or the identifiers themselves: the call then protects all rows of a person together
        (user-level privacy); say by `keep` or `rows_per_person` what stands for a person. Rows without an identifier are left
        out. A text that is a number in its usual form (7, -3, 7.0) is that number, whatever the form of the table; "07" and "7"
        are two persons. Whole numbers beyond 2^53 are rounded in columns of numbers: keep them as text. By default each row is
        protected by itself.
    keep : "row", "mean" or "sum", optional
        With `person`: "mean", for each column the mean of the numbers in the person's rows, so that each person counts once; or
        "sum", their sum (0 for a person without any), whose total is that of all rows. Public rows that have the column of
        persons are treated alike, others are of persons already. "row", which `rows_per_person` implies: rows.
    rows_per_person : int or "auto", optional
        With `person`: at most how many rows of each person are used, chosen as if at random. For k rows the budget is spent at
        row level with rho / k^2 or epsilon / k; "auto" chooses k with a sixteenth of it, and a given k spends 1/64 on how many
        persons have more rows: reason "rows_left_out" if surely more than 2 % do. Rows that a person does not have are in no
        count; a method that cannot tell them from rows at a center refuses k > 1 before the debit.

    n_components : int
        Maximum number of components, at most 64 without public rows. Fewer are returned if the rest cannot be distinguished.
    min_weight : float in (0, 1 / n_components], optional
        Share of the rows in the smallest component; smaller groups are not split off. The default is half an equal share, and
        without public rows at most a tenth.
    method : "auto", "tree", "one_shot", "public_pca" or "soft_em"
        "soft_em": expectation-maximization with soft responsibilities, in rounds of private second moments, from public fits whose
        components may differ in scale by any factor, and from k-means groups of few public rows; for components that overlap, for
        any scales, and for columns that are not too many for the rows and the budget. If noise would be about as large as a
        covariance, and public rows show no correlations within components, it learns variances alone ("diagonal" in `structure`),
        without the noise of correlations. The others find components first, and then
        learn a Gaussian for each, by such rounds from these labels. "tree": private principal directions, then a ball along a
        valley of a released histogram, repeatedly; for components of any scale and 10, better 20 public rows each. "one_shot":
        private principal directions once, then the nearest of the centers of the public rows; for components of comparable scale
        and 2 to 10 public rows each, above all if these are fewer than the columns. "public_pca": public rows alone find the
        components. "auto" is "soft_em" in mode "practical"; else it depends on n_pub, dim, n_components, min_weight and the notion
        of the budget. Without public rows it is "soft_em".
    mode : "practical" or "theory"
        The searches above, or paper A's Algorithms 6 and 7 ("tree") and 9 and 10 ("public_pca"), which need separations of about
        a hundred standard deviations. Same privacy. "theory" needs public rows.
    failure_prob : float in (0, 1), default 0.05
        Probability with which a bound of this call may fail. A failure costs accuracy, never privacy.
        The bounds are those derived from the public rows.
    weight_floor : float in (0, 1)
        No weight is reported below weight_floor / n_components: this share of an equal weight.

    ledger : Ledger, optional
        Debited before the first read, by what `budget` says is spent.
    random_state : None or int
        None: fresh operating-system keys. int: repeatable, warned about, `private=False`.
    threads : int, optional
        Number of threads; by default one for each core. Passes over few numbers wake none. Never changes the answer.
    progress : bool, optional
        Whether a progress bar is shown; by default on a terminal, for long work.

    Returns
    -------
    MixtureResult
        `weights`, `means`, `covariances` and `part_reasons` of the components found, the released `tree` that sends a row to its
        component (None for "soft_em", whose `predict` does), and `diagnostics` (noisy counts, predictions, balls, cuts, depth,
        shares; `predicted_total_variations`, of mode "practical"; `unexplained`: the share of rows far from every component).
        `fit_distance` and `fit_interval` say by how many of the rows the answer differs from them, as far as a noisy count shows
        it, and the reasons grade that; they do not say whether components are groups that you know. With fewer components than
        requested in mode "theory", all are "unresolved": one of them may stand for several.

    Raises
    ------
    InputError, BudgetError, LedgerError
        For public data and arguments, the form of the private data, and the budget. Never for the content of `x_priv`.

    Privacy
    -------
    Protected: every private row, against replacement by any other, whatever the public rows are. Public: n_priv, dim, x_pub,
    all arguments. Private rows are never partitioned: each pass routes them down a tree of released values, and nothing is
    divided by a private size. The exact costs add up to at most the budget on every path. Released:

    - mode "practical": for a search by private rows, second moments within nodes of the tree and counts of their rows along a
      direction or by distance, at most so many on a path as the tree was paid for (three tenths of the budget); rounds of second
      moments of all components, at the price of those of a single one; for "soft_em"
      noisy scores of the starts, or a choice among them, and of the rounds;
    - mode "theory": the same search; then for all leaves at once counts, which cost nothing more, second moments and sums;
    - without public rows: two stable histograms, on two disjoint blocks of rows that public numbers fix, each with the whole
      (epsilon, delta); on the other rows counts of cells, second moments of groups, sums of bounded statistics and such rounds.
      Within bounds and without a delta counts of cells of all rows take the place of the two blocks;
    - always a count of the fit, for a fiftieth of the budget (of an epsilon, a twentieth).

    Proofs: `notes/leaf_counts.md`, `notes/leaf_sums.md`, `notes/leaf_second_moments.md` (with the price of a tree),
    `notes/soft_gram.md`, `notes/statistic_sum.md`, `notes/noisy_scores.md`, `notes/hypotheses.md`, `notes/sketch.md`,
    `notes/code_counts.md`.

    See Also
    --------
    learn_axis_aligned_mixture : components without correlations, which may be nearer to each other.
    estimate_gaussian : one component.
    select_hypothesis : the best of a list of mixtures that is known beforehand.
    public_only : the fit of the public rows, to compare with.

    Notes
    -----
    Paper A, Algorithms 3 to 10. Departs from it: the accounting, which has to pay for the two clusters that a replaced row
    changes and for the three counts of a ball query; the least radius of the partitioner, at which the printed search stops
    too early; in practical mode the search, and the learner of a leaf, which is a round of soft EM; in mode
    "theory" it is the lifted CoinPress of `estimate_gaussian`. "soft_em" is not the paper's.

    Without public rows "soft_em" starts from private ones: scales, places and cells of each column; the groups of rows that single
    columns separate; for each group one noisy Gram matrix, whose directions of largest variance are those in which means that lie
    apart differ; and noisy sums of cosines and sines, which show the mixture along them. In simulations (2 to 20 columns, 2 to 4
    components at least 6 deviations apart, condition numbers up to 30, 40,000 and 100,000 rows, epsilon = 1, delta = 1e-6) its
    total variation is 1.1 to 1.3 times that with 100 public rows, in the geometric mean. Components nearer than about 4
    deviations need public rows, or independent columns (`learn_axis_aligned_mixture`).

    Examples
    --------
    >>> import numpy as np
    >>> from fastpubpriv import ZCDP, learn_separated_mixture
    >>> rng = np.random.default_rng(0)
    >>> centers = np.array([[0.0, 0.0], [20.0, 0.0], [0.0, 20.0]])
    >>> private = centers[rng.integers(3, size=30_000)] + rng.normal(size=(30_000, 2))
    >>> public = centers[np.arange(12) % 3] + rng.normal(size=(12, 2))
    >>> result = learn_separated_mixture(private, x_pub=public, n_components=3, min_weight=0.2, budget=ZCDP(rho=0.5))
    >>> result.n_components, bool(np.allclose(result.weights, 1 / 3, atol=0.02))
    (3, True)

    Without public rows:

    >>> from fastpubpriv import ApproxDP
    >>> alone = learn_separated_mixture(private, n_components=3, budget=ApproxDP(epsilon=1, delta=1e-6))
    >>> bool(np.abs(np.sort(alone.means[:, 0]) - [0.0, 0.0, 20.0]).max() < 0.1), alone.status
    (True, 'ok')
    """
    rows, public = session.open_rows(x_priv, x_pub, columns=columns, min_pub=2)
    session.refuse_padding(rows, "learn_separated_mixture", "learn_axis_aligned_mixture")
    n_pub = None if public is None else len(public)
    k, weight = check_components(n_components, min_weight, n_pub, rows.n)
    session.require_squares("learn_separated_mixture", rows.dim, 40 * k + 24)
    method = searches.METHODS.choose(method)
    mode = validation.choice("mode", mode, ("practical", "theory"))
    failure_prob = failure_probability(failure_prob)
    weight_floor = validation.probability("weight_floor", weight_floor)
    box = checked_bounds("learn_separated_mixture", bounds, public, rows.dim, rows.columns)
    shape = Shape(
        dim=rows.dim,
        n_pub=n_pub or 0,
        n_components=k,
        min_weight=weight,
        mode=mode,
        failure_prob=failure_prob,
    )
    options = session.asked(ledger, random_state, threads, progress)
    limits = ReportLimits(weight_floor, box)
    constant: list[str] = []
    if public is None:
        check_without_public(shape, method, budget, rows.n, limits.box)
        if min_weight is None:
            shape = replace(shape, min_weight=min(tuning.LEAST_GROUP, weight))
        result = _learn_without_public(rows, shape, budget, limits, **options)
    else:
        column_variances(public)  # raises if all rows are equal
        chosen = searches.choose_method(method, shape, noise_of(budget))
        if mode == "theory" and k > 1:
            refuse_too_much(public)
        equal = np.flatnonzero(np.isnan(column_scales(public))).tolist()
        constant = [rows.columns[j] if rows.columns else str(j) for j in equal]
        if constant:
            warn(f"learn_separated_mixture: {constant_text(constant)}")
        learn = _learn_rounds if mode == "practical" else _learn_in_theory
        result = learn(rows, public, shape, chosen, budget, limits, **options)
    facts = {"n_components_asked": k, "fallback_columns": constant}
    result = replace(result, diagnostics={**result.diagnostics, **facts})
    return session.warned(
        "learn_separated_mixture", result, (Reason.FEW_PUBLIC_ROWS,) if constant else ()
    )


class ReportLimits(NamedTuple):
    """Limits of what a result reports: the least weight over an equal one, and bounds of the columns."""

    weight_floor: float
    box: Box | None


def check_without_public(
    shape: Shape, method: str, budget: Budget, n: int, box: Box | None
) -> None:
    """Raise if there can be no answer without public rows, by the arguments and the number of private rows."""
    name = "learn_separated_mixture"
    if shape.mode == "theory":
        raise InputError(
            f"{name} with mode='theory' needs public rows: pass x_pub=, or mode='practical'"
        )
    if method not in ("auto", searches.SOFT_EM.name):
        raise InputError(
            f"method={method!r} searches among public rows: pass x_pub=, or method='auto'"
        )
    if not (has_delta(budget) or bounded_range.covers(box)):
        raise BudgetError(
            f"without public rows {name} finds places by stable histograms, which need a delta: pass "
            "ApproxDP(epsilon=..., delta=...); or, for any budget, bounds=(lowest, highest) of what every column can hold, or "
            "public rows (x_pub)"
        )
    if shape.n_components > without_public.MOST_COMPONENTS:
        raise InputError(
            f"n_components must be at most {without_public.MOST_COMPONENTS} without public rows, got {shape.n_components}: "
            "pass x_pub="
        )
    if n < tuning.START_LEAST_ROWS:
        raise InputError(
            f"{name} without public rows needs at least {tuning.START_LEAST_ROWS} private rows, got {n}: pass x_pub="
        )


def _learn_in_theory(
    rows: Rows,
    public: FloatArray,
    shape: Shape,
    chosen: SearchMethod,
    budget: Budget,
    limits: ReportLimits,
    **options: Any,
) -> MixtureResult:
    """Run a search and estimate a Gaussian for each leaf, with the constants of the proofs."""
    k = shape.n_components
    dim = shape.dim
    draws = searches.search_draws(chosen, shape)
    draws += leaf_draws(dim, k)
    draws += fit.count_draws(k)
    run = session.start("learn_separated_mixture", rows, budget, draws=draws, **options)
    counted = fit.count_share(run.account.spending)
    search_share = searches.search_share(chosen, shape)
    shares = [search_share, 1 - search_share - counted, counted]
    of_search, of_leaves, of_count = run.account.spending.split(shares)
    of_count.grid("count", fit.count_draws(k), rows.n)
    searches.check_search_grids(chosen, shape, rows.n, of_search)
    check_leaf_grids(dim, rows.n, k, of_leaves)
    expected = rows.n * shape.min_weight
    predicted = lifted_errors(shape, expected, of_leaves)
    warn_if_hopeless(run, expected, predicted)
    with run.paid():
        clustering = searches.find_components(run, public, shape, chosen, of_search.allowance)
        frames = leaf_frames(
            clustering.tree,
            clustering.leaves,
            public,
            radii=clustering.scales,
            failure_prob=shape.failure_prob,
        )
        learnt = release_leaf_gaussians(
            run,
            clustering,
            frames,
            spending=of_leaves,
            mode="theory",
            failure_prob=shape.failure_prob,
            weight_floor=limits.weight_floor,
        )
        facts = {"scaling": clustering.scaling, "clustering_share": float(search_share)}
        learnt = replace(
            learnt,
            method=f"{chosen.name}, theory",
            n_pub=len(public),
            diagnostics={**learnt.diagnostics, **facts},
        )
        return with_fit_of_leaves(run, bounded(learnt, limits.box), public, asked=k)


def rounds_of(
    run: Session, public: FloatArray, shape: Shape, plan: EmRoundPlan, starts: list[StartState]
) -> tuple[EmRoundPlan, list[StartState], float]:
    """Return plan and starts; for a noisy plan and public rows without correlations within components, the axis-aligned
    ones. Last, the relative covariance error by correlations that chance among public rows may hide; 0 for full covariances.
    """
    k = shape.n_components
    dim = shape.dim
    if plan.noisy and starts and dim > 1:
        with np.errstate(all="ignore"):  # values of any magnitude
            excess, chance = soft_em.correlation_excess(public, starts[1].at)
        if excess <= chance:
            hidden = math.sqrt(2.0 * (max(excess, 0.0) + chance) / len(public))
            plan = dp_em.plan_of(dim, k, run.rows.n, run.account.spending)
            shares = [plan.early, plan.last]
            check_axis_rounds(run.account, run.rows.n, dim, k, known_std=False, shares=shares)
            start = replace(starts[1], at=starts[1].at.axis_aligned)
            return plan, [start], hidden
    return plan, starts, 0.0


def _learn_rounds(
    rows: Rows,
    public: FloatArray,
    shape: Shape,
    chosen: SearchMethod,
    budget: Budget,
    limits: ReportLimits,
    **options: Any,
) -> MixtureResult:
    """Run rounds of soft EM from several starts or from the leaves of a search, and release a count of the fit."""
    k = shape.n_components
    dim = shape.dim
    n = rows.n
    n_pub = len(public)
    leaves = not chosen.soft
    with np.errstate(all="ignore"):  # values of any magnitude
        public = without_far(public, k, shape.min_weight)
    shape = replace(shape, n_pub=len(public))
    starts = [] if leaves else soft_em.public_starts(public, shape)
    draws = searches.search_draws(chosen, shape)
    draws += soft_em.soft_draws(dim, k)
    run = session.start("learn_separated_mixture", rows, budget, draws=draws, **options)
    plan = soft_em.EmRoundPlan.of(chosen, shape, n, run.account.spending)
    searches.check_search_grids(chosen, shape, n, plan.spending.part(plan.search))
    soft_em.check_soft_grids(plan, shape, n)
    expected = n * shape.min_weight
    predicted = plan.predicted(dim, expected)
    warn_if_hopeless(run, expected, predicted)
    plan, starts, hidden = rounds_of(run, public, shape, plan, starts)
    prepare(plan.rounds * plan.early_rows + n, k * dim**2)
    with run.paid(), np.errstate(all="ignore"):  # values of any magnitude
        if leaves:
            starts = [soft_em.start_of_search(run, public, shape, chosen, plan)]
        state, facts = soft_em.run_rounds(run, public, plan, starts)
        state = replace(state, errors=np.hypot(state.errors, [[0.0], [hidden]]))
        if state.clustering is not None:
            facts |= {
                **search_facts(state.clustering),
                "scaling": state.clustering.scaling,
                "clustering_share": float(plan.search),
            }
        facts = {"far_public_rows": n_pub - len(public), **facts}
        tv_errors = fit.gaussian_tv(*state.errors)
        learnt = _result_of_rounds(run, state, limits.weight_floor, n_pub, facts)
        reasons = soft_em.component_reasons(state, guarded=facts["guarded"])
        learnt = replace(learnt, part_reasons=reasons, method=chosen.name)
        learnt = bounded(learnt, limits.box)
        merged = n_pub < tuning.FEWEST_ROWS * k
        return fit.with_fit(run, learnt, public, tv_errors, asked=k, may_be_merged=merged)


def _learn_without_public(
    rows: Rows, shape: Shape, budget: Budget, limits: ReportLimits, **options: Any
) -> MixtureResult:
    """Run all stages of a start from private rows alone, rounds of soft EM from it, and a count of the fit."""
    name = "learn_separated_mixture"
    k = shape.n_components
    draws = without_public.most_draws(rows.n, shape.dim, k)
    range_box = None if has_delta(budget) else limits.box
    if range_box is not None:
        draws += bounded_range.most_draws(shape.dim)
    run = session.start(name, rows, budget, draws=draws, **options)
    task = Task(
        run=run,
        n_components=k,
        min_weight=shape.min_weight,
        failure_prob=shape.failure_prob,
        start_name="a start without public rows",
        box=limits.box,
        range_box=range_box,
    )
    plan = without_public.PrivatePlan.of(task)
    plan.check(task)
    expected = plan.rest.n * shape.min_weight
    warn_if_hopeless(run, expected, plan.predicted(expected, run.account.spending))
    prepare((plan.shares.rounds + 1) * rows.n, k * shape.dim**2)
    with run.paid(), np.errstate(all="ignore"):  # values of any magnitude
        learned = without_public.learn(task, plan)
        facts = {"start": learned.state.name, **learned.facts}
        result = _result_of_rounds(run, learned.state, limits.weight_floor, 0, facts)
        if range_box is not None:
            result = replace(result, provenance={**result.provenance, "range": "bounds"})
        result = bounded(replace(result, part_reasons=learned.reasons), limits.box)
        return replace(result, **learned.fit.fields)


def _result_of_rounds(
    run: Session, state: StartState, weight_floor: float, n_pub: int, facts: dict[str, Any]
) -> MixtureResult:
    """Return the result of the state after the last round, without reasons, as of "soft_em"."""
    dim = run.rows.dim
    k = len(state.at.weights)
    weights = np.maximum(state.at.weights, weight_floor / k)
    predicted = fit.gaussian_tv(*state.errors)
    source = "public rows" if n_pub else "released"
    return MixtureResult(
        weights=weights / weights.sum(),
        means=state.at.means,
        covariances=state.at.covariances,
        part_reasons=((),) * k,
        structure=("full" if state.at.is_full else "diagonal",) * k,
        tree=None if state.clustering is None else state.clustering.tree,
        method=searches.SOFT_EM.name,
        columns=run.rows.columns,
        diagnostics={
            "n_components_found": k,
            "counts": state.counts.tolist(),
            "count_noise_std": state.count_std,
            "rounds": state.rounds,
            "predicted_covariance_errors": np.hypot(
                state.noise, np.sqrt(dim * (dim + 1) / state.counts)
            ).tolist(),
            "covariance_noise": state.noise.tolist(),
            "predicted_total_variations": predicted.tolist(),
            **facts,
        },
        provenance={"center": source, "scale": source, "radius": "released"},
        **run.fields(n_pub),
    )
