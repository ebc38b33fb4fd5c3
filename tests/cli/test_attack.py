import numpy as np
import pytest

from attacks.planted import Planted, outputs
from dpassay.attacks import Outputs, Shadows, attack
from dpassay.attacks.scores import METRICS


@pytest.fixture
def files(tmp_path):
    """The same planted leak as losses, as probabilities, and with shadows; order is shuffled."""
    case = Planted(n=150, n_shadows=6, seed=3)
    order = np.random.default_rng(0).permutation(300)
    seen = outputs(case.phi, case.labels)
    losses = -np.log(seen.of_label)
    arrays = {"members": case.member[order], "labels": case.labels[order]}
    arrays |= {"probabilities": seen.vectors[order], "losses": losses[order]}
    rows = zip(*(arrays[name].tolist() for name in ("members", "labels", "losses")), strict=True)
    loss_rows = [f"{int(m)},{loss!r}\n" for m, _, loss in rows]
    (tmp_path / "losses.csv").write_text("member,loss\n" + "".join(loss_rows))
    table = [
        f"{int(m)}, {c + 1}, {', '.join(map(repr, p.tolist()))}\n"
        for m, c, p in zip(
            arrays["members"], arrays["labels"], arrays["probabilities"], strict=True
        )
    ]
    (tmp_path / "p.csv").write_text("member, label, p1, p2, p3\n" + "".join(table))
    shadows = case.shadows()
    np.savez(
        tmp_path / "shadows.npz",
        **arrays,
        shadow_probabilities=shadows.outputs.vectors[:, order],
        shadow_inside=shadows.inside[:, order],
    )
    return tmp_path, losses, case


def sides(values, case):
    return values[: case.n], values[case.n :]


def test_losses(dpassay, files):
    folder, losses, case = files
    data = dpassay(f"attack {folder / 'losses.csv'} --json").data
    expected = attack(None, *sides(losses, case), fprs=(0.01,))
    assert list(data["attacks"]) == ["loss"] == data["significant"]
    found = data["attacks"]["loss"]
    assert found["auc"]["value"] == pytest.approx(expected.auc.value)
    assert found["auc"]["lower"] == pytest.approx(expected.auc.lower)
    assert found["epsilon_lower"] is None
    assert found["threshold"] == "median"
    assert data["records"] == {"members": 150, "non_members": 150}
    assert (data["refuted"], data["claim"]) == (False, None)
    assert "scores" not in str(data)  # nothing about single records


def test_probabilities(dpassay, files):
    """Columns are classes by their number; one table pays for all of its attacks."""
    folder, _, case = files
    data = dpassay(f"attack {folder / 'p.csv'} --confidence .9 --json").data
    assert list(data["attacks"]) == list(METRICS)
    level = 1 - 0.1 / len(METRICS)
    for method, found in data["attacks"].items():
        expected = attack(None, *case.sides(), method=method, fprs=(0.01,), confidence=level)
        assert found["advantage"]["upper"] == pytest.approx(expected.advantage.upper), method


def test_shadows_in_an_archive(dpassay, files):
    folder, _, case = files
    data = dpassay(f"attack {folder / 'shadows.npz'} --json").data
    assert set(data["attacks"]) == {
        *METRICS,
        "lira",
        "lira-offline",
        "rmia",
        "rmia-offline",
        "shadow",
    }
    expected = attack(None, *case.sides(), method="lira", shadows=case.shadows())
    assert data["attacks"]["lira"]["auc"]["value"] == pytest.approx(expected.auc.value)


def test_shadows_of_losses(dpassay, files):
    folder, losses, case = files
    seen = -np.log(case.shadows().outputs.of_label)
    np.savez(
        folder / "l.npz",
        losses=losses,
        members=case.member,
        shadow_losses=seen,
        shadow_inside=case.inside,
    )
    data = dpassay(f"attack {folder / 'l.npz'} --json").data
    assert set(data["attacks"]) == {"loss", "lira", "lira-offline", "rmia", "rmia-offline"}
    shadows = Shadows(Outputs(losses=seen), case.inside)
    expected = attack(None, *sides(losses, case), method="rmia", shadows=shadows)
    assert data["attacks"]["rmia"]["auc"]["value"] == pytest.approx(expected.auc.value)


def test_without_coins_no_epsilon_and_no_refutation(dpassay, files):
    folder, *_ = files
    result = dpassay(f"attack {folder / 'p.csv'} --claim 0.1,1e-5")
    assert result.code == 0
    assert "Nothing follows for epsilon" in result.words
    assert "claim 0.1,1e-5" in result.words
    assert "modified-entropy" in result.words


def test_a_claim_is_refuted_where_membership_was_randomised(dpassay, files):
    folder, *_ = files
    result = dpassay(f"attack {folder / 'p.csv'} --claim 0.1,1e-5 --randomised")
    assert result.code == 1
    assert "The claim 0.1,1e-5 is refuted." in result.words
    data = dpassay(f"attack {folder / 'p.csv'} --claim 0.1,1e-5 --randomized --json").data
    assert data["refuted"]
    assert data["attacks"]["loss"]["epsilon_lower"] > 0.1
    assert data["ceilings"]["relation"] == "add-remove"
    result = dpassay(f"attack {folder / 'losses.csv'} --claim 9,1e-5 --randomised")
    assert result.code == 0
    assert "is not refuted" in result.words


BAD = {
    "missing.csv": (None, "is not a file"),
    "empty.csv": ("", "is not a CSV file"),
    "what.txt": ("member,loss\n1,1\n", ".csv or .npz"),
    "nobody.csv": ("loss\n1\n", "has no 'member'"),
    "nothing.csv": ("member\n1\n0\n", "has no 'loss' and no 'p0'"),
    "nan.csv": ("member,loss\n1,1\n0,nan\n", "losses[0]=nan"),
    "text.csv": ("member,loss\n1,high\n0,low\n", "must hold numbers"),
    "two.csv": ("member,loss\n1,1\n2,2\n", "member[1] must lie in [0, 1]"),
    "half.csv": ("member,loss\n1,1\n0.5,2\n", "member must be 0 or 1"),
    "one-sided.csv": ("member,loss\n1,1\n1,2\n", "both kinds"),
    "constant.csv": ("member,loss\n1,3\n0,3\n", "says the same"),
    "unlabelled.csv": ("member,p0,p1\n1,.5,.5\n0,.4,.6\n", "label is missing"),
    "class.csv": (
        "member,label,p0,p1\n1,0,.5,.5\n0,2,.4,.6\n",
        "label[1] has no column of its own",
    ),
    "sums.csv": ("member,label,p0,p1\n1,0,.5,.5\n0,1,.4,.7\n", "probabilities[0] do not sum to 1"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_files(dpassay, tmp_path, name):
    text, named = BAD[name]
    if text is not None:
        (tmp_path / name).write_text(text)
    result = dpassay(f"attack {tmp_path / name}")
    assert result.code == 2
    assert named in result.err
    assert result.err.count("\n") == 1


def test_bad_archives(dpassay, tmp_path):
    np.savez(tmp_path / "a.npz", losses=np.arange(3.0), members=[1, 0])
    assert "loss has shape (3,) for 2 members" in dpassay(f"attack {tmp_path / 'a.npz'}").err
    given = {"losses": np.arange(2.0), "members": [1, 0], "shadow_losses": np.ones((2, 2))}
    np.savez(tmp_path / "b.npz", **given)
    assert "shadows need shadow_inside" in dpassay(f"attack {tmp_path / 'b.npz'}").err


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ("--confidence 95", "confidence=95"),
        ("--fpr 0", "fpr=0"),
        ("--delta 2", "delta=2"),
        ("--claim nonsense", "nonsense"),
        ("--seed -1", "seed=-1"),
    ],
)
def test_bad_options(dpassay, files, options, named):
    folder, *_ = files
    result = dpassay(f"attack {folder / 'shadows.npz'} {options}")
    assert result.code == 2
    assert named in result.err
