"""Parallel loops, progress bars, and the guard that keeps private content out of errors."""
