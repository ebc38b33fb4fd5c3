import numpy as np
import pytest

from dpassay.bounds import one_run
from dpassay.bounds.onerun.planning import canaries_for, forecast
from dpassay.errors import InvalidArgument
from dpassay.privacy import gaussian


@pytest.mark.golden
@pytest.mark.parametrize(
    ("epsilon", "canaries"),
    [
        (1, (690, 4500, 18_100, 72_900)),
        (2, (210, 1350, 5500, 22_000)),
        (4, (70, 450, 1830, 7400)),
        (8, (27, 182, 750, 3030)),
    ],
)
def test_canaries_for_a_share(epsilon, canaries):
    found = [canaries_for(epsilon, share, 1e-5, 0.95) for share in (0.5, 0.8, 0.9, 0.95)]
    assert found == pytest.approx(canaries, rel=0.05)


def test_the_forecast_comes_true_on_average():
    plan = forecast(2.0, canaries=2000)
    mu = float(gaussian.mu_of(2.0, 1e-5))
    form, none = [], []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        members = rng.random(2000) < 0.5
        scores = mu * members + rng.normal(size=2000)
        form.append(one_run(scores, members, delta=1e-5, method="product").epsilon)
        options = {"method": "exact", "guesses": plan.guesses}
        none.append(one_run(scores, members, delta=1e-5, **options).epsilon)
    assert np.mean(form) == pytest.approx(plan.epsilon_form, abs=0.25)  # two and a half deviations
    assert np.mean(none) == pytest.approx(plan.epsilon_none, abs=0.35)


def test_more_canaries_show_more():
    plans = [forecast(2.0, canaries=10**k) for k in range(1, 8)]
    for values in ([p.epsilon_form for p in plans], [p.epsilon_none for p in plans]):
        assert values == sorted(values)
        assert values[-1] < 2
    assert forecast(4.0, canaries=10, parameters=9).reachable is False


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"epsilon": 0.0}, "epsilon=0"),
        ({"epsilon": 1.0, "share": 1.0}, "share=1"),
        ({"epsilon": 1.0, "canaries": 0}, "canaries=0"),
        ({"epsilon": 1.0, "delta": 0.0}, "delta=0"),
        ({"epsilon": 1.0, "confidence": 0.4}, "confidence=0.4"),
    ],
)
def test_misuse(options, text):
    with pytest.raises(InvalidArgument, match=text):
        forecast(**options)
