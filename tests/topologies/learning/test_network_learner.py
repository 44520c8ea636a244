"""Learners that are networks draw graphs by question, follow the policy gradient, and go on from a state."""

import numpy as np
import pytest
import torch

from topologies.learning.agp import AgpLearner
from topologies.learning.eib_learner import EibLearner, EibNetwork
from topologies.learning.g_designer import GDesigner, GDesignerLearner
from topologies.learning.learner_settings import LearnerSettings, PruningSettings
from topologies.learning.network_learner import NetworkLearner
from topologies.learning.variants import VARIANTS
from topologies.wiring import Bools, Edges, Floats, Ints, Wirings

AGENTS, K, D = 5, 8, 6
NETWORKS = {"g_designer": GDesignerLearner, "agp": AgpLearner, "eib_learner": EibLearner}
EACH = pytest.mark.parametrize("name", NETWORKS)


def learner(name: str, steps: int = 6, candidates: Edges[Ints] | None = None, agents: int = AGENTS) -> NetworkLearner:
    profiles = np.random.default_rng(3).standard_normal((agents, 7))
    return NETWORKS[name](
        ["text"] * agents,
        variant=VARIANTS[name],
        pruning=PruningSettings(steps=steps),
        candidates=candidates,
        features=D,
        profiles=profiles,
    )


def question(number: int) -> Floats:
    return np.random.default_rng(number).standard_normal((1, D))


def step(ours: NetworkLearner, features: Floats, utilities: Floats | None = None) -> Wirings:
    wirings = ours.sample(K, features=features)
    drawn = wirings.spatial[:, 0, 1, 0].astype(float) if utilities is None else utilities
    ours.learn(wirings, np.zeros((K, ours.rounds, ours.agents)), drawn)
    return wirings


def weights(ours: NetworkLearner) -> dict[str, Floats]:
    return {name: value for name, value in ours.state().items() if name.startswith("network.")}


@EACH
def test_only_spatial_edges_are_drawn_and_all_senders_weigh_alike(name: str) -> None:
    ours = learner(name)
    wirings = ours.sample(K, features=question(0))
    assert wirings.spatial.any()
    assert not wirings.temporal.any()
    assert not wirings.allowed.temporal.any()
    assert wirings.speaks is None or (wirings.decision == wirings.speaks[:, -1]).all()
    assert wirings.speaks is not None or wirings.decision.all()
    assert {float(p) for kind in (*ours.chances(), *ours.reading(question(0))) for p in kind.flat} == {1.0}


@EACH
def test_a_question_s_graph_has_its_likelier_edges_and_no_cycle(name: str) -> None:
    ours = learner(name, agents=8)
    graphs = ours.inference_wirings(np.concatenate([question(number) for number in range(6)]))
    for number, graph in enumerate(graphs.spatial):
        # As the same question alone, in every round, along an order.
        assert (ours.inference_wirings(question(number)).spatial[0] == graph).all()
        with torch.no_grad():
            p = ours.net(torch.from_numpy(question(number)).float())[0].sigmoid().numpy()
        assert (p[graph[0]] >= 0.5).all()
        assert not np.linalg.matrix_power(graph[0].astype(int), 8).any()
    assert ours.inference_wirings().spatial.shape == (1, 2, 8, 8)


@EACH
def test_a_step_is_the_policy_gradient_of_the_network_that_drew(name: str) -> None:
    ours, same = learner(name), learner(name)
    utilities = np.random.default_rng(0).random(K)
    wirings = step(ours, question(0), utilities)
    # The same network, with the same dropout, under PyTorch's own distribution and optimiser.
    features = torch.from_numpy(question(0)).float().expand(K, -1)
    logits = same.net(features, same.generator("dropout"))[:, None].expand(-1, 2, -1, -1)
    log_p = torch.distributions.Bernoulli(logits=logits).log_prob(torch.from_numpy(wirings.spatial).float())
    of_wiring = (log_p * torch.from_numpy(wirings.allowed.spatial)).sum((1, 2, 3))
    trained = [weight for weight in same.net.parameters() if weight.requires_grad]
    adam = torch.optim.Adam(trained, lr=LearnerSettings().learning_rate)
    loss = -(of_wiring * torch.from_numpy(utilities).float()).mean()
    for weight, slope in zip(trained, torch.autograd.grad(loss, trained, materialize_grads=True), strict=True):
        weight.grad = slope
    adam.step()
    for key, value in same.net.state_dict().items():
        assert np.allclose(value.numpy(), weights(ours)[f"network.{key}"], atol=2e-3), key


def test_a_step_moves_what_the_authors_train_and_nothing_else() -> None:
    ours = learner("g_designer")
    before = weights(ours)
    step(ours, question(0), np.random.default_rng(0).random(K))
    still = {name for name, value in weights(ours).items() if np.array_equal(value, before[name])}
    assert still == {name for name in before if ".perceptron." in name}


@EACH
def test_candidates_are_the_anchor_graph_and_the_only_edges(name: str) -> None:
    ring = np.array([(i, (i + 1) % AGENTS) for i in range(AGENTS)])
    ours = learner(name, candidates=Edges(ring, ring))
    pairs = np.zeros((AGENTS, AGENTS), dtype=bool)
    pairs[tuple(ring.T)] = True
    wirings = ours.sample(K, features=question(0))
    assert not (wirings.spatial & ~pairs).any()
    assert (np.isfinite(ours.edge_scores().spatial) == pairs).all()
    if isinstance(ours.net, GDesigner):
        assert torch.allclose(ours.net.first.normalised > 0, torch.from_numpy(pairs.T | np.eye(AGENTS, dtype=bool)))


@EACH
def test_a_learner_goes_on_from_its_state_to_the_byte(name: str) -> None:
    ours = learner(name)
    for number in range(3):
        step(ours, question(number))
    other = learner(name)
    other.load(ours.state())
    for number in range(3, 6):
        assert (step(ours, question(number)).spatial == step(other, question(number)).spatial).all()
    assert ours.finished
    ours_now, other_now = ours.state(), other.state()
    assert ours_now.keys() == other_now.keys()
    assert all(np.array_equal(value, other_now[key]) for key, value in ours_now.items())
    with pytest.raises(ValueError, match="learner state"):
        learner(name, agents=4).load(ours.state())


@EACH
def test_wirings_are_the_same_for_the_same_draw_and_bad_calls_are_refused(name: str) -> None:
    ours = learner(name)
    first, again, other = (ours.sample(K, draw=draw, features=question(0)) for draw in (1, 1, 2))
    assert (first.spatial == again.spatial).all()
    assert (first.spatial != other.spatial).any()
    two = np.concatenate([question(0), question(1)])
    for bad in ({"k": 0}, {"k": 3, "questions": 2, "features": two}, {"k": 2, "ahead": 1}, {"k": 2, "features": two}):
        with pytest.raises(ValueError, match=r"\bwirings\b|\bahead\b|\bfeatures\b"):
            ours.sample(**bad)
    with pytest.raises(ValueError, match="utilities"):
        ours.learn(first, np.zeros((K, 2, AGENTS)), np.full(K, np.inf))


def test_a_graph_that_only_helps_some_questions_is_learned_for_these() -> None:
    """An edge is right for one kind of question and wrong for the other: p follows, in opposite directions."""
    ours = learner("eib_learner", steps=150)
    kinds = [np.eye(1, D), np.eye(1, D, 1)]
    for number in range(150):
        wirings = ours.sample(K, features=kinds[number % 2])
        dense = wirings.spatial.sum((1, 2, 3)) / wirings.allowed.spatial.sum((1, 2, 3))
        ours.learn(wirings, np.zeros((K, 2, AGENTS)), dense if number % 2 else 1 - dense)
    sparse, full = (ours.inference_wirings(kind).spatial.sum() for kind in kinds)
    assert sparse < full


def test_eib_learner_fuses_its_views_by_the_question() -> None:
    net = learner("eib_learner").net
    assert isinstance(net, EibNetwork)
    features = torch.from_numpy(np.concatenate([question(0), question(1)])).float()
    with torch.no_grad():
        fused = net(features).sigmoid()
        views = []
        for first, second in zip(net.first, net.second, strict=True):
            embedded = second(first(net.profiles, features).relu())
            views.append((embedded @ embedded.transpose(1, 2)).sigmoid())
        shares = net.gate(features).softmax(-1)
    assert not torch.allclose(shares[0], shares[1])
    expected = shares[:, 0, None, None] * views[0] + shares[:, 1, None, None] * views[1]
    assert torch.allclose(fused, expected, atol=1e-5)


def agp(agents: int = AGENTS) -> AgpLearner:
    ours = learner("agp", agents=agents)
    assert isinstance(ours, AgpLearner)
    return ours


def test_agp_leaves_out_agents_with_few_likely_edges() -> None:
    ours, p = agp(), np.full((2, AGENTS, AGENTS), 0.5)
    drawn = ours.sample(2, features=question(0))
    edges = np.zeros_like(drawn.spatial)
    # The first: agent 4 has no edge, and agent 3 has one in the first round. The second has no edge at all.
    edges[0, :, 0, 1] = edges[0, 0, 0, 3] = True
    edges[0, :, 2, 0] = edges[0, :, 2, 1] = True
    thin = ours.thinned(Wirings(**{**vars(drawn), "spatial": edges, "speaks": None}), p)
    assert thin.speaks is not None
    score = edges.mean(1) * 0.5
    sums = score.sum(1) + score.sum(2)
    assert (thin.speaks[0, 0] == (sums[0] >= 0.3)).all()
    assert thin.speaks[0, 0].tolist() == [True, True, True, False, False]
    assert not thin.spatial[0, 0][~thin.speaks[0, 0]].any()
    assert thin.speaks[1].all()


def test_agp_learns_the_graphs_of_right_answers_at_the_end() -> None:
    ours = agp(agents=6)
    takes: list[Bools] = []
    while not ours.finished:
        before = ours.state()
        wirings = ours.sample(K, features=question(0))
        right = wirings.spatial[:, -1].sum((1, 2)) >= 4
        ours.learn(wirings, np.zeros((K, 2, 6)), right.astype(float))
        takes += [wirings.speaks[k, -1] for k in np.flatnonzero(right) if wirings.speaks is not None]
    state = ours.state()
    count = int(state["memory.labels"])
    assert count == len(takes) > 0
    assert (state["memory.takes"][:count] == np.array(takes)).all()
    assert (state["memory.edges"][:count].sum((1, 2)) >= 4).all()
    # One step of Adam in the last `learn`, and one for each batch of ten labels.
    assert state["adam.0.step"] == before["adam.0.step"] + 1 + -(-count // 10)


def test_agp_answers_with_agents_that_take_part() -> None:
    ours = agp()
    with torch.no_grad():
        ours.net.get_submodule("head.2").bias.fill_(-9.0)
    graph = ours.inference_wirings(question(0))
    assert graph.speaks is not None
    # None is above the threshold: the likeliest answers alone.
    assert graph.speaks[0].sum() == ours.rounds
    assert (graph.decision[0] == graph.speaks[0, -1]).all()
    assert not graph.spatial.any()
