"""What "neighbouring data sets" means. Every sensitivity and every cost is relative to one of these."""

from __future__ import annotations

from enum import Enum


class Neighbors(Enum):
    """The pairs of data sets that a guarantee must not tell apart.

    REPLACE_ONE: the same number of rows, one row exchanged for any other; n is public. The library promises this one.
    ADD_REMOVE_ONE: one row more or fewer. Calculators only, to compare with published tables; no fit reports it.

    Examples
    --------
    >>> Neighbors("replace_one")
    <Neighbors.REPLACE_ONE: 'replace_one'>
    """

    REPLACE_ONE = "replace_one"
    ADD_REMOVE_ONE = "add_remove_one"
