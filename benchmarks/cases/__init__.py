"""Cases of the benchmarks, each with its peers: inner loops, complete calls, and the limits of the machine."""
