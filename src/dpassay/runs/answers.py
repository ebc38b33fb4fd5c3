"""What was last said of a long run, kept in its log: so that a look at it need not judge it anew.

Nothing here knows what the numbers mean; ``dpassay.auditing.answering`` writes them. An answer
holds for the description that it was given for, and for the trials that the log had then. It is
*settled* if trials that come later change nothing but how many they are, until the last one.
"""

import hashlib
import json
from dataclasses import asdict, dataclass, replace

from dpassay import __version__
from dpassay.errors import DpassayError
from dpassay.runs.protocol import RunRecord, TrialLog

LONG = 20_000  # trials from which an answer is worth keeping
_NOTE = "answer"


@dataclass(frozen=True)
class Answer:
    """What a verdict says, in numbers.

    Attributes:
        refuted: whether the claim fell.
        epsilon_lower: the bound, a lower bound on epsilon.
        claimed: the claimed epsilon where the bound is stated.
        tested: trials that counted, the first ones.
        over: whether the run has ended, in whatever way.
        settled: whether more trials change nothing before the last one.

    """

    refuted: bool
    epsilon_lower: float
    claimed: float
    tested: int
    over: bool
    settled: bool = False


def find_answer(log: TrialLog, record: RunRecord) -> Answer | None:
    """The answer that a log keeps, if it still holds."""
    total = record.n_done + record.n_failed
    kept = log.read_note(record.key, _NOTE) if total >= LONG else None
    if not isinstance(kept, dict) or kept.get("question") != _name(record):
        return None
    try:
        answer, counts = Answer(**kept["answer"]), (kept["n_done"], kept["n_failed"])
    except (TypeError, LookupError):
        return None
    if counts == (record.n_done, record.n_failed):
        return answer
    asked = record.description.get("trials", 0)
    if not answer.settled or total >= asked or record.n_failed > counts[1] + total // 100:
        return None
    return replace(answer, tested=max(answer.tested, count_first(log, record.key)))


def keep_answer(log: TrialLog, record: RunRecord, answer: Answer) -> None:
    """Write an answer into the log of a long run, if it may be written."""
    if record.n_done + record.n_failed < LONG:
        return
    facts = {"question": _name(record), "n_done": record.n_done, "n_failed": record.n_failed}
    try:
        log.note(record.key, _NOTE, facts | {"answer": asdict(answer)})
    except DpassayError:  # read-only, or locked by others for long
        return


def count_first(log: TrialLog, key: str) -> int:
    """How many trials there are from 0 on without a gap."""
    import numpy as np

    trials = log.trials(key)
    gaps = np.flatnonzero(trials != np.arange(trials.size))
    return int(gaps[0]) if gaps.size else trials.size


def _name(record: RunRecord) -> str:
    """What was asked, and who answers."""
    asked = {name: value for name, value in record.description.items() if name != "writer"}
    text = json.dumps([__version__, asked], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()
