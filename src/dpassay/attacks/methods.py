"""The attacks by name: how each scores candidates, what it must know, who published it.

An attack sees the candidates in one list, without who is a member: what it finds can then be
counted, and bounds epsilon where membership was randomised.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypedDict

import numpy as np

from dpassay import _check
from dpassay._records import join
from dpassay._rng import RngLike
from dpassay.attacks.learned import shadow_scores
from dpassay.attacks.outputs import Outputs, dense, observe, records
from dpassay.attacks.quantile import quantile_scores
from dpassay.attacks.ratio_attacks import Variance, lira_scores, rmia_scores
from dpassay.attacks.scores import metric_scores
from dpassay.attacks.shadows import Shadows, records_of
from dpassay.attacks.whitebox import WhiteBox
from dpassay.errors import InvalidArgument
from dpassay.types import FloatArray


@dataclass(frozen=True, eq=False)
class Case:
    """All that an attack may look at: candidates in one list, without who is a member."""

    target: Any
    outputs: Outputs
    X: Any
    y: Any
    shadows: Shadows | None
    reference: Any
    features: WhiteBox
    rng: RngLike

    def need_shadows(self, aligned: bool = True) -> Shadows:
        """The shadows, which must be there and, for some attacks, at these very records."""
        if self.shadows is None:
            raise InvalidArgument("shadows are missing. Make them with train_shadows(...).")
        if aligned and self.shadows.records and self.X is not None:
            here = records_of(self.X, self.y)
            if here and here != self.shadows.records:
                raise InvalidArgument(
                    "the shadows were observed at other records, or in another order. Observe them "
                    "at the members, then the non-members."
                )
        return self.shadows

    def need_records(self, method: str) -> Any:
        """The records of the candidates; an error where only outputs were given."""
        if self.X is None:
            raise InvalidArgument(
                f"method={method!r} looks at records and a model, not at outputs alone. Pass the "
                "target, and (X, y) for members and non_members."
            )
        return self.X


@dataclass(frozen=True)
class Attack:
    """An attack: how it scores, what it must know, who published it, where it cuts by itself."""

    score: Callable[..., FloatArray]
    knows: str
    source: str
    cut: float | None = None
    options: tuple[str, ...] = ()


def _metric(name: str) -> Callable[[Case], FloatArray]:
    return lambda case: metric_scores(case.outputs, name)


def _lira(online: bool) -> Callable[..., FloatArray]:
    def score(case: Case, **options: Any) -> FloatArray:
        return lira_scores(case.outputs, case.need_shadows(), online=online, **options)

    return score


def _rmia(online: bool) -> Callable[..., FloatArray]:
    def score(case: Case, **options: Any) -> FloatArray:
        return rmia_scores(case.outputs, case.need_shadows(), online=online, **options)

    return score


def _black_box(case: Case, **options: Any) -> FloatArray:
    return shadow_scores(case.outputs, case.need_shadows(aligned=False), rng=case.rng, **options)


def _white_box(case: Case, **options: Any) -> FloatArray:
    X = case.need_records("white-box")
    rows = _check.array("features", case.features(case.target, X, case.y), ndim=2)
    shadows = case.need_shadows(aligned=False)
    return shadow_scores(case.outputs, shadows, features=rows, rng=case.rng, **options)


def _quantile(case: Case, **options: Any) -> FloatArray:
    X = case.need_records("quantile")
    if case.reference is None:
        raise InvalidArgument(
            "reference is missing: (X, y) of records known not to be members, other than the "
            "candidates."
        )
    X_known, y_known = records("reference", case.reference)
    _refuse_candidates(X_known, X)
    seen = observe(case.target, X_known, y_known)
    return quantile_scores(case.outputs, X, seen, X_known, rng=case.rng, **options)


def _refuse_candidates(reference: Any, others: Any) -> None:
    """Candidates that the attacker knows to be outside are no candidates; a few twins may be."""
    known, asked = ([row.tobytes() for row in dense(X)] for X in (reference, others))
    shared = len(set(known) & set(asked))
    if shared > len(known) / 2:
        raise InvalidArgument(
            f"reference shares {shared} of its {len(known)} records with the candidates; to know "
            "that these are no members is what the attack is about. Give other records."
        )


_YEOM, _SALEM, _SONG = "Yeom et al. 2018", "Salem et al. 2019", "Song and Mittal 2021"
_CARLINI, _ZARIFZADEH = "Carlini et al. 2022", "Zarifzadeh, Liu and Shokri 2024"
_TRAINING = "outputs, labels, how the target was trained, and data like its own"
_CANDIDATES = _TRAINING + " with the candidates in it"
METHODS: dict[str, Attack] = {
    "loss": Attack(_metric("loss"), "the losses of the candidates", _YEOM),
    "correctness": Attack(_metric("correctness"), "guessed and true labels", _YEOM, 0.5),
    "confidence": Attack(_metric("confidence"), "the largest probability", _SALEM),
    "entropy": Attack(_metric("entropy"), "the output vectors", _SALEM),
    "modified-entropy": Attack(_metric("modified-entropy"), "output vectors and labels", _SONG),
    "lira": Attack(_lira(True), _CANDIDATES, _CARLINI, 0.0, ("variance",)),
    "lira-offline": Attack(_lira(False), _TRAINING, _CARLINI, None, ("variance",)),
    "rmia": Attack(_rmia(True), _CANDIDATES, _ZARIFZADEH, None, ("gamma",)),
    "rmia-offline": Attack(_rmia(False), _TRAINING, _ZARIFZADEH, None, ("gamma", "offline_slope")),
    "shadow": Attack(_black_box, _TRAINING, "Shokri et al. 2017", 0.0, ("learner", "per_class")),
    "white-box": Attack(
        _white_box,
        _TRAINING + ", and the model itself",
        "Nasr, Shokri and Houmansadr 2019",
        0.0,
        ("learner", "per_class"),
    ),
    "quantile": Attack(
        _quantile,
        "outputs, labels and records known not to be members",
        "Bertran et al. 2023",
        0.0,
        ("alpha", "regressor"),
    ),
}


class AttackOptions(TypedDict, total=False):
    """What some attacks can be told; the table above says which has which."""

    variance: Variance
    gamma: float
    offline_slope: float
    learner: Literal["boosting", "mlp"]
    per_class: bool
    alpha: float
    regressor: Literal["boosting", "linear"]


def check_options(method: str, options: AttackOptions) -> None:
    """Refuse options that the attack does not have."""
    known = METHODS[method].options
    for name, value in options.items():
        if name not in known:
            raise InvalidArgument(
                f"{name}={value!r} is no option of method={method!r}, which has: "
                f"{', '.join(known) or 'none'}."
            )


def candidates(
    target: Any,
    members: Any,
    non_members: Any,
    shadows: Shadows | None,
    reference: Any,
    features: WhiteBox,
    rng: RngLike,
) -> tuple[Case, int]:
    """The candidates, members first, and how many of them are members."""
    if target is None:
        sides = [_outputs(n, v) for n, v in (("members", members), ("non_members", non_members))]
        X = y = None
    else:
        pairs = [records("members", members), records("non_members", non_members)]
        sides = [observe(target, *pair) for pair in pairs]
        X = join(pairs[0][0], pairs[1][0])
        y = np.concatenate([pair[1] for pair in pairs])
    outputs = sides[0].join(sides[1])
    _refuse_constant(outputs)
    case = Case(target, outputs, X, y, shadows, reference, features, rng)
    return case, len(sides[0])


def _outputs(name: str, value: Any) -> Outputs:
    """Outputs as they are: losses, or probabilities with labels."""
    if isinstance(value, Outputs):
        return value
    if isinstance(value, tuple) and len(value) == 2:
        return Outputs(probabilities=value[0], labels=value[1])
    losses = _check.array(name, value, empty=False, remedy="Give a loss for each record.")
    if losses.ndim != 1:
        raise InvalidArgument(
            f"{name} has shape {losses.shape}; it must be an array of losses, or a pair "
            "(probabilities, labels). For records pass the target too."
        )
    return Outputs(losses=losses)


def _refuse_constant(outputs: Outputs) -> None:
    if np.all(outputs.values == outputs.values[:1]):
        raise InvalidArgument(
            f"the target says the same ({outputs.values.ravel()[0]:g}, ...) about every record, so "
            "that there is nothing to attack. Was it trained, and does it read its input?"
        )
