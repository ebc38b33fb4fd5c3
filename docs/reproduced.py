"""Figures that the build draws itself: ``{reproduced} adversaries six`` in a page.

The experiment of ``dpassay reproduce`` in a reduced form, into ``_build/reproduced``; trainings are
kept there, so that only the first build plays them. Where what it needs is not installed, the page
says so.
"""

import logging
from pathlib import Path

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from dpassay.errors import MissingDependency
from dpassay_reproduce import experiment

REDUCED = {
    "adversaries": {
        "data": "digits",
        "epsilons": (4.0, 10.0),
        "hidden": (0,),
        "per_world": 40,
        "n_records": 400,
        "canaries": 100,
        "workers": 1,
    }
}


class Reproduced(SphinxDirective):
    """A figure of an experiment, with what the experiment says under it."""

    required_arguments = 2

    def run(self) -> list[nodes.Node]:
        name, figure = self.arguments
        folder = Path(self.env.srcdir) / "_build" / "reproduced" / name
        logging.getLogger("jax").setLevel(logging.WARNING)  # else it tells of every missing device
        try:
            experiment(name).run(folder, **REDUCED[name])
        except MissingDependency as missing:
            return [nodes.paragraph(text=f"(Not drawn in this build: {missing})")]
        path = f"/{(folder / figure).relative_to(self.env.srcdir).as_posix()}.svg"
        drawn = nodes.image(uri=path, alt=f"{name}, {figure}, reduced")
        return [nodes.figure("", drawn, nodes.caption(text="Reduced; drawn by this build."))]


def setup(app):
    app.add_directive("reproduced", Reproduced)
    return {"parallel_read_safe": True}
