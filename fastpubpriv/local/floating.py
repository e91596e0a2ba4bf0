"""What floating point may add to the epsilon of a report: bounds that are taken off before the report is drawn.

Derived in `mechanisms/notes/local_reports.md`; u = 2^-53 is the rounding of one operation.
"""

from __future__ import annotations

import math

from fastpubpriv.local.parameters import Cap, log_rest

_UNIT = 2.0**-53
_CUT = 17.0  # the length of d normals is below sqrt(d) + 17 but for a mass of 2^-200
_OTHER = 2.0**-40  # acceptance tests and coins, each a factor 1 +- a few u


def direct_error(dim: int, log2_grid: int, cap: Cap, *, gaussian: bool) -> float:
    """Bound on what rounding adds to epsilon when reports are vectors on a grid."""
    if dim == 1 and not gaussian:
        return _OTHER
    # |computed - exact| in l2, in units of u times the length of the report.
    units = 200.0 if gaussian else 1300.0 if dim < 16 else 600.0
    length = math.sqrt(dim) + _CUT + (cap.threshold if gaussian else 0.0)
    moved = units * _UNIT * math.sqrt(dim) * math.ldexp(length, log2_grid)
    return 4.5 * moved + 64.0 * dim * _UNIT + _OTHER


def seed_error(dim: int, cap: Cap, *, gaussian: bool) -> float:
    """Bound on what the computed test of a seed adds to epsilon: the mass that it accepts depends a little on the row."""
    ratio = math.exp(-(cap.logit + log_rest(cap.log_mass) - cap.log_mass))
    mass = math.exp(cap.log_mass)
    accepted = mass + (1.0 - mass) * ratio
    error = (2.0 * dim + 64.0) * _UNIT + 2.0**-39
    if gaussian:
        error *= 2.0 * math.sqrt(dim) + cap.threshold + _CUT
        density = 0.4
    else:
        density = max(math.sqrt(dim / (2.0 * math.pi)), _density(dim, cap.threshold))
    return 2.0 * (1.0 - ratio) * error * density / accepted + _OTHER


def _density(dim: int, threshold: float) -> float:
    """Density of one coordinate of a uniform unit vector."""
    if dim == 1:
        return 0.0
    alpha = 0.5 * (dim - 1)
    log_beta = 0.5 * math.log(math.pi) + math.lgamma(alpha) - math.lgamma(alpha + 0.5)
    return math.exp((alpha - 1.0) * math.log1p(-threshold * threshold) - log_beta)


def expected_proposals(cap: Cap) -> float:
    """1 / (q + (1 - q) e^-epsilon)."""
    gap = cap.logit + log_rest(cap.log_mass) - cap.log_mass
    mass = math.exp(cap.log_mass)
    return 1.0 / (mass + (1.0 - mass) * math.exp(-gap))
