"""Lists of candidates for one component of a mixture, as in the axis-aligned mixtures paper."""
