"""What was paid for reaches its reader or a file whose name is told; whoever is stopped learns what was charged."""

import errno
import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from clocks import PATIENCE

import fastpubpriv as fpp
from fastpubpriv.cli import main, outputs, streams

BUDGET = ("--rho", "0.25", "--ledger", "l", "--ledger-total", "1")
MEAN = ("mean", "--private", "p.npy", "--public", "q.npy", *BUDGET)


@pytest.fixture(autouse=True)
def files(tmp_path, monkeypatch):
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("FASTPUBPRIV_TRACEBACK", raising=False)
    rng = np.random.default_rng(0)
    np.save("p.npy", rng.normal(5.0, 1.0, (2000, 3)))
    np.save("q.npy", rng.normal(5.0, 1.0, (40, 3)))
    return folder


class Stream(io.StringIO):
    """A stream that fails from its `bad`-th write on."""

    def __init__(self, bad=None, number=errno.EPIPE):
        super().__init__()
        self.left = bad
        self.number = number
        self.failed = False

    def write(self, text):
        if self.left is not None:
            if self.left == 0:
                self.failed = True
                raise OSError(self.number, os.strerror(self.number))
            self.left -= 1
        return super().write(text)


def run(monkeypatch, *arguments, out=None, bug=False):
    """Exit code, standard output and error stream of a command in this process; only a `bug` is called one."""
    out = Stream() if out is None else out
    err = Stream()
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    with pytest.raises(SystemExit) as end:
        main([str(argument) for argument in arguments])
    assert "Traceback" not in err.getvalue()
    assert ("bug" in err.getvalue()) is bug
    return end.value.code, out.getvalue(), " ".join(err.getvalue().split())


def ending(wanted, *arguments, **more):
    """The error stream of a command that ends with this exit code."""
    code, _, said = run(*arguments, **more)
    assert code == wanted, said
    return said


def charged():
    """Debits in the ledger; None if there is no file."""
    return len(fpp.Ledger.from_file("l").entries) if Path("l").exists() else None


def kept(folder):
    """The one answer that was kept where nobody asked for it."""
    (path,) = folder.glob("fastpubpriv-result-*.json")
    return path, json.loads(path.read_text())


def is_whole(data):
    return (
        data["kind"] == "MeanResult"
        and np.isfinite(data["mean"]).all()
        and data["confidence_interval"]["level"] == 0.95
    )


@pytest.mark.parametrize("number", [errno.EPIPE, errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("bad", [0, 1, 2])
@pytest.mark.parametrize("extra", [(), ("--json", "-")])
def test_a_broken_standard_output_loses_nothing(files, monkeypatch, extra, bad, number):
    out = Stream(bad, number)
    code, _, said = run(monkeypatch, *MEAN, *extra, out=out)
    if not out.failed:  # everything was said in fewer writes
        assert code == 0
        return
    assert code == 1
    path, data = kept(files)
    assert is_whole(data)
    assert str(path) in said
    assert ("was closed" if number == errno.EPIPE else os.strerror(number)) in said
    assert "the ledger was charged" in said
    assert charged() == 1
    assert path.stat().st_mode & 0o777 == 0o600


def test_planted_fault_an_answer_that_is_not_kept_is_noticed(files, monkeypatch):
    monkeypatch.setattr(outputs, "keep", lambda text: "the whole result is in 'nowhere'")
    with pytest.raises(ValueError, match="not enough values"):
        test_a_broken_standard_output_loses_nothing(
            files, monkeypatch, ("--json", "-"), 0, errno.EPIPE
        )


def test_a_file_that_was_asked_for_is_enough(files, monkeypatch):
    said = ending(1, monkeypatch, *MEAN, "--json", "out.json", out=Stream(0))
    assert "the whole result is in 'out.json'" in said
    assert is_whole(json.loads(Path("out.json").read_text()))
    assert not list(files.glob("fastpubpriv-result-*"))


def program(arguments, redirection, folder):
    """A command in a process of its own, with the shell's redirections."""
    command = f"{sys.executable} -c 'from fastpubpriv.cli import main; main()' {' '.join(arguments)} {redirection}"
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )


@pytest.mark.parametrize(
    ("extra", "redirection", "words"),
    [
        ((), "| head -1", "was closed"),
        (("--json", "-"), "| head -1", "was closed"),
        ((), "> /dev/full", "No space left"),
        (("--json", "-"), "> /dev/full", "No space left"),
    ],
)
def test_pipes_and_full_devices_of_a_shell(files, extra, redirection, words):
    done = program([*MEAN, *extra], redirection, files)
    assert done.returncode == 1
    path, data = kept(files)
    assert is_whole(data)
    said = " ".join(done.stderr.split())
    assert words in said
    assert str(path) in said
    assert said.count("Error:") == 1
    assert "Exception" not in said
    assert charged() == 1


def test_a_closed_standard_output(files):
    done = program(MEAN, ">&-", files)
    assert done.returncode == 2
    assert "nobody reads the standard output" in done.stderr
    assert charged() is None
    done = program([*MEAN, "--json", "out.json"], ">&- 2>&-", files)
    assert is_whole(json.loads(Path("out.json").read_text()))
    assert charged() == 1  # and the ledger did not take the number of the standard output


def test_a_reader_that_left_is_noticed_before_anything_is_spent(monkeypatch):
    read, write = os.pipe()
    os.close(read)
    with open(write, "w") as pipe:
        monkeypatch.setattr(sys, "stdout", pipe)
        assert streams.output_is_gone()
        for extra in ((), ("--json", "-")):
            with pytest.raises(SystemExit) as end:
                main([*MEAN, *extra])
            assert end.value.code == 2
    assert charged() is None


def test_where_no_file_can_be_written_the_answer_goes_to_the_error_stream(files, monkeypatch):
    def refuse(*arguments, **named):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(outputs.tempfile, "mkstemp", refuse)
    monkeypatch.setattr(sys, "stderr", Stream())
    words = outputs.keep('{"kind": "x"}')
    assert '{"kind": "x"}' in sys.stderr.getvalue()
    assert "error stream" in words


def full(monkeypatch, suffix):
    """A disk that is full once a file with this suffix is half written."""
    real = Path.write_text

    def write(self, text, **more):
        if self.suffix == suffix:
            real(self, text[: len(text) // 2], **more)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(self, text, **more)

    monkeypatch.setattr(Path, "write_text", write)


def test_a_full_disk_leaves_the_old_file_and_the_answer_elsewhere(files, monkeypatch):
    Path("out.json").write_text("old")
    full(monkeypatch, ".json")
    code, out, said = run(monkeypatch, *MEAN, "--json", "out.json")
    assert code == 1
    assert "'out.json' could not be written: No space left on device" in said
    assert is_whole(kept(files)[1])
    assert Path("out.json").read_text() == "old"
    assert not list(files.glob(".fastpubpriv-*"))
    assert "Private mean" in out  # the table is shown all the same


@pytest.mark.parametrize(
    "kind", [OSError(errno.ENOSPC, "No space left on device"), ValueError("secret")]
)
def test_a_plot_that_fails_loses_nothing(files, monkeypatch, kind):
    def plot(*arguments, **named):
        raise kind

    monkeypatch.setattr(fpp.MeanResult, "plot", plot)
    said = ending(1, monkeypatch, *MEAN, "--plot", "out.png")
    assert "'out.png'" in said
    assert "secret" not in said
    assert is_whole(kept(files)[1])
    assert not Path("out.png").exists()


def test_what_cannot_be_computed_afterwards_is_left_out(files, monkeypatch):
    def broken(*arguments, **named):
        raise ArithmeticError("secret")

    monkeypatch.setattr(outputs, "result_dict", broken)
    monkeypatch.setattr(outputs, "print_result", broken)
    said = ending(1, monkeypatch, *MEAN, "--json", "out.json")
    assert "ArithmeticError" in said
    assert "secret" not in said
    assert np.isfinite(json.loads(Path("out.json").read_text())["mean"]).all()


def test_files_are_replaced_in_one_step_and_keep_their_permissions(files):
    old = Path("old.json")
    old.write_text("old")
    old.chmod(0o640)
    Path("link.json").symlink_to("old.json")
    outputs.write_text("new", Path("link.json"))
    assert Path("link.json").is_symlink()
    assert old.read_text() == "new"
    assert old.stat().st_mode & 0o777 == 0o640
    before = os.umask(0o027)
    try:
        outputs.write_text("", Path("new.json"))
    finally:
        os.umask(before)
    assert Path("new.json").stat().st_mode & 0o777 == 0o640
    outputs.write_text("", Path("/dev/null"))
    assert not list(files.glob(".fastpubpriv-*"))


REFUSED = {
    "an option for a file": (("--json", "-q"), "looks like an option"),
    "no name": (("--json", ""), "cannot be empty"),
    "a folder": (("--json", "."), "is a folder"),
    "no folder": (("--json", "nowhere/out.json"), "no folder"),
    "the private rows": (("--json", "p.npy"), "files that are read"),
    "the public rows, by another name": (("--json", "../work/q.npy"), "files that are read"),
    "the ledger": (("--json", "l"), "or the ledger"),
    "twice the same": (("--json", "x.png", "--plot", "x.png"), "name the same file"),
    "a link to nowhere": (("--json", "astray"), "leads nowhere"),
    "a file below a file": (("--json", "p.npy/x"), "no folder"),
    "a name that is too long": (("--json", "x" * 300), "name too long"),
    "a plot of no kind": (("--plot", "x.gif"), "must end in"),
    "a plot to the screen": (("--plot", "-"), "looks like an option"),
    "nothing to show": (("-q",), "--quiet prints no answer"),
    "a level that is no number": (("--level", "nan"), "not in the range"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_before_the_debit(files, monkeypatch, case):
    Path("astray").symlink_to("nix")
    there = sorted(files.iterdir())
    extra, words = REFUSED[case]
    code, out, said = run(monkeypatch, *MEAN, *extra)
    assert code == 2
    assert words in said
    assert out == ""
    assert sorted(files.iterdir()) == there


def test_a_terminal_that_knows_ascii_only(files, monkeypatch):
    rows = np.random.default_rng(1).normal(0.0, 1.0, (4000, 1))
    np.save("p.npy", rows + 30.0 * (np.arange(4000)[:, None] % 2))
    np.save("q.npy", np.load("p.npy")[:40])
    out = io.TextIOWrapper(io.BytesIO(), "ascii")
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", io.TextIOWrapper(io.BytesIO(), "ascii"))
    with pytest.raises(SystemExit) as end:
        main(
            [
                "mixture",
                "--private",
                "p.npy",
                "--public",
                "q.npy",
                "--components",
                "2",
                "--rho",
                "1",
            ]
        )
    assert end.value.code == 0
    assert b"\\xb1" in out.buffer.getvalue()  # the sign between mean and deviation


def interrupt(*arguments, **named):
    raise KeyboardInterrupt


def test_ctrl_c_before_the_debit(files, monkeypatch):
    monkeypatch.setattr(fpp, "estimate_mean", interrupt)
    code, out, said = run(monkeypatch, *MEAN)
    assert code == 130
    assert out == ""
    assert "interrupted before there was an answer; nothing was charged to the ledger" in said
    assert charged() == 0
    assert "no ledger was given" in run(monkeypatch, *MEAN[:7])[2]


def mean_that_pays_and(monkeypatch, end):
    def pay(table, *, budget, **options):
        table.binding.ledger.debit(budget, name="mean")
        end()

    monkeypatch.setattr(fpp, "estimate_mean", pay)


def test_ctrl_c_after_the_debit(files, monkeypatch):
    mean_that_pays_and(monkeypatch, lambda: os.kill(os.getpid(), signal.SIGINT))
    said = ending(130, monkeypatch, *MEAN)
    assert "interrupted before there was an answer; the ledger was charged" in said
    assert charged() == 1


@pytest.mark.parametrize("written", [False, True])
def test_ctrl_c_within_the_debit(files, monkeypatch, written):
    real = fpp.Ledger.debit

    def half(self, *arguments, **named):
        if written:
            real(self, *arguments, **named)
        raise KeyboardInterrupt

    monkeypatch.setattr(fpp.Ledger, "debit", half)
    said = ending(130, monkeypatch, *MEAN)
    assert ("may have been charged" if written else "nothing was charged to the ledger") in said


@pytest.mark.parametrize("extra", [("--json", "out.json"), ()])
def test_ctrl_c_waits_until_the_answer_is_stored(files, monkeypatch, extra):
    real = outputs.result_dict

    def press(*arguments, **named):
        os.kill(os.getpid(), signal.SIGINT)
        return real(*arguments, **named)

    monkeypatch.setattr(outputs, "result_dict", press)
    said = ending(130, monkeypatch, *MEAN, *extra)
    assert is_whole(json.loads(Path("out.json").read_text()) if extra else kept(files)[1])
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert "the whole result is in" in said


def test_ctrl_c_elsewhere_is_one_line(monkeypatch):
    monkeypatch.setattr(fpp, "plan", interrupt)
    said = ending(
        130, monkeypatch, "plan", "mean", "--dim", 3, "--n-pub", 9, "--n-priv", 99, "--rho", 1
    )
    assert "nothing was charged" in said


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (fpp.InputError("the file was cut"), "the file was cut"),
        (MemoryError(), "not enough memory"),
        (OSError(errno.EIO, "Input/output error", "p.npy"), "'p.npy': Input/output error"),
        (ZeroDivisionError("secret"), "unexpected ZeroDivisionError"),
    ],
)
def test_errors_after_the_debit_say_so(files, monkeypatch, error, words):
    def fail():
        raise error

    mean_that_pays_and(monkeypatch, fail)
    accident = isinstance(error, ZeroDivisionError)
    said = ending(1 if accident else 2, monkeypatch, *MEAN, bug=accident)
    assert f"{words} (the ledger was charged)" in said
    assert "secret" not in said


def test_a_refused_debit_speaks_for_itself(files, monkeypatch):
    assert run(monkeypatch, *MEAN, "-q", "--json", "out.json")[0] == 0
    said = ending(2, monkeypatch, *MEAN[:5], "--rho", "0.9", "--ledger", "l")
    assert "larger than what remains" in said
    assert "charged)" not in said
