"""Runs one command of `fastpubpriv` in this process."""

from click.testing import CliRunner

from fastpubpriv.cli import main


def runner(command):
    """invoke(*arguments, code=0) of a command, with its output where the exit code is another."""

    def invoke(*arguments, code=0):
        result = CliRunner().invoke(main, [command, *(str(argument) for argument in arguments)])
        assert result.exit_code == code, result.output
        return result

    return invoke
