"""Logs of games against DP-SGD are logs like any other: judged, merged, shown and reported."""

import json
from dataclasses import fields, replace

import numpy as np
import pytest
from typer.testing import CliRunner

import dpassay as da
from adversaries.small import DATA, training
from dpassay.adversaries import ADVERSARIES, dirac_canaries, play, steps_bound
from dpassay.adversaries.one_run import _OneRunGame
from dpassay.adversaries.training_game import TrainingGame
from dpassay.attacks import shadows
from dpassay.auditing import AuditStopped, judge
from dpassay.auditing.game import Game, PairGame
from dpassay.auditing.single import _CanaryGame
from dpassay.cli import app
from dpassay.errors import InvalidArgument
from dpassay.runs import MemoryLog, merge, opened
from extras import needs

LAST, THIRD = ADVERSARIES["malicious data"], ADVERSARIES["intermediate poison"]
FULL = training(steps=4, noise_multiplier=0.8)


@pytest.fixture(autouse=True)
def _jax():
    needs("jax", "lab")


def assert_same(one, other):
    """The same statement about the same trials, by their bits."""
    for name in ("bound", "refuted", "confidence", "trials", "ended", "attack", "fell_at"):
        assert getattr(one, name) == getattr(other, name), name
    assert one.power == other.power
    assert one.evidence.run == other.evidence.run
    assert one.evidence.worlds.tobytes() == other.evidence.worlds.tobytes()
    assert one.evidence.scores.tobytes() == other.evidence.scores.tobytes()


@pytest.fixture(scope="module")
def logged(tmp_path_factory):
    """A store with a game, one that chose its distinguisher, single steps and one training."""
    needs("jax", "lab")
    path = tmp_path_factory.mktemp("games") / "run.db"
    run = dirac_canaries(FULL, DATA, 40)
    games = {
        "chosen": play(THIRD, FULL, DATA, trials=30, choosing=12, store=path).verdict(),
        "refuted": play(LAST, FULL, DATA, trials=60, claim=da.GDP(0.9), store=path).verdict(
            da.GDP(0.9)
        ),
        "one run": run.verdict(store=path, guesses=(10, 10)),
    }
    bound = steps_bound(LAST, FULL, DATA, trainings=9, estimator="location", store=path)
    return path, games, bound


@pytest.mark.parametrize("name", ["chosen", "refuted", "one run"])
def test_a_log_has_the_verdict_of_its_game(logged, name):
    path, games, _ = logged
    verdict = games[name]
    again = judge(path, verdict.evidence.run)
    assert_same(again, verdict)
    assert again.claim.epsilon(1e-5) == verdict.claim.epsilon(1e-5)
    assert verdict.refuted == (name == "refuted")
    assert judge(path, verdict.evidence.run, claim=da.ApproxDP(0.01, 1e-5)).claim.epsilon_upper < 1


def test_a_log_of_single_steps_has_the_bound_of_its_game(logged):
    path, _, bound = logged
    verdict = judge(path)  # It was played last.
    assert verdict.bound == bound
    assert verdict.trials == 9
    assert verdict.refuted == (bound.epsilon > da.account(FULL.event()).epsilon(1e-5))
    assert judge(path, claim=da.ApproxDP(0.9 * bound.epsilon, 1e-5)).refuted
    assert not judge(path, claim=da.ApproxDP(1.1 * bound.epsilon, 1e-5)).refuted


def test_trials_that_chose_are_not_judged(logged):
    with opened(logged[0], make=False) as log:
        first = log.runs()[0]
        with pytest.raises(InvalidArgument, match="chose a distinguisher"):
            judge(log, first.key)


def test_a_score_of_your_own_is_in_no_log():
    from dataclasses import replace

    log = MemoryLog()
    adversary = replace(LAST, distinguish=lambda plan, made: {"mine": lambda seen: seen[:, 0]})
    play(adversary, FULL, DATA, trials=4, store=log)
    with pytest.raises(InvalidArgument, match=r"function of your own.*nothing is trained twice"):
        judge(log)


def test_games_played_apart_are_joined():
    """Two logs of the same game, the second of more trials: together they are the longer one."""
    logs = MemoryLog(), MemoryLog(), MemoryLog()
    for log, trials in zip(logs, (6, 9), strict=False):
        game = play(LAST, FULL, DATA, trials=trials, store=log)
    assert [merge(logs[2], log) for log in logs[1::-1]] == [9, 0]
    assert_same(judge(logs[2]), game.verdict())


def test_status_and_report_of_games(logged, tmp_path):
    path, games, _ = logged

    def run(*words):
        result = CliRunner().invoke(app, [*words], env={"COLUMNS": "100"})
        assert result.exit_code == 0, result.output
        return result.stdout

    states = json.loads(run("status", str(path), "--json"))["runs"]
    assert [state["state"] for state in states] == ["finished"] * 5
    assert [state["trials"] for state in states] == [12, 30, 60, 1, 9]
    assert "chose a distinguisher" in states[0]["note"]
    assert states[2]["refuted"] is True
    run("status", str(path))
    for verdict in games.values():
        out = tmp_path / "page.html"
        run("report", str(path), "--run", verdict.evidence.run, "-o", str(out))
        shown = json.loads(out.with_suffix(".json").read_text())["audits"][0]
        assert shown["verdict"]["refuted"] == verdict.refuted
        assert shown["attack"]["attack"] == verdict.attack


def _game(kind):
    if kind is PairGame:
        return PairGame(lambda data, rng: data, 1.0, 0.0, "key", 0, 0, score=float)
    if kind is TrainingGame:
        return TrainingGame(LAST.train, FULL, LAST.craft(FULL, DATA, np.random.default_rng(0)), 0)
    if kind is _OneRunGame:
        return _OneRunGame(dirac_canaries(FULL, DATA, 8), 0)
    points = np.arange(12.0).reshape(6, 2)
    if kind is _CanaryGame:
        score = lambda model, at: at.sum(axis=1)  # noqa: E731
        return _CanaryGame(lambda data, rng: data.sum(), score, points, points, 0)
    inside = shadows.assign(6, 2, "halves", 0)
    model = lambda X, y, rng: lambda X, y: np.ones(len(y))  # noqa: E731
    y = np.arange(6) % 2
    return shadows._Training(model, None, points, y, inside, (points, y), 0, "losses", "halves")


@pytest.mark.parametrize(
    "kind", [PairGame, TrainingGame, _OneRunGame, _CanaryGame, shadows._Training]
)
def test_every_game_is_a_game(kind):
    """Its trials are what their numbers say, alone or with others; worlds are coins."""
    game = _game(kind)
    assert isinstance(game, Game)
    (once,), (again, *_) = game([0]), game([0, 0])
    assert once == again == game.play(0)
    assert set(np.unique(game.worlds(0))) <= {0, 1}
    assert game.key == _game(kind).key or kind is PairGame
    json.dumps(dict(game.configuration()))


def test_every_hook_is_in_the_key():
    """Trainings with other hooks are other trainings, and never take each other's logged trials."""
    game = _game(TrainingGame)
    hooks = game.crafted.hooks
    others = [
        replace(hooks, example=None, gradient=None, added=lambda before: before.parameters),
        replace(hooks, example=None, gradient=lambda before: before.parameters),
        replace(hooks, observe=None),
        replace(hooks, rate=0.5),
    ]
    assert {field.name for field in fields(hooks)} == {
        "example",
        "gradient",
        "added",
        "observe",
        "rate",
    }
    games = [replace(game, crafted=replace(game.crafted, hooks=other)) for other in others]
    assert len({one.key for one in (game, *games)}) == 5


@pytest.mark.parametrize(
    "place",
    [
        "dpassay.adversaries.GameStopped",
        "dpassay.attacks.ShadowsStopped",
        "dpassay.errors.GameStopped",
        "dpassay.errors.ShadowsStopped",
    ],
)
def test_one_exception_for_what_stopped(place):
    import importlib

    module, name = place.rsplit(".", 1)
    with pytest.warns(DeprecationWarning, match="AuditStopped"):
        assert getattr(importlib.import_module(module), name) is AuditStopped


def test_the_result_class_has_its_old_name_still():
    with pytest.warns(DeprecationWarning, match="PlayedGame"):
        assert da.adversaries.Game is da.adversaries.PlayedGame
