"""``dpassay explain``: a guarantee as odds, in words and as a picture."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from dpassay import _files
from dpassay.cli.calibrate import TargetAdvantage, TargetRate, read_risk
from dpassay.cli.options import Json, option
from dpassay.cli.output import console, emit, say
from dpassay.errors import InvalidArgument

if TYPE_CHECKING:
    from dpassay.report.odds import Explanation


EXAMPLE = "dpassay explain --epsilon 0.5 --svg odds.svg"


def explain(
    epsilon: Annotated[float | None, option("The epsilon of the guarantee.")] = None,
    delta: Annotated[float, option("Its delta; 0 is pure.")] = 0.0,
    mu: Annotated[float | None, option("Or the mu of Gaussian DP.")] = None,
    advantage: TargetAdvantage = None,
    attack_rate: TargetRate = None,
    prior: Annotated[float, option("The attacker's belief, before, that you took part.")] = 0.5,
    svg: Annotated[Path | None, option("Write the picture here.", dir_okay=False)] = None,
    as_json: Json = False,
) -> None:
    """What a guarantee means for one person: odds, and the most that any attack can reach.

    Or the other way: which guarantees keep a risk (--advantage, --attack-rate).
    """
    from dpassay.report import odds

    _refuse_several(epsilon, mu, advantage, attack_rate)
    kept: dict[str, Any] = {}
    if advantage is not None or attack_rate is not None:
        claim, kept = _find_guarantees(advantage, attack_rate, delta)
    else:
        claim = _claim(epsilon, delta, mu)
    explained = odds.explain(claim, prior)
    if svg is not None:
        _files.write(svg, odds.icons_svg(explained))
    if as_json:
        emit(_data(explained, svg) | kept)
        return
    if kept:
        say(kept["sentence"])
    say(f"What {odds.in_words(explained.claim)} means for one person", style="bold")
    show(explained)
    if svg is not None:
        say(f"The picture is in {svg}.")


def _refuse_several(*stated: float | str | None) -> None:
    if sum(value is not None for value in stated) != 1:
        epsilon, mu, advantage, attack_rate = stated
        raise InvalidArgument(
            f"epsilon={epsilon}, mu={mu}, advantage={advantage}, attack_rate={attack_rate}: "
            "exactly one must be given. Pass --epsilon (with --delta if there is one), --mu for "
            "Gaussian DP, or a risk to be kept: --advantage or --attack-rate."
        )


def _find_guarantees(
    advantage: float | None, attack_rate: str | None, delta: float
) -> tuple[Any, dict[str, Any]]:
    """The Gaussian guarantee that keeps a risk, and what is said of it and of the pure one."""
    from dpassay.privacy.calibration import weakest_guarantees
    from dpassay.report.numbers import down, up

    if delta != 0:
        raise InvalidArgument(
            f"delta={delta:g} does not go with a risk, which says nothing of delta. Leave it out."
        )
    risk = read_risk(advantage, attack_rate)
    pure, normal = weakest_guarantees(risk)
    epsilon, mu = pure.epsilon_upper, normal.mu
    words = (
        f"Each of these keeps the risk ({risk.in_words(f'{risk.goal:g}')}): epsilon = "
        f"{down(epsilon, 4)} with delta = 0, or mu = {down(mu, 4)}, which one release with "
        f"Gaussian noise of {up(1 / mu, 4)} sensitivities has. What the second means:"
    )
    facts = {"epsilon": epsilon, "mu": mu, "noise_multiplier": 1 / mu}
    return normal, {"risk": risk.as_dict(), "guarantees": facts, "sentence": words}


def _claim(epsilon: float | None, delta: float, mu: float | None) -> Any:
    from dpassay.privacy import GDP, ApproxDP, PureDP

    stated: Any = epsilon
    if mu is not None:
        if delta != 0:
            raise InvalidArgument(
                f"delta={delta:g} does not go with mu={mu:g}, which states delta for every "
                "epsilon. Leave it out."
            )
        return GDP(mu)
    return PureDP(stated) if delta == 0 else ApproxDP(stated, delta)


def show(explained: "Explanation") -> None:
    """The explanation in words and text pictures."""
    from dpassay.report import odds

    for name, case in explained.odds.items():
        say(f"\n{_heading(name, case)}", style="bold")
        say(odds.sentence(case))
        say(_icons(case))
        say(
            f"A belief of {explained.prior:.4g} that you took part becomes "
            f"{explained.belief[name]:.4g} after a report that points to you."
        )
    say("\nThe most that anyone can learn", style="bold")
    for line in limits(explained):
        say(line)


def _heading(name: str, case: Any) -> str:
    from dpassay.report.odds import heading

    return heading(case.what if name == "worst case" else f"usual release: {case.what}")


def _icons(case: Any) -> str:
    from dpassay.report import odds

    try:
        "●○".encode(console().encoding)
    except UnicodeEncodeError:
        return odds.icons(case, filled="#", hollow=".")
    return odds.icons(case)


def limits(explained: "Explanation") -> list[str]:
    """What no attack can exceed, in words."""
    from dpassay.report.numbers import down, up

    most = explained.limits
    lines = [
        f"Accuracy of any membership attack at even odds: at most {up(most.accuracy, 4)} "
        f"(advantage {up(most.advantage, 4)}).",
        f"True-positive rate at a false-positive rate of {most.fpr:g}: at most {up(most.tpr, 4)}.",
    ]
    if explained.posterior is None:
        lines.append("Belief after a rare report: no limit, unless delta is 0.")
    else:
        low, high = explained.posterior
        lines.append(
            f"Belief after any report: between {down(low, 4)} and {up(high, 4)}, from "
            f"{explained.prior:g} before."
        )
    return lines


def _data(explained: "Explanation", svg: Path | None) -> dict[str, Any]:
    from dataclasses import asdict

    from dpassay.report import odds

    cases = {
        name: asdict(case)
        | {
            "out_of_100": [round(100 * case.if_out), round(100 * case.if_in)],
            "belief": explained.belief[name],
            "sentence": odds.sentence(case),
        }
        for name, case in explained.odds.items()
    }
    return {
        "claim": repr(explained.claim),
        "prior": explained.prior,
        "odds": cases,
        "posterior": explained.posterior,
        "limits": asdict(explained.limits),
        "svg": None if svg is None else str(svg),
    }
