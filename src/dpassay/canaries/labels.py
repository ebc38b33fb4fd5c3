"""Labels of canaries: drawn at random, with another one for each stand-in."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpassay.canaries.forms import Form, read_labels


def pick_labels(
    form: Form, classes: int | Sequence[Any] | None, size: int, random: np.random.Generator
) -> tuple[NDArray[Any] | None, NDArray[Any] | None]:
    """A label for each of so many records, and another one for each stand-in; None without labels.

    Of classes any two; where labels are real numbers, plus or minus one.
    """
    if form.label() is None:
        return None, None
    found = read_labels(form, classes)
    if found is None:
        signs = random.choice([-1.0, 1.0], size)
        return signs, -signs
    first = random.integers(len(found), size=size)
    other = (first + random.integers(1, len(found), size=size)) % len(found)
    return found[first], found[other]
