"""Local reports: ours, and what a NumPy user writes for a block of rows, with insecure coins and without a grid."""

from __future__ import annotations

import numpy as np

from benchmarks.cases.loops import KEY, Case
from fastpubpriv.kernels import noise
from fastpubpriv.kernels.reports import report_integers
from fastpubpriv.local import PrivUnit

SIZES = ((10_000, 100), (1000, 1000), (200, 10_000))


def numpy_privunit(rows: np.ndarray, randomizer: PrivUnit, rng: np.random.Generator) -> np.ndarray:
    """PrivUnit for a block of unit rows: angles by rejection for all rows at once, then one matrix of normals."""
    n, dim = rows.shape
    gamma, alpha = randomizer.cap.threshold, 0.5 * (dim - 1)
    hit = rng.random(n) < randomizer.cap.probability
    t = np.empty(n)
    left = np.flatnonzero(hit)
    while len(left):
        y = (1.0 - gamma * gamma) * rng.random(len(left)) ** (1.0 / alpha)
        tried = np.sqrt(1.0 - y)
        kept = rng.random(len(left)) * tried < gamma
        t[left[kept]] = tried[kept]
        left = left[~kept]
    left = np.flatnonzero(~hit)
    while len(left):
        g = rng.standard_normal(len(left))
        tried = g / np.sqrt(g * g + rng.chisquare(dim - 1, len(left)))
        kept = tried < gamma
        t[left[kept]] = tried[kept]
        left = left[~kept]
    units = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    w = rng.standard_normal((n, dim))
    w -= np.einsum("ij,ij->i", w, units)[:, None] * units
    w *= (np.sqrt(1.0 - t * t) / np.linalg.norm(w, axis=1))[:, None]
    w += t[:, None] * units
    return w / randomizer.scale


def report_case(n: int, dim: int, epsilon: float = 8.0) -> Case:
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((n, dim))
    randomizer = PrivUnit(dim, epsilon)
    law = randomizer.law
    out = np.empty((n, dim), np.int32)

    def ours() -> np.ndarray:
        report_integers(rows, law, KEY, out)
        return out

    def floor() -> float:
        """The secure normals, and the rows read once."""
        return float(noise.standard_normal(KEY, n * dim)[0]) + float(rows.sum())

    ours()
    units = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    lengths = np.linalg.norm(out, axis=1)
    share = np.mean(np.einsum("ij,ij->i", out / lengths[:, None], units) >= randomizer.cap.threshold)
    assert abs(share - randomizer.cap.probability) < 6.0 / np.sqrt(4.0 * n)
    return Case(
        name=f"PrivUnit reports, {n} x {dim}",
        ours=ours,
        peers={"NumPy, a block at a time (insecure)": lambda: numpy_privunit(rows, randomizer, rng)},
        limit_name="as many secure normals, rows read once",
        floor=floor,
    )
