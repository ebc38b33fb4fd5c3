"""How the documentation is built. No network: no MathJax, no fonts, no scripts from elsewhere."""

import dpassay

project = "dpassay"
author = "The dpassay developers"
project_copyright = "The dpassay developers, Apache-2.0"
release = version = dpassay.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build"]
source_suffix = {".md": "markdown"}

# Formulas are plain text, so that pages need no script: the extension for them stays off.
myst_heading_anchors = 3
myst_enable_extensions = ["deflist"]

autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_member_order = "bysource"
napoleon_numpy_docstring = False
napoleon_use_ivar = True

html_theme = "furo"
html_title = f"dpassay {release}"
html_static_path = ["_static"]
html_css_files = ["dpassay.css"]
html_copy_source = False
html_show_sphinx = False


def plain_bars(app, what, name, obj, options, lines):
    """Docstrings write |x| for a magnitude; reStructuredText would read a substitution."""
    lines[:] = [line.replace("|", r"\|") for line in lines]


def setup(app):
    app.connect("autodoc-process-docstring", plain_bars)
