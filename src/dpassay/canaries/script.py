"""A whole script as the one training of an audit: ``dpassay audit train.py --one-run``."""

import glob
import importlib.util
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from dpassay._rng import for_trial
from dpassay.auditing.adapters.script import Script, from_script
from dpassay.auditing.claims import Claim
from dpassay.auditing.judging import TRAINING
from dpassay.canaries.kept import keep, recall
from dpassay.canaries.session import Asked, Session, audit
from dpassay.canaries.watch_file import judge_so_far, read_watch
from dpassay.errors import (
    AuditStopped,
    DpassayError,
    InvalidTarget,
    ScriptFailed,
    describe,
)
from dpassay.runs import TrialLog, opened, run_key
from dpassay.types import Verdict

_ON_TORCH = re.compile(rb"\b(torch|opacus|lightning|transformers)\b")
_SCRIPT = 1  # the stream of the script's own randomness; 0 is that of the coins
_NOT_ASKED = Asked(None, None, 0.95)  # of a watch: what its accountant was told
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
    store: str | Path | TrialLog | None = None,
    tell: Callable[[Verdict, Path | None], None] = lambda verdict, file: None,
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
        in_place: run it where it is; the files that it writes are kept, checkpoints among them.
        store: a file that keeps what the training showed, also where the script fails or is
            interrupted after its verdict, or asks a claim that does not fit. The same call, and
            one with another claim or confidence, then does not train again. Watches are kept
            beside it as they go, in files of their own, until the script has judged.
        tell: called where the script ends too early, by an error or Ctrl-C, with the verdict on the
            steps that a watch had seen and was not asked about, and with the file that keeps it.
            With a store, also for what an earlier call left that was killed.

    Raises:
        InvalidArgument: no such file.
        InvalidTarget: the script judges nothing.
        AuditStopped: the script failed.

    """
    script = from_script(path, arguments, in_place=in_place)
    with opened(store) as log, audit(rng=rng, claim=claim, confidence=confidence) as session:
        key = run_key({"one training": True, "seed": session.seed}, code=[script])
        known = recall(log, key, claim)
        if known is not None:
            for shown, asked in known:
                session.judge(shown, asked)
            return session.verdicts
        session.beside = _beside(store, key)
        for path in _left(session.beside):
            tell(judge_so_far(read_watch(path), session.ask(_NOT_ASKED)), path)
        log.begin(
            key,
            {"seed": session.seed},
            {"audit": TRAINING, "trials": 1, "target": script.path.name},
        )
        try:
            _run(script, session.seed)
        except BaseException:
            _tell_rest(session, tell)
            raise
        finally:
            if session.judged:
                keep(log, key, session.judged)
        for path in _left(session.beside):
            path.unlink()
    if not session.verdicts:
        raise InvalidTarget(f"{script.path.name} was run, and nothing was judged. {LINES}")
    return session.verdicts


def _beside(store: str | Path | TrialLog | None, key: str) -> Path | None:
    """How the files begin in which the watches of this run are kept."""
    if not isinstance(store, str | Path):
        return None
    place = Path(store).absolute()
    return place.with_name(f"{place.name}.{key[:8]}.watch")


def _left(beside: Path | None) -> list[Path]:
    """The files that a run left which ended before its verdict."""
    if beside is None:
        return []
    return sorted(beside.parent.glob(f"{glob.escape(beside.name)}-*.json"))


def _tell_rest(session: Session, tell: Callable[[Verdict, Path | None], None]) -> None:
    """Tell the verdicts on steps that were seen, and that the script was not there to ask about."""
    for watch in session.watches:
        if watch.steps > watch.n_judged:
            if watch.file is not None:
                watch.file.write(watch)
            path = None if watch.file is None else watch.file.path
            tell(judge_so_far(watch, session.ask(_NOT_ASKED)), path)


def _run(script: Script, seed: int) -> None:
    """Run the script; what fails in it is told without its data."""
    _load_torch_for(script)
    try:
        script.run_once(int(for_trial(seed, 0, _SCRIPT).integers(2**63)))
    except ScriptFailed as failed:
        raise AuditStopped(str(failed)) from None
    except DpassayError:
        raise
    except Exception as error:
        raise AuditStopped(f"{script.path.name} failed: {describe(error)}") from None


def _load_torch_for(script: Script) -> None:
    """Load torch before a script that uses it: only then can its generator be seeded."""
    texts = (file.read_bytes() for file in (script.path, *script.modules))
    if importlib.util.find_spec("torch") is not None and any(map(_ON_TORCH.search, texts)):
        import torch  # noqa: F401
