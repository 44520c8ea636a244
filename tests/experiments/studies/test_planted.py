"""The testbed with known truth: its discussions follow the wiring, its truth is true, and learners are told apart."""

import asyncio
import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from actors.errors import UserError
from experiments.attacks.attack_metrics import auc
from experiments.config.config import Config
from experiments.config.loading import load
from experiments.config.setting_groups import TrainingSettings
from experiments.config.study_settings import Influence, PlantedSettings
from experiments.jobs import plan_of
from experiments.runner import open_folder, run
from experiments.studies.planted import testbed
from experiments.studies.planted.exploration import explore
from experiments.studies.planted.measures import different_turns, price, stopped
from experiments.studies.planted.opinion_model import OpinionModel
from experiments.studies.planted.opinions import OpinionTeam, dense_weights
from experiments.studies.planted.planted_figure import draw_curves
from experiments.studies.planted.planted_summary import COLUMNS, planted_metrics, planted_tables, summarise_worlds
from experiments.studies.planted.regimes import REGIMES
from experiments.studies.planted.scenarios import without_agents
from experiments.studies.planted.steps import learn, learner_spec
from experiments.studies.planted.truth import best_reachable, random_wirings, true_effects, utility
from experiments.studies.planted.worlds import Outcome, worlds
from run import main
from tests.support.sessions import begin, terminate, wait_for
from topologies import wiring
from topologies.graphs import as_wirings
from topologies.learning.learned_topology import make_learner
from topologies.learning.learner import Learner
from topologies.learning.learner_settings import LearnerSettings, PruningSettings
from topologies.learning.variants import EFFECTS, LEARNED, M3PRUNE, VARIANTS, Variant
from topologies.wiring import Edges

pytestmark = pytest.mark.slow

TINY = OpinionModel(text=3, visual=2)
SMALL = PlantedSettings(
    seeds=1,
    strengths=[[1.2, 0.1]],
    influences=[Influence.ANSWERS],
    learners=["m3prune", "effects"],
    truth=4_000,
    evaluated=200,
)
OF_WIRINGS = ("spatial", "temporal", "order", "decision")
# Without networks, whose decision agent reads everyone.
PLAIN = [name for name in LEARNED if not VARIANTS[name].estimator.is_network]
QUICK = ("planted.strengths=[[1.2,0.1]]", "planted.influences=[answers]", "planted.truth=400", "planted.evaluated=100")
WORDS = ("experiment=planted", *QUICK, "planted.checkpoints=[2]", "pruning.steps=2", "training.samples=3")


def explored(
    settings: PlantedSettings, steps: int = 4, samples: int = 4, model: OpinionModel = TINY, **options: Any
) -> list[Outcome]:
    config = configured(settings, PruningSettings(steps=steps), samples, **options)
    found = (explore(world, config, model) for world in worlds(settings, model.text + model.visual))
    return [outcome for outcomes in found for outcome in outcomes]


def configured(
    settings: PlantedSettings, pruning: PruningSettings, samples: int, share: bool = True, **learner: Any
) -> Config:
    chosen = LearnerSettings(decision="learned", **learner)
    training = TrainingSettings(samples=samples, share=share)
    return Config(planted=settings, learner=chosen, pruning=pruning, training=training)


def test_one_question_has_one_set_of_draws_whatever_the_wiring() -> None:
    team = OpinionTeam(TINY, seed=1)
    wirings = random_wirings(team, 2, draw=0)
    names = ("spatial", "temporal", "order", "decision")
    twice = replace(wirings, **{name: getattr(wirings, name)[[0, 0]] for name in names})
    scores, utilities = team.discuss(team.questions(3, "a"), torch.tensor([1, 1]), twice)
    assert torch.equal(scores[0], scores[1])
    assert utilities[0] == utilities[1]
    again, _ = OpinionTeam(TINY, seed=1).discuss(team.questions(3, "a"), torch.tensor([1, 1]), twice)
    assert torch.equal(scores, again)


def test_agents_without_messages_answer_by_their_skill_alone() -> None:
    team = OpinionTeam(OpinionModel(kinds=(1, 0, 0)), seed=2)
    alone = as_wirings(Edges(np.zeros((9, 9), bool), np.zeros((9, 9), bool)), 2, 10_000)
    scores, _ = team.discuss(team.questions(10_000, "alone"), torch.arange(10_000), alone)
    np.testing.assert_allclose(scores.mean(0)[0].numpy(), team.skill[:, 0].numpy(), atol=0.02)


def test_a_message_reaches_its_receivers_of_the_round_and_no_other_agent() -> None:
    model = OpinionModel(text=3, visual=0, conformity=3.0, noise=0, distraction=0, persistence=0)
    spatial = np.zeros((3, 3), bool)
    spatial[0, 1] = True
    honest, attacked = OpinionTeam(model, seed=3), OpinionTeam(model, seed=3, adversaries=[0])
    wirings = as_wirings(Edges(spatial, np.zeros((3, 3), bool)), 2, 500)
    asked = honest.questions(500, "who")
    before, _ = honest.discuss(asked, torch.arange(500), wirings)
    after, _ = attacked.discuss(attacked.questions(500, "who"), torch.arange(500), wirings)
    assert after[:, :, 0].sum() == 0
    assert after[:, :, 1].sum() == 0  # a pull of 3 against its own of 1
    assert torch.equal(before[:, :, 2], after[:, :, 2])


def test_reading_weights_are_those_of_the_runtime() -> None:
    generator = np.random.default_rng(0)
    present, p = generator.random((4, 2, 5, 5)) < 0.5, generator.random((5, 5))
    by_p, alike = (dense_weights(present, of, torch.ones(5)) for of in (p, None))
    for taken, weighed, equal in zip(present, by_p, alike, strict=True):
        edges = np.argwhere(taken)
        at = tuple(edges.T)
        np.testing.assert_allclose(weighed.numpy()[at], wiring.reading_weights(edges, p[at[1:]], 5), 1e-5)
        np.testing.assert_allclose(equal.numpy()[at], wiring.reading_weights(edges, None, 5), 1e-5)


def test_the_truth_blames_the_adversary_and_agrees_with_removing_an_edge() -> None:
    team = OpinionTeam(TINY, seed=4, adversaries=[2])
    truth = true_effects(team, 40_000)
    others = [0, 1, 3, 4]
    for matrix in truth.on_receiver:
        assert matrix[2, others].max() < matrix[np.ix_(others, others)].mean()
        assert (matrix[:, 2] == 0).all()  # it ignores messages
    assert truth.readers.argmin() == 2
    drawn = random_wirings(team, 20_000, draw=99)
    position = drawn.order.argsort(-1)
    could = position[:, 0, 2] < position[:, 0, 0]
    asked, index = team.questions(20_000, "brute force"), torch.arange(20_000)
    scores = {}
    for present in (False, True):
        spatial = drawn.spatial.copy()
        spatial[could, 0, 2, 0] = present
        scores[present] = team.discuss(asked, index, replace(drawn, spatial=spatial))[0][could, 0, 0].mean()
    # Of round one alone, which no round precedes: stronger than the mean over both rounds.
    effect = float(scores[True] - scores[False])
    assert effect < 0
    assert truth.on_receiver.spatial[2, 0] == pytest.approx(effect, abs=0.06)


def test_the_best_reachable_beats_the_full_graph_and_the_adversary_removed_by_hand() -> None:
    team = OpinionTeam(TINY, seed=5, adversaries=[1])
    best, reached = best_reachable(team, true_effects(team, 20_000), 2_000)
    full = random_wirings(team, 2_000, 0, chances=(1, 1, 1))
    by_hand = without_agents(full, [1])
    assert not (by_hand.spatial[:, :, 1] | by_hand.temporal[:, :, 1]).any()
    assert reached > utility(team, by_hand, None, 2_000) > utility(team, full, None, 2_000) - 0.02
    assert not best.decision[0, 1]
    assert price(full) == (10, 2 * 10 + 25 + 5)
    assert sum(price(best)) < sum(price(full))


def test_a_turn_that_cannot_reach_the_decision_agent_costs_nothing() -> None:
    spatial, temporal = np.zeros((4, 4), bool), np.zeros((4, 4), bool)
    spatial[0, 1] = spatial[1, 2] = temporal[3, 1] = True
    read = np.array([False, True, False, False])
    # Read in round two: agent 1. It hears 0 in both rounds, and 3 from round one; 1 and 0 have a memory of round one.
    assert price(as_wirings(Edges(spatial, temporal), 2, decision=read)) == (2 + 3, 1 + 2 + 1)


def test_effects_find_the_adversary_at_the_paper_s_budget_and_its_estimator_does_not() -> None:
    settings = replace(SMALL, truth=1_000, evaluated=500, checkpoints=[80])
    outcomes = explored(settings, steps=PruningSettings().steps, samples=10, model=OpinionModel())
    rows = {(row.attacked, row.learner): row.measures for row in summarise_worlds(outcomes)}
    for learned in ("effects", "effects from m3prune"):
        assert rows[True, learned]["auc_adversary"][0] > 0.9
    assert rows[True, "m3prune"]["auc_adversary"][0] < 0.75
    assert rows[True, "effects"]["utility"][0] > rows[True, "full"]["utility"][0]
    assert rows[True, "best"]["share"][0] == 1
    assert "auc_adversary" not in rows[False, "effects"]
    assert set(rows[False, "m3prune"]) >= {"regret@80", "auc_harmful", "auc_costly"}


def test_the_monitor_reports_a_liar_that_begins_after_training_and_none_that_lied_before() -> None:
    influences = [Influence.LATE, Influence.COLLUSION]
    settings = replace(SMALL, influences=influences, learners=["effects"], truth=400)
    late, before = (row for row in explored(settings, steps=20, model=OpinionModel()) if row.learner == "effects")
    assert late.reported is not None
    assert (before.reported, before.alarms) == (None, 0)


def test_tables_file_and_figures_have_every_learner(tmp_path: Path) -> None:
    settings = replace(SMALL, learners=PLAIN, truth=1_000, checkpoints=[2, 4])
    outcomes = explored(settings)
    summaries = summarise_worlds(outcomes)
    whole, regret = planted_tables(summaries)
    learners = {*PLAIN, "effects from m3prune", "effects_common from m3prune"}
    # One setting, and all of them; with and without an adversary.
    assert {row[2] for row in whole.rows} == learners | {"full", "none", "readers", "by_hand", "best"}
    assert len(whole.rows) == 2 * 2 * (len(learners) + 5)
    assert len(regret.rows) == 2 * 2 * len(learners)
    assert all(len(row) == len(table.columns) for table in (whole, regret) for row in table.rows)
    logged = planted_metrics(summaries)["methods"]
    assert set(logged) >= {"answers/attacked/full", "answers/clean/effects"}
    assert all(row.keys() == {*COLUMNS, "ci95"} for row in logged.values())
    line = json.dumps([asdict(outcome) for outcome in outcomes])
    assert json.dumps([asdict(outcome) for outcome in testbed.WORLD_OUTCOMES.validate_json(line)]) == line
    drawn = draw_curves(tmp_path, summaries)
    assert [path.name for path in drawn] == ["planted-tokens.png"]
    vector = (tmp_path / "planted-tokens.svg").read_text()
    # Outlines of letters are drawn once for all that use them, and named in comments.
    assert all(f"<!-- {learner} -->" in vector for learner in learners)
    draw_curves(tmp_path / "again", summaries)
    assert (tmp_path / "again" / "planted-tokens.pdf").read_bytes() == (tmp_path / "planted-tokens.pdf").read_bytes()


def test_a_world_does_not_depend_on_how_many_there_are() -> None:
    settings = replace(SMALL, seeds=2, learners=["effects"], truth=400)
    first = [outcome for outcome in explored(settings) if outcome.world.number == 0]
    assert explored(replace(settings, seeds=1)) == first


def test_shared_training_changes_no_other_learner_and_needs_a_source() -> None:
    settings = replace(SMALL, truth=1_000, checkpoints=[4, 8])
    learned = [outcome for outcome in explored(settings) if outcome.regret]
    attacked = {outcome.learner: outcome for outcome in learned if outcome.world.adversary is not None}
    assert list(attacked) == ["m3prune", "effects", "effects from m3prune"]
    shared, own = attacked["effects from m3prune"], attacked["effects"]
    assert shared.training == 0 < (own.training or 0)
    assert shared.regret.keys() == own.regret.keys() == {4, 8}
    assert shared.wrongly is not None
    # Whoever learns from another's discussions learns at their price.
    assert shared.spent == attacked["m3prune"].spent
    separate = explored(settings, share=False)
    assert [outcome for outcome in separate if outcome.regret] == [
        outcome for outcome in learned if outcome.learner != "effects from m3prune"
    ]
    alone = explored(replace(settings, learners=["effects"]))
    assert {outcome.learner for outcome in alone if outcome.regret} == {"effects"}


def test_equal_turns_are_paid_once_and_early_stopping_ends_the_cost_of_learning() -> None:
    settings = replace(SMALL, truth=1_000, checkpoints=[2, 4, 6, 8])

    def measured(share: bool = True, **learner: Any) -> dict[str, Outcome]:
        config = configured(settings, PruningSettings(steps=4, interim=2), 6, share, **learner)
        found = explore(worlds(settings, 5)[0], config, TINY)
        return {outcome.learner: outcome for outcome in found if outcome.spent}

    plain, common = measured(early_stop=0.0), measured(early_stop=0.0, shared_orders=True)
    for name, outcome in plain.items():
        spent = list(outcome.spent.values())
        assert spent == sorted(set(spent))
        assert outcome.reached.keys() == outcome.spent.keys() == outcome.regret.keys() == {2, 4, 6, 8}
        assert 0 < (outcome.joined or 0) < (common[name].joined or 0) < 1
        assert common[name].spent[8] < spent[-1] <= 8 * 6 * ((outcome.training or np.inf) + 1)
    # Where learning has stopped, nothing changes any more.
    stopping = measured(share=False, early_stop=1.0)
    early = stopping["m3prune"]
    assert early.spent[4] == early.spent[6] == early.spent[8] < plain["m3prune"].spent[8]
    assert early.reached[4] == early.reached[8]


def test_effects_takes_six_of_ten_samples_and_m3prune_all() -> None:
    settings = replace(SMALL, learners=["effects", "m3prune"])
    config = configured(settings, PruningSettings(steps=3), 10, share=False)
    team = OpinionTeam(TINY, seed=0)

    async def discussions(variant: Variant) -> list[int]:
        learner = make_learner(learner_spec(variant, team, config))
        return [step.discussions async for step in learn(learner, team, config.training.samples)]

    assert asyncio.run(discussions(EFFECTS)) == [6, 6, 6, 6, 6, 3]
    assert asyncio.run(discussions(M3PRUNE)) == [10] * 6


def test_regimes_are_measured_at_each_budget_and_own_answers_teach_the_policy_gradient_more() -> None:
    settings = replace(SMALL, learners=[], truth=1_000, budgets=[1, 8])
    attacked = explore(worlds(settings, 5)[0], configured(settings, PruningSettings(steps=10), 8), TINY)
    outcomes = {outcome.learner: outcome for outcome in attacked}
    assert outcomes.keys() == {"full", "none", "readers", "by_hand", "best", *REGIMES}
    for name in REGIMES:
        # Two stages of ten questions, eight samples of each.
        assert outcomes[name].spent.keys() == outcomes[name].reached.keys() == {20, 160}
        assert outcomes[name].spent[160] > 3 * outcomes[name].spent[20]
    assert (outcomes["own, no stages"].auc_adversary or 0) > (outcomes["m3prune"].auc_adversary or 0)
    assert sum(outcomes["more steps"].spent.values()) != sum(outcomes["m3prune"].spent.values())


def test_a_regime_that_no_budget_fits_is_left_out() -> None:
    settings = replace(SMALL, learners=[], truth=400, evaluated=20, budgets=[REGIMES["more steps"].most + 1])
    outcomes = explore(worlds(settings, 5)[0], configured(settings, PruningSettings(steps=2), 2), TINY)
    assert {outcome.learner for outcome in outcomes if outcome.spent} == REGIMES.keys() - {"more steps"}


def test_turns_that_hear_the_same_are_one_turn() -> None:
    drawn = random_wirings(OpinionTeam(TINY, seed=1), 2, draw=0)
    alone = [
        different_turns(replace(drawn, **{name: getattr(drawn, name)[[k]] for name in OF_WIRINGS})) for k in (0, 1)
    ]
    twice = replace(drawn, **{name: getattr(drawn, name)[[0, 0]] for name in OF_WIRINGS})
    assert alone[0] == different_turns(twice)
    assert alone[0][0] == 2 * 5 + 1
    assert alone[0][1] == drawn.spatial[0].sum() + drawn.temporal[0].sum() + drawn.decision[0].sum()
    assert 2 * 5 + 1 < different_turns(drawn)[0] <= 2 * (2 * 5 + 1)


async def test_a_learner_is_judged_as_if_learning_ended_here_and_goes_on_undisturbed() -> None:
    team = OpinionTeam(TINY, seed=6)
    learner = Learner(team.modalities, settings=LearnerSettings(decision="learned"), pruning=PruningSettings(steps=5))
    used = []
    async for number, discussions, tokens, *_ in learn(learner, team, 4):
        assert discussions == (4 if used[-1:] < [8] else 3)  # the last two questions confirm the cut
        assert 10 <= tokens <= 10 + 20 + 25 + 5
        used.append(number)
        before = learner.state()
        assert stopped(learner).finished
        assert all(np.array_equal(array, before[name], equal_nan=True) for name, array in learner.state().items())
    assert used == list(range(1, 11))


def discussed(
    influence: Influence, taken: bool, adversaries: tuple[int, ...] = ()
) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean scores of agents in the last round, and of final answers; agent 0's messages reach all agents or none."""
    team = OpinionTeam(replace(TINY, influence=influence), seed=3, adversaries=adversaries)
    spatial = np.zeros((5, 5), bool)
    spatial[0, 1:] = taken
    temporal = np.ones((5, 5), bool)
    temporal[0] = False
    read = np.array([False, True, True, True, True])
    wirings = as_wirings(Edges(spatial, temporal), 2, 4_000, decision=read)
    scores, utilities = team.discuss(team.questions(4_000, "a"), torch.arange(4_000), wirings)
    return scores[:, -1].mean(0), utilities.mean()


def test_messages_have_the_effect_of_the_influence() -> None:
    deaf, alone = discussed(Influence.DEAF, True), discussed(Influence.DEAF, False)
    assert (deaf[0] <= alone[0] + 0.01).all()  # they merely distract
    helped, unhelped = discussed(Influence.HELP, True), discussed(Influence.HELP, False)
    assert helped[0][0] == unhelped[0][0] == 0  # the helper gives no answer
    assert (helped[0][[1, 2, 4]] > unhelped[0][[1, 2, 4]] + 0.05).all()
    # An adversary's claim reaches the decision agent, which follows no answer.
    misled, spared = discussed(Influence.EVIDENCE, True, (0,)), discussed(Influence.EVIDENCE, False, (0,))
    assert misled[1] < spared[1] - 0.02
    by_chance, again = discussed(Influence.CHANCE, True), discussed(Influence.CHANCE, False)
    assert all(torch.equal(one, other) for one, other in zip(by_chance, again, strict=True))


def test_where_all_is_chance_effects_keeps_every_edge() -> None:
    settings = replace(
        SMALL, seeds=2, influences=[Influence.CHANCE], learners=["effects"], evaluated=100, checkpoints=[80]
    )
    outcomes = explored(settings, steps=PruningSettings().steps, samples=10, confirm=0.0)
    learned = [outcome for outcome in outcomes if outcome.learner == "effects"]
    assert [outcome.edges for outcome in learned] == [20 + 25 + 5] * 2
    assert [outcome.wrongly for outcome in learned] == [0] * 2


def test_the_default_worlds_have_adversaries_of_both_modalities_and_the_full_grid_has_all() -> None:
    chosen = worlds(load(["experiment=planted"]).planted, 9)
    assert len(chosen) == 65
    agents = {world.adversary for world in chosen} - {None}
    assert {agent < OpinionModel().text for agent in agents if agent is not None} == {True, False}
    full = worlds(load(["experiment=planted_full"]).planted, 9)
    assert {world.adversary for world in full} == {None, *range(9)}
    assert len(full) == 9 * 2 * (5 + 3) + 9
    assert {(world.conformity, world.distraction) for world in chosen} < {(w.conformity, w.distraction) for w in full}
    assert load(["experiment=planted_tokens"]).planted.checkpoints[-1] == 80


def test_auc_counts_ties_half() -> None:
    assert auc(np.array([1.0, 2.0]), np.array([2.0, 3.0])) == pytest.approx(0.875)
    assert auc(np.array([]), np.array([1.0])) is None


@pytest.mark.parametrize("word", ["planted.strengths=[[1.0]]", "planted.seeds=0", "planted.evaluated=1"])
def test_settings_that_do_not_work_are_refused(word: str) -> None:
    with pytest.raises(UserError, match=word.partition("=")[0]):
        load(["experiment=planted", word])


def test_an_interrupted_run_goes_on_and_ends_like_an_uninterrupted_one(tmp_path: Path) -> None:
    config = load(
        [*WORDS, "planted.learners=[m3prune,effects]", "planted.seeds=1", "wandb.mode=disabled", f"output={tmp_path}"]
    )
    folder = open_folder(config)
    run(plan_of(config), folder)
    whole = (folder.path / "planted.json").read_text()
    records = folder.path / testbed.RECORDS
    first, second = records.read_text().splitlines(keepends=True)
    outcomes, stored = [*json.loads(first), *json.loads(second)], json.loads(whole)
    assert (len(stored["outcomes"]), stored["settings"]["seeds"]) == (len(outcomes), 1)
    records.write_text(first + second[:40])  # killed while it wrote
    run(plan_of(load([f"resume={folder.path}"])), folder)
    assert (folder.path / "planted.json").read_text() == whole
    assert sorted(records.read_text().splitlines(keepends=True)) == sorted([first, second])
    assert (folder.figures / "planted-tokens.png").stat().st_size > 1000


def test_an_unforeseen_failure_is_one_line_with_the_traceback_in_the_run_s_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*arguments: Any) -> None:
        raise KeyError("unforeseen")

    monkeypatch.setattr(testbed, "run", fail)
    folder = open_folder(load(["experiment=planted", "wandb.mode=disabled", f"output={tmp_path}"]))
    assert main([f"resume={folder.path}"]) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert all(part in error for part in ("KeyError", str(folder.log), f"resume={folder.path}"))
    assert "Traceback (most recent call last)" in folder.log.read_text()


def test_a_terminated_study_names_the_command_that_resumes_it(tmp_path: Path) -> None:
    words = [*WORDS, "planted.learners=[m3prune]", "planted.seeds=400"]
    process = begin(*words, "wandb.mode=disabled", f"output={tmp_path}")
    folder = wait_for(process, tmp_path, f"*-planted/{testbed.RECORDS}").parent
    assert f"resume={folder}" in terminate(process)
