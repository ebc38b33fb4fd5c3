"""The worst case over *all* private algorithms, by linear programming: no bound may beat it.

An algorithm is a table P(output | coins); privacy is linear in it, and so is the chance that an
audit errs. For small audits the largest such chance is therefore found exactly, with no theorem in
between, and compared with what the audit promises.
"""

import math
from dataclasses import dataclass

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import linprog

from dpassay.bounds import lower_bound, one_run
from dpassay.bounds.betting import N_BINS, Lines, factors, with_cash
from dpassay.bounds.onerun import fdp
from dpassay.bounds.onerun.pvalues import Exact, Steinke
from dpassay.bounds.sequential import _book
from dpassay.bounds.watch import Ranked, Watch
from dpassay.privacy import GDP, ApproxDP
from dpassay_reproduce.printed.one_run import naive_one_run

SOLVER = 1e-7  # what the linear programmes err by, at most


def patterns(m):
    """All vectors of m bits; entry i of row s is bit i of s."""
    return (np.arange(2**m)[:, None] >> np.arange(m)) % 2 == 1


class Programme:
    """max value @ x, x >= 0, with sums of positive parts of differences limited."""

    def __init__(self, n):
        self.size, self.rows, self.limits = n, [], []

    def add(self, columns, values, limit):
        self.rows.append((np.asarray(columns).ravel(), np.asarray(values, float).ravel()))
        self.limits.append(limit)

    def positive_parts(self, more, less, growth, weight):
        """New variables, at least weight * (x[more] - e^growth * x[less]) each."""
        new = self.size + np.arange(more.size)
        self.size += more.size
        for a, b, c, w, v in zip(more, less, new, weight[0], weight[1], strict=True):
            self.add([a, b, c], [w, -math.exp(growth) * v, -1], 0.0)
        return new

    def solve(self, value, classes):
        columns = np.concatenate([c for c, _ in self.rows])
        values = np.concatenate([v for _, v in self.rows])
        rows = np.repeat(np.arange(len(self.rows)), [c.size for c, _ in self.rows])
        upper = sparse.csr_matrix((values, (rows, columns)), (len(self.rows), self.size))
        n = value.size
        equal = sparse.csr_matrix(
            (np.ones(n), (classes, np.arange(n))), (classes.max() + 1, self.size)
        )
        cost = np.pad(-value, (0, self.size - n))
        found = linprog(cost, upper, self.limits, equal, np.ones(equal.shape[0]), method="highs")
        assert found.status == 0, found.message
        return -found.fun


def worst_of_rankings(rejects, parts, lines):
    """max P(rejects) over algorithms that output a ranking of each part of the canaries.

    ``rejects[s]``: whether the audit errs when bit i of s is the coin of the canary ranked i-th.
    ``lines``: pairs (epsilon, delta) that all hold. Relabelling canaries within a part changes
    nothing, so that P(ranking | coins) = x(coins read along the ranking) without loss, and there
    are 2^m unknowns. y(s) = x(s) * (ways to read s) sums to 1 over all s with as many members.
    """
    m = sum(parts)
    coins, part = patterns(m), np.repeat(np.arange(len(parts)), parts)
    members = np.stack([coins[:, part == b].sum(axis=1) for b in range(len(parts))], axis=1)
    _, kind = np.unique(members, axis=0, return_inverse=True)
    kind = kind.ravel()
    ways = np.prod(
        [[math.factorial(k) * math.factorial(n - k) for k, n in zip(row, parts, strict=True)]
         for row in members.tolist()], axis=1, dtype=float)  # fmt: skip
    programme = Programme(2**m)
    for epsilon, delta in lines:
        sums = {}
        for i in range(m):
            on = np.flatnonzero(coins[:, i])
            off, reads = on - 2**i, ways[on] / members[on, part[i]]
            for way, (more, less) in enumerate(((on, off), (off, on))):
                weight = reads / ways[more], reads / ways[less]
                new = programme.positive_parts(more, less, epsilon, weight)
                for k in np.unique(kind[on]):
                    sums.setdefault((way, part[i], k), []).append(new[kind[on] == k])
        for columns in sums.values():
            together = np.concatenate(columns)
            programme.add(together, np.ones(together.size), delta)
    orders = math.prod(math.factorial(n) for n in parts)
    return programme.solve(rejects * orders / ways / 2.0**m, kind)


def worst_of_guesses(rejects, m, lines):
    """max P(rejects) when the output is an order of certainty with a free guess for each canary.

    ``rejects[e]``: whether the audit errs when bit i of e says that the i-th guess is right. The
    algorithm's labels and the two sides of each coin may be exchanged, so x(e) is all there is.
    """
    programme, every = Programme(2**m), np.arange(2**m)
    for epsilon, delta in lines:
        ones = np.ones(2**m), np.ones(2**m)
        new = [programme.positive_parts(every, every ^ 2**i, epsilon, ones) for i in range(m)]
        programme.add(np.concatenate(new), np.ones(m * 2**m), m * delta)
    return programme.solve(rejects * 1.0, np.zeros(2**m, int))


def bounds_of(m, **audit):
    """The bound that one_run reports for every vector of coins along the ranking."""
    return np.array([one_run(-np.arange(m), s, **audit).epsilon for s in patterns(m)])


def largest_error(bounds, delta, worst):
    """max over b of the chance that b or more is reported for an algorithm with epsilon = b."""
    values = np.unique(np.round(bounds[bounds > 0], 9))
    return max((worst(bounds >= b - 1e-8, [(b, delta)]) for b in values), default=0.0)


def test_the_programmes_know_randomized_response():
    """Pure DP: guesses are right with probability q each, and that is the worst."""
    q = 1 / (1 + math.exp(-1.0))
    right = patterns(3).sum(axis=1)
    assert worst_of_guesses(right >= 3, 3, [(1.0, 0.0)]) == pytest.approx(q**3)
    alone = np.array([False, True])  # a ranking of one canary says nothing
    assert worst_of_rankings(alone, [1], [(1.0, 0.2)]) == pytest.approx(1 / 2)


@pytest.mark.parametrize(("m", "r"), [(3, 1), (4, 3), (5, 5)])
@pytest.mark.parametrize(("epsilon", "delta"), [(0.0, 0.02), (0.8, 0.1)])
def test_exact_p_value_is_the_worst_case_itself(m, r, epsilon, delta):
    right = patterns(m)[:, :r].sum(axis=1)
    for v in range(1, r + 1):
        truth = worst_of_guesses(right >= v, m, [(epsilon, delta)])
        assert float(Exact(m * delta)(epsilon, r, v)) == pytest.approx(truth, abs=SOLVER)
        published = float(Steinke(m, delta)(epsilon, r, v))
        assert published >= min(truth, 0.5) - SOLVER
        if truth < 1:  # a leak of half as much would not do
            assert float(Exact(m * delta / 2)(epsilon, r, v)) < truth - SOLVER


RULES = [
    ("exact", "uniform"),
    ("exact", "grid"),
    ("exact", "bonferroni"),
    ("steinke", 4),
    ("hoeffding", (2, 1)),
    ("betting", "auto"),
]


@pytest.mark.parametrize(("method", "guesses"), RULES)
@pytest.mark.parametrize("sides", ["both", "top"])
@pytest.mark.parametrize(("confidence", "delta"), [(0.5, 0.0), (0.5, 0.05), (0.8, 0.01)])
def test_one_run_errs_no_more_than_promised(method, guesses, sides, confidence, delta):
    audit = {"method": method, "guesses": guesses, "sides": sides, "delta": delta}
    bounds = bounds_of(5, confidence=confidence, **audit)
    error = largest_error(bounds, delta, lambda hit, lines: worst_of_rankings(hit, [5], lines))
    assert error <= 1 - confidence + SOLVER


def test_one_run_is_caught_when_it_does_not_pay():
    audit = {"confidence": 0.5, "delta": 0.0, "sides": "top"}
    scores = -np.arange(6.0)
    bounds = np.array([naive_one_run(scores, s, **audit).epsilon for s in patterns(6)])
    error = largest_error(bounds, 0.0, lambda hit, lines: worst_of_rankings(hit, [6], lines))
    assert error > 0.52


@pytest.mark.parametrize(("method", "delta"), [("exact", 0.02), ("hoeffding", 0.001)])
def test_a_number_of_guesses_chosen_on_a_split_is_paid_for(method, delta):
    order = np.random.default_rng(0).permutation(7)  # as one_run splits with rng=0
    scores, members = np.empty(7), patterns(7)[:, np.argsort(order)]
    scores[order] = [0, -1, 0.5, -0.5, -1.5, -2.5, -3.5]
    audit = {"method": method, "guesses": "split", "delta": delta, "confidence": 0.6}
    bounds = np.array([one_run(scores, s, **audit).epsilon for s in members])
    assert bounds.max() > 0.2
    error = largest_error(bounds, delta, lambda hit, lines: worst_of_rankings(hit, [2, 5], lines))
    assert error <= 0.4 + SOLVER


@pytest.mark.parametrize(("r", "v"), [(1, 1), (2, 2), (3, 3), (3, 2)])
@pytest.mark.parametrize("mu", [0.3, 1.0])
def test_trade_off_recursion_is_not_below_the_worst_case(r, v, mu):
    """Fifty lines allow a little more than the curve, whence the tolerance."""
    epsilon = np.linspace(0, 3.2 * mu + mu * mu / 2, 50)
    lines = list(zip(epsilon, GDP(mu=mu).delta(epsilon), strict=True))
    right = patterns(3)[:, :r].sum(axis=1)
    free = worst_of_guesses(right >= v, 3, lines)
    assert fdp.p_value(r, v, 3, GDP(mu=mu)) >= free - 2e-4
    one_sided = worst_of_rankings(right >= v, [3], lines)
    assert fdp.p_value(r, v, 1.5, GDP(mu=mu)) >= one_sided - 2e-4
    if r == v < 3:  # the number of canaries for guesses of one kind will not do for both
        assert fdp.p_value(r, v, 1.5, GDP(mu=mu)) < free - 1e-2


@dataclass
class Pairs:
    """max of payoff[1] @ P + payoff[0] @ Q over pairs (P, Q) that meet a claim."""

    bins: int
    lines: list

    def worst(self, payoff):
        k, n = self.bins, np.arange(self.bins)
        programme, ones = Programme(2 * k), (np.ones(k), np.ones(k))
        for epsilon, delta in self.lines:
            for more, less in ((n, k + n), (k + n, n)):
                new = programme.positive_parts(more, less, epsilon, ones)
                programme.add(new, np.ones(k), delta)
        return programme.solve(np.concatenate([payoff[1], payoff[0]]), np.repeat([0, 1], k))


def value_of_the_game(book, pairs, scores, history, trials):
    """The largest mean wealth if before every trial the pair is chosen anew, knowing the past."""
    if len(history) == trials:
        watch = Watch(book, 0.95, rest=False)
        streams = Ranked(book.form, both_ways=False).play(*zip(*history, strict=True))
        watch.take(streams, len(history))
        return math.exp(watch.log_wealth[0])
    after = [
        [value_of_the_game(book, pairs, scores, [*history, (w, x)], trials) for x in scores]
        for w in (0, 1)
    ]
    return pairs.worst(np.array(after) / 2)


@pytest.mark.parametrize("claim", [ApproxDP(0.3, 0.1), ApproxDP(0.5, 0.0)])
def test_no_adaptive_pair_makes_the_wealth_grow(claim):
    lines = [(0.0, float(claim.delta(0.0))), (claim.epsilon_upper, claim.delta_upper)]
    pairs = Pairs(2, lines)
    value = value_of_the_game(_book(claim, "coin"), pairs, (-np.inf, 1.0), [], 4)
    assert 0.9 < value <= 1 + SOLVER


@pytest.mark.parametrize("form", ["coin", "pairs", "shared-seed"])
@pytest.mark.parametrize("claim", [ApproxDP(0.3, 0.05), GDP(mu=1.0)])
def test_learned_bets_are_fair_at_best(form, claim):
    rng = np.random.default_rng(3)
    book = _book(claim, form)
    watch = Watch(book, 0.95, rest=False)
    worlds = rng.permuted(np.tile([0, 1], (150, 1)), axis=1).ravel()
    scores = worlds + 0.7 * rng.normal(size=worlds.size)
    watch.take(Ranked(book.form, both_ways=False).play(worlds, scores), worlds.size)
    f = with_cash(factors(watch.bettor._weights[0, 0], book.pays[0]))
    # The payoffs that are used are those of this bet, in the form that makes its mean at most 1.
    used = np.exp(watch.bettor._logs[0, 0, -1, :-1])
    combined = {
        "coin": f.ravel(),
        "pairs": np.outer(f[1], f[0]).ravel(),
        "shared-seed": np.add.outer(f[1], f[0]).ravel() / 2,
    }
    np.testing.assert_allclose(used, combined[form], rtol=1e-12)
    slopes = np.unique(np.abs(np.log(Lines.of(claim).slopes)).round(13))
    pairs = Pairs(N_BINS, list(zip(slopes, claim.delta(slopes), strict=True)))
    assert 0.99 < pairs.worst(f / 2) <= 1 + SOLVER
    assert pairs.worst(f * 1.01 / 2) > 1


def binomial(n, p):
    k = np.arange(n + 1)
    return np.array([math.comb(n, i) for i in k]) * p**k * (1 - p) ** (n - k)


@pytest.mark.parametrize("threshold", ["band", "bonferroni", "dkw", 0.5])
def test_two_worlds_err_no_more_than_promised(threshold):
    """Every outcome of two-valued scores, and a grid of rates with their exact epsilon."""
    n_in, n_out, delta, confidence = 9, 12, 0.05, 0.4
    outcomes = [[np.repeat([0.0, 1.0], [n - k, k]) for k in range(n + 1)] for n in (n_in, n_out)]
    bounds = np.array(
        [[lower_bound(x, y, delta=delta, confidence=confidence, threshold=threshold).epsilon
          for y in outcomes[1]] for x in outcomes[0]])  # fmt: skip
    assert bounds.max() > 0.5
    largest = 0.0
    rates = np.linspace(0.02, 0.98, 49)
    for tpr in rates:
        for fpr in rates:
            ratios = (tpr, fpr), (fpr, tpr), (1 - tpr, 1 - fpr), (1 - fpr, 1 - tpr)
            epsilon = max(math.log(max((a - delta) / b, 1.0)) for a, b in ratios)
            error = binomial(n_in, tpr) @ (bounds > epsilon + 1e-9) @ binomial(n_out, fpr)
            largest = max(largest, error)
    assert 0.0 < largest <= 1 - confidence
