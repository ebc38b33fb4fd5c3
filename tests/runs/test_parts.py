"""A run that is played in parts: the whole is their sum, and whatever is wrong is named."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpassay.errors import InvalidArgument, LogError
from dpassay.runs import Outcomes, SqliteLog, open_log, opened, play
from dpassay.runs.parts import (
    TASK,
    WORK,
    Work,
    range_of,
    read_task,
    read_work,
    shard_of,
    write_work,
)
from runs.tasks import noisy

TRIALS = 60


@pytest.fixture
def folder(tmp_path):
    place = tmp_path / "audit"
    write_work(place, Work("k" * 20, TRIALS, {"seed": 7}, {"audit": "mine"}), noisy)
    return place


def play_into(folder, part, task=noisy):
    work = read_work(folder)
    store = folder / part.file
    return play(task, part.trials, key=work.key, store=store, workers=1, part=part.name)


@given(trials=st.integers(1, 200), n=st.integers(1, 40))
def test_shards_share_all_trials_out(trials, n):
    parts = [shard_of(f"{i}/{n}", trials) for i in range(1, n + 1)]
    assert sorted(np.concatenate([part.trials for part in parts])) == list(range(trials))
    assert len({part.file for part in parts}) == n


@pytest.mark.parametrize("text", ["0/3", "4/3", "1/0", "3", "a/b", "-1/3", "1/3/5", ""])
def test_no_such_shard(text):
    with pytest.raises(InvalidArgument, match="counted from 1"):
        shard_of(text, 10)


@pytest.mark.parametrize("text", ["5:5", "6:5", "0:11", "5", ":5", "5:", "-1:3", "a:b", ""])
def test_no_such_range(text):
    with pytest.raises(InvalidArgument, match="0 <= a < b <= 10"):
        range_of(text, 10)


def test_the_whole_is_the_sum_of_its_parts(folder):
    expected = play(noisy, TRIALS, key="k", workers=1).outcomes
    for text in ("2/3", "1/3"):
        play_into(folder, shard_of(text, TRIALS))
    with opened(folder) as log:
        assert log.counts("k" * 20) == {"done": 38, "failed": 2}
    play_into(folder, shard_of("3/3", TRIALS))
    play_into(folder, range_of("5:20", TRIALS))  # played twice: the same outcomes
    with opened(folder) as log:
        found = log.outcomes("k" * 20)
        assert log.parts("k" * 20)[7] == "2/3"
    assert found.scores.tobytes() == expected.scores.tobytes()
    assert list(found.errors) == list(expected.errors) == [9, 49]


def test_a_part_played_again_plays_nothing(folder):
    part = shard_of("1/2", TRIALS)
    assert play_into(folder, part).n_played == 30
    assert play_into(folder, part).n_played == 0


def test_a_part_that_goes_on_is_joined_again(folder):
    part, some = shard_of("1/2", TRIALS), shard_of("1/2", 20)
    play_into(folder, some)
    with opened(folder) as log:
        assert sum(log.counts("k" * 20).values()) == 10
    play_into(folder, part)
    with opened(folder) as log:
        assert sum(log.counts("k" * 20).values()) == 30


def test_a_part_is_read_while_it_is_written(folder):
    log = SqliteLog(folder / "part-1of2.db")
    log.begin("k" * 20, {"seed": 7})
    for trial in range(5):
        log.add("k" * 20, Outcomes.of([trial], [float(trial)]), "1/2")
        with opened(folder) as whole:
            assert whole.outcomes("k" * 20).trials.tolist() == list(range(trial + 1))
    log.close()


def test_conflicting_parts_are_named(folder):
    play_into(folder, range_of("0:10", TRIALS))
    play_into(folder, range_of("8:12", TRIALS), lambda trials: [0.5 for _ in trials])
    with pytest.raises(LogError, match=r"part-8to12.db have different outcomes of 2 trials \(8, 9"):
        open_log(folder)


def test_part_of_another_run(folder):
    with SqliteLogOf(folder / "part-1of1.db") as log:
        log.begin("other", {})
    with pytest.raises(LogError, match=r"part-1of1.db: it is no part of run kkk"):
        open_log(folder)


class SqliteLogOf:
    def __init__(self, path):
        self.log = SqliteLog(path)

    def __enter__(self):
        return self.log

    def __exit__(self, *_):
        self.log.close()


def test_damaged_part(folder):
    play_into(folder, shard_of("1/2", TRIALS))
    path = folder / "part-1of2.db"
    path.write_bytes(path.read_bytes()[:5000])
    with pytest.raises(LogError, match=r"part-1of2\.db"):
        open_log(folder)


# ------------------------------------------------------------------------------- describing


def test_describing_again_is_harmless_and_another_run_is_refused(folder):
    write_work(folder, read_work(folder), noisy)
    with pytest.raises(InvalidArgument, match="holds another audit, run kkkkkkkkkkkk"):
        write_work(folder, Work("other", 3, {}, {}), noisy)


def test_places_that_are_in_use(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(InvalidArgument, match="must be a folder"):
        write_work(tmp_path / "file", Work("k", 3, {}, {}), noisy)
    with pytest.raises(InvalidArgument, match="must be new or empty"):
        write_work(tmp_path, Work("k", 3, {}, {}), noisy)


def test_nothing_was_described(tmp_path):
    with pytest.raises(InvalidArgument, match="holds no described audit"):
        read_work(tmp_path)


def change(path: Path, **facts):
    path.write_text(json.dumps(json.loads(path.read_text()) | facts))


def test_another_version_is_named(folder):
    versions = json.loads((folder / WORK).read_text())["versions"]
    change(folder / WORK, versions=versions | {"numpy": "0.1"})
    with pytest.raises(InvalidArgument, match=r"has numpy .*, the process that audits 0\.1"):
        read_task(folder, read_work(folder))


def test_description_of_another_format(folder):
    change(folder / WORK, format=99)
    with pytest.raises(InvalidArgument, match="not what this version writes"):
        read_work(folder)


def test_changed_task(folder):
    (folder / TASK).write_bytes(b"something else")
    with pytest.raises(InvalidArgument, match="was changed"):
        read_task(folder, read_work(folder))
