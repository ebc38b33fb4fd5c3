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
import os
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from dpassay._rng import RngLike
from dpassay.errors import InvalidTarget
from dpassay.probe.joining import join
from dpassay.probe.kinds import is_model
from dpassay.probe.scoring import fit_of

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
    return join(records, canary, trial.with_canary)


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
    elif is_model(output) and isinstance(trial.canary, tuple | list) and len(trial.canary) == 2:
        trial.released.append(fit_of(output, *trial.canary))
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
    keep: str | os.PathLike[str] | None = None,
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
        keep: a file in which coins and sums are kept as steps are taken, so that a training that is
            killed has still shown something: ``dpassay audit FILE --one-run``. Without it, an error
            or Ctrl-C is followed by the verdict so far, and ``kill -9`` by nothing.

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
        keep=keep,
    )
