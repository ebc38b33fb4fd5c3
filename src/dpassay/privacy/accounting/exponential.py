"""Exponential mechanisms of one epsilon, composed as adaptively as an adversary may."""

from functools import partial

from dpassay.errors import UnsupportedEvent
from dpassay.privacy import events, range_composition
from dpassay.privacy.accounting.leaves import Leaves
from dpassay.privacy.combined import Numeric
from dpassay.privacy.curves import Curve


def price(leaves: Leaves) -> Curve:
    """An upper bound that is exact but for its grid: the value of the adversary's best play.

    Raises:
        UnsupportedEvent: there is another event than exponential mechanisms of one epsilon, or
            there are more answers than a table can hold.

    """
    (leaf, count), *others = leaves.items()
    if others or not isinstance(leaf, events.BoundedRange) or not leaf.epsilon > 0:
        raise UnsupportedEvent(
            "method='exponential' prices exponential mechanisms of one epsilon, nothing else."
        )
    most = range_composition.MOST_ANSWERS
    least, largest = range_composition.SMALLEST_EPSILON, range_composition.LARGEST_EPSILON
    if count > most or not least <= leaf.epsilon <= largest:
        raise UnsupportedEvent(
            f"method='exponential' composes up to {most} answers of epsilon {least:g} to "
            f"{largest:g}, not {count} of {leaf.epsilon:g}."
        )
    name = f"{count} exponential mechanisms of epsilon {leaf.epsilon:g}"
    return Numeric(name, delta_at=partial(range_composition.delta, leaf.epsilon, count))
