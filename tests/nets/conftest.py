import pytest

from extras import needs


@pytest.fixture(autouse=True)
def _jax():
    needs("jax", "lab")
