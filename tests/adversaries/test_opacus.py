"""The gradient canary in an Opacus loop: where it goes, what is logged; examples/ has verdicts."""

import numpy as np
import pytest

from dpassay.adversaries import CanaryOptimizer
from dpassay.errors import InvalidArgument
from extras import needs

pytestmark = [
    pytest.mark.filterwarnings("ignore:Secure RNG"),
    pytest.mark.filterwarnings("ignore:.*[Bb]ackward hook"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]
RECORDS, BATCH, STEPS, CLIP = 30, 10, 6, 0.5  # a rate of 1/3
CANARY = np.eye(8)[1]


@pytest.fixture(autouse=True)
def _opacus():
    needs("opacus", "torch")


def trained(noise, present, seed, canary=CANARY, rate=1 / 3, hook=None):
    """The optimizer after an ordinary loop of Opacus, and how far the parameters moved."""
    import torch
    from opacus import PrivacyEngine
    from torch.utils.data import DataLoader, TensorDataset

    torch.manual_seed(seed)
    X = torch.zeros(RECORDS, 3)
    X[:, 0] = torch.arange(RECORDS) / RECORDS  # the second and third input are blank
    model = torch.nn.Linear(3, 2)
    model, optimizer, loader = PrivacyEngine().make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=1.0),
        data_loader=DataLoader(TensorDataset(X, torch.arange(RECORDS) % 2), batch_size=BATCH),
        noise_multiplier=noise,
        max_grad_norm=CLIP,
    )
    if hook is not None:
        optimizer.attach_step_hook(hook)
    rng = np.random.default_rng(seed)
    optimizer = CanaryOptimizer(optimizer, canary, present=present, sampling_rate=rate, rng=rng)
    start = torch.cat([p.detach().flatten() for p in model.parameters()]).clone()
    for _ in range(STEPS // len(loader)):
        for x, y in loader:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
    moved = torch.cat([p.detach().flatten() for p in model.parameters()]) - start
    return optimizer, moved.numpy()


def test_the_canary_has_the_clipping_norm_and_is_added_to_the_sum():
    """Without noise, on a weight that no record moves: steps show 1, the model moves by C/B."""
    optimizer, moved = trained(0.0, True, 0, canary=7 * CANARY, rate=1.0)
    np.testing.assert_allclose(optimizer.seen, np.ones(STEPS), rtol=1e-5)
    assert moved[1] == pytest.approx(-STEPS * CLIP / BATCH, rel=1e-4)
    absent, still = trained(0.0, False, 0, rate=1.0)
    np.testing.assert_allclose(absent.seen, np.zeros(STEPS), atol=1e-6)
    assert still[1] == 0


def test_the_canary_is_in_with_its_rate():
    optimizer, _ = trained(0.0, True, 1)
    assert set(np.round(optimizer.seen, 4)) == {0.0, 1.0}


def test_hooks_that_were_there_go_on():
    called = []
    trained(1.0, True, 0, hook=lambda optimizer: called.append(optimizer))
    assert len(called) == STEPS


def test_other_names_are_those_of_the_optimizer():
    optimizer, _ = trained(1.5, True, 0)
    assert (optimizer.noise_multiplier, optimizer.max_grad_norm) == (1.5, CLIP)


@pytest.mark.parametrize("canary", [np.zeros(8), np.ones(7), np.full(8, np.nan)])
def test_a_canary_that_does_not_fit_is_refused(canary):
    with pytest.raises(InvalidArgument, match="canary"):
        trained(1.0, True, 0, canary=canary)
