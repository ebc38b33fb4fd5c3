"""What is shown: figures, pages, JSON, and epsilon as odds. Sees result types and curves only.

Names are imported when they are first used.
"""

from dpassay._lazy import lazily

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


__getattr__ = lazily(__name__, _PUBLIC)


def __dir__() -> list[str]:
    return sorted(__all__)
