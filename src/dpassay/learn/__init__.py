"""Private estimators with scikit-learn's interface, the ledger they write to, private search.

Names are imported when they are first used: scikit-learn takes a second to load.
"""

import importlib
from typing import Any

_PUBLIC = {
    "PrivateLasso": "dpassay.learn.lasso",
    "PrivateRidge": "dpassay.learn.ridge",
    "PrivateLogisticRegression": "dpassay.learn.logistic",
    "PrivateSearchCV": "dpassay.learn.search",
    "Ledger": "dpassay.learn.ledger",
}

__all__ = [*_PUBLIC]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'dpassay.learn' has no attribute {name!r}")
    value = getattr(importlib.import_module(_PUBLIC[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
