"""Released mixtures of Gaussians, learned by any method or selected from a list."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import logsumexp, ndtri

from fastpubpriv import validation
from fastpubpriv._types import FloatArray, IntArray
from fastpubpriv.results import mixture_plots
from fastpubpriv.results.base import Result
from fastpubpriv.results.fields import array, column, declared, value_class
from fastpubpriv.results.gaussians import drawn_box, factor_of, log_density, positive_definite
from fastpubpriv.results.public_draws import draw_uniforms
from fastpubpriv.results.reasons import Reason
from fastpubpriv.results.result_tables import Facts
from fastpubpriv.sources.column_names import points

STRUCTURES = ("full", "diagonal", "mean", "public")
ROUNDING = 1e-9  # relative difference of values below which it is rounding error


@value_class
class Mixture(Result):
    """Base class of results that hold a mixture of Gaussians; see `MixtureResult` for the fields."""

    weights: FloatArray = array(
        "components", label="weight", error="_weight_error", unit="share of the rows"
    )
    means: FloatArray = array(
        "components",
        "dim",
        label="mean ",
        error="_mean_scale",
        spread=("std ", "_spreads"),
        after_reasons=True,
    )
    covariances: FloatArray = array("components", "dim", "dim")

    _main = _parted = "weights"
    _gaps = "; one with a missing cell belongs to no component"
    _line_axes = ("components",)

    @property
    def n_components(self) -> int:
        """Number of components found; it may be smaller than requested."""
        return len(self.weights)

    @property
    def variances(self) -> FloatArray:
        """Variances of the coordinates in each component, (n_components, dim)."""
        return np.ascontiguousarray(np.diagonal(self.covariances, axis1=1, axis2=2))

    def _joint_log_prob(self, rows: Any) -> FloatArray:
        array = np.atleast_2d(points(rows, self.dim, self.columns, finite=True))
        joint = np.empty((len(array), self.n_components))
        for index, covariance in enumerate(self.covariances):
            half, constant = log_density(array, self.means[index], factor_of(covariance))
            joint[:, index] = math.log(self.weights[index]) - half - constant
        return joint

    def log_prob(self, rows: Any) -> FloatArray:
        """Log density of the mixture at finite rows (n, dim), (n,). Columns of a frame are matched by name."""
        return np.asarray(logsumexp(self._joint_log_prob(rows), axis=1))

    def predict_proba(self, rows: Any) -> FloatArray:
        """Posterior probability of each component at finite rows (n, dim), (n, n_components)."""
        joint = self._joint_log_prob(rows)
        return np.asarray(np.exp(joint - logsumexp(joint, axis=1, keepdims=True)))

    def predict(self, rows: Any) -> IntArray:
        """Most likely component of each finite row, (n,). Labels of private rows stay private data."""
        return np.asarray(np.argmax(self._joint_log_prob(rows), axis=1))

    def sample(self, n: int, *, random_state: Any = None) -> FloatArray:
        """Draw n synthetic rows (n, dim); post-processing. `random_state` is None, an int or a NumPy generator."""
        # One block of uniforms for components and coordinates: two blocks drawn from the same seed would be dependent.
        uniform = draw_uniforms((n, self.dim + 1), random_state=random_state)
        ends = np.cumsum(self.weights)[:-1] / self.weights.sum()
        labels: IntArray = np.searchsorted(ends, uniform[:, 0], side="right").astype(np.int64)
        normals = ndtri(np.maximum(uniform[:, 1:], np.finfo(np.float64).tiny))
        rows = np.empty((n, self.dim))
        for index, covariance in enumerate(self.covariances):
            mine = labels == index
            rows[mine] = self.means[index] + normals[mine] @ factor_of(covariance).T
        return rows

    def _fits_together(self) -> bool:
        whole = bool(np.all(self.weights > 0.0)) and abs(self.weights.sum() - 1.0) < 1e-6
        return whole and positive_definite(self.covariances)

    def _axis(self, axis: str) -> tuple[str, Sequence[Any]]:
        if axis == "components":
            return "component", range(self.n_components)
        return super()._axis(axis)

    @property
    def _weight_error(self) -> FloatArray:
        """Standard error of each weight from sampling, (n_components,)."""
        rows = max(1, self.n_priv + self.n_pub)
        return np.sqrt(self.weights * (1.0 - self.weights) / rows)

    @property
    def _spreads(self) -> FloatArray:
        return np.sqrt(self.variances)

    @property
    def _mean_scale(self) -> FloatArray:
        # The width of a component on one repeated value is rounding error, and gives no digits.
        wide = self._spreads > ROUNDING * np.abs(self.means)
        return np.where(wide, self._spreads / 10.0, 0.0)


@value_class
class MixtureResult(Mixture):
    """A released mixture of Gaussians in data units.

    A part is a component. "clipped": its mean was biased by the clipping ball around its public rows, or lay outside `bounds`.
    "shifted": its mean is farther from theirs than chance explains. "fallback": it has too few rows and was replaced by a public
    summary, or a stage found nothing and was replaced by a coarser estimate. "unresolved": noise hides its mean, or its covariance
    in some direction. "wide": a closed form predicts a total variation error above 0.1 from noise and few rows. "few_public_rows":
    it has a single public row, or all are equal in some column, so that the spread of other components is used.
    "ties": it represents values that many rows share, or is so narrow that it may. "shortlist": only the heaviest of too many
    candidates were compared. A noisy count says how far the rows are from the estimate, and grades it by the lower end of
    `fit_interval`. Above .02: "rough_fit", or "not_gaussian" if they differ mostly in the shells around the component's mean; means
    and weights then hold as a summary. Above .15: "poor_fit". "few_rows": the count is uninformative, or fewer components than
    requested were found and it does not exclude another one (an upper end above .1).

    Attributes
    ----------
    weights : (n_components,) float64
        Positive, sum 1.
    means : (n_components, dim) float64
    covariances : (n_components, dim, dim) float64
        Positive definite; diagonal for an axis-aligned mixture.
    structure : tuple of str
        Privately estimated parameters of each component: "full", all; "diagonal", variances along the axes of the public covariance
        (the columns for an axis-aligned mixture); "mean", with a public or known covariance; "public", only the weight.
    method : str
        The algorithm that ran.
    tree : ClusterTree or None
        The tree that assigns rows to components, if the algorithm clustered.
    fit_distance : float or None
        Total variation between the rows and the mixture, beyond what noise and chance explain, as far as the cells of a noisy count
        show it (`diagnostics["fit_cells"]` of them): a share of the rows, and a lower bound on the whole. It does not say whether
        components are the classes that a user may know: those need not be Gaussian. None if nothing was counted.
    fit_interval : (float, float) or None
        Ends between which that total variation lies, at about 95 %.
    diagnostics : mapping
        Released or public numbers about the run.

    Examples
    --------
    >>> import numpy as np
    >>> import fastpubpriv as fpp
    >>> rng = np.random.default_rng(0)
    >>> rows = np.where(rng.random(60_000) < 0.3, rng.normal(-50.0, 1.0, 60_000), rng.normal(20.0, 2.0, 60_000))
    >>> budget = fpp.ApproxDP(epsilon=2, delta=1e-6)
    >>> result = fpp.learn_axis_aligned_mixture(rows, n_components=2, budget=budget)
    >>> sorted(result.means.round(-1).ravel().tolist()), bool(abs(min(result.weights) - 0.3) < 0.05)
    ([-50.0, 20.0], True)
    """

    structure: tuple[str, ...] = declared("components", label="structure")
    method: str
    tree: Any = None
    fit_distance: float | None = None
    fit_interval: tuple[float, float] | None = None
    diagnostics: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def plot(
        self,
        path: str | Path | None = None,
        *,
        level: float = 0.95,
        x_pub: Any = None,
        bounds: Any = None,
        ax: Any = None,
    ) -> Any:
        """Draw the density (one column), or ellipses, released balls and the public rows `x_pub` in a plane; returns the figure.

        Needs matplotlib. `level` is the probability of an ellipse under its component. `bounds`, a pair (lowest, highest) of
        numbers or vectors, restricts the plot of one or two columns to their range; by default those of the call.
        `ax` are axes of matplotlib to draw into, in place of a figure of their own.
        """
        level = validation.confidence_level(level)
        rows = None if x_pub is None else self._public(x_pub)
        words = [
            f" ({', '.join(own).replace('_', ' ')})" if own else "" for own in self.part_reasons
        ]
        names = [
            f"{i}: {weight:.1%}{word}"
            for i, (weight, word) in enumerate(zip(self.weights, words, strict=True))
        ]
        balls = self.diagnostics.get("balls", ())
        box = drawn_box(None, {}, 2)  # a plane through more columns has no range of one
        if self.dim <= 2:
            box = drawn_box(bounds, self.diagnostics, self.dim)
        return mixture_plots.plot_mixture(
            self, names, path=path, ax=ax, level=level, points=rows, balls=balls, box=box
        )

    def _fits_together(self) -> bool:
        known = len(self.structure) == len(self.weights) and {*self.structure} <= {*STRUCTURES}
        return known and self._fit_is_whole() and super()._fits_together()

    def _fit_is_whole(self) -> bool:
        """Whether distance and interval of the fit are both there, in order, or both missing."""
        if self.fit_distance is None or self.fit_interval is None:
            return self.fit_distance is None and self.fit_interval is None
        if len(self.fit_interval) != 2:
            return False
        lower, upper = self.fit_interval
        return 0.0 <= lower <= self.fit_distance <= upper <= 1.0

    @property
    def _asked(self) -> int:
        """Number of components that were requested."""
        asked = self.diagnostics.get("n_components_asked")
        return asked if isinstance(asked, int) else self.n_components

    @property
    def _fit_text(self) -> str:
        """By how many of the rows the mixture differs from them; "" if nothing was counted."""
        if self.fit_interval is None:
            return ""
        lower, upper = self.fit_interval
        return f"differs from the rows by about {lower:.2g} to {upper:.2g} of them"

    @property
    def _causes(self) -> Mapping[Reason, str]:
        causes = {}
        if self._fit_text:
            graded = (Reason.POOR_FIT, Reason.ROUGH_FIT, Reason.NOT_GAUSSIAN, Reason.FEW_ROWS)
            causes = dict.fromkeys(graded, f"the mixture {self._fit_text}")
        if self.n_components < self._asked:
            count = f"{self.n_components} of {self._asked} components were found"
            for reason in (Reason.UNRESOLVED, Reason.FEW_ROWS):
                causes[reason] = "; ".join(filter(None, [count, causes.get(reason)]))
        return causes

    @property
    @column("differs", error="_differs_scale", unit="share of the rows")
    def _differs(self) -> FloatArray | None:
        distances = self.diagnostics.get("fit_distances", ())
        return np.array(distances) if len(distances) == self.n_components else None

    _differs_scale = 0.1

    def _facts(self, level: float) -> Facts:
        method = self.method.replace("_", " ")
        facts = [("Found", f"{self.n_components} of {self._asked} components, by {method}")]
        if self._fit_text:
            cells = self.diagnostics.get("fit_cells", 0)
            unexplained = self.diagnostics.get("unexplained", 0.0)
            far = f"{unexplained:.2%} of the rows lie far from every component"
            facts.append(("Fit", f"{self._fit_text} ({cells} cells); {far}"))
        if borrowed := self.diagnostics.get("fallback_columns", ()):
            facts.append(("Scale borrowed by", ", ".join(borrowed)))
        return facts


@value_class
class SelectionResult(Mixture):
    """The mixture selected from a public list; "fallback" if the list has no usable hypothesis.

    Attributes
    ----------
    index : int or None
        Index in the given list; None for the fallback.
    weights, means, covariances : (k,), (k, dim), (k, dim, dim) float64
        The mixture itself, without components of weight 0.
    candidates, left_out : int
        Numbers of usable hypotheses, and of those with non-finite parameters or non-positive variances. One costs nothing.
    score, method, law : str
        The score that was compared, its method of evaluation, and the selection mechanism.
    epsilon : float
        Epsilon of the selection; 0 if nothing was spent.
    slack : float
        With probability 1 - failure_prob, the total variation distance to the law of the rows is at most 3 times that of the best
        hypothesis plus this. It includes the errors of sampling and selection, but not of cells or public draws. Infinite for log
        ratios, for which no such bound holds.

    Examples
    --------
    >>> import numpy as np
    >>> import fastpubpriv as fpp
    >>> rows = np.random.default_rng(0).normal(3.0, 1.0, size=(5_000, 1))
    >>> listed = (np.ones((3, 1)), np.array([0.0, 3.0, 9.0]).reshape(3, 1, 1), np.ones((3, 1, 1)))
    >>> result = fpp.select_hypothesis(rows, hypotheses=listed, budget=fpp.PureDP(epsilon=1))
    >>> result.means.tolist(), result.spent
    ([[3.0]], PureDP(epsilon=1.0))
    """

    index: int | None
    candidates: int
    left_out: int
    score: str
    method: str
    law: str
    epsilon: float
    slack: float

    _gaps = "; those with a missing cell fit no hypothesis, and if many they may decide"

    @property
    def mixture(self) -> MixtureResult:
        """The chosen mixture as a MixtureResult: densities, labels and samples."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(Result)}
        return MixtureResult(
            weights=self.weights,
            means=self.means,
            covariances=self.covariances,
            structure=("public",) * len(self.weights),
            method="hypothesis selection",
            **fields,
        )

    def _facts(self, level: float) -> Facts:
        place = "the fallback" if self.index is None else f"number {self.index}"
        chosen = f"{place} of {self.candidates} usable hypotheses, by {self.score} and {self.law}"
        beyond = "beyond 3 times the distance of the best hypothesis"
        return [
            ("Chosen", chosen),
            ("Slack", f"{self.slack:.4g} in total variation, {beyond}"),
        ]
