"""Sources of rows (`Rows` of arrays, files, frames and chunk streams), and passes over them (`Query` and `Executor`)."""

from fastpubpriv.sources import open  # noqa: F401  (fills in the constructors of Rows)
from fastpubpriv.sources.fold import Executor, Query
from fastpubpriv.sources.open import private_rows
from fastpubpriv.sources.row_types import Rows

__all__ = ["Executor", "Query", "Rows", "private_rows"]


def __dir__() -> list[str]:
    return __all__
