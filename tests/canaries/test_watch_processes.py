"""The watch in two real processes that share one training: gloo on this machine alone."""

import json
import subprocess
import sys

from extras import needs

PROGRAM = """
import json, sys, warnings
import torch
from opacus import PrivacyEngine
from opacus.distributed import DifferentiallyPrivateDistributedDataParallel as Shared
from opacus.optimizers import DPOptimizer
from torch import distributed
from torch.utils.data import DataLoader, TensorDataset
import dpassay as da

warnings.simplefilter("ignore")
torch.set_num_threads(1)
rank, path = int(sys.argv[1]), sys.argv[2]
distributed.init_process_group("gloo", init_method=f"file://{path}", rank=rank, world_size=2)
found = {}
for name, added in (("honest", 1.0), ("half", 0.5)):
    torch.manual_seed(1)
    X = torch.rand(80, 30)
    model = Shared(torch.nn.Linear(30, 40))
    model, optimizer, loader = PrivacyEngine().make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9),
        data_loader=DataLoader(TensorDataset(X, torch.arange(80) % 40), batch_size=20),
        noise_multiplier=3.0,
        max_grad_norm=1.0,
    )

    def add_noise(optimizer=optimizer, added=added):
        optimizer.noise_multiplier = 3.0 * added
        type(optimizer).add_noise(optimizer)
        optimizer.noise_multiplier = 3.0

    optimizer.add_noise = add_noise
    watch = da.probe.optimizer(optimizer)
    for _ in range(8):
        for x, y in loader:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
    weights = torch.cat([p.detach().flatten() for p in model.parameters()])
    found[name] = {"steps": watch.steps, "weights": weights.double().sum().item()}
    found[name]["history"] = watch.history
    if rank == 0:
        verdict = watch.judge(delta=1e-5)
        found[name] |= {"refuted": verdict.refuted, "p": verdict.p_value}
        found[name]["variance"] = verdict.one_training.residuals.variance
plain = torch.optim.SGD([torch.nn.Parameter(torch.zeros(9))], lr=0.1)
try:
    da.probe.optimizer(plain, noise_multiplier=1.0, sampling_rate=1.0, clip=1.0, divisor=1.0)
except da.errors.InvalidArgument as error:
    found["plain"] = str(error)
print(json.dumps(found))
distributed.destroy_process_group()
"""


def test_two_processes_train_one_model_and_the_first_judges_it(tmp_path):
    needs("opacus", "torch")
    command = [sys.executable, "-W", "ignore", "-c", PROGRAM]
    both = [
        subprocess.Popen([*command, str(rank), str(tmp_path / "meet")], stdout=subprocess.PIPE)
        for rank in (0, 1)
    ]
    first, second = (json.loads(process.communicate(timeout=600)[0]) for process in both)
    for name in ("honest", "half"):  # one model, to whose two copies the same canaries were added
        assert first[name]["weights"] == second[name]["weights"]
        assert (first[name]["steps"], second[name]["steps"]) == (32, 0)
        assert first[name]["history"] == [[3.0, 0.25, 32]]
    assert not first["honest"]["refuted"]
    assert first["half"]["refuted"]
    assert 0.95 < first["honest"]["variance"] < 1.05
    assert 0.24 < first["half"]["variance"] < 0.26
    assert "runs 2 processes" in first["plain"]
