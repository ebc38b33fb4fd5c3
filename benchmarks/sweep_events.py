"""Random events over forty orders of magnitude, every method against the truth in mpmath.

Prints every number that fell on the wrong side: a delta below the truth, an epsilon whose true
delta is above what was asked for, a divergence below the truth, an exception that is not a named
one. ``python -m benchmarks.sweep_events --events 2000 --seed 1 --methods rdp zcdp``.

Sampled Gaussians that are composed have no closed form. Theirs is a lower bound on the truth: an
attacker who looks at how many steps have a loss above some level sees two binomials, whose profile
is summed exactly, and one who looks at finer cells what ``Fourier.delta_lower`` says. "gdp-clt" is
an estimate and has no side; it must answer or refuse by name.
"""

import argparse
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import mpmath as mp
import numpy as np

from dpassay._special.margins import REQUEST
from dpassay.errors import DpassayError
from dpassay.privacy import account, renyi, sampled_gaussian
from dpassay.privacy import events as ev
from dpassay.privacy.accounting import ESTIMATES, PROOFS
from dpassay.privacy.combined import Best, Numeric

DIGITS = 90  # differences of numbers near 1 lose forty of them
OWN_ROUNDING = 1e-40  # relative, of the truths themselves; two floats differ by 1e-16 at least
Curve = Callable[[Any], Any]  # x >= 0 to the true delta, in mpmath


@dataclass(frozen=True)
class Case:
    """An event, its true curve, and the size of its usual losses."""

    event: ev.Event
    truth: Curve
    scale: float


def gaussian_truth(mu: Any) -> Curve:
    """Phi(mu/2 - x/mu) - e^x Phi(-mu/2 - x/mu)."""

    def delta(x: Any) -> Any:
        return mp.ncdf(mu / 2 - x / mu) - mp.e**x * mp.ncdf(-mu / 2 - x / mu)

    return delta


def laplace_truth(epsilon: Any) -> Curve:
    """1 - e^{(x - epsilon)/2}, up to epsilon."""
    return lambda x: -mp.expm1((x - epsilon) / 2) if x < epsilon else mp.mpf(0)


def composed_pure_truth(epsilon: Any, count: int, delta: Any = 0) -> Curve:
    """The worst of ``count`` (epsilon, delta)-DP mechanisms (Kairouz, Oh and Viswanath 2015)."""

    def tail(x: Any) -> Any:
        p, q = 1 / (1 + mp.e**-epsilon), 1 / (1 + mp.e**epsilon)  # 1 - p would cancel
        first = max(int(mp.floor((x / epsilon + count) / 2)) - 1, 0) if epsilon else count + 1
        while first <= count and (2 * first - count) * epsilon <= x:
            first += 1
        if first > count:
            return mp.mpf(0)
        # The sum starts at its largest term or falls from the first one on; by ratios from there.
        log_start = mp.loggamma(count + 1) - mp.loggamma(first + 1) - mp.loggamma(count - first + 1)
        weight = mp.e ** (log_start + first * mp.log(p) + (count - first) * mp.log(q))
        total, odds = mp.mpf(0), mp.e**epsilon
        for j in range(first, count + 1):
            total -= weight * mp.expm1(x - (2 * j - count) * epsilon)
            weight *= odds * (count - j) / (j + 1)
            if weight < total * mp.mpf(10) ** -60 and j > count * p:
                break
        return total

    return lambda x: 1 - (1 - delta) ** count * (1 - tail(x))


def bounded_range_truth(epsilon: Any) -> Curve:
    """(√E - √s)² / (E - 1)."""

    def delta(x: Any) -> Any:
        return mp.expm1((x - epsilon) / 2) ** 2 / -mp.expm1(-epsilon) if x < epsilon else mp.mpf(0)

    return delta


def response_truth(p: Any, k: int) -> Curve:
    """The true answer's probability less e^x that of another."""
    return lambda x: max(1 - p + p / k - mp.e**x * p / k, mp.mpf(0))


def sampled_truth(inner: Curve, q: Any) -> Curve:
    """The larger of the two directions of the mixture."""

    def delta(x: Any) -> Any:
        remove = q * inner(mp.log1p(mp.expm1(x) / q))
        c = 1 - mp.e**x * (1 - q)
        add = c * inner(x + mp.log(q / c)) if c > 0 else mp.mpf(0)
        return max(remove, add)

    return delta


def collapsed_truth(noise: Any, q: Any, count: int) -> Curve:
    """A lower bound: the profile of the number of steps whose output is above one half."""

    def of(p: Any, other: Any, x: Any) -> Any:
        # Binomials at p > other; from the first number on whose likelihood ratio exceeds e^x.
        step = mp.log(p / other) + mp.log((1 - other) / (1 - p))
        start = (x + count * mp.log((1 - other) / (1 - p))) / step
        first = max(int(mp.ceil(start)), 0)
        if first > count:
            return mp.mpf(0)
        log_ways = mp.loggamma(count + 1) - mp.loggamma(first + 1) - mp.loggamma(count - first + 1)
        masses = [
            mp.e ** (log_ways + first * mp.log(r) + (count - first) * mp.log(1 - r))
            for r in (p, other)
        ]
        total = mp.mpf(0)
        for j in range(first, count + 1):
            gain = masses[0] - mp.e**x * masses[1]
            total += max(gain, mp.mpf(0))
            if gain < total * mp.mpf(10) ** -45 and j > count * p:
                break  # what is left out only lowers a lower bound
            masses = [
                mass * (r / (1 - r)) * (count - j) / (j + 1)
                for mass, r in zip(masses, (p, other), strict=True)
            ]
        return total

    without = mp.ncdf(-1 / (2 * noise))
    with_record = without + q * (mp.ncdf(1 / (2 * noise)) - without)
    # The profile of adding a record is that of removing it with the worlds exchanged.
    return lambda x: max(of(with_record, without, x), of(1 - without, 1 - with_record, x))


def _composed(rng: np.random.Generator) -> Case:
    """Many sampled Gaussian steps, the events of DP-SGD: for the Fourier accountant and the PLD."""
    q, noise = min(_between(rng, -6, 0), 0.9), _between(rng, -0.7, 2)
    count = int(10 ** rng.uniform(2, 4))
    event = ev.Repeated(ev.Sampled(ev.Gaussian(noise), q), count)
    two_cells = collapsed_truth(mp.mpf(noise), mp.mpf(q), count)
    many_cells = account(event, "fourier").delta_lower

    def truth(x: Any) -> Any:
        return max(two_cells(x), mp.mpf(many_cells(float(x))))

    return Case(event, truth, q * min(1 / noise, 5.0) * count**0.5)


def _between(rng: np.random.Generator, low: float, high: float) -> float:
    return float(10 ** rng.uniform(low, high))


def _simple(rng: np.random.Generator) -> Case:
    """An event that is not sampled; its truth is a closed form."""
    kind = rng.choice(["pure", "gaussian", "laplace", "approx", "range", "response", "zcdp"])
    size = _between(rng, -20, 2.5)
    if kind == "pure":
        often = [1, 1, 1, 2, 2, 3, 10, 10, 30, 100, 100, 1000] * 4 + [10**4, 10**6]
        count = int(rng.choice(often))
        size = min(size, 700 / count)
        event = ev.Repeated(ev.Pure(size), count)
        return Case(event, composed_pure_truth(mp.mpf(size), count), size * count**0.5)
    if kind == "gaussian":
        count = int(10 ** rng.uniform(0, 6))
        mu = mp.sqrt(count) / mp.mpf(1 / size)
        return Case(ev.Repeated(ev.Gaussian(1 / size), count), gaussian_truth(mu), float(mu))
    if kind == "laplace":
        return Case(ev.Laplace(1 / size), laplace_truth(1 / mp.mpf(1 / size)), size)
    if kind == "approx":
        count, d = int(rng.choice([1, 2, 10])), _between(rng, -20, -1)
        truth = composed_pure_truth(mp.mpf(size), count, mp.mpf(d))
        return Case(ev.Repeated(ev.Approx(size, d), count), truth, size)
    if kind == "range":
        return Case(ev.BoundedRange(size), bounded_range_truth(mp.mpf(size)), size)
    if kind == "response":
        p, k = 1 - min(_between(rng, -12, 0), 0.999), int(rng.integers(2, 9))
        event = ev.RandomizedResponse(p, k)
        return Case(event, response_truth(mp.mpf(p), k), float(mp.log(1 + k * (1 - mp.mpf(p)) / p)))
    rho = size**2
    return Case(ev.ZeroConcentrated(rho), gaussian_truth(mp.sqrt(2 * mp.mpf(rho))), size)


def _sampled(rng: np.random.Generator) -> Case:
    q, size = min(_between(rng, -20, 0), 0.999), _between(rng, -10, 2)
    swor = bool(rng.random() < 0.3)
    relation, scheme = ("replace-one", "without-replacement") if swor else ("add-remove", "poisson")
    kind = rng.choice(["gaussian", "gaussian", "laplace", "pure", "approx"])
    made: dict[str, tuple[ev.Event, Curve]] = {
        "gaussian": (ev.Gaussian(1 / size, relation), gaussian_truth(1 / mp.mpf(1 / size))),
        "laplace": (ev.Laplace(1 / size, relation), laplace_truth(1 / mp.mpf(1 / size))),
        "pure": (ev.Pure(size, relation), composed_pure_truth(mp.mpf(size), 1)),
        "approx": (
            ev.Approx(size, 1e-7, relation),
            composed_pure_truth(mp.mpf(size), 1, mp.mpf(1e-7)),
        ),
    }
    event, inner = made[str(kind)]
    largest = float(mp.log1p(mp.mpf(q) * mp.expm1(size)))
    return Case(ev.Sampled(event, q, scheme), sampled_truth(inner, mp.mpf(q)), largest)


def draw(rng: np.random.Generator) -> Case:
    """A random event with its truth."""
    kind = rng.random()
    return _sampled(rng) if kind < 0.4 else _composed(rng) if kind < 0.45 else _simple(rng)


def priced(event: ev.Event, methods: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    """The curves of the methods that have a price, and what was raised that is not a named error.

    The curves that "best" compared are taken from it: what they have computed is computed once.
    """
    curves: dict[str, Any] = {}
    faults: list[str] = []
    for method in sorted(methods, key=lambda method: method != "best"):
        if method in curves:
            continue
        try:
            curves[method] = account(event, method)
        except DpassayError:
            continue
        except Exception as error:
            faults.append(f"{method}: {event!r} raises {type(error).__name__}: {error}")
            continue
        if isinstance(curves[method], Best):
            parts = {part.method: part for part in curves[method].curves}
            curves |= {method: part for method, part in parts.items() if method in methods}
    return curves, faults


def wrong_sides(case: Case, methods: Sequence[str], rng: np.random.Generator) -> list[str]:
    """What the methods say of the event that is not an upper bound; nothing, one hopes."""
    mp.mp.dps = DIGITS
    xs = [0.0, case.scale * float(rng.uniform(0, 1)), case.scale * _between(rng, -3, 1)]
    truths = {x: case.truth(mp.mpf(x)) for x in xs}
    deltas = [d for d in (_between(rng, -12, -0.1), float(truths[xs[1]])) if 0 < d < 1]
    curves, faults = priced(case.event, methods)
    for method, curve in curves.items():
        if curve.kind == "estimate":  # it has no side, but it must have an answer
            curve.delta(case.scale), curve.epsilon(1e-6)
            continue
        faults += _small_deltas(case, method, curve, {} if _slow(case, curve, rng) else truths)
        faults += _small_epsilons(case, method, curve, deltas)
    return faults


def _slow(case: Case, curve: Any, rng: np.random.Generator) -> bool:
    """The theorems state epsilon; their delta is a search: for one event in twenty.

    And for none of those whose epsilon is a search itself, which would take minutes.
    """
    searched = isinstance(curve, Numeric) and curve.is_searched
    nested = isinstance(case.event, ev.Repeated) and isinstance(case.event.event, ev.Sampled)
    return searched and (nested or bool(rng.random() < 0.95))


def _small_deltas(case: Case, method: str, curve: Any, truths: dict[float, Any]) -> list[str]:
    said = {x: curve.delta(x) for x in truths}
    return [
        f"{method}: delta({x!r}) of {case.event!r} is {said[x]!r}, short by "
        + mp.nstr(1 - mp.mpf(said[x]) / truth, 3)
        for x, truth in truths.items()
        if mp.mpf(said[x]) < truth * (1 - mp.mpf(OWN_ROUNDING))
    ]


def _small_epsilons(case: Case, method: str, curve: Any, deltas: list[float]) -> list[str]:
    said = {d: curve.epsilon(d) for d in deltas}
    return [
        f"{method}: epsilon({d!r}) of {case.event!r} is {epsilon!r}"
        for d, epsilon in said.items()
        if epsilon < np.inf and case.truth(mp.mpf(epsilon)) > mp.mpf(d) * (1 + mp.mpf(REQUEST))
    ]


def wrong_divergences(rng: np.random.Generator) -> list[str]:
    """Divergences of one random event at random orders that are below the truth."""
    mp.mp.dps = DIGITS
    a = float(rng.choice([1 + _between(rng, -3, 1), int(_between(rng, 0.31, 2.4))]))
    e, q, s = _between(rng, -20, 2), min(_between(rng, -20, 0), 0.999), _between(rng, -1, 10)
    k, order = int(rng.integers(2, 9)), np.array([a])
    m, r, o = mp.mpf(a), mp.e ** mp.mpf(e), 1 / (mp.e ** mp.mpf(e) + k - 1)
    response = o * (r**m + r ** (1 - m) + k - 2)
    laplace = (m * r ** (m - 1) + (m - 1) * r**-m) / (2 * m - 1)
    pairs = [
        ("response", renyi.of_randomized_response(e, k, order)[0], response),
        ("laplace", renyi.of_laplace(e, order)[0], laplace),
    ]
    if a == int(a):
        n, rate, noise = int(a), mp.mpf(q), mp.mpf(s)
        moment = sum(
            mp.binomial(n, j)
            * rate**j
            * (1 - rate) ** (n - j)
            * mp.e ** (mp.mpf(j * (j - 1)) / (2 * noise**2))
            for j in range(n + 1)
        )
        pairs.append(("sampled", sampled_gaussian.divergences(s, q, order)[0], moment))
    return [
        f"{name}: divergence of order {a!r} at epsilon={e!r}, k={k}, q={q!r}, s={s!r} is {said!r}"
        for name, said, moment in pairs
        if mp.mpf(float(said)) < mp.log(moment) / (m - 1)
    ]


def main(
    quick: bool = False,
    n_events: int = 500,
    seed: int = 0,
    methods: tuple[str, ...] = (),
    minutes: float = np.inf,
) -> None:
    """Sweep and print what fell on the wrong side; stop after so many CPU minutes."""
    rng = np.random.default_rng(seed)
    methods = methods or ("best", *PROOFS, *ESTIMATES)
    n_events = 40 if quick else n_events
    seen, wrong, start = Counter(), 0, time.process_time()
    for done in range(n_events):
        if time.process_time() - start > 60 * minutes:
            n_events = done
            break
        case = draw(rng)
        inner = getattr(case.event, "event", case.event)
        seen[f"{type(case.event).__name__}({type(inner).__name__})"] += 1
        faults = wrong_sides(case, methods, rng) + wrong_divergences(rng)
        wrong += len(faults)
        for fault in faults:
            print(fault, flush=True)
    print(", ".join(f"{name} {n}" for name, n in sorted(seen.items())))
    print(
        f"{n_events} events, methods {' '.join(methods)}: {wrong} numbers on the wrong side "
        f"({time.process_time() - start:.0f} CPU s)"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--methods", nargs="*", default=[])
    parser.add_argument("--minutes", type=float, default=np.inf)
    chosen = parser.parse_args()
    main(False, chosen.events, chosen.seed, tuple(chosen.methods), chosen.minutes)
