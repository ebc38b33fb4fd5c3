"""Checks: what they say, what they leave open, and that honest code of our own passes."""

import math
import random

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpassay as da
from dpassay.errors import AuditStopped, InvalidArgument
from dpassay.privacy import account, events
from dpassay.replay import tape as tapes
from dpassay.replay.neighbours import smaller_sizes
from dpassay.zoo import mechanisms as zoo
from dpassay.zoo.training_bugs import CASES

VALUES = np.random.default_rng(1).random(40)
CODES = np.arange(40) % 4


def total(x, rng):
    return np.clip(x, 0, 1).sum() + rng.laplace(scale=1.0)


def test_what_was_played_is_accounted_beside_the_claim():
    found = da.check(total, VALUES, (1.0, 0.0))
    assert found.findings == found.undecided == found.not_checked == ()
    assert isinstance(found.event, events.Laplace)
    assert found.event.noise_multiplier == pytest.approx(1.0)
    assert found.epsilon_seen == pytest.approx(1.0)
    assert found.privacy.epsilon(0.0) == pytest.approx(1.0)
    assert found.decided
    assert f"\nnothing broken on {found.pairs} pairs. Accounted" in str(found)


def test_a_mechanism_that_returns_many_outputs_plays_one():
    def release(x, rng, size):
        return np.clip(x, 0, 1).sum() + rng.laplace(scale=0.5, size=size)

    found = da.check(release, VALUES, "1")
    assert (found.findings[0].rule, found.epsilon_seen) == ("DPA202", pytest.approx(2.0))


def test_without_a_claim_the_price_alone_is_told():
    found = da.check(total, VALUES)
    assert found.findings == ()
    assert found.epsilon_seen == pytest.approx(1.0)


def test_the_text_names_rule_line_and_price():
    def release(x, rng):
        return np.clip(x, 0, 1).sum() + rng.laplace(scale=0.5)

    found = da.check(release, VALUES, "1")
    finding = found.findings[0]
    assert (finding.rule, finding.epsilon_claimed) == ("DPA202", 1.0)
    assert finding.epsilon_seen == pytest.approx(2.0)
    assert finding.site.file == __file__
    assert finding.site.source == "return np.clip(x, 0, 1).sum() + rng.laplace(scale=0.5)"
    assert finding.n_records == 1
    text = str(found)
    for part in ("broken: ", "DPA202", f"test_check.py:{finding.site.line}", finding.site.source,
                 "moves by 1; its noise has scale 0.5", "epsilon 2 at delta 0; claimed 1",
                 "Smallest data that shows it: 1 record"):  # fmt: skip
        assert part in text
    assert "private" not in text.lower()


def test_the_pair_of_a_finding_shows_it_and_is_a_pair_of_neighbours():
    found = da.check(lambda x, rng: 2 * np.clip(x, 0, 1).sum() + rng.laplace(), VALUES, "1")
    pair = found.pair
    assert abs(len(pair.data) - len(pair.data_prime)) == 1
    moved = 2 * abs(np.clip(pair.data, 0, 1).sum() - np.clip(pair.data_prime, 0, 1).sum())
    assert moved == pytest.approx(2.0)


@pytest.mark.parametrize("data", [VALUES, list(VALUES), VALUES[:, None], (VALUES[:, None], CODES)])
def test_data_of_every_kind(data):
    def release(data, rng):
        values = data[0] if isinstance(data, tuple) else data
        return np.clip(np.asarray(values), 0, 1).sum() + rng.laplace()

    assert da.check(release, data, "1").epsilon_seen == pytest.approx(1.0)
    assert da.check(release, data, "0.5").findings[0].rule == "DPA202"


def test_replace_one_moves_twice_as_far():
    claim = da.PureDP(1.0, neighbouring="replace-one")
    release = lambda x, rng: np.clip(x, -1, 1).sum() + rng.laplace(scale=2.0)  # noqa: E731
    assert da.check(release, np.ones(9), claim).epsilon_seen == pytest.approx(1.0)
    found = da.check(lambda x, rng: np.clip(x, -1, 1).sum() + rng.laplace(), np.ones(9), claim)
    assert found.epsilon_seen == pytest.approx(2.0)
    assert found.findings


def test_declared_bounds_keep_records_in_their_range():
    release = lambda x, rng: x.sum() + rng.laplace()  # noqa: E731
    assert da.check(release, VALUES, "1", bounds=(0, 1)).findings == ()
    assert da.check(release, VALUES, "1").findings[0].epsilon_seen > 100


def test_a_declared_sensitivity_is_checked_call_by_call():
    release = lambda x, rng: 3 * np.clip(x, 0, 1).sum() + rng.normal(0, 10)  # noqa: E731
    assert da.check(release, VALUES, sensitivity=1.0).findings[0].rule == "DPA201"
    assert da.check(release, VALUES, sensitivity=3.0).findings == ()


def test_errors_of_the_mechanism_on_d_are_the_users():
    def release(x, rng):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        da.check(release, VALUES, "1")


def test_an_error_on_an_ordinary_neighbour_is_a_finding():
    def release(x, rng):
        if np.any(x == 0):
            raise ValueError
        return np.clip(x, 0, 1).sum() + rng.laplace()

    assert da.check(release, VALUES, "1").findings[0].rule == "DPA302"


def test_values_outside_of_the_range_seen_are_no_findings_of_their_own():
    """Codes are declared; an honest program may refuse others, with an error."""

    def counts(codes, rng):
        return np.bincount(codes, minlength=4)[:4] + rng.laplace(size=4)

    found = da.check(counts, CODES, "1")
    assert found.findings == ()
    table = np.stack([CODES, CODES % 2], axis=1)

    def cells(rows, rng):
        cells = np.zeros((4, 2))
        np.add.at(cells, tuple(rows.T), 1)
        return cells + rng.laplace(size=(4, 2))

    assert da.check(cells, table, "1").findings == ()
    frame = pd.DataFrame({"a": CODES, "b": CODES % 2})
    assert da.check(lambda t, rng: cells(t.to_numpy(), rng), frame, "1").findings == ()


def test_candidates_left_out_and_running_maxima_are_no_movement():
    def peeled(codes, rng):
        votes, won = np.bincount(codes, minlength=4).astype(float), []
        for _ in range(2):
            votes[won] = -np.inf
            won.append(int(np.argmax(votes + rng.gumbel(scale=4.0, size=4))))
        return won

    assert da.check(peeled, CODES, da.PureDP(1.0), bounds=(0, 3)).findings == ()

    def in_blocks(codes, rng):
        best = -np.inf
        for block in np.bincount(codes, minlength=4).reshape(2, 2):
            noisy = block + rng.gumbel(scale=4.0, size=2)
            best = noisy.max() if noisy.max() > best else best
        return best

    assert da.check(in_blocks, CODES, da.PureDP(1.0), bounds=(0, 3)).findings == ()


def test_records_that_are_not_finite_are_a_warning():
    def clip(x, rng):
        norm = np.abs(x)
        return np.where(norm > 1, x / norm, x).sum() + rng.laplace(scale=1.0)

    found = da.check(clip, VALUES, "1")
    assert found.findings == ()
    assert [warning.rule for warning in found.warnings] == ["DPA601"]
    assert found.decided


def test_noise_that_is_not_seen_is_not_checked():
    found = da.check(lambda x: x.sum() + random.SystemRandom().gauss(0, 1), VALUES)
    assert not found.decided
    assert "not deterministic" in found.not_checked[0].message


def test_no_noise_at_all_is_found():
    assert da.check(lambda x: x.sum(), VALUES, "1").findings[0].rule == "DPA301"


def test_public_randomness_is_named_and_a_leak_beside_it_undecided():
    def release(x, rng):
        sketch = rng.normal(size=(3, 2))
        return np.clip(x @ sketch, -1, 1).sum(axis=0) + rng.laplace(scale=4.0, size=2)

    found = da.check(release, VALUES[:39].reshape(13, 3), da.PureDP(1.0))
    assert found.findings == ()
    assert any("public randomness" in entry.message for entry in found.not_checked)

    def leaks(x, rng):
        return release(x, rng), len(x)

    found = da.check(leaks, VALUES[:39].reshape(13, 3), da.PureDP(1.0))
    assert found.findings == ()
    assert [entry.rule for entry in found.undecided] == ["DPA301"]


def test_a_line_that_never_moves_withholds_a_finding():
    """Its noise may protect the very value that differs."""

    def release(x, rng):
        u = 0.25 + rng.laplace(scale=0.1)
        return np.clip(x, 0, 1).sum() + math.sinh(u)

    found = da.check(release, VALUES, "1")
    assert found.findings == ()
    assert "never moved" in found.undecided[0].message


def hidden(value, sigma, factor=1.0):
    """Gaussian noise that cannot be followed."""
    return value + factor * sigma * float(np.random.default_rng().normal())


@pytest.mark.parametrize("scale", [1.0, 0.4])
def test_a_function_of_ones_own_is_one_primitive(scale):
    """Without it the check stays open; with it price and scale are checked."""
    release = lambda x, rng: hidden(np.clip(x, 0, 1).sum(), scale)  # noqa: E731
    assert not da.check(release, VALUES, da.GDP(1.0)).decided
    own = da.auditing.Primitive(f"{__name__}:hidden", value="value", scale="sigma")
    original = hidden
    found = da.check(release, VALUES, da.GDP(1.0), primitives=[own])
    assert hidden is original
    assert [finding.rule for finding in found.findings] == ([] if scale == 1 else ["DPA202"])
    assert found.decided


def test_evidence_takes_functions_of_ones_own_too():
    own = da.auditing.Primitive(f"{__name__}:hidden", value="value", scale="sigma")
    options = {"claim": da.GDP(0.25), "primitives": [own]}
    found = da.check(lambda x: hidden(np.clip(x, 0, 1).sum(), 1.0), VALUES, **options)
    assert found.evidence(40).refuted
    pair = (found.pair.data, found.pair.data_prime)
    verdict = da.audit(found.mechanism, pair, evidence="replay", trials=40, **options)
    assert verdict.refuted
    with pytest.raises(AuditStopped):
        found.evidence(3, primitives=[])


def test_a_function_whose_noise_is_too_small_is_found():
    def release(x, rng):
        return [hidden(np.clip(x, 0, 1).sum(), 20.0, factor=0.1) for _ in range(30)]

    own = da.auditing.Primitive(f"{__name__}:hidden", value="value", scale="sigma")
    found = da.check(release, VALUES, da.GDP(1.0), primitives=[own])
    assert found.findings[0].rule == "DPA401"
    with pytest.raises(InvalidArgument, match=r"package\.module"):
        da.auditing.Primitive("hidden", value="value", scale="sigma")


def test_laws_without_a_price_are_not_checked():
    release = lambda x, rng: np.clip(x, 0, 1).sum() + rng.standard_cauchy()  # noqa: E731
    found = da.check(release, VALUES, "0.001")
    assert found.findings == ()
    assert "standard_cauchy" in found.not_checked[0].message


def test_a_stability_based_histogram_is_undecided():
    """Noise for occupied cells alone, hidden by a threshold: (1, 1e-6)-DP, by another proof."""

    def release(codes, rng):
        noisy = {int(k): (codes == k).sum() + rng.laplace() for k in np.unique(codes)}
        return {k: v for k, v in noisy.items() if v > 15}

    found = da.check(release, np.repeat([0, 1, 2], [30, 30, 1]), (1.0, 1e-6))
    assert found.findings == ()
    assert [entry.rule for entry in found.undecided] == ["DPA101"]
    pure = da.check(release, np.repeat([0, 1, 2], [30, 30, 1]), da.PureDP(1.0))
    assert pure.findings[0].rule == "DPA101"


def test_top_by_order_is_not_checked():
    def release(codes, rng):
        return np.argsort(np.bincount(codes % 4, minlength=4) + rng.laplace(size=4))[:2]

    found = da.check(release, CODES, "0.01")
    assert found.findings == ()
    assert "order" in found.not_checked[0].message


def test_answers_by_public_coins_are_priced():
    def release(bits, rng):
        return np.array([b if rng.random() < 0.75 else 1 - b for b in bits])

    claim = da.PureDP(1.1, neighbouring="replace-one")
    found = da.check(release, CODES % 2, claim)
    assert found.findings == ()
    assert found.epsilon_seen == pytest.approx(np.log(3))


def by_where(x, rng):
    return np.where(rng.integers(0, 2, len(x)) == 1, x, rng.integers(0, 4, len(x)))


def by_loop(x, rng):
    return [int(v) if rng.integers(2) else int(rng.choice(4, 1)[0]) for v in x]


def by_random(x):
    heads = [random.randint(0, 1) or random.getrandbits(1) for _ in x]
    return [int(v) if h else random.randrange(4) for v, h in zip(x, heads, strict=True)]


def by_choices(x):
    return [random.choices([int(v), 0, 1, 2, 3], [3, 1, 1, 1, 1])[0] for v in x]


def with_seed(x, rng):
    noise = np.random.default_rng(int(rng.integers(2**31))).laplace()
    return np.clip(x, 0, 1).sum() + noise, len(x)


@pytest.mark.parametrize("release", [by_where, by_loop, by_random, by_choices])
def test_answers_by_whole_numbers_are_undecided(release):
    claim = da.PureDP(5.0, neighbouring="replace-one")
    found = da.check(release, CODES, claim, bounds=(0, 3))
    assert found.findings == ()
    assert not found.decided


def test_a_seed_hides_nothing():
    assert da.check(with_seed, VALUES, "1").findings[0].rule == "DPA301"


def test_amplification_by_other_samplers_is_not_checked():
    def release(x, rng):
        batch = rng.choice(len(x), 4, replace=False)
        return np.clip(x[batch], 0, 1).sum() + rng.laplace()

    found = da.check(release, VALUES, da.PureDP(0.2, neighbouring="replace-one"))
    assert found.findings == ()
    assert "amplification" in " ".join(entry.message for entry in found.not_checked)


def test_poisson_training_costs_what_it_claims():
    event = da.dp_sgd_event(2.0, 0.25, 4)

    def train(x, rng):
        w = 0.0
        for _ in range(4):
            batch = x[rng.random(len(x)) < 0.25]
            w += (np.clip(batch - w, -1, 1).sum() + rng.normal(0, 2.0)) / 10
        return w

    found = da.check(train, VALUES, event)
    assert found.findings == ()
    assert isinstance(found.event, events.Repeated)
    assert found.event.count == 4
    assert found.event.event.sampling_rate == 0.25
    assert found.epsilon_seen == pytest.approx(account(event).epsilon(found.delta), rel=1e-6)


def test_a_location_that_is_zero_on_d_is_a_query():
    found = da.check(lambda x, rng: rng.laplace((x > 2).sum(), 0.5), VALUES, "1")
    assert found.findings[0].rule == "DPA202"
    assert da.check(lambda x, rng: rng.laplace((x > 2).sum(), 1.0), VALUES, "1").findings == ()


CANARY = 71828.4375


def test_no_record_is_in_any_text():
    data = np.full(7, CANARY)
    for release in (
        lambda x, rng: x.sum() + rng.laplace(),
        lambda x, rng: (x.mean() + rng.laplace(), {float(v): 1 for v in x}),
        lambda x, rng: x.sum() + rng.laplace(scale=x.std() + 1),
        lambda x, rng: [v + rng.laplace() for v in x],
    ):
        found = da.check(release, data, "1")
        assert found.findings
        for text in (str(found), repr(found), *(f.message for f in found.findings)):
            assert "71828" not in text


def test_arguments():
    with pytest.raises(InvalidArgument, match="neighbours="):
        da.check(total, 3.0, "1")
    with pytest.raises(InvalidArgument, match="claim is about"):
        da.check(total, VALUES, da.PureDP(1.0), neighbouring="replace-one")
    with pytest.raises(InvalidArgument, match="limit"):
        da.check(total, VALUES, "1", limit=0)
    with pytest.raises(InvalidArgument, match="privacy curve"):
        da.check(total, VALUES, 3)  # type: ignore[arg-type]


# Our own mechanisms, and the zoo's

OWN = {
    "laplace": lambda x, rng: da.mechanisms.laplace(
        np.clip(x, 0, 1).sum(), sensitivity=1, epsilon=1, rng=rng
    ),
    "gaussian": lambda x, rng: da.mechanisms.gaussian(
        np.clip(x, 0, 1).sum(), sensitivity=1, epsilon=1, delta=1e-6, rng=rng
    ),
    "gaussian vector": lambda x, rng: da.mechanisms.gaussian(
        np.histogram(x, 4, (0, 1))[0], sensitivity=1, mu=1.0, rng=rng
    ),
}
SELECTIONS = ("exponential", "report_noisy_max", "permute_and_flip")


@pytest.mark.parametrize("name", OWN)
def test_own_additive_mechanisms_cost_what_they_claim(name):
    claim = account(OWN[name](VALUES, 0).event)
    found = da.check(OWN[name], VALUES, claim)
    assert found.findings == found.undecided == found.not_checked == ()
    assert found.epsilon_seen == pytest.approx(claim.epsilon(found.delta), rel=1e-4)


@pytest.mark.parametrize("neighbouring", ["add-remove", "replace-one"])
@pytest.mark.parametrize("name", SELECTIONS)
def test_own_selections_cost_what_they_claim(name, neighbouring):
    def release(codes, rng):
        votes = np.bincount(np.clip(codes, 0, 3), minlength=4)
        return getattr(da.mechanisms, name)(votes, sensitivity=1, epsilon=1, rng=rng)

    found = da.check(release, CODES, da.PureDP(1.0, neighbouring=neighbouring))
    assert found.findings == found.undecided == found.not_checked == ()
    assert found.epsilon_seen == pytest.approx(0.5 if neighbouring == "add-remove" else 1.0)


SECURE = {
    "laplace": (lambda x: da.mechanisms.laplace(total_of(x), sensitivity=1, epsilon=1), "1"),
    "gaussian": (lambda x: da.mechanisms.gaussian(total_of(x), sensitivity=1, mu=1), "gdp:1"),
    **{
        name: (
            lambda x, name=name: getattr(da.mechanisms, name)(
                np.histogram(x, 3, (0, 1))[0], sensitivity=1, epsilon=1
            ),
            "1",
        )
        for name in SELECTIONS
    },
}


def total_of(x):
    return np.clip(x, 0, 1).sum()


@pytest.mark.parametrize("name", SECURE)
def test_own_exact_noise_is_a_primitive(name):
    """Without a generator noise is drawn from a cipher; it is frozen and priced all the same."""
    release, claim = SECURE[name]
    found = da.check(release, VALUES, claim, limit=6)
    assert found.findings == found.undecided == found.not_checked == ()
    claimed = found.claim.epsilon(found.delta)
    assert 0.49 * claimed <= found.epsilon_seen <= claimed
    leak = da.check(lambda x: (release(x).value, len(x)), VALUES, claim, limit=6)
    assert leak.findings[0].rule == "DPA301"


@pytest.mark.parametrize("seed", range(6))
def test_random_whole_numbers_that_nobody_follows_are_undecided(seed):
    """They may agree by chance where D is played again."""
    chance = random.Random(seed)  # draws by methods of its own, which are not replaced

    def release(x, rng):
        return np.clip(x, 0, 1).sum() + rng.laplace() > 5, chance.random() < 0.5

    found = da.check(lambda x, rng: chance.random() < 0.5 or release(x, rng), VALUES, "3", limit=8)
    assert found.findings == ()
    assert da.check(release, VALUES, "3", limit=8).findings == ()


def test_own_randomized_response_is_not_flagged():
    release = lambda x, rng: da.mechanisms.randomized_response(  # noqa: E731
        x, n_categories=4, epsilon=1.0, rng=rng
    )
    found = da.check(release, CODES, da.PureDP(1.0, neighbouring="replace-one"), bounds=(0, 3))
    assert found.findings == ()
    assert found.epsilon_seen == pytest.approx(1.0)


ANSWERS = np.zeros(5)
ALL, ONE = np.ones(5), np.eye(5)[0]
# name -> (neighbours, the epsilon that it is told to give or really gives)
ZOO_HONEST = {
    "laplace": ([np.ones(1)], 0.1, np.zeros(1)),
    "laplace_in_parallel": ([np.ones(1)], 0.1, np.zeros(1)),
    "histogram": ([ONE], 0.1, ANSWERS),
    "noisy_argmax_laplace": ([ALL, ONE, np.array([1, -1, 1, -1, 1.0])], 0.1, ANSWERS),
    "noisy_argmax_exponential": ([ALL, ONE, np.array([1, -1, 1, -1, 1.0])], 0.1, ANSWERS),
    "sparse_vector_1": ([ALL, ONE], 0.1, ANSWERS),
    "sparse_vector_2": ([ALL, ONE], 0.1, ANSWERS),
    "sparse_vector_numerical": ([ALL, ONE], 0.1, ANSWERS),
    "prefix_sums": ([ONE], 0.1, ANSWERS),
    "rappor_once": ([1], 0.9, 0),
    "truncated_geometric": ([2], 0.2, 1),
    "snapping": ([np.ones(1)], 0.2, np.zeros(1)),
}
ZOO_BROKEN = {
    "histogram_inverted_scale": ([ONE], 0.1, ANSWERS, "DPA202"),
    "histogram_of_occupied_bins": ([ONE], 1.0, ANSWERS, "DPA301"),
    "noisy_max_exponential": ([ALL], 0.1, ANSWERS, "DPA202"),
    "sparse_vector_5": ([np.array([1, 0, 1, 0, 1.0])], 0.1, ANSWERS, "DPA402"),
}


@pytest.mark.parametrize("name", ZOO_HONEST)
def test_honest_mechanisms_of_the_zoo_are_not_flagged(name):
    neighbours, epsilon, data = ZOO_HONEST[name]
    release = getattr(zoo, name)
    found = da.check(
        lambda x, rng: release(x, rng, 1), data, da.PureDP(epsilon), neighbours=neighbours
    )
    assert found.findings == ()


@pytest.mark.parametrize("name", ZOO_BROKEN)
def test_broken_mechanisms_of_the_zoo_are_found(name):
    neighbours, epsilon, data, rule = ZOO_BROKEN[name]
    release = getattr(zoo, name)
    found = da.check(
        lambda x, rng: release(x, rng, 1), data, da.PureDP(epsilon), neighbours=neighbours
    )
    assert rule in {finding.rule for finding in found.findings}


def test_a_mean_with_the_true_count_is_found():
    release = lambda x, rng: zoo.mean_with_true_counts(x, rng, 1)  # noqa: E731
    assert da.check(release, VALUES, "0.1", bounds=(0, 1)).findings[0].rule == "DPA102"
    honest = lambda x, rng: zoo.private_mean(x, rng, 1)  # noqa: E731
    assert da.check(honest, VALUES, "0.1", bounds=(0, 1)).findings == ()


TRAININGS = {
    "batch size": "DPA202",
    "batch clipping": "DPA202",
    "private n": "DPA301",
    "noise reuse": "DPA402",
}


@pytest.mark.parametrize("name", TRAININGS)
def test_training_bugs_of_the_zoo(name):
    case = CASES[name]
    data, other = case.pair()
    found = da.check(case.broken, data, case.claim(), neighbours=[other])
    assert found.findings[0].rule == TRAININGS[name]
    assert found.findings[0].execution == 5
    honest = da.check(case.honest, data, case.claim(), neighbours=[other])
    assert honest.findings == honest.undecided == ()
    assert honest.epsilon_seen <= case.claim().epsilon(honest.delta) * 1.001


def test_shuffled_training_is_found_where_the_sampling_is_declared():
    case = CASES["shuffling"]
    data, other = case.pair()
    options = {"neighbours": [other], "sampling_rate": 0.25}
    assert da.check(case.broken, data, case.claim(), **options).findings[0].rule == "DPA501"
    assert da.check(case.honest, data, case.claim(), **options).findings == ()


# Mutants of the recorder: the honest ones are flagged, so the tests above would fail


def _sgd(x, rng):
    w = 0.0
    for _ in range(3):
        w += (np.clip(x - w, -1, 1).sum() + rng.normal(0, 2.0)) / 10
    return w


def _poisson(x, rng):
    batch = x[rng.random(len(x)) < 0.5]
    return np.clip(batch, 0, 1).sum() + rng.normal(0, 2.0)


def test_a_recorder_that_freezes_nothing_is_caught(monkeypatch):
    assert da.check(_sgd, VALUES, da.GDP(1.0)).findings == ()
    monkeypatch.setattr(tapes.Tape, "_counterpart", lambda self, entry: None)
    assert "DPA301" in {finding.rule for finding in da.check(_sgd, VALUES, da.GDP(1.0)).findings}


def test_a_recorder_that_freezes_one_call_late_is_caught(monkeypatch):
    real = tapes.Tape._counterpart

    def late(self, entry):
        return real(self, entry) if entry.chain else None

    monkeypatch.setattr(tapes.Tape, "_counterpart", late)
    assert da.check(_sgd, VALUES, da.GDP(1.0)).findings


def test_a_recorder_that_does_not_align_records_is_caught(monkeypatch):
    claim = da.dp_sgd_event(2.0, 0.5, 1)
    assert da.check(_poisson, VALUES, claim).findings == ()
    monkeypatch.setattr(tapes.Tape, "align", lambda self, value, law, shape: None)
    assert da.check(_poisson, VALUES, claim).findings


# Base sets cut to few records


def rounded_rate(x, rng):
    rate = 1 / math.ceil(len(x) / 8)  # here
    sums = [x[rng.random(len(x)) < rate].clip(0, 1).sum() for _ in range(3)]
    return [total + rng.normal(scale=2.0) for total in sums]


def bare_if_few(x, rng):
    return x.sum() if len(x) < 4 else np.clip(x, 0, 1).sum() + rng.laplace()


def mean_of_many(x, rng):
    return np.clip(x, 0, 1).sum() / max(len(x), 1) + rng.laplace(scale=1 / 20)


def refuses_few(x, rng):
    if len(x) < 5:
        raise ValueError
    return np.clip(x, 0, 1).sum() + rng.laplace()


def of_size(check):
    return [warning for warning in check.warnings if warning.rule != "DPA601"]


def test_cut_data_shows_what_n_hides():
    """A dependence on n alone is a warning there; one on a record is a finding."""
    data = np.linspace(0, 1, 38)
    rounded = da.check(rounded_rate, data, da.dp_sgd_event(2.0, 0.2, 3))
    assert rounded.findings == ()
    (warning,) = of_size(rounded)
    assert (warning.rule, warning.n_records) == ("DPA104", 32)
    assert "cut to 32 records" in warning.message
    bare = da.check(bare_if_few, data, "1")
    assert [(found.rule, found.n_records) for found in bare.findings] == [("DPA301", 1)]
    assert len(bare.pair.data) == 1
    mean = da.check(mean_of_many, np.linspace(0, 1, 20), "1")
    assert (mean.findings, [warning.rule for warning in of_size(mean)]) == ((), ["DPA202"])
    few = da.check(refuses_few, data, "1")
    assert (few.findings, of_size(few)) == ((), [])
    assert of_size(da.check(mean_of_many, data, "1", neighbouring="replace-one")) == []


def ahead(sigma, n_noises=1):
    def train(x, rng):
        batches = [x[rng.random(len(x)) < 0.2] for _ in range(3)]
        sums = [batch.clip(0, 1).sum() for batch in batches for _ in range(n_noises)]
        return [total + rng.normal(scale=sigma) for total in sums]

    return train


def test_batches_drawn_before_the_first_noise_cost_what_they_cost_one_by_one():
    claim = da.dp_sgd_event(2.0, 0.2, 3)
    for mechanism in (ahead(2.0), ahead(2.0 * math.sqrt(2), 2)):
        honest = da.check(mechanism, VALUES, claim)
        assert honest.findings == ()
        assert honest.epsilon_seen == pytest.approx(account(claim).epsilon(1e-5), rel=1e-3)
    assert da.check(ahead(1.0), VALUES, claim).findings[0].rule == "DPA202"
    with pytest.raises(AuditStopped, match="before the noise"):
        honest.evidence(3)


@given(st.integers(1, 500), st.lists(st.integers(0, 60), max_size=6))
def test_sizes_to_cut_to(n, shown):
    sizes = smaller_sizes(n, shown)
    assert len(set(sizes)) == len(sizes) <= 7
    assert all(0 < size < n for size in sizes)
    assert {size for size in (1, 2, 5) if size < n} <= set(sizes)
    first = next((number for number in shown if 1 < number < n and n % number), None)
    assert first is None or n - n % first in sizes


def test_no_message_holds_a_path_of_this_machine(tmp_path, monkeypatch):
    (tmp_path / "inside").mkdir()
    monkeypatch.chdir(tmp_path / "inside")
    lost = "def release(x, rng):\n    return x.sum() + float(rng.laplace())\n"
    for folder in (tmp_path / "inside", tmp_path):
        file = folder / "lost.py"
        file.write_text(lost)
        names = {}
        exec(compile(lost, str(file), "exec"), names)
        found = da.check(names["release"], np.linspace(0, 1, 10), "1", limit=3)
        assert found.undecided
        assert str(tmp_path) not in str(found)
        assert "lost.py:2" in str(found)
