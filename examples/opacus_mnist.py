"""An Opacus training script, auditable by three added lines (marked "audit").

It is an ordinary script: ``python examples/opacus_mnist.py`` trains a classifier of handwritten
digits (those of scikit-learn, nothing is downloaded) and prints its accuracy. The audit plays it:

    CLAIM=dp-sgd:noise_multiplier=3,sampling_rate=.25,steps=8
    dpassay audit examples/opacus_mnist.py --claim $CLAIM

With ``--bug`` the loop steps the optimizer that was made before ``make_private``, an easy slip:
nothing is clipped and no noise is added, while Opacus' accountant would never say so.

The claim is one of add/remove, because Poisson sampling decides about every record by itself: the
worlds differ by one record that may be in a batch or not. But Opacus takes its sampling rate,
1/ceil(n/batch), and its divisor, int(n * rate), from the private n. They must be the same in both
worlds, or the claim is not about what is played; so the batch does not divide n: 1000 and 1001
records in batches of 256 both make 4 batches, a rate of 1/4 and a divisor of 250.
"""

import sys

import torch
from opacus import PrivacyEngine
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from dpassay import probe  # audit, line 1

RECORDS, BATCH, EPOCHS = 1000, 256, 2
NOISE, CLIP = 3.0, 1.0

digits = load_digits()
images = torch.tensor(digits.images / 16, dtype=torch.float32)[:, None]
labels = torch.tensor(digits.target)
train_set = TensorDataset(images[:RECORDS], labels[:RECORDS])
train_set = probe.data(train_set, canary=(torch.full((1, 8, 8), 16.0), 3))  # audit, line 2

model = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
private_model, private_optimizer, loader = PrivacyEngine().make_private(
    module=model,
    optimizer=optimizer,
    data_loader=DataLoader(train_set, batch_size=BATCH),
    noise_multiplier=NOISE,
    max_grad_norm=CLIP,
)
stepper = optimizer if "--bug" in sys.argv else private_optimizer

for _ in range(EPOCHS):
    for x, y in loader:
        private_optimizer.zero_grad()
        nn.functional.cross_entropy(private_model(x), y).backward()
        stepper.step()

probe.release(model)  # audit, line 3
with torch.no_grad():
    right = model(images[RECORDS:]).argmax(dim=1) == labels[RECORDS:]
print(f"accuracy {right.float().mean():.2f}")
