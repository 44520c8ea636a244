"""The game of attacks and defences: its solution, the attacker's search, and a run from the command line."""

import json
from pathlib import Path

import numpy as np
import pytest

from actors.errors import UserError
from experiments.analysis.run_table import game_table
from experiments.analysis.worst_case import solve
from experiments.attacks.kind import AttackSettings
from experiments.config.loading import load
from experiments.jobs import plan_of
from experiments.records.recorder import RunFolder
from experiments.studies.game.attacker import best_response, label, moves, without_search
from run import main
from tests.support.words import joined

SMALL = [
    *("experiment=game", "methods=[full,majority,agreement]", "game.attacks=[collude,sleeper]", "game.training=3"),
    *("game.tries=2", "data.limit=4", "defence.calibration=2", "wandb.mode=disabled", "runtime=inline"),
    *("topology.text=[critic,scientist]", "topology.visual=[critic]", "retrieval.texts=2", "retrieval.pictures=1"),
]


@pytest.mark.parametrize(
    ("payoffs", "value", "rows", "columns"),
    [
        ([[0, -1, 1], [1, 0, -1], [-1, 1, 0]], 0, [1 / 3] * 3, [1 / 3] * 3),  # rock, paper, scissors
        ([[3, 1], [2, 0]], 1, [1, 0], [0, 1]),  # the second row is dominated
        ([[1, -1], [-1, 1], [-3, -3]], 0, [0.5, 0.5, 0], [0.5, 0.5]),  # matching pennies
        ([[0.25]], 0.25, [1], [1]),
    ],
)
def test_known_games_have_their_value_and_strategies(
    payoffs: list[list[float]], value: float, rows: list[float], columns: list[float]
) -> None:
    found, p, q = solve(payoffs)
    assert found == pytest.approx(value, abs=1e-6)
    np.testing.assert_allclose(p, rows, atol=1e-5)
    np.testing.assert_allclose(q, columns, atol=1e-5)


def test_neither_side_of_a_random_game_gains_by_a_change() -> None:
    for seed in range(30):
        draw = np.random.default_rng(seed)
        payoffs = draw.random((draw.integers(1, 12), draw.integers(1, 12)))
        value, p, q = solve(payoffs)
        assert (p @ payoffs).min() == pytest.approx(value, abs=1e-4)
        assert (payoffs @ q).max() == pytest.approx(value, abs=1e-4)


async def test_an_attacker_finds_the_weakness_of_a_defence_that_ignores_the_second_round() -> None:
    plan = plan_of(load(["experiment=game", "game.attacks=[drop,sleeper]"]))
    start = without_search(plan)[1]
    asked = []

    async def utility(attack: AttackSettings) -> float:
        """Of a defence that takes answers from the first round, and hears some agents more than others."""
        asked.append(label(attack))
        heard = attack.kind == "sleeper" and attack.from_round == 1
        return 1 - heard * (0.5 + ({0, 1} == set(attack.agents)) / 2)

    found, least = await best_response(plan, start, utility)
    assert start.from_round == 2
    # Agents matter from the first round on alone, so these are chosen after the round.
    assert (found.kind, found.from_round, found.agents, least) == ("sleeper", 1, [0, 1], 0)
    assert len(set(asked)) == len(asked) <= plan.config.game.tries + 1


def test_moves_stay_within_the_budget_and_change_what_has_an_effect() -> None:
    plan = plan_of(load(["experiment=game", "game.number=3", "game.attacks=[drop,response]"]))
    drop, response = without_search(plan)
    assert len(drop.agents) == len(response.agents) == 3
    for start in (drop, response):
        for move in moves(plan, start):
            assert len(set(move.agents)) == 3
            assert move.kind == "drop" or move.share == drop.share
            assert move.kind == "response" or move.confidence == drop.confidence


@pytest.mark.parametrize(
    ("word", "named"),
    [
        ("attack=response", "game.attacks"),
        ("methods=[full,m3prune]", "m3prune"),
        ("game.attacks=[nothing]", "nothing"),
        ("game.attacks=[poison]", "poison"),
        ("game.attacks=[corpus]", "corpus"),
        ("game.number=40", "40"),
        ("topology.rounds=1", "round"),
        ("learner.decision=learned", "learner"),
    ],
)
def test_a_game_that_cannot_be_is_refused(
    word: str, named: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["experiment=game", word, f"output={tmp_path}"]) == 2
    assert named in capsys.readouterr().err
    assert not list(tmp_path.glob("*-game"))


@pytest.mark.slow
def test_a_run_plays_all_and_one_that_was_killed_ends_with_the_same_bytes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [*SMALL, f"output={tmp_path}"]
    assert main([*words, "dry_run=true"]) == 0
    assert main(words) == 0
    (run,) = (RunFolder(path) for path in tmp_path.glob("*-game"))
    game = json.loads((run.path / "game.json").read_text())
    assert set(game["defences"]) == {"full", "majority", "agreement"}
    assert sum(row["share"] for row in game["defences"].values()) == pytest.approx(1, abs=1e-5)
    assert sum(game["attacks"].values()) == pytest.approx(1, abs=1e-5)
    for row in game["defences"].values():
        low, high = row["ci95"]
        assert low <= row["worst"] == min(value for name, value in row["utilities"].items() if name != "none") <= high
    assert json.loads(run.metrics.read_text())["game"] == game
    assert game_table(game, "EM").title in run.report.read_text()
    whole = {name: (run.path / name).read_bytes() for name in ("game.json", "metrics.json", "scores.jsonl")}
    lines = whole["scores.jsonl"].splitlines(keepends=True)
    (run.path / "scores.jsonl").write_bytes(b"".join(lines[: len(lines) // 2]))
    assert main([f"resume={run.path}", "concurrency=3"]) == 0
    assert whole == {name: (run.path / name).read_bytes() for name in whole}
    with pytest.raises(UserError, match=r"game\.training"):
        load(joined(*SMALL, "game.training=0"))
