"""``dpassay explain``: a guarantee as odds, in words and as a picture."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from dpassay import _files
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
    prior: Annotated[float, option("The attacker's belief, before, that you took part.")] = 0.5,
    svg: Annotated[Path | None, option("Write the picture here.", dir_okay=False)] = None,
    as_json: Json = False,
) -> None:
    """What a guarantee means for one person: odds, and the most that any attack can reach."""
    from dpassay.report import odds

    explained = odds.explain(_claim(epsilon, delta, mu), prior)
    if svg is not None:
        _files.write(svg, odds.icons_svg(explained))
    if as_json:
        emit(_data(explained, svg))
        return
    say(f"What {odds.in_words(explained.claim)} means for one person", style="bold")
    show(explained)
    if svg is not None:
        say(f"The picture is in {svg}.")


def _claim(epsilon: float | None, delta: float, mu: float | None) -> Any:
    from dpassay.privacy import GDP, ApproxDP, PureDP

    if (epsilon is None) == (mu is None):
        raise InvalidArgument(
            f"epsilon={epsilon} and mu={mu}: exactly one must be given. Pass --epsilon (with "
            "--delta if there is one), or --mu for Gaussian DP."
        )
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
