"""``audit_one_run``: many canaries, one training, a verdict."""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from dpassay import _check
from dpassay._records import is_pair, join, record_at, take
from dpassay._rng import for_trial
from dpassay.auditing.claims import Claim, as_claim
from dpassay.auditing.engine import Engine
from dpassay.auditing.power import with_power
from dpassay.auditing.question import Change, coin_seed, describe
from dpassay.auditing.reading import coins
from dpassay.auditing.referee import CURVE, claimed_delta
from dpassay.bounds import one_run
from dpassay.bounds.onerun.bound import MethodName
from dpassay.bounds.onerun.guesses import Guesses
from dpassay.errors import InvalidArgument
from dpassay.privacy import GDP, ApproxDP, PureDP
from dpassay.runs import Outcome, Played, RunRecord, TrialLog, opened, read_run, run_key
from dpassay.types import Evidence, FloatArray, LowerBound, PrivacyCurve, Verdict

ONE_RUN: Final = "one run"


def audit_one_run(
    train: Callable[..., Any],
    data: Any,
    canaries: Any,
    *,
    claim: Claim,
    score: Callable[..., Any],
    confidence: float = 0.95,
    method: MethodName = "steinke",
    guesses: Guesses = "auto",
    delta: float | None = None,
    store: str | Path | TrialLog | None = None,
    rng: int | None = 0,
    timeout: float | None = None,
    replay: str = "",
    description: Mapping[str, Any] | None = None,
) -> Verdict:
    """Whether one training with many canaries breaks a claim (Steinke, Nasr and Jagielski 2023).

    Each canary is put into the data by a fair coin of its own, the training runs once, and every
    canary is scored by its output.

    Args:
        train: ``train(data, rng)`` returns a model, on the data with those canaries that are in.
        data: the other records: an array, a frame, a list, or a pair (X, y); may be empty.
        canaries: records of the same form, all of which may be put in.
        claim: the privacy curve that the training is said to have, in its relation for *one*
            record: adding a canary, for add/remove. A pair (epsilon, delta) and a text such as
            "3,1e-5" will do.
        score: ``score(model, canaries)`` returns a number per canary, or ``score(model, canary)``
            one number; larger says "in". It must not be told which canaries are in.
        confidence: the probability that verdict and bound are both right, at least.
        method: of :func:`dpassay.one_run`. For claims that are not (epsilon, delta)-DP the whole
            curve is tested as well, by the f-DP method with four fifths of the level.
        guesses: how many, see :func:`dpassay.one_run`.
        delta: where the bound is stated; by default at the claim's own delta, else 1e-5.
        store: a file that keeps the scores; the same call then does not train again.
        rng: seed of coins and training; None passes ``rng=None`` to the training.
        timeout: seconds for the training.
        replay: a line to print that runs the same audit again.
        description: what to write into the log beside the question, as plain JSON.

    Raises:
        InvalidArgument: a value out of range, or data and canaries that do not fit together.
        AuditStopped: the training failed.

    """
    claim = as_claim(claim)
    if claim.neighbouring != "add-remove":
        raise InvalidArgument(
            f"claim.neighbouring={claim.neighbouring!r}: a canary is put in or left out, which is "
            "add-remove. State the claim for that relation."
        )
    _length(canaries)  # An argument that is wrong is not a training that failed.
    game = _CanaryGame(
        train, score, data, canaries, None if rng is None else _check.seed("rng", rng)
    )
    question = OneRunQuestion(
        key=game.key,
        seed=game.seed,
        claim=claim,
        delta=claimed_delta(claim, delta),
        confidence=_check.confidence(confidence),
        method=method,
        guesses=guesses,
        replay=replay or f"dpassay.audit_one_run(..., rng={game.seed})",
    )
    name = getattr(train, "__qualname__", type(train).__qualname__)
    about = question.description() | {"target": name} | dict(description or {})
    with opened(store) as log:
        run = Engine(log, timeout=timeout, max_failed_share=1.0).play(game, 1, description=about)
    return question.verdict(run)


def canary_coins(seed: int, size: int) -> NDArray[np.bool_]:
    """Which canaries of the one training are in."""
    return coins(seed, 0, size).astype(bool)


@dataclass(frozen=True)
class OneRunQuestion:
    """What is asked of the scores of the canaries of one training.

    Attributes:
        key: of the run.
        seed: of coins and training; None for noise of the operating system.
        claim: the curve to be tested.
        delta: where the bound is stated.
        confidence: of verdict and bound together.
        method: of :func:`dpassay.one_run`.
        guesses: how many, see there.
        replay: a line that runs the same audit again.
        claim_text: what stands for the claim in a log, if it cannot be written itself.

    """

    key: str
    seed: int | None
    claim: PrivacyCurve
    delta: float
    confidence: float
    method: MethodName = "steinke"
    guesses: Guesses = "auto"
    replay: str = ""
    claim_text: str | None = None

    def coins(self, size: int) -> NDArray[np.bool_]:
        """One fair coin per canary: True for those that are in the training data."""
        return canary_coins(coin_seed(self.seed, self.key), size)

    def description(self) -> dict[str, Any]:
        """The question as plain JSON, for the log."""
        return describe(self.claim, self.delta, self.confidence, self.claim_text) | {
            "audit": ONE_RUN,
            "trials": 1,
            "method": self.method,
            "guesses": self.guesses,
            "command": self.replay,
        }

    def judge(self, log: TrialLog) -> Verdict:
        """The verdict on the training in a log; nothing is played."""
        return self.verdict(read_run(1, key=self.key, store=log, max_failed_share=1.0))

    def read(self, run: Played) -> tuple[FloatArray, NDArray[np.bool_]]:
        """Scores of the canaries and which of them were in; what is no number is the lowest.

        Raises:
            AuditStopped: the training failed or did not end.

        """
        run.require_whole(1, "trainings")
        scores = np.frombuffer(run.outcomes.payloads[0])
        return np.where(np.isnan(scores), -np.inf, scores), self.coins(scores.size)

    def verdict(self, run: Played) -> Verdict:
        """What the scores show; raises AuditStopped where there are none."""
        scores, coins = self.read(run)
        n_failed = int(np.isnan(np.frombuffer(run.outcomes.payloads[0])).sum())
        return replace(self.judge_scores(scores, coins, n_failed), n_deaths=run.n_deaths)

    def judge_scores(
        self, scores: FloatArray, coins: NDArray[np.bool_], n_failed: int = 0
    ) -> Verdict:
        """The verdict on the scores of canaries that these coins put in.

        Args:
            scores: one per canary, higher for "in"; no NaN.
            coins: True for those that were in.
            n_failed: how many of the scores stand for one that could not be had.

        """
        refuted, bound = self._statement(scores, coins)
        verdict = Verdict(
            claim=self.claim,
            bound=bound,
            refuted=refuted,
            confidence=self.confidence,
            trials=1,
            ended="refuted" if refuted else "budget spent",
            evidence=Evidence(coins.astype(int), scores, self.key, self.seed, n_failed=n_failed),
            attack=f"{scores.size} canaries in one training",
            replay=self.replay,
            kind=ONE_RUN,
            p_value=bound.p_value,
        )
        vacuous = not refuted and bound.ceiling <= float(self.claim.epsilon(self.delta))
        return with_power(verdict, vacuous=vacuous, both_ways=False)

    def _statement(self, scores: FloatArray, coins: NDArray[np.bool_]) -> tuple[bool, LowerBound]:
        """Verdict and bound: one statement, wrong with alpha at most.

        A claim that is a member of the bound's family is refuted where the bound is above it. Any
        other curve is tested as a whole with ``CURVE`` of alpha, and the bound has the rest; a
        bound above the claim is a refutation as well.
        """
        alpha = 1 - self.confidence
        claimed = float(self.claim.epsilon(self.delta))
        level = alpha if self._is_nested() else (1 - CURVE) * alpha
        bound = one_run(
            scores,
            coins,
            delta=self.delta,
            confidence=1 - level,
            method=self.method,
            guesses=self.guesses,
        )
        bound = replace(bound, confidence=self.confidence)
        if self._is_nested():
            return bound.epsilon > claimed, bound
        tested = one_run(scores, coins, delta=self.delta, method="fdp", claim=self.claim)
        assert tested.p_value is not None  # A claim was given.
        refuted = tested.p_value <= CURVE * alpha or bound.epsilon > claimed
        return refuted, replace(bound, p_value=tested.p_value)

    def _is_nested(self) -> bool:
        """Whether the claim is a member of the family that the bound is taken from."""
        if isinstance(self.claim, GDP) and self.delta > 0:
            return self.method in ("fdp", "product")
        return isinstance(self.claim, ApproxDP | PureDP) or self.delta == 0


def one_run_question_of(record: RunRecord, change: Change) -> OneRunQuestion:
    """The question that a log describes, or a changed one."""
    about = record.description
    claim, delta, confidence = change.of(record)
    pair: Any = about["guesses"]  # a pair comes back from the log as a list
    guesses: Any = (pair[0], pair[1]) if isinstance(pair, list) else pair
    return OneRunQuestion(
        key=record.key,
        seed=record.configuration["seed"],
        claim=claim,
        delta=delta,
        confidence=confidence,
        method=about["method"],
        guesses=guesses,
        replay=about["command"],
    )


@dataclass(frozen=True, eq=False)
class _CanaryGame:
    """The game of one trial: train with the canaries that are in, score them all."""

    train: Callable[..., Any]
    score: Callable[..., Any]
    data: Any
    canaries: Any
    seed: int | None

    @property
    def key(self) -> str:
        """The name of the run."""
        return self._key

    @functools.cached_property
    def _key(self) -> str:
        code, data = [self.train, self.score], [self.data, self.canaries]
        return run_key(self.configuration(), code=code, data=data)

    def configuration(self) -> dict[str, Any]:
        """What fixes the training beside code and data."""
        return {"seed": self.seed, "one_run": True}

    def worlds(self, trial: int) -> NDArray[np.bool_]:
        """One fair coin per canary: True for those that are in the training data."""
        return canary_coins(coin_seed(self.seed, self.key), _length(self.canaries))

    def __call__(self, trials: Sequence[int], /) -> list[Outcome]:
        return [self.play(trial) for trial in trials]

    def play(self, trial: int) -> Outcome:
        """Train once; the scores of all canaries are kept."""
        joined = _insert(self.data, take(self.canaries, np.flatnonzero(self.worlds(trial))))
        rng = None if self.seed is None else for_trial(self.seed, 0, 1)
        return Outcome(payload=self._scores(self.train(joined, rng)).tobytes())

    def _scores(self, model: Any) -> FloatArray:
        try:
            together = np.asarray(self.score(model, self.canaries), float)
        except (TypeError, ValueError):
            together = np.empty(0)
        size = _length(self.canaries)
        if together.shape == (size,):
            return together
        each = [self.score(model, record_at(self.canaries, i)) for i in range(size)]
        return np.array([float(value) for value in each])


def _length(records: Any) -> int:
    if is_pair(records):
        lengths = {len(part) for part in records}
        if len(lengths) != 1:
            raise InvalidArgument(
                f"canaries=(X, y) have lengths {sorted(lengths)}; make them equal."
            )
        size = lengths.pop()
    else:
        try:
            size = len(records)
        except TypeError:
            raise InvalidArgument(
                f"canaries, a {type(records).__qualname__}, must be records: an array, a frame, a "
                "list or (X, y)."
            ) from None
    return _check.count("canaries", size, remedy="Give at least one; hundreds show more.")


def _insert(data: Any, canaries: Any) -> Any:
    """The data with canaries at its end; both must be of one kind."""
    if is_pair(canaries):
        if not is_pair(data):
            raise InvalidArgument("canaries are a pair (X, y), data is not; give both as pairs.")
        return tuple(_insert(a, b) for a, b in zip(data, canaries, strict=True))
    if type(canaries) is np.ndarray:
        shape = np.shape(data)[1:]
        if np.size(data) == 0:
            return canaries
        if shape != canaries.shape[1:]:
            raise InvalidArgument(
                f"data has records of shape {shape}, canaries of shape {canaries.shape[1:]}."
            )
    return join(data, canaries)
