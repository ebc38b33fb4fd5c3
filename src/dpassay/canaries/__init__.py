"""Canaries for other people's trainings: records of their own, and a watch on their optimizer.

Names are imported when they are first used.
"""

from typing import TYPE_CHECKING

from dpassay._lazy import lazily

if TYPE_CHECKING:
    from dpassay.canaries.canaries import Canaries
    from dpassay.canaries.images import for_images
    from dpassay.canaries.rows import for_rows, mislabelled
    from dpassay.canaries.session import Session, audit
    from dpassay.canaries.text import TextCanaries, for_text
    from dpassay.canaries.watch import Watch
    from dpassay.canaries.watch_jax import GradientWatch, watch_gradients
    from dpassay.canaries.watch_nets import watch_network

_PUBLIC = {
    "Canaries": "dpassay.canaries.canaries",
    "GradientWatch": "dpassay.canaries.watch_jax",
    "Session": "dpassay.canaries.session",
    "TextCanaries": "dpassay.canaries.text",
    "Watch": "dpassay.canaries.watch",
    "audit": "dpassay.canaries.session",
    "for_images": "dpassay.canaries.images",
    "for_rows": "dpassay.canaries.rows",
    "for_text": "dpassay.canaries.text",
    "mislabelled": "dpassay.canaries.rows",
    "watch_gradients": "dpassay.canaries.watch_jax",
    "watch_network": "dpassay.canaries.watch_nets",
}

__all__ = [
    "Canaries",
    "GradientWatch",
    "Session",
    "TextCanaries",
    "Watch",
    "audit",
    "for_images",
    "for_rows",
    "for_text",
    "mislabelled",
    "watch_gradients",
    "watch_network",
]

lazily(__name__, _PUBLIC)
