"""A rehearsal of an audit: a few runs in each world that show what would end it at once.

It asks what the audit would ask, and plays each world twice: a target that fails in one of them,
returns what cannot be scored, or fixes its seed is found in four trials that do not count.
"""

from collections.abc import Callable
from typing import Any, Literal

from dpassay import _check
from dpassay.auditing.account import Account
from dpassay.auditing.configuration import configure
from dpassay.auditing.game import PairGame
from dpassay.auditing.many import make_question
from dpassay.auditing.neighbours import look_at_neighbours
from dpassay.auditing.question import Question, describe_first_error, refuse_target
from dpassay.auditing.reading import coins
from dpassay.auditing.referee import Rules, claimed_delta
from dpassay.auditing.seeds import Prints
from dpassay.errors import AuditStopped, VacuousAudit
from dpassay.runs import Played, Players, play
from dpassay.types import PrivacyCurve

_EACH, _MANY = 2, 8  # runs of each world, and more where they were all equal
_KEY = "rehearsal"


def rehearse(
    mechanism: Callable[..., Any],
    pair: tuple[Any, Any],
    *,
    claim: PrivacyCurve,
    score: Callable[[Any], float] | None,
    trials: int,
    confidence: float,
    delta: float | None,
    sequential: bool,
    seed: int | None,
    group: int,
    neighbours: Literal["checked", "trusted"],
    fixed_seed: Literal["stop", "leak"],
    executor: Players,
    timeout: float | None,
) -> float:
    """Seconds of one trial, of an audit with these arguments (see :func:`dpassay.audit`).

    Raises:
        InvalidArgument: an argument that the audit would refuse.
        AuditStopped: a trial failed, or outputs do not change.
        VacuousAudit: nothing could refute the claim in so many trials.

    """
    worlds = getattr(mechanism, "worlds", None)
    look_at_neighbours(pair, claim.neighbouring, group, neighbours, worlds)
    question = ask_before(mechanism, score, claim, trials, confidence, delta, sequential, seed)
    if (warning := question.vacuous()) is not None:
        raise VacuousAudit(warning)
    game = PairGame(mechanism, *pair, _KEY, question.coin_seed, seed, question.block, score=score)
    options: dict[str, Any] = {"executor": executor, "workers": 1, "timeout": timeout}

    def run(each: int) -> tuple[Played, Prints]:
        numbers, prints = _numbers(question, each), Prints(question.coin_seed, question.block, each)
        played = play(game, numbers, key=_KEY, max_failed_share=0.0, **options)
        _refuse_failures(played)
        prints.take(played.outcomes)
        return played, prints

    played, prints = run(_EACH)
    if fixed_seed == "stop" and prints.fault(at_the_end=True):
        # Whole numbers and the like may be equal twice by chance, but hardly as often as this.
        run(_MANY)[1].refuse(at_the_end=True)
    return float(played.outcomes.seconds.min()) / max(question.block, 1)


def ask_before(
    mechanism: Any,
    score: Any,
    claim: PrivacyCurve,
    trials: int,
    confidence: float,
    delta: float | None,
    sequential: bool,
    seed: int | None,
) -> Question:
    """What the audit would ask, of a new run."""
    confidence, delta = _check.confidence(confidence), claimed_delta(claim, delta)
    chosen = configure(mechanism, score, trials, seed, sequential)
    account = Account.begin(chosen.n_testing, sequential)
    rules = Rules(claim, delta, confidence, score is not None, account, chosen.online)
    return make_question(_KEY_OF_COINS, chosen, sequential, rules, 0.0, "", "unseen")


_KEY_OF_COINS = "0" * 16  # a run's key gives the coins of noise without a seed


def _numbers(question: Question, each: int) -> list[int]:
    """Trials of either world, as many of each; calls of a block have both."""
    if question.block:
        return [*range(each)]
    found: tuple[list[int], list[int]] = ([], [])
    for trial in range(64 * each):
        side = found[int(coins(question.coin_seed, trial, 0)[0])]
        if len(side) < each:
            side.append(trial)
    return sorted([*found[0], *found[1]])


def _refuse_failures(run: Played) -> None:
    if run.ended == "interrupted":
        raise KeyboardInterrupt
    refuse_target(run)
    if run.n_failed:
        raise AuditStopped(
            f"{run.n_failed} of {len(run.outcomes)} trials failed. {describe_first_error(run)}"
        )
