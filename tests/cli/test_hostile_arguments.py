"""Arguments that nobody means: each is refused in words, before anything is written or charged, or is taken for what it says."""

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from fastpubpriv.cli import main
from fastpubpriv.cli.tools import CHOICES as TASKS
from fastpubpriv.planning import task_arguments

DIGITS = "1" + "0" * 400
MORE_DIGITS = "9" * 5000  # more than Python turns into a number
PUBLIC = {
    "--n-pub": ("n_pub", 20),
    "--components": ("n_components", 2),
    "--candidates": ("candidates", 100),
    "--radius": ("radius", 10),
    "--norm-bound": ("norm_bound", 1),
}


def plan_of(task):
    """A plan with the options that the task has."""
    own = task_arguments(task.replace("-", "_"))
    given = [f"{option} {value} " for option, (name, value) in PUBLIC.items() if name in own]
    return f"plan {task} --dim 3 " + "".join(given)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("hostile")
    rng = np.random.default_rng(0)
    np.save(made / "p.npy", rng.normal(5.0, 1.0, (2000, 3)))
    np.save(made / "one.npy", rng.normal(5.0, 1.0, (2000, 1)))
    np.save(made / "q.npy", rng.normal(5.0, 1.0, (40, 3)))
    np.save(made / "none.npy", np.zeros((0, 3)))
    np.save(made / "nan.npy", np.full((40, 3), np.nan))
    np.save(made / "object.npy", np.array([[{}]], dtype=object), allow_pickle=True)
    pd.DataFrame(rng.normal(size=(40, 2)), columns=["a", "b"]).to_csv(made / "q.csv", index=False)
    (made / "latin.csv").write_bytes("a,b,é\n1,2,3\n".encode("latin-1"))
    for name in ("empty.npy", "empty.csv", "empty.parquet", "empty"):
        (made / name).touch()
    (made / "text").write_text("hello")
    (made / "folder.npy").mkdir()
    os.symlink("loop.npy", made / "loop.npy")
    return made


@pytest.fixture(autouse=True)
def here(folder, monkeypatch):
    monkeypatch.chdir(folder)
    monkeypatch.delenv("FASTPUBPRIV_TRACEBACK", raising=False)


def said_by(words):
    """Exit code and error stream of a command line; it is never an accident, and never leaves a file behind if refused."""
    there = sorted(path.name for path in Path().iterdir())
    done = CliRunner().invoke(main, words.split())
    assert isinstance(done.exception, SystemExit | None), done.exception
    assert "this is a bug" not in done.output
    assert len(done.output) < 3000
    if done.exit_code:
        assert sorted(path.name for path in Path().iterdir()) == there
    return done.exit_code, " ".join(done.stderr.split())


REFUSED = []


def refuse(line, option, *values):
    """Add to the table that a command line refuses each of the values of an option."""
    REFUSED.extend(f"{line} {option} {value}" for value in values)


MEAN = "mean --private p.npy --public q.npy --rho 0.5"
WITHOUT_BUDGET = "mean --private p.npy --public q.npy"
# Numbers.
refuse(WITHOUT_BUDGET, "--rho", "1e400", "1e-400", "1e999", DIGITS, "-1", "1/0", "0x1")
refuse(WITHOUT_BUDGET, "--epsilon 1 --delta", "0", "1e-999", "-1e-6", "nan")
refuse(MEAN, "--steps", "0", "-1", "1e3", "999999999", DIGITS)
refuse(MEAN, "--gap", "-1", "1", "nan", "inf", "1e400")
refuse(MEAN, "--threads", "0", "-1", "1e2", "99999", DIGITS, MORE_DIGITS)
refuse(MEAN, "--seed", "-1", "1e3", MORE_DIGITS)
refuse(MEAN, "--level", "nan", "0", "1", "-0.5", "1e400")
refuse(MEAN, "--bounds", "1", "2,1", "1,1", "a,b", "1,2,3", "1e400,1", "nan,1", ",")
# Words, and options that exclude each other.
refuse(MEAN, "--clipping", "box")
refuse(MEAN, "--missing", "drop")
refuse(MEAN, "--public-only", "yes")
refuse(MEAN, "--variance 1 --bounds", "0,1")
# Numbers or files.
refuse(MEAN, "--covariance", "1", "identity", "nix.npy", "folder.npy", "object.npy")
refuse(MEAN, "--variance", "1e400", "nan", "0", "-1", ",", "1,2")
refuse(MEAN, "--variance", "nix.npy", "folder.npy", "object.npy")
# Ledgers.
refuse(MEAN, "--ledger", "nix", "text", "empty", "folder.npy", "p.npy", "loop.npy", "-q", "--json")
refuse(MEAN, "--ledger new --ledger-total", "1e400", "delta=1", "epsilon=1,rho=1", "rho=", DIGITS)
refuse(MEAN + " --ledger-total 1", "--ledger", "/proc/l", "/dev/null", "nowhere/l", "x" * 300)
# Files of rows.
OF_ARRAYS = "mean --public q.npy --rho 0.5"
OF_TABLES = "mean --public q.csv --rho 0.5"
OF_PUBLIC = "mean --private p.npy --rho 0.5"
refuse(OF_ARRAYS, "--private", "empty.npy", "none.npy", "object.npy", "loop.npy", "nix.npy")
refuse(OF_TABLES, "--private", "empty.csv", "latin.csv", "empty.parquet", "nix.csv")
refuse(OF_PUBLIC, "--public", "nan.npy", "latin.csv", "empty.csv", "q.csv", "-", "--rho")
# Options of other commands.
BALL = "coinpress-mean --private p.npy --rho 1"
WEIGHTED = "weighted-mean --private p.npy --rho 1"
GAUSSIAN = "gaussian --private p.npy --public q.npy --rho 1"
MIXTURE = "mixture --private p.npy --public q.npy --rho 1"
HISTOGRAM = "histogram --private p.npy --epsilon 1 --delta 1e-6"
AXIS_MIXTURE = "axis-mixture --private one.npy --epsilon 1 --delta 1e-6"
refuse(BALL, "--radius 5 --center", "nan", "1e400", ",", "1,2", "x.npy")
refuse(BALL, "--center 0 --radius", "0", "-1", "nan", "1e400", "1e308", "1e-320")
refuse(WEIGHTED, "--norm-bound", "0", "-1", "nan", "1e400", "1e308", "1e-320")
refuse(WEIGHTED, "--norm-bound 1 --row-weight", "1e999", "-1", "much", DIGITS)
refuse(GAUSSIAN, "--rounds", "0", "1000000", DIGITS)
refuse(MIXTURE, "--components", "0", "41", "1000000", DIGITS, MORE_DIGITS)
refuse(HISTOGRAM, "--width", "0", "-1", "1e400", "1e999", "1e-400", DIGITS)
refuse(HISTOGRAM, "--width 1 --offset", "1e999", "nan", DIGITS)
refuse(HISTOGRAM, "--width 1 --levels", "0", "100", DIGITS)
refuse(AXIS_MIXTURE, "--components", "0", "1000", DIGITS)
refuse(AXIS_MIXTURE, "--components 2 --accuracy", "1e-300", "nan", "0")
# Plans.
for task in TASKS:
    planned = f"{plan_of(task)} --rho 0.5"
    refuse(planned, "--n-priv", DIGITS, MORE_DIGITS, "1e400", "0", "-5", "0.5")
    refuse(planned, "--error", "0", "-1", "nan", "1e400")
PLAN = f"{plan_of('mean')} --n-priv 1000"
MIXTURE_PLAN = f"{plan_of('separated-mixture')} --n-priv 1000 --rho 1"
CHOICE_PLAN = f"{plan_of('select-hypothesis')} --n-priv 1000 --rho 1"
refuse(PLAN, "--rho", "1e400", "1e-300", "0")
refuse(PLAN, "--rho 1 --dim", DIGITS)
refuse(PLAN, "--rho 1 --n-pub", DIGITS)
refuse(PLAN, "--rho 1 --json", "-q", "folder.npy")
refuse(MIXTURE_PLAN, "--components", DIGITS)
refuse(CHOICE_PLAN, "--candidates", DIGITS)
# Commands.
refuse("info", "--json", "folder.npy")
REFUSED += ["nix", "--nix", "x" * 5000]


@pytest.mark.parametrize("words", REFUSED, ids=lambda words: words[:80])
def test_refused_in_words(words):
    code, said = said_by(words)
    assert code == 2, said
    assert "Error:" in said


TAKEN = [
    f"{MEAN} --gap 1e-400",
    f"{MEAN} --bounds -1e9,1e-320",
    f"{MEAN} --clipping gaussian --failure-prob 0.9999999999999999",
    f"{MEAN} --level 0.9999999999999999",
    f"{MEAN} --level 1e-320",
    f"{MEAN} --variance 1e308",
    f"{MEAN} --seed {DIGITS}",
    f"{WITHOUT_BUDGET} --rho 1/3",
    "coinpress-mean --private p.npy --center -1e3 --radius 1e2 --rho 5e-1",
    "coinpress-mean --private nan.npy --center 0 --radius 5 --rho 1",
    "weighted-mean --private p.npy --public q.npy --norm-bound 1 --row-weight 1e-999 --rho 1",
    f"{HISTOGRAM} --width 1e-320",
    f"{plan_of('mean')} --n-priv 9007199254740992 --rho 0.5",
]


@pytest.mark.parametrize("words", TAKEN, ids=lambda words: words[:80])
def test_taken_for_what_they_say(words):
    code, said = said_by(words)
    assert code == 0, said
