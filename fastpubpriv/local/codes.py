"""Reports of a few bits: the number of a word in a book of random vectors that the report itself names."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from typing import Any

import numpy.typing as npt

from fastpubpriv import validation
from fastpubpriv.errors import InputError
from fastpubpriv.laws import CodeLaw, ReportLaw
from fastpubpriv.local import books
from fastpubpriv.local.randomizers import GRID, Randomizer
from fastpubpriv.local.reports import Reports
from fastpubpriv.release.reports import release_codes
from fastpubpriv.sources import private_rows

WORDS_MAX = 1024
_MOST_ENTRIES = 1 << 24  # of a book, 64 MB


@dataclass(frozen=True, slots=True)
class SubsetSelection(Randomizer):
    """Subset selection in a random book: log2(words) private bits, in 10 bytes with the number of the book.

    A client draws the number of a book of random directions without regard to its row, and sends it with the number of one word:
    with a larger probability one of the `chosen` words nearest to the row, otherwise one of the others.

    Parameters
    ----------
    dim, epsilon, norm_bound
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
        law = ReportLaw(dim=self.dim, gaussian=False, log2_grid=GRID, ball=False, threshold=0.0, miss=0.5, radius=1.0)
        settle(self, "law", law)
        book = CodeLaw(
            words=self.words,
            chosen=chosen,
            miss=miss,
            ball=self.norm_bound is not None,
            radius=self.radius,
            vectors=law,
        )
        settle(self, "book", book)

    def _reported(self, rows: Any, keys: Any, *, threads: int | None = 1) -> Reports:
        return Reports(self, _coded(private_rows(rows), self.book, keys), private=keys.private)


def _coded(rows: Any, book: CodeLaw, keys: Any) -> npt.NDArray[Any]:
    """One word of a book for each row (privacy note: `mechanisms/notes/local_codes.md`)."""
    return release_codes(rows, book, keys=keys)
