"""``dpassay demo``: a short guided tour."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from dpassay import _files
from dpassay.cli.account import Price, Query, is_proof, prices, print_prices, sentence
from dpassay.cli.options import Json, option
from dpassay.cli.output import emit, say, working

if TYPE_CHECKING:
    from dpassay.cli.demo_check import Checked
    from dpassay.privacy import GDP
    from dpassay.privacy.events import Event
    from dpassay.privacy.membership import Odds
    from dpassay.report.odds import Explanation
    from dpassay.types import LowerBound, Verdict

NOISE, RATE, STEPS, DELTA = 1.1, 0.01, 1000, 1e-5
WANTED = 1.0
AUDIT_TRIALS, CONFIDENCE = 4000, 0.999  # the honest learner then shows two thirds of its claim
CLAIMED = 0.21  # by the paper on backpropagation clipping, at the same delta
TP, FN, FP, TN = 4922, 95_078, 174, 99_826  # Tramèr et al. 2022
LEARNERS = {
    "honest": "Noisy gradient descent with the noise that its claim needs",
    "broken": "The same, its sensitivity divided by the number of records once too often",
}
NEXT = {
    "Check your own training": "dpassay check my_train.py --claim 3,1e-5",
    "Audit your own code": "dpassay audit my_train.py:train --claim 3,1e-5 --data d.npz",
    "Show what came of it": "add --store run.db --report report.html",
    "Price your own training": "dpassay account dp-sgd --help",
    "Find the noise for your target": "dpassay calibrate dp-sgd --help",
    "Tell the people in the data": "dpassay explain --epsilon 3 --delta 1e-5 --svg odds.svg",
    "See what your attack proves": "dpassay bound scores.csv --delta 1e-5",
    "Draw every figure": "dpassay reproduce slides",
}


EXAMPLE = "dpassay demo --out demo"


def demo(
    out: Annotated[Path, option("Folder to write to.", file_okay=False)] = Path("demo"),
    as_json: Json = False,
) -> None:
    """A tour in under a minute: a bug and its line, two learners audited, a claim priced."""
    from dpassay.cli.demo_check import check_training

    if not as_json:
        say("Checking a training script that has a bug ...")
    checked = check_training(out)
    verdicts = _audits(quiet=as_json)
    with working("pricing, calibrating, drawing"):
        tour = _compute(checked, verdicts)
        files = _write(tour, out)
    if as_json:
        emit(_data(tour) | {"files": [str(path) for path in files]})
        return
    _show(tour)
    say("\nWritten", style="bold")
    for path in files:
        say(f"  {path}")
    say("\nWhat to do next", style="bold")
    for what, command in NEXT.items():
        say(f"  {what + ':':<32} {command}")


@dataclass(frozen=True)
class _Tour:
    """Everything that is shown, computed once."""

    checked: "Checked"
    event: "Event"
    query: Query
    prices: list[Price]
    explained: "Explanation"
    whole: "Odds"
    noise: float
    bound: "LowerBound"
    verdicts: dict[str, "Verdict"]
    proofs: "dict[str, GDP]"
    severity: "LowerBound"

    @property
    def promise(self) -> str:
        return sentence(self.event, self.query, next(p for p in self.prices if is_proof(p)))


def _compute(checked: "Checked", verdicts: dict[str, "Verdict"]) -> _Tour:
    from dpassay.bounds import lower_bound_from_counts
    from dpassay.cli.demo_learners import measure_severity, prove
    from dpassay.privacy import ApproxDP, account, calibrate, dp_sgd_event
    from dpassay.privacy.membership import odds_of_curve
    from dpassay.report.odds import explain

    event, query = dp_sgd_event(NOISE, RATE, STEPS), Query(DELTA, None)
    found = prices(event, query)
    epsilon: Any = next(price.value for price in found if is_proof(price))
    return _Tour(
        checked=checked,
        event=event,
        query=query,
        prices=found,
        explained=explain(ApproxDP(epsilon, DELTA)),
        whole=odds_of_curve(account(event, "pld")),
        noise=calibrate(lambda s: dp_sgd_event(s, RATE, STEPS), ApproxDP(WANTED, DELTA)),
        bound=lower_bound_from_counts(
            tp=TP, fn=FN, fp=FP, tn=TN, delta=DELTA, confidence=1 - 1e-10
        ),
        verdicts=verdicts,
        proofs=prove(),
        severity=measure_severity(DELTA, CONFIDENCE),
    )


def _audits(quiet: bool) -> dict[str, "Verdict"]:
    """Both bundled learners, on trials that are the same every time."""
    from dpassay.auditing import audit
    from dpassay.zoo import learners

    found = {}
    for name, learner in (("honest", learners.honest), ("broken", learners.broken)):
        if not quiet:
            say(f"Auditing the {name} learner: up to {AUDIT_TRIALS} trainings ...")
        found[name] = audit(
            learner,
            learners.neighbours(),
            claim=learners.claim(),
            confidence=CONFIDENCE,
            trials=AUDIT_TRIALS,
            measure=True,
            progress="quiet" if quiet else "auto",
            replay=f"dpassay audit example:{name} --measure --confidence {CONFIDENCE} "
            f"--trials {AUDIT_TRIALS}",
        )
        if found[name].ended == "interrupted":
            raise KeyboardInterrupt
    return found


def _show(tour: _Tour) -> None:
    from dpassay.cli import explain

    say("1. A training script with a bug, and its line", style="bold")
    say(tour.checked.words)
    say(f"Replay: {tour.checked.command}")
    say("\n2. Two learners of the same claim, audited", style="bold")
    for words in _verdicts(tour):
        say(words)
    say(_severity(tour))
    say("\n3. From above: the most that a training run can leak", style="bold")
    title = f"DP-SGD, noise multiplier {NOISE}, sampling rate {RATE}, {STEPS} steps"
    print_prices(title, tour.query, tour.prices)
    say(tour.promise)
    say("\n4. What that means for one person", style="bold")
    explain.show(tour.explained)
    say(_whole(tour))
    say("\n5. The noise for a stronger promise", style="bold")
    say(_say_noise(tour))
    say("\n6. From below: a published claim, attacked", style="bold")
    say(_refutation(tour))


def _verdicts(tour: _Tour) -> list[str]:
    """A line or two on each learner."""
    return [
        f"{LEARNERS[name]}: {verdict}.\n  Replay: {verdict.replay}"
        for name, verdict in tour.verdicts.items()
    ]


def _severity(tour: _Tour) -> str:
    """How bad the broken learner is: from above and from below."""
    from dpassay.cli.demo_learners import TRAININGS
    from dpassay.report.numbers import up

    proved = {name: float(curve.epsilon(DELTA)) for name, curve in tour.proofs.items()}
    return (
        "Proved of the noise that is really added: epsilon <= "
        f"{up(proved['honest'])} of the honest one, which is its claim, and {up(proved['broken'])} "
        f"of the broken one. How bad that is, from the whole scores of {2 * TRAININGS} more "
        f"trainings: {tour.severity}."
    )


def _whole(tour: _Tour) -> str:
    from dpassay.report.odds import of_hundred

    return (
        "Those are the odds that the pair (epsilon, delta) allows by itself. The whole privacy "
        f"curve of this run allows {of_hundred(tour.whole.if_out)} and "
        f"{of_hundred(tour.whole.if_in)} of 100 at most: a pair forgets most of what was proved."
    )


def _say_noise(tour: _Tour) -> str:
    from dpassay.report.numbers import up

    return (
        f"({WANTED:g}, {DELTA:g})-DP in as many steps needs a noise multiplier of "
        f"{up(tour.noise)} instead of {NOISE}."
    )


def _refutation(tour: _Tour) -> str:
    from dpassay.privacy import ApproxDP
    from dpassay.report.numbers import down

    fpr, fnr = (count / 100_000 for count in (FP, FN))
    least = ApproxDP(CLAIMED, DELTA).tradeoff(fnr)
    return (
        f"A paper claimed ({CLAIMED}, {DELTA:g})-DP. In 100 000 trainings with a canary and as "
        f"many without, a threshold on its loss erred at rates FPR {fpr:.5f} and FNR {fnr:.5f}. "
        f"At that FNR the claim needs an FPR of at least {down(least)}.\n{tour.bound}.\n"
        f"REFUTED: claimed {CLAIMED}. A bug was found, and its authors call the results invalid "
        "(Tramèr et al. 2022)."
    )


def _write(tour: _Tour, folder: Path) -> list[Path]:
    """The report on both learners, the script that was checked, the pictures, and the tour."""
    from dpassay.cli.demo_check import NAME, SCRIPT
    from dpassay.report import audit_report, join_reports, write_report
    from dpassay.report.figures import house_style, svg_of
    from dpassay.report.meeting import proof_and_attack
    from dpassay.report.odds import icons_svg
    from dpassay.report.published import published_claim

    with house_style():
        picture = published_claim()
        meeting = proof_and_attack(tour.verdicts, tour.proofs, {"broken": tour.severity})
    texts = {
        "learners.svg": svg_of(meeting),
        "odds.svg": icons_svg(tour.explained),
        "tradeoff.svg": svg_of(picture),
    }
    texts["tour.html"] = _page(tour, texts, picture.caption, meeting.caption)
    texts[NAME] = SCRIPT
    both = [
        audit_report(verdict, title=LEARNERS[name], proof=tour.proofs[name])
        for name, verdict in tour.verdicts.items()
    ]
    report = join_reports(
        both,
        title="Two learners of the same claim",
        introduction="Both say that they are as private; one has a bug that was published.",
    )
    files = write_report(report, folder / "report.html")
    return [*files, *_files.write_all({folder / name: text for name, text in texts.items()})]


def _page(tour: _Tour, pictures: dict[str, str], caption: str, met: str) -> str:
    from dpassay.cli.explain import limits
    from dpassay.report.page import Section, inline, page

    both, odds, case = (
        inline(pictures[f"{name}.svg"], name) for name in ("learners", "odds", "tradeoff")
    )
    words = " ".join(limits(tour.explained))
    learners = " ".join([*_verdicts(tour), _severity(tour)])
    sections = [
        Section("A training script with a bug, and its line", tour.checked.words),
        Section("Two learners of the same claim, audited", f"{learners} {met}", both),
        Section("Promised at most", tour.promise),
        Section("What that means for one person", f"{words} {_whole(tour)}", odds),
        Section("The noise for a stronger promise", _say_noise(tour)),
        Section("A published claim, refuted", caption, case),
    ]
    return page("dpassay: a short tour", "Proofs from above, attacks from below.", sections)


def _data(tour: _Tour) -> dict[str, Any]:
    from dataclasses import asdict

    from dpassay.cli.verdicts import as_data

    return {
        "check": tour.checked.as_data(),
        "account": {p.method: p.value for p in tour.prices if p.value is not None},
        "odds": {name: asdict(case) for name, case in tour.explained.odds.items()},
        "odds_of_the_whole_curve": asdict(tour.whole),
        "noise_multiplier": tour.noise,
        "refuted": tour.bound.epsilon > CLAIMED,
        "epsilon_lower": tour.bound.epsilon,
        "claim": {"epsilon": CLAIMED, "delta": DELTA},
        "verdicts": {name: as_data(v, repr(v.claim)) for name, v in tour.verdicts.items()},
        "proved_upper": {name: float(p.epsilon(DELTA)) for name, p in tour.proofs.items()},
        "severity": {
            "epsilon_lower": tour.severity.epsilon,
            "assumption": tour.severity.assumption,
        },
    }
