"""Programs in other styles than those that the recorder was made for: honest at 1, broken below.

Each is made by ``make(noise)``; with noise 1 it keeps its claim, with 0.3 it does not.
"""

import numpy as np
import pandas as pd
import torch
from torch import nn

import dpassay as da

VALUES = np.linspace(0, 1, 24)
CODES = np.arange(24) % 3
TABLE = pd.DataFrame({"g": CODES, "v": VALUES})
X = torch.linspace(-1, 1, 24 * 3).reshape(24, 3)
Y = (X[:, 0] > 0).float()


def per_sample_gradients(noise):
    def train(data):
        x, y = data
        params = {"w": torch.zeros(3), "b": torch.zeros(())}

        def loss(p, xi, yi):
            return nn.functional.binary_cross_entropy_with_logits(xi @ p["w"] + p["b"], yi)

        for _ in range(3):
            g = torch.func.vmap(torch.func.grad(loss), (None, 0, 0))(params, x, y)
            norms = torch.sqrt(sum((v.reshape(len(x), -1) ** 2).sum(1) for v in g.values()))
            scale = (1 / norms).clamp(max=1.0)
            for k, v in g.items():
                total = torch.einsum("i,i...->...", scale, v)
                params[k] = params[k] - 0.1 * (total + noise * torch.randn_like(total))
        return params

    return train


def foreach(noise):
    def train(data):
        x, y = data
        sums = [x.clamp(-0.5, 0.5).sum(0), y.clamp(0, 0.5).sum()]
        torch._foreach_add_(sums, [noise * torch.randn_like(s) for s in sums])
        return sums

    return train


def randomized_bits(noise):
    p = 1 / (1 + np.exp(-1.0 / noise))

    def release(bits):
        return torch.where(torch.rand(len(bits)) < p, bits, 1 - bits)

    return release


def softmax_draw(noise):
    def release(codes):
        votes = torch.bincount(codes.long(), minlength=3).float()
        return torch.multinomial(torch.softmax(votes / (2 * noise), 0), 1)

    return release


def output_perturbation(noise):
    def train(data):
        x, y = data
        w = torch.zeros(3, requires_grad=True)
        optimizer = torch.optim.LBFGS([w], max_iter=5)

        def closure():
            optimizer.zero_grad()
            loss = nn.functional.binary_cross_entropy_with_logits(x @ w, y) + w.square().sum()
            loss.backward()
            return loss

        optimizer.step(closure)
        w = w.detach()
        w = w / w.norm().clamp(min=1.0)
        return w + 2 * noise * torch.randn(3)

    return train


def prefix_tree(noise):
    def release(x, rng):
        sums = np.clip(x[:16], 0, 1)
        sums = np.pad(sums, (0, 16 - len(sums)))
        nodes = [sums.reshape(-1, 2**k).sum(axis=1) for k in range(5)]
        return [n + rng.laplace(scale=5 * noise, size=n.shape) for n in nodes]

    return release


def correlated_noise(noise):
    root = np.tril(np.ones((4, 4)))

    def release(x, rng):
        counts = np.histogram(x, 4, (0, 1))[0]
        return root @ counts + root @ rng.normal(0, noise, 4)

    return release


def votes_of_teachers(noise):
    def release(codes, rng):
        return [
            int(np.argmax(np.bincount((codes + i) % 3, minlength=3) + rng.laplace(0, 4 * noise, 3)))
            for i in range(4)
        ]

    return release


def drawn_before(noise):
    def train(x, rng):
        drawn = rng.normal(0, 2 * noise, size=(4, 2))
        w = np.zeros(2)
        for z in drawn:
            g = np.clip(np.stack([x - w[0], x * 0], axis=1), -1, 1).sum(axis=0)
            w = w + 0.1 * (g + z)
        return w

    return train


def several_dimensions(noise):
    def release(x, rng):
        q = np.histogram(np.clip(x, 0, 1), 3, (0, 1))[0]
        return q + rng.multivariate_normal(np.zeros(3), noise**2 * np.eye(3))

    return release


def grouped(noise):
    def release(table, rng):
        out = {}
        for g, part in table.groupby("g")["v"]:
            if g in (0, 1, 2):
                out[g] = part.clip(0, 1).sum() + rng.laplace(scale=noise)
        for g in (0, 1, 2):
            out.setdefault(g, rng.laplace(scale=noise))
        return out

    return release


def tree_of_noise(noise):
    def train(data):
        x, _ = data
        w, before = torch.zeros(3), torch.zeros(3)
        for t in range(1, 4):
            total = x.clamp(-0.5, 0.5).sum(0) * t
            now = 3 * noise * torch.randn(3)
            w = w - 0.1 * (total + now - before)
            before = now
        return w

    return train


def private_median(noise):
    def release(x, rng):
        grid = np.linspace(0, 1, 11)
        ranks = -np.abs((x[:, None] <= grid).sum(axis=0) - len(x) / 2)
        return grid[np.argmax([r + rng.gumbel(scale=noise) for r in ranks])]

    return release


def mean_of_count(noise):
    def release(x, rng):
        n = len(x) + rng.laplace(scale=2 * noise)
        total = float(np.clip(x, 0, 1).sum()) + rng.laplace(scale=2 * noise)
        return round(total / max(n, 1.0), 3)

    return release


def small_network(noise):
    def train(data):
        from opacus import PrivacyEngine
        from torch.utils.data import DataLoader, TensorDataset

        x, y = data
        model = nn.Sequential(nn.Unflatten(1, (1, 3)), nn.Conv1d(1, 2, 2), nn.GroupNorm(1, 2),
                              nn.Flatten(), nn.Linear(4, 1))  # fmt: skip
        model, optimizer, loader = PrivacyEngine().make_private(
            module=model, optimizer=torch.optim.RMSprop(model.parameters(), lr=0.01),
            data_loader=DataLoader(TensorDataset(x, y), batch_size=5, shuffle=True),
            noise_multiplier=noise, max_grad_norm=0.5,
        )  # fmt: skip
        for a, b in loader:
            optimizer.zero_grad()
            nn.functional.binary_cross_entropy_with_logits(model(a)[:, 0], b).backward()
            optimizer.step()
        return model

    return train


BITS = torch.arange(24) % 2
# name -> (make, data, claim); the claim holds at noise 1
PROGRAMS = {
    "per-sample gradients by vmap": (per_sample_gradients, (X, Y), da.GDP(3**0.5)),
    "foreach": (foreach, (X, Y), da.GDP(1.01)),
    "randomized bits": (randomized_bits, BITS, da.PureDP(1.0, neighbouring="replace-one")),
    "softmax draw": (softmax_draw, torch.from_numpy(CODES), da.PureDP(1.0)),
    "output perturbation": (output_perturbation, (X, Y), da.GDP(1.01)),
    "prefix tree": (prefix_tree, VALUES, da.PureDP(1.0)),
    "correlated noise": (correlated_noise, VALUES, da.GDP(1.01)),
    "votes of teachers": (votes_of_teachers, CODES, da.PureDP(1.0)),
    "drawn before": (drawn_before, VALUES, da.GDP(1.01)),
    "several dimensions": (several_dimensions, VALUES, da.GDP(1.01)),
    "grouped": (grouped, TABLE, da.PureDP(1.0)),
    "tree of noise": (tree_of_noise, (X, Y), da.GDP(3.0)),
    "private median": (private_median, VALUES, da.PureDP(1.0)),
    "mean of count": (mean_of_count, VALUES, da.PureDP(1.0)),
    # 23 records: with a multiple of the batch size Opacus' own rate depends on n
    "small network": (small_network, (X[:23], Y[:23]), da.dp_sgd_event(1.0, 0.2, 5)),
}
