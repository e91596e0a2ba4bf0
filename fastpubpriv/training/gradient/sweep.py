"""Many settings of one gradient method side by side, on rows that need no protection: simulations, and choices made on public rows.

The settings share batches and one noise vector per step, so that a step is one matrix product. The differences between settings
then carry no noise: this is for simulated or public rows, and each setting stands for a run with a budget of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from fastpubpriv._types import FloatArray, IntArray
from fastpubpriv.errors import InputError
from fastpubpriv.kernels.sweeps import Swept
from fastpubpriv.losses import LOSSES, Loss

Array = npt.NDArray[Any]
_PART_BYTES = 1 << 18
_MOST_IN_C = 64  # settings
# Batches and noise are made for several steps at a time: the rows of a step put all of Python out of the near caches, where it
# takes three times as long. It saves .07 ms of .47 of a step of paper B's run.
_STEPS_AHEAD, _BYTES_AHEAD = 16, 1 << 19
PUBLIC_GRADIENTS = ("raw", "clip", "sphere", "batch_sphere")


class Draws(Protocol):
    """Where a sweep takes its batches and its noise from: step after step, but for some steps before it makes them."""

    def batch(self, step: int) -> IntArray:
        """Positions of the private rows of a step."""

    def public_batch(self, step: int) -> IntArray | None:
        """Positions of its public rows; None for all of them."""

    def noise(self, step: int, dim: int) -> Array:
        """A standard normal vector (dim,)."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sweep:
    """Settings of a gradient method; entry i of each vector belongs to setting i.

    Attributes
    ----------
    step_size : (S,) float
        Length of a step.
    priv_weight : (S,) float in [0, 1], or a number
        Weight of the private gradient; the public one has the rest.
    momentum : (S,) float in [0, 1), or a number
        Part of the last move that is added to the next one.
    steps : int
        Number of steps.
    clip_norm : float
        Bound on the norm of a gradient.
    noise_multiplier : float
        Noise on the sum of clipped gradients, over `clip_norm`.
    batch_rows : float
        Expected rows of a private batch: the fixed divisor.
    public_gradient : "raw", "clip", "sphere" or "batch_sphere"
        A row's public gradient as it is, shortened to `clip_norm`, or of norm `clip_norm`; or their mean of that norm.
    loss : str or Loss
        Of one prediction.
    l2 : float
        Added to the loss: l2 |w|^2 / 2.
    radius : float or None
        Weights are projected to the ball of this radius about the start.
    average : bool
        Whether the mean of all iterates is returned, in place of the last one.

    Examples
    --------
    >>> from fastpubpriv.training import Sweep
    >>> settings = Sweep(step_size=[0.1, 0.3, 1.0], steps=50, clip_norm=1.0, noise_multiplier=1.0, batch_rows=100.0)
    >>> settings.step_size.shape
    (3,)
    """

    step_size: FloatArray
    priv_weight: FloatArray | float = 1.0
    momentum: FloatArray | float = 0.0
    steps: int
    clip_norm: float
    noise_multiplier: float
    batch_rows: float
    public_gradient: str = "clip"
    loss: str | Loss = "squared"
    l2: float = 0.0
    radius: float | None = None
    average: bool = False

    def __post_init__(self) -> None:
        sizes = np.atleast_1d(np.asarray(self.step_size, dtype=np.float64))
        object.__setattr__(self, "step_size", sizes)
        for name, top in (("priv_weight", 1.0), ("momentum", 1.0)):
            value = np.broadcast_to(np.asarray(getattr(self, name), dtype=np.float64), sizes.shape)
            if not np.all((value >= 0.0) & (value <= top)):
                raise InputError(f"{name} must lie in [0, 1]")
            object.__setattr__(self, name, value)
        if not np.all(np.isfinite(sizes)):
            raise InputError("step_size must be finite")
        if self.public_gradient not in PUBLIC_GRADIENTS:
            raise InputError(f"public_gradient must be one of {PUBLIC_GRADIENTS}, got {self.public_gradient!r}")
        if not (self.steps >= 1 and self.clip_norm > 0.0 and self.noise_multiplier >= 0.0 and self.batch_rows > 0.0):
            raise InputError("steps, clip_norm and batch_rows must be positive, and noise_multiplier at least 0")


@dataclass(slots=True, eq=False)
class _Rows:
    """Rows of one kind, where they lie, with their labels, and the norms of those that were met: -1 for the others."""

    x: Array
    y: Array
    norms: Array
    swept: Swept | None = None

    @classmethod
    def of(cls, x: Any, y: Any, dtype: Any) -> _Rows:
        rows = np.asarray(x, dtype=dtype)
        if rows.ndim != 2 or np.shape(y) != (len(rows),):
            raise InputError("rows must have shape (n, dim), and labels (n,)")
        if rows.strides[1] != rows.itemsize or not rows.flags.aligned:
            rows = np.ascontiguousarray(rows)
        return cls(rows, np.ascontiguousarray(y, dtype=dtype), np.full(len(rows), -1.0, dtype=dtype))

    def part(self, places: IntArray | slice) -> tuple[Array, Array, Array]:
        """Rows (k, dim), labels (k,) and norms (k,)."""
        x, norms = self.x[places], self.norms[places]
        if not np.all(norms >= 0.0):
            norms = self.norms[places] = np.sqrt(np.matmul(x[:, None, :], x[:, :, None])[:, 0, 0])
        return x, self.y[places], norms


def sweep(
    settings: Sweep,
    x: Any,
    y: Any,
    *,
    draws: Draws,
    x_pub: Any = None,
    y_pub: Any = None,
    start: Any = None,
    preconditioner: Any = None,
    on_step: Callable[[int, Array], None] | None = None,
    dtype: Any = np.float32,
) -> FloatArray:
    """Weights that every setting ends at, (S, dim): Algorithm 1 with the same batches and noise for all.

    Parameters
    ----------
    settings : Sweep
        What is tried.
    x, y : (n, dim) and (n,) array-like
        Rows in the role of private ones. **They are not protected**: simulated or public rows only.
    draws : Draws
        Batches and noise.
    x_pub, y_pub : (m, dim) and (m,) array-like, optional
        Public rows; without them, or where every priv_weight is 1, there is no public gradient.
    start : (dim,) array-like, optional
        First weights; zero by default.
    preconditioner : (dim, dim) array-like, optional
        The private and public gradients are multiplied by it after noise was added.
    on_step : callable, optional
        on_step(step, weights (dim, S)) after each step; the array must not be changed.
    dtype : float32 or float64
        Of the arithmetic.

    Privacy
    -------
    None: what comes out is `private=False`. A fit of private rows is `train(method=SemiDP(...))`, one setting at a time.

    Notes
    -----
    In single precision the last digits depend on the instruction set of the processor.

    LLHR (paper B), Algorithm 1, and its baselines: priv_weight = 1 with all rows is DP-SGD, with a preconditioner mirror descent.
    A step costs two products of (K + K_pub, dim) and (dim, S), and reads its rows once. The clip is applied to a residual of each
    setting and row, as the norm of a gradient is |residual| |x|.

    Examples
    --------
    >>> import numpy as np
    >>> from fastpubpriv.training import Sweep, sweep
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(2_000, 2))
    >>> class Simulated:
    ...     batch = staticmethod(lambda step: np.flatnonzero(rng.random(2_000) < 0.1))
    ...     public_batch = staticmethod(lambda step: None)
    ...     noise = staticmethod(lambda step, dim: rng.normal(size=dim))
    >>> settings = Sweep(step_size=[0.1, 0.5], steps=40, clip_norm=1.0, noise_multiplier=1.0, batch_rows=200.0)
    >>> weights = sweep(settings, x, x[:, 0], draws=Simulated())
    >>> weights.shape, bool(abs(weights[1] - [1.0, 0.0]).max() < 0.2)  # the longer steps arrive
    ((2, 2), True)
    """
    loss = LOSSES[settings.loss] if isinstance(settings.loss, str) else settings.loss
    private = _Rows.of(x, y, dtype)
    share = 1.0 - np.asarray(settings.priv_weight)
    public = None if x_pub is None or not np.any(share > 0.0) else _Rows.of(x_pub, y_pub, dtype)
    dim = private.x.shape[1]
    first = np.zeros(dim) if start is None else np.asarray(start, dtype=np.float64)
    if first.shape != (dim,) or (public is not None and public.x.shape[1] != dim):
        raise InputError(f"start and public rows must have {dim} columns")
    w = np.repeat(first[:, None], len(settings.step_size), axis=1).astype(dtype)
    state = _State(settings, loss, w, first.astype(dtype), dtype)
    if preconditioner is not None:
        state.preconditioner = np.asarray(preconditioner, dtype=dtype)
    with np.errstate(all="ignore"):
        for step, (places, shown, noise) in enumerate(_drawn(draws, settings.steps, dim, public is not None)):
            state.advance(private, places, public, shown, noise)
            if on_step is not None:
                on_step(step, state.w)
    found: FloatArray = (state.total / settings.steps if settings.average else state.w).T.astype(np.float64)
    return found


def _drawn(draws: Draws, steps: int, dim: int, public: bool) -> Iterator[tuple[IntArray, IntArray | None, Array]]:
    """Private and public places and the noise of each step, in the order of the steps."""
    held: list[tuple[IntArray, IntArray | None, Array]] = []
    size = 0
    for step in range(steps):
        places = draws.batch(step)
        held.append((places, draws.public_batch(step) if public else None, draws.noise(step, dim)))
        size += places.nbytes + held[-1][2].nbytes
        if len(held) == _STEPS_AHEAD or size > _BYTES_AHEAD:
            yield from held
            held, size = [], 0
    yield from held


class _State:
    """The weights of all settings, (dim, S), and what moves them."""

    def __init__(self, settings: Sweep, loss: Loss, w: Array, start: Array, dtype: Any) -> None:
        self.settings, self.loss, self.w, self.start = settings, loss, w, start
        self.preconditioner: Array | None = None
        self.total = np.zeros_like(w) if settings.average else w
        self._velocity = np.zeros_like(w) if np.any(np.asarray(settings.momentum) > 0.0) else None
        self._size = np.asarray(settings.step_size).astype(dtype)
        weight = np.asarray(settings.priv_weight)
        self._private = (weight / settings.batch_rows).astype(dtype)
        self._share = (1.0 - weight).astype(dtype)
        self._noise = (weight * settings.noise_multiplier * settings.clip_norm / settings.batch_rows).astype(dtype)
        # Single precision goes to C, which reads rows where they lie, once for all settings. In ms a step of paper B's 700 rows
        # by 2,000 columns, one setting and sixteen: 1.05 and 2.0 as products of parts in NumPy, .35 and .78 there; reading them
        # once .35. Of 176 settings both take 9, and products have threads. Rows of a part of theirs stay in the second cache
        # between their scores and their sum.
        self._in_c = w.dtype == np.float32 and w.shape[1] <= _MOST_IN_C
        self._part_rows = max(32, 4 * w.shape[1], _PART_BYTES // (w.itemsize * w.shape[0]))

    def advance(
        self, private: _Rows, places: IntArray, public: _Rows | None, shown: IntArray | None, noise: Array
    ) -> None:
        """One step."""
        move = np.multiply.outer(noise.astype(self.w.dtype, copy=False), self._noise)
        self._add(private, places, "clip", self._private, move)
        if public is not None:
            kind, m = self.settings.public_gradient, len(public.x) if shown is None else len(shown)
            towards = np.zeros_like(move) if kind == "batch_sphere" else move
            self._add(public, shown, kind, self._share / self.w.dtype.type(m), towards)
            if kind == "batch_sphere":
                length = np.sqrt(np.sum(towards**2, axis=0))
                move += towards * (self._share * self.settings.clip_norm / np.maximum(length, 1e-30))
        self._apply(move)

    def _add(self, rows: _Rows, places: IntArray | None, kind: str, factors: Array, total: Array) -> None:
        """total += factors (S,) times rows at `places` (all if None), turned, times residuals (k, S) bounded as `kind` says."""
        if self._in_c:
            if rows.swept is None:
                labelled, limit = (rows.x, rows.y, rows.norms), self.settings.clip_norm
                rows.swept = Swept(labelled, len(factors), residual=self.loss.residual, limit=limit)
            chosen = None if places is None else np.ascontiguousarray(places, dtype=np.int64)
            rows.swept.add(chosen, self.w, factors, total, {"clip": 1, "sphere": 2}.get(kind, 0))
            return
        count = len(rows.x) if places is None else len(places)
        for begin in range(0, count, self._part_rows):
            end = min(begin + self._part_rows, count)
            x, y, norms = rows.part(slice(begin, end) if places is None else places[begin:end])
            found, bound = self._residuals(x @ self.w, y), (self.settings.clip_norm / np.maximum(norms, 1e-30))[:, None]
            if kind == "clip":
                np.clip(found, -bound, bound, out=found)
            elif kind == "sphere":
                np.multiply(np.sign(found), bound, out=found)
            total += x.T @ (found * factors)

    def _residuals(self, scores: Array, y: Array) -> Array:
        """Residuals (k, S); a row whose residual is not finite has none."""
        if self.loss is LOSSES["squared"]:
            np.subtract(y[:, None], scores, out=scores)
            found = scores
        else:
            found = self.loss.residuals_of(scores.T, np.broadcast_to(y, scores.T.shape)).T.astype(self.w.dtype)
        found[~np.isfinite(found)] = 0.0
        return found

    def _apply(self, move: Array) -> None:
        """Move the weights by minus the gradient, which is -move."""
        settings = self.settings
        if self.preconditioner is not None:
            move = self.preconditioner @ move
        if settings.l2:
            move -= settings.l2 * self.w
        if self._velocity is not None:
            self._velocity *= np.asarray(settings.momentum).astype(self.w.dtype)
            self._velocity += move
            move = self._velocity
        self.w += np.multiply(move, self._size, out=None if self._velocity is not None else move)
        if settings.radius is not None:
            off = self.w - self.start[:, None]
            length = np.sqrt(np.sum(off * off, axis=0))
            off *= np.minimum(1.0, settings.radius / np.maximum(length, 1e-30))
            np.add(self.start[:, None], off, out=self.w)
        if settings.average:
            self.total += self.w
