"""``dpassay attack --table`` and ``dpassay synth --attack``."""

import json

import numpy as np
import pandas as pd
import pytest

NAMES = "--table {0}/released.csv --data {0}/data.csv --holdout {0}/holdout.csv"


def people(n, seed):
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "home": np.array(["rent", "own"])[rng.integers(0, 2, n)],
            "income": rng.normal(100, 30, n).round(1),
            "name": [f"person-{seed}-{i}" for i in range(n)],
        }
    )
    return table.mask(rng.random((n, 3)) < 0.05)


@pytest.fixture
def folder(tmp_path):
    data = people(120, 0)
    data.to_csv(tmp_path / "data.csv", index=False)
    data.to_csv(tmp_path / "released.csv", index=False)
    people(240, 1).to_csv(tmp_path / "holdout.csv", index=False)
    return tmp_path


def test_a_table_that_is_its_data(dpassay, folder):
    """Rates with intervals, three risks, no epsilon and why; nothing of a record is printed."""
    result = dpassay(
        f"attack {NAMES.format(folder)} --drop name --report {folder}/page.html --json"
    )
    data = result.data
    assert result.code == 0
    assert "dcr" in data["significant"]
    assert data["records"] | {"shared": 0} == {
        "members": 120,
        "others": 120,
        "reference": 120,
        "released": 120,
        "shared": 0,
    }
    assert data["epsilon_lower"] is None
    assert "not independent trials" in data["epsilon_in_words"]
    assert data["columns"] == ["home", "income"]
    assert [r["name"] for r in data["risks"]] == ["singling-out", "linkability"] + ["inference"] * 2
    page = (folder / "page.html").read_text()
    assert "copying, not leaking" in page
    for text in (result.out, page):
        assert "person-" not in text


def test_what_is_printed(dpassay, folder):
    result = dpassay(f"attack {NAMES.format(folder)} --secret home")
    assert result.code == 0
    assert "copying, not leaking" in result.words
    assert "Not private" in result.words
    assert "inference of home" in result.words
    assert "inference of income" not in result.words
    assert "person-" not in result.out


@pytest.fixture
def coins(folder):
    table = pd.read_csv(folder / "holdout.csv")
    table["income"] = np.arange(240) * 7.5  # all records differ
    table["in"] = np.random.default_rng(0).integers(0, 2, 240)
    table.to_csv(folder / "data.csv", index=False)
    table[table["in"] == 1].drop(columns="in").to_csv(folder / "released.csv", index=False)
    return f"attack --table {folder}/released.csv --data {folder}/data.csv --coins in --no-risks"


def test_coins_refute_a_claim(dpassay, coins):
    result = dpassay(f"{coins} --claim 0.5 --json")
    assert result.code == 1
    assert result.data["refuted"]
    assert result.data["epsilon_lower"] > 0.5
    assert result.data["membership"] == "randomised"
    assert result.data["risks"] == []
    assert "refuted" in dpassay(f"{coins} --claim 0.5").words


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("attack", "losses or --table is missing"),
        ("attack --table {0}/released.csv", "--data is missing"),
        ("attack --table {0}/released.csv --data {0}/data.csv", "--holdout is missing"),
        ("attack {0}/released.csv --table {0}/released.csv", "not both"),
        ("attack {0}/released.csv --holdout {0}/holdout.csv", "goes with --table"),
        ("attack " + NAMES + " --coins home", "with coins, --data holds all"),
        ("attack --table {0}/released.csv --data {0}/data.csv --coins home", "must be 1"),
        ("attack --table {0}/released.csv --data {0}/data.csv --coins x", "not a column"),
        ("attack " + NAMES + " --drop salary", "not a column of any"),
        ("attack " + NAMES + " --secret salary", "not a common column"),
        ("attack " + NAMES.replace("holdout.csv", "few.csv"), "too few records"),
        ("attack " + NAMES.replace("holdout.csv", "other.csv"), "no column in common"),
        ("attack " + NAMES.replace("holdout.csv", "absent.csv"), "holdout="),
        ("attack " + NAMES + " --report {0}/nowhere/page.html", "cannot be written"),
    ],
)
def test_misuse(dpassay, folder, command, message):
    people(10, 2).to_csv(folder / "few.csv", index=False)
    people(80, 2).add_suffix("_").to_csv(folder / "other.csv", index=False)
    result = dpassay(command.format(folder))
    assert result.code == 2
    assert message in " ".join(result.err.split())
    assert "person-" not in result.err


# dpassay synth --attack


@pytest.fixture
def synth(folder):
    people(240, 3)[["home", "income"]].to_csv(folder / "data.csv", index=False)
    schema = {"columns": {"home": {"kind": "categorical", "values": ["rent", "own"]}}}
    schema["columns"]["income"] = {"kind": "numeric", "low": 0, "high": 200, "bins": 10}
    for column in schema["columns"].values():
        column["nullable"] = True
    schema["columns"]["income"]["outside"] = "nearest"
    (folder / "s.json").write_text(json.dumps(schema))
    return (
        f"synth {folder}/data.csv --schema {folder}/s.json --method independent --epsilon 1 "
        f"-o {folder}/out.csv"
    )


def test_a_rehearsal_before_the_release(dpassay, synth, folder):
    """Without a holdout coins choose a half; honest code stands and the table is written."""
    data = dpassay(f"{synth} --attack --report {folder}/page.html --json").data
    found = data["attack_not_private"]
    assert found["rehearsal"]
    assert found["membership"] == "randomised"
    assert found["epsilon_lower"] is not None
    assert not found["refuted"]
    assert len(pd.read_csv(folder / "out.csv")) == 240
    assert "Attacked (not private)" in (folder / "page.html").read_text()


def test_the_table_itself_with_a_holdout(dpassay, synth, folder):
    result = dpassay(f"{synth} --attack --holdout {folder}/holdout.csv")
    assert result.code == 0
    assert "No bound on epsilon" in result.words
    assert "rehearsal" not in result.words


def test_what_is_refuted_is_not_written(dpassay, synth, folder, monkeypatch):
    """A synthesizer that samples its data: coins refute it, and nothing goes out."""
    from dpassay.synth import Independent

    def fit(self, table):
        self.seen = table
        return fitted(self, table)

    fitted = Independent.fit
    monkeypatch.setattr(Independent, "fit", fit)
    monkeypatch.setattr(Independent, "sample", lambda self, n=None, rng=None: self.seen)
    table = pd.read_csv(folder / "data.csv")
    table["income"] = np.linspace(0.5, 199.0, 240)
    table.to_csv(folder / "data.csv", index=False)
    result = dpassay(f"{synth} --attack")
    assert result.code == 1
    assert "Nothing was written" in result.words
    assert not (folder / "out.csv").exists()


def test_a_holdout_alone_and_too_few_records(dpassay, synth, folder):
    assert "goes with --attack" in dpassay(f"{synth} --holdout {folder}/holdout.csv").err
    pd.read_csv(folder / "data.csv")[:100].to_csv(folder / "data.csv", index=False)
    result = dpassay(f"{synth} --attack")
    assert result.code == 2
    assert "too few for a rehearsal" in " ".join(result.err.split())
    assert not (folder / "out.csv").exists()
