"""What is shown: figures, pages, JSON, and epsilon as odds. Sees result types and curves only.

Names are imported when they are first used.
"""

from typing import TYPE_CHECKING

from dpassay._lazy import lazily

if TYPE_CHECKING:
    from dpassay.report.disclosure import Disclosure, read_disclosure
    from dpassay.report.document import (
        Report,
        audit_report,
        join_reports,
        load_report,
        write_report,
    )

_PUBLIC = {
    "Disclosure": "dpassay.report.disclosure",
    "read_disclosure": "dpassay.report.disclosure",
    "Report": "dpassay.report.document",
    "audit_report": "dpassay.report.document",
    "join_reports": "dpassay.report.document",
    "write_report": "dpassay.report.document",
    "load_report": "dpassay.report.document",
}

__all__ = [
    "Disclosure",
    "Report",
    "audit_report",
    "join_reports",
    "load_report",
    "read_disclosure",
    "write_report",
]

lazily(__name__, _PUBLIC)
