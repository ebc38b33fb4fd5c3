"""One training of a small transformer with Opacus: canaries behind the noise, and before clipping.

The model reads characters: embeddings, one head of attention, a layer of 32. Nothing is downloaded;
the text is made up. ``where="clipping"`` sends the canaries through the optimizer's clipping as
rows of a hundred times the clipping norm, so that clipping is tested as well.

``python examples/one_training_transformer.py`` (it needs ``dpassay[torch]``).
"""

import numpy as np
import torch
from opacus import PrivacyEngine
from torch.utils.data import DataLoader, TensorDataset

from dpassay import probe

torch.set_num_threads(1)
LETTERS, LENGTH, WIDTH = 20, 12, 16


class Transformer(torch.nn.Module):
    """The next character from those before it."""

    def __init__(self):
        super().__init__()
        self.letters = torch.nn.Embedding(LETTERS, WIDTH)
        self.places = torch.nn.Embedding(LENGTH, WIDTH)
        self.attention = torch.nn.Linear(WIDTH, 3 * WIDTH)
        self.hidden = torch.nn.Linear(WIDTH, 32)
        self.out = torch.nn.Linear(32, LETTERS)

    def forward(self, text):
        order = torch.arange(LENGTH).expand(len(text), -1)
        read = self.letters(text) + self.places(order)
        query, key, value = self.attention(read).chunk(3, dim=-1)
        later = torch.ones(LENGTH, LENGTH).triu(1).bool()
        weights = (query @ key.transpose(1, 2)).masked_fill(later, -1e9).softmax(dim=-1)
        return self.out(self.hidden(read + weights @ value).relu())


random = np.random.default_rng(0)
text = torch.tensor((random.integers(LETTERS, size=(100, 1)) + np.arange(LENGTH + 1)) % LETTERS)

for where in ("noise", "clipping"):
    torch.manual_seed(0)
    model = Transformer()
    model, optimizer, loader = PrivacyEngine().make_private(
        module=model,
        optimizer=torch.optim.Adam(model.parameters(), lr=0.01),
        data_loader=DataLoader(TensorDataset(text), batch_size=100),
        noise_multiplier=2.0,
        max_grad_norm=1.0,
    )
    watch = probe.optimizer(optimizer, canaries=500, where=where)
    for _ in range(6):
        for (batch,) in loader:
            optimizer.zero_grad()
            predicted = model(batch[:, :-1]).transpose(1, 2)
            torch.nn.functional.cross_entropy(predicted, batch[:, 1:]).backward()
            optimizer.step()
    print(f"{where}: {watch.judge(delta=1e-5)}\n")
