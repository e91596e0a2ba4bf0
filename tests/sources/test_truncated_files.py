"""Files that another program makes shorter after they were opened: fatal where they are mapped, harmless where they are not."""

import os
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest
from clocks import PATIENCE
from helpers_sources import column_sums, direct_sums

from fastpubpriv import InputError, Rows

X = np.random.default_rng(0).normal(size=(40_000, 3))
READERS = {"npy": Rows.from_npy, "arrow": Rows.from_arrow, "feather": Rows.from_arrow, "parquet": Rows.from_parquet}


def written(folder, suffix):
    path, table = folder / f"x.{suffix}", pa.table({f"c{i}": X[:, i] for i in range(3)})
    if suffix == "npy":
        np.save(path, X)
    elif suffix == "parquet":
        pa.parquet.write_table(table, path)
    elif suffix == "feather":
        pa.feather.write_feather(table, str(path))
    else:
        with pa.ipc.new_file(str(path), table.schema) as writer:
            writer.write_table(table)
    return path


@pytest.mark.parametrize("suffix", READERS)
@pytest.mark.parametrize("memory_map", [True, False])
def test_the_rows_are_the_same_without_a_map(suffix, memory_map, tmp_path):
    rows = READERS[suffix](written(tmp_path, suffix), memory_map=memory_map)
    assert column_sums(rows, threads=2, chunk_rows=999) == direct_sums(X)
    with pytest.raises(InputError, match="memory_map must be True or False"):
        READERS[suffix](written(tmp_path, suffix), memory_map="no")


@pytest.mark.parametrize("suffix", READERS)
@pytest.mark.parametrize("length", [0, 5000])
def test_a_file_that_is_not_mapped_may_become_shorter(suffix, length, tmp_path):
    path = written(tmp_path, suffix)
    rows = READERS[suffix](path, memory_map=False)
    os.truncate(path, length)
    if suffix == "parquet":  # read in each pass
        with pytest.raises(InputError):
            column_sums(rows)
    else:
        assert column_sums(rows) == direct_sums(X)


@pytest.mark.parametrize("suffix", READERS)
@pytest.mark.parametrize("memory_map", [True, False])
def test_a_file_that_was_shorter_before_is_an_error(suffix, memory_map, tmp_path):
    path = written(tmp_path, suffix)
    for length in (path.stat().st_size - 1, 5000, 100, 3, 0):
        os.truncate(path, length)
        with pytest.raises(InputError):
            column_sums(READERS[suffix](path, memory_map=memory_map))


SHORTENED = """
import os, sys
import numpy as np
from helpers_sources import fold
from fastpubpriv.sources import Rows
path, suffix = sys.argv[1:]
rows = Rows.from_npy(path) if suffix == "npy" else Rows.from_arrow(path)
os.truncate(path, 0)
fold(rows, lambda: (np.zeros(1, np.int64),), lambda chunk, total: total[0].__iadd__(np.count_nonzero(chunk)))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="what happens is up to the system")
@pytest.mark.parametrize("suffix", ["npy", "arrow"])
def test_what_is_said_of_mapped_files_is_so(suffix, tmp_path):
    """Why `memory_map=False` is there: the tests above would not pass with a map."""
    here = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", SHORTENED, str(written(tmp_path, suffix)), suffix]
    done = subprocess.run(command, capture_output=True, timeout=PATIENCE, check=False, env=here)
    assert done.returncode == -7  # SIGBUS
