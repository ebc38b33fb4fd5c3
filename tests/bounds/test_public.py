"""The public names of dpassay.bounds, and that importing the package costs nothing."""

import subprocess
import sys

import pytest

import dpassay
from dpassay import bounds


@pytest.mark.parametrize("name", bounds.__all__)
def test_every_name_is_there(name):
    assert callable(getattr(bounds, name))
    assert name in dir(bounds)


def test_the_contract_of_the_top_level():
    assert dpassay.lower_bound is bounds.lower_bound
    assert dpassay.lower_bound_from_counts is bounds.lower_bound_from_counts


def test_unknown_names_are_attribute_errors():
    with pytest.raises(AttributeError, match=r"'dpassay.bounds' has no attribute 'upper_bound'"):
        bounds.upper_bound  # noqa: B018


def test_importing_loads_nothing_heavy():
    code = "import sys, dpassay.bounds; print([m for m in ('scipy', 'pandas') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_bounds_need_neither_scipy_stats_nor_dp_accounting():
    code = (
        "import sys, dpassay; "
        "dpassay.lower_bound([1.0] * 9, [0.0] * 9, delta=1e-5, method='gdp', threshold='kfold'); "
        "print([m for m in ('scipy.stats', 'dp_accounting', 'pandas') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
