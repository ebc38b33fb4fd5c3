"""Executions of a mechanism on tapes: recorded, replayed, counted."""

import copy
import inspect
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dpassay.replay.entries import Array, Edit
from dpassay.replay.generator import recorder
from dpassay.replay.outputs import settle
from dpassay.replay.patches import recording
from dpassay.replay.primitives import Primitive
from dpassay.replay.sites import Place
from dpassay.replay.tape import Tape

Places = frozenset[tuple[str, int]]


@dataclass(frozen=True)
class Played:
    """One execution: its tape, what it returned, or the name of what it raised, and its data."""

    tape: Tape
    output: Any = None
    error: str | None = None
    data: Any = field(default=None, repr=False)


class Relocated(Exception):
    """A run showed how draws of some lines are used: record again, knowing that.

    Attributes:
        places: lines where the location of a draw is a query that is zero on D.
        thresholds: calls whose uniform draws are compared with several values.

    """

    def __init__(self, places: set[tuple[str, int]], thresholds: set[Place] | None = None) -> None:
        super().__init__("draws are used in another way than it seemed")
        self.places = places
        self.thresholds = thresholds or set()


@dataclass
class Player:
    """Plays a mechanism on tapes.

    Attributes:
        mechanism: called as ``mechanism(data, rng)``, or ``mechanism(data)`` if it takes no more;
            of ``mechanism(data, rng, size)`` one output is asked for. One that ``starts_late``
            calls :func:`~dpassay.replay.patches.disturb` itself, when its data is ready.
        seed: of the first recording.
        rebuild: makes data of the mechanism's kind of the arrays that are searched.
        located: lines where the location of a draw is known to be a query.
        public_lines: calls whose draws are taken as public randomness.
        primitives: functions of the user's that add noise.
        executions: how many were played.
        progress: called with the number of each before it is played.

    """

    mechanism: Callable[..., Any]
    seed: int
    rebuild: Callable[[Any], Any] = lambda data: data
    located: Places = frozenset()
    primitives: tuple[Primitive, ...] = ()
    executions: int = 0
    progress: Callable[[int], None] | None = None
    public_lines: frozenset[Place] = frozenset()
    _alone: bool = field(init=False)
    _many: bool = field(init=False)

    def __post_init__(self) -> None:
        self._alone = _takes_data_alone(self.mechanism)
        self._many = _wants_size(self.mechanism)

    def record(self, data: Any, n: int | None, seed: int | None = None) -> Played:
        """Play on D; an error is the user's and is raised.

        Raises Relocated if uniform draws turned out to be no coins.
        """
        tape = Tape(n, located=self.located, public_lines=self.public_lines)
        output = self._run(data, tape, self.seed if seed is None else seed)
        if tape.compared_often:
            raise Relocated(set(), tape.compared_often)
        return Played(tape, output, data=data)

    def replay_itself(self, first: Played, hidden_seed: int | None) -> Played:
        """Play on D again, with another seed for all that nobody follows if one is given."""
        size = -1 if first.tape.n is None else first.tape.n
        return self._replay_once(first, first.data, Edit("same", -1, size, size), None, -1,
                                 hidden_seed)  # fmt: skip

    def replay_shifted(self, first: Played, shifts: Mapping[int, Array]) -> Played:
        """Play on D again, with other values in some places of the primitives of these numbers."""
        size = -1 if first.tape.n is None else first.tape.n
        return self._replay_once(first, first.data, Edit("same", -1, size, size), None, -1,
                                 shifts=shifts)  # fmt: skip

    def replay(
        self,
        first: Played,
        data: Any,
        edit: Edit,
        forced: int = -1,
        shifts: Mapping[int, Array] | None = None,
    ) -> Played:
        """Play on D' with all noisy values as on D; played again where chains end elsewhere.

        ``forced`` is a record whose coins are all forced in; ``shifts`` are added to frozen values.
        Raises Relocated if the location of a draw turned out to be a query.
        """
        played = self._replay_once(first, data, edit, None, forced, shifts=shifts)
        stages = played.tape.n_stages
        then = first.tape.n_stages
        if any(stages[chain] != then[chain] for chain in stages.keys() & then.keys()):
            played = self._replay_once(first, data, edit, stages, forced, shifts=shifts)
        new = played.tape.moved_locations - self.located
        if new:
            raise Relocated(new)
        return played

    def _replay_once(
        self,
        first: Played,
        data: Any,
        edit: Edit,
        stages: dict[int, int] | None,
        forced: int,
        hidden_seed: int | None = None,
        shifts: Mapping[int, Array] | None = None,
    ) -> Played:
        tape = Tape(
            None if edit.n_prime < 0 else edit.n_prime,
            of=first.tape,
            edit=edit,
            located=self.located,
            public_lines=self.public_lines,
            stages=stages,
            forced=forced,
            hidden_seed=hidden_seed,
            shifts=shifts,
        )
        seed = self.seed
        if hidden_seed is not None and not getattr(self.mechanism, "starts_late", False):
            seed = hidden_seed
        try:
            return Played(tape, self._run(data, tape, seed))
        except Exception as error:  # whatever a mechanism raises on D' is an output of it
            return Played(tape, error=type(error).__name__)

    def _run(self, data: Any, tape: Tape, seed: int) -> Any:
        self.executions += 1
        if self.progress is not None:
            self.progress(self.executions)
        own = self.rebuild(copy.deepcopy(data))  # a mechanism may change its data in place
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")  # extreme records overflow; that is no finding
            with recording(tape, seed, self.mechanism, self.primitives):
                args = (own,) if self._alone else (own, recorder(seed))
                if self._many:
                    return settle(self.mechanism(*args, size=1)[0])
                return settle(self.mechanism(*args))


def _takes_data_alone(mechanism: Callable[..., Any]) -> bool:
    try:
        parameters = inspect.signature(mechanism).parameters.values()
    except (TypeError, ValueError):
        return False
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    # A second parameter that has a default is a setting of the mechanism, unless it is named so.
    places = [
        part
        for i, part in enumerate(parameters)
        if part.kind in kinds and (i == 0 or part.default is part.empty or part.name == "rng")
    ]
    variadic = any(part.kind is inspect.Parameter.VAR_POSITIONAL for part in parameters)
    return len(places) < 2 and not variadic


def _wants_size(mechanism: Callable[..., Any]) -> bool:
    """Whether the number of outputs must be said."""
    try:
        found = inspect.signature(mechanism).parameters.get("size")
    except (TypeError, ValueError):
        return False
    return found is not None and found.default is found.empty
