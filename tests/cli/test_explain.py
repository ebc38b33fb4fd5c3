import math
import xml.etree.ElementTree as ET

import pytest

SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.golden
@pytest.mark.parametrize(
    ("epsilon", "laplace", "worst"),
    [(0.1, 48, 48), (0.5, 39, 38), (1, 30, 27), (2, 18, 12), (4, 7, 2)],
)
def test_pure_epsilon(dpassay, epsilon, laplace, worst):
    """Both tables, computed apart from this code, out of 100, if you did not take part."""
    odds = dpassay(f"explain --epsilon {epsilon} --json").data["odds"]
    assert odds["laplace"]["out_of_100"] == [laplace, 100 - laplace]
    assert odds["worst case"]["out_of_100"] == [worst, 100 - worst]


def test_the_words_say_which_numbers_they_are(dpassay):
    words = dpassay("explain --epsilon 0.5").words
    assert "Worst case over all algorithms with this guarantee" in words
    assert "Usual release: a count released with Laplace noise" in words
    assert (
        "Out of 100 potential reports, 39 would lead someone to believe you took part if you did "
        "not, 61 if you did." in words
    )
    assert "38 would lead someone to believe" in words


def test_limits_and_posterior(dpassay):
    data = dpassay("explain --epsilon 1 --prior .1 --json").data
    e = 2.718281828459045
    assert data["limits"]["accuracy"] == pytest.approx(e / (1 + e))
    assert data["limits"]["tpr"] == pytest.approx(0.01 * e)
    assert data["posterior"] == pytest.approx([0.1 / (0.1 + 0.9 * e), 0.1 * e / (0.1 * e + 0.9)])
    assert data["odds"]["worst case"]["belief"] == pytest.approx(data["posterior"][1])


@pytest.mark.golden
def test_gaussian(dpassay):
    """mu = 1: Phi(-1/2) = .308538; (1, 1e-5): mu = .2680511, computed apart from this code."""
    mu = dpassay("explain --mu 1 --json").data
    assert mu["odds"]["worst case"]["if_out"] == pytest.approx(0.308538, abs=1e-6)
    assert mu["limits"]["advantage"] == pytest.approx(0.382925, abs=1e-6)
    assert mu["posterior"] is None
    approx = dpassay("explain --epsilon 1 --delta 1e-5 --json").data
    assert approx["odds"]["gaussian"]["if_out"] == pytest.approx(
        0.5 * math.erfc(0.2680511 / 2 / math.sqrt(2)), abs=1e-7
    )
    assert approx["odds"]["worst case"]["if_out"] == pytest.approx((1 - 1e-5) / (1 + 2.7182818285))
    assert approx["posterior"] is None


def test_two_arrays_of_a_hundred(dpassay):
    out = dpassay("explain --epsilon 1").out
    rows = [line for line in out.splitlines() if line and set(line) <= set("●○ ")]
    assert len(rows) == 20  # two cases
    left, right = ("".join(row[part] for row in rows[:10]) for part in (slice(19), slice(24, None)))
    assert (left.count("●"), left.count("○")) == (27, 73)
    assert (right.count("●"), right.count("○")) == (73, 27)


def test_a_terminal_without_circles(dpassay, monkeypatch):
    monkeypatch.setattr("rich.console.Console.encoding", "ascii")
    out = dpassay("explain --epsilon 1").out
    assert "# # #" in out
    assert "●" not in out


def test_svg(dpassay, tmp_path):
    path = tmp_path / "odds.svg"
    data = dpassay(f"explain --epsilon 1 --svg {path} --json").data
    assert data["svg"] == str(path)
    root = ET.parse(path).getroot()
    assert root.find(f"{SVG}title").text == "What epsilon = 1 means for one person"
    assert "27 would lead" in root.find(f"{SVG}desc").text
    used = [use.get("href") for use in root.iter(f"{SVG}use")]
    assert (used.count("#on"), used.count("#off")) == (27 + 73 + 30 + 70, 73 + 27 + 70 + 30)
    text = path.read_text(encoding="utf-8")
    assert "<script" not in text
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "")


def test_no_privacy_and_perfect_privacy(dpassay):
    none = dpassay("explain --epsilon inf --json").data
    assert none["odds"]["worst case"]["out_of_100"] == [0, 100]
    assert none["posterior"] == [0, 1]
    perfect = dpassay("explain --epsilon 0 --json").data
    assert perfect["odds"]["laplace"]["out_of_100"] == [50, 50]
    assert perfect["limits"]["advantage"] == 0


@pytest.mark.parametrize(
    ("risk", "epsilon", "mu"),
    [("--advantage .1", 2 * math.atanh(0.1), 1 / 3.978948280545),
     ("--attack-rate .01,.1", None, 1 / 0.957124361819)],
)  # fmt: skip
def test_from_a_risk_to_guarantees_and_back(dpassay, risk, epsilon, mu):
    data = dpassay(f"explain {risk} --json").data
    assert data["guarantees"]["mu"] == pytest.approx(mu, rel=1e-9)
    assert data["guarantees"]["noise_multiplier"] == pytest.approx(1 / mu, rel=1e-9)
    if epsilon is not None:
        assert data["guarantees"]["epsilon"] == pytest.approx(epsilon, rel=1e-6)
        assert data["limits"]["advantage"] == pytest.approx(0.1, rel=1e-9)
        assert data["limits"]["advantage"] <= 0.1
        back = dpassay(f"explain --epsilon {data['guarantees']['epsilon']} --json").data
        assert back["limits"]["advantage"] == pytest.approx(0.1, rel=1e-6)
    words = dpassay(f"explain {risk}").words
    assert "keeps the risk" in words
    assert "What the second means" in words


def test_risks_go_with_nothing_else(dpassay):
    assert "exactly one" in dpassay("explain --epsilon 1 --advantage .1").err
    assert "delta=0.1" in dpassay("explain --advantage .1 --delta .1").err
    assert "attack_rate='x'" in dpassay("explain --attack-rate x").err
