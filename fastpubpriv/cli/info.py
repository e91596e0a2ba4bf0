"""`fastpubpriv info`: what a measurement or a bug report depends on besides the code: processor, instructions, libraries."""

from __future__ import annotations

import importlib
import os
import platform
from importlib import metadata
from typing import Any

import click

from fastpubpriv import __version__
from fastpubpriv.cli import options

PACKAGES = [
    "numpy",
    "scipy",
    "numba",
    "cffi",
    "pyarrow",
    "pandas",
    "polars",
    "matplotlib",
    "scikit-learn",
    "torch",
    "opacus",
]


def describe_machine() -> dict[str, Any]:
    """Names and versions, in the order to show them; nothing about the user, the host's name or any path."""
    from fastpubpriv.kernels.instructions import instruction_set, interface_version

    return {
        "fastpubpriv": __version__,
        "C interface": interface_version(),
        "Python": f"{platform.python_implementation()} {platform.python_version()}",
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "processor": _processor(),
        "CPUs": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "instructions": instruction_set(),
        "BLAS": _blas(),
        "compiled at first use": "by Numba: functions of the caller, not kept on disk, and searches among many public rows, kept",
        **{name: _version(name) for name in PACKAGES},
    }


def _processor() -> str:
    """Its name; on Linux, where virtual machines leave the generation out of the name, also its family and model."""
    told: dict[str, str] = {}
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            for line in lines:
                key, colon, value = line.partition(":")
                if not colon:
                    break  # the first processor ends
                told[key.strip()] = value.strip()
    except OSError:
        pass
    name = told.get("model name") or platform.processor() or "unknown"
    generation = ", ".join(
        f"{word} {told[key]}" for key, word in (("cpu family", "family"), ("model", "model")) if key in told
    )
    return f"{name} ({generation})" if generation else name


def _blas() -> str:
    """NumPy's BLAS; with threadpoolctl, also the kernels that it chose for this processor."""
    try:
        found = importlib.import_module("threadpoolctl").threadpool_info()
        names = [f"{item['internal_api']} {item['version']} ({item.get('architecture')})" for item in found]
        return ", ".join(dict.fromkeys(names)) or "unknown"
    except (ImportError, KeyError):
        import numpy as np

        config: Any = np.show_config(mode="dicts")
        blas = config.get("Build Dependencies", {}).get("blas", {})
        return f"{blas.get('name', 'unknown')} {blas.get('version', '')}".strip()


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed"


@click.command()
@options.json_option
def info(**settings: Any) -> None:
    """Versions, processor, instruction set and libraries, for bug reports. No path and no name of this machine is shown."""
    from rich.table import Table

    from fastpubpriv.cli import outputs

    outputs.check_outputs(settings)
    found = describe_machine()
    if outputs.write_json(found, settings["json_path"]):
        table = Table(show_header=False, box=None)
        for name, value in found.items():
            table.add_row(name, str(value))
        outputs.console().print(table)
