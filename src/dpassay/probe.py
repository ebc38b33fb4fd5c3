"""Three lines that make a training script auditable; in an ordinary run they do nothing.

.. code-block:: python

    from dpassay import probe                                   # 1
    train_set = probe.data(train_set, canary=(x, y))            # 2: where the data is ready
    probe.release(model)                                        # 3: where the model is published

``python train.py`` works as before. ``dpassay audit train.py --claim 3,1e-5`` plays the script many
times, with and without the canary as a fair coin says, and compares what it released. The two
worlds differ by one record added, so the claim must be one of add/remove. ``dpassay check train.py
--claim 3,1e-5`` runs it a few times on neighbouring data and names the line that leaks; it needs no
canary.

One more line needs no audit around it. It is live in the training that it stands in::

    watch = probe.optimizer(optimizer)                          # after Opacus' make_private
    ...                                                         # the loop as it is
    print(watch.judge(delta=1e-5))
"""

import contextlib
import copy
import importlib
import sys
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from dpassay._rng import RngLike
from dpassay.errors import InvalidTarget

if TYPE_CHECKING:
    from dpassay.canaries.watch import Watch

__all__ = ["OWN", "Checking", "Trial", "checking", "data", "optimizer", "playing", "release"]

OWN = object()
"""In a check: the data is the script's own."""


@dataclass
class Trial:
    """What a script does with its probes in one trial.

    Attributes:
        with_canary: the world.
        canary: what the script passed.
        n_data: how often it asked for its data.
        released: what it handed over.

    """

    with_canary: bool
    canary: Any = None
    n_data: int = 0
    released: list[Any] = field(default_factory=list)

    def output(self, script: str) -> Any:
        """The one thing that was released; an error if a probe is missing or was used twice."""
        for probe, times, remedy in (
            ("data", self.n_data, "train_set = probe.data(train_set, canary=(x, y))"),
            ("release", len(self.released), "probe.release(model)"),
        ):
            if times == 0:
                raise InvalidTarget(f"{script} never called probe.{probe}. Add: {remedy}")
            if times > 1:
                raise InvalidTarget(
                    f"{script} called probe.{probe} {times} times; it must be called once. "
                    "What is published in parts is released as one list."
                )
        return self.released[0]


@dataclass
class Checking:
    """What a script does with its probes in one run of a check.

    Attributes:
        given: the data that it gets, ``OWN`` for its own.
        start: called when it has its data.
        settle: copies what it releases.
        own: the data that it had.
        canary: what it passed, None without one.
        n_data: how often it asked for its data.
        released: all that it handed over, in order.

    """

    given: Any
    start: Callable[[], Any] = lambda: None
    settle: Callable[[Any], Any] = copy.deepcopy
    own: Any = None
    canary: Any = None
    n_data: int = 0
    released: list[Any] = field(default_factory=list)

    def hand_over(self, records: Any, canary: Any) -> Any:
        """The data of this run, in place of the records of the script."""
        self.n_data += 1
        self.own, self.canary = records, canary
        self.start()
        return records if self.given is OWN else self.given


_TRIAL: ContextVar[Trial | None] = ContextVar("dpassay_trial", default=None)
_CHECK: ContextVar[Checking | None] = ContextVar("dpassay_check", default=None)


@contextlib.contextmanager
def checking(state: Checking) -> Iterator[Checking]:
    """Make this a run of a check until the context is left."""
    token = _CHECK.set(state)
    try:
        yield state
    finally:
        _CHECK.reset(token)


@contextlib.contextmanager
def playing(with_canary: bool) -> Iterator[Trial]:
    """Make this a trial of an audit, in that world, until the context is left."""
    trial = Trial(with_canary)
    token = _TRIAL.set(trial)
    try:
        yield trial
    finally:
        _TRIAL.reset(token)


def is_played() -> bool:
    """Whether this is a trial of an audit or a run of a check."""
    return _TRIAL.get() is not None or _CHECK.get() is not None


def data(records: Any, *, canary: Any = None) -> Any:
    """The records as they are; in an audit, with or without the canary at their end.

    Both worlds get an object of the same kind, made in the same way, so that nothing but the
    canary tells them apart. In a check the records may differ by one that was searched.

    Args:
        records: a torch ``TensorDataset`` or any data set with a length (in an audit it becomes a
            ``Subset``, which has no ``targets``), a tensor, an array, a frame, a list of records,
            or a tuple or dict of these, such as (X, y).
        canary: one record, of the form that ``records[0]`` has; for (X, y) a pair (x, y). An audit
            needs it; a check tries it first.

    Raises:
        InvalidTarget: in an audit, if the canary does not fit the records.

    >>> data([1, 2, 3], canary=4)
    [1, 2, 3]
    >>> with playing(with_canary=True):
    ...     data([1, 2, 3], canary=4)
    [1, 2, 3, 4]

    """
    checked = _CHECK.get()
    if checked is not None:
        return checked.hand_over(records, canary)
    trial = _TRIAL.get()
    if trial is None:
        return records
    if canary is None:
        raise InvalidTarget(
            "canary is missing; an audit plays with and without one record. Pass one: "
            "probe.data(records, canary=(x, y)). A check (dpassay check) needs none."
        )
    trial.n_data += 1
    trial.canary = canary
    return _joined(records, canary, trial.with_canary)


def release(output: Any, *, score: Callable[[Any], float] | None = None) -> None:
    """Hand over what the script publishes; does nothing in an ordinary run.

    Args:
        output: a model, arrays, numbers: all that is published, once. It is copied, so that the
            script may go on with it.
        score: ``score(output)`` returns a number that is larger with the canary. It must depend on
            what is published and on public things alone. By default a torch model is scored at the
            canary (x, y): by the log odds of class y, which falls as the cross entropy grows but
            does not vanish where the model is sure, or by minus the squared error where y is a
            real number. Anything else is handed over as it is, and the audit learns a score.

    """
    checked = _CHECK.get()
    if checked is not None:  # all of it, buffers included: a check needs no score
        checked.released.append(checked.settle(output))
        return
    trial = _TRIAL.get()
    if trial is None:
        return
    if score is not None:
        trial.released.append(float(score(output)))
    elif _is_model(output) and isinstance(trial.canary, tuple | list) and len(trial.canary) == 2:
        trial.released.append(_fit_of(output, *trial.canary))
    else:
        trial.released.append(copy.deepcopy(output))


def optimizer(
    optimizer: Any,
    *,
    canaries: int = 5000,
    rng: RngLike = 0,
    where: Literal["noise", "clipping"] = "noise",
    accountant: Any = None,
    noise_multiplier: float | None = None,
    sampling_rate: float | None = None,
    clip: float | None = None,
    divisor: float | None = None,
) -> "Watch":
    """Put canary gradients into this very training, and return the watch that judges it.

    The optimizer is instrumented in place: the loop goes on calling ``optimizer.step()``. Each
    canary is a block of parameters of its own, with a gradient of the clipping norm that is in the
    training if a fair coin says so, and then in each step with the sampling rate. The model gets
    noise of the canaries, far below that of its privacy. ``watch.judge(delta=1e-5)`` says whether
    the noise is what the accountant was told; see :class:`dpassay.canaries.watch.Watch`.

    Args:
        optimizer: what Opacus' ``make_private`` returned; noise, norm, divisor and sampling rate
            are read from it and its accountant. Or a plain optimizer of torch in a loop that
            clips and adds noise itself; then ``noise_multiplier``, ``sampling_rate``, ``clip`` and
            ``divisor`` are stated.
        canaries: how many, at most one per parameter: 5000 show about 80 % of epsilon = 1 and 95 %
            of epsilon = 4.
        rng: seed or generator of coins, blocks and draws: the audit's own, never that of torch.
        where: "noise": canaries are added behind the noise, which costs next to nothing.
            "clipping": they go through the optimizer's clipping as rows of a hundred times the
            clipping norm, so that clipping is tested too.
        accountant: that of the privacy engine, if it cannot be read from the optimizer's hook.
        noise_multiplier: deviation of the noise over ``clip``; for a plain optimizer.
        sampling_rate: the probability with which a record is in a step; likewise, or where Opacus
            has no accountant.
        clip: the norm that gradients are clipped to; for a plain optimizer.
        divisor: by which the noisy sum is divided; for a plain optimizer.

    Raises:
        InvalidArgument: an optimizer that no proof covers (adaptive or per-layer clipping, FSDP),
            or a number that is missing.

    """
    torch_side = importlib.import_module("dpassay.canaries.watch_torch")
    return torch_side.watch_optimizer(
        optimizer,
        canaries=canaries,
        rng=rng,
        where=where,
        accountant=accountant,
        noise_multiplier=noise_multiplier,
        sampling_rate=sampling_rate,
        clip=clip,
        divisor=divisor,
    )


# ------------------------------------------------------------------------- records and a canary


def _joined(records: Any, canary: Any, keep: bool) -> Any:
    """The records followed by the canary, which is dropped again unless it is to be kept."""
    for fits, join in _KINDS:
        if fits(records):
            return join(records, canary, keep)
    raise InvalidTarget(
        f"records is a {type(records).__qualname__}, which probe.data cannot add a canary to. Pass "
        "a data set with a length, tensors, arrays, a frame, a list, or a tuple or dict of these."
    )


def _tuple(records: Any, canary: Any, keep: bool) -> Any:
    _same_length(len(records), canary)
    pairs = zip(records, canary, strict=True)
    return tuple(_joined(part, value, keep) for part, value in pairs)


def _mapping(records: Any, canary: Any, keep: bool) -> Any:
    if not isinstance(canary, Mapping) or set(canary) != set(records):
        raise InvalidTarget(f"canary must be a dict with the keys {sorted(records)}.")
    return {name: _joined(part, canary[name], keep) for name, part in records.items()}


def _plain(records: Any, canary: Any, keep: bool) -> Any:
    """A list, an array, a tensor, a frame or a column: in both worlds made in the same way."""
    from dpassay import _records

    _refuse_unlike(records, canary)
    longer = _records.add(records, canary)
    return longer if keep else _records.take(longer, range(len(records)))


def _refuse_unlike(records: Any, canary: Any) -> None:
    """Refuse a canary that is no record of this kind."""
    if hasattr(records, "columns"):
        named = isinstance(canary, Mapping) or (
            hasattr(canary, "index") and hasattr(canary, "iloc")
        )
        if not named:
            _same_length(len(records.columns), canary)
        elif set(dict(canary)) != set(records.columns):
            raise InvalidTarget(f"canary must have the columns {list(records.columns)}.")
    elif hasattr(records, "shape") and not hasattr(records, "iloc"):
        import numpy as np

        _same_shape(tuple(np.shape(canary)), tuple(records.shape[1:]))


def _tensor_dataset(records: Any, canary: Any, keep: bool) -> Any:
    return type(records)(*_tuple(records.tensors, canary, keep))


def _dataset(records: Any, canary: Any, keep: bool) -> Any:
    from torch.utils.data import ConcatDataset, Subset

    last = _like(records[0], canary)
    both = ConcatDataset([records, [last]])  # type: ignore[list-item]
    return Subset(both, range(len(records) + keep))


def _like(example: Any, canary: Any) -> Any:
    """The canary, with tensors where the example has them, so that both can be in one batch."""
    if isinstance(example, tuple | list):
        _same_length(len(example), canary)
        return type(example)(_like(*pair) for pair in zip(example, canary, strict=True))
    if _is_tensor(example):
        return _plain(example[None], canary, True)[-1]
    return canary


def _same_length(n_parts: int, canary: Any) -> None:
    if not hasattr(canary, "__len__") or len(canary) != n_parts:
        raise InvalidTarget(
            f"canary has {len(canary) if hasattr(canary, '__len__') else 'no'} parts, while a "
            f"record has {n_parts}. Pass one record, such as canary=(x, y)."
        )


def _same_shape(canary: tuple[int, ...], record: tuple[int, ...]) -> None:
    if canary != record:
        raise InvalidTarget(
            f"canary has shape {canary}, while a record has shape {record}. Pass one record, "
            "without the dimension of the batch."
        )


def _torch(name: str) -> Any:
    """A class of torch, if it is loaded: nothing can be of that class before."""
    found: Any = sys.modules.get("torch")
    for part in name.split("."):
        found = getattr(found, part, None)
    return found or ()


def _is_tensor(value: Any) -> bool:
    return isinstance(value, _torch("Tensor"))


def _is_model(value: Any) -> bool:
    return isinstance(value, _torch("nn.Module"))


def _is_plain(value: Any) -> bool:
    from dpassay import _records

    return not isinstance(value, tuple) and _records.n_records(value) is not None


def _is_dataset(value: Any) -> bool:
    return isinstance(value, _torch("utils.data.Dataset")) and hasattr(value, "__len__")


# How records of each kind are joined with a canary; the first that fits.
_KINDS: tuple[tuple[Callable[[Any], bool], Callable[[Any, Any, bool], Any]], ...] = (
    (lambda value: isinstance(value, _torch("utils.data.TensorDataset")), _tensor_dataset),
    (_is_dataset, _dataset),
    (lambda value: isinstance(value, Mapping), _mapping),
    (lambda value: isinstance(value, tuple), _tuple),
    (_is_plain, _plain),
)


# ------------------------------------------------------------------------- the score of a model


def _fit_of(model: Any, x: Any, y: Any) -> float:
    """How well a torch model fits one record; it is asked in evaluation mode, and set back."""
    import torch

    weight = next(model.parameters())
    inputs = torch.as_tensor(x, device=weight.device)
    inputs = inputs.to(weight.dtype) if inputs.is_floating_point() else inputs
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        with torch.no_grad():
            predicted = model(inputs[None])[0].double()
            return float(_fit(predicted, torch.as_tensor(y, device=weight.device)))
    finally:
        for module, training in modes:
            module.training = training


def _fit(predicted: Any, y: Any) -> Any:
    """Log odds of the class, or minus the squared error.

    With p = softmax(z)_y, log(p / (1 - p)) = z_y - log sum of exp(z_j) over the others; also if z
    holds log probabilities. One output is the log odds of class 1.
    """
    if y.is_floating_point() and y.numel() == predicted.numel():
        return -((predicted.reshape(-1) - y.reshape(-1)) ** 2).mean()
    if y.numel() == 1 and predicted.numel() == 1:
        return predicted.reshape(()) * (2 * y.reshape(()) - 1)
    if y.numel() == 1 and predicted.ndim == 1:
        others = predicted.clone()
        others[int(y)] = -float("inf")
        return predicted[int(y)] - others.logsumexp(dim=0)
    raise InvalidTarget(
        f"the model's output has shape {tuple(predicted.shape)} and y {tuple(y.shape)}: there is "
        "no score by default. Pass a function of the model: probe.release(model, score=...)."
    )
