"""``dpassay account``: upper bounds on epsilon (or delta) by every method, side by side."""

import inspect
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from dpassay.cli.options import (
    Count,
    EpsilonEach,
    Json,
    Neighbours,
    NoiseMultiplier,
    Scheme,
    group,
    option,
)
from dpassay.cli.output import emit, example, say, table, working
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
from dpassay.errors import InvalidArgument, UnsupportedEvent

if TYPE_CHECKING:
    from dpassay.privacy.events import Event

DP_SGD = (
    "dpassay account dp-sgd --noise-multiplier 1.1 --sampling-rate .01 --steps 1000 --delta 1e-5"
)
app = group(
    "account",
    "Upper bounds on epsilon at a delta (or delta at an epsilon), all methods side by side.",
    DP_SGD,
)
NOTES = {
    "pld": "privacy-loss distribution, rounded upwards",
    "fourier": "inverse Fourier transform, rounded upwards",
    "exponential": "adaptive exponential mechanisms of one epsilon",
    "rdp": "Rényi DP, best of its orders",
    "zcdp": "zero-concentrated DP, tight conversion",
    "gdp": "Gaussian noise only",
    "optimal": "equal pure events only, worst case over all of them",
    "advanced": "advanced composition, grows like a square root",
    "basic": "epsilons and deltas add",
    "gdp-clt": "central limit theorem; can lie below the truth, proves nothing",
}
Delta = Annotated[float | None, option("Give epsilon at this delta.")]
AtEpsilon = Annotated[float | None, option("Give delta at this epsilon.", "--epsilon")]
Method = Annotated[str, option(f"all, best, {', '.join(NOTES)} (an estimate).")]


@dataclass(frozen=True)
class Query:
    """What is asked of a curve: epsilon at a delta, or delta at an epsilon."""

    delta: float | None
    epsilon: float | None

    def __post_init__(self) -> None:
        from dpassay import _check

        if (self.delta is None) == (self.epsilon is None):
            raise InvalidArgument(
                f"delta={self.delta} and epsilon={self.epsilon}: exactly one must be given. Pass "
                "--delta for epsilon at it, or --epsilon for delta at it."
            )
        if self.epsilon is None:
            _check.delta(self.delta)
        else:
            _check.epsilon(self.epsilon, finite=True)

    @property
    def wanted(self) -> str:
        """The name of what comes back."""
        return "epsilon" if self.epsilon is None else "delta"

    def of(self, curve: Any) -> float:
        """The answer of a curve."""
        return curve.epsilon(self.delta) if self.epsilon is None else curve.delta(self.epsilon)

    def pair(self, answer: str) -> str:
        """(epsilon, delta) with the answer filled in."""
        return (
            f"({answer}, {self.delta:g})"
            if self.epsilon is None
            else f"({self.epsilon:g}, {answer})"
        )


@dataclass(frozen=True)
class Price:
    """What one method says; a refused event has no value."""

    method: str
    value: float | None
    kind: str
    note: str


_RANK = {"exact": 0, "upper bound": 1, "estimate": 2, "refused": 3}


def prices(event: "Event", query: Query, method: str = "all") -> list[Price]:
    """The price by each method: proofs (smallest first), then estimates, then refusals.

    Raises UnsupportedEvent if no method proves anything.
    """
    from dpassay.privacy import accounting
    from dpassay.privacy.events.words import in_words

    methods = [*accounting.PROVING, "gdp-clt"] if method == "all" else [method]
    found = [_price(event, query, name, refuse=method != "all") for name in methods]
    if method == "all" and not any(is_proof(price) for price in found):
        reasons = "; ".join(dict.fromkeys(_short(p) for p in found if p.value is None))
        raise UnsupportedEvent(
            f"no method proves a price of {in_words(event)}, neighbouring={event.neighbouring!r}: "
            f"{reasons}. Try another --scheme or --neighbouring."
        )
    return sorted(found, key=lambda p: (_RANK[p.kind], math.inf if p.value is None else p.value))


def _price(event: "Event", query: Query, method: str, refuse: bool) -> Price:
    from dpassay import _check
    from dpassay.privacy.accounting import METHODS, account

    try:
        curve = account(event, _check.choice("method", method, METHODS))
        return Price(method, query.of(curve), curve.kind, NOTES.get(method, "the smallest proof"))
    except UnsupportedEvent as refusal:
        if refuse:
            raise
        return Price(method, None, "refused", str(refusal))


def is_proof(price: Price) -> bool:
    """Whether the price is proved: neither an estimate nor a refusal."""
    return price.kind in ("exact", "upper bound")


def sentence(event: "Event", query: Query, price: Price) -> str:
    """The price in the words of a report."""
    from dpassay.privacy.events.words import relation_in_words
    from dpassay.report.numbers import up

    what = {"exact": "exact", "upper bound": "an upper bound"}.get(
        price.kind, "an ESTIMATE, which proves nothing"
    )
    answer = up(price.value if price.value is not None else math.inf)
    return f"{query.pair(answer)}-DP, {what} by {price.method}, where {relation_in_words(event)}."


def show(event: "Event", query: Query, method: str, as_json: bool) -> None:
    """Price the event and print the answer."""
    from dpassay.privacy.events.words import in_words

    with working("pricing by every method" if method == "all" else f"pricing by {method}"):
        found = prices(event, query, method)
        least = lower_epsilon(event, query) if method in ("all", "best") else None
    best = next((price for price in found if is_proof(price)), found[0])
    words = sentence(event, query, best) + _from_below(least, query)
    if as_json:
        below = {} if least is None else {"epsilon_lower": least}
        emit(as_data(event, query, found, best) | below | {"sentence": words})
        return
    print_prices(in_words(event), query, found)
    say(words)


def lower_epsilon(event: "Event", query: Query) -> float | None:
    """What some data sets and attacker reach at the delta asked for, where that is known."""
    from dpassay.privacy.brackets import bracket

    if query.delta is None or not 0 < query.delta < 1:
        return None
    try:
        return bracket(event, query.delta).lower
    except UnsupportedEvent:
        return None


def _from_below(least: float | None, query: Query) -> str:
    from dpassay.report.numbers import down

    if not least:
        return ""
    return f" Some data sets and attacker reach {query.pair(down(least))}: the truth lies between."


def as_data(event: "Event", query: Query, found: list[Price], best: Price) -> dict[str, Any]:
    """The prices as what ``--json`` prints."""
    priced = [price for price in found if price.value is not None]
    return {
        "event": repr(event),
        "neighbouring": event.neighbouring,
        "delta": query.delta if query.epsilon is None else best.value,
        "epsilon": query.epsilon if query.delta is None else best.value,
        "quantity": query.wanted,
        "methods": {price.method: price.value for price in priced},
        "kinds": {price.method: price.kind for price in priced},
        "refused": {price.method: price.note for price in found if price.value is None},
        "best": {"method": best.method, query.wanted: best.value, "kind": best.kind},
    }


def _short(price: Price) -> str:
    """The note; of a refusal its first sentence, without the arguments of what was refused."""
    if price.value is not None:
        return price.note
    text, shorter = "", price.note.partition(". ")[0]
    while shorter != text:
        text, shorter = shorter, re.sub(r"\([^()]*\)", "", shorter)
    return text.removeprefix(f"method={price.method!r} ").rstrip(".")


def print_prices(title: str, query: Query, found: list[Price]) -> None:
    """The prices as a table."""
    from dpassay.report.numbers import up

    def row(price: Price) -> tuple[str, str, str, str]:
        value = "-" if price.value is None else up(price.value)
        return price.method, value, price.kind, _short(price)

    columns = ("method", query.wanted, "kind", "note")
    table(title, columns, [row(price) for price in found])


@app.command("dp-sgd", epilog=example(DP_SGD))
def dp_sgd(
    noise_multiplier: NoiseMultiplier,
    sampling_rate: SamplingRate = None,
    steps: Steps = None,
    batch_size: BatchSize = None,
    n: Records = None,
    epochs: Epochs = None,
    delta: Delta = None,
    epsilon: AtEpsilon = None,
    method: Method = "all",
    scheme: Scheme = "poisson",
    neighbouring: Neighbours = "add-remove",
    group_size: GroupSize = 1,
    as_json: Json = False,
) -> None:
    """Gaussian noise on random batches, many times: DP-SGD."""
    schedule = rate_and_steps(sampling_rate, steps, batch_size, n, epochs)
    event = dp_sgd_of(schedule, scheme, neighbouring, group_size)(noise_multiplier)
    show(event, Query(delta, epsilon), method, as_json)


def _ask(
    delta: Delta = None,
    epsilon: AtEpsilon = None,
    method: Method = "all",
    as_json: Json = False,
) -> None:
    """The options that every command about events of one kind has."""


def _ask_of_many(
    count: Count = 1,
    delta: Delta = None,
    epsilon: AtEpsilon = None,
    method: Method = "all",
    as_json: Json = False,
) -> None:
    """Those of a command about single releases."""


def _add(
    name: str, kind: str, options: str, shared_by: Callable[..., None] = _ask_of_many
) -> Callable[[Callable[..., None]], None]:
    """Add a command that prices events of one kind; ``options`` are those of its example.

    It decorates a description: a function without a body whose arguments are those of the event, in
    their order, and whose docstring is the help. The shared options are put behind them.
    """

    def add(description: Callable[..., None]) -> None:
        own, shared = (inspect.signature(f).parameters for f in (description, shared_by))

        def command(
            *,
            count: int = 1,
            delta: float | None,
            epsilon: float | None,
            method: str,
            as_json: bool,
            **parameters: Any,
        ) -> None:
            from dpassay.privacy import events

            event = getattr(events, kind)(*(parameters[name] for name in own))
            event = event if count == 1 else events.Repeated(event, count)
            show(event, Query(delta, epsilon), method, as_json)

        all_of_them = own | shared
        command.__doc__ = description.__doc__
        command.__annotations__ = {name: each.annotation for name, each in all_of_them.items()}
        vars(command)["__signature__"] = inspect.Signature([*all_of_them.values()])
        app.command(name, epilog=example(f"dpassay account {name} {options}"))(command)

    return add


@_add("gaussian", "Gaussian", "--noise-multiplier 4 --delta 1e-6")
def _gaussian(noise_multiplier: NoiseMultiplier, neighbouring: Neighbours = "add-remove") -> None:
    """Releases with Gaussian noise; its deviation over the l2 sensitivity is the multiplier."""


@_add("laplace", "Laplace", "--noise-multiplier 10 --count 100 --delta 1e-6")
def _laplace(noise_multiplier: NoiseMultiplier, neighbouring: Neighbours = "add-remove") -> None:
    """Releases with Laplace noise; its scale over the l1 sensitivity is the multiplier."""


@_add("pure", "Pure", "--epsilon-each .1 --count 100 --delta 1e-3")
def _pure(epsilon_each: EpsilonEach, neighbouring: Neighbours = "add-remove") -> None:
    """Anything that is epsilon-DP, such as a stated guarantee."""


@_add("approx", "Approx", "--epsilon-each .1 --delta-each 1e-8 --count 100 --delta 1e-5")
def _approx(
    epsilon_each: EpsilonEach,
    delta_each: Annotated[float, option("Delta of each of them.")],
    neighbouring: Neighbours = "add-remove",
) -> None:
    """Anything that is (epsilon, delta)-DP."""


@_add("exponential", "BoundedRange", "--epsilon-each .1 --count 100 --delta 1e-6")
def _exponential(epsilon_each: EpsilonEach, neighbouring: Neighbours = "add-remove") -> None:
    """The exponential mechanism (bounded range); other noisy-max rules are "noisy-max"."""


@_add("noisy-max", "NoisyMax", "--epsilon-each .1 --count 100 --delta 1e-6")
def _noisy_max(epsilon_each: EpsilonEach, neighbouring: Neighbours = "add-remove") -> None:
    """Permute-and-flip, or the largest of scores with Laplace noise."""


@_add("zcdp", "ZeroConcentrated", "--rho .1 --delta 1e-6")
def _zcdp(
    rho: Annotated[float, option("Rho of each of them.")],
    neighbouring: Neighbours = "add-remove",
) -> None:
    """Anything that is rho-zCDP."""


@_add("randomized-response", "RandomizedResponse", "--noise-probability .5 --delta 0")
def _randomized_response(
    noise_probability: Annotated[
        float, option("Chance of a uniform answer instead of the true one.")
    ],
    categories: Annotated[int, option("Number of possible answers.")] = 2,
) -> None:
    """A question answered at random with some probability; the relation is replace-one."""


EpochSteps = Annotated[int, option("Number of updates per epoch.", "--steps")]
AllSteps = Annotated[int, option("Number of updates.", "--steps")]
WholeEpochs = Annotated[int, option("Passes over the data.", "--epochs")]
Rate = Annotated[float, option("Size of a batch over the number of ALL records.")]
_HUNDRED = "--noise-multiplier 1 --steps 100 --epochs 10 --delta 1e-5"


@_add("allocation", "allocation_event", _HUNDRED, _ask)
def _allocation(
    noise_multiplier: NoiseMultiplier,
    steps: EpochSteps,
    epochs: WholeEpochs = 1,
    k: Annotated[int, option("Steps of an epoch with the same record.")] = 1,
) -> None:
    """DP-SGD; each record is in one batch of an epoch, drawn for it alone (balls in bins)."""


@_add("shuffled", "shuffled_event", _HUNDRED, _ask)
def _shuffled(
    noise_multiplier: NoiseMultiplier, steps: EpochSteps, epochs: WholeEpochs = 1
) -> None:
    """DP-SGD; batches are cut from a shuffled list, or always the same."""


@_add(
    "bandmf",
    "bandmf_event",
    "--noise-multiplier 1 --sampling-rate .005 --steps 2000 --bands 10 --delta 1e-6",
    _ask,
)
def _bandmf(
    noise_multiplier: NoiseMultiplier,
    sampling_rate: Rate,
    steps: AllSteps,
    bands: Annotated[int, option("Bands of the strategy, whose columns have norm 1.")],
) -> None:
    """DP-FTRL with a banded strategy and sampled batches (BandMF)."""
