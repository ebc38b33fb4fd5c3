"""Attacks on real data, played small on made-up data; what stands in where data are missing."""

import dataclasses
import json
import math

import numpy as np
import pytest

from dpassay import datasets
from dpassay.datasets import made_up_profiles
from dpassay.report.figures import save_all
from dpassay_reproduce.thesis import real
from rates import assert_rate

FEW = {"online": 4, "offline": 4, "learned": 4}


def small(n=1200, n_features=80, n_classes=4):
    data = made_up_profiles(n, n_features, n_classes, n_train=n)
    scale = math.sqrt(n_features)
    return real.Table("small", data.X_train * scale, data.y_train, scale, n_classes, "made up")


TABLE = small()


@pytest.fixture(scope="module")
def shown():
    return real.picture("small", TABLE, 400, **FEW)


def test_the_coins_are_fair_and_nobody_is_dealt_twice():
    rows = np.arange(5000)
    table = dataclasses.replace(TABLE, X=rows[:, None] * 1.0, y=rows)
    game = real.deal(table, 2000, seed=3)
    assert_rate(len(game.members[1]), 2000, 0.5)
    parts = [game.members, game.others, game.own, game.reference]
    assert [len(y) for _, y in parts[2:]] == [2000, 1000]
    np.testing.assert_array_equal(np.sort(np.concatenate([y for _, y in parts])), rows)
    for X, y in [*parts, game.candidates]:
        np.testing.assert_array_equal(X[:, 0], y)
    assert not np.array_equal(game.members[1], real.deal(table, 2000, seed=4).members[1])


def test_the_private_training_does_not_tell_how_many_coins_came_up():
    """Its divisors are those of half of the candidates, its classes are declared."""
    game = real.deal(TABLE, 400)
    few = game.members[0][:20], np.zeros(20, int)
    model = real.trainings(TABLE, 400)["ε = 1"](*few, np.random.default_rng(0))
    assert (model.n_records, model.classes_.tolist()) == (200, [0, 1, 2, 3])
    assert model.privacy_.epsilon(real.DELTA) <= 1
    assert model.privacy_.neighbouring == "add-remove"


def test_the_picture_says_what_was_found(shown, tmp_path):
    white_box, likelihood, kept = shown.claims
    assert not white_box.fails
    assert kept.holds
    plain = shown.curves["no privacy"]
    lira, loss = (plain["auc"][plain["attack"].index(name)] for name in ("LiRA, k = 4", "loss"))
    assert lira[1] > loss[1]
    assert likelihood.holds == (lira[0] > loss[2])
    on_members, on_others = list(shown.facts.values())[:2]
    assert on_members > on_others + 0.1  # it has learned by heart
    assert "made up" in shown.caption
    save_all([shown], tmp_path, title="t", introduction="i")
    numbers = json.loads((tmp_path / "numbers.json").read_text())["small"]
    for found in numbers["curves"].values():
        assert "LiRA offline, k = 4" in found["attack"]
        assert {len(column) for column in found.values()} == {len(found["attack"])}
    best = [max(value for _, value, _ in c["auc"]) for c in numbers["curves"].values()]
    assert best == sorted(best, reverse=True)  # less privacy, more to see
    assert "ε is at least" in (tmp_path / "small.svg").read_text(encoding="utf-8")


def test_it_is_the_same_again(shown):
    game = real.deal(TABLE, 400)
    target = real.prepare(game, real.trainings(TABLE, 400)["ε = 8"], **FEW)
    given = dict(real.attacks(target))["LiRA, k = 4"]
    found = shown.curves["ε = 8"]
    at = found["attack"].index("LiRA, k = 4")
    assert found["auc"][at][1] == target.attack(**given).auc.value


def test_the_mutant_that_leaves_the_noise_out_is_caught():
    """Scikit-learn's regression in the place of the private one: the claim at epsilon 1 fails."""
    plain = dataclasses.replace(real.trainings(TABLE, 400)["ε = 1"], epsilon=math.inf)
    target = real.prepare(real.deal(TABLE, 400), plain, **FEW)
    found = {name: target.attack(**given) for name, given in real.attacks(target)}
    results = dict.fromkeys((real.PLAIN, *real.EPSILONS), found)
    assert real._holds(results).fails


def test_shadows_are_kept(tmp_path):
    game, store = real.deal(TABLE, 100), tmp_path / "shadows.db"
    train = real.trainings(TABLE, 100)["ε = 8"]
    numbers = dict.fromkeys(FEW, 2)
    first, again = (real.prepare(game, train, **numbers, store=store) for _ in range(2))
    np.testing.assert_array_equal(first.online.outputs.vectors, again.online.outputs.vectors)
    assert not first.offline.inside.any()
    assert first.learned.features is not None
    assert len(real.first(first.online, 1)) == 1


def test_what_stands_in_is_named(tmp_path, monkeypatch):
    def offline(**_):
        raise OSError("no network")

    monkeypatch.setattr("sklearn.datasets.fetch_openml", offline)
    monkeypatch.setenv(datasets.VARIABLE, str(tmp_path))
    profiles, digits = real.location30(), real.mnist()
    assert "made-up" in profiles.about
    assert profiles.X.shape == (5010, 446)
    assert "scikit-learn's digits" in digits.about
    for table in (profiles, digits):
        norms = np.linalg.norm(table.X, axis=1)
        assert norms.max() <= table.data_norm * (1 + 1e-9)
        assert set(table.y) == set(range(table.n_classes))


def test_the_files_are_read_where_they_are(tmp_path, monkeypatch):
    (tmp_path / "location30").mkdir()
    row = ",".join(["1"] + ["0"] * 445)
    (tmp_path / "location30" / "location30.csv").write_text(f'"1",{row}\n"30",{row}\n')
    monkeypatch.setenv(datasets.VARIABLE, str(tmp_path))
    table = real.location30()
    assert table.about == "Location-30"
    assert sorted(table.y) == [0, 29]
    np.testing.assert_array_equal(table.X.sum(axis=1), [1, 1])


def test_the_figures_have_names():
    assert list(real.FIGURES) == ["location30", "mnist"]
