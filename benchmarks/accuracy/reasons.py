"""`python -m benchmarks.accuracy.reasons`: how well reasons separate right from wrong answers, one line for each kind and n.

An answer is *off* if its error exceeds three of its standard errors (without standard errors: if its 99.73 % interval does not
contain the truth), *right* if it is not off and its 95 % interval contains the truth. Few right answers should be unreliable, which
raises a warning, or have a caution; an answer that is off should have a reason. Components of mixtures have no standard errors:
right is a mean within one standard deviation of the component's, off is one beyond two. "mean, no privacy" is the usual interval
from the same private rows, without reasons: its misses are due to sampling.
"""

from __future__ import annotations

import argparse
import warnings
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri

import fastpubpriv as fpp
from benchmarks.accuracy import coefficients, covariances, means, mixtures, tables
from benchmarks.accuracy.gaussians import normal_covariance
from benchmarks.accuracy.hindsight import Cell
from benchmarks.readme import ACCURACY, markdown, replaced
from fastpubpriv.results.reasons import status_of

SIZES = (300, 1_000, 3_000, 10_000)
PUBLIC_SIZES = (1, 5, 50)
BUDGETS: dict[str, Any] = {
    "rho 0.05": fpp.ZCDP(0.05),
    "rho 0.5": fpp.ZCDP(0.5),
    "epsilon 1": fpp.PureDP(1.0),
}
OFF, OFF_LEVEL = 3.0, 0.9973
# A raw table, a numeric column, and the column of its groups.
GROUPS = (
    ("diamonds", "price", "cut"),
    ("diamonds", "price", "clarity"),
    ("cps1988", "wage", "region"),
    ("census2000", "weekinc", "state"),
    ("survey", "wages", "language"),
    ("elderly", "visits", "health"),
)


@dataclass(frozen=True)
class Part:
    """One part of one answer: its kind and n, its source, its reasons, and whether it is right or off."""

    kind: str
    n: int
    source: str
    reasons: tuple[Any, ...]
    right: bool
    off: bool
    error: float = 0.0  # in standard errors, if there are any


def parts_of(
    kind: str, n: int, source: str, reasons: Any, error: Any, std: Any, inside: Any
) -> Iterator[Part]:
    """Yield parts from errors, their standard errors (dim,), and whether the 95 % interval contains the truth."""
    with np.errstate(all="ignore"):
        ratios = np.ravel(np.abs(error) / std)
    for own, ratio, held in zip(reasons, ratios.tolist(), np.ravel(inside).tolist(), strict=True):
        far = not ratio <= OFF
        if np.isnan(ratio):  # no answer
            continue
        yield Part(kind, n, source, own, held and not far, far, ratio)


def of_intervals(
    kind: str, n: int, source: str, reasons: Any, truth: Any, interval: Callable[[float], Any]
) -> Iterator[Part]:
    """Yield parts of a result that has intervals but no standard errors."""
    (low, high), (least, most) = (interval(level) for level in (0.95, OFF_LEVEL))
    inside = (low <= truth) & (truth <= high)
    within = (least <= truth) & (truth <= most)
    for own, held, near in zip(
        reasons, inside.ravel().tolist(), within.ravel().tolist(), strict=True
    ):
        yield Part(kind, n, source, own, held, not near)


def of_textbook(n: int, source: str, private: np.ndarray, truth: float) -> Iterator[Part]:
    """Yield the non-private mean of private rows (n, 1) with its classical standard error."""
    std = private.std(axis=0, ddof=1) / np.sqrt(len(private))
    error = private.mean(axis=0) - truth
    yield from parts_of(
        "mean, no privacy", n, source, ((),), error, std, np.abs(error) <= ndtri(0.975) * std
    )


def of_columns(draws: int, sizes: tuple[int, ...]) -> Iterator[Part]:
    """Yield means and quartiles of single columns of the list."""
    for column in tables.columns():
        # In a column of counts or codes, a quartile at either end of a step is correct.
        truth = np.quantile(column.values, [0.25, 0.5, 0.75], method="inverted_cdf")
        for n in sizes:
            for n_pub in PUBLIC_SIZES:
                for name, budget in BUDGETS.items():
                    notion, amount = name.split()
                    for sample in means.samples(
                        column, Cell(n, n_pub, notion, float(amount)), draws
                    ):
                        shared: Any = {
                            "x_pub": sample.public,
                            "budget": budget,
                            "random_state": sample.seed,
                            "progress": False,
                        }
                        source = f"{column.name}, {n_pub} public, {name}"
                        mean = fpp.estimate_mean(sample.private, **shared)
                        low, high = mean.confidence_interval()
                        center = column.values.mean()
                        inside = (low <= center) & (center <= high)
                        error = mean.mean - center
                        yield from of_textbook(n, source, sample.private, center)
                        yield from parts_of(
                            "mean", n, source, mean.part_reasons, error, mean.standard_error, inside
                        )
                        ranks = fpp.quantiles(sample.private, **shared)
                        yield from of_intervals(
                            "quartile",
                            n,
                            source,
                            ranks.part_reasons,
                            truth[None],
                            ranks.confidence_interval,
                        )


def of_spreads(draws: int, sizes: tuple[int, ...]) -> Iterator[Part]:
    """Yield standard deviations of raw tables."""
    for table in (name for name, (_, _, columns) in tables.RAW_TABLES.items() if columns):
        of = covariances.population(table)
        for n in sizes:
            for n_pub in (20, 200):
                for name in covariances.DEFAULT_BUDGETS:
                    for seed in range(draws):
                        result, *_ = covariances.draw(
                            covariances.Setting(table, n, n_pub, name), seed
                        )
                        if result.report is None:
                            continue

                        def interval(level: float, result: Any = result) -> Any:
                            return result.confidence_interval(level, of="standard_deviation")

                        truth = of.truth["standard_deviation"]
                        source = f"{table}, {n_pub} public, {name}"
                        yield from of_intervals(
                            "deviation", n, source, result.part_reasons, truth, interval
                        )


def of_groups(draws: int, sizes: tuple[int, ...]) -> Iterator[Part]:
    """Yield means of the groups of raw tables."""
    for table, column, by in GROUPS:
        frame = tables.raw(table)[[column, by]].dropna()
        frame[by] = frame[by].astype(str)
        groups = sorted(frame[by].unique())
        truth = frame.groupby(by)[column].mean().reindex(groups).to_numpy()[:, None]
        for n in sizes:
            for name, budget in BUDGETS.items():
                for seed in range(draws):
                    start = zlib.crc32(f"{table} {by} {n} {name} {seed}".encode())
                    rows = frame.sample(n + 50, replace=True, random_state=start)
                    result = fpp.estimate_mean(
                        rows[50:],
                        x_pub=rows[:50],
                        by=by,
                        groups=groups,
                        budget=budget,
                        random_state=seed,
                        progress=False,
                    )
                    low, high = (ends[:-1] for ends in result.confidence_interval())
                    error = result.mean[:-1] - truth
                    std = result.standard_error[:-1]
                    source = f"{table} by {by}, {name}"
                    inside = (low <= truth) & (truth <= high)
                    yield from parts_of(
                        "group", n, source, result.part_reasons[:-1], error, std, inside
                    )


def of_terms(draws: int, sizes: tuple[int, ...]) -> Iterator[Part]:
    """Yield coefficients of linear regressions on raw tables."""
    for table in tables.REGRESSIONS:
        for n in sizes:
            for n_pub in (50, 200, 1_000):
                for name in coefficients.DEFAULT_BUDGETS:
                    setting = coefficients.Setting(table, n_pub, name, n)
                    for seed in range(draws):
                        result, truth = coefficients.fitted(setting, seed)
                        low, high = result.confidence_interval()
                        inside = (low <= truth.coefficients) & (truth.coefficients <= high)
                        error = result.coefficients - truth.coefficients
                        std = result.standard_error
                        source = f"{table}, {n_pub} public, {name}"
                        yield from parts_of(
                            "coefficient", n, source, result.part_reasons[1:], error, std, inside
                        )


def of_components(draws: int, sizes: tuple[int, ...]) -> Iterator[Part]:
    """Yield means of the components of separated mixtures."""
    for dim, k, n, per_leaf, condition, rho in mixtures.GRID:
        spread = np.sqrt(np.trace(normal_covariance(dim, condition)[1]) / dim)
        for seed in range(draws if n <= max(sizes) else 0):
            private, public, centers = mixtures.sample((dim, k, n, per_leaf, condition, rho), seed)
            result = fpp.learn_separated_mixture(
                private,
                x_pub=public,
                n_components=k,
                min_weight=0.5 / k,
                budget=fpp.ZCDP(rho),
                random_state=seed,
                progress=False,
            )
            away = np.linalg.norm(result.means[:, None] - centers, axis=2).min(axis=1) / spread
            source = (
                f"{k} in {dim} columns, {per_leaf} public, condition {condition:g}, rho {rho:g}"
            )
            for own, far in zip(result.part_reasons, away.tolist(), strict=True):
                yield Part("component", n, source, own, far <= 1.0, far > mixtures.SILENT)


KINDS: dict[str, Callable[[int, tuple[int, ...]], Iterator[Part]]] = {
    "mean": of_columns,
    "deviation": of_spreads,
    "group": of_groups,
    "coefficient": of_terms,
    "component": of_components,
}


def line_of(parts: list[Part]) -> list[str]:
    """Return fractions of the right answers by status, and of those that are off with and without a reason."""
    right = Counter(status_of(part.reasons) for part in parts if part.right)
    off = Counter(status_of(part.reasons) for part in parts if part.off)
    plain = sum(not part.reasons for part in parts)
    count = max(sum(right.values()), 1)
    return [
        f"{len(parts):,}",
        f"{right.total() / len(parts):.3f}",
        f"{right['unreliable'] / count:.4f}",
        f"{right['caution'] / count:.3f}",
        f"{off.total():,}",
        f"{off['ok']:,}",
        f"{off['ok'] / max(plain, 1):.4f}",
    ]


HEADS = [
    "answers",
    "n",
    "parts",
    "right",
    "of these unreliable",
    "of these caution",
    "off",
    "off and ok",
    "share of those that are ok",
]


def report(parts: list[Part], *, details: bool) -> str:
    """Return the table, and with `details` where right answers have a reason and where those that are off have none."""
    lines = [HEADS]
    for kind, n in dict.fromkeys((part.kind, part.n) for part in parts):
        lines.append(
            [kind, f"{n:,}", *line_of([part for part in parts if (part.kind, part.n) == (kind, n)])]
        )
    page = markdown(lines)
    if details:
        vain = [part for part in parts if part.right and part.reasons]
        tallies = {
            "right, with reasons": Counter((part.kind, part.n, *part.reasons) for part in vain),
            "right, by source": Counter(
                (part.kind, part.source.split(",")[0], *part.reasons) for part in vain
            ),
            "off and ok": Counter(
                (part.kind, part.n, part.source) for part in parts if part.off and not part.reasons
            ),
        }
        for title, tally in tallies.items():
            found = [
                f"{count:6d} {', '.join(map(str, key))}" for key, count in tally.most_common(60)
            ]
            page += f"\n\n{title}\n" + "\n".join(found)
    return page


def main() -> None:
    """Run the requested measurements and print the table."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.accuracy.reasons", description=__doc__
    )
    parser.add_argument(
        "--kind", action="append", choices=list(KINDS), help="only these; may be repeated"
    )
    parser.add_argument("--n", action="append", type=int, help="private rows; may be repeated")
    parser.add_argument("--draws", type=int, default=4, help="draws for each setting")
    parser.add_argument(
        "--details",
        action="store_true",
        help="also where reasons are in vain, and where one is missing",
    )
    parser.add_argument(
        "--write",
        action="store_true",
        help="write the table into docs/evidence/accuracy.md as well",
    )
    options = parser.parse_args()
    parts: list[Part] = []
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for kind in options.kind or KINDS:
            parts += KINDS[kind](options.draws, tuple(options.n or SIZES))
    print(report(parts, details=options.details))
    if options.write:
        page = ACCURACY.read_text(encoding="utf-8")
        ACCURACY.write_text(
            replaced(page, "reasons", report(parts, details=False)), encoding="utf-8"
        )


if __name__ == "__main__":
    main()
