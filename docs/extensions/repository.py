"""Links to files of the repository: to their page if the book has one, else the path as code. A missing file fails the build."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform

ROOT = Path(__file__).resolve().parents[2]
# Files of the repository that are pages of the book.
PAGES = {
    "README.md": "index",
    "CHANGELOG.md": "changelog",
    "CONTRIBUTING.md": "contributing",
    "SECURITY.md": "evidence/security",
}
NOTES = "fastpubpriv/mechanisms/notes/"


def page_of(path: str) -> str | None:
    """Return the page of a file of the repository, if there is one."""
    if path.startswith(NOTES) and path.endswith(".md"):
        return "evidence/proofs/" + Path(path).stem
    if path.startswith("docs/") and path.endswith(".md"):
        return path.removeprefix("docs/").removesuffix(".md")
    return PAGES.get(path)


class RepositoryLinks(SphinxPostTransform):
    """Transform of Markdown links to files outside the book, which the parser would report as missing."""

    default_priority = 8  # just before the parser's own

    def run(self, **kwargs: Any) -> None:
        """Replace every such link."""
        for node in list(self.document.findall(addnodes.pending_xref)):
            if node["reftype"] == "myst":
                replacement = self.replacement(node)
                if replacement is not None:
                    node.replace_self(replacement)

    def replacement(self, node: addnodes.pending_xref) -> nodes.Element | None:
        """Return a link to the page of the file, or its path as code; None if there is no such file."""
        target, _, anchor = node["reftarget"].partition("#")
        docname = node.get("refdoc", self.env.docname)
        places = [ROOT / target, Path(self.env.doc2path(docname)).parent / target]
        files = [place.resolve() for place in places if target and place.exists()]
        inside = [file for file in files if file.is_relative_to(ROOT)]
        if not inside:
            return None
        path = inside[0].relative_to(ROOT).as_posix()
        page = page_of(path)
        if page in self.env.found_docs:
            address = self.app.builder.get_relative_uri(docname, page) + (
                f"#{anchor}" if anchor else ""
            )
            link = nodes.reference("", "", internal=True, refuri=address)
            link += node[0].deepcopy()
            return link
        return nodes.literal("", path + ("/" if inside[0].is_dir() else ""))


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the links."""
    app.add_post_transform(RepositoryLinks)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
