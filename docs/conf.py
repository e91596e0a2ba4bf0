"""How the book is built: `make docs`. Every code cell runs, every warning is an error, and nothing is fetched by the pages."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from pathlib import Path

import fastpubpriv

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "extensions"))
# The kernels that execute pages import the package of this tree, and draw no progress bars.
os.environ["PYTHONPATH"] = os.pathsep.join(
    filter(None, [str(HERE.parent), os.environ.get("PYTHONPATH")])
)

# A warning in a cell is shown as its words alone, without the path of a file on the machine that built the book.
PROFILE = Path(tempfile.mkdtemp(prefix="book-ipython-"))
atexit.register(shutil.rmtree, PROFILE, ignore_errors=True)
(PROFILE / "profile_default" / "startup").mkdir(parents=True)
(PROFILE / "profile_default" / "startup" / "words.py").write_text(
    "import warnings\nwarnings.formatwarning = lambda words, kind, *where, **more: f'{kind.__name__}: {words}\\n'\n"
)
# The kernels talk on this machine alone; that nothing is encrypted there need not be said for every page.
(PROFILE / "profile_default" / "ipython_kernel_config.py").write_text(
    "c.IPKernelApp.log_level = 40  # errors\n"
)
os.environ["IPYTHONDIR"] = str(PROFILE)

project = "fastpubpriv"
author = "The fastpubpriv authors"
copyright = "the fastpubpriv authors, Apache-2.0"
version = release = fastpubpriv.__version__
extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx_copybutton",
    "sphinx_design",
    "mathml",
    "commands",
    "docstrings",
    "evidence",
    "names",
    "proofs",
    "reference",
    "repository",
    "shell",
    "whole_pages",
]
exclude_patterns = ["extensions", "static"]

# A broken example, link or reference fails the build (`-W` in the Makefile turns warnings into errors).
nitpicky = True
nb_execution_mode = "force"
nb_execution_raise_on_error = True
# seconds: the C library is compiled on one page, on a machine that may be busy
nb_execution_timeout = 600
nb_execution_in_temp = True  # a page finds and leaves no files
nb_merge_streams = True
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath", "fieldlist", "substitution"]
myst_heading_anchors = 3
myst_substitutions = {"version": version}

autodoc_typehints = "none"
autodoc_member_order = "bysource"
default_role = "name"

html_theme = "furo"
html_title = f"fastpubpriv {version}"
html_static_path = ["static"]
html_css_files = ["book.css"]
html_copy_source = False
html_show_sourcelink = False
pygments_style = "friendly"
pygments_dark_style = "monokai"
html_theme_options = {"navigation_with_keys": True, "top_of_page_buttons": []}
copybutton_exclude = ".linenos, .gp, .go"
