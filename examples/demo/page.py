"""Shared code of the pages: a table for demonstration only, text below it, and a JSON file with its plot."""

from contextlib import contextmanager

from rich.table import Table

from fastpubpriv.cli import outputs

LEVEL = 0.95
NOT_PRIVATE = "[bold red]NO[/]"


def seeds(seed, first):
    """Return a function from the index of a call to its seed; without a seed, noise is fresh."""
    return lambda call: None if seed is None else seed + first + call


@contextmanager
def heard():
    """Show the library's warnings inside the block, and collect them in a list."""
    texts = []
    with outputs.nice_warnings(texts):
        yield texts


def say(text):
    """Print a paragraph."""
    outputs.show(text)


def happened(text):
    """Print the sentences of the page."""
    say(f"[bold]What happened.[/] {text}")


def show(title, heads, rows, note=None):
    """Print a table: the first column left-aligned, numbers right-aligned."""
    table = Table(title=f"\n{title}", title_justify="left", title_style="bold")
    for head in heads:
        table.add_column(head, justify="left" if head in (heads[0], "protected") else "right")
    for row in rows:
        if row is None:
            table.add_section()
        else:
            table.add_row(*row)
    say(table)
    say(f"[dim]* {note}[/]\n" if note else "")


def write(name, out, draw, data, beside):
    """Write the JSON and the plot of a page, and return both paths; `beside` holds non-private results."""
    paths = [out / f"{name}.json", out / f"{name}.png"]
    outputs.write_text(outputs.json_text({**data, "demonstration_only": beside}), paths[0])
    outputs.attempt(draw, paths[1])
    return paths


def columns_of(units):
    """Return names of columns with their units."""
    return tuple(f"{name} ({unit})" for name, unit in units.items())


def answer(result, title, warned, **more):
    """Print a released result, and return the content of its file."""
    outputs.print_result(result, level=LEVEL, title=title)
    return {**outputs.result_dict(result, level=LEVEL, warned=warned), **more}
