"""`learn_axis_aligned_mixture`: choice of the method, checks and result."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from fastpubpriv import session, validation
from fastpubpriv._types import AxisMixtureMethod, FloatArray, Keep, RowsPerPerson
from fastpubpriv.defaults import FAILURE_PROB
from fastpubpriv.errors import BudgetError, InputError
from fastpubpriv.estimators.linalg import known_root
from fastpubpriv.estimators.output_bounds import Box, bounded, checked_bounds
from fastpubpriv.estimators.user_level import user_level
from fastpubpriv.mixtures import mixture_tuning as tuning
from fastpubpriv.mixtures.axis_aligned import (
    axis_method,
    bounded_range,
    dp_em,
    list_method,
    one_column,
    private_start,
)
from fastpubpriv.mixtures.axis_aligned.axis_method import AxisMethod, LearnedMixture, Task
from fastpubpriv.mixtures.fit import public_ties
from fastpubpriv.mixtures.list_decoding import results
from fastpubpriv.mixtures.public_em import without_far
from fastpubpriv.privacy import Budget, Ledger
from fastpubpriv.privacy.calibrated_budget import has_delta
from fastpubpriv.results.mixture import MixtureResult
from fastpubpriv.session import Registry
from fastpubpriv.sources import Rows
from fastpubpriv.sources.views import linear_rows

MOST_COMPONENTS = 64


METHODS: Registry[AxisMethod] = Registry(
    one_column.METHOD, private_start.METHOD, dp_em.METHOD, list_method.METHOD, auto=True
)


def chosen_method(
    method: str,
    *,
    dim: int,
    n_priv: int,
    has_public: bool,
    budget: Budget,
    box: Box | None = None,
) -> AxisMethod:
    """Return the method, for "auto" by public numbers; raise if a named one lacks public rows, a delta, bounds or rows."""
    if not isinstance(budget, Budget):
        raise BudgetError(f"budget must be ApproxDP, ZCDP or PureDP, got {type(budget).__name__}")
    if method == "auto":
        if dim == 1:
            method = "cells"
        elif has_public:
            method = "dp_em"
        else:
            method = "sketch"
    chosen = METHODS[method]
    is_shown = chosen.range_from_public and has_public
    is_found = has_delta(budget) or bounded_range.covers(box)
    if chosen.range_from_bounds and not (is_shown or is_found):
        raise BudgetError(
            "without public rows places are found by stable histograms, which need a delta: pass "
            "ApproxDP(epsilon=..., delta=...); or, for any budget, bounds=(lowest, highest) of what every column "
            "can hold, or public rows (x_pub)"
        )
    if chosen.columns == "one" and dim > 1:
        raise InputError(
            f"method={method!r} is for one column, got {dim}: pass columns=, or method='auto'"
        )
    if chosen.columns == "several" and dim == 1:
        raise InputError(f"method={method!r} is for several columns, got one: pass method='auto'")
    if chosen.range_from_public and not has_public and n_priv < tuning.LINE_LEAST_ROWS:
        raise InputError(
            f"without public rows at least {tuning.LINE_LEAST_ROWS} private rows are needed, got {n_priv}: pass more, or x_pub"
        )
    chosen.check(has_public=has_public, budget=budget, n_priv=n_priv)
    return chosen


def method_for_rows(
    rows: Rows, method: str, *, has_public: bool, budget: Budget, box: Box | None
) -> AxisMethod:
    """Return the method as `chosen_method` does; raise if it would take rows that pad persons for rows."""
    chosen = chosen_method(
        method, dim=rows.dim, n_priv=rows.n, has_public=has_public, budget=budget, box=box
    )
    has_range = has_public or bounded_range.covers(box)
    starts_near = has_range and chosen.range_from_public
    if chosen is not dp_em.METHOD and not starts_near:
        session.refuse_padding(
            rows,
            f"method={chosen.name!r}",
            "learn_axis_aligned_mixture with public rows (x_pub) or, of one column, bounds=(lowest, highest)",
        )
    return chosen


@user_level
def learn_axis_aligned_mixture(
    x_priv: Any,
    *,
    n_components: int,
    budget: Budget,
    accuracy: float | None = None,
    x_pub: Any = None,
    variance: Any = None,
    covariance: Any = None,
    method: AxisMixtureMethod = "auto",
    min_weight: float | None = None,
    failure_prob: float = FAILURE_PROB,
    bounds: Any = None,
    columns: Any = None,
    person: Any = None,
    keep: Keep | None = None,
    rows_per_person: RowsPerPerson | None = None,
    ledger: Ledger | None = None,
    random_state: int | None = None,
    threads: int | None = None,
    progress: bool | None = None,
    max_memory: float | None = None,
) -> MixtureResult:
    """Mixture of axis-aligned Gaussians from private rows whose range nobody knows, with or without public rows.

    Parameters
    ----------
    x_priv : (n_priv,) or (n_priv, dim) array-like, path, frame, table or Rows
        Private rows, or the values of one column.
        A row with a missing or infinite entry is ignored, but counts in n_priv.
    budget : ApproxDP, ZCDP or PureDP
        Debited before `x_priv` is read. Without public rows it must be ApproxDP, unless `bounds` are finite in every column. With
        public rows, or within bounds, "cells" spends only the epsilon of one, unless its delta is so large that Gaussian noise is
        smaller.
    x_pub : (n_pub, dim) array-like, path, frame or table, optional
        At least two public rows. If they have another distribution, only accuracy suffers.
    variance : float or (dim,), optional
        Common variance of all components, if it is publicly known. Then only weights and means are learned.
    covariance : (dim, dim), optional
        The same as a matrix; one of the two.
    bounds : (lowest, highest), optional
        What columns can hold, known without the data: numbers, or vectors (dim,); an end may be infinite. Means are clipped to
        them, and no Gaussian stays wider than a column within them can be. One whose mean lay more than one of its deviations
        outside says "clipped". Private rows are not clipped, and nothing is spent on it.
    columns : str, int or list of these, optional
        Numeric columns by name or, of an array, by number, the same for both data sets; by default all of `x_priv`, in their
        order. Where both data sets have names for their columns, these are matched by name.
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
        Maximum number of components, 1 to 64. Fewer are returned if they explain the rows.
    accuracy : float in (0, 1), optional
        Desired total variation. Required by method="list_decoding", and used by it alone.
    method : "auto", "cells", "sketch", "dp_em" or "list_decoding"
        "auto" is "cells" for one column, and for several "dp_em" with public rows and "sketch" without; see the notes.
    min_weight : float in (0, 1 / n_components], optional
        Minimum weight of the components that "sketch" finds in columns; default 0.1, or half of 1 / n_components if that is less.
    failure_prob : float in (0, 1), default 0.05
        Probability with which a bound of this call may fail. A failure costs accuracy, never privacy.
        It applies to `accuracy` and to the sizes of method="list_decoding".

    ledger : Ledger, optional
        Debited before the first read, by what `budget` says is spent.
    random_state : None or int
        None: fresh operating-system keys. int: repeatable, warned about, `private=False`.
    threads : int, optional
        Number of threads; by default one for each core. Passes over few numbers wake none. Never changes the answer.
    progress : bool, optional
        Whether a progress bar is shown; by default on a terminal, for long work.
    max_memory : float, optional
        Most bytes that counting may take, were every row in a bin of its own; by default no limit. A call that may need more is
        refused before it pays, by public numbers alone. Never changes the answer.

    Returns
    -------
    MixtureResult
        `part_reasons` of a component: "ties" if many rows share a value of a column (counts, answers, a constant) and the
        component is not much wider than the step between values, so that it represents values or groups of them, or is so narrow
        that it may represent one value, with "rough_fit" or "poor_fit" if a count shows that it does not follow them;
        "unresolved" if noise hides its mean; "wide", "rough_fit", "poor_fit", "not_gaussian" or "few_rows" as in `MixtureResult`
        ("few_rows" also if there are fewer than two public rows per component, and the count cannot exclude another one);
        and for all components "fallback" if a stage found nothing and was replaced by a coarser estimate, or nothing at all was
        found and the result is the public N(0, 1); "shortlist" if "list_decoding" found more candidates than can be compared and
        chose among the heaviest, for which the theorem does not hold, though they usually include the best; "few_public_rows" if
        the public values of one column are all equal, which shows no scale, and private rows cannot show it either (this takes a
        delta). `diagnostics` has the findings of each stage (`tied_share` and `step` of each column, the step None if unknown);
        `chosen` of "list_decoding" is the index in its list of candidates.
        `fit_distance` and `fit_interval` say by how many of the rows the answer differs from them, as far as cells of a count show
        it. Without public rows, columns of rounded values are left out of it; if all are rounded, it is by all, and is not graded.

    Raises
    ------
    InputError, BudgetError, InfeasibleError, LedgerError
        For public arguments, the form of the data, and the budget. Never for the content of `x_priv`.

    Privacy
    -------
    Protected: every private row, against replacement by any other, whatever the public rows are. Public: n_priv, dim, x_pub,
    all arguments. The exact costs add up to at most the budget on every path. Released:

    - "cells" with public rows: one count of cells that these rows determine. Without: two stable histograms (one, if the
      variance is known) and then this count, each on a disjoint block of rows that public numbers fix, with the whole (epsilon,
      delta); within bounds and without a delta, counts of cells of all rows take the place of the blocks;
    - "sketch": such blocks, or counts of cells, for the range; on the other rows counts, second moments of groups, and sums of
      bounded statistics;
    - "dp_em": public shares of the budget for sums of clipped statistics in each round, and for choices, or noisy scores, among
      starts and rounds; with few public rows also second moments, and a sum of bounded statistics;
    - "list_decoding": stable histograms and one choice, on disjoint blocks of rows;
    - always a count of the fit, for a fiftieth of the budget (of an epsilon, a twentieth; in "list_decoding", of the block of
      the choice); "cells" reads the fit off its cells, and near public rows spends that part only where these cannot show it.

    Proofs: `notes/cell_counts.md`, `notes/code_counts.md`, `notes/stable_histogram.md`, `notes/sketch.md`,
    `notes/statistic_sum.md`, `notes/soft_gram.md`, `notes/noisy_scores.md`, `notes/hypotheses.md`.

    See Also
    --------
    learn_separated_mixture : components with correlations, several deviations apart.
    stable_histogram : the shape of a column without the assumption of Gaussians.
    fastpubpriv.mixtures.list_decoding.decode_axis_aligned : the short lists of "list_decoding" by themselves.

    Notes
    -----
    Aden-Ali, Ashtiani, Liaw (2021), Algorithm 1, whose list is astronomically long; practical variants of its steps:

    - "cells", for one column: counts of up to a few hundred public cells, and the mixture that fits these counts and those of the
      public rows best, from many starts, which cost nothing. The number of components is the least that the counts support. With
      public rows (from two different ones on) the cells are fine where these lie; three components at PureDP(1), with 40 public
      rows: total variation .016 with 5,000 private rows, .010 with 10,000, .003 with 100,000. Without, a dyadic histogram of
      differences, and histograms at those scales (Algorithms 3 and 2) release the range first, on three tenths of the rows:
      within .03 with 5,000 rows at epsilon = 1, delta = 1e-6. If components are thousands of deviations apart, only pairs within
      each show its scale: this takes about 1,400 rows times the square of their number (5,500 for two, 12,000 for three; `plan`
      has the number for a budget); with fewer they are not distinguished.
    - "sketch": scales, places and cells of each column, and the groups of rows that single columns separate; within a group, one
      noisy Gram matrix shows the few directions in which means of overlapping components differ, and noisy sums of cosines and
      sines the mixture along them; a few rounds of private EM in all columns follow. Two components in 8 columns, 1.6 deviations
      apart in each, with 40,000 rows, epsilon = 1, delta = 1e-6: total variation .014. With k components in many columns, below
      20,000 rows, some may be missed, which the reasons say. With a delta `bounds` clip the means and do not
      replace the range stages; without one they are the range: at rho = 0.1 such components are within .012.
    - "dp_em", for several columns: EM started from the likeliest fit to the public rows, whose components may differ in scale by
      any factor, and from their k-means groups; continued on public and private rows, for any budget. With fewer than six public
      rows per component, and Gaussian noise that is not large, directions as of "sketch" take the place of the groups: with 8
      public rows of four components in 100 columns total variation is .12, from public starts alone .5 to 1.
    - "list_decoding": the paper's algorithm with its constants, where it is feasible; `plan("axis_aligned_mixture", ...)` has
      numbers.

    Rounded values (whole minutes, whole years) appear as a comb to methods that count cells. Edges lie between the values if the
    public rows show their step; otherwise cells are merged until there is no comb, and means are accurate to about a quarter of a
    step.

    Examples
    --------
    >>> import numpy as np
    >>> from fastpubpriv import ApproxDP, learn_axis_aligned_mixture
    >>> rng = np.random.default_rng(0)
    >>> values = np.where(rng.random(20_000) < 0.3, rng.normal(-2e6, 1.0, 20_000), rng.normal(500.0, 40.0, 20_000))
    >>> result = learn_axis_aligned_mixture(values, n_components=2, budget=ApproxDP(epsilon=1, delta=1e-6))
    >>> order = np.argsort(result.means[:, 0])
    >>> bool(np.all(abs(result.means[order, 0] - [-2e6, 500.0]) < [1.0, 10.0])), result.weights[order].round(1).tolist()
    (True, [0.3, 0.7])
    """
    rows, public = session.open_rows(x_priv, x_pub, columns=columns, min_pub=2)
    n = rows.n
    dim = rows.dim
    names = rows.columns
    n_components = validation.integer(
        "n_components", n_components, minimum=1, maximum=MOST_COMPONENTS
    )
    session.require_squares("learn_axis_aligned_mixture", dim, 20 * n_components)
    method = METHODS.choose(method)
    failure_prob = validation.probability("failure_prob", failure_prob)
    weight = (
        min(0.1, 0.5 / n_components)
        if min_weight is None
        else validation.probability("min_weight", min_weight)
    )
    if weight > 1.0 / n_components:
        raise InputError(
            f"min_weight must be at most 1 / n_components = {1.0 / n_components:.3g}, got {min_weight!r}"
        )
    accuracy = None if accuracy is None else results.wanted_accuracy(accuracy)
    factor = known_root(covariance, variance, dim)
    box = checked_bounds("learn_axis_aligned_mixture", bounds, public, dim, names)
    if factor is not None and factor.ndim == 1:
        factor = np.diag(factor)
    chosen = method_for_rows(rows, method, has_public=public is not None, budget=budget, box=box)
    chosen.prepare(
        n, n_components, dim, accuracy, budget, failure_prob, known_std=factor is not None
    )
    view: Rows = rows
    if factor is not None:
        inverse = solve_triangular(factor, np.eye(dim), lower=True)
        view = linear_rows(rows, inverse)
        if public is not None:
            with np.errstate(all="ignore"):
                public = public @ inverse.T
            if not np.abs(public).max() < 1e150:
                raise InputError(
                    "public rows are 1e150 known standard deviations from 0: pass the variance in their unit, squared"
                )
    with np.errstate(all="ignore"):
        typical = None if public is None else without_far(public, n_components)
    draws = chosen.draws(n, dim, n_components, known_std=factor is not None)
    finds_range = one_column.finds_range(rows, budget)
    if chosen.range_from_public and typical is not None:
        is_enough = one_column.shows_range(typical, known_std=factor is not None)
        if not is_enough and (finds_range or bounded_range.covers(box)):
            typical = None
    is_shown = chosen.range_from_public and typical is not None
    range_box = None
    if chosen.range_from_bounds and not (is_shown or finds_range) and box is not None:
        range_box = box if factor is None else bounded_range.seen_through(inverse, box)
        draws += bounded_range.most_draws(dim)
    spent = budget
    if is_shown or (chosen.range_from_public and range_box is not None):
        # Counts of public cells alone: without a delta where Laplace noise is smaller.
        spent = one_column.spent_on_cells(budget, draws)
    run = session.start(
        "learn_axis_aligned_mixture",
        view,
        spent,
        draws=draws,
        **session.asked(ledger, random_state, threads, progress, max_memory=max_memory),
    )
    task = Task(
        run=run,
        n_components=n_components,
        min_weight=weight,
        failure_prob=failure_prob,
        accuracy=accuracy,
        public=typical,
        box=box,
        range_box=range_box,
        factor=factor,
    )
    # Released numbers may be of any size; an under- or overflow must not raise or warn in the caller's NumPy error state.
    with np.errstate(all="ignore"):
        learned = chosen.learn(task)
        learnt = _result(task, learned, chosen, factor, public, names)
        result = bounded(learnt, box, known_covariance=factor is not None)
    return session.warned("learn_axis_aligned_mixture", result)


def _result(
    task: Task,
    learned: LearnedMixture,
    method: AxisMethod,
    factor: FloatArray | None,
    public: FloatArray | None,
    names: tuple[str, ...] | None,
) -> MixtureResult:
    """Return the result in data units, with the reasons of each component."""
    run = task.run
    n_pub = 0 if public is None else len(public)
    dim = run.rows.dim
    tied = list(learned.diagnostics.get("tied_share", [0.0] * dim))
    steps = list(learned.diagnostics.get("step", [math.inf] * dim))
    shows_ties = task.public is not None and factor is None
    if public is not None and shows_ties and not any(tied):
        tied, steps = public_ties(public)
    is_near = task.public is not None and (method.needs_public or method.range_from_public)
    source = "public rows" if is_near else "released"
    if task.range_box is not None:
        source = "bounds"
    at = learned.at.normalized
    components = len(at.weights)
    if factor is None:
        means = at.means
        covariances = at.covariances
    else:
        means = at.means @ factor.T
        covariances = np.repeat((factor @ factor.T)[None], components, axis=0)
    order = np.argsort(-learned.at.weights, kind="stable")
    reasons = axis_method.component_reasons(
        learned, tied, steps, known_std=factor is not None, asked=task.n_components
    )
    fitted = {} if learned.fit is None else learned.fit.fields
    return MixtureResult(
        weights=at.weights[order],
        means=means[order],
        covariances=covariances[order],
        part_reasons=tuple(reasons[place] for place in order.tolist()),
        structure=("diagonal" if factor is None else "mean",) * components,
        method=method.name,
        diagnostics={
            **learned.diagnostics,
            **({} if learned.fit is None else learned.fit.facts_in(order)),
            "tied_share": tied,
            "step": [each if math.isfinite(each) else None for each in steps],
            "n_components_asked": task.n_components,
        },
        columns=names,
        provenance={
            "range": source,
            "scales": "argument" if factor is not None else "released",
        },
        **fitted,
        **run.fields(n_pub),
    )
