"""Counts of the occupied bins of private values: a dense window, and a hash table for the rest (C, one thread, no GIL)."""

from __future__ import annotations

import math
import mmap
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fastpubpriv._types import IntArray
from fastpubpriv.errors import InputError, KernelError
from fastpubpriv.kernels import _cbuf
from fastpubpriv.kernels._cext import ffi, lib

NONE: int = lib.FPP_BIN_NONE
WORDS_MAX: int = lib.FPP_BIN_WORDS_MAX
DYADIC_KEYS = 2099  # -1075 ... 1023
LEAST_SLOTS = 4096  # of a hash table
_PAGED = 2**19  # bytes from which on a copy gets its own pages
_SAMPLE = 512  # values by which the window is placed
_BASE_MAX = 2**50
_FLUSH_ROWS = 2**31  # rows that 32-bit counters can hold
# A window is _REACH times the range of the middle nine tenths of a sample if memory allows. If few cells get most of the rows, each
# has several counters (lanes), so that an increment need not wait for the previous one.
_REACH = 128
_LANES = ((32, 8), (128, 4))  # (largest range in cells, lanes)
_COUNTERS = 2**19  # counters of the windows of one thread
# Rows of which most are alone in their bin are written down and sorted, which is several times as fast as a hash table that
# does not fit into the caches: once a table has grown, and while fewer than this many rows share a key; so many at once.
_SORTED_ROWS_PER_KEY = 4
_SORTED_AT_ONCE = 2**22
_WINDOW_MIN = 2**12


@dataclass(frozen=True, slots=True)
class BinRule:
    """A public rule that maps a number to a bin: dyadic, or of a fixed width.

    Key i holds [offset + (i - 1/2) width, offset + (i + 1/2) width); with width None, it holds 2^i < |x| <= 2^(i + 1).

    Guarantees
    ----------
    The key of a number depends on that number and the rule alone, in every chunk, thread and instruction set. NaN,
    infinities, keys beyond 2^53 and, for dyadic bins, zero are in no bin: their key is NONE.
    """

    width: float | None = None
    offset: float = 0.0

    def __post_init__(self) -> None:
        if self.width is not None and not 0.0 < self.width < math.inf:
            raise InputError(f"a bin width must be positive and finite, got {self.width!r}")
        if not math.isfinite(self.offset):
            raise InputError(f"a bin offset must be finite, got {self.offset!r}")

    @property
    def dyadic(self) -> bool:
        """True for bins between powers of two."""
        return self.width is None


class BinTable:
    """The counts of one thread. `count` and `insert` add to them; `collected` returns them."""

    # A key has `words` integers, 1 for `count`, and `tables` tables share the memory for dense windows. A hash table of `slots`, a
    # power of two of at least LEAST_SLOTS, is moved to a list when it is full, as large as its keys. With None it grows.

    __slots__ = (
        "_arrays",
        "_counted",
        "_counters",
        "_dense",
        "_is_sorting",
        "_most",
        "_pending",
        "_rule",
        "_spilt",
        "_table",
        "_totals",
        "_unsorted",
        "_view",
        "words",
    )

    def __init__(self, words: int = 1, tables: int = 1, slots: int | None = None) -> None:
        if not 1 <= words <= WORDS_MAX:
            raise InputError(f"a bin may have 1 to {WORDS_MAX} keys, got {words}")
        if slots is not None and (slots < LEAST_SLOTS or slots & (slots - 1)):
            raise KernelError(
                f"a table has a power of two of at least {LEAST_SLOTS} slots, got {slots}"
            )
        self.words = words
        self._most = slots
        self._spilt: list[tuple[IntArray, IntArray]] = []
        self._unsorted: list[IntArray] = []
        self._is_sorting = False
        self._counted = 0
        self._counters = _COUNTERS // max(1, tables)
        self._rule: BinRule | None = None
        self._dense: npt.NDArray[np.uint32] | None = None
        self._totals: IntArray | None = None
        self._pending = 0
        self._view: dict[str, Any] = {}
        self._allocate(LEAST_SLOTS)

    def _allocate(self, slots: int) -> None:
        self._arrays = (
            np.empty((slots, self.words), dtype=np.int64),
            np.zeros(slots, dtype=np.int64),
        )
        self._describe(0)

    def _describe(self, used: int) -> None:
        """Build the C structure from the current arrays and window."""
        keys, counts = (_cbuf.out(array.reshape(-1)) for array in self._arrays)
        slots = {
            "words": self.words,
            "slots": len(self._arrays[1]),
            "used": used,
            "keys": keys,
            "counts": counts,
        }
        self._table = _cbuf.new("fpp_bin_table *", {**slots, **self._view})

    def _grow(self) -> None:
        keys, counts = self._arrays
        is_sparse = self._table.used * _SORTED_ROWS_PER_KEY > self._counted
        if (
            self._rule is not None
            and not self._rule.dyadic
            and len(counts) > LEAST_SLOTS
            and is_sparse
        ):
            self._write_down()
            return
        slots = 4 * len(counts) if len(counts) < 2**20 else 2 * len(counts)
        if self._most is not None and slots > self._most:
            slots = self._most
        if slots > len(counts):
            self._allocate(slots)
            self._insert(keys, counts)
            return
        taken = np.flatnonzero(counts)
        self._spilt.append((_in_pages(keys, taken), _in_pages(counts, taken)))
        counts[:] = 0
        self._table.used = 0

    def _insert(self, keys: IntArray, counts: IntArray | None) -> None:
        begin = 0
        done = ffi.new("int64_t *")
        while True:
            left = keys[begin:]
            weights = ffi.NULL if counts is None else _cbuf.inp(counts[begin:])
            _cbuf.check(
                lib.fpp_bins_insert(
                    _cbuf.inp(left.reshape(-1)), weights, len(left), self._table, done
                )
            )
            begin += done[0]
            if begin == len(keys):
                return
            self._grow()

    def insert(self, keys: IntArray) -> None:
        """Count each of the keys (n, words); rows with a NONE in them are ignored."""
        if (
            keys.dtype != np.int64
            or keys.ndim != 2
            or keys.shape[1] != self.words
            or not keys.flags.c_contiguous
        ):
            raise KernelError(f"keys must be a C-contiguous int64 array of shape (n, {self.words})")
        self._insert(keys, None)

    def count(self, column: npt.NDArray[Any], rule: BinRule) -> None:
        """Count the bins of a column (n,), float64 or float32 at any stride; KernelError if the rule changes."""
        if self.words != 1 or (self._rule is not None and self._rule != rule):
            raise KernelError("a table counts one rule")
        self._rule = rule
        call = lib.fpp_bins_count_f64 if column.dtype == np.float64 else lib.fpp_bins_count_f32
        begin = 0
        done = ffi.new("int64_t *")
        while begin < len(column):
            if self._is_sorting:
                part = column[begin : begin + self._sorted_at_once - self._counted]
                self._sort_later(bins_keys(part, rule))
                begin += len(part)
                continue
            if self._dense is None:
                self._open(column[begin:], rule)
            if self._pending > _FLUSH_ROWS:
                self._flush()
            x, n, stride = _column(column[begin : begin + _FLUSH_ROWS])
            _cbuf.check(call(x, n, stride, _rule(rule), self._table, done))
            self._pending += done[0]
            self._counted += done[0]
            begin += done[0]
            if done[0] < n:
                self._grow()

    def _write_down(self) -> None:
        """Free the window and the hash table, and write the keys of further rows down instead of counting them."""
        keys, counts = self.collected()
        is_short = self._counted <= self._sorted_at_once // 4
        self._close()
        self._is_sorting = True
        self._counted = 0
        if is_short:
            self._sort_later(np.repeat(keys[:, 0], counts))  # one list fewer to be merged
        else:
            self._spilt.append((keys, counts))

    @property
    def _sorted_at_once(self) -> int:
        # Sorting takes at most 33 bytes a key, and the table that it stands for 16 bytes a slot.
        return _SORTED_AT_ONCE if self._most is None else min(_SORTED_AT_ONCE, self._most // 2)

    def _sort_later(self, keys: IntArray) -> None:
        is_in_a_bin = keys != NONE
        self._unsorted.append(keys if is_in_a_bin.all() else keys[is_in_a_bin])
        self._counted += len(self._unsorted[-1])
        if self._counted >= self._sorted_at_once:
            self._sort()

    def _sort(self) -> None:
        """Move the keys that were written down to a list of distinct keys; count by a table again if few are distinct."""
        keys = np.concatenate(self._unsorted)
        self._unsorted.clear()
        keys.sort()
        is_first = np.ones(len(keys), dtype=bool)
        np.not_equal(keys[1:], keys[:-1], out=is_first[1:])
        starts = np.flatnonzero(is_first)
        counts = np.empty_like(starts)
        np.subtract(starts[1:], starts[:-1], out=counts[:-1])
        counts[-1:] = len(keys) - starts[-1:]
        self._spilt.append((_in_pages(keys[:, None], starts), counts))
        self._is_sorting = len(starts) * _SORTED_ROWS_PER_KEY > len(keys)
        self._counted = 0

    def _close(self) -> None:
        """Free the window and the hash table."""
        self._dense = self._totals = None
        self._view = {}
        self._pending = 0
        self._allocate(LEAST_SLOTS)

    def _open(self, column: npt.NDArray[Any], rule: BinRule) -> None:
        """Place the dense window by a sample of the next numbers. Its position affects only the speed."""
        if rule.dyadic:
            base = -1023
            window = lib.FPP_BIN_DYADIC_CELLS
            lanes = 8
        else:
            sample = bins_keys(column[:: max(1, len(column) // _SAMPLE)], rule)
            sample = np.sort(sample[sample != NONE])
            edge = len(sample) // 20
            middle = int(sample[len(sample) // 2]) if len(sample) else 0
            spread = int(sample[len(sample) - edge - 1]) - int(sample[edge]) if len(sample) else 0
            lanes = next((number for most, number in _LANES if spread <= most), 1)
            most = min(self._counters // lanes, 1 << (16 * len(column)).bit_length())
            window = max(
                _WINDOW_MIN,
                min(1 << (_REACH * (spread + 1)).bit_length(), 1 << most.bit_length() - 1),
            )
            base = min(max(middle - window // 2, -_BASE_MAX), _BASE_MAX)
        self._dense = np.zeros((window + 1) * lanes, dtype=np.uint32)
        self._totals = None
        dense = ffi.from_buffer("uint32_t[]", self._dense, require_writable=True)
        self._view = {"base": base, "window": window, "lanes": lanes, "dense": dense}
        self._describe(self._table.used)

    def _flush(self) -> None:
        if self._dense is not None:
            if self._totals is None:
                self._totals = np.zeros(self._table.window, dtype=np.int64)
            _cbuf.check(lib.fpp_bins_flush(self._table, _cbuf.out(self._totals)))
        self._pending = 0

    def _window(self) -> tuple[IntArray, IntArray]:
        """Return the cells of the window with nonzero counts, and these counts."""
        if self._dense is not None and self._totals is None and self._table.lanes == 1:
            cells = np.flatnonzero(self._dense[:-1] != 0)  # faster on booleans than on integers
            return cells, self._dense[cells].astype(np.int64)
        self._flush()
        if self._totals is None:
            return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
        cells = np.flatnonzero(self._totals != 0)
        return cells, self._totals[cells]

    def collected(self) -> tuple[IntArray, IntArray]:
        """Return keys (b, words) and counts (b,), without those in lists; each key once, ascending if `words` is 1."""
        cells, inside = self._window()
        keys, counts = self._arrays
        taken = np.flatnonzero(counts != 0)
        if self.words == 1 and len(taken):
            taken = taken[np.argsort(keys[taken, 0])]
        bins = keys[taken]
        numbers = counts[taken]
        if self._rule is None:
            return bins, numbers
        if self._rule.dyadic:
            # values of the other cells were counted one by one
            counted = (cells > 0) & (cells < 2046)
            cells = cells[counted]
            inside = inside[counted]
        window = (self._table.base + cells)[:, None], inside
        if not len(taken):  # all bins are in the window, as in most small data sets
            return window
        below = np.searchsorted(bins[:, 0], self._table.base, side="right")
        parts = (bins[:below], numbers[:below]), window, (bins[below:], numbers[below:])
        return np.concatenate([part[0] for part in parts]), np.concatenate(
            [part[1] for part in parts]
        )

    def drained(self) -> list[tuple[IntArray, IntArray]]:
        """Return all keys and counts, in lists that may share keys. The table frees its memory and cannot be used afterwards."""
        if self._unsorted:
            self._sort()
        inside = self.collected()
        lists = [*self._spilt, inside] if len(inside[1]) or not self._spilt else [*self._spilt]
        self._spilt.clear()
        self._close()
        return lists


@dataclass(frozen=True, slots=True, eq=False)
class CountedKeys:
    """Collected keys (b, words) and counts (b,), to be merged with those of other tables."""

    keys: IntArray
    counts: IntArray

    @property
    def nbytes(self) -> int:
        """Bytes of keys and counts."""
        return int(self.keys.nbytes + self.counts.nbytes)

    def drained(self) -> list[tuple[IntArray, IntArray]]:
        """See `BinTable.drained`; these arrays are not freed."""
        return [(self.keys, self.counts)]


def _in_pages(array: IntArray, taken: IntArray) -> IntArray:
    """Return array[taken] in separate pages, which go back to the system when freed; on the heap it would leave gaps."""
    shape = len(taken), *array.shape[1:]
    size = math.prod(shape)
    if 8 * size < _PAGED:
        return array[taken]
    copy = np.frombuffer(mmap.mmap(-1, 8 * size), dtype=np.int64).reshape(shape)
    # indices are valid; "raise" would buffer the copy
    return np.take(array, taken, axis=0, out=copy, mode="clip")


def table_bytes(words: int, tables: int, slots: int) -> int:
    """Return the maximum bytes of a table, also while it grows, without its lists."""
    counters = _COUNTERS // max(1, tables)
    window = 4 * (max(counters, 8 * _WINDOW_MIN) + 8) + 8 * max(counters, _WINDOW_MIN)
    return window + 3 * slots * key_bytes(words) // 2


def key_bytes(words: int) -> int:
    """Return the bytes of a key and its count."""
    return 8 * words + 8


def merge_bytes(words: int) -> int:
    """Return the further bytes of `collect` per key: a copy of keys and counts, marks, and workspace to sort by several words."""
    return 9 * words + (9 if words == 1 else 20)


def collect(tables: Iterable[BinTable | CountedKeys], words: int) -> tuple[IntArray, IntArray]:
    """Return keys (b, words), each once, in lexical order, and counts (b,) of all tables, which cannot be used afterwards."""
    lists = [part for table in tables for part in table.drained()]
    total = sum(len(counts) for _, counts in lists)
    if len(lists) == 1:
        return merged(*lists.pop())
    keys = np.empty((total, words), dtype=np.int64)
    counts = np.empty(total, dtype=np.int64)
    while lists:  # each list is dropped once it has been copied
        begin = total - len(lists[-1][1])
        keys[begin:total], counts[begin:total] = lists.pop()
        total = begin
    arrays = [keys, counts]
    del keys, counts
    return merged(arrays.pop(0), arrays.pop())


def merged(keys: IntArray, counts: IntArray) -> tuple[IntArray, IntArray]:
    """Return keys (b, words) in lexical order with the counts of equal ones added up."""
    if len(keys) == 0:
        return keys, counts
    if keys.shape[1] > 1:
        order = np.lexsort(keys.T[::-1])
        keys = keys[order]
        counts = counts[order]
        del order
    elif not bool((keys[1:, 0] >= keys[:-1, 0]).all()):
        order = np.argsort(keys[:, 0], kind="stable")  # fast where sorted lists follow each other
        keys = keys[order]
        counts = counts[order]
        del order
    first = np.concatenate([[True], (keys[1:] != keys[:-1]).any(axis=1)])
    if first.all():
        return keys, counts
    starts = np.flatnonzero(first)
    del first
    keys = keys[starts]
    return keys, np.add.reduceat(counts, starts)


def bins_keys(column: npt.NDArray[Any], rule: BinRule) -> IntArray:
    """Return the keys (n,) int64 of the numbers of a column (n,), float64 or float32, under a rule."""
    keys = np.empty(len(column), dtype=np.int64)
    write_keys(column, rule, keys)
    return keys


def write_keys(column: npt.NDArray[Any], rule: BinRule, keys: IntArray) -> None:
    """Write the keys of a column (n,) to keys (n,), at any stride."""
    x, n, stride = _column(column)
    if keys.dtype != np.int64 or keys.shape != (n,):
        raise KernelError(f"keys must be an int64 array of shape ({n},)")
    call = lib.fpp_bins_keys_f64 if column.dtype == np.float64 else lib.fpp_bins_keys_f32
    target, apart = _cbuf.strided(keys)
    _cbuf.check(call(x, n, stride, _rule(rule), apart, target))


def _rule(rule: BinRule) -> Any:
    kind = lib.FPP_BINS_DYADIC if rule.width is None else lib.FPP_BINS_WIDTH
    return _cbuf.new(
        "fpp_bin_rule *", (kind, rule.offset, 1.0 if rule.width is None else rule.width)
    )


def _column(column: npt.NDArray[Any]) -> tuple[Any, int, int]:
    """Return pointer, length and stride of a column."""
    if column.dtype not in (np.float64, np.float32):
        raise KernelError("a column must be an aligned, one-dimensional float64 or float32 array")
    x, stride = _cbuf.strided(column)
    return x, len(column), stride
