"""Audit two scikit-learn pipelines that make the same claim.

The classifier adds noise for rows of norm at most 1. One pipeline scales every row to norm 1; the
other standardises columns instead, as one does: then a row may be as long as it likes, and means
and variances of the data are published without any noise.
Run it with ``python examples/sklearn_estimator.py``.
"""

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, StandardScaler

import dpassay as da

MU = 1.0


class NoisyLogistic(ClassifierMixin, BaseEstimator):
    """Logistic regression of rows of norm at most 1, with Gaussian noise on its coefficients.

    |w|^2 / 2 + C * (sum of losses) is 1-strongly convex, and a record adds a gradient of norm at
    most C: the minimum moves by at most C (Chaudhuri, Monteleoni and Sarwate 2011).
    """

    def __init__(self, C=0.1, mu=MU, random_state=None):
        self.C = C
        self.mu = mu
        self.random_state = random_state

    def fit(self, X, y):
        """Fit without noise, then add it."""
        plain = LogisticRegression(
            C=self.C, fit_intercept=False, tol=1e-8, solver="newton-cholesky"
        ).fit(X, y)
        noise = np.random.default_rng(self.random_state).normal(size=plain.coef_.shape)
        self.coef_ = plain.coef_ + self.C / self.mu * noise
        return self

    def predict(self, X):
        """The class on whose side each row lies."""
        return (X @ self.coef_[0] > 0).astype(int)


def neighbours() -> tuple:
    """A table with a long canary at its end, and the same without it."""
    rng = np.random.default_rng(0)
    X = np.vstack([rng.normal(size=(100, 3)), [[40.0, 0.0, 0.0]]])
    y = np.append((X[:-1, 0] > 0).astype(int), 0)
    return (X, y), (X[:-1], y[:-1])


def main() -> None:
    for name, scaler in (("honest", Normalizer()), ("broken", StandardScaler())):
        mechanism = da.auditing.from_estimator(make_pipeline(scaler, NoisyLogistic()))
        verdict = da.audit(mechanism, neighbours(), claim=da.GDP(MU), trials=200)
        print(f"{name}: {verdict}")


if __name__ == "__main__":
    main()
