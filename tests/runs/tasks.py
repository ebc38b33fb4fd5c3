"""Tasks in a module that worker processes can import."""

import contextlib
import time

from dpassay._rng import for_trial

BAD = 5


def noisy(trials):
    """A score per trial, which depends on the trial's number alone; trial 9 of each 40 fails."""
    if any(trial % 40 == 9 for trial in trials):
        raise ZeroDivisionError(f"in {trials}")
    return [for_trial(7, trial).normal() for trial in trials]


def slow(trials):
    """The same, and takes a while."""
    time.sleep(0.05 * len(trials))
    return noisy(trials)


def some_fail(data, rng):
    """A mechanism with too little noise for epsilon 1, of which some runs fail."""
    if rng.random() < 0.03:
        raise RuntimeError
    return len(data) + rng.laplace(scale=0.5)


class Elsewhere:
    """A task that cannot be unpacked."""

    def __call__(self, trials):
        return trials

    def __reduce__(self):
        return fail_to_import, ()


def fail_to_import():
    raise ImportError("not here")


def spoiled(action):
    """A task whose trial 5 does something else; the others return their number."""

    def task(trials):
        for trial in trials:
            if trial == BAD:
                action()
        return [float(trial) for trial in trials]

    return task


def hang():
    time.sleep(60)


def stubborn():
    """Hang, and ignore whatever is raised."""
    while True:
        with contextlib.suppress(BaseException):
            time.sleep(60)
