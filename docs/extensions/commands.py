"""Write the reference of the command line from the texts of `--help`: a page for every command."""

from __future__ import annotations

import re
from pathlib import Path

import click
from sphinx.application import Sphinx

from fastpubpriv.cli import main

# An option within a sentence, whose two hyphens would otherwise become a dash.
OPTION = re.compile(r"(?<![\w`-])--[a-z][a-z-]*")


def commands(
    group: click.Group, path: tuple[str, ...]
) -> list[tuple[tuple[str, ...], click.Command]]:
    """Yield every command below a group with its words, groups before their commands."""
    found = []
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        assert command is not None
        found.append(((*path, name), command))
        if isinstance(command, click.Group):
            found += commands(command, (*path, name))
    return found


def prose(text: str) -> str:
    """Return the paragraphs of a help text; those marked by a backspace keep their line breaks."""
    parts = []
    for part in re.split(r"\n\s*\n", (text or "").strip()):
        lines = part.splitlines()
        if lines and lines[0].strip() == "\b":
            parts.append(
                "```text\n" + "\n".join(line.removeprefix("  ") for line in lines[1:]) + "\n```"
            )
        else:
            words = " ".join(line.strip() for line in lines)
            parts.append(OPTION.sub(r"`\g<0>`", words))
    return "\n\n".join(parts)


def option_entry(context: click.Context, parameter: click.Parameter) -> str:
    """Return the entry of an option in a definition list: its syntax and its meaning."""
    record = parameter.get_help_record(context)
    if record is None:
        return f"`{parameter.make_metavar(context)}`\n: An argument.\n"
    return f"`{record[0]}`\n: {prose(record[1]) or 'See the other options.'}\n"


def page(words: tuple[str, ...], command: click.Command) -> str:
    """Return the page of one command."""
    context = click.Context(command, info_name=" ".join(("fastpubpriv", *words)))
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    lines = [
        f"# `fastpubpriv {' '.join(words)}`",
        "",
        "```text",
        usage,
        "```",
        "",
        prose(command.help or ""),
        "",
    ]
    if isinstance(command, click.Group):
        lines += ["## Commands", ""]
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            lines.append(
                f"- [`{name}`]({'-'.join((*words, name))}.md): {below.get_short_help_str(200)}"
            )
        lines.append("")
    lines += [
        "## Options",
        "",
        *(option_entry(context, option) for option in command.get_params(context)),
    ]
    if command.epilog:
        lines += ["## Examples", "", prose(command.epilog), ""]
    return "\n".join(lines)


def overview(found: list[tuple[tuple[str, ...], click.Command]]) -> str:
    """Return the page that lists all commands."""
    lines = [
        "# The command line",
        "",
        prose(main.help or ""),
        "",
        "| command | what it does |",
        "|---|---|",
    ]
    lines += [
        f"| [`fastpubpriv {' '.join(words)}`]({'-'.join(words)}.md) | {command.get_short_help_str(200)} |"
        for words, command in found
    ]
    lines += [
        "",
        "```{toctree}",
        ":hidden:",
        "",
        *(f"{'-'.join(words)}" for words, _ in found),
        "```",
        "",
    ]
    return "\n".join(lines)


def write(app: Sphinx) -> None:
    """Write the pages that have changed."""
    folder = Path(app.srcdir) / "reference"
    found = commands(main, ())
    wanted = {
        folder / "cli" / f"{'-'.join(words)}.md": page(words, command) for words, command in found
    }
    for path in set((folder / "cli").glob("*.md")) - set(wanted):
        path.unlink()
    wanted[folder / "cli" / "overview.md"] = overview(found)
    for path, text in wanted.items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    """Write the pages before Sphinx collects the sources."""
    app.connect("builder-inited", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
