"""Shadow models: trained by the attacker like the target, on sets whose membership it knows.

Training goes through :func:`dpassay.runs.play`: in parallel, logged, resumed where it was. The
run's key holds the data, the training code and the design, so that shadows of another
configuration are never taken for these.
"""

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dpassay import _check
from dpassay._records import take
from dpassay._rng import for_trial
from dpassay.attacks.outputs import Outputs, observe, records
from dpassay.attacks.scores import log_odds
from dpassay.errors import InvalidArgument
from dpassay.runs import PAYLOAD_MAX, Outcome, Players, TrialLog, fingerprint, play, run_key
from dpassay.types import FloatArray

UNUSED = -1
SHADOWS = "shadow models"  # the kind of game, in its log


@dataclass(frozen=True, eq=False)
class Shadows:
    """What S shadow models say about n records, and which of them each was trained on.

    Attributes:
        outputs: (S, n, k) probabilities or (S, n) losses, with the labels of the n records.
        inside: (S, n): 1 trained on it, 0 not, -1 neither (of use to no one).
        features: (S, n, d) white-box features, if they were asked for.
        records: a fingerprint of the n records; "" if it is not known.

    """

    outputs: Outputs
    inside: NDArray[np.int8]
    features: FloatArray | None = None
    records: str = ""

    def __post_init__(self) -> None:
        shape = self.outputs.values.shape
        shape = shape if self.outputs.n_classes is None else shape[:-1]
        inside = np.asarray(self.inside)
        if len(shape) != 2 or inside.shape != shape:
            raise InvalidArgument(
                f"inside has shape {inside.shape} for outputs of shape {shape}; both need a row "
                "per shadow and a column per record."
            )
        if not np.isin(inside, (1, 0, UNUSED)).all():
            raise InvalidArgument("inside must hold 1 (trained on), 0 (not) and -1 (unused) alone.")
        object.__setattr__(self, "inside", inside.astype(np.int8))

    def __len__(self) -> int:
        return len(self.inside)

    def outputs_of(self, shadow: int) -> Outputs:
        """What one of the shadows says."""
        outputs = self.outputs
        p, losses = outputs.probabilities, outputs.losses
        return Outputs(
            None if p is None else p[shadow],
            None if losses is None else losses[shadow],
            outputs.labels,
        )


def assign(n: int, n_shadows: int, design: str, seed: int) -> NDArray[np.int8]:
    """Which records each shadow is trained on: an (n_shadows, n) array of 1, 0 and -1.

    "halves": a fair coin puts each record into one of the shadows 2j and 2j + 1, so that it is in
    half of any even number of them, as likelihood-ratio attacks need, and more shadows can be
    added. "disjoint": the records are dealt into 2 n_shadows parts, one to train on and one to
    test on for each shadow, no record twice.
    """
    if design == "halves":
        pairs = (for_trial(seed, j, 0).integers(0, 2, n) for j in range((n_shadows + 1) // 2))
        both = [half for coins in pairs for half in (coins, 1 - coins)]
        return np.array(both[:n_shadows], dtype=np.int8)
    part = for_trial(seed, 0, 0).permutation(n) % (2 * n_shadows)
    numbers = np.arange(n_shadows)[:, None]
    return np.select([part == 2 * numbers, part == 2 * numbers + 1], [1, 0], UNUSED).astype(np.int8)


DESIGNS, KEEP = ("halves", "disjoint"), ("vectors", "losses")


def train_shadows(
    train: Callable[..., Any],
    data: tuple[Any, Any],
    *,
    n_shadows: int = 16,
    design: Literal["halves", "disjoint"] = "halves",
    observed: tuple[Any, Any] | None = None,
    features: Callable[..., Any] | None = None,
    keep: Literal["vectors", "losses"] = "vectors",
    store: str | Path | TrialLog | None = None,
    executor: Players = None,
    workers: int = 1,
    timeout: float | None = None,
    progress: Any = "quiet",
    rng: int = 0,
) -> Shadows:
    """Shadow models trained on parts of the data, and what each says about the records.

    The attacker must know how the target was trained and have data like the target's.

    Args:
        train: ``train(X, y, rng)`` returns a target (see :func:`dpassay.attacks.observe`),
            trained as the attacked one was.
        data: (X, y), the records that shadows are trained on. For the online likelihood ratio
            these are the candidates themselves, members first: their membership in the *target*
            is not used.
        n_shadows: how many; at least 2.
        design: "halves", each record in one of every two shadows; or "disjoint", training and test
            sets of all shadows without a common record.
        observed: (X, y) to observe the shadows at, of which none was trained on (the offline
            attacks); None observes at ``data``.
        features: ``features(model, X, y)`` returns a row of white-box features per record, kept
            too; see :func:`dpassay.attacks.white_box_features`.
        keep: of outputs, "vectors" of probabilities; or "losses", one number per record, which is
            all that LiRA and RMIA need and much less where there are many classes.
        store: a file that keeps the outputs; the same call then trains only what is missing, and
            one for more shadows in halves only those.
        executor: who trains, see :func:`dpassay.runs.play`.
        workers: processes of our own; 1 trains in this one.
        timeout: seconds for one training.
        progress: "auto", "bar", "lines", "quiet" or a progress object.
        rng: seed of the design and of the trainings.

    Raises:
        InvalidArgument: a value out of range, or X and y that do not fit together.
        AuditStopped: a training failed (a shadow that never saw a class counts as failed), or
            the user interrupted; with a store the same call goes on.

    """
    X, y = records("data", data)
    n_shadows = _check.count("n_shadows", n_shadows, low=2, remedy="LiRA takes 4 at least.")
    _check.choice("design", design, DESIGNS)
    _check.choice("keep", keep, KEEP)
    seed = _check.seed("rng", rng, remedy="Pass a seed: shadows must be reproducible.")
    if not callable(train):
        raise InvalidArgument(
            f"train={_check.shown(train)} must be callable: train(X, y, rng) -> target."
        )
    inside = assign(len(y), n_shadows, design, seed)
    at = (X, y) if observed is None else records("observed", observed)
    game = _Training(train, features, X, y, inside, at, seed, keep, design)
    run = play(
        game,
        n_shadows,
        key=game.key,
        configuration=game.configuration(),
        description=game.description(),
        store=store,
        executor=executor,
        workers=workers,
        timeout=timeout,
        max_failed_share=0.0,
        progress=progress,
    ).require_whole(n_shadows, "shadow trainings")
    seen = inside if observed is None else np.zeros((n_shadows, len(at[1])), np.int8)
    return gather([run.outcomes.payloads[i] for i in range(n_shadows)], seen, records_of(*at))


def records_of(X: Any, y: Any) -> str:
    """A fingerprint of records and labels, whatever table they come in; "" for what has none."""
    try:
        return fingerprint([_values(X), np.asarray(y)])
    except InvalidArgument:
        return ""


def _values(X: Any) -> Any:
    """The values alone: neither index nor names nor the type of numbers."""
    if hasattr(X, "tocsr"):
        csr = X.tocsr().sorted_indices()
        return [csr.shape, csr.data.astype(float), csr.indices.tolist(), csr.indptr.tolist()]
    values = np.asarray(X)
    return values.astype(float) if values.dtype.kind in "biuf" else values


@dataclass(frozen=True, eq=False)
class _Training:
    """The game of a shadow farm: each trial trains one shadow, observes it, keeps what it says."""

    train: Callable[..., Any]
    features: Callable[..., Any] | None
    X: Any
    y: Any
    inside: NDArray[np.int8]
    at: tuple[Any, Any]
    seed: int
    keep: str
    design: str

    def configuration(self) -> dict[str, Any]:
        """What fixes the trials; more shadows in halves are more trials of the same run."""
        several = {"shadows": len(self.inside)} if self.design == "disjoint" else {}
        return {"design": self.design, "seed": self.seed, "keep": self.keep} | several

    @property
    def key(self) -> str:
        """The name of the run in its log."""
        data = [self.X, self.y, *self.at]
        return run_key(self.configuration(), code=[self.train, self.features], data=data)

    def description(self) -> dict[str, Any]:
        """What the log says of the run."""
        name = getattr(self.train, "__qualname__", type(self.train).__qualname__)
        about = {"audit": SHADOWS, "trials": len(self.inside), "target": name}
        if self.at[0] is not self.X:  # Nobody was trained on these: they test no claim.
            return about
        relation = "add-remove" if self.design == "halves" else "replace-one"
        return about | {"n_records": len(self.y), "neighbouring": relation}

    def worlds(self, trial: int) -> NDArray[np.int8]:
        """Which records a shadow is trained on: 1 in, 0 out, -1 unused."""
        return self.inside[trial]

    def play(self, trial: int) -> Outcome:
        """Train one shadow and keep what it says."""
        return Outcome(payload=self._one(trial))

    def __call__(self, trials: Sequence[int], /) -> list[Outcome]:
        return [self.play(trial) for trial in trials]

    def _one(self, trial: int) -> bytes:
        chosen = self.worlds(trial) == 1
        y = self.y[chosen]
        model = self.train(take(self.X, np.flatnonzero(chosen)), y, for_trial(self.seed, trial, 1))
        outputs = observe(model, *self.at)
        outputs = outputs if self.keep == "vectors" else as_losses(outputs)
        kept: dict[str, Any] = {"probabilities": outputs.probabilities, "losses": outputs.losses}
        kept |= {"labels": outputs.labels}
        if self.features is not None:
            kept["features"] = np.asarray(self.features(model, *self.at), dtype=float)
        if hasattr(model, "classes_"):
            _check_classes(y, self.y)
        buffer = io.BytesIO()
        np.savez(buffer, **{name: value for name, value in kept.items() if value is not None})
        if buffer.tell() > PAYLOAD_MAX:
            raise InvalidArgument(
                f"the outputs of a shadow take {buffer.tell() / 2**20:.0f} MB; at most "
                f"{PAYLOAD_MAX / 2**20:.0f} are kept. Pass keep='losses', which is enough for LiRA "
                "and RMIA, or observe fewer records."
            )
        return buffer.getvalue()


def as_losses(outputs: Outputs) -> Outputs:
    """Cross-entropy alone, as log(1 + e^-log odds): the log odds come back to the last digits."""
    if outputs.probabilities is None:
        return outputs
    return Outputs(losses=np.logaddexp(0.0, -log_odds(outputs)), labels=outputs.labels)


def _check_classes(seen: Any, all_labels: Any) -> None:
    missing = set(np.unique(all_labels).tolist()) - set(np.unique(seen).tolist())
    if missing:
        raise InvalidArgument(
            f"{len(missing)} class(es) are missing in the training set of a shadow. "
            "Train fewer shadows, give more data, or take design='halves'."
        )


def gather(payloads: Sequence[bytes], inside: NDArray[np.int8], records: str = "") -> Shadows:
    """The shadows that a log keeps, a payload and a row of ``inside`` each."""
    parts: dict[str, list[FloatArray]] = {}
    for payload in payloads:
        with np.load(io.BytesIO(payload), allow_pickle=False) as archive:
            for name in archive.files:
                parts.setdefault(name, []).append(archive[name])
    labels = parts.pop("labels", [None])[0]
    stacked = {name: np.stack(arrays) for name, arrays in parts.items()}
    features = stacked.pop("features", None)
    return Shadows(Outputs(**stacked, labels=labels), inside, features, records)
