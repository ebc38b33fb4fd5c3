"""``dpassay calibrate``: the least noise that meets a target."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

from dpassay.cli.account import RELATIONS
from dpassay.cli.options import Count, Json, Neighbours, Scheme, group, option
from dpassay.cli.output import emit, example, say, working
from dpassay.cli.schedule import (
    BatchSize,
    Epochs,
    Records,
    SamplingRate,
    Steps,
    dp_sgd_of,
    rate_and_steps,
)

if TYPE_CHECKING:
    from dpassay.privacy.events import Event

app = group(
    "calibrate",
    "The least noise that meets a target, never above it by the same accountant.",
    "dpassay calibrate dp-sgd --epsilon 3 --delta 1e-5 --sampling-rate .01 --steps 1000",
)

Epsilon = Annotated[float, option("Target epsilon.")]
Delta = Annotated[float, option("Target delta.")]
Method = Annotated[
    str, option("best, pld, rdp, zcdp, gdp, optimal, advanced or basic; an estimate is not.")
]


def show(
    make_event: Callable[[float], "Event"],
    epsilon: float,
    delta: float,
    method: str,
    as_json: bool,
) -> None:
    """Find the noise and print it with the price it has."""
    from dpassay import _check
    from dpassay.privacy import ApproxDP, PureDP, account
    from dpassay.privacy.accounting import PROOFS, AccountMethod
    from dpassay.privacy.calibration import calibrate

    _check.epsilon(epsilon, finite=True)
    proofs: tuple[AccountMethod, ...] = ("best", *PROOFS)
    proof = _check.choice("method", method, proofs, "An estimate calibrates nothing.")
    relation = make_event(1.0).neighbouring
    target = (
        ApproxDP(epsilon, delta, neighbouring=relation)
        if delta != 0
        else PureDP(epsilon, neighbouring=relation)
    )
    with working("looking for the least noise"):
        noise = calibrate(make_event, target, method=proof)
        event = make_event(noise)
        curve = account(event, proof)
        reached = curve.epsilon(delta)
    _print(noise, event, curve, (epsilon, reached, delta), as_json)


def _print(
    noise: float, event: "Event", curve: Any, prices: tuple[float, float, float], as_json: bool
) -> None:
    from dpassay.report.numbers import up

    epsilon, reached, delta = prices
    words = (
        f"A noise multiplier of {up(noise, 6)} is enough for ({epsilon:g}, {delta:g})-DP "
        f"({up(reached, 6)} by {curve.method}, {curve.kind}), where "
        f"{RELATIONS[event.neighbouring]}. Multiply it by your sensitivity (for DP-SGD, by the "
        "clipping norm)."
    )
    if not as_json:
        say(words)
        return
    emit(
        {
            "noise_multiplier": noise,
            "event": repr(event),
            "neighbouring": event.neighbouring,
            "target": {"epsilon": epsilon, "delta": delta},
            "epsilon": reached,
            "delta": delta,
            "method": curve.method,
            "kind": curve.kind,
            "sentence": words,
        }
    )


def _positive(delta: float) -> float:
    from dpassay import _check

    remedy = "Gaussian noise is never pure; take delta below 1/n."
    return _check.number(
        "delta", delta, low=0, high=1, low_open=True, high_open=True, remedy=remedy
    )


@app.command(
    "dp-sgd",
    epilog=example(
        "dpassay calibrate dp-sgd --epsilon 3 --delta 1e-5 --sampling-rate .01 --steps 1000"
    ),
)
def dp_sgd(
    epsilon: Epsilon,
    delta: Delta,
    sampling_rate: SamplingRate = None,
    steps: Steps = None,
    batch_size: BatchSize = None,
    n: Records = None,
    epochs: Epochs = None,
    method: Method = "best",
    scheme: Scheme = "poisson",
    neighbouring: Neighbours = "add-remove",
    as_json: Json = False,
) -> None:
    """Gaussian noise on random batches, many times: DP-SGD."""
    schedule = rate_and_steps(sampling_rate, steps, batch_size, n, epochs)
    event = dp_sgd_of(schedule, scheme, neighbouring)
    show(event, epsilon, _positive(delta), method, as_json)


def _repeat(kind: str, count: int, neighbouring: str) -> "Callable[[float], Event]":
    """The event of so many releases, as a function of their noise multiplier."""
    from dpassay.privacy import events

    return lambda noise: events.Repeated(getattr(events, kind)(noise, neighbouring), count)


@app.command(
    "gaussian", epilog=example("dpassay calibrate gaussian --epsilon 1 --delta 1e-6 --count 10")
)
def gaussian(
    epsilon: Epsilon,
    delta: Delta,
    count: Count = 1,
    method: Method = "best",
    neighbouring: Neighbours = "add-remove",
    as_json: Json = False,
) -> None:
    """Releases with Gaussian noise; the answer is its deviation over the l2 sensitivity."""
    show(_repeat("Gaussian", count, neighbouring), epsilon, _positive(delta), method, as_json)


@app.command("laplace", epilog=example("dpassay calibrate laplace --epsilon 1 --count 10"))
def laplace(
    epsilon: Epsilon,
    delta: Delta = 0.0,
    count: Count = 1,
    method: Method = "best",
    neighbouring: Neighbours = "add-remove",
    as_json: Json = False,
) -> None:
    """Releases with Laplace noise; the answer is its scale over the l1 sensitivity."""
    show(_repeat("Laplace", count, neighbouring), epsilon, delta, method, as_json)
