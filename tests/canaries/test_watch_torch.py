"""The watch on optimizers of torch: where canaries go, what is read, what is refused."""

import numpy as np
import pytest

import dpassay as da
from dpassay.errors import InvalidArgument, InvalidTarget
from extras import needs

pytestmark = [
    pytest.mark.filterwarnings("ignore:Secure RNG"),
    pytest.mark.filterwarnings("ignore:.*[Bb]ackward hook"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:Optimal order is the largest alpha"),
]
RECORDS, CLIP, SIGMA = 60, 0.5, 2.0


@pytest.fixture(autouse=True)
def _opacus():
    needs("opacus", "torch")


def make(noise=SIGMA, batch=20, seed=0, **how):
    """A private model, its optimizer, loader and engine."""
    import torch
    from opacus import PrivacyEngine
    from torch.utils.data import DataLoader, TensorDataset

    torch.manual_seed(seed)
    random = np.random.default_rng(3)
    X = torch.tensor(random.random((RECORDS, 12)), dtype=torch.float32)
    model = torch.nn.Sequential(torch.nn.Linear(12, 20), torch.nn.ReLU(), torch.nn.Linear(20, 3))
    engine = PrivacyEngine()
    made = engine.make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9),
        data_loader=DataLoader(TensorDataset(X, torch.arange(RECORDS) % 3), batch_size=batch),
        noise_multiplier=noise,
        **({"max_grad_norm": CLIP} | how),
    )
    return (*made, engine)


def loop(model, optimizer, loader, epochs=2, step=None):
    import torch

    for _ in range(epochs):
        for x, y in loader:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(x), y).backward()
            (step or optimizer.step)()


def parameters_of(model):
    import torch

    return torch.cat([p.detach().flatten() for p in model.parameters()]).double().numpy()


def record(watch):
    """What the watch takes at each step, beside its sums."""
    taken, take = [], watch.take

    def keep(seen, drawn, noise, rate, known=None):
        taken.append((seen, drawn, noise, rate, known))
        take(seen, drawn, noise, rate, known=known)

    watch.take = keep
    return taken


# ------------------------------------------------------------------------- Opacus


@pytest.mark.parametrize("where", ["noise", "clipping"])
def test_without_noise_a_step_shows_its_canaries_and_nothing_else(where):
    model, optimizer, loader, _ = make(noise=0.0)
    watch = da.probe.optimizer(optimizer, canaries=50, rng=1, where=where)
    taken = record(watch)
    loop(model, optimizer, loader)
    assert len(taken) == 6
    for seen, drawn, noise, rate, known in taken:
        np.testing.assert_allclose(known, drawn, atol=2e-5)
        assert not np.allclose(seen, drawn, atol=0.01)  # the data are in there as well
        assert (noise, rate) == (0.0, pytest.approx(1 / 3))
    assert 0 < np.mean([drawn.sum() for _, drawn, *_ in taken]) < watch.coins.sum()


def test_the_model_moves_by_the_canaries_and_nothing_else():
    """The same seeds with and without a watch: one step differs by C / B along each canary."""
    moved = []
    for watched in (True, False):
        model, optimizer, loader, _ = make(batch=RECORDS, seed=5)
        start = parameters_of(model)
        if watched:
            watch = da.probe.optimizer(optimizer, canaries=100, rng=1)
        loop(model, optimizer, loader, epochs=1)
        moved.append(parameters_of(model) - start)
    difference = (moved[0] - moved[1]) / -0.1 * RECORDS / CLIP
    np.testing.assert_allclose(watch.blocks.project(difference), watch.coins, atol=1e-4)
    rest = difference - watch.blocks.spread(watch.coins)
    assert np.linalg.norm(rest) < 1e-3


def test_the_watch_draws_nothing_from_torch():
    import torch

    states = []
    for watched in (True, False):
        model, optimizer, loader, _ = make(seed=5)
        if watched:
            da.probe.optimizer(optimizer)
        loop(model, optimizer, loader)
        states.append(torch.get_rng_state())
    assert torch.equal(*states)


@pytest.mark.parametrize("where", ["noise", "clipping"])
@pytest.mark.parametrize("added", [1.0, 0.5])
def test_one_training_shows_whether_the_noise_is_there(where, added):
    model, optimizer, loader, engine = make(batch=RECORDS)  # full batches are judged soon
    whole = optimizer.add_noise

    def add_noise():  # the bug: what the accountant is told is not what is added
        optimizer.noise_multiplier *= added
        whole()
        optimizer.noise_multiplier /= added

    optimizer.add_noise = add_noise
    watch = da.probe.optimizer(optimizer, rng=1, where=where)
    loop(model, optimizer, loader, epochs=10)
    assert watch.history == engine.accountant.history == [(SIGMA, 1.0, 10)]
    verdict = watch.judge(delta=1e-5)
    assert verdict.refuted == (added < 1)
    assert verdict.one_training.residuals.variance == pytest.approx(added**2, rel=0.05)
    exercised = " ".join(verdict.one_training.exercised)
    assert ("clipping: rows" in exercised) == (where == "clipping")


def test_clipping_that_is_left_out_is_seen_before_it_and_not_behind_it():
    verdicts = {}
    for where in ("noise", "clipping"):
        model, optimizer, loader, _ = make(noise=5.0, batch=RECORDS)
        original = optimizer.clip_and_accumulate

        def clip(original=original, optimizer=optimizer):
            norm, optimizer.max_grad_norm = optimizer.max_grad_norm, 1e9
            original()
            optimizer.max_grad_norm = norm

        optimizer.clip_and_accumulate = clip
        watch = da.probe.optimizer(optimizer, rng=1, where=where, canaries=300)
        loop(model, optimizer, loader)
        verdicts[where] = watch.judge(delta=1e-5).refuted
    assert verdicts == {"noise": False, "clipping": True}


@pytest.mark.parametrize("where", ["noise", "clipping"])
def test_large_batches_in_parts_are_one_step(where):
    from opacus.utils.batch_memory_manager import BatchMemoryManager

    model, optimizer, loader, engine = make(noise=0.0, batch=30)
    watch = da.probe.optimizer(optimizer, canaries=50, where=where)
    taken = record(watch)
    with BatchMemoryManager(
        data_loader=loader, max_physical_batch_size=4, optimizer=optimizer
    ) as parts:
        loop(model, optimizer, parts)
    assert watch.steps == 4
    assert watch.history == engine.accountant.history
    for _, drawn, _, _, known in taken:
        np.testing.assert_allclose(known, drawn, atol=2e-5)


@pytest.mark.parametrize("where", ["noise", "clipping"])
def test_gradients_that_are_accumulated_are_one_step_at_the_rate_that_is_accounted(where):
    import torch

    model, optimizer, loader, engine = make(noise=0.0, batch=10, poisson_sampling=False)
    watch = da.probe.optimizer(optimizer, canaries=50, where=where)
    taken = record(watch)
    for number, (x, y) in enumerate(loader):
        torch.nn.functional.cross_entropy(model(x), y).backward()
        if number % 2:
            optimizer.step()
            optimizer.zero_grad()
    assert watch.history == engine.accountant.history == [(0.0, pytest.approx(1 / 3), 3)]
    for _, drawn, _, _, known in taken:
        np.testing.assert_allclose(known, drawn, atol=2e-5)


def test_noise_that_is_scheduled_is_read_step_by_step():
    from opacus.schedulers import ExponentialNoise

    model, optimizer, loader, engine = make(batch=RECORDS)
    schedule = ExponentialNoise(optimizer, gamma=0.5)
    watch = da.probe.optimizer(optimizer)
    loop(model, optimizer, loader, epochs=1)
    schedule.step()
    loop(model, optimizer, loader, epochs=1)
    assert [part[0] for part in watch.history] == [SIGMA, SIGMA / 2]
    assert watch.history == engine.accountant.history
    assert "changed on the way" in str(watch.judge(claim=(8.0, 1e-5)))


def test_ghost_clipping_has_the_hook_but_no_rows():
    import torch

    criterion = torch.nn.CrossEntropyLoss()
    model, optimizer, criterion, loader, _ = make(
        noise=0.0, grad_sample_mode="ghost", criterion=criterion
    )
    with pytest.raises(InvalidArgument, match="where='clipping' needs rows"):
        da.probe.optimizer(optimizer, where="clipping")
    watch = da.probe.optimizer(optimizer, canaries=50)
    taken = record(watch)
    for x, y in loader:
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()
    assert watch.steps == 3
    for _, drawn, _, _, known in taken:
        np.testing.assert_allclose(known, drawn, atol=2e-5)


@pytest.mark.parametrize("where", ["noise", "clipping"])
def test_canaries_leave_parameters_that_are_frozen_on_the_way(where):
    """A frozen layer gets no noise: a canary there would refute an honest training."""
    model, optimizer, loader, _ = make(noise=0.0)
    watch = da.probe.optimizer(optimizer, canaries=100, rng=1, where=where)
    loop(model, optimizer, loader, epochs=1)
    frozen = list(model.parameters())[:2]
    for parameter in frozen:
        parameter.requires_grad_(False)
    taken = record(watch)
    loop(model, optimizer, loader, epochs=1)
    n_frozen = sum(parameter.numel() for parameter in frozen)
    gone = np.all(watch.blocks.places < n_frozen, axis=1)
    assert 0 < gone.sum() < np.sum(np.any(watch.blocks.places < n_frozen, axis=1)) < 100
    for _, drawn, _, _, known in taken:
        assert (np.isnan(known) == gone).all()
        np.testing.assert_allclose(known[~gone], drawn[~gone], atol=2e-5)
    assert all(not parameter.grad.any() for parameter in frozen)
    for parameter in frozen:
        parameter.requires_grad_(True)
    loop(model, optimizer, loader, epochs=1)
    np.testing.assert_allclose(taken[-1][4], taken[-1][1], atol=2e-5)


def test_an_honest_training_that_freezes_a_layer_stands():
    model, optimizer, loader, _ = make(batch=RECORDS)
    watch = da.probe.optimizer(optimizer)
    loop(model, optimizer, loader, epochs=4)
    for parameter in list(model.parameters())[:2]:
        parameter.requires_grad_(False)
    loop(model, optimizer, loader, epochs=12)
    verdict = watch.judge(delta=1e-5)
    assert not verdict.refuted
    assert verdict.one_training.residuals.variance == pytest.approx(1, abs=0.1)


def test_an_optimizer_is_watched_once():
    _, optimizer, _, _ = make()
    watch = da.probe.optimizer(optimizer)
    with pytest.raises(InvalidArgument, match="watched already"):
        da.probe.optimizer(optimizer)
    watch.detach()
    da.probe.optimizer(optimizer)


def test_hooks_that_were_there_go_on_and_come_back():
    model, optimizer, loader, engine = make()
    before, noise = optimizer.step_hook, optimizer.add_noise
    watch = da.probe.optimizer(optimizer, where="clipping")
    loop(model, optimizer, loader, epochs=1)
    assert engine.accountant.history[0][2] == 3
    watch.detach()
    assert (optimizer.step_hook, optimizer.add_noise) == (before, noise)
    loop(model, optimizer, loader, epochs=1)
    assert (watch.steps, engine.accountant.history[0][2]) == (3, 6)


def test_a_loop_that_steps_another_optimizer_is_told_so():
    import torch

    model, optimizer, loader, _ = make()
    watch = da.probe.optimizer(optimizer)
    loop(model, optimizer, loader, epochs=1, step=torch.optim.SGD(model.parameters(), lr=1).step)
    with pytest.raises(InvalidTarget, match="steps another optimizer"):
        watch.judge(delta=1e-5)


def test_a_training_that_is_resumed_ends_as_one_that_was_not(tmp_path):
    import torch

    ended = []
    for stopped in (False, True):
        model, optimizer, loader, engine = make(batch=RECORDS)
        watch = da.probe.optimizer(optimizer, canaries=50, rng=4)
        loop(model, optimizer, loader, epochs=3)
        if stopped:
            saved = {
                "model": model.state_dict(),
                "optimizer": optimizer.state_dict(),
                "watch": watch.state_dict(),
                "torch": torch.get_rng_state(),
                "accountant": engine.accountant.state_dict()["history"],
            }
            torch.save(saved, tmp_path / "checkpoint")
            loaded = torch.load(tmp_path / "checkpoint", weights_only=True)
            model, optimizer, loader, engine = make(batch=RECORDS, seed=9)
            model.load_state_dict(loaded["model"])
            optimizer.load_state_dict(loaded["optimizer"])
            engine.accountant.history = [tuple(part) for part in loaded["accountant"]]
            watch = da.probe.optimizer(optimizer, canaries=50, rng=17)
            watch.load_state_dict(loaded["watch"])
            torch.set_rng_state(loaded["torch"])
        loop(model, optimizer, loader, epochs=3)
        assert watch.history == watch.accounted() == [(SIGMA, 1.0, 6)]
        ended.append((watch, parameters_of(model)))
    (whole, there), (resumed, also) = ended
    assert (whole.coins == resumed.coins).all()
    np.testing.assert_allclose(there, also, atol=1e-6)
    np.testing.assert_allclose(whole.scores(), resumed.scores(), atol=1e-4)


@pytest.mark.parametrize("clipping", ["per_layer", "distributed", "adaptive"])
def test_clipping_that_no_proof_covers_is_refused_by_name(clipping):
    import torch
    from opacus import optimizers
    from opacus.optimizers import ddp_perlayeroptimizer

    model, _, _, _ = make()
    inner = torch.optim.SGD(model.parameters(), lr=1.0)
    settings = {"noise_multiplier": 1.0, "expected_batch_size": 20}
    if clipping == "per_layer":
        private = optimizers.DPPerLayerOptimizer(inner, max_grad_norm=[1.0] * 4, **settings)
    elif clipping == "distributed":  # made without processes: nothing of it is asked but its class
        private = object.__new__(ddp_perlayeroptimizer.DistributedPerLayerOptimizer)
        private.original_optimizer = inner
    else:
        private = optimizers.AdaClipDPOptimizer(
            inner,
            max_grad_norm=1.0,
            target_unclipped_quantile=0.5,
            clipbound_learning_rate=0.2,
            max_clipbound=10.0,
            min_clipbound=0.1,
            unclipped_num_std=2.0,
            **settings,
        )
    with pytest.raises(InvalidArgument, match=type(private).__name__):
        da.probe.optimizer(private, sampling_rate=0.1)


def test_a_rate_that_nobody_states_is_asked_for():
    model, optimizer, loader, engine = make()
    optimizer.attach_step_hook(lambda optimizer: None)
    with pytest.raises(InvalidArgument, match="sampling_rate is missing"):
        da.probe.optimizer(optimizer)
    stated = da.probe.optimizer(optimizer, sampling_rate=1 / 3)
    loop(model, optimizer, loader, epochs=1)
    assert stated.history == [(SIGMA, pytest.approx(1 / 3), 3)]
    assert engine.accountant.history == []


@pytest.mark.parametrize("where", ["noise", "clipping"])
def test_of_several_processes_the_first_alone_adds_and_reads(where, tmp_path):
    import torch
    from opacus.optimizers import DistributedDPOptimizer
    from torch import distributed

    store = distributed.FileStore(str(tmp_path / "store"), 1)
    distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        for rank in (0, 1):
            model, _, loader, engine = make(noise=0.0)
            shared = DistributedDPOptimizer(
                torch.optim.SGD(model.parameters(), lr=0.1),
                noise_multiplier=0.0,
                max_grad_norm=CLIP,
                expected_batch_size=20,
            )
            shared.attach_step_hook(engine.accountant.get_optimizer_hook_fn(1 / 3))
            shared.rank = rank
            watch = da.probe.optimizer(shared, canaries=50, where=where)
            taken = record(watch)
            loop(model, shared, loader, epochs=1)
            assert len(taken) == watch.steps == (0 if rank else 3)
            for _, drawn, _, _, known in taken:
                np.testing.assert_allclose(known, drawn, atol=2e-5)
        with pytest.raises(InvalidTarget, match="judge on rank 0"):
            watch.judge(delta=1e-5)
    finally:
        distributed.destroy_process_group()


# ------------------------------------------------------------------------- a loop of one's own


def plain(added=1.0, steps=60, note=False, frozen=False, **stated):
    """DP-SGD by hand on squared errors: clipped rows, noise, the mean, a step."""
    import torch

    torch.manual_seed(0)
    random = np.random.default_rng(0)
    X = torch.tensor(random.standard_normal((40, 200)), dtype=torch.float32)
    weight = torch.nn.Parameter(torch.zeros(200))
    unused = torch.nn.Parameter(torch.zeros(50), requires_grad=not frozen)
    optimizer = torch.optim.Adam([weight, unused] if frozen is not None else [weight], lr=0.01)
    told = {"noise_multiplier": 4.0, "sampling_rate": 1.0, "clip": 2.0, "divisor": 40.0} | stated
    watch = da.probe.optimizer(optimizer, rng=2, **told)
    for _ in range(steps):
        rows = (X @ weight.detach() - 1)[:, None] * X
        rows = rows * (2.0 / rows.norm(dim=1, keepdim=True)).clamp(max=1)
        weight.grad = rows.sum(dim=0)
        if note:
            watch.before_noise(divisor=40.0)
        weight.grad = (weight.grad + added * 4.0 * 2.0 * torch.randn(200)) / 40.0
        optimizer.step()
    return watch


@pytest.mark.parametrize("note", [False, True])
@pytest.mark.parametrize("added", [1.0, 0.4])
def test_a_plain_loop(added, note):
    watch = plain(added, note=note, frozen=None)
    assert (watch.n_canaries, watch.history) == (200, [(4.0, 1.0, 60)])
    verdict = watch.judge(delta=1e-5)
    assert verdict.refuted == (added < 1)
    assert ("the other data known" in str(verdict)) == note
    if note:
        assert verdict.one_training.residuals.variance == pytest.approx(added**2, rel=0.1)


def test_a_parameter_without_gradient_is_named_or_frozen():
    with pytest.raises(InvalidTarget, match="parameter 1 of the optimizer has no gradient"):
        plain(steps=1)
    assert plain(steps=1, frozen=True).n_parameters == 200


@pytest.mark.filterwarnings("ignore:optimizer contains a parameter group with duplicate")
def test_a_parameter_that_is_listed_twice_has_one_set_of_canaries():
    """Two canaries in one gradient would overlap, and an honest training would be refuted."""
    import torch

    weight = torch.nn.Parameter(torch.zeros(30))
    told = {"noise_multiplier": 4.0, "sampling_rate": 1.0, "clip": 2.0, "divisor": 1.0}
    watch = da.probe.optimizer(torch.optim.SGD([weight, weight], lr=0.1), **told)
    assert watch.n_canaries == watch.n_parameters == 30


def test_what_a_plain_loop_must_state():
    import torch

    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(5))], lr=1.0)
    with pytest.raises(InvalidArgument, match="noise_multiplier, sampling_rate, clip, divisor"):
        da.probe.optimizer(optimizer)
    told = {"noise_multiplier": 1.0, "sampling_rate": 0.5, "clip": 1.0, "divisor": 1.0}
    with pytest.raises(InvalidArgument, match="where='clipping'"):
        da.probe.optimizer(optimizer, where="clipping", **told)
    for name in ("sampling_rate", "clip", "divisor"):
        with pytest.raises(InvalidArgument, match=name):
            da.probe.optimizer(optimizer, **(told | {name: -1.0}))
    with pytest.raises(InvalidArgument, match="must be what Opacus' make_private returned"):
        da.probe.optimizer(object(), **told)
