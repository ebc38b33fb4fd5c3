"""What every private estimator shares: budget, declared bounds, ledger, statement of privacy.

An estimator is ``class PrivateX(PrivateLinearModel, ClassifierMixin, BaseEstimator)``. Its
parameters are the fields of a dataclass (``eq=False, repr=False``: those are scikit-learn's), which
makes the ``__init__`` that scikit-learn asks for: it keeps each parameter and checks nothing.
Its ``fit`` goes through the same steps in the same order::

    X, y = check_data(self, X, y, accept_sparse="csr", dtype=np.float64, y_numeric=True)
    features = self._bound_features(X)
    targets = bound_targets(y, self.target_bound)
    plan = self._make_plan(...)                               # from public quantities alone
    solution = self._carry_out(plan, features, targets.values, self._public_records(X))
    self.coef_, self.intercept_ = features.restore(solution.coef, solution.intercept)

Bounds are declared, never read off the data (law 5 of the design): a row that exceeds its bound is
clipped, silently, because to say how many were would be to say something about the data.
"""

import re
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpassay import _check
from dpassay._rng import RngLike
from dpassay._threads import limit_threads
from dpassay.errors import InvalidArgument
from dpassay.learn.declared import Features, Norm, Pair, as_they_are, bound_features
from dpassay.learn.plans import LearnerPlan, Solution
from dpassay.privacy import Event, NonPrivate, account
from dpassay.privacy.budget import DEFAULT_EPSILON, Budget, Plan, budget, keep_risk
from dpassay.privacy.ledger import Ledger, spending
from dpassay.privacy.risk import Risk
from dpassay.types import FloatArray, Neighbouring, NoiseLevel, PrivacyCurve

RandomState = RngLike | np.random.RandomState
"""What scikit-learn takes as ``random_state``, and what NumPy has since."""
Bounds = tuple[ArrayLike, ArrayLike] | Sequence[Pair] | Mapping[str, Pair]
"""Bounds of features: for all of them or lows and highs, one pair per feature, or by name."""
NON_PRIVATE = "epsilon=inf: no privacy was asked for"


class PrivateMixin:
    """What a private estimator is, before any mixin of scikit-learn and BaseEstimator.

    After ``fit``: ``event_`` (what was done to the data), ``privacy_`` (its privacy curve, an upper
    bound), ``noise_`` ("exact", "cryptographic" or "reproducible": only the first two are private)
    and ``assumptions_`` (what was taken as public).
    """

    epsilon: float
    delta: float
    neighbouring: Neighbouring
    risk: Risk | None = None
    n_records: int | None
    ledger: Ledger | None
    random_state: RandomState
    event_: Event
    assumptions_: tuple[str, ...]
    noise_: NoiseLevel

    def _budget(self) -> Budget:
        return budget(self.epsilon, self.delta, self.neighbouring, self.risk)

    def _keep_risk(self, allowed: Budget, make_plan: Callable[[Budget], Plan]) -> Budget:
        """The budget, or the largest whose plan keeps the risk that stands in its place."""
        return keep_risk(self.risk, allowed, lambda tried: make_plan(tried).event)

    def _public_records(self, X: Any) -> int:
        """The number of records that divisors and rules use: declared, or taken as public."""
        if self.n_records is None:
            return X.shape[0]
        return _check.count("n_records", self.n_records, remedy="It is a public constant.")

    @contextmanager
    def _spending(
        self, event: Event, n_records: int, assumptions: Sequence[str] = ()
    ) -> Generator[None]:
        """Charge the event to the ledger, which may refuse it, and state it as the fit's own.

        Whatever is computed from the values of the data is computed inside this block.
        """
        from dpassay.learn.surroundings import assumptions_from_calls

        more = assumptions_from_calls(self, has_ledger=self.ledger is not None)
        with spending(self.ledger, event, what=type(self).__name__, n_records=n_records):
            self.event_ = event
            self.assumptions_ = (f"n={n_records}", *assumptions, *more)
            self.n_records_ = n_records
            yield

    def _carry_out(
        self,
        plan: LearnerPlan,
        features: "Features",
        y: Any,
        n_records: int,
        assumptions: Sequence[str] = (),
        weights: FloatArray | None = None,
    ) -> Solution:
        """State the event of a plan, which the ledger may refuse; then fit the data as planned."""
        solve: Any = plan.solve
        more = {} if weights is None else {"weights": weights}
        with (
            self._spending(plan.event, n_records, assumptions),
            limit_threads(features.n_numbers),
        ):
            rows = features if getattr(plan, "takes_parts", False) else features.values
            solution = solve(rows, y, self._rng(), **more)
        self.noise_ = solution.noise
        return solution

    def _positive(self, name: str) -> float | None:
        """A parameter that must be positive, or None, which leaves it to a rule."""
        value = getattr(self, name)
        if value is None:
            return None
        remedy = "Leave it None for the rule on public quantities."
        return _check.number(name, value, low=0, low_open=True, remedy=remedy)

    def _spend_nothing_private(self, budget: Budget, n_records: int) -> None:
        """State that a fit has no privacy; the ledger is told all the same."""
        with self._spending(NonPrivate(budget.neighbouring), n_records, (NON_PRIVATE,)):
            self.noise_ = noise_level(self._rng())

    def _rng(self) -> RngLike:
        """None for secure noise; otherwise a generator that replays."""
        return generator_of(self.random_state)

    @property
    def privacy_(self) -> PrivacyCurve:
        """The privacy curve of the last fit: an upper bound, with what it takes as public."""
        return account(self.event_, assumptions=self.assumptions_, n_records=self.n_records_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.sparse = True
        if tags.regressor_tags is not None:
            tags.regressor_tags.poor_score = True  # two hundred records leave little but noise
        if tags.classifier_tags is not None:
            tags.classifier_tags.poor_score = True
        return tags


@dataclass(eq=False, repr=False)
class PrivateLinearModel(PrivateMixin):
    """A private estimator whose sensitivity rests on a declared bound on every row.

    Its fields, and those that an estimator adds to them, are the parameters that scikit-learn
    sees; those of :class:`PrivateRidge` and its kin say what each means.
    """

    epsilon: float = DEFAULT_EPSILON
    delta: float = 1e-5
    _: KW_ONLY
    risk: Risk | None = None
    data_norm: float | None = None
    bounds: Bounds | None = None
    fit_intercept: bool = True
    neighbouring: Neighbouring = "add-remove"
    n_records: int | None = None
    ledger: Ledger | None = None
    random_state: RandomState = None

    def _bound_features(self, X: Any, kind: Norm = "l2") -> "Features":
        """The rows inside their declared bound."""
        names = getattr(self, "feature_names_in_", None)
        return bound_features(X, self.data_norm, self.bounds, kind, names)

    def _features_without_privacy(self, X: Any, kind: Norm = "l2") -> "Features":
        """The rows inside their bound if one was declared, else as they are."""
        declared = self.data_norm is not None or self.bounds is not None
        return self._bound_features(X, kind) if declared else as_they_are(X)


# What scikit-learn says of X and y without quoting them. Whatever else it says is not passed on:
# its messages may hold whole rows.
_WITHOUT_RECORDS = (
    r"Expected 2D array, got (scalar|1D) array instead",
    r"Found array with ",
    r"Found input variables with inconsistent numbers of samples",
    r"Input \w+ contains ",
    r"X has \d+ features, but ",
    r"The feature names should match ",
    r"Complex data not supported",
    r"Sparse data was passed",
    r"Unknown label type: [\w-]+\.",
    r"[^'\n]* requires y to be passed",
    r"y should be a 1d array, got an array of shape ",
    r"could not convert string to float",
    r"(float|int)\(\) argument must be ",
    r"setting an array element with a sequence",
    r"Singleton array ",
)
_QUOTED = re.compile(r"(:?\n?array=|: ').*?(?=\nReshape|$)|Singleton array .*? cannot", re.DOTALL)


def check_data(estimator: Any, X: Any, y: Any = "no_validation", **options: Any) -> Any:
    """``validate_data`` of scikit-learn, whose errors are told without the records they quote."""
    from sklearn.utils.validation import validate_data

    try:
        return validate_data(estimator, X, y, **options)
    except (ValueError, TypeError) as error:
        kind = TypeError if isinstance(error, TypeError) else InvalidArgument
        text = str(error)
        safe = any(re.match(start, text) for start in _WITHOUT_RECORDS)
        words = _QUOTED.sub("", text) if safe else f"X or y cannot be used ({type(error).__name__})"
        raise kind(words) from None


def generator_of(random_state: RandomState) -> RngLike:
    """``random_state`` as the mechanisms take it: None is secure, all else can be replayed.

    >>> generator_of(None) is None
    True

    """
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(0, 2**31, 4))
    if random_state is None or isinstance(
        random_state, np.random.Generator | np.random.SeedSequence
    ):
        return random_state
    remedy = "Pass None for private noise, or a seed for noise that can be replayed."
    return np.random.default_rng(_check.seed("random_state", random_state, remedy=remedy))


def noise_level(rng: RngLike) -> NoiseLevel:
    """The level of noise drawn for training: cryptographic, unless a seed was given."""
    from dpassay.mechanisms.noise import training_source

    return training_source(rng).level
