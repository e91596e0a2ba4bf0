"""The command line: `fastpubpriv mean`, `demo`, `plan`, `reproduce`, `bench` and friends."""

from fastpubpriv.cli.app import main

__all__ = ["main"]
