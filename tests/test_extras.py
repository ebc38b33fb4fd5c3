import sys

import pytest

import extras


@pytest.mark.parametrize(("required", "ends"), [(False, "Skipped"), (True, "Failed")])
@pytest.mark.parametrize("ask", [extras.needs, extras.needs_program])
def test_what_is_missing(monkeypatch, required, ends, ask):
    monkeypatch.setattr(extras, "REQUIRED", required)
    with pytest.raises(BaseException, match="needs") as raised:
        ask("no_such_thing")
    assert type(raised.value).__name__ == ends


def test_what_is_there():
    assert extras.needs("json.decoder").__name__ == "json.decoder"
    assert extras.needs_program("sh").endswith("/sh")


def test_what_is_broken(tmp_path, monkeypatch):
    (tmp_path / "half_installed.py").write_text("import no_such_thing")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    with pytest.raises(ModuleNotFoundError):
        extras.needs("half_installed")
