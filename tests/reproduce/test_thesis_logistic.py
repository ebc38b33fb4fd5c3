"""Micali 2022, 4.2 and 4.3: data, solvers against the library's, the attack against counting."""

import itertools
import json
import math

import numpy as np
import pytest
from scipy import special

from dpassay.errors import InvalidArgument
from dpassay.optim import frank_wolfe as library
from dpassay.optim.l1_ball import minimise_on_l1_ball
from dpassay.optim.losses import Logistic, Multinomial, Rows
from dpassay.optim.objectives import LinearObjective
from dpassay.optim.polytopes import L1Ball
from dpassay.report.figures import save_all
from dpassay_reproduce.claims import FAILS, HOLDS, UNDECIDED
from dpassay_reproduce.thesis import captions, classifiers, entropy, logistic
from dpassay_reproduce.thesis.boxes import Boxes
from dpassay_reproduce.thesis.classifiers import Records, Softmax
from dpassay_reproduce.thesis.frame import Accuracies, Setting
from rates import assert_rate

MODELS = {"logistic": Softmax(), "reference": Softmax(3), "symmetric": Softmax(3, reference=False)}


def drawn(model, n=60, p=2, copies=3, seed=0, shared=0.3):
    boxes = Boxes(shared, p, model.n_classes)
    return Records.of(*boxes.draw(n, np.random.default_rng(seed), copies), model)


# Data.


@pytest.mark.parametrize("shared", [-0.5, 0.0, 0.2, 0.6, 1.0])
def test_two_boxes_share_that_fraction_of_their_side(shared):
    boxes = Boxes(shared, 3)
    upper, lower = boxes.corners()[:, 0]
    assert (lower + boxes.side - upper) / boxes.side == pytest.approx(shared)
    assert (lower, upper + boxes.side) == pytest.approx((-1, 1))
    X, labels = boxes.draw(1001, np.random.default_rng(0), copies=4)
    assert X.shape == (4, 1001, 3)
    assert np.bincount(labels).tolist() == [501, 500]
    inside = (X[:, labels == 0] <= lower + boxes.side).sum()
    assert_rate(inside, 4 * 501 * 3, max(shared, 0.0))
    for label, low in enumerate((upper, lower)):
        part = X[:, labels == label]
        assert low <= part.min() < low + 0.02
        assert low + boxes.side - 0.02 < part.max() <= low + boxes.side


def test_best_classifier_of_two_boxes_errs_half_of_the_shared_volume():
    boxes = Boxes(0.6, 2)
    X, labels = boxes.draw(20_000, np.random.default_rng(1))
    right = int(((X[0].sum(axis=1) > 0) == (labels == 0)).sum())
    assert boxes.best_accuracy() == 1 - 0.36 / 2
    assert_rate(right, 20_000, boxes.best_accuracy())
    assert Boxes(-0.2, 5).best_accuracy() == 1


def test_three_squares_stay_in_the_plane_and_do_not_touch_with_a_gap():
    apart = Boxes(-0.2, 2, 3)
    corners, side = apart.corners(), apart.side
    for one, other in itertools.combinations(corners, 2):
        assert np.abs(one - other).max() >= side * 1.199
    assert np.ptp(Boxes(1.0, 2, 3).corners(), axis=0) == pytest.approx(0)
    X, labels = Boxes(0.2, 2, 3).draw(300, np.random.default_rng(0))
    assert np.abs(X).max() <= 1
    assert np.bincount(labels).tolist() == [100, 100, 100]


@pytest.mark.parametrize("wrong", [{"shared": 1.1}, {"shared": math.nan}, {"n_features": 0}])
def test_impossible_boxes_are_refused(wrong):
    with pytest.raises(InvalidArgument, match=next(iter(wrong))):
        Boxes(**({"shared": 0.2} | wrong))


def test_three_classes_are_for_the_plane():
    with pytest.raises(InvalidArgument, match="n_classes=3 with n_features=4"):
        Boxes(0.2, 4, 3)
    with pytest.raises(InvalidArgument, match="two classes"):
        Boxes(0.2, 2, 3).best_accuracy()


# Solvers.


def as_library(records, repetition):
    """The same data as the library takes them; class 0 of two is the label 1."""
    labels, rows = records.labels, records.rows[repetition, :, 1:]
    if records.model.n_classes == 2:
        return LinearObjective(Logistic(), Rows(rows), (labels == 0) * 1.0, len(labels))
    return LinearObjective(Multinomial(3), Rows(rows), labels.astype(float), len(labels))


@pytest.mark.parametrize("kind", ["logistic", "symmetric"])
def test_frank_wolfe_without_noise_is_the_library_s(kind):
    records = drawn(MODELS[kind])
    W = classifiers.frank_wolfe(records, np.array([5, 40]), np.zeros(2), "gumbel", None)
    for repetition, (e, steps) in itertools.product(range(3), enumerate((5, 40))):
        objective = as_library(records, repetition)
        ball = L1Ball(objective.dimension, classifiers.RADIUS)
        there = library.frank_wolfe(objective, ball, steps=steps)
        assert W[:, repetition, e].T.ravel() == pytest.approx(there.w, abs=1e-9)


def test_reference_class_gives_the_same_probabilities_as_a_score_of_zero():
    scores = np.random.default_rng(0).normal(size=(2, 5, 4))
    full = special.softmax(np.concatenate([scores, np.zeros((1, 5, 4))]), axis=0)
    assert Softmax(3).probabilities(scores) == pytest.approx(full)
    assert Softmax().probabilities(scores[:1])[0] == pytest.approx(special.expit(scores[0]))


def test_without_privacy_is_near_the_minimum():
    records = drawn(MODELS["logistic"], n=100, copies=2)
    W = classifiers.without_privacy(records, steps=2000)
    for repetition in range(2):
        objective = as_library(records, repetition)
        best = minimise_on_l1_ball(objective, 3, classifiers.RADIUS, tolerance=1e-6)
        here = objective.value(W[:, repetition, 0].T.ravel())
        assert objective.value(best) - 1e-5 <= here <= objective.value(best) + 2e-3


def chosen_well(scale, trials):
    """How often one selection takes one of the best two vertices, and how often at scale 1."""
    records = drawn(MODELS["logistic"], n=10, copies=1)
    many = Records(np.repeat(records.rows, trials, axis=0), records.labels, records.model)
    rng = np.random.default_rng(5)
    W = classifiers.frank_wolfe(many, np.array([1]), np.array([scale]), "gumbel", rng)[0, :, 0]
    gradient = as_library(records, 0).gradient(np.zeros(3))
    vertices = classifiers.RADIUS * np.concatenate([np.eye(3), -np.eye(3)])
    scores = -vertices @ gradient
    best = np.argsort(scores)[-2:]
    hits = sum(int((vertices[i] == W).all(axis=1).sum()) for i in best)
    return hits, special.softmax(scores)[best].sum()


def test_selections_follow_the_exponential_mechanism():
    trials = 40_000
    hits, p = chosen_well(1.0, trials)
    assert_rate(hits, trials, p)
    with pytest.raises(AssertionError, match="chance"):
        assert_rate(chosen_well(0.9, trials)[0], trials, p)


def test_noise_has_its_distribution():
    """P(G <= 0) = 1/e = P(|L| > 1), and P(L > 0) = 1/2."""
    n, rng = 100_000, np.random.default_rng(2)
    gumbel, laplace = (classifiers.NOISES[name](rng, (n,)) for name in ("gumbel", "laplace"))
    assert_rate(int((gumbel <= 0).sum()), n, math.exp(-1))
    assert_rate(int((gumbel <= 2).sum()), n, math.exp(-math.exp(-2)))
    assert_rate(int((np.abs(laplace) > 1).sum()), n, math.exp(-1))
    assert_rate(int((laplace > 0).sum()), n, 0.5)


@pytest.mark.parametrize("noise", ["gumbel", "laplace"])
def test_a_short_run_is_not_changed_by_a_longer_one_beside_it(noise):
    """What ended stays as it is; and noise grows with its own scale alone."""
    records = drawn(MODELS["reference"])
    rng = np.random.default_rng(0)
    W = classifiers.frank_wolfe(records, np.array([3, 50]), np.array([0.0, 9.0]), noise, rng)
    alone = classifiers.frank_wolfe(records, np.array([3]), np.zeros(1), noise, rng)
    assert W[:, :, :1] == pytest.approx(alone)
    assert np.abs(W).sum(axis=(0, 3)).max() <= classifiers.RADIUS + 1e-9


@pytest.mark.parametrize("kind", MODELS)
def test_sgd_takes_the_steps_of_algorithm_1(kind):
    """Replayed record by record: uniform record, noise, step 2R/(G sqrt(t)), projection."""
    model, deviation, radius = MODELS[kind], 0.7, 2.0
    records = drawn(model, copies=1)
    W = classifiers.sgd(
        records, np.array([30]), np.array([deviation]), np.random.default_rng(3), radius
    )
    rng, w = np.random.default_rng(3), np.zeros((model.n_scores, 3))
    bound = math.sqrt(3) * (1 if model.n_scores == 1 else math.sqrt(2))
    size = math.sqrt(bound**2 + w.size * deviation**2)
    for t in range(1, 31):
        i = int(rng.integers(60, size=(1, 1))[0, 0])
        x, y = records.rows[0, i], records.labels[i]
        z = np.append(w @ x, 0.0) if model.reference else w @ x
        residual = (special.softmax(z) - np.eye(model.n_classes)[y])[: model.n_scores]
        noise = deviation * rng.standard_normal((model.n_scores, 1, 1, 3))[:, 0, 0]
        w = w - 2 * radius / (size * math.sqrt(t)) * (np.outer(residual, x) + noise)
        w = w * min(1.0, radius / np.linalg.norm(w))
    assert W[:, 0, 0] == pytest.approx(w)


@pytest.mark.parametrize("kind", MODELS)
def test_gradients_keep_to_the_bounds_that_the_noise_is_scaled_to(kind):
    model, rng = MODELS[kind], np.random.default_rng(0)
    records = drawn(model, n=300, copies=1, shared=1.0)
    largest = []
    for scale in (1.0, 100.0):
        W = scale * rng.normal(size=(model.n_scores, 1, 40, 3))
        scores = W @ records.rows.swapaxes(1, 2)
        residuals = model.residuals(scores, records.targets[:, None, None])
        gradients = residuals[..., None] * records.rows[:, None]
        assert np.abs(gradients).max() <= 1
        largest.append(np.sqrt(np.square(gradients).sum(axis=(0, 4))).max())
    assert 0.8 * model.lipschitz(3) < max(largest) <= model.lipschitz(3)


# The attack.

SMALL = Setting(repetitions=2)


@pytest.fixture(scope="module")
def played():
    return entropy.play(entropy.Experiment(Boxes(0.2), (0.3, 1.0), n_records=40), SMALL)


def test_attack_counts_right_guesses_over_all_candidates(played):
    inside, outside = played.entropies["DP-FW"]
    seen = entropy.attack_entropy(played, "DP-FW")
    assert seen.shape == (2, 2)
    for e, r in itertools.product(range(2), range(2)):
        everyone = np.concatenate([inside[r, e], outside[r, e]])
        right = 0
        for i, value in enumerate(everyone.tolist()):
            right += (value <= everyone.mean()) == (i < 40)
        assert seen[e, r] == right / 80


def test_entropies_are_of_the_predictions_in_bits():
    records = drawn(MODELS["symmetric"], n=6, copies=2)
    W = np.random.default_rng(0).normal(size=(3, 2, 1, 3))
    seen = entropy.entropies(records, W)
    for r, i in itertools.product(range(2), range(6)):
        p = special.softmax([W[k, r, 0] @ records.rows[r, i] for k in range(3)])
        assert seen[r, 0, i] == pytest.approx(special.entr(p).sum() / math.log(2))


def test_the_maximum_calls_all_members_and_shadows_bring_their_own_threshold(played):
    assert (entropy.attack_entropy(played, "DP-SGD", "max") == 0.5).all()
    other = entropy.play(
        entropy.Experiment(Boxes(0.2), (0.3, 1.0), n_records=40, rerun=1000), SMALL
    )
    (inside, outside), (shadow_in, shadow_out) = (
        x.entropies["DP-FW"][:, 1, 0] for x in (played, other)
    )
    cuts = np.concatenate([shadow_in, shadow_out])
    right = [(shadow_in <= c).sum() + (shadow_out > c).sum() for c in cuts]
    tau = entropy.threshold_best(shadow_in, shadow_out)
    assert (shadow_in <= tau).sum() + (shadow_out > tau).sum() == max(right)
    expected = ((inside <= tau).sum() + (outside > tau).sum()) / 80
    assert entropy.attack_entropy(played, "DP-FW", "shadow")[0, 1] == expected


def test_area_is_the_share_of_pairs_in_order(played):
    inside, outside = played.entropies["DP-SGD"][:, :, -1]
    pairs = [
        [(a < b) + (a == b) / 2 for a, b in itertools.product(x, y)]
        for x, y in zip(inside, outside, strict=True)
    ]
    assert entropy.area(played, "DP-SGD") == pytest.approx(np.mean(pairs))


def test_experiments_can_be_replayed_and_rerun(played):
    entropy.play.cache_clear()
    again = entropy.play(played.experiment, SMALL)
    for name, values in played.entropies.items():
        assert np.array_equal(again.entropies[name], values)
    other = entropy.play(entropy.Experiment(Boxes(0.2), (0.3, 1.0), True, 1, 40), SMALL)
    assert not np.array_equal(other.entropies["DP-FW"], played.entropies["DP-FW"])


def test_repetitions_in_blocks_are_the_repetitions(monkeypatch):
    monkeypatch.setattr(entropy, "_BLOCK", 2 * 30 * 5)
    seen = entropy.play(entropy.Experiment(Boxes(0.2, 5), (1.0,), n_records=30), Setting(True, 3))
    assert seen.entropies["DP-SGD"].shape == (2, 3, 1, 30)
    assert len(np.unique(seen.entropies["DP-SGD"].sum(axis=(0, 2, 3)))) == 3


def test_private_models_keep_below_the_ceiling_where_others_do_not():
    """Many features, few records: what is memorised without privacy is not with it."""
    experiment = entropy.Experiment(Boxes(0.6, 400), (0.2,), n_records=50)
    seen = entropy.accuracies(entropy.play(experiment, Setting(repetitions=20)), "DP-FW")
    assert seen.non_private.mean() > seen.ceilings[0] + 0.1
    assert seen.mean[0] < seen.ceilings[0] + 0.03  # four standard errors of 2000 guesses


# What is said.


def made(values, non_private=0.5, epsilons=(0.1, 0.2, 0.5, 1.0)):
    values = np.asarray(values, float)
    x = np.array(epsilons)
    return Accuracies("it", x, values, np.full(values.shape[1], non_private), np.ones(len(x)))


def jitter(means, seed=0):
    return np.asarray(means)[:, None] + 0.005 * np.random.default_rng(seed).normal(size=(4, 10))


@pytest.mark.parametrize(
    ("claim", "verdict"),
    [
        (captions.guesses("", [made(jitter([0.5] * 4))]), HOLDS),
        (captions.guesses("", [made(jitter([0.5, 0.5, 0.5, 0.55]))]), FAILS),
        (captions.guesses("", [made(jitter([0.5, 0.5, 0.5, 0.52]))]), UNDECIDED),
        (captions.look_alike("", made(jitter([0.5] * 4)), made(jitter([0.51] * 4))), HOLDS),
        (captions.look_alike("", made(jitter([0.5] * 4)), made(jitter([0.54] * 4))), FAILS),
        (captions.mostly_below_plain("", made(jitter([0.5] * 4), 0.55)), HOLDS),
        (captions.mostly_below_plain("", made(jitter([0.5] * 4), 0.45)), FAILS),
        (captions.mostly_below_plain("", made(jitter([0.5] * 4), 0.5003)), UNDECIDED),
        (captions.is_above("", "", np.array([0.1, 0.101, 0.102])), HOLDS),
        (captions.is_above("", "", np.array([0.1, 0.101, 0.102]), least=0.2), FAILS),
        (captions.is_above("", "", np.array([0.1, 0.11, 0.12]), least=0.11), UNDECIDED),
        (captions.is_above("", "", np.array([0.1])), UNDECIDED),
        (captions.drops_by("", 0.05, 0.15, *(jitter([x, 0, 0, 0])[0] for x in (0.6, 0.5))), HOLDS),
        (captions.drops_by("", 0.05, 0.15, *(jitter([x, 0, 0, 0])[0] for x in (0.6, 0.6))), FAILS),
    ],
)
def test_claims_are_judged_by_the_numbers(claim, verdict):
    assert claim.verdict == verdict


def test_straight_and_log_like_fits_are_told_apart():
    flat, steep = made(jitter([0.5] * 4)), made(jitter(0.6 + 0.04 * np.log([0.1, 0.2, 0.5, 1.0])))
    assert captions.is_straighter("", flat, steep).holds
    assert captions.is_straighter("", steep, flat).fails
    assert captions.is_straighter("", flat, made(jitter([0.5] * 4, seed=1))).verdict == UNDECIDED


def test_what_settles_sooner_and_what_spreads():
    late, soon = made(jitter([0.6, 0.6, 0.5, 0.5])), made(jitter([0.6, 0.5, 0.5, 0.5]))
    assert captions.find_settling(late) == 0.5
    assert captions.settles_sooner("", soon, late).holds
    assert captions.settles_sooner("", late, late).fails
    few = made(jitter([0.6, 0.5, 0.5, 0.5])[:, :2])
    assert captions.settles_sooner("", few, late).verdict == UNDECIDED
    wide = made(0.5 + (jitter([0.5] * 4) - 0.5) * np.array([[9], [9], [1], [1]]))
    assert captions.wider_at_small("", [wide]).holds
    assert captions.wider_at_small("", [soon]).verdict == UNDECIDED
    assert captions.spreads_more("", wide, soon).holds
    assert captions.spreads_more("", soon, wide).fails


def test_one_repetition_has_no_error_and_shows_no_difference():
    claim = captions.is_above("It is more.", "it is", np.array([0.3]))
    said = "it is 30.0 % (too few repetitions for an interval)."
    assert (claim.verdict, claim.measured) == (UNDECIDED, said)
    one = made(jitter([0.5] * 4)[:, :1])
    assert captions.is_straighter("", one, one).verdict == UNDECIDED
    assert "inf" not in captions.mostly_below_plain("", one).measured


# Figures.


def test_figures_are_those_of_the_sections():
    names = [f"4.{k}" for k in range(9, 16)] + ["4.3-band"] + [f"4.{k}" for k in range(16, 21)]
    assert list(logistic.FIGURES) == names


@pytest.mark.parametrize("name", ["4.9", "4.12", "4.13", "4.16", "4.17", "4.18", "4.20"])
def test_figure_with_its_numbers_and_claims(name, monkeypatch):
    monkeypatch.setattr(logistic, "MANY", 40)
    picture = logistic.FIGURES[name](Setting(True, 3))
    assert picture.name == name
    assert np.shape(picture.curves["DP-FW"]["accuracy"]) == (12, 3)
    assert np.shape(picture.curves["target"]["DP-FW"]) == (12, 3)
    assert picture.claims
    assert all(claim.text and claim.criterion and claim.measured for claim in picture.claims)
    if name == "4.18":
        assert [claim.holds for claim in picture.claims] == [True]


def test_numbers_and_claims_are_written(tmp_path):
    picture = logistic.figure_4_16(Setting(True, 2))
    save_all([picture], tmp_path, title="t", introduction="i")
    written = json.loads((tmp_path / "numbers.json").read_text(encoding="utf-8"))["4.16"]
    assert written["curves"]["DP-SGD"]["accuracy"] == picture.curves["DP-SGD"]["accuracy"].tolist()
    assert [claim["verdict"] for claim in written["claims"]] == [c.verdict for c in picture.claims]


def test_the_band_of_section_4_3():
    """Half of what the section says of it is the wrong way round, whatever the seed."""
    for seed in (0, 1):
        picture = logistic.FIGURES["4.3-band"](Setting(seed=seed))
        assert [claim.verdict for claim in picture.claims] == [HOLDS, FAILS, FAILS, HOLDS]
    width = picture.facts["half_width_0.8"]
    p = special.expit(4 * width)
    assert (special.entr(p) + special.entr(1 - p)) / math.log(2) == pytest.approx(0.8, abs=0.01)


def test_by_default_frank_wolfe_learns_more_than_literally():
    """The document's noise grows with epsilon; over ten other seeds .96 or more, .66 or less."""
    experiment = entropy.Experiment(Boxes(0.2, 10), (1.0,))
    proved, literal = (
        entropy.play(experiment, Setting(literal, 5)).targets["DP-FW"].mean()
        for literal in (False, True)
    )
    assert proved > 0.9
    assert literal < 0.8
