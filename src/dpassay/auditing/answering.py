"""What a verdict says in numbers, for those who only look: given once, and kept in the log."""

from dpassay.auditing.judging import judge_run
from dpassay.auditing.question import MANY, account_of
from dpassay.runs import RunRecord, TrialLog
from dpassay.runs.answers import LONG, Answer, keep_answer
from dpassay.types import Verdict


def answer_run(log: TrialLog, record: RunRecord) -> Answer:
    """What the verdict on a run says; kept in the log where the run is long."""
    answer = _answer(judge_run(log, record), record)
    keep_answer(log, record, answer)
    return answer


def keep_verdict(log: TrialLog, key: str, verdict: Verdict) -> None:
    """Keep what a verdict says in the log that it was given for, where the run is long."""
    if sum(log.counts(key).values()) >= LONG:
        record = next(run for run in log.runs() if run.key == key)
        keep_answer(log, record, _answer(verdict, record))


def _answer(verdict: Verdict, record: RunRecord) -> Answer:
    return Answer(
        refuted=verdict.refuted,
        epsilon_lower=verdict.bound.epsilon,
        claimed=float(verdict.claim.epsilon(verdict.bound.delta)),
        tested=verdict.n_counted,
        over=verdict.ended != "interrupted",
        settled=not verdict.refuted and _is_settled(verdict, record),
    )


def _is_settled(verdict: Verdict, record: RunRecord) -> bool:
    """Whether the bets are over and nothing was counted yet: a count comes with the last trial."""
    if record.description.get("audit") != MANY or record.configuration.get("block", 0):
        return False
    account = account_of(record)
    if account.counts or account.n_betting is None or record.configuration.get("n_learning", 0):
        return False
    return verdict.ended == "interrupted" and verdict.n_counted >= account.n_betting
