"""What a training states of itself, and the curve to claim instead of a pair (epsilon, delta).

A pair is one point of the curve that an accountant proved, and allows far more than the curve does:
if DP-SGD has half the noise that it says, few trainings refute the curve and hundreds the pair. So
an audit of a pair runs its target once and listens: to the accountants of Opacus, to the events of
dpassay's own learners and networks. Nothing that is heard enters the verdict; it is said in the
next step, as a text that ``claim=`` and ``--claim`` take.
"""

import contextlib
import json
import sys
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any

from dpassay._records import fresh
from dpassay._rng import for_trial
from dpassay.auditing.adapters.script import Script
from dpassay.auditing.claims import claim_text, dp_sgd_text
from dpassay.auditing.engine import Engine
from dpassay.auditing.game import draws_many
from dpassay.auditing.question import CHOOSING
from dpassay.errors import InvalidArgument
from dpassay.privacy import GDP, ApproxDP, account, events
from dpassay.runs import Outcome, play, run_key
from dpassay.types import Neighbouring, PrivacyCurve

_LISTENING = 98  # the stream of randomness of a run that is listened to
_TELLING = ("opacus", "dpassay.learn", "dpassay.nets")  # who states what it does


def curve_to_claim(
    engine: Engine, mechanism: Any, data: Any, claim: PrivacyCurve, seed: int | None
) -> str:
    """The text of the curve that a training states, where the claim is a pair; else empty.

    Runs the mechanism once, unless the log has it or nobody could say anything.
    """
    pair = isinstance(claim, ApproxDP) and claim.delta_upper > 0
    if not pair or draws_many(mechanism) or not may_state(mechanism):
        return ""
    key = run_key({"seed": seed, "listening": 1}, code=[mechanism], data=[data])
    run = play(
        _Listening(mechanism, data, seed),
        1,
        key=key,
        description={"audit": CHOOSING, "trials": 1, "claim": claim_text(claim)},
        store=engine.log,
        executor=engine.executor,
        workers=engine.workers,
        timeout=engine.timeout,
        max_failed_share=1.0,
    )
    if run.ended == "interrupted":
        raise KeyboardInterrupt
    told = json.loads(run.outcomes.payloads.get(0, b"null"))
    return "" if told is None else text_of(events.from_dict(told), claim.neighbouring)


def may_state(mechanism: Any) -> bool:
    """Whether somebody who states what a training does may take part in it."""
    if isinstance(mechanism, Script):
        files = (mechanism.path, *mechanism.modules)
        texts = [file.read_text("utf-8", "replace") for file in files]
        return any(word in text for text in texts for word in ("opacus", "Private", "nets"))
    return any(name in sys.modules for name in _TELLING)


def text_of(event: events.Event, neighbouring: Neighbouring) -> str:
    """The claim text of an event's curve; empty where there is none.

    >>> text_of(events.dp_sgd_event(1.0, 0.25, 8), "add-remove")
    'dp-sgd:noise_multiplier=1.0,sampling_rate=0.25,steps=8'
    >>> text_of(events.Gaussian(2.0), "add-remove")
    'gdp:0.5'

    """
    if event.neighbouring != neighbouring:
        return ""
    match event:
        case events.Repeated(
            events.Sampled(events.Gaussian(noise), rate, "poisson") as sampled, steps
        ):
            noise = noise / 2 if sampled.is_restated else noise  # as dp_sgd_event takes it
            return dp_sgd_text(noise, rate, steps).removesuffix(",method=best")
        case _:
            pass
    try:
        curve = account(event, "gdp")
    except InvalidArgument:
        return ""
    return f"gdp:{float(curve.mu)!r}" if isinstance(curve, GDP) else ""


@dataclass(frozen=True)
class _Listening:
    """A task of one run whose output nobody looks at."""

    mechanism: Any
    data: Any
    seed: int | None

    def __call__(self, trials: Sequence[int], /) -> list[Outcome]:
        rng = None if self.seed is None else for_trial(self.seed, 0, _LISTENING)
        event = listen(lambda: self.mechanism(fresh(self.data), rng), self.mechanism)
        told = None if event is None else event.as_dict()
        return [Outcome(score=0.0, payload=json.dumps(told).encode()) for _ in trials]


def listen(run: Callable[[], Any], mechanism: Any = None) -> events.Event | None:
    """What a training that is run states of itself; None where nobody or too many spoke."""
    if isinstance(mechanism, Script):
        mechanism.rehearse()  # what is loaded later is not heard
    told: list[events.Event] = []
    steps: list[tuple[float, float]] = []
    with contextlib.ExitStack() as stack:
        _hear_opacus(stack, steps)
        _hear_own(stack, told)
        output = run()
    shown = getattr(output, "event_", getattr(output, "event", None))
    told = told or ([shown] if isinstance(shown, events.Event) else [])
    if steps and not told:
        return _steps_event(steps)
    return told[0] if len(told) == 1 and not steps else None


def _steps_event(steps: list[tuple[float, float]]) -> events.Event | None:
    """The event of steps that an accountant was told of, if they are all alike."""
    (noise, rate), *others = steps
    if any(other != (noise, rate) for other in others) or not (noise > 0 and 0 < rate <= 1):
        return None
    return events.dp_sgd_event(noise, rate, len(steps))


def _hear_opacus(stack: contextlib.ExitStack, steps: list[tuple[float, float]]) -> None:
    if "opacus" in sys.modules:
        from dpassay.replay.opacus import hearing

        stack.enter_context(hearing(lambda noise, rate: steps.append((noise, rate))))


def _hear_own(stack: contextlib.ExitStack, told: list[events.Event]) -> None:
    """Learners state their event before they touch the data, networks when they are trained."""
    learners, networks = map(sys.modules.get, ("dpassay.learn.base", "dpassay.nets.training"))
    if learners is not None:
        owner = learners.PrivateMixin
        stack.enter_context(_wrap(owner, "_spending", lambda args, _: told.append(args[1])))
    if networks is not None:
        stack.enter_context(_wrap(networks.Training, "event", lambda _, event: told.append(event)))


@contextlib.contextmanager
def _wrap(owner: Any, name: str, hear: Callable[[Any, Any], None]) -> Generator[None]:
    """Hear the arguments and results of a method until the end."""
    original = owner.__dict__[name]

    def call_and_hear(*args: Any, **options: Any) -> Any:
        result = original(*args, **options)
        hear(args, result)
        return result

    setattr(owner, name, call_and_hear)
    try:
        yield
    finally:
        setattr(owner, name, original)
