"""Planted worlds of a sweep: explored with its learners, compared with the full graph, and drawn with its trials."""

import json
from pathlib import Path

import pytest

from actors.errors import UserError
from experiments.config.loading import load
from experiments.config.study_settings import Influence
from experiments.records.trials import TrialResult, results_written
from experiments.runner import open_folder, prepare
from experiments.studies.planted.worlds import Outcome, PlantedWorld
from experiments.sweeps.expansion import planted_of
from experiments.sweeps.planted_learners import conclude_learners, learners_table
from topologies.learning.variants import LEARNED

KINDS = ("none", "response")


def outcomes(teams: int = 12) -> list[Outcome]:
    """Of `effects`, a tenth better than `full` under attack and equal without, and of `m3prune`, equal."""
    gains = {"full": 0.0, "m3prune": 0.0, "effects": 0.1}
    rows = []
    for number in range(teams):
        for adversary in (number % 9, None):
            world = PlantedWorld(1.2, 0.1, number, adversary, Influence.ANSWERS)
            for name, gain in gains.items():
                utility = 0.4 + 0.01 * number + gain * (1 + 0.1 * (number % 2)) * (adversary is not None)
                curves = {} if name == "full" else {"spent": {5: 100, 10: 200}, "reached": {5: 0.4, 10: utility}}
                rows.append(Outcome(world, name, utility, 1.0, 18, 162, None, **curves))
    return rows


def results(folder: Path, varied: bool = True) -> list[TrialResult]:
    rows = {name: {"utility": 0.5, "training_tokens": 2e6, "auc_attacker": 0.75} for name in ("m3prune", "effects")}
    metrics = {"metric": "EM", "methods": {"full": {"utility": 0.4}, **rows}}
    trials = [
        TrialResult(f"{n:04}", {"attack.kind": kind} if varied else {}, 0, metrics) for n, kind in enumerate(KINDS)
    ]
    with results_written(folder) as written:
        for trial in trials:
            written(trial)
    return trials


def test_learners_are_compared_with_the_full_graph_of_the_same_teams(tmp_path: Path) -> None:
    table = learners_table(outcomes(), results(tmp_path), "EM", 0.02)
    rows = {row[0]: row[1:] for row in table.rows}
    assert rows["effects"] == ("-", "0.560", "0.455", "0", "0.750", "0.500", "0.500", "2.00")
    assert rows["full"][4:] == ("-", "0.400", "0.400", "0.00")
    better = [line for line in table.notes if line.endswith(": better.")]
    assert len(better) == 1
    assert "effects (answers)" in better[0]


def test_the_figure_names_every_learner_and_needs_outcomes(tmp_path: Path) -> None:
    config = load(["experiment=learners"])
    results(tmp_path)
    assert conclude_learners(config, tmp_path, []) == ([], [])
    [drawn], [table] = conclude_learners(config, tmp_path, outcomes())
    assert drawn.stat().st_size > 1000
    vector = drawn.with_suffix(".svg").read_text()
    assert all(f"<!-- {name} -->" in vector for name in ("m3prune", "effects"))
    assert len(table.rows) == 3


def test_worlds_without_an_adversary_have_a_table_and_a_figure(tmp_path: Path) -> None:
    results(tmp_path)
    clean = [outcome for outcome in outcomes() if outcome.world.adversary is None]
    [drawn], [table] = conclude_learners(load(["experiment=learners"]), tmp_path, clean)
    assert drawn.stat().st_size > 1000
    assert {row[1] for row in table.rows} == {"-"}


def test_trials_of_a_sweep_under_one_attack_count_as_attacked(tmp_path: Path) -> None:
    results(tmp_path, varied=False)
    for attack, live in (("response", ("0.750", "0.500", "-")), ("none", ("-", "-", "0.500"))):
        _, [table] = conclude_learners(load(["experiment=learners", f"attack={attack}"]), tmp_path, outcomes())
        (row,) = (row for row in table.rows if row[0] == "effects")
        assert tuple(row[5:8]) == live


def test_the_preset_has_every_learner_and_its_worlds_have_the_sweep_s_settings() -> None:
    config = load(["experiment=learners", "pruning.steps=7", "seed=3"])
    assert set(config.methods) > {"single", "full", "random", *LEARNED}
    planted = planted_of(config)
    assert planted is not None
    assert planted.planted.learners == LEARNED
    assert (planted.pruning.steps, planted.seed, planted.planted.seeds) == (7, 3, 20)
    assert planted_of(load(["experiment=mmqa_prune"])) is None


@pytest.mark.parametrize("word", ["seeds=0", "seedz=2", "influences=[nothing]"])
def test_wrong_settings_of_worlds_are_refused_before_anything_starts(word: str) -> None:
    with pytest.raises(UserError, match=f"planted.{word.partition('=')[0]}"):
        planted_of(load(["experiment=learners", f"sweep.planted.{word}"]))


@pytest.mark.slow
@pytest.mark.ray
def test_one_command_explores_worlds_runs_trials_and_goes_on_after_a_kill(tmp_path: Path) -> None:
    words = ["methods=[full,effects]", "sweep.seeds=1", "sweep.points=[{attack.kind: none}]", "pruning.steps=1"]
    worlds = ["sweep.planted.seeds=1", "sweep.planted.truth=400", "sweep.planted.evaluated=20"]
    small = [
        "training.samples=2",
        "data.limit=2",
        "sweep.planted.influences=[answers]",
        "sweep.planted.checkpoints=[1]",
    ]
    places = [f"output={tmp_path}", "runtime=inline", "wandb.mode=disabled"]
    config = load(["experiment=learners", *words, *worlds, *small, *places])
    folder = open_folder(config)
    work = prepare(config, None)
    assert work is not None
    assert work(folder)
    drawn = (folder.path / "figures" / "learners.svg").read_bytes()
    planted = folder.path / "planted" / "worlds.jsonl"
    first, *_ = planted.read_text().splitlines(keepends=True)
    planted.write_text(first)
    again = load([f"resume={folder.path}"])
    work = prepare(again, None)
    assert work is not None
    assert work(folder)
    assert (folder.path / "figures" / "learners.svg").read_bytes() == drawn
    assert len(json.loads((folder.path / "planted" / "planted.json").read_text())["outcomes"]) == 12
