"""What is computed from a row alone, as values that kernels read: row maps and losses."""
