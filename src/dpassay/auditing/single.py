"""``audit_one_run``: many canaries, one training, a verdict."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpassay import _check
from dpassay._rng import for_trial
from dpassay.auditing.claims import Claim, as_claim
from dpassay.auditing.power import with_power
from dpassay.auditing.question import Change, coin_seed, described
from dpassay.auditing.referee import CURVE, claimed_delta
from dpassay.bounds import one_run
from dpassay.errors import AuditStopped, InvalidArgument
from dpassay.privacy import GDP, ApproxDP, PureDP
from dpassay.runs import Outcome, Played, RunRecord, TrialLog, play, replayed, run_key
from dpassay.types import Evidence, FloatArray, LowerBound, PrivacyCurve, Verdict

ONE_RUN = "one run"


def audit_one_run(
    train: Callable[..., Any],
    data: Any,
    canaries: Any,
    *,
    claim: Claim,
    score: Callable[..., Any],
    confidence: float = 0.95,
    method: str = "steinke",
    guesses: str | int | tuple[int, int] = "auto",
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
    seed = None if rng is None else _check.seed("rng", rng)
    configuration = {"seed": seed, "one_run": True}
    key = run_key(configuration, code=[train, score], data=[data, canaries])
    question = _Question(
        key=key,
        seed=seed,
        claim=claim,
        delta=claimed_delta(claim, delta),
        confidence=_check.confidence(confidence),
        method=method,
        guesses=guesses,
        replay=replay or f"dpassay.audit_one_run(..., rng={seed})",
    )
    coins = question.coins(_length(canaries))
    name = getattr(train, "__qualname__", type(train).__qualname__)
    run = play(
        _Training(train, score, data, canaries, coins, seed),
        1,
        key=key,
        configuration=configuration,
        description=question.description() | {"target": name} | dict(description or {}),
        store=store,
        workers=1,
        timeout=timeout,
        max_failed_share=1.0,
    )
    return question.verdict(run)


@dataclass(frozen=True)
class _Question:
    """What is asked of the scores of the canaries; see :class:`dpassay.auditing.question`."""

    key: str
    seed: int | None
    claim: PrivacyCurve
    delta: float
    confidence: float
    method: str
    guesses: Any
    replay: str

    def coins(self, size: int) -> NDArray[np.bool_]:
        """Which canaries are in."""
        return for_trial(coin_seed(self.seed, self.key), 0, 0).integers(0, 2, size).astype(bool)

    def description(self) -> dict[str, Any]:
        """The question as plain JSON, for the log."""
        return described(self.claim, self.delta, self.confidence) | {
            "audit": ONE_RUN,
            "trials": 1,
            "method": self.method,
            "guesses": self.guesses,
            "command": self.replay,
        }

    def verdict(self, run: Played) -> Verdict:
        """What the scores show; raises AuditStopped where there are none."""
        if run.n_failed:
            raise AuditStopped(f"the training failed:\n{run.first_error}")
        if run.ended == "interrupted":
            raise AuditStopped("interrupted before the training ended; nothing is known yet.")
        scores = np.frombuffer(run.outcomes.payloads[0])
        failed = np.isnan(scores)
        scores = np.where(failed, -np.inf, scores)
        coins = self.coins(scores.size)
        refuted, bound, details = self._statement(scores, coins)
        verdict = Verdict(
            claim=self.claim,
            bound=bound,
            refuted=refuted,
            confidence=self.confidence,
            trials=1,
            ended="refuted" if refuted else "budget spent",
            evidence=Evidence(
                coins.astype(int), scores, self.key, self.seed, n_failed=int(failed.sum())
            ),
            attack=f"{scores.size} canaries in one training",
            replay=self.replay,
            details=details,
        )
        vacuous = not refuted and bound.ceiling <= float(self.claim.epsilon(self.delta))
        return with_power(verdict, vacuous=vacuous, both_ways=False)

    def _statement(
        self, scores: FloatArray, coins: NDArray[np.bool_]
    ) -> tuple[bool, LowerBound, dict[str, float]]:
        """Verdict, bound and the numbers behind them: one statement, wrong with alpha at most.

        A claim that is a member of the bound's family is refuted where the bound is above it. Any
        other curve is tested as a whole with ``CURVE`` of alpha, and the bound has the rest; a
        bound above the claim is a refutation as well.
        """
        alpha = 1 - self.confidence
        claimed = float(self.claim.epsilon(self.delta))
        level = alpha if self._nested() else (1 - CURVE) * alpha
        options = {"method": self.method, "guesses": self.guesses}
        bound = one_run(scores, coins, delta=self.delta, confidence=1 - level, **options)
        bound = replace(bound, confidence=self.confidence)
        if self._nested():
            return bound.epsilon > claimed, bound, {}
        tested = one_run(scores, coins, delta=self.delta, method="fdp", claim=self.claim)
        p_value = (tested.details or {})["claim_p_value"]
        refuted = p_value <= CURVE * alpha or bound.epsilon > claimed
        return refuted, bound, {"p_value": p_value}

    def _nested(self) -> bool:
        """Whether the claim is a member of the family that the bound is taken from."""
        if isinstance(self.claim, GDP) and self.delta > 0:
            return self.method == "fdp"
        return isinstance(self.claim, ApproxDP | PureDP) or self.delta == 0


def judged_one_run(log: TrialLog, record: RunRecord, change: Change) -> Verdict:
    """The verdict on the training in a log."""
    about = record.description
    claim, delta, confidence = change.of(record)
    guesses = about["guesses"]
    question = _Question(
        key=record.key,
        seed=record.configuration["seed"],
        claim=claim,
        delta=delta,
        confidence=confidence,
        method=about["method"],
        guesses=tuple(guesses) if isinstance(guesses, list) else guesses,
        replay=about["command"],
    )
    return question.verdict(replayed(1, key=record.key, store=log, max_failed_share=1.0))


@dataclass(frozen=True, eq=False)
class _Training:
    """The one trial: train with the canaries that are in, score them all."""

    train: Callable[..., Any]
    score: Callable[..., Any]
    data: Any
    canaries: Any
    coins: NDArray[np.bool_]
    seed: int | None

    def __call__(self, trials: Any) -> list[Outcome]:
        joined = _joined(self.data, _chosen(self.canaries, self.coins))
        rng = None if self.seed is None else for_trial(self.seed, 0, 1)
        model = self.train(joined, rng)
        return [Outcome(payload=self._scores(model).tobytes())]

    def _scores(self, model: Any) -> FloatArray:
        try:
            together = np.asarray(self.score(model, self.canaries), float)
        except (TypeError, ValueError):
            together = np.empty(0)
        if together.shape == self.coins.shape:
            return together
        each = [self.score(model, _one(self.canaries, i)) for i in range(self.coins.size)]
        return np.array([float(value) for value in each])


def _is_pair(records: Any) -> bool:
    return isinstance(records, tuple) and len(records) == 2


def _length(records: Any) -> int:
    if _is_pair(records):
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


def _chosen(records: Any, mask: NDArray[np.bool_]) -> Any:
    if _is_pair(records):
        return tuple(_chosen(part, mask) for part in records)
    if hasattr(records, "iloc"):
        return records[mask]
    if isinstance(records, list):
        return [record for record, inside in zip(records, mask, strict=True) if inside]
    return np.asarray(records)[mask]


def _one(records: Any, i: int) -> Any:
    if _is_pair(records):
        return tuple(_one(part, i) for part in records)
    return records.iloc[i] if hasattr(records, "iloc") else records[i]


def _joined(data: Any, more: Any) -> Any:
    if _is_pair(more):
        if not _is_pair(data):
            raise InvalidArgument("canaries are a pair (X, y), data is not; give both as pairs.")
        return tuple(_joined(a, b) for a, b in zip(data, more, strict=True))
    if hasattr(more, "iloc"):
        import pandas as pd

        return pd.concat([data, more], ignore_index=True)
    if isinstance(more, list):
        return [*data, *more]
    rest = np.asarray(data)
    if rest.size == 0:
        return np.asarray(more)
    if rest.shape[1:] != more.shape[1:]:
        raise InvalidArgument(
            f"data has records of shape {rest.shape[1:]}, canaries of shape {more.shape[1:]}."
        )
    return np.concatenate([rest, more])
