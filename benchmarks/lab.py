"""What DP-SGD of small networks costs in JAX beside Opacus: CPU seconds in one run, a thread each.

Run with ``python -m benchmarks lab`` (``--quick``: two repetitions, not five). Poisson batches
of 250 of MNIST's 60 000 records, clip 1, noise 1, secure noise here. Goals: the softmax in a tenth
of the time of Opacus' tutorial form (hooks) and a seventh of its ghost mode, the MLP in a third of
its ghost mode, the CNN in no more than its best mode. "roomy" is hooks with a memory allocator that
is told to keep its pages: Opacus forms every gradient and by default gives them back each step.
Compilation is apart, once per process and shape.
"""

import ctypes
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from dpassay import nets
from dpassay.datasets import Dataset, DatasetMissing, load_mnist

BATCH, SCALE = 250, 10.0  # rows of norm 10: pixels between 0 and about 1
GOALS = {
    "softmax": {"hooks": 10.0, "ghost": 7.0},
    "mlp": {"ghost": 3.0},
    "cnn": {"hooks": 1.0, "ghost": 1.0, "roomy": 1.0},
}


@dataclass(frozen=True)
class Case:
    """A network with its learning rate and the number of steps."""

    network: nets.Network
    learning_rate: float
    steps: int


CASES = {
    "softmax": Case(nets.softmax(784, 10), 0.5, 100),
    "mlp": Case(nets.mlp([784, 64, 10]), 0.5, 100),
    "cnn": Case(nets.cnn(), 0.5, 50),
}
Run = Callable[[], Callable[[Any], Any]]  # trains, and gives back a predictor


def ours(case: Case, records: nets.Records) -> Run:
    """With secure noise and secure batches."""
    plan = nets.Training(
        case.network,
        steps=case.steps,
        clip=1.0,
        noise_multiplier=1.0,
        learning_rate=case.learning_rate,
        sampling_rate=BATCH / len(records),
    )

    def run() -> Callable[[Any], Any]:
        parameters = nets.train(plan, records).parameters
        return lambda X: case.network.predict(parameters, X)

    return run


def opacus(name: str, case: Case, data: Dataset, mode: str) -> Run:
    """The loop of its tutorial, or the same in ghost mode."""
    import torch
    from opacus import PrivacyEngine
    from torch.utils.data import DataLoader, TensorDataset

    torch.set_num_threads(1)
    shape = (1, 28, 28) if name == "cnn" else (784,)
    X = torch.from_numpy(SCALE * data.X_train).reshape(-1, *shape)
    table = TensorDataset(X, torch.from_numpy(data.y_train.astype(np.int64)))

    def run() -> Callable[[Any], Any]:
        model = torch_model(name)
        optimizer = torch.optim.SGD(model.parameters(), lr=case.learning_rate)
        parts = PrivacyEngine(accountant="rdp").make_private(
            module=model,
            optimizer=optimizer,
            data_loader=DataLoader(table, batch_size=BATCH),
            criterion=torch.nn.CrossEntropyLoss(),
            noise_multiplier=1.0,
            max_grad_norm=1.0,
            grad_sample_mode="hooks" if mode == "roomy" else mode,
            poisson_sampling=True,
        )
        private, optimizer, loader = parts[0], parts[1], parts[-1]
        criterion = parts[2] if mode == "ghost" else torch.nn.CrossEntropyLoss()
        for step, (rows, labels) in enumerate(loader):
            if step == case.steps:
                break
            optimizer.zero_grad()
            loss = criterion(private(rows), labels)
            loss.backward()
            optimizer.step()
        return lambda X: model(torch.from_numpy(X).reshape(-1, *shape)).argmax(1).numpy()

    return run


def torch_model(name: str) -> Any:
    """The same network in PyTorch."""
    from torch import nn

    if name == "softmax":
        return nn.Linear(784, 10)
    if name == "mlp":
        return nn.Sequential(nn.Linear(784, 64), nn.ReLU(), nn.Linear(64, 10))
    convolutions = [nn.Conv2d(1, 16, 4, 2, 1), nn.ReLU(), nn.Conv2d(16, 32, 4, 2, 1), nn.ReLU()]
    dense = [nn.Flatten(), nn.Linear(1568, 32), nn.ReLU(), nn.Linear(32, 10)]
    return nn.Sequential(*convolutions, *dense)


def keep_pages() -> None:
    """Have the C library keep what is freed, as far as it is the GNU one."""
    try:
        library = ctypes.CDLL("libc.so.6")
    except OSError:
        return
    for parameter in (-1, -3):  # when to trim, and from what size on to map pages
        library.mallopt(parameter, 2**30)


def measured(runs: dict[str, Run], data: Dataset, repetitions: int) -> dict[str, dict[str, float]]:
    """Least CPU seconds and mean test accuracy of each run, all of them in turn."""
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    hits: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(repetitions):
        for name, run in runs.items():
            start = time.process_time()
            predict = run()
            seconds[name].append(time.process_time() - start)
            hits[name].append(float((predict(SCALE * data.X_test) == data.y_test).mean()))
    return {n: {"seconds": min(seconds[n]), "accuracy": float(np.mean(hits[n]))} for n in runs}


def compare(name: str, data: Dataset, records: nets.Records, repetitions: int) -> None:
    """One network in all engines."""
    case = CASES[name]
    start = time.process_time()
    ours(case, records)()
    first = time.process_time() - start
    runs = {"dpassay": ours(case, records)}
    runs |= {mode: opacus(name, case, data, mode) for mode in ("hooks", "ghost")}
    found = measured(runs, data, repetitions)
    found |= _roomy(name, case, data, repetitions)
    base = found["dpassay"]["seconds"]
    print(f"{name}, {case.steps} steps; first run, with compilation: {first:.2f} s")
    for mode, row in found.items():
        ratio, goal = row["seconds"] / base, GOALS[name].get(mode, 0.0)
        print(
            f"  {mode if mode == 'dpassay' else f'Opacus {mode}':<16}{row['seconds']:>8.3f} s"
            f"{ratio:>8.1f} times{row['accuracy']:>8.3f}"
            f"{f'  goal {goal:g}' if goal else ''}{'  MISSED' if ratio < goal else ''}",
            flush=True,
        )


def _roomy(name: str, case: Case, data: Dataset, repetitions: int) -> dict[str, Any]:
    """In a process of its own, as the allocator cannot be told to forget it."""
    import multiprocessing

    with multiprocessing.get_context("spawn").Pool(1, keep_pages) as pool:
        return pool.apply(_measured_apart, (name, case, data, repetitions))


def _measured_apart(name: str, case: Case, data: Dataset, repetitions: int) -> Any:
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")
        return measured({"roomy": opacus(name, case, data, "roomy")}, data, repetitions)


def main(quick: bool = False) -> None:
    """Print a table per network."""
    try:
        data = load_mnist()
        import opacus as _  # noqa: F401
    except (DatasetMissing, ImportError) as missing:
        print(f"lab: skipped. {missing}")
        return
    records = nets.Records(SCALE * data.X_train, data.y_train)
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")
        for name in CASES:
            compare(name, data, records, 2 if quick else 5)


if __name__ == "__main__":
    main()
