"""What a fit cannot see in its arguments: steps that learned from the same data, and searches.

A pipeline hands its last step the data as other steps made them, and a search fits clones of an
estimator many times. Neither is among the arguments of ``fit``, so that the calls that led to it
are looked at. What is found is said; nothing about the fit changes.
"""

import sys
import warnings
from collections.abc import Iterator
from itertools import takewhile
from types import FrameType
from typing import Any

from sklearn.base import BaseEstimator
from sklearn.compose import ColumnTransformer
from sklearn.model_selection._search import BaseSearchCV
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.utils import get_tags

from dpassay.errors import UnpaidSearch

_DEPTH = 60  # calls that are looked at
_PAID_APART = "what a step before it spent on its bounds, which comes on top (its own privacy_)"
_UNPAID = "the choice among the fits of a search, which is not paid for"


def assumptions_from_calls(estimator: Any, *, has_ledger: bool) -> tuple[str, ...]:
    """What the privacy of a fit rests on by the way it was called; call it inside ``fit``.

    Warns:
        UnpaidSearch: it is one fit of a search (GridSearchCV and its kin), and there is no ledger
            to add the fits up.

    """
    found, searched = [], False
    for frame in _frames():
        owner = frame.f_locals.get("self")
        if isinstance(owner, Pipeline) and frame.f_code.co_name.startswith("fit"):
            before = _steps_before(estimator, owner)
            found += [_sentence(step) for step in before if _learns(step)]
            found += [_PAID_APART for step in before if _spends(step)]
        searched = searched or isinstance(owner, BaseSearchCV) or _is_fit_of_search(frame)
    if searched and not has_ledger:
        warnings.warn(
            f"{type(estimator).__name__} is fitted by a search without a ledger: every fit spends "
            "its epsilon, and the choice of the best looks at the data once more. Use "
            "PrivateSearchCV, or pass ledger= to count the fits.",
            UnpaidSearch,
            stacklevel=2,
        )
    return (*dict.fromkeys(found), *([_UNPAID] if searched else []))


def _steps_before(estimator: Any, pipeline: Pipeline) -> list[Any]:
    steps = [step for _, step in pipeline.steps[:-1]]
    return list(takewhile(lambda step: all(part is not estimator for part in _parts(step)), steps))


def _frames() -> Iterator[FrameType]:
    frame: FrameType | None = sys._getframe(2)
    for _ in range(_DEPTH):
        if frame is None:
            return
        yield frame
        frame = frame.f_back


def _is_fit_of_search(frame: FrameType) -> bool:
    """In a worker process the search itself is not among the calls, but its settings are."""
    name = frame.f_globals.get("__name__", "")
    in_validation = name == "sklearn.model_selection._validation"
    return in_validation and bool(frame.f_locals.get("parameters"))


def _sentence(step: Any) -> str:
    return (
        f"what {type(step).__name__} learned from the same data without privacy, which the claim "
        "does not cover"
    )


def _learns(step: Any) -> bool:
    """Whether a step, or a part of it, looks at the data and does not pay for it."""
    return any(
        get_tags(part).requires_fit
        for part in _parts(step)
        if isinstance(part, BaseEstimator) and not _is_private(part)
    )


def _spends(step: Any) -> bool:
    """Whether a step, or a part of it, looks at the data and pays for it by itself."""
    return any(_is_private(part) and bool(part.epsilon) for part in _parts(step))


def _is_private(part: Any) -> bool:
    return hasattr(part, "_spending")  # a PrivateMixin


def _parts(step: Any) -> Iterator[Any]:
    """A step, or what it is made of."""
    inner: list[Any] = [step]
    if isinstance(step, Pipeline):
        inner = [part for _, part in step.steps]
    elif isinstance(step, FeatureUnion):
        inner = [part for _, part in step.transformer_list]
    elif isinstance(step, ColumnTransformer):
        inner = [*(part for _, part, _ in step.transformers), step.remainder]
    for part in inner:
        if part is step:
            yield part
        else:
            yield from _parts(part)
