"""The command line: `fastpubpriv mean`, `train`, `plan`, `audit` and friends."""

from fastpubpriv.cli.app import main

__all__ = ["main"]
