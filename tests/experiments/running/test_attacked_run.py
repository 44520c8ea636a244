"""Attacked runs, in this process: the same at any concurrency, after a kill, and replayed; metrics from records."""

import asyncio
import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from actors.errors import UserError
from actors.runtime.inline import Local
from experiments.analysis import summary
from experiments.attacks.attack_metrics import Harm, attackers_found, edge_measures, mean_by_round, write_edge_scores
from experiments.config.config import Config
from experiments.config.loading import load, load_overrides
from experiments.config.saved import save
from experiments.datasets.item import Score
from experiments.evidence.evidence import Evidence
from experiments.jobs import plan_of
from experiments.planning.topologies import compared_pairs
from experiments.records.progress import Progress
from experiments.records.recorder import Recorder, RunFolder
from experiments.records.records import Scored
from experiments.records.tracking import Tracker, WandbSettings
from experiments.running.discussions import Discussions
from experiments.running.inputs import open_dataset, open_store
from experiments.running.learned_graphs import learner_makers
from experiments.running.recorded_speaker import RecordedSpeaker
from experiments.running.run_context import RunContext
from experiments.scripted.speaker import ScriptedSpeaker
from experiments.unused import check_used
from tests.support.fake_run import item, trace
from tests.support.words import joined
from topologies.topology import Speaker
from topologies.wiring import Edges

SMALL = """experiment=mmqa_prune data.limit=4 pruning.steps=2 training.samples=2 wandb.mode=disabled figures=false
topology.text=[critic,scientist] topology.visual=[critic] methods=[single,full,m3prune]""".split()


class Team(ScriptedSpeaker):
    """The roles of a configuration."""

    def __init__(self, config: Config) -> None:
        super().__init__((*plan_of(config).roles.team, *plan_of(config).roles.helpers))


def carry_out(
    words: list[str],
    output: Path,
    folder: RunFolder | None = None,
    speaker: Speaker | None = None,
    side_by_side: bool = True,
) -> RunFolder:
    """A run, or what is left of it to do."""
    config = load(joined(*SMALL, f"output={output}", *words))
    cache = output / "cache"
    cache.mkdir(exist_ok=True)
    dataset = open_dataset(plan_of(config), cache)
    if folder is None:
        folder = RunFolder.create(output, "attacked")
        save(config, folder.config)
    plan = plan_of(config)
    store = open_store(config.retrieval, dataset, cache)
    learners = {method: Local(make()) for method, make in learner_makers(plan, store.encoder).items()}
    evidence = Evidence(store, config.retrieval)
    tracker = Tracker(folder.path, asdict(config), WandbSettings(mode="disabled"))
    with Recorder(folder) as recorder:
        recorded = isinstance(speaker, RecordedSpeaker)
        context = RunContext.of(
            plan, dataset, evidence, recorder, tracker, Progress(), speaker or Team(config), recorded=recorded
        )
        discussions = Discussions(context, learners, side_by_side)
        asyncio.run(discussions.run())
    about = summary.RunFacts(
        *("attacked", "reader", "sample", "EM", plan.evaluated, compared_pairs(plan.methods, plan.clean)),
        clean=plan.clean,
        attackers=plan.attackers,
    )
    summary.write(folder, summary.summarise(folder, about))
    return folder


def contents(folder: RunFolder) -> dict[str, bytes]:
    learned = folder.learned("m3prune").path
    files = [*folder.path.glob("traces/*.jsonl"), folder.metrics, folder.path / "scores.jsonl"]
    files += [*learned.glob("traces/*.jsonl"), learned / "edge_scores.json"]
    return {path.name: path.read_bytes() for path in files}


ATTACKS = (
    ("attack=response", "attack.agents=[visual_critic]", "attack.clean=true"),
    ("attack=corpus", "attack.clean=true"),
    pytest.param(("attack=input", "attack.agents=[1]"), marks=pytest.mark.slow),
    pytest.param(("attack=tamper", "attack.share=0.5"), marks=pytest.mark.slow),
    pytest.param(("attack=misroute",), marks=pytest.mark.slow),
)


@pytest.fixture(scope="module", params=ATTACKS, ids=" ".join)
def attacked(request: pytest.FixtureRequest, output: Path) -> tuple[list[str], RunFolder]:
    words = list(request.param)
    return words, carry_out([*words, "concurrency=32"], output)


def test_an_attacked_run_is_the_same_one_discussion_at_a_time(
    attacked: tuple[list[str], RunFolder], output: Path
) -> None:
    words, folder = attacked
    assert contents(carry_out([*words, "concurrency=1"], output)) == contents(folder)


def test_an_attacked_run_that_was_cut_short_ends_the_same(
    attacked: tuple[list[str], RunFolder], output: Path, tmp_path: Path
) -> None:
    words, folder = attacked
    before = contents(folder)
    scores = folder.path / "scores.jsonl"
    scores.write_bytes(b"".join(scores.read_bytes().splitlines(keepends=True)[:6]))
    (folder.learned("m3prune").path / "edge_scores.json").unlink()
    assert contents(carry_out(words, output, folder)) == before


def test_an_attacked_run_is_replayed_as_it_was(attacked: tuple[list[str], RunFolder], output: Path) -> None:
    words, folder = attacked
    assert contents(carry_out(words, output, speaker=RecordedSpeaker(folder))) == contents(folder)


def test_the_metrics_of_an_attacked_run_say_what_the_attack_did(attacked: tuple[list[str], RunFolder]) -> None:
    words, folder = attacked
    rows = json.loads(folder.metrics.read_text())["methods"]
    aimed = words[0] not in ("attack=input", "attack=misroute")
    named = words[0] in ("attack=input", "attack=response")
    for method, row in rows.items():
        of_attack = aimed and not method.endswith("-clean")
        assert ("attack_success" in row) is ("attack_success_ci95" in row) is ("infection" in row) is of_attack
        assert ("auc_attacker" in row) is ("honest_edges_cut" in row) is (named and method == "m3prune")
        assert "carried" not in row
    if aimed:
        assert len(rows["full"]["infection"]) == 2
        assert len(rows["single"]["infection"]) == 1


def test_an_evaluation_without_the_attack_is_that_of_the_same_graphs_in_an_honest_team(tmp_path: Path) -> None:
    twice = carry_out(["attack=response", "attack.agents=[0]", "attack.clean=true"], tmp_path)
    only_learned = carry_out(["attack=response", "attack.agents=[0]", "attack.when=train"], tmp_path)
    metrics, alone = (json.loads(run.metrics.read_text()) for run in (twice, only_learned))
    assert metrics["clean"] == {method: f"{method}-clean" for method in ("single", "full", "m3prune")}
    assert (metrics["attackers"], alone["attackers"]) == (["text_critic"], ["text_critic"])
    for method, clean in metrics["clean"].items():
        found, expected = metrics["methods"][clean], alone["methods"][method]
        # Intervals are drawn by the method's name.
        assert all(found[name] == expected[name] for name in ("utility", "f1", "prompt_tokens", "calls", "edges"))
        traces = zip(twice.traces(f"evaluate-{clean}"), only_learned.traces(f"evaluate-{method}"), strict=True)
        assert all((again.answer, again.target) == (before.answer, None) for again, before in traces)
    assert {"full vs full-clean", "m3prune vs m3prune-clean"} < metrics["paired"].keys()


@pytest.mark.parametrize("words", [[], ["attack=collude", "attack.number=2", "attack.when=train"]])
def test_a_second_evaluation_without_an_attack_in_the_first_is_refused(words: list[str]) -> None:
    config, overrides = load_overrides([*SMALL, *words, "attack.clean=true"])
    plan = plan_of(config)
    assert plan.clean == {}
    assert overrides is not None
    with pytest.raises(UserError, match=r"attack\.clean"):
        check_used(overrides, plan)


def test_a_clean_run_has_no_such_metrics_and_old_records_are_read() -> None:
    told = Scored.of(trace(1), item(1), Score(1, 1))
    assert told.attack_success is None
    old = json.loads(told.encode())
    for name in ("attack_success", "infection", "carried", "strict_em"):
        del old[name]
    assert Scored.decode(json.dumps(old)) == told
    harmed = Scored.of(trace(1), item(1), Score(1, 1), Harm(1.0, (0.25, 0.5), (0.0, 0.5)))
    assert Scored.decode(harmed.encode()) == harmed


def test_auc_is_how_often_an_attackers_edge_ranks_below_another() -> None:
    scores = np.array([[9.0, 0.1, 0.2], [0.6, 9.0, 0.7], [0.8, 0.2, -np.inf]])
    # One tie; edges to oneself do not count.
    assert edge_measures([scores], [0])["auc_attacker"] == pytest.approx(7.5 / 8)
    assert edge_measures([scores, scores], [0])["auc_attacker"] == pytest.approx(7.5 / 8)
    assert "auc_attacker" not in edge_measures([scores], [])
    assert edge_measures([np.full((3, 3), 0.5)], [1])["auc_attacker"] == 0.5


def test_honest_edges_cut_are_those_between_honest_agents() -> None:
    scores = np.array([[0.0, -1.0, 0.2], [-1.0, 0.0, -2.0], [-1.0, 0.2, 0.0]])
    assert edge_measures([scores], [0])["honest_edges_cut"] == 0.5
    assert "honest_edges_cut" not in edge_measures([scores], [0, 1])


def test_what_learning_found_out_is_read_from_the_run_folder_alone(tmp_path: Path) -> None:
    assert attackers_found(tmp_path) == {}
    low = np.array([[-np.inf, 0.1, 0.1], [0.9, -np.inf, -1.0], [0.8, 0.7, -np.inf]])
    write_edge_scores(tmp_path, ("a", "b", "c"), (), Edges(low, low))
    assert attackers_found(tmp_path) == {}
    write_edge_scores(tmp_path, ("a", "b", "c"), ("a",), Edges(low, low))
    assert attackers_found(tmp_path) == {"auc_attacker": 0.75, "attackers_edges_cut": 0.0, "honest_edges_cut": 0.5}


def test_a_round_is_averaged_over_the_discussions_that_had_it() -> None:
    assert mean_by_round([(0.0, 1.0), (0.5,)]) == [0.25, 1.0]
    assert mean_by_round([]) == []


def test_a_run_whose_scores_are_chance_says_that_nothing_is_cut_for_its_effect(tmp_path: Path) -> None:
    # Two steps of two samples tell nothing of any edge.
    folder = carry_out(["methods=[full,effects]", "learner.confirm=0"], tmp_path)
    first, *_, last = folder.learned("effects").learning()
    [doubt] = last.doubts
    assert doubt.startswith("no evidence that any edge matters (p = ")
    assert last.edges == first.edges
