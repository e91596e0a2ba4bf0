"""The directive `evidence`: a table that is generated while the book is built."""

from __future__ import annotations

from docutils import nodes
from docutils.statemachine import StringList
from evidence_tables import TABLES
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective


class Evidence(SphinxDirective):
    """Directive that inserts a table by its name."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        """Generate the table, and parse it as Markdown."""
        lines = TABLES[self.arguments[0]]()
        parent = nodes.container(classes=["evidence"])
        self.state.nested_parse(
            StringList(lines, source=f"table {self.arguments[0]}"), self.content_offset, parent
        )
        return [parent]


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("evidence", Evidence)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
