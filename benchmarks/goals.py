"""The goals of speed: at most a ratio to the limit of the machine, at least a ratio to a peer, or at most seconds."""

from __future__ import annotations

from collections.abc import Sequence

AVX512 = 2  # of the numbers that the C library gives to sets of instructions

LIMITS = {
    "clipped exact sum, 1e+06 x 50": 1.2,
    "clipped exact sum, 1e+05 x 500": 1.2,
    "clipped exact sum with a centre, 1e+06 x 50": 1.4,
    "clipped exact sum with a centre, 1e+05 x 500": 1.4,
    "clipped exact sum, 5e+06 x 4": 1.3,
    "clipped exact sum, 1e+06 x 50 float32": 2.0,
    "clipped exact Gram, 1e+06 x 100": 1.5,
    "clipped exact Gram, 1e+05 x 1000": 1.25,
    "rows in one ball, 1e+07 x 4": 1.3,
    "rows in one ball, 1e+06 x 16": 1.3,
    "occupied bins, bounded, 1e+07": 2.5,
    "occupied bins, heavy-tailed, 1e+07": 2.5,
    "occupied bins, dyadic, 1e+07": 1.3,
    "pairs of 2000 hypotheses, 2e+03 rows": 2.0,
    "clipped gradients, 1e+06 x 100": 1.15,
    "clipped gradients, 1e+06 x 100 float32": 1.5,
    "a mini-batch of 500 of 27000 x 2000 float32": 1.7,
    "a Newton pass, 1e+06 x 100": 1.5,
    "50 steps of 1 settings": 1.7,
    "PrivUnit reports, 10000 x 100": 1.15,
    "PrivUnit reports, 1000 x 1000": 1.15,
    "PrivUnit reports, 200 x 10000": 1.15,
    "weighted_mean, 1e+06 x 50, whole call": 1.35,
    "estimate_mean, clipping='gaussian', 1e+06 x 50, whole call": 1.35,
    "estimate_mean, 1e+06 x 50, whole call": 1.35,
}
LIMITS_AVX2 = {
    "clipped exact sum with a centre, 1e+06 x 50": 1.7,
    "clipped exact sum with a centre, 1e+05 x 500": 1.7,
    "clipped exact sum, 5e+06 x 4": 2.1,
}
_LOOPS = {"Numba loop": 1.1, "NumPy in row blocks": 1.1}
PEERS = {
    "exact Gaussian noise, 1e+06 draws": {"numpy (insecure)": 2.0, "OpenDP integer": 1000.0},
    "exact Laplace noise, 1e+06 draws": {"numpy (insecure)": 2.0, "OpenDP integer": 1000.0},
    **{name: _LOOPS for name in LIMITS if name.startswith("clipped exact sum")},
    "clipped exact Gram, 1e+06 x 100": {"NumPy clip and dsyrk": 5.0},
    "clipped exact Gram, 1e+05 x 1000": {"NumPy clip and dsyrk": 2.5},
    "Gaussian, 1e+06 x 100, 4 rounds": {"NumPy clip and dsyrk, as many passes": 2.0},
    "Gaussian, 1e+05 x 1000, 4 rounds": {"NumPy clip and dsyrk, as many passes": 1.0},
    "most isolated row, 200 x 100, few rows": {"Numba loop with early exits": 1.0},
    "most isolated row, 2000 x 100, heavy tails": {"Numba loop with early exits": 1.0},
    "most isolated row, 2000 x 100": {"scikit-learn NearestNeighbors": 15.0, "NumPy float32 products (may err)": 1.0},
    "most isolated row, 20000 x 100": {"scikit-learn NearestNeighbors": 150.0, "NumPy float32 products (may err)": 1.0},
    "most isolated row, 100000 x 50": {"NumPy float32 products (may err)": 120.0},
    "terrific balls, 20000 x 4, 12 radii x 2": {"sorted cdist": 40.0},
    "terrific balls, 20000 x 16, 12 radii x 2": {"sorted cdist": 40.0},
    "rows in 200 x 24 balls, 1e+06 x 4": {"sorted cdist": 15.0},
    "rows in 200 x 24 balls, 1e+06 x 16": {"sorted cdist": 15.0},
    "occupied bins, bounded, 1e+07": {"NumPy unique": 8.0, "polars, one thread": 8.0},
    "occupied bins, heavy-tailed, 1e+07": {"NumPy unique": 8.0, "polars, one thread": 8.0},
    "occupied bins, dyadic, 1e+07": {"NumPy frexp and bincount": 8.0, "polars, one thread": 8.0},
    "occupied bins, 30 widths, 1e+07": {"NumPy unique": 8.0, "polars, one thread": 8.0},
    "stable_histogram, 1e+07, whole call": {"NumPy unique": 5.0, "polars, one thread": 6.0},
    "clipped gradients, 1e+06 x 100": {"NumPy in row blocks": 3.0, "Numba loop": 1.1},
    "clipped gradients, 1e+06 x 100 float32": {"NumPy in row blocks": 3.0, "Numba loop": 1.1},
    "a mini-batch of 500 of 27000 x 2000 float32": {"NumPy": 1.3},
    "a Newton pass, 1e+06 x 100": {"NumPy in row blocks": 3.0, "Numba loop": 1.1},
    "50 steps of 1 settings": {"NumPy": 2.0},
    "50 steps of 16 settings": {"one setting at a time": 4.0, "NumPy": 2.0},
    "coinpress_covariance, 3e+05 x 20, 4 rounds, whole call": {"the published script": 4.0},
    "coinpress_covariance, 2e+05 x 50, 4 rounds, whole call": {"the published script": 4.0},
    "coinpress_mean, 1e+05 x 50, 4 rounds, whole call": {"the published script": 14.0},
    "stable_histogram, 30 widths, 1e+07, whole call": {"one width": 1.0 / 1.5},
    "threads by default, 10000 x 5": {"one thread": 0.95},
    "two threads, 10000 x 5": {"one thread": 0.95},
}
SECONDS = {
    "50 steps of 16 settings": 0.04,
    "50 steps of 176 settings, all cores": 1.8,
    "estimate_mean, clipping='gaussian', 1000 x 5": 130e-6,
    "estimate_mean, 1000 x 5": 130e-6,
    "weighted_mean, 1000 x 5": 130e-6,
    "learn_separated_mixture, 1e+06 x 16, 8 components, whole call": 0.75,
    "learn_axis_aligned_mixture, 1e+06 x 50, whole call": 3.7,
    "learn_axis_aligned_mixture, x_pub, pure, 2000 x 3, whole call, all cores": 1.0,
    "noise_multiplier_for, 5000 steps of 1/54": 0.2,
}


def every(goal: float | None, levels: Sequence[int]) -> list[float] | None:
    """The goal of each set of instructions where there is one for all."""
    return None if goal is None else [goal] * len(levels)


def limits_of(name: str, levels: Sequence[int]) -> list[float] | None:
    """Goals beside the limit for each set of instructions."""
    if name not in LIMITS:
        return None
    return [LIMITS_AVX2.get(name, LIMITS[name]) if level < AVX512 else LIMITS[name] for level in levels]


def peers_of(name: str, peer: str, levels: Sequence[int]) -> list[float] | None:
    """Goals beside a peer for each set of instructions."""
    return every(PEERS.get(name, {}).get(peer), levels)


def said(goal: list[float] | None, found: list[float] | None, *, at_most: bool, unit: str = "") -> str:
    """The goals and whether the numbers of the sets of instructions meet them, for a cell; nothing where there is no goal."""
    if goal is None or found is None:
        return ""
    met = [number <= most if at_most else number >= most for number, most in zip(found, goal, strict=True)]
    words = ["met" if each else "NOT MET" for each in met]
    shown = " / ".join(f"{each:g}" for each in (goal if len(set(goal)) > 1 else goal[:1]))
    return f"{'<=' if at_most else '>='} {shown}{unit}: {' / '.join(words if len(set(words)) > 1 else words[:1])}"
