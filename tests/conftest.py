"""What all tests share: Hypothesis without randomness, and the markers."""

from hypothesis import settings

settings.register_profile("dpassay", derandomize=True, deadline=None, max_examples=60)
settings.load_profile("dpassay")


def pytest_configure(config):
    config.addinivalue_line("markers", "golden: a published or independently computed number")
