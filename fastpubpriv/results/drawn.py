"""Results that draw their declared numbers: a line for each, with labels, units and legend as the fields declare them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fastpubpriv import validation
from fastpubpriv.results import plots
from fastpubpriv.results.base import LEVEL, Result
from fastpubpriv.results.fields import Declaration

if TYPE_CHECKING:
    from fastpubpriv.results.plots import Estimate


class Drawn(Result):
    """Base class of results whose declared numbers are drawn with their intervals."""

    __slots__ = ()

    def plot(
        self,
        path: str | Path | None = None,
        *,
        level: float = LEVEL,
        x_pub: Any = None,
        ax: Any = None,
    ) -> Any:
        """Draw the estimates with their intervals, a line for each (needs matplotlib); returns the figure.

        Each column, and each group of quantiles, has an axis of its own if a common one is not legible, or if units differ. Below
        each mean or quantile, if there are no groups, stands that of the public rows `x_pub`, if they are given: a mean with its
        Student interval. Other results ignore `x_pub`.
        `ax` are axes of matplotlib to draw into, in place of a figure of their own.
        """
        level = validation.confidence_level(level)
        public = self._public_estimates(x_pub, level)
        return plots.plot_lines(self, level, public, path=path, ax=ax)

    def _public_estimates(self, x_pub: Any, level: float) -> list[Estimate]:
        """Return the same estimates of public rows, for a plot."""
        return []

    def _drawn_places(self) -> list[int]:
        """Return the places of the lines that plots show, in order."""
        places: list[int] = np.flatnonzero(~self._left_out).tolist()
        return places

    def _axis_label(self, declaration: Declaration) -> str:
        """Return the label of the axis of declared numbers: what they are, their unit, and by which columns."""
        by = getattr(self, "by", ())
        parts = [declaration.label, declaration.in_units, f"by {', '.join(by)}" if by else ""]
        return " ".join(filter(None, parts))
