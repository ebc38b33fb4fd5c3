"""Honest and broken algorithms, with their truth: test subjects for audits."""

from typing import TYPE_CHECKING

from dpassay._lazy import lazily

if TYPE_CHECKING:
    from dpassay.zoo import catalogue, learners, mechanisms, training_bugs

_PUBLIC = {
    "catalogue": "dpassay.zoo.catalogue",
    "learners": "dpassay.zoo.learners",
    "mechanisms": "dpassay.zoo.mechanisms",
    "training_bugs": "dpassay.zoo.training_bugs",
}

__all__ = ["catalogue", "learners", "mechanisms", "training_bugs"]

lazily(__name__, _PUBLIC)
