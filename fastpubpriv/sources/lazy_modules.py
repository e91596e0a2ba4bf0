"""Packages that are imported when one of their names is first used: rows of an array need none of them."""

from __future__ import annotations

from importlib import import_module
from typing import Any


class LazyModule:
    """Stands for a module, which is imported when it is first asked for a name."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(self._name), name)


pa, compute, arrow_dataset, ipc, parquet, types = (
    LazyModule(name)
    for name in (
        "pyarrow",
        *(f"pyarrow.{part}" for part in ("compute", "dataset", "ipc", "parquet", "types")),
    )
)
polars, distributed, pandas = (LazyModule(name) for name in ("polars", "distributed", "pandas"))
dask_base, dask_core, dask_callbacks, dask_optimization, dask_threaded, spec, old_spec = (
    LazyModule(f"dask.{part}")
    for part in ("base", "core", "callbacks", "optimization", "threaded", "task_spec", "_task_spec")
)
dask_array, dask_chunk, dask_shuffle, dask_utils, dask_frames = (
    LazyModule(f"dask.{part}")
    for part in ("array.core", "array.chunk", "array._shuffle", "utils", "dataframe.io.io")
)
