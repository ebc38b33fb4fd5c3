"""One training by Hugging Face's Trainer with Opacus: a callback attaches the watch and judges.

The model is a tiny one of its own; nothing is downloaded. Two things make the Trainer private: it
gets the optimizer and the loader of ``make_private``, and its gradients are cleared by Opacus.
``python examples/one_training_trainer.py`` (it needs ``dpassay[torch]`` and ``transformers``).
"""

import tempfile

import torch
import transformers
from opacus import PrivacyEngine
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader

from dpassay.canaries.watch_transformers import TransformersWatch

torch.set_num_threads(1)
torch.manual_seed(0)
images, labels = load_digits(return_X_y=True)
images = torch.tensor(images[:200] / 16, dtype=torch.float32)
rows = [{"x": x, "labels": int(y)} for x, y in zip(images, labels[:200], strict=True)]

inner = torch.nn.Linear(64, 10)
inner, optimizer, loader = PrivacyEngine().make_private(
    module=inner,
    optimizer=torch.optim.SGD(inner.parameters(), lr=0.5),
    data_loader=DataLoader(rows, batch_size=200),
    noise_multiplier=4.0,
    max_grad_norm=1.0,
    poisson_sampling=False,
)


class Model(torch.nn.Module):
    """The private layer in the form that the Trainer asks for."""

    def __init__(self):
        super().__init__()
        self.inner = inner

    def zero_grad(self, set_to_none=True):
        optimizer.zero_grad()

    def forward(self, x, labels):
        return {"loss": torch.nn.functional.cross_entropy(self.inner(x), labels)}


class PrivateTrainer(transformers.Trainer):
    """Takes its batches from the private loader."""

    def get_train_dataloader(self):
        return loader


watch = TransformersWatch(delta=1e-5)  # the added line, and callbacks=[watch]
with tempfile.TemporaryDirectory() as folder:
    arguments = transformers.TrainingArguments(
        output_dir=folder,
        num_train_epochs=16,
        use_cpu=True,
        report_to=[],
        save_strategy="no",
        logging_strategy="no",
        disable_tqdm=True,
        max_grad_norm=0,
        remove_unused_columns=False,
    )
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer.original_optimizer, lambda step: 1.0)
    trainer = PrivateTrainer(
        model=Model(),
        args=arguments,
        train_dataset=rows,
        optimizers=(optimizer, schedule),
        callbacks=[watch],
    )
    trainer.train()
print(watch.verdict)
