"""Arrays and claims as plain JSON, for checkpoints and logs."""

import base64
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpassay.auditing.claims import Claim, claim_text, parse_claim
from dpassay.errors import InvalidArgument
from dpassay.privacy.curves import Curve


def write_array(values: NDArray[Any]) -> str:
    """An array as a text that JSON, pickles and torch.load(weights_only=True) take as it is."""
    return base64.b64encode(np.ascontiguousarray(values).tobytes()).decode("ascii")


def read_array(text: str, kind: type) -> NDArray[Any]:
    """The array of numbers of this kind that :func:`write_array` wrote."""
    return np.frombuffer(base64.b64decode(text), kind).copy()


def write_claim(claim: Claim | None) -> Any:
    """A claim as plain JSON; a curve that has no text is a dict that says so."""
    if claim is None or isinstance(claim, str):
        return claim
    if isinstance(claim, tuple | list):
        return [float(value) for value in claim]
    return {
        "text": claim_text(claim),
        "neighbouring": claim.neighbouring,
        "assumptions": list(claim.assumptions),
        "n_records": claim.n_records if isinstance(claim, Curve) else None,
    }


def read_claim(kept: Any) -> Claim | None:
    """What :func:`write_claim` wrote.

    Raises:
        InvalidArgument: it was a curve that cannot be written.

    """
    if kept is None or isinstance(kept, str):
        return kept
    if isinstance(kept, list):
        return (kept[0], kept[1])
    if kept["text"] is None:
        raise InvalidArgument(
            "claim is missing: that of the script has no text to write into a log. Pass --claim."
        )
    given = {name: kept[name] for name in ("neighbouring", "assumptions", "n_records")}
    return parse_claim(kept["text"], **given)
