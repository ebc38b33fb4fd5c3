"""Planted leakage: every attack beside its theory; no leakage: no attack finds any."""

import numpy as np
import pytest
from scipy import integrate
from scipy.special import expit, ndtr, ndtri
from scipy.stats import norm

import dpassay as da
from attacks.planted import AUC, SHIFT, Planted, outputs, vectors
from dpassay.attacks import METHODS, Shadows, attack, white_box_features
from dpassay.attacks.scores import METRICS
from dpassay.errors import InvalidArgument
from rates import assert_rate_at_most

SURE = 1 - 1e-9  # all intervals of a result hold together but once in a billion
EVEN = Planted()
UNEVEN = Planted(spread=3.0, seed=1)
HALF = 2000


def folded_auc():
    """P(|a| > |b|), a = SHIFT plus noise and b noise: what confidence and entropy can see."""

    def at(x):
        return (norm.pdf(x, SHIFT) + norm.pdf(-x, SHIFT)) * (ndtr(x) - ndtr(-x))

    return integrate.quad(at, 0, 12)[0]


def tpr_of_shift(fpr, shift=SHIFT):
    return ndtr(ndtri(fpr) + shift)


@pytest.mark.parametrize("metric", ["loss", "modified-entropy"])
def test_metrics_that_order_like_log_odds(metric):
    found = attack(None, *EVEN.sides(), method=metric, confidence=SURE)
    assert found.auc.lower < AUC < found.auc.upper
    assert found.advantage.lower < 2 * ndtr(SHIFT / 2) - 1 < found.advantage.upper
    assert found.accuracy.lower < ndtr(SHIFT / 2) < found.accuracy.upper
    for fpr in (0.001, 0.01):
        assert found.tpr_at[fpr].lower < tpr_of_shift(fpr) < found.tpr_at[fpr].upper
    assert found.significant
    # The intervals are narrow enough to tell a leak of half the size.
    assert found.auc.lower > ndtr(SHIFT / 2 / np.sqrt(2))
    assert found.tpr_at[0.01].lower > tpr_of_shift(0.01, SHIFT / 2) / 2


@pytest.mark.parametrize("metric", ["confidence", "entropy"])
def test_metrics_without_labels_see_the_size_only(metric):
    case = Planted(k=2, mean=0.0, seed=2)
    found = attack(None, *case.sides(), method=metric, confidence=SURE)
    assert found.auc.lower < folded_auc() < found.auc.upper
    assert found.auc.upper < AUC


def test_correctness():
    case = Planted(k=2, mean=0.0, seed=3)
    found = attack(None, *case.sides(), method="correctness", confidence=SURE)
    assert found.tpr.lower < ndtr(SHIFT) < found.tpr.upper
    assert found.fpr.lower < 0.5 < found.fpr.upper
    assert found.accuracy.lower < (ndtr(SHIFT) + 0.5) / 2 < found.accuracy.upper
    assert found.accuracy.method == "clopper-pearson"


def test_a_model_that_is_always_right_is_no_error():
    p = np.array([[0.9, 0.1], [0.8, 0.2]])
    found = attack(None, (p, [0, 0]), (p, [0, 0]), method="correctness")
    assert found.auc.value == 0.5
    assert not found.significant


def auc_by_simulation(score, n=400_000):
    rng = np.random.default_rng(7)
    inside, outside = (np.sort(score(rng, n, SHIFT * world)) for world in (1, 0))
    return np.searchsorted(outside, inside).mean() / n


def rmia(rng, n, shift, online, spread=3.0, m=8, a=0.3):
    center = 1 + spread * rng.normal(size=n)
    within = expit(center + SHIFT + rng.normal(size=(m, n))).mean(axis=0)
    without = expit(center + rng.normal(size=(m, n))).mean(axis=0)
    average = (within + without) / 2 if online else ((1 + a) * without + 1 - a) / 2
    return expit(center + shift + rng.normal(size=n)) / average


THEORY = {
    # The shift is the same for all records, so that all 16 shadows tell what is usual for one.
    "lira": lambda: ndtr(SHIFT / np.sqrt(2 * (1 + 1 / 16))),
    "lira-offline": lambda: ndtr(SHIFT / np.sqrt(2 * (1 + 1 / 8))),
    "rmia": lambda: auc_by_simulation(lambda *a: rmia(*a, online=True), 50_000),
    "rmia-offline": lambda: auc_by_simulation(lambda *a: rmia(*a, online=False), 50_000),
}


@pytest.mark.parametrize("method", THEORY)
def test_shadows_remove_what_differs_between_records(method):
    shadows = UNEVEN.shadows()
    found = attack(None, *UNEVEN.sides(), method=method, shadows=shadows, confidence=SURE)
    assert found.auc.lower < THEORY[method]() < found.auc.upper
    plain = attack(None, *UNEVEN.sides(), confidence=SURE)
    assert plain.auc.lower < ndtr(SHIFT / np.sqrt(2 * (1 + 9))) < plain.auc.upper
    assert found.auc.lower > plain.auc.upper


def test_lira_is_far_better_at_low_false_positive_rates():
    found, plain = (
        attack(None, *UNEVEN.sides(), method=m, shadows=UNEVEN.shadows()).tpr_at[0.01]
        for m in ("lira", "loss")
    )
    assert found.lower > plain.upper


def test_lira_cuts_at_even_odds():
    """With the means known it would be right with probability Phi(SHIFT / 2)."""
    found = attack(None, *UNEVEN.sides(), method="lira", shadows=UNEVEN.shadows(), confidence=SURE)
    assert found.cut.value == 0
    assert found.accuracy.lower < ndtr(SHIFT / 2) - 0.01 < found.accuracy.upper


def test_the_mutant_with_in_and_out_exchanged_is_caught():
    swapped = Shadows(UNEVEN.shadows().outputs, 1 - UNEVEN.inside)
    found = attack(None, *UNEVEN.sides(), method="lira", shadows=swapped, confidence=SURE)
    assert found.auc.upper < 0.5 < THEORY["lira"]()


@pytest.mark.parametrize(
    "options", [{}, {"learner": "mlp"}, {"per_class": True}], ids=["boosting", "mlp", "per class"]
)
def test_attack_models_learn_the_leak(options):
    case = Planted(n=HALF, n_shadows=2, seed=5)
    found = attack(
        None, *case.sides(), method="shadow", shadows=case.shadows(), confidence=SURE, **options
    )
    assert found.auc.lower < AUC < found.auc.upper
    assert found.accuracy.lower < ndtr(SHIFT / 2) < found.accuracy.upper
    assert found.cut.value == 0


def test_records_that_no_shadow_used_teach_nothing():
    """The disjoint design: most records are unused by a given shadow, and here they mislead."""
    case = Planted(n=HALF, n_shadows=4, seed=5)
    unused = np.arange(4)[:, None] // 2 != np.arange(2 * HALF) % 2
    misleading = np.where(unused, 30.0 * (1 - case.inside), case.shadow_phi)
    inside = np.where(unused, -1, case.inside)
    shadows = Shadows(outputs(misleading, case.labels), inside)
    found = attack(None, *case.sides(), method="shadow", shadows=shadows, confidence=SURE)
    assert found.auc.lower < AUC < found.auc.upper
    cut = attack(None, *case.sides(), threshold="shadow", shadows=shadows, confidence=SURE)
    assert cut.accuracy.lower < ndtr(SHIFT / 2) < cut.accuracy.upper


class Lookup:
    """A model whose log odds for a record are written down: X holds (covariate, number)."""

    def __init__(self, phi):
        self.phi = phi

    def predict_proba(self, X):
        return vectors(self.phi[X[:, 1].astype(int)], np.zeros(len(X), int), 2)


def test_quantile_regression_adapts_to_the_record():
    n = HALF
    rng = np.random.default_rng(6)
    center = rng.normal(scale=3.0, size=4 * n)
    phi = center + SHIFT * (np.arange(4 * n) < n) + rng.normal(size=4 * n)
    X, y = np.column_stack([center, np.arange(4 * n)]), np.zeros(4 * n, int)
    X_shown = X.copy()
    parts = [(X_shown[i], y[i]) for i in (slice(n), slice(n, 2 * n), slice(2 * n, None))]
    found = attack(
        Lookup(phi), *parts[:2], method="quantile", reference=parts[2], alpha=0.1, confidence=SURE
    )
    assert found.auc.lower < AUC < found.auc.upper
    assert found.fpr.lower < 0.1 < found.fpr.upper
    assert found.tpr.lower < tpr_of_shift(0.1) < found.tpr.upper
    assert attack(Lookup(phi), *parts[:2]).auc.upper < found.auc.lower


def test_white_box_sees_what_outputs_hide():
    n, rng = HALF, np.random.default_rng(8)
    member = np.arange(2 * n) < n
    X, y = np.column_stack([np.zeros(2 * n), np.arange(2 * n)]), np.zeros(2 * n, int)
    case = Planted(n=n, n_shadows=2, shift=0.0, seed=8, k=2)
    inner = (SHIFT * case.inside + rng.normal(size=case.inside.shape))[..., None]
    shadows = Shadows(case.shadows().outputs, case.inside, inner)
    hidden = SHIFT * member + rng.normal(size=2 * n)
    sides = (X[:n], y[:n]), (X[n:], y[n:])
    given = {"shadows": shadows, "confidence": SURE}
    target = Lookup(case.phi)
    black = attack(target, *sides, method="shadow", **given)
    white = attack(target, *sides, method="white-box", features=lambda *_: hidden[:, None], **given)
    assert white.auc.lower < AUC < white.auc.upper
    assert black.auc.lower < 0.5 < black.auc.upper
    assert not black.significant
    assert white.significant


# A model that never saw the data.


class Honest:
    """Everything that the attacks need, around a model that was trained elsewhere."""

    def __init__(self, n=150, seed=0):
        from sklearn.linear_model import LogisticRegression

        rng = np.random.default_rng(seed)
        X = rng.normal(size=(4 * n, 4))
        y = (X[:, 0] + rng.normal(size=4 * n) > 0).astype(int)
        self.model = LogisticRegression().fit(X[:n], y[:n])
        self.sides = [(X[i : i + n], y[i : i + n]) for i in (n, 2 * n)]
        self.reference = X[3 * n :], y[3 * n :]
        self.data = X[n : 3 * n], y[n : 3 * n]


def test_no_attack_finds_what_is_not_there():
    from sklearn.linear_model import LogisticRegression

    from dpassay.attacks import train_shadows

    case = Honest()
    shadows = train_shadows(
        lambda X, y, rng: LogisticRegression().fit(X, y),
        case.data,
        n_shadows=8,
        features=white_box_features,
    )
    for method in METHODS:
        found = attack(
            case.model,
            *case.sides,
            method=method,
            shadows=shadows,
            reference=case.reference,
            confidence=SURE,
        )
        assert not found.significant, method
        assert found.auc.lower < 0.5 < found.auc.upper
        assert found.method == method


LEVEL, REPEATS = 0.2, 200


def alarms(method, significant=lambda found: found.significant):
    """How often an attack on nothing is called significant; shadows are of other trainings."""
    raised = 0
    for seed in range(REPEATS):
        case = Planted(n=30, n_shadows=4, spread=2.0, shift=0.0, seed=seed)
        shadows = case.shadows() if method in ("lira", "rmia") else None
        threshold = "auto" if shadows else "mean-of-both"
        given = {"shadows": shadows, "threshold": threshold, "confidence": 1 - LEVEL}
        raised += significant(attack(None, *case.sides(), method=method, **given))
    return raised


@pytest.mark.parametrize("method", ["loss", "entropy", "lira", "rmia"])
def test_false_alarms_are_as_rare_as_stated(method):
    assert_rate_at_most(alarms(method), REPEATS, LEVEL)


def test_the_mutant_that_takes_the_best_threshold_for_free_is_caught():
    def plainly(found):
        """An advantage that a single fixed threshold would show with this confidence."""
        return found.advantage.value > -ndtri(LEVEL) * np.sqrt(0.5 / 30)

    with pytest.raises(AssertionError, match="chance"):
        assert_rate_at_most(alarms("loss", plainly), REPEATS, LEVEL)


# What it proves, and what not.


def randomised(n=2000, seed=0, shift=SHIFT):
    rng = np.random.default_rng(seed)
    member = rng.integers(0, 2, n) == 1
    losses = rng.normal(-shift * member, 1)
    return losses[member], losses[~member]


def test_no_bound_unless_membership_was_randomised():
    sides = randomised()
    found = attack(None, *sides, claim=da.GDP(1.0))
    assert found.bound is None
    assert "no bound on epsilon" in str(found)
    found = attack(None, *sides, membership="randomised", claim=da.GDP(1.0), delta=1e-5)
    scores = -np.concatenate(sides)
    coins = np.arange(scores.size) < sides[0].size
    assert found.bound == da.one_run(scores, coins, delta=1e-5)
    assert 0 < found.bound.epsilon < da.GDP(SHIFT).epsilon(1e-5)
    assert str(found.bound) in str(found)


def test_numbers_that_no_coin_gives_are_refused():
    with pytest.raises(InvalidArgument, match="fair coins do that with probability"):
        attack(None, *np.split(np.arange(100.0), [10]), membership="randomised")
    with pytest.raises(InvalidArgument, match="membership='random'"):
        attack(None, [1.0], [2.0], membership="random")


def test_bounds_hold_as_often_as_stated():
    """Membership by coins, Gaussian leak of a known epsilon: the bound is wrong rarely enough."""
    truth = da.GDP(0.5).epsilon(1e-2)
    wrong = 0
    for seed in range(50):
        sides = randomised(200, seed, 0.5)
        found = attack(None, *sides, membership="randomised", delta=1e-2, confidence=0.8, fprs=())
        wrong += found.bound.epsilon > truth
    assert_rate_at_most(wrong, 50, 0.2)


def test_ceilings_stand_beside_the_rates():
    found = attack(None, *randomised(), claim=da.GDP(SHIFT), membership="randomised")
    assert found.ceilings.auc == pytest.approx(AUC, abs=2e-4)
    assert found.auc.lower < found.ceilings.auc  # the leak is exactly what the claim allows
    assert f"the claim allows {found.ceilings.advantage:.4g}" in str(found)
    fixed = attack(None, *randomised(), claim=da.GDP(SHIFT))
    assert fixed.ceilings.auc > found.ceilings.auc + 0.05


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"method": "lora"}, "method='lora'"),
        ({"confidence": 95}, "confidence=95"),
        ({"fprs": (0.0,)}, "fpr=0"),
        ({"gamma": 2.0}, "gamma=2.0 is no option of method='loss'"),
        ({"method": "quantile"}, "looks at records"),
        ({"method": "white-box"}, "looks at records"),
        ({"method": "lira"}, "shadows are missing"),
        ({"method": "shadow"}, "shadows are missing"),
    ],
)
def test_bad_arguments(given, said):
    with pytest.raises(InvalidArgument, match=said):
        attack(None, *EVEN.sides(), **given)


def test_learners_say_what_is_missing():
    case = Planted(n=30, n_shadows=2)
    sides, shadows = case.sides(), case.shadows()
    with pytest.raises(InvalidArgument, match="class 0 of the shadows has"):
        small = Shadows(shadows.outputs, np.where(case.labels == 0, -1, case.inside))
        attack(None, *sides, method="shadow", shadows=small, per_class=True)
    with pytest.raises(InvalidArgument, match="the shadows has 0 records"):
        attack(None, *sides, method="shadow", shadows=Shadows(shadows.outputs, 0 * case.inside))
    with pytest.raises(InvalidArgument, match="3 classes, the shadows 2"):
        attack(None, *sides, method="shadow", shadows=Planted(n=30, k=2).shadows())
    with pytest.raises(InvalidArgument, match="learner='tree'"):
        attack(None, *sides, method="shadow", shadows=shadows, learner="tree")
    honest = Honest()
    with pytest.raises(InvalidArgument, match="no white-box features"):
        attack(
            honest.model, *honest.sides, method="white-box", shadows=Planted(n=30, k=2).shadows()
        )
    with pytest.raises(InvalidArgument, match="reference is missing"):
        attack(honest.model, *honest.sides, method="quantile")
    with pytest.raises(InvalidArgument, match="reference shares 150 of its 150"):
        attack(honest.model, *honest.sides, method="quantile", reference=honest.sides[1])
    with pytest.raises(InvalidArgument, match=r"alpha=0\.01 leaves 1\.5 of 150"):
        attack(
            honest.model,
            *honest.sides,
            method="quantile",
            reference=honest.reference,
            alpha=0.01,
        )


def test_a_linear_quantile_too():
    honest = Honest()
    given = {"method": "quantile", "reference": honest.reference, "regressor": "linear"}
    found = attack(honest.model, *honest.sides, **given, confidence=SURE)
    assert not found.significant
    assert found.fpr.lower < 0.05 < found.fpr.upper


def test_every_method_says_what_it_must_know():
    assert set(METRICS) < set(METHODS)
    for how in METHODS.values():
        assert how.knows
        assert how.source[-4:].isdigit()
