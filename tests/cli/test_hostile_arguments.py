"""Arguments that nobody means: each is refused in words, before anything is written or charged, or is taken for what it says."""

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import fastpubpriv as fpp
from fastpubpriv.cli import main
from fastpubpriv.cli.tools import CHOICES as TASKS
from fastpubpriv.planning import task_arguments

DIGITS = "1" + "0" * 400
MORE_DIGITS = "9" * 5000  # more than Python turns into a number
PUBLIC = {
    "--n-pub": ("n_pub", 20), "--components": ("n_components", 2), "--candidates": ("candidates", 100),
    "--radius": ("radius", 10), "--norm-bound": ("norm_bound", 1),
}  # fmt: skip


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


MEAN = "mean --private p.npy --public q.npy --rho 0.5 "
REFUSED = [
    *(f"mean --private p.npy --public q.npy --rho {rho}" for rho in ("1e400", "1e-400", "1e999", DIGITS, "-1", "1/0", "0x1")),
    *(f"mean --private p.npy --public q.npy --epsilon 1 --delta {delta}" for delta in ("0", "1e-999", "-1e-6", "nan")),
    *(MEAN + f"--steps {steps}" for steps in ("0", "-1", "1e3", "999999999", DIGITS)),
    *(MEAN + f"--gap {gap}" for gap in ("-1", "1", "nan", "inf", "1e400")),
    *(MEAN + f"--threads {threads}" for threads in ("0", "-1", "1e2", "99999", DIGITS, MORE_DIGITS)),
    *(MEAN + f"--seed {seed}" for seed in ("-1", "1e3", MORE_DIGITS)),
    *(MEAN + f"--level {level}" for level in ("nan", "0", "1", "-0.5", "1e400")),
    *(MEAN + f"--bounds {ends}" for ends in ("1", "2,1", "1,1", "a,b", "1,2,3", "1e400,1", "nan,1", ",")),
    *(MEAN + words for words in ("--clipping box", "--missing drop", "--public-only yes", "--variance 1 --bounds 0,1")),
    *(MEAN + f"--covariance {v}" for v in ("1", "identity", "nix.npy", "folder.npy", "object.npy")),
    *(MEAN + f"--variance {v}" for v in ("1e400", "nan", "0", "-1", ",", "1,2", "nix.npy", "folder.npy", "object.npy")),
    *(MEAN + f"--ledger {path}" for path in ("nix", "text", "empty", "folder.npy", "p.npy", "loop.npy", "-q", "--json")),
    *(MEAN + f"--ledger new --ledger-total {total}" for total in ("1e400", "delta=1", "epsilon=1,rho=1", "rho=", DIGITS)),
    *(MEAN + f"--ledger {path} --ledger-total 1" for path in ("/proc/l", "/dev/null", "nowhere/l", "x" * 300)),
    *(f"mean --private {path} --public q.npy --rho 0.5" for path in ("empty.npy", "none.npy", "object.npy", "loop.npy", "nix.npy")),
    *(f"mean --private {path} --public q.csv --rho 0.5" for path in ("empty.csv", "latin.csv", "empty.parquet", "nix.csv")),
    *(f"mean --private p.npy --public {path} --rho 0.5" for path in ("nan.npy", "latin.csv", "empty.csv", "q.csv", "-", "--rho")),
    *(f"coinpress-mean --private p.npy --radius 5 --rho 1 --center {c}" for c in ("nan", "1e400", ",", "1,2", "x.npy")),
    *(f"coinpress-mean --private p.npy --center 0 --rho 1 --radius {r}" for r in ("0", "-1", "nan", "1e400", "1e308", "1e-320")),
    *(f"weighted-mean --private p.npy --rho 1 --norm-bound {b}" for b in ("0", "-1", "nan", "1e400", "1e308", "1e-320")),
    *(f"weighted-mean --private p.npy --rho 1 --norm-bound 1 --row-weight {w}" for w in ("1e999", "-1", "much", DIGITS)),
    *(f"gaussian --private p.npy --public q.npy --rho 1 --rounds {n}" for n in ("0", "1000000", DIGITS)),
    *(f"mixture --private p.npy --public q.npy --rho 1 --components {k}" for k in ("0", "41", "1000000", DIGITS, MORE_DIGITS)),
    *(f"histogram --private p.npy --epsilon 1 --delta 1e-6 --width {w}" for w in ("0", "-1", "1e400", "1e999", "1e-400", DIGITS)),
    *(f"histogram --private p.npy --epsilon 1 --delta 1e-6 --width 1 --offset {o}" for o in ("1e999", "nan", DIGITS)),
    *(f"histogram --private p.npy --epsilon 1 --delta 1e-6 --width 1 --levels {n}" for n in ("0", "100", DIGITS)),
    *(f"axis-mixture --private one.npy --epsilon 1 --delta 1e-6 --components {k}" for k in ("0", "1000", DIGITS)),
    *(f"axis-mixture --private one.npy --epsilon 1 --delta 1e-6 --components 2 --accuracy {a}" for a in ("1e-300", "nan", "0")),
    *(plan_of(task) + f"--n-priv {n} --rho 0.5" for task in TASKS for n in (DIGITS, MORE_DIGITS, "1e400", "0", "-5", "0.5")),
    *(plan_of(task) + f"--error {error} --rho 0.5" for task in TASKS for error in ("0", "-1", "nan", "1e400")),
    *(plan_of("mean") + f"--n-priv 1000 --rho {rho}" for rho in ("1e400", "1e-300", "0")),
    plan_of("mean") + f"--n-priv 1000 --rho 1 --dim {DIGITS}",
    plan_of("mean") + f"--n-priv 1000 --rho 1 --n-pub {DIGITS}",
    plan_of("separated-mixture") + f"--n-priv 1000 --rho 1 --components {DIGITS}",
    plan_of("select-hypothesis") + f"--n-priv 1000 --rho 1 --candidates {DIGITS}",
    plan_of("mean") + "--n-priv 1000 --rho 1 --json -q",
    plan_of("mean") + "--n-priv 1000 --rho 1 --json folder.npy",
    "info --json folder.npy",
    "nix",
    "--nix",
    "x" * 5000,
]  # fmt: skip


@pytest.mark.parametrize("words", REFUSED, ids=lambda words: words[:80])
def test_refused_in_words(words):
    code, said = said_by(words)
    assert code == 2, said
    assert "Error:" in said


@pytest.mark.parametrize("words", [
    MEAN + "--gap 1e-400", MEAN + "--bounds -1e9,1e-320",
    MEAN + "--clipping gaussian --failure-prob 0.9999999999999999", MEAN + "--level 0.9999999999999999",
    MEAN + "--level 1e-320", MEAN + "--variance 1e308", MEAN + f"--seed {DIGITS}",
    "mean --private p.npy --public q.npy --rho 1/3",
    "coinpress-mean --private p.npy --center -1e3 --radius 1e2 --rho 5e-1",
    "coinpress-mean --private nan.npy --center 0 --radius 5 --rho 1",
    "weighted-mean --private p.npy --public q.npy --norm-bound 1 --row-weight 1e-999 --rho 1",
    "histogram --private p.npy --epsilon 1 --delta 1e-6 --width 1e-320",
    plan_of("mean") + "--n-priv 9007199254740992 --rho 0.5",
], ids=lambda words: words[:80])  # fmt: skip
def test_taken_for_what_they_say(words):
    code, said = said_by(words)
    assert code == 0, said


@pytest.mark.parametrize("huge", [10**400, 10**5000, -(10**400)], ids=["400", "5000", "-400"])
@pytest.mark.parametrize("name", ["dim", "n_priv", "n_pub", "n_components", "candidates"])
@pytest.mark.parametrize("task", TASKS)
def test_the_library_refuses_huge_numbers_of_things_too(task, name, huge):
    public = dict(
        dim=3,
        n_priv=1000,
        n_pub=20,
        radius=10,
        norm_bound=1,
        candidates=100,
        n_components=2,
        min_weight=0.2,
    )
    own = {"n_priv", *task_arguments(task.replace("-", "_"))}
    if name in own:
        arguments = {key: value for key, value in {**public, name: huge}.items() if key in own}
        with pytest.raises(fpp.InputError, match=name):
            fpp.plan(task.replace("-", "_"), budget=fpp.ZCDP(0.5), **arguments)


def test_a_list_of_millions_of_digits_is_not_computed():
    made = fpp.plan(
        "axis_aligned_mixture",
        dim=2**30,
        n_components=2,
        n_priv=1000,
        budget=fpp.ApproxDP(1, 1e-6),
        n_pub=9,
    )
    assert "list_decoding_rows" not in made.details
