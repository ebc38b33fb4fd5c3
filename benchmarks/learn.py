"""Private classifiers beside their peers: accuracy by a rule without tuning, and what DP-SGD costs.

Run with ``python -m benchmarks learn`` (``--quick``: digits and Adult, two seeds). Adult and MNIST
are looked for as :mod:`dpassay.datasets` says. Peers were measured once, with hyper-parameters that
were picked on test scores, so that they are optimistic; ours come from the rule. The second table
runs Opacus in the same process, one thread each, in CPU seconds.
"""

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from dpassay.datasets import Dataset, DatasetMissing, load_adult, load_mnist
from dpassay.learn import PrivateLogisticRegression
from dpassay.optim.gradient import noisy_gradient_descent
from dpassay.optim.losses import Multinomial, Rows

EPSILONS = (0.1, 0.5, 1.0, 3.0, 10.0)
DELTA = 1e-5
PEERS = {
    "adult": {
        "noisy GD, tuned": (0.831, 0.845, 0.846, 0.847, 0.847),
        "Opacus": (0.836, 0.845, 0.847, 0.847, 0.847),
        "output perturbation": (0.799, 0.827, 0.834, 0.841, 0.844),
        "diffprivlib, tuned": (0.770, 0.813, 0.836, 0.844, 0.847),
    },
    "mnist": {
        "noisy GD, tuned": (0.864, 0.899, 0.902, 0.913, 0.913),
        "Opacus": (0.857, 0.892, 0.902, 0.904, 0.905),
        "diffprivlib": (0.117, 0.157, 0.175, 0.483, 0.731),
    },
    "digits": {
        "noisy GD, tuned": (0.325, 0.796, 0.882, 0.923, 0.951),
        "Opacus": (0.176, 0.719, 0.837, 0.914, 0.947),
    },
}


def load_digits() -> Dataset:
    """Scikit-learn's digits, rows of norm 1, a quarter for testing."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    X, y = load_digits(return_X_y=True)
    X = X / np.linalg.norm(X, axis=1, keepdims=True)
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.25, random_state=0)
    return Dataset(X, y, X_test, y_test, 1.0, tuple(range(10)))


LOADERS: dict[str, Callable[[], Dataset]] = {
    "digits": load_digits,
    "adult": load_adult,
    "mnist": load_mnist,
}


def accuracy(
    data: Dataset, epsilon: float, seeds: int, solver: str = "auto"
) -> tuple[float, float]:
    """Mean test accuracy over seeds, and CPU seconds per fit."""
    start, scores = time.process_time(), []
    for seed in range(seeds):
        model = PrivateLogisticRegression(
            epsilon,
            DELTA,
            solver=solver,
            data_norm=data.data_norm,
            classes=data.classes,
            random_state=seed,
        )
        scores.append(model.fit(data.X_train, data.y_train).score(data.X_test, data.y_test))
    return float(np.mean(scores)), (time.process_time() - start) / seeds


def row(title: str, data: Dataset, seeds: int, solver: str = "auto") -> list[tuple[float, float]]:
    """Our accuracy and CPU seconds by epsilon, printed."""
    found = [accuracy(data, epsilon, seeds, solver) for epsilon in EPSILONS]
    scores, seconds = "".join(f"{a:>9.4f}" for a, _ in found), np.mean([s for _, s in found])
    print(f"  {title:<26}{scores}{seconds:>9.2f}", flush=True)
    return found


def accuracies(name: str, seeds: int) -> None:
    """Our rows beside the peers'."""
    try:
        data = LOADERS[name]()
    except DatasetMissing as missing:
        print(f"{name}: skipped. {missing}")
        return
    print(f"{name:<28}" + "".join(f"{f'ε = {e:g}':>9}" for e in EPSILONS) + f"{'CPU s':>9}")
    for peer, scores in PEERS[name].items():
        print(f"  {peer:<26}" + "".join(f"{score:>9.3f}" for score in scores))
    rows = row("dpassay, no tuning", data, seeds)
    if name != "mnist":
        row("dpassay, Frank-Wolfe", data, seeds, "frank-wolfe")
    best = np.max(list(PEERS[name].values()), axis=0)
    worst = min(a - b for (a, _), b in zip(rows, best, strict=True))
    print(f"  least lead over the best peer: {worst:+.4f}", flush=True)


# DP-SGD of a softmax: 100 Poisson batches of 250, per-example clipping, noise 1.


STEPS, BATCH = 100, 250


def ours(data: Dataset) -> Callable[[], Any]:
    """A run with secure noise and secure batches."""
    rows, n = Rows(data.X_train), len(data.X_train)
    return lambda: (
        noisy_gradient_descent(
            rows,
            data.y_train,
            Multinomial(10),
            steps=STEPS,
            learning_rate=4.0,
            clip=1.0,
            noise_multiplier=1.0,
            sampling_rate=BATCH / n,
            rng=None,
        ).value
    )


def opacus(data: Dataset, mode: str) -> Callable[[], Any]:
    """The loop of its tutorial, or the same in ghost mode."""
    import torch
    from opacus import PrivacyEngine
    from torch.utils.data import DataLoader, TensorDataset

    torch.set_num_threads(1)
    table = TensorDataset(torch.from_numpy(data.X_train), torch.from_numpy(data.y_train))

    def run() -> Any:
        model = torch.nn.Linear(784, 10)
        loader = DataLoader(table, batch_size=BATCH)
        optimizer = torch.optim.SGD(model.parameters(), lr=4.0)
        criterion = torch.nn.CrossEntropyLoss()
        parts = PrivacyEngine(accountant="rdp").make_private(
            module=model,
            optimizer=optimizer,
            data_loader=loader,
            criterion=criterion,
            noise_multiplier=1.0,
            max_grad_norm=1.0,
            grad_sample_mode=mode,
            poisson_sampling=True,
        )
        if mode == "ghost":
            private, optimizer, criterion, loader = parts
        else:
            private, optimizer, loader = parts
        for step, (X, y) in enumerate(loader):
            if step == STEPS:
                break
            optimizer.zero_grad()
            loss = criterion(private(X), y)
            loss.backward()
            optimizer.step()
        return np.vstack([model.bias.detach().numpy()[None], model.weight.detach().numpy().T])

    return run


def cpu(
    runs: dict[str, Callable[[], Any]], rounds: int
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """What the last run returned, and the CPU seconds of every round but the first, all in turn."""
    values, seconds = {}, {name: np.empty(rounds + 1) for name in runs}
    for turn in range(rounds + 1):
        for name, run in runs.items():
            start = time.process_time()
            values[name] = run()
            seconds[name][turn] = time.process_time() - start
    return values, {name: spent[1:] for name, spent in seconds.items()}


def engines(rounds: int) -> None:
    """CPU seconds of DP-SGD on MNIST, ours and Opacus', and their ratio in rounds: its median."""
    try:
        data = load_mnist()
        import opacus as _  # noqa: F401
    except (DatasetMissing, ImportError) as missing:
        print(f"engines: skipped. {missing}")
        return
    runs = {"dpassay": ours(data)} | {f"Opacus {m}": opacus(data, m) for m in ("hooks", "ghost")}
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")
        values, seconds = cpu(runs, rounds)
    print(f"{'softmax on MNIST, 100 × 250':<30}{'CPU s':>8}{'times ours':>24}{'accuracy':>10}")
    for name, spent in seconds.items():
        ratio = spent / seconds["dpassay"]
        hits = Rows(data.X_test).scores(values[name]).argmax(axis=1) == data.y_test
        times = f"{np.median(ratio):.1f} ({ratio.min():.1f} to {ratio.max():.1f})"
        print(f"{name:<30}{np.median(spent):>8.3f}{times:>24}{hits.mean():>10.3f}", flush=True)


def main(quick: bool = False) -> None:
    """Print both tables."""
    with threadpool_limits(1):
        for name in ("digits", "adult") if quick else LOADERS:
            accuracies(name, 2 if quick else 5)
    engines(3 if quick else 9)


if __name__ == "__main__":
    main()
