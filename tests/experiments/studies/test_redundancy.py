"""Definition 1, measured: edges with a known effect are found out, whatever happens on the way."""

from __future__ import annotations

import asyncio
import json
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from actors.errors import UserError
from actors.messages import Message, Turn, TurnResult, derive_seed
from actors.runtime.inline import Local
from experiments.analysis.statistics import least_clusters
from experiments.config.config import Config
from experiments.config.loading import load
from experiments.config.saved import save
from experiments.evidence.evidence import Evidence
from experiments.jobs import plan_of
from experiments.records.progress import Progress
from experiments.records.recorder import Recorder, RunFolder
from experiments.records.tracking import Tracker, WandbSettings
from experiments.records.usage import by_phase
from experiments.running.discussions import Discussions
from experiments.running.inputs import open_dataset, open_store
from experiments.running.run_context import RunContext
from experiments.studies.redundancy.edges import Edge, by_kind, edges_of, without
from experiments.studies.redundancy.redundancy_figure import draw_edge_effects, edge_effects
from experiments.studies.redundancy.redundancy_job import FILE, RedundancyJob
from experiments.studies.redundancy.redundancy_summary import (
    agreement,
    measured_effects,
    rank_correlation,
    redundant,
    split_half,
)
from run import main
from tests.support.words import joined
from topologies.baselines import complete_wiring
from topologies.learning.learned_topology import make_learner

pytestmark = pytest.mark.slow

AGENTS = ("text_critic", "text_scientist", "visual_critic")
KNOWS, MISLEADS, SPEAKS, DECISION = range(4)
TAUGHT = Edge("spatial", KNOWS, SPEAKS)
MISLED = Edge("temporal", MISLEADS, SPEAKS)
HEARD = Edge("decision", SPEAKS, DECISION)
WORDS = (
    "experiment=redundancy",
    "topology.text=[critic,scientist]",
    "topology.visual=[critic]",
    "data.limit=20",
    "redundancy.questions=8",
    "pruning.steps=6",
    "learner.early_stop=0",
    "training.samples=8",
    "wandb.mode=disabled",
)


def test_the_full_graph_has_every_pair_once_in_order_all_temporal_edges_and_all_readers() -> None:
    edges = edges_of(complete_wiring(9, rounds=2))
    sizes = {kind: len(members) for kind, members in by_kind(edges).items()}
    assert sizes == {"all": 126, "spatial": 36, "temporal": 81, "decision": 9}
    assert all(edge.sender < edge.receiver for edge in edges if edge.kind == "spatial")
    assert len({edge.name([f"a{i}" for i in range(9)]) for edge in edges}) == 126
    assert set(by_kind(edges_of(complete_wiring(3, rounds=1)))) == {"all", "spatial", "decision"}


def test_removing_an_edge_removes_it_in_all_rounds_and_leaves_the_graph_unchanged() -> None:
    graph = complete_wiring(3, rounds=3)
    before = edges_of(graph)
    for gone in before:
        assert edges_of(without(graph, [gone])) == tuple(edge for edge in before if edge != gone)
        assert edges_of(graph) == before


def test_an_edge_is_redundant_unless_its_absence_lowers_the_mean() -> None:
    effects = np.array([[0, 0, 0, 0], [1, -1, 0, 0], [1, 0, 0, 0], [-1, 0, 0, 0]], dtype=float)
    assert redundant(effects).tolist() == [True, True, False, True]


def test_an_effect_is_shown_on_just_as_many_questions_as_are_needed_and_noise_is_not() -> None:
    edges, questions = 126, 40
    needed = least_clusters(edges)
    assert needed == 13
    effects = np.zeros((edges, questions))
    effects[0, :needed], effects[1, : needed - 2], effects[2, :needed] = 1, 1, -1
    shown = [effect["shown"] for effect in measured_effects(effects)]
    assert shown == [True, False, True, *[False] * (edges - 3)]
    tested = measured_effects(np.random.default_rng(3).choice([-1.0, 0, 0, 1], size=(edges, questions)))
    assert min(effect["p_value"] for effect in tested) < 0.05
    assert not any(effect["shown"] for effect in tested)


def test_halves_agree_on_real_effects_and_not_on_noise() -> None:
    draw = np.random.default_rng(4)
    noise = draw.choice([-1.0, 0, 1], size=(60, 200))
    assert abs(split_half(noise, seed=1)["rank_correlation"]) < 0.3
    reliable = split_half(noise + np.linspace(-2, 2, 60)[:, None], seed=1)
    assert reliable["whole"] > reliable["rank_correlation"] > 0.9
    assert reliable["redundant_again"] > 0.9 > reliable["redundant"]


def test_cuts_have_precision_and_recall_and_those_of_as_many_random_ones_of_each_kind() -> None:
    kinds = ["spatial"] * 4 + ["temporal"] * 4
    is_redundant = np.array([1, 1, 1, 0, 1, 0, 0, 0], dtype=bool)
    compared = agreement(np.array([1, 1, 0, 0, 0, 0, 0, 1], dtype=bool), is_redundant, kinds, seed=1)
    assert (compared["precision"], compared["recall"]) == pytest.approx((2 / 3, 2 / 4))
    assert compared["chance"] == pytest.approx((2 * 3 / 4 + 1 * 1 / 4) / 3)
    assert compared["chance95"] == pytest.approx((1 / 3, 1.0))
    nothing = agreement(np.zeros(2, dtype=bool), np.array([True, False]), ["spatial"] * 2, seed=1)
    assert (nothing["precision"], nothing["recall"], nothing["chance"]) == (None, 0.0, None)


def test_rank_correlation_shares_ranks_among_ties_and_is_none_of_a_constant() -> None:
    assert rank_correlation([1, 2, 3], [10, 100, 1000]) == pytest.approx(1)
    assert rank_correlation([1, 2, 2, 3], [1, 2, 3, 4]) == pytest.approx(0.9486833)
    assert rank_correlation([1, 1, 1], [1, 2, 3]) is None


class ThreeEdges:
    """A team in which three edges matter and no other does.

    `text_critic` knows the answer. `visual_critic` repeats its message of the round, but on every other question it has
    no answer after a message of `text_scientist` in the round before. The decision agent repeats `visual_critic`.
    """

    def __init__(self, gold: dict[str, str], last: int | None = None) -> None:
        self._gold = gold
        self._left = last

    async def take(self, turn: Turn) -> TurnResult:
        await asyncio.sleep(0)
        if self._left is not None:
            self._left -= 1
            if self._left < 0:
                raise LookupError("ended")
        heard = {(one.message.agent, one.temporal): one.message.answer for one in turn.heard}
        answer: str | None = "unknown"
        if turn.agent == AGENTS[KNOWS]:
            answer = self._gold[turn.question.id]
        elif turn.agent == AGENTS[SPEAKS]:
            misled = derive_seed(turn.question.id) % 2 and (AGENTS[MISLEADS], True) in heard
            answer = None if misled else heard.get((AGENTS[KNOWS], False))
        elif turn.agent == "decision":
            answer = heard.get((AGENTS[SPEAKS], False))
        id = f"{turn.round}/{turn.agent}"
        return TurnResult(Message(id, turn.agent, turn.round, answer=answer, prompt_tokens=10))

    def close(self, discussion: str) -> None:
        pass


def measured(folder: RunFolder, config: Config, last: int | None = None) -> dict[str, Any]:
    """Runs `experiment=redundancy` with `ThreeEdges` in place of actors, which end after `last` turns."""
    cache = Path(config.output) / "cache"
    cache.mkdir(exist_ok=True)
    dataset = open_dataset(plan_of(config), cache)
    gold = {item.question.id: " and ".join(item.gold) for item in (*dataset.train(), *dataset.evaluate())}
    plan = plan_of(config)
    learners = {method: Local(make_learner(spec)) for method, spec in plan.learners.items()}
    evidence = Evidence(open_store(config.retrieval, dataset, cache), config.retrieval)
    tracker = Tracker(folder.path, {}, WandbSettings(mode="disabled"))
    quiet = Console(file=StringIO())
    with Recorder(folder) as recorder, Progress(quiet) as progress:
        team = ThreeEdges(gold, last)
        context = RunContext.of(plan, dataset, evidence, recorder, tracker, progress, team)
        discussions = Discussions(context, learners)
        asyncio.run(RedundancyJob().discuss(discussions))
    return dict(json.loads((folder.path / FILE).read_text()))


def make(output: Path, *words: str) -> tuple[RunFolder, Config]:
    config = load(joined(*WORDS, f"output={output}", *words))
    folder = RunFolder.create(output, "redundancy")
    save(config, folder.config)
    return folder, config


@pytest.fixture(scope="module")
def planted(output: Path) -> tuple[RunFolder, dict[str, Any]]:
    folder, config = make(output)
    return folder, measured(folder, config)


def edge(findings: dict[str, Any], wanted: Edge) -> dict[str, Any]:
    return next(row for row in findings["edges"] if (row["kind"], row["sender"], row["receiver"]) == wanted)


def test_the_edges_that_matter_are_found(planted: tuple[RunFolder, dict[str, Any]]) -> None:
    _, findings = planted
    misled = findings["methods"]["full"]["measured_utility"]
    assert 0 < misled < 1
    assert edge(findings, TAUGHT)["answer_effect"]["mean"] == pytest.approx(misled)
    assert edge(findings, HEARD)["answer_effect"]["mean"] == pytest.approx(misled)
    assert edge(findings, MISLED)["answer_effect"]["mean"] == pytest.approx(misled - 1)
    useful = [row["name"] for row in findings["edges"] if not row["redundant"]]
    assert useful == ["spatial.text_critic.visual_critic", "decision.visual_critic.decision"]
    counts = [
        findings["kinds"]["all"][name] for name in ("edges", "redundant", "no_answer_changed", "harmful", "useful")
    ]
    assert counts == [3 + 9 + 3, 13, 12, 1, 2]


def test_a_learner_that_sees_what_edges_do_cuts_redundant_ones_alone(planted: tuple[RunFolder, dict[str, Any]]) -> None:
    folder, findings = planted
    learned = findings["learners"]["effects"]["all"]
    assert learned["cut"] > 0
    assert learned["precision"] == 1
    assert findings["methods"]["effects"]["utility"] > findings["methods"]["full"]["utility"]
    assert set(findings["learners"]) == {"m3prune", "m3prune_rloo", "effects"}
    for name in findings["learners"]:
        assert len(list(folder.learned(name).learning())) == 2 * (6 + 1)


def test_held_out_questions_chose_no_edge(planted: tuple[RunFolder, dict[str, Any]]) -> None:
    folder, findings = planted
    measured = {trace.question for trace in folder.traces("evaluate-without.spatial.text_critic.visual_critic")}
    left = {trace.question for trace in folder.traces("evaluate-no_redundant")}
    assert (len(measured), len(left)) == (8, 20)
    assert findings["held_out"] == len(left - measured) == 12


@pytest.mark.parametrize("turns", [1000, 2400])
def test_a_run_that_is_ended_anywhere_and_resumed_finds_the_same(
    turns: int, output: Path, planted: tuple[RunFolder, dict[str, Any]]
) -> None:
    folder, config = make(output)
    with pytest.raises((LookupError, ExceptionGroup)):
        measured(folder, config, last=turns)
    assert not (folder.path / FILE).exists()
    measured(folder, config)
    finished, _ = planted
    for name in (FILE, "scores.jsonl"):
        assert (folder.path / name).read_bytes() == (finished.path / name).read_bytes(), name


def test_questions_must_be_left_to_check_on(output: Path) -> None:
    with pytest.raises(UserError, match=r"redundancy\.questions=20"):
        measured(*make(output, "redundancy.questions=20"))


def test_the_decision_agents_edges_are_no_candidates_where_a_learner_may_not_cut_them(output: Path) -> None:
    folder, config = make(output, "learner.decision=all", "methods=[effects]")
    learned = measured(folder, config)["learners"]["effects"]
    assert set(learned) == {"all", "spatial", "temporal"}
    assert learned["all"]["edges"] == 12


def test_the_figure_shows_every_kind_of_edge_and_is_drawn_in_both_formats(
    planted: tuple[RunFolder, dict[str, Any]],
) -> None:
    folder, findings = planted
    [png] = draw_edge_effects(folder, findings)
    assert png.read_bytes().startswith(b"\x89PNG")
    assert png.with_suffix(".pdf").read_bytes().startswith(b"%PDF")
    titles = [axes.get_title() for axes in edge_effects(findings).axes]
    assert [title for title in titles if title] == ["spatial", "temporal", "decision"]


def test_the_experiment_runs_from_the_command_line_and_computes_no_turn_twice(
    output: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small = ("data.limit=5", "redundancy.questions=3", "pruning.steps=2", "training.samples=3")
    assert main(joined(*WORDS, *small, "runtime=inline", f"output={output}")) == 0
    printed = capsys.readouterr().out
    assert all(title in printed for title in ("Definition 1", "by chance", "2 held-out questions"))
    folder = RunFolder(Path(printed.strip().splitlines()[-1].removeprefix("run: ")))
    spent = by_phase(folder)["taking edges away"].total
    unheard = 1  # the last round's turn of the agent that speaks last, where the decision agent does not read it
    assert spent.calls + spent.reused == ((1 + 15) * (2 * 3 + 1) - unheard) * 3
    assert spent.reused > spent.calls, "a missing edge changes what few agents read"
    assert (folder.figures / "edge-effects.png").is_file()
