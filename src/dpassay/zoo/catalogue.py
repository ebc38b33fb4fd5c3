"""Every subject of the zoo: what it claims, on which pair, and what is true.

A subject is *broken* if its claim is false for the neighbours that it states. Some mechanisms keep
one epsilon and break another: those are two subjects.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpassay.attacks import lowest_bit
from dpassay.privacy import GDP, PureDP
from dpassay.types import FloatArray, PrivacyCurve
from dpassay.zoo import learners, mechanisms, training_bugs

SNIPER = "DP-Sniper's benchmark (Bichsel et al. 2021)"
SPARSE = "Lyu, Su and Li (2017), in DP-Sniper's benchmark (Bichsel et al. 2021)"
AUDITORIUM = "DP-Auditorium (Kong et al. 2024)"


@dataclass(frozen=True)
class Subject:
    """A mechanism with its claim, a pair that shows its loss, and the truth.

    Attributes:
        name: what it is called.
        mechanism: ``mechanism(data, rng, size)`` for cheap draws, ``mechanism(data, rng)`` for
            trainings.
        pair: makes the neighbouring data sets.
        claim: makes the claim.
        broken: whether that claim is false.
        about: one sentence: what it does, or what is wrong with it.
        source: where it comes from.
        moves: what neighbours are, for a search: "one" answer moves by 1, "all" do, "record" for
            one record more or less, "value" for any two whole numbers, "step" for two that differ
            by 1; none if pairs are not searched.
        domain: the range of the answers or values.
        epsilon_true: the loss at the pair; an upper bound if ``at_most``; none if unknown.
        at_most: whether the truth at the pair is only known to be at most that.
        epsilon_worst: the loss at the worst pair, where it is known.
        score: of an output; none lets the audit learn one.
        trials: trainings that show the bug; none for cheap draws.

    """

    name: str
    mechanism: Callable[..., Any]
    pair: Callable[[], tuple[Any, Any]]
    claim: Callable[[], PrivacyCurve]
    broken: bool
    about: str
    source: str
    moves: str | None = None
    domain: tuple[float, float] = (-10.0, 10.0)
    epsilon_true: float | None = None
    at_most: bool = False
    epsilon_worst: float | None = None
    score: Callable[[Any], float] | None = None
    trials: int | None = None


def _claim(epsilon: float = mechanisms.EPSILON) -> Callable[[], PrivacyCurve]:
    return lambda: PureDP(epsilon)


def _queries(data: list[float], data_prime: list[float]) -> Callable[[], tuple[Any, Any]]:
    return lambda: (np.array(data, float), np.array(data_prime, float))


def _values(data: Any, data_prime: Any) -> Callable[[], tuple[Any, Any]]:
    return lambda: (data, data_prime)


_ONES, _ZEROS = [1.0] * 10, [0.0] * 10
_SPLIT = [2.0] * 5 + [0.0] * 5
_LEFT, _RIGHT = [1.0] * 5 + [0.0] * 5, [0.0] * 5 + [1.0] * 5
_GEOMETRIC = math.log(9 / 8)
_RAPPOR = math.log(0.5125 / 0.4875)  # of one bit; four hashes, so that eight bits can differ
_RAPPOR_ONCE = math.log(0.525 / 0.475)


def _flipped_label() -> tuple[FloatArray, FloatArray]:
    """Ten records with labels of 1; the last has the label -1 in the other data set."""
    data = np.column_stack([np.tile([0.6, 0.8], (10, 1)), np.ones(10)])
    other = data.copy()
    other[-1, -1] = -1.0
    return data, other


def _step_claim(norms: float) -> Callable[[], PrivacyCurve]:
    return lambda: GDP(norms / mechanisms.STEP_NOISE, neighbouring="replace-one")


def _step_epsilon() -> float:
    """The loss of the step at the delta at which an audit states it."""
    return float(_step_claim(2.0)().epsilon(1e-5))


DRAWS = (
    Subject(
        "laplace",
        mechanisms.laplace,
        _queries([1], [2]),
        _claim(),
        False,
        "One answer with Laplace noise.",
        SNIPER,
        "one",
        epsilon_true=0.1,
        epsilon_worst=0.1,
    ),
    Subject(
        "truncated geometric",
        mechanisms.truncated_geometric,
        _values(2, 1),
        _claim(_GEOMETRIC),
        False,
        "A count by the geometric sampler in integers, at the epsilon that it has.",
        SNIPER,
        "step",
        (0, 5),
        epsilon_true=_GEOMETRIC,
        epsilon_worst=_GEOMETRIC,
    ),
    Subject(
        "truncated geometric, as asked",
        mechanisms.truncated_geometric,
        _values(2, 1),
        _claim(),
        True,
        "The sampler rounds its parameter up and gives log(9/8) where .1 was asked for.",
        SNIPER,
        "step",
        (0, 5),
        epsilon_true=_GEOMETRIC,
        epsilon_worst=_GEOMETRIC,
    ),
    Subject(
        "noisy histogram",
        mechanisms.histogram,
        _queries([0, 1, 1, 1, 1], [1] * 5),
        _claim(),
        False,
        "Five counts with Laplace noise.",
        SNIPER,
        "one",
        (0, 10),
        epsilon_true=0.1,
        epsilon_worst=0.1,
    ),
    Subject(
        "noisy histogram, inverted scale",
        mechanisms.histogram_inverted_scale,
        _queries([0, 1, 1, 1, 1], [1] * 5),
        _claim(),
        True,
        "The scale of the noise is epsilon instead of 1/epsilon.",
        SNIPER,
        "one",
        (0, 10),
        epsilon_true=10.0,
        epsilon_worst=10.0,
    ),
    Subject(
        "noisy histogram, occupied bins only",
        mechanisms.histogram_of_occupied_bins,
        _queries([1, 3, 0, 2], [0, 3, 0, 2]),
        _claim(1.0),
        True,
        "An empty bin gets no noise, so that a zero says that nobody is in it.",
        "a common shortcut of sparse histograms",
        "one",
        (0, 10),
        epsilon_true=math.inf,
        epsilon_worst=math.inf,
    ),
    Subject(
        "noisy argmax, Laplace",
        mechanisms.noisy_argmax_laplace,
        _queries([1] * 5, [0, 2, 2, 2, 2]),
        _claim(),
        False,
        "Report noisy max: which of five noisy answers is the largest.",
        SNIPER,
        "all",
        epsilon_true=0.1,
        at_most=True,
        epsilon_worst=0.1,
    ),
    Subject(
        "noisy argmax, exponential",
        mechanisms.noisy_argmax_exponential,
        _queries([1] * 5, [0, 2, 2, 2, 2]),
        _claim(),
        False,
        "Report noisy max with exponential noise.",
        SNIPER,
        "all",
        epsilon_true=0.1,
        epsilon_worst=0.1,
    ),
    Subject(
        "noisy argmax, Gumbel",
        mechanisms.noisy_argmax_gumbel,
        _queries([1] * 5, [0, 2, 2, 2, 2]),
        _claim(),
        False,
        "Report noisy max with Gumbel noise: the exponential mechanism.",
        AUDITORIUM,
        "all",
        epsilon_true=math.log(0.2 + 0.8 * math.exp(0.1)),
    ),
    Subject(
        "noisy max, Laplace",
        mechanisms.noisy_max_laplace,
        _queries([0] * 5, [1] * 5),
        _claim(),
        True,
        "Releases the largest noisy answer itself: its noise covers one query, not five.",
        SNIPER,
        "all",
        epsilon_true=0.25,
    ),
    Subject(
        "noisy max, exponential",
        mechanisms.noisy_max_exponential,
        _queries([1] * 5, [2] * 5),
        _claim(),
        True,
        "Releases the largest answer after positive noise: values below the maximum never occur.",
        SNIPER,
        "all",
        epsilon_true=math.inf,
        epsilon_worst=math.inf,
    ),
    Subject(
        "sparse vector 1",
        mechanisms.sparse_vector_1,
        _queries(_RIGHT, _LEFT),
        _claim(),
        False,
        "The sparse vector technique as it should be.",
        SPARSE,
        "all",
        epsilon_true=0.1,
        at_most=True,
        epsilon_worst=0.1,
    ),
    Subject(
        "sparse vector 2",
        mechanisms.sparse_vector_2,
        _queries(_RIGHT, _LEFT),
        _claim(),
        False,
        "The same, with the threshold's noise drawn anew after an answer above it.",
        SPARSE,
        "all",
        epsilon_true=0.1,
        at_most=True,
        epsilon_worst=0.1,
    ),
    Subject(
        "sparse vector 3",
        mechanisms.sparse_vector_3,
        _queries(_ONES, _SPLIT),
        _claim(),
        True,
        "Releases the noisy answer that passed the threshold, with the noise that it passed with.",
        SPARSE,
        "all",
    ),
    Subject(
        "sparse vector 4",
        mechanisms.sparse_vector_4,
        _queries(_ONES, _SPLIT),
        _claim(),
        True,
        "The answers' noise is not scaled to how many may be above the threshold.",
        SPARSE,
        "all",
        epsilon_true=0.175,
        at_most=True,
        epsilon_worst=0.175,
    ),
    Subject(
        "sparse vector 5",
        mechanisms.sparse_vector_5,
        _queries(_SPLIT, _ONES),
        _claim(),
        True,
        "No noise in the answers, only in the threshold, and no end.",
        SPARSE,
        "all",
        epsilon_true=math.inf,
        epsilon_worst=math.inf,
    ),
    Subject(
        "sparse vector 6",
        mechanisms.sparse_vector_6,
        _queries(_LEFT, _RIGHT),
        _claim(),
        True,
        "Noise in threshold and answers, but it never stops.",
        SPARSE,
        "all",
        epsilon_true=0.5,
        at_most=True,
    ),
    Subject(
        "numerical sparse vector",
        mechanisms.sparse_vector_numerical,
        _queries([2] * 10, _ONES),
        _claim(),
        False,
        "Answers above the threshold are released with noise of their own.",
        SPARSE,
        "all",
        epsilon_true=0.1,
        at_most=True,
        epsilon_worst=0.1,
    ),
    Subject(
        "sparse vectors 3 and 4",
        mechanisms.sparse_vectors_in_parallel,
        _queries(_ONES, _SPLIT),
        _claim(),
        True,
        "Two broken variants side by side.",
        SNIPER,
        "all",
    ),
    Subject(
        "RAPPOR",
        mechanisms.rappor,
        _values(1, 0),
        _claim(8 * _RAPPOR),
        False,
        "Randomised bits of a Bloom filter, at the epsilon that two disjoint filters have.",
        SNIPER,
        "value",
        epsilon_true=6 * _RAPPOR,
        epsilon_worst=8 * _RAPPOR,
    ),
    Subject(
        "RAPPOR, as asked",
        mechanisms.rappor,
        _values(1, 0),
        _claim(),
        True,
        "The same bits with a claim of .1: six bits of 1 and 0 differ, each worth .05.",
        SNIPER,
        "value",
        epsilon_true=6 * _RAPPOR,
        epsilon_worst=8 * _RAPPOR,
    ),
    Subject(
        "one-time RAPPOR",
        mechanisms.rappor_once,
        _values(1, 0),
        _claim(8 * _RAPPOR_ONCE),
        False,
        "The permanent bits alone, at the epsilon that two disjoint filters have.",
        SNIPER,
        "value",
        epsilon_true=6 * _RAPPOR_ONCE,
        epsilon_worst=8 * _RAPPOR_ONCE,
    ),
    Subject(
        "one-time RAPPOR, as asked",
        mechanisms.rappor_once,
        _values(1, 0),
        _claim(),
        True,
        "The same bits with a claim of .1: each differing bit is worth .1 alone.",
        SNIPER,
        "value",
        epsilon_true=6 * _RAPPOR_ONCE,
        epsilon_worst=8 * _RAPPOR_ONCE,
    ),
    Subject(
        "parallel Laplace",
        mechanisms.laplace_in_parallel,
        _queries([1], [0]),
        _claim(),
        False,
        "One answer twenty times, each with a twentieth of the budget.",
        SNIPER,
        "one",
        epsilon_true=0.1,
        epsilon_worst=0.1,
    ),
    Subject(
        "prefix sums",
        mechanisms.prefix_sums,
        _queries(_ONES, _ZEROS),
        _claim(),
        True,
        "Running sums with the noise of one answer, where a record moves all ten answers.",
        SNIPER,
        "all",
        epsilon_true=1.0,
        epsilon_worst=1.0,
    ),
    Subject(
        "mean",
        mechanisms.private_mean,
        _queries([1, 1], [1]),
        _claim(),
        False,
        "A noisy sum divided by a noisy count.",
        AUDITORIUM,
        "record",
        (0, 1),
        epsilon_true=0.1,
        at_most=True,
        epsilon_worst=0.1,
    ),
    Subject(
        "mean, true counts",
        mechanisms.mean_with_true_counts,
        _queries([1, 1], [1]),
        _claim(),
        True,
        "Divides by the true count and scales the noise to it: the width tells the count.",
        AUDITORIUM,
        "record",
        (0, 1),
        epsilon_true=math.inf,
        epsilon_worst=math.inf,
    ),
    Subject(
        "mean, noised scale",
        mechanisms.mean_with_noised_scale,
        _queries([0, 1], [0]),
        _claim(),
        True,
        "Divides by the true count; only the scale of the noise knows a noisy one.",
        AUDITORIUM,
        "record",
        (0, 1),
    ),
    Subject(
        "one gradient step",
        mechanisms.one_gradient_step,
        _flipped_label,
        _step_claim(2.0),
        False,
        "One step of gradient descent: a replaced record moves the sum by two clipping norms.",
        AUDITORIUM,
        epsilon_true=_step_epsilon(),
        epsilon_worst=_step_epsilon(),
    ),
    Subject(
        "one gradient step, sensitivity halved",
        mechanisms.one_gradient_step,
        _flipped_label,
        _step_claim(1.0),
        True,
        "The sensitivity of a replaced record is taken as one clipping norm instead of two.",
        AUDITORIUM,
        epsilon_true=_step_epsilon(),
        epsilon_worst=_step_epsilon(),
    ),
    Subject(
        "laplace, last bits",
        mechanisms.laplace_by_inversion,
        _queries([0], [1]),
        _claim(),
        True,
        "Double precision: an answer of 1 with noise never lies between multiples of 2^-53.",
        "Mironov (2012), in DP-Sniper's benchmark (Bichsel et al. 2021)",
        epsilon_true=math.inf,
        epsilon_worst=math.inf,
        score=lowest_bit,
    ),
    Subject(
        "snapping, last bits",
        mechanisms.snapping,
        _queries([0], [1]),
        _claim(),
        False,
        "The same draw, rounded to a grid that does not depend on the answer.",
        "Mironov (2012), in DP-Sniper's benchmark (Bichsel et al. 2021)",
        epsilon_true=0.1,
        at_most=True,
        epsilon_worst=0.1,
        score=lowest_bit,
    ),
)


def _training(case: training_bugs.Case, broken: bool) -> Subject:
    return Subject(
        f"{case.name}{'' if broken else ', mended'}",
        case.broken if broken else case.honest,
        case.pair,
        case.claim,
        broken,
        case.bug if broken else "The same training without the bug.",
        case.source,
        score=case.score,
        trials=case.trials,
    )


def _learner(broken: bool) -> Subject:
    return Subject(
        "gradient descent, sensitivity divided twice" if broken else "gradient descent",
        learners.broken if broken else learners.honest,
        learners.neighbours,
        learners.claim,
        broken,
        "The sensitivity is divided by n a second time, as if the mean had been clipped."
        if broken
        else "Noisy gradient descent of a linear model.",
        "Tramèr et al. (2022)",
        trials=400,
    )


TRAININGS = (
    _learner(False),
    _learner(True),
    *(_training(case, broken) for case in training_bugs.CASES.values() for broken in (False, True)),
)
SUBJECTS = (*DRAWS, *TRAININGS)
