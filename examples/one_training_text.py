"""A small language model with Opacus, and five lines more to audit its one training.

``python examples/one_training_text.py`` trains with eighty canaries, each a sequence of a new token
of its own, and says what the model tells of them. ``dpassay audit examples/one_training_text.py
--one-run --store run.db`` does the same apart from your files, keeps what was seen and can test
other claims on it. With ``--bug`` (``--arguments=--bug``) a hundredth of the noise that is claimed
is there. It needs ``dpassay[torch]``; nothing is downloaded.
"""

import math
import sys

import torch
from opacus import PrivacyEngine
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import dpassay

WIDTH, LENGTH, EPOCHS, BATCH, NOISE = 16, 12, 12, 100, 3.0
TEXT = "a coin is weighed before it is trusted and so should be a promise of privacy " * 8
LETTERS = sorted(set(TEXT))


class Transformer(nn.Module):
    """One causal layer of attention and one of a perceptron."""

    def __init__(self, vocabulary):
        super().__init__()
        self.token, self.place = nn.Embedding(vocabulary, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.first, self.second = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)
        self.out = nn.Linear(WIDTH, vocabulary)

    def forward(self, ids):
        n = ids.shape[1]
        x = self.token(ids) + self.place(torch.arange(n).expand(ids.shape[0], n))
        weights = self.query(x) @ self.key(x).transpose(1, 2) / math.sqrt(WIDTH)
        hidden = torch.ones(n, n, dtype=torch.bool).triu(1)
        x = x + weights.masked_fill(hidden, -math.inf).softmax(dim=2) @ self.value(x)
        return self.out(x + self.second(torch.relu(self.first(x))))


def losses(model, ids):
    logits = model(ids[:, :-1]).transpose(1, 2)
    return nn.functional.cross_entropy(logits, ids[:, 1:], reduction="none").mean(dim=1)


def score(ids):
    with torch.no_grad():
        return -losses(model, ids)


torch.set_num_threads(1)
letters = torch.tensor([LETTERS.index(letter) for letter in TEXT])
train_set = TensorDataset(letters.unfold(0, LENGTH, 1)[:400].clone())
canaries = dpassay.canaries.for_text(train_set, len(LETTERS), n=80)  # 1
train_set = canaries.insert(train_set)  # 2
model = Transformer(canaries.vocabulary_size)  # 3: as many tokens as there are
before = canaries.measure(score)  # 4

private, optimizer, loader = PrivacyEngine().make_private(
    module=model,
    optimizer=torch.optim.Adam(model.parameters(), lr=0.02),
    data_loader=DataLoader(train_set, batch_size=BATCH),
    noise_multiplier=NOISE / 100 if "--bug" in sys.argv else NOISE,
    max_grad_norm=1.0,
)
for _ in range(EPOCHS):
    for (ids,) in loader:
        optimizer.zero_grad()
        losses(private, ids).mean().backward()
        optimizer.step()

claim = f"dp-sgd:noise_multiplier={NOISE},sampling_rate={1 / len(loader)},"
claim += f"steps={EPOCHS * len(loader)}"
print(f"loss {losses(model, letters.unfold(0, LENGTH, 1)[:400]).mean():.2f}")
print(canaries.judge(score, claim=claim, baseline=before, delta=1e-5))  # 5
