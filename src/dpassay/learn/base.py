"""What every private estimator shares: budget, declared bounds, ledger, statement of privacy.

An estimator is ``class PrivateX(PrivateLinearModel, ClassifierMixin, BaseEstimator)``. Its
parameters are the fields of a dataclass (``eq=False, repr=False``: those are scikit-learn's), which
makes the ``__init__`` that scikit-learn asks for: it keeps each parameter and checks nothing.
Its ``fit`` goes through the same steps in the same order::

    X, y = checked_data(self, X, y, accept_sparse="csr", dtype=np.float64, y_numeric=True)
    features = self._bounded_features(X)
    targets = bounded_targets(y, self.target_bound)
    plan = self._make_plan(...)                               # from public quantities alone
    solution = self._carry_out(plan, features, targets.values, self._public_records(X))
    self.coef_, self.intercept_ = features.restore(solution.coef, solution.intercept)

Bounds are declared, never read off the data (law 5 of the design): a row that exceeds its bound is
clipped, silently, because to say how many were would be to say something about the data.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from dpassay import _check
from dpassay._rng import RngLike
from dpassay._threads import limit_threads
from dpassay.errors import InvalidArgument
from dpassay.learn.ledger import Ledger
from dpassay.learn.plans import LearnerPlan, Solution
from dpassay.optim.losses import without_duplicates
from dpassay.privacy import Event, NonPrivate, account
from dpassay.privacy.budget import Budget, budget
from dpassay.types import FloatArray, Neighbouring, NoiseLevel, PrivacyCurve

Norm = Literal["l2", "inf"]
RandomState = RngLike | np.random.RandomState
"""What scikit-learn takes as ``random_state``, and what NumPy has since."""
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
    n_records: int | None
    ledger: Ledger | None
    random_state: RandomState
    event_: Event
    assumptions_: tuple[str, ...]
    noise_: NoiseLevel

    def _budget(self) -> Budget:
        return budget(self.epsilon, self.delta, self.neighbouring)

    def _public_records(self, X: Any) -> int:
        """The number of records that divisors and rules use: declared, or taken as public."""
        if self.n_records is None:
            return X.shape[0]
        return _check.count("n_records", self.n_records, remedy="It is a public constant.")

    def _spend(self, event: Event, n_records: int, assumptions: Sequence[str] = ()) -> None:
        """Write the event to the ledger, which may refuse it, and state it as the fit's own.

        To be called before anything is computed from the values of the data.
        """
        if self.ledger is not None:
            if not isinstance(self.ledger, Ledger):
                raise InvalidArgument(
                    f"ledger={_check.shown(self.ledger)} must be a Ledger, e.g. "
                    "Ledger('spent.db', budget=ApproxDP(3.0, 1e-5))."
                )
            self.ledger.record(event, what=type(self).__name__, n_records=n_records)
        self.event_ = event
        self.assumptions_ = (f"n={n_records}", *assumptions)
        self.n_records_ = n_records

    def _carry_out(
        self,
        plan: LearnerPlan,
        features: "Features",
        y: Any,
        n_records: int,
        assumptions: Sequence[str] = (),
    ) -> Solution:
        """State the event of a plan, which the ledger may refuse; then fit the data as planned."""
        self._spend(plan.event, n_records, assumptions)
        with limit_threads(features.n_numbers):
            solution = plan.solve(features.values, y, self._rng())
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
        """As ``_spend``, for a fit without privacy; the ledger is told all the same."""
        self._spend(NonPrivate(budget.neighbouring), n_records, (NON_PRIVATE,))
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

    epsilon: float = 1.0
    delta: float = 1e-5
    _: KW_ONLY
    data_norm: float | None = None
    bounds: tuple[ArrayLike, ArrayLike] | None = None
    fit_intercept: bool = True
    neighbouring: Neighbouring = "add-remove"
    n_records: int | None = None
    ledger: Ledger | None = None
    random_state: RandomState = None

    def _bounded_features(self, X: Any, kind: Norm = "l2") -> "Features":
        """The rows inside their declared bound."""
        return bounded_features(X, self.data_norm, self.bounds, kind)

    def _features_without_privacy(self, X: Any, kind: Norm = "l2") -> "Features":
        """The rows inside their bound if one was declared, else as they are."""
        declared = self.data_norm is not None or self.bounds is not None
        return self._bounded_features(X, kind) if declared else as_they_are(X)


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
    r"Unknown label type: [\w-]+\.",
    r"[^'\n]* requires y to be passed",
    r"y should be a 1d array, got an array of shape ",
    r"could not convert string to float",
    r"(float|int)\(\) argument must be ",
    r"setting an array element with a sequence",
    r"Singleton array ",
)
_QUOTED = re.compile(r"(:?\n?array=|: ').*?(?=\nReshape|$)|Singleton array .*? cannot", re.DOTALL)


def checked_data(estimator: Any, X: Any, y: Any = "no_validation", **options: Any) -> Any:
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


# Features.


@dataclass(frozen=True, eq=False)
class Features:
    """Rows inside their declared bound, and the public affine map that took them there.

    Attributes:
        values: (X - centre) / scale, every row clipped; CSR if X was sparse.
        norm: the bound on every row of ``values``, in ``kind``.
        kind: "l2" or "inf".
        centre: subtracted from every column; 0 for sparse input, whose zeros stay zeros.
        scale: then divided by.

    """

    values: Any
    norm: float
    kind: Norm
    centre: FloatArray
    scale: FloatArray

    @property
    def n_numbers(self) -> int:
        """How many numbers are stored: what products with the rows take time for."""
        return int(self.values.nnz if sparse.issparse(self.values) else self.values.size)

    def restore(self, coef: FloatArray, intercept: Any = 0.0) -> tuple[FloatArray, Any]:
        """Coefficients (…, p) and intercept for ``values``, as those that apply to X itself."""
        coef = np.asarray(coef) / self.scale
        return coef, intercept - coef @ self.centre


def bounded_features(X: Any, data_norm: Any, bounds: Any, kind: Norm = "l2") -> Features:
    """The rows of X, clipped to what was declared.

    Args:
        X: dense (n, p) or CSR, validated; it is not modified.
        data_norm: bound on every row, in the l2 or the infinity norm according to ``kind``. With
            ``bounds`` it applies after scaling.
        bounds: (low, high), numbers or one per feature: entries are clipped to them, then centred
            and scaled to [-1, 1] (sparse: scaled by max(|low|, |high|), so that zeros stay).
        kind: the norm that the solver's sensitivity is stated in.

    Raises:
        InvalidArgument: neither bound is declared; one is not positive or not finite.

    """
    if data_norm is None and bounds is None:
        raise InvalidArgument(
            f"data_norm=None: the bound on the {kind} norm of a row is missing. Reading it from "
            "the data would leak the largest record; declare data_norm=1.0, or "
            "bounds=(low, high) per feature."
        )
    X = without_duplicates(X)
    p = X.shape[1]
    centre, scale = np.zeros(p), np.ones(p)
    norm = math.inf
    if bounds is not None:
        X, centre, scale = _scale_to_bounds(X, bounds)
        norm = math.sqrt(p) if kind == "l2" else 1.0
    if data_norm is not None:
        remedy = "It bounds the norm of every row."
        given = _check.number("data_norm", data_norm, low=0, low_open=True, remedy=remedy)
        if given < norm:
            X, norm = _clip_rows(X, given, kind), given
    return Features(X, norm, kind, centre, scale)


def as_they_are(X: Any) -> Features:
    """The rows without a bound, for fits without privacy."""
    p = X.shape[1]
    return Features(X, math.inf, "l2", np.zeros(p), np.ones(p))


def _scale_to_bounds(X: Any, bounds: Any) -> tuple[Any, FloatArray, FloatArray]:
    low, high = _low_and_high(bounds, X.shape[1])
    if not sparse.issparse(X):
        centre, scale = (low + high) / 2, (high - low) / 2
        return (np.clip(X, low, high) - centre) / scale, centre, scale
    if not ((low <= 0) & (high >= 0)).all():
        raise InvalidArgument("bounds must contain 0 in every column of a sparse X.")
    scale = np.maximum(-low, high)
    columns = X.indices
    data = np.clip(X.data, low[columns], high[columns]) / scale[columns]
    return sparse.csr_matrix((data, columns, X.indptr), X.shape), np.zeros_like(scale), scale


def _low_and_high(bounds: Any, n_features: int) -> tuple[FloatArray, FloatArray]:
    remedy = "Declare bounds=(low, high), each a number or one number per feature."
    try:
        low, high = bounds
    except (TypeError, ValueError):
        raise InvalidArgument(f"bounds={_check.shown(bounds)} must be a pair. {remedy}") from None
    ends = []
    for name, end in (("low", low), ("high", high)):
        end = _check.array(f"bounds {name}", end, remedy=remedy)
        if end.shape not in ((), (n_features,)):
            raise InvalidArgument(
                f"bounds {name} has shape {end.shape} for {n_features} features. {remedy}"
            )
        ends.append(np.broadcast_to(end, (n_features,)).astype(np.float64))
    if not (ends[0] < ends[1]).all():
        raise InvalidArgument(f"bounds must have low < high in every column. {remedy}")
    return ends[0], ends[1]


def _clip_rows(X: Any, norm: float, kind: Norm) -> Any:
    """X with every row inside the ball; X itself where every row already is."""
    if kind == "inf":
        limit = X.dtype.type(norm)
        limit = limit if float(limit) <= norm else np.nextafter(limit, X.dtype.type(0))
        if sparse.issparse(X):
            data = np.clip(X.data, -limit, limit)
            return sparse.csr_matrix((data, X.indices, X.indptr), X.shape)
        return np.clip(X, -limit, limit)
    norms = row_norms(X)
    if (norms <= norm).all():
        return X
    inside = norm * (1 - 4 * np.finfo(X.dtype).eps)  # so that rounding the product is no excess
    with np.errstate(over="ignore", divide="ignore"):
        factors = np.where(norms <= norm, 1.0, inside / norms).astype(X.dtype)
    if sparse.issparse(X):
        data = X.data * np.repeat(factors, np.diff(X.indptr))
        return sparse.csr_matrix((data, X.indices, X.indptr), X.shape)
    return X * factors[:, None]


def row_norms(X: Any) -> FloatArray:
    """The l2 norm of every row, dense or CSR, in double precision."""
    with np.errstate(over="ignore"):
        if sparse.issparse(X):
            # Row i of the matrix of squares sums to the squared norm.
            squares = np.square(X.data, dtype=np.float64)
            squares = sparse.csr_matrix((squares, X.indices, X.indptr), X.shape)
            return np.sqrt(np.asarray(squares.sum(axis=1)).ravel())
        return np.sqrt(np.einsum("ij,ij->i", X, X, dtype=np.float64))


# Targets and labels.


@dataclass(frozen=True, eq=False)
class Targets:
    """Targets inside [-bound, bound] around a public centre."""

    values: FloatArray
    bound: float
    centre: float


def bounded_targets(y: Any, target_bound: Any) -> Targets:
    """The targets, clipped to what was declared and centred.

    Args:
        y: one number per record.
        target_bound: a number, for |y| <= target_bound, or a pair (low, high).

    Raises:
        InvalidArgument: the bound is missing, not finite, or empty.

    """
    if target_bound is None:
        raise InvalidArgument(
            "target_bound=None: the bound on the target is missing. Reading it from the data would "
            "leak the largest target; declare target_bound=1.0 or target_bound=(low, high)."
        )
    remedy = "Declare target_bound=1.0 for |y| <= 1, or target_bound=(low, high)."
    ends = _check.array("target_bound", target_bound, remedy=remedy)
    low, high = (-ends, ends) if ends.ndim == 0 else (ends if ends.shape == (2,) else (0, 0))
    if not low < high:
        raise InvalidArgument(
            f"target_bound={_check.shown(target_bound)} must span an interval. {remedy}"
        )
    centre = float(low + high) / 2
    try:
        y = np.asarray(y, np.float64)
    except (TypeError, ValueError):
        raise InvalidArgument("y must hold numbers; labels are for classifiers.") from None
    return Targets(np.clip(y, low, high) - centre, float(high - low) / 2, centre)


def label_set(y: Any, classes: Any) -> tuple[Any, Any, tuple[str, ...]]:
    """The sorted label set, every label's place in it, and the assumption that this makes, if any.

    Args:
        y: one label per record.
        classes: the declared label set; None takes that of the data as public, which the returned
            assumption says.

    Raises:
        InvalidArgument: a label is not among the declared ones; fewer than two classes.

    """
    found, codes = np.unique(y, return_inverse=True)
    if classes is None:
        labels, assumptions = found, (f"the label set, {len(found)} classes",)
    else:
        labels, assumptions = np.unique(np.asarray(classes)), ()
        unknown = np.setdiff1d(found, labels)
        if unknown.size:
            raise InvalidArgument(
                f"classes={labels.tolist()!r} lacks a label that a record has. "
                "Declare every label that a record may have."
            )
        codes = np.searchsorted(labels, y)
    if len(labels) < 2:
        raise InvalidArgument(
            "the classifier needs samples of at least 2 classes; the data contains only one class."
        )
    return labels, codes, assumptions
