"""Rows of Dask collections: the same bits as in memory, each row once, no content in names, logs and errors."""

import itertools
import logging
import re

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from helpers.errors import raises
from helpers_sources import TwoCalls, add_sums, column_sums, content, fold, make_sums
from hypothesis import given, settings
from hypothesis import strategies as st
from wires import Wire, chunked

from fastpubpriv import InputError, Rows
from fastpubpriv.errors import KernelError
from fastpubpriv.mechanisms.group_covariances import GroupQuery
from fastpubpriv.mechanisms.sums import AffineMap
from fastpubpriv.sources import Executor, private_rows, remote
from fastpubpriv.sources.labeled import labeled_rows
from fastpubpriv.sources.open import public_rows
from fastpubpriv.sources.views import DistantPairs, Pairs, interleave_rows, linear_rows, split_rows
from fastpubpriv.threads import pool

TEXT = "Alice-SSN-123"
X = np.random.default_rng(0).normal(size=(301, 3))
X[5, 1] = np.nan
X[7] = np.inf
VIEWS = {
    "all": lambda r: r,
    "slice": lambda r: r.slice(3, 300),
    "last part": lambda r: split_rows(r, 2, 1)[1],
    "interleaved": lambda r: interleave_rows(r, 3, 2, 5)[1],
    "pairs": Pairs,
    "distant pairs": DistantPairs,
    "mapped": lambda r: linear_rows(r, np.array([[1.0, 2.0, 3.0], [0.0, 1.0, 0.0]])),
    "nested": lambda r: DistantPairs(Pairs(interleave_rows(r.slice(1, 300), 3, 2)[0])),
}


@pytest.fixture(autouse=True)
def calm():
    with dask.config.set(scheduler="synchronous"):
        yield


def same(one, other):
    assert one.dtype == other.dtype
    assert one.tobytes() == other.tobytes()


@pytest.mark.parametrize("view", VIEWS)
@settings(max_examples=10, deadline=None)
@given(ends=st.lists(st.integers(0, 301), max_size=7), size=st.sampled_from([1, 2, 3, 64, None]))
def test_any_chunks_and_any_view(view, ends, size):
    """Chunks of any length, empty ones too, and ranges over their ends: the rows of the source in memory."""
    sizes = tuple(b - a for a, b in itertools.pairwise([0, *sorted(ends), 301]))
    here = VIEWS[view](private_rows(X))
    there = VIEWS[view](private_rows(chunked(X, sizes)))
    same(content(here), content(there))
    same(content(here, begin=2, end=40), content(there, begin=2, end=40))
    assert column_sums(here) == column_sums(there, chunk_rows=size)


FORMS = {
    "float32": lambda: (X.astype(np.float32),) * 2,
    "integers": lambda: (np.arange(903).reshape(301, 3),) * 2,
    "booleans": lambda: (np.arange(903).reshape(301, 3) % 2 == 0,) * 2,
    "half": lambda: (X.astype(np.float16),) * 2,
    "one column": lambda: (X[:, :1], X[:, 0]),
}


@pytest.mark.parametrize("form", FORMS)
def test_arrays(form):
    here, there = FORMS[form]()
    same(content(private_rows(here)), content(Rows.from_dask(chunked(there, 7))))


def test_columns_in_blocks():
    in_blocks = da.from_array(X, chunks=(50, 2), name=False)
    same(content(Rows.from_dask(in_blocks)), X)


def test_lengths_that_are_not_known():
    x = chunked(X, 6)
    kept = x[da.isfinite(x).all(axis=1)]
    raises(InputError, "compute_chunk_sizes", Rows.from_dask, kept)
    rows = Rows.from_dask(kept.persist().compute_chunk_sizes())
    assert rows.n == 299
    same(content(rows), X[np.isfinite(X).all(axis=1)])


FRAMES = {
    "plain": lambda f: f,
    "one type in another": lambda f: f.astype({"a": "float32"}),
    "single": lambda f: f.astype("float32"),
    "nullable": lambda f: f.astype({"a": "Float64", "b": "Float64"}),
    "arrow": lambda f: f.astype({"a": "double[pyarrow]"}),
    "integers": lambda f: f.assign(c=np.arange(301)),
}


@pytest.mark.parametrize("kind", FRAMES)
def test_frames(kind):
    frame = FRAMES[kind](pd.DataFrame(X, columns=list("abc")))
    there = dd.from_pandas(frame, npartitions=5)
    for columns in (None, ["c", "a"]):
        here = private_rows(frame, columns=columns)
        rows = Rows.from_dask(there, columns)
        assert rows.columns == here.columns
        same(content(here), content(rows))
        assert column_sums(here) == column_sums(rows)
    same(content(private_rows(frame["b"])), content(private_rows(there["b"])))


Y = np.arange(301.0)


def test_chunks_of_labels_need_not_be_those_of_the_rows():
    here = labeled_rows(X, Y, label=None, columns=None)
    there = labeled_rows(chunked(X, 6), chunked(Y, 4), label=None, columns=None)
    assert column_sums(here) == column_sums(there)


def test_a_label_in_a_frame():
    frame = pd.DataFrame({"y": Y, "a": X[:, 0]})
    split = dd.from_pandas(frame, npartitions=3)
    here = labeled_rows(frame, None, label="y", columns=None)
    there = labeled_rows(split, None, label="y", columns=None)
    assert there.columns == ("a", "y")
    assert column_sums(Pairs(here)) == column_sums(Pairs(there))


def test_public_rows_of_chunks():
    same(public_rows(chunked(X[10:20], 3)), X[10:20])


def test_labels_in_memory_beside_chunks_are_refused():
    mixed = labeled_rows(chunked(X, 6), Y, label=None, columns=None)
    raises(InputError, "make Dask collections of all", column_sums, mixed)


def test_order_is_kept_where_it_counts():
    """Sums of floats go from chunk to chunk, in the order of the source."""
    query = GroupQuery(base=AffineMap(dim=3), groups=11)
    direct, valid = Executor(threads=1).run(query, private_rows(X))
    with Wire().used():
        found, usable = Executor().run(query, private_rows(chunked(X, 13)))
    assert found.tobytes() == direct.tobytes()
    assert usable.tolist() == valid.tolist()


REFUSED = {
    "arithmetic of objects": lambda: chunked(np.array([[TEXT, 1.0]], dtype=object), 1)[:, 1:] + 1,
    "text": lambda: chunked(np.array([[TEXT]]), 1),
    "complex": lambda: chunked(X.astype(complex), 2),
    "three dimensions": lambda: da.zeros((3, 3, 3)),
    "no rows": lambda: da.zeros((0, 3)),
    "no columns": lambda: da.zeros((3, 0)),
    "columns not known": lambda: chunked(X.T, 3)[chunked(X.T, 3).sum(axis=1) > 0].T,
    "text in a frame": lambda: dd.from_pandas(
        pd.DataFrame({"a": [1.0], "name": [TEXT]}), npartitions=1
    ),
    "masked": lambda: da.ma.masked_invalid(chunked(X, 2)),
    "masked chunks": lambda: da.from_array(np.ma.masked_invalid(X), chunks=100),
}


@pytest.mark.parametrize("form", REFUSED)
def test_refused(form):
    caught = raises(InputError, None, lambda: column_sums(private_rows(REFUSED[form]())))
    assert TEXT not in str(caught)


def test_refused_arguments():
    frame = dd.from_pandas(pd.DataFrame({"a": [1.0]}), npartitions=1)
    raises(InputError, None, Rows.from_dask, X)
    raises(InputError, None, Rows.from_dask, chunked(X, 2), ["a"])
    raises(InputError, None, Rows.from_dask, chunked(X, 2), client="tcp://here")
    raises(InputError, None, Rows.from_dask, frame, ["b"])


class Moody:
    """Loads chunks that are one row longer, one row shorter, wider or an error from the second time on."""

    def __init__(self, change):
        self.change = change
        self.calls = 0

    def __call__(self, begin, end):
        self.calls += 1
        return X[begin:end] if self.calls <= 3 else self.change(X[begin:end])


def fail(block):
    raise ValueError(f"{TEXT}: {block[0, 0]}")


def fail_like_us(block):
    raise InputError(f"{TEXT}: {block[0, 0]}")


CHANGES = {
    "longer": lambda block: np.concatenate([block, block[:1]]),
    "shorter": lambda block: block[1:],
    "wider": lambda block: np.hstack([block, block[:, :1]]),
    "empty": lambda block: block[:0],
    "text": lambda block: np.full(block.shape, TEXT),
    "error": fail,
    "our error": fail_like_us,
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_chunk_of_another_shape_is_found(change, caplog, capfd):
    moody = Moody(CHANGES[change])
    parts = []
    for begin, end in ((0, 100), (100, 200), (200, 301)):
        block = dask.delayed(moody)(begin, end)
        parts.append(da.from_delayed(block, (end - begin, 3), float))
    rows = private_rows(da.concatenate(parts))
    with caplog.at_level(logging.DEBUG):
        assert column_sums(rows) == column_sums(private_rows(X))
        caught = raises(InputError, None, column_sums, rows)
    text = f"{caught!r} {caught.__cause__} {caught.__context__} {caplog.text} {''.join(capfd.readouterr())}"
    assert TEXT not in text
    assert ("withheld" in text) == (change in ("error", "our error", "text"))


@pytest.mark.parametrize("odd", [None, TEXT, 10**400], ids=["none", "text", "huge"])
@pytest.mark.parametrize("column", [[True, False, True, True], [1.5, 2.0, -3.0, 0.25]])
def test_a_value_that_is_no_number_is_missing_alone(column, odd):
    """It makes a whole partition one of objects, beside which no other row may change."""
    meta = pd.DataFrame({"a": column})
    parts = [meta.iloc[:2], pd.DataFrame({"a": [column[2], odd, column[3]]}, dtype=object)]
    rows = Rows.from_dask(dd.from_map(lambda number: parts[number], range(2), meta=meta.iloc[:0]))
    found = np.vstack(list(rows.chunks(chunk_rows=9)))
    found[~np.isfinite(found)] = np.nan  # an infinity counts as missing, too
    expected = np.insert(np.array(column, float), 3, np.nan)
    np.testing.assert_array_equal(found[:, 0], expected)


def test_an_error_of_another_column_is_withheld():
    meta = pd.DataFrame({"a": [1.0]})
    parts = [meta, pd.DataFrame({TEXT: [1.0]})]
    rows = Rows.from_dask(dd.from_map(lambda number: parts[number], range(2), meta=meta.iloc[:0]))
    caught = raises(InputError, "withheld", column_sums, private_rows(rows))
    assert TEXT not in str(caught)


@pytest.mark.parametrize(
    "collection",
    [da.from_array(X, chunks=100), dd.from_pandas(pd.DataFrame(X), npartitions=3)],
    ids=["array", "frame"],
)
def test_names_of_tasks_hold_no_content(collection):
    """Dask itself names data by a hash of it."""
    keys = list(Rows.from_dask(collection).tasks.graph)
    names = [key[0] if isinstance(key, tuple) else key for key in keys]
    assert names
    assert all(name.startswith("fastpubpriv-chunk-") for name in names)


def test_an_error_of_the_step_is_withheld():
    def step(chunk, accumulators):
        raise KeyError(TEXT)

    rows = private_rows(chunked(X, 3))
    caught = raises(InputError, "withheld", fold, rows, make_sums(3), step)
    assert caught.__context__ is None


def test_memory_and_interrupts_keep_their_meaning():
    def short(chunk, accumulators):
        raise MemoryError(TEXT)

    def stop(chunk, accumulators):
        raise KeyboardInterrupt

    rows = private_rows(chunked(X, 3))
    assert TEXT not in str(raises(MemoryError, None, fold, rows, make_sums(3), short))
    raises(KeyboardInterrupt, None, fold, rows, make_sums(3), stop)


@pytest.mark.parametrize("view", VIEWS)
def test_tasks_that_are_lost_or_done_twice_change_nothing(view):
    expected = column_sums(VIEWS[view](private_rows(X)))
    there = VIEWS[view](private_rows(chunked(X, (100, 0, 1, 150, 50))))
    with Wire().used():
        assert column_sums(there) == expected


def test_a_merge_in_place_is_found(monkeypatch):
    """A planted fault: the first part is changed, so a merge that is done again adds the others twice."""

    def merged(sent, *parts):
        for part in parts[1:]:
            sent.query.merge(parts[0].accumulators, part.accumulators)
        return remote.Part(parts[0].accumulators, sum(part.rows for part in parts))

    monkeypatch.setattr(remote, "merged", merged)
    rows = private_rows(chunked(X, 4))
    with Wire().used():
        _, count = fold(rows, make_sums(3), add_sums)
    assert count[0] > 301


def test_a_chunk_that_counts_twice_is_found(monkeypatch):
    """A planted fault: a plan that reads some rows twice, and one that leaves some out."""
    whole = itertools.pairwise
    rows = private_rows(chunked(X, 4))

    def first_twice(cuts):
        pairs = list(whole(cuts))
        return [*pairs, pairs[0]]

    def without_the_first(cuts):
        return list(whole(cuts))[1:]

    for planted in (first_twice, without_the_first):
        monkeypatch.setattr(itertools, "pairwise", planted)
        raises(KernelError, "another number of rows", column_sums, rows)


def test_names_and_answers_hold_no_content():
    """What is named, and what comes back: random letters and integers. The query that is sent holds none of the rows."""
    wire = Wire()
    with wire.used():
        column_sums(private_rows(chunked(X, 4)))
    ours = [name for name in map(str, wire.names) if "fastpubpriv" in name]
    assert len([name for name in ours if "chunk" not in name]) == 1 + 4 + 1
    assert all(
        re.fullmatch(r"\(?'?fastpubpriv-[a-z]+-[0-9a-f]{32}'?(, \d+)*\)?", name) for name in ours
    ), ours
    sent = b"".join(
        pickled
        for name, pickled in zip(wire.names, wire.tasks, strict=True)
        if "fastpubpriv" in str(name) and "chunk" not in str(name)
    )
    assert not any(value.tobytes() in sent for value in X.ravel() if np.isfinite(value))
    root = wire.answers[-1]
    assert not any(value.tobytes() in root for value in X.ravel() if np.isfinite(value))


def test_two_passes_share_no_task():
    wire = Wire()
    with wire.used():
        rows = private_rows(chunked(X, 4))
        column_sums(rows)
        column_sums(rows)
    ours = [name for name in map(str, wire.names) if "fastpubpriv" in name and "chunk" not in name]
    assert len(ours) == len(set(ours)) == 12


def test_a_task_leaves_the_threads_alone():
    """The machines of a cluster have as many tasks at a time as they have cores."""
    seen = []

    def step(chunk, accumulators):
        seen.append(pool.in_worker())
        add_sums(chunk, accumulators)

    Executor().run(TwoCalls(make_sums(3), step), private_rows(chunked(X, 3)))
    assert seen == [True] * 3
    assert not pool.in_worker()
