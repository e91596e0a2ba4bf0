"""A released mixture of Gaussians, whichever method made it or chose it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import logsumexp, ndtri

from fastpubpriv import validation
from fastpubpriv._types import FloatArray, IntArray
from fastpubpriv.column_names import points
from fastpubpriv.errors import InputError
from fastpubpriv.public_draws import draw_uniforms
from fastpubpriv.results import plots
from fastpubpriv.results.base import Result, Table, TableColumn, shape, with_reasons
from fastpubpriv.results.gaussians import factor_of, log_density, public_bounds, refuse_no_covariances

STRUCTURES = ("full", "diagonal", "mean", "public")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Mixture(Result):
    """What every result that holds a mixture of Gaussians can do; see `MixtureResult` for its fields."""

    weights: FloatArray = dataclasses.field(metadata=shape("components"))
    means: FloatArray = dataclasses.field(metadata=shape("components", "dim"))
    covariances: FloatArray = dataclasses.field(metadata=shape("components", "dim", "dim"))

    @property
    def n_components(self) -> int:
        """Number of components found; may be fewer than asked for."""
        return len(self.weights)

    @property
    def variances(self) -> FloatArray:
        """Variances of the coordinates within each component, (n_components, dim)."""
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
        return logsumexp(self._joint_log_prob(rows), axis=1)

    def predict_proba(self, rows: Any) -> FloatArray:
        """Posterior probability of each component at finite rows (n, dim), (n, n_components)."""
        joint = self._joint_log_prob(rows)
        return np.exp(joint - logsumexp(joint, axis=1, keepdims=True))

    def predict(self, rows: Any) -> IntArray:
        """Most likely component of each finite row, (n,). Labels of private rows stay private data."""
        return np.argmax(self._joint_log_prob(rows), axis=1)

    def sample(self, n: int, *, random_state: Any = None) -> FloatArray:
        """Draw n synthetic rows (n, dim); post-processing. `random_state` is None, an int or a NumPy generator."""
        return self.labeled_sample(n, random_state=random_state)[0]

    def labeled_sample(self, n: int, *, random_state: Any = None) -> tuple[FloatArray, IntArray]:
        """The rows of `sample` (n, dim), and the component that each was drawn from, (n,)."""
        # One block of uniforms for labels and coordinates: with one seed for each, the two would depend on each other.
        uniform = draw_uniforms((n, self.dim + 1), random_state=random_state)
        ends = np.cumsum(self.weights)[:-1] / self.weights.sum()
        labels: IntArray = np.searchsorted(ends, uniform[:, 0], side="right").astype(np.int64)
        normals = ndtri(np.maximum(uniform[:, 1:], np.finfo(np.float64).tiny))
        rows = np.empty((n, self.dim))
        for index, covariance in enumerate(self.covariances):
            mine = labels == index
            rows[mine] = self.means[index] + normals[mine] @ factor_of(covariance).T
        return rows, labels

    def _refuse_nonsense(self) -> None:
        weights = self.weights
        whole = np.all(weights > 0.0) and abs(weights.sum() - 1.0) < 1e-6
        if not whole or len(self.part_reasons) != len(weights):
            raise InputError(
                f"this JSON text is not a {type(self).__name__}: its weights must be above 0, of sum 1, each with its reasons"
            )
        refuse_no_covariances(self.covariances)

    def _estimate(self) -> tuple[str, Any]:
        return "weights", self.weights

    def _table(self) -> Table:
        spreads = np.sqrt(self.variances)
        numbers = [
            TableColumn(f"mean {name}", self.means[:, j], spreads[:, j] / 10.0, (f"std {name}", spreads[:, j]))
            for j, name in enumerate(self.labels)
        ]
        sampling = np.sqrt(self.weights * (1.0 - self.weights) / max(1, self.n_priv + self.n_pub))
        heads = [TableColumn("weight", self.weights, sampling), *with_reasons(self.part_reasons)]
        return Table("component", range(self.n_components), [*heads, *numbers])


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class MixtureResult(Mixture):
    """A released mixture of Gaussians in data units.

    A part is a component. "clipped": its mean was held back by the ball around its public rows, or lay outside `bounds`. "shifted":
    its mean lies farther from theirs than chance explains. "fallback": too few rows, and a public summary stands in, or a stage
    found nothing and a coarser answer does. "unresolved": noise leaves its mean open, or hides its covariance in some direction.
    "wide": by a closed form, noise and few rows leave it off by a total variation above 0.1. "few_public_rows": it has a single
    one, or all are equal in some column, so that the spread of others stands in.
    "ties": it stands for values that many rows share, or is so narrow that it may. "shortlist": the choice was among the heaviest
    of more candidates than can be compared. A noisy count of the fit finds "poor_fit"; "not_gaussian", where rows and answer differ
    mostly by the shells around the component's mean; and "few_rows" where the count could say nothing.

    Attributes
    ----------
    weights : (n_components,) float64
        Positive, sum 1.
    means : (n_components, dim) float64
    covariances : (n_components, dim, dim) float64
        Positive definite; diagonal for an axis-aligned mixture.
    structure : tuple of str
        What of each component is private: "full"; "diagonal", variances along the axes of the public covariance, or of the columns
        for an axis-aligned mixture; "mean" with a public or known covariance; "public", nothing but its weight.
    method : str
        The algorithm that ran.
    tree : ClusterTree or None
        How rows are routed to components, where the algorithm clustered.
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

    structure: tuple[str, ...]
    method: str
    tree: Any = None
    diagnostics: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def plot(
        self, path: str | Path | None = None, *, level: float = 0.95, x_pub: Any = None, bounds: Any = None
    ) -> Any:
        """Draw the density (one column), or ellipses, released balls and the public rows `x_pub` in a plane; returns the figure.

        Needs matplotlib. `level` is the share of a component that its ellipse holds. `bounds`, a pair (lowest, highest) of
        numbers or vectors, cuts the picture of one or two columns to what they can hold; by default those of the call.
        """
        level = validation.confidence_level(level)
        rows = None if x_pub is None else self._public(x_pub)
        words = [f" ({', '.join(own).replace('_', ' ')})" if own else "" for own in self.part_reasons]
        names = [f"{i}: {weight:.1%}{word}" for i, (weight, word) in enumerate(zip(self.weights, words, strict=True))]
        balls = self.diagnostics.get("balls", ())
        bounds = public_bounds(self.diagnostics) if bounds is None else bounds
        return plots.plot_mixture(self, names, path=path, level=level, points=rows, balls=balls, bounds=bounds)

    def _refuse_nonsense(self) -> None:
        super(MixtureResult, self)._refuse_nonsense()
        if len(self.structure) != len(self.weights) or not {*self.structure} <= {*STRUCTURES}:
            raise InputError("this JSON text is not a MixtureResult: it needs a known structure for each component")

    def _table(self) -> Table:
        table = super(MixtureResult, self)._table()
        weight, *others = table.columns
        return dataclasses.replace(table, columns=[weight, TableColumn("structure", self.structure), *others])

    def _details(self) -> list[tuple[str, str]]:
        asked = self.diagnostics.get("n_components_asked", self.n_components)
        components = f"{self.n_components} of {asked} components, by {self.method.replace('_', ' ')}"
        details = [("Found", components)]
        if (gap := self.diagnostics.get("fit_gap")) is not None:
            null, unexplained = self.diagnostics["fit_null"], self.diagnostics["unexplained"]
            fit = f"total variation from the rows at least about {max(gap - null, 0.0):.3g} (chance alone: {null:.3g})"
            details.append(("Fit", f"{fit}; {unexplained:.2%} of the rows lie far from every component"))
        borrowed = self.diagnostics.get("fallback_columns", ())
        return [*details, ("Scale borrowed by", ", ".join(borrowed))] if borrowed else details


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class SelectionResult(Mixture):
    """The mixture chosen from a public list; "fallback" where no hypothesis of it was usable.

    Attributes
    ----------
    index : int or None
        Its position in the list as it was given; None for the fallback.
    weights, means, covariances : (k,), (k, dim), (k, dim, dim) float64
        The mixture itself, without components of weight 0.
    candidates, left_out : int
        Hypotheses chosen from, and those without finite parameters and positive variances. Of a single one nothing is spent.
    score, method, law : str
        What was compared, how it was evaluated, and how the choice was made.
    epsilon : float
        At which the choice was made; 0 when nothing was spent.
    slack : float
        With probability 1 - failure_prob the total variation from the law of the rows is at most 3 times that of the best
        hypothesis plus this. Sampling and choice are in it; what cells or public draws lose is not. Infinite for log ratios, which
        come with no such bound.

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

    def _details(self) -> list[tuple[str, str]]:
        place = "the fallback" if self.index is None else f"number {self.index}"
        return [
            ("Chosen", f"{place} of {self.candidates} usable hypotheses, by {self.score} and {self.law}"),
            ("Slack", f"{self.slack:.4g} in total variation, beyond 3 times the distance of the best hypothesis"),
        ]
