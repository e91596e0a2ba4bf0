"""Plans of lazy sources: steps that make each row of one row are taken, all others are refused in words."""

import datetime
import decimal
import operator
import re

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from helpers.errors import raises
from helpers_sources import content

from fastpubpriv import ZCDP, InputError, Ledger, estimate_mean
from fastpubpriv.sources import array_plans, private_rows, rescanned

SECRET = "Alice-SSN-123"
N = 12
ROWS_ALONE = "not known to make each row of one row"
TEXTS = [f"{i}" for i in range(N)]
TEXTS[3] = SECRET
HELD = {
    "a": np.linspace(-2.0, 3.0, N),
    "b": np.arange(N),
    "f": np.linspace(0.0, 1.0, N).astype(np.float32),
    "t": TEXTS,
    "d": [datetime.date(2020, 1, 1)] * N,
    "m": [decimal.Decimal("1.5")] * N,
}
FRAME = pl.DataFrame(HELD)
A = pl.col("a")
B = pl.col("b")
T = pl.col("t")


TAKEN = {
    "as it is": lambda f: f.select("a", "b"),
    "drop": lambda f: f.drop("t", "d", "m"),
    "rename": lambda f: f.select("a", "b").rename({"a": "z"}),
    "select": lambda f: f.select(A * 2 + B, (A / 3 - 1).alias("c"), (-B).alias("n")),
    "with_columns": lambda f: f.select("a", "b").with_columns(c=A**2, e=B * B, g=pl.lit(1.0)),
    "division by what may be zero": lambda f: f.select(
        A / B, (B // (B - 3)).alias("q"), (B % (B - 3)).alias("r")
    ),
    "when": lambda f: f.select(pl.when(A > 0).then(A).otherwise(B)),
    "text as a number": lambda f: f.select(T.cast(pl.Float64, strict=False), (T == "4").alias("u")),
    "to a float": lambda f: f.select(
        B.cast(pl.Float32), A.cast(pl.Float32), (B > 3).cast(pl.Float64).alias("c")
    ),
    "to an integer": lambda f: f.select(A.cast(pl.Int8, strict=False)),
    "frame cast": lambda f: f.select("a", "b").cast({"b": pl.Int8}, strict=False),
    "functions": lambda f: f.select(
        A.abs(), A.log().alias("c"), B.sqrt(), A.round(1).alias("e"), A.exp().alias("g")
    ),
    "clip": lambda f: f.select(A.clip(0, 1), B.clip(2, 1)),
    "fill": lambda f: f.select("a", "b").fill_null(0).fill_nan(0),
    "coalesce": lambda f: f.select(pl.coalesce("a", "b"), pl.max_horizontal("a", "f").alias("c")),
    "truth": lambda f: f.select(
        A.is_between(0, 1), T.is_in(["1", "2"]), ~A.is_null().alias("n") & (B > 2)
    ),
    "concat": lambda f: pl.concat([f.select("a"), f.select("a")]),
    "cache": lambda f: f.select("a").cache(),
}


def changed_rows(before, after):
    """List of the rows that differ in some bit."""
    differs = before.view(np.uint8) != after.view(np.uint8)
    return np.flatnonzero(differs.any(axis=1)).tolist()


@pytest.mark.parametrize("name", TAKEN)
def test_steps_of_one_row_each(name):
    plan = TAKEN[name](FRAME.lazy())
    rows = private_rows(plan)
    direct = private_rows(plan.collect())
    assert rows.n in (N, 2 * N)
    assert content(rows).tobytes() == content(direct).tobytes()


@pytest.mark.parametrize("name", TAKEN)
def test_a_replaced_row_changes_its_own_row_only(name):
    odd = {"a": np.nan, "b": -(2**63), "f": np.float32(np.inf), "t": "1e999", "d": None, "m": None}
    replaced = pl.when(pl.col("k") == 5)
    columns = []
    for column, value in odd.items():
        odd_value = pl.lit(value, dtype=FRAME.schema[column])
        columns.append(replaced.then(odd_value).otherwise(column).alias(column))
    other = FRAME.with_row_index("k").select(columns)
    plan = TAKEN[name]
    before = content(private_rows(plan(FRAME.lazy())))
    after = content(private_rows(plan(other.lazy())))
    assert len(before) == len(after)
    changed = changed_rows(before, after)
    assert set(changed) <= {5, 5 + N}, "concat holds the replaced row twice, every other plan once"


def batches(frame):
    return frame


REFUSED = {
    "filter": lambda f: f.filter(A > 0),
    "filter within": lambda f: f.select(A.filter(B > 3)),
    "unique": lambda f: f.unique(),
    "drop_nulls": lambda f: f.drop_nulls(),
    "group_by": lambda f: f.group_by("b").agg(A.sum()),
    "rolling": lambda f: f.rolling("b", period="3i").agg(A.sum()),
    "sort": lambda f: f.sort("a"),
    "shuffle": lambda f: f.select(A.shuffle()),
    "join": lambda f: f.join(f, on="b"),
    "over": lambda f: f.select(A.mean().over("b")),
    "mean": lambda f: f.select(A - A.mean()),
    "len": lambda f: f.with_columns(c=pl.len()),
    "cum_sum": lambda f: f.select(A.cum_sum()),
    "shift": lambda f: f.shift(1),
    "rank": lambda f: f.select(A.rank()),
    "gather": lambda f: f.select(A.gather([0, 1])),
    "fill by mean": lambda f: f.select(A.fill_null(strategy="mean")),
    "rolling_mean": lambda f: f.select(A.rolling_mean(2)),
    "is_unique": lambda f: f.select(A.is_unique()),
    "is_in a column": lambda f: f.select(
        B.is_in(pl.col("a").cast(pl.Int64, strict=False).implode())
    ),
    "clip by columns": lambda f: f.select(A.clip(B, A)),
    "head": lambda f: f.head(3),
    "slice of a column": lambda f: f.select(A.slice(0, 3)),
    "row index": lambda f: f.with_row_index(),
    "explode": lambda f: f.select(A.implode()).explode("a"),
    "unpivot": lambda f: f.select("a", "b").unpivot(),
    "side by side": lambda f: pl.concat([f.select("a"), f.select("b")], how="horizontal"),
    "a series": lambda f: f.with_columns(c=pl.Series(np.arange(N))),
    "map_batches": lambda f: f.select(A.map_batches(batches, return_dtype=pl.Float64)),
    "map_elements": lambda f: f.select(A.map_elements(batches, return_dtype=pl.Float64)),
    "strict cast of text": lambda f: f.select(T.cast(pl.Float64)),
    "strict cast to an integer": lambda f: f.select(A.cast(pl.Int8)),
    "text to an integer": lambda f: f.select(T.str.to_integer()),
    "power of an integer": lambda f: f.select(B**B),
    "replace_strict": lambda f: f.select(T.replace_strict({"1": 2})),
    "decimals": lambda f: f.select(pl.col("m") * pl.col("m")),
    "dates": lambda f: f.select(pl.col("d").dt.year()),
    "beside others": lambda f: pl.concat([f.select("a"), f.filter(A > 0).select("a")]),
}


@pytest.mark.parametrize("name", REFUSED)
def test_other_steps_are_refused_in_words(name):
    plan = REFUSED[name](FRAME.lazy())
    words = f"{ROWS_ALONE}.*run the plan before"
    caught = raises(InputError, words, private_rows, plan, columns=None)
    assert SECRET not in str(caught)


@pytest.fixture
def parquet(tmp_path):
    place = tmp_path / "x.parquet"
    FRAME.select("a", "b").write_parquet(place)
    return place


def test_a_scan_of_a_parquet_file_is_taken(parquet):
    plan = pl.scan_parquet(parquet).select(A * 2)
    assert private_rows(plan).n == N


@pytest.mark.parametrize("option", [{"n_rows": 3}, {"row_index_name": "k"}], ids=str)
def test_a_scan_of_a_parquet_file_with_options_on_rows_is_refused(parquet, option):
    raises(InputError, ROWS_ALONE, private_rows, pl.scan_parquet(parquet, **option))


def test_a_filtered_scan_of_a_parquet_file_is_refused(parquet):
    raises(InputError, ROWS_ALONE, private_rows, pl.scan_parquet(parquet).filter(A > 0))


def test_a_scan_of_an_arrow_dataset_is_refused(parquet):
    plan = pl.scan_pyarrow_dataset(ds.dataset(parquet))
    raises(InputError, ROWS_ALONE, private_rows, plan)
    raises(InputError, ROWS_ALONE, private_rows, plan.filter(A > 0))


def test_a_scan_of_a_csv_file_is_refused_as_text(tmp_path):
    place = tmp_path / "x.csv"
    FRAME.select("a", "b").write_csv(place)
    raises(InputError, "is of text", private_rows, pl.scan_csv(place))


def test_a_scan_of_a_json_file_is_refused_as_text(tmp_path):
    place = tmp_path / "x.ndjson"
    FRAME.select("a", "b").write_ndjson(place)
    raises(InputError, "is of text", private_rows, pl.scan_ndjson(place))


class _Unreadable:
    """A plan node of a version of polars that raises for what it does not show."""

    def __init__(self, name):
        self.name = name

    def __dir__(self):
        return [self.name]

    def __getattr__(self, name):
        raise RuntimeError(name)


class _Scan:
    scan_type = ("parquet", None)
    predicate = None


def test_a_harmless_option_that_polars_does_not_show_is_not_looked_at():
    _Scan.file_options = _Unreadable("hive_options")
    assert rescanned._check_scan(_Scan, "the LazyFrame") is None


def test_an_option_that_polars_does_not_show_is_refused_in_words(monkeypatch, parquet):
    def check_unreadable_scan(visitor, what):
        return rescanned._check_scan(_Scan, what)

    _Scan.file_options = _Unreadable("rows_left_out")
    monkeypatch.setattr(rescanned, "_check_polars_step", check_unreadable_scan)
    raises(InputError, ROWS_ALONE, private_rows, pl.scan_parquet(parquet))


def test_planted_fault_a_step_on_the_list_that_is_none_is_seen(monkeypatch):
    """The replaced row, for a function that looks at other rows."""
    monkeypatch.setattr(rescanned, "_FUNCTIONS", rescanned._FUNCTIONS | {"cum_sum"})
    monkeypatch.setitem(TAKEN, "planted", lambda f: f.select(A.cum_sum()))
    raises(AssertionError, None, test_a_replaced_row_changes_its_own_row_only, "planted")


TABLE = pa.table({"a": HELD["a"]})
ABOVE = ds.field("a") > 0


@pytest.mark.parametrize(
    "source",
    [
        lambda: ds.dataset(TABLE).filter(ABOVE),
        lambda: ds.dataset(TABLE).filter(ABOVE).replace_schema(TABLE.schema),
        lambda: ds.dataset(TABLE).scanner(filter=ABOVE),
        lambda: ds.dataset(TABLE).scanner(filter=ABOVE).to_reader(),
        lambda: next(ds.dataset(TABLE).get_fragments()),
    ],
)
def test_arrow_plans_are_refused(source):
    raises(InputError, None, private_rows, source())


PANDAS = pd.DataFrame({"a": HELD["a"], "b": HELD["b"], "f": HELD["f"]})

DASK_TAKEN = {
    "columns": lambda d: d[["b", "a"]],
    "assign": lambda d: d.assign(c=d.a * 2 + d.b, e=d.a > 1),
    "arithmetic": lambda d: (d[["a"]] + 1) / 2 - abs(d[["a"]]),
    "fill": lambda d: d.fillna(0).clip(0, 1),
    "where": lambda d: d[["a"]].where(d.a > 1, 0.0),
    "to a float": lambda d: d.astype("float32"),
    "rename": lambda d: d.rename(columns={"a": "z"}),
    "repartition": lambda d: d.repartition(npartitions=1),
    "persist": lambda d: d[d.a > 0].persist(),
    "delayed": lambda d: dd.from_delayed([dask.delayed(PANDAS)], meta=PANDAS.iloc[:0]),
    "map": lambda d: dd.from_map(lambda i: PANDAS, [0, 1], meta=PANDAS.iloc[:0]),
}
DASK_REFUSED = {
    "filter": lambda d: d[d.a > 0],
    "query": lambda d: d.query("a > 0"),
    "drop_duplicates": lambda d: d.drop_duplicates(),
    "dropna": lambda d: d.dropna(),
    "sort": lambda d: d.sort_values("a"),
    "merge": lambda d: d.merge(d, on="b"),
    "shuffle": lambda d: d.shuffle("b"),
    "sample": lambda d: d.sample(frac=0.5),
    "head": lambda d: d.head(3, compute=False),
    "mean": lambda d: d - d.mean(),
    "cumsum": lambda d: d.cumsum(),
    "shift": lambda d: d.shift(1),
    "groupby": lambda d: d.groupby("b").a.sum(),
    "map_partitions": lambda d: d.map_partitions(batches),
    "apply": lambda d: d.apply(batches, axis=1, meta=PANDAS.iloc[:0]),
    "to an integer": lambda d: d.astype({"a": "int64"}),
    "two frames": lambda d: d + dd.from_pandas(PANDAS + 1, npartitions=3),
}


@pytest.mark.parametrize("name", DASK_TAKEN)
def test_dask_steps_of_one_row_each(name):
    plan = DASK_TAKEN[name](dd.from_pandas(PANDAS, npartitions=3))
    direct = private_rows(plan.compute())
    assert np.array_equal(content(private_rows(plan)), content(direct), equal_nan=True)


@pytest.mark.parametrize("name", DASK_REFUSED)
def test_other_dask_steps_are_refused_in_words(name):
    plan = DASK_REFUSED[name](dd.from_pandas(PANDAS, npartitions=3))
    raises(InputError, ROWS_ALONE, private_rows, plan)


def test_a_dask_comparison_of_objects_is_refused():
    """A text among numbers would end the pass."""
    table = pd.DataFrame({"a": np.arange(3.0), "o": [1, SECRET, 2.0]})
    with dask.config.set({"dataframe.convert-string": False}):
        frame = dd.from_pandas(table, npartitions=1)
        assert private_rows(frame[["a"]]).n == 3
        compared = frame[["a"]].assign(c=frame.o > 1)
        caught = raises(InputError, "may fail for some", private_rows, compared)
    assert SECRET not in str(caught)


def test_a_parquet_file_of_dask_is_taken_without_a_filter(tmp_path):
    place = tmp_path / "x.parquet"
    PANDAS.to_parquet(place)
    assert private_rows(dd.read_parquet(place)).n == N
    filtered = dd.read_parquet(place, filters=[("a", ">", 0)])
    raises(InputError, ROWS_ALONE, private_rows, filtered)


def test_a_csv_file_of_dask_is_refused(tmp_path):
    place = tmp_path / "x.csv"
    PANDAS.to_csv(place, index=False)
    raises(InputError, ROWS_ALONE, private_rows, dd.read_csv(place))


def test_a_dask_array_of_unknown_length_is_refused():
    x = da.from_array(np.column_stack([HELD["a"], HELD["b"]]), chunks=(5, 2))
    filtered = x[x[:, 0] > 0]
    raises(InputError, r"as after a filter.*x\.persist\(\)\.compute", private_rows, filtered)


# ---- Dask arrays -----------------------------------------------------------------------------------------------------
ROWS = np.random.default_rng(3).normal(size=(200, 2))
MANY = (1, 4)  # chunks


def array_of(rows, chunks):
    return da.from_array(rows, chunks=(len(rows) // chunks, *rows.shape[1:]), name=False)


def loaded(block):
    return np.load(block)


class Table:
    """Reads slices, as a file of Zarr or HDF5 does."""

    shape = (200, 2)
    ndim = 2
    dtype = np.dtype(float)

    def __init__(self, rows):
        self.rows = rows

    def __getitem__(self, index):
        return self.rows[index]


ARRAY_TAKEN = {
    "as it is": lambda z: z,
    "numbers": lambda z: 2 * z + np.float64(1) - z / 3,
    "a constant for each column": lambda z: (z - np.array([0.5, -0.5])) / np.array([[2.0, 3.0]]),
    "functions": lambda z: np.sqrt(abs(z)) + np.maximum(z, 0.1) - np.exp(-z),
    "powers": lambda z: z**2 + z**0.5,
    "division by zero": lambda z: z / (z - z),
    "columns": lambda z: z[:, [1, 0]] * z[:, :1],
    "a column": lambda z: z[:, 1][:, None] - z[:, :1],
    "a line": lambda z: z[:, 0] * z[:, 1],
    "backwards": lambda z: z[:, ::-1],
    "clip": lambda z: da.clip(z, -1, 1) + z.clip(0, None),
    "where": lambda z: da.where((z > 0) & ~(z > 1) | da.isnan(z), z, -1.0),
    "a float": lambda z: (z > 0).astype("f4"),
    "missing": lambda z: da.nan_to_num(z).round(1),
    "more columns": lambda z: da.concatenate([z, (z[:, 0] * z[:, 1])[:, None]], axis=1),
    "other chunks": lambda z: (z.rechunk((7, 1)) * 2).rechunk((50, 2)),
    "some rows": lambda z: z[3:170] * 2 + z[3:170, :1],
    "rows in other places": lambda z: da.concatenate([z[100:], z[:100]]),
    "images": lambda z: (z.rechunk((50, 2))[:, :, None] * np.ones((2, 3))).reshape(200, 6),
    "fused": lambda z: dask.optimize(z[:, ::-1] * 2 + 1)[0],
    "persisted": lambda z: (z - z.mean(axis=0)).persist(),
    "a filter that was run": lambda z: z[z[:, 0] > 0].persist().compute_chunk_sizes(),
}


@pytest.mark.parametrize("chunks", MANY)
@pytest.mark.parametrize("name", ARRAY_TAKEN)
@pytest.mark.filterwarnings("ignore")
def test_steps_of_an_array_of_one_row_each(name, chunks):
    plan = ARRAY_TAKEN[name](array_of(ROWS, chunks))
    with np.errstate(all="ignore"):
        direct = plan.compute().reshape(plan.shape[0], -1)
    assert np.array_equal(content(private_rows(plan)), direct, equal_nan=True)


@pytest.mark.parametrize("chunks", MANY)
@pytest.mark.parametrize("name", sorted(set(ARRAY_TAKEN) - {"persisted", "a filter that was run"}))
def test_a_replaced_row_of_an_array_changes_one_row(name, chunks):
    other = ROWS.copy()
    other[5] = np.nan, -np.inf
    plan = ARRAY_TAKEN[name]
    before = content(private_rows(plan(array_of(ROWS, chunks))))
    after = content(private_rows(plan(array_of(other, chunks))))
    assert len(changed_rows(before, after)) == 1, "one row was replaced"


def running_sum(value):
    running_sum.total = getattr(running_sum, "total", 0.0) + value
    return running_sum.total


ARRAY_REFUSED = {
    # one row, or some, seen by all
    "the first row": lambda z: z - z[0],
    "the first row, as rows": lambda z: z - z[:1],
    "backwards": lambda z: z * z[::-1],
    "a threshold": lambda z: da.where(z > z[5], z, 0),
    "a filter": lambda z: z[z[:, 0] > 0].compute_chunk_sizes(),
    "one row often": lambda z: z[[0] * 200],
    "one row in a chunk": lambda z: z[[0] * 50 + list(range(50, 200))],
    "matmul": lambda z: da.map_blocks(
        np.matmul, np.ones((len(z) // z.numblocks[0],) * 2), z, dtype=float
    ),
    "operator.matmul": lambda z: z.map_blocks(
        lambda block, weights: operator.matmul(weights, block), np.eye(z.chunksize[0]), dtype=float
    ),
    "a function of Python": lambda z: z.map_blocks(np.frompyfunc(running_sum, 1, 1), dtype=float),
    # reductions, order, neighbors
    "mean": lambda z: z - z.mean(axis=0),
    "std": lambda z: z / z.std(axis=0),
    "cumsum": lambda z: z.cumsum(axis=0),
    "diff": lambda z: da.diff(z, axis=0),
    "topk": lambda z: da.topk(z, 10, axis=0),
    "sort": lambda z: z.map_blocks(lambda block: np.sort(block, axis=0), dtype=float),
    "accumulate": lambda z: z.map_blocks(np.add.accumulate, dtype=float),
    "shift": lambda z: z[1:] - z[:-1],
    "roll": lambda z: z + da.roll(z, 1, axis=0),
    "a line beside columns": lambda z: z[:2] - z[:2, 0],
    "the same rows twice": lambda z: da.concatenate([z, z]),
    "the same block twice": lambda z: z.blocks[[0, 0]],
    "overlap": lambda z: da.concatenate([z[:150], z[50:]]),
    "a chunk of one row": lambda z: (lambda y: y - y.blocks[0])(z.rechunk(((1, 199), 2))),
    "other rows": lambda z: z * array_of(ROWS[::-1].copy(), z.numblocks[0]),
    "transposed": lambda z: z[:2].T,
    "reshape": lambda z: z.rechunk((200, 2)).reshape(400).reshape(200, 2),
    "a mask of numbers": lambda z: np.add(z, 1, where=z > 0, out=z * 0),
    "an integer": lambda z: z.astype(int),
    "integer powers": lambda z: z.astype("f4") ** z,
    "a fused mean": lambda z: dask.optimize(z - z.mean(axis=0))[0],
    "a delayed step": lambda z: da.from_delayed(dask.delayed(np.sort)(z), z.shape, float),
}


@pytest.mark.parametrize("chunks", MANY)
@pytest.mark.parametrize("name", ARRAY_REFUSED)
def test_other_steps_of_an_array_are_refused_in_words(name, chunks):
    plan = ARRAY_REFUSED[name](array_of(ROWS, chunks))
    raises(InputError, rf"{ROWS_ALONE}.*x\.persist\(\)", private_rows, plan)


@pytest.mark.parametrize("name", ["mean", "cumsum", "sort", "one row often"])
def test_frames_of_arrays_are_refused_for_steps_of_the_array(name):
    array = ARRAY_REFUSED[name](array_of(ROWS, 4))
    raises(InputError, ROWS_ALONE, private_rows, dd.from_dask_array(array, columns=["a", "b"]))


def test_a_frame_of_an_array_is_taken():
    frame = dd.from_dask_array(array_of(ROWS, 4) * 2, columns=["a", "b"])
    plan = frame.assign(a=frame.a + 1)
    assert np.array_equal(content(private_rows(plan)), ROWS * 2 + [1.0, 0.0])


def array_of_delayed_files(folder):
    blocks = []
    for number in range(4):
        place = folder / f"{number}.npy"
        np.save(place, ROWS[50 * number : 50 * number + 50])
        blocks.append(da.from_delayed(dask.delayed(loaded)(str(place)), (50, 2), float))
    return da.concatenate(blocks)


def array_of_a_stack(folder):
    place = folder / "stack"
    da.to_npy_stack(place, array_of(ROWS, 4))
    return da.from_npy_stack(str(place))


def mapped(folder):
    place = folder / "all.npy"
    np.save(place, ROWS)
    return np.load(place, mmap_mode="r")


LOADED = {
    "delayed files": array_of_delayed_files,
    "a stack": array_of_a_stack,
    "a mapped file": lambda folder: da.from_array(mapped(folder), chunks=(50, 1)),
    "an inline mapped file": lambda folder: da.from_array(
        mapped(folder), chunks=(50, 2), inline_array=True
    ),
    "a table": lambda folder: da.from_array(Table(ROWS), chunks=(50, 2)),
}


@pytest.mark.parametrize("name", LOADED)
def test_arrays_that_are_loaded(name, tmp_path):
    plan = LOADED[name](tmp_path)
    assert np.array_equal(content(private_rows(plan)), ROWS)
    assert np.array_equal(content(private_rows((plan - 1)[:, ::-1])), ROWS[:, ::-1] - 1)
    raises(InputError, ROWS_ALONE, private_rows, plan - plan.mean(axis=0))
    raises(InputError, ROWS_ALONE, private_rows, plan - plan[:1])


def test_a_table_at_two_places_of_an_array_is_refused():
    table = Table(ROWS)
    first = da.from_array(table, chunks=(50, 2), name=False)
    second = da.from_array(table, chunks=(50, 2), name=False)
    twice = da.concatenate([first, second])
    raises(InputError, "the same rows at two places", private_rows, twice)


def test_planted_fault_a_function_that_looks_at_other_rows_is_seen(monkeypatch):
    """The replaced row, for a sum over rows among the elementwise functions."""
    monkeypatch.setattr(array_plans, "_FUNCTIONS", (*array_plans._FUNCTIONS, (np.cumsum, 2)))
    monkeypatch.setitem(ARRAY_TAKEN, "planted", lambda z: z.map_blocks(np.cumsum, 0, dtype=float))
    raises(AssertionError, None, test_a_replaced_row_of_an_array_changes_one_row, "planted", 1)


def test_a_part_of_a_parquet_file_is_refused_and_its_rows_are_not_counted(tmp_path):
    place = tmp_path / "x.parquet"
    pq.write_table(pa.table({"a": np.arange(100.0)}), place, row_group_size=10)
    whole = ds.dataset(place)
    (fragment,) = whole.get_fragments()
    ledger = Ledger(ZCDP(1))
    asked = {"x_pub": [[1.0]], "budget": ZCDP(1), "ledger": ledger}
    for part in (fragment.subset(ds.field("a") > 55), fragment.subset(row_group_ids=[3, 3])):
        source = ds.FileSystemDataset([part], whole.schema, whole.format, whole.filesystem)
        for dataset in (source, ds.UnionDataset(whole.schema, [whole, source])):
            words = "leaves out some row groups"
            caught = raises(InputError, words, estimate_mean, dataset, **asked)
            assert not re.search(r"\d", str(caught).replace("x_priv", ""))
    assert len(ledger.entries) == 0


def test_a_subset_that_holds_all_row_groups_of_a_parquet_file_is_taken(tmp_path):
    place = tmp_path / "x.parquet"
    pq.write_table(pa.table({"a": np.arange(100.0)}), place, row_group_size=10)
    whole = ds.dataset(place)
    (fragment,) = whole.get_fragments()
    all_groups = fragment.subset(ds.field("a") >= 0)
    same = ds.FileSystemDataset([all_groups], whole.schema, whole.format, whole.filesystem)
    assert content(private_rows(same)).sum() == 4950.0  # 0 + 1 + ... + 99


def test_counts_of_a_source_that_changes_are_not_shown():
    readers = [pa.table({"a": np.arange(7.0)}), pa.table({"a": np.arange(5.0)})]

    def opened():
        if len(readers) > 1:
            return readers.pop(0).to_reader()
        return readers[0].to_reader()

    rows = private_rows(opened)
    caught = raises(InputError, "gave fewer rows than were declared", content, rows)
    assert not re.search(r"\d", str(caught))
