"""Cases of what stands below the estimators: noise, keys, row kernels, bins, trees, hypotheses, balls, passes over sources."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from golden_case import Case, steps
from golden_data import BLOBS, BLOBS_PUBLIC, CENTERS, FORMS, LARGE, LINE, PLANE, PUBLIC, ROWS, blobs, in_form, mixed

import fastpubpriv as fpp
from fastpubpriv import maps, sources
from fastpubpriv.kernels import bins, geometry, hypotheses, noise, reports, rows, seeds, tree
from fastpubpriv.keys import key_source

KEY = bytes(range(32))


def streams() -> dict[str, Any]:
    """Draws of every law, from the first and from the middle of a stream."""
    found: dict[str, Any] = {}
    for begin in (0, 4096):
        for law in (noise.gaussian_floor, noise.discrete_laplace):
            found |= {f"{law.__name__} {m} {begin}": law(KEY, 3000, m, begin=begin) for m in (8, 20, 40)}
        found[f"uniform {begin}"] = noise.uniform(KEY, 3000, begin=begin)
        found[f"below {begin}"] = noise.below(KEY, 3000, 10**12, begin=begin)
    return {**found, "permutation": noise.permutation(KEY, 500)}


def keys() -> dict[str, Any]:
    """Keys of a seed, and what happens when the operating system gives none."""
    source = key_source(12)
    found = [source.fresh() for _ in range(3)]
    with mock.patch("os.urandom", side_effect=OSError):
        try:
            key_source(None).fresh()
        except fpp.EntropyError as error:
            found.append(type(error).__name__)
    return {"keys": found, "private": [source.private, key_source(None).private]}


def row_maps() -> Iterator[tuple[str, maps.RowMap]]:
    """Row maps of every kind."""
    common = {"dim": 3, "quant_bound": 2000, "inv_step": 100.0, "limit": 1990.0, "center": PUBLIC[0]}
    lower = np.array([[1.0, 0.0, 0.0], [0.5, 0.2, 0.0], [-0.3, 0.1, 0.01]])
    kinds = maps.MatrixKind
    yield "identity", maps.RowMap(**common, out_dim=3)
    yield "diagonal", maps.RowMap(**common, out_dim=3, kind=kinds.DIAGONAL, matrix=np.array([10.0, 1.0, 0.1]))
    yield "lower", maps.RowMap(**common, out_dim=3, kind=kinds.LOWER, matrix=lower, offset=np.array([0.5, 0.0, -0.5]))
    yield "full", maps.RowMap(**common, out_dim=2, kind=kinds.FULL, matrix=lower[1:] + 0.1)


def row_kernels() -> dict[str, Any]:
    """Sums, Gram matrices, integer rows and shell counts, in both precisions."""
    found: dict[str, Any] = {}
    edges = np.array([0.25, 4.0, 100.0])
    for name, row_map in row_maps():
        for chunk in (ROWS, ROWS.clip(-1e30, 1e30).astype(np.float32)):
            sums, gram = np.zeros(row_map.out_dim, np.int64), np.zeros((row_map.out_dim,) * 2, np.int64)
            counts, quantised = np.zeros(4, np.int64), np.zeros((len(chunk), row_map.out_dim), np.int32)
            rows.rows_sum(chunk, row_map, sums)
            rows.rows_gram(chunk, row_map, gram)
            rows.rows_quantise(chunk, row_map, quantised)
            rows.rows_shell_counts(chunk, row_map, edges, counts)
            values = {"sum": sums, "gram": gram, "rows": quantised, "shells": counts}
            found |= {f"{name} {chunk.dtype} {key}": value for key, value in values.items()}
    try:
        rows.rows_sum(ROWS, row_map, np.zeros(7))
    except fpp.FastPubPrivError as error:
        found["sums of another type"] = type(error).__name__
    return found


def bin_kernels() -> dict[str, Any]:
    """Keys and counts of every rule."""
    found: dict[str, Any] = {}
    for name, rule in (("wide", bins.BinRule(5.0, 0.5)), ("narrow", bins.BinRule(1e-3)), ("dyadic", bins.BinRule())):
        column = LINE[:, 0]
        found |= {f"{name} keys": bins.bins_keys(column, rule), f"{name} counts": bins.bins_count(column, rule)}
        written = np.zeros((len(PLANE), 2), dtype=np.int64)
        for j in range(2):
            bins.write_keys(PLANE[:, j], rule, written[:, j])
        found[f"{name} tuples"] = bins.bins_count_tuples(written)
        single, double = bins.BinTable(1), bins.BinTable(2)
        single.count(column, rule)
        double.insert(written)
        found[f"{name} collected"] = bins.collect([single], 1)
        found[f"{name} collected tuples"] = bins.collect([double], 2)
        spilling = bins.BinTable(2, slots=bins.LEAST_SLOTS)
        spilling.insert(written)
        found[f"{name} spilt tuples"] = bins.collect([spilling], 2)
        found[f"{name} merged"] = bins.merged(written[:200] // 7, np.arange(200))
    found["bytes"] = [bins.table_bytes(2, 1, 2**20), bins.key_bytes(2), bins.merge_bytes(1), bins.merge_bytes(2)]
    return {name: list(value) if isinstance(value, tuple) else value for name, value in found.items()}


def trees() -> dict[str, Any]:
    """Rows down a tree of both kinds of split."""
    ball = maps.Split(
        rule=maps.Rule.BALL, origin=CENTERS[1], projection=None, centers=np.zeros((1, 3)), first_child=1, radius_sq=9.0
    )
    near = maps.Split(
        rule=maps.Rule.NEAREST, origin=np.zeros(3), projection=np.eye(3)[:2], centers=CENTERS[[0, 2], :2], first_child=3
    )
    splits = (ball, None, near, None, None)
    routes = maps.RowTree(3, splits, (1, 3, 4))
    labels = np.empty(len(BLOBS), dtype=np.int32)
    tree.tree_assign(BLOBS, routes, labels)
    grouped, begins = np.empty_like(BLOBS), np.empty(4, dtype=np.int64)
    tree.rows_group(BLOBS, labels, 3, grouped, begins)
    together, ends = tree.grouped_rows(BLOBS, routes)
    return {
        "labels": labels,
        "grouped": grouped[: begins[-1]],
        "begins": begins,
        "together": together[: ends[-1]].copy(),
        "ends": ends,
        "parents": maps.parents_of(splits),
        "path": maps.path_to(maps.parents_of(splits), 4),
        "lineage": len(maps.RowTree(3, splits, (4,)).lineage),
        "members": tree.Members(maps.RowTree(3, splits, (4,))).row_tree.lineage
        == maps.RowTree(3, splits, (4,)).lineage,
    }


def pairs() -> dict[str, Any]:
    """Loops over pairs of hypotheses, on one and on two columns."""
    rng = np.random.default_rng(61)
    size, components = 40, 2
    found: dict[str, Any] = {}
    for name, points, ends in (("line", LINE, [[0.0], [1000.0]]), ("plane", PLANE, [[0.0, 5.0], [30.0, 5.0]])):
        dim = points.shape[1]
        means = np.array(ends) + 6.0 * rng.random((size, components, dim))
        spreads = (1.0 + 9.0 * rng.random((size, components, dim))) ** 2
        table = hypotheses.mixture_table(np.full((size, components), 0.5), means, spreads)
        codes = np.zeros((table.panels, 300, hypotheses.PANEL), dtype=np.int16)
        hypotheses.density_codes(np.ascontiguousarray(points[20:320]), table, codes, 0, hypotheses.density_room(table))
        counts = np.zeros((hypotheses.PANEL, table.panels * hypotheses.PANEL), dtype=np.int32)
        hypotheses.pair_counts(codes, 300, 0, counts)
        draws = np.zeros(table.panels * hypotheses.PANEL, dtype=np.int32)
        rows = np.ascontiguousarray(points[20:320])
        hypotheses.draw_counts(rows, table, 5, draws, hypotheses.draw_room(table))
        # Codes are rounded logarithms, which another processor may round otherwise: compared as numbers.
        rounded = {"codes": codes, "pairs": counts, "draws": draws}
        found |= {f"{name} {key}": value.astype(np.float64) for key, value in rounded.items()}
        found[f"{name} constants"] = table.constants
    stds = 1.0 + 9.0 * rng.random((size, components))
    middles = np.array([0.0, 1000.0]) + 6.0 * rng.random((size, components))
    grids = np.sort((middles[..., None] + stds[..., None] * np.arange(-8.0, 9.0)).reshape(size, -1), axis=1)
    roots, numbers = np.empty((size - 4, 12)), np.zeros(size - 4, dtype=np.int64)
    hypotheses.pair_roots((-np.log(stds), middles, 1.0 / stds), grids, 3, roots, numbers)
    cells = hypotheses.panelled((100 * rng.random((size, 30))).astype(np.int32) * 16, 2**31 - 1)
    worst = np.zeros(cells.shape[0] * hypotheses.PANEL, dtype=np.int32)
    for panel in range(len(cells)):
        hypotheses.cell_scores(cells, 4, panel, worst)
    return {**found, "roots": roots, "numbers of roots": numbers, "worst": worst}


def distances() -> dict[str, Any]:
    """Isolated rows, balls and gaps."""
    index, away = geometry.most_isolated(blobs(62, 3000, 5.0 * CENTERS))
    return {
        "most isolated": [index, away],
        "terrific": str(geometry.first_terrific(BLOBS_PUBLIC, 1e4, 40, 5)),
        "gap": list(geometry.widest_gap(BLOBS_PUBLIC, 5) or ()),
    }


def local_reports() -> dict[str, Any]:
    """Reports of a key as vectors, seeds and codes, what seeds and codes stand for, and a batch as bytes."""
    x = np.array(ROWS[:6])
    made = fpp.local.PrivUnit(3, 2.0, norm_bound=2.0), fpp.local.SubsetSelection(3, 2.0, norm_bound=2.0, words=20)
    vectors, seeded, coded = np.empty((6, 3), np.int32), np.empty((6, 32), np.uint8), np.empty((6, 10), np.uint8)
    reports.report_integers(x, made[0].law, KEY, vectors)
    reports.report_seeds(x, made[0].law, KEY, seeded)
    reports.report_codes(x, made[1].book, KEY, coded)
    of_seeds, of_codes = np.empty((6, 3), np.int32), np.empty((6, 3), np.int32)
    seeds.seed_integers(seeded, made[0].law, of_seeds)
    seeds.code_integers(coded, made[1].law, of_codes)
    batch = np.frombuffer(fpp.local.Reports(made[1], coded).to_bytes(), np.uint8)
    return {
        "vectors": vectors,
        "seeds": seeded,
        "codes": coded,
        "of seeds": of_seeds,
        "of codes": of_codes,
        "batch": batch,
    }


@dataclasses.dataclass(frozen=True)
class ColumnSums(sources.Query):
    """Sums of the columns on a grid."""

    dim: int

    def zeros(self) -> tuple[np.ndarray]:
        return (np.zeros(self.dim, np.int64),)

    def add(self, chunk: np.ndarray, accumulators: tuple[np.ndarray]) -> None:
        finite = np.where(np.isfinite(chunk) & (np.abs(chunk) < 1e6), chunk, 0.0)
        accumulators[0][:] += np.rint(finite * 1024.0).astype(np.int64).sum(axis=0)


def no_memory() -> Iterator[np.ndarray]:
    """Chunks that do not fit."""
    raise MemoryError
    yield ROWS


def row_sources() -> dict[str, Any]:
    """The same rows from every kind of source, added up in chunks and threads; and public rows."""

    def total(opened: fpp.Rows, **options: Any) -> np.ndarray:
        return sources.Executor(progress=False, **options).run(ColumnSums(opened.dim), opened)

    found: dict[str, Any] = {
        "large": total(sources.private_rows(LARGE), threads=2),
        "slice": total(fpp.Rows.from_array(ROWS).slice(3, 700)),
    }
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for form in FORMS:
            opened = sources.private_rows(in_form(form, ROWS, folder))
            found[form] = total(opened, threads=2, chunk_rows=77)
            found[f"{form} says"] = f"{opened!r}, columns {opened.columns}"
        frame = in_form("pandas", ROWS, folder)
        frame.to_csv(folder / "rows.csv", index=False)
        opened = {
            "from_csv": fpp.Rows.from_csv(folder / "rows.csv", columns=["age", "weight"]),
            "from_csv, joined lines": fpp.Rows.from_csv(folder / "rows.csv", join_quoted_lines=True),
            "from_npy": fpp.Rows.from_npy(folder / "rows.npy"),
            "from_parquet": fpp.Rows.from_parquet(folder / "rows.parquet", columns=["age"]),
            "from_frame": fpp.Rows.from_frame(frame, columns=["height", "age"]),
            "from_arrow": fpp.Rows.from_arrow(in_form("arrow", ROWS, folder)),
        }
        found |= {key: total(value, chunk_rows=500) for key, value in opened.items()}
        found["public"] = sources.public_rows(in_form("pandas", PUBLIC, folder), columns=["age", "height"])
        found["one public row"] = sources.public_rows([1.0, 2.0, 3.0], dim=3)
    try:
        sources.refuse_shared_memory(LARGE, LARGE[:5])
    except fpp.InputError as error:
        found["shared"] = type(error).__name__
    sources.refuse_shared_memory(LARGE, mixed(63, 5, 3))
    try:
        total(fpp.Rows.from_chunks(no_memory, n=5, dim=3))
    except fpp.OutOfMemoryError as error:
        found["no memory"] = type(error).__name__
    return found


CASES: list[Case] = [
    steps(
        "noise",
        streams,
        *(noise.gaussian_floor, noise.discrete_laplace, noise.uniform, noise.below, noise.permutation),
    ),
    steps("keys", keys, key_source),
    steps(
        "row kernels",
        row_kernels,
        *(maps.RowMap, maps.MatrixKind, rows.rows_sum, rows.rows_gram, rows.rows_quantise, rows.rows_shell_counts),
    ),
    steps(
        "bins",
        bin_kernels,
        *(bins.BinRule, bins.BinTable, bins.collect, bins.merged, bins.bins_keys, bins.write_keys),
        *(bins.bins_count, bins.bins_count_tuples, bins.table_bytes, bins.key_bytes, bins.merge_bytes),
    ),
    steps(
        "trees",
        trees,
        *(maps.Rule, maps.Split, maps.RowTree, tree.Members, tree.grouped_rows, tree.tree_assign, tree.rows_group),
        *(maps.parents_of, maps.path_to),
    ),
    steps(
        "pairs of hypotheses",
        pairs,
        *(hypotheses.MixtureTable, hypotheses.panelled, hypotheses.mixture_table, hypotheses.density_room),
        *(
            hypotheses.density_codes,
            hypotheses.pair_counts,
            hypotheses.cell_scores,
            hypotheses.draw_room,
            hypotheses.draw_counts,
        ),
        hypotheses.pair_roots,
    ),
    steps(
        "local reports",
        local_reports,
        *(
            reports.report_integers,
            reports.report_seeds,
            reports.report_codes,
            seeds.seed_integers,
            seeds.code_integers,
        ),
    ),
    steps("distances", distances, geometry.most_isolated, geometry.first_terrific, geometry.widest_gap),
    steps(
        "sources",
        row_sources,
        *(
            fpp.Rows,
            sources.Executor,
            sources.Query,
            sources.private_rows,
            sources.public_rows,
            sources.refuse_shared_memory,
        ),
    ),
]
