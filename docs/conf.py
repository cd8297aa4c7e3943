"""The documentation site: Sphinx, pages in Markdown, nothing loaded from any network.

``make docs`` writes it to ``build/docs``. Reference pages and pictures are made from the code at
the start of each build (``docs/_make``), into ``docs/_made``, which is not kept.
"""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "src")]

from _make import make_all  # noqa: E402

import counterpoise  # noqa: E402

make_all(HERE / "_made")

project = "Counterpoise"
author = "the authors of Counterpoise"
project_copyright = author
version = release = counterpoise.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx_copybutton"]
myst_enable_extensions = ["deflist", "colon_fence"]
myst_heading_anchors = 3
exclude_patterns = ["_make", "_static", "grafana"]
copybutton_prompt_text = "$ "
copybutton_only_copy_prompt_lines = True
nitpicky = True
nitpick_ignore_regex = [("py:.*", ".*")]
autodoc_typehints = "signature"
suppress_warnings = ["myst.xref_missing_external"]

html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["pictures.css"]
html_title = f"Counterpoise {release}"
html_copy_source = False
html_show_sphinx = False
