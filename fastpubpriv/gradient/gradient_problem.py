"""Settings and problem of the gradient methods: the units of the fit, the public rows in these units, and the public fit."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from fastpubpriv import validation
from fastpubpriv._types import FloatArray, IntArray
from fastpubpriv.errors import InputError
from fastpubpriv.gradient import gradient_tuning as tuning
from fastpubpriv.kernels.gradients import public_gradients
from fastpubpriv.mechanisms.group_covariances import total
from fastpubpriv.privacy.calibration import SampledGrid
from fastpubpriv.regression import regression_tuning
from fastpubpriv.regression.coordinates import label_values
from fastpubpriv.regression.inputs import (
    FEW,
    DataSpec,
    Design,
    refuse_balancing,
    require_units,
    usable_rows,
)
from fastpubpriv.regression.posterior import LossExcess
from fastpubpriv.regression.problem import Ends
from fastpubpriv.regression.public_fits import marginal_likelihood
from fastpubpriv.results.reasons import Reasons
from fastpubpriv.rowwise.losses import LOSSES, Loss, RowLoss, minimum
from fastpubpriv.session import MethodPlan
from fastpubpriv.sources import Executor, Rows
from fastpubpriv.sources.row_types import Chunk

_CHOICES = {
    "sampling": ("full", "poisson", "without_replacement", "one_pass"),
    "schedule": ("constant", "inverse_root", "linear"),
    "public_gradient": ("clip", "raw", "sphere", "batch_sphere"),
    "average": ("last", "all", "suffix"),
    "scaling": ("standard", "none"),
}
MOST_STEPS = 10**6

Choice = str | float | Sequence[float]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Ball:
    """Ball about their start to which weights are projected.

    Examples
    --------
    >>> from fastpubpriv.training import Ball, SemiDP
    >>> SemiDP(projection=Ball(radius=2.0)).projection
    Ball(radius=2.0)
    """

    radius: float

    def __post_init__(self) -> None:
        validation.positive("radius", self.radius)

    def project(self, weights: Any, start: Any) -> Any:
        """The nearest point of the ball."""
        off = weights - start
        length = float(np.sqrt(np.sum(off * off)))
        return weights if length <= self.radius else start + off * (self.radius / length)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Box:
    """Box of all weights: each is kept between these two numbers.

    Examples
    --------
    >>> from fastpubpriv.training import Box, SemiDP
    >>> SemiDP(projection=Box(lower=0.0, upper=1.0)).projection  # coefficients between 0 and 1
    Box(lower=0.0, upper=1.0)
    """

    lower: float
    upper: float

    def __post_init__(self) -> None:
        if not validation.finite("lower", self.lower) < validation.finite("upper", self.upper):
            raise InputError(
                f"a Box needs finite numbers lower < upper, got {self.lower} and {self.upper}"
            )

    def project(self, weights: Any, start: Any) -> Any:
        """The nearest point of the box."""
        return np.clip(weights, self.lower, self.upper)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Descent:
    """Settings that the gradient methods share. Make one of `SemiDP`, `DPSGD` and `MirrorDescent`.

    Attributes
    ----------
    steps : int or "auto"
        Number of steps; each makes one query to the private rows.
    sampling : "full", "poisson", "without_replacement" or "one_pass"
        All rows in every step; each row independently at random; a random batch of fixed size; or disjoint batches, each used once,
        in the order of the rows. The second and third need an ApproxDP budget and rows with random access.
    batch_rows : int, optional
        (Expected) rows of a batch, for all samplings but "full"; sums are divided by it.
    public_batch_rows : int, optional
        Number of public rows of a step, taken in turn; by default all of them.
    clip_norm : float or "auto"
        Bound on the norm of a private row's gradient, in the units of the fit; "auto" is the .9 quantile over public rows.
    step_size : float, sequence of float, or "auto"
        Step size. Of several, or with "auto", the one with the least error predicted from public numbers is used.
    schedule : "constant", "inverse_root" or "linear"
        step_size, step_size / sqrt(t), or decreasing linearly to zero.
    priv_weight : float in [0, 1], sequence of float, "inverse_variance" or "auto"
        Weight of the private gradient; the public one has the rest. 0 reads no private row and spends nothing.
    public_gradient : "clip", "raw", "sphere" or "batch_sphere"
        Public gradients are clipped to `clip_norm`, unchanged, or scaled to that norm; or their mean is scaled to that norm.
    momentum : float in [0, 1)
        Share of the previous update that is added to the next one.
    accelerated : bool
        The accelerated form (AC-SA of Ghadimi and Lan), in which `step_size` is 1 / nu; not with momentum.
    average : "last", "all" or "suffix"
        The returned weights: the last iterate, the mean of all, or of the second half.
    start : "public", "zero" or array
        Initial weights: the minimum of the public loss, zero, or an array in the units of the fit.
    scaling : "standard" or "none"
        Columns in standard units by public rows, with an intercept; or as they are, without one.
    l2 : float
        l2 |w|^2 / 2 is added to the loss.
    projection : Ball or Box, optional
        The set that weights are projected to.

    Examples
    --------
    >>> from fastpubpriv.training import Descent, SemiDP
    >>> method = SemiDP(steps=100, clip_norm=1.0)  # one of the methods that have these settings
    >>> isinstance(method, Descent), method.steps, method.sampling
    (True, 100, 'full')
    """

    name: ClassVar[str] = ""
    preconditioned: ClassVar[bool] = False
    anchored: ClassVar[bool] = False  # whether l2 pulls to the public fit rather than to zero

    steps: int | str = "auto"
    sampling: str = "full"
    batch_rows: int | None = None
    public_batch_rows: int | None = None
    clip_norm: float | str = "auto"
    step_size: Choice = "auto"
    schedule: str = "constant"
    priv_weight: Choice = "auto"
    public_gradient: str = "clip"
    momentum: float = 0.0
    accelerated: bool = False
    average: str = "last"
    start: Any = "public"
    scaling: str = "standard"
    l2: float = 0.0
    projection: Ball | Box | None = None

    def __post_init__(self) -> None:
        if "replacement" in str(self.sampling) and self.sampling not in _CHOICES["sampling"]:
            raise InputError(
                "batches with replacement are refused: a row that is drawn twice counts twice, and no useful cost is known; "
                "pass sampling='poisson'"
            )
        for setting, choices in _CHOICES.items():
            validation.choice(setting, getattr(self, setting), choices)
        if self.steps != "auto":
            validation.integer("steps", self.steps, minimum=1, maximum=MOST_STEPS)
        if (self.sampling == "full") != (self.batch_rows is None):
            raise InputError(
                "batch_rows is the size of sampled batches: leave it out, or pass sampling='poisson'"
                if self.sampling == "full"
                else f"sampling={self.sampling!r} needs batch_rows, the (expected) rows of a batch"
            )
        for setting in ("batch_rows", "public_batch_rows"):
            if getattr(self, setting) is not None:
                validation.integer(setting, getattr(self, setting), minimum=1)
        if not isinstance(self.clip_norm, str) or self.clip_norm != "auto":
            validation.clip_norm(self.clip_norm)
        self._check_choice("step_size", ("auto",), math.inf)
        self._check_choice("priv_weight", ("auto", "inverse_variance"), 1.0)
        validation.fraction("momentum", self.momentum)
        if not isinstance(self.accelerated, bool) or (self.accelerated and self.momentum):
            raise InputError("accelerated is True or False, and goes without momentum")
        validation.nonnegative("l2", self.l2)
        if isinstance(self.start, str):
            validation.choice("start", self.start, ("public", "zero"))
        if self.projection is not None and not isinstance(self.projection, Ball | Box):
            raise InputError(
                "projection must be Ball(radius=...), Box(lower=..., upper=...) or None"
            )

    def _check_choice(self, field: str, words: tuple[str, ...], highest: float) -> None:
        given = getattr(self, field)
        if isinstance(given, str):
            if given not in words:
                named = " or ".join(map(repr, words))
                raise InputError(
                    f"{field} must be a number, a list of numbers to choose from, or {named}, got {given!r}"
                )
            return
        for value in self.options(field):
            number = validation.finite(field, value)
            if not 0.0 <= number <= highest or (field == "step_size" and number == 0.0):
                wanted = (
                    f"lie between 0 and {highest:g}" if math.isfinite(highest) else "be above 0"
                )
                raise InputError(f"{field} must {wanted}, got {number:g}")

    def options(self, field: str) -> tuple[float, ...]:
        """Candidate numbers of a field; none if the field is a string."""
        given = getattr(self, field)
        if isinstance(given, str):
            return ()
        if isinstance(given, Sequence | np.ndarray):
            if len(given) == 0:
                raise InputError(f"{field} is empty: pass at least one number")
            return tuple(given)
        return (given,)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SemiDP(Descent):
    """Semi-private gradient descent (paper B, Algorithm 1): a weighted sum of a noisy private gradient and a public one.

    Attributes as in `Descent`, by default full batches, everything else chosen from public rows.

    SemiDP clips public gradients by default, Algorithm 1 does not: `public_gradient="raw"` is the algorithm as printed. Both
    gradients are then clipped at the same norm, so that the weighted sum of their means has its minimum where that of all rows has.

    Examples
    --------
    >>> import numpy as np
    >>> from fastpubpriv import ApproxDP, train
    >>> from fastpubpriv.training import SemiDP
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(20_000, 3))
    >>> y = x @ [1.0, -2.0, 0.5] + 3.0 + rng.normal(size=20_000)
    >>> method = SemiDP(sampling="poisson", batch_rows=500, steps=50)
    >>> budget = ApproxDP(epsilon=1, delta=1e-6)
    >>> result = train(x[200:], y[200:], loss="squared", x_pub=x[:200], y_pub=y[:200], budget=budget, method=method)
    >>> bool(np.all(np.abs(result.coefficients - [1.0, -2.0, 0.5]) < 0.2))
    True
    """

    name: ClassVar[str] = "semi_dp"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DPSGD(Descent):
    """Noisy gradient descent on private rows alone, from zero: the usual baseline. Public rows set units, clip and step.

    Attributes as in `Descent`.

    Examples
    --------
    >>> from fastpubpriv.training import DPSGD
    >>> method = DPSGD(sampling="poisson", batch_rows=256)
    >>> method.priv_weight, method.start  # public rows pull nowhere
    (1.0, 'zero')
    """

    name: ClassVar[str] = "dp_sgd"

    priv_weight: Choice = 1.0
    start: Any = "zero"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MirrorDescent(Descent):
    """Mirror descent in the geometry of the public rows (Amid et al.): the noisy gradient times the inverse of their second moment.

    Attributes as in `Descent`, and

    ridge : float
        ridge / D is added to the diagonal of the second moment.

    Examples
    --------
    >>> from fastpubpriv.training import MirrorDescent
    >>> MirrorDescent(ridge=0.1).ridge
    0.1
    """

    name: ClassVar[str] = "pda_mirror_descent"
    preconditioned: ClassVar[bool] = True

    priv_weight: Choice = 1.0
    ridge: float = 0.01

    def __post_init__(self) -> None:
        Descent.__post_init__(self)
        validation.positive("ridge", self.ridge)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Units:
    """The public map of a labeled row (dim + 1) to [z, label], entry by entry unless a `radius` shortens z."""

    # maps columns to standard units, after a first coordinate of 1; None: columns as they are, without intercept
    design: Design | None
    center: float  # with scale: a label that is a number becomes (label - center) / scale
    scale: float
    classes: tuple[float, ...] | None  # labels that become 0, 1, 2 and so on; any other becomes NaN
    width: int  # entries of z
    # (p,), mean of each term over the public rows, to which coefficients of levels are relative
    shares: FloatArray | None = None
    radius: float | None = None  # longer rows are shortened to this length

    @property
    def out_width(self) -> int:
        """Numbers of a row that comes out."""
        return self.width + 1

    @property
    def dtype(self) -> type[np.floating]:
        """Single precision for standard units without a `radius`, which are clipped and cannot overflow; else double."""
        return np.float64 if self.design is None or self.radius is not None else np.float32

    def __call__(self, chunk: Chunk) -> Chunk:
        """Rows (k, dim + 1) as (k, width + 1); with a `radius`, an incomplete row is zero with label NaN."""
        out = np.empty(
            (len(chunk), self.out_width), dtype=np.float64 if self.design is None else np.float32
        )
        with np.errstate(all="ignore"):
            if self.design is None:
                out[:, :-1] = chunk[:, :-1]
            else:
                out[:, 0] = 1.0
                out[:, 1:-1] = self.design.standardize(chunk[:, :-1])
            out[:, -1] = self.labels(chunk[:, -1].astype(np.float64))
            if self.radius is not None:
                out = out.astype(np.float64)
                norm = np.sqrt(total(np.square(np.ascontiguousarray(out[:, :-1].T))))
                out[:, :-1] *= np.where(norm > self.radius, self.radius / norm, 1.0)[:, None]
                lost = ~(np.isfinite(norm) & np.isfinite(out[:, -1]))
                out[lost], out[lost, -1] = 0.0, np.nan
        return out

    def labels(self, predictions: FloatArray) -> FloatArray:
        """Convert labels to the unit of the fit."""
        return label_values(predictions, self.center, self.scale, self.classes)

    def in_units(self, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Convert weights (outputs, width) to coefficients (outputs, terms) and intercepts (outputs,) in the units of the table."""
        if self.design is None:
            return weights * self.scale, np.full(len(weights), self.center)
        slopes = weights[:, 1:] * (self.scale / self.design.scale)
        start = weights[:, 0] * self.scale + self.center - slopes @ self.design.center
        if self.shares is not None:
            self.design.about_the_mean(slopes.T, start, self.shares)
        self.design.from_reference(slopes.T, start)
        return slopes, start


@dataclass(frozen=True, kw_only=True, eq=False)
class GradientProblem:
    """A loss, public rows in the units of the fit, the settings of a method, and public facts of the private data."""

    loss: Loss | None  # of a linear model; None if `row_loss` gives the gradients
    row_loss: RowLoss | None  # a custom loss
    units: Units  # of the fit
    x: FloatArray  # (m, width), with y: public rows and labels in these units
    y: FloatArray  # (m,)
    outputs: int  # number of predictions of a row
    n_priv: int  # number of private rows
    # a value such as `SemiDP(...)`; None for public rows alone and for "newton"
    settings: Any = None
    # the private rows, of which a plan uses facts such as their number; None if there are none yet
    rows: Rows | None = None
    executor: Executor | None = None  # of the run
    known: PublicFit | None = None  # the public fit, if it was made before

    @cached_property
    def public(self) -> PublicFit:
        """The public fit, with the ridge of the settings, unless that pulls to the public fit."""
        anchored = self.settings is None or self.settings.anchored
        return self.known or public_fit(self, 0.0 if anchored else float(self.settings.l2))

    @property
    def excess_part(self) -> float:
        """Excess of the loss (squared error for the squared loss) per squared error of the weights in the curvature's metric."""
        return (1.0 if self.loss is LOSSES["squared"] else 0.5) * self.outputs

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the weights."""
        scores = self.loss is not None and self.loss.scores
        return (self.outputs, self.units.width) if scores else (self.units.width,)

    @property
    def size(self) -> int:
        """Number of weights."""
        return self.outputs * self.units.width

    def gradients(
        self, weights: FloatArray, rows: slice | IntArray = slice(None)
    ) -> tuple[FloatArray, FloatArray]:
        """Minus the gradients of public rows as outer products of coefficients (k, outputs) and vectors (k, width)."""
        if self.row_loss is not None:
            gradients = public_gradients(self.row_loss, weights, self.x[rows], self.y[rows])
            return np.full((len(gradients), 1), -1.0), gradients
        assert self.loss is not None
        gradients = self.loss.residuals_of(self.x[rows] @ weights.T, self.y[rows])
        return gradients.reshape(len(gradients), -1), self.x[rows]


def make_gradient_problem(
    loss: Loss | RowLoss,
    table: FloatArray,
    names: Sequence[str],
    n_priv: int,
    *,
    scaling: str,
    stated: DataSpec,
) -> tuple[GradientProblem, int]:
    """Return the problem of public rows (m, dim + 1), the label last, and the number of usable rows."""
    if any(
        each is not None for each in (stated.weights_pub, stated.weights_priv, stated.class_weight)
    ):
        if isinstance(stated.class_weight, str) and stated.class_weight != "public":
            refuse_balancing(stated.class_weight)
        raise InputError(
            "weights_pub=, weights_priv= and class_weight= are not for this loss or method: pass loss='squared', 'huber' or "
            "'logistic' with method='newton', or leave them out"
        )
    known = loss if isinstance(loss, Loss) else None
    standard = scaling == "standard"
    for name in ("categories", "reference", "x_bounds", "y_bounds"):
        if not standard and getattr(stated, name) is not None:
            raise InputError(f"{name}= belongs to scaling='standard'")
    design, usable, levels = usable_rows(table, names, stated, known, standard=standard)
    usable &= np.isfinite(table[:, -1])
    if usable.sum() < 2:
        raise InputError(
            f"{FEW}: only Newton steps of the squared, Huber and logistic loss start without labels"
        )
    used = table[usable]
    if known is not None and known.counts and (used[:, -1] < 0.0).any():
        raise InputError(
            f"loss={known.name!r} is for counts, and public labels go down to {used[:, -1].min():g}"
        )
    center = 0.0
    scale = 1.0
    if known is not None and levels is None and not known.counts and standard:
        center, scale, _ = stated.label_unit(used[:, -1])
    elif stated.y_bounds is not None:
        raise InputError(
            "y_bounds= belongs to a loss of labels in units, such as the squared one: leave it out"
        )
    if design is not None:
        require_units(design, scale)
    width = table.shape[1] - 1 if design is None else len(design.terms) + 1
    shares = None if design is None else np.mean(design.expand(used[:, :-1]), axis=0)
    units = Units(
        design=design, center=center, scale=scale, classes=levels, width=width, shares=shares
    )
    rows = units(used).astype(np.float64)
    outputs = len(levels) if known is not None and known.scores and levels is not None else 1
    made = GradientProblem(
        loss=known,
        row_loss=None if known is not None else loss,
        units=units,
        x=np.ascontiguousarray(rows[:, :-1]),
        y=rows[:, -1].copy(),
        outputs=outputs,
        n_priv=n_priv,
    )
    return made, len(used)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PublicFit:
    """Fit to public rows alone."""

    # the minimum of the public loss plus a ridge; zero if the loss has no values
    weights: FloatArray
    residuals: FloatArray  # (m, outputs), of each public row, at weights fitted without it
    penalty: float  # the strength of the ridge, on the sum of the losses


def public_fit(problem: GradientProblem, l2: float) -> PublicFit:
    """Return the public fit, with a ridge by marginal likelihood (squared loss, leave-one-out residuals) or cross-validation."""
    nothing = np.zeros(problem.shape)
    if problem.loss is None or problem.loss.values is None:
        coefficients, _ = problem.gradients(nothing)
        return PublicFit(weights=nothing, residuals=coefficients, penalty=0.0)
    x = problem.x
    y = problem.y
    m = len(problem.x)
    if problem.loss is LOSSES["squared"]:
        inner = x if problem.units.design is None else x[:, 1:]
        noise, spread = marginal_likelihood(inner - inner.mean(axis=0), y - y.mean())
        penalty = noise / max(spread, 1e-12 * max(noise, 1e-300)) + l2 * m
        shape = ridges(problem, penalty, m)
        if m >= len(shape):
            inverse = np.linalg.solve(x.T @ x + np.diag(shape), x.T)
        else:
            # Fewer rows than columns: the same matrix by the smaller system.
            scaled = x / shape
            inverse = np.linalg.solve(x @ scaled.T + np.eye(m), scaled).T
        leverage = np.minimum(np.einsum("ij,ji->i", x, inverse), regression_tuning.MOST_LEVERAGE)
        residuals = (y - x @ (inverse @ y)) / (1.0 - leverage)
        return PublicFit(weights=inverse @ y, residuals=residuals[:, None], penalty=penalty)
    fold = np.arange(m) % min(regression_tuning.FOLDS, m)
    best = None
    for strength in tuning.RIDGES:
        scores = np.empty((m, *problem.shape[:-1]))
        for k in np.unique(fold):
            inside = np.flatnonzero(fold != k)
            outside = np.flatnonzero(fold == k)
            weights = _minimum(problem, inside, strength + l2 * len(inside), nothing)
            scores[outside] = x[outside] @ weights.T
        with np.errstate(all="ignore"):
            total = float(np.sum(problem.loss.values(scores, y)))
        if best is None or total < best[0]:
            best = total, strength, problem.loss.residuals_of(scores, y).reshape(m, -1)
    assert best is not None
    penalty = best[1] + l2 * m
    return PublicFit(
        weights=_minimum(problem, slice(None), penalty, nothing), residuals=best[2], penalty=penalty
    )


def ridges(problem: GradientProblem, penalty: float, m: int) -> FloatArray:
    """Return the ridge of each weight; that of the intercept is negligible."""
    shape = np.full(problem.units.width, max(penalty, 1e-12 * m))
    if problem.units.design is not None:
        shape[0] = 1e-6 * m
    return shape


def _minimum(problem: GradientProblem, rows: Any, penalty: float, start: FloatArray) -> FloatArray:
    """Return the minimum of the loss of the given public rows plus the ridge."""
    loss = problem.loss
    x = problem.x[rows]
    y = problem.y[rows]
    assert loss is not None
    assert loss.values is not None
    values = loss.values
    shape = ridges(problem, penalty, len(x))

    def value(w: FloatArray) -> tuple[float, FloatArray]:
        scores = x @ w.T
        total = float(np.sum(values(scores, y))) + 0.5 * float(np.sum(shape * w * w))
        return total, shape * w - loss.residuals_of(scores, y).T @ x

    return minimum(value, start)


def source_of(setting: Any) -> str:
    """Return where the value of a setting comes from that is open if it is "auto"."""
    return "public rows" if isinstance(setting, str) else "argument"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PreparedDescent(MethodPlan):
    """All numbers of a method that are known before the debit; sums are divided by `batch_rows`, the (expected) rows of a step."""

    clip_norm: float  # with batch_rows, step_size and priv_weight: as in `DescentResult`
    batch_rows: int
    step_size: float = 0.0
    priv_weight: float = 1.0
    ranges: Mapping[str, str]  # sources of the clip and the start
    start: Any = None  # of a descent: initial weights, in their shape
    preconditioner: FloatArray | None = None  # (width, width), multiplies gradients
    grid: SampledGrid | None = None  # of sums over sampled rows, None for plain sums
    more: Any = (
        None  # further values: the curvature of a descent, and what a method of one release needs
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Descended:
    """Result of a gradient method."""

    weights: FloatArray
    noise_std: float = 0.0  # of its sums, or of the weights
    # of exact coefficients, [intercept, slopes] class by class, with deviations
    ends: Ends | None = None
    deviation: FloatArray | None = None
    excess: LossExcess | None = None  # of the loss, as released scores or slopes show it
    reasons: Reasons = ()  # of all numbers
