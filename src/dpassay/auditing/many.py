"""``audit``: play the game of a mechanism many times, bet against its claim, and give a verdict."""

import math
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from dpassay import _check
from dpassay.attacks import Distinguisher, learn_distinguisher
from dpassay.auditing.game import Game, Watch, draws_many
from dpassay.auditing.neighbours import check_neighbours
from dpassay.auditing.referee import Referee, Rules, claimed_delta
from dpassay.errors import DpassayError, InvalidArgument
from dpassay.runs import Outcomes, Played, TrialLog, Workers, play, run_key
from dpassay.types import FloatArray, PrivacyCurve, Verdict

_BLOCKS, _LARGEST_BLOCK = 20, 8192
_LEARNING_SHARE, _FEWEST, _MOST = 0.25, 60, 5000  # of the trials, to learn a distinguisher from
_EVERY = 25  # trials handed to the referee at a time; the verdict does not depend on it
_ENDED = {
    "done": "budget spent",
    "stopped": "refuted",
    "interrupted": "interrupted",
    "too many failures": "too many failures",
}


class AuditStopped(DpassayError):
    """Too many trials failed to say anything; the first error is in the message."""


def audit(
    mechanism: Callable[..., Any],
    pair: tuple[Any, Any],
    *,
    claim: PrivacyCurve,
    score: Callable[[Any], float] | None = None,
    trials: int = 1000,
    confidence: float = 0.95,
    sequential: bool = True,
    executor: Executor | Workers | Callable[[], Executor] | None = None,
    workers: int = 1,
    store: str | Path | TrialLog | None = None,
    rng: int | np.random.Generator | None = 0,
    delta: float | None = None,
    group: int = 1,
    timeout: float | None = None,
    max_failed_share: float = 0.1,
    progress: Any = "quiet",
    replay: str = "",
) -> Verdict:
    """Whether a mechanism breaks its claim on a pair of neighbouring data sets.

    Every trial draws a world by a fair coin, runs the mechanism once on that world's data set, and
    turns its output into a score. The claim is bet against as trials come in; the audit stops when
    it is refuted or the trials are spent.

    Args:
        mechanism: ``mechanism(data, rng)`` returns anything; ``mechanism(data, rng, size=n)`` may
            return n outputs at once (in the first dimension), which is much faster.
        pair: the two neighbouring data sets. Record tables (two-dimensional arrays, frames, pairs
            (X, y)) are checked to be neighbours in the claim's relation.
        claim: the privacy curve that the mechanism is said to have.
        score: ``score(output)`` returns a number that tends to be larger (or smaller) for the first
            data set; it must not depend on the trials. None learns one from the first quarter of
            the trials, which then do not count.
        trials: the most that are played.
        confidence: the probability that a true claim is not refuted, at least.
        sequential: stop as soon as the claim is refuted. False plays all trials and tests once.
        executor: who plays, any ``concurrent.futures.Executor``; see :func:`dpassay.runs.play`.
        workers: processes of our own; 1 plays in this one.
        store: a file that keeps the trials; the same call then goes on where it was.
        rng: seed of worlds and noise. None gives the mechanism ``rng=None``, so that it draws its
            secure noise: logged and resumed, but not replayable.
        delta: where the lower bound is stated; by default at the claim's own delta, else 1e-5.
        group: how many records the two data sets differ by, if more than one.
        timeout: seconds for one trial.
        max_failed_share: more failures than this share end the audit.
        progress: "auto", "bar", "lines", "quiet" or a progress object.
        replay: a line to print that runs the same audit again.

    Returns:
        The verdict. Failed trials (exceptions, NaN, timeouts) are outputs with the lowest score.

    Raises:
        InvalidArgument: a value out of range, or data sets that are no neighbours.
        AuditStopped: too many trials failed.

    >>> import dpassay as da
    >>> def noisy_count(data, rng, size):
    ...     return len(data) + rng.laplace(scale=0.5, size=size)  # needs scale 1 for epsilon = 1
    >>> verdict = audit(noisy_count, ([1, 2, 3], [1, 2]), claim=da.PureDP(1.0), trials=20_000)
    >>> verdict.refuted
    True

    """
    data, data_prime = _pair(pair)
    check_neighbours(data, data_prime, claim.neighbouring, group)
    setting = _setting(mechanism, score, trials, rng)
    key = run_key(setting.configuration(), code=[mechanism, score], data=[data, data_prime])
    coin_seed = setting.seed if setting.seed is not None else int(key[:15], 16)
    game = Game(mechanism, data, data_prime, coin_seed, setting.seed, setting.block)
    rules = Rules(
        claim=claim,
        delta=claimed_delta(claim, delta),
        confidence=_check.confidence(confidence),
        budget=(setting.n_tasks - setting.n_learning) * max(setting.block, 1),
        both_ways=score is not None,
        sequential=sequential,
    )

    def played(task: Watch, numbers: range, referee: Referee | None) -> Played:
        return play(
            task,
            numbers,
            key=key,
            configuration=setting.configuration(),
            store=store,
            executor=executor,
            workers=workers,
            stop=None if referee is None else lambda seen: referee.take(*_seen(game, seen)),
            every=1 if setting.block else _EVERY,
            timeout=timeout,
            max_failed_share=max_failed_share,
            progress=progress,
            note=None if referee is None else lambda: _note(referee),
        )

    return _judged(game, setting, rules, score, played, replay, key)


@dataclass(frozen=True)
class _Setting:
    """How trials are cut into tasks, and how many of these are for learning."""

    seed: int | None
    block: int
    n_tasks: int
    n_learning: int

    def configuration(self) -> dict[str, Any]:
        """What fixes the trials; the claim and the number of trials do not."""
        learns = {"sklearn": _sklearn_version()} if self.n_learning else {}
        return {
            "seed": self.seed,
            "block": self.block,
            "n_learning": self.n_learning,
        } | learns


def _setting(mechanism: Any, score: Any, trials: int, rng: Any) -> _Setting:
    if not callable(mechanism):
        raise InvalidArgument(f"mechanism={mechanism!r} must be callable: mechanism(data, rng).")
    if score is not None and not callable(score):
        raise InvalidArgument(f"score={score!r} must be callable: score(output) -> float.")
    trials = _check.count("trials", trials, low=1)
    block = int(np.clip(trials // _BLOCKS, 1, _LARGEST_BLOCK)) if draws_many(mechanism) else 0
    n_tasks = trials // max(block, 1)
    learning = 0
    if score is None:
        if trials < 2 * _FEWEST:
            raise InvalidArgument(
                f"trials={trials} must be at least {2 * _FEWEST} to learn a score and test it. "
                "Pass score=, or more trials."
            )
        wanted = int(np.clip(_LEARNING_SHARE * trials, _FEWEST, _MOST))
        learning = math.ceil(wanted / max(block, 1))
    return _Setting(_seed(rng), block, n_tasks, learning)


def _seed(rng: Any) -> int | None:
    if isinstance(rng, np.random.Generator):
        return int(rng.integers(2**62))
    if rng is None:
        return None
    return _check.count("rng", rng, low=0, remedy="Pass a seed, a generator or None.")


def _sklearn_version() -> str:
    import importlib.metadata

    return importlib.metadata.version("scikit-learn")


def _pair(pair: Any) -> tuple[Any, Any]:
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise InvalidArgument("pair must be two data sets, (data, data_prime).")
    return pair[0], pair[1]


def _seen(game: Game, outcomes: Outcomes) -> tuple[Any, FloatArray]:
    """Worlds and scores of trials; a failed one has the score -inf, whatever its world."""
    worlds = [game.worlds(trial) for trial in outcomes.trials.tolist()]
    if not game.block:
        scores = np.where(outcomes.failed | np.isnan(outcomes.scores), -np.inf, outcomes.scores)
        return np.concatenate([np.empty(0, int), *worlds]), scores
    parts = [
        np.frombuffer(outcomes.payloads[trial])
        if trial in outcomes.payloads
        else np.full(game.block, -np.inf)
        for trial in outcomes.trials.tolist()
    ]
    scores = np.concatenate([np.empty(0), *parts])
    return np.concatenate([np.empty(0, int), *worlds]), np.where(np.isnan(scores), -np.inf, scores)


def _judged(
    game: Game,
    setting: _Setting,
    rules: Rules,
    score: Any,
    played: Callable[[Watch, range, Referee | None], Played],
    replay: str,
    key: str,
) -> Verdict:
    attack = "the score that was given"
    learning: Played | None = None
    if score is None:
        learning = played(Watch(game), range(setting.n_learning), None)
        _refuse_failures(learning)
        if learning.ended == "done":
            score = _learned(game, learning.outcomes)
            attack = f"a distinguisher ({score.name}) learned from {_count(setting)} trials"
    referee = Referee(rules)
    ended = "interrupted" if score is None else "done"
    n_failed, deaths = 0, 0
    if score is not None:
        testing = played(Watch(game, score), range(setting.n_learning, setting.n_tasks), referee)
        _refuse_failures(testing)
        ended, n_failed, deaths = testing.ended, testing.n_failed, testing.n_deaths
    evidence = replace(referee.evidence(), run=key, seed=setting.seed, n_failed=n_failed)
    refuted = referee.refuted()
    return Verdict(
        claim=rules.claim,
        bound=referee.bound(),
        refuted=refuted,
        confidence=rules.confidence,
        trials=referee.trials,
        ended="refuted" if refuted else _ENDED[ended],
        evidence=evidence,
        attack=attack,
        replay=replay or f"dpassay.audit(..., rng={setting.seed}, trials=...)",
        details={
            "log_wealth": referee.log_wealth,
            "learning_trials": float(_count(setting)),
            "deaths": float(deaths),
        },
        log_wealth=referee.wealth_path() if rules.n_betting else None,
    )


def _count(setting: _Setting) -> int:
    return setting.n_learning * max(setting.block, 1)


def _refuse_failures(run: Played) -> None:
    if run.ended == "too many failures":
        raise AuditStopped(
            f"{run.n_failed} of {len(run.outcomes)} trials failed, too many to say anything. The "
            f"first error was:\n{run.first_error}"
        )


def _learned(game: Game, outcomes: Outcomes) -> Distinguisher:
    """A distinguisher from the features of the learning trials that did not fail."""
    rows: list[FloatArray] = []
    worlds: list[int] = []
    for trial in outcomes.trials.tolist():
        if trial in outcomes.payloads:
            coins = game.worlds(trial)
            table = np.frombuffer(outcomes.payloads[trial]).reshape(len(coins), -1)
            rows.extend(table)
            worlds.extend(coins.tolist())
    return learn_distinguisher(rows, np.array(worlds))


def _note(referee: Referee) -> str:
    """What to show beside the progress: the wealth against the claim."""
    needed = -math.log(referee.rules.alpha)
    return f"evidence against the claim {referee.log_wealth:+.1f} of {needed:.1f} nats"
