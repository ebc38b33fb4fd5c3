"""Attacks on released tables: membership of records, and the three risks of anonymisation.

Names are imported when they are first used.
"""

from typing import TYPE_CHECKING

from dpassay._lazy import lazily

if TYPE_CHECKING:
    from dpassay.attacks.tables.released import COPYING, NO_EPSILON, TableAttack, attack_table
    from dpassay.attacks.tables.risks import KINDS, Risk, measure_risks
    from dpassay.attacks.tables.scores import SCORES

_PUBLIC = {
    "COPYING": "dpassay.attacks.tables.released",
    "KINDS": "dpassay.attacks.tables.risks",
    "NO_EPSILON": "dpassay.attacks.tables.released",
    "SCORES": "dpassay.attacks.tables.scores",
    "Risk": "dpassay.attacks.tables.risks",
    "TableAttack": "dpassay.attacks.tables.released",
    "attack_table": "dpassay.attacks.tables.released",
    "measure_risks": "dpassay.attacks.tables.risks",
}

__all__ = [
    "COPYING",
    "KINDS",
    "NO_EPSILON",
    "SCORES",
    "Risk",
    "TableAttack",
    "attack_table",
    "measure_risks",
]

lazily(__name__, _PUBLIC)
