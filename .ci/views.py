"""Looks at the built book in a real browser: `make views`.

Every page is opened as wide as a phone (390 pixels) and as a desk (1280), in light and in dark. It is an error if a page is wider
than the screen, cuts something off, shows an image stretched or not at all, or has text that is too faint.
The search must find something when the book is opened from disk. `--shots FOLDER` draws some pages in the four views, for eyes.
"""

from __future__ import annotations

import argparse
import functools
import http.server
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
WIDTHS = (390, 1280)
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--hide-scrollbars",
    "--no-first-run",
    "--disable-extensions",
)
SHOWN = (
    "index",
    "start",
    "which_function",
    "compared_with",
    "glossary",
    "guide/privacy",
    "guide/pitfalls",
    "papers/errata",
)


def pages(book: Path) -> list[str]:
    """The pages that people read: not the indices of search, and no copies in static folders."""
    found = sorted(path.relative_to(book).as_posix() for path in book.rglob("*.html"))
    return [name for name in found if not name.startswith(("_", "search", "genindex"))]


class Handler(http.server.SimpleHTTPRequestHandler):
    """Gives the browser the book and the page that walks through it, and takes down what that page found."""

    walk: bytes
    answer: list[dict[str, Any]]
    arrived: threading.Event

    def log_message(self, *ignored: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        """The page that walks, or a file of the book."""
        if self.path != "/walk":
            return super().do_GET()
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.end_headers()
        self.wfile.write(self.walk)
        return None

    def do_POST(self) -> None:
        """What was found."""
        self.answer.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(204)
        self.end_headers()
        self.arrived.set()


def browser() -> str:
    """The first browser that is installed."""
    for name in filter(None, (os.environ.get("BROWSER"), *BROWSERS)):
        if shutil.which(name):
            return name
    raise SystemExit(f"no browser is here; install one of {', '.join(BROWSERS)}, or set BROWSER")


def look(book: Path, names: list[str], seconds: float) -> dict[str, Any]:
    """What one browser finds on these pages."""
    script = Path(__file__).with_suffix(".js").read_text(encoding="utf-8")
    asked = json.dumps({"pages": names, "widths": WIDTHS})
    walk = f"<!doctype html><title>walk</title><body><script>const asked = {asked};\n{script}</script></body>".encode()
    members: dict[str, Any] = {"walk": walk, "answer": [], "arrived": threading.Event()}
    handler = functools.partial(type("Walk", (Handler,), members), directory=str(book))
    with (
        http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server,
        tempfile.TemporaryDirectory() as profile,
    ):
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/walk"
        command = [
            browser(),
            *FLAGS,
            f"--user-data-dir={profile}",
            "--remote-debugging-port=0",
            address,
        ]
        opened = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        arrived = members["arrived"].wait(seconds)
        opened.terminate()
        opened.wait()
        server.shutdown()
    if not arrived:
        raise SystemExit(f"the browser did not finish within {seconds:g} seconds")
    found: dict[str, Any] = members["answer"][0]
    return found


def search(book: Path, word: str = "ledger") -> list[str]:
    """What the search page, opened from disk, finds for a word that stands on many pages; the finding, if it is nothing."""
    target = f"{(book / 'search.html').resolve().as_uri()}?q={word}"
    command = [browser(), *FLAGS, "--virtual-time-budget=10000", "--dump-dom", target]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return (
        []
        if re.search(r'<li[^>]* class="kind-', said)
        else [f"search.html (from disk): finds nothing for {word!r}"]
    )


def shoot(book: Path, names: list[str], folder: Path) -> None:
    """One picture of each page in each of the four views, opened from disk."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        for width in WIDTHS:
            for scheme, number in (("dark", 0), ("light", 1)):
                path = folder / f"{name.replace('/', '-')}-{width}-{scheme}.png"
                settings = [
                    f"--blink-settings=preferredColorScheme={number}",
                    f"--window-size={width},2400",
                ]
                target = (book / f"{name}.html").resolve().as_uri()
                subprocess.run(
                    [browser(), *FLAGS, *settings, f"--screenshot={path}", target],
                    check=True,
                    capture_output=True,
                )


def main() -> None:
    """Look at all pages; say what is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("book", type=Path, nargs="?", default=ROOT / "build" / "docs" / "html")
    parser.add_argument(
        "--seconds", type=float, default=600.0, help="how long the browser may take"
    )
    parser.add_argument("--shots", type=Path, help="a folder for pictures of some pages")
    parser.add_argument("--pages", nargs="*", default=SHOWN, help="the pages to draw")
    options = parser.parse_args()
    names = pages(options.book)
    if not names:
        raise SystemExit(f"there is no book in {options.book}: make docs")
    if options.shots is not None:
        shoot(options.book, list(options.pages), options.shots)
    seen = look(options.book, names, options.seconds)
    found = [f"{page} ({view}): {what}" for page, view, what in seen["found"]] + search(
        options.book
    )
    summary = f"{seen['pages']} pages in four views and the search, {len(found)} findings"
    print(*found, summary, sep="\n")  # noqa: T201
    sys.exit(bool(found) or seen["pages"] != len(names))


if __name__ == "__main__":
    main()
