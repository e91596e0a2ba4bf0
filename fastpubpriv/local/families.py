"""The families of local randomizers: vectors on a cap, and codes of a few bits."""

from __future__ import annotations

import bisect
import math
from dataclasses import KW_ONLY, dataclass, field, replace
from fractions import Fraction
from functools import lru_cache
from typing import Self

import numpy as np
import numpy.typing as npt
from scipy import special

from fastpubpriv import validation
from fastpubpriv._types import FloatArray
from fastpubpriv.errors import InputError
from fastpubpriv.kernels.report_codes import code_integers
from fastpubpriv.keys import KeySource
from fastpubpriv.local import parameters as caps
from fastpubpriv.local.parameters import Cap
from fastpubpriv.local.randomizers import GRID, Randomizer, Reports
from fastpubpriv.release.reports import release_codes
from fastpubpriv.rowwise.row_maps import CodeLaw
from fastpubpriv.sources import Rows


@dataclass(frozen=True, slots=True)
class PrivUnit(Randomizer):
    """PrivUnit: a uniform point of a cap around the row, or of the rest of the sphere; the least error of all for unit vectors.

    Parameters
    ----------
    dim : int
        Columns of a row, up to 2^20.
    epsilon : float
        Privacy of one report, from 2^-20 to 500.
    norm_bound : float or "public", optional
        Radius of the ball of the rows; "public": the norm of the longest row of `x_pub`. None: only directions are used.
    x_pub : (n_pub, dim) array-like, path, frame or table, optional
        Public rows for norm_bound="public", prepared as users prepare theirs.
    form : "direct" or "selection"
        Vectors on a grid (fast, any epsilon), or seeds of 32 bytes (for epsilon up to about 6).
    threshold : float, optional
        gamma, the least cosine inside of the cap; by default the optimal one.

    Raises
    ------
    InputError
        An argument out of range, or an epsilon too small for so many columns.

    Privacy
    -------
    Local, one report of one row: `cost`. Not in the accounts of central calls: nobody but the user sees the row.

    Notes
    -----
    LLHR (paper B), Algorithm 3, after Bhowmick et al.; parameters after Asi, Feldman and Talwar: the best threshold is the fixed
    point gamma = m(gamma). Departs from it: LLHR print a plus in the normalizer m, which would make the mean wrong by up to a
    quarter; it is a minus.

    Examples
    --------
    >>> from fastpubpriv.local import PrivUnit
    >>> randomizer = PrivUnit(100, 4.0)
    >>> print(f"{randomizer.cap.threshold:.6f} {randomizer.mean_squared_error():.3f}")
    0.151068 42.818
    """

    _: KW_ONLY
    threshold: float | None = None

    def _cap(self, epsilon: float) -> Cap:
        if self.threshold is None:
            return caps.best_cap(self.dim, epsilon)
        gamma = validation.fraction("threshold", self.threshold)
        if self.dim == 1 and gamma != 0.0:
            raise InputError("with one column the threshold is 0")
        if not 1.0 - gamma * gamma >= 1e-12:
            raise InputError(f"threshold must be below 1 by at least 5e-13, got {gamma!r}")
        log_mass = -math.log(2.0) if self.dim == 1 else caps.log_cap_mass(self.dim, gamma)
        return caps.cap_of(self.dim, gamma, caps.logit_for(epsilon, log_mass))

    @classmethod
    def bhowmick(
        cls, dim: int, epsilon: float, *, share: float = 0.5, norm_bound: float | None = None
    ) -> Self:
        """The parameters of Bhowmick et al., for comparison: a share of epsilon for p, the rest for gamma by their conditions.

        Parameters
        ----------
        dim : int
            Columns of a row, at least 3: their first condition is false for two.
        epsilon : float
            Divided between p and gamma; the exact privacy of the result, its `epsilon`, is at most this.
        share : float
            Share of p: logit p = share * epsilon.
        norm_bound
            As for the class.

        Returns
        -------
        PrivUnit
        """
        dim = validation.integer("dim", dim, minimum=3)
        epsilon = validation.positive("epsilon", epsilon)
        share = validation.probability("share", share)
        gamma = caps.bhowmick_threshold(dim, (1.0 - share) * epsilon)
        cap = caps.cap_of(dim, gamma, share * epsilon)
        return cls(dim, cap.epsilon, norm_bound=norm_bound, threshold=gamma)


@dataclass(frozen=True, slots=True)
class PrivUnitG(Randomizer):
    """PrivUnitG: PrivUnit with normals in place of a uniform point. Simple, a little worse; its reports have no fixed length.

    Parameters
    ----------
    dim, epsilon, norm_bound, x_pub, form
        As for `PrivUnit`.

    Privacy
    -------
    As for `PrivUnit`.

    Notes
    -----
    Asi, Feldman and Talwar; the threshold is the fixed point c = M(c), which gives the error dim / c^2. A server clips reports to a
    public norm that honest ones exceed with probability below 1e-30.

    Examples
    --------
    >>> from fastpubpriv.local import PrivUnitG
    >>> print(f"{PrivUnitG(100, 4.0).mean_squared_error():.3f}")
    43.532
    """

    gaussian = True

    def _cap(self, epsilon: float) -> Cap:
        return caps.best_tail(epsilon)


@dataclass(frozen=True, slots=True)
class Duchi(Randomizer):
    """Duchi, Jordan and Wainwright's randomizer of the ball: a uniform point of the half sphere on the row's side, or of the other.

    Parameters
    ----------
    dim, epsilon, x_pub, form
        As for `PrivUnit`.
    norm_bound : float or "public"
        Radius of the ball.

    Privacy
    -------
    As for `PrivUnit`: it is PrivUnit with threshold 0.

    Notes
    -----
    LLHR (paper B), section 3.1; Lemma 16 has its error. The radius of a report, which they leave open, is coth(epsilon / 2)
    sqrt(pi) Gamma((d + 1) / 2) / Gamma(d / 2). PrivUnit has a smaller error for every dim > 1 and epsilon.

    Examples
    --------
    >>> from fastpubpriv.local import Duchi
    >>> print(f"{Duchi(5, 2.0, 1.0).mean_squared_error(0.6):.3f}")
    11.900
    """

    norm_bound: float | str | None = field(default=None, kw_only=False)

    def _cap(self, epsilon: float) -> Cap:
        if self.norm_bound is None:
            raise InputError("Duchi needs norm_bound, the radius of the ball")
        return caps.cap_of(self.dim, 0.0, epsilon)


# ---- Reports of a few bits: the index of a word in a codebook of random vectors whose number is part of the report

MISS_BITS = 62  # bits of the probability of a word that is not chosen
_NODES = 4000  # of the quadrature


@lru_cache(maxsize=4096)
def top_cosines(dim: int, words: int, chosen: int) -> float:
    """Return the mean sum of the `chosen` largest of `words` cosines of random directions to a fixed one, 1 <= chosen < words."""
    # cosines are 1 and -1: if b of them are 1, the largest add up to min(b, chosen) - max(0, chosen
    # - b)
    if dim == 1:
        b = np.arange(words + 1)
        log_weight = (
            special.gammaln(words + 1)
            - special.gammaln(b + 1)
            - special.gammaln(words - b + 1)
            - words * math.log(2)
        )
        return float(
            np.sum(np.exp(log_weight) * (np.minimum(b, chosen) - np.maximum(0, chosen - b)))
        )
    # words * E t P(fewer than `chosen` of the others are larger), over the angle: its density is smooth for every dim.
    half = min(math.pi / 2, 14.0 / math.sqrt(dim))
    nodes, weights = _gauss()
    angle = math.pi / 2 + half * nodes
    cosine = np.cos(angle)
    alpha = 0.5 * (dim - 1)
    density = np.exp((dim - 2) * np.log(np.sin(angle)) - caps.log_beta(alpha))
    larger = special.betainc(alpha, alpha, 0.5 * (1.0 - cosine))
    among = special.betainc(words - chosen, chosen, 1.0 - larger)
    return words * half * float(np.sum(weights * cosine * density * among))


@lru_cache(maxsize=1)
def _gauss() -> tuple[np.ndarray, np.ndarray]:
    nodes, weights = np.polynomial.legendre.leggauss(_NODES // 10)
    # Ten panels: accurate enough where the distribution of the largest is narrow.
    left = np.linspace(-1.0, 1.0, 11)[:-1]
    return (left[:, None] + 0.1 * (nodes + 1.0)).ravel(), np.tile(0.1 * weights, 10)


@lru_cache(maxsize=1024)
def best_chosen(dim: int, words: int, epsilon: float) -> int:
    """Return the number s of chosen words of least error: the mean T(s) / (s e^epsilon + words - s) has one maximum."""
    growth = math.expm1(epsilon) if epsilon < 700.0 else math.inf

    def lean(chosen: int) -> float:
        return top_cosines(dim, words, chosen) / (chosen + words / growth)

    falls = range(1, max(1, words // 2))
    return 1 + bisect.bisect_left(falls, True, key=lambda chosen: lean(chosen) >= lean(chosen + 1))


def miss_of(words: int, chosen: int, epsilon: float) -> int:
    """Return the least integer T with ((2^62 - T) / chosen) / (T / (words - chosen)) <= e^epsilon, by exact fractions."""
    growth = Fraction(math.exp(0.5 * epsilon) * (1.0 - 2.0**-42)) ** 2  # at most e^epsilon
    rest = words - chosen
    whole = 1 << MISS_BITS
    return math.ceil(Fraction(whole * rest) / (growth * chosen + rest))


WORDS_MAX = 1024
_MOST_ENTRIES = 1 << 24  # entries of a book: more would take a client a second
_MOST_AT_ONCE = 1 << 21  # entries of books in memory at once
_FINE_GRID = 26  # log2 of the steps


@dataclass(frozen=True, slots=True)
class SubsetSelection(Randomizer):
    """Subset selection in a random codebook (book): log2(words) private bits, in 10 bytes with the number of the book.

    A client draws the number of a book of random directions independently of its row, and sends it with the number of one word:
    with a larger probability one of the `chosen` words nearest to the row, otherwise one of the others.

    Parameters
    ----------
    dim, epsilon, norm_bound, x_pub
        As for `PrivUnit`.
    words : int
        Words of a book, from 2 to 1024.
    chosen : int, optional
        Number of words with the larger probability, at most half; by default the number with the least error.

    Attributes
    ----------
    cap : Cap
        The chosen words as a cap of mass chosen / words; its threshold is their number.
    book : CodeLaw
        Parameters for the kernels.

    Raises
    ------
    InputError
        An argument out of range, or a book of more than 2^24 entries.

    Privacy
    -------
    Local, one report of one row: `cost`, always PureDP(epsilon). The two probabilities are fractions of integers whose ratio is at
    most e^epsilon, whatever rounding does to the order of the words (`mechanisms/notes/local_codes.md`).

    Notes
    -----
    Ye and Barg's subset selection over a random codebook, as in the few-bit forms of PrivUnit of Shah et al. and Isik et al. Its
    error is 1 / m^2 - 1 with m in closed form, above PrivUnit's and near it from about e^epsilon words on. A report takes `words`
    vectors of `dim` normals to draw, and one to read.

    Examples
    --------
    >>> from fastpubpriv.local import SubsetSelection
    >>> randomizer = SubsetSelection(100, 4.0, words=256)
    >>> randomizer.report_bytes, f"{randomizer.mean_squared_error():.2f}"
    (10, '43.45')
    """

    _: KW_ONLY
    form: str = field(default="codes", init=False)
    words: int = 256
    chosen: int | None = None
    book: CodeLaw = field(init=False, repr=False, compare=False)

    def _design(self, epsilon: float) -> None:
        words = validation.integer("words", self.words, minimum=2, maximum=WORDS_MAX)
        if words * self.dim > _MOST_ENTRIES:
            raise InputError(
                f"a book of {words} words of {self.dim} columns is too large: pass fewer words"
            )
        chosen = best_chosen(self.dim, words, epsilon) if self.chosen is None else self.chosen
        chosen = validation.integer("chosen", chosen, minimum=1, maximum=words // 2)
        miss = miss_of(words, chosen, epsilon)
        whole = 1 << MISS_BITS
        hit = (whole - miss) / whole
        other = miss / whole
        scale = top_cosines(self.dim, words, chosen) * (hit / chosen - other / (words - chosen))
        cap = Cap(float(chosen), math.log(chosen / words), math.log((whole - miss) / miss), scale)
        if not cap.scale > 0.0:
            raise InputError(
                f"epsilon = {epsilon:g} is too small for a report of {words} words: pass more of either"
            )
        self._settle(words=words, chosen=chosen, cap=cap, log2_grid=GRID)
        law = replace(self._law(), threshold=0.0, miss=0.5)
        self._settle(law=law, book=CodeLaw(words=words, chosen=chosen, miss=miss, vectors=law))

    @property
    def normals(self) -> float:
        """Number of normals drawn for a report."""
        return float(self.words * self.dim)

    def _reported(
        self, rows: Rows | FloatArray, keys: KeySource, *, threads: int | None = 1
    ) -> Reports:
        made = release_codes(rows, self.book, keys=keys, threads=threads)
        return Reports.fitted(self, made, private=keys.private)


def names_near_word(
    randomizer: SubsetSelection, payload: npt.NDArray[np.uint8], row: FloatArray
) -> npt.NDArray[np.bool_]:
    """Return which reports (n, 10) name one of the words likelier for this row (dim,), those with the largest cosines to it."""
    words = randomizer.words
    dim = randomizer.dim
    out = np.empty(len(payload), dtype=np.bool_)
    # A finer grid than that of the reports, on which more words would tie.
    law = replace(randomizer.law, log2_grid=_FINE_GRID)
    step = max(1, _MOST_AT_ONCE // (words * dim))
    for begin in range(0, len(payload), step):
        part = payload[begin : begin + step]
        codes = np.repeat(part, words, axis=0)
        codes[:, 8:] = np.tile(
            np.arange(words, dtype="<u2").view(np.uint8).reshape(words, 2), (len(part), 1)
        )
        vectors = np.empty((len(codes), dim), dtype=np.int32)
        code_integers(codes, law, vectors)
        cosines = (vectors @ row / np.linalg.norm(vectors, axis=1)).reshape(len(part), words)
        near = np.argsort(-cosines, axis=1, kind="stable")[:, : randomizer.chosen]
        named = np.ascontiguousarray(part[:, 8:]).view("<u2")
        out[begin : begin + step] = (near == named).any(axis=1)
    return out
