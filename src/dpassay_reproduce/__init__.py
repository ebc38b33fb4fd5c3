"""The experiments of the source documents, one module each: ``run(folder, image_format=...)``.

Every module writes its figures, ``numbers.json`` and ``index.html`` into the folder and returns the
paths; it calls dpassay, which knows nothing of it. An experiment of many figures may take more
options, which its ``run`` names (``thesis``). What only these experiments need, because a document
prints it and the library does it otherwise, is in :mod:`dpassay_reproduce.printed`.
"""

import importlib
from types import ModuleType

__all__ = ["EXPERIMENTS", "experiment"]

EXPERIMENTS = {
    "slides": "dpassay_reproduce.slides",
    "hw3": "dpassay_reproduce.hw3",
    "clipping": "dpassay_reproduce.clipping",
    "lecture": "dpassay_reproduce.lecture",
    "thesis": "dpassay_reproduce.thesis",
    "debugging": "dpassay_reproduce.debugging",
    "one-dimension": "dpassay_reproduce.one_dimension",
    "adversaries": "dpassay_reproduce.adversaries",
    "synth": "dpassay_reproduce.synth",
    "all": "dpassay_reproduce.everything",
}


def experiment(name: str) -> ModuleType:
    """The module of an experiment, by its name."""
    from dpassay import _check

    return importlib.import_module(EXPERIMENTS[_check.choice("name", name, tuple(EXPERIMENTS))])
