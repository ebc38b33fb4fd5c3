"""One training of LoRA-style adapters with Opacus: canaries live in the adapter alone.

The base layers are frozen. What is private is the training of two small matrices beside each of
them, and the optimizer has no other parameters: the canaries' blocks are cut out of these. The
theorem needs nothing of the frozen part.

``python examples/one_training_adapters.py`` (it needs ``dpassay[torch]``).
"""

import torch
from opacus import PrivacyEngine
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, TensorDataset

from dpassay import probe

torch.set_num_threads(1)
torch.manual_seed(0)
images, labels = load_digits(return_X_y=True)
images = torch.tensor(images[:200] / 16, dtype=torch.float32)
labels = torch.tensor(labels[:200])


class Adapted(torch.nn.Module):
    """A frozen layer, plus a product of two thin ones that is trained."""

    def __init__(self, layer, rank=8):
        super().__init__()
        self.layer = layer.requires_grad_(False)
        self.down = torch.nn.Linear(layer.in_features, rank, bias=False)
        self.up = torch.nn.Linear(rank, layer.out_features, bias=False)
        torch.nn.init.zeros_(self.up.weight)

    def forward(self, x):
        return self.layer(x) + self.up(self.down(x))


model = torch.nn.Sequential(
    Adapted(torch.nn.Linear(64, 64)), torch.nn.ReLU(), Adapted(torch.nn.Linear(64, 10))
)
trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
model, optimizer, loader = PrivacyEngine().make_private(
    module=model,
    optimizer=torch.optim.SGD(trained, lr=0.5),
    data_loader=DataLoader(TensorDataset(images, labels), batch_size=200),
    noise_multiplier=4.0,
    max_grad_norm=1.0,
)
watch = probe.optimizer(optimizer, canaries=1000)
for _ in range(16):
    for x, y in loader:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
everything = sum(parameter.numel() for parameter in model.parameters())
print(f"{watch.n_parameters} of {everything} parameters are trained")
print(watch.judge(delta=1e-5))
