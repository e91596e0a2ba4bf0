"""Frozen results."""
