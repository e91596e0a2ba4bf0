"""Faults that the sweep finds and that the rebuild of a room repairs; the room's commit empties its lines.

A line is about every call that has its arguments. One that no longer fails is itself a failure of the whole part.
"""

from __future__ import annotations

import math
from typing import NamedTuple


class Known(NamedTuple):
    """Kinds of fault of a verb, the arguments of the call by name or with their values, and the room that repairs it."""

    verb: str
    kind: str  # or several, " | " between them
    arguments: tuple[str, ...]
    room: str
    populations: tuple[str, ...] = ()  # all, if none is named
    most_rows: float = math.inf  # of a call that shows it

    @property
    def kinds(self) -> list[str]:
        """The kinds of fault."""
        return self.kind.split(" | ")

    def matches(self, verb: str, kind: str, cases: set[str], population: str, rows: int) -> bool:
        """Whether a call with these cases on so many rows of this population shows this fault."""
        same = (
            self.verb == verb
            and kind in self.kinds
            and population in (self.populations or (population,))
        )
        return (
            same
            and rows <= self.most_rows
            and all(any(is_part(argument, case) for case in cases) for argument in self.arguments)
        )


def is_part(argument: str, case: str) -> bool:
    """Whether an argument, by name or with its value, is in the text of a case, such as "by='g', groups=groups"."""
    return f", {argument}, " in f", {case}, " or f", {argument}=" in f", {case}"


LINE = "the counted line of a column"
MOMENTS = "rounds of second moments"
REGRESSION = "the regression machine"
MIXTURES = "one mixture"

KNOWN: tuple[Known, ...] = (
    # A known covariance is believed: skewed columns get no reason for what the ball clips.
    Known("estimate_mean", "coverage mean", ("variance",), LINE, ("skewed",)),
    Known("estimate_mean", "coverage mean", ("covariance",), LINE, ("skewed",)),
    Known("coinpress_mean", "coverage mean", ("variance",), LINE, ("skewed",)),
    Known("coinpress_mean", "coverage mean", ("covariance",), LINE, ("skewed",)),
    Known("estimate_mean", "far", ("covariance",), LINE, ("skewed",)),
    Known("estimate_mean", "coverage mean", ("steps", "x_pub=shifted(p)"), LINE),
    # One or two public rows say nothing about the unit variance that is assumed.
    Known("estimate_mean", "coverage mean", ("clipping='gaussian'", "x_pub=p.head(1)"), LINE),
    Known("estimate_mean", "far", ("clipping='gaussian'", "x_pub=p.head(1)"), LINE),
    Known("estimate_mean", "coverage mean", ("clipping='gaussian'", "x_pub=p.head(2)"), LINE),
    Known("estimate_mean", "far", ("clipping='gaussian'", "x_pub=p.head(2)"), LINE),
    # The prediction is that of Gaussian columns, and small eigenvalues that were not reached say nothing.
    Known("coinpress_covariance", "coverage covariance", (), MOMENTS, ("skewed",)),
    Known("coinpress_covariance", "far", (), MOMENTS, ("skewed",)),
    Known("coinpress_covariance", "far", ("mode='theory'",), MOMENTS, ("light",)),
    Known("coinpress_covariance", "coverage covariance | far", ("person",), MOMENTS, ("light",)),
    # Few public rows that the structure is taken from outweigh the private ones.
    Known("estimate_gaussian", "far", ("x_pub=p.head(2)",), MOMENTS, ("skewed",), 2_000),
    # Clipped gradients of 400 private rows and those of public rows cancel each other: nothing that is released is beyond noise.
    *(
        Known(verb, "prediction", ("x_pub=shifted(p)",), REGRESSION, most_rows=400)
        for verb in ("train poisson", "train logistic")
    ),
    # Components that stand for several, or that are never ok.
    Known("no_public_baseline", "far", (), MIXTURES),
    Known("no_public_baseline", "coverage component", (), MIXTURES),
    Known("learn_separated_mixture", "coverage component", ("mode='theory'",), MIXTURES),
    Known("learn_separated_mixture", "far", ("mode='theory'",), MIXTURES),
    Known("learn_axis_aligned_mixture", "never ok component", (), MIXTURES),
    Known("learn_axis_aligned_mixture", "far", ("x_pub=p.head(5)",), MIXTURES),
)
