"""Bets that a true privacy claim cannot beat: assets, portfolios, their log-optimal weights.

**The assets.** A trial has a fair world w (1 with the canary, 0 without) and a score x. Write P and
Q for the laws of the score with and without, and S = {x >= tau} for a threshold fixed before the
trial. A claim delta(epsilon) says P(S) - s Q(S) <= d_s for every slope s > 0: d_s = delta(log s)
for s >= 1, and, from the other direction on the complement of S, d_s = 1 - s + s delta(-log s) for
s < 1. So

    E_{s,tau}(w, x) = 2 (1[w=1, x>=tau] + s 1[w=0, x<tau]) / (s + d_s)

is nonnegative and has mean (P(S) + s - s Q(S)) / (s + d_s) <= 1 under the claim. Its limits for
s = 0 and s = inf are 2 1[w=1, S] and 2 1[w=0, not S]: bets on the coin.

**Theorem A.** With stakes l_i >= 0 and any t, every bet
F = 1 + sum_i l_i (1[w=1, S_i] - s_i 1[w=0, S_i] - d_i/2) + t (1[w=1] - 1/2) that cannot go below 0
is a convex combination of assets. *Proof.* F(1, x) rises and F(0, x) falls in x, so F >= 0 is two
budgets, a = F(1, -inf) = 1 + t/2 - sum l_i d_i/2 >= 0 and b = F(0, inf) = 1 - t/2 -
sum l_i (s_i + d_i/2) >= 0. Now F = sum l_i (s_i + d_i)/2 E_i + a/2 (2 1[w=1]) + b/2 (2 1[w=0]), and
the weights sum to (2 - a - b)/2 + a/2 + b/2 = 1. So to bet is to choose a portfolio on a simplex.

**Theorem B.** If F was fixed before a pair of *independent* scores x ~ P, y ~ Q, then F(1,x) F(0,y)
has mean at most 1: with a = E F(1,x) and b = E F(0,y), the mean of F in a coin trial is
(a + b)/2 <= 1, and ab <= ((a + b)/2)². For scores that share a seed, (F(1,x) + F(0,y))/2 has mean
(a + b)/2 <= 1 whatever their dependence. The product grows faster but needs independence.

Scores enter through bins of a rank, fixed before the trial; thresholds lie between bins. In arrays
the world is an index (0 without, 1 with) and bins go from low to high scores.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, cast

import numpy as np

from dpassay._special.margins import ARITHMETIC, NUMERICAL, TINY
from dpassay.types import FloatArray, PrivacyCurve

N_BINS = 40
# Every bet keeps this share as cash: one unlucky trial costs at most log(100).
CASH = 0.01
# Slopes above 1, and as many below: one per unit of loss, within these limits.
PER_SIDE = (6, 10)
# The widest gap between slopes about a loss of 0, where a sampled mechanism has most of its losses.
_GAP = 0.5
_RAMP = np.geomspace(1e-9, 0.5, 400)
_FPR = np.unique(np.concatenate([[0], _RAMP, np.linspace(0, 1, 401), 1 - _RAMP, [1]]))
# The steepest slope is e to this power.
_FAR = 500.0


def _largest_loss(claim: PrivacyCurve) -> float:
    """A loss that the claim hardly ever allows to be exceeded: delta is at its floor or below 1e-4.

    Few values of delta are asked for, since some curves are slow. 0 if the claim excludes nothing.
    """
    with np.errstate(invalid="ignore"):
        # A curve that rounds its deltas upwards comes near its floor but not down to its bits.
        floor = float(claim.delta(np.inf)) * (1 + NUMERICAL)

    def small(loss: float) -> bool:
        return float(claim.delta(loss)) <= max(floor, 1e-4)

    high = 1.0
    while high > 1e-6 and small(high / 2):
        high /= 2
    while not small(high):
        high *= 2
        if high > _FAR:
            return 0.0
    for step in (2**0.5, 2**0.25, 2**0.125, 2**0.0625):
        high = high / step if small(high / step) else high
    if float(claim.delta(high)) > floor:
        return high
    # The curve bends where it meets its floor, and only there if the claim is (epsilon, delta)-DP.
    return min(float(claim.epsilon(floor)), high)


def _spread(top: float) -> FloatArray:
    """Losses evenly from 0 to the top that are even about 0 as well when taken with both signs.

    If that leaves a wide gap about 0, it is halved again and again, and 0 is taken as well.
    """
    per_side = int(np.clip(np.ceil(top), *PER_SIDE))
    even = top * np.linspace(-1, 1, 2 * per_side)[per_side:]
    halvings = int(np.ceil(np.log2(max(even[0] / _GAP, 1.0))))
    inner = even[0] * 0.5 ** np.arange(halvings, 0, -1)
    return np.concatenate([[0.0], inner, even]) if halvings else even


@dataclass(frozen=True, eq=False)
class Lines:
    """A claim as the lines TPR <= d + s FPR that every attack stays under, and what they pay.

    ``pays[w, j]`` is what asset j pays in world w on its side of the threshold. The last two assets
    are the bets on the coin.
    """

    slopes: FloatArray
    offsets: FloatArray
    pays: FloatArray

    @classmethod
    def of(cls, claim: PrivacyCurve) -> "Lines":
        """Lines of a claim, whose delta values are taken as upper bounds; any slopes are valid."""
        loss = _spread(_largest_loss(claim))
        delta = np.asarray(claim.delta(loss))
        s = np.concatenate([np.exp(-loss), np.exp(loss)])
        d = np.concatenate([_mirror(loss, delta), delta])
        # Lines that are nowhere the lowest exclude nothing that others do not: fewer assets, the
        # same claim, and portfolios that are cheaper to optimise.
        needed = np.unique(_heights(s, d).argmin(axis=0))
        return cls._price(s[needed], d[needed])

    @classmethod
    def _price(cls, s: FloatArray, d: FloatArray) -> "Lines":
        # Dividing by slightly more keeps rounding on the safe side.
        price = (s + d) * (1 + ARITHMETIC)
        pays = np.stack([np.append(2 * s / price, [0, 2]), np.append(2 / price, [2, 0])])
        return cls(s, d, pays)

    def roc(self) -> tuple[FloatArray, FloatArray]:
        """The largest true-positive rate that the lines allow at a grid of false-positive rates."""
        return _FPR, np.minimum(_heights(self.slopes, self.offsets).min(axis=0), 1.0)


def _mirror(loss: FloatArray, delta: FloatArray) -> FloatArray:
    """The offset of slope e^-loss, from delta(loss) in the other direction."""
    return -np.expm1(-loss) + np.exp(-loss) * delta


def dearer(pays: FloatArray, claim: PrivacyCurve) -> float:
    """By how much, in nats a trial, the assets of one claim lose if a weaker one prices them.

    ``pays[w, j]`` is what asset j pays in world w, as priced by some claim. A weaker claim allows
    a larger offset d_s at the same slope s, and the asset is valid against it if it pays
    proportionally to 1 / (s + d_s). Let r <= 1 be the smallest ratio of a new payoff to the old.
    Then every portfolio of these assets pays at least r times what it did (cash pays the same), and
    its wealth after t trials is at least r^t times as large: a bet against a claim is also a bet
    against all weaker ones, at the price -log(r) a trial. This returns an upper bound on the price.
    """
    both = (pays > 0).all(axis=0)  # The others are bets on the coin, or fill up: none has a price.
    without, with_canary = pays[:, both]
    s = without / with_canary
    loss = np.log(s)
    delta = cast(FloatArray, claim.delta(np.abs(loss)))
    d: FloatArray = np.where(loss >= 0, delta, _mirror(np.abs(loss), delta))
    new = 2 / ((s + d) * (1 + ARITHMETIC))
    ratio = np.minimum(new / with_canary, 1.0)
    return float(-np.log(ratio.min(initial=1.0))) + 2 * ARITHMETIC  # prices are rounded up


def _heights(slopes: FloatArray, offsets: FloatArray) -> FloatArray:
    """Lines [j] at the grid of false-positive rates."""
    return offsets[:, None] + slopes[:, None] * _FPR


def factors(weights: FloatArray, pays: FloatArray) -> FloatArray:
    """F[..., w, b], the portfolio's payoff in world w and bin b.

    ``weights[..., j, k]`` is the share of asset j whose threshold lies just below bin k.
    """
    invested = pays @ weights
    f = np.empty((*invested.shape[:-1], N_BINS))
    np.add.accumulate(invested[..., 0, :0:-1], axis=-1, out=f[..., 0, ::-1])
    np.add.accumulate(invested[..., 1, :-1], axis=-1, out=f[..., 1, :])
    return f


@dataclass(frozen=True)
class Form:
    """How scores make up a round, what it pays, and what is learned from it.

    Attributes:
        trials: trials per round.
        log_factors: the log factor of every outcome of a round, [..., o], of a bet F[..., w, b].
        evidence: what a portfolio learns from: outcome counts [..., o], rearranged.
        expect: the same in expectation, from the bin masses [..., w, b] of an attack.
        payoffs: the payoff of F for every entry of the evidence.
        per_bin: a sum over evidence, brought back to world and bin.

    """

    trials: int
    log_factors: Callable[[FloatArray], FloatArray]
    evidence: Callable[[FloatArray], FloatArray]
    expect: Callable[[FloatArray], FloatArray]
    payoffs: Callable[[FloatArray], FloatArray]
    per_bin: Callable[[FloatArray], FloatArray]


def _same(table: FloatArray) -> FloatArray:
    return table


def _flat(table: FloatArray) -> FloatArray:
    return table.reshape(*table.shape[:-2], -1)


def _square(outcomes: FloatArray) -> FloatArray:
    return outcomes.reshape(*outcomes.shape[:-1], N_BINS, N_BINS)


def _halves(table: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Payoffs by pair of bins: a row is the bin of the score with the canary, a column without."""
    return table[..., 1, :, None], table[..., 0, None, :]


def _marginals(square: FloatArray) -> FloatArray:
    """The mass of each world and bin: half of a round is with the canary, half without."""
    return np.stack([square.sum(axis=-2), square.sum(axis=-1)], axis=-2) / 2


def _coin_log(f: FloatArray) -> FloatArray:
    return _flat(np.log(f))


def _by_world(outcomes: FloatArray) -> FloatArray:
    return outcomes.reshape(*outcomes.shape[:-1], 2, N_BINS)


def _halves_seen(outcomes: FloatArray) -> FloatArray:
    return _marginals(_square(outcomes))


def _product_log(f: FloatArray) -> FloatArray:
    with_canary, without = _halves(np.log(f))
    return _flat(with_canary + without)


def _linear(f: FloatArray) -> FloatArray:
    with_canary, without = _halves(f)
    return (with_canary + without) / 2


def _linear_log(f: FloatArray) -> FloatArray:
    return _flat(np.log(_linear(f)))


def _independent(masses: FloatArray) -> FloatArray:
    with_canary, without = _halves(2 * masses)
    return with_canary * without


FormName = Literal["coin", "pairs", "shared-seed"]
# Positions are those of the fields of Form.
FORMS = {
    "coin": Form(1, _coin_log, _by_world, _same, _same, _same),
    "pairs": Form(2, _product_log, _halves_seen, _same, _same, _same),
    "shared-seed": Form(2, _linear_log, _square, _independent, _linear, _marginals),
}


def _returns(f: FloatArray, pays: FloatArray, evidence: FloatArray, form: Form) -> FloatArray:
    """The mean of E / F of every asset [..., j, k] under the evidence."""
    # Divide by TINY at the least: a bin that pays nothing was never seen, and 0 / 0 counts as 0.
    ratio = form.per_bin(evidence / np.maximum(form.payoffs(f), TINY))
    gain = np.zeros((*ratio.shape[:-1], N_BINS + 1))
    np.add.accumulate(ratio[..., 0, :], axis=-1, out=gain[..., 0, 1:])
    np.add.accumulate(ratio[..., 1, ::-1], axis=-1, out=gain[..., 1, -2::-1])
    return pays.swapaxes(-1, -2) @ gain


def growth(f: FloatArray, evidence: FloatArray, form: Form) -> FloatArray:
    """The mean log payoff of a bet F under the evidence, which sums to 1."""
    return (evidence * np.log(np.maximum(form.payoffs(f), TINY))).sum(axis=(-1, -2))


def improve(
    weights: FloatArray, pays: FloatArray, evidence: FloatArray, form: Form, steps: int
) -> FloatArray:
    """The weights after some steps of Cover's (1984) algorithm, w <- w mean(E / F).

    Growth under the evidence rises at every step, and the weights go on summing to 1.
    """
    for _ in range(steps):
        weights = weights * _returns(factors(weights, pays), pays, evidence, form)
    # Rounding moves the sum a little in every step, and a learner takes thousands of them. Weights
    # that summed to more than 1 would be a bet that is worth more than it costs.
    return weights / np.maximum(weights.sum(axis=(-1, -2), keepdims=True), 1.0)


def log_optimal(pays: FloatArray, evidence: FloatArray, form: Form, steps: int = 80) -> FloatArray:
    """Weights that come close to the largest growth under the evidence.

    Cover's step w <- w g, with g = mean(E / F), is slow at first. So w <- w g^power is tried, and
    kept where growth rises, with a larger power the next time; elsewhere the plain step is taken.

    **Only power depends on the result, never validity.** Weights that are at least 0 and sum to 1
    are a portfolio of assets, which no pair that meets the claim lets gain (Theorem A), as long as
    they were fixed before the trial. Here they depend on the claim and on the list of alternatives
    alone, and their sum rounds by a few units in the last place, far less than what the assets are
    overpriced by (``ARITHMETIC``).

    **The last bits are not stable, and need not be.** A bold step multiplies a rounding error in g
    by its power, up to 1e4. Growth is flat about its maximum, so that such steps are kept, and
    after 80 of them one last bit has become a few thousandths in the log factors of bins that are
    rarely seen. exp and log of processors with AVX-512 differ from others' in such bits. The bets
    then differ, their growth by less than 1e-4 nats a trial, and a bound on epsilon by some 1e-4.
    Both bounds are valid, each for a bettor whose bets were fixed in advance. (Who judged on two
    machines and kept the larger bound would have made a choice that nobody paid for.)
    """
    shape = (*evidence.shape[:-2], pays.shape[-1], N_BINS + 1)
    weights = np.full(shape, 1 / (shape[-2] * shape[-1]))
    f = factors(weights, pays)
    power, reached = np.ones(shape[:-2]), np.full(shape[:-2], -np.inf)
    for _ in range(steps):
        g = _returns(f, pays, evidence, form)
        bold = weights * (g / g.max(axis=(-1, -2), keepdims=True)) ** power[..., None, None]
        bold /= bold.sum(axis=(-1, -2), keepdims=True)
        rises = growth(factors(bold, pays), evidence, form) > reached
        weights = np.where(rises[..., None, None], bold, weights * g)
        f = factors(weights, pays)
        reached = growth(f, evidence, form)
        power = np.where(rises, np.minimum(8 * power, 1e4), np.maximum(power / 100, 1.0))
    return weights


def with_cash(f: FloatArray) -> FloatArray:
    """The bet with its share of cash: a payoff of at least CASH whatever happens."""
    return (1 - CASH) * f + CASH


def bin_masses(fpr: FloatArray, tpr: FloatArray) -> FloatArray:
    """The chance of [w, b], world and rank bin, of an attack with this ROC from (0, 0) to (1, 1).

    Ranks are balanced: uniform under half P and half Q, so every bin has 1 / N_BINS in all.
    """
    rates = [np.concatenate([[0.0], rate, [1.0]]) for rate in (fpr, tpr)]
    above = (rates[0] + rates[1]) / 2
    edges = np.linspace(1, 0, N_BINS + 1)
    return np.stack([-np.diff(np.interp(edges, above, rate)) for rate in rates]) / 2
