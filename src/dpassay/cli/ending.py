"""How the program ends: with an exit code that tells what happened, whatever happened.

0 not refuted (or done), 1 refuted, 2 misuse, 3 stopped before it could say, 130 interrupted by
Ctrl-C. Since 0 says something about privacy, no code that is being audited may choose it: a target
that ends the process, while it is imported for example, ends it with 3.

Nothing is imported here that takes time, so that Ctrl-C ends in one line from the start.
"""

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any

REFUTED, MISUSE, STOPPED, INTERRUPTED = 1, 2, 3, 130
_AGAIN_SECONDS = 0.05


class Ending:
    """What is known of how this process will end."""

    def __init__(self) -> None:
        self.interrupted = False
        self._told = False  # whether the user was told that
        self._code: int | None = None  # once it is decided
        self._home = os.getpid()
        self._leave = os._exit

    def watch(self) -> None:
        """Hear Ctrl-C, unless whoever started this process wants it ignored; guard the exits."""
        main_thread = threading.current_thread() is threading.main_thread()
        if main_thread and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, self._hear)
            sys.unraisablehook = self._hear_again
        for name in ("_exit", "execv", "execve"):
            self._guard(name)

    def tell_interrupted(self, text: str = "interrupted before it could say.") -> None:
        """Tell in one line that the command was interrupted."""
        self._told = True
        print(f"dpassay: {text}", file=sys.stderr, flush=True)

    def decide(self, code: int) -> int:
        """The exit code; from now on nothing changes it."""
        if signal.getsignal(signal.SIGINT) == self._hear:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # All is said: only cleaning up is left.
        if self.interrupted:
            if not self._told:
                self.tell_interrupted()
            code = INTERRUPTED
        self._code = code
        return code

    def _hear(self, *_: Any) -> None:
        self.interrupted = True
        raise KeyboardInterrupt

    def _hear_again(self, unraisable: Any) -> None:
        """Python drops what is raised while it collects garbage; Ctrl-C must not get lost there."""
        if issubclass(unraisable.exc_type, KeyboardInterrupt):
            import _thread

            threading.Timer(_AGAIN_SECONDS, _thread.interrupt_main).start()
        else:
            sys.__unraisablehook__(unraisable)

    def _guard(self, name: str) -> None:
        """Have a function that ends the process end it with our code, not with one of its own."""
        import importlib

        real: Callable[..., Any] | None = getattr(os, name, None)
        if real is None:
            return

        def guard(*arguments: Any) -> Any:
            if os.getpid() != self._home:  # a child's own business
                return real(*arguments)
            if self._code is None:
                text = f"the code under audit ended this process (os.{name}); there is no verdict."
                say_plainly(text)
            with contextlib.suppress(Exception):
                sys.stdout.flush()
            self._leave(STOPPED if self._code is None else self._code)

        guard.__name__ = name
        for module in (os, importlib.import_module(os.name)):
            setattr(module, name, guard)


def say_plainly(text: str) -> None:
    """One line on standard error, whatever a target has done to sys.stderr."""
    with contextlib.suppress(OSError):
        os.write(2, f"dpassay: {' '.join(text.split())}\n".encode())


ending = Ending()
