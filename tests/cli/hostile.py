"""Bad inputs in a table: files of every format that a command reads, and numbers for its options.

``file_cases(folder)`` writes the files and gives command lines; each must end with exit code 2.
"""

import functools
import inspect
import io
import json
import os
import sqlite3
import struct
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple, get_args, get_type_hints

import numpy as np
import typer

from dpassay.cli import app

HUGE = 2**41  # bytes of a file that is all hole
MANY = "9" * 400


@functools.cache
def _program() -> Any:
    return typer.main.get_command(app)


def run(words: list[str]) -> tuple[Any, str, str]:
    """Exit code, stdout and stderr of a command line, run in this process."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            code = _program().main(list(words), prog_name="dpassay")
        except SystemExit as left:
            code = left.code
    return code, out.getvalue(), err.getvalue()


class Case(NamedTuple):
    """A name for the test's id, and the words of a command line."""

    name: str
    words: list[str]


# ------------------------------------------------------------------------------- good files

SCHEMA = """
[columns.sex]
values = ["F", "M"]
[columns.age]
low = 0
high = 100
bins = 4
integer = true
"""


def write_good(folder: Path) -> None:
    """One good file of every kind; the bad ones are made of them."""
    from dpassay.auditing import audit, describe_audit
    from dpassay.privacy import ApproxDP, Ledger
    from dpassay.report import audit_report, write_report
    from dpassay.synth import Independent, Schema
    from dpassay.zoo import learners

    rng = np.random.default_rng(0)
    with (folder / "good.scores.csv").open("w") as file:
        file.write("score,world\n" + "".join(f"{rng.normal():.3f},{i % 2}\n" for i in range(40)))
    with (folder / "good.losses.csv").open("w") as file:
        file.write("member,loss\n" + "".join(f"{i % 2},{rng.random():.3f}\n" for i in range(40)))
    data = np.array([[1.0], [0.0], [0.0]])
    np.savez(folder / "good.pair.npz", data=data, data_prime=data[1:])
    np.savez(
        folder / "good.scores.npz", scores_in=rng.normal(1, 1, 30), scores_out=rng.normal(size=30)
    )
    rows = "".join(f"{'FM'[i % 2]},{i}\n" for i in range(80))
    (folder / "good.table.csv").write_text("sex,age\n" + rows)
    (folder / "good.schema.toml").write_text(SCHEMA)
    Ledger(folder / "good.ledger.db", budget=ApproxDP(3.0, 1e-6))
    (folder / "good.about.toml").write_text('target = "a model"\nn_records = 10\n')
    (folder / "target.py").write_text(
        "def train(data, rng):\n    return data.sum() + rng.laplace()\n"
    )
    program = "import sys\nopen(sys.argv[2], 'w').write(str(len(open(sys.argv[1]).read())))\n"
    (folder / "program.py").write_text(program)
    game = learners.honest, learners.neighbours()
    asked = {"claim": learners.claim(), "trials": 120}
    verdict = audit(*game, **asked, store=folder / "good.run.db", progress="quiet")
    describe_audit(*game, **asked, store=folder / "good.parts")
    write_report(audit_report(verdict, title="good"), folder / "good.html")
    (folder / "good.html").unlink()
    import pandas as pd

    frame = pd.read_csv(folder / "good.table.csv")
    schema = Schema.read(folder / "good.schema.toml")
    Independent(schema, epsilon=1.0, rng=0).fit(frame).save(folder / "good.model.npz")


# What reads a file: its command, with {} for the file, and the good file that bad ones are made of.
READERS = {
    "bound": ("bound {}", "good.scores.csv"),
    "bound-npz": ("bound {}", "good.scores.npz"),
    "bound-one-run": ("bound {} --one-run", "good.scores.csv"),
    "attack": ("attack {}", "good.losses.csv"),
    "audit-data": (
        "audit target.py:train --claim 1 --trials 130 --workers 0 --quiet --data {}",
        "good.pair.npz",
    ),
    "audit-command": (
        "audit --command=python&program.py&{{data}}&{{output}}.txt --claim 1 --dry-run "
        "--neighbours trusted "
        "--data {} --data-prime good.table.csv",
        "good.table.csv",
    ),
    "audit-store": ("audit example:honest --trials 130 --quiet --store {}", "good.run.db"),
    "audit-about": (
        "audit example:honest --trials 130 --report new.html --about {}",
        "good.about.toml",
    ),
    "report": ("report {} -o new.html", "good.json"),
    "report-log": ("report {} -o new.html", "good.run.db"),
    "report-about": ("report good.run.db -o new.html --about {}", "good.about.toml"),
    "status": ("status {}", "good.run.db"),
    "merge": ("merge new.db {}", "good.run.db"),
    "merge-into": ("merge {} good.run.db", "good.run.db"),
    "synth": ("synth {} --schema good.schema.toml --epsilon 1 -o new.csv", "good.table.csv"),
    "synth-measured": ("synth {} --domain-epsilon .5 --epsilon 1 -o new.csv", "good.table.csv"),
    "synth-schema": ("synth good.table.csv --schema {} --epsilon 1 -o new.csv", "good.schema.toml"),
}


# ------------------------------------------------------------------------------- places


def _places(folder: Path, suffix: str) -> Iterator[tuple[str, str]]:
    """Names that are no regular file, or none that anybody wants to read."""
    yield "missing", f"missing{suffix}"
    (folder / f"folder{suffix}").mkdir(exist_ok=True)
    yield "folder", f"folder{suffix}"
    if not os.path.lexists(folder / f"fifo{suffix}"):
        os.mkfifo(folder / f"fifo{suffix}")
        os.symlink("/dev/zero", folder / f"zero{suffix}")
        os.symlink("/dev/null", folder / f"null{suffix}")
        os.symlink(f"loop{suffix}", folder / f"loop{suffix}")
        with (folder / f"huge{suffix}").open("wb") as file:
            file.truncate(HUGE)
    for name in ("fifo", "zero", "null", "loop", "huge"):
        yield name, f"{name}{suffix}"
    yield "long", "x" * 300 + suffix


# ------------------------------------------------------------------------------- contents


def _damaged(good: bytes) -> dict[str, bytes]:
    """What happens to any file."""
    half = len(good) // 2
    flipped = bytes(b ^ 0xFF for b in good[: len(good) // 3]) + good[len(good) // 3 :]
    return {
        "empty": b"",
        "nul": b"\0" * 64,
        "noise": np.random.default_rng(1).bytes(500),
        "latin": b"\xff\xfe\xe9" + good[:50],
        "half": good[:half] if b"\0" in good[:200] else good[: len(good) - 3] + b"\xff",
        "flipped": flipped,
    }


_SCORES = b"score,world\n0.5,1\n0.1,0\n"
CSV = {
    "no-header": b"0.5,1\n0.1,0\n",
    "only-header": b"score,world,member,loss\n",
    "ragged": b"score,world\n1,1\n1,2,3,4\n",
    "text": b"score,world,member,loss\nSECRET,1,1,SECRET\n0.1,0,0,1\n",
    "bad-world": b"score,world,member,loss\n0.5,777123.25,777123.25,1\n0.1,0,0,1\n",
    "nan": b"score,world,member,loss\n,1,1,\n0.1,0,0,\n",
    "one-kind": b"score,world,member,loss\n0.5,1,1,1\n0.1,1,1,1\n",
    "quotes": b'score,world\n"0.5,1\n0.1,0\n',
    "nul-cell": b"score,world\n\0,1\n0.1,0\n",
    "same-name": b"score,score,world\n1,2,1\n3,4,0\n",
    "formula": b"score,world\n=1+1,1\n0.1,0\n",
    "big": b"score,world,member,loss\n0.1," + b"9" * 400 + b",1," + b"9" * 400 + b"\n0.1,0,0,1\n",
    "bool": b"score,world\n0.5,maybe\n0.1,False\n",
    "long-field": b"score,world\n" + b"x" * 3_000_000 + b",1\n0.1,0\n",
    "columns": b",".join(b"c%d" % i for i in range(30_000)) + b"\n",
}
PROBABILITIES = {
    "label": b"member,label,p0,p1\n1,777,0.5,0.5\n0,0,0.1,0.9\n",
    "label-text": b"member,label,p0,p1\n1,SECRET,0.5,0.5\n0,0,0.1,0.9\n",
    "sum": b"member,label,p0,p1\n1,0,0.777123,0.5\n0,0,0.1,0.9\n",
    "range": b"member,label,p0,p1\n1,0,777123.25,0.5\n0,0,0.1,0.9\n",
    "no-label": b"member,p0,p1\n1,0.5,0.5\n0,0.1,0.9\n",
}
TABLE = {
    "no-header": b"F,1\nM,2\n",
    "only-header": b"sex,age\n",
    "ragged": b"sex,age\nF,1,2,3\nM,2\n",
    "unknown-value": b"sex,age\nSECRET,1\nM,2\n",
    "no-number": b"sex,age\nF,SECRET\nM,2\n",
    "outside": b"sex,age\nF,777123\nM,2\n",
    "fraction": b"sex,age\nF,3.25\nM,2\n",
    "big": b"sex,age\nF," + b"9" * 400 + b"\nM,2\n",
    "missing": b"sex,age\n,1\nM,2\n",
    "extra": b"sex,age,more\nF,1,1\nM,2,2\n",
    "lacks": b"sex\nF\nM\n",
    "same-name": b"sex,sex,age\nF,F,1\n",
    "quotes": b'sex,age\n"F,1\nM,2\n',
    "nul-cell": b"sex,age\n\0,1\nM,2\n",
    "long-field": b"sex,age\n" + b"x" * 3_000_000 + b",1\n",
}
TABLE_MEASURED = {
    name: TABLE[name] for name in ("only-header", "ragged", "quotes", "same-name", "big")
}
DEEP = 200_000
TOML = {
    "syntax": b"columns = [",
    "deep-list": b"columns = " + b"[" * DEEP + b"]" * DEEP,
    "deep-keys": b"[" + b".".join([b"a"] * DEEP) + b"]\nx = 1\n",
    "int": b"n_records = " + b"9" * 5000 + b"\n",
    "columns-int": b"columns = 3\n",
    "columns-empty": b"[columns]\n",
    "twice": b"[columns.a]\nvalues=[1]\n[columns.a]\nvalues=[1]\n",
    "unknown": b"frobnicate = 1\n",
    "latin": b'target = "\xe9"\n',
}
SCHEMAS = {
    "no-kind": b"[columns.sex]\nfrob = 1\n",
    "kind": b'[columns.sex]\nkind = "frob"\n',
    "kind-list": b"[columns.sex]\nkind = [1]\n",
    "values-int": b"[columns.sex]\nvalues = 3\n",
    "values-empty": b"[columns.sex]\nvalues = []\n",
    "values-twice": b'[columns.sex]\nvalues = ["F", "F"]\n',
    "values-lists": b"[columns.sex]\nvalues = [[1], [2]]\n",
    "values-dicts": b"[columns.sex]\nvalues = [{a = 1}]\n",
    "values-nan": b"[columns.sex]\nvalues = [nan]\n",
    "low-high": b"[columns.age]\nlow = 5\nhigh = 1\n",
    "low-nan": b"[columns.age]\nlow = nan\nhigh = 1\n",
    "low-inf": b"[columns.age]\nlow = -inf\nhigh = inf\n",
    "low-text": b'[columns.age]\nlow = "a"\nhigh = 1\n',
    "bins-zero": b"[columns.age]\nlow = 0\nhigh = 1\nbins = 0\n",
    "bins-many": b"[columns.age]\nlow = 0\nhigh = 1\nbins = 1000000000000\n",
    "bins-text": b'[columns.age]\nlow = 0\nhigh = 1\nbins = "a"\n',
    "bins-huge": b"[columns.age]\nlow = 0\nhigh = 1\nbins = " + b"9" * 400 + b"\n",
    "high-huge": b"[columns.age]\nlow = 0\nhigh = " + b"9" * 400 + b"\n",
    "edges-text": b'[columns.age]\nedges = "abc"\n',
    "edges-down": b"[columns.age]\nedges = [3, 2]\n",
    "edges-one": b"[columns.age]\nedges = [3]\n",
    "edges-mixed": b'[columns.age]\nedges = [1, "a"]\n',
    "dates": b'[columns.age]\nkind = "date"\nfirst = "never"\nend = "2020-01-01"\n',
    "dates-far": b'[columns.age]\nkind = "date"\nfirst = "0001-01-01"\nend = "99999999999-01-01"\n',
    "nullable-text": b'[columns.sex]\nvalues = ["F", "M"]\nnullable = "perhaps"\n',
    "outside": b'[columns.sex]\nvalues = ["F", "M"]\noutside = "frob"\n',
    "impossible-int": SCHEMA.encode().replace(b"\n[", b"impossible = 3\n[", 1),
    "impossible-list": SCHEMA.encode().replace(b"\n[", b"impossible = [3]\n[", 1),
    "impossible-empty": SCHEMA.encode().replace(b"\n[", b"impossible = [{}]\n[", 1),
    "impossible-column": SCHEMA.encode().replace(b"\n[", b"impossible = [{frob = 1}]\n[", 1),
    "impossible-value": SCHEMA.encode().replace(b"\n[", b'impossible = [{sex = "X"}]\n[', 1),
    "column-list": b"columns = [1, 2]\n",
    "column-int": b"[columns]\nsex = 3\nage = 4\n",
    "universe": b"".join(b"[columns.c%d]\nlow = 0\nhigh = 1\nbins = 1000\n" % i for i in range(60)),
}
ABOUT = {
    "n-text": b'n_records = "many"\n',
    "n-negative": b"n_records = -1\n",
    "n-nan": b"n_records = nan\n",
    "n-huge": b"n_records = " + b"9" * 400 + b"\n",
    "flag": b'search_accounted = "perhaps"\n',
    "setting": b'setting = "frob"\n',
    "setting-list": b"setting = [1]\n",
    "target-int": b"target = 3\n",
    "target-empty": b'target = " "\n',
    "table": b"[target]\nx = 1\n",
}


def _member(name: str, content: bytes, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        archive.writestr(name, content)
    return buffer.getvalue()


def _npy(header: str, body: bytes = b"") -> bytes:
    text = header.encode().ljust(118 - 1) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + body


def _npz(**arrays: Any) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


_HEAD = "{'descr': '%s', 'fortran_order': False, 'shape': %s}"


def _npz_contents() -> dict[str, bytes]:
    objects = np.empty(2, object)
    objects[:] = [1, "a"]
    plain = np.ones((2, 1))
    bomb = _npy(_HEAD % ("<f8", "(100000000,)"), b"\0" * 50_000_000)  # 50 MB in 50 kB
    return {
        "objects": _npz(data=objects, data_prime=objects, scores_in=objects, scores_out=objects),
        "no-names": _npz(arr_0=plain),
        "npy": _npy(_HEAD % ("<f8", "(1,)"), b"\0" * 8),
        "pickle": b"\x80\x04]\x94.",
        "no-npy": _member("data.npy", b"hello"),
        "not-npy-name": _member("data.txt", b"hello"),
        "huge-shape": _member("data.npy", _npy(_HEAD % ("<f8", "(1000000000000000,)"))),
        "negative-shape": _member("data.npy", _npy(_HEAD % ("<f8", "(-5,)"))),
        "overflow-shape": _member("data.npy", _npy(_HEAD % ("<f8", "(%s,)" % ("9" * 40)))),
        "deep-header": _member("data.npy", _npy("(" * 60)),
        "code-header": _member("data.npy", _npy("{'descr': __import__('os')}")),
        "bomb": _member("data.npy", bomb),
        "text-arrays": _npz(
            data=np.array(["a", "b"]), data_prime=np.array(["a"]), scores_in=np.array(["a"]),
            scores_out=np.array(["b"])
        ),
        "same-records": _npz(data=plain, data_prime=plain),
        "not-neighbours": _npz(data=np.eye(3), data_prime=np.zeros((3, 3))),
        "one-side": _npz(data=plain, scores_in=np.ones(3)),
        "empty-arrays": _npz(
            data=np.empty((0, 1)), data_prime=np.empty((0, 1)), scores_in=np.empty(0),
            scores_out=np.empty(0)
        ),
        "nan-scores": _npz(scores_in=np.array([np.nan]), scores_out=np.ones(2)),
        "two-dim": _npz(scores_in=np.ones((2, 2)), scores_out=np.ones((2, 2))),
        "complex": _npz(scores_in=np.ones(2) * 1j, scores_out=np.ones(2)),
        "dates": _npz(scores_in=np.array(["2020-01-01"], "M8[D]"), scores_out=np.ones(2)),
        "sizes": _npz(scores=np.ones(3), members=np.ones(2)),
    }  # fmt: skip


ATTACK_NPZ = {
    "members-2d": _npz(members=np.array([[1, 0]]), losses=np.ones(2)),
    "losses-2d": _npz(members=np.array([1, 0]), losses=np.ones((2, 2))),
    "losses-0d": _npz(members=np.array([1, 0]), losses=np.float64(1)),
    "labels-0d": _npz(members=np.array([1, 0]), probabilities=np.eye(2), labels=np.int64(1)),
    "labels-range": _npz(members=np.array([1, 0]), probabilities=np.eye(2), labels=[777, 0]),
    "labels-nan": _npz(members=np.array([1, 0]), probabilities=np.eye(2), labels=[np.nan, 0]),
    "p-1d": _npz(members=np.array([1, 0]), probabilities=np.ones(2), labels=[0, 0]),
    "p-negative": _npz(members=np.array([1, 0]), probabilities=-np.eye(2), labels=[0, 0]),
    "p-3d": _npz(members=np.array([1, 0]), probabilities=np.ones((2, 2, 2)) / 2, labels=[0, 0]),
    "shadow-alone": _npz(members=np.array([1, 0]), losses=np.ones(2), shadow_inside=np.eye(2)),
    "shadow-1d": _npz(
        members=np.array([1, 0]), losses=np.ones(2), shadow_inside=np.ones(2),
        shadow_losses=np.ones(2),
    ),
    "shadow-shape": _npz(
        members=np.array([1, 0]), losses=np.ones(2), shadow_inside=np.eye(2),
        shadow_losses=np.ones((3, 5)),
    ),
    "shadow-values": _npz(
        members=np.array([1, 0]), losses=np.ones(2), shadow_inside=7 * np.eye(2),
        shadow_losses=np.ones((2, 2)),
    ),
    "members-text": _npz(members=np.array(["a", "b"]), losses=np.ones(2)),
}  # fmt: skip


def _json_contents(good: bytes) -> dict[str, bytes]:
    """Reports with something wrong: any part of another type, or left out."""
    data = json.loads(good)
    found = {
        "syntax": good[:-4],
        "list": b"[]",
        "null": b"null",
        "number": b"1",
        "text": b'"report"',
        "deep": b"[" * DEEP + b"]" * DEEP,
        "int": b'{"schema": ' + b"9" * 5000 + b"}",
        "other-schema": b'{"schema": "other"}',
        "nan": b'{"schema": NaN}',
        "version": _with(data, ("schema_version",), 99),
        "version-list": _with(data, ("schema_version",), [1]),
        "title-int": _with(data, ("title",), 3),
        "title-null": _with(data, ("title",), None),
        "introduction-list": _with(data, ("introduction",), ["a"]),
        "audits-empty": _with(data, ("audits",), []),
        "audits-dict": _with(data, ("audits",), {"a": 1}),
        "audits-null": _with(data, ("audits",), None),
        "audits-int": _with(data, ("audits",), 3),
        "audits-text": _with(data, ("audits",), "abc"),
        "audit-int": _with(data, ("audits", 0), 3),
        "audits-many": _with(data, ("audits",), [{}] * 20_000),
    }
    audit = data["audits"][0]
    for key in audit:
        found[f"{key}-null"] = _with(data, ("audits", 0, key), None)
        found[f"{key}-int"] = _with(data, ("audits", 0, key), 3)
        found[f"{key}-list"] = _with(data, ("audits", 0, key), [[]])
        found[f"{key}-gone"] = _with(data, ("audits", 0, key), _GONE)
    del found["proof-null"]  # there is none
    del found["one_training-null"], found["one_training-gone"]  # it was another kind of audit
    for key in ("headline", "sentence", "remarks", "refuted", "ended"):
        found[f"verdict-{key}-dict"] = _with(data, ("audits", 0, "verdict", key), {"a": 1})
    for key in ("delta", "claimed", "measured_lower", "ceiling"):
        found[f"epsilon-{key}-text"] = _with(data, ("audits", 0, "epsilon", key), "many")
        found[f"epsilon-{key}-nan"] = _with(data, ("audits", 0, "epsilon", key), "nan")
        found[f"epsilon-{key}-negative"] = _with(data, ("audits", 0, "epsilon", key), -3.5)
        found[f"epsilon-{key}-huge"] = _with(data, ("audits", 0, "epsilon", key), int(MANY))
    found["hazard"] = _with(data, ("audits", 0, "hazards", 0, "status"), "<script>")
    found["relation"] = _with(data, ("audits", 0, "claim", "neighbouring"), "<script>")
    found["kind"] = _with(data, ("audits", 0, "claim", "kind"), "<script>")
    found["profile"] = _with(data, ("audits", 0, "claim", "profile", "delta"), ["a"])
    found["profile-short"] = _with(data, ("audits", 0, "claim", "profile", "delta"), [1.0])
    found["limits-dict"] = _with(data, ("audits", 0, "limits"), [{"a": 1}])
    found["versions-list"] = _with(data, ("audits", 0, "replay", "versions"), [1])
    found["odds-empty"] = _with(data, ("audits", 0, "odds"), [])
    found["odds-share"] = _with(data, ("audits", 0, "odds", 0, "if_in"), 1e9)
    return found


_GONE = object()


def _with(data: Any, path: tuple[Any, ...], value: Any) -> bytes:
    changed = json.loads(json.dumps(data))
    at = changed
    for key in path[:-1]:
        at = at[key]
    if value is _GONE:
        del at[path[-1]]
    else:
        at[path[-1]] = value
    return json.dumps(changed).encode()


def _logs(folder: Path, good: bytes) -> dict[str, bytes]:
    """Logs whose rows were edited by hand."""
    edits = {
        "other-program": "PRAGMA application_id = 1",
        "newer": "PRAGMA user_version = 99",
        "no-trials": "DROP TABLE trials",
        "no-runs": "DROP TABLE runs",
        "not-json": "UPDATE runs SET configuration = '{'",
        "json-list": "UPDATE runs SET configuration = '[]'",
        "json-null": "UPDATE runs SET configuration = 'null'",
        "json-deep": f"UPDATE runs SET configuration = '{'[' * DEEP}'",
        "json-blob": "UPDATE runs SET configuration = x'00ff'",
        "description-int": "UPDATE runs SET description = '3'",
        "key-blob": "UPDATE runs SET key = x'00ff'",
        "score-text": "UPDATE trials SET score = 'SECRET' WHERE trial = 3",
        "score-blob": "UPDATE trials SET score = x'00ff' WHERE trial = 3",
        "world-huge": "UPDATE trials SET world = 99999 WHERE trial = 3",
        "world-text": "UPDATE trials SET world = 'SECRET' WHERE trial = 3",
        "seconds-text": "UPDATE trials SET seconds = 'SECRET' WHERE trial = 3",
        "payload-text": "UPDATE trials SET payload = 'SECRET' WHERE trial = 3",
        "error-blob": "UPDATE trials SET error = x'00ff', state = 'failed' WHERE trial = 3",
    }
    found = {}
    for name, edit in edits.items():
        path = folder / "edited.db"
        path.write_bytes(good)
        connection = sqlite3.connect(path)
        connection.executescript(edit)
        connection.commit()
        connection.execute("PRAGMA journal_mode = DELETE")
        connection.close()
        found[name] = path.read_bytes()
        path.unlink()
    return found


def contents(folder: Path, reader: str, good: bytes) -> dict[str, bytes]:
    """The bad contents of a file that a command reads, by name."""
    tables = {
        "bound": CSV,
        "bound-npz": _npz_contents(),
        "bound-one-run": CSV,
        "attack": CSV | PROBABILITIES,
        "audit-data": {
            name: content
            for name, content in _npz_contents().items()
            if not name.startswith(("text", "empty-a"))
        },
        "audit-command": {name: TABLE[name] for name in ("ragged", "quotes", "only-header")},
        "audit-about": TOML | ABOUT,
        "report": _json_contents(good) if reader == "report" else {},
        "report-about": ABOUT,
        "synth": TABLE,
        "synth-measured": TABLE_MEASURED,
        "synth-schema": TOML | SCHEMAS,
    }
    logs = ("report-log", "status", "merge")
    found = _damaged(good) | (_logs(folder, good) if reader in logs else tables.get(reader, {}))
    return {name: bad for name, bad in found.items() if f"{reader}:{name}" not in GOOD_AFTER_ALL}


# An empty TOML file declares nothing; data without a neighbour has one searched; canaries that all
# went in are few, but canaries; a log that is not there is made.
GOOD_AFTER_ALL = {
    "audit-data:one-side",
    "audit-about:empty",
    "report-about:empty",
    "bound-one-run:one-kind",
    "audit-store:missing",
    "merge-into:missing",
}


def file_cases(folder: Path, readers: Iterable[str] = READERS) -> Iterator[Case]:
    """Every bad file of these readers; the files are written to the folder."""
    for reader in readers:
        command, good = READERS[reader]
        suffix = Path(good).suffix
        bad = list(_places(folder, suffix))
        for name, content in contents(folder, reader, (folder / good).read_bytes()).items():
            path = folder / f"bad.{reader}.{name}{suffix}"
            path.write_bytes(content)
            bad.append((name, path.name))
        for name, content in (ATTACK_NPZ if reader == "attack" else {}).items():
            (folder / f"bad.attack.{name}.npz").write_bytes(content)
            bad.append((f"npz-{name}", f"bad.attack.{name}.npz"))
        for name, path in bad:
            if f"{reader}:{name}" in GOOD_AFTER_ALL:
                continue
            yield Case(f"{reader}:{name}", words_of(command, path))


def words_of(command: str, path: str) -> list[str]:
    """The words of a command for a file."""
    return [word.format(path).replace("&", " ") for word in command.split()]


# ------------------------------------------------------------------------------- numbers

SGD = "--noise-multiplier 1 --sampling-rate .01 --steps 10"
# A good command line for every command that has options of numbers.
LINES = {
    "account dp-sgd": f"{SGD} --delta 1e-5",
    "account gaussian": "--noise-multiplier 1 --delta 1e-5",
    "account laplace": "--noise-multiplier 1 --delta 1e-5",
    "account pure": "--epsilon-each 1 --delta 1e-5",
    "account approx": "--epsilon-each 1 --delta-each 1e-6 --delta 1e-5",
    "account exponential": "--epsilon-each 1 --delta 1e-5",
    "account noisy-max": "--epsilon-each 1 --delta 1e-5",
    "account zcdp": "--rho 1 --delta 1e-5",
    "account randomized-response": "--noise-probability .5 --delta 1e-5",
    "account allocation": "--noise-multiplier 1 --steps 10 --delta 1e-5",
    "account bandmf": f"{SGD} --bands 2 --delta 1e-5",
    "account shuffled": "--noise-multiplier 1 --steps 10 --delta 1e-5",
    "calibrate allocation": "--epsilon 1 --delta 1e-5 --steps 10",
    "calibrate bandmf": "--epsilon 1 --delta 1e-5 --sampling-rate .01 --steps 10 --bands 2",
    "calibrate dp-sgd": "--epsilon 1 --delta 1e-5 --sampling-rate .01 --steps 10",
    "calibrate gaussian": "--epsilon 1 --delta 1e-5",
    "calibrate laplace": "--epsilon 1",
    "explain": "--epsilon 1",
    "bound": "--tp 90 --fn 10 --fp 5 --tn 95",
    "plan": "--claim 1,1e-5 --true 4",
    "audit": "example:honest --trials 130 --quiet",
    "attack": "good.losses.csv",
    "status": "good.run.db",
    "report": "good.run.db -o new.html",
    "synth": "good.table.csv --schema good.schema.toml --epsilon 1 -o new.csv",
    "query": "good.table.csv --count --epsilon 1",
    "ledger new": "new.db --epsilon 1 --delta 1e-6",
    "ledger show": "good.ledger.db",
    "ledger amend": "good.ledger.db --epsilon 1 --delta 1e-6 --reason agreed",
    "zoo": "--only occupied --trials 2000",
    "check": "example:honest --data good.pair.npz",
    "work": "--store good.parts --shard 1/64",
}
WHOLE = ("-1", "nan", "inf", "1e15", "1.5", str(2**63), str(10**15), MANY, "9" * 5000)
REAL = ("-1", "nan", "inf", "-inf", "1e400", MANY, "x")
# The least that a test must still find, so that no command is left out of the walk unseen.
FEWEST_CASES = 500


def number_options() -> Iterator[tuple[str, str, type]]:
    """(command, option, int or float) for every option of every command that takes a number."""

    def walk(command: Any, name: str) -> Iterator[tuple[str, str, type]]:
        for key, inner in getattr(command, "commands", {}).items():
            yield from walk(inner, f"{name} {key}".strip())
        hints = get_type_hints(inspect.unwrap(command.callback)) if command.callback else {}
        for parameter in command.params:
            kinds = {hints.get(parameter.name), *get_args(hints.get(parameter.name))}
            for kind in kinds & {int, float}:
                yield name, max(parameter.opts, key=len), kind

    yield from walk(typer.main.get_command(app), "")


def _is_infinite_epsilon(command: str, flag: str, value: str) -> bool:
    """No privacy at all can be explained too."""
    return (command, flag) == ("explain", "--epsilon") and value in ("inf", "1e400", MANY)


def number_cases() -> Iterator[Case]:
    """Every option of numbers with every hostile value."""
    for command, flag, kind in number_options():
        for value in WHOLE if kind is int else REAL:
            words = [*command.split(), *LINES[command].split(), f"{flag}={value}"]
            shown = value if len(value) < 30 else f"{len(value)}digits"
            if (flag, value) == ("--seed", str(10**15)) or _is_infinite_epsilon(
                command, flag, value
            ):
                continue
            yield Case(f"{command}:{flag}:{shown}", words)
