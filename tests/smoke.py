"""Minimal test of an installed wheel outside of the source tree: `python -I smoke.py`."""

import sys
from pathlib import Path

import numpy as np

import fastpubpriv as fpp
from fastpubpriv.kernels import noise, rows
from fastpubpriv.rowwise import row_maps


def main() -> None:
    package = Path(fpp.__file__).resolve().parent
    assert package.is_relative_to(Path(sys.prefix).resolve()), (
        f"not the installed package: {package}"
    )
    assert (package / "py.typed").is_file()
    assert (package / "mechanisms" / "notes" / "release.md").is_file()

    # First keystream words of the zero key, as in RFC 8439, through the sampler, which shows that the C library works.
    assert 0.9 < float(np.std(noise.gaussian_floor(bytes(32), 4096, 20))) / 2**20 < 1.1
    sums = np.zeros(3, dtype=np.int64)
    one = row_maps.RowMap(dim=3, quant_bound=1000, inv_step=10.0, limit=900.0)
    rows.rows_sum(np.array([[1.0, 2.0, 3.0], [np.nan, 1.0, 1.0]]), one, sums)
    assert sums.tolist() == [10, 20, 30]

    data = np.random.default_rng(0).normal(100.0, 1.0, size=(5000, 3))
    with fpp.Ledger(fpp.ZCDP(rho=1)) as ledger:
        result = fpp.estimate_mean(
            data, x_pub=data[:1] + 0.5, budget=fpp.ZCDP(rho=0.5), ledger=ledger
        )
        assert ledger.remaining >= fpp.ZCDP(rho=0.5)
    assert result.private
    assert np.all(np.abs(result.mean - 100.0) < 0.5)
    sys.stdout.write(f"fastpubpriv {fpp.__version__} works from {package.name} in {sys.prefix!r}\n")


if __name__ == "__main__":
    main()
