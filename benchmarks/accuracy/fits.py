"""`python -m benchmarks.accuracy.fits`: total variation of mixtures from synthetic truths, and the reliability of the status "ok".

An answer is *right* if its total variation is at most .1, or at most 1.5 times that of non-private expectation-maximization on all
rows, started at the truth; it is "ok" if no component has a reason. The first settings are those of the method's specification, the
next were added afterwards and not used for tuning, and `WIDE` is a problem of many columns, where only components are counted: the
lightest has 12 public rows. "dp_em" is the axis-aligned learner on these rows and budget, "before" the best median of the methods
that soft EM replaced, from the specification. The ratio is that of our median to the smallest one of dp_em, public rows and before.
"""

from __future__ import annotations

import argparse
import math
import warnings
import zlib
from collections import Counter
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import logsumexp

import fastpubpriv as fpp
from benchmarks.accuracy.keeping import Task, results
from benchmarks.readme import ACCURACY, markdown, replaced
from fastpubpriv.mixtures.gaussian_mixture import GaussianMixture
from fastpubpriv.mixtures.public_em import ComponentShape, public_fits

BUDGETS: dict[str, Any] = {
    "rho .5": fpp.ZCDP(0.5),
    "rho .1": fpp.ZCDP(0.1),
    "(1, 1e-6)": fpp.ApproxDP(1, 1e-6),
    "epsilon 1": fpp.PureDP(1.0),
}
RIGHT, OF_EM = 0.1, 1.5
DRAWS, EM_STEPS, SETTLED = 20_000, 40, 1e-5
LEARNERS: dict[str, Any] = {
    "separated": fpp.learn_separated_mixture,
    "axis-aligned": fpp.learn_axis_aligned_mixture,
    "one_shot": partial(fpp.learn_separated_mixture, method="one_shot"),
}


@dataclass(frozen=True)
class Setting:
    """Components with standard deviations `scales`, the minimum distance of their centers in these units, rows, and a budget."""

    dim: int
    n: int
    apart: float
    budget: str
    weights: tuple[float, ...] = ()  # equal if empty
    k: int = 3
    n_pub: int = 80
    scales: tuple[float, ...] = ()  # all 1 if empty
    axes: bool = False  # whether covariances are diagonal
    # condition number of the covariances; 0: two random directions have larger variance
    condition: float = 0.0
    learner: str = "separated"

    @property
    def name(self) -> str:
        """The setting in one line."""
        scales, weights = (
            f", {word} " + "|".join(f"{each:g}" for each in given) if given else ""
            for word, given in (("scales", self.scales), ("weights", self.weights))
        )
        shape = (
            f", condition {self.condition:g}" if self.condition else ""
        ) + ", axis-aligned" * self.axes
        learner = "" if self.learner == "separated" else f" [{self.learner}]"
        return (
            f"{self.k} in {self.dim} columns, {self.apart:g} apart{scales}{weights}{shape}, n {self.n:,}, {self.n_pub} public, "
            f"{self.budget}{learner}"
        )


NESTED = {"scales": (1.0, 10.0, 100.0), "axes": True, "dim": 5, "n": 30_000, "apart": 0.0}
FAR_NESTED = {**NESTED, "scales": (1.0, 100.0, 10_000.0)}
LISTED = (
    Setting(5, 5_000, 4, "rho .5"),
    Setting(10, 50_000, 3, "rho .5", k=4),
    Setting(5, 5_000, 8, "rho .5"),
    Setting(5, 1_000, 6, "rho .5"),
    Setting(10, 50_000, 4, "rho .5", k=4),
    Setting(5, 1_000, 10, "rho .1"),
    Setting(5, 10_000, 12, "rho .1"),
    Setting(5, 50_000, 6, "epsilon 1"),
    Setting(10, 50_000, 6, "rho .5", k=4),
    Setting(**NESTED, budget="(1, 1e-6)"),
    Setting(10, 50_000, 8, "rho .5", k=4),
    Setting(**FAR_NESTED, budget="(1, 1e-6)"),
    Setting(10, 50_000, 4, "(1, 1e-6)", k=4),
    Setting(**NESTED, budget="rho .5"),
    Setting(10, 50_000, 8, "(1, 1e-6)", k=4),
    Setting(5, 10_000, 6, "epsilon 1", axes=True),
    Setting(10, 30_000, 6, "epsilon 1", axes=True, k=4),
    Setting(2, 10_000, 6, "epsilon 1", axes=True),
    Setting(10, 50_000, 6, "rho .5", k=4, scales=(0.5, 1.0, 1.5, 2.0)),
    Setting(5, 300, 12, "rho .1"),
    Setting(5, 3_000, 12, "rho .1"),
    Setting(5, 5_000, 6, "epsilon 1"),
    Setting(5, 30_000, 10, "(1, 1e-6)", scales=(0.01, 1.0, 100.0), axes=True),
    Setting(10, 50_000, 6, "epsilon 1", k=4),
    Setting(20, 50_000, 8, "(1, 1e-6)", k=4, n_pub=400),
    Setting(**NESTED, budget="rho .5", n_pub=20),
    Setting(10, 50_000, 8, "(1, 1e-6)", k=4, n_pub=12),
)
OTHERS = (
    Setting(3, 8_000, 3.5, "rho .5", k=5, weights=(0.4, 0.25, 0.15, 0.1, 0.1)),
    Setting(15, 20_000, 7, "rho .5", n_pub=60),
    Setting(8, 20_000, 4, "rho .1", k=6, n_pub=150, condition=100.0),
    Setting(2, 3_000, 2.5, "rho .5", k=2, n_pub=30),
    Setting(1, 20_000, 4, "(1, 1e-6)", n_pub=40),
    Setting(30, 40_000, 10, "rho .5", n_pub=200),
    Setting(
        6,
        100_000,
        5,
        "(1, 1e-6)",
        k=8,
        n_pub=200,
        weights=(0.3, 0.2, 0.12, 0.1, 0.08, 0.08, 0.06, 0.06),
    ),
    Setting(4, 4_000, 6, "epsilon 1", k=2, n_pub=50, weights=(0.8, 0.2)),
    Setting(
        12, 40_000, 5, "rho .5", k=5, n_pub=150, scales=(0.3, 0.6, 1.0, 2.0, 3.0), condition=30.0
    ),
    Setting(20, 10_000, 6, "rho .5", k=4, n_pub=100, axes=True, learner="axis-aligned"),
    Setting(6, 20_000, 4, "rho .1", k=4, n_pub=40, axes=True, learner="axis-aligned"),
)


WIDE = tuple(
    Setting(
        100,
        100_000,
        12,
        "(1, 1e-6)",
        k=6,
        n_pub=600,
        weights=(0.3, 0.25, 0.2, 0.15, 0.08, 0.02),
        condition=30.0,
        learner=learner,
    )
    for learner in ("separated", "one_shot")
)
# Best median total variation of the separated learner before soft EM, of dp_em, and of an EM of 25 lines with noisy moments.
BEFORE = dict(
    zip(
        LISTED,
        (
            0.063,
            0.051,
            0.041,
            0.143,
            0.046,
            0.210,
            0.035,
            0.026,
            0.030,
            0.494,
            0.029,
            0.513,
            0.060,
            0.469,
            0.038,
            0.052,
            0.048,
            0.027,
            0.046,
            0.301,
            0.103,
            0.174,
            0.017,
            0.151,
            0.098,
            0.468,
            0.052,
        ),
        strict=True,
    )
)


def mixture_of(setting: Setting, seed: int) -> GaussianMixture:
    """Return the true mixture of one draw."""
    dim = setting.dim
    k = setting.k
    rng = np.random.default_rng([zlib.crc32(setting.name.encode()), seed])
    scales = np.array(setting.scales or (1.0,) * k)
    means = rng.normal(size=(k, dim))
    if setting.apart:
        # Distance of each new component from the previous ones, in units of the larger scale of the two.
        order = np.argsort(scales)
        for number, place in enumerate(order[1:], start=1):
            before = means[order[:number]] - means[order[0]]
            means[place] -= means[order[0]]
            means[place] /= np.linalg.norm(means[place])
            low = 0.0
            while np.linalg.norm(
                means[order[0]] + low * means[place] - (means[order[0]] + before), axis=1
            ).min() < (setting.apart * scales[place]):
                low += 0.02 * setting.apart * scales[place]
            means[place] = means[order[0]] + low * means[place]
    else:
        means *= 0.5 * scales[:, None]
    if setting.axes:
        spreads = np.exp(rng.uniform(-0.5, 0.5, (k, dim)))
        covariances = spreads[:, :, None] * np.eye(dim)
    elif setting.condition:
        turns = np.linalg.qr(rng.normal(size=(k, dim, dim)))[0]
        values = np.geomspace(1.0 / setting.condition, 1.0, dim)
        covariances = (turns * values) @ turns.swapaxes(1, 2) / values.mean()
    else:
        factors = rng.normal(size=(k, dim, 2))
        covariances = 0.5 * np.eye(dim) + 0.25 * factors @ factors.swapaxes(1, 2)
    weights = np.array(setting.weights or (1.0 / k,) * k)
    return GaussianMixture(weights, means, covariances * scales[:, None, None] ** 2)


def drawn(at: GaussianMixture, n: int, rng: np.random.Generator) -> np.ndarray:
    """Return rows of a mixture."""
    labels = rng.choice(len(at.weights), size=n, p=at.weights)
    rows = rng.normal(size=(n, at.means.shape[1]))
    for place, root in enumerate(np.linalg.cholesky(at.covariances)):
        rows[labels == place] = at.means[place] + rows[labels == place] @ root.T
    return rows


def joint_density(at: GaussianMixture, rows: np.ndarray) -> np.ndarray:
    """Return joint log densities (n, k) of rows and each component."""
    joint = []
    for weight, mean, covariance in zip(at.weights, at.means, at.covariances, strict=True):
        root = np.linalg.cholesky(covariance)
        white = np.linalg.inv(root) @ (rows - mean).T
        joint.append(
            math.log(weight) - 0.5 * np.square(white).sum(axis=0) - np.log(np.diag(root)).sum()
        )
    return np.stack(joint, axis=1)


def total_variation(
    one: GaussianMixture, other: GaussianMixture, rng: np.random.Generator
) -> float:
    """Return the total variation of two mixtures, estimated from draws of both."""
    rows = np.concatenate([drawn(one, DRAWS, rng), drawn(other, DRAWS, rng)])
    ratio = logsumexp(joint_density(one, rows), axis=1) - logsumexp(
        joint_density(other, rows), axis=1
    )
    return float(np.mean(np.abs(np.tanh(ratio / 2.0))))


def without_privacy(rows: np.ndarray, at: GaussianMixture) -> GaussianMixture:
    """Return non-private expectation-maximization on all rows, started at the truth."""
    before = -math.inf
    for _ in range(EM_STEPS):
        joint = joint_density(at, rows)
        level = logsumexp(joint, axis=1)
        share = np.exp(joint - level[:, None])
        held = share.sum(axis=0)
        means = share.T @ rows / held[:, None]
        covariances = np.stack(
            [
                ((rows - mean) * share[:, j, None]).T @ (rows - mean) / held[j]
                for j, mean in enumerate(means)
            ]
        )
        at = GaussianMixture(held / held.sum(), means, covariances)
        if float(level.mean()) - before < SETTLED:
            break
        before = float(level.mean())
    return at


def draw(setting: Setting, seed: int) -> dict[str, Any]:
    """Return the total variation of one answer, of dp_em, of the public fit and of the non-private fit, and the reasons."""
    truth = mixture_of(setting, seed)
    rng = np.random.default_rng([seed, 1])
    rows = drawn(truth, setting.n, rng)
    public = drawn(truth, setting.n_pub, rng)
    given: Any = {
        "x_pub": public,
        "n_components": setting.k,
        "budget": BUDGETS[setting.budget],
        "random_state": seed,
    }
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        given |= {"min_weight": 0.9 * float(truth.weights.min()), "threads": 1, "progress": False}
        result = LEARNERS[setting.learner](rows, **given)
        answers = {"ours": result}
        if setting not in WIDE:
            answers["dp_em"] = LEARNERS["axis-aligned"](rows, **given)
        kind = ComponentShape.DIAGONAL if setting.learner == "axis-aligned" else ComponentShape.FULL
        fits = {"public": public_fits(public, setting.k, 0.5 / setting.k, kinds=(kind,))[0]}
    for word, one in answers.items():
        fits[word] = GaussianMixture(one.weights, one.means, one.covariances)
    if setting not in WIDE:
        fits["EM"] = without_privacy(rows, truth)
    scale = np.sqrt(np.einsum("kii->k", truth.covariances) / setting.dim)
    away = np.linalg.norm(result.means[:, None] - truth.means, axis=2) / scale
    line = {
        word: total_variation(truth, at, np.random.default_rng(seed)) for word, at in fits.items()
    }
    facts = {
        key: value for key, value in result.diagnostics.items() if not isinstance(value, np.ndarray)
    }
    return {
        **line,
        "right": line["ours"] <= max(RIGHT, OF_EM * line.get("EM", 0.0)),
        "reasons": result.part_reasons,
        "away": away.min(axis=1).tolist(),
        "complete": bool((away.min(axis=0) <= 2.0).all()),
        "facts": facts,
    }


COMPARED = ("ours", "dp_em", "public", "EM")


def line_of(setting: Setting, found: list[dict[str, Any]]) -> list[str]:
    """Return medians over draws, and how often the status was correct."""
    ok = [not any(one["reasons"]) for one in found]
    right = [one["right"] for one in found]
    told = Counter(word for one in found for own in one["reasons"] for word in own)
    both = sum(said and true for said, true in zip(ok, right, strict=True))
    silent = sum(said and one["ours"] > one["public"] for said, one in zip(ok, found, strict=True))
    medians = {
        word: float(np.median([one.get(word, math.nan) for one in found])) for word in COMPARED
    }
    before = BEFORE.get(setting, math.nan)
    ratio = medians["ours"] / np.nanmin([medians["dp_em"], medians["public"], before])
    return [
        setting.name.replace("|", " : "),
        *(f"{each:.3f}" for each in medians.values()),
        "" if math.isnan(before) else f"{before:.3f}",
        f"{ratio:.2f}",
        f"{max(one['ours'] for one in found):.3f}",
        f"{sum(right)}",
        f"{sum(ok)}",
        f"{both}",
        f"{silent}",
        f"{sum(one['complete'] for one in found)}",
        ", ".join(f"{count} {word}" for word, count in told.items()),
    ]


HEADS = [
    "setting",
    "ours",
    "dp_em",
    "public",
    "no privacy",
    "before",
    "ratio",
    "worst",
    "right",
    "ok",
    "ok and right",
    "ok and worse than public",
    "complete",
    "reasons",
]


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.accuracy.fits", description=__doc__)
    parser.add_argument("--settings", choices=["listed", "others", "wide", "all"], default="all")
    parser.add_argument("--draws", type=int, default=10, help="draws for each setting")
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="file of results as they come")
    parser.add_argument(
        "--write", action="store_true", help="the table into docs/evidence/accuracy.md"
    )
    options = parser.parse_args()
    chosen = {"listed": LISTED, "others": OTHERS, "wide": WIDE, "all": LISTED + OTHERS + WIDE}[
        options.settings
    ]
    seeds = range(options.first, options.first + options.draws)
    tasks = [
        Task(f"{setting.name} {seed}", partial(draw, setting), (seed,))
        for setting in chosen
        for seed in seeds
    ]
    found = iter(results(tasks, processes=options.processes, keep=options.keep))
    lines = [line_of(setting, [next(found) for _ in seeds]) for setting in chosen]
    count, right, ok, both = (
        len(tasks),
        *(sum(int(line[place]) for line in lines) for place in (8, 9, 10)),
    )
    text = (
        f"{count} answers, {right} right; {ok} ok, of these {both} right ({both / max(ok, 1):.3f})."
    )
    page = f"{text}\n\n{markdown([HEADS, *lines])}"
    print(page)
    if options.write:
        ACCURACY.write_text(
            replaced(ACCURACY.read_text(encoding="utf-8"), "fits", page), encoding="utf-8"
        )


if __name__ == "__main__":
    main()
