"""Audits: a game, played by runs, judged by bounds, beside a claim: a verdict."""

from dpassay.auditing.claims import parse_claim
from dpassay.auditing.many import AuditStopped, audit
from dpassay.auditing.single import audit_one_run
from dpassay.auditing.targets import load_pair, load_target

__all__ = ["AuditStopped", "audit", "audit_one_run", "load_pair", "load_target", "parse_claim"]
