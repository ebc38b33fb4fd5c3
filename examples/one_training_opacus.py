"""One training, one added line: is the noise there that the accountant was told of?

An ordinary Opacus loop on 400 of scikit-learn's digits: an MLP, momentum, full batches. The line
with ``probe.optimizer`` puts canary gradients into this very training; ``judge`` reads the claim
from the accountant. The second training has a bug: half of the noise.

``python examples/one_training_opacus.py`` (it needs ``dpassay[torch]``).
"""

import torch
from opacus import PrivacyEngine
from opacus.optimizers import DPOptimizer
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, TensorDataset

from dpassay import probe

torch.set_num_threads(1)
images, labels = load_digits(return_X_y=True)
images = torch.tensor(images[:400] / 16, dtype=torch.float32)
labels = torch.tensor(labels[:400])


def train(bug):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10))
    model, optimizer, loader = PrivacyEngine().make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9),
        data_loader=DataLoader(TensorDataset(images, labels), batch_size=400),
        noise_multiplier=5.0,
        max_grad_norm=1.0,
    )
    if bug:
        optimizer.add_noise = lambda: add_half_of_the_noise(optimizer)
    watch = probe.optimizer(optimizer)  # the added line
    for _ in range(20):
        for x, y in loader:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
    return watch.judge(delta=1e-5)


def add_half_of_the_noise(optimizer):
    """The bug: the accountant goes on to be told of the whole."""
    stated, optimizer.noise_multiplier = optimizer.noise_multiplier, optimizer.noise_multiplier / 2
    DPOptimizer.add_noise(optimizer)
    optimizer.noise_multiplier = stated


print("as it is:", train(bug=False))
print("half the noise:", train(bug=True))
