"""What floating point may add to the epsilon of a report: bounds that are taken off before the report is drawn.

Derived in `mechanisms/notes/local_reports.md`; u = 2^-53 is the rounding of one operation.
"""

from __future__ import annotations

import math

from fastpubpriv.local.parameters import Cap, log_rest

_UNIT = 2.0**-53
_NORMAL = 2.0**-41  # a normal as it is read, less the exact one
_CUT = 17.0  # the length of d normals is below sqrt(d) + 17 but for a mass of 2^-200
_OTHER = 2.0**-36  # acceptance tests and coins, each a factor close to 1


def direct_error(dim: int, log2_grid: int, cap: Cap, *, gaussian: bool) -> float:
    """Bound on what rounding adds to epsilon when reports are vectors on a grid."""
    if dim == 1 and not gaussian:
        return _OTHER
    length = math.sqrt(dim) + _CUT + (cap.threshold if gaussian else 0.0)
    # |computed - exact| in l2: `units` of u times the length of the report, and `times` the error of all its normals.
    if gaussian:
        units, times, angle = 200.0, 2.0, 2.0 * _NORMAL / length
    elif dim < 16:
        units, times, angle = 4500.0, 9.0, 2.0**-35
    else:
        units, times = 700.0, 3.0
        angle = 2.0**-35 if dim < 64 else 18.0 * _NORMAL / math.sqrt(dim - 3.0)
    moved = (units * _UNIT + angle) * length + times * _NORMAL * math.sqrt(dim)
    return 4.5 * math.ldexp(math.sqrt(dim) * moved, log2_grid) + 64.0 * dim * _UNIT + _OTHER


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
