"""Names in single backticks, as in docstrings: a link if the name has a page, code otherwise."""

from __future__ import annotations

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
)


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


def resolve(
    app: Sphinx, env: BuildEnvironment, node: Any, content: nodes.Element
) -> nodes.Element | None:
    """Return a link to the page of the name, or the name as code."""
    if node["reftype"] != "name":
        return None
    objects = env.get_domain("py").objects  # type: ignore[attr-defined]
    target = node["reftarget"].removesuffix("()").removeprefix("fpp.")
    for home in ("", *(f"{home}." for home in HOMES)):
        found = objects.get(home + target)
        if found is not None and found.docname != node.get("refdoc"):
            address = (
                app.builder.get_relative_uri(node["refdoc"], found.docname) + "#" + found.node_id
            )
            link = nodes.reference("", "", internal=True, refuri=address)
            link += content
            return link
    return content


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the role and its links."""
    app.add_role("name", name_role)
    app.connect("missing-reference", resolve)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
