"""Four finite populations, and tables drawn from them: a population's own statistics are the truth, without a formula.

Private and public rows are drawn anew, with replacement, in each draw. `id` and `weight` are independent of the rows of the first
three, so that neither changes the truth; in `visits` a tenth of the persons have thirty rows with values twice as large.
"""

from __future__ import annotations

import functools
import zlib
from typing import NamedTuple

import numpy as np
import pandas as pd

SIZE = 40_000
PUBLIC_ROWS = 60
NAMES = ("light", "skewed", "awkward", "visits")
NUMBERS = {
    "light": ["u", "w", "age"],
    "skewed": ["u", "w", "n"],
    "awkward": ["u", "w", "k"],
    "visits": ["u", "w", "age"],
}
GROUPS = {
    "light": ["a", "b", "c"], "skewed": ["a", "b", "c"], "awkward": [" north", "söuth "], "visits": ["a", "b", "c"],
}  # fmt: skip
FEW, MANY = 2, 30  # rows of a light and of a heavy person in `visits`
HEAVY_SHARE = 0.1
CENTERS = np.array([[0.0, 0.0], [12.0, 0.0], [0.0, 12.0]])
FAR_AWAY = 1e6  # where the columns m1 and m2 of `awkward` begin


class Tables(NamedTuple):
    """Private and public rows of one draw."""

    private: pd.DataFrame
    public: pd.DataFrame


def _shared_columns(rng: np.random.Generator, size: int, name: str) -> dict[str, object]:
    """Columns of every population: a linear, a logistic and a Poisson model, texts, and three Gaussians."""
    x = rng.normal(size=size)
    v = 0.9 * x + 0.5 * rng.normal(size=size)
    error = rng.exponential(size=size) - 1.0 if name == "skewed" else rng.normal(size=size)
    component = rng.choice(3, size=size, p=[0.5, 0.3, 0.2])
    places = CENTERS[component] + rng.normal(size=(size, 2))
    if name == "awkward":
        places = places + FAR_AWAY
    return {
        "x": x,
        "v": v,
        "y": 10.0 + 2.0 * x + 1.5 * v + error,
        "yes": (rng.random(size) < 1.0 / (1.0 + np.exp(v - x))).astype(float),
        "hits": rng.poisson(np.exp(0.4 * x)).astype(float),
        "class": np.argmax(
            np.column_stack([x, v, np.zeros(size)]) + rng.gumbel(size=(size, 3)), axis=1
        ).astype(float),
        "kind": np.array(["plain", "odd", "rare"])[rng.choice(3, size=size, p=[0.6, 0.3, 0.1])],
        "m1": places[:, 0],
        "m2": places[:, 1],
    }


def _own_columns(rng: np.random.Generator, size: int, name: str) -> dict[str, object]:
    """Columns of numbers `NUMBERS[name]`, and the group `g`."""
    if name == "awkward":
        g = np.array([" north", "söuth ", None], dtype=object)[
            rng.choice(3, size=size, p=[0.5, 0.4, 0.1])
        ]
        w = np.where(rng.random(size) < 0.2, np.nan, rng.normal(-0.002, 0.001, size))
        day = np.datetime64("2024-02-28") + rng.integers(0, 3, size)
        return {
            "u": rng.normal(1e9, 5.0, size),
            "w": w,
            "k": np.full(size, 7.0),
            "g": g,
            "day": day,
        }
    g = np.array(["a", "b", "c"])[rng.choice(3, size=size, p=[0.5, 0.3, 0.2])]
    if name == "skewed":
        w = np.where(rng.random(size) < 0.6, 0.0, rng.lognormal(size=size))
        n = rng.negative_binomial(2, 0.4, size).astype(float)
        return {"u": rng.lognormal(3.0, 0.8, size), "w": w, "n": n, "g": g}
    u = rng.normal(50.0, 10.0, size) + 3.0 * (g == "b")
    w = (rng.random(size) < np.where(g == "a", 0.5, 0.2)).astype(float)
    return {"u": u, "w": w, "age": rng.integers(18, 91, size).astype(float), "g": g}


@functools.cache
def population(name: str) -> pd.DataFrame:
    """Frame of a population; `visits` has persons in `id`, the others have none before a draw."""
    rng = np.random.default_rng(NAMES.index(name))
    if name != "visits":
        return pd.DataFrame({**_own_columns(rng, SIZE, name), **_shared_columns(rng, SIZE, name)})
    persons = round(SIZE / (HEAVY_SHARE * MANY + (1.0 - HEAVY_SHARE) * FEW))
    sizes = np.where(np.arange(persons) < HEAVY_SHARE * persons, MANY, FEW)
    frame = pd.DataFrame(
        {**_own_columns(rng, sizes.sum(), name), **_shared_columns(rng, sizes.sum(), name)}
    )
    heavy = np.repeat(sizes == MANY, sizes)
    for column in ("u", "age", "x"):
        frame[column] = frame[column] * np.where(heavy, 2.0, 1.0)
    return frame.assign(id=np.repeat(np.arange(persons), sizes))


def _drawn_persons(frame: pd.DataFrame, rng: np.random.Generator, rows: int) -> pd.DataFrame:
    """Rows of whole persons, each with a number of its own, about `rows` of them."""
    starts = np.flatnonzero(np.diff(frame["id"], prepend=-1))
    sizes = np.diff(starts, append=len(frame))
    chosen = rng.integers(0, len(starts), max(round(rows * len(starts) / len(frame)), 2))
    places = np.concatenate([np.arange(starts[i], starts[i] + sizes[i]) for i in chosen])
    return frame.iloc[places].assign(id=np.repeat(np.arange(len(chosen)), sizes[chosen]))


@functools.lru_cache(maxsize=64)
def drawn(name: str, rows: int, draw: int) -> Tables:
    """Tables of one draw."""
    frame = population(name)
    rng = np.random.default_rng([zlib.crc32(name.encode()), rows, draw])
    if name == "visits":
        private = _drawn_persons(frame, rng, rows)
    else:
        private = frame.iloc[rng.integers(0, len(frame), rows)].assign(
            id=rng.integers(0, max(rows // 2, 1), rows)
        )
    public = frame.iloc[rng.integers(0, len(frame), PUBLIC_ROWS)]
    private = private.assign(weight=rng.uniform(0.5, 2.0, len(private))).reset_index(drop=True)
    public = public.assign(weight=rng.uniform(0.5, 2.0, len(public)), id=-1).reset_index(drop=True)
    return Tables(private, public)
