"""Composition of many equal steps by their privacy loss distribution (PLD).

A step adds Gaussian noise to the sum over a random sample of the rows; its profile has a closed form. Lengths are in units of the
clipping norm C: the noise has standard deviation z = `noise_multiplier`. A profile is the least delta at each epsilon >= 0 for the
worst pair of neighbors. Every value is rounded up by a stated bound on the rounding of its terms.

All results are pessimistic. The profile of one step is replaced by the chords between grid points ("connect the dots"), which
lie above it; the T-fold sum of losses is computed by one FFT. This overestimates epsilon by about T (t + 1) step^2 / 12 with
t = -d log(delta) / d epsilon; the grid is chosen so that this is about 2.5e-4 epsilon and at most 0.001 (`Curve.excess`). Losses
outside the windows count as infinite; their mass is at most delta / 1000 in total.

Derivations: `mechanisms/notes/subsampled_gaussian.md`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import numpy as np
from scipy import fft
from scipy.special import log_ndtr

from fastpubpriv._types import FloatArray
from fastpubpriv.errors import BudgetError

Profile: TypeAlias = Callable[[FloatArray], FloatArray]

ULP = 2.0**-53  # relative rounding error of one operation
_LARGE = 30.0  # epsilon from which on e^epsilon - 1 is computed in logarithms


@dataclass(frozen=True, slots=True)
class StepProfile:
    """The worst pair (P, Q) of one step, as two profiles on epsilon >= 0; together they give the profile for every epsilon."""

    above: Profile  # sup over events of P(event) - e^epsilon Q(event)
    below: Profile  # the same with P and Q exchanged

    @property
    def swapped(self) -> StepProfile:
        """The pair (Q, P)."""
        return StepProfile(self.below, self.above)


def poisson_replace(rate: float, noise_multiplier: float) -> StepProfile:
    """Each row sampled with probability `rate`, one row replaced: (1-q) N(0) + q N(1) against (1-q) N(0) + q N(-1)."""
    # The pair is its own mirror image, so one profile serves both directions.
    profile = partial(_replace, q=rate, z=noise_multiplier)
    return StepProfile(profile, profile)


def poisson_remove(rate: float, noise_multiplier: float) -> StepProfile:
    """Each row sampled with probability `rate`, one row removed: (1-q) N(0) + q N(1) against N(0). Adding a row is `.swapped`."""
    return StepProfile(
        partial(_remove, q=rate, z=noise_multiplier, s=1.0),
        partial(_add, q=rate, z=noise_multiplier, s=1.0),
    )


def fixed_size_replace(rate: float, noise_multiplier: float) -> StepProfile:
    """A batch of fixed size without replacement, one row replaced: (1-q) N(0) + q N(2) against N(0), spliced with its mirror."""
    profile = partial(_remove, q=rate, z=noise_multiplier, s=2.0)
    return StepProfile(profile, profile)


# ---- the three formulas: gain - cost, each term in logarithms, none of them subtracting numbers of size 1 when q is small


def _log_expm1(epsilon: FloatArray) -> FloatArray:
    return epsilon + np.log(-np.expm1(-epsilon))


def _rounded_up(
    gain: FloatArray, cost: FloatArray, epsilon: FloatArray, far: FloatArray
) -> FloatArray:
    """Return gain - cost plus a bound on rounding: the error of a term e^(-a^2/2 + ...) is a few ULP (1 + a^2 + epsilon)."""
    # `far` is the largest |a|. The threshold x maximizes the difference, so the rounding of x has an effect of second order only.
    error = ULP * (16.0 + 2.0 * epsilon + 4.0 * far * far) * (gain + cost)
    return np.clip(gain - cost + error, 0.0, 1.0)


def _replace(epsilon: FloatArray, *, q: float, z: float) -> FloatArray:
    with np.errstate(divide="ignore", under="ignore"):
        odds = math.log1p(-q) - math.log(q) if q < 1 else -math.inf
        log_y = odds + 0.5 / (z * z) + _log_expm1(epsilon) - 0.5 * epsilon - math.log(2.0)
        asinh = np.where(
            log_y > _LARGE, log_y + math.log(2.0), np.arcsinh(np.exp(np.minimum(log_y, _LARGE)))
        )
        x = z * z * (0.5 * epsilon + asinh)
        gain = q * np.exp(log_ndtr((1.0 - x) / z))
        cost = q * np.exp(epsilon + log_ndtr(-(x + 1.0) / z))
        if q < 1:
            cost = cost + np.exp(math.log1p(-q) + _log_expm1(epsilon) + log_ndtr(-x / z))
    return _rounded_up(gain, cost, epsilon, (np.abs(x) + 1.0) / z)


def _remove(epsilon: FloatArray, *, q: float, z: float, s: float) -> FloatArray:
    with np.errstate(divide="ignore", under="ignore"):
        near = np.expm1(np.minimum(epsilon, _LARGE))
        # log(e^epsilon - 1 + q)
        log_weight = np.where(
            epsilon < _LARGE, np.log(near + q), epsilon + np.log1p(-(1.0 - q) * np.exp(-epsilon))
        )
        log_ratio = np.where(epsilon < _LARGE, np.log1p(near / q), log_weight - math.log(q))
        x = z * z / s * log_ratio + 0.5 * s
        gain = q * np.exp(log_ndtr((s - x) / z))
        cost = np.exp(log_weight + log_ndtr(-x / z))
    return _rounded_up(gain, cost, epsilon, (np.abs(x) + s) / z)


def _add(epsilon: FloatArray, *, q: float, z: float, s: float) -> FloatArray:
    with np.errstate(divide="ignore", under="ignore"):
        # No event has a loss above -log(1-q); beyond it the value at that loss is used, which is far below any delta.
        ratio = np.maximum(np.expm1(-epsilon) / q, -1.0 + ULP)
        held = np.minimum(epsilon, -math.log1p(-q))
        x = z * z / s * np.log1p(ratio) + 0.5 * s
        lower = np.exp(log_ndtr(x / z))
        grown = q * np.exp(held)
        gain = grown * lower
        cost = np.expm1(held) * lower + grown * np.exp(log_ndtr((x - s) / z))
    return _rounded_up(gain, cost, epsilon, (np.abs(x) + s) / z)


_TAIL = 1 / 40000  # fraction of delta for each tail that counts as an infinite loss
# amount that the grid may add to epsilon, relative and absolute
_EXCESS = 2.5e-4
_EXCESS_MAX = 1e-3
_CELLS = 2**21  # maximum number of cells of one half of the grid of one step
_WINDOW = 2**23  # maximum number of cells of the grid of the sum
_LOG_WRAPPED = math.log(1e-9)  # log of the tilted probability outside the window
# log of the maximum ratio of the Chernoff bound of a tilt to the delta it is used for
_LOG_SHARP = math.log(1e4)
_LOG_RANGE = 600.0  # e^_LOG_RANGE is a float with room for sums
_LOG_LEAST = 746.0  # e^-_LOG_LEAST is zero as a float

# Value and derivative at t of a logarithm of a moment generating function.
Growth: TypeAlias = Callable[[float], tuple[float, float]]


@dataclass(frozen=True, slots=True)
class LossLaw:
    """Privacy loss distribution of one step on a grid, with a mass `infinite` at infinity. The total may slightly exceed 1."""

    losses: FloatArray  # (cells,), with masses: in increasing order
    masses: FloatArray  # (cells,)
    infinite: float  # probability of a loss beyond the grid

    def growth(self, t: float) -> tuple[float, float]:
        """Return log E e^(t loss) over the grid, and its derivative in t."""
        with np.errstate(divide="ignore", under="ignore"):
            exponents = np.log(self.masses) + t * self.losses
        top = float(exponents.max())
        weights = np.exp(exponents - top)
        total = float(weights.sum())
        # A sum, not a dot product, for which BLAS would start its threads.
        return top + math.log(total), float(np.sum(weights * self.losses)) / total


def half_masses(losses: FloatArray, deltas: FloatArray) -> FloatArray:
    """Return masses at losses[1:] of the chords through (e^loss, delta), 0 = losses[0] < ...; delta is constant after the last."""
    # Rounded up: the two slopes of a mass nearly cancel, so a bound on their rounding error is added.
    gaps = np.diff(losses)
    drops = -np.diff(deltas)
    left = drops / -np.expm1(-gaps)
    right = np.append(drops[1:] / np.expm1(gaps[1:]), 0.0)
    return np.asarray(np.maximum(left - right + 8 * ULP * (left + right), 0.0))


def falling(deltas: FloatArray) -> FloatArray:
    """Return the least nonincreasing sequence above `deltas`; from the right, so that a dip by rounding does not spread."""
    return np.maximum.accumulate(deltas[::-1])[::-1]


def loss_law(step: StepProfile, above: FloatArray, below: FloatArray) -> LossLaw:
    """Return the pessimistic loss distribution of one step on the grid `above` (0 = above[0] < ...) and the negated `below`."""
    # The chords of the profile for epsilon < 0 are the mirror image of those of the swapped pair: a mass r at the loss e of (Q, P)
    # is a mass e^-e r at the loss -e of (P, Q). Both halves therefore keep relative accuracy in their tails.
    up = step.above(above)
    down = step.below(below)
    # Both are the total variation distance.
    up[0] = down[0] = max(up[0], down[0])
    up = falling(up)
    down = falling(down)
    positive = half_masses(above, up)
    negative = half_masses(below, down) * np.exp(-below[1:])
    left = (down[0] - math.exp(-below[1]) * down[1]) / -math.expm1(-below[1])
    right = (up[0] - up[1]) / math.expm1(above[1])
    middle = max(1.0 - left - right + 16 * ULP * (1.0 + left + right), 0.0)
    return LossLaw(
        np.concatenate([-below[:0:-1], above]),
        np.concatenate([negative[::-1], [middle], positive]),
        float(up[-1]),
    )


def reach(profile: Profile, tail: float) -> float:
    """Return a loss at which the profile is at most `tail`; BudgetError if none is below 1e7."""
    losses = np.geomspace(1e-9, 1e7, 700)
    rare = np.flatnonzero(falling(profile(losses)) <= tail)
    if not rare.size:
        raise BudgetError(
            "the noise is too small for an accountant: a loss of 1e7 is not rare; pass more noise"
        )
    return float(losses[rare[0]])


# ---- Chernoff


def least(rises: Callable[[float], bool]) -> float:
    """Return the approximate minimizer in [1e-10, 1e6] of a convex function that increases where `rises(t)`."""
    low = math.log(1e-10)
    high = math.log(1e6)
    while high - low > 1e-3:
        middle = (low + high) / 2
        low, high = (low, middle) if rises(math.exp(middle)) else (middle, high)
    return math.exp((low + high) / 2)


def tilt_for_tail(growth: Growth, steps: int, log_share: float) -> float:
    """Return the t > 0 that minimizes `level`."""

    def rises(t: float) -> bool:
        value, slope = growth(t)
        return steps * (t * slope - value) + log_share > 0

    return least(rises)


def level(growth: Growth, steps: int, log_share: float, t: float) -> float:
    """Return a Chernoff bound that the sum of `steps` losses exceeds with probability at most e^log_share; valid for all t > 0."""
    return (steps * growth(t)[0] - log_share) / t


def tilt_for(growth: Growth, steps: int, epsilon: float) -> float:
    """Return the t >= 0 that minimizes steps growth(t) - t epsilon: the tilted sum then has mean epsilon."""
    return least(lambda t: steps * growth(t)[1] > epsilon)


def tilted_growth(growth: Growth, t: float, sign: float) -> Growth:
    """Return the growth function of sign * loss after a tilt by t."""
    center = growth(t)[0]

    def result(s: float) -> tuple[float, float]:
        value, slope = growth(t + sign * s)
        return value - center, sign * slope

    return result


# ---- the curve of many steps


@dataclass(frozen=True, slots=True)
class Curve:
    """delta as a function of epsilon for many steps, near one delta; every value is an upper bound."""

    first: int  # losses are (first + k) step
    step: float  # grid step; its products with whole numbers below 2^40 are exact
    reference: float  # loss to which the discounts refer
    # (cells,), like discounted: sums over the losses l after the k-th, of P(l) and of P(l) e^(reference - l)
    mass: FloatArray
    discounted: FloatArray  # (cells,)
    infinite: float  # probability of infinite losses, added to delta
    errors: FloatArray  # (cells,), bounds on the error of the FFT, added to delta at k
    inflation: float  # relative bound on all other rounding
    # approximate amount that the grid adds to epsilon (for information, not subtracted)
    excess: float

    def cell(self, epsilon: float) -> int:
        """Return the last cell whose loss is at most epsilon; -1 below the window."""
        k = min(math.floor(epsilon / self.step) - self.first, self.mass.size - 1)
        while k >= 0 and (self.first + k) * self.step > epsilon:
            k -= 1
        return max(k, -1)

    def delta(self, epsilon: float) -> float:
        """Return delta at epsilon; 1 below the window."""
        k = self.cell(epsilon)
        if k < 0:
            return 1.0
        discount = self.discounted[k] * math.exp(min(epsilon - self.reference, _LOG_RANGE))
        cancelled = 4 * ULP * (8.0 + abs(epsilon - self.reference)) * (self.mass[k] + discount)
        value = (
            (self.mass[k] - discount + cancelled) * self.inflation + self.errors[k] + self.infinite
        )
        return min(1.0, max(float(value), 0.0))

    def epsilon(self, delta: float) -> float:
        """Bisect for the least epsilon >= 0 whose delta is at most `delta`; BudgetError if none is in the window."""
        if self.delta(0.0) <= delta:
            return 0.0
        low = max(self.first, 0) - 1
        high = self.first + self.mass.size - 1
        if self.delta(high * self.step) > delta:
            raise BudgetError(
                f"delta = {delta:.3g} is below what the floating-point accountant can show"
            )
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self.delta(middle * self.step) <= delta else (middle, high)
        bottom = max(low * self.step, 0.0)
        top = high * self.step
        for _ in range(30):  # between two grid points
            between = (bottom + top) / 2
            bottom, top = (bottom, between) if self.delta(between) <= delta else (between, top)
        return top


def grid_halves(step: StepProfile, width: float, tail: float) -> tuple[FloatArray, FloatArray]:
    """Return grids of the given width for the two halves of `loss_law`, as far as the profiles exceed `tail`."""

    def half(profile: Profile) -> FloatArray:
        return width * np.arange(
            max(math.ceil(reach(profile, tail) / width), 2) + 1, dtype=np.float64
        )

    return half(step.above), half(step.below)


def short(value: float) -> float:
    """Return `value` rounded down to 12 bits, so that its multiples are exact."""
    mantissa, exponent = math.frexp(value)
    return math.ldexp(math.floor(math.ldexp(mantissa, 12)), exponent - 12)


def rough_law(step: StepProfile, tail: float) -> LossLaw:
    """Return a loss distribution on steps of 5 percent, used only to choose tilts, windows and the width of the grid."""
    span = max(reach(step.above, tail), reach(step.below, tail))
    losses = np.concatenate([[0.0], np.geomspace(1e-7 * span, span, 340)])
    law = loss_law(step, losses, losses)
    return LossLaw(law.losses, law.masses / law.masses.sum(), law.infinite)


def grid_width(rough: LossLaw, steps: int, epsilon: float, t: float) -> float:
    """Return the width at which the grid adds about _EXCESS epsilon; a memory limit may make it coarser (more pessimistic)."""
    span = float(rough.losses[-1])
    allowed = min(_EXCESS * max(epsilon, 1e-9), _EXCESS_MAX)
    # A cell must also be short relative to epsilon, since the profile is curved.
    wanted = min(math.sqrt(12 * allowed / (steps * (t + 1))), span / 64, max(epsilon / 32, 1e-4))
    return short(max(wanted, span / _CELLS))


def solved(
    step: StepProfile, steps: int, delta: float, *, fineness: float = 1.0
) -> tuple[Curve, float]:
    """Return a curve that is tight at delta, and its epsilon there; its excess falls with the square of `fineness`."""
    # The Chernoff bound gives the first tilt. If it is far above the resulting epsilon (rare, large losses), the FFT error is not
    # negligible; the tilt is then recomputed from that epsilon, until the error is negligible.
    outside = delta * _TAIL
    rough = rough_law(step, outside / steps)
    t = tilt_for_tail(rough.growth, steps, math.log(delta))
    epsilon = level(rough.growth, steps, math.log(delta), t)
    for _ in range(8):
        curve = summed(
            step, steps, outside, t, short(grid_width(rough, steps, epsilon, t) / fineness), rough
        )
        epsilon = curve.epsilon(delta)
        bound = steps * rough.growth(t)[0] - t * epsilon
        narrow = curve.step <= max(epsilon / 16, 2e-4, 2 * float(rough.losses[-1]) / _CELLS)
        sharp = (
            bound - math.log(delta) <= _LOG_SHARP
            and curve.errors[curve.cell(epsilon)] <= 1e-4 * delta
        )
        if epsilon == 0.0 or (narrow and sharp):
            break
        t = tilt_for(rough.growth, steps, epsilon)
    return curve, epsilon


def composed_delta(step: StepProfile, steps: int, epsilon: float) -> float:
    """Return an upper bound on the delta of `steps` steps at this epsilon."""
    least = 1.0
    outside = 1e-9
    for _ in range(6):  # until the omitted tails are small relative to delta
        rough = rough_law(step, outside / steps)
        t = tilt_for(rough.growth, steps, epsilon)
        curve = summed(
            step, steps, outside, t, grid_width(rough, steps, max(epsilon, 0.01), t), rough
        )
        least = min(least, curve.delta(epsilon))
        if outside <= 4 * _TAIL * least or least <= 1e-60:
            break
        outside = max(_TAIL * least, 1e-90)
    return least


def summed(
    step: StepProfile, steps: int, outside: float, t: float, width: float, rough: LossLaw
) -> Curve:
    """Return the curve of `steps` steps from the tilt t; `outside` is the probability of each tail that counts as infinite."""
    top_tilt = tilt_for_tail(rough.growth, steps, math.log(outside))
    # Tilted losses beyond the window wrap around to its other end, where they only add mass; this keeps that mass small.
    high, low = (
        tilt_for_tail(tilted_growth(rough.growth, t, sign), steps, _LOG_WRAPPED)
        for sign in (1.0, -1.0)
    )
    while True:
        law = loss_law(step, *grid_halves(step, width, outside / steps))
        top = level(law.growth, steps, math.log(outside), top_tilt)
        top = max(top, level(tilted_growth(law.growth, t, 1.0), steps, _LOG_WRAPPED, high))
        bottom = -level(tilted_growth(law.growth, t, -1.0), steps, _LOG_WRAPPED, low)
        center, mean = law.growth(t)
        if top - bottom <= _WINDOW * width:
            break
        width = short(2 * width)  # coarser, hence more pessimistic
    length = fft.next_fast_len(math.ceil((top - bottom) / width) + 4, real=True)
    first = math.floor(bottom / width)
    middle = round(mean / width)
    with np.errstate(divide="ignore", under="ignore"):
        tilted = np.exp(np.log(law.masses) + (t * law.losses - center))
    sums = power(np.rint(law.losses / width).astype(np.int64), tilted, middle, steps, length)
    sums = np.roll(sums, -((first - steps * middle) % length))
    losses = (first + np.arange(length)) * width
    tilt = {"t": t, "growth": center, "mean": steps * mean}
    return untilted(law, losses, sums, tilted, steps=steps, outside=outside, width=width, **tilt)


def power(
    places: FloatArray, masses: FloatArray, center: int, steps: int, length: int
) -> FloatArray:
    """Return the distribution of the sum of `steps` losses modulo `length` cells, each relative to `center` for small phases."""
    folded = np.bincount((places - center) % length, weights=masses, minlength=length)
    spectrum = fft.rfft(folded)
    # The power underflows to zero at most frequencies: skip their logarithms.
    left = spectrum.real**2 + spectrum.imag**2 > math.exp(-2.0 * _LOG_LEAST / steps)
    some = spectrum[left]
    raised = np.zeros_like(spectrum)
    with np.errstate(under="ignore"):
        raised[left] = np.exp(steps * np.log(np.abs(some))) * np.exp(1j * (steps * np.angle(some)))
    return np.asarray(fft.irfft(raised, length))


def untilted(
    law: LossLaw,
    losses: FloatArray,
    sums: FloatArray,
    tilted: FloatArray,
    *,
    steps: int,
    outside: float,
    width: float,
    t: float,
    growth: float,
    mean: float,
) -> Curve:
    """Return the curve from the distribution of the sum (of this `mean`) tilted by e^(t loss) / e^growth, with error bounds."""
    # Log of the factors that undo the tilt; losses at which a factor overflows are dropped.
    scale = steps * growth - t * losses
    keep = (scale <= _LOG_RANGE) & (mean - losses <= _LOG_RANGE)
    losses = losses[keep]
    scale = np.exp(scale[keep])
    masses = np.maximum(sums[keep], 0.0) * scale
    with np.errstate(under="ignore"):
        discounted = masses * np.exp(mean - losses)
    after = [np.append(np.cumsum(part[::-1])[::-1][1:], 0.0) for part in (masses, discounted)]
    # l2 norm of the weights of the sum over losses after epsilon: at most the root of 1 / (1 - e^(-2 t width)) and of their number.
    spread = math.sqrt(min(losses.size, 1.0 / -math.expm1(-2 * t * width)))
    transform = (
        8
        * ULP
        * (math.log2(sums.size) + 1)
        * steps
        * math.sqrt(float(np.sum(tilted * tilted)))
        * spread
    )
    total = max(1.0, float(law.masses.sum()) + law.infinite)
    farthest = float(np.abs(law.losses).max())
    log_error = ULP * (
        steps * (32 + 2 * abs(growth)) + 4 * t * (farthest + abs(mean)) + losses.size
    )
    # magnitude of the exponents of the tilted masses: the error of one step, in ULP
    with np.errstate(divide="ignore"):
        exponents = np.abs(np.log(np.maximum(law.masses, 5e-324))) + t * np.abs(law.losses)
    log_error += ULP * 4 * steps * float(np.sum(tilted * exponents))
    return Curve(
        first=round(float(losses[0]) / width),
        step=width,
        reference=mean,
        mass=after[0],
        discounted=after[1],
        infinite=steps * law.infinite * total**steps + outside,
        errors=transform * scale,
        inflation=math.exp(log_error),
        excess=steps * (t + 1) * width * width / 12,
    )
