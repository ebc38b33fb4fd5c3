"""How the documentation is built. No network: no MathJax, no fonts, no scripts from elsewhere."""

import sys
from pathlib import Path
from typing import Generic, TypeVar

import numpy.typing

T = TypeVar("T")


class ArrayLike:
    """Stands for NumPy's, which autodoc would write out as a union of seven private types."""


class NDArray(Generic[T]):
    """Stands for NumPy's, in the same way."""


for stand_in in (ArrayLike, NDArray):
    stand_in.__module__ = "numpy.typing"
    setattr(numpy.typing, stand_in.__name__, stand_in)

import dpassay  # noqa: E402  # after the names that its annotations use

project = "dpassay"
author = "The dpassay developers"
project_copyright = "The dpassay developers, Apache-2.0"
release = version = dpassay.__version__

sys.path.insert(0, str(Path(__file__).parent))
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "reproduced"]
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

# A reference that leads nowhere is an error; what other packages have is not documented here.
nitpicky = True
nitpick_ignore_regex = [
    ("py:class", r"(?!dpassay\.(privacy|mechanisms|bounds|auditing|types)\.[A-Z]).*"),
    ("py:(class|exc|func|mod)", r"dpassay\.runs\..*|[A-Z]\w*|secrets|add_noise"),
    ("py:class", r"dpassay\.types\.[TU]"),
]

html_theme = "furo"
html_title = f"dpassay {release}"
html_static_path = ["_static"]
html_css_files = ["dpassay.css"]
html_copy_source = False
html_show_sphinx = False

kept = {}


def keep_summary(app, what, name, obj, options, lines):
    """Napoleon reads "The mass at infinity: it ..." as a type; what a property says is prose."""
    if what in ("property", "attribute", "data"):
        kept[name] = list(lines)


def plain_text(app, what, name, obj, options, lines):
    """Docstrings write |x| for a magnitude; reStructuredText would read a substitution."""
    lines[:] = [line.replace("|", r"\|") for line in kept.pop(name, lines)]


def public_name(app, env, node, contnode):
    """``dpassay.account`` is documented where it lives, as ``dpassay.privacy.account``."""
    name = node.get("reftarget", "").removeprefix("dpassay.")
    if node.get("refdomain") != "py" or name not in dpassay._PUBLIC:
        return None
    home = f"{dpassay._PUBLIC[name]}.{name}"
    domain, page = env.get_domain("py"), node.get("refdoc")
    return domain.resolve_xref(env, page, app.builder, node["reftype"], home, node, contnode)


def setup(app):
    app.connect("autodoc-process-docstring", keep_summary, priority=400)
    app.connect("autodoc-process-docstring", plain_text, priority=600)
    app.connect("missing-reference", public_name)
