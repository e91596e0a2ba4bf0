"""The mixture that was chosen from a public list."""

from __future__ import annotations

import dataclasses

from fastpubpriv.results.base import Result
from fastpubpriv.results.mixture import Mixture, MixtureResult


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class SelectionResult(Mixture):
    """The mixture chosen from a public list.

    Attributes
    ----------
    index : int or None
        Its position in the list as it was given; None for the fallback.
    weights, means, covariances : (k,), (k, dim), (k, dim, dim) float64
        The mixture itself, without components of weight 0.
    status : str
        "ok"; "only one" when one usable hypothesis was left and nothing was spent; "fallback" when none was.
    candidates, left_out : int
        Hypotheses chosen from, and those without finite parameters and positive variances.
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
    status: str
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
            status=self._status_of_components(),
            method="hypothesis selection",
            **fields,
        )

    def _status_of_components(self) -> tuple[str, ...]:
        return (self.status,) * len(self.weights)

    def _details(self) -> list[tuple[str, str]]:
        place = "the fallback" if self.index is None else f"number {self.index}"
        return [
            ("Chosen", f"{place} of {self.candidates} usable hypotheses, by {self.score} and {self.law}"),
            ("Status", self.status),
            ("Slack", f"{self.slack:.4g} in total variation, beyond 3 times the distance of the best hypothesis"),
        ]
