"""Wang 2021: queries that are all different, Laplace noise for all of them, and what is claimed."""

import json

import numpy as np
import pytest

from dpassay.synth.models import Records
from dpassay_reproduce import lecture
from dpassay_reproduce.synth.cells import bits, tiny


def test_queries_are_different_and_no_complements():
    load = lecture.draw_queries(3, 127)  # all that there are
    cells = np.array([block.function.cells for block in load])
    assert not cells[:, 0].any()
    assert len(np.unique(cells, axis=0)) == 127
    data = Records(bits(3), tiny("mixture", 0, 100, 3))
    shares = data.marginal(bits(3).names).ravel()
    assert load.answers(data) == pytest.approx(cells @ shares)


def test_laplace_answers_have_noise_for_all_queries():
    """Scale k/(n epsilon): the mean size of 20 000 draws is within 5 deviations of it."""
    data, load = Records(bits(3), tiny("mixture", 0, 100, 3)), lecture.draw_queries(3, 100)
    truth = load.answers(data)
    rng = np.random.default_rng(0)
    off = [lecture.answer_with_laplace(data, load, 2.0, rng) - truth for _ in range(200)]
    scale = 100 / (100 * 2.0)
    assert np.abs(off).mean() == pytest.approx(scale, abs=5 * scale / np.sqrt(20_000))


def test_what_is_claimed(tmp_path, monkeypatch):
    monkeypatch.setattr(lecture, "RECORDS", (250, 500))
    monkeypatch.setattr(lecture, "N_QUERIES", 20)
    files = lecture.run(tmp_path, seeds=6)
    assert {"queries.svg", "records.svg", "index.html"} <= {file.name for file in files}
    found = json.loads((tmp_path / "numbers.json").read_text(encoding="utf-8"))
    claims = [c for figure in found.values() for c in figure["claims"]]
    verdicts = {c["text"][:30]: c["verdict"] for c in claims}
    assert len(claims) == 6
    assert verdicts["With Laplace noise and constan"] == "holds"
    assert verdicts["BLR answers more queries than "] == "holds"
    assert verdicts["A good data set of m = 2 log(2"] == "fails"
