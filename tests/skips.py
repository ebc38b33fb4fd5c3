"""Which tests may be skipped, and why; any other skip fails the whole run.

A skip is silent, and a test that is always skipped checks nothing. So each reason stands here, with
the condition under which it is in order.
"""

import re
from collections import Counter
from importlib.util import find_spec

# Reasons that do not depend on what is installed.
ALWAYS = (
    r"SCIPY_ARRAY_API",  # scikit-learn's own check of array libraries wants that variable set
    r"this user may write anywhere",  # a test of missing permissions, run as root
    r"signals (and forks )?of POSIX",
    r"a place where nobody can write",
    r"diffprivlib is no part of any extra",  # it wants an older scikit-learn
    r"needs the program \w+",  # the gate requires programs, so there this never skips
)
ABSENT = re.compile(r"needs (\w+): pip install 'dpassay\[|could not import '(\w+)[\w.]*'")
# Modules that import an optional package at their top, whose doctests the quick lane leaves out.
UNIMPORTED = re.compile(r"unable to import module .*?/(\w+)\.py")
NEEDED = {
    "held_out": "torch",
    "jax": "jax",
    "opacus": "opacus",
    "tensors": "torch",
    "torch": "torch",
    "torch_draws": "torch",
    "torch_programs": "torch",
}


def in_order(reason, installed=lambda name: find_spec(name) is not None):
    """Whether a skip for this reason is one of those that are expected."""
    absent = ABSENT.search(reason)
    if absent:
        return not installed(absent[1] or absent[2])
    unimported = UNIMPORTED.search(reason)
    if unimported:
        return unimported[1] in NEEDED and not installed(NEEDED[unimported[1]])
    return any(re.search(pattern, reason) for pattern in ALWAYS)


def count(reasons):
    """The reasons with how often each occurred, most frequent first, and those out of order."""
    counts = Counter(reasons)
    return counts.most_common(), sorted(reason for reason in counts if not in_order(reason))
