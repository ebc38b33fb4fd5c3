"""The experiments of the source documents, one module each: ``run(folder, image_format=...)``.

Every module writes its figures, ``numbers.json`` and ``index.html`` into the folder and returns the
paths; it only calls the rest of dpassay. An experiment of many figures may take options more, which
its ``run`` names (``thesis``).
"""

import importlib
from types import ModuleType

from dpassay import _check

EXPERIMENTS = {
    "slides": "dpassay.reproduce.slides",
    "hw3": "dpassay.reproduce.hw3",
    "clipping": "dpassay.reproduce.clipping",
    "thesis": "dpassay.reproduce.thesis",
    "debugging": "dpassay.reproduce.debugging",
    "one-dimension": "dpassay.reproduce.one_dimension",
    "adversaries": "dpassay.reproduce.adversaries",
    "synth": "dpassay.reproduce.synth",
}


def experiment(name: str) -> ModuleType:
    """The module of an experiment, by its name."""
    return importlib.import_module(EXPERIMENTS[_check.choice("name", name, tuple(EXPERIMENTS))])
