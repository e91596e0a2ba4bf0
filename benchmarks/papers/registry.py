"""The experiments by name; their modules are imported when they run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What an experiment wrote.

    Attributes
    ----------
    name : str
        Name of the experiment.
    lines : tuple of str
        Summary, ready to print in a fixed-width font.
    csv, png : Path
        The files written.
    seconds : float
        Wall time of the run, files included.
    """

    name: str
    lines: tuple[str, ...]
    csv: Path
    png: Path
    seconds: float


class Runner(Protocol):
    """What `Experiment.run` looks like."""

    def __call__(
        self,
        out: Path,
        *,
        runs: int | None = None,
        threads: int | None = None,
        progress: bool | None = None,
        quick: bool = False,
        cells: Sequence[tuple[float, float]] = (),
    ) -> Report:
        """Write the CSV and the PNG into `out`, which is made if it is not there.

        `runs` None is the number that the published figure (or our acceptance band) asks for. `threads` (None: all cores) and
        `progress` (None: on a terminal) never change a number. `quick`, for experiments that have it, is a smaller problem;
        `cells` are (share of public rows, epsilon) of a table, all where there are none.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """One reproduction.

    Attributes
    ----------
    name : str
        As in `fastpubpriv reproduce NAME`.
    summary : str
        One line on what it shows.
    source : str
        Paper and figure.
    run : callable
        `run(out, *, runs=None, threads=None, progress=None, quick=False)` returns a `Report`.
    quick : bool
        Whether there is a smaller problem that takes seconds where the published one takes long.
    cells : bool
        Whether single cells of its table can be made.
    """

    name: str
    summary: str
    source: str
    run: Runner
    quick: bool = False
    cells: bool = False


def _later(module: str) -> Runner:
    def run(
        out: Path,
        *,
        runs: int | None = None,
        threads: int | None = None,
        progress: bool | None = None,
        quick: bool = False,
        cells: Sequence[tuple[float, float]] = (),
    ) -> Report:
        function: Callable[..., Report] = import_module(f"fastpubpriv.experiments.{module}").run
        part: dict[str, Any] = ({"quick": True} if quick else {}) | ({"cells": cells} if cells else {})
        return function(out, runs=runs, threads=threads, progress=progress, **part)

    return run


_ALL = (
    Experiment(
        name="a-figure-1",
        summary="Mean of a Gaussian: one public row against CoinPress with bounds that are 10, 100 and 1000 wide",
        source="Bie, Kamath, Singhal, Private Estimation with Public Data (2022), Figure 1",
        run=_later("figure_one_public_row"),
    ),
    Experiment(
        name="b-beyond",
        summary="The same regression by whitened Newton steps: an honest epsilon, nothing tuned, beside Table 5 and AdaSSP",
        source="Lowy, Li, Huang, Razaviyayn, Optimal DP Model Training with Public Data (2024), Table 5",
        run=_later("newton_beyond"),
        quick=True,
        cells=True,
    ),
    Experiment(
        name="b-figure-6",
        summary="Linear regression at a tiny epsilon: DP-SGD runs away, Algorithm 1 with some public rows does not",
        source="Lowy, Li, Huang, Razaviyayn, Optimal DP Model Training with Public Data (2024), Figure 6",
        run=_later("figure_divergence"),
    ),
    Experiment(
        name="b-figures-15-18",
        summary="Logistic regression by noisy gradients on flights, by public share and epsilon, against DP-SGD and throw-away",
        source="Lowy, Li, Huang, Razaviyayn, Optimal DP Model Training with Public Data (2024), Figures 15 to 18, on other data",
        run=_later("logistic_figures"),
        quick=True,
    ),
    Experiment(
        name="b-figures-12-14",
        summary="Mean of Bernoulli rows: the weighted estimator against throw-away and Gaussian-on-all, by public share",
        source="Lowy, Li, Huang, Razaviyayn, Optimal DP Model Training with Public Data (2024), Figures 12 to 14",
        run=_later("figure_public_ratio"),
    ),
    Experiment(
        name="b-local",
        summary="The local model: PrivUnit, PrivUnitG and Duchi by dimension and epsilon; semi-local means by public share",
        source="Lowy, Li, Huang, Razaviyayn, Optimal DP Model Training with Public Data (2024), section 3 and Appendix F",
        run=_later("local_means"),
    ),
    Experiment(
        name="b-proposition-8",
        summary="The worked example of the weighted mean: 1.98 times less squared error than both baselines",
        source="Lowy, Li, Huang, Razaviyayn, Optimal DP Model Training with Public Data (2024), after Proposition 8",
        run=_later("example_weighted_mean"),
    ),
    Experiment(
        name="b-tables-5-10",
        summary="Linear regression by noisy gradients: Algorithm 1, mirror descent, DP-SGD and throw-away on the full grids",
        source="Lowy, Li, Huang, Razaviyayn, Optimal DP Model Training with Public Data (2024), Tables 5 to 10",
        run=_later("gradient_tables"),
        quick=True,
    ),
    Experiment(
        name="b-tables-11-12",
        summary="Noise of sampled gradient steps: the printed multipliers, and what replace-one really needs",
        source="Lowy, Li, Huang, Razaviyayn, Optimal DP Model Training with Public Data (2024), Tables 11 and 12",
        run=_later("noise_tables"),
    ),
    Experiment(
        name="c-univariate",
        summary="Mixtures on the line with no range given: total variation against rows, epsilon and components",
        source="Aden-Ali, Ashtiani, Liaw, Privately Learning Mixtures of Axis-Aligned Gaussians (2021), made practical",
        run=_later("univariate_mixtures"),
    ),
    Experiment(
        name="c-public",
        summary="Mixtures with a few public rows: the public list with pure epsilon, and EM continued on private rows",
        source="Aden-Ali, Ashtiani, Liaw, Privately Learning Mixtures of Axis-Aligned Gaussians (2021), with public rows",
        run=_later("public_mixtures"),
    ),
    Experiment(
        name="coinpress-covariance",
        summary="Covariance without public rows: error by number of rounds, and the published code's order of matrices",
        source="Biswas, Dong, Kamath, Ullman, CoinPress: Practical Private Mean and Covariance Estimation (2020)",
        run=_later("coinpress_covariance"),
    ),
)

EXPERIMENTS: dict[str, Experiment] = {each.name: each for each in sorted(_ALL, key=lambda each: each.name)}
