"""Runs one command of `fastpubpriv` in this process."""

from click.testing import CliRunner

from fastpubpriv.cli import main


def invoke(*arguments, code=0):
    """What a command line ends in; it has this exit code, shows no private text and is never an accident."""
    result = CliRunner().invoke(main, [str(each) for each in arguments])
    assert result.exit_code == code, result.output
    assert isinstance(result.exception, SystemExit | None), result.exception
    for word in (
        ("Alice-SSN-123", "Traceback", "this is a bug")
        if code != 1
        else ("Alice-SSN-123", "Traceback")
    ):
        assert word not in result.output
    return result


def typed(line, *more, code=0):
    """`invoke` of a line as people type it, and of more words."""
    return invoke(*line.split(), *more, code=code)


def runner(command):
    """`invoke` of one command."""
    return lambda *arguments, code=0: invoke(command, *arguments, code=code)


def said(result):
    """The error stream in one line."""
    return " ".join(result.stderr.split())
