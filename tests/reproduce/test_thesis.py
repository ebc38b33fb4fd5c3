"""Chapter 4 of Micali 2022: the noise is what is claimed, and trainings in lockstep are right."""

import json
import math

import numpy as np
import pytest
from scipy import special

from dpassay.attacks.counters import share_in_lower_half, sorted_half_accuracy
from dpassay.errors import InvalidArgument
from dpassay.optim.frank_wolfe import frank_wolfe
from dpassay.optim.gradient import step_event
from dpassay.optim.l1_ball import project_l1
from dpassay.optim.polytopes import L1Ball
from dpassay.privacy import account
from dpassay_reproduce import slides, thesis
from dpassay_reproduce.claims import UNDECIDED, Claim
from dpassay_reproduce.thesis import linear, noise, regression
from dpassay_reproduce.thesis.frame import Accuracies, Setting
from rates import assert_rate

LITERAL = Setting(literal=True)


# The setting.


def test_delta_of_the_document_underflows_and_its_logarithm_does_not():
    """N = 1000: .368 at .1, 1.9e-12 at .3, 0 in floats at 1 (seeds, 5.3)."""
    assert LITERAL.delta(0.1, 1000) == pytest.approx(0.368, abs=1e-3)
    assert LITERAL.delta(0.3, 1000) == pytest.approx(1.9e-12, rel=0.02)
    assert LITERAL.delta(1.0, 1000) == 0
    assert LITERAL.log_inverse_delta(1.0, 1000) == 1000
    assert Setting().delta(1.0, 1000) == pytest.approx(1e-6)


def test_ceiling():
    """(e + delta)/(1 + e) = .7311 at epsilon = 1; delta = 1 at epsilon = 0 allows everything."""
    assert Setting().ceiling(1.0, 1000) == pytest.approx((math.e + 1e-6) / (1 + math.e))
    assert LITERAL.ceiling(1e-9, 1000) == pytest.approx(1)


@pytest.mark.parametrize("wrong", [{"repetitions": 0}, {"seed": -1}, {"repetitions": math.nan}])
def test_settings_are_checked(wrong):
    with pytest.raises(InvalidArgument, match=next(iter(wrong))):
        Setting(**wrong)


# The noise.


def test_noise_of_the_document_grows_with_epsilon():
    """16 sqrt(2) L0 C1 epsilon and L sqrt(8 epsilon N), whatever N does to delta."""
    epsilons = [0.25, 1.0, 4.0]
    scales = noise.selection_scales(LITERAL, epsilons, 1000, lipschitz=2.0, radius=3.0)
    assert scales == pytest.approx(16 * math.sqrt(2) * 6 * np.array(epsilons))
    deviations = noise.gradient_deviations(LITERAL, epsilons, 1000, lipschitz=2.0)
    assert deviations == pytest.approx(2 * np.sqrt(8000 * np.array(epsilons)))


def test_noise_by_default_falls_with_epsilon():
    """Gumbel selections, T = 1000, delta = 1e-6: .143279 for sensitivity 1/N (seeds, 5.5)."""
    scales = noise.selection_scales(Setting(), [0.5, 1.0], 1000, lipschitz=1.0, radius=1.0)
    assert scales[1] == pytest.approx(2 * 0.143279, rel=1e-4)
    assert scales[0] > scales[1]


@pytest.mark.parametrize("epsilon", [0.1, 1.0])
def test_noise_of_sgd_meets_epsilon_and_not_much_more(epsilon):
    (deviation,) = noise.gradient_deviations(Setting(), [epsilon], 300, lipschitz=0.5)

    def spent(noise_multiplier):
        steps = round(300 * epsilon)
        event = step_event("l2", noise_multiplier, 1 / 300, steps, "replace-one")
        return account(event, "pld").epsilon(1e-6)

    assert spent(deviation) <= epsilon
    assert spent(0.95 * deviation) > epsilon


def test_noise_kept_for_ten_thousand_records_is_what_the_search_finds():
    """At epsilon = 1, where a price is quick."""
    deviations = noise.gradient_deviations(Setting(), np.arange(1, 21) / 20, 10_000, lipschitz=0.5)
    assert noise.meets(deviations[-1], 1.0, 10_000, 10_000)
    assert not noise.meets(deviations[-1] / 1.02, 1.0, 10_000, 10_000)
    assert (np.diff(deviations) <= 0).all()


# Trainings.


@pytest.fixture(scope="module")
def data():
    return regression.sample(Setting(repetitions=3), 40)


def test_data_keep_the_bounds_that_privacy_needs(data):
    assert np.abs(data.rows).max() <= 1
    assert np.abs(data.labels).max() <= regression.LABEL_BOUND
    assert np.abs(data.truth).sum() == pytest.approx(regression.RADIUS)
    vertex = np.zeros(1 + regression.FEATURES)
    vertex[3] = -regression.RADIUS
    gradients = (data.rows @ vertex - data.labels)[..., None] * data.rows
    assert np.abs(gradients).max() <= regression.L0
    assert np.linalg.norm(gradients, axis=2).max() <= regression.L2


def test_losses_by_moments_are_the_mean_losses(data):
    W = np.random.default_rng(0).normal(size=(3, 4, 1 + regression.FEATURES))
    assert data.training_losses(W) == pytest.approx(data.losses(W)[..., :40].mean(axis=2))
    step = 1e-6 * np.eye(1 + regression.FEATURES)[5]
    slope = (data.training_losses(W + step) - data.training_losses(W - step)) / 2e-6
    assert data.gradients(W)[..., 5] == pytest.approx(slope, abs=1e-6)


def test_projection_is_that_of_single_vectors():
    W = np.random.default_rng(1).normal(size=(4, 5, 7)) * np.array([0.05, 0.3, 1, 5])[:, None, None]
    found = regression.onto_l1_ball(W, 1.0)
    for index in np.ndindex(4, 5):
        assert found[index] == pytest.approx(project_l1(W[index], 1.0), abs=1e-12)


def test_frank_wolfe_in_lockstep_is_frank_wolfe(data):
    """Without noise, for runs of different lengths; the other one is dpassay.optim's."""
    W = regression.frank_wolfe(
        data, np.array([1, 7, 30]), np.zeros(3), "gumbel", np.random.default_rng(0)
    )
    A, b, c = data.moments
    for r in range(3):
        objective = regression.MeanLoss(A[r], b[r], float(c[r]))
        for e, steps in enumerate((1, 7, 30)):
            alone = frank_wolfe(objective, L1Ball(1 + regression.FEATURES, 1.0), steps=steps)
            assert W[r, e] == pytest.approx(alone.w, abs=1e-12)


@pytest.mark.parametrize("kind", ["gumbel", "laplace"])
def test_the_first_vertex_is_chosen_as_often_as_the_noise_says(kind):
    """The probability of the best one; noise 10 % too small is noticed."""
    data, runs = regression.sample(Setting(repetitions=1), 40), 60_000
    products = data.gradients(np.zeros((1, 1, 1 + regression.FEATURES)))[0, 0]
    scores = np.concatenate([-products, products])
    scale = 0.2 * np.ptp(scores)
    best = int(scores.argmax())
    p = _chance_of_best(kind, scores / scale, best)

    def hits(factor):
        W = regression.frank_wolfe(
            data, np.ones(runs, int), np.full(runs, factor * scale), kind, Setting(seed=5).rng(0)
        )
        negative, at = divmod(best, 1 + regression.FEATURES)
        return int((W[0, :, at] == (1 - 2 * negative)).sum())

    assert_rate(hits(1.0), runs, p)
    with pytest.raises(AssertionError):
        assert_rate(hits(0.9), runs, p)


def _chance_of_best(kind, scores, best):
    if kind == "gumbel":
        return float(special.softmax(scores)[best])
    x = np.linspace(-40, 40, 200_001)
    cdf = np.where(x < 0, np.exp(np.minimum(x, 0)) / 2, 1 - np.exp(-np.maximum(x, 0)) / 2)
    others = np.delete(scores, best) - scores[best]
    below = np.prod([np.interp(x - o, x, cdf) for o in others], axis=0)
    return float(np.trapezoid(np.exp(-np.abs(x)) / 2 * below, x))


def test_sgd_has_the_noise_and_the_step_that_it_says(monkeypatch):
    """One step from 0 with so much noise that the gradient is nothing; 10 % less is noticed."""
    monkeypatch.setattr(regression, "onto_l1_ball", lambda W, radius: W)
    data, d = regression.sample(Setting(repetitions=4), 40), 1 + regression.FEATURES
    runs, sigma = 200, 1e5
    W = regression.sgd(data, np.ones(runs, int), np.full(runs, sigma), np.random.default_rng(3))
    noise_seen = W * math.sqrt(regression.L2**2 + d * sigma**2) / (2 * regression.RADIUS)

    def tail(deviation):
        total, n = float(np.square(noise_seen / deviation).sum()), W.size
        return 2 * min(special.chdtr(n, total), special.chdtrc(n, total))

    assert tail(sigma) > 1e-9
    assert tail(sigma / 0.9) < 1e-9


def test_sgd_without_noise_comes_close_to_the_minimum():
    data = regression.sample(Setting(repetitions=2), 400)
    W = regression.sgd(data, np.array([4000]), np.zeros(1), np.random.default_rng(0))
    least = data.training_losses(regression.without_privacy(data))
    untrained = data.training_losses(np.zeros_like(W))
    assert (data.training_losses(W) - least < 0.5 * (untrained - least)).all()
    assert (np.abs(W).sum(axis=2) <= regression.RADIUS + 1e-12).all()


def test_minimisers_inside_and_on_the_boundary_of_the_ball(data):
    """No vertex is downhill; with 51 weights and 40 records least squares lies outside."""
    many = regression.sample(Setting(repetitions=6, seed=1), 3000)
    inside = [
        np.abs(np.linalg.solve(A, b)).sum() <= 1 for A, b in zip(*many.moments[:2], strict=True)
    ]
    for sample in (data, many):
        W = regression.without_privacy(sample)
        gradients = sample.gradients(W)
        gaps = np.vecdot(gradients, W) + np.abs(gradients).max(axis=2)
        assert (gaps < 1e-7).all()
        assert (np.abs(W).sum(axis=2) <= 1 + 1e-9).all()
    assert len(set(inside)) == 2


# The attack.


def test_accuracies_are_those_of_the_counter():
    losses = np.random.default_rng(2).exponential(size=(3, 4, 20))
    found = share_in_lower_half(losses)
    for index in np.ndindex(3, 4):
        one = losses[index]
        assert found[index] == sorted_half_accuracy(one[:10], one[10:])


def test_attack_finds_members_of_overfitted_models_and_none_where_nothing_was_learned():
    """Right guesses of one repetition are hypergeometric, lighter in the tails than binomial."""
    data = regression.sample(Setting(repetitions=20), 100)
    nothing = share_in_lower_half(data.losses(np.zeros((20, 1, 1 + regression.FEATURES))))
    assert_rate(round(nothing.sum() * 100), 20 * 100, 0.5)
    best = share_in_lower_half(data.losses(regression.without_privacy(data)))
    with pytest.raises(AssertionError):
        assert_rate(round(best.sum() * 100), 20 * 100, 0.5)


# The claims.


def experiment(values, excess=None):
    epsilons = np.arange(1, len(values) + 1) / len(values)
    seen = Accuracies("DP-FW", epsilons, values, np.full(values.shape[1], 0.53), epsilons)
    excess = np.ones_like(values) if excess is None else excess
    return linear.Experiment(seen, excess, excess, np.full(len(values), 2.0), 1.0, math.nan)


@pytest.fixture
def flat():
    return experiment(0.5 + 0.001 * np.random.default_rng(0).normal(size=(20, 10)))


@pytest.fixture
def rising(flat):
    return experiment(flat.seen.values + 0.01 * np.log(flat.seen.epsilons)[:, None] + 0.02)


def test_fit_finds_a_planted_trend(flat, rising):
    assert rising.seen.fit[1] - flat.seen.fit[1] == pytest.approx(0.01)
    assert rising.seen.fit_at(1.0) == pytest.approx(0.52, abs=0.001)
    assert rising.seen.slopes.std() < 0.001


def test_claims_hold_and_fail_as_they_should(flat, rising):
    assert linear._log_trend(rising).holds
    assert linear._log_trend(flat).verdict == UNDECIDED
    assert linear._converges(rising).holds
    assert linear._converges(flat).verdict == UNDECIDED
    assert linear._most_below(rising).holds
    assert linear._most_below(experiment(flat.seen.values + 0.1)).fails
    assert linear._most_in_band(flat).holds
    assert linear._most_in_band(experiment(flat.seen.values + 0.1)).fails
    assert linear._below_bound(flat).holds
    assert linear._below_bound(experiment(flat.seen.values, 3 * flat.excess)).fails
    assert linear._less_evident(rising, experiment(2 * rising.seen.values)).holds
    assert linear._less_evident(flat, rising).verdict == UNDECIDED
    assert linear._less_evident(experiment(2 * rising.seen.values), rising).fails


def test_fluctuations_and_levels(flat):
    rough = flat.seen.values.copy()
    rough[:4] = 0.5 + 5 * (rough[:4] - 0.5)
    assert linear._fluctuates(experiment(rough), 0.2, "").holds
    assert linear._fluctuates(flat, 0.2, "").verdict == UNDECIDED
    long = np.concatenate([flat.seen.values] * 5)
    seen = Accuracies("DP-FW", np.arange(1, 101) / 20, long, long[0], long[:, 0])
    level = linear.Experiment(seen, long, long, long[:, 0], 1.0, math.nan)
    assert linear._level(level, 3.0).holds
    long[60:] += 0.01
    assert linear._level(level, 3.0).fails


def test_a_slower_and_a_wider_one(flat):
    falling = experiment(flat.seen.values, np.geomspace(1, 0.1, 20)[:, None] * np.ones((20, 10)))
    assert linear._slower(flat, falling).holds
    assert linear._slower(falling, flat).fails
    wide = experiment(0.5 + 3 * (flat.seen.values - 0.5))
    assert linear._claim_shrinkage(flat, wide).holds
    assert linear._claim_shrinkage(wide, flat).fails


# The run.


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    folder = tmp_path_factory.mktemp("thesis")
    files = thesis.run(folder, figure="4.5", literal=True, repetitions=3)
    return folder, files, json.loads((folder / "numbers.json").read_text(encoding="utf-8"))


def test_one_figure_with_its_claims(drawn):
    folder, files, numbers = drawn
    assert [path.name for path in files] == ["figure-4.5.svg", "numbers.json", "index.html"]
    found = numbers["figure-4.5"]
    assert np.shape(found["curves"]["fw"]["accuracy"]) == (20, 3)
    assert found["facts"]["printed_counter"] == pytest.approx(0.5, abs=0.05)
    page = (folder / "index.html").read_text(encoding="utf-8")
    assert len(found["claims"]) == 3
    for claim in found["claims"]:
        assert str(Claim(**claim)).replace("'", "&#x27;") in page
    assert "drawn with --literal" in page


def test_runs_are_the_same_twice_and_other_seeds_are_not(drawn):
    numbers = drawn[2]["figure-4.5"]["curves"]["fw"]
    linear.experiment.cache_clear()
    again, other = (
        linear.experiment(Setting(True, 3, seed), "fw", 1000, 1.0, 20).seen.values
        for seed in (0, 1)
    )
    assert again.tolist() == numbers["accuracy"]
    assert other.tolist() != numbers["accuracy"]


def test_what_was_drawn_is_kept_when_a_run_is_stopped(tmp_path, monkeypatch, drawn):
    def stop(setting):
        raise KeyboardInterrupt

    shown = []
    monkeypatch.setattr(thesis, "figures", lambda: {"4.5": linear.figure_5, "4.6": stop})
    with pytest.raises(KeyboardInterrupt):
        thesis.run(tmp_path, literal=True, repetitions=3, progress=shown.append)
    assert shown == ["figure 4.5", "figure 4.6"]
    kept = {path.name for path in tmp_path.iterdir()}
    assert kept == {"figure-4.5.svg", "numbers.json", "index.html"}


def test_unknown_figures_are_refused_with_the_names(tmp_path):
    with pytest.raises(InvalidArgument, match=r"figure='5\.1' must be one of '4\.1'"):
        thesis.run(tmp_path, figure="5.1")
    with pytest.raises(InvalidArgument, match="loss-laplace of 'dpassay reproduce slides'"):
        thesis.run(tmp_path, figure="1.1")
    assert set(thesis.ELSEWHERE.values()) < set(slides.TEXTS)


def test_figures_are_named_once_and_in_order():
    names = list(thesis.figures())
    assert names[:8] == [f"4.{k}" for k in range(1, 9)]
    assert len(set(names)) == len(names)
