"""``dpassay synth``: a mixed table end to end, what is said of it, and nothing where it fails."""

import json

import numpy as np
import pandas as pd
import pytest

from dpassay.synth import Schema, load

SCHEMA = """
impossible = [{ smokes = true, kids = 0 }]
[columns.age]
low = 0
high = 100
bins = 10
integer = true
nullable = true
[columns.code]
values = ["01", "NA"]
[columns.smokes]
values = [true, false]
[columns.seen]
kind = "date"
first = "2020-01-01"
end = "2024-01-01"
bins = 4
nullable = true
[columns.pay]
low = 0
high = 10
bins = 3
[columns.kids]
kind = "ordinal"
values = [0, 1, 2]
"""


def frame(n=800):
    rng = np.random.default_rng(0)
    kids = rng.integers(0, 3, n)
    days = np.datetime64("2020-01-01") + rng.integers(0, 1400, n)
    return pd.DataFrame(
        {
            "kids": kids,
            "age": pd.Series(rng.integers(0, 100, n)).astype("Int64").mask(rng.random(n) < 0.1),
            "code": rng.choice(["01", "NA"], n),
            "smokes": (rng.random(n) < 0.4) & (kids > 0),
            "pay": (10 * rng.random(n)).round(2),
            "seen": pd.Series(days.astype(str)).mask(rng.random(n) < 0.2),
        }
    )


@pytest.fixture
def files(tmp_path):
    frame().to_csv(tmp_path / "t.csv", index=False)
    (tmp_path / "s.toml").write_text(SCHEMA)
    return tmp_path


def line(files, rest="", epsilon="2", out="out.csv"):
    return (
        f"synth {files / 't.csv'} --schema {files / 's.toml'} --epsilon {epsilon} "
        f"-o {files / out} {rest}"
    )


def test_a_mixed_table_end_to_end(dpassay, files):
    rest = f"--json --quality --report {files / 'p.html'} --model {files / 'm.npz'} --rows 500"
    data = dpassay(line(files, rest)).data
    assert data["private"] is True
    assert data["noise"] == "exact"
    assert data["epsilon"] == pytest.approx(2, rel=1e-6)
    assert data["epsilon"] <= 2
    assert data["delta"] == pytest.approx(1 / 800**2)
    assert data["neighbouring"] == "add-remove"
    assert "n=800" in data["public"]
    assert data["rows"] == 500
    assert data["files"] == [str(files / name) for name in ("out.csv", "p.html", "m.npz")]
    assert 0 < data["quality_not_private"]["max_error"] < 0.3
    drawn = pd.read_csv(files / "out.csv", dtype={"code": str}, keep_default_na=False)
    assert list(drawn.columns) == list(frame().columns)
    assert set(drawn["code"]) == {"01", "NA"}
    assert set(drawn["kids"]) == {0, 1, 2}
    assert not ((drawn["smokes"] == "True") & (drawn["kids"] == 0)).any()
    ages = drawn["age"][drawn["age"] != ""]
    assert 0 < len(ages) < 500
    assert ages.str.fullmatch(r"\d{1,2}").all()
    assert drawn["seen"].str.fullmatch(r"(202[0-3]-\d\d-\d\d)?").all()
    assert Schema.read(files / "s.toml").encode(load(files / "m.npz").sample(50)).shape == (50, 6)


def test_the_page_says_what_was_promised_and_hides_quality_unless_asked(dpassay, files):
    shown = dpassay(line(files, f"--report {files / 'p.html'}"))
    assert shown.code == 0
    assert "(2, 1.56e-06)-DP" in shown.words
    assert "error" not in shown.words
    page = (files / "p.html").read_text()
    assert "(2, 1.56e-06)-DP" in page
    assert "not private" not in page.lower()
    assert "total variation" not in page
    assert "<script" not in page
    shown = dpassay(line(files, f"--report {files / 'p.html'} --quality"))
    assert "Not private" in shown.words
    page = (files / "p.html").read_text()
    assert "How close it is (not private)" in page
    assert "total variation" in page


def test_a_seed_replays_and_is_said_not_to_be_private(dpassay, files):
    texts = []
    for out in ("a.csv", "b.csv"):
        shown = dpassay(line(files, f"--seed 3 --report {files / 'p.html'}", out=out))
        assert "NOT private: a seed was given" in shown.words
        texts.append((files / out).read_text())
    assert texts[0] == texts[1]
    assert "A synthetic table, NOT private" in (files / "p.html").read_text()


@pytest.mark.parametrize(
    ("method", "name"),
    [
        ("mixture", "ProductMixture"),
        ("independent", "Independent"),
        ("mwem", "MWEM"),
        ("frank-wolfe", "FrankWolfe"),
    ],
)
def test_methods_and_marginals(dpassay, files, method, name):
    rest = f"--method {method} --marginal kids,smokes --marginal code --records 900 --json"
    data = dpassay(line(files, rest)).data
    assert data["method"] == name
    assert data["rows"] == 900
    assert data["delta"] == pytest.approx(1 / 900**2)


BAD_TABLES = {
    "kids,age\n0,1\n": "column 'code' of the schema is not in the table",
    "": "is not a CSV file",
    "{header}\n": "the table is empty",
    "{header},x\n{row},1\n": "column 'x' of the table is not in the schema",
    "{header}\n7,1,01,True,1.0,\n": "column 'kids' has a value outside",
    "{header}\n1,abc,01,True,1.0,\n": "column 'age' has a value that is not a whole number",
    "{header}\n1,1.5,01,True,1.0,\n": "column 'age' has a value that is not a whole number",
    "{header}\n1,1,01,True,11,\n": "column 'pay' has a value outside",
    "{header}\n1,1,1,True,1.0,\n": "column 'code' has a value outside",
    "{header}\n1,1,01,,1.0,\n": "column 'smokes' has missing values",
    "{header}\n1,1,01,True,1.0,yesterday\n": "column 'seen'",
}


@pytest.mark.parametrize("text", BAD_TABLES)
def test_bad_tables_release_nothing(dpassay, files, text):
    header, row = "kids,age,code,smokes,pay,seen", "1,1,01,True,1.0,"
    (files / "t.csv").write_text(text.format(header=header, row=row))
    before = set(files.iterdir())
    shown = dpassay(line(files, f"--report {files / 'p.html'}"))
    assert shown.code == 2
    assert BAD_TABLES[text] in shown.err
    assert shown.out == ""
    assert set(files.iterdir()) == before


@pytest.mark.parametrize(
    ("rest", "epsilon", "message"),
    [
        ("", "1e-6", "epsilon=1e-06 is too small"),
        ("", "nan", "epsilon"),
        ("", "inf", "no privacy"),
        ("--delta 0", "1", "delta=0 must be positive"),
        ("--marginal kids,shoes", "1", "column 'shoes' is not in the schema"),
        ("--ways 0", "1", "ways=0"),
        ("--rows 0", "1", "n=0"),
        ("--method magic", "1", "method='magic'"),
        ("--neighbouring next-door", "1", "neighbouring"),
        ("--schema none.toml", "1", "is not a file"),
    ],
)
def test_bad_options_release_nothing(dpassay, files, rest, epsilon, message):
    before = set(files.iterdir())
    shown = dpassay(line(files, rest, epsilon))
    assert shown.code == 2
    assert message in shown.err
    assert set(files.iterdir()) == before


@pytest.mark.parametrize("method", ["blr", "dual-query", "dqrs", "fem", "sep-fem"])
def test_the_other_methods_run_from_the_command_line(dpassay, tmp_path, method):
    (tmp_path / "t.csv").write_text("a\n" + "0\n1\n1\n" * 40)
    (tmp_path / "s.toml").write_text("[columns.a]\nvalues = [0, 1]\n")
    shown = dpassay(line(tmp_path, f"--method {method} --rows 5 --json", epsilon="3"))
    assert shown.data["epsilon"] <= 3 * (1 + 1e-9)
    assert shown.data["private"] is True
    assert len((tmp_path / "out.csv").read_text().splitlines()) == 6


@pytest.mark.parametrize(
    ("rest", "out", "message"),
    [
        ("", "no/out.csv", "cannot be written"),
        ("", "folder", "it is a folder"),
        ("--report {0}/no/p.html", "out.csv", "no/p.html' cannot be written"),
        ("--model {0}/no/m.npz", "out.csv", "no/m.npz' cannot be written"),
        ("--model {0}/folder", "out.csv", "it is a folder"),
        ("--report {0}/out.csv", "out.csv", "named twice"),
        ("", "t.csv", "named twice"),  # the true table would be lost
    ],
)
def test_places_that_cannot_be_written_leave_nothing(dpassay, files, rest, out, message):
    (files / "folder").mkdir()
    before = {path: path.stat().st_mtime_ns for path in files.iterdir()}
    shown = dpassay(line(files, rest.format(files) + " --method independent", out=out))
    assert shown.code == 2
    assert message in shown.err
    assert {path: path.stat().st_mtime_ns for path in files.iterdir()} == before


def test_a_disk_that_fails_leaves_nothing(dpassay, files, monkeypatch):
    def fails(*_):
        raise OSError("no space left on device")

    before = set(files.iterdir())
    for name in ("os.replace", "os.fsync"):
        with monkeypatch.context() as patch:
            patch.setattr(name, fails)
            shown = dpassay(line(files, f"--method independent --model {files / 'm.npz'}"))
        assert shown.code == 2
        assert "no space left" in shown.err
        assert set(files.iterdir()) == before


@pytest.mark.parametrize(
    "text",
    [
        b"columns = 3",
        b"[columns.a]\nvalues = 3",
        b"[columns.a]\nvalues = [[1], [2]]",
        b'impossible = ["a"]\n[columns.a]\nvalues = [1]',
        b"impossible = 3\n[columns.a]\nvalues = [1]",
        b"\xff\xfe",
    ],
)
def test_bad_schemas_are_named(dpassay, files, text):
    (files / "s.toml").write_bytes(text)
    before = set(files.iterdir())
    shown = dpassay(line(files))
    assert shown.code == 2
    assert "columns=3" in shown.err or "schema" in shown.err
    assert set(files.iterdir()) == before


def test_json_schemas_and_help(dpassay, files):
    (files / "s.toml").rename(files / "old.toml")
    schema = Schema.read(files / "old.toml")
    (files / "s.json").write_text(json.dumps(schema.as_dict()))
    rest = f"--schema {files / 's.json'} --json"
    assert dpassay(line(files, rest)).data["rows"] == 800
    shown = dpassay("synth --help").words
    assert "dpassay synth table.csv" in shown
    assert "columns.age" in shown


# Without a schema.


def free(files, rest="", epsilon="4"):
    return f"synth {files / 't.csv'} --epsilon {epsilon} -o {files / 'out.csv'} {rest}"


def test_a_domain_that_is_paid_for(dpassay, files):
    data = dpassay(free(files, f"--domain-epsilon 2 --json --report {files / 'p.html'}")).data
    assert data["private"] is True
    assert 4 * (1 - 1e-6) < data["epsilon"] <= 4
    assert data["delta"] == pytest.approx(1 / 800**2)
    assert data["public"] == ["n=800", "the names and types of the columns"]
    drawn = pd.read_csv(files / "out.csv", dtype=str, keep_default_na=False)
    assert list(drawn.columns) == list(frame().columns)
    assert set(drawn["code"]) <= {"01", "NA", "", "other"}
    assert set(drawn["smokes"]) <= {"True", "False", "", "other"}
    assert drawn["seen"].str.fullmatch(r"(20\d\d-\d\d-\d\d)?").all()
    assert drawn["kids"].str.fullmatch(r"[0-3]?").all()
    page = " ".join((files / "p.html").read_text().split())
    assert "(4, 1.56e-06)-DP" in page
    own = float(page.split("costs epsilon = ")[1].split(" ")[0])
    assert 1.5 < own < 2  # at the whole delta, of which it has but a fifth
    assert page.count("measured with noise") == len(frame().columns)


def test_whole_numbers_that_no_type_holds(dpassay, files):
    (files / "t.csv").write_text("number,a\n" + f"{10**24},1\n" * 800)
    shown = dpassay(free(files, "--domain-epsilon 2"))
    assert shown.code == 2
    assert "column 'number' has whole numbers of 20 digits" in " ".join(shown.err.split())
    (files / "part.toml").write_text('[columns.number]\nkind = "categorical"\n')
    rest = f"--domain-epsilon 2 --schema {files / 'part.toml'} --json"
    assert dpassay(free(files, rest)).data["private"]


def test_a_domain_that_is_declared_in_part(dpassay, files):
    (files / "part.toml").write_text(
        '[columns.kids]\nvalues = [0, 1, 2]\n[columns.pay]\nkind = "numeric"\nbins = 3\n'
    )
    rest = f"--domain-epsilon 2 --schema {files / 'part.toml'} --model {files / 'm.npz'} --json"
    data = dpassay(free(files, rest + " --method mwem --marginal kids,smokes --quality")).data
    assert data["public"][-1] == "the domains of kids"
    assert data["method"] == "MWEM"
    columns = load(files / "m.npz").schema.columns
    assert columns["kids"].values == (0, 1, 2)
    assert columns["kids"].outside == "refused"
    assert columns["pay"].n_values == 3


@pytest.mark.parametrize(
    ("rest", "message"),
    [
        ("", "pay for it, e.g. by --domain-epsilon 0.1"),
        ("--domain-epsilon 5", "domain_epsilon=5 must lie in (0, 4)"),
        ("--domain-epsilon nan", "domain_epsilon"),
        ("--domain-epsilon .01", "nothing of any column stands out from the noise"),
        ("--domain-epsilon 2 --method mwem --target kids", "--target goes with"),
        ("--domain-epsilon 2 --delta 0", "delta"),
        ("--domain-epsilon 2 --marginal kids,shoes", "column 'shoes' is not in the schema"),
        ("--domain-epsilon 2 --schema {schema}", "`impossible` of a schema cannot be kept"),
    ],
)
def test_a_domain_that_cannot_be_had_releases_nothing(dpassay, files, rest, message):
    before = set(files.iterdir())
    shown = dpassay(free(files, rest.format(schema=files / "s.toml")))
    assert shown.code == 2
    assert message in " ".join(shown.err.split())
    assert set(files.iterdir()) == before


def test_a_column_that_is_dropped_is_named(dpassay, files):
    """Every record has a number of its own: no value and no range of them stands out."""
    own = frame().assign(token=[f"t{i // 2}" for i in range(800)])
    own.to_csv(files / "t.csv", index=False)
    shown = dpassay(free(files, f"--domain-epsilon 2 --report {files / 'p.html'}"))
    assert shown.code == 0
    assert "DROPPED: column 'token'" in shown.words
    assert "token" not in (files / "out.csv").read_text().splitlines()[0]
    assert "stood out from the noise: token" in " ".join((files / "p.html").read_text().split())


def test_timestamps_of_a_file(dpassay, files):
    rng = np.random.default_rng(0)
    hours = rng.choice([8, 20], 800)
    when = [
        f"2021-03-{d:02d}T{h:02d}:15:00Z"
        for d, h in zip(rng.integers(1, 28, 800), hours, strict=True)
    ]
    pd.DataFrame({"when": when, "x": rng.choice(["a", "b"], 800)}).to_csv(
        files / "t.csv", index=False
    )
    data = dpassay(free(files, "--domain-epsilon 2 --json --quality")).data
    drawn = pd.read_csv(files / "out.csv", parse_dates=["when"])
    assert list(drawn.columns) == ["when", "x"]
    assert drawn["when"].dt.hour.isin([8, 20]).mean() > 0.9
    assert data["quality_not_private"]["columns"][0]["column"] == "when"


def test_quality_for_the_owner_and_for_readers(dpassay, files):
    rest = f"--reader-share .05 --report {files / 'p.html'}"
    data = dpassay(line(files, rest + " --json --target smokes --quality")).data
    assert data["epsilon"] == pytest.approx(2, rel=1e-6)
    assert data["epsilon"] <= 2
    told = data["quality_for_readers"]
    assert {column["column"] for column in told["columns"]} == set(frame().columns)
    assert told["resolution"] > 0
    owners = data["quality_not_private"]
    assert {row["column"] for row in owners["columns"]} == set(frame().columns)
    assert owners["utility"].keys() == {"real", "synthetic"}
    page = (files / "p.html").read_text()
    assert "True beside synthetic" in page
    assert "<svg" in page
    shown = dpassay(line(files, rest))
    assert "For readers, paid for" in shown.words
    page = (files / "p.html").read_text()
    assert "Measured with noise, as part of the promise" in page
    assert "True beside synthetic" not in page
    assert "not private" not in page.lower()
    shown = dpassay(line(files, "--quality"))
    assert "True beside synthetic" in shown.words
