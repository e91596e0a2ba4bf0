"""Rows down a cluster tree, in readable NumPy: equal labels and sums to `kernels.tree`, because each sum has the same order."""

import numpy as np

from twins import rows


def tree_assign(chunk, row_tree, labels):
    with np.errstate(all="ignore"):
        x = chunk.astype(np.float64)
        node = np.where(np.isfinite(x).all(axis=1), 0, -1)
        for index, split in enumerate(row_tree.splits):
            if split is not None and index not in row_tree.targets:
                here = node == index
                node[here] = split.first_child + _child(x[here], split)
    labels[...] = -1
    for label, target in enumerate(row_tree.targets):
        labels[node == target] = label


def rows_group(chunk, labels, n_groups, out, begins):
    begins[0] = 0
    for group in range(n_groups):
        members = chunk[labels == group]
        begins[group + 1] = begins[group] + len(members)
        out[begins[group] : begins[group + 1]] = members


def _child(x, split):
    """Return the index of the child that each row goes to."""
    y = x - split.origin
    if split.projection is not None:
        t = y
        y = np.zeros((len(x), len(split.projection)))
        for k in range(t.shape[1]):
            y = y + t[:, k : k + 1] * split.projection[:, k]
    distance = np.zeros((len(x), len(split.centers)))
    for j in range(y.shape[1]):
        gap = y[:, j : j + 1] - split.centers[:, j]
        distance = distance + gap * gap
    if split.rule.name == "BALL":
        return np.where(distance[:, 0] <= split.radius_sq, 0, 1)  # NaN is outside
    best = distance[:, 0]
    child = np.zeros(len(x), dtype=np.int64)
    for c in range(1, distance.shape[1]):
        nearer = distance[:, c] < best  # the first wins ties; NaN is never nearer
        best = np.where(nearer, distance[:, c], best)
        child = np.where(nearer, c, child)
    return child


def leaf_totals(chunk, row_tree, totals, maps, *, squares=False):
    one = rows.rows_gram if squares else rows.rows_sum
    labels = np.empty(len(chunk), dtype=np.int32)
    tree_assign(chunk, row_tree, labels)
    for label, (row_map, total) in enumerate(zip(maps, totals, strict=True)):
        one(chunk[labels == label], row_map, total)
