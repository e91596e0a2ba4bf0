"""`fastpubpriv mean` and its sisters: what is read, what is refused, what is written, and what is never quoted."""

import json
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from command_cases import invoke, said, typed
from rich.console import Console

import fastpubpriv as fpp
from fastpubpriv import errors
from fastpubpriv.cli import main, outputs
from fastpubpriv.results.reasons import STATUSES
from fastpubpriv.results.result_tables import number

SECRET = "Alice-SSN-123"


def table(n, seed):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {"name": [SECRET] * n, "age": rng.normal(40.0, 10.0, n), "income": rng.normal(3e4, 1e4, n)}
    )


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FASTPUBPRIV_TRACEBACK", raising=False)
    private = table(4000, 0)
    public = table(40, 1)
    private["extra"] = 1.0
    private.to_parquet("p.parquet")
    private.to_csv("p.csv", index=False)
    public.assign(only_here=2).to_csv("q.csv", index=False)
    public.to_parquet("q.parquet")
    public[:1].to_csv("q1.csv", index=False)
    rng = np.random.default_rng(2)
    np.save("p.npy", rng.normal(5.0, 1.0, (2000, 3)))
    np.save("q.npy", rng.normal(5.0, 1.0, (1, 3)))
    np.save("q2.npy", rng.normal(5.0, 1.0, (4, 2)))
    return tmp_path


@pytest.mark.parametrize(
    ("words", "notion"),
    [
        ("--private p.parquet --public q.csv --rho 0.5", "ZCDP"),
        ("--private p.csv --public q.parquet --epsilon 1", "PureDP"),
        ("--private p.csv --public q.csv --epsilon 1 --delta 1e-6", "ApproxDP"),
    ],
)
def test_two_files_and_a_budget_are_enough(files, words, notion):
    result = invoke("mean", *words.split(), "--json", "out.json")
    data = json.loads(Path("out.json").read_text())
    assert data["columns"] == ["age", "income"]
    assert data["n_priv"] == 4000
    assert data["n_pub"] == 40
    assert data["provenance"] == {"center": "public rows", "clipping": "released"}
    assert data["status"] in STATUSES
    assert data["spent"]["notion"] == notion
    assert "Private yes" in " ".join(result.stdout.split())


def test_what_was_left_out_is_said_and_columns_of_a_private_csv_are_not_listed(files):
    text = said(invoke("mean", "--private", "p.parquet", "--public", "q.csv", "--rho", "1"))
    assert "numeric columns that both files have: age, income" in text
    assert "not numeric: name" in text
    assert "only in the public file: only_here" in text
    assert "only in the private file: extra" in text
    # Without a header a row of data stands in its place.
    text = invoke("mean", "--private", "p.csv", "--public", "q.csv", "--rho", "1").output
    assert "extra" not in text


def test_json_holds_all_of_the_result(files):
    arguments = "mean --private p.parquet --public q.csv --columns income --rho 1/2"
    data = json.loads(typed(arguments, "--seed", "7", "--json", "-", "--level", "0.9").stdout)
    given = {"x_pub": "q.csv", "columns": ["income"], "budget": fpp.ZCDP(0.5), "random_state": 7}
    with pytest.warns(fpp.SeededNoiseWarning):
        result = fpp.estimate_mean("p.parquet", **given)
    lower, upper = result.confidence_interval(0.9)
    assert data["confidence_interval"] == {
        "level": 0.9,
        "lower": lower.tolist(),
        "upper": upper.tolist(),
    }
    assert data["private"] is False
    assert len(data["warnings"]) == 1
    assert "random_state" in data["warnings"][0]
    # Rho is read exactly.
    typed("mean --private p.npy --public q.npy --rho 0.1 --json out.json --quiet")
    assert json.loads(Path("out.json").read_text())["spent"]["rho"] == "1/10"


def test_one_public_row_says_what_it_assumes(files):
    ball = "mean --private p.npy --public q.npy --rho 1 --clipping gaussian"
    quiet = typed(ball, "--json", "out.json", "--quiet")
    assert quiet.stdout == ""
    assert "1 public row is too few" in said(quiet)
    data = json.loads(Path("out.json").read_text())
    assert any("standard deviation of 1" in text for text in data["warnings"])
    asked = invoke(
        "mean", "--private", "p.npy", "--public", "q.npy", "--rho", "1", "--variance", "1"
    )
    assert "too few" not in said(asked)


def test_spread_of_a_file(files):
    np.save("v.npy", np.array([1.0, 2.0, 3.0]))
    arguments = "mean --private p.npy --public q.npy --rho 1 --quiet --json -"
    data = json.loads(typed(arguments, "--variance", "v.npy").stdout)
    assert np.allclose(
        np.array(data["noise_std"]) ** 2 / data["noise_std"][0] ** 2, [1.0, 2.0, 3.0]
    )
    np.save("m.npy", np.diag([1.0, 2.0, 3.0]))
    assert (
        json.loads(typed(arguments, "--covariance", "m.npy").stdout)["provenance"]["covariance"]
        == "argument"
    )
    assert "matrix" in said(typed(arguments, "--covariance", "v.npy", code=2))
    np.save("bad.npy", np.array([{"a": SECRET}], dtype=object), allow_pickle=True)
    assert "not a .npy file of numbers" in said(typed(arguments, "--covariance", "bad.npy", code=2))


def test_seed_is_shouted_about(files):
    result = invoke("mean", "--private", "p.npy", "--public", "q.npy", "--rho", "1", "--seed", "1")
    assert "NO: the noise came from --seed" in result.stdout
    again = typed("mean --private p.npy --public q.npy --rho 1 --seed 1 --threads 2")
    assert again.stdout == result.stdout


def test_ledger_pays_and_refuses(files):
    arguments = ["mean", "--private", "p.npy", "--public", "q.npy", "--ledger", "l", "--rho"]
    assert "--ledger-total" in said(invoke(*arguments, "0.25", code=2))
    assert not Path("l").exists()
    assert "rho 0.75 of 1 left" in invoke(*arguments, "0.25", "--ledger-total", "rho=1").stdout
    assert "rho 0.25 of 1 left" in invoke(*arguments, "0.5").stdout
    assert "larger than what remains" in said(
        invoke(*arguments, "0.5", "--json", "out.json", code=2)
    )
    assert not Path("out.json").exists()
    assert len(fpp.Ledger.from_file("l").entries) == 2


def test_a_narrow_terminal_cuts_no_number(files, monkeypatch):
    narrow = {"force_terminal": True, "width": 40}
    monkeypatch.setattr(
        "fastpubpriv.cli.outputs.Console", lambda **given: Console(**given | narrow)
    )
    text = invoke("mean", "--private", "p.parquet", "--public", "q.csv", "--rho", "1").stdout
    assert "…" not in text
    assert text.count("income") > 1  # in several frames


P = ["--private", "p.npy"]
Q = ["--public", "q.npy"]
BAD = {
    "no budget": ([*P, *Q], "no privacy budget"),
    "two budgets": ([*P, *Q, "--rho", "1", "--epsilon", "1"], "one budget only"),
    "rho and delta": ([*P, *Q, "--rho", "1", "--delta", "1e-6"], "one budget only"),
    "delta alone": ([*P, *Q, "--delta", "1e-6"], "--delta needs --epsilon"),
    "same file": ([*P, "--public", "p.npy", "--rho", "1"], "same file"),
    "text column": (["--private", "p.parquet", "--public", "q.parquet", "--columns", "name", "--rho", "1"], "not numeric"),
    "wrong column": (["--private", "p.parquet", "--public", "q.csv", "--columns", "nix", "--rho", "1"], "no column 'nix'"),
    "columns of npy": ([*P, *Q, "--columns", "a", "--rho", "1"], ".npy files have none"),
    "columns empty": (["--private", "p.csv", "--public", "q.csv", "--columns", "a,,b", "--rho", "1"], "--columns must look like"),
    "steps word": ([*P, *Q, "--rho", "1", "--steps", "many"], "neither a whole number nor 'auto'"),
    "covariance": ([*P, *Q, "--rho", "1", "--variance", "round"], "must be a number"),
    "variance and covariance": ([*P, *Q, "--rho", "1", "--variance", "1", "--covariance", "public"], "variance"),
    "ledger total alone": ([*P, *Q, "--rho", "1", "--ledger-total", "1"], "belongs to --ledger"),
    "ledger total": ([*P, *Q, "--rho", "1", "--ledger", "l", "--ledger-total", "much"], "--ledger-total must look like"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_refusals_are_said(files, case):
    arguments, words = BAD[case]
    result = invoke("mean", *arguments, "--json", "out.json", code=2)
    assert words in said(result)
    assert result.stderr.strip().splitlines()[-1].startswith("Error: ")
    assert result.stdout == ""
    assert not Path("out.json").exists()


def test_private_content_is_never_quoted(files):
    np.save("object.npy", np.array([[SECRET, 1.0, 2.0]], dtype=object), allow_pickle=True)
    np.save("text.npy", np.array([[SECRET, SECRET, SECRET]]))
    Path("broken.parquet").write_bytes(b"PAR1" + SECRET.encode() * 10)
    Path("no_header.csv").write_text(f"{SECRET},Bob\n40,50\n")
    Path("numbers.csv").write_text("123456789,40\n1,2\n")
    Path("open.csv").write_text(f'"age,income\n{SECRET}\n')
    for name, words in (
        ("object.npy", "cannot be read as a .npy file"),
        ("text.npy", "must be real numbers"),
        ("broken.parquet", "cannot be read"),
        ("no_header.csv", "no numeric column occurs in both"),
        ("numbers.csv", "holds numbers: add a header"),
        ("open.csv", "cannot be read as a CSV file"),
    ):
        public = "q.npy" if name.endswith("npy") else "q.csv"
        result = invoke("mean", "--private", name, "--public", public, "--rho", "1", code=2)
        assert words in said(result), name
        assert "123456789" not in result.output


def test_text_in_a_private_cell_changes_nothing_that_is_said(files):
    clean = pd.read_csv("p.csv")
    clean.to_csv("clean.csv", index=False)
    dirty = clean.astype({"age": object})
    dirty.loc[7, "age"] = SECRET
    dirty.to_csv("dirty.csv", index=False)
    arguments = ["--public", "q.csv", "--rho", "1", "--clipping", "gaussian"]
    texts = [
        said(invoke("mean", "--private", name, *arguments)) for name in ("clean.csv", "dirty.csv")
    ]
    assert texts[0] == texts[1]


def test_each_line_of_a_private_csv_is_a_row_unless_quotes_join_lines(files):
    Path("notes.csv").write_text("age,note,income\n" + '40,"two\nlines",30000\n' * 500)
    arguments = ["mean", "--private", "notes.csv", "--public", "q.csv", "--rho", "1", "--json", "-"]
    assert json.loads(invoke(*arguments).stdout)["n_priv"] == 1000
    assert json.loads(invoke(*arguments, "--join-quoted-lines").stdout)["n_priv"] == 500
    bins = ["histogram", "--private", "notes.csv", "--columns", "age", "--width", "1"]
    alone = [*bins, "--epsilon", "1", "--delta", "1e-6"]
    assert json.loads(invoke(*alone, "--json", "-", "--join-quoted-lines").stdout)["n_priv"] == 500
    wrong = "mean --private p.parquet --public q.csv --rho 1 --join-quoted-lines"
    assert "--join-quoted-lines is about" in said(typed(wrong, code=2))
    # A quote that is not closed is one missing row, where lines are rows, and is not said to anybody.
    Path("open.csv").write_text("age,note,income\n" + '40,"open,30000\n' + "40,x,30000\n" * 499)
    arguments[2] = "open.csv"
    assert json.loads(invoke(*arguments).stdout)["n_priv"] == 500


def test_accidents_do_not_quote_rows(files, monkeypatch):
    def broken(*args, **kwargs):
        raise ValueError(SECRET)

    monkeypatch.setattr(fpp, "estimate_mean", broken)
    assert "unexpected ValueError" in said(invoke("mean", *P, *Q, "--rho", "1", code=1))
    monkeypatch.setenv("FASTPUBPRIV_TRACEBACK", "1")
    assert SECRET in str(CliRunner().invoke(main, ["mean", *P, *Q, "--rho", "1"]).exception)


def test_our_warnings_are_collected_once(files):
    texts = []
    with outputs.nice_warnings(texts):
        errors.warn("far off")
        errors.warn("far  off")
    assert texts == ["far off"]


def test_foreign_warnings_are_dropped(files, monkeypatch):
    """With warnings as errors, as in these tests, one that is not dropped would end the command."""
    estimate = fpp.estimate_mean

    def noisy(*args, **kwargs):
        warnings.warn(SECRET, RuntimeWarning, stacklevel=1)
        return estimate(*args, **kwargs)

    monkeypatch.setattr(fpp, "estimate_mean", noisy)
    done = invoke("mean", *P, *Q, "--rho", "1", "--json", "-")
    assert json.loads(done.stdout)["warnings"] == []
    assert SECRET not in said(done)


def test_coinpress_mean(files):
    arguments = "coinpress-mean --private p.npy --center 0 --radius 50 --epsilon 2"
    data = json.loads(typed(arguments, "--steps", "auto", "--json", "-").stdout)
    assert data["n_pub"] == 0
    assert "center" in said(typed(arguments.replace("center 0", "center 1,2"), code=2))
    csv = typed("coinpress-mean --private p.csv --center 0 --radius 5 --rho 1", code=2)
    assert "--columns is needed" in said(csv)


def test_weighted_mean(files):
    arguments = [
        "weighted-mean",
        *P,
        *Q,
        "--norm-bound",
        "6",
        "--center",
        "public",
        "--epsilon",
        "2",
        "--json",
        "-",
    ]
    data = json.loads(invoke(*arguments).stdout)
    assert data["provenance"]["center"] == "public rows"
    away = json.loads(invoke(*arguments, "--row-weight", "throw_away").stdout)
    assert away["spent"]["epsilon_float"] == 0.0
    assert np.allclose(away["mean"], np.load("q.npy")[0])
    assert "only public rows" in invoke(*arguments[:-2], "--row-weight", "throw_away").stdout
    assert "row_weight" in said(invoke(*arguments, "--row-weight", "heavy", code=2))
    assert "row_weight" in said(invoke(*arguments, "--row-weight", "0.5", code=2))
    # Weighted mean within bounds.
    arguments = ["weighted-mean", *P, *Q, "--epsilon", "2", "--json", "-"]
    data = json.loads(invoke(*arguments, "--bounds", "-5,15").stdout)
    assert data["provenance"]["bounds"] == "argument"
    for wrong in (
        [],
        ["--bounds", "-5,15", "--norm-bound", "6"],
        ["--bounds", "5"],
        ["--bounds", "15,-5"],
    ):
        assert "bound" in said(invoke(*arguments, *wrong, code=2))


@pytest.mark.parametrize(
    ("value", "scale", "text"),
    [
        (55.24928, 0.107, "55.25"),
        (29523.0, 455.0, "29,520"),
        (0.0100321, 3.3e-5, "0.010032"),
        (-0.004, 0.03, "-0.004"),
        (1e6, 0.001, "1,000,000.0000"),
        (3.0, 0.0, "3"),
        (1.2345e-20, 1e-22, "1.234e-20"),
        (1.5e20, 1e18, "1.5e+20"),
    ],
)
def test_digits_follow_the_uncertainty(value, scale, text):
    assert float(number(value, scale).replace(",", "")) == pytest.approx(
        value, abs=max(scale, 1e-300)
    )
    assert number(value, scale) == text
