"""The registry, what the experiments share, and their simulated rows."""

import functools
import json
import math

import numpy as np
import pytest
from helpers.tables import read
from scipy import stats

from benchmarks import machine
from benchmarks.papers import coinpress_covariance as experiment
from benchmarks.papers import figure_one_public_row as figure
from benchmarks.papers import public_mixtures, univariate_mixtures
from benchmarks.papers.__main__ import main
from benchmarks.papers.mixture_cases import CASES, Truth, anywhere, blobs, distance_by_draws, distance_on_line
from benchmarks.papers.registry import EXPERIMENTS
from benchmarks.papers.samples import coin_rows, normal_rows


def test_the_command_lists_and_runs(tmp_path, capsys):
    main([])
    listed = capsys.readouterr().out
    assert all(each.summary in listed for each in EXPERIMENTS.values())
    main(["b-proposition-8", "--out", str(tmp_path), "--runs", "2", "--threads", "1"])
    assert "a factor of about 1.98" in capsys.readouterr().out
    assert {path.name for path in tmp_path.iterdir()} == {"b-proposition-8.csv", "b-proposition-8.png"}


@pytest.mark.parametrize(("words", "said"), [
    ("figure-9", "invalid choice"), ("a-figure-1 --quick", "no smaller problem"),
    ("a-figure-1 --cell 0.5:4", "made as a whole"), ("b-beyond --cell half", "--cell"),
    ("b-beyond --quick --cell 0.5:3", "no cell 0.5:3"), ("a-figure-1 --runs 1", "runs"),
])  # fmt: skip
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


# ---- `python -m benchmarks.machine` ---------------------------------------------------------------------------------
@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(machine, "measure", functools.partial(machine.measure, shapes=((500, 3),), rounds=1))


@pytest.mark.usefixtures("small")
def test_ratios_beside_an_older_file(tmp_path, capsys):
    old = tmp_path / "old.json"
    machine.main(["--threads", "1", "--json", str(old)])
    assert "ratio" in capsys.readouterr().out
    written = json.loads(old.read_text(encoding="utf-8"))
    assert written["machine"]["instructions"] in ("baseline", "AVX2", "AVX-512")
    (lap,) = written["laps"]
    assert (lap["n_priv"], lap["dim"]) == (500, 3)
    assert lap["ratio"] == pytest.approx(lap["numpy_seconds"] / lap["seconds"])
    machine.main(["--compare", str(old)])
    shown = capsys.readouterr().out
    for words in ("old ratio", f"{lap['ratio']:.1f}x", f"{1e3 * lap['seconds']:.2f} ms", "now: ", "old: "):
        assert words in shown
    lap["n_priv"] = 501
    written["machine"]["processor"] = "\x1b[31mZ80[bold]"
    old.write_text(json.dumps(written), encoding="utf-8")
    machine.main(["--compare", str(old)])
    shown = capsys.readouterr().out
    assert "Z80[bold]" in shown
    assert "\x1b" not in shown


# ---- Figure 1 of paper A against its closed forms, and those against the table worked out by hand -------------------
SIZES = (1000, 1818, 2636, 4272, 6727, 10_000)
TABLE = {
    figure.NON_PRIVATE: (0.2225, 0.1650, 0.1370, 0.1076, 0.0858, 0.0704),
    "CoinPress, k=10": (0.2824, 0.1880, 0.1499, 0.1138, 0.0889, 0.0721),
    "CoinPress, k=100": (0.5537, 0.2428, 0.1687, 0.1183, 0.0901, 0.0724),
    "CoinPress, k=1000": (4.408, 1.356, 0.6614, 0.2742, 0.1361, 0.0866),
    figure.ONE_PUBLIC: (0.2726, 0.1860, 0.1492, 0.1136, 0.0888, 0.0720),
    figure.AS_PUBLISHED: (0.2757, 0.1870, 0.1497, 0.1138, 0.0889, 0.0721),
}


@pytest.mark.parametrize("curve", figure.CURVES)
def test_closed_forms(curve):
    for n, value in zip(SIZES, TABLE[curve], strict=True):
        assert figure.closed_form(curve, n) == pytest.approx(value, rel=7e-4)


def test_the_whole_figure_is_within_four_percent(tmp_path):
    # 100 runs: the trimmed mean of a point varies by about 1 %, and the seeds are fixed.
    report = EXPERIMENTS["a-figure-1"].run(tmp_path, progress=False)
    rows = read(report.csv)
    assert len(rows) == 6 * 12
    for row in rows:
        assert float(row["trimmed_mean"]) == pytest.approx(float(row["closed_form"]), rel=0.04)
    assert report.png.stat().st_size > 10_000


def test_the_published_radius_is_worse_at_small_n():
    assert figure.closed_form(figure.AS_PUBLISHED, 1000) > 1.01 * figure.closed_form(figure.ONE_PUBLIC, 1000)


def test_a_wrong_radius_would_be_noticed(monkeypatch):
    monkeypatch.setattr(figure, "FAILURE", 1e-12)
    assert figure.closed_form(figure.ONE_PUBLIC, 1000) != pytest.approx(TABLE[figure.ONE_PUBLIC][0], rel=7e-4)


# ---- The covariance curves against the numbers known for them -------------------------------------------------------
# Medians of n = 3000, and of n = 8000: (t, least, most). Upper ends are what noise on the triangle would give.
BANDS = {(2, 3000): (0.33, 0.39), (2, 8000): (0.13, 0.15), (3, 3000): (0.19, 0.246), (3, 8000): (0.11, 0.129)}


def test_curves_are_written_for_every_size_and_step(tmp_path, monkeypatch):
    monkeypatch.setattr(experiment, "SIZES", (3000, 8000))
    report = EXPERIMENTS["coinpress-covariance"].run(tmp_path, runs=20, progress=False)
    rows = {(float(r["condition"]), int(r["steps"]), int(r["n"])): r for r in read(report.csv)}
    assert set(rows) == {(1.0, t, n) for t in range(1, 6) for n in (3000, 8000)} | {
        (100.0, t, 8000) for t in range(1, 6)
    }
    for (steps, n), (least, most) in BANDS.items():
        row = rows[1.0, steps, n]
        assert least < float(row["median"]) < most
        assert float(row["lower_quartile"]) <= float(row["median"]) <= float(row["upper_quartile"])
    # The right order keeps improving where the published code gets worse.
    skewed = [float(rows[100.0, t, 8000]["median"]) for t in (2, 3, 5)]
    assert skewed[0] > skewed[1] > 0.95 * skewed[2]
    assert skewed[2] < 0.15
    assert float(rows[100.0, 5, 8000]["published"]) == 2.17
    assert rows[1.0, 5, 3000]["published"] == ""
    assert report.png.stat().st_size > 5_000
    assert any("0.361" in line for line in report.lines)


# ---- The local model's figure: measured errors meet the closed forms, and PrivUnit is the best of its group ---------
def test_the_figure(tmp_path):
    report = EXPERIMENTS["b-local"].run(tmp_path, runs=5, progress=False)
    rows = read(report.csv)
    reports = [row for row in rows if row["part"] == "report"]
    means = [row for row in rows if row["part"] == "mean"]
    assert len(reports) == 45
    assert len(means) == 36
    for row in reports:
        gap = abs(float(row["monte_carlo"]) - float(row["closed_form"]))
        assert gap < 6 * float(row["standard_error"]) + 1e-3 * float(row["closed_form"])
    bits = [row for row in rows if row["part"] == "bits"]
    assert len(bits) == 14
    for row in bits:
        gap = abs(float(row["monte_carlo"]) - float(row["closed_form"]))
        assert gap < 6 * float(row["standard_error"]) + 1e-3 * float(row["closed_form"])
    for epsilon in {row["epsilon"] for row in bits}:
        errors = [float(row["closed_form"]) for row in bits if row["epsilon"] == epsilon][:6]
        assert errors == sorted(errors, reverse=True)  # more bits are better, up to a whole seed
    seen = 0
    for group in {(row["dim"], row["epsilon"]) for row in reports}:
        errors = {row["method"]: float(row["closed_form"]) for row in reports if (row["dim"], row["epsilon"]) == group}
        assert min(errors, key=errors.get) == "PrivUnit"
        # Measured too: better wherever the closed forms differ by more than the measurement can err, and never seen to be worse.
        measured = {row["method"]: row for row in reports if (row["dim"], row["epsilon"]) == group}
        best = measured.pop("PrivUnit")
        for row in measured.values():
            doubt = 6 * math.hypot(float(best["standard_error"]), float(row["standard_error"]))
            assert float(best["monte_carlo"]) < float(row["monte_carlo"]) + doubt
            if float(row["closed_form"]) - float(best["closed_form"]) > doubt:
                assert float(best["monte_carlo"]) < float(row["monte_carlo"])
                seen += 1
    assert seen >= 16  # of 30 comparisons; PrivUnitG is within parts in a thousand for many columns
    for share in {row["public_share"] for row in means}:
        errors = {row["method"]: float(row["closed_form"]) for row in means if row["public_share"] == share}
        assert errors["semi-local"] <= min(errors["one weight"], errors["throw-away"]) * (1 + 1e-9)
    # Both branches of the minimax rate are there: full local is better than throw-away for few public rows, and worse for many.
    sides = {row["method"]: [float(r["closed_form"]) for r in means if r["method"] == row["method"]] for row in means}
    assert sides["full local"][0] < sides["throw-away"][0]
    assert sides["full local"][-1] > sides["throw-away"][-1]
    assert report.png.stat().st_size > 5_000


# ---- c-univariate and c-public, small; and the distances they measure -----------------------------------------------
def test_distance_of_two_gaussians_is_the_closed_form():
    one, other = Truth.line([1.0], [1e9], [2.0]), Truth.line([1.0], [1e9 + 3.0], [2.0])
    exact = 2.0 * stats.norm.cdf(3.0 / 4.0) - 1.0
    assert distance_on_line(one, other) == pytest.approx(exact, rel=1e-4)
    assert distance_by_draws(one, other, np.random.default_rng(0), 100_000) == pytest.approx(exact, abs=0.01)
    assert distance_on_line(one, one) == 0.0
    assert distance_on_line(one, Truth.line([1.0], [-1e9], [2.0])) == pytest.approx(1.0, abs=1e-4)


def test_draws_follow_their_law():
    for truth in (CASES["three"], anywhere(np.random.default_rng(1), 3)):
        rows = truth.draw(np.random.default_rng(2), 20_000)[:, 0]
        law = sum(
            w * stats.norm.cdf(np.sort(rows), m, s)
            for w, m, s in zip(truth.weights, truth.means[:, 0], truth.stds[:, 0], strict=True)
        )
        assert np.abs(law - (np.arange(len(rows)) + 0.5) / len(rows)).max() < 2.2 / np.sqrt(len(rows))
    assert (anywhere(np.random.default_rng(3), 3).weights >= 0.15).all()
    assert blobs(np.random.default_rng(3), 3, 4).means.shape == (3, 4)


def test_univariate_table(tmp_path, monkeypatch):
    for name, value in {"SIZES": (3000,), "EPSILONS": (1.0, 4.0), "FIXED_ROWS": 3000}.items():
        monkeypatch.setattr(univariate_mixtures, name, value)
    report = EXPERIMENTS["c-univariate"].run(tmp_path, runs=2, threads=1, progress=False)
    text = report.csv.read_text(encoding="utf-8")
    assert text.startswith("# ")
    rows = [line for line in text.splitlines() if not line.startswith("#")]
    assert rows[0].startswith("case,n_priv,epsilon,runs,median")
    assert len(rows) == 1 + 2 * (len(CASES) + 3)
    assert report.png.read_bytes().startswith(b"\x89PNG")
    medians = {tuple(row.split(",")[:3]): float(row.rsplit(",", 4)[1]) for row in rows[1:] if "means" not in row}
    assert 0.0 < medians["two", "3000", "1"] < 0.1


def test_public_table(tmp_path, monkeypatch):
    monkeypatch.setattr(public_mixtures, "PLACES", (public_mixtures.PLACES[0], public_mixtures.PLACES[6]))
    report = EXPERIMENTS["c-public"].run(tmp_path, runs=2, threads=1, progress=False)
    rows = [line for line in report.csv.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    assert len(rows) == 3
    for row in rows[1:]:
        cells = row.split(",")
        assert float(cells[6]) < float(cells[7])  # better than the public rows alone
    assert report.png.read_bytes().startswith(b"\x89PNG")
