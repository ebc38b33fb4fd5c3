"""Epsilon as odds: in words, as two arrays of a hundred icons, in text or SVG.

The wording is that of Nanayakkara et al. 2023: out of 100 potential reports, how many would lead
someone to believe that you took part, if you did not and if you did. Two kinds of number can be
meant, and each is labelled: the *worst case* that the guarantee allows (38 and 62 at epsilon = 0.5)
and a *usual release*, a count with Laplace noise judged at the midpoint (39 and 61, the numbers of
the study), or a value with Gaussian noise.
"""

import math
from dataclasses import dataclass
from html import escape

from dpassay import _check
from dpassay.privacy.curves import GDP, ApproxDP, PureDP
from dpassay.privacy.membership import (
    AttackLimits,
    Odds,
    attack_limits,
    odds_of_curve,
    odds_of_gaussian,
    odds_of_laplace,
    posterior_bounds,
)
from dpassay.types import PrivacyCurve

SIDE = 10  # icons in a row


@dataclass(frozen=True)
class Explanation:
    """What a guarantee means for one person.

    Attributes:
        claim: the guarantee.
        prior: the attacker's belief, before the report, that the person took part.
        odds: by name: "worst case", then "laplace" or "gaussian" where there is such a release.
        belief: by the same names, what the prior becomes after a report that points to the person.
        posterior: the range of the belief after *any* report; only pure epsilon limits it.
        limits: the most that any attack can reach.

    """

    claim: PrivacyCurve
    prior: float
    odds: dict[str, Odds]
    belief: dict[str, float]
    posterior: tuple[float, float] | None
    limits: AttackLimits


def explain(claim: PrivacyCurve, prior: float = 0.5) -> Explanation:
    """What the claim means for one person: upper bounds, except for the usual release (exact).

    Args:
        claim: the guarantee, for example PureDP(1.0), ApproxDP(1.0, 1e-5) or GDP(1.0).
        prior: the attacker's belief before the report, in (0, 1).

    >>> explained = explain(PureDP(0.5))
    >>> {name: round(100 * odds.if_in) for name, odds in explained.odds.items()}
    {'worst case': 62, 'laplace': 61}

    """
    remedy = "It is the attacker's belief before the report; 0.5 is an even chance."
    prior = _check.number(
        "prior", prior, low=0, high=1, low_open=True, high_open=True, remedy=remedy
    )
    odds = {"worst case": odds_of_curve(claim)} | _usual_release(claim)
    pure = _pure_epsilon(claim)
    return Explanation(
        claim=claim,
        prior=prior,
        odds=odds,
        belief={name: _belief(prior, case) for name, case in odds.items()},
        posterior=None if pure is None else posterior_bounds(prior, pure),
        limits=attack_limits(claim),
    )


def _pure_epsilon(claim: PrivacyCurve) -> float | None:
    if isinstance(claim, PureDP) or (isinstance(claim, ApproxDP) and claim.delta_upper == 0):
        return claim.epsilon_upper
    return None


def _usual_release(claim: PrivacyCurve) -> dict[str, Odds]:
    pure = _pure_epsilon(claim)
    if pure is not None:
        return {"laplace": odds_of_laplace(pure)}
    if isinstance(claim, ApproxDP) and claim.epsilon_upper < math.inf:
        return {"gaussian": odds_of_gaussian(claim.epsilon_upper, claim.delta_upper)}
    if isinstance(claim, GDP):
        worst = odds_of_curve(claim)
        return {"gaussian": Odds(worst.if_out, worst.if_in, "a value released with Gaussian noise")}
    return {}


def _belief(prior: float, odds: Odds) -> float:
    """P(took part | the report points there), by Bayes."""
    points = prior * odds.if_in, (1 - prior) * odds.if_out
    return points[0] / sum(points)


def heading(text: str) -> str:
    """The text with a capital at its start; names inside keep theirs."""
    return text[:1].upper() + text[1:]


def in_words(claim: PrivacyCurve) -> str:
    """A claim as a layman may read it.

    >>> in_words(ApproxDP(1.0, 1e-5)), in_words(GDP(1.0))
    ('epsilon = 1, delta = 1e-05', 'mu = 1')

    """
    if isinstance(claim, GDP):
        return f"mu = {claim.mu:g}"
    pure = _pure_epsilon(claim)
    if pure is not None:
        return f"epsilon = {pure:g}"
    if isinstance(claim, ApproxDP):
        return f"epsilon = {claim.epsilon_upper:g}, delta = {claim.delta_upper:g}"
    return repr(claim)


def of_hundred(share: float) -> str:
    """A share as a number out of 100; never 0 or 100 unless it is.

    >>> of_hundred(0.389), of_hundred(0.001), of_hundred(0.9999)
    ('39', 'fewer than 1', 'more than 99')

    """
    n = round(100 * share)
    if n == 0 and share > 0:
        return "fewer than 1"
    return "more than 99" if n == 100 and share < 1 else str(n)


def sentence(odds: Odds) -> str:
    """The odds in words."""
    return (
        f"Out of 100 potential reports, {of_hundred(odds.if_out)} would lead someone to believe "
        f"you took part if you did not, {of_hundred(odds.if_in)} if you did."
    )


def icons(odds: Odds, filled: str = "●", hollow: str = "○") -> str:
    """Two arrays of a hundred icons side by side; a filled one is a report that points to you."""
    left, right = (_rows(share, filled, hollow) for share in (odds.if_out, odds.if_in))
    width = 2 * SIDE - 1
    head = f"{'if you did not':<{width}}     {'if you did'}"
    rows = (f"{a:<{width}}     {b}" for a, b in zip(left, right, strict=True))
    return "\n".join([head, *rows])


def _rows(share: float, filled: str, hollow: str) -> list[str]:
    n = round(100 * share)
    flat = [filled] * n + [hollow] * (100 - n)
    return [" ".join(flat[i : i + SIDE]) for i in range(0, 100, SIDE)]


# The picture. Filled and outlined icons differ without colour.

_CELL, _PANEL, _GAP, _MARGIN, _HEAD, _ROW = 24, 240, 60, 24, 84, 344
_WIDTH = 2 * _MARGIN + 2 * _PANEL + _GAP
_PERSON = (
    '<g id="{name}" {paint}><circle cx="10" cy="5" r="3.6"/>'
    '<path d="M3.5 20v-4.5a6.5 5.5 0 0 1 13 0V20z"/></g>'
)
_FILLED = 'fill="#1b4965" stroke="#1b4965" stroke-width="1"'
_HOLLOW = 'fill="#ffffff" stroke="#767676" stroke-width="1"'
_SHAPES = (
    f"<defs>{_PERSON.format(name='on', paint=_FILLED)}"
    f"{_PERSON.format(name='off', paint=_HOLLOW)}</defs>"
)


def icons_svg(explained: Explanation) -> str:
    """The odds as an SVG picture, with title and description for those who cannot see it."""
    cases = list(explained.odds.values())
    title = f"What {in_words(explained.claim)} means for one person"
    description = " ".join(f"{heading(odds.what)}: {sentence(odds)}" for odds in cases)
    height = 56 + _ROW * len(cases)
    rows = "\n".join(_case(odds, 56 + _ROW * i) for i, odds in enumerate(cases))
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" '
        f'height="{height}" role="img" aria-labelledby="title desc" font-family="sans-serif">\n'
        f'<title id="title">{escape(title)}</title>\n<desc id="desc">{escape(description)}</desc>\n'
        f"{_SHAPES}\n"
        f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>\n'
        f"{_text(_MARGIN, 36, title, 15, 'bold')}\n{rows}\n</svg>\n"
    )


def _case(odds: Odds, top: int) -> str:
    panels = [
        (_MARGIN, "If you do not take part:", odds.if_out),
        (_MARGIN + _PANEL + _GAP, "If you take part:", odds.if_in),
    ]
    drawn = "\n".join(_panel(x, top + 24, head, share) for x, head, share in panels)
    return f"{_text(_MARGIN, top + 14, heading(odds.what), 14, 'bold')}\n{drawn}"


def _panel(left: int, top: int, head: str, share: float) -> str:
    count = f"{of_hundred(share)} of 100 reports point to you"
    people = _people(left, top + _HEAD - 28, share)
    return f"{_text(left, top + 18, head, 14)}\n{_text(left, top + 38, count, 14)}\n{people}"


def _people(left: int, top: int, share: float) -> str:
    n = round(100 * share)
    return "".join(
        f'<use href="#{"on" if i < n else "off"}" '
        f'x="{left + _CELL * (i % SIDE)}" y="{top + _CELL * (i // SIDE)}"/>'
        for i in range(100)
    )


def panel_svg(share: float, title: str) -> str:
    """A hundred icons of which a share is filled, by themselves."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_PANEL} {_PANEL}" '
        f'width="{_PANEL}" height="{_PANEL}" role="img" aria-labelledby="title">'
        f'<title id="title">{escape(title)}</title>{_SHAPES}{_people(2, 2, share)}</svg>'
    )


def _text(x: int, y: int, words: str, size: int, weight: str = "normal") -> str:
    style = f'font-size="{size}" font-weight="{weight}" fill="#1a1a1a"'
    return f'<text x="{x}" y="{y}" {style}>{escape(words)}</text>'
