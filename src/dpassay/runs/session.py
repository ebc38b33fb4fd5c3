"""One run being played: trials handed out, outcomes gathered, written, and consumed in order."""

import contextlib
import time
from concurrent.futures import BrokenExecutor, CancelledError, Future

from dpassay.errors import LogError, RunError
from dpassay.runs import outcomes as columns
from dpassay.runs.board import Board, Ended
from dpassay.runs.crew import Crew
from dpassay.runs.outcomes import Outcomes
from dpassay.runs.progress import Progress
from dpassay.runs.protocol import TrialLog
from dpassay.runs.schedule import DEATHS_ALONE, Schedule
from dpassay.runs.workers import PortionLost, deaths_behind
from dpassay.runs.writer import WORKERS

WRITE_SHARE = 0.05  # of the time may go into commits; outcomes wait in a group until it does
WRITE_SECONDS = 0.2  # the longest that an outcome waits, however slow the disk
PATIENCE_SECONDS = 1.0  # between looks at the clock and the user while nothing ends
GRACE_SECONDS = 0.5  # for trials that are being played when the run ends
BARREN_MAX = 5  # new executors in a row that break before they play anything


class Session:
    """The loop of a run: hand trials out, gather outcomes, write them, and consume them in order.

    It also deals with workers that die.
    """

    def __init__(
        self,
        key: str,
        log: TrialLog,
        board: Board,
        crew: Crew,
        shown: Progress,
        recycle: int | None,
        replayable: bool,
        part: str | None = None,
    ) -> None:
        self._board, self._crew, self._shown, self._recycle = board, crew, shown, recycle
        self._written = _Writer(key, log, board, part)
        self._note_width = lambda width: log.note(key, WORKERS, width)
        self._noted = -1
        self._replayable = replayable
        most = None if recycle is None else max(1, recycle // crew.workers.depth)
        most = most if replayable else 1  # a death then costs no more than what is being played
        self._schedule = Schedule(board.list_unfinished(), crew.workers.width, most)
        self._under_way: dict[Future[Outcomes], list[int]] = {}
        self._since_renewal = self._barren = self.n_deaths = 0

    def play(self) -> Ended:
        """Play until the board says that the run has ended, or the user does."""
        try:
            ended = self._loop()
        except KeyboardInterrupt:
            self._wind_down()
            return "interrupted"
        except BaseException:
            with contextlib.suppress(LogError):  # The first error is the one to tell.
                self._wind_down()
            raise
        self._wind_down()
        return ended

    def _loop(self) -> Ended:
        while True:
            self._hand_out()
            self._gather()
            self._shown.update(self._board.n_finished, self._board.n_failed)
            ended = self._board.advance()
            if ended is not None:
                return ended

    def _hand_out(self) -> None:
        if self._recycle is not None and self._since_renewal >= self._recycle:
            if self._under_way:
                return
            self._renew()
        workers = self._crew.workers
        self._schedule.width = workers.width
        if workers.width != self._noted:  # for those who watch
            self._noted = workers.width
            self._note_width(self._noted)
        self._schedule.portion_seconds = workers.portion_seconds
        while len(self._under_way) < workers.depth:
            portion = self._schedule.next(len(self._under_way))
            if not portion or not self._submit(portion):
                return

    def _submit(self, portion: list[int]) -> bool:
        try:
            self._under_way[self._crew.submit(portion)] = portion
        except BrokenExecutor as error:
            self._schedule.put_back(portion)
            if not self._under_way:
                self._renew_barren(error)
            return False
        return True

    def _gather(self) -> None:
        """Wait until something is finished, or there is something to write; and take it."""
        if self._under_way:
            due = self._written.due()
            patience = PATIENCE_SECONDS if due is None else due
            ready = self._crew.workers.wait(self._under_way, patience)
            self._bury([future for future in ready if not self._take(future)])
        if self._written.due() == 0 or not self._under_way:
            self._written.flush()

    def _take(self, future: "Future[Outcomes]") -> bool:
        """Take a portion that has ended; False if its worker died, and it stays under way."""
        try:
            outcomes = future.result()
        except PortionLost:  # nobody died of it: no trial is to blame
            self._schedule.put_back(self._under_way.pop(future))
            return True
        except CancelledError as error:
            raise RunError(
                "the executor cancelled trials of this run. Run the same again to go on."
            ) from error
        except BaseException as error:
            if deaths_behind(error):
                return False
            raise
        self._since_renewal += len(self._under_way.pop(future))
        self._schedule.learn_from(outcomes)
        self._written.add(outcomes)
        self._barren = 0
        return True

    def _bury(self, lost: "list[Future[Outcomes]]") -> None:
        """Have the trials of dead workers played again, or give them up."""
        broken = [future for future in lost if isinstance(future.exception(), BrokenExecutor)]
        if broken:
            self._bury_trials(self._all_lost(broken), 1)
        for future in set(lost) & set(self._under_way):
            self._bury_trials([future], deaths_behind(future.exception()))

    def _bury_trials(self, lost: "list[Future[Outcomes]]", deaths: int) -> None:
        """Take back what these portions held; so many workers died over them."""
        self.n_deaths += deaths
        trials = {trial for future in lost for trial in self._under_way.pop(future)}
        hung = {t: error for t, error in self._crew.hung_trials().items() if t in trials}
        lost_now = sorted(trials - hung.keys())
        if self._replayable:
            given_up = self._schedule.note_deaths(lost_now, deaths)
            error = f"playing alone, it killed its worker {DEATHS_ALONE} times"
        else:
            given_up = lost_now
            error = "its worker died, and it cannot be replayed"
        errors = {trial: f"trial {trial}: {error}" for trial in given_up}
        if hung or errors:
            self._written.add(columns.failures(hung | errors))

    def _all_lost(self, lost: "list[Future[Outcomes]]") -> "list[Future[Outcomes]]":
        """All that a broken pool has lost, which is all but what was finished just before."""
        others = self._crew.workers.wait(set(self._under_way) - set(lost), GRACE_SECONDS, all=True)
        for future in others:
            self._take(future)
        self._renew()
        return list(self._under_way)

    def _renew(self) -> None:
        self._since_renewal = 0
        self._crew.workers.stop()

    def _renew_barren(self, error: BaseException) -> None:
        self._barren += 1
        if self._barren > BARREN_MAX:
            raise RunError(
                f"workers die before they play anything ({error}). Try workers=1; "
                "the log keeps what was played."
            ) from error
        self._renew()

    def _wind_down(self) -> None:
        """Begin no more, wait a little for what is being played, write all that is finished."""
        workers = self._crew.workers
        workers.cancel(self._under_way)
        ready = workers.wait(self._under_way, GRACE_SECONDS, all=True)
        still_playing = len(ready) < len(self._under_way)
        for future in ready:
            if not future.cancelled() and future.exception() is None:
                self._take(future)
        if still_playing:
            self._renew()
        self._written.flush()


class _Writer:
    """Outcomes on their way to the log and, once they are there, to the board.

    Only what is written is consumed, as the log has it: another process may have played the same
    trial first, and its outcome is the one that stands.
    """

    def __init__(self, key: str, log: TrialLog, board: Board, part: str | None) -> None:
        self._key, self._log, self._board, self._part = key, log, board, part
        self._waiting: list[Outcomes] = []
        self._next = 0.0  # when to write again

    def add(self, outcomes: Outcomes) -> None:
        self._waiting.append(outcomes)

    def due(self) -> float | None:
        """Seconds until it is time to write; None if there is nothing to write."""
        return max(0.0, self._next - time.monotonic()) if self._waiting else None

    def flush(self) -> None:
        if not self._waiting:
            return
        begin = time.monotonic()
        self._board.put(self._log.add(self._key, columns.join(self._waiting), self._part))
        self._waiting.clear()  # Not before: what is interrupted is done again, and changes nothing.
        end = time.monotonic()
        self._next = end + min((end - begin) / WRITE_SHARE, WRITE_SECONDS)
