# ruff: noqa: E402  (skipped where the library is not installed)
"""Planted bugs of torch trainings are found on their line; honest ones are not flagged."""

import functools
import statistics

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("opacus")

from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, Dataset, TensorDataset

import dpassay as da
from dpassay.privacy import account, events
from dpassay.replay import tape as tapes
from dpassay.replay.datasets import form_of
from dpassay.replay.entries import Edit
from dpassay.replay.outputs import first_difference, settle
from dpassay.replay.playing import Player
from dpassay.replay.tape import current
from replay.torch_programs import (
    BATCH,
    FEATURES,
    FULL,
    LABELS,
    PROGRAMS,
    SAMPLED,
    SET,
    by_coins,
    by_randn,
    dropout,
    ghost,
    momentum,
    network,
    plain,
    private,
    secure,
)

HONEST = list({program.honest: program for program in PROGRAMS}.values())
_account = functools.cache(account)


def claim_of(program):
    """The claim as a curve that is computed once, and the sampling rate that an event states."""
    if not isinstance(program.claim, events.Event):
        return program.claim, {}
    return _account(program.claim), {"sampling_rate": program.claim.event.sampling_rate}


def name_of(program):
    return program.name


def honest_name(program):
    return program.honest.__name__


@pytest.fixture(scope="module")
def found():
    return {}


@pytest.mark.parametrize("program", PROGRAMS, ids=name_of)
def test_the_bug_is_found_on_its_line(program, found):
    claim, options = claim_of(program)
    check = da.check(program.broken, program.data, claim, limit=9, **options)
    first = check.findings[0]
    found[program.name] = first
    assert first.rule in program.rules
    assert first.execution <= 20
    if first.rule != "DPA301":
        assert "# here" in first.site.source


@pytest.mark.parametrize("program", HONEST, ids=honest_name)
def test_the_honest_twin_is_not_flagged(program):
    claim, options = claim_of(program)
    check = da.check(program.honest, program.data, claim, limit=6, **options)
    assert check.findings == check.undecided == check.not_checked == ()
    assert check.epsilon_seen <= claim.epsilon(check.delta) * 1.001


def test_denominators_executions_and_lines(found):
    """27 bugs, 16 different honest twins; half of the leaks outside the noise have a line."""
    assert (len(PROGRAMS), len(HONEST)) == (27, 16)
    if len(found) < len(PROGRAMS):
        pytest.skip("the table was run in part")
    assert statistics.median(finding.execution for finding in found.values()) <= 7
    leaks = [finding for finding in found.values() if finding.rule == "DPA301"]
    named = [f for f in leaks if f.site.source.startswith(("optimizer.step", "w = w - "))]
    assert len(leaks) == 6
    assert len(named) >= 3


# The recorder


@pytest.mark.filterwarnings("ignore")  # of Opacus, when it is run without the recorder
@pytest.mark.parametrize("train", [dropout, ghost, momentum, secure, by_coins])
def test_recording_changes_no_bit(train):
    data = form_of(SET)
    player = Player(train, 5, data.rebuild)
    player.record(data.arrays, 38)
    first = player.record(data.arrays, 38)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with torch.random.fork_rng():
        torch.manual_seed(5)
        assert first_difference(settle(train(SET)), first.output) is None
    torch.set_num_threads(threads)
    again = player.replay(first, data.arrays, Edit("same", -1, 38, 38))
    assert first_difference(first.output, again.output) is None
    assert first.tape.lost == []


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_patches_and_modes_are_gone_after_errors(error):
    def release(data):
        torch.randn(3)
        raise error

    owners = (torch.distributions.Laplace, torch.distributions.Gumbel, torch.nn.Parameter)
    before = [dict(vars(owner)) for owner in owners]
    torch.manual_seed(9)
    state, threads = torch.get_rng_state(), torch.get_num_threads()
    with pytest.raises(error):
        da.check(release, SET, FULL)
    assert [dict(vars(owner)) for owner in owners] == before
    assert torch.overrides._get_current_function_mode_stack() == []
    assert current() is None
    assert torch.equal(state, torch.get_rng_state())
    assert torch.get_num_threads() == threads


def test_a_recorder_that_does_not_align_masks_is_caught(monkeypatch):
    assert da.check(dropout, SET, SAMPLED, limit=2).findings == ()
    monkeypatch.setattr(tapes.Tape, "_align_batch", lambda *args: None)
    assert da.check(dropout, SET, SAMPLED, limit=2).findings


def test_a_recorder_that_freezes_late_or_nothing_is_caught(monkeypatch):
    real = tapes.Tape._counterpart
    for first in (1, 10**9):
        monkeypatch.setattr(
            tapes.Tape, "_counterpart", lambda t, e, k=first: real(t, e) if e.chain >= k else None
        )
        assert da.check(by_randn, SET, FULL, limit=4).findings


def test_a_recorder_that_does_not_align_coins_is_caught(monkeypatch):
    monkeypatch.setattr(tapes.Tape, "align", lambda *args: None)
    assert da.check(by_coins, SET, da.dp_sgd_event(1.0, 0.25, 4), limit=4).findings


# What is followed, and what is named


def total(data):
    return data.clamp(0, 1).sum()


VALUES = torch.linspace(0, 1, 20)
FOLLOWED = {
    "slice of a draw": lambda x: total(x) + torch.randn(5)[2],
    "view": lambda x: total(x).reshape(1, 1) + torch.randn(1).view(1, 1),
    "joined": lambda x: total(x) + torch.cat([torch.randn(2), torch.randn(1)])[2],
    "alpha": lambda x: torch.add(total(x), torch.randn(()), alpha=2.0) / 1,
    "negative": lambda x: -torch.randn(()) + total(x),
    "reflected": lambda x: 1.0 - (torch.randn(()) + total(x)),
    "scaled in place": lambda x: total(x) + torch.randn(()).mul_(3.0),
    "split": lambda x: [total(x) + part for part in torch.randn(4).split(2)],
    "item": lambda x: total(x).item() + torch.randn(()).item(),
    "doubled": lambda x: total(x).double() + torch.randn(()).double(),
    "copied into": lambda x: total(x) + torch.empty(3).copy_(torch.randn(3)),
    "exponential": lambda x: total(x) + torch.empty(()).exponential_() - torch.empty(
        ()).exponential_(),
    "gumbel": lambda x: (x[:4] + torch.distributions.Gumbel(0.0, 1.0).sample((4,))).argmax(),
    "bernoulli": lambda x: torch.bernoulli(x.clamp(0.2, 0.8)),
    "vector of scales": lambda x: total(x) + torch.normal(0.0, torch.tensor([1.0, 2.0])),
}  # fmt: skip


@pytest.mark.parametrize("release", FOLLOWED.values(), ids=FOLLOWED.keys())
def test_followed(release):
    first = Player(release, 3, form_of(VALUES).rebuild).record(VALUES.numpy(), 20)
    assert first.tape.lost == []
    assert any(entry.counts for entry in first.tape.entries)


LOST = {
    "box muller": lambda x: total(x) + torch.sqrt(-2 * torch.log(torch.rand(()))),
    "cauchy into a product": lambda x: total(x) * torch.empty(()).cauchy_(),
    "random layer": lambda x: torch.nn.functional.alpha_dropout(x, 0.5, training=True),
}


@pytest.mark.parametrize("release", LOST.values(), ids=LOST.keys())
def test_what_is_lost_is_never_a_finding(release):
    assert Player(release, 3, form_of(VALUES).rebuild).record(VALUES.numpy(), 20).tape.lost
    assert da.check(release, VALUES, "0.01").findings == ()


def test_initial_weights_are_no_noise():
    def train(x):
        model = torch.nn.Linear(1, 1)
        bias = torch.nn.Parameter(torch.randn(1))
        torch.nn.init.orthogonal_(model.weight)
        return model(torch.zeros(1, 1)) + bias + total(x) + torch.randn(1)

    check = da.check(train, VALUES, da.GDP(1.0))
    assert check.findings == check.undecided == ()
    assert check.epsilon_seen == pytest.approx(da.GDP(1.0).epsilon(check.delta), rel=1e-4)


def test_noise_on_every_record_of_a_batch_is_no_finding():
    def train(data):
        x, y = data.tensors
        w = torch.zeros(3)
        for _ in range(3):
            batch = torch.rand(len(x)) < 0.25
            seen = x[batch] + 0.1 * torch.randn(int(batch.sum()), 3)
            g = (torch.sigmoid(seen @ w) - y[batch])[:, None] * seen
            g = g / g.norm(dim=1, keepdim=True).clamp(min=1.0)
            w = w - 0.1 * (g.sum(dim=0) + torch.randn(3))
        return w

    check = da.check(train, SET, da.dp_sgd_event(1.0, 0.25, 3), limit=6)
    assert check.findings == ()
    assert any("one entry per record" in entry.message for entry in check.undecided)


def test_single_precision_scalars_that_repeat_by_chance_are_no_fixed_seed():
    value = torch.tensor(0.5).numpy()
    assert not tapes.is_telling(value)
    assert tapes.is_telling(value.astype(np.float64))
    assert tapes.is_telling(np.zeros(3, np.float32))


class Items(Dataset):
    def __len__(self):
        return 20

    def __getitem__(self, i):
        return VALUES[i][None], int(i % 2)


@pytest.mark.parametrize(
    "data",
    [VALUES, (VALUES[:, None], torch.arange(20) % 2), TensorDataset(VALUES[:, None]), Items(),
     {"x": VALUES[:, None], "y": torch.arange(20) % 2}],
    ids=["tensor", "pair", "tensors", "items", "dict"],
)  # fmt: skip
def test_data_of_every_kind(data):
    def release(data):
        if isinstance(data, Dataset):
            data = torch.stack([data[i][0] for i in range(len(data))])
        x = data["x"] if isinstance(data, dict) else data[0] if isinstance(data, tuple) else data
        return total(x) + torch.distributions.Laplace(0.0, 0.5).sample()

    check = da.check(release, data, "1")
    assert check.findings[0].epsilon_seen == pytest.approx(2.0)
    assert type(check.pair.data) is type(data) or isinstance(check.pair.data, Dataset)


def test_an_accountant_is_believed_where_it_is_right():
    form = form_of(SET)
    player = Player(plain, 0, form.rebuild)
    tape = player.record(form.arrays, 38).tape
    assert len(tape.steps) == len(tape.told) == 5
    assert {(told.noise_multiplier, told.sampling_rate) for told in tape.told} == {(1.0, 0.2)}
    assert {(step.noise_multiplier, step.max_grad_norm) for step in tape.steps} == {(1.0, 1.0)}


def test_noise_of_an_unknown_source_is_tested_against_its_stated_scale():
    """An optimizer whose noise cannot be followed becomes one primitive; too little is found."""
    from opacus.optimizers import DPOptimizer

    from replay.torch_programs import loop, network, private

    def trained(scale):
        class Own(DPOptimizer):
            def add_noise(self):
                for p in self.params:
                    drawn = np.random.default_rng().standard_normal(tuple(p.summed_grad.shape))
                    noise = torch.tensor((scale * drawn).tolist())
                    p.grad = (p.summed_grad + noise).view_as(p)

        def train(data):
            model, optimizer, loader = private(data, network())
            optimizer.__class__ = Own
            return loop(model, optimizer, loader)

        return da.check(train, SET, SAMPLED, limit=3)

    assert trained(1.0).findings == ()
    assert trained(0.5).findings[0].rule == "DPA401"


def test_batches_split_in_memory_are_one_step():
    from opacus.utils.batch_memory_manager import BatchMemoryManager

    from replay.torch_programs import network, private

    def train(data):
        model, optimizer, loader = private(data, network())
        with BatchMemoryManager(
            data_loader=loader, max_physical_batch_size=3, optimizer=optimizer
        ) as parts:
            for x, y in parts:
                optimizer.zero_grad()
                cross_entropy(model(x), y).backward()
                optimizer.step()
        return model

    check = da.check(train, TensorDataset(FEATURES, LABELS), SAMPLED, limit=3)
    assert check.findings == check.undecided == ()
    assert isinstance(next(iter(DataLoader(SET))), list)


def test_private_values_that_are_read_and_loaders_with_workers_are_named():
    def train(data):
        model, optimizer, loader = private(
            data, network(), loader=DataLoader(data, BATCH, num_workers=2, persistent_workers=True)
        )
        for x, y in loader:
            optimizer.zero_grad()
            loss = cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            logged.append(loss.item())  # read
            logged.append(next(model.parameters()).sum().item())  # a function of noisy values
        return model

    logged = []
    check = da.check(train, SET, SAMPLED, limit=3)
    assert check.findings == ()
    assert check.decided
    named = {entry.site.source: entry.message for entry in check.not_checked}
    assert len(named) == 2
    assert "published without noise" in named["logged.append(loss.item())  # read"]
    assert any("worker processes" in message for message in named.values())
