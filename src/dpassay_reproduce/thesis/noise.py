"""How much noise the chapter's two algorithms get for T = epsilon N steps, under replace-one.

By default the least that is proved to be (epsilon, 1e-6)-DP: Gumbel selections under zCDP for
Frank-Wolfe, and for SGD, whose step looks at one uniform record of N, a privacy-loss distribution
(to within 2 %). Literally: Laplace noise as in theorem 25's proof and Gaussian noise as in table
3.2, with log(1/delta) = epsilon³ N, so that both *grow* with epsilon:

    16 L0 C1 sqrt(2 T log(1/delta))/(N epsilon) = 16 sqrt(2) L0 C1 epsilon,
    L sqrt(8 log(1/delta))/epsilon = L sqrt(8 epsilon N).
"""

import functools
import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from dpassay.optim.frank_wolfe import calibrate_selection, score_sensitivity
from dpassay.optim.gradient import step_event
from dpassay.privacy import account
from dpassay.types import FloatArray
from dpassay_reproduce.thesis.frame import DELTA, Setting

SELECTION = {False: "gumbel", True: "laplace"}  # by Setting.literal
_RATIO = 1.02
# What the walk below finds for epsilons 0.05, 0.1, … 1 and N = 10 000, where a price takes seconds.
_TWENTIETHS = tuple((np.arange(1, 21) / 20).tolist())
_TENS = (
    (-15, -19, -21, -22, -23, -24, -24, -25, -26, -26),
    (-26, -27, -27, -28, -28, -28, -28, -29, -29, -29),
)
_POWERS = {(_TWENTIETHS, 10_000): sum(_TENS, ())}


def step_counts(epsilons: Iterable[float], n_records: int) -> NDArray[np.intp]:
    """T = epsilon N of the document, at least one step, for each epsilon."""
    return np.array([max(round(epsilon * n_records), 1) for epsilon in epsilons], np.intp)


def selection_scales(
    setting: Setting, epsilons: Iterable[float], n_records: int, *, lipschitz: float, radius: float
) -> FloatArray:
    """The scale of the noise on Frank-Wolfe's scores, for each epsilon; its kind is ``SELECTION``.

    Args:
        setting: whose delta, and whether literal.
        epsilons: of whole runs.
        n_records: N.
        lipschitz: L0, the largest entry of one record's gradient.
        radius: C1, of the l1 ball.

    """
    sensitivity = score_sensitivity(lipschitz, radius, n_records, "replace-one")

    def scale(epsilon: float, steps: int) -> float:
        if setting.literal:
            log = setting.log_inverse_delta(epsilon, n_records)
            return 8 * sensitivity * math.sqrt(2 * steps * log) / epsilon
        return calibrate_selection(
            "gumbel",
            sensitivity=sensitivity,
            steps=steps,
            epsilon=epsilon,
            delta=DELTA,
            neighbouring="replace-one",
        ).scale

    epsilons = list(epsilons)
    counts = step_counts(epsilons, n_records).tolist()
    return np.array([scale(e, T) for e, T in zip(epsilons, counts, strict=True)])


def gradient_deviations(
    setting: Setting, epsilons: Iterable[float], n_records: int, *, lipschitz: float
) -> FloatArray:
    """The deviation of the noise in every entry of a record's gradient, for each epsilon.

    Args:
        setting: whose delta, and whether literal.
        epsilons: of whole runs, ascending.
        n_records: N.
        lipschitz: L, the largest l2 norm of one record's gradient; replacing the record moves the
            gradient by twice that.

    """
    x = np.array(list(epsilons), float)
    if setting.literal:
        logs = np.array([setting.log_inverse_delta(e, n_records) for e in x.tolist()])
        return lipschitz * np.sqrt(8 * logs) / x
    return 2 * lipschitz * np.array(_noise_multipliers(tuple(x.tolist()), n_records))


def _noise_multipliers(epsilons: tuple[float, ...], n_records: int) -> list[float]:
    powers = _POWERS.get((epsilons, n_records)) or _walk(epsilons, n_records)
    return [_RATIO**power for power in powers]


@functools.cache
def _walk(epsilons: tuple[float, ...], n_records: int) -> tuple[int, ...]:
    """Powers of 1.02 that meet each epsilon while the next lower one does not.

    Neighbouring epsilons need nearly the same noise, so that the walk from one to the next is
    short.
    """
    found, power = [], 0
    for epsilon, steps in zip(epsilons, step_counts(epsilons, n_records).tolist(), strict=True):
        while not meets(_RATIO**power, epsilon, steps, n_records):
            power += 1
        while meets(_RATIO ** (power - 1), epsilon, steps, n_records):
            power -= 1
        found.append(power)
    return tuple(found)


@functools.cache
def meets(noise_multiplier: float, epsilon: float, steps: int, n_records: int) -> bool:
    """Whether the steps are (epsilon, 1e-6)-DP.

    On a coarse grid, which errs upwards: by a few per cent of epsilon, a few thousandths of the
    noise.
    """
    event = step_event("l2", noise_multiplier, 1 / n_records, steps, "replace-one")
    interval = min(max(epsilon / 25, 1e-3), 3e-3)
    return account(event, "pld", interval=interval).epsilon(DELTA) <= epsilon
