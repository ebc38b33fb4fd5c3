"""Private estimators with scikit-learn's interface, the ledger they write to, private search.

Names are imported when they are first used: scikit-learn takes a second to load.
"""

from typing import TYPE_CHECKING

from dpassay._lazy import lazily

if TYPE_CHECKING:
    from dpassay.learn.lasso import PrivateLasso
    from dpassay.learn.logistic import PrivateLogisticRegression
    from dpassay.learn.preprocess import PrivatePreprocessor
    from dpassay.learn.ridge import PrivateRidge
    from dpassay.learn.search import PrivateSearchCV
    from dpassay.privacy.ledger import Ledger

_PUBLIC = {
    "PrivateLasso": "dpassay.learn.lasso",
    "PrivateRidge": "dpassay.learn.ridge",
    "PrivateLogisticRegression": "dpassay.learn.logistic",
    "PrivatePreprocessor": "dpassay.learn.preprocess",
    "PrivateSearchCV": "dpassay.learn.search",
    "Ledger": "dpassay.privacy.ledger",
}

__all__ = [
    "Ledger",
    "PrivateLasso",
    "PrivateLogisticRegression",
    "PrivatePreprocessor",
    "PrivateRidge",
    "PrivateSearchCV",
]

lazily(__name__, _PUBLIC)
