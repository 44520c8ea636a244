"""Variants of the learner: what each learns, what it cuts and when, and that a restored one goes on."""

import numpy as np
import pytest
import torch

from actors.messages import Question
from experiments.config.config import Config
from experiments.config.loading import load
from experiments.jobs import plan_of
from experiments.planning.topologies import compared_pairs
from topologies.catalogue import find_methods
from topologies.learning.learner import Learner
from topologies.learning.learner_settings import PruningSettings
from topologies.learning.pruning_rules import weakest_agents
from topologies.learning.variants import AGENTDROPOUT, AGENTPRUNE, GPTSWARM, Variant
from topologies.wiring import Wirings

TEAM = ["text", "text", "text", "visual", "visual"]
OTHERS = [AGENTPRUNE, GPTSWARM, AGENTDROPOUT]


def made(variant: Variant, steps: int = 20, **pruning: float) -> Learner:
    return Learner(TEAM, seed=3, variant=variant, pruning=PruningSettings(steps=steps, **pruning))  # type: ignore[arg-type]


def train(learner: Learner, steps: int, k: int = 10, harmful: int = 0) -> None:
    """Utility falls with every edge out of one agent and rises with every other one."""
    for _ in range(steps):
        wirings = learner.sample(k)
        learner.learn(wirings, np.zeros((k, learner.rounds, learner.agents)), utility(wirings, harmful))


def utility(wirings: Wirings, harmful: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    edges = wirings.spatial.sum(axis=1) + wirings.temporal.sum(axis=1)
    worst = edges[:, harmful].sum(axis=1)
    read = wirings.decision.sum(axis=1) * wirings.decision_allowed.any(axis=1)
    return (edges.sum(axis=(1, 2)) + read - 3 * worst) / 20.0


@pytest.mark.parametrize("variant", OTHERS)
def test_another_variant_cuts_nothing_before_a_stage_ends(variant: Variant) -> None:
    learner = made(variant)
    before = learner.edges_left()
    train(learner, 19)
    assert learner.edges_left() == before


def test_agentprune_leaves_m3prune_s_share_of_each_whole_matrix_at_the_end() -> None:
    learner = made(AGENTPRUNE)
    train(learner, 40)
    assert learner.finished
    share = learner.pruning.schedule(learner.pruning.rate)[-1].share
    assert learner.edges_left() == {
        "agents>agents spatial": round(20 * share),
        "agents>agents temporal": round(25 * share),
    }


def test_gptswarm_keeps_what_is_likelier_than_not_and_has_no_temporal_edges() -> None:
    learner = made(GPTSWARM)
    train(learner, 40)
    p, kept = learner.probabilities().spatial, learner.inference_wirings()
    assert not kept.temporal.any()
    assert set(p[p > 0].round(3)) == set(p[p > 0.5].round(3))
    assert kept.decision.any()


def test_gptswarm_always_leaves_the_decision_agent_somebody_to_read() -> None:
    learner = made(GPTSWARM, steps=1)
    for _ in range(2):
        wirings = learner.sample(4)
        learner.learn(wirings, np.zeros((4, 2, 5)), -wirings.decision.sum(axis=1).astype(float))
    assert learner.inference_wirings().decision.sum() >= 1


def test_agentdropout_drops_the_agent_whose_edges_harm_from_both_kinds_and_from_the_decision() -> None:
    learner = made(AGENTDROPOUT)
    train(learner, 20)
    learner.sample(2)  # the second stage begins
    assert learner.stage == 2
    spatial, temporal = learner.probabilities()
    assert not spatial[0].any()
    assert not spatial[:, 0].any()
    assert not temporal[0].any()
    assert (spatial[1:, 1:][spatial[1:, 1:] > 0] == 0.5).all()  # afresh
    assert not learner.inference_wirings().decision[0, 0]
    train(learner, 20)
    assert learner.finished
    share = learner.pruning.schedule(learner.pruning.rate)[-1].share
    assert learner.edges_left() == {
        "agents>agents spatial, round 1": round(12 * share),
        "agents>agents spatial, round 2": round(12 * share),
        "agents>agents temporal, round 2": round(16 * share),
    }


def harmed_first(wirings: Wirings) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Utility falls with agent 0's edges in the first round and agent 3's in the second, and rises with others."""
    edges = wirings.spatial.astype(float)
    worst = sum(edges[:, t, agent].sum(-1) + edges[:, t, :, agent].sum(-1) for t, agent in ((0, 0), (1, 3)))
    return (edges.sum((1, 2, 3)) - 3 * worst) / 20.0


def dropped_by_round(steps: int = 20) -> Learner:
    """AgentDropout after its first stage, in which agent 0 harms in round 1 and agent 3 in round 2."""
    learner = made(AGENTDROPOUT)
    for _ in range(steps):
        wirings = learner.sample(10)
        learner.learn(wirings, np.zeros((10, 2, 5)), harmed_first(wirings))
    learner.sample(1)
    return learner


def test_agentdropout_drops_other_agents_from_each_round() -> None:
    learner = dropped_by_round()
    wirings = learner.sample(50)
    first, second = [False, True, True, True, True], [True, True, True, False, True]
    assert wirings.speaks is not None
    assert (wirings.speaks == [first, second]).all()
    assert (wirings.decision == second).all()
    spoke, speaks = np.array(first), np.array(second)
    # Within a round both ends take part in it; from one to the next the sender in the first, the receiver in the other.
    assert (wirings.allowed.spatial[:, 0].any(0) == (np.outer(spoke, spoke) & ~np.eye(5, dtype=bool))).all()
    assert (wirings.allowed.spatial[:, 1].any(0) == (np.outer(speaks, speaks) & ~np.eye(5, dtype=bool))).all()
    assert (wirings.allowed.temporal[:, 1].all(0) == np.outer(spoke, speaks)).all()
    stopped, frozen = dropped_by_round(), learner.inference_wirings()
    stopped.next_stage()
    assert np.array_equal(frozen.speaks, wirings.speaks[:1])
    assert np.array_equal(stopped.inference_wirings().speaks, wirings.speaks[:1])


async def test_an_agent_that_is_out_of_the_first_round_speaks_in_the_second_and_remembers_nothing() -> None:
    from tests.topologies.test_discussion import QUESTION, Recording
    from topologies.learning.learned_topology import split
    from topologies.topology import Wired

    learner, team, names = dropped_by_round(), Recording(), ("ann", "bob", "cy", "dee", "eve")
    [wiring] = split(learner.inference_wirings(), learner.reading())
    trace = await Wired("agentdropout", names, wiring).answer(QUESTION, team.ask, seed=1)
    assert [turn.id for turn in trace.turns] == [
        *("1/bob", "1/cy", "1/dee", "1/eve"),
        *("2/ann", "2/bob", "2/cy", "2/eve", "3/decision"),
    ]
    assert team.turns["2/ann"].recall == 0
    assert team.turns["2/bob"].recall == 1
    assert any(heard.startswith("1/") for heard in team.heard("2/ann"))
    assert not any("2/dee" in team.heard(turn) or "1/ann" in team.heard(turn) for turn in team.turns)
    assert team.heard("3/decision") == {"2/ann", "2/bob", "2/cy", "2/eve"}


def test_agentdropout_cuts_the_edges_of_each_round_by_that_round_s_probabilities() -> None:
    learner = dropped_by_round()
    for _ in range(20):
        wirings = learner.sample(10)
        # 1 > 2 is worth having in the first round and 2 > 1 in the second.
        worth = wirings.spatial[:, 0, 1, 2] - wirings.spatial[:, 0, 2, 1].astype(float)
        worth += wirings.spatial[:, 1, 2, 1] - wirings.spatial[:, 1, 1, 2].astype(float)
        learner.learn(wirings, np.zeros((10, 2, 5)), worth)
    spatial = learner.inference().spatial
    assert spatial[0, 1, 2]
    assert not spatial[0, 2, 1]
    assert spatial[1, 2, 1]
    assert not spatial[1, 1, 2]
    # Each round reads by its own weights, and an edge that one round has left ranks above those that none has.
    assert learner.reading().spatial[0, 1, 2] > 0 == learner.reading().spatial[1, 1, 2]
    scores = learner.edge_scores().spatial
    assert scores[1, 2] > 0
    assert np.isneginf(scores.diagonal()).all()


def test_a_random_graph_like_one_whose_rounds_differ_has_as_many_agents_and_edges_in_each() -> None:
    from topologies.baselines import random_like
    from topologies.learning.learned_topology import split

    learner = dropped_by_round()
    train(learner, 20, harmful=4)
    [wiring] = split(learner.inference_wirings())
    wire = random_like(wiring, seed=1)
    drawn = [wire(Question(f"q{n}", "")) for n in range(5)]
    for one in drawn:
        assert (one.taking_part.sum(1) == wiring.taking_part.sum(1)).all()
        assert one.spatial[:, 0].tolist() == wiring.spatial[:, 0].tolist()
        assert one.temporal[:, 0].tolist() == wiring.temporal[:, 0].tolist()
        assert one.decision.sum() == wiring.decision.sum()
    assert any((one.taking_part != drawn[0].taking_part).any() for one in drawn)


def test_agentdropout_has_its_low_rank_term_in_the_second_stage_alone() -> None:
    learner = made(AGENTDROPOUT, steps=1)

    def moved() -> bool:
        # Equal utilities move nothing where each wiring's chance is one half: what moves is the term's doing.
        before = learner.probabilities().spatial
        wirings = learner.sample(2)
        learner.learn(wirings, np.zeros((2, 2, 5)), np.zeros(2))
        return not np.allclose(learner.probabilities().spatial[before > 0], 0.5)

    assert not moved()
    assert moved()


@pytest.mark.parametrize("variant", OTHERS)
def test_cutting_again_changes_nothing(variant: Variant) -> None:
    learner = made(variant)
    train(learner, 40)
    left = learner.edges_left()
    learner.next_stage()
    assert learner.edges_left() == left


def test_node_dropout_counts_logits_and_not_probabilities() -> None:
    # Agent 3 has the smallest sum of p, agent 1 the smallest mean logit.
    edges = torch.tensor([[0.0, -9, 3, 0], [0, 0, 3, -1], [0, 0, 0, -1], [0, 0, 0, 0]])
    others = ~torch.eye(4, dtype=torch.bool)
    assert weakest_agents(edges + edges.T, others, 0.25).tolist() == [False, True, False, False]
    assert weakest_agents(torch.zeros(4, 4), others, 0.25).tolist() == [True, False, False, False]


def test_adam_matches_the_reference_implementation() -> None:
    """torch.optim.Adam on the same gradients, as an independent witness."""
    from topologies.learning.edge_state import EdgeState
    from topologies.learning.stages import LogitSharing

    masks = {kind: torch.ones(3, 3, dtype=torch.bool) for kind in ("spatial", "temporal", "decision")}
    edges = EdgeState(masks, LogitSharing(masks, None))
    theirs = torch.zeros(1, 3, 3, requires_grad=True)
    adam = torch.optim.Adam([theirs], lr=0.1, maximize=True)
    generator = torch.Generator().manual_seed(0)
    for _ in range(30):
        gradient = torch.randn(1, 3, 3, generator=generator)
        edges.climb("spatial", gradient, 0.1, masks["spatial"])
        theirs.grad = gradient.clone()
        adam.step()
    assert torch.allclose(edges.logits["spatial"], theirs.detach(), atol=1e-5)


def test_the_methods_that_are_named_are_learned() -> None:
    for variant in OTHERS:
        config = load([f"experiment={variant.name}"])
        assert {name: spec.variant for name, spec in plan_of(config).learners.items()} == {variant.name: variant}
        assert compared_pairs(find_methods(config.methods))[-1] == (variant.name, "random")
    assert tuple(plan_of(Config(methods=["single", "random"])).learners) == ("m3prune",)
    assert tuple(plan_of(Config(methods=["single"])).learners) == ()
    assert tuple(plan_of(Config(methods=["effects", "full", "gptswarm"])).learners) == ("effects", "gptswarm")
