"""The whole-curve test: against trade-off functions, exact nulls, power, nested families."""

import numpy as np
import pytest
from scipy import stats

from dpassay.bounds.bands import BANDS, common_level
from dpassay.bounds.curve_tests import check_claim, lower_bound_in_family
from dpassay.bounds.scores import limits_at_cuts, lower_bound, sort_scores
from dpassay.errors import InvalidArgument
from dpassay.privacy import GDP, ZCDP, ApproxDP, PureDP, gaussian
from rates import assert_rate_at_most


def mu_of(epsilon):
    return float(gaussian.mu_of(np.float64(epsilon), np.float64(1e-5)))


def normal_scores(seed, mu, n_in, n_out):
    rng = np.random.default_rng(seed)
    return rng.normal(mu, 1, n_in), rng.normal(0, 1, n_out)


CLAIMS = [
    PureDP(epsilon=0.8),
    PureDP(epsilon=2.0),
    ApproxDP(epsilon=0.21, delta=1e-5),
    ApproxDP(epsilon=0.9, delta=0.02),
    GDP(mu=0.1),
    GDP(mu=0.85),
    ZCDP(rho=0.3),
]


@pytest.mark.parametrize("claim", CLAIMS, ids=repr)
@pytest.mark.parametrize("band", BANDS)
@pytest.mark.parametrize("mu", [0.2, 1.0, 2.0])
def test_refutes_where_the_tradeoff_function_is_crossed(claim, band, mu):
    x, y = normal_scores(11, mu, 300, 200)
    found = check_claim(claim, x, y, band=band)
    level = common_level(band, 300, 200, 1 - 0.95)
    _, fpr, fnr = limits_at_cuts(sort_scores(x, y), band, level)
    assert found.refuted == bool(np.any(claim.tradeoff(fpr) > fnr + 1e-9))
    assert found.refuted == (found.p_value <= 1 - 0.95)
    assert found.refuted == (found.margin > 1e-9)
    if found.refuted:
        assert found.delta_claimed == pytest.approx(claim.delta(found.epsilon))
        assert found.delta_lower <= GDP(mu=mu).delta(found.epsilon)


def test_says_what_it_found():
    x, y = normal_scores(1, 3.0, 200, 200)
    assert str(check_claim(GDP(mu=1.0), x, y)).startswith("refuted: delta(")
    assert str(check_claim(GDP(mu=9.0), x, y)).startswith("not refuted: GDP(mu=9) (p=1")
    assert "DKW" in check_claim(GDP(mu=1.0), x, y, band="dkw").selection


def test_anywhere_on_the_curve_will_do():
    # True epsilon 4, claimed 2, both at delta 1e-5: the bound at 1e-5 sees nothing of it.
    x, y = normal_scores(5, mu_of(4), 800, 800)
    claim = GDP(mu=mu_of(2))
    assert check_claim(claim, x, y).refuted
    assert lower_bound(x, y, delta=1e-5).epsilon < claim.epsilon(1e-5)


def test_p_value_is_small_where_nothing_can_be_shown_otherwise():
    perfect = check_claim(PureDP(epsilon=0.5), np.ones(2000), np.zeros(2000))
    assert perfect.p_value < 1e-25
    same = check_claim(PureDP(epsilon=0.5), np.zeros(2000), np.zeros(2000))
    assert same.p_value == 1


@pytest.mark.parametrize("band", BANDS)
def test_exact_nulls_are_let_through(band):
    rng, claim, repeats = np.random.default_rng(21), GDP(mu=1.0), 120
    p_values = [
        check_claim(claim, rng.normal(1, 1, 40), rng.normal(0, 1, 50), band=band).p_value
        for _ in range(repeats)
    ]
    for level in (0.5, 0.2):
        assert_rate_at_most(int(np.sum(np.array(p_values) <= level)), repeats, level)


def test_the_check_of_nulls_catches_a_claim_that_is_false():
    rng, repeats = np.random.default_rng(21), 40
    refuted = [
        check_claim(GDP(mu=0.9), rng.normal(2, 1, 40), rng.normal(0, 1, 50)).p_value <= 0.2
        for _ in range(repeats)
    ]
    with pytest.raises(AssertionError, match="chance"):
        assert_rate_at_most(sum(refuted), repeats, 0.2)


@pytest.mark.golden
def test_golden_power_of_the_dkw_band():
    # 320 pairs give 80 % power against epsilon 2 where 4 is true (150-1500 runs, n to about 4 %).
    rng, repeats = np.random.default_rng(4), 60
    refuted = sum(
        check_claim(
            GDP(mu=mu_of(2)), rng.normal(mu_of(4), 1, 320), rng.normal(0, 1, 320), band="dkw"
        ).refuted
        for _ in range(repeats)
    )
    assert stats.binom.cdf(refuted, repeats, 0.75) > 1e-9
    assert stats.binom.sf(refuted - 1, repeats, 0.9) > 1e-9


@pytest.mark.parametrize("band", BANDS)
def test_family_of_gaussians_gives_the_gaussian_bound(band):
    x, y = normal_scores(3, 1.5, 250, 300)
    family = lower_bound_in_family(
        x, y, family=lambda mu: GDP(mu=mu), low=0.0, high=20.0, delta=1e-5, band=band
    )
    direct = lower_bound(x, y, delta=1e-5, method="gdp", threshold=band)
    assert family.epsilon == pytest.approx(direct.epsilon, rel=2e-3)
    assert family.epsilon <= direct.epsilon
    assert family.ceiling == pytest.approx(direct.ceiling, rel=2e-3)
    assert family.details["parameter_lower"] == pytest.approx(direct.details["mu_lower"], rel=2e-3)
    assert "family" in family.assumption


def test_family_of_approximate_dp_gives_the_plain_bound():
    x, y = normal_scores(3, 2.5, 250, 300)
    found = lower_bound_in_family(
        x, y, family=lambda e: ApproxDP(epsilon=e, delta=0.01), low=0.0, high=9.0, delta=0.01
    )
    direct = lower_bound(x, y, delta=0.01, threshold="band")
    assert found.epsilon == pytest.approx(direct.epsilon, rel=1e-5)
    assert found.ceiling == pytest.approx(direct.ceiling, rel=1e-5)


def test_family_bound_stays_in_its_range():
    x, y = normal_scores(3, 2.5, 250, 300)
    families = {"family": lambda mu: GDP(mu=mu), "delta": 1e-5}
    nothing = lower_bound_in_family(x, x, low=0.1, high=1.0, **families)
    assert nothing.epsilon == 0
    everything = lower_bound_in_family(x, y, low=0.1, high=0.5, **families)
    assert everything.epsilon == everything.ceiling
    assert everything.epsilon == pytest.approx(GDP(mu=0.5).epsilon(1e-5), rel=1e-12)
    assert everything.epsilon < GDP(mu=0.5).epsilon(1e-5)


def test_a_family_of_upper_bounds_is_refused():
    with pytest.raises(InvalidArgument, match="no lower bound"):
        lower_bound_in_family(
            [1.0], [0.0], family=lambda rho: ZCDP(rho), low=0.1, high=1.0, delta=1e-5
        )


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"scores_in": [np.nan]}, r"scores_in\[0\]=nan"),
        ({"scores_out": []}, "scores_out is empty"),
        ({"confidence": 1.0}, "confidence=1"),
        ({"band": "split"}, "band='split' must be one of"),
    ],
)
def test_refusals_name_the_argument(bad, message):
    good = {"claim": GDP(mu=1.0), "scores_in": [1.0], "scores_out": [0.0]}
    with pytest.raises(InvalidArgument, match=message):
        check_claim(**{**good, **bad})


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"high": 0.0}, "high=0"),
        ({"low": np.nan}, "low=nan"),
        ({"delta": 1.0}, "delta=1"),
        ({"band": "best"}, "band='best'"),
    ],
)
def test_family_refusals_name_the_argument(bad, message):
    good = {"low": 0.0, "high": 1.0, "delta": 1e-5, "family": lambda mu: GDP(mu=mu)}
    with pytest.raises(InvalidArgument, match=message):
        lower_bound_in_family([1.0], [0.0], **{**good, **bad})


@pytest.mark.parametrize(
    "claim",
    [
        PureDP(epsilon=0.0),
        PureDP(epsilon=np.inf),
        GDP(mu=0.0),
        GDP(mu=np.inf),
        ApproxDP(epsilon=0.0, delta=0.9),
        ZCDP(rho=0.0),
    ],
    ids=repr,
)
def test_extreme_claims(claim):
    # Perfect privacy is refuted by scores that separate; no privacy at all never is.
    found = check_claim(claim, np.ones(100), np.zeros(100))
    assert found.refuted == (claim.delta(1.0) < 0.5)
