"""ledger and query: one budget for all releases of a table."""

import pytest


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "people.csv"
    path.write_text("age,sex\n" + "70,F\n20,M\n,F\n" * 50)
    return path


@pytest.fixture
def ledger(tmp_path, dpassay):
    path = tmp_path / "project.db"
    assert dpassay(f"ledger new {path} --epsilon 1 --delta 1e-6 --unit patient").code == 0
    return path


def test_answers_are_charged_until_nothing_is_left(dpassay, table, ledger):
    asked = f"query {table} --count --where age>=60 --epsilon .6 --ledger {ledger}"
    data = dpassay(f"{asked} --json").data
    assert abs(data["answers"]["count"] - 50) < 100
    assert data["private"]
    assert data["margin"] == pytest.approx(4.993, rel=1e-3)
    assert data["ledger"]["budget"] == 1.0
    refused = dpassay(asked)
    assert refused.code == 2
    assert "above the budget of 1; 1 entries" in refused.err
    shown = dpassay(f"ledger show {ledger} --json").data
    assert [entry["what"] for entry in shown["entries"]] == ["records with age>=60"]
    assert 0.59 < shown["spent"] <= 0.6


def test_the_words_and_the_picture(dpassay, table, ledger, tmp_path, monkeypatch):
    monkeypatch.setenv("DPASSAY_LEDGER", str(ledger))
    said = dpassay(f"query {table} --histogram sex --values F,M --epsilon .2").words
    assert "All of them are within" in said
    assert "Spent in all: epsilon 0.2 of 1 at delta 1e-06" in said
    assert (
        "It is within" in dpassay(f"query {table} --sum age --low 0 --high 99 --epsilon .1").words
    )
    dpassay(f"ledger amend {ledger} --epsilon 2 --delta 1e-6 --reason agreed")
    shown = dpassay(f"ledger show --svg {tmp_path / 'spent.svg'}").words  # of DPASSAY_LEDGER
    assert "of 2, for every patient" in shown
    assert "Amended" in shown
    assert "records by sex" in (tmp_path / "spent.svg").read_text()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("", "exactly one of --count"),
        ("--count --mean age", "exactly one of --count"),
        ("--sum age", "--low is missing: --sum needs it"),
        ("--mean age --low 0 --high 9", "--records is missing"),
        ("--histogram sex", "--values is missing"),
        ("--count --low 1", "--low does not go with --count"),
        ("--count --where age+", "is not understood"),
        ("--count --ledger nowhere.db", "there is no ledger. Make one"),
    ],
)
def test_misuse_is_named_and_nothing_is_charged(dpassay, table, options, words):
    result = dpassay(f"query {table} --epsilon .1 {options}")
    assert result.code == 2
    assert words in result.err


def test_a_ledger_is_made_once(dpassay, ledger, tmp_path):
    again = dpassay(f"ledger new {ledger} --epsilon 9")
    assert again.code == 2
    assert "is there already" in again.err
    assert dpassay(f"ledger show {tmp_path / 'other.db'}").code == 2


def test_synth_is_charged_too(dpassay, table, ledger, tmp_path):
    schema = tmp_path / "schema.toml"
    schema.write_text(
        "[columns.age]\nlow = 0\nhigh = 120\nbins = 10\ninteger = true\nnullable = true\n"
        '[columns.sex]\nvalues = ["F", "M"]\n'
    )
    command = f"synth {table} --schema {schema} --epsilon .9 --delta 1e-7 -o {tmp_path / 'o.csv'}"
    assert dpassay(f"{command} --ledger {ledger}").code == 0
    assert dpassay(f"{command} --ledger {ledger}").code == 2
    shown = dpassay(f"ledger show {ledger} --json").data
    assert [entry["what"] for entry in shown["entries"]] == ["ProductMixture"]
