"""BLAS threads, which cost more than they give on the small products of most fits.

On a machine whose cores are busy, a thread that waits for the others spins: fits of a tenth of a
second took seconds of processor time.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

__all__ = ["limit_learner_threads", "limit_threads"]

LARGE = 1 << 24
"""Numbers in the data from which on threads are left as they are: 128 MB of them."""


@contextmanager
def limit_threads(n_numbers: int = 0) -> Iterator[None]:
    """One BLAS thread inside the block, unless the data have so many numbers that threads pay.

    To be entered once per fit: it is cheap, but not free. The limit holds for the whole process.
    """
    if n_numbers >= LARGE:
        yield
        return
    with _controller().limit(limits=1, user_api="blas"):
        yield


@lru_cache(maxsize=1)
def _controller() -> Any:
    """The BLAS libraries of NumPy and SciPy; to look for them takes milliseconds."""
    import scipy.linalg  # noqa: F401  (SciPy may bring a library of its own)
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


@contextmanager
def limit_learner_threads() -> Iterator[None]:
    """One thread for scikit-learn's learners inside the block, those of OpenMP included."""
    with _learner_controller().limit(limits=1):
        yield


@lru_cache(maxsize=1)
def _learner_controller() -> Any:
    """All libraries with threads that scikit-learn's trees and linear models bring."""
    import sklearn.ensemble  # noqa: F401
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
