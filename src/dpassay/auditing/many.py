"""``audit``: play the game of a mechanism many times, bet against its claim, and give a verdict."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack, cast

import numpy as np

from dpassay import _check
from dpassay.attacks.distinguisher import Distinguisher, learn_distinguisher
from dpassay.attacks.regions import Forecast, learn_from_many
from dpassay.auditing.account import CHOOSING
from dpassay.auditing.answering import keep_verdict
from dpassay.auditing.claims import Claim, as_claim
from dpassay.auditing.configuration import (
    MANY_DRAWS,
    SHARE_OF_MANY,
    Configuration,
    account_for,
    configure,
    find_earlier,
)
from dpassay.auditing.counting import n_ordered
from dpassay.auditing.engine import Engine
from dpassay.auditing.game import PairGame
from dpassay.auditing.inputs import as_input
from dpassay.auditing.neighbours import look_at_neighbours
from dpassay.auditing.question import (
    Question,
    keep_account,
    refuse_target,
)
from dpassay.auditing.referee import Referee, Rules, claimed_delta
from dpassay.auditing.searching import Search, check_one_way_in
from dpassay.auditing.trainings import curve_to_claim
from dpassay.bounds.conditional import Guesses, epsilon_lower
from dpassay.errors import InvalidArgument, VacuousAudit
from dpassay.runs import (
    Outcomes,
    Played,
    Players,
    TrialLog,
    hire,
    opened,
    run_key,
)
from dpassay.types import FloatArray, NeighboursSeen, PrivacyCurve, Verdict

if TYPE_CHECKING:
    from dpassay.replay.primitives import Primitive

_FIXED = ("stop", "leak")


def audit(
    mechanism: Callable[..., Any],
    pair: tuple[Any, Any] | None = None,
    *,
    claim: Claim,
    data: Any = None,
    score: Callable[[Any], float] | None = None,
    trials: int = 1000,
    confidence: float = 0.95,
    sequential: bool = True,
    measure: bool = False,
    executor: Players = None,
    workers: int = 1,
    store: str | Path | TrialLog | None = None,
    rng: int | np.random.Generator | None = 0,
    delta: float | None = None,
    group: int = 1,
    neighbours: Literal["checked", "trusted"] = "checked",
    fixed_seed: Literal["stop", "leak"] = "stop",
    timeout: float | None = None,
    max_failed_share: float = 0.1,
    recycle: int | None = None,
    progress: Any = "quiet",
    replay: str = "",
    description: Mapping[str, Any] | None = None,
    evidence: Literal["trials", "replay"] = "trials",
    primitives: Sequence["Primitive"] = (),
) -> Verdict:
    """Whether a mechanism breaks its claim on a pair of neighbouring data sets.

    Every trial draws a world by a fair coin, runs the mechanism once on that world's data set, and
    turns its output into a score. The claim is bet against as trials come in; the audit stops when
    it is refuted or the trials are spent.

    Args:
        mechanism: ``mechanism(data, rng)`` returns anything; ``mechanism(data, rng, size=n)`` may
            return n outputs at once (in the first dimension), which is much faster.
        pair: the two neighbouring data sets. They are checked to be neighbours in the claim's
            relation: rows of arrays, tensors, frames and (X, y) are records, and entries of lists,
            dicts, strings and one-dimensional arrays. Numbers and other objects are taken as given.
            None to have a pair searched in ``data``.
        data: a data set, or a description of one such as ``dpassay.inputs.vector(10)``, in which
            the pair is searched that shows most, and shrunk to the simplest that still refutes.
            That may take up to 55 % of the trials, which then do not count.
        claim: what the mechanism is said to have: a privacy curve, a pair (epsilon, delta), or a
            text such as "3,1e-5" or "gdp:1.0", see :func:`dpassay.auditing.parse_claim`. Pairs and
            texts speak of add-remove neighbours.
        score: ``score(output)`` returns a number that tends to be larger (or smaller) for the first
            data set; it must not depend on the trials. None learns one: up to 20 000 trials it is
            learned while they are bet on, and every trial counts
            (:mod:`dpassay.attacks.online`); beyond that, from the first part of them.
        trials: the most that are played.
        confidence: the probability that verdict and bound are both right, at least.
        sequential: stop as soon as the claim is refuted. False plays all trials and tests once.
        measure: go on after the claim has fallen, to four times as many trials (200 at least), so
            that the bound says how bad it is; the verdict stays what it was when the claim fell.
        executor: who plays: any ``concurrent.futures.Executor``, a ``dask.distributed.Client``,
            "dask" or "dask:tcp://host:8786"; see :func:`dpassay.runs.play`.
        workers: processes of our own; 1 plays in this one.
        store: a file that keeps the trials; the same call then goes on where it was, and with
            larger ``trials`` it extends the run. What the extension may still spend of the run's
            error probability is in the log (:mod:`dpassay.auditing.account`).
        rng: seed of worlds and noise. None gives the mechanism ``rng=None``, so that it draws its
            secure noise: logged and resumed, but not replayable.
        delta: where the lower bound is stated; by default at the claim's own delta, else 1e-5.
        group: how many records the two data sets differ by, if more than one.
        neighbours: "trusted" for data sets that are neighbours in a sense of your own, such as
            vectors of query answers or graphs; the verdict then says that nobody checked.
        fixed_seed: what to make of a mechanism whose outputs never change in either world, as one
            with a fixed seed. "stop" gives no verdict; "leak" judges it, since whoever knows the
            seed sees no noise.
        timeout: seconds for one trial. A mechanism that ignores its alarm is ended only in a
            process of its own: pass ``executor=Workers(1, separate=True)``, or more workers.
        max_failed_share: more failures than this share end the audit.
        recycle: replace worker processes after about so many trials, if the mechanism leaks memory.
        progress: "auto", "bar", "lines", "quiet" or a progress object.
        replay: a line to print that runs the same audit again.
        description: what to write into the log about the audit beside its question, as plain JSON;
            for example ``{"target": "my_train.py:train"}``.
        evidence: "replay" takes the likelihood ratio of the noisy values from replays instead of
            outputs: few trials, under an assumption that the bound states; see
            ``dpassay.auditing.replayed``. Of the other arguments it uses ``trials``,
            ``confidence``, ``delta``, ``rng``, ``replay`` and ``primitives``.
        primitives: functions of yours that add noise, for ``evidence="replay"``; see
            :func:`dpassay.check`.

    Warns:
        VacuousAudit: even a perfect attack could not refute the claim in so many trials.

    Returns:
        The verdict. Failed trials (exceptions, NaN, timeouts) are outputs with the lowest score.
        :func:`dpassay.auditing.judge` gives the same verdict from the log alone.

    Raises:
        InvalidArgument: a value out of range, data sets that are no neighbours, or a question that
            would spend the error probability of a logged run twice.
        AuditStopped: too many trials failed, the mechanism fixes its seed or adds no noise, or its
            trials are not independent.

    >>> import dpassay as da
    >>> def noisy_count(data, rng, size):
    ...     return len(data) + rng.laplace(scale=0.5, size=size)  # needs scale 1 for epsilon = 1
    >>> verdict = audit(noisy_count, ([1, 2, 3], [1, 2]), claim=da.PureDP(1.0), trials=20_000)
    >>> verdict.refuted
    True

    """
    check_one_way_in(pair, data)
    if _check.choice("evidence", evidence, ("trials", "replay")) == "replay":
        from dpassay.auditing.replayed import audit_by_replay

        return audit_by_replay(
            mechanism,
            _pair(pair),
            claim=claim,
            trials=trials,
            confidence=confidence,
            delta=delta,
            rng=as_seed(rng) or 0,
            replay=replay,
            primitives=primitives,
        )
    asked = Asked.of(
        mechanism,
        claim,
        score=score,
        trials=trials,
        confidence=confidence,
        sequential=sequential,
        measure=measure,
        rng=rng,
        delta=delta,
        group=group,
        neighbours=neighbours,
        fixed_seed=fixed_seed,
        max_failed_share=max_failed_share,
        replay=replay,
        description=description,
    )
    with opened(store) as log, hire(executor, workers) as who:
        engine = Engine(log, who, workers, timeout, recycle, max_failed_share, progress)
        if pair is None:
            asked, pair = asked.search(engine, data)
        session, game = asked.prepare(engine, pair)
        if (warning := session.question.vacuous()) is not None:
            warnings.warn(VacuousAudit(warning), stacklevel=2)
        return session.run(game)


class _Options(TypedDict, total=False):
    score: Callable[[Any], float] | None
    trials: int
    confidence: float
    sequential: bool
    measure: bool
    delta: float | None
    group: int
    neighbours: Literal["checked", "trusted"]
    fixed_seed: Literal["stop", "leak"]
    max_failed_share: float
    replay: str


class AuditOptions(_Options, total=False):
    """What can be asked of an audit whoever plays it: arguments of :func:`audit`, with defaults."""

    rng: int | np.random.Generator | None
    description: Mapping[str, Any] | None


@dataclass(frozen=True)
class Asked:
    """What an audit was asked, apart from who plays and on what pair."""

    mechanism: Callable[..., Any]
    claim: PrivacyCurve
    _: KW_ONLY
    seed: int | None
    about: Mapping[str, Any]
    score: Callable[[Any], float] | None = None
    trials: int = 1000
    confidence: float = 0.95
    sequential: bool = True
    measure: bool = False
    delta: float | None = None
    group: int = 1
    neighbours: Literal["checked", "trusted"] = "checked"
    fixed_seed: Literal["stop", "leak"] = "stop"
    max_failed_share: float = 0.1
    replay: str = ""

    @classmethod
    def of(
        cls,
        mechanism: Callable[..., Any],
        claim: Claim,
        rng: int | np.random.Generator | None = 0,
        description: Mapping[str, Any] | None = None,
        **options: Unpack[_Options],
    ) -> "Asked":
        """What arguments of :func:`audit` ask for."""
        about = description or {}
        return cls(mechanism, as_claim(claim), seed=as_seed(rng), about=about, **options)

    def __post_init__(self) -> None:
        about = {"target": _name(self.mechanism), "group": self.group} | dict(self.about)
        object.__setattr__(self, "confidence", _check.confidence(self.confidence))
        object.__setattr__(self, "delta", claimed_delta(self.claim, self.delta))
        object.__setattr__(self, "about", about)

    def search(self, engine: Engine, data: Any) -> "tuple[Asked, tuple[Any, Any]]":
        """The pair that shows most, and what is asked of it with the trials that are left."""
        mechanism, delta = self.mechanism, claimed_delta(self.claim, self.delta)
        # What is wrong is said at once.
        configure(mechanism, self.score, self.trials, self.seed, self.sequential)
        source = as_input(data)
        kept = 0.9 if self.measure else 0.1  # how bad it is, or the simplest
        found = Search(
            engine,
            mechanism,
            source,
            self.claim,
            delta,
            self.confidence,
            self.trials,
            self.seed,
            dict(self.about),
            kept,
        ).run()
        told = {"pair": found.pair.name, "n_choosing": found.trials, "pair_before": found.before}
        left = replace(
            self,
            trials=self.trials - found.trials,
            neighbours="trusted" if source.trusted else self.neighbours,
            about={**self.about, **told},
        )
        return left, (found.pair.data, found.pair.data_prime)

    def prepare(
        self, engine: Engine, pair: Any, *, listen: bool = True
    ) -> "tuple[_Session, PairGame]":
        """The audit of a pair, ready to be played, and its game.

        ``listen`` has a training played once that may state a curve of its own.
        """
        data, data_prime = _pair(pair)
        mechanism, score, delta = self.mechanism, self.score, claimed_delta(self.claim, self.delta)
        worlds = getattr(mechanism, "worlds", None)
        relation = self.claim.neighbouring
        seen = look_at_neighbours((data, data_prime), relation, self.group, self.neighbours, worlds)
        new = configure(mechanism, score, self.trials, self.seed, self.sequential)
        parts = {"code": [mechanism, score], "data": [data, data_prime]}
        chosen, record = find_earlier(new, self.trials, engine.log, parts)
        key = run_key(chosen.configuration(), **parts) if record is None else record.key
        account = account_for(chosen, record, self.sequential)
        taught = chosen.n_learning * max(chosen.block, 1)
        rules = Rules(
            self.claim,
            delta,
            self.confidence,
            score is not None,
            account,
            chosen.online,
            self.measure,
            taught,
        )
        question = make_question(
            key, chosen, self.sequential, rules, self.max_failed_share, self.replay, seen
        )
        curve = ""
        if listen:
            curve = curve_to_claim(engine, mechanism, data_prime, self.claim, self.seed)
        question = replace(
            question,
            fixed_seed=_check.choice("fixed_seed", self.fixed_seed, _FIXED),
            curve=curve,
            n_choosing=self.about.get("n_choosing", 0),
            pair=self.about.get("pair", ""),
            pair_before=self.about.get("pair_before", ""),
            cannot_see=tuple(self.about.get("cannot_see", ())),
        )
        game = PairGame(
            mechanism,
            data,
            data_prime,
            key,
            question.coin_seed,
            chosen.seed,
            chosen.block,
            chosen.configuration(),
            score,
        )
        return _Session(engine, question, dict(self.about)), game


class _Session:
    """One audit under way: a game is played, learned from, tested and judged."""

    def __init__(self, engine: Engine, question: Question, about: dict[str, Any]) -> None:
        self._engine, self.question, self._about = engine, question, about
        self._prints = question.prints()

    def description(self) -> dict[str, Any]:
        """What the log says of the run beside its configuration."""
        return self.question.description() | self._about

    def run(self, game: PairGame) -> Verdict:
        """Play what the log does not hold; the verdict on all of it.

        Ctrl-C while trials are played ends the playing (see :func:`dpassay.runs.play`). Between two
        parts of a run, or while a verdict is made, it ends here; what is logged is judged.
        """
        try:
            return self._run(game)
        except KeyboardInterrupt:
            if not len(self._engine.log.outcomes(self.question.key)):
                raise
            return self.question.judge(self._engine.log)

    def _run(self, game: PairGame) -> Verdict:
        log = self._engine.log
        # Made before anything is played: Ctrl-C between two parts of a run must find it ready.
        referee = self.question.referee(log)
        if game.score is None and not self.question.rules.online:
            learning = self._play(self._engine, game, self.question.learning)
            self.question.refuse(learning, self._prints, last=False)
            if learning.ended != "done":
                return self.question.judge(log)
            score = _learn(game, learning.outcomes, self.question)
            self.question = replace(self.question, distinguisher=score.name)
            game = replace(game, score=score)
        elif self.question.every > 1:
            first = self._play_first(game)
            refuse_target(first)
            if first.ended == "interrupted":
                return self.question.judge(log)
        testing = self._play(self._engine, game, self.question.testing, referee)
        self.question.refuse(testing, self._prints, last=True)
        if testing.ended == "interrupted":
            return self.question.judge(log)  # The referee may have been interrupted in the middle.
        self._order_count(referee, done=testing.ended == "done")
        verdict = self.question.verdict(referee, testing, self._prints)
        self.question.remember(log, referee)
        keep_verdict(log, self.question.key, verdict)
        return verdict

    def _play(
        self, engine: Engine, game: PairGame, numbers: range, referee: Referee | None = None
    ) -> Played:
        return engine.play(
            game,
            numbers,
            description=self.description(),
            stop=self.question.watch(self._prints, referee),
            every=self.question.every if referee else 1,
            note=None if referee is None else lambda: _note(referee),
        )

    def _play_first(self, game: PairGame) -> Played:
        """The first trial alone: a target that cannot be audited ends here, not after a few."""
        return replace(self._engine, max_failed_share=1.0, progress="quiet").play(
            game,
            self.question.testing[:1],
            description=self.description(),
            every=self.question.every,
        )

    def _order_count(self, referee: Referee, done: bool) -> None:
        """Spend the share of a count that is due, before looking at it.

        Whoever is killed from here on finds the count in the log. Without a count the account is
        compared with that in the log all the same: another process may have begun this run.
        """
        rules = self.question.rules
        trials = referee.trials if done else 0
        account = keep_account(self._engine.log, self.question.key, rules.account, trials)
        self.question = replace(self.question, rules=replace(rules, account=account))
        referee.rules = self.question.rules


def as_seed(rng: Any) -> int | None:
    """The seed that a run is named by; None for secure noise."""
    if isinstance(rng, np.random.Generator):
        return int(rng.integers(2**62))
    if rng is None:
        return None
    return _check.seed("rng", rng, remedy="Pass a seed, a generator or None.")


def _pair(pair: Any) -> tuple[Any, Any]:
    both = cast(Sequence[Any], pair)
    if not isinstance(pair, tuple | list) or len(both) != 2:
        raise InvalidArgument("pair must be two data sets, (data, data_prime).")
    return both[0], both[1]


def _name(mechanism: Any) -> str:
    """What to call it: its own name, or that of its type."""
    return getattr(mechanism, "__qualname__", None) or type(mechanism).__qualname__


def make_question(
    key: str,
    chosen: Configuration,
    sequential: bool,
    rules: Rules,
    max_failed_share: float,
    replay: str,
    neighbours: NeighboursSeen,
) -> Question:
    """The question of an audit, of trials that are played as configured."""
    return Question(
        key=key,
        seed=chosen.seed,
        block=chosen.block,
        n_learning=chosen.n_learning,
        n_calls=chosen.n_calls,
        sequential=sequential,
        rules=rules,
        distinguisher=None,
        max_failed_share=max_failed_share,
        replay=replay or f"dpassay.audit(..., rng={chosen.seed}, trials=...)",
        neighbours=neighbours,
    )


def _learn(game: PairGame, outcomes: Outcomes, question: Question) -> Distinguisher:
    """A distinguisher from the features of the learning trials that did not fail."""
    tables: list[FloatArray] = []
    worlds: list[FloatArray] = []
    for trial in outcomes.trials.tolist():
        if trial in outcomes.payloads:
            coins = game.worlds(trial)
            tables.append(np.frombuffer(outcomes.payloads[trial]).reshape(len(coins), -1))
            worlds.append(coins)
    drawn = np.concatenate([np.empty(0, int), *worlds])
    if game.block and drawn.size >= SHARE_OF_MANY * MANY_DRAWS:
        found = learn_from_many(np.concatenate(tables), drawn, _forecast(question))
        if found is not None:
            return found
    return learn_distinguisher([row for table in tables for row in table], drawn)


def _forecast(question: Question) -> Forecast:
    """What the first count of this audit will show of a region, from its two counts."""
    rules, trials = question.rules, len(question.testing) * question.block
    first = max(rules.account.bets_on(trials), int(CHOOSING * trials))
    counted = trials - first
    level = (1 - rules.confidence) * rules.account.share(0)

    def bound(more: float, fewer: float) -> float:
        return epsilon_lower(Guesses(int(more), int(fewer), counted), rules.delta, level)

    return Forecast(counted, bound, n_ordered(first))


def _note(referee: Referee) -> str:
    """What to show beside the progress: the wealth against the claim."""
    return f"evidence {referee.log_wealth:+.1f} of {referee.wealth_needed:.1f} nats"
