"""Names in single backticks, as in docstrings: a link if the name, or the note of a mechanism, has a page, code otherwise."""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

# Prefixes that are tried for a short name, in this order.
HOMES = (
    "fastpubpriv",
    "fastpubpriv.training",
    "fastpubpriv.local",
    "fastpubpriv.auditing",
    "fastpubpriv.sklearn",
    "fastpubpriv.mixtures.list_decoding",
    "fastpubpriv.planning",
    "fastpubpriv.privacy",
    "fastpubpriv.privacy.conversions",
)
# The note of a mechanism, as docstrings name it, and the page that shows it.
NOTE = re.compile(r"(?:mechanisms/)?notes/(\w+)\.md")


def name_role(
    role: str,
    rawtext: str,
    text: str,
    lineno: int,
    inliner: Any,
    options: Any = None,
    content: Any = None,
) -> tuple[list[nodes.Node], list[nodes.system_message]]:
    """Role of text in single backticks."""
    reference = addnodes.pending_xref(
        rawtext, reftype="name", refdomain="", reftarget=text, refexplicit=False, refwarn=False
    )
    reference += nodes.literal(rawtext, text, classes=["xref"])
    return [reference], []


def linked(
    app: Sphinx, node: Any, content: nodes.Element, page: str, place: str = ""
) -> nodes.Element:
    """Return the name as a link to a place on a page of the book."""
    address = app.builder.get_relative_uri(node["refdoc"], page) + place
    link = nodes.reference("", "", internal=True, refuri=address)
    link += content
    return link


def resolve(
    app: Sphinx, env: BuildEnvironment, node: Any, content: nodes.Element
) -> nodes.Element | None:
    """Return a link to the page of the name, or the name as code."""
    if node["reftype"] != "name":
        return None
    note = NOTE.fullmatch(node["reftarget"])
    if note is not None:
        return linked(app, node, content, f"evidence/proofs/{note[1]}")
    objects = env.get_domain("py").objects  # type: ignore[attr-defined]
    target = node["reftarget"].removesuffix("()").removeprefix("fpp.")
    for home in ("", *(f"{home}." for home in HOMES)):
        found = objects.get(home + target)
        if found is not None and found.docname != node.get("refdoc"):
            return linked(app, node, content, found.docname, f"#{found.node_id}")
    return content


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the role and its links."""
    app.add_role("name", name_role)
    app.connect("missing-reference", resolve)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
