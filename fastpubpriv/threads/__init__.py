"""The thread pool, numbered steps of work, progress bars, and the guard that keeps private content out of errors."""
