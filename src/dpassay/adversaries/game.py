"""The game against DP-SGD, played many times.

A trial: a fair coin picks a world, training runs with what the crafter brought or without it, and a
distinguisher turns what it may see into a score.

Trials are played by :mod:`dpassay.runs`: logged, resumed, each the same whoever plays it. What is
logged is what a training showed, step by step, so that two adversaries who differ only in how they
look share their trainings, and so that a distinguisher can be chosen among several: on trials of
its own, which do not count afterwards.
"""

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
from dpassay.adversaries.training_game import (
    CHOOSING,
    CRAFTING,
    TrainingGame,
    describe_proof,
    prove_curve,
)
from dpassay.auditing.account import Account
from dpassay.auditing.engine import Engine
from dpassay.auditing.question import CHOOSING as CHOOSING_KIND
from dpassay.auditing.question import Question
from dpassay.auditing.referee import Referee, Rules, claimed_delta
from dpassay.auditing.stepwise import StepsQuestion
from dpassay.bounds import lower_bound
from dpassay.bounds.sequential import sequential_bound
from dpassay.errors import InvalidArgument
from dpassay.nets import Training
from dpassay.runs import Played, Players, TrialLog, hire, opened
from dpassay.types import Evidence, FloatArray, LowerBound, PrivacyCurve, Verdict

CHOOSING_TRIALS = 100


@dataclass(frozen=True, eq=False)
class PlayedGame:
    """The result of a game: its evidence, what was asked of it, and the run.

    Attributes:
        adversary: who played.
        training: against what.
        crafted: with what.
        evidence: worlds and scores.
        question: what was asked of the trials, and how they are read.
        run: the trials as they are in the log.
        watched: whether playing was to stop when a claim was refuted. Then the number of trials
            says something as well, and only bounds that hold at all times are valid.

    """

    adversary: Adversary
    training: Training
    crafted: Crafted
    evidence: Evidence
    question: Question
    run: Played
    watched: bool = False

    @property
    def distinguisher(self) -> str:
        """The name of the score that was used."""
        return self.question.distinguisher or ""

    @property
    def n_choosing(self) -> int:
        """Trials that chose it, which do not count."""
        return self.question.n_choosing

    @property
    def n_deaths(self) -> int:
        """How often a worker died."""
        return self.run.n_deaths

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
        rules = _rules(self.training, claim, delta, confidence)
        question = replace(self.question, rules=rules)
        referee = Referee(rules)
        referee.take(self.evidence.worlds, self.evidence.scores)
        return question.verdict(referee, self.run, question.prints())


def _rules(
    training: Training, claim: PrivacyCurve | None, delta: float | None, confidence: float
) -> Rules:
    """Bets on every trial; higher scores say "with"."""
    claim = prove_curve(training.event()) if claim is None else claim
    confidence = _check.confidence(confidence)
    bets = Account(betting=1.0, n_betting=None)
    return Rules(claim, claimed_delta(claim, delta), confidence, False, bets)


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
    executor: Players = None,
    workers: int = 1,
    rng: int = 0,
    progress: Any = "quiet",
) -> PlayedGame:
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
        AuditStopped: too many trainings failed, or the user interrupted; with a store the same call
            goes on.

    """
    trials = _check.count("trials", trials, remedy="It is the number of trainings that count.")
    choosing = _check.count("choosing", choosing, low=4)
    seed = _check.seed("rng", rng, remedy="Pass a seed: a game must be reproducible.")
    crafted = craft_for(adversary, training, data, seed) if crafted is None else crafted
    game = TrainingGame(adversary.train, training, crafted, seed)
    candidates = dict(adversary.distinguish(training, crafted))
    n_choosing = choosing if len(candidates) > 1 else 0
    with opened(store) as log, hire(executor, workers) as who:
        engine = Engine(log, who, workers, progress=progress)
        name, score = _choose(candidates, game, n_choosing, engine)
        question = Question(
            key=game.key,
            seed=seed,
            block=0,
            n_learning=0,
            n_calls=trials,
            sequential=True,
            rules=_rules(training, claim, None, confidence),
            distinguisher=name,
            max_failed_share=engine.max_failed_share,
            replay="",
            steps=game.reader(score),
            attacker=adversary.name,
            n_choosing=n_choosing,
            claim_text=describe_proof(training) if claim is None else None,
        )
        stop = None
        if claim is not None:
            stop = question.watch(question.prints(), Referee(question.rules))
        about = question.description() | {"target": "DP-SGD"}
        run = engine.play(game, trials, description=about, stop=stop)
    run.require_whole(trials, "trainings", failures=True)
    worlds, scores = question.reader()(run.outcomes)
    evidence = Evidence(worlds, scores, run.key, seed, run.n_failed)
    return PlayedGame(adversary, training, crafted, evidence, question, run, claim is not None)


def craft_for(adversary: Adversary, training: Training, data: Data, rng: int = 0) -> Crafted:
    """What an adversary brings to the game with this seed."""
    return adversary.craft(training, data, for_trial(rng, 0, CRAFTING))


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
    crafted = craft_for(adversary, training, data, rng)
    if crafted.hooks.gradient is None:
        raise InvalidArgument(
            f"adversary={adversary.name!r} inserts no gradient, so its steps say nothing each. "
            "Take ADVERSARIES['gradient'] or ADVERSARIES['malicious data']."
        )
    hooks = replace(crafted.hooks, gradient=Coined(crafted.hooks.gradient), rate=1.0)
    game = TrainingGame(
        adversary.train, training, replace(crafted, hooks=hooks), rng, by_steps=True
    )
    noise = training.clip * training.noise_multiplier
    question = StepsQuestion(
        key=game.key,
        seed=rng,
        stream=game.stream,
        trainings=trainings,
        sampling_rate=training.sampling_rate,
        steps=training.steps,
        claim=prove_curve(training.event()),
        delta=delta,
        confidence=confidence,
        estimator=_check.choice("estimator", estimator, ("threshold", "location")),
        threshold=training.clip / 2,
        sigma=float(np.hypot(noise, crafted.interference)),
        attacker=adversary.name,
        claim_text=describe_proof(training),
    )
    with opened(store) as log:
        about = question.description() | {"target": "DP-SGD"}
        return question.bound(Engine(log).play(game, trainings, description=about))


def _choose(
    candidates: dict[str, Score], game: TrainingGame, trials: int, engine: Engine
) -> tuple[str, Score]:
    """The distinguisher that does best in trials of its own; where there is one, no trial."""
    if not trials:
        return next(iter(candidates.items()))
    game = replace(game, stream=CHOOSING)
    about = {"audit": CHOOSING_KIND, "trials": trials, "target": "DP-SGD"}
    run = engine.play(game, trials, description=about)
    run.require_whole(trials, "trainings", failures=True)
    shown = {name: separation(*game.reader(s)(run.outcomes)) for name, s in candidates.items()}
    best = max(shown, key=shown.__getitem__)
    return best, candidates[best]


def separation(worlds: Any, scores: FloatArray) -> float:
    """How well scores tell the worlds apart: the area under the ROC curve; 1/2 says nothing."""
    inside, outside = scores[worlds == 1], scores[worlds == 0]
    if not inside.size or not outside.size:
        return 0.5
    above = (inside[:, None] > outside).mean()
    return float(above + (inside[:, None] == outside).mean() / 2)
