"""`fastpubpriv local`: reports and their sums, the two ends of a pipe."""

import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from clocks import PATIENCE
from command_cases import runner, said

import fastpubpriv as fpp
from fastpubpriv.cli import report_commands
from fastpubpriv.local import collector

DEVICE = ("--epsilon", "4", "--norm-bound", "2")
SERVER = ("--dim", "3", *DEVICE)
PROGRAM = "import sys; from fastpubpriv.cli import main; main(sys.argv[1:])"


@pytest.fixture(autouse=True)
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FASTPUBPRIV_TRACEBACK", raising=False)
    rng = np.random.default_rng(0)
    np.save("p.npy", rng.normal(0.3, 0.2, (4000, 3)))
    np.save("q.npy", rng.normal(0.3, 0.2, (50, 3)))
    for name, n in (("p.csv", 3000), ("q.csv", 40)):
        rows = rng.normal([50.0, 30_000.0], [10.0, 9000.0], (n, 2))
        Path(name).write_text("age,income\n" + "".join(f"{a:.3f},{b:.2f}\n" for a, b in rows))


invoke = runner("local")


def privatize(out="r", *more, private="p.npy", code=0):
    return invoke("privatize", "--private", private, *DEVICE, "--out", out, *more, code=code)


def answer(*arguments, **more):
    return json.loads(invoke("aggregate", *arguments, *SERVER, "--json", "-", **more).stdout)


def test_two_ends_of_a_pipe():
    """Two processes, bytes between them, lines of text at the one end."""
    out = subprocess.run(
        f"cat p.csv | {sys.executable} -c '{PROGRAM}' local privatize --private - --columns age,income --public q.csv "
        f"--standardize --epsilon 6 --norm-bound 2.5 --out - | {sys.executable} -c '{PROGRAM}' local aggregate - --dim 2 "
        "--epsilon 6 --norm-bound 2.5 --standardize --public q.csv --json m.json --plot m.png",
        shell=True,
        check=True,
        capture_output=True,
        timeout=PATIENCE,
    )
    assert b"Wrote 3,000 reports" in out.stderr
    data = json.loads(Path("m.json").read_text())
    assert data["columns"] == ["age", "income"]
    assert data["n_priv"] == 3000
    assert data["n_pub"] == 40
    error = (np.array(data["mean"]) - [50.0, 30_000.0]) / np.array(data["standard_error"])
    assert np.abs(error).max() < 5.0
    assert 0.0 < data["noise_std"][0] < 1.0
    assert Path("m.png").read_bytes().startswith(b"\x89PNG")


def test_files_give_the_same_mean_in_any_pieces():
    privatize("r", "--batch-rows", "700")
    whole = Path("r").read_bytes()
    size = 64 + 700 * fpp.local.PrivUnit(3, 4.0, norm_bound=2.0).report_bytes
    Path("parts").mkdir()
    for number, start in enumerate(range(0, len(whole), size)):
        Path(f"parts/{number}").write_bytes(whole[start : start + size])
    one = answer("r", "--public", "q.npy")
    parts = answer("parts", "--public", "q.npy")
    assert one["mean"] == parts["mean"]
    assert one["n_priv"] == 4000
    assert one["n_pub"] == 50
    assert one["private"] is True
    empirical = answer("r", "--public", "q.npy", "--target", "empirical", "--reports-per-user", "2")
    assert empirical["releases"][0]["private_weight"] == pytest.approx(4000 / 4050)
    assert empirical["spent"]["epsilon_float"] == 8.0


def test_a_stopped_run_goes_on():
    privatize("r", "--batch-rows", "500")
    whole = Path("r").read_bytes()
    for cut in (0, 30, 64, 3000, len(whole) // 2, len(whole) - 1, len(whole)):
        Path("half").write_bytes(whole[:cut])
        result = privatize("half", "--resume", "--batch-rows", "500")
        there = Path("half").read_bytes()
        assert len(there) == len(whole)
        kept = cut // (len(whole) // 8) * (len(whole) // 8)
        assert there[:kept] == whole[:kept]  # what may have been sent is not drawn again
        assert f"Wrote {4000 - kept // (len(whole) // 8) * 500:,} reports" in said(result)
        assert answer("half")["n_priv"] == 4000
    np.save("fewer.npy", np.zeros((100, 3)))
    assert "there are 100 rows" in said(privatize("r", "--resume", private="fewer.npy", code=2))
    before = Path("r").read_bytes()
    other = invoke(
        "privatize", "--private", "p.npy", "--epsilon", "3", "--out", "r", "--resume", code=2
    )
    assert "another randomizer" in said(other)
    assert Path("r").read_bytes() == before


def test_reports_are_not_replaced_or_lost(monkeypatch):
    privatize("r")
    before = Path("r").read_bytes()
    assert "cost their users as much again" in said(privatize("r", code=2))
    for out in ("p.npy", "nowhere/r", "."):
        privatize(out, code=2)
    assert Path("r").read_bytes() == before
    honest = report_commands._write

    def full(out, data, count=[0]):  # noqa: B006
        count[0] += 1
        if count[0] > 3:
            out.write(data[:50])
            raise OSError(28, "No space left on device")
        honest(out, data)

    monkeypatch.setattr(report_commands, "_write", full)
    stopped = privatize("s", "--batch-rows", "400", code=1)
    assert "No space left on device; 1,200 new reports are in 's': --resume goes on" in said(
        stopped
    )
    monkeypatch.setattr(report_commands, "_write", honest)
    privatize("s", "--resume")
    assert answer("s")["n_priv"] == 4000


def test_nobody_reads_the_pipe():
    command = [
        sys.executable,
        "-c",
        PROGRAM,
        "local",
        "privatize",
        "--private",
        "big.npy",
        *DEVICE,
        "--out",
        "-",
    ]
    np.save("big.npy", np.zeros((200_000, 3)))
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.read(100)
        process.stdout.close()
        said_there = process.stderr.read().decode()
        assert process.wait(PATIENCE) == 1
    assert "was closed before everything was written" in said_there
    assert "Traceback" not in said_there


def test_sums_are_kept_and_go_on(monkeypatch):
    privatize("a", "--batch-rows", "1000")
    np.save("p2.npy", np.random.default_rng(5).normal(0.3, 0.2, (1500, 3)))
    privatize("b", private="p2.npy")
    assert answer("a", "--state", "sums")["n_priv"] == 4000
    assert answer("--state", "sums")["n_priv"] == 4000
    both = answer("a", "b", "--state", "sums")
    assert both["n_priv"] == 5500
    assert "taken before" in both["warnings"][0]
    assert both["mean"] == answer("a", "b")["mean"]
    # Stopped in the middle: what was saved is whole, and the run goes on from it.
    monkeypatch.setattr(report_commands, "SAVE_SECONDS", 0.0)
    monkeypatch.setattr(collector, "_GROUP_BYTES", 1)
    honest = report_commands.save
    calls = []

    def save(*arguments):
        honest(*arguments)
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(report_commands, "save", save)
    stopped = invoke("aggregate", "a", "b", *SERVER, "--state", "fresh", code=130)
    assert "run it again to go on from 'fresh'" in said(stopped)
    assert answer("--state", "fresh")["n_priv"] == 3000
    assert answer("a", "b", "--state", "fresh")["mean"] == both["mean"]


def test_hostile_inputs_are_left_out():
    privatize("r", "--batch-rows", "1000")
    good = Path("r").read_bytes()
    invoke(
        "privatize", "--private", "p.npy", "--epsilon", "4", "--norm-bound", "2.5", "--out", "other"
    )
    half = len(good) // 2
    Path("in").mkdir()
    for name, data in {
        "a": good[:half],
        "cut": good[half : len(good) - 9],
        "foreign": b"\x89PNG" + bytes(500),
        "empty": b"",
        "changed": good[half : half + 100] + b"!" + good[half + 101 :],
        "newer": good[:4] + b"\x09" + good[5:],
        "repeated": good[:half],
        "huge": good[:16] + b"\xff" * 7 + b"\x00" + good[24:],
        "other": Path("other").read_bytes(),
    }.items():
        Path("in", name).write_bytes(data)
    data = answer("in")
    assert data["n_priv"] == 3000
    for word in (
        "cut short",
        "changed",
        "another version",
        "another randomizer",
        "taken before",
        "more than",
    ):
        assert word in data["warnings"][0]
    Path("first").write_bytes(good[:half])
    assert data["mean"] != answer("first")["mean"]
    assert "no report was taken" in said(invoke("aggregate", "in/foreign", *SERVER, code=2))
    assert "no report was taken: the inputs are empty" in said(
        invoke("aggregate", "in/empty", *SERVER, code=2)
    )
    if os.geteuid():
        Path("in/a").chmod(0)
        assert "cannot be read" in answer("in")["warnings"][0]


def test_reports_of_few_bits():
    few = ("--randomizer", "subset-selection", "--words", "16")
    told = said(privatize("r", *few, "--batch-rows", "1500")).split(
        "To read them: fastpubpriv local "
    )[1]
    assert "Rows 4,000 private" in " ".join(invoke(*shlex.split(told)).stdout.split())
    whole = Path("r").read_bytes()
    assert len(whole) == 3 * 64 + 4000 * 10
    data = answer("r", *few)
    assert data["n_priv"] == 4000
    Path("cut").write_bytes(whole[: len(whole) // 2])
    privatize("cut", *few, "--resume")
    assert len(Path("cut").read_bytes()) - len(whole) in (0, -64)
    assert answer("cut", *few)["n_priv"] == 4000
    assert "another randomizer" in said(invoke("aggregate", "r", *SERVER, code=2))
    assert "another randomizer" in said(invoke("aggregate", "r", *SERVER, *few[:3], "32", code=2))
    Path("hostile").write_bytes(whole[: len(whole) - 900] + bytes(900))
    assert "changed" in answer("hostile", *few)["warnings"][0]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("privatize --private p.npy --out r", "--epsilon"),
        ("privatize --private p.npy --epsilon 1 --randomizer duchi --out r", "add --norm-bound"),
        (
            "privatize --private p.npy --epsilon 1 --words 16 --out r",
            "--words belongs to subset-selection",
        ),
        (
            "privatize --private p.npy --epsilon 1 --randomizer subset-selection --form selection --out r",
            "--form",
        ),
        ("privatize --private nix.npy --epsilon 1 --out r", "no file"),
        ("privatize --private p.csv --epsilon 1 --out r", "--columns is needed"),
        ("privatize --private p.npy --epsilon 1 --standardize --out r", "--public"),
        (
            "privatize --private p.npy --public q.npy --epsilon 1 --standardize --out r",
            "pass public",
        ),
        (
            "privatize --private p.npy --epsilon 1 --norm-bound public --out r",
            "needs --public FILE",
        ),
        ("privatize --private p.npy --epsilon 1 --norm-bound private --out r", "--norm-bound"),
        ("aggregate p.npy --dim 3 --epsilon 1 --norm-bound public", "needs --public FILE"),
        ("privatize --private p.npy --epsilon 1 --out - --resume", "--out FILE"),
        ("privatize --private p.npy --epsilon 1 --out r --resume --seed 1", "--seed"),
        ("privatize --private - --epsilon 1 --out r", "--columns"),
        ("aggregate --dim 3 --epsilon 1", "no reports"),
        ("aggregate nix --dim 3 --epsilon 1", "no file 'nix'"),
        ("aggregate p.npy --dim 3 --epsilon 1", "no report was taken"),
        ("aggregate - - --dim 3 --epsilon 1", "read once"),
        ("aggregate p.npy --dim 3 --epsilon 1 --state p.npy", "one of the inputs"),
        ("aggregate p.npy --dim 3 --epsilon 1 --state q.npy", "not the sums"),
        ("aggregate p.npy --dim 3 --epsilon 1 --state s --json s", "one of the outputs"),
        ("aggregate p.npy --dim 3 --epsilon 1 --json p.npy", "files that are read"),
        ("aggregate p.npy --dim 3 --epsilon 1 --columns a,b", "--dim is 3"),
        ("aggregate p.npy --dim 3 --epsilon 1 --reports-per-user 0", "--reports-per-user"),
    ],
)
def test_refused_in_words(words, why):
    there = sorted(path.name for path in Path().iterdir())
    assert why in said(invoke(*words.split(), code=2))
    assert sorted(path.name for path in Path().iterdir()) == there


def bytes_in(path):
    """Size of a file, 0 where there is none: the place of an output is tried first, and what was tried is taken away again."""
    try:
        return Path(path).stat().st_size
    except FileNotFoundError:
        return 0


def test_an_interrupt_from_outside(tmp_path):
    """A real signal while reports are written: the file ends with a whole report or with one that --resume takes off."""
    np.save("big.npy", np.zeros((3_000_000, 3), dtype=np.float32))
    command = [
        sys.executable,
        "-c",
        PROGRAM,
        "local",
        "privatize",
        "--private",
        "big.npy",
        *DEVICE,
        "--out",
        "r",
    ]
    with subprocess.Popen(
        [*command, "--batch-rows", "1000", "--threads", "1"], stderr=subprocess.PIPE
    ) as process:
        while bytes_in("r") <= 20_000:
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        told = process.stderr.read().decode()
        assert process.wait(PATIENCE) == 130
    assert "interrupted" in told
    assert "--resume goes on" in told
    randomizer = fpp.local.PrivUnit(3, 4.0, norm_bound=2.0)
    with open("r", "rb") as file:
        reader = collector.BatchReader(randomizer)
        assert sum(len(payload) for payload in reader.batches(file)) % 1000 == 0
        assert reader.reason in (None, collector.CUT_SHORT)
