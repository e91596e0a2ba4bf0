"""Lifted CoinPress: mean and covariance from one second-moment recursion (the default learner of paper A, Algorithm 2)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Self

import numpy as np

from fastpubpriv import validation
from fastpubpriv._types import FloatArray, Mode
from fastpubpriv.errors import InputError, warn
from fastpubpriv.estimators.complete_rows import (
    CompleteRows,
    fields_of,
    reasons_of,
    release_complete,
)
from fastpubpriv.estimators.linalg import (
    bessel,
    divided,
    lower_powers,
    lower_root,
    rebuilt,
    spectrum,
    symmetric,
)
from fastpubpriv.estimators.preconditioner import (
    LARGEST_CONDITION,
    Frame,
    precondition_bounds,
    public_frame,
    trace_bounds,
)
from fastpubpriv.estimators.radii import (
    LARGEST_SIZE,
    MAX_AUTO_STEPS,
    STEP_FAILURE,
    budget_shares,
    chi_radius,
    gap_ratio,
    planned_steps,
)
from fastpubpriv.gaussians.gaussian_options import Options
from fastpubpriv.gaussians.rounds import (
    Precision,
    RoundMoment,
    Rounds,
    after,
    covariance_error,
    last_moment,
    planned,
    union_tail,
)
from fastpubpriv.gaussians.structures import Prediction
from fastpubpriv.mechanisms.sums import (
    AffineMap,
    VectorSum,
    check_gram_grids,
    check_sum_grids,
)
from fastpubpriv.privacy.spending import Spending
from fastpubpriv.results.estimates import GaussianResult
from fastpubpriv.results.reasons import Reason, Reasons
from fastpubpriv.session import Method, PredictedError, Session

MEAN_SHARE = Fraction(1, 10)
EARLY_SHARE = Fraction(2, 5)  # of what the mean leaves, for all rounds but the last
ROW_FAILURE = 0.1
MAX_ROUNDS = 12
# Squared residual distance of the mean after whitening by the released covariance.
MEAN_RESIDUAL_SQ = 7.0
LAST_FLOOR = 1e-6
OUTPUT_FLOOR = 1e-9


def round_shares(rounds: int) -> list[Fraction]:
    """Return the shares of the budget of the second-moment rounds; with MEAN_SHARE they add up to one."""
    return [(1 - MEAN_SHARE) * share for share in budget_shares(rounds, EARLY_SHARE)]


def round_costs(allowance: Fraction, rounds: int) -> list[Fraction]:
    """Return the costs of the second-moment rounds within an allowance."""
    return [allowance * share for share in round_shares(rounds)]


@dataclass(frozen=True, slots=True, kw_only=True)
class GaussianProblem:
    """Public numbers of a learning problem: rows v with covariance at most the identity and mean within `mean_radius`."""

    dim: int
    n: int
    mean_radius: float
    condition: float
    mode: Mode
    failure_prob: float
    # bound on the mean in standard deviations of the rows, in every direction
    deviations: float = math.inf

    @classmethod
    def of(cls, options: Options, dim: int, n: int, mean_radius: float, condition: float) -> Self:
        """Return the problem of n rows within public bounds on their mean and on the range of the eigenvalues."""
        return cls(
            dim=dim,
            n=n,
            mean_radius=mean_radius,
            condition=condition,
            mode=options.mode,
            failure_prob=options.failure_prob,
            deviations=mean_radius * gap_ratio(options.pub_priv_gap),
        )

    @property
    def lifted(self) -> int:
        """Number of coordinates of (v, 1)."""
        return self.dim + 1

    def row_clip(self, rounds: int) -> float:
        """Return the clip radius of a preconditioned row."""
        failure = (
            self.failure_prob / (4.0 * self.n * rounds) if self.mode == "theory" else ROW_FAILURE
        )
        return chi_radius(self.dim, failure)


@dataclass(frozen=True, slots=True)
class PlannedRounds:
    """A number of rounds of second moments of lifted rows, and what it reaches for the least favorable public rows."""

    problem: GaussianProblem
    spending: Spending
    rounds: int

    @property
    def precision(self) -> Precision:
        """Errors of a round."""
        problem = self.problem
        tail = union_tail(problem.mode, problem.failure_prob, self.rounds)
        return Precision(problem.lifted, problem.n, self.spending, tail)

    @property
    def radius(self) -> float:
        """Clip radius of a lifted row."""
        return 1.0 + self.problem.row_clip(self.rounds)

    def slack(self, share: Fraction) -> float:
        """Return the predicted error of a round with this share."""
        return self.precision.slack(self.precision.std(self.radius**2, share))

    @property
    def least(self) -> float:
        """Least eigenvalue of the rows predicted for the last round."""
        problem = self.problem
        slack = self.slack(round_shares(self.rounds)[0])
        least = 1.0 / ((2.0 + problem.mean_radius**2) * problem.condition)
        for _ in range(self.rounds - 1):
            least = least / (least + slack)
        return least

    @property
    def resolves(self) -> bool:
        """Whether the least eigenvalue of the rows is predicted above 1/2 in the last round."""
        return self.least > 0.5

    @property
    def prediction(self) -> Prediction:
        """Predicted errors of covariance and mean."""
        problem = self.problem
        std = self.precision.std(self.radius**2, round_shares(self.rounds)[-1])
        error = covariance_error(np.ones(problem.dim), problem.n, std)
        return Prediction(error, mean_error(problem, self.spending))

    def start(self, base: AffineMap) -> Rounds:
        """Return the state before the first round, in which lifted rows have a second moment of at most the identity."""
        problem = self.problem
        precision = self.precision
        whitener = np.eye(problem.lifted) / math.sqrt(2.0 + problem.mean_radius**2)

        def slack(moment: RoundMoment) -> float:
            error = precision.slack(moment.released.spectral_std / problem.n)
            return error * (problem.n / moment.n)

        return Rounds(base, whitener, slack)


def choose_rounds(problem: GaussianProblem, spending: Spending) -> PlannedRounds:
    """Return the fewest rounds that resolve the least eigenvalue, MAX_ROUNDS if none does."""
    plans = [PlannedRounds(problem, spending, rounds) for rounds in range(2, MAX_ROUNDS + 1)]
    return next((plan for plan in plans if plan.resolves), plans[-1])


def mean_error(problem: GaussianProblem, spending: Spending) -> float:
    """Return the Mahalanobis error, by sampling and noise, of a mean step with MEAN_SHARE of a budget."""
    dim = problem.dim
    n = problem.n
    noise = mean_clip(dim) * spending.std("sum", dim, MEAN_SHARE) / n
    return math.sqrt(dim / n + dim * noise * noise)


def mean_clip(dim: int) -> float:
    """Return the clip radius of the mean step, in whitened coordinates."""
    return math.sqrt(MEAN_RESIDUAL_SQ + chi_radius(dim, STEP_FAILURE) ** 2)


@dataclass(frozen=True, slots=True, eq=False)
class LearnedGaussian:
    """Mean and covariance of the rows v, whose mean has the noise of `root` times white noise, and what releases decided."""

    mean: FloatArray
    covariance: FloatArray
    root: FloatArray
    inverse: FloatArray  # of the root
    mean_noise_std: float = 0.0
    complete: CompleteRows | None = None  # the share of complete rows, from the step of the mean
    rounds: int | None = None
    covariance_error: float | None = None  # predicted from the releases

    def noise_in_data(self, frame: Frame) -> FloatArray:
        """Return the noise of the mean in data units, (dim,), for rows v in the coordinates of a frame."""
        lengths = np.linalg.norm(frame.scale.to_data(self.root), axis=1)
        return np.asarray(self.mean_noise_std * lengths)


def lifted_gaussian(state: Rounds, last: RoundMoment) -> LearnedGaussian:
    """Return mean and covariance that the last round of lifted rows shows, before the step of the mean."""
    dim = state.base.dim
    moment = state.moment_of(last, LAST_FLOOR)
    n = last.n
    del last  # no reference keeps the matrix alive
    weight = moment[dim, dim]
    first = moment[:dim, dim].copy()
    covariance = symmetric(moment[:dim, :dim] - np.outer(first, first) / weight)
    del moment
    covariance *= bessel(n)
    values, vectors = spectrum(covariance, overwrite=True)
    values = np.maximum(values, max(OUTPUT_FLOOR * float(values[-1]), np.finfo(np.float64).tiny))
    covariance = rebuilt(vectors, values)
    root = lower_root(vectors, np.sqrt(values))
    return LearnedGaussian(first / weight, covariance, root, divided(root, np.eye(dim, order="F")))


def learn(
    run: Session,
    base: AffineMap,
    problem: GaussianProblem,
    *,
    rounds: int,
    allowance: Fraction | None = None,
) -> LearnedGaussian:
    """Release second moments of clipped lifted rows, then one mean, within an allowance, by default the whole of the account's."""
    allowance = run.account.allowance if allowance is None else allowance
    plan = PlannedRounds(problem, run.account.spend(allowance), rounds)
    state = plan.start(base)
    costs = round_costs(allowance, rounds)
    schedule = planned("second moment", costs, plan.radius)
    learned = lifted_gaussian(state, last_moment(run, state, schedule))
    del state
    clip = mean_clip(problem.dim)
    return with_mean(run, base, learned, name="mean", clip=clip, cost=allowance * MEAN_SHARE)


@dataclass(frozen=True, slots=True)
class GaussianPlan:
    """Rounds of a learner and their predicted errors, decided from public numbers before the debit."""

    rounds: int
    predicted: Prediction
    reasons: Reasons = ()  # UNRESOLVED, or none


def predict(
    problem: GaussianProblem, spending: Spending, rounds: int | None = None
) -> GaussianPlan:
    """Return the plan of the given rounds, or of `choose_rounds`; too few rounds leave the smallest eigenvalues unresolved."""
    plan = (
        choose_rounds(problem, spending)
        if rounds is None
        else PlannedRounds(problem, spending, rounds)
    )
    reasons = () if plan.resolves else (Reason.UNRESOLVED,)
    return GaussianPlan(plan.rounds, plan.prediction, reasons)


def prepare(
    run: Session,
    problem: GaussianProblem,
    rounds: int | None,
    *,
    allowance: Fraction | None = None,
    rule: Callable[..., GaussianPlan] = predict,
) -> GaussianPlan:
    """Return the plan, with infinite errors if eigenvalues are unresolved. Raise InputError if a release has no integer grid."""
    allowance = run.account.allowance if allowance is None else allowance
    if rounds is not None:
        rounds = validation.integer("rounds", rounds, minimum=1, maximum=2 * MAX_ROUNDS)
    plan = rule(problem, run.account.spend(allowance), rounds)
    check_grids(run, problem.lifted, problem, plan.rounds, allowance)
    if not plan.reasons:
        return plan
    # The noise of the last round may then exceed the smallest eigenvalues by any factor, and the mean is whitened by them.
    return replace(plan, predicted=Prediction(math.inf, math.inf))


def check_grids(
    run: Session, side: int, problem: GaussianProblem, rounds: int, allowance: Fraction
) -> None:
    """Raise, before the debit, if second moments of `side` coordinates, or the mean steps, have no integer grid."""
    check_gram_grids(run.account, round_costs(allowance, rounds), side, problem.n)
    # The mean may be estimated in several steps, whose number may depend on a release.
    least = min(budget_shares(MAX_AUTO_STEPS))
    check_sum_grids(run.account, [allowance * MEAN_SHARE * least], problem.dim, problem.n)


def mean_map(base: AffineMap, learned: LearnedGaussian) -> AffineMap:
    """Return the map x -> inverse (v - mean) for v = base(x)."""
    return after(base, learned.inverse, offset=-(learned.inverse @ learned.mean))


def with_mean(
    run: Session,
    base: AffineMap,
    learned: LearnedGaussian,
    *,
    name: str,
    clip: float,
    cost: Fraction,
) -> LearnedGaussian:
    """Release the mean of complete rows v clipped around that of `learned`, whose root whitens them."""
    total = VectorSum(affine=mean_map(base, learned), radius=clip)
    step, complete = release_complete(run, total, name=name, cost=cost)
    n = run.rows.n * complete.divisor
    mean = learned.mean + learned.root @ step.value / n
    return replace(learned, mean=mean, mean_noise_std=step.noise_std / n, complete=complete)


def with_coinpress_mean(
    run: Session, base: AffineMap, covariance: FloatArray, problem: GaussianProblem
) -> LearnedGaussian:
    """Release the mean of v by CoinPress, from zero, after whitening by a released covariance; return both."""
    # |Sigma^-1/2 mean| <= mean_radius / sqrt(least eigenvalue); a released floor keeps it finite.
    least = float(spectrum(covariance)[0][0])
    radius = min(problem.mean_radius / math.sqrt(max(least, 1.0 / LARGEST_SIZE)), LARGEST_SIZE)
    # With d + 1 public rows the radius may be thousands of standard deviations: the released one decides the number of steps.
    allowance = run.account.allowance * MEAN_SHARE
    steps = planned_steps(
        run, allowance, radius, mode=problem.mode, failure_prob=problem.failure_prob
    )
    learned = LearnedGaussian(np.zeros(problem.dim), covariance, *lower_powers(covariance))
    for index, step in enumerate(steps, start=1):
        name = f"mean, step {index} of {len(steps)}"
        cost = allowance * step.share
        learned = with_mean(run, base, learned, name=name, clip=step.clip_radius, cost=cost)
    return learned


def draws(dim: int, rounds: int = 2 * MAX_ROUNDS) -> int:
    """Return an upper bound on the noise draws of this number of rounds and a mean."""
    return rounds * ((dim + 1) ** 2 + 1) + 8 * (dim + 1)


# A checked call: the function that makes the releases, after the debit, and returns the result; and whether it reads private rows.
GaussianCall = tuple[Callable[[Session], GaussianResult], bool]


def preconditioned(
    method: Method[[int]], run: Session, x_pub: FloatArray, options: Options
) -> GaussianCall:
    """Compute the public frame, for half of the failure probability, and prepare the method in its coordinates."""
    frame = public_frame(
        x_pub,
        failure_prob=options.failure_prob / 2.0,
        pub_priv_gap=options.pub_priv_gap,
        cond_max=max(options.cond_max, 1.0),
        require_precondition=options.require_precondition,
    )
    if not frame.condition <= LARGEST_CONDITION:
        raise InputError(
            f"the covariance could be off the public one by a factor of {frame.condition:.3g}, beyond what can be computed with; "
            "pass a larger failure_prob, a smaller pub_priv_gap or cond_max, or more public rows"
        )
    n_pub, dim = x_pub.shape
    problem = GaussianProblem.of(options, dim, run.rows.n, frame.mean_radius, frame.condition)
    prepared: GaussianPlan = method.prepare(run, problem, options.rounds)
    trouble = ""
    if prepared.reasons:
        trouble = f"{prepared.rounds} rounds do not resolve the smallest eigenvalues, which may be far off,"
    elif prepared.predicted.covariance > 1.0:
        trouble = f"predicted relative covariance error {prepared.predicted.covariance:.3g}"
    if trouble:
        warn(
            f"estimate_gaussian: {trouble} for {problem.n} rows; pass method='ladder', a larger budget, more private rows, "
            "more public rows, or fewer columns",
        )

    def estimate(run: Session) -> GaussianResult:
        learned: LearnedGaussian = method.learn(run, frame.base, problem, rounds=prepared.rounds)
        error = learned.covariance_error
        error = prepared.predicted.covariance if error is None else error
        # of as many Gaussian rows
        public_error = math.sqrt(dim * (dim + 1) / (n_pub - 1)) if n_pub > dim else math.inf
        wide = (Reason.WIDE,) if public_error < error < math.inf else ()
        return GaussianResult(
            mean=frame.mean_back(learned.mean),
            covariance=frame.covariance_back(learned.covariance),
            mean_noise_std=learned.noise_in_data(frame),
            rounds=prepared.rounds if learned.rounds is None else learned.rounds,
            reasons=(*prepared.reasons, *reasons_of(learned.complete, run.rows), *wide),
            part_reasons=((Reason.NO_INTERVAL,),) * dim,
            predicted_covariance_error=error,
            predicted_mean_error=prepared.predicted.mean,
            method=method.name,
            columns=run.rows.columns,
            provenance={"center": frame.source, "scale": frame.source, "radius": frame.source},
            **fields_of(learned.complete, run.rows),
            **run.fields(n_pub),
        )

    return estimate, True


def forecast(
    options: Options,
    dim: int,
    n_pub: int,
    n_priv: int,
    spending: Spending,
    *,
    rule: Callable[..., GaussianPlan] = predict,
) -> PredictedError:
    """Predict the errors with bounds that hold for the least favorable public rows."""
    failure = options.failure_prob
    gap = options.pub_priv_gap
    # Half of the failure probability is for the public rows, as in `preconditioned`.
    if n_pub > dim:
        lower, upper, mean_radius = precondition_bounds(dim, n_pub, gap, failure / 2.0)
        condition = upper / lower
    else:
        _, mean_radius, slack = trace_bounds(dim, n_pub, gap, failure / 2.0)
        condition = max(options.cond_max, 1.0) * slack
    problem = GaussianProblem.of(options, dim, n_priv, mean_radius, condition)
    plan = rule(problem, spending)
    return plan.predicted.covariance, {
        "rounds": float(plan.rounds),
        "unresolved": float(bool(plan.reasons)),
        "mean_error": plan.predicted.mean,
        "condition": condition,
        "mean_radius": mean_radius,
        "clip_radius": 1.0 + problem.row_clip(plan.rounds),
        "public_rows_alone": math.sqrt(dim * (dim + 1) / (n_pub - 1)),
    }
