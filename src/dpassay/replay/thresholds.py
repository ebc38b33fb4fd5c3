"""The price of noisy values that are only compared with a noisy threshold: the sparse vector.

Let T + rho be the threshold, rho with Laplace noise of scale a, and q_i + nu_i the values compared
with it, nu_i with Laplace noise of scale b_i. On D' the distance q_i - T moves by m_i. The
answers cost at most

    min over t of  |t| / a + sum over answers "below" of (m_i - t)+ / b_i
                           + sum over answers "above" of (t - m_i)+ / b_i.

Proof: given rho the answers are independent. Put rho + t for rho on D': the density of rho changes
by at most exp(|t| / a). The chance to be below becomes that of nu_i <= rho - (q_i - T) + (t - m_i):
it shrinks only if m_i > t, and then by at most exp((m_i - t) / b_i), since the logarithm of the
Laplace distribution function changes by at most 1 / b_i per unit. Likewise above. The other
direction has -m_i for m_i. With one answer "above", |m_i| <= 1, a = 2 / epsilon and
b = 4 / epsilon this is epsilon or less, for t = max m_i: the theorem of the sparse vector
(Dwork and Roth 2014, theorem 3.23); where all m_i have one sign, b = 2 / epsilon is enough (Lyu et
al. 2017). An upper bound along the answers that were seen, and along those that end in another
last answer.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpassay.replay.entries import Array, Comparison, Entry
from dpassay.replay.tape import Tape


@dataclass(frozen=True)
class Price:
    """What the comparisons with one threshold cost, and the primitives that this pays for."""

    epsilon: float
    entry: Entry
    entries: frozenset[int]


@dataclass(frozen=True)
class Answer:
    """One bit: whether the query is above the threshold, and how far the two moved apart."""

    above: bool
    move: float
    threshold: int
    threshold_scale: float
    query: int
    scale: float


def price_answers(now: Tape) -> list[Price]:
    """The price of every threshold of a replay; thresholds without a price are left out."""
    then = [] if now.of is None else now.of.comparisons
    if not then or len(then) != len(now.comparisons):
        return []
    pairs = list(zip(then, now.comparisons, strict=True))
    if any(_shape(a) != _shape(b) for a, b in pairs):
        return []
    shared = Counter(i for comparison in then for i in _ids(comparison))
    answers = [(new, a) for old, new in pairs for a in _answers(old, new, shared)]
    found: list[Price] = []
    for threshold in dict.fromkeys(answer.threshold for _, answer in answers):
        mine = [(new, answer) for new, answer in answers if answer.threshold == threshold]
        made = _price(mine, shared)
        found += [] if made is None else [made]
    return found


def _price(mine: Sequence[tuple[Comparison, Answer]], shared: Counter[int]) -> Price | None:
    sides = [side for new, _ in mine for side in (new.left, new.right)]
    entries = [side.entry for side in sides if side.entry is not None]
    if any(side.law != "laplace" for side in sides) or not entries:
        return None
    if any({*entry.uses} != {"noisy comparison"} for entry in entries):
        return None
    if any(shared[answer.query] != 1 for _, answer in mine):
        return None  # one noise for two answers
    cost = cost_of([answer for _, answer in mine])
    return Price(cost, entries[0], frozenset(entry.number for entry in entries))


def cost_of(answers: Sequence[Answer]) -> float:
    """The bound of the module for these answers, and for those with another last one."""
    last = answers[-1]
    other = [*answers[:-1], _turn(last)]
    return max(_cost(part, sign) for part in (answers, other) for sign in (1.0, -1.0))


def _turn(answer: Answer) -> Answer:
    return Answer(not answer.above, answer.move, answer.threshold, answer.threshold_scale,
                   answer.query, answer.scale)  # fmt: skip


def _cost(answers: Sequence[Answer], sign: float) -> float:
    """The minimum over t; a convex function with corners at 0 and at the movements."""
    moves = sign * np.array([answer.move for answer in answers])
    above = np.array([answer.above for answer in answers])
    scale = np.array([answer.scale for answer in answers])
    corners = np.unique(np.append(moves, 0.0))
    if not np.all(np.isfinite(corners)):
        return np.inf
    gaps = np.where(above, corners[:, None] - moves, moves - corners[:, None])
    costs = np.abs(corners) / answers[0].threshold_scale + (np.maximum(gaps, 0) / scale).sum(axis=1)
    return float(costs.min())


def _answers(old: Comparison, new: Comparison, shared: Counter[int]) -> list[Answer]:
    """The bits of one comparison; the threshold is the side whose noise is compared more often."""
    shape = _shape(new)

    def flat(values: Array) -> Array:
        return np.broadcast_to(values, shape).ravel()

    with np.errstate(invalid="ignore"):
        moves = flat(new.left.query - new.right.query) - flat(old.left.query - old.right.query)
    left, right = (flat(side.ids) for side in (new.left, new.right))
    scales = [flat(side.scale) for side in (new.left, new.right)]
    made = []
    for i, above in enumerate(flat(new.above).tolist()):
        ids, sizes = (int(left[i]), int(right[i])), (float(scales[0][i]), float(scales[1][i]))
        at = 0 if shared[ids[0]] > shared[ids[1]] else 1  # where the threshold is
        sign = 1.0 if at == 1 else -1.0
        made.append(Answer(bool(above) is (at == 1), sign * float(moves[i]), ids[at], sizes[at],
                            ids[1 - at], sizes[1 - at]))  # fmt: skip
    return made


def _shape(comparison: Comparison) -> tuple[int, ...]:
    return np.shape(comparison.above)


def _ids(comparison: Comparison) -> list[int]:
    shape = _shape(comparison)
    sides = comparison.left, comparison.right
    return [int(i) for side in sides for i in np.broadcast_to(side.ids, shape).ravel()]
