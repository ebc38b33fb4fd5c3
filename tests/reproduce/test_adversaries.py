"""The summary of the six, reduced: claims that can fail, stores that go on, figures that agree."""

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm

from dpassay.adversaries import ADVERSARIES
from dpassay.datasets import DatasetMissing, made_up_profiles
from dpassay.errors import InvalidArgument
from dpassay.privacy import GDP
from dpassay.runs import opened
from dpassay_reproduce import adversaries, experiment, stated
from dpassay_reproduce.claims import HOLDS, UNDECIDED
from extras import needs

QUICK = {
    "data": "digits",
    "epsilons": (10.0,),
    "hidden": (0,),
    "per_world": 12,
    "n_records": 120,
    "canaries": 40,
    "workers": 1,
}


@pytest.fixture(autouse=True)
def _reduced(monkeypatch):
    needs("jax", "lab")
    monkeypatch.setattr(adversaries, "FEW", 2)
    monkeypatch.setattr(adversaries, "REPEATS", 1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("adversaries")


def n_trials(folder):
    with opened(folder / "trials.db") as log:
        return sum(len(log.outcomes(run.key)) for run in log.runs())


def test_figures_and_the_same_again_without_a_training(folder):
    """Run, then run again on its own store: nothing is played and every file is the same."""
    said = []
    files = experiment("adversaries").run(folder, progress=said.append, **QUICK)
    names = [
        "order.svg",
        "six.svg",
        "restrictions.svg",
        "queries.svg",
        "one-run.svg",
        "numbers.json",
        "index.html",
        "capabilities.txt",
    ]
    assert [path.name for path in files] == names
    assert [text.partition(" at")[0] for text in said] == [*ADVERSARIES, "fresh queries"]
    kept, before = n_trials(folder), {path: path.read_bytes() for path in files}
    # The second and third share their trainings; two choose among scores; two look at steps.
    assert kept == 5 * 24 + 2 * 6 + 2 * 2 + 2 + adversaries.QUERIES * 2 * 10
    adversaries.run(folder, **QUICK)
    assert n_trials(folder) == kept
    assert {path: path.read_bytes() for path in files} == before


def test_numbers_are_those_of_the_figures(folder):
    numbers = json.loads((folder / "numbers.json").read_text())
    assert json.dumps(numbers).count("malicious data at 10, steps") == 1
    table = (folder / "capabilities.txt").read_text()
    assert all(name in table for name in ADVERSARIES)


@pytest.fixture(scope="module")
def grid(folder):
    where = adversaries.setting("digits", 120)
    return adversaries.grid(where, (10.0,), per_world=12, store=folder / "trials.db")


def test_claims_can_fail(grid):
    assert adversaries.none_above_claim(grid).holds
    first, last = (("API access", 10.0), ("malicious data", 10.0))
    high = replace(grid[last], free=replace(grid[last].free, epsilon=11.0))
    claim = adversaries.none_above_claim(grid | {last: high})
    assert claim.holds  # by chance: not at the level that all bounds share
    assert claim.measured.startswith("1 of 6 have a bound above ε at 0.95 each, 0 at 0.95 shared")
    claim = adversaries.none_above_claim(grid | {last: replace(high, surely=10.5)})
    assert claim.fails
    assert "Above: malicious data at ε = 10" in claim.measured

    def with_scores(key, sign):
        seen = grid[key].game.evidence
        scores = sign * seen.worlds + np.random.default_rng(0).normal(size=seen.trials) / 5
        game = replace(grid[key].game, evidence=replace(seen, scores=scores))
        return {key: replace(grid[key], game=game)}

    turned = grid | with_scores(first, 1) | with_scores(("static poison", 10.0), -1)
    games = {key: p.game for key, p in turned.items()}
    static, intermediate, *others = stated.claim_orders(games)
    assert static.text == "static poison shows more than API access."
    assert (static.fails, intermediate.holds) == (True, True)
    assert len(others) == 3
    chance, adaptive, marginal, *numbers = stated.claim_results(games, {("gradient", 1.0): 0.4})
    assert chance.fails  # it was given the worlds
    assert adaptive.holds
    assert not marginal.fails
    assert [claim.verdict for claim in numbers[:2]] == [HOLDS, UNDECIDED]


def test_a_bound_above_epsilon_is_asked_for_again_at_a_higher_level(monkeypatch):
    """With a tenth of the noise every gradient game shows too much, also for all at once."""
    where = adversaries.setting("digits", 120)
    monkeypatch.setattr(adversaries, "noise_multiplier", lambda epsilon: 0.3)
    found = adversaries.play_one("malicious data", 1.0, where, per_world=12)
    assert found.steps.epsilon > found.surely > 1.0
    claim = adversaries.none_above_claim({("malicious data", 1.0): found})
    assert "Above: malicious data at ε = 1." in claim.measured
    assert claim.fails


def test_trainings_are_calibrated_and_of_both_kinds():
    where = adversaries.setting("digits", 120)
    soft, deep = (adversaries.training(4.0, where, hidden) for hidden in (0, 8))
    assert soft.network.n_parameters == 650
    assert deep.network.n_parameters == 64 * 8 + 8 + 8 * 10 + 10
    from dpassay.privacy import account

    assert 3.99 < account(soft.event()).epsilon(1e-5) <= 4.0
    assert where.name == "digits"
    X = np.vstack([where.data.records.X, where.data.others.X])
    assert len(np.unique(X, axis=0)) == 240  # nobody is on both sides


def test_a_convolutional_network_is_for_images(monkeypatch):
    where = adversaries.setting("digits", 120)
    assert adversaries.make_network(where, "cnn").input_shape == (8, 8, 1)
    profiles = made_up_profiles(300, 20, 3, n_train=300)
    monkeypatch.setitem(adversaries.DATA, "location30", ("profiles", lambda: profiles))
    with pytest.raises(InvalidArgument, match="cnn=True is for images"):
        adversaries.make_network(adversaries.setting("location30", 100), "cnn")
    adversaries.setting.cache_clear()


def test_a_game_against_a_convolutional_network():
    where = adversaries.setting("digits", 120)
    found = adversaries.play_one("malicious data", 10.0, where, per_world=6, hidden="cnn")
    assert len(found.game.evidence.scores) == 12
    assert found.free.epsilon <= found.free.ceiling


def test_tasks_of_more_and_more_classes(monkeypatch, tmp_path):
    monkeypatch.setattr(adversaries, "QUERIES", 2)
    monkeypatch.setenv(adversaries.VARIABLE, str(tmp_path))
    assert adversaries.tasks_picture(10, 60) is None
    for name, classes in (("adult", 2), ("location30", 3)):
        (tmp_path / name).mkdir()
        made = made_up_profiles(200, 12, classes, n_train=200)
        monkeypatch.setitem(adversaries.DATA, name, (name, lambda made=made: made))
    adversaries.setting.cache_clear()
    picture = adversaries.tasks_picture(10, 60)
    adversaries.setting.cache_clear()
    assert set(picture.facts) == {"adult", "location30"}
    assert picture.claims[0].verdict in ("holds", "fails", "not decided")


def test_epsilon_of_an_area_is_that_of_the_gaussian_curve():
    for mu in (0.3, 1.0, 4.0):
        found = adversaries.epsilon_of_area(norm.cdf(mu / 2**0.5))
        assert found == pytest.approx(GDP(mu).epsilon(adversaries.DELTA), rel=1e-6)
    assert adversaries.epsilon_of_area(0.4) == 0


def test_data_sets_by_name(monkeypatch, tmp_path):
    monkeypatch.setenv(adversaries.VARIABLE, str(tmp_path))
    assert adversaries.usual_data() == "digits"
    (tmp_path / "mnist").mkdir()
    assert adversaries.usual_data() == "mnist"
    with pytest.raises(InvalidArgument, match=r"data='iris'.*location30"):
        adversaries.run(tmp_path / "out", data="iris")
    with pytest.raises(DatasetMissing, match="location30"):
        adversaries.run(tmp_path / "out", data="location30")
    assert not (tmp_path / "out").exists()  # nothing is begun


def test_rows_have_one_mean_length_whatever_the_data(monkeypatch):
    profiles = made_up_profiles(300, 20, 3, n_train=300)
    monkeypatch.setitem(adversaries.DATA, "location30", ("profiles", lambda: profiles))
    where = adversaries.setting("location30", 100)
    rows = np.vstack([where.data.records.X, where.data.others.X])
    assert np.linalg.norm(rows, axis=1).mean() == pytest.approx(adversaries.LENGTH)
    assert (where.name, where.n_features, where.n_classes) == ("profiles", 20, 3)
    assert adversaries.training(4.0, where, 8).network.n_parameters == 20 * 8 + 8 + 8 * 3 + 3
    adversaries.setting.cache_clear()


def test_the_largest_area_is_that_of_the_best_test():
    """For a Gaussian shift of mu the area is Phi(mu/sqrt 2)."""
    for mu in (0.1, 1.0, 3.0):
        most = adversaries.largest_area(GDP(mu))
        assert norm.cdf(mu / 2**0.5) <= most < norm.cdf(mu / 2**0.5) + 0.002
