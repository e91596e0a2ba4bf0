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


REGRESSION = "the regression machine"
BALL = "the ball about public rows"
COVARIANCE = "the rounds of second moments"

KNOWN: tuple[Known, ...] = (
    # The noise of 400 private rows hides the shift: of 72 such fits 5 are worse than a constant and "ok", without noise none.
    # Rules on the released slopes that name all of them name .4 to .97 of the fits to unshifted rows as well.
    *(
        Known(verb, "prediction", ("x_pub=shifted(p)",), REGRESSION, most_rows=400)
        for verb in ("train poisson", "train logistic")
    ),
    # The unit of clipping is the deviation of 60 public rows, which is .61 of the true one where the interval misses: a column
    # of kurtosis 195. With the population's covariance in place of "public" 0 of 42 ok intervals miss, without the bound by norms
    # of public rows 17 of 48, where 19 miss with it.
    Known("estimate_mean", "coverage mean", ("covariance='public'",), BALL, ("skewed",)),
    # The error is 2.4 to 6.9 predicted ones. A single round clips once; that nothing then shows the shape of the rows is a guess.
    # What `shape_loss` allows exceeds the prediction in some draws only; those that are "ok" are the ones with larger errors.
    Known(
        "coinpress_covariance",
        "coverage covariance",
        ("columns=columns[:1]", "steps=1"),
        COVARIANCE,
        ("skewed",),
        most_rows=2_000,
    ),
)
