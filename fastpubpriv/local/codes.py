"""Reports of a few bits: the number of a word in a book of random vectors that the report itself names."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from fastpubpriv import validation
from fastpubpriv._types import FloatArray
from fastpubpriv.errors import InputError
from fastpubpriv.kernels.seeds import code_integers
from fastpubpriv.keys import KeySource
from fastpubpriv.laws import CodeLaw, ReportLaw
from fastpubpriv.local import books
from fastpubpriv.local.randomizers import GRID, Randomizer
from fastpubpriv.local.reports import Reports
from fastpubpriv.release.reports import release_codes
from fastpubpriv.sources import Rows

WORDS_MAX = 1024
_MOST_ENTRIES = 1 << 24  # of a book: more would take a client a second
_MOST_AT_ONCE = 1 << 21
_FINE_GRID = 26


@dataclass(frozen=True, slots=True)
class SubsetSelection(Randomizer):
    """Subset selection in a random book: log2(words) private bits, in 10 bytes with the number of the book.

    A client draws the number of a book of random directions without regard to its row, and sends it with the number of one word:
    with a larger probability one of the `chosen` words nearest to the row, otherwise one of the others.

    Parameters
    ----------
    dim, epsilon, norm_bound, x_pub
        As for `PrivUnit`.
    words : int
        Words of a book, from 2 to 1024.
    chosen : int, optional
        How many of them are likelier, at most half; by default the number with the least error.

    Attributes
    ----------
    cap : Cap
        The chosen words as a cap of mass chosen / words; its threshold is their number.
    book : CodeLaw
        What the kernels read.

    Raises
    ------
    InputError
        An argument out of range, or a book of more than 2^24 entries.

    Privacy
    -------
    Local, one report of one row: `cost`, always PureDP(epsilon). The two probabilities are fractions of integers whose ratio is at
    most e^epsilon, whatever floating point makes of the order of the words (`mechanisms/notes/local_codes.md`).

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
        settle = object.__setattr__
        settle(self, "words", validation.integer("words", self.words, minimum=2, maximum=WORDS_MAX))
        if self.words * self.dim > _MOST_ENTRIES:
            raise InputError(f"a book of {self.words} words of {self.dim} columns is too large: pass fewer words")
        chosen = self.chosen
        if chosen is None:
            chosen = books.best_chosen(self.dim, self.words, epsilon)
        chosen = validation.integer("chosen", chosen, minimum=1, maximum=self.words // 2)
        settle(self, "chosen", chosen)
        miss = books.miss_of(self.words, chosen, epsilon)
        cap = books.cap_of_book(self.dim, self.words, chosen, miss)
        if not cap.scale > 0.0:
            raise InputError(
                f"epsilon = {epsilon:g} is too small for a report of {self.words} words: pass more of either"
            )
        settle(self, "cap", cap)
        settle(self, "log2_grid", GRID)
        law = ReportLaw(
            dim=self.dim,
            gaussian=False,
            log2_grid=GRID,
            ball=self.norm_bound is not None,
            threshold=0.0,
            miss=0.5,
            radius=self.radius,
        )
        settle(self, "law", law)
        settle(self, "book", CodeLaw(words=self.words, chosen=chosen, miss=miss, vectors=law))

    @property
    def normals(self) -> float:
        """Normals that a report is made of."""
        return float(self.words * self.dim)

    def _reported(self, rows: Rows | FloatArray, keys: KeySource, *, threads: int | None = 1) -> Reports:
        return Reports.fitted(self, _coded(rows, self.book, keys, threads), private=keys.private)


def _coded(rows: Rows | FloatArray, book: CodeLaw, keys: KeySource, threads: int | None) -> npt.NDArray[Any]:
    """One word of a book for each row (privacy note: `mechanisms/notes/local_codes.md`)."""
    return release_codes(rows, book, keys=keys, threads=threads)


def names_near_word(
    randomizer: SubsetSelection, payload: npt.NDArray[np.uint8], row: FloatArray
) -> npt.NDArray[np.bool_]:
    """Which reports (n, 10) name one of the words that are likelier for this row (dim,): those with the largest cosines to it."""
    words, dim = randomizer.words, randomizer.dim
    found = np.empty(len(payload), dtype=np.bool_)
    # A finer grid than that of the reports, on which more words would tie.
    law = replace(randomizer.law, log2_grid=_FINE_GRID)
    step = max(1, _MOST_AT_ONCE // (words * dim))
    for begin in range(0, len(payload), step):
        part = payload[begin : begin + step]
        codes = np.repeat(part, words, axis=0)
        codes[:, 8:] = np.tile(np.arange(words, dtype="<u2").view(np.uint8).reshape(words, 2), (len(part), 1))
        vectors = np.empty((len(codes), dim), dtype=np.int32)
        code_integers(codes, law, vectors)
        cosines = (vectors @ row / np.linalg.norm(vectors, axis=1)).reshape(len(part), words)
        near = np.argsort(-cosines, axis=1, kind="stable")[:, : randomizer.chosen]
        named = np.ascontiguousarray(part[:, 8:]).view("<u2")
        found[begin : begin + step] = (near == named).any(axis=1)
    return found
