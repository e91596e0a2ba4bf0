"""What a mixture can be where the caller says what the columns can hold: post-processing of a released mixture."""

from __future__ import annotations

from dataclasses import replace

from fastpubpriv.estimators.bounded import Box, within
from fastpubpriv.results.base import frozen
from fastpubpriv.results.mixture import MixtureResult


def bounded(result: MixtureResult, box: Box | None, *, known_covariance: bool = False) -> MixtureResult:
    """The mixture with its means inside the bounds, (dim,) each, and no component wider than its mean and the bounds allow.

    A component whose mean lay more than one of its deviations outside says "clipped".
    """
    if box is None:
        return result
    found = within(result.means, result.covariances, box, known_covariance=known_covariance)
    return replace(
        result,
        means=frozen(found.means),
        covariances=frozen(found.covariances),
        status=found.status(result.status),
        diagnostics={**result.diagnostics, "bounds": found.told, "outside_bounds": found.outside.tolist()},
    )
