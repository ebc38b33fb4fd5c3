"""demo, doctor and reproduce."""

import json
import xml.etree.ElementTree as ET
from html.parser import HTMLParser

import pytest

from dpassay.cli.demo import LEARNERS
from dpassay.cli.demo_check import SCRIPT
from dpassay.cli.doctor import packages

BUG = "    total = total + rng.normal(scale=NOISE * CLIP / BATCH, size=8)"


class _Page(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.ids, self.targets = [], [], []

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.tags.append(tag)
        self.ids += [attrs["id"]] if "id" in attrs else []
        for name in ("href", "xlink:href"):
            self.targets += [attrs[name]] if name in attrs else []


def test_demo(dpassay, tmp_path):
    result = dpassay(f"demo --out {tmp_path / 'demo'}")
    assert result.code == 0
    assert "REFUTED: claimed 0.21" in result.out
    assert "epsilon >= 2.7949 at delta=1e-05" in result.out
    assert "not refuted: epsilon >= " in result.out
    assert "at least 0.039888" in result.out
    assert "What to do next" in result.out
    line = SCRIPT.splitlines().index(BUG) + 1
    assert f"{tmp_path / 'demo' / 'training.py'}:{line}   {BUG.strip()}" in result.out
    assert "DPA202" in result.out
    assert (tmp_path / "demo" / "training.py").read_text() == SCRIPT
    for name in ("learners.svg", "odds.svg", "tradeoff.svg"):
        root = ET.parse(tmp_path / "demo" / name).getroot()
        assert root.find("{http://www.w3.org/2000/svg}title").text
    report = (tmp_path / "demo" / "report.html").read_text(encoding="utf-8")
    assert len(report.encode()) < 500_000
    for learner in LEARNERS.values():
        assert learner in report
        assert learner in result.out
    data = json.loads((tmp_path / "demo" / "report.json").read_text(encoding="utf-8"))
    assert [audit["verdict"]["refuted"] for audit in data["audits"]] == [False, True]
    honest, broken = (audit["epsilon"] for audit in data["audits"])
    # Proof, claim and attack meet: within a factor of 1.5, and the bug by its true severity.
    assert honest["claimed"] / 1.5 < honest["measured_lower"] < honest["claimed"]
    assert honest["proved_upper"] == pytest.approx(honest["claimed"])
    assert broken["proved_upper"] > 1000 * broken["claimed"]
    picture = (tmp_path / "demo" / "learners.svg").read_text(encoding="utf-8")
    for words in ("proved 1.761", "claimed 1.761", "shown 1.34", "proved 4381", "if Gaussian, 3"):
        assert words in picture
    text = (tmp_path / "demo" / "tour.html").read_text(encoding="utf-8")
    page = _Page()
    page.feed(text)
    assert "script" not in page.tags
    assert page.tags.count("svg") == 3
    assert len(page.ids) == len(set(page.ids))
    assert page.targets
    assert {target.lstrip("#") for target in page.targets} <= set(page.ids)


def test_demo_for_machines(dpassay, tmp_path, monkeypatch):
    monkeypatch.setattr("dpassay.cli.demo.AUDIT_TRIALS", 80)
    data = dpassay(f"demo --out {tmp_path} --json").data
    assert data["refuted"] is True
    assert data["epsilon_lower"] == pytest.approx(2.795, abs=1e-4)
    assert data["account"]["pld"] < data["account"]["rdp"]
    assert len(data["files"]) == 7
    assert data["check"]["rule"] == "DPA202"
    assert data["check"]["epsilon_seen"] > 100 * data["check"]["epsilon_claimed"]
    verdicts = data["verdicts"]
    assert [verdicts[name]["refuted"] for name in ("honest", "broken")] == [False, True]
    proved = data["proved_upper"]["broken"]
    assert proved / 1.5 < data["severity"]["epsilon_lower"] < proved
    # The pair (epsilon, delta) allows more than the curve that it was read from.
    pair, whole = data["odds"]["worst case"], data["odds_of_the_whole_curve"]
    assert pair["if_in"] > whole["if_in"] > 0.5


def test_demo_that_is_interrupted(dpassay, tmp_path, monkeypatch):
    """Ctrl-C in the middle of an audit: nothing is written, no traceback, 130."""

    def interrupted(data, rng):
        raise KeyboardInterrupt

    monkeypatch.setattr("dpassay.zoo.learners.broken", interrupted)
    monkeypatch.setattr("dpassay.cli.demo.AUDIT_TRIALS", 80)
    result = dpassay(f"demo --out {tmp_path / 'demo'}")
    assert result.code == 130
    assert "Traceback" not in result.err
    assert "80 of 80 trials (100 %)" in result.err  # of the honest learner
    assert not (tmp_path / "demo").exists()


def test_doctor(dpassay):
    result = dpassay("doctor")
    assert result.code == 0
    assert "dp-accounting" in result.out
    assert "pip install 'dpassay[" in result.out
    data = dpassay("doctor --json").data
    assert data["healthy"] is True
    assert data["packages"]["core"]["numpy"]
    assert "lab" in data["packages"]


def test_doctor_finds_what_is_missing(dpassay, monkeypatch):
    found = packages(["numpy>=2", "no-such-package>=1", "nothing-either; extra == 'lab'"])
    assert found["core"]["no-such-package"] is None
    assert found["lab"] == {"nothing-either": None}
    monkeypatch.setattr("dpassay.cli.doctor.metadata.requires", lambda _: ["no-such-package>=1"])
    result = dpassay("doctor")
    assert result.code == 2
    assert "Missing: no-such-package" in result.out


def test_reproduce_calls_the_experiment(dpassay, tmp_path, monkeypatch):
    monkeypatch.setattr("dpassay_reproduce.slides.FIGURES", ())
    data = dpassay(f"reproduce slides --out {tmp_path / 'x'} --json").data
    assert data["experiment"] == "slides"
    assert [path.rsplit("/", 1)[1] for path in data["files"]] == ["numbers.json", "index.html"]
    assert (tmp_path / "x" / "index.html").is_file()


def test_reproduce_one_figure_goes_to_a_folder_of_its_own(dpassay, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def run(folder, *, image_format, figure, literal):
        return [folder / f"{figure}-{literal}.{image_format}"]

    monkeypatch.setattr("dpassay_reproduce.thesis.run", run)
    data = dpassay("reproduce thesis --figure 4.21 --literal --json").data
    assert data["files"] == ["thesis-literal-4.21/4.21-True.svg"]
