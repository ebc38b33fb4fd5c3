"""What is sent to somebody's worker: pickled by value, it asks for versions before it plays.

It uses nothing of dpassay before it has seen that the worker has the same version: so a worker that
lacks it, or has another one, is named.
"""

from collections.abc import Callable
from typing import Any


def make_call(versions: dict[str, str]) -> Callable[..., Any]:
    """The function that plays a portion on a worker.

    It returns the outcomes, a text that says why the worker is refused, or None for a portion that
    was begun before and cannot be played again.
    """

    def play_there(
        content: tuple[str, bytes], trials: list[int], rules: tuple, name: str, ours: bool
    ) -> Any:
        import os
        import platform

        where = f"the Dask worker on {platform.node()} (process {os.getpid()})"
        try:
            import dpassay
        except ImportError:
            return f"{where} has no dpassay. Install dpassay {versions['dpassay']} there."
        theirs = dpassay.__version__
        if theirs != versions["dpassay"]:
            mine = versions["dpassay"]
            return f"{where} has dpassay {theirs}, this process {mine}. Give both the same."
        from dpassay.runs import there

        wrong = there.find_other_version(tuple(versions.items()))
        if wrong:
            return f"{where} has {wrong}. Give both the same."
        return there.play_as_worker(content, trials, rules, name, ours)

    return play_there
