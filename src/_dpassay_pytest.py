"""The pytest plugin: fixtures that check and audit, and fail a test when a claim does not hold.

It lives outside the package so that pytest starts without importing dpassay.

    def test_my_release(dpassay):
        dpassay.check(release, data, claim=da.ApproxDP(1.0, 1e-5))
        dpassay(release, (data, data_prime), claim=da.ApproxDP(1.0, 1e-5))

A check plays a few executions and names the line; an audit plays many and refutes the claim.

The chance that a true claim fails a test is at most ``--dpassay-false-alarm``, by default one in a
million per audit, so that a suite does not flake; the summary says what that adds up to.
"""

import warnings

import pytest

FALSE_ALARM = 1e-6
TRIALS = 1000
MARKED = ("trials", "false_alarm", "seed")


def pytest_addoption(parser):
    group = parser.getgroup("dpassay", "audits of differential privacy")
    group.addoption(
        "--dpassay-seed", type=int, default=0, help="Seed of the audits (default: %(default)s)."
    )
    group.addoption(
        "--dpassay-trials",
        type=int,
        default=TRIALS,
        help="The most trials of an audit that does not say (default: %(default)s).",
    )
    group.addoption(
        "--dpassay-false-alarm",
        type=float,
        default=FALSE_ALARM,
        help="Chance that an audit fails a true claim (default: %(default)s).",
    )


def pytest_configure(config):
    config.addinivalue_line(
        "markers",
        "dpassay(trials=..., false_alarm=..., seed=...): defaults of the audits in this test.",
    )


@pytest.fixture
def dpassay(request):
    """Audit a mechanism: ``dpassay(mechanism, pair, claim=...)``; returns the verdict.

    With ``data=`` in place of the pair one is searched, as by ``dpassay.audit``.
    Takes the arguments of ``dpassay.audit`` and ``false_alarm=`` in place of ``confidence=``.
    ``dpassay.check`` is the fixture ``dpassay_check``.
    """
    marker = request.node.get_closest_marker("dpassay")
    given = _defaults(marker)
    option = request.config.getoption

    def audit_or_fail(mechanism, pair=None, *, claim, false_alarm=None, **options):
        from dpassay import audit

        if false_alarm is None:
            false_alarm = given.get("false_alarm", option("--dpassay-false-alarm"))
        alarm = _probability(false_alarm)
        options.setdefault("trials", given.get("trials", option("--dpassay-trials")))
        options.setdefault("rng", given.get("seed", option("--dpassay-seed")))
        request.node.user_properties.append(("dpassay_false_alarm", alarm))
        options |= {"claim": claim, "confidence": 1 - alarm}
        verdict, why_not = _try(lambda: audit(mechanism, pair, **options))
        if verdict is None:  # out of the except clause: there pytest would show both errors
            pytest.fail(why_not, pytrace=False)
        request.node.user_properties.extend(_properties(verdict))
        if verdict.refuted:
            pytest.fail(_message(request.node, verdict, alarm), pytrace=False)
        if verdict.power is not None and verdict.power.vacuous:
            pytest.fail(f"A test that cannot fail. {verdict.next_step}", pytrace=False)
        return verdict

    audit_or_fail.check = _checking(given.get("seed", option("--dpassay-seed")))
    return audit_or_fail


@pytest.fixture
def dpassay_check(request):
    """Check a mechanism: ``dpassay_check(mechanism, data, claim=...)``; returns the check.

    Takes the arguments of ``dpassay.check``, or the path of a script in place of the mechanism and
    its data. The test fails if an obligation of the proof is broken, with the line; and if nothing
    could be decided, unless ``undecided="pass"``.
    """
    given = _defaults(request.node.get_closest_marker("dpassay"))
    return _checking(given.get("seed", request.config.getoption("--dpassay-seed")))


def _try(play):
    """The verdict of an audit, or None and why there is none."""
    from dpassay.errors import AuditStopped, InvalidArgument, VacuousAudit

    try:
        with warnings.catch_warnings(action="error", category=VacuousAudit):
            return play(), ""
    except VacuousAudit as vacuous:
        return None, f"A test that cannot fail: {vacuous}"
    except AuditStopped as stopped:
        return None, f"No verdict: {stopped}"
    except InvalidArgument as misuse:  # without the trace, which would show the data
        return None, f"Misuse of the fixture dpassay: {misuse}"


def _checking(seed):
    def check_or_fail(mechanism, *data, undecided="fail", **options):
        if undecided not in ("fail", "pass"):
            pytest.fail(f"undecided={undecided!r} must be 'fail' or 'pass'.", pytrace=False)
        options.setdefault("rng", seed)
        if data:
            from dpassay import check as play
        else:
            from dpassay.auditing.checking_script import check_script as play
        found = play(mechanism, *data, **options)
        if found.broken or not (found.decided or undecided == "pass"):
            head = "" if found.broken else "A test that cannot fail: nothing could be decided.\n"
            pytest.fail(f"{head}{found}", pytrace=False)
        return found

    return check_or_fail


def _defaults(marker):
    """What the marker says; a name that it does not know would otherwise change nothing."""
    given = marker.kwargs if marker else {}
    unknown = [*(repr(value) for value in (marker.args if marker else ())), *given]
    unknown = [name for name in unknown if name not in MARKED]
    if unknown:
        takes = f"it takes {', '.join(MARKED)}"
        pytest.fail(
            f"pytest.mark.dpassay does not take {', '.join(unknown)}; {takes}.", pytrace=False
        )
    return given


def _probability(alarm):
    if not 0 < alarm < 1:
        pytest.fail(
            f"false_alarm={alarm} must lie in (0, 1). It is the chance that a true claim fails.",
            pytrace=False,
        )
    return alarm


def _properties(verdict):
    """What goes into a JUnit file (``--junitxml``) beside the test."""
    bound = verdict.bound
    numbers = {
        "epsilon_lower": bound.epsilon,
        "epsilon_claimed": float(verdict.claim.epsilon(bound.delta)),
        "delta": bound.delta,
        "ceiling": bound.ceiling,
        "trials": verdict.trials,
    }
    return [(f"dpassay_{name}", number) for name, number in numbers.items()]


def _message(node, verdict, alarm):
    bound = verdict.bound
    pair = [f"  pair:   {verdict.pair_in_words}"] if verdict.pair else []
    return "\n".join(
        [
            f"Privacy claim refuted: {verdict.claim!r}",
            f"  seen:   {bound}",
            f"  claim:  epsilon = {float(verdict.claim.epsilon(bound.delta)):.4g} "
            f"at delta = {bound.delta:g}",
            f"  after:  {verdict.trials} trials, by {verdict.attack}",
            f"  power:  {verdict.power}",
            *pair,
            f"  chance: a true claim would fail here with probability at most {alarm:g}",
            "  why:    one record changes the output more than the claim allows",
            f"  next:   {verdict.next_step}",
            f"  replay: {_replay(node, verdict.evidence.seed)}",
        ]
    )


def _replay(node, seed):
    """The line that plays the same trials, or new ones where the noise has no seed."""
    option = node.config.getoption
    said = {} if seed is None else {"--dpassay-seed": seed}
    defaults = {"--dpassay-trials": TRIALS, "--dpassay-false-alarm": FALSE_ALARM}
    said |= {name: option(name) for name, usual in defaults.items() if option(name) != usual}
    return " ".join([f"pytest '{node.nodeid}'", *(f"{k}={v}" for k, v in said.items())])


def _sum_up(terminalreporter):
    """Of all tests, also those that ran in other processes (pytest-xdist)."""
    reports = (r for stats in terminalreporter.stats.values() for r in stats)
    return [
        value
        for report in reports
        if getattr(report, "when", None) == "call"
        for name, value in getattr(report, "user_properties", ())
        if name == "dpassay_false_alarm"
    ]


def pytest_terminal_summary(terminalreporter):
    alarms = _sum_up(terminalreporter)
    if alarms:
        terminalreporter.write_line(
            f"dpassay: {len(alarms)} audit(s); the chance that any of them failed a true claim is "
            f"at most {min(sum(alarms), 1.0):.2g}."
        )
