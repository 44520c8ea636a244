"""Other learners on the same runtime: what each learns, what it cuts and when, and that a restored one goes on."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from actors.errors import UserError
from actors.messages import Question
from experiments.config.config import Config
from experiments.config.loading import load
from experiments.running.launch import learned_methods, learner_options
from experiments.running.methods import methods_of, pairs
from topologies.learning.learner import Learner
from topologies.learning.peers import METHODS, VARIANTS
from topologies.learning.pruning_rules import weakest_agents
from topologies.learning.settings import LearnerSettings, Optimiser, Peer, PruningSettings, Rule
from topologies.wiring import Wirings

TEAM = ["text", "text", "text", "visual", "visual"]
PEERS = [Peer.AGENTPRUNE, Peer.GPTSWARM, Peer.AGENTDROPOUT]


def learner(peer: Peer, steps: int = 20, **pruning: float) -> Learner:
    settings, rule = VARIANTS[peer].settings(LearnerSettings(), PruningSettings(steps=steps, **pruning))  # type: ignore[arg-type]
    return Learner(TEAM, seed=3, settings=settings, pruning=rule)


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


@pytest.mark.parametrize("peer", PEERS)
def test_a_peer_cuts_nothing_before_a_stage_ends(peer: Peer) -> None:
    peers = learner(peer)
    before = peers.edges_left()
    train(peers, 19)
    assert peers.edges_left() == before


def test_agentprune_leaves_one_share_of_each_whole_matrix_at_the_end() -> None:
    peers = learner(Peer.AGENTPRUNE, final_rate=0.5)
    train(peers, 40)
    assert peers.finished
    assert peers.edges_left() == {"agents>agents spatial": 10, "agents>agents temporal": 12}


def test_agentprune_cuts_as_much_as_m3prune_does_unless_told_otherwise() -> None:
    settings = PruningSettings()
    assert settings.share_at_end(rounds=2) == settings.schedule(settings.rate, rounds=2)[-1].share
    assert PruningSettings(final_rate=0.25).share_at_end(rounds=2) == 0.75


def test_gptswarm_keeps_what_is_likelier_than_not_and_has_no_temporal_edges() -> None:
    peers = learner(Peer.GPTSWARM)
    train(peers, 40)
    p, kept = peers.probabilities().spatial, peers.inference_wirings()
    assert not kept.temporal.any()
    assert set(p[p > 0].round(3)) == set(p[p > 0.5].round(3))
    assert kept.decision.any()


def test_gptswarm_always_leaves_the_decision_agent_somebody_to_read() -> None:
    peers = learner(Peer.GPTSWARM, steps=1)
    for _ in range(2):
        wirings = peers.sample(4)
        peers.learn(wirings, np.zeros((4, 2, 5)), -wirings.decision.sum(axis=1).astype(float))
    assert peers.inference_wirings().decision.sum() >= 1


def test_agentdropout_drops_the_agent_whose_edges_harm_from_both_kinds_and_from_the_decision() -> None:
    peers = learner(Peer.AGENTDROPOUT)
    train(peers, 20)
    peers.sample(2)  # the second stage begins
    assert peers.stage == 2
    spatial, temporal = peers.probabilities()
    assert not spatial[0].any()
    assert not spatial[:, 0].any()
    assert not temporal[0].any()
    assert (spatial[1:, 1:][spatial[1:, 1:] > 0] == 0.5).all()  # afresh
    assert not peers.inference_wirings().decision[0, 0]
    train(peers, 20)
    assert peers.finished
    share = PruningSettings(steps=20).share_at_end(rounds=2)
    assert peers.edges_left() == {
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
    peers = learner(Peer.AGENTDROPOUT)
    for _ in range(steps):
        wirings = peers.sample(10)
        peers.learn(wirings, np.zeros((10, 2, 5)), harmed_first(wirings))
    peers.sample(1)
    return peers


def test_agentdropout_drops_other_agents_from_each_round() -> None:
    peers = dropped_by_round()
    wirings = peers.sample(50)
    first, second = [False, True, True, True, True], [True, True, True, False, True]
    assert wirings.speaks is not None
    assert (wirings.speaks == [first, second]).all()
    assert (wirings.decision == second).all()
    spoke, speaks = np.array(first), np.array(second)
    # Within a round both ends take part in it; from one to the next the sender in the first, the receiver in the other.
    assert (wirings.allowed.spatial[:, 0].any(0) == (np.outer(spoke, spoke) & ~np.eye(5, dtype=bool))).all()
    assert (wirings.allowed.spatial[:, 1].any(0) == (np.outer(speaks, speaks) & ~np.eye(5, dtype=bool))).all()
    assert (wirings.allowed.temporal[:, 1].all(0) == np.outer(spoke, speaks)).all()
    stopped, frozen = dropped_by_round(), peers.inference_wirings()
    stopped.next_stage()
    assert np.array_equal(frozen.speaks, wirings.speaks[:1])
    assert np.array_equal(stopped.inference_wirings().speaks, wirings.speaks[:1])


async def test_an_agent_that_is_out_of_the_first_round_speaks_in_the_second_and_remembers_nothing() -> None:
    from tests.topologies.test_discussion import QUESTION, Recording
    from topologies.learning.pruned import split
    from topologies.topology import discuss

    peers, team, names = dropped_by_round(), Recording(), ("ann", "bob", "cy", "dee", "eve")
    [wiring] = split(peers.inference_wirings(), peers.reading())
    trace = await discuss("agentdropout", names, wiring, QUESTION, team.ask, seed=1)
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
    peers = dropped_by_round()
    for _ in range(20):
        wirings = peers.sample(10)
        # 1 > 2 is worth having in the first round and 2 > 1 in the second.
        worth = wirings.spatial[:, 0, 1, 2] - wirings.spatial[:, 0, 2, 1].astype(float)
        worth += wirings.spatial[:, 1, 2, 1] - wirings.spatial[:, 1, 1, 2].astype(float)
        peers.learn(wirings, np.zeros((10, 2, 5)), worth)
    spatial = peers.inference().spatial
    assert spatial[0, 1, 2]
    assert not spatial[0, 2, 1]
    assert spatial[1, 2, 1]
    assert not spatial[1, 1, 2]
    # Each round reads by its own weights, and an edge that one round has left ranks above those that none has.
    assert peers.reading().spatial[0, 1, 2] > 0 == peers.reading().spatial[1, 1, 2]
    scores = peers.edge_scores().spatial
    assert scores[1, 2] > 0
    assert np.isneginf(scores.diagonal()).all()


def test_a_random_graph_like_one_whose_rounds_differ_has_as_many_agents_and_edges_in_each() -> None:
    from topologies.fixed import random_like
    from topologies.learning.pruned import split

    peers = dropped_by_round()
    train(peers, 20, harmful=4)
    [wiring] = split(peers.inference_wirings())
    wire = random_like(wiring, rounds=2, seed=1)
    drawn = [wire(Question(f"q{n}", "")) for n in range(5)]
    for one in drawn:
        assert (one.taking_part.sum(1) == wiring.taking_part.sum(1)).all()
        assert one.spatial[:, 0].tolist() == wiring.spatial[:, 0].tolist()
        assert one.temporal[:, 0].tolist() == wiring.temporal[:, 0].tolist()
        assert one.decision.sum() == wiring.decision.sum()
    assert any((one.taking_part != drawn[0].taking_part).any() for one in drawn)


def test_agentdropout_has_its_low_rank_term_in_the_second_stage_alone() -> None:
    peers = learner(Peer.AGENTDROPOUT, steps=1)

    def moved() -> bool:
        # Equal utilities move nothing where each wiring's chance is one half: what moves is the term's doing.
        before = peers.probabilities().spatial
        wirings = peers.sample(2)
        peers.learn(wirings, np.zeros((2, 2, 5)), np.zeros(2))
        return not np.allclose(peers.probabilities().spatial[before > 0], 0.5)

    assert not moved()
    assert moved()


@pytest.mark.parametrize("peer", PEERS)
def test_a_restored_peer_goes_on_as_if_it_had_never_stopped(peer: Peer) -> None:
    whole, first = learner(peer), learner(peer)
    train(whole, 40)
    train(first, 23)
    second = learner(peer)
    second.load(first.state())
    train(second, 17)
    for name, array in whole.state().items():
        np.testing.assert_array_equal(array, second.state()[name], name)


@pytest.mark.parametrize("peer", PEERS)
def test_cutting_again_changes_nothing(peer: Peer) -> None:
    peers = learner(peer)
    train(peers, 40)
    left = peers.edges_left()
    peers.next_stage()
    assert peers.edges_left() == left


@given(st.integers(2, 8), st.floats(0, 1), st.randoms(use_true_random=False))
def test_node_dropout_takes_its_share_and_the_lightest(n: int, rate: float, random: object) -> None:
    p = torch.tensor([[random.random() for _ in range(n)] for _ in range(n)])  # type: ignore[attr-defined]
    dropped = weakest_agents(p, ~torch.eye(n, dtype=torch.bool), rate)
    assert int(dropped.sum()) == min(round(rate * n), n - 1)
    p = p * ~torch.eye(n, dtype=torch.bool)
    weight = p.sum(0) + p.sum(1)
    if dropped.any():
        assert weight[dropped].max() <= weight[~dropped].min() + 1e-6


def test_adam_matches_the_reference_implementation() -> None:
    """torch.optim.Adam on the same gradients, as an independent witness."""
    from topologies.learning.edge_state import EdgeState

    masks = {kind: torch.ones(3, 3, dtype=torch.bool) for kind in ("spatial", "temporal", "decision")}
    edges = EdgeState(masks, dict.fromkeys(masks, 1), adam=True)
    theirs = torch.zeros(1, 3, 3, requires_grad=True)
    adam = torch.optim.Adam([theirs], lr=0.1, maximize=True)
    generator = torch.Generator().manual_seed(0)
    for _ in range(30):
        gradient = torch.randn(1, 3, 3, generator=generator)
        edges.climb("spatial", gradient, 0.1, masks["spatial"])
        theirs.grad = gradient.clone()
        adam.step()
    assert torch.allclose(edges.logits["spatial"], theirs.detach(), atol=1e-5)


def test_the_methods_that_are_named_say_who_learns() -> None:
    for peer in PEERS:
        config = load([f"experiment={peer}"])
        assert learned_methods(config) == (str(peer),)
        assert pairs(methods_of(config))[-1] == (str(peer), "random")
        assert learner_options(config, peer)["settings"].optimiser is Optimiser.ADAM
        assert learner_options(config, peer)["pruning"].rule is not Rule.PROGRESSIVE
    assert learned_methods(Config(methods=["single", "random"])) == ("m3prune",)
    assert learned_methods(Config(methods=["single"])) == ()
    several = Config(methods=["effects", "full", "gptswarm", "m3prune"])
    assert learned_methods(several) == ("effects", "gptswarm", "m3prune")
    assert {estimator_of(several, method) for method in learned_methods(several)} == {"effects", "reinforce"}


def estimator_of(config: Config, method: str) -> str:
    return str(learner_options(config, method)["settings"].estimator)


def test_every_learner_is_a_method_of_its_own_name_that_needs_its_graph() -> None:
    assert [method.name for method in METHODS] == [method.learner for method in METHODS] == list(Peer)
    assert all(method.needs_graph and method.description for method in METHODS)


def test_settings_that_a_method_has_otherwise_are_refused() -> None:
    with pytest.raises(UserError, match="agentprune always has reinforce; leave the setting out, or agentprune"):
        learner_options(load(["experiment=agentprune", "learner.estimator=rloo"]), "agentprune")
    with pytest.raises(UserError, match="m3prune always has reinforce; leave the setting out, or m3prune"):
        learner_options(load(["experiment=mmqa_prune", "learner.estimator=rloo"]), "m3prune")
    with pytest.raises(ValueError, match="staged=false"):
        Learner(TEAM, pruning=PruningSettings(rule=Rule.ONCE))
