"""Back-propagation clipping: gradients, what one record moves, and the case on a few digits."""

from dataclasses import replace

import numpy as np
import pytest

from dpassay.privacy import account
from dpassay.privacy.events import Gaussian, Repeated
from dpassay.runs import opened
from dpassay_reproduce import debugging_cnn
from dpassay_reproduce.backpropagation import CLAIM, ClippedCNN, noise_multiplier

TINY = ClippedCNN(side=8, n_records=20, size=3, stride=1, channels=3, steps=2, chunk=7)


def records(n, seed=0):
    rng = np.random.default_rng(seed)
    return rng.random((n, 64)), rng.integers(0, 10, n)


def test_products_are_the_gradients_where_nothing_is_clipped():
    network = replace(TINY, input_clips=(1e6, 1e6), signal_clips=(1e6, 1e6))
    X, y = records(5)
    rng = np.random.default_rng(1)
    weights = [rng.normal(size=part.shape) for part in network.start()]

    def total(parts):
        return sum(network.loss(tuple(parts), x, label) for x, label in zip(X, y, strict=True))

    found = network._products(X.astype(np.float32).reshape(-1, 8, 8), y, *weights)
    for layer, place in ((0, (4, 1)), (0, (8, 2)), (1, (0, 0)), (1, (26, 7))):
        ends = []
        for step in (1e-2, -1e-2):
            moved = [part.copy() for part in weights]
            moved[layer][place] += step
            ends.append(total(moved))
        slope = (ends[0] - ends[1]) / 2e-2
        assert found[layer][place] == pytest.approx(slope, rel=2e-2, abs=2e-3)


def test_a_record_moves_a_sum_by_the_product_of_its_clips():
    X, y = records(20)
    rng = np.random.default_rng(2)
    weights = [30 * rng.normal(size=part.shape) for part in TINY.start()]
    limits = [i * s for i, s in zip(TINY.input_clips, TINY.signal_clips, strict=True)]
    largest = np.zeros(2)
    for x, label in zip(100 * X, y, strict=True):
        image = x.astype(np.float32).reshape(1, 8, 8)
        found = TINY._products(image, np.array([label]), *weights)
        sizes = [np.linalg.norm(part) for part in found]
        assert (np.array(sizes) <= np.array(limits) * (1 + 1e-5)).all()
        largest = np.maximum(largest, sizes)
    assert (largest > 0.1 * np.array(limits)).all()


def test_noise_meets_the_claim_and_the_bug_divides_it_by_the_batch():
    noise = noise_multiplier(10)
    assert 0.209 < account(Repeated(Gaussian(noise), 20)).epsilon(1e-5) <= 0.21
    honest, broken = (replace(TINY, broken=b).deviations for b in (False, True))
    assert np.array(honest) == pytest.approx(20 * np.array(broken))
    assert honest[0] == pytest.approx(noise_multiplier(2) * 2.5 * 0.1)
    assert CLAIM.neighbouring == "add-remove"


def test_chunks_change_nothing_and_seeds_replay():
    data = records(20)
    one, other, again = (
        network.train(data, np.random.default_rng(3))
        for network in (TINY, replace(TINY, chunk=20), TINY)
    )
    for a, b, c in zip(one, other, again, strict=True):
        assert a == pytest.approx(b, rel=1e-4, abs=1e-5)
        assert (a == c).all()


def small_case():
    case = debugging_cnn.study(False)
    network = replace(case.network, n_records=800, steps=4, channels=4)
    data = (case.data[0][:800], case.data[1][:800])
    sizes = {"preliminary": 1, "choosing": 4, "counting": 50, "sequential": 40}
    return replace(case, network=network, data=data, **sizes)


def test_canaries_are_of_all_patterns_with_wrong_labels():
    case = debugging_cnn.study(False)
    canaries = debugging_cnn.draw_canaries(case)
    assert len(canaries) == 25
    assert len({canary.name for canary in canaries}) == 25
    for i, canary in enumerate(canaries):
        assert np.linalg.norm(canary.image) == pytest.approx(1)
        assert canary.label != case.spare[1][i // 5]


def test_the_case_from_canaries_to_verdicts_and_again_from_its_file(tmp_path, monkeypatch):
    monkeypatch.setattr(debugging_cnn, "CANARIES", 5)
    case = small_case()
    monkeypatch.setattr(debugging_cnn, "draw_canaries", lambda case, number=5: _few(case))
    said = []
    picture = debugging_cnn.picture(case, tmp_path, said.append)
    facts = picture.facts
    assert facts["broken_refuted"]
    assert not facts["fixed_refuted"]
    assert facts["broken_bound"] > 0.21 > facts["fixed_bound"]
    assert facts["broken_trainings"] < 40
    assert [claim.verdict for claim in picture.claims[:2]] == ["fails", "holds"]
    kept = (tmp_path / "cnn-digits.json").read_bytes(), n_trials(tmp_path)
    assert debugging_cnn.picture(case, tmp_path, said.append).facts == facts
    assert ((tmp_path / "cnn-digits.json").read_bytes(), n_trials(tmp_path)) == kept


def n_trials(folder):
    with opened(folder / "trials.db") as log:
        return sum(len(log.outcomes(run.key)) for run in log.runs())


def _few(case, made=debugging_cnn.draw_canaries):
    return made(case, 5)
