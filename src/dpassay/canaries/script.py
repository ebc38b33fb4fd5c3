"""A whole script as the one training of an audit: ``dpassay audit train.py --one-run``."""

import importlib.util
import re
from collections.abc import Sequence
from pathlib import Path

from dpassay._rng import for_trial
from dpassay.auditing.adapters.script import Script, from_script
from dpassay.auditing.claims import Claim
from dpassay.canaries.session import audit
from dpassay.errors import (
    AuditStopped,
    DpassayError,
    InvalidTarget,
    ScriptFailed,
    describe,
)
from dpassay.types import Verdict

_ON_TORCH = re.compile(rb"\b(torch|opacus|lightning|transformers)\b")
_SCRIPT = 1  # the stream of the script's own randomness; 0 is that of the coins
LINES = """Add, for canaries among the records:
    canaries = dpassay.canaries.for_images(train_set, n=500)    # or for_text, for_rows
    train_set = canaries.insert(train_set)
    ...                                                         # the training
    print(canaries.judge(lambda x, y: -loss(model(x), y), claim="8,1e-5"))
or, for canaries among the gradients, after make_private:
    watch = dpassay.probe.optimizer(optimizer)
    ...
    print(watch.judge(delta=1e-5))"""


def audit_script(
    path: str | Path,
    arguments: Sequence[str] = (),
    *,
    claim: Claim | None = None,
    confidence: float | None = None,
    rng: int = 0,
    in_place: bool = False,
) -> list[Verdict]:
    """The verdicts of a script that inserts and judges canaries of its own; it is run once.

    It runs in a scratch copy of the working folder, with ``random``, NumPy's global generator and
    torch's seeded, as in :func:`dpassay.auditing.from_script`. The coins have a stream of their own
    that nothing in the script reads.

    Args:
        path: of the script.
        arguments: what it finds in ``sys.argv[1:]``.
        claim: to be tested instead of what the script states.
        confidence: of each verdict, instead of what the script states.
        rng: seed of coins and script.
        in_place: run it where it is; the files that it writes are kept.

    Raises:
        InvalidArgument: no such file.
        InvalidTarget: the script judges nothing.
        AuditStopped: the script failed.

    """
    script = from_script(path, arguments, in_place=in_place)
    _load_torch_for(script)
    with audit(rng=rng, claim=claim, confidence=confidence) as session:
        try:
            script.run_once(int(for_trial(session.seed, 0, _SCRIPT).integers(2**63)))
        except ScriptFailed as failed:
            raise AuditStopped(str(failed)) from None
        except DpassayError:
            raise
        except Exception as error:
            raise AuditStopped(f"{script.path.name} failed: {describe(error)}") from None
    if not session.verdicts:
        raise InvalidTarget(f"{script.path.name} was run, and nothing was judged. {LINES}")
    return session.verdicts


def _load_torch_for(script: Script) -> None:
    """Load torch before a script that uses it: only then can its generator be seeded."""
    texts = (file.read_bytes() for file in (script.path, *script.modules))
    if importlib.util.find_spec("torch") is not None and any(map(_ON_TORCH.search, texts)):
        import torch  # noqa: F401
