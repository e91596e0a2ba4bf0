"""The thread pool, parallel loops, progress bars, and the guard that keeps private content out of errors."""
