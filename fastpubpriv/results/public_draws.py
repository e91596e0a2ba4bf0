"""Public random numbers, Sobol points, and quantiles that agree bit for bit with SciPy.

Noise for privacy never comes from here: it is drawn in `release`, from keys. Integer seeds use NumPy's legacy generator,
whose stream is guaranteed not to change.

Sobol points (which fill a cube evenly) are public: starts and candidates of searches over public rows only, and
points at which public distributions are compared.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import special

from fastpubpriv._types import FloatArray
from fastpubpriv.errors import InputError

Size = int | tuple[int, ...]


def draw_normals(size: Size, random_state: Any) -> FloatArray:
    """Return standard normals of this shape; `random_state` is None, an int or a NumPy generator."""
    return np.asarray(_generator(random_state).standard_normal(size))


def draw_uniforms(size: Size, random_state: Any) -> FloatArray:
    """Return uniforms on [0, 1) of this shape; `random_state` is None, an int or a NumPy generator."""
    return np.asarray(_generator(random_state).uniform(0.0, 1.0, size))


def _generator(random_state: Any) -> Any:
    if isinstance(random_state, np.random.Generator | np.random.RandomState):
        return random_state
    try:
        return np.random.RandomState(random_state)
    except (TypeError, ValueError):
        raise InputError(
            f"random_state must be None, an int from 0 to 2^32 - 1, or a NumPy generator, got {type(random_state).__name__}"
        ) from None


_BITS = 30
# For each coordinate after the first, a primitive polynomial and the first direction numbers (S. Joe, F. Y. Kuo, Constructing Sobol
# sequences with better two-dimensional projections, SIAM J. Sci. Comput. 30, 2008). SciPy provides points of more coordinates.
_DIRECTIONS = (
    (3, 1),
    (7, 1, 3),
    (11, 1, 3, 1),
    (13, 1, 1, 1),
    (19, 1, 1, 3, 3),
    (25, 1, 3, 5, 13),
    (37, 1, 1, 5, 5, 17),
    (41, 1, 1, 5, 5, 5),
    (47, 1, 1, 7, 11, 19),
    (55, 1, 1, 5, 1, 1),
    (59, 1, 1, 1, 3, 11),
    (61, 1, 3, 5, 5, 31),
    (67, 1, 3, 3, 9, 7, 49),
    (91, 1, 1, 1, 15, 21, 21),
    (97, 1, 3, 1, 13, 27, 49),
    (103, 1, 1, 1, 15, 7, 5),
    (109, 1, 3, 1, 15, 13, 25),
    (115, 1, 1, 5, 5, 19, 61),
    (131, 1, 3, 7, 11, 23, 15, 103),
    (137, 1, 3, 7, 13, 13, 15, 69),
    (143, 1, 1, 3, 13, 7, 35, 63),
    (145, 1, 3, 5, 9, 1, 25, 53),
    (157, 1, 3, 1, 13, 9, 35, 107),
    (167, 1, 3, 1, 5, 27, 61, 31),
    (171, 1, 1, 5, 11, 19, 41, 61),
)


def sobol_points(dim: int, log2_count: int, *, seed: int | None = None) -> FloatArray:
    """Return the first 2^log2_count Sobol points (n, dim) in [0, 1); with a seed, scrambled by random matrices and shifted."""
    if dim > len(_DIRECTIONS) + 1:
        from scipy.stats import qmc

        sequence = qmc.Sobol(dim, scramble=seed is not None, seed=seed)
        return np.asarray(sequence.random_base2(log2_count))
    directions = _directions(dim)
    shift = np.zeros(dim, dtype=np.uint32)
    if seed is not None:
        directions, shift = _scrambled(directions, np.random.default_rng(seed))
    place = np.arange(2**log2_count, dtype=np.uint32)
    gray = place ^ (place >> 1)  # one bit changes from each point to the next
    points = np.tile(shift, (len(place), 1))
    for bit in range(log2_count):
        set_bits = (gray >> np.uint32(bit)) & 1
        points ^= set_bits[:, None] * directions[:, bit]
    return np.asarray(points * 2.0**-_BITS, dtype=np.float64)


def _directions(dim: int) -> np.ndarray[tuple[int, int], np.dtype[np.uint32]]:
    """Return direction numbers (dim, _BITS) as binary fractions; the first one changes the highest bit."""
    table = np.ones((dim, _BITS), dtype=np.uint32)
    for line, (polynomial, *first) in zip(table[1:], _DIRECTIONS, strict=False):
        numbers = list(first)
        degree = len(first)
        for place in range(degree, _BITS):
            number = numbers[place - degree]
            for k in range(degree):
                if polynomial >> (degree - 1 - k) & 1:
                    number ^= numbers[place - k - 1] << (k + 1)
            numbers.append(number)
        line[:] = numbers
    return table << np.arange(_BITS - 1, -1, -1, dtype=np.uint32)


def _scrambled(directions: Any, rng: np.random.Generator) -> tuple[Any, Any]:
    """Return direction numbers times random lower triangular matrices of unit diagonal, modulo 2, and a random shift (dim,)."""
    dim = len(directions)
    down = np.arange(_BITS - 1, -1, -1, dtype=np.uint32)
    shift = rng.integers(2, size=(dim, _BITS), dtype=np.uint32) @ (np.uint32(1) << down[::-1])
    coins = rng.integers(2, size=(dim, _BITS, _BITS), dtype=np.uint32)
    below = np.tril(coins) | np.eye(_BITS, dtype=np.uint32)
    rows = (below << down).sum(axis=2, dtype=np.uint32)
    scrambled = np.zeros_like(directions)
    for place in range(_BITS):
        odd = rows[:, place, None] & directions
        for half in (16, 8, 4, 2, 1):
            odd ^= odd >> np.uint32(half)
        scrambled |= (odd & 1) << down[place]
    return scrambled, shift


# ---- Quantiles of common distributions, equal bit for bit to those of `scipy.stats`, which is slow to import


def normal_quantile(probability: float) -> float:
    """Return the quantile of the standard normal distribution."""
    return float(special.ndtri(probability))


def chi2_quantile(probability: float, freedom: float) -> float:
    """Return the quantile of the chi-squared distribution with `freedom` degrees of freedom."""
    return float(2.0 * special.gammaincinv(freedom / 2.0, probability))


def chi2_quantiles(probabilities: Any, freedom: float) -> FloatArray:
    """Return `chi2_quantile` for an array of probabilities, in its shape."""
    return np.asarray(2.0 * special.gammaincinv(freedom / 2.0, probabilities))


def chi2_upper_quantile(probability: float, freedom: float) -> float:
    """Return the point of the chi-squared distribution with upper tail `probability`."""
    return float(special.chdtri(freedom, probability))


def t_quantile(probability: float, freedom: float) -> float:
    """Return the quantile of Student's t distribution with `freedom` degrees of freedom."""
    return float(special.stdtrit(freedom, probability))


def student_factor(n_rows: int) -> float:
    """Return the factor on a standard deviation estimated from two or more rows, in an interval with Gaussian quantiles.

    An interval of a mean with the deviation of n rows has quantiles of Student's t with n - 1 degrees of freedom.
    """
    return t_quantile(0.975, n_rows - 1) / normal_quantile(0.975)


def f_quantile(probability: float, above: float, below: float) -> float:
    """Return the quantile of the F distribution with `above` (numerator) and `below` (denominator) degrees of freedom."""
    return float(special.fdtri(above, below, probability))


def beta_quantile(probability: float, first: float, second: float) -> float:
    """Return the quantile of the beta distribution with shape parameters `first` and `second`."""
    return float(special.betaincinv(first, second, probability))
