"""The registry, what the experiments share, and their simulated rows."""

import numpy as np
import pytest
from scipy import stats

from benchmarks.papers.__main__ import main
from benchmarks.papers.registry import EXPERIMENTS
from benchmarks.papers.samples import coin_rows, normal_rows


def test_the_command_lists_and_runs(tmp_path, capsys):
    main([])
    listed = capsys.readouterr().out
    assert all(each.summary in listed for each in EXPERIMENTS.values())
    main(["b-proposition-8", "--out", str(tmp_path), "--runs", "2", "--threads", "1"])
    assert "a factor of about 1.98" in capsys.readouterr().out
    assert {path.name for path in tmp_path.iterdir()} == {"b-proposition-8.csv", "b-proposition-8.png"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("figure-9", "invalid choice"),
        ("a-figure-1 --quick", "no smaller problem"),
        ("a-figure-1 --cell 0.5:4", "made as a whole"),
        ("b-beyond --cell half", "--cell"),
        ("b-beyond --quick --cell 0.5:3", "no cell 0.5:3"),
        ("a-figure-1 --runs 1", "runs"),
    ],
)
def test_the_command_refuses_in_words(words, said, tmp_path, capsys):
    with pytest.raises(SystemExit, match=r"^2$"):
        main([*words.split(), "--out", str(tmp_path)])
    assert said in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_normal_rows_follow_their_law():
    rows = normal_rows(np.random.SFC64(7), 40_000, 50)
    assert np.array_equal(rows, normal_rows(np.random.SFC64(7), 40_000, 50))
    flat = rows.ravel().astype(np.float64)
    # p below 1e-4 with these seeds would be a fault; a scale off by 1 % must not pass.
    assert stats.kstest(flat, "norm").pvalue > 1e-4
    assert stats.kstest(1.01 * flat, "norm").pvalue < 1e-4
    # Lengths of rows need independent columns; pairs from one call of the formula lie far apart.
    assert stats.kstest(np.sum(rows.astype(np.float64) ** 2, axis=1), "chi2", args=(50,)).pvalue > 1e-4
    assert np.abs(np.corrcoef(rows.T) - np.eye(50)).max() < 6 / np.sqrt(len(rows))


def test_coin_rows_follow_their_law():
    rows = coin_rows(np.random.SFC64(9), 20_000, 30)
    assert rows.shape == (20_000, 30)
    assert set(np.unique(rows)) == {0.0, 1.0}
    assert np.abs(rows.mean(axis=0) - 0.5).max() < 6 * 0.5 / np.sqrt(len(rows))
    assert np.abs(np.corrcoef(rows.T) - np.eye(30)).max() < 6 / np.sqrt(len(rows))
