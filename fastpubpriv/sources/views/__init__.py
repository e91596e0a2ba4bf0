"""Rows made from those of another source: ranges, pairs, interleaved blocks, mapped columns."""
