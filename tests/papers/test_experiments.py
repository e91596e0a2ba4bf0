"""The registry, what the experiments share, and their simulated rows."""

import threading
import time
import warnings

import numpy as np
import pytest
from scipy import stats

from benchmarks.papers import experiment as running
from benchmarks.papers.__main__ import main
from benchmarks.papers.registry import EXPERIMENTS
from benchmarks.papers.samples import coin_rows, normal_rows
from fastpubpriv.errors import InputError, SeededNoiseWarning


def workers():
    return [thread for thread in threading.enumerate() if thread.name.startswith("experiment")]


def test_every_experiment_is_registered_under_its_name():
    assert list(EXPERIMENTS) == sorted(EXPERIMENTS)
    assert {"a-figure-1", "b-figures-12-14", "b-proposition-8"} <= set(EXPERIMENTS)
    for name, experiment in EXPERIMENTS.items():
        assert experiment.name == name
        assert experiment.summary
        assert experiment.source


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


@pytest.mark.parametrize("name", sorted(EXPERIMENTS))
@pytest.mark.parametrize("wrong", [{"runs": 1}, {"runs": 2.5}, {"threads": 0, "runs": 2}])
def test_bad_arguments(name, wrong, tmp_path):
    with pytest.raises(InputError):
        EXPERIMENTS[name].run(tmp_path, progress=False, **wrong)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (1310, 50), (2621, 50)])
def test_normal_rows_have_their_shape_and_every_entry(shape):
    rows = normal_rows(np.random.SFC64(3), *shape)
    assert rows.shape == shape
    assert rows.dtype == np.float32
    assert np.isfinite(rows).all()
    assert np.unique(rows).size > 0.99 * rows.size or rows.size < 20


def test_normal_rows_follow_their_law():
    rows = normal_rows(np.random.SFC64(7), 40_000, 50)
    assert np.array_equal(rows, normal_rows(np.random.SFC64(7), 40_000, 50))
    flat = rows.ravel().astype(np.float64)
    # p below 1e-4 with these seeds would be a fault; a scale off by 1 % must not pass.
    assert stats.kstest(flat, "norm").pvalue > 1e-4
    assert stats.kstest(1.01 * flat, "norm").pvalue < 1e-4
    # Lengths of rows need independent columns; pairs from one call of the formula lie far apart.
    assert stats.kstest(np.sum(rows.astype(np.float64) ** 2, axis=1), "chi2", args=(50,)).pvalue > 1e-4
    correlation = np.corrcoef(rows.T) - np.eye(50)
    assert np.abs(correlation).max() < 6 / np.sqrt(len(rows))


def test_coin_rows_follow_their_law():
    rows = coin_rows(np.random.SFC64(9), 20_000, 30)
    assert rows.shape == (20_000, 30)
    assert set(np.unique(rows)) == {0.0, 1.0}
    assert np.abs(rows.mean(axis=0) - 0.5).max() < 6 * 0.5 / np.sqrt(len(rows))
    assert np.abs(np.corrcoef(rows.T) - np.eye(30)).max() < 6 / np.sqrt(len(rows))


def test_trimmed_drops_a_tenth_at_each_end():
    errors = np.array([1e9, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, -1e9])
    assert running.trimmed(errors) == (4.5, pytest.approx(np.std(np.arange(1.0, 9.0))))
    assert running.trimmed(errors[1:3]) == (1.5, 0.5)
    for size in (10, 25, 100):
        sample = np.random.default_rng(size).normal(size=size)
        assert running.trimmed(sample)[0] == pytest.approx(stats.trim_mean(sample, 0.1))


@pytest.mark.parametrize("threads", [1, 2])
def test_side_by_side_keeps_the_order_and_leaves_nothing_behind(threads):
    answers = running.side_by_side(
        lambda task: task * task, range(50), threads=threads, progress=False, label="squares"
    )
    assert answers == [task * task for task in range(50)]
    assert not workers()


@pytest.mark.parametrize("threads", [1, 2])
def test_side_by_side_hands_on_the_first_failure_and_starts_no_more(threads):
    begun = []

    def fail(task):
        begun.append(task)
        time.sleep(0.01)  # the calling thread needs a moment to see the first failure
        raise ZeroDivisionError(task)

    with pytest.raises(ZeroDivisionError):
        running.side_by_side(fail, range(500), threads=threads, progress=False, label="failures")
    assert len(begun) < 500
    assert not workers()


def test_only_the_warning_about_seeds_is_silenced():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with running.seeded_quietly():
            warnings.warn("seeded", SeededNoiseWarning, stacklevel=1)
            with pytest.raises(RuntimeWarning):
                warnings.warn("other", RuntimeWarning, stacklevel=1)
        with pytest.raises(SeededNoiseWarning):
            warnings.warn("seeded", SeededNoiseWarning, stacklevel=1)


def test_noise_seeds_differ():
    seeds = {
        running.noise_seed(size, run, call) for size in (0, 1, 1000, 3950) for run in range(100) for call in range(9)
    }
    assert len(seeds) == 4 * 100 * 9


def test_csv_cells(tmp_path):
    path = tmp_path / "new" / "x.csv"
    running.write_csv(path, ["a note"], [{"name": "one, two", "value": 1 / 3}, {"name": "none", "value": None}])
    assert path.read_text(encoding="utf-8") == '# a note\nname,value\n"one, two",0.3333333\nnone,\n'


def test_text_tables_align():
    rows = [{"curve": "a", "n": 10, "x": 0.5}, {"curve": "long name", "n": 7, "x": None}]
    assert running.text_table({"curve": "{curve}", "n": "{n}", "": "{x:.2f}"}, rows) == [
        "curve       n",
        "a          10  0.50",
        "long name   7     -",
    ]
    square = [{"t": t, "n": n, "x": float(t * n)} for t in (1, 2) for n in (10, 20)]
    assert running.crossed(square, "t", "n", "{x:.1f}") == ["t  n=10  n=20", "1  10.0  20.0", "2  20.0  40.0"]
