import json

import numpy as np
import pytest
from scipy import stats

from dpassay_reproduce import one_dimension


@pytest.fixture(scope="module")
def drawn():
    return one_dimension.losses(4.0, 6000)


def test_the_curve_by_drawing_is_the_accountants(drawn):
    grid = np.array([0.0, 0.5, 1.0, 2.0, 3.0])
    seen, error = one_dimension.delta_of_losses(drawn[0], grid)
    exact = np.asarray(one_dimension.curve(4.0, "pld").delta(grid))
    # Five means of 6000 bounded terms; beyond 6.5 errors lies less than 1e-9.
    assert np.all(np.abs(seen - exact) < 6.5 * error)
    more = np.asarray(one_dimension.curve(8.0, "pld").delta(grid))
    assert np.all(np.abs(seen - more) > 6.5 * error)


def test_the_attack_lies_on_the_trade_off_and_not_below(drawn):
    inside, outside = drawn
    for cut in (-1.0, 0.0, 1.0):
        fpr, fnr = (outside >= cut).mean(), (inside < cut).mean()
        least = one_dimension.curve(4.0, "pld").tradeoff(float(fpr))
        room = 6.5 * np.sqrt((fpr * (1 - fpr) * 4 + fnr * (1 - fnr)) / len(inside))
        assert abs(fnr - least) < room
        if cut == 0:
            assert fnr - one_dimension.curve(4.0, "rdp").tradeoff(float(fpr)) > room


def test_what_is_proved_is_above_what_is_allowed(drawn):
    fpr, fnr = one_dimension.rates_upper(*drawn)
    least = np.asarray(one_dimension.curve(4.0, "pld").tradeoff(fpr[::200]))
    assert np.all(fnr[::200] >= least - 1e-12)
    assert np.all(np.diff(fnr) <= 0)


def test_one_coordinate_suffices():
    one, many = (one_dimension.losses(4.0, 800, dimension=d) for d in (1, 20))
    for a, b in zip(one, many, strict=True):
        assert stats.ks_2samp(a, b).pvalue > 1e-9


def test_renyi_conversion_is_what_leaves_the_gap():
    published = one_dimension.published_epsilons(4.0)
    assert published["loss distributions"] == pytest.approx(4.0, abs=1e-3)
    # Values of dp-accounting's orders; the first conversion is Mironov's of 2017.
    assert published["Rényi, best conversion"] == pytest.approx(4.6236, abs=1e-3)
    assert published["Rényi, first conversion"] == pytest.approx(5.3423, abs=1e-3)


def test_files(tmp_path, monkeypatch):
    monkeypatch.setattr(one_dimension, "EPSILONS", (4.0, 8.0))
    files = one_dimension.run(tmp_path, trainings=1000)
    assert {path.name for path in files} >= {"tradeoff.svg", "gap.svg", "index.html"}
    facts = json.loads((tmp_path / "numbers.json").read_text())["tradeoff"]["facts"]
    assert facts["area_rdp"] < facts["area_pld"]
    assert facts["largest_gap_to_pld_in_errors"] < 6.5
