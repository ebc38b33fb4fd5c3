import pytest


def test_command(dpassay):
    done = dpassay("zoo --only occupied --only argmax --trials 60000 --json")
    assert done.code == 0, done.err
    facts = {row["name"]: row for row in done.data["mechanisms"]}
    assert facts["noisy histogram, occupied bins only"]["refuted"]
    assert facts["noisy histogram, occupied bins only"]["epsilon_true"] == "inf"
    assert not facts["noisy argmax, Laplace"]["refuted"]
    assert facts["noisy argmax, Laplace"]["epsilon_true"] == pytest.approx(0.1)


def test_table(dpassay):
    done = dpassay("zoo --only occupied --trials 60000")
    assert "caught" in done.words
    assert "judged wrongly: none" in done.words


def test_a_wrong_judgement_is_exit_code_1(dpassay):
    """Too few draws to see a small excess: the command says so by its code."""
    done = dpassay("zoo --only geometric --trials 2000")
    assert done.code == 1
    assert "judged wrongly: truncated geometric, as asked" in done.words


def test_a_name_that_is_not_there(dpassay):
    done = dpassay("zoo --only unicorn")
    assert done.code == 2
    assert "unicorn" in done.err
