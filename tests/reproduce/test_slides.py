"""The figures of CSCI 699 and Micali 2022: every number that a source or its correction has."""

import json
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from dpassay.errors import InvalidArgument
from dpassay.report import published
from dpassay_reproduce import EXPERIMENTS, experiment, slides


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    folder = tmp_path_factory.mktemp("slides")
    files = slides.run(folder)
    numbers = json.loads((folder / "numbers.json").read_text(encoding="utf-8"))
    return folder, files, numbers


def _facts(drawn, name):
    return drawn[2][name]["facts"]


def test_files(drawn):
    folder, files, numbers = drawn
    titles = {name: title for name, (title, _) in slides.TEXTS.items()}
    titles |= {"debugging": published.TITLE}
    drawings = [f"{name}.svg" for name in titles]
    assert [path.name for path in files] == [*drawings, "numbers.json", "index.html"]
    page = (folder / "index.html").read_text(encoding="utf-8")
    for name, title in titles.items():
        root = ET.parse(folder / f"{name}.svg").getroot()
        assert root.find("{http://www.w3.org/2000/svg}title").text == title
        assert f'src="{name}.svg"' in page
        assert numbers[name]["facts"]
        assert numbers[name]["curves"]
    assert "<script" not in page


@pytest.mark.golden
def test_composition(drawn):
    """Computed apart from this code: delta = 1e-3."""
    facts = _facts(drawn, "composition")
    expected = {  # as printed there, to the last digit
        "printed_100": "8.7128",
        "advanced_100": "4.2165",
        "exact_100": "3.1156",
        "printed_1000": "61.71",
        "advanced_1000": "16.7498",
        "exact_1000": "14.0445",
        "epsilon_2_printed_100": "150.498",
        "epsilon_2_exact_100": "187.199",
        "epsilon_2_true_delta_at_printed_100": "0.558",
    }
    for name, printed in expected.items():
        digits = len(printed.partition(".")[2])
        assert f"{facts[name]:.{digits}f}" == printed, name


def test_crossover_is_where_the_square_root_wins(drawn):
    """k(1 - tanh(e/2)) > sqrt(2 k log(1/delta)), solved by hand: k > 15.3."""
    k = 2 * np.log(1000) / (1 - np.tanh(0.05)) ** 2
    assert _facts(drawn, "composition")["crossover"] == np.ceil(k) == 16


def test_no_rule_below_the_exact_one_but_the_printed(drawn):
    curves = drawn[2]["composition"]["curves"]
    for part in curves.values():
        exact = np.array(part["exact"]) * (1 - 1e-9)
        assert np.all(np.array(part["advanced"]) >= exact)
        assert np.all(np.array(part["basic"]) >= exact)
    printed, exact = (np.array(curves["epsilon_2"][name]) for name in ("printed", "exact"))
    assert np.any(printed < exact - 1)


@pytest.mark.golden
def test_losses(drawn):
    """By hand: mu = 1, epsilon = 1: P(L >= 1) = .308538, delta = .126937."""
    for name in ("loss-gaussian", "loss-over-cdf"):
        assert _facts(drawn, name)["tail"] == pytest.approx(0.308538, abs=1e-6)
        assert _facts(drawn, name)["delta"] == pytest.approx(0.126937, abs=1e-6)
    assert _facts(drawn, "loss-laplace")["largest_loss"] == pytest.approx(1.0)
    # What is drawn as delta, the blue area, is delta: an integral against a closed form.
    assert _facts(drawn, "loss-over-cdf")["area"] == pytest.approx(0.126937, abs=1e-3)
    curves = drawn[2]["loss-over-cdf"]["curves"]
    share = np.mean(np.array(curves["gaussian"]) >= 1)
    assert share == pytest.approx(0.308538, abs=1e-3)
    assert max(curves["laplace"]) == pytest.approx(1.0)


@pytest.mark.golden
def test_tradeoff(drawn):
    """Computed apart from this code."""
    facts = _facts(drawn, "tradeoff")
    expected = {0: 0.382925, 0.5: 0.238422, 1: 0.126937, 2: 0.0209236, 4: 4.71224e-5}
    for epsilon, delta in expected.items():
        assert facts[f"delta_of_mu_1_at_{epsilon:g}"] == pytest.approx(delta, rel=5e-6)


def test_subsampling_lies_below_both_directions_and_is_convex(drawn):
    curves = {k: np.array(v) for k, v in drawn[2]["subsampling"]["curves"].items()}
    for other in ("f_p", "inverse", "minimum"):
        assert np.all(curves["c_p"] <= curves[other] + 1e-9)
    assert np.all(curves["c_p"] >= curves["f"] - 1e-9)
    assert np.diff(curves["c_p"], 2).min() > -1e-6
    assert np.diff(curves["minimum"], 2).min() < -1e-4  # before, it is not
    assert _facts(drawn, "subsampling")["largest_gap"] > 0.03


@pytest.mark.golden
def test_the_limit_theorem_underreports(drawn):
    """Computed apart from this code: CLT 3.8682 below PLD 3.9417."""
    facts = _facts(drawn, "clt")
    assert facts["clt_10000"] == pytest.approx(3.8682, abs=5e-5)
    assert facts["pld_10000"] == pytest.approx(3.9417, abs=5e-5)
    curves = drawn[2]["clt"]["curves"]
    assert np.all(np.array(curves["clt"]) < np.array(curves["pld"]))


@pytest.mark.golden
def test_debugging(drawn):
    """The counts and the claim of Tramèr et al. (2022)."""
    facts = _facts(drawn, "debugging")
    assert facts["least_fpr"] == pytest.approx(0.0398888507, abs=1e-10)
    assert facts["fpr_upper"] == pytest.approx(0.0027445, abs=5e-8)
    assert facts["fnr_upper"] == pytest.approx(0.955082, abs=5e-7)
    assert facts["epsilon_lower"] == pytest.approx(2.79500, abs=5e-6)
    assert facts["fpr_lower"] < facts["fpr"] < facts["fpr_upper"] < facts["least_fpr"]


def test_experiments_are_found_by_name():
    assert experiment("slides") is slides
    for name in EXPERIMENTS:
        assert callable(experiment(name).run)
    with pytest.raises(InvalidArgument, match="name='slide'"):
        experiment("slide")
