"""Claims written in a few characters: ``3,1e-5``, ``gdp:1.0``, ``dp-sgd:...``."""

from collections.abc import Callable

from dpassay.errors import InvalidArgument
from dpassay.privacy import GDP, ZCDP, ApproxDP, PureDP, account, dp_sgd_event
from dpassay.privacy.curves import Curve

EXAMPLES = (
    "'3' (pure), '3,1e-5', 'gdp:1.0', 'rho:0.1' or "
    "'dp-sgd:noise_multiplier=1.1,sampling_rate=0.01,steps=1000'"
)


def parse_claim(text: str, *, neighbouring: str = "add-remove") -> Curve:
    """The privacy curve that a short text stands for.

    Args:
        text: ``epsilon``, ``epsilon,delta``, ``gdp:mu``, ``rho:rho`` or ``dp-sgd:`` with the
            arguments of :func:`dpassay.dp_sgd_event`, which is priced by its PLD.
        neighbouring: the relation that the claim is made under.

    >>> parse_claim("3,1e-5")
    ApproxDP(epsilon=3, delta=1e-05)

    """
    word, colon, rest = text.strip().partition(":")
    if not colon:
        return _epsilon_delta(text, neighbouring)
    if word not in _WORDS:
        raise InvalidArgument(f"claim={text!r} must be like {EXAMPLES}.")
    return _WORDS[word](rest, neighbouring)


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InvalidArgument(f"{name}={text!r} must be a number. Write {EXAMPLES}.") from None


def _epsilon_delta(text: str, neighbouring: str) -> Curve:
    parts = text.split(",")
    if len(parts) > 2:
        raise InvalidArgument(f"claim={text!r} must be like {EXAMPLES}.")
    epsilon = _number("epsilon", parts[0])
    if len(parts) == 1:
        return PureDP(epsilon, neighbouring=neighbouring)
    return ApproxDP(epsilon, _number("delta", parts[1]), neighbouring=neighbouring)


def _dp_sgd(text: str, neighbouring: str) -> Curve:
    pairs = [part.partition("=") for part in text.split(",")]
    given = {name.strip(): value for name, _, value in pairs}
    needed = ("noise_multiplier", "sampling_rate", "steps")
    if set(given) != set(needed):
        raise InvalidArgument(
            f"claim='dp-sgd:{text}' must name {', '.join(needed)}, for example {EXAMPLES}."
        )
    values = {name: _number(name, given[name]) for name in needed}
    event = dp_sgd_event(
        values["noise_multiplier"],
        values["sampling_rate"],
        values["steps"],  # type: ignore[arg-type]
        neighbouring=neighbouring,  # type: ignore[arg-type]
    )
    return account(event, "best" if values["sampling_rate"] == 1 else "pld")


_WORDS: dict[str, Callable[[str, str], Curve]] = {
    "gdp": lambda text, relation: GDP(_number("mu", text), neighbouring=relation),  # type: ignore[arg-type]
    "rho": lambda text, relation: ZCDP(_number("rho", text), neighbouring=relation),  # type: ignore[arg-type]
    "dp-sgd": _dp_sgd,
}
