"""``dpassay calibrate``: the least noise that meets a target."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

from dpassay.cli.account import AllSteps, EpochSteps, Rate, WholeEpochs
from dpassay.cli.options import Count, Json, Neighbours, Scheme, group, option
from dpassay.cli.output import emit, example, say, working
from dpassay.cli.schedule import (
    BatchSize,
    Epochs,
    GroupSize,
    Records,
    SamplingRate,
    Steps,
    dp_sgd_of,
    rate_and_steps,
)
from dpassay.errors import InvalidArgument

if TYPE_CHECKING:
    from dpassay.privacy.events import Event
    from dpassay.privacy.risk import Risk
    from dpassay.types import Neighbouring

_SHOWN_DELTA = 1e-5  # at which epsilon is told beside a risk

app = group(
    "calibrate",
    "The least noise that meets a target, never above it by the same accountant.",
    "dpassay calibrate dp-sgd --epsilon 3 --delta 1e-5 --sampling-rate .01 --steps 1000",
)

Epsilon = Annotated[float, option("Target epsilon.")]
Delta = Annotated[float, option("Target delta.")]
MaybeEpsilon = Annotated[float | None, option("Target epsilon, with --delta.")]
MaybeDelta = Annotated[float | None, option("Target delta.")]
TargetAdvantage = Annotated[
    float | None,
    option(
        "Instead of epsilon: the most by which an attack's true-positive rate may exceed its "
        "false-positive rate.",
        "--advantage",
    ),
]
TargetRate = Annotated[
    str | None,
    option(
        "Instead of epsilon: FPR,TPR, such as .01,.1: the most that attacks with this "
        "false-positive rate may find.",
        "--attack-rate",
    ),
]
Method = Annotated[
    str, option("best, pld, rdp, zcdp, gdp, optimal, advanced or basic; an estimate is not.")
]


def show_risk(
    make_event: Callable[[float], "Event"], target: "Risk", method: str, as_json: bool
) -> None:
    """Find the noise with which an attacker gains no more than this, and print it."""
    from dpassay import _check
    from dpassay.privacy import account
    from dpassay.privacy.accounting import PROVING, AccountMethod
    from dpassay.privacy.calibration import calibrate
    from dpassay.privacy.events.words import relation_in_words
    from dpassay.report.numbers import up

    proofs: tuple[AccountMethod, ...] = ("best", *PROVING)
    proof = _check.choice("method", method, proofs, "An estimate calibrates nothing.")
    with working("looking for the least noise"):
        noise = calibrate(make_event, target, method=proof)
        event = make_event(noise)
        curve = account(event, proof)
        reached, epsilon = target.of(curve), curve.epsilon(_SHOWN_DELTA)
    words = (
        f"A noise multiplier of {up(noise, 6)} is enough: {target.in_words(up(reached, 6))}, "
        f"whatever the attacker knows and computes, where {relation_in_words(event)} "
        f"({curve.kind} by {curve.method}). That is ({up(epsilon)}, {_SHOWN_DELTA:g})-DP."
    )
    facts = {"target": target.as_dict(), "reached": reached, "epsilon": epsilon}
    _tell(words, noise, event, curve, facts | {"delta": _SHOWN_DELTA}, as_json)


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
    from dpassay.privacy.accounting import PROVING, AccountMethod
    from dpassay.privacy.calibration import calibrate

    _check.epsilon(epsilon, finite=True)
    proofs: tuple[AccountMethod, ...] = ("best", *PROVING)
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
    from dpassay.privacy.events.words import relation_in_words
    from dpassay.report.numbers import up

    epsilon, reached, delta = prices
    words = (
        f"A noise multiplier of {up(noise, 6)} is enough for ({epsilon:g}, {delta:g})-DP "
        f"({up(reached, 6)} by {curve.method}, {curve.kind}), where "
        f"{relation_in_words(event)}. Multiply it by your sensitivity (for DP-SGD, by the "
        "clipping norm)."
    )
    facts = {"target": {"epsilon": epsilon, "delta": delta}, "epsilon": reached, "delta": delta}
    _tell(words, noise, event, curve, facts, as_json)


def _tell(
    words: str, noise: float, event: "Event", curve: Any, facts: dict[str, Any], as_json: bool
) -> None:
    if not as_json:
        say(words)
        return
    emit(
        {
            "noise_multiplier": noise,
            "event": repr(event),
            "neighbouring": event.neighbouring,
            **facts,
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
    epsilon: MaybeEpsilon = None,
    delta: MaybeDelta = None,
    advantage: TargetAdvantage = None,
    attack_rate: TargetRate = None,
    sampling_rate: SamplingRate = None,
    steps: Steps = None,
    batch_size: BatchSize = None,
    n: Records = None,
    epochs: Epochs = None,
    method: Method = "best",
    scheme: Scheme = "poisson",
    neighbouring: Neighbours = "add-remove",
    group_size: GroupSize = 1,
    as_json: Json = False,
) -> None:
    """Gaussian noise on random batches, many times: DP-SGD."""
    schedule = rate_and_steps(sampling_rate, steps, batch_size, n, epochs)
    event = dp_sgd_of(schedule, scheme, neighbouring, group_size)
    _show_any(event, (epsilon, delta, advantage, attack_rate), method, as_json)


def _show_any(
    make_event: Callable[[float], "Event"],
    asked: tuple[float | None, float | None, float | None, str | None],
    method: str,
    as_json: bool,
) -> None:
    """Calibrate to the one target that was given."""
    epsilon, delta, advantage, attack_rate = asked
    pair, relation = (epsilon, delta), make_event(1.0).neighbouring
    if (pair != (None, None)) + (advantage is not None) + (attack_rate is not None) != 1:
        raise InvalidArgument("pass --epsilon and --delta, or --advantage, or --attack-rate.")
    if advantage is not None or attack_rate is not None:
        show_risk(make_event, read_risk(advantage, attack_rate, relation), method, as_json)
        return
    if epsilon is None or delta is None:
        raise InvalidArgument(f"epsilon={epsilon}, delta={delta}: both must be given.")
    show(make_event, epsilon, _positive(delta), method, as_json)


def read_risk(
    advantage: float | None, attack_rate: str | None, relation: "Neighbouring" = "add-remove"
) -> "Risk":
    """The risk of --advantage, or else of --attack-rate."""
    from dpassay.privacy import Advantage, AttackRate

    if advantage is not None:
        return Advantage(advantage, neighbouring=relation)
    try:
        fpr, tpr = map(float, (attack_rate or "").split(","))
    except ValueError:
        raise InvalidArgument(
            f"attack_rate={attack_rate!r} must be two rates, such as .01,.1: false positives, then "
            "true positives."
        ) from None
    return AttackRate(fpr, tpr, neighbouring=relation)


def _repeat(kind: str, count: int, neighbouring: str) -> "Callable[[float], Event]":
    """The event of so many releases, as a function of their noise multiplier."""
    from dpassay.privacy import events

    return lambda noise: events.Repeated(getattr(events, kind)(noise, neighbouring), count)


@app.command(
    "gaussian", epilog=example("dpassay calibrate gaussian --epsilon 1 --delta 1e-6 --count 10")
)
def gaussian(
    epsilon: MaybeEpsilon = None,
    delta: MaybeDelta = None,
    advantage: TargetAdvantage = None,
    attack_rate: TargetRate = None,
    count: Count = 1,
    method: Method = "best",
    neighbouring: Neighbours = "add-remove",
    as_json: Json = False,
) -> None:
    """Releases with Gaussian noise; the answer is its deviation over the l2 sensitivity."""
    event = _repeat("Gaussian", count, neighbouring)
    _show_any(event, (epsilon, delta, advantage, attack_rate), method, as_json)


@app.command(
    "allocation",
    epilog=example("dpassay calibrate allocation --epsilon 3 --delta 1e-5 --steps 100 --epochs 10"),
)
def allocation(
    steps: EpochSteps,
    epsilon: MaybeEpsilon = None,
    delta: MaybeDelta = None,
    advantage: TargetAdvantage = None,
    attack_rate: TargetRate = None,
    epochs: WholeEpochs = 1,
    method: Method = "best",
    as_json: Json = False,
) -> None:
    """DP-SGD; each record is in one batch of an epoch, drawn for it alone (balls in bins)."""
    from dpassay.privacy.events import allocation_event

    asked = (epsilon, delta, advantage, attack_rate)
    _show_any(lambda noise: allocation_event(noise, steps, epochs), asked, method, as_json)


@app.command(
    "bandmf",
    epilog=example(
        "dpassay calibrate bandmf --epsilon 3 --delta 1e-6 --sampling-rate .005 --steps 2000 "
        "--bands 10"
    ),
)
def bandmf(
    sampling_rate: Rate,
    steps: AllSteps,
    bands: Annotated[int, option("Bands of the strategy, whose columns have norm 1.")],
    epsilon: MaybeEpsilon = None,
    delta: MaybeDelta = None,
    advantage: TargetAdvantage = None,
    attack_rate: TargetRate = None,
    method: Method = "best",
    as_json: Json = False,
) -> None:
    """DP-FTRL with a banded strategy and sampled batches (BandMF)."""
    from dpassay.privacy.events import bandmf_event

    asked = (epsilon, delta, advantage, attack_rate)
    _show_any(lambda s: bandmf_event(s, sampling_rate, steps, bands), asked, method, as_json)


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
