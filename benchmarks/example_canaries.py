"""What canaries among the records of one training show, by kind of canary, and what they cost.

Run with ``python -m benchmarks.example_canaries`` (ten minutes of CPU; ``--quick``: four, two seeds
instead of five; names of tables, such as ``text``, run these alone). It needs ``dpassay[torch]``
and MNIST (``dpassay.datasets.load_mnist``). Trainings are Opacus' or plain torch; a number is a
mean over seeds of one training each, nothing assumed.
"""

import functools
import math
import re
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import dpassay as da
from dpassay.canaries.canaries import Canaries

Row = dict[str, Any]
DELTA = 1e-5
RECORDS, CANARIES, BATCHES, EPOCHS = 2000, 500, 5, 15  # of MNIST; T = 75 at q = 1/5
SEQUENCES, LENGTH, TEXT_CANARIES, TEXT_EPOCHS = 1500, 16, 300, 10


def train(
    model: Any, data: Any, loss: Callable[..., Any], epsilon: float | None, **how: Any
) -> None:
    """Train by Opacus at q = 1/5 with the noise of epsilon, or without privacy for None."""
    from opacus import PrivacyEngine
    from torch.utils.data import DataLoader

    rate, epochs = how.get("rate", 1 / BATCHES), how["epochs"]
    optimizer = how["optimizer"](model.parameters(), lr=how["lr"])
    if epsilon is None:
        loader = DataLoader(data, batch_size=64, shuffle=True)
    else:
        noise = how.get("noise") or noise_for(epsilon, rate, round(epochs / rate))
        loader = DataLoader(data, batch_size=round(len(data) * rate))
        made: Any = PrivacyEngine().make_private(
            module=model,
            optimizer=optimizer,
            data_loader=loader,
            noise_multiplier=noise,
            max_grad_norm=1.0,
        )
        model, optimizer, loader = made
    for _ in range(epochs):
        for batch in loader:
            optimizer.zero_grad()
            if len(batch[0]):
                loss(model, *batch).mean().backward()
                optimizer.step()


def noise_for(epsilon: float, rate: float, steps: int) -> float:
    """The noise multiplier of DP-SGD with this epsilon."""
    found = da.calibrate(
        lambda sigma: da.dp_sgd_event(sigma, rate, steps), da.ApproxDP(epsilon, DELTA)
    )
    return float(found)


# ----------------------------------------------------------------------------------- images


@functools.cache
def _mnist() -> tuple[Any, Any, Any]:
    """Training set, public pictures, and test pictures with labels; values in [0, 1], nearly."""
    import torch
    from torch.utils.data import TensorDataset

    found = da.datasets.load_mnist()
    scale = 9.2  # the mean norm of pictures with values in [0, 1]
    X, y = found.X_train * scale, found.y_train.astype(int)
    train_set = TensorDataset(torch.tensor(X[:RECORDS]), torch.tensor(y[:RECORDS]))
    test = torch.tensor(found.X_test * scale), torch.tensor(found.y_test.astype(int))
    return train_set, X[50_000:55_000], test


def _mlp() -> Any:
    from torch import nn

    return nn.Sequential(nn.Linear(784, 64), nn.ReLU(), nn.Linear(64, 10))


def _log_odds(model: Any, x: Any, y: Any) -> Any:
    """Of the label: it does not vanish where the model is sure, as the loss does."""
    import torch

    with torch.no_grad():
        logits = model(x).double()
        own = logits.gather(1, y[:, None])[:, 0]
        return own - logits.scatter(1, y[:, None], -math.inf).logsumexp(dim=1)


def _cross_entropy(model: Any, x: Any, y: Any) -> Any:
    from torch.nn.functional import cross_entropy

    return cross_entropy(model(x), y, reduction="none")


def image_kinds(
    train_set: Any, public: Any, seed: int, n: int
) -> dict[str, Callable[[], Canaries]]:
    """The kinds of canaries for pictures."""
    make = da.canaries
    return {
        "mislabelled": lambda: make.mislabelled(train_set, n=n, rng=seed),
        "own wave (default)": lambda: make.for_images(train_set, n=n, rng=seed),
        "null space of public": lambda: make.for_images(train_set, n=n, rng=seed, public=public),
    }


def play_images(
    kind: str, epsilon: float | None, seed: int, *, n: int = CANARIES, **how: Any
) -> Row:
    """One training of the MLP: area under the ROC curve, bound, accuracy, CPU seconds."""
    import torch

    train_set, public, test = _mnist()
    torch.manual_seed(1000 + seed)
    model = _mlp()
    private = {"optimizer": torch.optim.SGD, "lr": 2.0, "epochs": EPOCHS}
    plain = {"optimizer": _momentum, "lr": 0.05, "epochs": 20}
    begin = time.process_time()
    with da.canaries.audit(rng=seed):
        canaries = image_kinds(train_set, public, seed, n)[kind]()
        data = canaries.insert(train_set)
        before = canaries.measure(lambda x, y: _log_odds(model, x, y))
        how = (plain if epsilon is None else private) | how
        train(model, data, _cross_entropy, epsilon, **how)
        verdict = canaries.judge(
            lambda x, y: _log_odds(model, x, y), claim=(epsilon or 8.0, DELTA), baseline=before
        )
    return _row(verdict, begin) | {"accuracy": _accuracy(model, test)}


def _momentum(parameters: Any, lr: float) -> Any:
    import torch

    return torch.optim.SGD(parameters, lr=lr, momentum=0.9)


def _accuracy(model: Any, test: Any) -> float:
    import torch

    with torch.no_grad():
        return float((model(test[0]).argmax(dim=1) == test[1]).double().mean())


def _row(verdict: da.Verdict, begin: float) -> Row:
    assert verdict.power is not None
    return {
        "auc": verdict.power.auc,
        "epsilon >=": verdict.bound.epsilon,
        "seconds": time.process_time() - begin,
        "next step": verdict.next_step,
    }


def images(quick: bool) -> None:
    """The table of pictures."""
    for epsilon in (None, 8.0, 2.0):
        for kind in ("mislabelled", "own wave (default)", "null space of public"):
            if epsilon == 2.0 and kind != "own wave (default)":
                continue
            rows = [play_images(kind, epsilon, seed) for seed in range(2 if quick else 5)]
            _tell(f"{kind}, {_setting(epsilon)}", rows)


def too_little_noise(quick: bool) -> None:
    """400 canaries, claimed noise 2, real noise .01, 63 steps at q = 1/20."""
    how = {"noise": 0.01, "rate": 1 / 20, "epochs": 3, "n": 400}
    for kind in ("mislabelled", "own wave (default)"):
        rows = [play_images(kind, 2.0, seed, **how) for seed in range(2 if quick else 5)]
        _tell(f"noise .01, 60 steps: {kind}", rows)
        print(f"    {rows[0]['next step']}", flush=True)


def utility(quick: bool) -> None:
    """Accuracy of the MLP with and without canaries."""
    import torch

    for epsilon in (None, 8.0):
        accuracies = []
        for seed in range(2 if quick else 5):
            train_set, _, test = _mnist()
            torch.manual_seed(1000 + seed)
            model = _mlp()
            how = {"optimizer": torch.optim.SGD, "lr": 2.0, "epochs": EPOCHS}
            if epsilon is None:
                how = {"optimizer": _momentum, "lr": 0.05, "epochs": 20}
            train(model, train_set, _cross_entropy, epsilon, **how)
            accuracies.append({"accuracy": _accuracy(model, test)})
        _tell(f"no canaries, {_setting(epsilon)}", accuracies)


# ------------------------------------------------------------------------------------- text


@functools.cache
def _sequences() -> tuple[Any, int]:
    """Pieces of this project's pages as character numbers, and how many characters there are."""
    import torch
    from torch.utils.data import TensorDataset

    pages = sorted((Path(__file__).parents[1] / "docs").glob("*.md"))
    text = " ".join(re.sub(r"[^a-z ]+", " ", page.read_text("utf-8").lower()) for page in pages)
    text = re.sub(" +", " ", text)
    codes = np.frombuffer(text.encode(), np.uint8).astype(np.int64)
    numbers = np.where(codes == ord(" "), 0, codes - ord("a") + 1)
    rng = np.random.default_rng(0)
    starts = rng.choice(len(numbers) - LENGTH, SEQUENCES, replace=False)
    rows = numbers[starts[:, None] + np.arange(LENGTH)]
    return TensorDataset(torch.tensor(rows)), 27


def _transformer(vocabulary: int, width: int = 32) -> Any:
    """One causal layer of attention and one of a perceptron, of parts that Opacus knows."""
    import torch
    from torch import nn

    class Transformer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.token, self.place = nn.Embedding(vocabulary, width), nn.Embedding(LENGTH, width)
            self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
            self.first, self.second = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
            self.before, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
            self.out = nn.Linear(width, vocabulary)

        def forward(self, ids: Any) -> Any:
            n = ids.shape[1]
            places = torch.arange(n).expand(ids.shape[0], n)
            x = self.token(ids) + self.place(places)
            h = self.before(x)
            weights = self.query(h) @ self.key(h).transpose(1, 2) / math.sqrt(width)
            mask = torch.ones(n, n, dtype=torch.bool).triu(1)
            x = x + weights.masked_fill(mask, -math.inf).softmax(dim=2) @ self.value(h)
            x = x + self.second(torch.relu(self.first(self.after(x))))
            return self.out(x)

    return Transformer()


def _next_token_loss(model: Any, ids: Any) -> Any:
    from torch.nn.functional import cross_entropy

    logits = model(ids[:, :-1]).transpose(1, 2)
    return cross_entropy(logits, ids[:, 1:], reduction="none").mean(dim=1)


def play_text(kind: str, epsilon: float | None, seed: int, **how: Any) -> Row:
    """One training of the character model."""
    import torch

    data, characters = _sequences()
    torch.manual_seed(2000 + seed)
    begin = time.process_time()
    with da.canaries.audit(rng=seed):
        canaries = da.canaries.for_text(
            data, characters, n=TEXT_CANARIES, rng=seed, new_tokens=kind == "own token"
        )
        inserted = canaries.insert(data)
        model = _transformer(canaries.vocabulary_size)

        def score(ids: Any) -> Any:
            with torch.no_grad():
                return -_next_token_loss(model, ids)

        before = canaries.measure(score)
        plain = {"optimizer": torch.optim.Adam, "lr": 3e-3, "epochs": 12}
        private = {"optimizer": torch.optim.Adam, "lr": 3e-2, "epochs": TEXT_EPOCHS}
        train(model, inserted, _next_token_loss, epsilon, **((private if epsilon else plain) | how))
        natural = float(_next_token_loss(model, data.tensors[0]).mean())
        verdict = canaries.judge(score, claim=(epsilon or 8.0, DELTA), baseline=before)
    return _row(verdict, begin) | {"loss of the text": natural}


def text(quick: bool) -> None:
    """The table of sequences."""
    for epsilon in (None, 8.0, 2.0):
        for kind in ("random tokens", "own token"):
            rows = [play_text(kind, epsilon, seed) for seed in range(2 if quick else 5)]
            _tell(f"{kind}, {_setting(epsilon)}", rows)


def _setting(epsilon: float | None) -> str:
    return "no privacy" if epsilon is None else f"epsilon {epsilon:g}"


def _tell(what: str, rows: list[Row]) -> None:
    numbers = [name for name, value in rows[0].items() if not isinstance(value, str)]
    means = ", ".join(f"{k} {np.mean([row[k] for row in rows]):.3f}" for k in numbers)
    each = [round(row["epsilon >="], 2) for row in rows if "epsilon >=" in row]
    print(f"{what:44} {means} {each or ''}", flush=True)


def main(quick: bool = False, names: Sequence[str] = ()) -> None:
    """The named tables, or all."""
    import torch

    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")  # Opacus says that its noise is not secure
    for table in (images, too_little_noise, utility, text):
        if names and table.__name__ not in names:
            continue
        print(f"-- {table.__name__}", flush=True)
        table(quick)


if __name__ == "__main__":
    main("--quick" in sys.argv, [name for name in sys.argv[1:] if name != "--quick"])
