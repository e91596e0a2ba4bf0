"""Rough run times of the methods on one core of a small shared machine, fitted to a table of runs: an order of magnitude, no more.

All take (n, dim, components, size), `size` being the length of the list.
"""

from __future__ import annotations

_SEARCH_SECONDS = 0.25  # of candidates for one column, for each component
_ROW_SECONDS = 4e-9  # of a pass, for each number that a row is turned into
_PAIR_SECONDS = 5e-8  # of two candidates on the line
_DENSITY_SECONDS = 2.5e-11  # of a product of densities in more columns


def choice_rows(n: int, shares: tuple[int, ...]) -> int:
    """Rows that the choice among candidates is made on: the last block."""
    return max(1, n * shares[-1] // sum(shares))


def iterating(n: int, dim: int, components: int, size: int, *, steps: int) -> float:
    """EM in passes over the rows."""
    return 0.1 + steps * n * components * dim * 12.0 * _ROW_SECONDS


def on_the_line(n: int, dim: int, components: int, size: int) -> float:
    """A search on one column, and a choice by public cells."""
    return _SEARCH_SECONDS * components + 60.0 * n * _ROW_SECONDS + size * size / 2.0 * _PAIR_SECONDS / 10.0


def _densities(dim: int, components: int, size: int, rows: int) -> float:
    return 2.0 * (size * size / 2.0) * components * (dim + 4) * (1024 + rows / 2.0) * _DENSITY_SECONDS


def column_by_column(n: int, dim: int, components: int, size: int, *, steps: int, shares: tuple[int, ...]) -> float:
    """A search on each column, EM, and a choice by densities."""
    work = steps * n * components * dim * 3.0 * _ROW_SECONDS
    search = dim * _SEARCH_SECONDS * components / 2.0
    return search + work + _densities(dim, components, size, choice_rows(n, shares))


def choosing(n: int, dim: int, components: int, size: int, *, shares: tuple[int, ...] = (1,)) -> float:
    """A list, and the choice from it."""
    if dim == 1:
        return 0.3 + (size * size / 2.0 * _PAIR_SECONDS + 60.0 * n * _ROW_SECONDS)
    return 0.3 + _densities(dim, components, size, choice_rows(n, shares))
