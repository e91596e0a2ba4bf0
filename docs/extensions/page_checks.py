"""Checks of built pages: they fetch nothing, and no link within the book is broken."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote

# Resources that a browser loads by itself: scripts, images, style sheets, fonts; not links that a reader clicks.
FETCHED = re.compile(
    r"""<(?:script|img|source|iframe)\b[^>]*\bsrc="((?:https?:)?//[^"]+)"|<link\b[^>]*\bhref="((?:https?:)?//[^"]+)"""
)
FETCHED_BY_STYLE = re.compile(r"""(?:@import\s+|url\()\s*["']?((?:https?:)?//[^"')\s]+)""")
LINK = re.compile(r'<a\b[^>]*\bhref="([^"]+)"')
PLACE = re.compile(r'\bid="([^"]+)"')


def fetched(text: str) -> list[str]:
    """Return external addresses that a page would load."""
    return [one or other for one, other in FETCHED.findall(text)]


def broken(folder: Path) -> list[str]:
    """Return the errors of the pages of a folder, a line each."""
    texts = {path: path.read_text(encoding="utf-8") for path in sorted(folder.rglob("*.html"))}
    places = {path: set(PLACE.findall(text)) for path, text in texts.items()}
    found = []
    for path, text in texts.items():
        name = path.relative_to(folder)
        found += [f"{name} fetches {address}" for address in fetched(text)]
        for link in LINK.findall(text):
            if re.match(r"[a-z]+:|//", link):
                continue
            target, _, place = unquote(link).partition("#")
            page = (path.parent / target).resolve() if target else path
            if not page.exists():
                found.append(f"{name} links to {link}, which does not exist")
            elif place and page in places and place not in places[page]:
                found.append(f"{name} links to {link}: the page has no such place")
    for path in folder.rglob("*.css"):
        found += [
            f"{path.name} fetches {address}"
            for address in FETCHED_BY_STYLE.findall(path.read_text(encoding="utf-8"))
        ]
    return found
