"""The watch as a callback of Lightning and of Hugging Face's Trainer, where these are installed."""

import numpy as np
import pytest

from dpassay.errors import MissingDependency
from extras import needs

pytestmark = [
    pytest.mark.filterwarnings("ignore"),  # third parties warn of much
]


@pytest.fixture(autouse=True)
def _opacus():
    needs("opacus", "torch")


def made_private(batch=30):
    import torch
    from opacus import PrivacyEngine
    from torch.utils.data import DataLoader, TensorDataset

    torch.manual_seed(0)
    X = torch.rand(60, 10)
    model = torch.nn.Linear(10, 40)
    data = TensorDataset(X, torch.arange(60) % 40)
    return (
        *PrivacyEngine().make_private(
            module=model,
            optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
            data_loader=DataLoader(data, batch_size=batch),
            noise_multiplier=3.0,
            max_grad_norm=1.0,
            poisson_sampling=False,
        ),
        data,
    )


def test_callbacks_say_what_they_need():
    from dpassay.canaries import watch_lightning, watch_transformers

    if watch_lightning.Callback is None:
        with pytest.raises(MissingDependency, match="lightning"):
            watch_lightning.LightningWatch()
    if watch_transformers.TrainerCallback is None:
        with pytest.raises(MissingDependency, match="transformers"):
            watch_transformers.TransformersWatch()


def test_lightning(tmp_path):
    lightning = pytest.importorskip("lightning.pytorch")
    import torch

    from dpassay.canaries.watch_lightning import LightningWatch

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.model, self.private, self.loader, _ = made_private()

        def training_step(self, batch, number):
            x, y = batch
            return torch.nn.functional.cross_entropy(self.model(x), y)

        def configure_optimizers(self):
            return self.private

        def train_dataloader(self):
            return self.loader

    def fit(callback, epochs, **how):
        trainer = lightning.Trainer(
            max_epochs=epochs,
            accelerator="cpu",
            callbacks=[callback],
            default_root_dir=tmp_path,
            enable_progress_bar=False,
            logger=False,
            enable_model_summary=False,
        )
        trainer.fit(Module(), **how)
        return trainer

    first = LightningWatch(claim=(50.0, 1e-5))
    trainer = fit(first, 2)
    assert first.watch.history == [(3.0, 0.5, 4)]
    assert not first.verdict.refuted
    trainer.save_checkpoint(tmp_path / "kept.ckpt")
    second = LightningWatch(claim=(50.0, 1e-5), rng=9)
    fit(second, 4, ckpt_path=tmp_path / "kept.ckpt", weights_only=False)
    assert (second.watch.coins == first.watch.coins).all()
    assert second.watch.steps == 8


def test_hugging_face(tmp_path):
    transformers = pytest.importorskip("transformers")
    import torch

    from dpassay.canaries.watch_transformers import TransformersWatch

    class Model(torch.nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner = inner

        def zero_grad(self, set_to_none=True):  # the Trainer calls this, Opacus needs its own
            optimizer.zero_grad()

        def forward(self, x, labels):
            return {"loss": torch.nn.functional.cross_entropy(self.inner(x), labels)}

    class Trainer(transformers.Trainer):
        def get_train_dataloader(self):
            return self.own_loader

    inner, optimizer, _, data = made_private()
    rows = [{"x": x, "labels": y} for x, y in data]
    watch = TransformersWatch(claim=(50.0, 1e-5))
    arguments = transformers.TrainingArguments(
        output_dir=str(tmp_path),
        num_train_epochs=2,
        per_device_train_batch_size=30,
        use_cpu=True,
        report_to=[],
        save_strategy="no",
        logging_strategy="no",
        disable_tqdm=True,
        max_grad_norm=0,
        remove_unused_columns=False,
    )
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer.original_optimizer, lambda step: 1.0)
    trainer = Trainer(
        model=Model(inner),
        args=arguments,
        train_dataset=rows,
        optimizers=(optimizer, schedule),
        callbacks=[watch],
    )
    trainer.own_loader = torch.utils.data.DataLoader(rows, batch_size=30)
    trainer.train()
    assert watch.watch.history == [(3.0, 0.5, 4)]
    assert not watch.verdict.refuted
    assert trainer.state.log_history[-1]["dpassay/refuted"] == 0
    state = watch.state()
    again = TransformersWatch.from_state(state)
    again.on_train_begin(None, trainer.state, None, optimizer=made_private()[1])
    assert (again.watch.coins == watch.watch.coins).all()
    np.testing.assert_array_equal(again.watch.scores(), watch.watch.scores())
