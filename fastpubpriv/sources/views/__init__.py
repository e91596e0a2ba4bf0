"""Rows seen otherwise: ranges, pairs, interleaved blocks, mapped columns."""
