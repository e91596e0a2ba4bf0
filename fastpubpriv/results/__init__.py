"""Frozen results."""

from typing import TYPE_CHECKING

from fastpubpriv.results.reasons import Reason
from fastpubpriv.sources.lazy_modules import LazyModule

if TYPE_CHECKING:
    from fastpubpriv.results import plots as plots
else:
    plots = LazyModule("fastpubpriv.results.plots")  # few calls draw

__all__ = ["Reason"]
