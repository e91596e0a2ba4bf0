"""How local reports are drawn, as `kernels` and `reference` read it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ReportLaw:
    """How the report of one user is drawn (`fpp_report_law` in fpp.h).

    Attributes
    ----------
    dim : int
        Columns of a row and of a report.
    gaussian : bool
        False: a cap of the sphere; True: a tail of a normal law.
    log2_grid : int
        Reports are integers, in steps of 2^-log2_grid of the root mean square of a coordinate.
    ball : bool
        True: rows lie in the ball of `radius`; False: only their direction counts.
    threshold : float
        Least cosine, or least value, inside of the cap.
    miss : float
        Probability of a draw from outside of the cap.
    radius : float
        Of the ball.
    tail : float
        For seeds: probability of taking one outside of the cap.
    """

    dim: int
    gaussian: bool
    log2_grid: int
    ball: bool
    threshold: float
    miss: float
    radius: float
    tail: float = 0.5


@dataclass(frozen=True, slots=True)
class CodeLaw:
    """How a user chooses a word of a book of random vectors (`fpp_report_book` in fpp.h).

    Attributes
    ----------
    words : int
        Words of a book.
    chosen : int
        How many of them, those nearest to the row, are likelier.
    miss : int
        Of 2^62: the probability of another word.
    vectors : ReportLaw
        Columns, ball and radius of the rows, and the grid of the words.
    """

    words: int
    chosen: int
    miss: int
    vectors: ReportLaw
