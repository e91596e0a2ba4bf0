"""Tables 11 and 12 of paper B: the printed noise, found again by the conventions behind it, beside what replace-one needs."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from fastpubpriv.experiments.registry import Report
from fastpubpriv.experiments.running import checked_runs, side_by_side, text_table, write_csv
from fastpubpriv.privacy import ApproxDP, Neighbors, Poisson, epsilon_of, noise_multiplier_for
from fastpubpriv.privacy.pld import composed_epsilon
from fastpubpriv.results import plots as plotting

NAME = "b-tables-11-12"
N_TOTAL = 30_000
BATCH = 500
STEPS = 5000
DELTA = 1e-5
RATIOS = (0.01, 0.03, 0.04, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95)
PRINTED = {
    2: (2.490, 2.529, 2.568, 2.744, 3.252, 4.805, 9.531, 23.672, 47.344),  # Table 11
    4: (1.470, 1.489, 1.509, 1.597, 1.860, 2.671, 5.176, 12.812, 25.586),  # Table 12
}
TABLES = {2: 11, 4: 12}
CELLS = tuple((epsilon, ratio) for epsilon in PRINTED for ratio in RATIOS)

NOTES = (
    "Optimal DP Model Training with Public Data, Tables 11 and 12: n = 30000, private batches of 500, T = 5000, delta = 1e-5",
    "noise multiplier: standard deviation of the noise on the sum of gradients, over their clipping norm C",
    "paper's conventions: Poisson sampling at 1 / ceil(n_priv / 500), one row added or removed, epsilon + 0.01, a coarse search",
    "add_remove: the least noise for that relation; replace_one: the least noise for the paper's own definition of privacy",
    "epsilon_replace_one: what the printed noise really costs under that definition",
)


@dataclass(frozen=True, slots=True)
class Line:
    """One column of a table."""

    table: int
    epsilon: int
    ratio: float
    rate: Fraction
    printed: float
    found: float
    add_remove: float
    replace_one: float
    epsilon_replace_one: float

    @property
    def agrees(self) -> bool:
        """True where the printed digits are met."""
        return abs(self.found - self.printed) <= 0.0005 + 1e-9


def rate(ratio: float) -> Fraction:
    """One over the number of private batches, as a loader counts them."""
    private = round(N_TOTAL * (1 - ratio))
    return Fraction(1, math.ceil(Fraction(private, BATCH)))


def coarse_search(epsilon_at: Callable[[float], float], goal: float) -> float:
    """The search of the software behind the tables: by halves of [0, 10 2^j], until epsilon is within 0.01 below the goal."""
    low, high = 0.0, 10.0
    found = epsilon_at(high)
    while found > goal:
        high *= 2
        found = epsilon_at(high)
    while goal - found > 0.01:
        middle = (low + high) / 2
        value = epsilon_at(middle)
        if value < goal:
            high, found = middle, value
        else:
            low = middle
    return high


def published_noise(ratio: float, epsilon: float) -> float:
    """The noise multiplier of a table by the paper's conventions."""
    return conventional_noise(rate(ratio), epsilon, STEPS)


def conventional_noise(sampling_rate: Fraction, epsilon: float, steps: int) -> float:
    """The noise multiplier by the paper's conventions, for any rate and number of steps."""
    sampling = Poisson(sampling_rate)

    def with_margin(noise_multiplier: float) -> float:
        pairs = sampling.pairs(noise_multiplier, Neighbors.ADD_REMOVE_ONE)
        # A grid twice as fine: one printed value depends on the fourth digit of epsilon.
        return 0.01 + max(composed_epsilon(pair, steps, DELTA, fineness=2.0) for pair in pairs)

    return coarse_search(with_margin, epsilon)


def line(epsilon: int, ratio: float) -> Line:
    """One column of a table, recomputed."""
    sampling, budget = Poisson(rate(ratio)), ApproxDP(epsilon, DELTA)
    printed = PRINTED[epsilon][RATIOS.index(ratio)]
    return Line(
        table=TABLES[epsilon],
        epsilon=epsilon,
        ratio=ratio,
        rate=sampling.rate,
        printed=printed,
        found=published_noise(ratio, epsilon),
        add_remove=noise_multiplier_for(budget, sampling, STEPS, Neighbors.ADD_REMOVE_ONE),
        replace_one=noise_multiplier_for(budget, sampling, STEPS),
        epsilon_replace_one=epsilon_of(printed, sampling, STEPS, DELTA),
    )


def run(out: Path, *, runs: int | None = None, threads: int | None = None, progress: bool | None = None) -> Report:
    """Write `b-tables-11-12.csv` and `b-tables-11-12.png` into `out`; nothing is random, so `runs` changes nothing."""
    start = time.perf_counter()
    checked_runs(runs, 2)
    found = side_by_side(lambda cell: line(*cell), CELLS, threads=threads, progress=progress, label=NAME)
    columns = (
        *("table", "epsilon", "public_ratio", "sampling_rate", "printed", "by_the_papers_conventions", "agrees"),
        *("add_remove", "replace_one", "epsilon_replace_one"),
    )
    table = [
        (
            *(x.table, x.epsilon, x.ratio, float(x.rate), x.printed, x.found, int(x.agrees)),
            *(x.add_remove, x.replace_one, x.epsilon_replace_one),
        )
        for x in found
    ]
    csv = write_csv(Path(out) / f"{NAME}.csv", NOTES, columns, table)
    png = draw(found, Path(out) / f"{NAME}.png")
    return Report(name=NAME, lines=summary(found), csv=csv, png=png, seconds=time.perf_counter() - start)


def summary(found: list[Line]) -> tuple[str, ...]:
    """Printed and recomputed noise, what is really needed, and what the printed noise really costs."""
    head = (
        "table",
        "epsilon",
        "n_pub/n",
        "printed",
        "recomputed",
        "add/remove",
        "replace-one",
        "epsilon of the printed one",
    )
    rows = [
        (
            *(str(x.table), str(x.epsilon), f"{x.ratio:g}", f"{x.printed:.3f}", f"{x.found:.4f}"),
            *(f"{x.add_remove:.3f}", f"{x.replace_one:.3f}", f"{x.epsilon_replace_one:.3f}"),
        )
        for x in found
    ]
    agreed = sum(x.agrees for x in found)
    return (
        f"{agreed} of {len(found)} printed noise multipliers are met by the paper's conventions (one row added or removed)",
        *text_table(head, rows),
        "the paper's definition replaces one row: there the printed noise costs about twice its epsilon",
    )


def draw(found: list[Line], path: Path) -> Path:
    """Left, noise against the share of public rows; right, what the printed noise costs under replace-one."""
    figure = plotting.new_figure(10.0, 4.0)
    left, right = figure.subplots(1, 2)
    for i, epsilon in enumerate(PRINTED):
        part = [x for x in found if x.epsilon == epsilon]
        ratios = [x.ratio for x in part]
        left.plot(ratios, [x.printed for x in part], "o", color=plotting.PALETTE[i], label=f"printed, ε = {epsilon}")
        left.plot(ratios, [x.found for x in part], "x", color=plotting.PALETTE[i], label="its conventions")
        left.plot(ratios, [x.replace_one for x in part], "-", color=plotting.PALETTE[i], label="replace-one")
        right.plot(ratios, [x.epsilon_replace_one for x in part], "o-", color=plotting.PALETTE[i])
        right.axhline(epsilon, color=plotting.PALETTE[i], lw=0.8, ls=":")
    left.set_yscale("log")
    left.set_ylabel("noise multiplier")
    left.legend(frameon=False, fontsize=8)
    right.set_ylim(bottom=0.0)
    right.set_ylabel("replace-one ε of the printed noise (dotted: claimed)")
    for axes in (left, right):
        axes.set_xlabel("share of public rows")
        axes.grid(alpha=0.3, lw=0.5)
    figure.suptitle("n = 30000, batches of 500, T = 5000, δ = 1e-5", fontsize=10)
    plotting.save(figure, path)
    return path
