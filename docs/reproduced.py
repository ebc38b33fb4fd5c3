"""Figures that the build draws itself: ``{reproduced} adversaries six`` in a page.

The experiment of ``dpassay reproduce`` in a reduced form, into ``_build/reproduced``; trainings are
kept there, so that only the first build plays them. Where what it needs is not installed, the page
says so. ``-D reproduced_from=FOLDER`` takes figures that were drawn before, ``adversaries/six.svg``
below a folder next to the pages, and plays nothing.
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
        drawn_before = self.config.reproduced_from
        folder = Path(self.env.srcdir) / (drawn_before or "_build/reproduced") / name
        logging.getLogger("jax").setLevel(logging.WARNING)  # else it tells of every missing device
        try:
            if not drawn_before:
                experiment(name).run(folder, **REDUCED[name])
        except MissingDependency as missing:
            return [nodes.paragraph(text=f"(Not drawn in this build: {missing})")]
        path = f"/{(folder / figure).relative_to(self.env.srcdir).as_posix()}.svg"
        drawn = nodes.image(uri=path, alt=f"{name}, {figure}, reduced")
        return [nodes.figure("", drawn, nodes.caption(text="Reduced; drawn by this build."))]


def setup(app):
    app.add_directive("reproduced", Reproduced)
    app.add_config_value("reproduced_from", "", "env", [str])
    return {"parallel_read_safe": True}
