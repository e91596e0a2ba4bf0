"""Noisy Newton steps in coordinates whitened by public rows, each spending its noise where the public rows know least.

Every step measures the coefficients; all measurements are pooled with the public posterior by inverse variance. How many steps, how
residuals are clipped and how rows are weighted is chosen from public and released numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from fastpubpriv._types import FloatArray, IntArray
from fastpubpriv.training.newton_state import FEW, MANY, State
from fastpubpriv.training.normal_clips import normal_clips
from fastpubpriv.training.public_linear import Bound, Clip, Posterior
from fastpubpriv.training.whitening import Weighting, water_filled, water_filled_each, weighting, weighting_each

STEPS = (1, 2, 4, 8, 16, 32)
MORE_STEPS = (64, 128)  # with fewer public rows than coordinates: the first steps then have a long way to go
# They also undo what no prediction sees, so that they need not gain. 200 columns, 60 public rows, 20,000 private ones, labels with
# a thousandth of noise, epsilon 4: errors of .018 to .021 with 128 steps, of .11 to 7.3 with 32, all predicted as .008 to .016.
_NO_LOSS = 1.01
_NOISY = 0.05  # of what no coefficients explain: predicted errors above it are mostly noise for privacy
FLOOR = 0.05  # part of the precision of a step that goes to all directions alike, so that a drift is seen in each

Noise = Callable[[Fraction], float]  # share of the allowance -> noise on a sum of rows clipped to radius 1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NewtonPlan:
    """Steps and clip with the least predicted error, from public numbers."""

    steps: int  # passes, each with the same share of the budget
    clip: Bound  # on residuals
    # excess of the squared error (or of the Huber loss), clipping bias included, in the unit of the labels
    predicted: float
    centre: Fraction = Fraction(0)  # share of the budget for the mean of the private rows, see `centre_share`

    @property
    def share(self) -> Fraction:
        """Share of the budget for each step."""
        return (1 - self.centre) / self.steps


def chosen_weighting(
    public: FloatArray, variance: FloatArray, precision: Callable[[float, float], float], floor: float = FLOOR
) -> Weighting:
    """Water-filled weights; the precision of a release depends on the radius and share of the weighting, so it is chosen twice."""
    found = None
    radius, share = 1.0, 1.0
    for _ in range(2):
        total = precision(radius, share)
        found = weighting(public, np.sqrt(water_filled(variance, total, floor) / total))
        radius, share = found.radius, found.share
    assert found is not None
    return found


def repeats(variance: FloatArray, noise_variance: FloatArray, steps: int) -> float:
    """In about how many steps the error of the curvature misleads alike.

    It acts on what is left of the error, and small steps leave most of that as it was: of errors with correlation r from one to the
    next, a mean has (1 + r) / (1 - r) times the variance.
    """
    found: float = _repeats_each(variance[None], noise_variance[None], np.array([steps])).item()
    return found


def _repeats_each(variance: FloatArray, noise_variance: FloatArray, steps: IntArray) -> FloatArray:
    """The same for each of several plans (k, D) with so many steps (k,)."""
    left = np.add.reduce(1.0 / (1.0 / variance + 1.0 / noise_variance), axis=1) / np.add.reduce(variance, axis=1)
    found: FloatArray = np.minimum((1.0 + left) / np.maximum(1.0 - left, 1e-300), steps)
    return found


def step_counts(posterior: Posterior) -> tuple[int, ...]:
    """The numbers of steps that are tried, in ascending order."""
    return (*STEPS, *MORE_STEPS) if posterior.few else STEPS


def plan_newton(
    posterior: Posterior, n_priv: float, noise: Noise, centre: Fraction = Fraction(0), most: int = MORE_STEPS[-1]
) -> NewtonPlan:
    """The number of steps, at most `most`, and the clip with the least predicted error."""
    noises = {steps: noise((1 - centre) / steps) for steps in step_counts(posterior) if steps <= most}
    steps, place, predicted = _least(posterior, n_priv, noises, posterior.clips)
    clip = posterior.clips[place]
    if posterior.few and predicted >= _NOISY * posterior.part * posterior.unexplained:
        pairs = normal_clips(posterior)
        steps, place, _ = _least(posterior, n_priv, noises, [judged for _, judged in pairs])
        clip = pairs[place][0]
        _, _, predicted = _least(posterior, n_priv, {steps: noises[steps]}, [clip])
    return NewtonPlan(steps=steps, clip=clip, predicted=predicted, centre=centre)


def _least(
    posterior: Posterior, n_priv: float, noises: Mapping[int, float], clips: Sequence[Bound]
) -> tuple[int, int, float]:
    """Steps, the place of the clip, and the least predicted error; `noises`: of a step, by their number."""
    best: tuple[int, int, float] | None = None
    for steps, errors in zip(noises, _simulated(posterior, n_priv, noises, clips), strict=True):
        predicted = [
            posterior.part * (error + clip.bias_sq * posterior.noise_share)
            for clip, error in zip(clips, errors, strict=True)
        ]
        place = min(range(len(predicted)), key=predicted.__getitem__)
        if best is None or predicted[place] < (best[2] if steps <= STEPS[-1] else _NO_LOSS * best[2]):
            best = steps, place, predicted[place]
    assert best is not None
    return best


def _simulated(
    posterior: Posterior, n_priv: float, noises: Mapping[int, float], clips: Sequence[Bound]
) -> list[list[float]]:
    """Predicted squared error after so many steps with so much noise, for each clip; radius and share of the first step kept."""
    unit, plans = posterior.unexplained, [(count, bound) for count in noises for bound in clips]
    bounds, steps = [bound for _, bound in plans], np.array([count for count, _ in plans])
    error = np.full(len(plans), posterior.spread)
    variance, pooled = np.tile(posterior.variance, (len(plans), 1)), np.zeros((len(plans), len(posterior.variance)))
    laws = [bound.at(math.sqrt(unit + posterior.spread)) for bound in bounds]
    here = np.array([(law.bound, law.inside, law.energy) for law in laws]).T
    per_step = np.array([noises[count] for count, _ in plans])

    def precision(radius: FloatArray, share: FloatArray, on: int = 0) -> FloatArray:
        """Of the plans from `on`: powers by the same function as those of one number."""
        ratio = radius * per_step[on:] * here[0] * np.sqrt(unit + error[on:]) / (n_priv * here[1] * share)
        return np.array([each**-2 for each in ratio.tolist()])

    radius = share = np.ones(len(plans))
    for _ in range(2):
        total = precision(radius, share)
        spreads = np.sqrt(water_filled_each(variance, total, FLOOR) / total[:, None])
        first = weighting_each(posterior.typical, spreads)
        radius, share = first.radius, first.share
    relative = (first.shares / share[:, None]) ** 2
    for step in range(int(steps[-1])):
        on = int(np.searchsorted(steps, step, side="right"))  # the plans that have more steps
        here = np.array([(law.bound, law.inside, law.energy) for law in laws[on:]]).T
        filled = water_filled_each(variance[on:], precision(radius[on:], share[on:], on), FLOOR)
        noise_variance = 1.0 / (filled * relative[on:])
        again = _repeats_each(variance[on:], noise_variance, steps[on:])
        bent = (posterior.curvature_error + 1.0 / n_priv) * error[on:] * again
        pooled[on:] += 1.0 / (noise_variance + bent[:, None])
        sampling = here[2] * (unit + error[on:]) / (n_priv * here[1] ** 2)
        variance[on:] = 1.0 / (1.0 / posterior.variance + 1.0 / (1.0 / pooled[on:] + sampling[:, None]))
        error[on:] = np.add.reduce(variance[on:], axis=1)
        sizes = np.sqrt(unit + error[on:]).tolist()
        laws[on:] = [bound.at(size) for bound, size in zip(bounds[on:], sizes, strict=True)]
    found: list[list[float]] = error.reshape(len(noises), -1).tolist()
    return found


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Request:
    """What one step asks of the rows: see `ResidualSum`."""

    slope: FloatArray
    spread: FloatArray
    scale: float
    clip: float
    radius: float


Answer = tuple[FloatArray, float]  # the released sum, and the standard deviation of its noise
Ask = Callable[[Request, int], Answer]


def newton(posterior: Posterior, plan: NewtonPlan, n_priv: float, noise: Noise, ask: Ask) -> State:
    """Run the steps; `ask` releases the answer to a request."""
    state, public = State(posterior), posterior.typical
    per_step = noise(plan.share)
    for step in range(plan.steps):
        scale, error = state.scale, state.error
        clip = plan.clip.at(scale)

        def precision(radius: float, share: float, scale: float = scale, clip: Clip = clip) -> float:
            return float((radius * per_step * clip.bound * scale / (n_priv * clip.inside * share)) ** -2)

        weights = chosen_weighting(public, state.variance, precision)
        state.lever = weights.lever
        request = Request(slope=state.mean, spread=weights.spread, scale=scale, clip=clip.bound, radius=weights.radius)
        total, noise_std = ask(request, step)
        sampling = clip.energy * scale**2 / (n_priv * clip.inside**2)
        unit = clip.bound * scale / (n_priv * clip.inside * weights.shares * weights.spread)
        variance = (unit * noise_std) ** 2
        state.note_slope(unit * total, variance)
        bent = (posterior.curvature_error + 1.0 / n_priv) * error * repeats(state.variance, variance, plan.steps)
        state.add(state.mean + unit * total, variance + bent, sampling)
    if len(posterior.labels) < FEW * len(posterior.mean):
        state.settle(wary=posterior.next_to_none)
    elif len(posterior.labels) < MANY * len(posterior.mean):
        state.widen(public, public * weights.lever[:, None] / weights.shares, len(posterior.labels), n_priv)
    return state
