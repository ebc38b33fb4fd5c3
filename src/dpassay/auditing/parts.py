"""An audit in parts, by any scheduler: written down in a folder, played there piece by piece."""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, Unpack

from dpassay.auditing.claims import Claim
from dpassay.auditing.engine import Engine
from dpassay.auditing.many import Asked, AuditOptions
from dpassay.auditing.question import refuse_failures, refuse_target
from dpassay.errors import InvalidArgument, VacuousAudit
from dpassay.runs import MemoryLog, Played, Players, Progress, play
from dpassay.runs.parts import Part, Work, range_of, read_task, read_work, shard_of, write_work


def describe_audit(
    mechanism: Callable[..., Any],
    pair: tuple[Any, Any],
    *,
    claim: Claim,
    store: str | Path,
    timeout: float | None = None,
    **options: Unpack[AuditOptions],
) -> Work:
    """An audit written down in a folder, to be played in parts by any scheduler; plays nothing.

    The parts are played by :func:`dpassay.auditing.play_part` (``dpassay work``). Then
    :func:`audit` with the same arguments and the same store plays what is missing and judges.
    Arguments are those of :func:`audit`; ``store`` is a folder, which is made.

    Raises:
        InvalidArgument: as in :func:`audit`; the folder is in use for something else; or a score
            would have to be learned from the first trials before the others can be played.

    """
    asked = Asked.of(mechanism, claim, **options)
    nothing_played = Engine(MemoryLog(), timeout=timeout, max_failed_share=asked.max_failed_share)
    session, game = asked.prepare(nothing_played, pair, listen=False)
    question = session.question
    if question.n_learning:
        raise InvalidArgument(
            f"trials={asked.trials} without a score: it would be learned from the first "
            f"{question.n_learning} before the others are played, which parts cannot do. Pass "
            "score= (--score), or at most 20000 trials, of which it is learned while betting."
        )
    if (warning := question.vacuous()) is not None:
        warnings.warn(VacuousAudit(warning), stacklevel=2)
    work = Work(
        key=game.key,
        trials=question.n_calls,
        configuration=game.configuration(),
        description=session.description(),
        replayable=game.seed is not None,
        timeout=timeout,
        max_failed_share=asked.max_failed_share,
    )
    write_work(Path(store), work, game)
    return work


def play_part(
    store: str | Path,
    *,
    shard: str | None = None,
    numbers: str | None = None,
    executor: Players = None,
    workers: int = 1,
    progress: str | Progress = "quiet",
) -> tuple[Part, Played]:
    """A part of an audit that was written down, played into a log of its own; with how it ended.

    Playing it again goes on where it was. One process at a time may play a part.

    Args:
        store: the folder of :func:`describe_audit`.
        shard: "i/n" with i from 1 to n: every n-th trial from the i-th on.
        numbers: "a:b": the trials from a on and before b, counted from 0.
        executor: who plays, see :func:`dpassay.runs.play`.
        workers: processes of our own; 1 plays in this one.
        progress: "auto", "bar", "lines", "quiet" or a progress object.

    Raises:
        InvalidArgument: no audit was written down there, or by other versions of packages; not
            one of shard and numbers; a shard or range that it does not have.
        AuditStopped: too many trials failed, or the target cannot be audited.

    """
    folder = Path(store)
    work = read_work(folder)
    if (shard is None) == (numbers is None):
        raise InvalidArgument(f"shard={shard!r}, range={numbers!r}: give one of them.")
    part = range_of(numbers, work.trials) if numbers else shard_of(shard or "", work.trials)
    played = play(
        read_task(folder, work),
        part.trials,
        key=work.key,
        configuration=work.configuration,
        description=work.description,
        store=folder / part.file,
        executor=executor,
        workers=workers,
        timeout=work.timeout,
        replayable=work.replayable,
        max_failed_share=work.max_failed_share,
        progress=progress,
        part=part.name,
    )
    refuse_target(played)
    refuse_failures(played)
    return part, played
