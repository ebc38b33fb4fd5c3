"""What private linear regressors share beyond :class:`~dpassay.learn.base.PrivateLinearModel`."""

from dataclasses import KW_ONLY, dataclass, field
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from dpassay.learn.base import PrivateLinearModel, check_data
from dpassay.learn.declared import Features, Targets
from dpassay.types import FloatArray


@dataclass(eq=False, repr=False)
class LinearRegressor(PrivateLinearModel, RegressorMixin, BaseEstimator):
    """Data in, coefficients in the units of X and y out; use one of its kinds."""

    _: KW_ONLY
    target_bound: float | tuple[float, float] | None = None
    residual_bound: float | None = None
    coef_: FloatArray = field(init=False)
    intercept_: float = field(init=False)

    def _read(self, X: Any, y: Any) -> tuple[Any, Any]:
        """X, dense or CSR, and y, checked by scikit-learn."""
        return check_data(self, X, y, accept_sparse="csr", dtype=np.float64, y_numeric=True)

    def _keep(self, coef: FloatArray, intercept: Any, features: Features, targets: Targets) -> None:
        """Take over what was learned from bounded features and centred targets."""
        self.coef_, offset = features.restore(coef, intercept)
        self.intercept_ = float(offset) + targets.centre

    def predict(self, X: Any) -> FloatArray:
        """``X @ coef_ + intercept_``."""
        check_is_fitted(self)
        X = check_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
        return X @ self.coef_ + self.intercept_
