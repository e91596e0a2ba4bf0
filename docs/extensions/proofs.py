"""Write a page for each privacy note of the mechanisms, with its formulas, and the page that lists them."""

from __future__ import annotations

import re
from pathlib import Path

from formulas import convert
from sphinx.application import Sphinx

NOTES = Path(__file__).resolve().parents[2] / "fastpubpriv" / "mechanisms" / "notes"


def title_of(path: Path) -> str:
    """Return the title of a note, without the words that all titles share."""
    first = path.read_text(encoding="utf-8").split("\n", 1)[0]
    title = re.sub(r"^# (?:(?:Privacy|Accounting) note: )?", "", first).strip().strip("`")
    # The name of a private function is not a good title.
    title = path.stem.replace("_", " ") if title.startswith("_") else title
    return title if title == "release" else title[0].upper() + title[1:]


def page(path: Path) -> str:
    """Return the page of a note."""
    note = path.read_text(encoding="utf-8")
    source = f"*From `{path.relative_to(NOTES.parents[2]).as_posix()}`, where it stands beside the code that it is about.*"
    return f"# {title_of(path)}\n\n{source}\n{convert(note.split(chr(10), 1)[1])}"


def summary(path: Path) -> str:
    """Return the beginning of the note's first paragraph."""
    note = path.read_text(encoding="utf-8").split("\n", 1)[1]
    first = next(
        part for part in re.split(r"\n\s*\n", note) if part.strip() and "**Relation" not in part
    )
    words = re.sub(r"\*\*[^*]*\*\*\s*", "", " ".join(first.split()))
    sentence = re.split(r"(?<=[a-z)`])[.:;] ", words)[0].rstrip(".:;")
    return convert(sentence).replace("|", r"\|")


def overview(paths: list[Path]) -> str:
    """Return the page that lists the notes."""
    intro = (
        "Each release of private rows goes through one of these mechanisms. Its note says what is asked of the rows, how far one "
        "row can move the answer, what that costs, and what is done afterwards. The formulas are about the integers that the code "
        "computes. [`release`](release.md) is the one door through which noise enters. "
        "[What each function releases](../releases.md) stands on a page of its own."
    )
    rows = [f"| [{title_of(path)}]({path.stem}.md) | {summary(path)} |" for path in paths]
    entries = [path.stem for path in paths]
    lines = [
        "# Proofs of the mechanisms",
        "",
        intro,
        "",
        "| mechanism | what it asks |",
        "|---|---|",
        *rows,
    ]
    return "\n".join([*lines, "", "```{toctree}", ":hidden:", "", *entries, "```", ""])


def write(app: Sphinx) -> None:
    """Write the pages that have changed."""
    folder = Path(app.srcdir) / "evidence" / "proofs"
    folder.mkdir(parents=True, exist_ok=True)
    paths = sorted(NOTES.glob("*.md"))
    wanted = {folder / path.name: page(path) for path in paths} | {
        folder / "overview.md": overview(paths)
    }
    for path in set(folder.glob("*.md")) - set(wanted):
        path.unlink()
    for path, text in wanted.items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    """Write the pages before Sphinx collects the sources."""
    app.connect("builder-inited", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
