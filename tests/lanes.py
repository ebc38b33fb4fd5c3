"""Which tests are not in the quick lane: they train, play long games or start programs.

``make quick`` leaves them out. One table instead of a mark in every module, so that the quick lane
can be read at one place.
"""

from pathlib import Path

# Folders and files below tests/, without their ending, and parts of dpassay whose doctests train.
SLOW = (
    "adversaries",
    "attacks",
    "auditing",
    "bounds/onerun",
    "bounds/test_bayes",
    "bounds/test_betting",
    "bounds/test_curve_tests",
    "bounds/test_conditional",
    "bounds/test_location",
    "bounds/test_metrics",
    "bounds/test_pooled",
    "bounds/test_scores",
    "bounds/test_sequential",
    "bounds/test_steps",
    "bounds/test_worst_case",
    "cli",
    "learn",
    "mechanisms/test_choosing",
    "mechanisms/test_selection",
    "nets",
    "optim",
    "plugin",
    "privacy/test_accounting",
    "privacy/test_calibration",
    "privacy/test_fourier",
    "privacy/test_groups",
    "privacy/test_loss_distribution",
    "privacy/test_margins",
    "replay",
    "report",
    "reproduce",
    "runs/test_hostile",
    "runs/test_play",
    "runs/test_survival",
    "synth",
    "test_datasets",
    "test_docs",
    "test_examples",
    "test_golden",
    "test_handed",
    "test_no_record_is_quoted",
    "test_probe",
    "test_skips",
    "test_special",
    "test_threads",
    "test_typing",
    "zoo",
)


def is_slow(path, tests):
    """Whether a test file belongs to the slow ones; doctests count by the part they stand in."""
    path = Path(path)
    try:
        name = path.relative_to(tests)
    except ValueError:
        parts = path.parts[path.parts.index("src") + 2 :] if "src" in path.parts else ()
        return bool(parts) and parts[0] in SLOW
    stem = str(name.with_suffix(""))
    return any(stem == slow or stem.startswith(slow + "/") for slow in SLOW)
