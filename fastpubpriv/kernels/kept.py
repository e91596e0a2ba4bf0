"""How far the rows of an array have gone down a growing tree: what a pass found out, the passes after it need not ask again."""

from __future__ import annotations

import weakref
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fastpubpriv.errors import InputError
from fastpubpriv.kernels import _cbuf
from fastpubpriv.kernels._cext import ffi, lib
from fastpubpriv.maps import RowTree, Split

UNASSIGNED = -1
_WORTH_KEEPING = 1 << 14  # rows


class _Step(NamedTuple):
    """A split that rows of a node go down: its name, itself, and the code of its first child; those of the others follow."""

    name: str
    split: Split
    first: int


class _Way(NamedTuple):
    """To the targets of a tree, as C reads it. Good for as long as the codes are those of `version`."""

    table: Any
    version: tuple[int, int]


class KnownNodes(NamedTuple):
    """Rows of a chunk that lies in a watched array, their codes, and the way to the targets of a tree."""

    chunk: npt.NDArray[Any]
    codes: npt.NDArray[np.int16]
    table: Any

    def write_labels(self, labels: npt.NDArray[np.int32]) -> None:
        """Send the rows on, and write which target each of them reaches, labels (n,) int32; -1 for none."""
        _cbuf.expect("labels", labels, np.int32, (len(self.chunk),))
        dim = self.chunk.shape[1]
        work = ffi.from_buffer(_cbuf.scratch(lib.fpp_kept_workspace_size(dim, self.table, ffi.NULL), "kept"))
        codes = _cbuf.out(self.codes)
        _cbuf.check(lib.fpp_kept_labels(*self._rows(), dim, self.table, work, codes, _cbuf.out(labels)))

    def add(self, each: Any) -> None:
        """Send the rows on, and add up what `each` (fpp_each) asks for."""
        dim = self.chunk.shape[1]
        size = lib.fpp_kept_workspace_size(dim, self.table, each)
        if size < 0:
            raise InputError(f"maps of rows of {dim} columns, one for each target, are needed")
        work = ffi.from_buffer(_cbuf.scratch(size, "kept"))
        _cbuf.check(lib.fpp_kept_add(*self._rows(), dim, self.table, each, work, _cbuf.out(self.codes)))

    def _rows(self) -> tuple[Any, int, int, int]:
        rows, stride = _cbuf.rows(self.chunk, self.chunk.shape[1])
        return rows, int(self.chunk.itemsize == 4), len(self.chunk), stride


class KeptNodes:
    """For each row of an array the deepest node of a growing tree that it is known to reach, in two bytes: private data.

    A row goes down the same splits by the same operations as without this, but each of them once: the same bits. The array is
    held here, so that nothing else can lie in its memory; a chunk that does not lie there goes down the tree anew.
    """

    __slots__ = ("_base", "_begun", "_codes", "_names", "_parents", "_steps")

    def __init__(self, base: npt.NDArray[Any]) -> None:
        self._base = base
        self._codes = np.zeros(len(base), dtype=np.int16)
        self._begun = 0
        self._forget()

    @classmethod
    def of(cls, base: npt.NDArray[Any] | None, max_memory: int | None) -> KeptNodes | None:
        """For an array that is worth it and a bound in bytes that allows it; else None."""
        if base is None or len(base) < _WORTH_KEEPING or (max_memory is not None and 2 * len(base) > max_memory):
            return None
        return cls(base)

    def watch(self, row_tree: RowTree) -> None:
        """Route rows of the array down this tree by what is known of them. To be called between two passes."""
        if row_tree.above and len(self._parents) + len(row_tree.splits) < np.iinfo(np.int16).max:
            _WATCHED[row_tree] = self, self._way(row_tree)

    def known(self, chunk: npt.NDArray[Any], way: _Way) -> KnownNodes | None:
        """Rows of a chunk; None if the chunk is no part of the array, or the tree was watched too long ago."""
        codes = self._of_chunk(chunk)
        return None if codes is None or way.version != self._version else KnownNodes(chunk, codes, way.table)

    def _of_chunk(self, chunk: npt.NDArray[Any]) -> npt.NDArray[np.int16] | None:
        base = self._base
        if chunk.dtype != base.dtype or chunk.shape[1:] != base.shape[1:] or not len(chunk):
            return None
        if len(chunk) > 1 and chunk.strides != base.strides:
            return None
        first, rest = divmod(_cbuf.address(chunk) - _cbuf.address(base), base.strides[0])
        if rest or not 0 <= first <= len(base) - len(chunk):
            return None
        return self._codes[first : first + len(chunk)]

    def _forget(self) -> None:
        """Begin again: of all rows nothing is known but that they are in the root."""
        self._codes[:] = 0
        self._begun += 1
        self._names: dict[str, int] = {}
        self._parents: list[int] = []
        self._steps: dict[int, _Step] = {}

    def _way(self, row_tree: RowTree) -> _Way:
        names, splits = {0: f"{row_tree.dim} columns"}, {}
        for node in sorted(row_tree.above):
            split = row_tree.splits[node]
            assert split is not None
            splits[node] = split.named(names[node]), split
            names.update({child: f"{splits[node][0]}/{child}" for child in split.children})
        # A node may be split in another way after a first split was taken back.
        known = {names[node]: name for node, (name, _) in splits.items()}
        before = {name: self._steps[code].name for name, code in self._names.items() if code in self._steps}
        if any(known.get(name, split) != split for name, split in before.items()):
            self._forget()
        taken = [self._step(names, node, *splits[node]) for node in sorted(splits)]
        groups = np.full(len(self._parents), UNASSIGNED, dtype=np.int32)
        targets = {self._names[names[target]]: label for label, target in enumerate(row_tree.targets)}
        for code, parent in enumerate(self._parents):  # a parent comes first, and what is below a target counts as it
            groups[code] = targets.get(code, groups[parent] if parent >= 0 else UNASSIGNED)
        groups[taken] = -2 - np.arange(len(taken))
        steps = [node_fields(self._steps[code].split, self._steps[code].first) for code in taken]
        sizes = {"n_steps": len(taken), "n_codes": len(groups), "n_groups": row_tree.n_labels}
        arrays = {"steps": _cbuf.new("fpp_tree_node[]", steps), "groups": _cbuf.inp(groups)}
        return _Way(_cbuf.new("fpp_kept *", {**sizes, **arrays}), self._version)

    @property
    def _version(self) -> tuple[int, int]:
        return self._begun, len(self._parents)

    def _step(self, names: dict[int, str], node: int, name: str, split: Split) -> int:
        """The code whose rows go down a split."""
        code = self._code(names[node], UNASSIGNED)
        if code not in self._steps:
            # The name of a child begins with that of its split, so that all of them are new and get codes one after another.
            codes = [self._code(names[child], code) for child in split.children]
            self._steps[code] = _Step(name, split, codes[0])
        return code

    def _code(self, name: str, parent: int) -> int:
        if name not in self._names:
            self._names[name] = len(self._parents)
            self._parents.append(parent)
        return self._names[name]


def known_nodes(chunk: npt.NDArray[Any], row_tree: RowTree) -> KnownNodes | None:
    """Rows of a chunk where earlier passes have left something to go by."""
    watched = _WATCHED.get(row_tree)
    return None if watched is None else watched[0].known(chunk, watched[1])


def node_fields(split: Split, first_child: int) -> dict[str, Any]:
    """A split as C reads it: the fields of a node."""
    arrays = {"origin": split.origin, "centers": split.centers, "projection": split.projection}
    return {
        "rule": split.rule.value,
        "radius_sq": split.radius_sq,
        "n_centers": split.centers.shape[0],
        "out_dim": split.centers.shape[1],
        "first_child": first_child,
        **{name: ffi.from_buffer("double[]", array) for name, array in arrays.items() if array is not None},
    }


_WATCHED: weakref.WeakKeyDictionary[RowTree, tuple[KeptNodes, _Way]] = weakref.WeakKeyDictionary()
