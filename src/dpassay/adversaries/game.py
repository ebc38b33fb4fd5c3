"""The game against DP-SGD, played many times.

A trial: a fair coin picks a world, training runs with what the crafter brought or without it, and a
distinguisher turns what it may see into a score.

Trials are played by :mod:`dpassay.runs`: logged, resumed, each the same whoever plays it. What is
logged is what a training showed, step by step, so that two adversaries who differ only in how they
look share their trainings, and so that a distinguisher can be chosen among several: on trials of
its own, which do not count afterwards.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from dpassay import _check
from dpassay._rng import for_trial
from dpassay.adversaries.crafters import Crafted, Data
from dpassay.adversaries.family import lower_bound_in_noise
from dpassay.adversaries.insertions import Coined
from dpassay.adversaries.six import Adversary, Score
from dpassay.adversaries.trainers import Trainer
from dpassay.auditing.account import Account
from dpassay.auditing.referee import Referee, Rules, claimed_delta
from dpassay.bounds import lower_bound, lower_bound_from_steps
from dpassay.bounds.sequential import sequential_bound
from dpassay.errors import GameStopped, InvalidArgument
from dpassay.nets import Training
from dpassay.privacy import account
from dpassay.runs import Outcome, Outcomes, Played, TrialLog, Workers, opened, run_key
from dpassay.runs import play as play_trials
from dpassay.types import Evidence, FloatArray, LowerBound, PrivacyCurve, Verdict

_COIN, _TRAINING, _CRAFTING, _CHOOSING = range(4)  # streams of randomness
CHOOSING_TRIALS = 100


@dataclass(frozen=True, eq=False)
class Game:
    """What a game came to.

    Attributes:
        adversary: who played.
        training: against what.
        crafted: with what.
        evidence: worlds and scores.
        distinguisher: the score that was used.
        n_choosing: trials that chose it, which do not count.
        n_deaths: how often a worker died.
        watched: whether playing was to stop when a claim was refuted. Then the number of trials
            says something as well, and only bounds that hold at all times are valid.

    """

    adversary: Adversary
    training: Training
    crafted: Crafted
    evidence: Evidence
    distinguisher: str
    n_choosing: int
    n_deaths: int
    watched: bool = False

    def bounds(self, delta: float, confidence: float = 0.95) -> dict[str, LowerBound]:
        """Lower bounds on epsilon(delta), by method: "clopper-pearson", which assumes nothing, and
        one that knows what DP-SGD is: "gdp" for full batches, "family" for Poisson batches.

        Thresholds are paid for. Each bound holds by itself; the larger of the two does not. Of a
        game that was watched there is "sequential" alone.
        """
        bounds = [self._free_bound(delta, confidence)]
        if not self.watched:
            bounds.append(self._dpsgd_bound(delta, confidence))
        return {bound.method: bound for bound in bounds}

    def _free_bound(self, delta: float, confidence: float) -> LowerBound:
        stated: Any = {"delta": delta, "confidence": confidence}
        if self.watched:
            return sequential_bound(self.evidence.worlds, self.evidence.scores, **stated)
        return lower_bound(*self.evidence.sides(), **stated)

    def _dpsgd_bound(self, delta: float, confidence: float) -> LowerBound:
        stated: Any = {"delta": delta, "confidence": confidence}
        if self.training.sampling_rate == 1:
            return lower_bound(*self.evidence.sides(), method="gdp", **stated)
        return lower_bound_in_noise(
            *self.evidence.sides(),
            noise_multiplier=self.training.noise_multiplier,
            sampling_rate=self.training.sampling_rate,
            steps=self.training.steps,
            **stated,
        )

    def verdict(
        self,
        claim: PrivacyCurve | None = None,
        *,
        delta: float | None = None,
        confidence: float = 0.95,
    ) -> Verdict:
        """Whether a claim stands: by default the accountant's curve of the training.

        The whole curve is bet against, trial by trial, in number order. Verdict and bound are one
        statement of the same bets: both hold together with ``confidence``, however often the game
        is extended. The bound is stated at ``delta``, by default the claim's own (1e-5 for curves).
        """
        claim = account(self.training.event()) if claim is None else claim
        referee = _referee(claim, delta, confidence)
        referee.take(self.evidence.worlds, self.evidence.scores)
        refuted, bound, fell_at = referee.statement()
        return Verdict(
            claim,
            bound,
            refuted,
            confidence,
            referee.trials,
            "refuted" if refuted else "budget spent",
            self.evidence,
            f"{self.adversary.name}, by {self.distinguisher}",
            log_wealth=referee.wealth_path(),
            fell_at=fell_at,
        )


def _referee(claim: PrivacyCurve, delta: float | None, confidence: float) -> Referee:
    """One that bets on every trial; higher scores say "with"."""
    confidence = _check.confidence(confidence)
    bets = Account(betting=1.0, n_betting=None)
    return Referee(Rules(claim, claimed_delta(claim, delta), confidence, False, bets))


def play(
    adversary: Adversary,
    training: Training,
    data: Data,
    *,
    trials: int = 400,
    choosing: int = CHOOSING_TRIALS,
    crafted: Crafted | None = None,
    claim: PrivacyCurve | None = None,
    confidence: float = 0.95,
    store: str | Path | TrialLog | None = None,
    executor: Executor | Workers | Callable[[], Executor] | None = None,
    workers: int = 1,
    rng: int = 0,
    progress: Any = "quiet",
) -> Game:
    """What an adversary sees in many trainings, as worlds and scores.

    Args:
        adversary: one of ``ADVERSARIES``, or any other.
        training: how training is done.
        data: what is trained on, and what the adversary has.
        trials: trainings that count; the world of each is a fair coin.
        choosing: trainings before that, where the adversary has several distinguishers.
        crafted: what the crafter made, if that is there already. If games chose it, take another
            ``rng`` than theirs, or their trials count again (:class:`Searched` sees to it).
        claim: a curve to be bet against while trials come in; playing stops when it is refuted.
        confidence: of that bet.
        store: a file that keeps what the trainings showed; the same call then goes on where it was.
        executor: who plays, see :func:`dpassay.runs.play`.
        workers: processes of our own; 1 plays in this one.
        rng: seed of worlds, crafting and trainings.
        progress: "auto", "bar", "lines", "quiet" or a progress object.

    Raises:
        InvalidArgument: a value out of range.
        GameStopped: too many trainings failed, or the user interrupted; with a store the same call
            goes on.

    """
    trials = _check.count("trials", trials, remedy="It is the number of trainings that count.")
    choosing = _check.count("choosing", choosing, low=4)
    seed = _check.seed("rng", rng, remedy="Pass a seed: a game must be reproducible.")
    crafted = crafted_for(adversary, training, data, seed) if crafted is None else crafted
    options = {"executor": executor, "workers": workers, "progress": progress}
    with opened(store) as log:
        task = _Trials(adversary.train, training, crafted, seed)
        candidates = dict(adversary.distinguish(training, crafted))
        n_choosing = choosing if len(candidates) > 1 else 0
        name, score = _choose(candidates, task, n_choosing, log, options)
        bets = None if claim is None else _referee(claim, None, confidence)

        def refuted(seen: Outcomes) -> bool:
            assert bets is not None
            return bets.take(*_score_all(task, seen, score))

        run = _play_all(task, trials, log, options, None if bets is None else refuted)
    worlds, scores = _score_all(task, run.outcomes, score)
    evidence = Evidence(worlds, scores, run.key, seed, run.n_failed)
    return Game(
        adversary, training, crafted, evidence, name, n_choosing, run.n_deaths, bets is not None
    )


def crafted_for(adversary: Adversary, training: Training, data: Data, rng: int = 0) -> Crafted:
    """What an adversary brings to the game with this seed."""
    return adversary.craft(training, data, for_trial(rng, 0, _CRAFTING))


def steps_bound(
    adversary: Adversary,
    training: Training,
    data: Data,
    *,
    trainings: int = 10,
    delta: float = 1e-5,
    confidence: float = 0.95,
    estimator: str = "threshold",
    store: str | Path | TrialLog | None = None,
    rng: int = 0,
) -> LowerBound:
    """A lower bound on epsilon(delta) of the training from few trainings, by their single steps.

    A fair coin for every step, whatever the sampling rate, says whether the gradient is in it; what
    the steps show with it and without gives the mu of one, from which the whole is composed
    (:func:`dpassay.bounds.lower_bound_from_steps`, which also states what that assumes). As the
    coin is independent of all that came before, what other records add along the gradient has one
    law on both sides. (Steps of trainings that all have it, against steps of trainings that never
    do, would compare different histories.)

    Args:
        adversary: one that inserts a gradient.
        training: how training is done.
        data: what is trained on, and what the adversary has.
        trainings: how many.
        delta: where the bound is stated.
        confidence: the probability that it holds.
        estimator: "threshold", at half the clipping norm, or "location", which knows the noise.
        store: a file that keeps what the trainings showed.
        rng: seed of crafting and trainings.

    """
    trainings = _check.count("trainings", trainings)
    crafted = crafted_for(adversary, training, data, rng)
    if crafted.hooks.gradient is None:
        raise InvalidArgument(
            f"adversary={adversary.name!r} inserts no gradient, so its steps say nothing each. "
            "Take ADVERSARIES['gradient'] or ADVERSARIES['malicious data']."
        )
    hooks = replace(crafted.hooks, gradient=Coined(crafted.hooks.gradient), rate=1.0)
    task = _Trials(adversary.train, training, replace(crafted, hooks=hooks), rng, by_steps=True)
    with opened(store) as log:
        run = _play_all(task, trainings, log)
    if run.n_failed:
        raise GameStopped(f"{run.n_failed} trainings failed; the first said:\n{run.first_error}")
    seen = np.concatenate([_observe(run.outcomes.payloads[k]) for k in range(trainings)])
    coins = np.concatenate([task.coins(k) for k in range(trainings)]) > 0
    noise = training.clip * training.noise_multiplier
    known = {
        "threshold": {"threshold": training.clip / 2},
        "location": {"sigma": float(np.hypot(noise, crafted.interference))},
    }
    return lower_bound_from_steps(
        seen[coins],
        seen[~coins],
        sampling_rate=training.sampling_rate,
        steps=training.steps,
        delta=delta,
        confidence=confidence,
        estimator=estimator,
        **known[_check.choice("estimator", estimator, tuple(known))],
    )


@dataclass(frozen=True, eq=False)
class _Trials:
    """The task of a game: trainings, and what each showed at every step."""

    train: Trainer
    training: Training
    crafted: Crafted
    seed: int
    stream: int = _TRAINING
    by_steps: bool = False  # a coin for every step, not for the training

    def __call__(self, trials: Sequence[int]) -> list[Outcome]:
        return [Outcome(payload=self._seen(trial)) for trial in trials]

    def _seen(self, trial: int) -> bytes:
        rng = for_trial(self.seed, trial, self.stream)
        crafted, world = self.crafted, bool(self.world(trial))
        if self.by_steps:
            world, context = True, crafted.context | {"coins": self.coins(trial)}
            crafted = replace(crafted, context=context)
        seen = self.train(self.training, crafted, world, rng)
        return np.asarray(seen, np.float32).tobytes()

    def world(self, trial: int) -> int:
        """The world of a trial: 1 with the canary, 0 without."""
        return int(for_trial(self.seed, trial, _COIN, self.stream).integers(2))

    def coins(self, trial: int) -> FloatArray:
        """1 where a step has the gradient, 0 where it has not."""
        random = for_trial(self.seed, trial, _COIN, self.stream)
        return random.integers(2, size=self.training.steps).astype(np.float32)

    def key(self) -> str:
        """The name of the run: everything that its trainings depend on."""
        made = self.crafted
        configuration = {"seed": self.seed, "stream": self.stream, "by_steps": self.by_steps}
        hooks = [made.hooks.example, made.hooks.gradient, made.hooks.observe, made.hooks.rate]
        return run_key(
            configuration,
            code=[self.train],
            data=[self.training, hooks, made.records, made.context, made.start],
        )


def _play_all(
    task: _Trials,
    trials: int,
    log: TrialLog,
    options: Mapping[str, Any] | None = None,
    stop: Any = None,
) -> Played:
    options = {"workers": 1} if options is None else options
    about = {"game": "against DP-SGD", "seed": task.seed}
    run = play_trials(
        task, trials, key=task.key(), configuration=about, store=log, stop=stop, **options
    )
    if run.ended == "interrupted":
        raise GameStopped(
            f"interrupted after {len(run.outcomes)} of {trials} trainings. With store= the same "
            "call goes on."
        )
    if run.ended == "too many failures":
        raise GameStopped(f"too many trainings failed; the first said:\n{run.first_error}")
    return run


def _observe(payload: bytes) -> FloatArray:
    return np.frombuffer(payload, np.float32).astype(float)


def _score_all(task: _Trials, outcomes: Outcomes, score: Score) -> tuple[Any, FloatArray]:
    """Worlds and scores in number order.

    A training that failed, or showed what is not finite, has the lowest score there is.
    """
    numbers = outcomes.trials.tolist()
    worlds = np.array([task.world(trial) for trial in numbers], dtype=int)
    scores = np.full(len(numbers), -np.inf)
    shown = {
        i: _observe(outcomes.payloads[k]) for i, k in enumerate(numbers) if k in outcomes.payloads
    }
    done = [i for i, seen in shown.items() if np.isfinite(seen).all()]
    if done:
        found = score(np.stack([shown[i] for i in done]))
        scores[done] = np.where(np.isnan(found), -np.inf, found)
    return worlds, scores


def _choose(
    candidates: dict[str, Score],
    task: _Trials,
    trials: int,
    log: TrialLog,
    options: Mapping[str, Any],
) -> tuple[str, Score]:
    """The distinguisher that does best in trials of its own; where there is one, no trial."""
    if not trials:
        return next(iter(candidates.items()))
    task = replace(task, stream=_CHOOSING)
    run = _play_all(task, trials, log, options)
    shown = {name: separation(*_score_all(task, run.outcomes, s)) for name, s in candidates.items()}
    best = max(shown, key=shown.__getitem__)
    return best, candidates[best]


def separation(worlds: Any, scores: FloatArray) -> float:
    """How well scores tell the worlds apart: the area under the ROC curve; 1/2 says nothing."""
    inside, outside = scores[worlds == 1], scores[worlds == 0]
    if not inside.size or not outside.size:
        return 0.5
    above = (inside[:, None] > outside).mean()
    return float(above + (inside[:, None] == outside).mean() / 2)
