"""The hot loops with their peers, for guards, suites and the ratio table; and the limits of the machine."""
