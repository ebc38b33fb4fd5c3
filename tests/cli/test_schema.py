"""schema draft: names and kinds, and nothing else of the table."""

import tomllib

import pytest

SECRET = 'Zanzibar "x"'


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "people.csv"
    rows = [
        f'P{i:04d},{i % 90 + 7},"{SECRET.replace(chr(34), chr(34) * 2)}",{"a long note " * 5}{i},'
        f"{i / 7:.2f},2024-0{i % 9 + 1}-11,T{i}"
        for i in range(120)
    ]
    path.write_text("patientId,age,home town,note,weight,seen,tel\n" + "\n".join(rows) + "\n")
    return path


def test_a_draft_holds_names_and_kinds_alone(dpassay, table, tmp_path):
    out = tmp_path / "schema.toml"
    words = dpassay(f"schema draft {table} -o {out}").words
    assert "Left out: column 'patientId', its name is that of an identifier." in words
    text = out.read_text()
    drafted = tomllib.loads(text)
    assert {name: said["kind"] for name, said in drafted["columns"].items()} == {
        "age": "integer",
        "home town": "categorical",
        "weight": "numeric",
        "seen": "date",
    }
    assert "belong to single records" in " ".join(text.replace("#", "").split())
    for value in ("Zanzibar", "17.00", "96", "2024-09-11", "long note", "T1"):
        assert value not in text


def test_the_same_draft_of_another_table_with_these_columns(dpassay, table, tmp_path):
    other = tmp_path / "other.csv"
    lines = table.read_text().splitlines()
    other.write_text("\n".join([lines[0], *lines[40:]]) + "\n")
    texts = []
    for number, source in enumerate((table, other)):
        dpassay(f"schema draft {source} -o {tmp_path / f'{number}.toml'}")
        texts.append((tmp_path / f"{number}.toml").read_text())
    assert texts[0] == texts[1]


def test_what_is_drafted_can_be_measured(dpassay, table, tmp_path):
    schema, out = tmp_path / "schema.toml", tmp_path / "out.csv"
    dpassay(f"schema draft {table} -o {schema} --drop weight")
    common = f"synth {table} --epsilon 20 --delta 1e-3 --domain-epsilon 15 -o {out} --json"
    data = dpassay(f"{common} --schema {schema} --drop weight").data
    assert set(data["left_out"]) == {"patientId", "note", "tel", "weight"}
    assert "which columns hold free text or identifiers" in data["public"]
    assert out.read_text().splitlines()[0] == "age,home town,seen"


def test_what_is_drafted_can_be_filled_in(dpassay, tmp_path):
    table, schema, out = (tmp_path / name for name in ("t.csv", "s.toml", "out.csv"))
    rows = [
        f"{i % 90},{i % 7 / 2},2024-0{i % 9 + 1}-11,2024-03-11 1{i % 9}:00:00" for i in range(60)
    ]
    table.write_text("\n".join(["age,fee,seen,came", *rows]) + "\n")
    dpassay(f"schema draft {table} -o {schema}")
    lines = [line.removeprefix("# ") for line in schema.read_text().splitlines()]
    schema.write_text("\n".join(lines[lines.index("[columns.age]") :]))
    dpassay(f"synth {table} --schema {schema} --epsilon 20 -o {out}")
    assert out.read_text().splitlines()[0] == "age,fee,seen,came"


def test_texts_of_which_most_come_once_are_left_out(dpassay, tmp_path):
    table = tmp_path / "t.csv"
    notes = [f"said {i % 90}" for i in range(100)]  # ten of them twice
    table.write_text("\n".join(["note,town", *(f"{note},Ulm" for note in notes)]) + "\n")
    data = dpassay(f"schema draft {table} -o {tmp_path / 's.toml'} --json").data
    assert data["left_out"] == {"note": "most of its values come only once, as in an identifier"}


def test_misuse(dpassay, table, tmp_path):
    (tmp_path / "here.toml").write_text("mine")
    taken = dpassay(f"schema draft {table} -o {tmp_path / 'here.toml'}")
    assert taken.code == 2
    assert (tmp_path / "here.toml").read_text() == "mine"
    unknown = dpassay(f"schema draft {table} -o {tmp_path / 'new.toml'} --drop nothing")
    assert (unknown.code, "is not a column" in unknown.err) == (2, True)
    assert not (tmp_path / "new.toml").exists()
    assert dpassay(f"synth {table} --epsilon 1 --drop tel").code == 2
