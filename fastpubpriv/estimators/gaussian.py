"""Mean and covariance of private rows with a few public ones (paper A, Algorithm 2), and covariance without any (CoinPress)."""

from __future__ import annotations

import contextlib
import math
from dataclasses import replace
from typing import Any, get_args

import numpy as np

from fastpubpriv import session, validation
from fastpubpriv._types import CovarianceMethod, FloatArray, Mode, RowsPerPerson, Structure
from fastpubpriv.errors import InputError, warn
from fastpubpriv.estimators.gaussian_methods import METHODS, coinpress_rounds
from fastpubpriv.estimators.ladder.ladder_method import METHOD as LADDER
from fastpubpriv.estimators.ladder.schedule import chi_beyond
from fastpubpriv.estimators.lifted_coinpress import METHOD as LIFTED
from fastpubpriv.estimators.lifted_coinpress import ROW_FAILURE, GaussianMethod, covariance_error
from fastpubpriv.estimators.linalg import spectrum
from fastpubpriv.estimators.output_bounds import Box, bounded_gaussian, checked_bounds, narrowed
from fastpubpriv.estimators.preconditioner import DEFAULT_COND_MAX, Options
from fastpubpriv.estimators.radii import budget_shares, chi_radius, failure_probability, size
from fastpubpriv.estimators.user_level import user_level
from fastpubpriv.mechanisms.sums import AffineMap, Released, check_gram_grids
from fastpubpriv.privacy import Budget, Ledger
from fastpubpriv.results.estimates import CovarianceResult, GaussianResult
from fastpubpriv.results.reasons import Reason, Reasons
from fastpubpriv.shared_docs import FAILURE_PROB, shared_docs


def choose_method(method: Any, options: Options) -> GaussianMethod:
    """Return the method of a call; "auto" is the ladder unless other methods own an argument. Raise InputError if they clash."""
    name = METHODS.choose(method)
    given = {
        "mode='theory'": options.mode != "practical",
        "pub_priv_gap": options.pub_priv_gap > 0.0,
        "rounds": options.rounds is not None,
        "cond_max": options.cond_max != DEFAULT_COND_MAX,
        "require_precondition": options.require_precondition,
    }
    other = next((argument for argument, was in given.items() if was), None)
    automatic = LADDER if other is None or options.structure != "auto" else LIFTED
    chosen = METHODS.get(name, automatic)
    if chosen is LADDER and other is not None:
        raise InputError(
            f"method='ladder' has no use for {other}: leave it out, or pass method='lifted_coinpress'"
        )
    if chosen is not LADDER and options.structure not in ("auto", "full"):
        raise InputError(
            f"structure={options.structure!r} belongs to method='ladder'; method={name!r} has structure='full'"
        )
    return chosen


@shared_docs
@user_level
def estimate_gaussian(
    x_priv: Any,
    *,
    x_pub: Any,
    budget: Budget,
    pub_priv_gap: float = 0.0,
    failure_prob: float = FAILURE_PROB,
    method: CovarianceMethod = "auto",
    structure: Structure = "auto",
    mode: Mode = "practical",
    rounds: int | None = None,
    cond_max: float = DEFAULT_COND_MAX,
    require_precondition: bool = False,
    bounds: Any = None,
    columns: Any = None,
    person: Any = None,
    rows_per_person: RowsPerPerson = 1,
    ledger: Ledger | None = None,
    random_state: int | None = None,
    threads: int | None = None,
    progress: bool | None = None,
) -> GaussianResult:
    """Mean and covariance of private rows, from no worse than a few public rows to a full private covariance.

    Parameters
    ----------
    {x_priv}
        A row with a missing or infinite entry is left out, but counts in n_priv: the result describes the complete rows. The ladder
        releases their number (`complete_rows`) where it counts norms or has structure "full", divides by it if it is significantly
        below n_priv, and includes its error in the intervals.
    {x_pub}
        At least two without missing cells, not all equal; other rows are left out. Columns may be constant, collinear or copies of
        each other.
    {budget}
        Not spent if the public rows alone are predicted to be best.
    {pub_priv_gap}
        A value above 0 selects "lifted_coinpress". The ladder does not need it: it estimates from released numbers by how many
        standard deviations the public mean is off (`shift` in `diagnostics`) and by what factor the public scale (`scale_ratio`),
        and accounts for both.
    {failure_prob}
        It is the failure probability of the bounds that methods other than the ladder derive from the public rows.
    method : "auto", "ladder", "lifted_coinpress", "pairs", "recursive_preconditioner", "group_covariances", "hypothesis_selection"
        "auto" is "ladder", or "lifted_coinpress" if one of its own arguments is given. "ladder": the errors of four structures are
        predicted from public numbers, the best is chosen before anything is spent, and private and public moments are combined by
        inverse variance; if rows and budget allow, an inexpensive private count estimates the scale of the rows. The last second
        moment of the full structure, which includes the mean, is released in two pieces after a count of norms, which show the
        direction of the bias from distant rows. It takes three passes over the rows if the public rows show their scale, and two
        more if the counts show a heavy tail: the mean is then released separately.
        "lifted_coinpress" (CoinPress on rows (x, 1)) and "pairs" (CoinPress on differences of neighboring rows, then for the mean:
        the version that the literature proves, with twice the noise on the covariance) start from bounds that hold for the least
        favorable public rows. The other methods stand for black boxes that the paper cites; each module states its regime:
        "recursive_preconditioner" (of KLSU19; many rows), "group_covariances" (of AL21; ApproxDP, very many rows, experimental),
        "hypothesis_selection" (of BKSW19; PureDP or ZCDP, one or two columns).
    structure : "auto", "public", "mean", "diagonal" or "full"
        Structure of the ladder's estimate: public mean and covariance; public covariance with a private mean; private variances
        along the eigenvectors of the public covariance; a full, shrunk private covariance. "auto" minimizes the predicted error.
    {mode}
        The constants of the proofs include union bounds; the ladder has practical ones only.
    rounds : int, optional
        Rounds of the covariance recursion of the other methods; None applies the public rule.
    cond_max : float
        The other methods' bound on the condition number of the covariance, used without preconditioning.
    require_precondition : bool
        Of the other methods: refuse public rows that cannot precondition instead of falling back to the trace bound.
    {bounds_of_means, matched_columns, person, rows_per_person, ledger, random_state, threads, progress}

    Returns
    -------
    GaussianResult
        `mean` (dim,), `covariance` (dim, dim) positive definite, in (squared) data units, with predicted errors; `structure`
        is the chosen structure, and `diagnostics` has the predictions for the others. Where the ladder's counts show a tail
        that clipping lost, the covariance is the public one and columns are "fallback". With structure "full" of the ladder,
        `confidence_interval(of=...)` has intervals of means, standard deviations, covariances and correlations, and `part_reasons`
        states for each column why they may be invalid. The other structures have those of means and correlations from ten public
        rows on (more than columns), and of deviations from a hundred on; a column without one has a reason.

    Raises
    ------
    {raises}

    Privacy
    -------
    Neighbors: replace one private row; holds for every public data set. Public numbers determine the structure. A second moment is
    one symmetric integer matrix (squared sensitivity 2 Q^4, for pairs the same), a mean and the axis variances one vector sum each
    (4 Q^2), a count of norms or of one column's distances one histogram (2 S^2). The ladder's last second moment is two, of the
    inner and the outer part of each row (4 Q^4). The number of second moments and their shares depend on released spectra and
    counts; the exact costs add up to at most the budget on every path. The structure "public" reads nothing but the size of
    `x_priv` and costs nothing.

    Notes
    -----
    The methods in public coordinates are Paper A, Algorithm 2, Theorem 2.4 and Lemma B.11, with these differences: the learner is
    an adaptation of CoinPress to lifted rows (x, 1), supported by measurements, where the paper calls a black box;
    `pairs` keeps the black box. The noise is orthogonally invariant, smaller by sqrt(2) off the diagonal. The ladder is our own:
    an empirical-Bayes prior from the public rows, a number of CoinPress rounds that depends on the released spectra, and shrinkage
    to the likeliest of several targets.

    Examples
    --------
    >>> import numpy as np
    >>> from fastpubpriv import ZCDP, estimate_gaussian
    >>> rng = np.random.default_rng(0)
    >>> mix = np.array([[2.0, 0.0], [1.0, 0.5]])
    >>> private, public = rng.normal(size=(20_000, 2)) @ mix.T, rng.normal(size=(3, 2)) @ mix.T
    >>> result = estimate_gaussian(private, x_pub=public, budget=ZCDP(rho=0.5))
    >>> result.structure, bool(np.allclose(result.covariance, mix @ mix.T, rtol=0.1, atol=0.1))
    ('full', True)
    """
    rows, public = session.open_rows(x_priv, x_pub, columns=columns, gaps=True)
    if public is None:
        raise InputError(
            "estimate_gaussian needs public rows: pass x_pub=, or use coinpress_covariance with a known scale"
        )
    listed = len(public)
    public = whole_rows(public)
    gaps = len(public) < listed
    options = Options(
        mode=validation.choice("mode", mode, ("practical", "theory")),
        failure_prob=failure_probability(failure_prob),
        pub_priv_gap=validation.fraction("pub_priv_gap", pub_priv_gap),
        cond_max=validation.positive("cond_max", cond_max),
        rounds=rounds,
        require_precondition=validation.boolean("require_precondition", require_precondition),
        structure=validation.choice("structure", structure, get_args(Structure)),
    )
    session.require_squares("estimate_gaussian", rows.dim, 12)
    chosen = choose_method(method, options)
    if chosen is not LADDER:
        session.refuse_padding(
            rows, f"method={chosen.name!r}", "estimate_gaussian with method='ladder'"
        )
    if options.structure in ("mean", "diagonal"):
        session.refuse_padding(
            rows, f"structure={options.structure!r}", "estimate_gaussian with structure='full'"
        )
    box = checked_bounds("estimate_gaussian", bounds, public, rows.dim, rows.columns)
    chosen.check(has_public=True, budget=budget, n_priv=rows.n)
    run = session.start(
        "estimate_gaussian",
        rows,
        budget,
        draws=chosen.draws(rows.dim),
        reserved=None if chosen.reserved is None else chosen.reserved(budget),
        **session.asked(ledger, random_state, threads, progress),
    )
    estimate, reads = chosen.begin(chosen, run, public, options)
    del public  # may be as large as a covariance
    with run.paid() if reads else contextlib.nullcontext():
        result = bounded_gaussian(estimate(run), box)
    if gaps and (result.complete_rows is None or rows.may_be_absent):
        # Public rows have gaps, so that private rows are likely to have some, of which no release says how many: that of the
        # complete rows of persons leaves out the rows that a person does not have as well.
        result = replace(result, reasons=(*result.reasons, Reason.GAPS))
    return session.warned("estimate_gaussian", result)


def whole_rows(public: FloatArray) -> FloatArray:
    """Return the public rows without missing cells; raise InputError if some have missing cells and fewer than two have none."""
    whole = np.isfinite(public).all(axis=1)
    count = int(np.count_nonzero(whole))
    if count == len(public):
        return public
    if count < 2:
        raise InputError(
            f"estimate_gaussian needs at least 2 public rows without missing cells, and {count} of {len(public)} have "
            "none: leave out the columns with most of them by columns=, fill them, or pass more public rows"
        )
    return public[whole]


MAX_STEPS = 10
# Predicted relative error from which a warning says that noise is as large as the covariance.
HOPELESS = 2.0
# Mean squared norm, over the squared clip radius, above which rows are considered clipped.
FILLED = 0.8


def _frame(
    scale: Any, center: Any, box: Box | None, dim: int
) -> tuple[FloatArray, FloatArray, dict[str, str]]:
    """Return center, units of the columns (dim,) in which the covariance is at most about the identity, and their provenance."""
    if (scale is None) == (box is None):
        raise InputError(
            "pass either scale=, a bound on the largest eigenvalue of the covariance, or bounds=(lowest, highest)"
        )
    if box is None:
        unit = np.full(dim, math.sqrt(size("scale", scale)))
        middle = session.vector_or_number("center", 0.0 if center is None else center, dim)
        return middle, unit, {"center": "argument", "scale": "argument"}
    low, high = box
    half = high / 2.0 - low / 2.0
    middle = low + half if center is None else session.vector_or_number("center", center, dim)
    if not np.all((low < middle) & (middle < high)):
        raise InputError("center= must lie within bounds=: it is the mean of the rows")
    unit = half if center is None else np.sqrt(middle - low) * np.sqrt(high - middle)
    for value in unit:
        size("the largest standard deviation within bounds", value)
        size("the largest variance within bounds", value * value)
    return (
        middle,
        unit,
        {"center": "bounds" if center is None else "argument", "bounds": "argument"},
    )


@shared_docs
@user_level
def coinpress_covariance(
    x_priv: Any,
    *,
    budget: Budget,
    scale: float | None = None,
    center: Any = None,
    bounds: Any = None,
    steps: int = 2,
    mode: Mode = "practical",
    failure_prob: float = FAILURE_PROB,
    columns: Any = None,
    person: Any = None,
    rows_per_person: RowsPerPerson = 1,
    ledger: Ledger | None = None,
    random_state: int | None = None,
    threads: int | None = None,
    progress: bool | None = None,
) -> CovarianceResult:
    """Covariance of centered private rows with no public row: the caller bounds the largest eigenvalue, or the columns.

    Parameters
    ----------
    {x_priv}
        Their mean is `center`. A row with a missing or infinite entry is left out: each round releases the number of complete
        rows with the second moment, at no cost, and divides by it. If surely fewer than .98 are complete, the result has the
        reason "gaps".
    {budget}
    scale : float > 0
        Bound on the largest eigenvalue of the covariance, in squared data units. Too small a bound costs accuracy, never privacy.
        Either this or `bounds`.
    center : None, float or (dim,)
        Mean of the rows (zero by default, with `bounds` their middle), a public number.
    bounds : (lowest, highest), numbers or (dim,) each
        Range of each column, instead of `scale`. The unit of a column is the largest standard deviation that the bounds permit
        about `center`, half the range about their middle; no estimated standard deviation exceeds it.
    steps : int from 1 to 10
        Number of rounds. The last spends 3/4 of the budget.
    {mode, failure_prob}
        Used in mode="theory" only.
    {columns, person, rows_per_person, ledger, random_state, threads, progress}

    Returns
    -------
    CovarianceResult
        `covariance` (dim, dim), positive semi-definite, in squared data units; `correlation`; `predicted_error` for Gaussian
        rows; `reasons` has "clipped" if `scale` appears to be too small, "unresolved" if the smallest eigenvalues are within the
        noise.

    Raises
    ------
    {raises}

    Privacy
    -------
    Neighbors: replace one row. One symmetric integer second moment per round, squared sensitivity 2 Q^4 (pure: l1 on
    the triangle); the exact costs add up to at most the budget. Public: n_priv, dim.

    Notes
    -----
    Biswas, Dong, Kamath, Ullman, "CoinPress" (2020), Algorithm 3. Departs from its published code: rows are multiplied by the
    preconditioner on its proper side (that code is wrong from three rounds on), rows are not clipped in place, and the noise is
    orthogonally invariant.

    Examples
    --------
    >>> import numpy as np
    >>> from fastpubpriv import ZCDP, coinpress_covariance
    >>> rows = np.random.default_rng(0).normal(size=(20_000, 3)) * [1.0, 2.0, 3.0]
    >>> result = coinpress_covariance(rows, budget=ZCDP(rho=0.5), scale=20.0, steps=3)
    >>> np.round(np.sqrt(np.diag(result.covariance)), 0).tolist()
    [1.0, 2.0, 3.0]
    """
    rows, _ = session.open_rows(x_priv, columns=columns)
    session.refuse_padding(rows, "coinpress_covariance", "estimate_gaussian")
    steps = validation.integer("steps", steps, minimum=1, maximum=MAX_STEPS)
    mode = validation.choice("mode", mode, ("practical", "theory"))
    failure_prob = failure_probability(failure_prob)
    session.require_squares("coinpress_covariance", rows.dim, 14)
    box = validation.column_bounds(bounds, rows.dim)
    middle, unit, provenance = _frame(scale, center, box, rows.dim)
    run = session.start(
        "coinpress_covariance",
        rows,
        budget,
        draws=steps * (rows.dim * rows.dim + 1),
        **session.asked(ledger, random_state, threads, progress),
    )
    dim = rows.dim
    n = rows.n
    check_gram_grids(
        run.account, [run.account.allowance * share for share in budget_shares(steps)], dim, n
    )

    def slack(released: Released) -> float:
        ratio = math.sqrt(dim / n)
        if mode == "theory":
            width = math.sqrt(2.0 * dim)
            tail = math.sqrt(2.0 * math.log(4.0 * steps / failure_prob))
            return 2.0 * (ratio + tail / math.sqrt(n)) + (width + tail) * released.spectral_std / n
        # As in the published constants, the noise is not included: with it, early rounds would reduce the range too little.
        return ratio + ratio * ratio / 2.0

    base = AffineMap(dim=dim, center=middle, matrix=1.0 / unit)
    clip = chi_radius(dim, failure_prob / n if mode == "theory" else ROW_FAILURE)
    noise = run.account.spending.std("moment", dim, budget_shares(steps)[-1])
    predicted = covariance_error(dim, n, noise * clip * clip / n)
    if not predicted < HOPELESS:
        warn(
            f"coinpress_covariance: predicted relative error {predicted:.3g}, noise as large as the covariance; pass a larger "
            "budget, more private rows or fewer columns, or let estimate_gaussian fall back on public rows",
        )
    with run.paid():
        covariance, released, complete = coinpress_rounds(
            run, base, shares=budget_shares(steps), clip=clip, slack=slack
        )
        covariance = covariance * np.outer(unit, unit)
        if box is not None:
            (covariance,) = narrowed(covariance[None], middle[None], box)
        result = CovarianceResult(
            covariance=covariance,
            relative_noise_std=released.spectral_std / (n * complete.divisor),
            steps=steps,
            predicted_error=max(predicted, _error_of(released, n * complete.divisor, clip)),
            reasons=(*_reasons(released, n * complete.divisor, clip), *complete.reasons),
            columns=rows.columns,
            provenance=provenance,
            **complete.number(n),
            **run.fields(0),
        )
    return session.warned("coinpress_covariance", result)


def _error_of(released: Released, n: float, clip: float) -> float:
    """Return the relative Frobenius error by sampling, noise and clipping of Gaussian rows with the last round's second moment."""
    std = released.spectral_std / n
    values = np.maximum(spectrum(released.value / n)[0], std)
    dim = len(values)
    # A squared norm is about `unit` times a chi-squared of this freedom, of which clipping loses a share.
    total = float(values.sum())
    unit = float(values @ values) / total
    freedom = total / unit
    lost = chi_beyond(freedom, clip * clip / unit) / freedom
    inverse = 1.0 / values
    sampling_sq = dim * (dim + 1) / n
    noise_sq = std * std * (inverse.sum() ** 2 + inverse @ inverse) / 2.0
    return math.sqrt(sampling_sq + noise_sq + lost**2 * freedom)


def _reasons(released: Released, n: float, clip: float) -> Reasons:
    """Return the reasons that the last round's second moment shows, in its own coordinates."""
    second = released.value / n
    dim = len(second)
    std = released.spectral_std / n
    if float(np.trace(second)) - 3.0 * std * math.sqrt(dim) > FILLED * clip * clip:
        return (Reason.CLIPPED,)
    ratio = math.sqrt(dim / n)
    least = float(spectrum(second)[0][0])
    return () if least > math.sqrt(2.0 * dim) * std + ratio * ratio / 2.0 else (Reason.UNRESOLVED,)
