"""One training by Lightning with Opacus: a callback attaches the watch, judges and logs.

Canaries and sums are part of Lightning's own checkpoints. ``python
examples/one_training_lightning.py`` (it needs ``dpassay[torch]`` and ``lightning``).
"""

import logging

import torch
from lightning.pytorch import LightningModule, Trainer
from opacus import PrivacyEngine
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, TensorDataset

from dpassay.canaries.watch_lightning import LightningWatch

logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
torch.set_num_threads(1)
torch.manual_seed(0)
images, labels = load_digits(return_X_y=True)
data = TensorDataset(
    torch.tensor(images[:200] / 16, dtype=torch.float32), torch.tensor(labels[:200])
)


class Digits(LightningModule):
    """A softmax, made private when it is made."""

    def __init__(self):
        super().__init__()
        model = torch.nn.Linear(64, 10)
        self.model, self.private, self.loader = PrivacyEngine().make_private(
            module=model,
            optimizer=torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9),
            data_loader=DataLoader(data, batch_size=200),
            noise_multiplier=4.0,
            max_grad_norm=1.0,
        )

    def training_step(self, batch, number):
        x, y = batch
        return torch.nn.functional.cross_entropy(self.model(x), y)

    def configure_optimizers(self):
        return self.private

    def train_dataloader(self):
        return self.loader


watch = LightningWatch(delta=1e-5)  # the added line, and callbacks=[watch]
trainer = Trainer(
    max_epochs=16,
    accelerator="cpu",
    callbacks=[watch],
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
)
trainer.fit(Digits())
print(watch.verdict)
