"""Private choice from a public list of mixtures by scores of their Scheffe sets or log densities (paper C; MS08, AAK21).

Privacy note: `notes/hypotheses.md`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from fastpubpriv._types import IntArray
from fastpubpriv.errors import InputError
from fastpubpriv.kernels.hypotheses import LARGEST_COUNT
from fastpubpriv.mechanisms.selection.candidates import Chosen, Hypotheses
from fastpubpriv.mechanisms.selection.densities import DensitySets
from fastpubpriv.mechanisms.selection.log_ratio import LogRatios
from fastpubpriv.mechanisms.selection.roots import RootSets
from fastpubpriv.mechanisms.selection.scheffe import CELLS, MOST_CELL_ROWS, CellSets, Evaluation
from fastpubpriv.mechanisms.selection.yatracos import YatracosSets
from fastpubpriv.mechanisms.sums import Measurement
from fastpubpriv.privacy import ZCDP, SelectionEvent, laplace_epsilon
from fastpubpriv.privacy.events import CHOICE_LAWS
from fastpubpriv.release.account import Account
from fastpubpriv.release.payer import Payer
from fastpubpriv.release.release import release_choice
from fastpubpriv.sources import Executor, Rows

METHODS = ("auto", "exact", "cells", "densities")
SCORES = ("minimum_distance", "yatracos", "log_ratio")
MOST_COMPARED = 2**15  # hypotheses in pairs; log ratios go as far as a choice does
CLIP = 8.0
LEAST_ACCURACY = (
    1e-9  # least accuracy for which rows are computed: a smaller one is out of reach, and its square may underflow
)
SHORT_LIST = 100  # roots of all pairs then take a tenth of a second
LAWS = ("auto", *CHOICE_LAWS)


def pays_epsilon(account: Account) -> bool:
    """True where a choice is charged in epsilon, False where in rho."""
    return not isinstance(account.budget, ZCDP)


def law_for(account: Account, law: str = "auto") -> str:
    """The cheaper law under a budget: permute-and-flip where the price is epsilon, the exponential mechanism where it is rho."""
    if law != "auto":
        return law
    return "permute_and_flip" if pays_epsilon(account) else "exponential"


def epsilon_of(share: Fraction, law: str, *, pure: bool) -> Fraction:
    """The largest epsilon at which a choice costs at most `share`, in epsilon (pure) or rho."""
    if pure:
        return share
    if law == "exponential":
        return Fraction(math.isqrt(math.floor(share * 8 * 4**60)), 2**60)
    return laplace_epsilon(ZCDP(share), 1)


def prepare(
    hypotheses: Hypotheses,
    n: int,
    *,
    method: str = "auto",
    score: str = "minimum_distance",
    cells: int = CELLS,
    draws: int | None = None,
    public_seed: int = 0,
    clip: float = CLIP,
    threads: int | None = None,
) -> tuple[str, Evaluation]:
    """Sets and masses for n rows, and the name of the method; reads nothing private."""
    if score == "log_ratio":
        if method not in ("auto", "densities"):
            raise InputError(f'score="log_ratio" compares densities: leave out method={method!r}')
        return "densities", LogRatios.prepare(hypotheses, clip=clip)
    if hypotheses.size > MOST_COMPARED:
        raise InputError(
            f"pairs are compared among up to {MOST_COMPARED} hypotheses, got {hypotheses.size}: pass a shorter list, or "
            'score="log_ratio"'
        )
    if n > LARGEST_COUNT and (hypotheses.dim > 1 or method == "densities"):
        raise InputError(f"densities are compared at up to 2^31 - 1 rows, got {n}: pass a part of the rows")
    if method == "auto":
        short = hypotheses.size <= SHORT_LIST
        method = "densities" if hypotheses.dim > 1 else "exact" if short else "cells"
    if score == "yatracos":
        if method == "exact":
            return method, YatracosSets.of_intervals(hypotheses, n, threads=threads)
        if method == "cells":
            return method, YatracosSets.of_cells(hypotheses, n, cells=cells)
        return method, YatracosSets.of_densities(hypotheses, n, draws=draws, public_seed=public_seed, threads=threads)
    if method == "exact":
        return method, RootSets.prepare(hypotheses, n, threads=threads)
    if method == "cells":
        return method, CellSets.prepare(hypotheses, n, cells=cells)
    return method, DensitySets.prepare(hypotheses, draws=draws, public_seed=public_seed, threads=threads)


def check_rows(n: int, dim: int) -> None:
    """Raise now, before the debit, if `prepare` could refuse n rows of so many columns."""
    most = LARGEST_COUNT if dim > 1 else MOST_CELL_ROWS
    if n > most:
        raise InputError(f"a choice compares up to {most} rows of {dim} columns, got {n}: pass a part of the rows")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HypothesisChoice(Measurement[Fraction, Chosen]):
    """Choose one of `size` hypotheses by integer scores. The cost is the epsilon of the choice, in every notion."""

    evaluation: Evaluation
    size: int
    law: str

    def release(self, account: Payer, rows: Rows, executor: Executor, *, name: str, cost: Fraction) -> Chosen:
        """Charge, score and choose."""
        sensitivity = self.evaluation.sensitivity
        event = SelectionEvent(epsilon=cost, sensitivity=sensitivity, candidates=self.size, law=self.law)

        def query() -> IntArray:
            return -self.evaluation.scores(rows, executor)

        return Chosen(index=release_choice(account, name=name, query=query, event=event), event=event)


def pairs_of(size: int) -> int:
    """Scheffe sets of a list: one for each unordered pair."""
    return size * (size - 1) // 2


def _tail(size: int, failure_prob: float) -> float:
    """ln(size / b), b = failure_prob / 4: from logarithms, as a quotient of the smallest doubles would overflow."""
    return math.log(size) + math.log(4.0) - math.log(failure_prob)


def closed_form_rows(size: int, accuracy: float, epsilon: float, failure_prob: float) -> int:
    """Rows from which the choice is within 3 OPT + accuracy/2 but for 1/n, half of the slack for sampling, half for the choice.

    max(32 ln(2 S / b) / accuracy^2, 8 ln(size / b) / (accuracy epsilon)) with S pairs and b = failure_prob / 4.
    """
    if size < 2:
        return 1
    sampling = 32.0 * _tail(2 * pairs_of(size), failure_prob) / accuracy**2
    choosing = 8.0 * _tail(size, failure_prob) / (accuracy * epsilon)
    return math.ceil(max(sampling, choosing))


def required_rows(size: int, accuracy: float, epsilon: float, failure_prob: float) -> int:
    """The fewest rows with a slack of at most accuracy / 2: sampling and choice share it as they like."""
    if accuracy < LEAST_ACCURACY:
        raise InputError(f"accuracy must be at least {LEAST_ACCURACY:g}, got {accuracy:g}; for example 0.1")
    if size < 2:
        return 1
    low, high = 0, closed_form_rows(size, accuracy, epsilon, failure_prob)
    while slack_at(size, high, epsilon, failure_prob) > accuracy / 2.0:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if slack_at(size, middle, epsilon, failure_prob) <= accuracy / 2.0 else (middle, high)
    return high


def slack_at(size: int, n: int, epsilon: float, failure_prob: float) -> float:
    """2 Delta + s at n rows: how far beyond 3 OPT the choice is with probability 1 - failure_prob."""
    if size < 2:
        return 0.0
    sampling = 2.0 * math.sqrt(_tail(2 * pairs_of(size), failure_prob) / (2.0 * n))
    return sampling + 2.0 * _tail(size, failure_prob) / (n * epsilon) + 1.0 / n
