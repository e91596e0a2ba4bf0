"""Gradients of a module by rows, through Opacus, and their released sum; and the rows, of which only the form is ever looked at."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from fastpubpriv._types import FloatArray, IntArray
from fastpubpriv.errors import InputError
from fastpubpriv.kernels.rows import rows_sum
from fastpubpriv.mechanisms.gradients import Gradient, whole_row_map
from fastpubpriv.row_maps import RowMap
from fastpubpriv.sources import Query
from fastpubpriv.sources.base import Chunk

_PIECE = 1 << 25  # numbers of gradients of single rows held at a time


def import_torch() -> Any:
    """PyTorch, if it and Opacus are there."""
    try:
        import opacus  # noqa: F401
        import torch
    except ImportError:
        raise InputError("this needs PyTorch and Opacus: pip install 'fastpubpriv[torch]'") from None
    return torch


class Table:
    """Labelled rows of tensors or of a dataset; only lengths are looked at before rows are asked for."""

    def __init__(self, torch: Any, data: Any, name: str) -> None:
        self._torch = torch
        self._pair = None
        if isinstance(data, tuple | list):
            if len(data) != 2 or not all(isinstance(each, torch.Tensor) for each in data):
                raise InputError(f"{name} must be a pair of tensors (x, y), or a dataset of such pairs")
            if len(data[0]) != len(data[1]):
                raise InputError(f"{name} has {len(data[0])} rows and {len(data[1])} labels")
            self._pair = (data[0].detach(), data[1].detach())
            self.n = len(data[0])
        else:
            if not hasattr(data, "__len__") or not hasattr(data, "__getitem__"):
                raise InputError(f"{name} must be a pair of tensors (x, y), or a dataset with a length and positions")
            self.n = len(data)
        self._data = data
        if self.n < 1:
            raise InputError(f"{name} has no rows")

    def item(self, place: int) -> tuple[Any, Any]:
        """One row and its label, as tensors."""
        x, y = self._data[place] if self._pair is None else (self._pair[0][place], self._pair[1][place])
        return self._torch.as_tensor(x), self._torch.as_tensor(y)

    def rows(self, places: IntArray, kind: RowGradients) -> tuple[Any, Any, Any]:
        """Rows at these positions, stacked, and which of them count; the others are replaced by the first public row."""
        if self._pair is not None and self._pair[0].is_floating_point():
            x, y = (part[self._torch.from_numpy(places)] for part in self._pair)
            counts = kind.fitting(x, y)
            x[~counts], y[~counts] = kind.example
            return x, y, counts.cpu().numpy()
        pairs, counts = [], np.ones(len(places), dtype=bool)
        for i, place in enumerate(places.tolist()):
            try:
                pair = self.item(place)
                counts[i] = kind.alike(*pair) and bool(kind.fitting(*(part[None] for part in pair))[0])
            except Exception:  # of a private row nothing may be learnt, not even that it cannot be read
                counts[i] = False
            pairs.append(pair if counts[i] else kind.example)
        stack = self._torch.stack
        return stack([x for x, _ in pairs]), stack([y for _, y in pairs]), counts


class RowGradients:
    """The gradients of a module's loss, row by row, as one vector each: what Opacus is for."""

    def __init__(self, torch: Any, module: Any, loss: Callable[[Any, Any], Any], example: tuple[Any, Any]) -> None:
        from opacus import GradSampleModule
        from opacus.validators import ModuleValidator

        self._torch, self._loss, self.example = torch, loss, example
        if not isinstance(module, torch.nn.Module):
            raise InputError(f"module must be a torch.nn.Module, got {type(module).__name__}")
        if not example[0].is_floating_point():
            raise InputError("x must be floating point: convert whole numbers and codes before")
        if isinstance(module, GradSampleModule):
            raise InputError(
                "module must be the plain module: pass the one inside GradSampleModule, after remove_hooks()"
            )
        problems = ModuleValidator.validate(module, strict=False)
        if problems:
            raise InputError(f"Opacus cannot take gradients of this module row by row: {problems[0]}")
        self._module = GradSampleModule(module, loss_reduction="sum")
        self.parameters = [p for p in module.parameters() if p.requires_grad]
        if not self.parameters:
            raise InputError("module has no parameters to train")
        self.size = sum(p.numel() for p in self.parameters)
        self.piece = max(1, _PIECE // self.size)
        self._device = self.parameters[0].device
        with torch.no_grad():
            self._outputs = self._module(example[0][None].to(self._device)).shape[1:]

    def close(self) -> None:
        """Leave the module as it was, but for its parameters."""
        self._module.remove_hooks()

    def alike(self, x: Any, y: Any) -> bool:
        """Whether a row has the shapes and types of the first public row."""
        first_x, first_y = self.example
        return (x.shape, x.dtype, y.shape, y.dtype) == (first_x.shape, first_x.dtype, first_y.shape, first_y.dtype)

    def fitting(self, x: Any, y: Any) -> Any:
        """Which of k rows are finite, and have labels that an output stands for; (k,) bool."""
        good = self._torch.isfinite(x).flatten(1).all(dim=1)
        if y.is_floating_point():
            label = self._torch.isfinite(y)
        else:
            # A whole number is a class; where there is one output, only 0 and 1 are.
            label = (y >= 0) & (y < (max(2, int(self._outputs[0])) if len(self._outputs) else 2))
        return good & label.reshape(len(x), -1).all(dim=1)

    def gradients(self, x: Any, y: Any) -> Any:
        """Gradients of k rows, (k, size) float32 or float64, in NumPy."""
        for p in self.parameters:
            p.grad, p.grad_sample = None, None
        values = self._loss(self._module(x.to(self._device)), y.to(self._device))
        if tuple(values.shape) != (len(x),):
            raise InputError("loss must return one number for each row: pass reduction='none'")
        with warnings.catch_warnings():
            # Inputs need no gradients, and Opacus's hooks work without.
            warnings.filterwarnings("ignore", message="Full backward hook is firing")
            values.sum().backward()
        found = self._torch.cat([p.grad_sample.reshape(len(x), -1) for p in self.parameters], dim=1)
        for p in self.parameters:
            p.grad, p.grad_sample = None, None
        return found.detach().cpu().numpy()


@dataclass(frozen=True, slots=True, eq=False)
class ModuleGradient(Gradient):
    """Gradients of a module's loss by rows of a table; rows are asked for by position."""

    rows_of: RowGradients
    table: Table

    @property
    def shape(self) -> tuple[int, ...]:
        """See `Gradient.shape`."""
        return (self.rows_of.size,)

    def query(self, grid: Any, clip_norm: float) -> Query:
        """See `Gradient.query`."""
        return ModuleGradientQuery(self.rows_of, self.table, whole_row_map(self.rows_of.size, grid, clip_norm))


@dataclass(frozen=True, slots=True, eq=False)
class ModuleGradientQuery(Query):
    """Sum of the integer gradients of the rows at given positions."""

    rows_of: RowGradients
    table: Table
    row_map: RowMap

    def zeros(self) -> tuple[IntArray]:
        """See `Query.zeros`."""
        return (np.zeros(self.row_map.dim, dtype=np.int64),)

    def add(self, chunk: Chunk, accumulators: tuple[IntArray]) -> None:
        """See `Query.add`."""
        places = chunk[:, 0].astype(np.int64)
        for begin in range(0, len(places), self.rows_of.piece):
            x, y, counts = self.table.rows(places[begin : begin + self.rows_of.piece], self.rows_of)
            found = self.rows_of.gradients(x, y)
            found[~counts] = 0.0
            rows_sum(found, self.row_map, accumulators[0])


class PublicBatches:
    """Fresh public rows in each step, and their gradient."""

    def __init__(self, torch: Any, rows_of: RowGradients, table: Table, size: int, clip_norm: float, form: str) -> None:
        self._torch, self._table, self._size, self._clip_norm, self._form = torch, table, size, clip_norm, form
        self.rows_of, self.n = rows_of, table.n
        # Which public rows a step takes is public: a fixed seed.
        self._generator = torch.Generator().manual_seed(0)

    def gradient(self) -> FloatArray:
        """The mean gradient of a fresh batch, (size,)."""
        rows_of = self.rows_of
        places = self._torch.randperm(self.n, generator=self._generator)[: self._size].numpy()
        total = np.zeros(rows_of.size)
        for begin in range(0, len(places), rows_of.piece):
            pairs = [self._table.item(int(place)) for place in places[begin : begin + rows_of.piece]]
            found = rows_of.gradients(*(self._torch.stack(list(part)) for part in zip(*pairs, strict=True)))
            found = found.astype(np.float64)
            if self._form != "raw":
                norms = np.sqrt(np.einsum("ij,ij->i", found, found))
                factor = self._clip_norm / np.maximum(norms, 1e-300)
                factor[norms == 0.0] = 0.0
                found *= (factor if self._form == "sphere" else np.minimum(1.0, factor))[:, None]
            total += found.sum(axis=0)
        return total / len(places)
