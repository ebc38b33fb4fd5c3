import numpy as np
import pytest

from dpassay.attacks import Outputs, log_odds, metric_scores
from dpassay.errors import InvalidArgument

P = np.array([[0.7, 0.2, 0.1], [0.05, 0.05, 0.9], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
Y = np.array([0, 1, 0, 0])
SEEN = Outputs(probabilities=P, labels=Y)


def test_each_metric_by_hand():
    assert metric_scores(SEEN, "correctness").tolist() == [1, 0, 1, 0]
    np.testing.assert_allclose(metric_scores(SEEN, "loss")[:3], np.log([0.7, 0.05, 1.0]))
    np.testing.assert_allclose(metric_scores(SEEN, "confidence"), [0.7, 0.9, 1, 1])
    bits = -(0.7 * np.log2(0.7) + 0.2 * np.log2(0.2) + 0.1 * np.log2(0.1))
    np.testing.assert_allclose(metric_scores(SEEN, "entropy")[[0, 2]], [-bits, 0])
    mentr = -(0.3 * np.log(0.7) + 0.2 * np.log(0.8) + 0.1 * np.log(0.9))
    assert metric_scores(SEEN, "modified-entropy")[0] == pytest.approx(-mentr)


def test_modified_entropy_knows_right_from_wrong():
    """Song and Mittal 2021: both are certain, entropy cannot tell them apart."""
    entropy, modified = (metric_scores(SEEN, m)[2:] for m in ("entropy", "modified-entropy"))
    assert entropy[0] == entropy[1]
    assert modified[0] == 0 > modified[1] + 100


@pytest.mark.parametrize("metric", ["loss", "correctness", "confidence", "entropy"])
def test_shadows_are_scored_like_targets(metric):
    many = Outputs(probabilities=np.stack([P, P[::-1]]), labels=Y)
    found = metric_scores(many, metric)
    assert found.shape == (2, 4)
    np.testing.assert_array_equal(found[0], metric_scores(SEEN, metric))


def test_log_odds_keep_the_digits_of_confident_models():
    p = Outputs(probabilities=[[1.0, 3e-30], [1.0, 0.0]], labels=[0, 0])
    expected = [-np.log(3e-30), -np.log(1e-45)]
    np.testing.assert_allclose(log_odds(p), expected)


def test_log_odds_from_losses_are_those_from_probabilities():
    p = SEEN.of_label[:2]
    np.testing.assert_allclose(log_odds(Outputs(losses=-np.log(p))), log_odds(SEEN)[:2])
    assert log_odds(Outputs(losses=[50.0, 0.0])).tolist() == [-50, -np.log(1e-45)]
    assert log_odds(Outputs(losses=[2.0, -1.0])).tolist() == [-2, 1]
    assert np.isfinite(log_odds(Outputs(losses=[1e6, 1.0]))).all()


def test_from_losses_only_the_loss_follows():
    losses = Outputs(losses=[1.0, 2.0])
    assert metric_scores(losses).tolist() == [-1, -2]
    with pytest.raises(InvalidArgument, match="needs probabilities"):
        metric_scores(losses, "entropy")
    with pytest.raises(InvalidArgument, match="metric='lose'"):
        metric_scores(losses, "lose")
