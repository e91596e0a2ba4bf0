"""Quantiles of the usual laws, with the bits of `scipy.stats`, whose import alone takes longer than most calls."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import special

from fastpubpriv._types import FloatArray


def normal_quantile(probability: float) -> float:
    """The point of the standard normal law below which `probability` lies."""
    return float(special.ndtri(probability))


def chi2_quantile(probability: float, freedom: float) -> float:
    """The point of the chi-squared law with `freedom` degrees below which `probability` lies."""
    return float(2.0 * special.gammaincinv(freedom / 2.0, probability))


def chi2_quantiles(probabilities: Any, freedom: float) -> FloatArray:
    """`chi2_quantile` of an array of probabilities, of its shape."""
    return np.asarray(2.0 * special.gammaincinv(freedom / 2.0, probabilities))


def chi2_upper_quantile(probability: float, freedom: float) -> float:
    """The point of the chi-squared law with `freedom` degrees above which `probability` lies."""
    return float(special.chdtri(freedom, probability))


def t_quantile(probability: float, freedom: float) -> float:
    """The point of Student's law with `freedom` degrees below which `probability` lies."""
    return float(special.stdtrit(freedom, probability))


def f_quantile(probability: float, above: float, below: float) -> float:
    """The point of the F law with `above` and `below` degrees of freedom below which `probability` lies."""
    return float(special.fdtri(above, below, probability))


def beta_quantile(probability: float, first: float, second: float) -> float:
    """The point of the beta law with these two shapes below which `probability` lies."""
    return float(special.betaincinv(first, second, probability))
