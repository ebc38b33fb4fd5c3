"""Bets: valid under every pair that meets the claim, and close to the best for each alternative."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, special

from dpassay.bounds import betting
from dpassay.bounds.alternatives import (
    alternatives,
    gaussian,
    gaussian_ladder,
    laplace,
    laplace_ladder,
    perfect,
)
from dpassay.bounds.betting import (
    FORMS,
    N_BINS,
    Lines,
    _spread,
    bin_masses,
    factors,
    growth,
    improve,
    log_optimal,
    with_cash,
)
from dpassay.privacy import GDP, RDP, ZCDP, ApproxDP, PureDP, account, dp_sgd_event
from dpassay.privacy.combined import Numeric

COIN = FORMS["coin"]
SEEDS = st.integers(0, 10**6)
CLAIMS = [
    PureDP(epsilon=0.0),
    PureDP(epsilon=1.0),
    ApproxDP(epsilon=0.21, delta=1e-5),
    ApproxDP(epsilon=1.0, delta=0.2),
    GDP(mu=0.0),
    GDP(mu=0.5),
    GDP(mu=3.0),
    ZCDP(rho=0.1),
    RDP(orders=[2, 8], epsilons=[0.1, 0.4]),
]


def random_pair(rng):
    """Two laws on the bins, in no particular order, some bins empty in one or both."""
    p, q = (rng.gamma(0.3, size=N_BINS) * (rng.random(N_BINS) < 0.9) for _ in range(2))
    p, q = p / p.sum(), q / q.sum()
    mix = rng.random()
    return p, mix * p + (1 - mix) * q


def exact_claim(p, q):
    """The privacy curve of a discrete pair: the worst of both directions, with nothing to spare."""

    def delta(epsilon):
        s = np.exp(np.minimum(epsilon, 700.0))[:, None]
        return np.maximum(np.maximum(p - s * q, 0).sum(1), np.maximum(q - s * p, 0).sum(1))

    return Numeric("of the pair", delta_at=delta)


def asset_means(lines, p, q):
    """The mean in a coin trial of every asset [j, k], from its definition."""
    at_least = np.tri(N_BINS, N_BINS + 1)  # [b, k]: bin b lies above threshold k
    pays_out, pays_in = lines.pays
    return (np.outer(pays_in, p @ at_least) + np.outer(pays_out, q @ (1 - at_least))) / 2


def random_portfolio(rng, lines):
    weights = rng.gamma(0.2, size=(lines.pays.shape[1], N_BINS + 1))
    return weights / weights.sum()


@given(SEEDS)
def test_no_asset_gains_under_a_pair_that_meets_the_claim(seed):
    p, q = random_pair(np.random.default_rng(seed))
    lines = Lines.of(exact_claim(p, q))
    assert asset_means(lines, p, q).max() <= 1 + 1e-9
    assert asset_means(lines, q, p).max() <= 1 + 1e-9


def price_without_d(s, d):
    return Lines._price(s, np.zeros_like(d))


def small_slopes_as_large(s, d):
    """Takes delta(|log s|) for slopes below 1 as well: forgets that the event is the complement."""
    return Lines._price(s, np.where(s < 1, (d - 1 + s) / s, d))


@pytest.mark.parametrize("mutant", [price_without_d, small_slopes_as_large])
def test_assets_at_a_wrong_price_gain(mutant):
    p, q = 2 * gaussian(0.5)[::-1]
    lines = Lines.of(GDP(mu=0.5))
    assert asset_means(lines, p, q).max() <= 1
    assert asset_means(mutant(lines.slopes, lines.offsets), p, q).max() > 1.02


@pytest.mark.parametrize("claim", CLAIMS, ids=repr)
def test_lines_are_those_of_the_claim_in_both_directions(claim):
    lines = Lines.of(claim)
    for s, d in zip(lines.slopes, lines.offsets, strict=True):
        delta = claim.delta(abs(np.log(s)))
        assert d == pytest.approx(delta if s >= 1 else 1 - s + s * delta, abs=1e-12)
    assert np.log(lines.slopes).min() == pytest.approx(-np.log(lines.slopes).max())


@pytest.mark.parametrize("claim", CLAIMS, ids=repr)
def test_lines_come_close_to_all_that_the_claim_allows(claim):
    fpr, tpr = Lines.of(claim).roc()
    gap = tpr - (1 - claim.tradeoff(fpr))
    assert gap.min() > -1e-4  # some curves give their trade-off function to about this accuracy
    assert gap.max() < 0.05


def test_epsilon_delta_is_two_lines_exactly():
    lines = Lines.of(ApproxDP(epsilon=0.7, delta=0.01))
    assert np.log(np.sort(lines.slopes)) == pytest.approx([-0.7, 0.7])
    steep = lines.slopes.argmax()
    assert lines.offsets[steep] == pytest.approx(0.01)
    assert lines.offsets[1 - steep] == pytest.approx(1 - np.exp(-0.7) * 0.99)


def test_a_claim_that_excludes_nothing_is_never_beaten():
    lines = Lines.of(GDP(mu=np.inf))
    assert asset_means(lines, *2 * perfect()[::-1]).max() <= 1
    bet = factors(log_optimal(lines.pays, perfect(), COIN), lines.pays)
    assert growth(bet, perfect(), COIN) <= 1e-12


def test_factors_are_the_sum_of_assets():
    rng = np.random.default_rng(3)
    lines = Lines.of(GDP(mu=0.7))
    weights = random_portfolio(rng, lines)
    pays_out, pays_in = lines.pays
    expected = np.zeros((2, N_BINS))
    for b in range(N_BINS):
        for k in range(N_BINS + 1):
            world = int(b >= k)
            expected[world, b] += weights[:, k] @ (pays_in if world else pays_out)
    assert factors(weights, lines.pays) == pytest.approx(expected)


@given(SEEDS)
def test_theorem_a_every_valid_bet_is_a_portfolio(seed):
    rng = np.random.default_rng(seed)
    lines = Lines.of(GDP(mu=0.6))
    s, d, n = lines.slopes, lines.offsets, lines.slopes.size
    stakes = rng.gamma(0.5, size=(n, N_BINS + 1))
    stakes *= rng.random() * 2 / (stakes * (s + d)[:, None]).sum()
    spent_in, spent_out = (stakes * d[:, None] / 2).sum(), (stakes * (s + d / 2)[:, None]).sum()
    # Any hedge on the coin between those that exhaust one or the other budget.
    t = 2 * (spent_in - 1) + rng.random() * 2 * (2 - spent_in - spent_out)
    f = np.zeros((2, N_BINS))
    for b in range(N_BINS):
        above = stakes[:, : b + 1].sum(axis=1)
        f[1, b] = 1 + above.sum() - spent_in + t / 2
        f[0, b] = 1 - (s * above).sum() - (stakes * d[:, None] / 2).sum() - t / 2
    weights = np.zeros((n + 2, N_BINS + 1))
    weights[:n] = stakes * (s + d)[:, None] / 2
    weights[n, 0] = (1 + t / 2 - spent_in) / 2
    weights[n + 1, -1] = (1 - t / 2 - spent_out) / 2
    assert weights.min() >= -1e-12
    assert weights.sum() == pytest.approx(1)
    assert factors(weights, lines.pays) == pytest.approx(f, abs=1e-9)


@given(SEEDS)
def test_theorem_b_no_form_gains_from_independent_scores(seed):
    rng = np.random.default_rng(seed)
    p, q = random_pair(rng)
    lines = Lines.of(exact_claim(p, q))
    bet = with_cash(factors(random_portfolio(rng, lines), lines.pays))
    a, b = p @ bet[1], q @ bet[0]
    means = {
        "coin": np.concatenate([q, p]) / 2 @ np.exp(COIN.log_factors(bet)),
        "pairs": np.outer(p, q).ravel() @ np.exp(FORMS["pairs"].log_factors(bet)),
        "shared-seed": np.outer(p, q).ravel() @ np.exp(FORMS["shared-seed"].log_factors(bet)),
    }
    assert means["pairs"] == pytest.approx(a * b)
    assert means["coin"] == pytest.approx((a + b) / 2) == means["shared-seed"]
    assert means["pairs"] <= means["coin"] ** 2 + 1e-12 <= 1 + 1e-9


def counter_monotone(p, q):
    """The joint law in which the score without is as low as can be when that with is high."""
    high_in, high_out = np.append(0, np.cumsum(p[::-1])), np.append(0, np.cumsum(q))
    low = np.maximum(high_in[:-1, None], high_out[:-1])
    return np.maximum(np.minimum(high_in[1:, None], high_out[1:]) - low, 0)[::-1]


def test_theorem_b_the_product_needs_independence_and_the_mean_does_not():
    lines = Lines.of(GDP(mu=0.5))
    p, q = 2 * gaussian(0.5)[::-1]
    bet = with_cash(factors(log_optimal(lines.pays, gaussian(2.0), COIN), lines.pays))
    joint = counter_monotone(p, q)
    assert joint.sum(axis=1) == pytest.approx(p)
    assert joint.sum(axis=0) == pytest.approx(q)
    assert joint.ravel() @ np.exp(FORMS["pairs"].log_factors(bet)) > 1.25
    assert joint.ravel() @ np.exp(FORMS["shared-seed"].log_factors(bet)) <= 1


@pytest.mark.parametrize("name", FORMS)
def test_growth_is_the_mean_log_factor(name):
    rng, form = np.random.default_rng(4), FORMS[name]
    lines, masses = Lines.of(GDP(mu=0.5)), gaussian(1.0)
    bet = with_cash(factors(random_portfolio(rng, lines), lines.pays))
    outcomes = masses.ravel() if name == "coin" else np.outer(2 * masses[1], 2 * masses[0]).ravel()
    mean = outcomes @ form.log_factors(bet)
    assert form.evidence(outcomes) == pytest.approx(form.expect(masses))
    assert growth(bet, form.expect(masses), form) * (2 if name == "pairs" else 1) == pytest.approx(
        mean
    )


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("claim", [GDP(mu=0.3), PureDP(epsilon=1.0)], ids=repr)
def test_every_step_of_learning_grows_faster(name, claim):
    form, lines = FORMS[name], Lines.of(claim)
    evidence = form.expect(gaussian(1.2))
    weights = random_portfolio(np.random.default_rng(5), lines)
    before = -np.inf
    for _ in range(30):
        now = growth(factors(weights, lines.pays), evidence, form)
        assert now >= before - 1e-12
        before, weights = now, improve(weights, lines.pays, evidence, form, 1)
        assert weights.sum() == pytest.approx(1)


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("claim", [GDP(mu=0.5), ApproxDP(epsilon=1.0, delta=1e-5)], ids=repr)
def test_log_optimal_is_nearly_that_by_the_duality_gap(name, claim):
    # Growth is concave in the weights, so that no portfolio grows faster than this one by more than
    # log max mean(E / F) (Cover 1984).
    form, lines = FORMS[name], Lines.of(claim)
    evidence = form.expect(gaussian(1.5))
    weights = log_optimal(lines.pays, evidence, form)
    bet = factors(weights, lines.pays)
    gap = np.log(betting._returns(bet, lines.pays, evidence, form).max())
    assert weights.sum() == pytest.approx(1)
    assert growth(bet, evidence, form) > 0.05
    assert gap < 0.02 * growth(bet, evidence, form)


@pytest.mark.parametrize("claim", [PureDP(epsilon=1.0), GDP(mu=0.7), ZCDP(rho=0.5)], ids=repr)
def test_bets_with_other_last_bits_are_as_valid(claim):
    """As on processors whose exp rounds otherwise: other bets, the same growth, no gain."""
    lines, rng = Lines.of(claim), np.random.default_rng(0)
    evidence, own = alternatives(lines)[1], bin_masses(*lines.roc())
    units = [np.zeros(evidence.shape), *rng.integers(-1, 2, (3, *evidence.shape))]
    weights = [log_optimal(lines.pays[None], evidence * (1 + 2.0**-52 * u), COIN) for u in units]
    bets = [factors(w, lines.pays) for w in weights]
    growths = [growth(bet, evidence, COIN) for bet in bets]
    assert max(np.abs(bets[0] - bet).max() for bet in bets) > 1e-9  # bits do grow
    assert np.ptp(growths, axis=0).max() < 1e-4
    assert all((w >= 0).all() and (w.sum(axis=(-1, -2)) <= 1 + 1e-14).all() for w in weights)
    assert all(((own * bet).sum(axis=(-1, -2)) <= 1).all() for bet in bets)


@pytest.mark.golden
@pytest.mark.parametrize("epsilon", [0.21, 1.0, 3.0])
def test_growth_of_a_perfect_attack(epsilon):
    # Against pure epsilon a guess is right with probability at most 1 / (1 + e^-epsilon).
    lines = Lines.of(PureDP(epsilon=epsilon))
    bet = factors(log_optimal(lines.pays, perfect(), COIN), lines.pays)
    assert growth(bet, perfect(), COIN) == pytest.approx(np.log1p(np.exp(-epsilon)), rel=1e-3)


@pytest.mark.parametrize(("true", "claimed"), [(0.925, 0.5016), (1.67, 0.925), (0.5016, 0.268)])
def test_growth_against_gaussians_is_below_their_divergence(true, claimed):
    # The nearest Gaussian pair is (true - claimed)² / 8 away, and the claim allows other pairs too.
    lines = Lines.of(GDP(mu=claimed))
    bet = factors(log_optimal(lines.pays, gaussian(true), COIN), lines.pays)
    ideal = (true - claimed) ** 2 / 8
    assert 0.7 * ideal < growth(bet, gaussian(true), COIN) < ideal


@pytest.mark.parametrize("claim", CLAIMS, ids=repr)
def test_the_claims_own_pair_offers_no_growth(claim):
    lines = Lines.of(claim)
    own = bin_masses(*lines.roc())
    assert growth(factors(log_optimal(lines.pays, own, COIN), lines.pays), own, COIN) <= 1e-12


@pytest.mark.parametrize("claim", CLAIMS, ids=repr)
def test_alternatives_are_laws_in_balanced_ranks(claim):
    weights, masses = alternatives(Lines.of(claim))
    assert weights.sum() == pytest.approx(1)
    assert masses.min() >= 0
    assert masses.sum(axis=1) == pytest.approx(np.full((weights.size, N_BINS), 1 / N_BINS))
    assert masses.sum(axis=2) == pytest.approx(np.full((weights.size, 2), 0.5))


def test_bins_of_a_gaussian_by_root_finding():
    mu, edges = 0.8, np.arange(1, N_BINS) / N_BINS
    cuts = [
        optimize.brentq(lambda x, u=u: (special.ndtr(x) + special.ndtr(x - mu)) / 2 - u, -9, 9)
        for u in edges
    ]
    cuts = np.array([-np.inf, *cuts, np.inf])
    expected = [np.diff(special.ndtr(cuts)), np.diff(special.ndtr(cuts - mu))]
    assert 2 * gaussian(mu) == pytest.approx(np.array(expected), abs=1e-5)


def test_bins_of_laplace_by_counting():
    epsilon, edges = 1.7, np.arange(1, N_BINS) / N_BINS

    def below(x):
        return np.where(x < 0, np.exp(epsilon * x) / 2, 1 - np.exp(-epsilon * x) / 2)

    grid = np.linspace(-20, 21, 2_000_001)
    # The likelihood ratio rises with the score only between 0 and 1; beyond, ranks are those of the
    # score, whose ROC is the same.
    cuts = np.interp(edges, (below(grid) + below(grid - 1)) / 2, grid)
    cuts = np.array([-np.inf, *cuts, np.inf])
    expected = [np.diff(below(cuts)), np.diff(below(cuts - 1))]
    assert 2 * laplace(epsilon) == pytest.approx(np.array(expected), abs=1e-4)


@pytest.mark.parametrize("ladder", [gaussian_ladder(), laplace_ladder()])
def test_ladders_climb(ladder):
    advantage = np.abs(ladder[:, 1] - ladder[:, 0]).sum(axis=1)
    assert np.all(np.diff(advantage) > 0)
    assert advantage[0] < 0.02
    assert advantage[-1] > 0.99


def test_cash_keeps_every_payoff_positive():
    lines = Lines.of(PureDP(epsilon=1.0))
    bet = with_cash(factors(log_optimal(lines.pays, perfect(), COIN), lines.pays))
    assert bet.min() >= betting.CASH


@pytest.mark.parametrize(("noise", "steps"), [(0.25, 4), (0.3, 10), (0.15, 2)])
def test_lines_of_low_noise_meet_the_curve_at_loss_zero(noise, steps):
    """The largest loss is 30 to 200, but most of the mass lies near 0: lines must be there too."""
    claim = account(dp_sgd_event(noise, 1 / steps, steps), "pld")
    fpr, tpr = Lines.of(claim).roc()
    allowed = float((tpr - fpr).max())
    assert claim.delta(0.0) <= allowed * (1 + 1e-9)
    assert allowed < claim.delta(0.0) + 0.01


def test_narrow_claims_have_even_losses():
    np.testing.assert_allclose(_spread(3.3), 3.3 * np.arange(1, 12, 2) / 11)
    wide = _spread(60.0)
    assert wide[0] == 0
    assert 0.2 < wide[1] <= 0.5
    np.testing.assert_allclose(wide[-10:], 60 * np.arange(1, 20, 2) / 19)
