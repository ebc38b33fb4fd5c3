"""A folder that cannot be made is named before anything is computed."""

import pytest

from dpassay.report import figures
from dpassay_reproduce import EXPERIMENTS, experiment


class Computed(Exception):
    """It went on to draw."""


@pytest.mark.parametrize("name", sorted(EXPERIMENTS.keys() - {"adversaries"}))
def test_a_folder_that_cannot_be_made_stops_at_once(name, tmp_path, monkeypatch):
    module = experiment(name)

    def drawn(*args, **options):
        raise Computed

    monkeypatch.setattr(figures, "house_style", drawn)
    for begin in ("house_style", "picture", "tradeoff_picture", "losses_picture"):
        if hasattr(module, begin):
            monkeypatch.setattr(module, begin, drawn)
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError):
        module.run(tmp_path / "file" / "sub")
