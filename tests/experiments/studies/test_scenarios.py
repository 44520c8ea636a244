"""Hard planted worlds have the property in their name: in true effects, or in the utility of simple graphs."""

from functools import cache

import numpy as np
import pytest
import torch

from actors.messages import derive_seed
from experiments.config.loading import load
from experiments.config.study_settings import EASY, Influence
from experiments.studies.planted.measures import edge_shares
from experiments.studies.planted.opinion_model import OpinionModel
from experiments.studies.planted.opinions import OpinionTeam
from experiments.studies.planted.scenarios import SCENARIOS, without_messages
from experiments.studies.planted.truth import random_wirings, true_effects, utility
from experiments.studies.planted.worlds import worlds
from topologies.graphs import as_wirings
from topologies.wiring import Edges, Wirings

QUESTIONS = 1_000


@cache
def team_of(influence: Influence) -> OpinionTeam:
    special = SCENARIOS[influence].special_agents(2, 9) if SCENARIOS[influence].specials else []
    return OpinionTeam(OpinionModel(influence=influence), derive_seed(0, "planted", 0), special)


def on_receivers(team: OpinionTeam) -> float:
    """Mean effect of special agents' edges beyond those of others, all on other agents."""
    effects = true_effects(team, 4_000).on_receiver
    others = [agent for agent in range(team.agents) if agent not in team.special]
    apart = [matrix[np.ix_(team.special, others)].mean() - matrix[np.ix_(others, others)].mean() for matrix in effects]
    return float(np.mean(apart))


def reached(team: OpinionTeam) -> tuple[float, float, float]:
    """Utility of all edges, of none, and of the graph cut by hand."""
    full = random_wirings(team, QUESTIONS, 0, chances=(1, 1, 1))
    by_hand = team.scenario.by_hand(full, team.special, team.questions(QUESTIONS, "evaluation").kind)
    everything, nothing, cut = (
        utility(team, graph, None, QUESTIONS) for graph in (full, without_messages(full), by_hand)
    )
    return everything, nothing, cut


def trained(team: OpinionTeam, wirings: Wirings, key: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean scores of each agent in the last round, and of final answers."""
    scores, utilities = team.discuss(team.questions(QUESTIONS, key), torch.arange(QUESTIONS), wirings)
    return scores[:, -1].mean(0), utilities.mean()


@pytest.mark.parametrize("influence", [Influence.COLLUSION, Influence.LATE, Influence.HYPOCRITE])
def test_a_liar_lowers_its_receivers_and_the_team(influence: Influence) -> None:
    team = team_of(influence)
    assert on_receivers(team) < -0.03
    everything, _, by_hand = reached(team)
    assert by_hand > everything + 0.03


@pytest.mark.parametrize("influence", [Influence.ZERO, Influence.DELAYED])
def test_a_liar_whose_harm_no_turn_shows_lowers_the_team(influence: Influence) -> None:
    team = team_of(influence)
    assert on_receivers(team) > -0.02
    everything, _, by_hand = reached(team)
    assert by_hand > everything + 0.03


def test_a_hypocrite_answers_right_and_a_saint_wrong() -> None:
    for influence, right in ((Influence.HYPOCRITE, 1.0), (Influence.SAINT, 0.0)):
        team = team_of(influence)
        scores, _ = trained(team, random_wirings(team, QUESTIONS, 0), "learning")
        assert scores[team.special].tolist() == [right]
    saint = team_of(Influence.SAINT)
    assert on_receivers(saint) > 0.05
    everything, nothing, _ = reached(saint)
    assert everything > nothing + 0.05


def test_a_late_liar_is_as_the_others_in_training() -> None:
    team = team_of(Influence.LATE)
    drawn = random_wirings(team, QUESTIONS, 0)
    before, after = (trained(team, drawn, key)[0][team.special] for key in ("learning", "evaluation"))
    assert before > 0.3
    assert after == 0


def test_a_leader_is_right_on_one_kind_of_question_which_features_show() -> None:
    for influence in (Influence.MIXED, Influence.SHIFT, Influence.UNSEEN):
        team = team_of(influence)
        asked = team.questions(QUESTIONS, "evaluation")
        scores, _ = team.discuss(asked, torch.arange(QUESTIONS), random_wirings(team, QUESTIONS, 0))
        led = scores[:, 0, team.special[0]] == 1
        assert torch.equal(led, asked.kind == 0)
        shown = torch.equal(asked.features.argmax(1), asked.kind)
        assert shown == (influence != Influence.UNSEEN)
        everything, nothing, by_question = reached(team)
        assert by_question > max(everything, nothing) + 0.04
    kinds = {
        key: (team_of(Influence.SHIFT).questions(3_000, key).kind == 0).double().mean() for key in ("learning", "e")
    }
    assert kinds["learning"] == pytest.approx(4 / 6, abs=0.04)
    assert kinds["e"] == pytest.approx(1 / 3, abs=0.04)


def test_a_herd_raises_its_members_and_lowers_the_team() -> None:
    team = team_of(Influence.HERD)
    assert on_receivers(team) > 0.02
    everything, nothing, _ = reached(team)
    assert nothing > everything + 0.02


def test_in_overload_every_edge_harms_at_half_and_two_messages_each_are_best() -> None:
    team = team_of(Influence.OVERLOAD)
    assert true_effects(team, 4_000).on_receiver.temporal.mean() < -0.02
    everything, nothing, by_hand = reached(team)
    assert by_hand > max(everything, nothing) + 0.2


def test_two_senders_help_alone_and_harm_together() -> None:
    team = team_of(Influence.XOR)
    one, other = team.special
    receivers = [agent for agent in range(9) if agent not in team.special]
    scores = {}
    for heard in ((), (one,), (other,), (one, other)):
        temporal = np.zeros((9, 9), bool)
        temporal[np.ix_(heard, receivers)] = True
        wirings = as_wirings(Edges(np.zeros((9, 9), bool), temporal), 2, QUESTIONS)
        scores[heard] = float(trained(team, wirings, "learning")[0][receivers].mean())
    assert min(scores[one,], scores[other,]) > scores[()] + 0.05
    assert scores[one, other] < scores[()] - 0.05


def test_where_messages_change_nothing_no_graph_changes_an_answer() -> None:
    team = team_of(Influence.IDLE)
    everything, nothing, by_hand = reached(team)
    assert everything == nothing == by_hand


def test_random_graphs_have_the_number_of_edges_of_a_given_one_in_the_mean() -> None:
    team = team_of(Influence.IDLE)
    spatial = np.triu(np.ones((9, 9), bool), 4)
    given = as_wirings(Edges(spatial, np.eye(9, dtype=bool)), 2, decision=np.arange(9) < 3)
    drawn = random_wirings(team, 2_000, 1, edge_shares(given, random_wirings(team, 10, 0, (1, 1, 1))))
    assert drawn.spatial.sum((2, 3)).mean() == pytest.approx(spatial.sum(), abs=0.5)
    assert drawn.temporal[:, 1].sum((1, 2)).mean() == pytest.approx(9, abs=0.5)
    assert drawn.decision.sum(1).mean() == pytest.approx(3, abs=0.2)


def test_the_preset_has_every_hard_world_with_its_special_agents_alone() -> None:
    chosen = worlds(load(["experiment=planted_worlds"]).planted, 9)
    assert {world.influence for world in chosen} == set(Influence) - set(EASY)
    for influence in set(Influence) - set(EASY):
        attacked = {world.adversary is not None for world in chosen if world.influence == influence}
        assert attacked == {SCENARIOS[influence].ranked != "neither"}
