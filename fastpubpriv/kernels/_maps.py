"""A row map as C reads it."""

from __future__ import annotations

from typing import Any

from fastpubpriv.kernels import _cbuf
from fastpubpriv.kernels._cext import ffi
from fastpubpriv.maps import RowMap


def map_table(row_map: RowMap) -> Any:
    """The C side of a map."""
    center, matrix, offset = [
        ffi.NULL if v is None else ffi.from_buffer("double[]", v)
        for v in (row_map.center, row_map.matrix, row_map.offset)
    ]
    kind = row_map.kind._value_
    return _cbuf.new(
        "fpp_row_map *",
        (
            row_map.dim, row_map.out_dim, row_map.quant_bound, kind,
            center, matrix, offset, row_map.inv_step, row_map.limit,
        ),
    )  # fmt: skip
