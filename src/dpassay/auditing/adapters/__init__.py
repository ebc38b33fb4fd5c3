"""What people have, as ``mechanism(data, rng)``: an estimator, a script, a function, a command.

Each is a small frozen object, so that it can be sent to workers and its code enters the key of a
run.
"""

from dpassay.auditing.adapters.command import from_command
from dpassay.auditing.adapters.estimator import from_estimator
from dpassay.auditing.adapters.jax import from_jax
from dpassay.auditing.adapters.script import from_script
from dpassay.errors import CommandFailed, ScriptFailed

__all__ = [
    "CommandFailed",
    "ScriptFailed",
    "from_command",
    "from_estimator",
    "from_jax",
    "from_script",
]
