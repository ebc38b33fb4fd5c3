"""Private estimators with scikit-learn's interface, the ledger they write to, private search.

Names are imported when they are first used: scikit-learn takes a second to load.
"""

from dpassay._lazy import lazily

_PUBLIC = {
    "PrivateLasso": "dpassay.learn.lasso",
    "PrivateRidge": "dpassay.learn.ridge",
    "PrivateLogisticRegression": "dpassay.learn.logistic",
    "PrivateSearchCV": "dpassay.learn.search",
    "Ledger": "dpassay.learn.ledger",
}

__all__ = [*_PUBLIC]


__getattr__ = lazily(__name__, _PUBLIC)


def __dir__() -> list[str]:
    return sorted(__all__)
