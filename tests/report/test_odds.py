import math
import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpassay.errors import InvalidArgument
from dpassay.privacy import GDP, ApproxDP, PureDP, account, dp_sgd_event
from dpassay.privacy.membership import Odds
from dpassay.report.odds import explain, icons, icons_svg, of_hundred, sentence

epsilons = st.floats(0, 20)
priors = st.floats(1e-6, 1 - 1e-6)


@given(epsilons, priors)
def test_worst_case_belief_is_the_sharp_posterior(epsilon, prior):
    """The test with equal errors attains odds of e^epsilon, which nothing exceeds."""
    explained = explain(PureDP(epsilon), prior)
    low, high = explained.posterior
    assert low <= prior * (1 + 1e-12)
    assert explained.belief["worst case"] == pytest.approx(high, rel=1e-9)
    assert explained.belief["laplace"] <= high * (1 + 1e-9)


@given(epsilons)
def test_a_usual_release_is_never_worse_than_the_worst_case(epsilon):
    for claim in (PureDP(epsilon), ApproxDP(epsilon, 1e-5)):
        worst, usual = explain(claim).odds.values()
        assert usual.if_in <= worst.if_in + 1e-9
        assert usual.if_out >= worst.if_out - 1e-9


def test_zero_delta_is_pure():
    assert explain(ApproxDP(1.0, 0.0)).odds["laplace"] == explain(PureDP(1.0)).odds["laplace"]


def test_any_curve_has_a_worst_case():
    curve = account(dp_sgd_event(1.0, 0.5, 2), "rdp")
    explained = explain(curve)
    assert list(explained.odds) == ["worst case"]
    assert 0 < explained.odds["worst case"].if_out < 0.5


@pytest.mark.parametrize("prior", [0, 1, -0.1, math.nan])
def test_a_prior_is_a_belief(prior):
    with pytest.raises(InvalidArgument, match="prior="):
        explain(PureDP(1.0), prior)


@pytest.mark.parametrize(
    ("share", "words"),
    [(0.0, "0"), (1.0, "100"), (0.004, "fewer than 1"), (0.997, "more than 99"), (0.3, "30")],
)
def test_never_zero_unless_it_is(share, words):
    assert of_hundred(share) == words
    assert words in sentence(Odds(share, 0.5, "a test"))


@given(st.floats(0, 1), st.floats(0, 1))
def test_icons_count_what_the_sentence_says(out, inside):
    head, *rows = icons(Odds(out, inside, "a test"), "x", "-").splitlines()
    assert len(rows) == 10
    assert head.startswith("if you did not")
    left, right = ("".join(r[cut] for r in rows) for cut in (slice(19), slice(24, None)))
    assert (left.count("x"), right.count("x")) == (round(100 * out), round(100 * inside))
    assert left.count("x") + left.count("-") == right.count("x") + right.count("-") == 100


@pytest.mark.parametrize("claim", [PureDP(1.0), ApproxDP(2.0, 1e-6), GDP(0.5)])
def test_picture_is_well_formed_and_described(claim):
    explained = explain(claim)
    root = ET.fromstring(icons_svg(explained))
    space = "{http://www.w3.org/2000/svg}"
    described = root.get("aria-labelledby").split()
    assert described == [root.find(f"{space}{tag}").get("id") for tag in ("title", "desc")]
    for odds in explained.odds.values():
        assert sentence(odds) in root.find(f"{space}desc").text
    width, height = (float(root.get(side)) for side in ("width", "height"))
    for use in root.iter(f"{space}use"):
        assert 0 <= float(use.get("x")) <= width - 20
        assert 0 <= float(use.get("y")) <= height - 20
