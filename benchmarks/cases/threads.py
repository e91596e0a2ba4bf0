"""Complete calls that are timed with one thread and with two: large and compute-bound, large and memory-bound, and small."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import fastpubpriv as fpp

RHO = fpp.ZCDP(0.5)
COMPUTE, MEMORY, SMALL = "compute-bound", "memory-bound", "small"
GOALS = {
    COMPUTE: 1.7,
    MEMORY: 1.0,
    SMALL: 0.95,
}  # the time of a call without threads varies by some percent


@dataclass(frozen=True)
class Threaded:
    """A call that takes a number of threads; `kind` selects its goal."""

    name: str
    kind: str
    call: Callable[[int | None], Any]


def _quiet(call: Callable[[int | None], Any]) -> Callable[[int | None], Any]:
    def run(threads: int | None) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return call(threads)

    return run


def _rows(n: int, dim: int, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Return private rows and independent public rows."""
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, dim)), rng.standard_normal((10 * dim + 100, dim))


def _labeled(n: int, dim: int, classes: bool) -> dict[str, np.ndarray]:
    found = {}
    for who, rows in zip(("priv", "pub"), _rows(n, dim), strict=True):
        score = rows @ np.linspace(-1.0, 1.0, dim) + np.random.default_rng(5).standard_normal(
            len(rows)
        )
        found[f"x_{who}"], found[f"y_{who}"] = (
            rows,
            (score > 0.0).astype(float) if classes else score,
        )
    return found


def cases(scale: float) -> Iterator[Threaded]:
    """Yield the cases one after another, as their rows are large; `scale` is a factor on the rows of the large cases."""
    yield from (Threaded(name, kind, _quiet(call)) for name, kind, call in _large(scale))
    yield from (Threaded(name, SMALL, _quiet(call)) for name, call in _small())


def _large(scale: float) -> Iterator[tuple[str, str, Callable[[int | None], Any]]]:
    given = {"budget": RHO, "progress": False}
    n = int(200_000 * scale)
    x, public = _rows(n, 100)
    name = f"estimate_gaussian, {n} x 100"
    yield (
        name,
        COMPUTE,
        lambda threads: fpp.estimate_gaussian(x, x_pub=public, threads=threads, **given),
    )
    n = int(500_000 * scale)
    for function, classes in ((fpp.linear_regression, False), (fpp.logistic_regression, True)):
        data = _labeled(n, 20, classes)
        name = f"{function.__name__}, {n} x 20"
        yield name, COMPUTE, lambda threads, f=function, d=data: f(**d, threads=threads, **given)
    n = int(1_000_000 * scale)
    centers = 30.0 * np.eye(16)[:4]
    mixed, some = (rows + centers[np.arange(len(rows)) % 4] for rows in _rows(n, 16))
    name = f"learn_separated_mixture, {n} x 16, 4 components"
    yield (
        name,
        COMPUTE,
        lambda threads: fpp.learn_separated_mixture(
            mixed, x_pub=some, n_components=4, min_weight=0.1, threads=threads, **given
        ),
    )
    n = int(20_000 * scale)
    unit = _rows(n, 1000)[0]
    unit /= np.linalg.norm(unit, axis=1)[:, None]
    yield (
        f"PrivUnit, {n} reports of length 1000",
        COMPUTE,
        lambda threads: fpp.local.PrivUnit(1000, 8.0).privatize(unit, threads=threads),
    )
    n = int(2_000_000 * scale)
    wide, more = _rows(n, 20)
    yield (
        f"estimate_mean, {n} x 20",
        MEMORY,
        lambda threads: fpp.estimate_mean(wide, x_pub=more, threads=threads, **given),
    )


def _small() -> Iterator[tuple[str, Callable[[int | None], Any]]]:
    """Return the small cases, which run on the calling thread for any number of threads."""
    given = {"budget": RHO, "progress": False}
    for n in (1_000, 10_000):
        x, public = _rows(n, 5)
        yield (
            f"estimate_mean, {n} x 5",
            lambda threads, x=x, p=public: fpp.estimate_mean(x, x_pub=p, threads=threads, **given),
        )
        yield (
            f"estimate_gaussian, {n} x 5",
            lambda threads, x=x, p=public: fpp.estimate_gaussian(
                x, x_pub=p, threads=threads, **given
            ),
        )
