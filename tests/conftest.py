"""What all tests share: Hypothesis without randomness, the markers, Ctrl-C that is heard."""

import signal

from hypothesis import settings

collect_ignore = ["typing"]  # scripts for a type checker, half of them wrong

settings.register_profile("dpassay", derandomize=True, deadline=None, max_examples=60)
settings.load_profile("dpassay")


if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell ignores it in what it puts into the background, and so would the processes that tests
    # start and interrupt.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config):
    config.addinivalue_line("markers", "golden: a published or independently computed number")
