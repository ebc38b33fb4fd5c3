"""What is shown: figures, pages, JSON, and epsilon as odds. Sees result types and curves only.

Names are imported when they are first used.
"""

import importlib
from typing import Any

_PUBLIC = {
    "Disclosure": "dpassay.report.disclosure",
    "read_disclosure": "dpassay.report.disclosure",
    "Report": "dpassay.report.document",
    "audit_report": "dpassay.report.document",
    "join_reports": "dpassay.report.document",
    "write_report": "dpassay.report.document",
    "load_report": "dpassay.report.document",
}

__all__ = list(_PUBLIC)


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'dpassay.report' has no attribute {name!r}")
    value = getattr(importlib.import_module(_PUBLIC[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
