import json

import numpy as np
import pytest

from dpassay_reproduce import hw3
from rates import assert_rate


def test_scores_have_the_mean_and_variance_that_explain_the_trends():
    run = hw3.draw(canaries=4000, dimension=500, seed=1)
    scores = run.scores(sigma=0.5)
    n_in = run.members.sum()
    for inside, mean, interference in ((True, 1.0, n_in - 1), (False, 0.0, n_in)):
        here = scores[run.members == inside]
        deviation = np.sqrt(0.25 + interference / 500)
        assert here.mean() == pytest.approx(mean, abs=6 * deviation / np.sqrt(500))
        assert here.std() == pytest.approx(deviation, rel=0.15)


def test_chunks_do_not_matter(monkeypatch):
    whole = hw3.draw(canaries=300, dimension=64, seed=3)
    rows = hw3._CHUNK // 64
    assert rows > 300
    canaries = np.concatenate([x for _, x in hw3._canaries(300, 64, 3)])
    np.testing.assert_allclose(np.linalg.norm(canaries, axis=1), 1, rtol=1e-5)
    total = canaries[whole.members].sum(axis=0)
    np.testing.assert_allclose(whole.signal, canaries @ total, rtol=1e-3, atol=1e-3)
    monkeypatch.setattr(hw3, "_CHUNK", 64 * 100)
    assert [start for start, _ in hw3._canaries(300, 64, 3)] == [0, 100, 200]


@pytest.mark.golden
def test_naive_maximum_of_question_one():
    # Means over five seeds, classic and analytic sigma, with tolerance 0.6 (deviation 0.3 to 0.5).
    table = hw3.sweep([(4.0, 1000, 10_000), (16.0, 1000, 10_000)], seeds=3)
    naive = "naive maximum, as asked (not valid)"
    np.testing.assert_allclose(table["classic"][naive].mean(axis=1), [1.411, 4.271], atol=0.6)
    np.testing.assert_allclose(table["analytic"][naive].mean(axis=1), [1.543, 4.055], atol=0.6)
    for name in hw3.METHODS:
        if "f-DP" not in name and name != naive:
            assert np.all(table["analytic"][name] < table["analytic"][naive])
            assert np.all(table["analytic"][name] <= [[4.0], [16.0]])


def test_the_documents_sigma_is_too_small_at_sixteen():
    sigmas = hw3.noise_multipliers(16.0)
    assert sigmas["classic"] == pytest.approx(0.331175, abs=1e-6)
    assert sigmas["analytic"] == pytest.approx(0.368612, abs=1e-6)


def test_files(tmp_path, monkeypatch):
    small = {
        name: [(e, min(m, 64), min(d, 100)) for e, m, d in s[:2]]
        for name, s in hw3.SETTINGS.items()
    }
    monkeypatch.setattr(hw3, "SETTINGS", small)
    files = hw3.run(tmp_path, seeds=2)
    assert {path.name for path in files} >= {"q2.1.svg", "index.html", "numbers.json", "table.txt"}
    numbers = json.loads((tmp_path / "numbers.json").read_text())
    for name in hw3.QUESTIONS:
        assert len(numbers[name]["curves"]["classic"]) == len(hw3.METHODS)
    assert "not valid" in (tmp_path / "table.txt").read_text()


def test_how_often_the_largest_bound_errs():
    """The exact probability is .3165, by a dynamic programme over the walk of right guesses."""
    wrong = hw3.chance_of_naive(4000, seed=1)
    assert_rate(round(4000 * wrong), 4000, 0.3165, alpha=1e-6)


def test_trends_are_judged():
    rising = np.arange(5.0)[:, None] + np.zeros((5, 4)) + 0.01 * np.arange(4)
    hill = rising[[0, 2, 4, 1, 0]]
    tables = {name: {str(i): values for i in range(4)} for name, values in
              (("q2.1", rising), ("q2.2", hill), ("q2.3", rising[::-1]))}  # fmt: skip
    found = {name: hw3.judge(name, table) for name, table in tables.items()}
    assert [c.verdict for c in found["q2.1"]] == ["holds", "fails"]
    assert [found[name][0].verdict for name in ("q2.2", "q2.3")] == ["holds", "fails"]
