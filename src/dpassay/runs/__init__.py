"""Playing a task many times: executors, the durable trial log, resume, progress, a stop callback.

It knows nothing of privacy. A task turns trial numbers into results; :func:`play` plays every trial
once, whatever dies in between, and hands the outcomes over in number order.

>>> from dpassay.runs import play
>>> played = play(lambda trials: [float(t * t) for t in trials], 5, key="squares", workers=1)
>>> played.ended, played.outcomes.scores.tolist()
('done', [0.0, 1.0, 4.0, 9.0, 16.0])

"""

from dpassay._lazy import lazily
from dpassay.errors import EngineLost, LogDamaged, LogError, LogLost, RunError, TaskError
from dpassay.runs.board import Ended
from dpassay.runs.crew import Players, hire
from dpassay.runs.keys import fingerprint, run_key
from dpassay.runs.log import open_log, opened
from dpassay.runs.memory import MemoryLog
from dpassay.runs.outcomes import NO_WORLD, PAYLOAD_MAX, Outcome, Outcomes, Task
from dpassay.runs.play import Played, play, read_run
from dpassay.runs.progress import Progress
from dpassay.runs.protocol import RunRecord, TrialLog, merge
from dpassay.runs.sqlite import SqliteLog
from dpassay.runs.workers import Workers
from dpassay.runs.writer import is_at_work

__all__ = [
    "NO_WORLD",
    "PAYLOAD_MAX",
    "Ended",
    "EngineLost",
    "LogDamaged",
    "LogError",
    "LogLost",
    "MemoryLog",
    "Outcome",
    "Outcomes",
    "Played",
    "Players",
    "Progress",
    "RunError",
    "RunRecord",
    "SqliteLog",
    "Task",
    "TaskError",
    "TrialLog",
    "Workers",
    "fingerprint",
    "hire",
    "is_at_work",
    "merge",
    "open_log",
    "opened",
    "play",
    "read_run",
    "run_key",
]

_PUBLIC: dict[str, str] = {}  # all others are imported at once
lazily(__name__, _PUBLIC, old={"replayed": "dpassay.runs.read_run"})
