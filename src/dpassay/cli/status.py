"""``dpassay status``: what a log holds, also while it is being written."""

import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from dpassay.cli.ending import STOPPED
from dpassay.cli.options import Json, option
from dpassay.cli.output import console, emit, say, visible

if TYPE_CHECKING:
    from dpassay.runs import RunRecord, TrialLog
    from dpassay.runs.answers import Answer


EXAMPLE = "dpassay status run.db --watch"


def status(
    store: Annotated[Path, typer.Argument(help="The log.")],
    run: Annotated[str | None, option("The first digits of a run; else all of them.")] = None,
    watch: Annotated[
        bool, option("Look again and again while it is being written.", "--watch")
    ] = False,
    every: Annotated[float, option("Seconds between two looks.")] = 2.0,
    as_json: Json = False,
) -> None:
    """How far the audits of a log are, and what they have shown. Another process may write."""
    from dpassay import _check
    from dpassay.errors import InvalidArgument
    from dpassay.runs import opened

    _check.number("every", every, low=0, low_open=True)
    if watch and as_json:
        raise InvalidArgument("--watch and --json do not go together; ask for JSON repeatedly.")
    with opened(store, make=False) as log:
        look = _Look(log, run, store)
        if watch:
            _watch(look, every)
            return
        states = look()
        if as_json:
            emit({"store": str(store), "runs": [asdict(state) for state in states]})
        else:
            _print(states, str(store))
    if any(state.state == "damaged" for state in states):
        raise typer.Exit(STOPPED)


@dataclass(frozen=True)
class State:
    """What is known of one run; the bound is a lower bound on epsilon."""

    run: str
    target: str | None
    claim: str | None
    epsilon: float | None
    delta: float | None
    confidence: float | None
    created: str
    state: str  # finished, running, unfinished, stopped, damaged or unknown
    trials: int
    n_done: int
    n_failed: int
    per_second: float | None
    seconds_left: float | None
    workers: int  # that play at the same time now, as far as is seen from here
    refuted: bool | None
    epsilon_lower: float | None
    tested: int | None
    note: str | None


class _Judged(NamedTuple):
    """What judging a run came to: what its verdict says, or a note why there is none."""

    answer: "Answer | None" = None
    note: str | None = None
    state: str | None = None  # "damaged" or "stopped", where that is why


class _Look:
    """Looks at a log; what has not changed is not judged again."""

    def __init__(self, log: "TrialLog", run: str | None, store: Path) -> None:
        from dpassay.runs.parts import is_folder

        self._log, self._run = log, run
        self._folder = store if is_folder(store) else None
        self._known: dict[Any, _Judged] = {}

    def goes_on(self, states: list[State]) -> bool:
        """Whether a watch goes on: somebody plays, or may play parts on other machines."""
        wanted = {"running"} if self._folder is None else {"running", "unfinished"}
        return any(state.state in wanted for state in states)

    def again(self) -> list[State]:
        """Look once more, at what parts have got meanwhile too."""
        if self._folder is not None:
            from dpassay.runs.parts import add_parts

            add_parts(self._log, self._folder)
        return self()

    def __call__(self) -> list[State]:
        if self._run is not None:
            from dpassay.auditing.judging import find_run

            return [self._state(find_run(self._log, self._run))]
        return [self._state(record) for record in self._log.runs()]

    def _state(self, record: "RunRecord") -> State:
        from dpassay.runs.writer import list_writers

        about = _sound(record)
        judged = self._judge_once(record)
        answer = judged.answer
        size = max(record.configuration.get("block", 0), 1)
        done, failed = size * record.n_done, size * record.n_failed
        asked = about.get("trials", done + failed)
        over = done + failed >= asked if answer is None else answer.over
        writers = [] if over else list_writers(record, self._log.notes(record.key))
        running, rate = bool(writers), size * sum(writer.per_second for writer in writers)
        left = (asked - done - failed) / rate if rate else None
        return State(
            run=record.key,
            target=about.get("target"),
            claim=about.get("claim"),
            epsilon=about.get("epsilon") if answer is None else answer.claimed,
            delta=about.get("delta"),
            confidence=about.get("confidence"),
            created=record.created,
            state=judged.state or _word(over, running, about),
            trials=asked,
            n_done=done,
            n_failed=failed,
            per_second=rate if running else None,
            seconds_left=left,
            workers=sum(writer.workers for writer in writers),
            refuted=answer.refuted if answer else None,
            epsilon_lower=answer.epsilon_lower if answer else None,
            tested=answer.tested if answer else None,
            note=judged.note,
        )

    def _judge_once(self, record: "RunRecord") -> _Judged:
        question = {name: value for name, value in record.description.items() if name != "writer"}
        key = (record.key, record.n_done, record.n_failed, repr(question))
        if key not in self._known:
            self._known[key] = _judge(self._log, record)
        return self._known[key]


def _judge(log: "TrialLog", record: "RunRecord") -> _Judged:
    """The verdict, or why there is none."""
    from dpassay.errors import AuditStopped, DpassayError, LogDamaged
    from dpassay.runs.answers import find_answer

    if (known := find_answer(log, record)) is not None:
        return _Judged(known)
    from dpassay.auditing.answering import answer_run

    try:
        return _Judged(answer_run(log, record))
    except LogDamaged as error:
        return _Judged(None, str(error), "damaged")
    except DpassayError as error:
        reason, state = str(error), "stopped" if isinstance(error, AuditStopped) else None
    try:
        log.outcomes(record.key)  # Judging may not have come to read them.
    except LogDamaged as error:
        return _Judged(None, str(error), "damaged")
    return _Judged(None, reason, state)


def _sound(record: "RunRecord") -> dict[str, Any]:
    """The description of a run, if its fields have the types that an audit gives them."""
    from dpassay.errors import InvalidArgument

    about = record.description
    fields = {
        str: ("target", "claim"),
        (int, float): ("epsilon", "delta", "confidence", "trials"),
        dict: ("writer",),
    }
    wrong = [
        name
        for kinds, names in fields.items()
        for name in names
        if not isinstance(about.get(name), (kinds, type(None)))  # type: ignore[arg-type]
    ]
    if wrong or not isinstance(record.configuration.get("block", 0), int):
        raise InvalidArgument(
            f"run {record.key[:12]}: its {wrong[0] if wrong else 'block'} in the log is not what "
            "an audit writes there. Restore a copy of the log."
        )
    return about


def _word(over: bool, running: bool, about: dict[str, Any]) -> str:
    if running:
        return "running"
    if "audit" not in about:  # Nobody wrote down how many trials were asked for.
        return "unknown"
    return "finished" if over else "unfinished"


# ------------------------------------------------------------------------------- for people


def _lines(state: State) -> list[str]:
    """What to tell of a run: what it is, how far, what was shown."""
    claimed = state.claim or (f"epsilon {state.epsilon:g}" if state.epsilon is not None else "none")
    return [
        f"{state.run[:8]}  {state.target or 'a run'}, claim {claimed}",
        f"{_trials(state)}, {_progress(state)}",
        _say_verdict(state),
    ]


def _text(states: list[State]) -> str:
    return "\n".join("\n          ".join(_lines(state)) for state in states)


def _trials(state: State) -> str:
    failed = f", {state.n_failed} failed" if state.n_failed else ""
    return f"{state.n_done + state.n_failed} of {state.trials} trials{failed}"


def _progress(state: State) -> str:
    from dpassay.runs.progress import duration

    if state.state != "running":
        return state.state
    left = "" if state.seconds_left is None else f", at most {duration(state.seconds_left)} left"
    workers = f"{state.workers} worker{'' if state.workers == 1 else 's'}"
    return f"running, {workers}, {state.per_second:.3g}/s{left}"


def _say_verdict(state: State) -> str:
    from dpassay.report.numbers import down

    if state.epsilon_lower is None:
        return _last_words(state.note or "")
    word = "REFUTED" if state.refuted else "not refuted"
    tested = "1 trial" if state.tested == 1 else f"{state.tested} trials"
    return (
        f"{word}: epsilon >= {down(state.epsilon_lower)} at delta={state.delta:g} (confidence "
        f"{state.confidence:.10g}), claimed {state.epsilon:.4g}; {tested} tested"
    )


def _last_words(note: str) -> str:
    """The end of a note; of an error its kind and where it was raised."""
    lines = note.strip().splitlines() or [""]
    frames = [i for i, line in enumerate(lines) if line.startswith("  ")]
    kinds = [line for line in lines[: frames[-1]] if not line.startswith("  ")] if frames else []
    return f"{kinds[-1]} at {lines[frames[-1]].strip()}" if frames else lines[-1]


def _print(states: list[State], store: str) -> None:
    say(_text(states) if states else f"{store}: no runs yet.")


def _watch(look: _Look, every: float) -> None:
    """Show the runs again and again, until nothing is being written or Ctrl-C."""
    from rich.live import Live
    from rich.text import Text

    to = console()
    try:
        if not to.is_terminal:
            _watch_lines(look, every)
            return
        states = look()
        with Live(Text(visible(_text(states))), console=to) as shown:
            while look.goes_on(states):
                time.sleep(every)
                states = look.again()
                shown.update(Text(visible(_text(states))))
    except KeyboardInterrupt:
        return


def _watch_lines(look: _Look, every: float) -> None:
    """A line per run whenever it has changed, for logs and pipes."""
    said: dict[str, str] = {}
    states = look()
    while True:
        for state in states:
            text = "; ".join(_lines(state))
            if said.get(state.run) != text:
                said[state.run] = text
                say(text)
        if not look.goes_on(states):
            return
        time.sleep(every)
        states = look.again()
