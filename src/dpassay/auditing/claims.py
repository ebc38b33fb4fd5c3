"""Claims written in a few characters: ``3,1e-5``, ``gdp:1.0``, ``dp-sgd:...``."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from numbers import Real
from typing import Any, cast

from dpassay import _check
from dpassay.errors import InvalidArgument
from dpassay.privacy import GDP, ZCDP, ApproxDP, PureDP, account
from dpassay.privacy.accounting import AccountMethod
from dpassay.privacy.curves import Curve
from dpassay.privacy.events import (
    Event,
    allocation_event,
    bandmf_event,
    dp_sgd_event,
    shuffled_event,
)
from dpassay.privacy.events.words import in_words
from dpassay.types import PrivacyCurve

Claim = PrivacyCurve | tuple[float, float] | str
EXAMPLES = (
    "'3' (pure), '3,1e-5', 'gdp:1.0', 'rho:0.1', "
    "'dp-sgd:noise_multiplier=1.1,sampling_rate=0.01,steps=1000', "
    "'allocation:noise_multiplier=1,steps=100,epochs=10', "
    "'shuffled:noise_multiplier=1,steps=100,epochs=10' or "
    "'bandmf:noise_multiplier=1,sampling_rate=0.01,steps=1000,bands=10'"
)


def parse_claim(
    text: str,
    *,
    neighbouring: str = "add-remove",
    assumptions: Iterable[str] = (),
    n_records: int | None = None,
) -> Curve:
    """The privacy curve that a short text stands for.

    Args:
        text: ``epsilon``, ``epsilon,delta``, ``gdp:mu``, ``rho:rho``; or ``dp-sgd:``,
            ``allocation:``, ``shuffled:`` or ``bandmf:`` with the arguments of the event of that
            name (:func:`dpassay.dp_sgd_event` and its like), which is priced by its PLD; with
            ``method=best`` by the best of all methods.
        neighbouring: the relation that the claim is made under.
        assumptions: what it takes as public; trainings say themselves what they are.
        n_records: the number of records, if it is public.

    >>> parse_claim("3,1e-5")
    ApproxDP(epsilon=3, delta=1e-05)
    >>> parse_claim("shuffled:noise_multiplier=2,steps=100,epochs=4").epsilon(1e-5)
    4.377

    """
    word, colon, rest = text.strip().partition(":")
    statement = {
        "neighbouring": neighbouring,
        "assumptions": tuple(assumptions),
        "n_records": n_records,
    }
    if not colon:
        return _epsilon_delta(text, statement)
    if word not in _WORDS:
        raise InvalidArgument(f"claim={text!r} must be like {EXAMPLES}.")
    return _WORDS[word](rest, statement)


def as_claim(claim: Claim, *, neighbouring: str = "add-remove") -> PrivacyCurve:
    """The privacy curve that is claimed, in whatever form it is given.

    Args:
        claim: a curve, a pair (epsilon, delta), or a text as :func:`parse_claim` takes it.
        neighbouring: the relation of a pair or a text; a curve has its own.

    Raises:
        InvalidArgument: it is none of these.

    >>> as_claim((3, 1e-5)) == as_claim("3,1e-5") == ApproxDP(3.0, 1e-5)
    True

    """
    if isinstance(claim, str):
        return parse_claim(claim, neighbouring=neighbouring)
    if isinstance(claim, tuple | list) and len(claim) == 2 and all(map(_is_number, claim)):
        return ApproxDP(*map(float, claim), neighbouring=neighbouring)  # type: ignore[arg-type]
    if not isinstance(claim, PrivacyCurve):
        raise InvalidArgument(
            f"claim={_check.shown(claim)} must be a privacy curve such as ApproxDP(3.0, 1e-5), a "
            f"pair (epsilon, delta), or a text: {EXAMPLES}."
        )
    return claim


def _is_number(value: Any) -> bool:
    return type(value) is not bool and isinstance(value, Real)


def claim_text(claim: Any) -> str | None:
    """The text that :func:`parse_claim` turns into this very claim; None if there is none.

    >>> claim_text(GDP(0.5)), claim_text(PureDP(3.0))
    ('gdp:0.5', '3.0')

    """
    write = _TEXTS.get(cast(type[Any], type(claim)))
    if write is None:
        return None
    text = write(claim)
    same = parse_claim(
        text,
        neighbouring=claim.neighbouring,
        assumptions=claim.assumptions,
        n_records=claim.n_records,
    )
    return text if same == claim else None


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InvalidArgument(f"{name}={text!r} must be a number. Write {EXAMPLES}.") from None


def _epsilon_delta(text: str, statement: dict[str, Any]) -> Curve:
    parts = text.split(",")
    if len(parts) > 2:
        raise InvalidArgument(f"claim={text!r} must be like {EXAMPLES}.")
    epsilon = _number("epsilon", parts[0])
    if len(parts) == 1:
        return PureDP(epsilon, **statement)
    return ApproxDP(epsilon, _number("delta", parts[1]), **statement)


@dataclass(frozen=True)
class _Training:
    """A training that a claim can name: the event's maker, and the arguments it takes.

    Attributes:
        make: the event from these arguments.
        needed: names that must be given.
        more: names that may be given.
        takes_relation: whether it can be stated under replace-one too.
        warning: what a reader of the claim should know.

    """

    make: Callable[..., Event]
    needed: tuple[str, ...]
    more: tuple[str, ...] = ()
    takes_relation: bool = False
    warning: tuple[str, ...] = ()


def _price_training(word: str, text: str, statement: dict[str, Any]) -> Curve:
    training = _TRAININGS[word]
    pairs = [part.partition("=") for part in text.split(",")]
    given = {name.strip(): value.strip() for name, _, value in pairs}
    method = given.pop("method", None)
    if not set(training.needed) <= set(given) <= {*training.needed, *training.more}:
        more = f" and may name {', '.join(training.more)}" if training.more else ""
        raise InvalidArgument(
            f"claim='{word}:{text}' must name {', '.join(training.needed)}{more}, for example "
            f"{EXAMPLES}."
        )
    values: dict[str, Any] = {name: _number(name, value) for name, value in given.items()}
    event = training.make(**values, **_relation(word, training, statement["neighbouring"]))
    if method is None:
        method = "best" if word == "shuffled" or values.get("sampling_rate") == 1 else "pld"
    chosen: AccountMethod = _check.choice("method", method, ("best", "pld"))
    public = () if word == "dp-sgd" else (f"the training is {in_words(event)}", *training.warning)
    return account(event, chosen, assumptions=public, n_records=statement["n_records"])


def _relation(word: str, training: _Training, neighbouring: str) -> dict[str, str]:
    if training.takes_relation:
        return {"neighbouring": neighbouring}
    if neighbouring != "add-remove":
        raise InvalidArgument(
            f"neighbouring={neighbouring!r} must be 'add-remove' for claims '{word}:', which are "
            "about a record added or removed."
        )
    return {}


def dp_sgd_text(noise_multiplier: float, sampling_rate: float, steps: int) -> str:
    """The text of the best curve that is proved for DP-SGD.

    >>> dp_sgd_text(1.1, 0.01, 1000)
    'dp-sgd:noise_multiplier=1.1,sampling_rate=0.01,steps=1000,method=best'

    """
    return (
        f"dp-sgd:noise_multiplier={float(noise_multiplier)!r},"
        f"sampling_rate={float(sampling_rate)!r},steps={steps},method=best"
    )


_TRAININGS: dict[str, _Training] = {
    "dp-sgd": _Training(
        dp_sgd_event, ("noise_multiplier", "sampling_rate", "steps"), takes_relation=True
    ),
    "allocation": _Training(allocation_event, ("noise_multiplier", "steps"), ("epochs", "k")),
    "shuffled": _Training(
        shuffled_event,
        ("noise_multiplier", "steps"),
        ("epochs",),
        takes_relation=True,
        warning=("batches are not Poisson samples, whose smaller epsilon is not proved for them",),
    ),
    "bandmf": _Training(bandmf_event, ("noise_multiplier", "sampling_rate", "steps", "bands")),
}
_WORDS: dict[str, Callable[[str, dict[str, Any]], Curve]] = {
    "gdp": lambda text, statement: GDP(_number("mu", text), **statement),
    "rho": lambda text, statement: ZCDP(_number("rho", text), **statement),
    **{word: partial(_price_training, word) for word in _TRAININGS},
}
_TEXTS: dict[type, Callable[[Any], str]] = {
    PureDP: lambda claim: repr(float(claim.epsilon_upper)),
    ApproxDP: lambda claim: f"{float(claim.epsilon_upper)!r},{float(claim.delta_upper)!r}",
    GDP: lambda claim: f"gdp:{float(claim.mu)!r}",
    ZCDP: lambda claim: f"rho:{float(claim.rho)!r}",
}
