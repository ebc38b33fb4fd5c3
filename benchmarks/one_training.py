"""One training with canary gradients: shares of epsilon, refutations, utility and seconds.

``python -m benchmarks one_training`` prints all rows, with ``--quick`` a few trainings each;
``python -m benchmarks.one_training sampled`` those that are named. How often it errs is counted by
:mod:`benchmarks.coverage_watch`. With ``DPASSAY_DATA`` set the records are MNIST's (see
:mod:`dpassay.datasets`), else scikit-learn's digits, padded with pixels that are 0: the networks
are the same.
"""

import itertools
import os
import sys
import time
import warnings

import numpy as np

import dpassay as da

DELTA, CONFIDENCE = 1e-5, 0.95


def load(n):
    """So many rows of 784 numbers in [0, 1], and their classes."""
    if da.datasets.VARIABLE in os.environ:
        data = da.datasets.load_mnist()
        return np.asarray(data.X_train[:n], np.float32), np.asarray(data.y_train[:n], int)
    from sklearn.datasets import load_digits

    digits = load_digits()
    X = np.zeros((n, 784), np.float32)
    X[:, :64] = digits.data[:n] / 16
    return X, digits.target[:n]


def cut(data, n):
    """The first n records, and the others."""
    return tuple(part[:n] for part in data), tuple(part[n:] for part in data)


def train(data, *, noise, batch, steps, canaries, seed, hidden=64, added=1.0):
    """A watch after one training by Opacus, and the model; without canaries the model alone."""
    import torch
    from opacus import PrivacyEngine
    from torch.utils.data import DataLoader, TensorDataset

    torch.set_num_threads(1)
    torch.manual_seed(100_000 + seed)
    X, y = (torch.as_tensor(part) for part in data)
    layers = [torch.nn.Linear(784, hidden), torch.nn.ReLU(), torch.nn.Linear(hidden, 10)]
    model = torch.nn.Sequential(*layers) if hidden else torch.nn.Linear(784, 10)
    model, optimizer, loader = PrivacyEngine().make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9),
        data_loader=DataLoader(TensorDataset(X, y), batch_size=batch),
        noise_multiplier=noise,
        max_grad_norm=1.0,
    )
    if added != 1:
        whole = optimizer.add_noise

        def add_noise():
            optimizer.noise_multiplier = noise * added
            whole()
            optimizer.noise_multiplier = noise

        optimizer.add_noise = add_noise
    watch = da.probe.optimizer(optimizer, canaries=canaries, rng=seed) if canaries else None
    batches = itertools.chain.from_iterable(itertools.repeat(loader))
    for inputs, labels in itertools.islice(batches, steps):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(inputs), labels).backward()
        optimizer.step()
    return watch, model


def mu_of(epsilon):
    """The Gaussian trade-off that has this epsilon at DELTA."""
    from scipy.optimize import brentq

    return brentq(lambda mu: da.GDP(mu=mu).epsilon(DELTA) - epsilon, 1e-3, 20)


def noise_of(epsilon, rate, steps):
    """The noise multiplier that the accountant gives for it."""
    return da.calibrate(
        lambda sigma: da.dp_sgd_event(sigma, rate, steps), target=da.ApproxDP(epsilon, DELTA)
    )


def row(name, watches, epsilon):
    """Print the means over seeds: share of epsilon by both labels, refuted, CPU seconds."""
    shares, plain, refuted, seconds = [], [], 0, []
    for make in watches:
        start = time.process_time()
        watch, _ = make()
        verdict = watch.judge(delta=DELTA, confidence=CONFIDENCE)
        seconds.append(time.process_time() - start)
        shares.append(verdict.bound.epsilon / epsilon)
        plain.append(verdict.one_training.bounds[-1].epsilon / epsilon)
        refuted += verdict.refuted
    print(
        f"{name:44} {np.mean(shares):6.3f} (min {min(shares):5.3f} max {max(shares):5.3f}) "
        f"none {np.mean(plain):5.3f}  refuted {refuted:2d}/{len(shares)}  "
        f"{np.mean(seconds):5.1f} CPU s (most {max(seconds):.1f})",
        flush=True,
    )
    if refuted:
        print("  ", verdict, flush=True)


def full_batches(data, seeds, canaries=50_000, steps=25):
    """An MLP, 400 records, full batches: the DP-SGD form and nothing assumed."""
    for epsilon in (1, 2, 4, 8):
        noise = steps**0.5 / mu_of(epsilon)
        settings = {"noise": noise, "batch": len(data[0]), "steps": steps, "canaries": canaries}
        watches = [lambda s=s, k=settings: train(data, seed=s, **k) for s in range(seeds)]
        row(f"MLP, full batch, {canaries} canaries, epsilon {epsilon}", watches, epsilon)


def sampled(data, seeds, epsilon=4, rate=1 / 40, steps=200):
    """Softmax with a canary in each of its 7850 parameters."""
    noise = noise_of(epsilon, rate, steps)
    batch = round(len(data[0]) * rate)
    settings = {"noise": noise, "batch": batch, "steps": steps, "canaries": 7850, "hidden": 0}
    watches = [lambda s=s: train(data, seed=s, **settings) for s in range(seeds)]
    row(f"softmax, q = {rate:g}, 7850 canaries, epsilon {epsilon}", watches, epsilon)


def half_noise(data, seeds, epsilon=4, steps=25):
    """Half of the claimed noise, 1000 canaries; and the new user's loop, an MLP with momentum."""
    noise = steps**0.5 / mu_of(epsilon)
    settings = {"noise": noise, "batch": len(data[0]), "steps": steps, "canaries": 1000}
    for name, hidden in (("softmax", 0), ("MLP with momentum", 64)):
        watches = [
            lambda s=s, h=hidden: train(data, seed=s, added=0.5, hidden=h, **settings)
            for s in range(seeds)
        ]
        row(f"{name}, half the noise, 1000 canaries", watches, epsilon)


def utility(data, test, seeds, epsilon=4, rate=1 / 40, steps=200):
    """What a canary in each parameter costs: the share of right answers with and without."""
    import torch

    noise, batch = noise_of(epsilon, rate, steps), round(len(data[0]) * rate)
    X, y = (torch.as_tensor(part) for part in test)
    settings = {"noise": noise, "batch": batch, "steps": steps}
    for name, hidden, canaries in (("softmax", 0, 7850), ("MLP", 64, 50_000)):
        right = {0: [], canaries: []}
        for seed, n in itertools.product(range(seeds), right):
            _, model = train(data, canaries=n, seed=seed, hidden=hidden, **settings)
            with torch.no_grad():
                right[n].append(float((model(X).argmax(dim=1) == y).double().mean()))
        shown = [f"{np.mean(found):.4f} with {n} canaries" for n, found in right.items()]
        print(f"{name}, q = {rate:g}, epsilon {epsilon}: right {', '.join(shown)}", flush=True)


def main(quick=False, rows=()):
    """Print the named rows, or all."""
    import opacus  # noqa: F401  Loading it is not a part of any training.

    warnings.filterwarnings("ignore")
    data, seeds = load(400), 1 if quick else 5
    mnist = da.datasets.VARIABLE in os.environ
    many, test = cut(load(12_000), 10_000) if mnist else cut(load(1797), 1600)
    tables = {
        "full_batches": lambda: full_batches(data, seeds),
        "sampled": lambda: sampled(many, seeds),
        "half_noise": lambda: half_noise(data, 2 if quick else 20),
        "utility": lambda: utility(many, test, seeds),
    }
    for name in rows or tables:
        tables[name]()


if __name__ == "__main__":
    main(rows=sys.argv[1:])
