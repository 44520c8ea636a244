"""Other learners on the same runtime: what each learns, what it cuts and when, and that a restored one goes on."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from actors.errors import UserError
from experiments.config.config import Config
from experiments.config.loading import load
from experiments.running.launch import learned_methods, learner_options
from experiments.running.methods import methods_of, pairs
from topologies.learning.learner import Learner
from topologies.learning.peers import METHODS, VARIANTS, Peer
from topologies.learning.pruning_rules import weakest_agents
from topologies.learning.settings import LearnerSettings, Optimiser, PruningSettings, Rule
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
    assert peers.edges_left()["agents>agents spatial"] == round(12 * PruningSettings(steps=20).share_at_end(rounds=2))


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
    for name, tensor in whole.state().items():
        assert torch.equal(tensor, second.state()[name]), name


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
    with pytest.raises(UserError, match="agentprune has reinforce; leave it out"):
        learner_options(load(["experiment=agentprune", "learner.estimator=rloo"]), "agentprune")
    with pytest.raises(UserError, match="m3prune has reinforce; leave it out"):
        learner_options(load(["experiment=mmqa_prune", "learner.estimator=rloo"]), "m3prune")
    with pytest.raises(ValueError, match="staged=false"):
        Learner(TEAM, pruning=PruningSettings(rule=Rule.ONCE))
