"""The gradient methods of `train`, as values: what each leaves open is chosen from public rows before anything is spent."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from fastpubpriv import validation
from fastpubpriv.errors import InputError

SAMPLINGS = ("full", "poisson", "without_replacement", "one_pass")
PUBLIC_GRADIENTS = ("clip", "raw", "sphere", "batch_sphere")
SCHEDULES = ("constant", "inverse_root", "linear")
AVERAGES = ("last", "all", "suffix")
STARTS = ("public", "zero")
SCALINGS = ("standard", "none")
MOST_STEPS = 10**6

Choice = str | float | Sequence[float]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Ball:
    """Weights are projected to the ball of this radius about their start.

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
    """Each weight is kept between these two numbers.

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
            raise InputError(f"a Box needs finite numbers lower < upper, got {self.lower} and {self.upper}")

    def project(self, weights: Any, start: Any) -> Any:
        """The nearest point of the box."""
        return np.clip(weights, self.lower, self.upper)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Descent:
    """Settings that the gradient methods share. Make one of `SemiDP`, `DPSGD` and `MirrorDescent`.

    Attributes
    ----------
    steps : int or "auto"
        Number of steps; each asks the private rows once.
    sampling : "full", "poisson", "without_replacement" or "one_pass"
        All rows in every step; each row by a coin of its own; a fresh batch of fixed size; or disjoint batches, each used once,
        in the order of the rows. The second and third need an ApproxDP budget and rows with random access.
    batch_rows : int, optional
        (Expected) rows of a batch, for all samplings but "full"; sums are divided by it.
    public_batch_rows : int, optional
        Public rows of a step, taken in turn; by default all of them.
    clip_norm : float or "auto"
        Bound on the norm of a private row's gradient, in the units of the fit; "auto" is the .9 quantile of the public ones.
    step_size : float, sequence of float, or "auto"
        Length of a step. Of several, and for "auto", the one with the least error predicted from public numbers.
    schedule : "constant", "inverse_root" or "linear"
        step_size, step_size / sqrt(t), or falling to zero in a straight line.
    priv_weight : float in [0, 1], sequence of float, "inverse_variance" or "auto"
        Weight of the private gradient; the public one has the rest. 0 reads no private row and spends nothing.
    public_gradient : "clip", "raw", "sphere" or "batch_sphere"
        A public row's gradient shortened to `clip_norm`, as it is, or of norm `clip_norm`; or their mean of that norm.
    momentum : float in [0, 1)
        Part of the last move that is added to the next one.
    accelerated : bool
        The accelerated form (AC-SA of Ghadimi and Lan), of which `step_size` is a quarter of 1 / nu; not with momentum.
    average : "last", "all" or "suffix"
        What is returned: the last iterate, the mean of all, or of the second half.
    start : "public", "zero" or array
        First weights: the minimum of the public loss, zero, or given, in the units of the fit.
    scaling : "standard" or "none"
        Columns in standard units by public rows, with an intercept; or as they are, without one.
    l2 : float
        l2 |w|^2 / 2 is added to the loss.
    projection : Ball or Box, optional
        Where weights stay.
    checkpoint : path, optional
        A regular file that keeps what was released, as large from the start as it may become. A call with the same arguments that
        finds it goes on from there; a step that had begun is never repeated, and the ledger is not debited again. A file that was
        cut or damaged is refused, and so is one of a call with `random_state` by a call without, and the other way round. It cannot
        tell whether the private rows are the same: on others, the rest of the run would be spent without a debit. Keep one
        copy: each copy would draw noise of its own.

    Examples
    --------
    >>> from fastpubpriv.training import Descent, SemiDP
    >>> method = SemiDP(steps=100, clip_norm=1.0)  # one of the methods that have these settings
    >>> isinstance(method, Descent), method.steps, method.sampling
    (True, 100, 'full')
    """

    name: ClassVar[str] = ""
    preconditioned: ClassVar[bool] = False

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
    checkpoint: str | Path | None = None

    def __post_init__(self) -> None:
        for field, choices in (
            ("sampling", SAMPLINGS),
            ("schedule", SCHEDULES),
            ("public_gradient", PUBLIC_GRADIENTS),
            ("average", AVERAGES),
            ("scaling", SCALINGS),
        ):
            if field == "sampling" and "replacement" in str(self.sampling) and self.sampling not in SAMPLINGS:
                raise InputError(
                    "batches with replacement are refused: a row that is drawn twice counts twice, and no useful cost is known; "
                    "pass sampling='poisson'"
                )
            validation.choice(field, getattr(self, field), choices)
        if self.steps != "auto":
            validation.integer("steps", self.steps, minimum=1, maximum=MOST_STEPS)
        if (self.sampling == "full") != (self.batch_rows is None):
            raise InputError(
                "batch_rows is the size of sampled batches: leave it out, or pass sampling='poisson'"
                if self.sampling == "full"
                else f"sampling={self.sampling!r} needs batch_rows, the (expected) rows of a batch"
            )
        for field in ("batch_rows", "public_batch_rows"):
            if getattr(self, field) is not None:
                validation.integer(field, getattr(self, field), minimum=1)
        if not isinstance(self.clip_norm, str) or self.clip_norm != "auto":
            validation.clip_norm(self.clip_norm)
        self._check_choice("step_size", ("auto",), 0.0, math.inf)
        self._check_choice("priv_weight", ("auto", "inverse_variance"), 0.0, 1.0)
        if not 0.0 <= validation.finite("momentum", self.momentum) < 1.0:
            raise InputError(f"momentum must lie in [0, 1), got {self.momentum}")
        if not isinstance(self.accelerated, bool) or (self.accelerated and self.momentum):
            raise InputError("accelerated is True or False, and goes without momentum")
        if not validation.finite("l2", self.l2) >= 0.0:
            raise InputError(f"l2 must be at least 0, got {self.l2}")
        if isinstance(self.start, str):
            validation.choice("start", self.start, STARTS)
        if self.projection is not None and not isinstance(self.projection, Ball | Box):
            raise InputError("projection must be Ball(radius=...), Box(lower=..., upper=...) or None")

    def _check_choice(self, field: str, words: tuple[str, ...], lowest: float, highest: float) -> None:
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
            if not lowest <= number <= highest or (field == "step_size" and number == 0.0):
                wanted = f"lie between {lowest:g} and {highest:g}" if math.isfinite(highest) else "be above 0"
                raise InputError(f"{field} must {wanted}, got {number:g}")

    def options(self, field: str) -> tuple[float, ...]:
        """The numbers that a field with several leaves to choose from; none where a word says how to choose."""
        given = getattr(self, field)
        if isinstance(given, str):
            return ()
        if isinstance(given, Sequence | np.ndarray):
            if len(given) == 0:
                raise InputError(f"{field} is empty: pass at least one number")
            return tuple(given)
        return (given,)

    @property
    def public_l2(self) -> float:
        """The ridge that the public fit shares with the loss."""
        return self.l2

    def check_rows(self, n: int) -> None:
        """Refuse batches that there are not rows for."""
        if self.batch_rows is None:
            return
        if self.batch_rows > n:
            raise InputError(f"batch_rows = {self.batch_rows} is more than the {n} private rows")
        if self.sampling == "one_pass" and self.steps != "auto" and int(self.steps) * self.batch_rows > n:
            raise InputError(
                f"one pass over {n} rows has at most {n // self.batch_rows} steps of {self.batch_rows} rows, got {self.steps}"
            )

    def with_(self, **changes: Any) -> Descent:
        """The same settings but for these."""
        return replace(self, **changes)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SemiDP(Descent):
    """Semi-private gradient descent (paper B, Algorithm 1): a weighted sum of a noisy private gradient and a public one.

    Attributes as in `Descent`, by default full batches, everything else chosen from public rows.

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
