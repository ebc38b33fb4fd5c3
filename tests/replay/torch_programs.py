"""Planted privacy bugs of torch trainings, each with its honest twin; lines end in ``# here``."""

import torch
from opacus import PrivacyEngine
from opacus.optimizers import DPOptimizer
from opacus.optimizers import optimizer as opacus_optimizer
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy
from torch.utils.data import DataLoader, TensorDataset

import dpassay as da
from replay.programs import Program

_MADE = torch.Generator().manual_seed(20)
FEATURES = torch.randn(38, 3, generator=_MADE) / 2
LABELS = (FEATURES[:, 0] > 0).long()
SET = TensorDataset(FEATURES, LABELS)
ROUND = TensorDataset(FEATURES[:32], LABELS[:32])  # a multiple of the batch size
BATCH, STEPS, SIGMA, RATE = 8, 5, 1.0, 0.2
SAMPLED = da.dp_sgd_event(SIGMA, RATE, STEPS)
FULL = da.GDP(2.0)  # four full-batch steps of sigma 1

PROGRAMS: list[Program] = []


def planted(rules, claim, honest, data=SET, **options):
    def keep(broken):
        PROGRAMS.append(Program(broken, honest, tuple(rules.split()), data, claim, options))
        return broken

    return keep


# With Opacus


def network(*layers):
    return nn.Sequential(nn.Linear(3, 4), nn.ReLU(), *layers, nn.Linear(4, 2))


def private(data, model, noise=SIGMA, make=None, loader=None, **options):
    """The parts of a private training, as Opacus makes them."""
    loader = DataLoader(data, batch_size=BATCH) if loader is None else loader
    optimizer = (make or (lambda p: torch.optim.SGD(p, lr=0.1)))(model.parameters())
    return PrivacyEngine().make_private(
        module=model, optimizer=optimizer, data_loader=loader,
        noise_multiplier=noise, max_grad_norm=1.0, **options,
    )  # fmt: skip


def loop(model, optimizer, loader, loss=cross_entropy):
    for x, y in loader:  # here
        optimizer.zero_grad()
        loss(model(x), y).backward()
        optimizer.step()  # here
    return model


def private_loss(model, data):
    with torch.no_grad():
        return cross_entropy(model(data.tensors[0]), data.tensors[1]).item()


def plain(data):
    return loop(*private(data, network()))


def momentum(data):
    return loop(*private(data, network(), make=lambda p: torch.optim.SGD(p, 0.1, momentum=0.9)))


def adam(data):
    return loop(*private(data, network(), make=lambda p: torch.optim.Adam(p, 0.01)))


def dropout(data):
    return loop(*private(data, network(nn.Dropout(0.5))))


def ghost(data):
    model, optimizer, loss, loader = private(
        data, network(), grad_sample_mode="ghost", criterion=nn.CrossEntropyLoss()
    )
    return loop(model, optimizer, loader, loss)


def secure(data):
    model, optimizer, loader = private(data, network())
    optimizer.secure_mode = True
    return loop(model, optimizer, loader)


@planted("DPA202", SAMPLED, plain)
def half_noise(data):
    return loop(*private(data, network(), noise=SIGMA / 2))


@planted("DPA202", SAMPLED, ghost)
def half_noise_ghost(data):
    model, optimizer, loss, loader = private(
        data, network(), SIGMA / 2, grad_sample_mode="ghost", criterion=nn.CrossEntropyLoss()
    )
    return loop(model, optimizer, loader, loss)


@planted("DPA401", SAMPLED, secure)
def secure_noise_halved(data):
    """Four draws are summed and divided by four, not by two."""
    model, optimizer, loader = private(data, network())

    def thin(std, reference, generator=None, secure_mode=False):
        return sum(torch.normal(0, std, reference.shape) for _ in range(4)) / 4

    known = opacus_optimizer._generate_noise
    opacus_optimizer._generate_noise = thin
    try:
        return loop(model, optimizer, loader)
    finally:
        opacus_optimizer._generate_noise = known


@planted("DPA301", SAMPLED, momentum)
def stepped_from_before(data):
    model = network()
    own = torch.optim.SGD(model.parameters(), lr=0.1)
    model, optimizer, loader = PrivacyEngine().make_private(
        module=model, optimizer=own, data_loader=DataLoader(data, batch_size=BATCH),
        noise_multiplier=SIGMA, max_grad_norm=1.0,
    )  # fmt: skip
    for x, y in loader:
        optimizer.zero_grad()
        cross_entropy(model(x), y).backward()
        own.step()
    return model


class NeverClips(DPOptimizer):
    def clip_and_accumulate(self):
        for p in self.params:
            p.summed_grad = p.grad_sample.sum(dim=0)


@planted("DPA201", SAMPLED, plain)
def never_clipped(data):
    model, optimizer, loader = private(data, network())
    optimizer.__class__ = NeverClips
    return loop(model, optimizer, loader)


@planted("DPA501", SAMPLED, plain)
def not_poisson(data):
    model, optimizer, loader = private(data, network(), poisson_sampling=False)
    return loop(model, optimizer, DataLoader(loader.dataset, BATCH, shuffle=True))


@planted("DPA104", da.dp_sgd_event(SIGMA, 0.25, 4), plain, ROUND)
def rate_from_n(data):
    """Opacus as it is: the rate is one over the number of batches."""
    return loop(*private(data, network()))


@planted("DPA101", SAMPLED, plain)
def early_stopping(data):
    model, optimizer, loader = private(data, network())
    for x, y in loader:  # here
        optimizer.zero_grad()
        cross_entropy(model(x), y).backward()
        optimizer.step()  # here
        if private_loss(model, data) > 1.5:
            break
    return model


@planted("DPA301", SAMPLED, plain)
def plateau(data):
    model, optimizer, loader = private(data, network())
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0)
    for x, y in loader:
        optimizer.zero_grad()
        cross_entropy(model(x), y).backward()
        optimizer.step()
        scheduler.step(private_loss(model, data))
    return model


class Centred(nn.Module):
    def forward(self, x):
        return x - x.mean(dim=0) if len(x) else x


@planted("DPA201", SAMPLED, dropout)
def centred_by_batch(data):
    return loop(*private(data, nn.Sequential(nn.Linear(3, 4), Centred(), nn.Linear(4, 2))))


class Remembers(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(3))

    def forward(self, x):
        with torch.no_grad():
            self.mean.mul_(0.9).add_(0.1 * x.sum(dim=0))
        return x


@planted("DPA301", SAMPLED, adam)
def private_buffer(data):
    return loop(*private(data, nn.Sequential(Remembers(), nn.Linear(3, 4), nn.Linear(4, 2))))


@planted("DPA403", SAMPLED, plain)
def seed_fixed(data):
    torch.manual_seed(7)
    return loop(*private(data, network()))


@planted("DPA401", SAMPLED, plain)
def steps_not_told(data):
    model, optimizer, loader = private(data, network())
    told = optimizer.step_hook
    for i, (x, y) in enumerate(loader):
        optimizer.zero_grad()
        optimizer.step_hook = told if i % 2 else None
        cross_entropy(model(x), y).backward()
        optimizer.step()  # here
    return model


@planted("DPA201", SAMPLED, adam)
def normalised_by_data(data):
    x, y = data.tensors
    return loop(*private(TensorDataset(2 * x / x.abs().max(), y), network()))


@planted("DPA301", SAMPLED, plain)
def rate_from_private_loss(data):
    model, optimizer, loader = private(data, network())
    for x, y in loader:
        optimizer.zero_grad()
        for group in optimizer.param_groups:
            group["lr"] = 0.1 / (1 + private_loss(model, data))
        cross_entropy(model(x), y).backward()
        optimizer.step()
    return model


# By hand


def clipped_sum(w, x, y):
    """The sum of per-example gradients of a logistic regression, each clipped to norm 1."""
    g = (torch.sigmoid(x @ w) - y)[:, None] * x
    return (g / g.norm(dim=1, keepdim=True).clamp(min=1.0)).sum(dim=0)


def descend(data, draw, steps=4):
    x, y = data.tensors
    w = torch.zeros(3)
    for _ in range(steps):
        w = w - 0.1 * draw(clipped_sum(w, x, y.float()))
    return w


def by_randn(data):
    return descend(data, lambda g: g + SIGMA * torch.randn(3))


def by_randn_like(data):
    return descend(data, lambda g: g + torch.randn_like(g) * SIGMA)


def by_normal(data):
    return descend(data, lambda g: torch.normal(g, SIGMA))


def by_normal_in_place(data):
    return descend(data, lambda g: g.add_(torch.empty(3).normal_(0, SIGMA)))


def by_distribution(data):
    return descend(data, lambda g: g + torch.distributions.Normal(0.0, SIGMA).sample((3,)))


def by_generator(data):
    generator = torch.Generator()
    generator.seed()
    return descend(data, lambda g: g + torch.normal(0.0, SIGMA, (3,), generator=generator))


def by_laplace(data):
    total = data.tensors[0].clamp(-1, 1).sum()
    return total + torch.distributions.Laplace(0.0, 2.0).sample()


def adam_by_hand(data):
    x, y = data.tensors
    w = torch.zeros(3, requires_grad=True)
    optimizer = torch.optim.Adam([w], lr=0.1)
    for _ in range(4):
        noise = SIGMA * torch.randn(3)
        w.grad = clipped_sum(w.detach(), x, y.float()) + noise
        optimizer.step()
    return w


def by_hook(data, noise=SIGMA):
    """Full-batch gradient of a loss whose gradient is clipped by its form, noise in a hook."""
    x, y = data.tensors
    x = x / x.norm(dim=1, keepdim=True).clamp(min=1.0)
    w = torch.zeros(3, requires_grad=True)
    w.register_hook(lambda g: g + noise * torch.randn_like(g))
    for _ in range(4):
        loss = binary_cross_entropy_with_logits(x @ w, y.float(), reduction="sum")
        loss.backward()
        with torch.no_grad():
            w -= 0.1 * w.grad
        w.grad = None
    return w


@planted("DPA202", FULL, by_randn)
def half_noise_by_hand(data):
    return descend(data, lambda g: g + SIGMA / 2 * torch.randn(3))  # here


@planted("DPA202", FULL, by_normal)
def drawn_around_half(data):
    return descend(data, lambda g: torch.normal(g, SIGMA / 2))  # here


@planted("DPA202", FULL, by_distribution)
def distribution_half(data):
    normal = torch.distributions.Normal(0.0, SIGMA / 2)
    return descend(data, lambda g: g + normal.sample((3,)))  # here


@planted("DPA202", da.PureDP(1.5), by_laplace, TensorDataset(FEATURES[:, :1].contiguous()))
def laplace_half(data):
    total = data.tensors[0].clamp(-1, 1).sum()
    return total + torch.distributions.Laplace(0.0, 0.5).sample()  # here


@planted("DPA202", FULL, by_randn_like)
def batch_clipped(data):
    x, y = data.tensors
    w = torch.zeros(3)
    for _ in range(4):
        g = ((torch.sigmoid(x @ w) - y)[:, None] * x).sum(dim=0)
        g = g / (g.norm() / 38).clamp(min=1.0)
        w = w - 0.1 * (g + SIGMA * torch.randn(3))  # here
    return w


@planted("DPA202", FULL, adam_by_hand)
def never_zeroed(data):
    x, y = data.tensors
    w, total = torch.zeros(3), torch.zeros(3)
    for _ in range(4):
        total += clipped_sum(w, x, y.float())
        w = w - 0.1 * (total + SIGMA * torch.randn(3))  # here
    return w


@planted("DPA402", FULL, by_normal_in_place)
def noise_reused(data):
    noise = SIGMA * torch.randn(3)
    return descend(data, lambda g: g + noise)  # here


@planted("DPA402", FULL, by_generator)
def seeded_anew(data):
    seed = torch.Generator().seed()

    def draw(g):
        generator = torch.Generator().manual_seed(seed)
        return g + SIGMA * torch.randn(3, generator=generator)  # here

    return descend(data, draw)


@planted("DPA301", FULL, by_randn)
def update_before_noise(data):
    x, y = data.tensors
    w = torch.zeros(3)
    for _ in range(4):
        g = clipped_sum(w, x, y.float())
        noisy = g + SIGMA * torch.randn(3)
        w = w - 0.1 * g
    return w, noisy


@planted("DPA301", FULL, by_randn)
def divided_by_n(data):
    x, y = data.tensors
    w = torch.zeros(3)
    for _ in range(4):
        w = w - (clipped_sum(w, x, y.float()) + SIGMA * torch.randn(3)) / len(x)
    return w


@planted("DPA202", FULL, by_hook)
def hook_half(data):
    x, y = data.tensors
    x = x / x.norm(dim=1, keepdim=True).clamp(min=1.0)
    w = torch.zeros(3, requires_grad=True)
    w.register_hook(lambda g: g + SIGMA / 2 * torch.randn_like(g))  # here
    for _ in range(4):
        binary_cross_entropy_with_logits(x @ w, y.float(), reduction="sum").backward()
        with torch.no_grad():
            w -= 0.1 * w.grad
        w.grad = None
    return w


def by_coins(data):
    x, y = data.tensors
    w = torch.zeros(3)
    for _ in range(4):
        batch = torch.rand(len(x)) < 0.25
        w = w - 0.1 * (clipped_sum(w, x[batch], y[batch].float()) + SIGMA * torch.randn(3))
    return w


@planted("DPA501", da.dp_sgd_event(SIGMA, 0.25, 4), by_coins)
def shuffled(data):
    x, y = data.tensors
    w = torch.zeros(3)
    for batch in torch.randperm(len(x))[:36].split(9):  # here
        w = w - 0.1 * (clipped_sum(w, x[batch], y[batch].float()) + SIGMA * torch.randn(3))
    return w
