"""A report: data that are collected once, a page that is made from them alone, and their files."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpassay import _check, _files, _handed
from dpassay.auditing.findings import Check
from dpassay.errors import InvalidArgument
from dpassay.report.checked import check_facts
from dpassay.report.collect import collect, find_versions
from dpassay.report.disclosure import Disclosure
from dpassay.report.numbers import as_json
from dpassay.report.shape import Misfit, check_shape, from_version_1
from dpassay.types import PrivacyCurve, Verdict

SCHEMA, SCHEMA_VERSION = "dpassay-report", 2


@dataclass(frozen=True, eq=False)
class Report:
    """One or several audits on one page.

    Attributes:
        data: everything that is shown, as plain JSON values: the file beside the page.

    """

    data: dict[str, Any]

    def html(self) -> str:
        """The page, one file without scripts that fetches nothing; made from ``data`` alone."""
        from dpassay.report.certificate import certificate

        return certificate(self.data)


def audit_report(
    verdict: Verdict,
    *,
    title: str = "",
    proof: PrivacyCurve | None = None,
    disclosure: Disclosure | None = None,
    command: str = "",
    versions: dict[str, str] | None = None,
    check: Check | None = None,
) -> Report:
    """The report of an audit: what was claimed, proved and measured, and the hazards around it.

    Args:
        verdict: of :func:`dpassay.audit` or :func:`dpassay.audit_one_run`.
        title: of the page.
        proof: what was proved of the same algorithm, an upper bound: for example
            ``account(event)`` or a learner's ``privacy_``.
        disclosure: what a person declares; what is left out is shown as not declared.
        command: how to run the audit again; by default the verdict's own line.
        versions: of the software, by name; by default what is installed here.
        check: what :func:`dpassay.check` found in the same code: a section of its own.

    Returns:
        The report. It holds counts, rates and thinned curves, never a record or a single output.

    """
    for name, value, kind in (
        ("verdict", verdict, Verdict),
        ("disclosure", disclosure, Disclosure | None),
        ("proof", proof, PrivacyCurve | None),
        ("check", check, Check | None),
    ):
        if not isinstance(value, kind):
            raise InvalidArgument(
                f"{name}={_check.shown(value)} must be a {name}, see dpassay.report."
            )
    audit = collect(
        verdict,
        title=title or "Audit of a privacy claim",
        proof=proof,
        disclosure=disclosure,
        command=command,
        versions=find_versions() if versions is None else versions,
    )
    beside = {} if check is None else {"check": check_facts(check)}
    return _report(audit["title"], "", [audit | beside])


def join_reports(reports: Sequence[Report], *, title: str, introduction: str = "") -> Report:
    """Several reports on one page, in the order given, each under its own title."""
    audits = [audit for report in reports for audit in report.data["audits"]]
    if not audits:
        raise InvalidArgument("reports is empty; it must hold at least one report.")
    return _report(title, introduction, audits)


def _report(title: str, introduction: str, audits: list[dict[str, Any]]) -> Report:
    data = {
        "schema": SCHEMA,
        "schema_version": SCHEMA_VERSION,
        "title": title,
        "introduction": introduction,
        "audits": audits,
    }
    return Report(json.loads(as_json(data)))  # what a file holds, so that both make the same page


def write_report(report: Report, path: str | Path) -> list[Path]:
    """The two files written: the page at ``path`` and its data beside it, ending in ``.json``.

    Both are written under other names and moved into place when they are complete.

    Raises:
        InvalidArgument: no report, or the path does not end in ``.html`` or cannot be written.

    """
    _check.instance("report", report, Report, "a Report: pass audit_report(verdict).")
    page = Path(path)
    if page.suffix != ".html":
        raise InvalidArgument(f"path={str(path)!r} must end in .html; the data go beside it.")
    texts = {page: report.html(), page.with_suffix(".json"): as_json(report.data) + "\n"}
    try:
        page.parent.mkdir(parents=True, exist_ok=True)
        return _files.write_all(texts)
    except OSError as error:
        raise InvalidArgument(
            f"path={str(path)!r} cannot be written: {error.strerror}. Choose another place."
        ) from error


def load_report(path: str | Path) -> Report:
    """The report whose data are in a file that :func:`write_report` wrote.

    Raises:
        InvalidArgument: the file cannot be read, is no such file, or of a later version.

    """
    data = _handed.load_json("source", path)
    if not isinstance(data, dict) or data.get("schema") != SCHEMA:
        raise InvalidArgument(f"{path} is not a report: it has no schema {SCHEMA!r}.")
    if data.get("schema_version") not in (1, SCHEMA_VERSION):
        raise InvalidArgument(
            f"{path} has schema_version {_check.shown(data.get('schema_version'))}, this dpassay "
            f"reads 1 and {SCHEMA_VERSION}. Use the version that wrote it."
        )
    try:
        if data["schema_version"] == 1:
            data = from_version_1(data)
        check_shape(data)
    except Misfit as error:
        raise InvalidArgument(f"{path} is not a whole report: {error}.") from None
    return Report(data)
