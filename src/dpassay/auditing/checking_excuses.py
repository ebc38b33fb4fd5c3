"""Why an obligation that a pair broke may be in order all the same: then it is undecided."""

from typing import TYPE_CHECKING

from dpassay.replay.obligations import HIDDEN, Broken

if TYPE_CHECKING:
    from dpassay.auditing.checking_session import Seen

UNFOLLOWED = (
    "something random is drawn where it is not followed, in another thread or process or by "
    "compiled code for example; it may protect what differs"
)


def excuse(seen: "Seen", broken: Broken, *, delta: float, unfollowed: bool) -> str:
    """Why what broke on a pair may be protected, empty if nothing speaks for it.

    Args:
        seen: what the pair showed.
        broken: one of the obligations that it broke.
        delta: of the claim.
        unfollowed: something random is not seen.

    """
    if broken.rule == "DPA103" and seen.per_record:
        return (
            "the noise has one entry per record, and nothing that is released differs; it may be "
            "an augmentation"
        )
    if broken.rule == "DPA101" and delta > 0 and seen.thresholded:
        return (
            "noisy values are compared with a threshold there, which may hide the calls at a price "
            "in delta that is not known here"
        )
    if broken.rule in ("DPA101", "DPA103") and seen.in_parts:
        return "one and the same draw is added in other parts"
    if broken.rule == "DPA301" and seen.reordered:
        return (
            "the same numbers are released in another order, and independent noise may be exchanged"
        )
    if broken.rule in HIDDEN and seen.blind:
        return (
            f"the draw at {seen.blind[0]} was not followed to what it protects; it may be the "
            "noise of this"
        )
    return UNFOLLOWED if broken.rule in HIDDEN and unfollowed else ""
