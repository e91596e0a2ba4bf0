"""Benchmarks of speed: ratios to peers and to the limits of the machine, measured in one run."""
