"""Render formulas as MathML while the book is built, so that pages show them offline and without scripts."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.util import logging

logger = logging.getLogger(__name__)


def convert(formula: str, node: nodes.Element, *, as_block: bool) -> str:
    """Return the formula in MathML; a formula that cannot be parsed is a warning, which fails the build."""
    try:
        return tex2mathml(formula, as_block=as_block)
    except MathError as error:
        logger.warning("formula %r: %s", formula, error, location=node)
        return ""


def visit_inline(translator: Any, node: nodes.math) -> None:
    """Write an inline formula."""
    translator.body.append(convert(node.astext(), node, as_block=False))
    raise nodes.SkipNode


def visit_block(translator: Any, node: nodes.math_block) -> None:
    """Write a displayed formula; wide ones scroll horizontally."""
    translator.body.append(
        f'<div class="formula">{convert(node.astext(), node, as_block=True)}</div>\n'
    )
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the renderer."""
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    app.config.html_math_renderer = "mathml"
    return {"parallel_read_safe": True, "parallel_write_safe": True}
