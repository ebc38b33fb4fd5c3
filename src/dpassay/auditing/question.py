"""What is asked of the trials of a run, and the one way from logged scores to a verdict.

An audit writes its question into the log as a description, so that the trials can be judged again
later, by :func:`dpassay.auditing.judge`, without playing anything. The worlds follow from the seed,
the scores are in the log; so both go through the same code and end with the same verdict.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import numpy as np

from dpassay import _check
from dpassay.attacks.online.experts import EXPERTS
from dpassay.auditing.account import Account
from dpassay.auditing.claims import claim_text, parse_claim
from dpassay.auditing.next_steps import Circumstances, advise_curve
from dpassay.auditing.power import (
    describe_vacuous,
    is_vacuous,
    trials_that_would_do,
    with_power,
)
from dpassay.auditing.reading import FeaturesInLog, Reader, ScoresInLog, StepsInLog
from dpassay.auditing.referee import Referee, Rules, claimed_delta
from dpassay.auditing.remembered import keep_memory, name_question, read_memory
from dpassay.auditing.seeds import FixedSeed, Prints
from dpassay.errors import AuditStopped, InvalidArgument, is_target_error
from dpassay.privacy.curves import Curve
from dpassay.runs import Outcomes, Played, RunRecord, TrialLog, read_run
from dpassay.types import NeighboursSeen, PrivacyCurve, Verdict

MANY: Final = "many trials"
CHOOSING = "choosing a score"  # a run whose trials do not count
_EVERY = 25  # trials handed to the referee at a time; the verdict does not depend on it
_ENDED = {
    "done": "budget spent",
    "stopped": "budget spent",  # where another claim had fallen
    "interrupted": "interrupted",
    "too many failures": "too many failures",
}


@dataclass(frozen=True)
class Question:
    """All that it takes to turn the logged scores of an audit into a verdict.

    Attributes:
        key: of the run.
        seed: of worlds and noise; None for noise of the operating system, where the key gives the
            seed of the worlds.
        block: outputs per call; 0 for a mechanism that draws one at a time.
        n_learning: how many calls, the first ones, are for learning a score.
        n_calls: how many calls there are at most.
        sequential: whether the audit was asked to stop as soon as the claim is refuted.
        rules: the claim and how it is tested.
        distinguisher: the kind that was learned, or None.
        max_failed_share: more failures than this share end the audit.
        replay: a line that runs the same audit again.
        neighbours: who knows that the data sets are neighbours; None in logs that do not say.
        fixed_seed: what to make of two worlds that are constant: "stop", or judge the "leak".
        steps: reads trainings of which the log keeps what every step showed; None where the log
            has the scores themselves.
        attacker: who chose the score, where that is not the audit itself.
        n_choosing: trials of other runs that chose the score or the pair; they do not count.
        pair: how the pair was made, if it was searched.
        pair_before: how it was made before it was adjusted, if it was.
        curve: the text of the curve that a training states of itself; empty where not known.
        cannot_see: faults that this game would let through whatever it shows, one sentence each.
        claim_text: what :func:`~dpassay.auditing.claims.parse_claim` turns into the claim, if the
            claim cannot say so itself.

    """

    key: str
    seed: int | None
    block: int
    n_learning: int
    n_calls: int
    sequential: bool
    rules: Rules
    distinguisher: str | None
    max_failed_share: float
    replay: str
    neighbours: NeighboursSeen | None = None
    fixed_seed: FixedSeed = "stop"
    steps: StepsInLog | None = None
    attacker: str = ""
    n_choosing: int = 0
    pair: str = ""
    pair_before: str = ""
    curve: str = ""
    cannot_see: tuple[str, ...] = ()
    claim_text: str | None = None

    @property
    def coin_seed(self) -> int:
        """The seed of the worlds."""
        return coin_seed(self.seed, self.key)

    @property
    def every(self) -> int:
        """How many calls are handed to the referee at a time."""
        return 1 if self.block else _EVERY

    @property
    def learning(self) -> range:
        """The numbers of the calls that a score is learned from."""
        return range(self.n_learning)

    @property
    def testing(self) -> range:
        """The numbers of the calls that count: those after learning."""
        return range(self.n_learning, self.n_calls)

    def attack(self, trials: int) -> str:
        """How outputs became the scores of so many trials."""
        if self.attacker:
            return f"{self.attacker}, by {self.distinguisher}"
        if self.rules.online:
            kind = "" if self.distinguisher is None else f", best: {self.distinguisher}"
            return f"a score learned while betting ({len(EXPERTS)} experts{kind})"
        if not self.n_learning:
            return "the score that was given"
        count = self.n_learning * max(self.block, 1)
        if self.distinguisher is None and not trials:
            return f"nothing yet: a distinguisher is to be learned from {count} trials"
        kind = "" if self.distinguisher is None else f" ({self.distinguisher})"
        return f"a distinguisher{kind} learned from {count} trials"

    def reader(self) -> Reader:
        """Turns outcomes into worlds and scores, for one pass over the trials that count."""
        if self.steps is not None:
            return self.steps
        return (FeaturesInLog if self.rules.online else ScoresInLog)(self.coin_seed, self.block)

    def verdict(
        self, referee: Referee, run: Played, prints: Prints, learned: int | None = None
    ) -> Verdict:
        """What the referee says after a run.

        ``learned`` is the number of calls that were played for learning, by default all of them.
        """
        n_learned = self.n_learning if learned is None else learned
        n_learning = n_learned * max(self.block, 1) + self.n_choosing
        betting = self.rules.account.betting > 0
        failed = np.repeat(run.outcomes.failed, max(self.block, 1))[: referee.trials]
        refuted, bound, fell_at = referee.statement()
        found = replace(
            referee.evidence(), run=self.key, seed=self.seed, n_failed=int(failed.sum())
        )
        verdict = Verdict(
            claim=self.rules.claim,
            bound=bound,
            refuted=refuted,
            confidence=self.rules.confidence,
            trials=n_learning + referee.trials,
            ended="refuted" if refuted else _ENDED[run.ended],
            evidence=found,
            attack=replace(self, distinguisher=referee.learned or self.distinguisher).attack(
                referee.trials
            ),
            replay=self.replay,
            log_wealth=referee.wealth_path() if betting else None,
            wealth_needed=referee.wealth_needed if betting else None,
            n_learning=n_learning,
            n_deaths=run.n_deaths,
            fell_at=fell_at,
            neighbours=self.neighbours,
            pair=self.pair,
            pair_before=self.pair_before,
            curve=self.curve,
            cannot_see=self.cannot_see,
        )
        empty = not refuted and is_vacuous(self.rules, referee.trials)
        vacuous = not refuted and (prints.same or empty)
        seen = Circumstances(
            prints.same,
            self._would_do() if empty else None,
            self.curve,
            stopped=refuted and betting and not self.rules.measure,
            failed=(int(failed[found.worlds == 1].sum()), int(failed[found.worlds == 0].sum())),
        )
        return with_power(
            verdict,
            vacuous=vacuous,
            both_ways=self.rules.both_ways,
            n_scores=len(EXPERTS) if self.rules.online else 1,
            seen=seen,
        )

    def vacuous(self) -> str | None:
        """What to say before an audit is played that could show nothing; None if it could."""
        trials = len(self.testing) * max(self.block, 1)
        if not is_vacuous(self.rules, trials):
            return None
        rules, curve = self.rules, self.curve
        advice = advise_curve(rules.claim, curve, rules.confidence) if curve else ""
        return describe_vacuous(trials, self._would_do(), advice)

    def _would_do(self) -> float:
        """Trials in all with which a perfect attack would refute the claim."""
        return trials_that_would_do(self.rules, self.block, self.n_learning / self.n_calls)

    def prints(self) -> Prints:
        """An empty collection for the fingerprints of this run's outputs."""
        return Prints(self.coin_seed, self.block)

    def watch(self, prints: Prints, referee: Referee | None) -> Callable[[Outcomes], bool]:
        """Takes the outcomes of a run in number order, and says whether it ends with them.

        It ends where outputs show a fault, or where the referee, if there is one, says that the
        claim has fallen.
        """
        reader = self.reader()

        def ends(outcomes: Outcomes) -> bool:
            faulty = prints.take(outcomes) and self.fixed_seed == "stop"
            if any(map(is_target_error, outcomes.errors.values())):
                return True
            return faulty or (referee is not None and referee.take(*reader(outcomes)))

        return ends

    def refuse(self, run: Played, prints: Prints, last: bool) -> None:
        """Raise AuditStopped if trials failed, or their outputs show that a seed is fixed."""
        refuse_target(run)
        refuse_failures(run)
        if self.fixed_seed == "stop":
            prints.refuse(at_the_end=last and run.ended != "interrupted")

    def referee(self, log: TrialLog) -> Referee:
        """A referee that has seen no trials yet, with what the log remembers of earlier bets."""
        return Referee(self.rules, read_memory(log, self.key, self._name()))

    def remember(self, log: TrialLog, referee: Referee) -> None:
        """Keep in the log what the referee's bets came to."""
        keep_memory(log, self.key, self._name(), referee.memory())

    def _name(self) -> str | None:
        text = claim_text(self.rules.claim) if self.claim_text is None else self.claim_text
        return name_question(self.rules, text)

    def judge(self, log: TrialLog) -> Verdict:
        """The verdict on what a log holds, up to the first gap; nothing is played."""
        read = partial(read_run, key=self.key, store=log, max_failed_share=self.max_failed_share)
        prints, referee = self.prints(), self.referee(log)
        n_learned = 0
        if self.learning:
            learning = read(self.learning, stop=self.watch(prints, None))
            self.refuse(learning, prints, last=False)
            n_learned = len(learning.outcomes)
        stop = self.watch(prints, referee)
        testing = read(self.testing, stop=stop, every=self.every)
        self.refuse(testing, prints, last=True)
        verdict = self.verdict(referee, testing, prints, n_learned)
        self.remember(log, referee)
        return verdict

    def description(self) -> dict[str, Any]:
        """The question as plain JSON, for the log."""
        rules = self.rules
        return describe(rules.claim, rules.delta, rules.confidence, self.claim_text) | {
            "audit": MANY,
            "trials": self.n_calls * max(self.block, 1),
            "sequential": self.sequential,
            "account": self.rules.account.to_json(),
            "learned": self.rules.online or self.n_learning > 0,
            "distinguisher": self.distinguisher,
            "max_failed_share": self.max_failed_share,
            "command": self.replay,
            "neighbours": self.neighbours,
            "fixed_seed": self.fixed_seed,
            "both_ways": self.rules.both_ways,
            "measure": self.rules.measure,
            "steps": None if self.steps is None else self.steps.to_json(),
            "attacker": self.attacker,
            "n_choosing": self.n_choosing,
            "pair": self.pair,
            "pair_before": self.pair_before,
            "curve": self.curve,
            "cannot_see": list(self.cannot_see),
        }


def coin_seed(seed: int | None, key: str) -> int:
    """The seed of the worlds: that of the audit or, where it has none, one from the run's key."""
    return seed if seed is not None else int(key[:15], 16)


def refuse_target(run: Played) -> None:
    """Raise AuditStopped at the first trial that says that its target cannot be audited."""
    for text in filter(is_target_error, run.outcomes.errors.values()):
        raise AuditStopped(text.splitlines()[0].partition(": ")[2])


def describe_first_error(run: Played) -> str:
    """The kind and the place of the first error of a run, and how to see its words."""
    return (
        f"The first error was:\n{run.first_error}\nIts words are left out, since they may quote a "
        "record; with DPASSAY_DEBUG=1 they are shown."
    )


def refuse_failures(run: Played) -> None:
    """Raise AuditStopped if that is how the run ended."""
    if run.ended == "too many failures":
        raise AuditStopped(
            f"{run.n_failed} of {len(run.outcomes)} trials failed, too many to say anything. "
            f"{describe_first_error(run)}"
        )


def describe(
    claim: PrivacyCurve, delta: float, confidence: float, text: str | None = None
) -> dict[str, Any]:
    """What every audit says of its question, as plain JSON.

    ``text`` stands for the claim if it cannot be written itself.
    """
    return {
        "claim": claim_text(claim) if text is None else text,
        "neighbouring": claim.neighbouring,
        "assumptions": list(claim.assumptions),
        "n_records": claim.n_records if isinstance(claim, Curve) else None,
        "epsilon": float(claim.epsilon(delta)),
        "delta": delta,
        "confidence": confidence,
    }


@dataclass(frozen=True)
class Change:
    """What to ask instead of what was asked; None leaves it."""

    claim: PrivacyCurve | None = None
    confidence: float | None = None
    delta: float | None = None

    def of(self, record: RunRecord) -> tuple[PrivacyCurve, float, float]:
        """Claim, delta and confidence to judge a run by."""
        about = record.description
        level = about["confidence"] if self.confidence is None else self.confidence
        if self.claim is None:
            delta = about["delta"] if self.delta is None else _check.delta(self.delta)
            return _read_claim(record), delta, _check.confidence(level)
        check_relation(self.claim, about["neighbouring"])
        return self.claim, claimed_delta(self.claim, self.delta), _check.confidence(level)


def check_relation(claim: PrivacyCurve, played: str) -> None:
    """Raise unless a claim is about the neighbours that were played."""
    if claim.neighbouring != played:
        raise InvalidArgument(
            f"claim.neighbouring={claim.neighbouring!r} must be that of the data sets that were "
            f"played, {played!r}."
        )


def _read_claim(record: RunRecord) -> PrivacyCurve:
    about = record.description
    if about["claim"] is None:
        raise InvalidArgument(
            f"claim is missing: that of run {record.key[:12]} (epsilon {about['epsilon']:g} at "
            f"delta={about['delta']:g}) has no text to write into a log. Pass claim=."
        )
    return parse_claim(
        about["claim"],
        neighbouring=about["neighbouring"],
        assumptions=about["assumptions"],
        n_records=about.get("n_records"),
    )


def account_of(record: RunRecord) -> Account:
    """How the alpha of a run was divided and spent, by its log.

    A log from before accounts were kept had one test at its end: it is taken as one count.
    """
    about = record.description
    if "account" in about:
        return Account.from_json(about["account"])
    learned = record.configuration["n_learning"] * max(record.configuration["block"], 1)
    budget = about["trials"] - learned
    return Account.begin(budget, about["sequential"]).order(budget)


def keep_account(log: TrialLog, key: str, mine: Account, trials: int) -> Account:
    """The run's account with one more count of so many trials, if one is due.

    It is in the log, durably, before what it paid for is shown. Reading and writing are one step:
    another process may ask the same run at the same time, and what it has spent is not spent again.

    Raises:
        InvalidArgument: another process began this run meanwhile and divides alpha in another way.

    """
    kept = mine

    def spend(record: RunRecord) -> dict[str, Any]:
        nonlocal kept
        stored = account_of(record)
        if (stored.betting, stored.n_betting) != (mine.betting, mine.n_betting):
            raise InvalidArgument(
                f"trials: run {key[:12]} was begun at the same time by another process, with other "
                "trials= or sequential=, and its error probability is divided accordingly. Ask "
                "again with the same store=: the run then goes on as it was begun."
            )
        kept = stored.order(trials)
        return record.description | {"account": kept.to_json()}

    log.redescribe(key, spend)
    return kept


def question_of(record: RunRecord, change: Change) -> Question:
    """The question that a log describes, or a changed one."""
    about, settings = record.description, record.configuration
    claim, delta, confidence = change.of(record)
    block, n_learning = settings.get("block", 0), settings.get("n_learning", 0)
    n_calls = about["trials"] // max(block, 1)
    rules = Rules(
        claim=claim,
        delta=delta,
        confidence=confidence,
        both_ways=about.get("both_ways", not about["learned"]),
        account=account_of(record),
        online="online" in settings,
        measure=about.get("measure", False),
        n_taught=n_learning * max(block, 1),
    )
    steps = about.get("steps")
    return Question(
        key=record.key,
        seed=settings["seed"],
        block=block,
        n_learning=n_learning,
        n_calls=n_calls,
        sequential=about["sequential"],
        rules=rules,
        distinguisher=about["distinguisher"],
        max_failed_share=about["max_failed_share"],
        replay=about["command"],
        neighbours=about.get("neighbours"),
        fixed_seed=about.get("fixed_seed", "stop"),
        steps=None if steps is None else StepsInLog.from_json(steps, record.key),
        attacker=about.get("attacker", ""),
        n_choosing=about.get("n_choosing", 0),
        pair=about.get("pair", ""),
        pair_before=about.get("pair_before", ""),
        curve=about.get("curve", ""),
        cannot_see=tuple(about.get("cannot_see", ())),
    )
