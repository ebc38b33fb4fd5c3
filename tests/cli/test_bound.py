import numpy as np
import pytest

from dpassay.bounds import lower_bound, one_run


@pytest.fixture
def scores(tmp_path):
    """Files with the same 400 scores: two layouts of CSV and of NPZ."""
    rng = np.random.default_rng(7)
    members = rng.random(400) < 0.5
    values = rng.normal(size=400) + 2 * members
    rows = [f"{v!r},{int(m)}\n" for v, m in zip(values.tolist(), members, strict=True)]
    (tmp_path / "world.csv").write_text("score,world\n" + "".join(rows))
    (tmp_path / "member.csv").write_text("score, member\n" + "".join(rows))
    np.savez(tmp_path / "worlds.npz", scores_in=values[members], scores_out=values[~members])
    np.savez(tmp_path / "canaries.npz", scores=values, members=members)
    return tmp_path, values, members


@pytest.mark.golden
@pytest.mark.parametrize(
    ("counts", "confidence", "expected"),
    [
        ("--tp 1000 --fn 0 --fp 0 --tn 1000", ".95", 5.60058),
        ("--tp 970 --fn 30 --fp 20 --tn 980", ".95", 3.4393),
        ("--tp 4922 --fn 95078 --fp 174 --tn 99826", ".9999999999", 2.7950),
    ],
)
def test_counts(dpassay, counts, confidence, expected):
    """Issue 3: the goldens of Clopper-Pearson at delta = 1e-5."""
    data = dpassay(f"bound {counts} --confidence {confidence} --json").data
    assert data["methods"]["clopper-pearson"] == pytest.approx(expected, abs=6e-5)
    assert data["epsilon_lower"] == data["methods"]["clopper-pearson"]
    assert data["design"] == "counts"


def test_all_methods_with_their_assumptions(dpassay):
    words = dpassay("bound --tp 970 --fn 30 --fp 20 --tn 980").words
    for method in ("clopper-pearson", "jeffreys", "katz", "bayes", "gdp"):
        assert method in words
    assert "confidence 0.95" in words
    assert "no assumption" in words
    assert "assumes Gaussian trade-off" in words
    assert "5.6005" in words  # the ceiling, rounded down from 5.60058
    assert "the largest of several does not hold" in words


def test_the_assumption_free_method_answers_not_the_largest(dpassay):
    data = dpassay("bound --tp 970 --fn 30 --fp 20 --tn 980 --json").data
    assert data["method"] == "clopper-pearson"
    assert data["epsilon_lower"] < max(data["methods"].values())
    assert data["bounds"][0]["assumption"] == "none"
    assert all(b["ceiling"] >= b["epsilon"] for b in data["bounds"])


def test_a_method_that_cannot_is_refused_by_name(dpassay):
    data = dpassay("bound --tp 97 --fn 3 --fp 2 --tn 98 --delta 0 --json").data
    assert list(data["refused"]) == ["gdp"]
    assert "gdp" not in data["methods"]
    assert "delta=0" in dpassay("bound --tp 97 --fn 3 --fp 2 --tn 98 --delta 0").words


def test_every_layout_gives_what_the_library_gives(dpassay, scores):
    folder, values, members = scores
    expected = lower_bound(values[members], values[~members], delta=1e-5).epsilon
    assert expected > 0.5
    for name in ("world.csv", "member.csv", "worlds.npz", "canaries.npz"):
        data = dpassay(f"bound {folder / name} --json").data
        assert data["methods"]["clopper-pearson"] == expected, name
        assert data["design"] == "two worlds"


def test_a_threshold_fixed_in_advance(dpassay, scores):
    folder, values, members = scores
    data = dpassay(f"bound {folder / 'world.csv'} --threshold 1.0 --json").data
    details = data["bounds"][0]["details"]
    assert details["tp"] == np.sum(values[members] >= 1)
    assert details["fp"] == np.sum(values[~members] >= 1)
    split = dpassay(f"bound {folder / 'world.csv'} --threshold split --seed 3 --json").data
    assert "chosen on a random" in split["bounds"][0]["selection"]


def test_one_run(dpassay, scores):
    folder, values, members = scores
    for name in ("member.csv", "canaries.npz"):
        data = dpassay(f"bound {folder / name} --one-run --json").data
        assert data["epsilon_lower"] == one_run(values, members, delta=1e-5).epsilon
        assert data["design"] == "one run"
        assert data["refused"] == {}
        assert set(data["methods"]) >= {"steinke", "fdp", "product"}
    fixed = dpassay(f"bound {folder / 'member.csv'} --one-run --guesses 40 --json").data
    assert sum(fixed["bounds"][0]["threshold"]) == 40


BAD = {
    "missing.csv": (None, "is not a file"),
    "empty.csv": ("", "is not a CSV file"),
    "header.csv": ("score,world\n", "score is empty"),
    "columns.csv": ("loss,world\n1,1\n", "'score'"),
    "worlds.csv": ("score\n1\n", "'world'"),
    "nan.csv": (
        "score,world\n1,1\nnan,0\n",
        "score[1]=nan",
    ),
    "text.csv": ("score,world\nhigh,1\n", "score must hold numbers"),
    "two.csv": ("score,world\n1,1\n2,2\n", "world[1] must be 0 or 1"),
    "one-sided.csv": ("score,world\n1,1\n2,1\n", "scores_out is empty"),
    "blank.csv": ("score,world\n1,1\n2,\n", "world[1]=nan"),
    "not.npz": ("hello", "is not an NPZ archive"),
    "what.txt": ("score,world\n1,1\n", ".csv or .npz"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_files(dpassay, tmp_path, name):
    text, named = BAD[name]
    if text is not None:
        (tmp_path / name).write_text(text)
    result = dpassay(f"bound {tmp_path / name}")
    assert result.code == 2
    assert named in result.err
    assert result.err.count("\n") == 1
    assert result.out == ""


def test_bad_arrays(dpassay, tmp_path):
    np.savez(tmp_path / "nan.npz", scores_in=[1.0, np.nan], scores_out=[0.0])
    assert "scores_in[1]=nan" in dpassay(f"bound {tmp_path / 'nan.npz'}").err
    np.savez(tmp_path / "short.npz", scores=[1.0, 2.0], members=[1])
    assert "2 scores for 1 worlds" in dpassay(f"bound {tmp_path / 'short.npz'} --one-run").err
    np.savez(tmp_path / "pickled.npz", scores=np.array([{}]), members=[1])
    result = dpassay(f"bound {tmp_path / 'pickled.npz'}")
    assert (result.code, "is not an array of numbers" in result.err) == (2, True)


def test_files_and_counts_do_not_mix(dpassay, scores):
    path = scores[0] / "world.csv"
    assert "--tp" in dpassay(f"bound {path} --tp 3").err
    assert "--guesses" in dpassay(f"bound {path} --guesses 3").err
    assert "--threshold" in dpassay(f"bound {path} --one-run --threshold 3").err


def test_ten_thousand_scores_of_each_world(dpassay, tmp_path):
    rng = np.random.default_rng(0)
    worlds = {name: rng.normal(size=10_100) for name in ("scores_in", "scores_out")}
    np.savez(tmp_path / "worlds.npz", **worlds)
    data = dpassay(f"bound {tmp_path / 'worlds.npz'} --delta 0 --json").data
    assert 0 <= data["epsilon_lower"] < 0.2
