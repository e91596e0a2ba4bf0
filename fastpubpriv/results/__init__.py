"""Frozen results."""

from fastpubpriv.results.reasons import Reason

__all__ = ["Reason"]
