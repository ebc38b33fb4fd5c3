"""Evidence from replays: the likelihood ratio of the noisy values as bets against a whole curve.

Let L = log P/Q of the transcript of an execution on P. Then E_P[(1 - e^(eps - L))_+] is the delta
of P against Q at eps, by definition. So under a claim with curve delta(.), the variable
X = (1 - e^(eps - L))_+ lies in [0, 1] and has mean at most delta(eps), and

    product over trials of 1 + lambda (X / delta(eps) - 1),    0 <= lambda <= 1,

is a nonnegative supermartingale of mean at most 1. So is an average of such products over points
eps of the curve and stakes lambda; that it ever reaches 1 / alpha has probability at most alpha
(Ville). The pair was searched before; the trials that count have fresh seeds.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpassay import _check
from dpassay.auditing import checking_unused as unused
from dpassay.auditing.checking_published import Publication, examine
from dpassay.auditing.claims import Claim, as_claim
from dpassay.auditing.referee import claimed_delta
from dpassay.errors import AuditStopped
from dpassay.replay import neighbours as nearby
from dpassay.replay.datasets import form_of
from dpassay.replay.likelihood import NoLikelihood, Sides, log_ratio, sides_of
from dpassay.replay.neighbours import Neighbour
from dpassay.replay.outputs import first_difference
from dpassay.replay.playing import Played, Player, Relocated
from dpassay.replay.primitives import Primitive
from dpassay.types import Evidence, Fall, FloatArray, LowerBound, PrivacyCurve, Verdict

STAKES = np.array([0.1, 0.25, 0.5, 0.75, 0.9])
POINTS = 16
ASSUMPTION = (
    "noise as stated, all noisy values seen, those of every step of a training among them, the "
    "coins of other records known (as the proof of a composition has it)"
)
_SEED = 1_000_003  # trials that count have other seeds than those of a search


class Bets:
    """The wealth of bets on log ratios against one claim."""

    def __init__(self, claim: PrivacyCurve) -> None:
        self.epsilons, self.deltas = points_of(claim)
        self._logs = np.zeros((len(self.epsilons), len(STAKES)))

    def bet(self, ratio: float) -> float:
        """The log of the wealth after one more trial."""
        with np.errstate(over="ignore"):
            seen = np.maximum(-np.expm1(np.minimum(self.epsilons - ratio, 0.0)), 0.0)
        factors = 1 + STAKES * (seen / self.deltas - 1)[:, None]
        self._logs += np.log(factors)
        return self.log_wealth

    @property
    def log_wealth(self) -> float:
        """The logarithm of what all bets hold together; together they began with 1."""
        return float(np.logaddexp.reduce(self._logs, axis=None)) - math.log(self._logs.size)

    @property
    def best(self) -> int:
        """The point of the curve that gained most."""
        return int(np.argmax(self._logs.max(axis=1)))


def points_of(claim: PrivacyCurve) -> tuple[FloatArray, FloatArray]:
    """Points (epsilon, delta) of a claimed curve to bet at; delta is positive at all of them."""
    top = float(claim.delta(0.0))
    last = float(claim.epsilon(max(1e-4 * top, 1e-12)))
    epsilons = np.linspace(0.0, last if math.isfinite(last) else 1.0, POINTS)
    deltas = np.array([float(claim.delta(float(epsilon))) for epsilon in epsilons])
    # Where the curve is zero the smallest number above a claimed epsilon would be certainty.
    kept = deltas > 1e-12
    if not kept.any():
        return np.zeros(1), np.array([max(top, 1e-12)])
    return epsilons[kept], deltas[kept]


def epsilon_lower(ratios: Sequence[float], delta: float, alpha: float) -> float:
    """A lower bound on epsilon at delta, from log ratios in the order they came in.

    With X of eps as in the module, "delta(eps) <= delta" is rejected where the wealth against it
    ever reached 1 / alpha. X falls as eps grows, and so does the wealth; hence all true ones are
    rejected with probability at most alpha together, and the largest rejected eps is a bound.
    """
    if not len(ratios):
        return 0.0
    found = np.asarray(ratios, dtype=np.float64)
    limit = max(delta, 1e-12)

    def rejects(epsilon: float) -> bool:
        seen = np.maximum(-np.expm1(np.minimum(epsilon - found, 0.0)), 0.0)
        logs = np.cumsum(np.log1p(STAKES[:, None] * (seen / limit - 1)), axis=1)
        wealth = np.logaddexp.reduce(logs, axis=0) - math.log(len(STAKES))
        return bool(wealth.max() >= -math.log(alpha))

    low, high = 0.0, float(np.max(found, initial=0.0, where=np.isfinite(found)))
    if high <= 0 or not rejects(low):
        return 0.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if rejects(middle) else (low, middle)
    return low


@dataclass(frozen=True)
class Collected:
    """Log ratios of trials, in the order they came in, with the wealth that they made."""

    ratios: tuple[float, ...]
    log_wealth: tuple[float, ...]
    fell_at: Fall | None
    executions: int


def collect(
    player: Player,
    sides: Sides,
    claim: PrivacyCurve,
    trials: int,
    alpha: float,
    seed: int,
    publication: Publication | None = None,
) -> Collected:
    """Play until the claim falls or the trials are spent; raises NoLikelihood.

    Every trial must publish its noisy values as ``publication`` has it.
    """
    bets = Bets(claim)
    refuse = None if publication is None else publication.compare
    ratios: list[float] = []
    wealth: list[float] = []
    for trial in range(trials):
        try:
            ratios.append(log_ratio(player, sides, _SEED * (seed + 1) + trial, refuse))
        except Relocated:
            raise NoLikelihood("draws are used in several ways, from trial to trial") from None
        wealth.append(bets.bet(ratios[-1]))
        if wealth[-1] >= -math.log(alpha):
            break
    fell = None
    if wealth and max(wealth) >= -math.log(alpha):
        epsilon, allowed = float(bets.epsilons[bets.best]), float(bets.deltas[bets.best])
        seen = np.maximum(-np.expm1(np.minimum(epsilon - np.array(ratios), 0.0)), 0.0)
        fell = Fall(epsilon, float(seen.mean()), allowed, "estimate")
    return Collected(tuple(ratios), tuple(wealth), fell, player.executions)


def audit_by_replay(
    mechanism: Callable[..., Any],
    pair: tuple[Any, Any],
    *,
    claim: Claim,
    trials: int = 100,
    confidence: float = 0.95,
    delta: float | None = None,
    rng: int = 0,
    replay: str = "",
    primitives: Sequence[Primitive] = (),
    progress: Callable[[int], None] | None = None,
) -> Verdict:
    """Whether a mechanism breaks its claim on a pair, from replayed likelihood ratios.

    A trial is two executions, or three where batches are drawn by Poisson coins. It refutes only
    under the assumption that is printed, which is what composition theorems assume too.

    Args:
        mechanism: ``mechanism(data, rng)`` or ``mechanism(data)``.
        pair: the two data sets, which differ by one record.
        claim: what the mechanism is said to have.
        trials: the most that are played.
        confidence: the probability that verdict and bound are both right, at least.
        delta: where the lower bound is stated; the claim's own by default.
        rng: the seed.
        replay: a line to print that runs the same audit again.
        primitives: functions of yours that add noise, as for :func:`dpassay.check`.
        progress: called with the number of every execution before it is played.

    Raises:
        AuditStopped: the likelihood ratio is not known, with the reason. For batches that are not
            drawn by independent coins the word of a check is "broken", never "refuted".

    """
    curve = as_claim(claim)
    alpha = 1 - _check.confidence(confidence)
    _check.count("trials", trials)
    form, other = form_of(pair[0]), form_of(pair[1]).arrays
    neighbour = next(iter(nearby.align_given(form.arrays, [other])))
    player = Player(mechanism, rng, form.rebuild, primitives=tuple(primitives), progress=progress)
    try:
        sides = sides_of(form.arrays, _as_replaced(neighbour, curve.neighbouring))
        player, publication = _rehearse(player, sides)
        found = collect(player, sides, curve, trials, alpha / 2, rng, publication)
    except NoLikelihood as why:
        raise AuditStopped(
            f"evidence='replay' cannot be used: {why}. Leave it out to audit by trials."
        ) from None
    return _verdict(found, curve, claimed_delta(curve, delta), confidence, rng, replay)


def _rehearse(player: Player, sides: Sides) -> tuple[Player, Publication]:
    """A player that knows how its draws are used, and how its noisy values are published."""
    while True:
        try:
            log_ratio(player, sides, player.seed)
            first = player.record(sides.data, sides.n)
            _refuse_what_is_hidden(player, first)
            return player, examine(player, first)
        except Relocated as more:
            player = replace(player, located=player.located | more.places,
                             public_lines=player.public_lines | more.thresholds)  # fmt: skip


def _refuse_what_is_hidden(player: Player, first: Played) -> None:
    """Refuse what the ratio of the noisy values seen says nothing about."""
    again = player.replay_itself(first, player.seed + 2)
    differs = first_difference(first.output, again.output) is not None
    if again.error is not None or differs or not unused.asks_the_same(again.tape):
        raise NoLikelihood("something random is drawn where it is not followed")
    if unused.places(player, first):
        raise NoLikelihood("some noisy values are never released")


def _as_replaced(neighbour: Neighbour, relation: str) -> Neighbour:
    if neighbour.edit.kind == "given" and neighbour.edit.n > 0 and relation == "replace-one":
        return replace(neighbour, edit=replace(neighbour.edit, kind="replace"))
    return neighbour


def _verdict(
    found: Collected, claim: PrivacyCurve, delta: float, confidence: float, seed: int, replay: str
) -> Verdict:
    alpha = (1 - confidence) / 2  # one half for the verdict, one for the bound
    bound = LowerBound(
        epsilon_lower(found.ratios, delta, alpha),
        delta,
        confidence,
        "replayed likelihood",
        assumption=ASSUMPTION,
        details={"executions": float(found.executions)},
    )
    ratios = np.array(found.ratios)
    refuted = found.fell_at is not None or bound.epsilon > float(claim.epsilon(delta))
    return Verdict(
        claim=claim,
        bound=bound,
        refuted=refuted,
        confidence=confidence,
        trials=len(ratios),
        ended="refuted" if refuted else "budget spent",
        evidence=Evidence(np.ones(len(ratios), dtype=int), ratios, seed=seed),
        attack="the replayed likelihood ratio",
        replay=replay,
        n_executions=found.executions,
        log_wealth=np.array(found.log_wealth),
        wealth_needed=-math.log(alpha),
        fell_at=found.fell_at,
        neighbours="checked",
        next_step=_next_step(refuted),
    )


def _next_step(refuted: bool) -> str:
    if refuted:
        return "Repair the line that `dpassay check` names, and check again."
    return "More trials, another pair, or trials of the output, which assume nothing."
