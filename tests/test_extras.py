import sys

import pytest

import extras


@pytest.mark.parametrize(
    ("ask", "kind"), [(extras.needs, "packages"), (extras.needs_program, "programs")]
)
@pytest.mark.parametrize("required", ["", "packages", "programs", "packages programs"])
def test_what_is_missing(monkeypatch, required, ask, kind):
    monkeypatch.setattr(extras, "REQUIRED", frozenset(required.split()))
    ends = "Failed" if kind in required else "Skipped"
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
