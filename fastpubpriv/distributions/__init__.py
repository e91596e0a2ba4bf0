"""How the values of columns, groups and norms are distributed, from released counts of cells: support, tails and clip points."""
