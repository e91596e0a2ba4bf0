"""How local reports are drawn, as `kernels` and `reference` read it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ReportLaw:
    """How the report of one user is drawn (`fpp_report_law` in fpp.h)."""

    dim: int  # columns of a row and of a report
    gaussian: bool  # False: a cap of the sphere; True: a tail of a normal law
    log2_grid: int  # reports are integers, in steps of 2^-log2_grid of the root mean square of a coordinate
    ball: bool  # True: rows lie in the ball of `radius`; False: only their direction counts
    threshold: float  # least cosine, or least value, inside of the cap
    miss: float  # probability of a draw from outside of the cap
    radius: float  # of the ball
    tail: float = 0.5  # for seeds: probability of taking one outside of the cap


@dataclass(frozen=True, slots=True)
class CodeLaw:
    """How a user chooses a word of a book of random vectors (`fpp_report_book` in fpp.h)."""

    words: int  # words of a book
    chosen: int  # how many of them, those nearest to the row, are likelier
    miss: int  # of 2^62: the probability of another word
    vectors: ReportLaw  # columns, ball and radius of the rows, and the grid of the words
