"""A gradient canary in an Opacus training loop: the strongest adversary, by one added line.

The loop is an ordinary one on scikit-learn's digits. ``CanaryOptimizer`` inserts a gradient of the
clipping norm with the sampling rate, as if one more record had it, and logs what every noisy sum
shows along it; the likelihood ratio of these is the best score there is. The canary sits on the
weights of a pixel that no digit lights, so that nothing else is seen there.

``python examples/opacus_canary.py`` audits the loop as it is, and with half the noise that is
claimed (it needs ``dpassay[torch]``).
"""

import numpy as np
import torch
from opacus import PrivacyEngine
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, TensorDataset

import dpassay as da
from dpassay.adversaries import CanaryOptimizer, LikelihoodRatio

torch.set_num_threads(1)
RECORDS, BATCH, EPOCHS, CLIP, CLAIMED_NOISE = 250, 100, 2, 1.0, 1.0
RATE, STEPS = 1 / 3, 6  # of the loader that Opacus makes of 250 records in batches of 100

digits = load_digits()
images = torch.tensor(digits.data[:RECORDS] / 16, dtype=torch.float32)
labels = torch.tensor(digits.target[:RECORDS])
weights, biases = np.zeros((10, 64)), np.zeros(10)
weights[:, 0] = (-1.0) ** np.arange(10)  # alternating, on the first pixel of every class
canary = np.append(weights, biases)


def train(present, noise, rng):
    """What the steps of one training showed of the canary."""
    torch.manual_seed(int(rng.integers(2**31)))
    model = torch.nn.Linear(64, 10)
    model, optimizer, loader = PrivacyEngine().make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=1.0),
        data_loader=DataLoader(TensorDataset(images, labels), batch_size=BATCH),
        noise_multiplier=noise,
        max_grad_norm=CLIP,
    )
    optimizer = CanaryOptimizer(optimizer, canary, present=present, sampling_rate=RATE, rng=rng)
    for _ in range(EPOCHS):
        for x, y in loader:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
    return optimizer.seen


claim = da.account(da.dp_sgd_event(CLAIMED_NOISE, RATE, STEPS))
for name, noise in {"honest": CLAIMED_NOISE, "half the noise": CLAIMED_NOISE / 2}.items():
    verdict = da.audit(
        lambda present, rng, noise=noise: train(bool(present), noise, rng),
        (1.0, 0.0),
        claim=claim,
        score=LikelihoodRatio(CLAIMED_NOISE, RATE),
        trials=200,
        confidence=0.999,
    )
    print(f"{name}: {verdict}")
