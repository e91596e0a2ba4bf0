"""Rows of NumPy arrays, in memory or memory-mapped."""

from __future__ import annotations

import numbers
import os
import sys
import weakref
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from fastpubpriv._types import FloatArray
from fastpubpriv.errors import InputError
from fastpubpriv.sources.row_types import Chunk, PathLike, RandomAccessRows
from fastpubpriv.threads.guard import foreign, guarded
from fastpubpriv.validation import path_name

# ---- Chunks of a reader: fresh copies, and a check of their number of rows -----------------------------------------


def check_count(chunks: Iterator[Chunk], begin: int, expected: int, hint: str) -> Iterator[Chunk]:
    """Yield the chunks of a pass from row `begin`; raise InputError once they are known to end before or after row `expected`."""
    received = begin
    for chunk in chunks:
        received += chunk.shape[0]
        if received > expected:
            break
        yield chunk
    if received != expected:
        # No numbers: a source that others filter has a private one, and beside persons the declared one is private too.
        count = "more" if received > expected else "fewer"
        raise InputError(f"a pass over the rows gave {count} rows than were declared: {hint}")


def as_chunk(array: Chunk, dtype: np.dtype[Any]) -> Chunk:
    """Return a C-contiguous copy of a (k, dim) array as `dtype`, NaN for an object that is no number; no value causes a warning."""
    if array.dtype.kind == "O":
        array = numbers_of_cells(array)
    with np.errstate(all="ignore"):
        return np.array(array, dtype=dtype, order="C", copy=True, subok=False)


def numbers_of_cells(cells: NDArray[Any]) -> FloatArray:
    """Return the numbers in an array of objects, NaN for any other cell: one cell that is no number changes no other."""
    flat = [number_of_cell(cell) for cell in cells.ravel().tolist()]
    return np.array(flat, dtype=np.float64).reshape(cells.shape)


def number_of_cell(cell: object) -> float:
    """Return a cell as a float, NaN for what is no number or is too large; the code of foreign classes raises nothing."""
    if type(cell) is float:
        return cell
    try:
        return float(cell) if isinstance(cell, numbers.Real | Decimal | np.bool_) else np.nan
    except KeyboardInterrupt:
        raise
    except BaseException:
        return np.nan


BLANKS = " \t\r\n\v\f"


def plain_text(cell: str) -> str:
    """Return a text stripped of blanks, without calling methods that a subclass of `str` may override."""
    return str.strip(str.__str__(cell), BLANKS)


# ---- Names of files to read, checked before anything opens them ------------------------------------------------------


def existing_file(path: object) -> str:
    """Return the path as a string; raise InputError if there is no such file."""
    name = path_name(path)
    if os.path.isdir(name):
        raise InputError(f"{name!r} is a directory: pass the name of a file in it")
    if not os.path.isfile(name):
        raise InputError(f"there is no file {name!r}")
    return name


_F64 = np.dtype(np.float64)
_NATIVE = (_F64, np.dtype(np.float32))

RAGGED = "the list could not be made into a two-dimensional array: pass rows of equal length that hold numbers only"


class ArrayRows(RandomAccessRows):
    """Rows of a plain ndarray; native float32 and float64 with adjacent columns are read without a copy."""

    __slots__ = ("_array", "_direct", "_dtype")

    def __init__(
        self, array: NDArray[Any], kind: str, columns: tuple[str, ...] | None = None
    ) -> None:
        super().__init__(array.shape[0], array.shape[1], kind, columns)
        self._array = array
        self._dtype = array.dtype if array.dtype in _NATIVE else _F64
        row_stride, column_stride = array.strides
        size = array.itemsize
        self._direct = (
            array.dtype in _NATIVE
            and array.flags.aligned
            and (
                array.flags.c_contiguous
                or (
                    column_stride == size
                    and row_stride >= size * array.shape[1]
                    and row_stride % size == 0
                )
            )
        )

    @classmethod
    def from_object(cls, obj: object) -> ArrayRows:
        """Return rows of an array-like in memory after checks of form; a one-dimensional array becomes one column."""
        return cls(plain_matrix(obj, line=True), "array")

    @classmethod
    def from_file(cls, path: PathLike) -> ArrayRows:
        """Return rows of a `.npy` file, memory-mapped."""
        return cls(plain_matrix(_mapped(existing_file(path)), line=True), "npy")

    def block(self, begin: int, end: int) -> Chunk:
        """Return rows `begin` to `end`, as a view where the memory layout allows."""
        part = self._array[begin:end]
        return part if self._direct else as_chunk(part, self._dtype)

    def take(self, places: NDArray[np.int64]) -> Chunk:
        """See `Rows.take`."""
        part = self._array[places]
        return part if self._direct else as_chunk(part, self._dtype)

    @property
    def in_memory(self) -> Chunk | None:
        """See `Rows.in_memory`."""
        return self._array if self._direct else None

    def memory(self) -> list[NDArray[Any]]:
        """Return the arrays that hold the rows, for the check for shared memory."""
        return [self._array]


class NpyFileRows(RandomAccessRows):
    """Rows of the `.npy` file `path`, read by ordinary reads: if the file becomes shorter, a pass raises InputError."""

    __slots__ = ("_by_columns", "_dtype", "_file", "_first", "path")

    def __init__(self, path: PathLike) -> None:
        name = existing_file(path)
        mapped = _mapped(name)
        matrix = plain_matrix(mapped, line=True)
        super().__init__(matrix.shape[0], matrix.shape[1], "npy", None)
        self.path = name
        self._dtype = matrix.dtype
        self._first = int(mapped.offset)  # position of the first number in the file
        self._by_columns = not matrix.flags.c_contiguous  # Fortran order: column after column
        self._file = os.open(name, os.O_RDONLY)
        weakref.finalize(self, os.close, self._file)

    def block(self, begin: int, end: int) -> Chunk:
        """Return rows `begin` to `end`, read from the file."""
        if self._by_columns:
            part = np.empty((end - begin, self.dim), self._dtype)
            for index in range(self.dim):
                part[:, index] = self._numbers(index * self.n + begin, end - begin)
        else:
            part = self._numbers(begin * self.dim, (end - begin) * self.dim).reshape(
                end - begin, self.dim
            )
        return (
            part
            if self._dtype in _NATIVE and not self._by_columns
            else as_chunk(part, self._read_as())
        )

    def _read_as(self) -> np.dtype[Any]:
        return self._dtype if self._dtype in _NATIVE else _F64

    def _numbers(self, place: int, count: int) -> NDArray[Any]:
        """Return `count` numbers from the number at this place of the file on."""
        size = self._dtype.itemsize
        data = bytearray(count * size)
        filled = 0
        while filled < len(data):
            # A read at a position, since several threads read at once.
            got = os.preadv(
                self._file, [memoryview(data)[filled:]], self._first + place * size + filled
            )
            if not got:
                raise InputError(
                    f"the file {self.path!r} has become shorter since it was opened: what was debited stays debited"
                )
            filled += got
        return np.frombuffer(data, self._dtype)


def _mapped(name: str) -> np.memmap[Any, Any]:
    """Return the memory map of a `.npy` file."""
    message = f"{name!r} cannot be read as a .npy file of numbers with at least one row: write it with numpy.save"
    # Mode "r" makes an accidental write an error; mode "c" (copy on write) would hide it.
    with guarded(message):
        array = np.load(name, mmap_mode="r", allow_pickle=False)
    if not isinstance(array, np.memmap):  # an archive of several arrays
        raise InputError(message)
    return array


def plain_matrix(obj: object, *, line: bool = False) -> NDArray[Any]:
    """Return an ndarray view (n, dim) of an array-like, with `line` also (n, 1) of (n,); raise InputError for any other form."""
    if type(obj) is np.ndarray:
        array: NDArray[Any] = obj
    elif isinstance(obj, np.ma.MaskedArray):
        raise InputError(
            "masked arrays are not accepted: pass array.filled(numpy.nan), NaN rows are neutral"
        )
    elif isinstance(obj, np.ndarray):
        # The method of the base class is called, so that a subclass cannot replace it.
        array = np.ndarray.view(obj, np.ndarray)
    elif isinstance(obj, list | tuple):
        array = _from_lists(obj)
    elif isinstance(obj, memoryview):
        with foreign("the memoryview does not hold numbers: pass a 2-D float array"):
            array = np.asarray(obj)
    else:
        _refuse(obj)
    if line and array.ndim == 1:
        array = array.reshape(-1, 1)
    dtype = array.dtype
    if not (dtype.kind in "biuO" or (dtype.kind == "f" and dtype.char != "g")):
        raise InputError(
            f"rows must be real numbers, got an array of dtype {_dtype_name(dtype)}: {_advice(dtype)}"
        )
    if array.ndim != 2:
        advice = {
            0: "pass a two-dimensional array (n, dim)",
            1: "pass x.reshape(-1, 1) for n rows of one number, or x.reshape(1, -1) for one row",
        }.get(array.ndim, "pass x.reshape(len(x), -1) if each x[i] is one row")
        raise InputError(
            f"rows must be two-dimensional (n, dim), got {array.ndim} dimension(s): {advice}"
        )
    return array


def _dtype_name(dtype: np.dtype[Any]) -> str:
    # A structured dtype would print its field names, a string dtype the length of its longest text.
    names = {"V": "structured or void", "U": "text", "S": "bytes", "T": "text"}
    return names.get(
        dtype.kind, dtype.name.rstrip("0123456789") if dtype.kind in "Mm" else dtype.name
    )


def _advice(dtype: np.dtype[Any]) -> str:
    if dtype.kind == "c":
        return "pass real and imaginary parts as separate columns, numpy.hstack([x.real, x.imag])"
    if dtype.kind == "V":
        return "pass numpy.lib.recfunctions.structured_to_unstructured(x)"
    if dtype.kind in "Mm":
        return "pass a number of units, such as (x - origin) / numpy.timedelta64(1, 's')"
    return "pass x.astype(numpy.float64)"


def plain_list(obj: list[Any] | tuple[Any, ...]) -> list[Any] | tuple[Any, ...]:
    """Return a plain list or tuple unchanged, and a subclass as a plain list of the items of its iterator."""
    with foreign(RAGGED):
        return obj if type(obj) in (list, tuple) else list(obj)


def _from_lists(rows: list[Any] | tuple[Any, ...]) -> NDArray[Any]:
    # Subclasses of list, and the items of a list, may run third-party code.
    with np.errstate(all="ignore"), foreign(RAGGED):
        array = np.array(plain_list(rows))
        # Arrays of objects: None, Fraction, Decimal, large integers. A type is form and may be refused; a value may not.
        if array.dtype.kind == "O":
            if not all(
                item is None or isinstance(item, numbers.Real | Decimal | np.bool_)
                for item in array.flat
            ):
                raise InputError(RAGGED)
            array = numbers_of_cells(array)
        return array


def _refuse(obj: object) -> NoReturn:
    """Raise InputError for an object that cannot be read as rows; the message names an alternative."""
    kind = type(obj).__name__
    sparse = sys.modules.get("scipy.sparse")
    if sparse is not None and sparse.issparse(obj):
        raise InputError(
            "sparse matrices are not accepted: pass x.toarray(), or Rows.from_chunks with dense pieces"
        )
    if hasattr(type(obj), "__next__"):
        raise InputError(
            f"a {kind} can be read only once, and a pass may be repeated: pass an array, or "
            "Rows.from_chunks(factory, n=..., dim=...) with a function that starts afresh"
        )
    if hasattr(type(obj), "__array__"):
        raise InputError(f"a {kind} is not read as rows by itself: pass numpy.asarray(x) of it")
    raise InputError(
        f"a {kind} cannot be read as rows: pass a 2-D NumPy array, a pandas, polars or Arrow table, a path to a .npy, "
        ".parquet, .arrow, .feather or .csv file, or Rows.from_chunks(...)"
    )
