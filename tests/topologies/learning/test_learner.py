"""The learner: unbiased estimators, two stages, progressive pruning, and a state that continues identically."""

from dataclasses import replace
from itertools import permutations, product
from pathlib import Path
from typing import get_args

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file
from torch import Tensor

from actors.errors import UserError
from tests.topologies.learning.test_objective import log_probability
from topologies.learning.learner import Learner
from topologies.learning.learner_settings import Decision, LearnerSettings, Noise, PruningSettings
from topologies.learning.sampling import allowed_spatial, allowed_temporal
from topologies.learning.spec import StepReport
from topologies.learning.variants import (
    AGENTDROPOUT,
    AGENTPRUNE,
    COMPETENCE,
    EFFECTS,
    GPTSWARM,
    M3PRUNE,
    ONCE,
    PROGRESSIVE,
    RLOO,
    Variant,
)
from topologies.wiring import Bools, Wirings

TEAM = ["text", "text", "text", "visual", "visual"]
UTILITY_ALONE: dict[str, float] = {"rank_weight": 0.0, "noise_weight": 0.0, "align_weight": 0.0}


def unpruned() -> PruningSettings:
    return PruningSettings(rate=0.0)


def first_gradient(learner: Learner, kind: str) -> np.ndarray:
    """The gradient of the first step, from Adam's mean of it."""
    return learner.state()[f"mean.{kind}"] / 0.1


def train(learner: Learner, steps: int, k: int = 4) -> list[StepReport]:
    """Steps with utilities that depend on the wiring, deterministically."""
    reports = []
    for _ in range(steps):
        wirings = learner.sample(k)
        utilities = wirings.spatial[:, 0].mean(axis=(1, 2)) + wirings.temporal[:, -1].mean(axis=(1, 2))
        reports.append(learner.learn(wirings, wirings.spatial.mean(axis=2), utilities))
    return reports


def all_wirings_of_two_agents() -> list[tuple[str, Tensor, Tensor]]:
    """Every (kind, allowed, taken) of two agents over two rounds, batched [4 orders x 2^2 x 2^4 x 2^2, ...]."""
    orders = torch.tensor(list(product(permutations(range(2)), repeat=2)))
    spatial_allowed = allowed_spatial(~torch.eye(2, dtype=torch.bool), orders)
    bits = torch.tensor(list(product([False, True], repeat=8)))
    each = [(order, draw) for order in range(4) for draw in range(256)]
    order, draw = torch.tensor(each).T
    allowed_s = spatial_allowed[order]
    first, second = bits[draw, 0], bits[draw, 1]
    taken_s = allowed_s & torch.stack([first, second], 1)[:, :, None, None]
    allowed_t = allowed_temporal(torch.ones(2, 2, dtype=torch.bool), len(each), 2)
    taken_t = allowed_t & bits[draw, 2:6].view(-1, 1, 2, 2)
    taken_d = bits[draw, 6:8].view(-1, 1, 2, 1)
    return [
        ("spatial", allowed_s, taken_s),
        ("temporal", allowed_t[:, 1:], taken_t[:, 1:]),
        ("decision", torch.ones_like(taken_d), taken_d),
    ]


def utility_of(spatial: Bools, temporal: Bools, decision: Bools) -> np.ndarray:
    """Depends on edges of every kind, and on two of them jointly."""
    return (
        0.5
        + 0.3 * spatial[:, 0, 0, 1]
        - 0.2 * spatial[:, 1, 1, 0] * temporal[:, 1, 0, 1]
        + 0.2 * temporal[:, 1, 1, 1] * decision[:, 0]
        - 0.2 * decision[:, 1]
    )


@pytest.mark.slow
@pytest.mark.parametrize("per_round", [False, True])
@pytest.mark.parametrize(("variant", "group"), [(M3PRUNE, 10), (RLOO, 2), (RLOO, 10)])
def test_estimator_mean_is_the_exact_gradient_by_enumeration(variant: Variant, per_round: bool, group: int) -> None:
    settings = LearnerSettings(**UTILITY_ALONE, decision="learned")
    variant = replace(variant, per_round=per_round, rule=ONCE)
    learner = Learner(["text", "text"], variant=variant, settings=settings, pruning=unpruned(), seed=5)
    state = learner.state()
    generator = torch.Generator().manual_seed(3)
    start = {kind: torch.randn(state[f"logits.{kind}"].shape, generator=generator) for kind in ("spatial", "temporal")}
    start["decision"] = torch.tensor([[[0.4], [-0.3]]])
    learner.load(state | {f"logits.{kind}": theta.numpy() for kind, theta in start.items()})

    logits = {kind: theta.double().requires_grad_() for kind, theta in start.items()}
    wirings = all_wirings_of_two_agents()
    taken = {kind: t for kind, _, t in wirings}
    log_p = torch.stack([log_probability(logits[kind], allowed, t) for kind, allowed, t in wirings]).sum(0)
    assert log_p.exp().sum().item() == pytest.approx(4)  # a distribution for each of the four speaking orders
    temporal = torch.cat([torch.zeros_like(taken["temporal"]), taken["temporal"]], dim=1)
    utilities = utility_of(taken["spatial"].numpy(), temporal.numpy(), taken["decision"][:, 0, :, 0].numpy())
    expectation = (log_p.exp() * torch.from_numpy(utilities)).sum() / 4
    exact = torch.autograd.grad(expectation, [logits[kind] for kind in ("spatial", "temporal", "decision")])

    k = 60_000
    drawn = learner.sample(k)
    scores = utility_of(drawn.spatial, drawn.temporal, drawn.decision)
    learner.learn(drawn, np.zeros((k, 2, 2)), scores, groups=np.arange(k) // group)
    for kind, gradient in zip(("spatial", "temporal", "decision"), exact, strict=True):
        estimate = torch.tensor(first_gradient(learner, kind))
        # One term is at most 1 in size, of standard deviation .5 at most; both directions of an edge are covered.
        torch.testing.assert_close(estimate.double(), gradient, atol=5 * 0.5 / k**0.5, rtol=0)
    assert exact[0].abs().max() > 0.03


def test_the_baseline_removes_what_all_samples_share() -> None:
    settings = LearnerSettings(**UTILITY_ALONE)
    learner = Learner(TEAM, variant=RLOO, settings=settings, pruning=unpruned())
    report = learner.learn(learner.sample(10), np.zeros((10, 2, 5)), np.ones(10))
    assert report.gradient_norm == 0
    learner = Learner(TEAM, variant=M3PRUNE, settings=settings, pruning=unpruned())
    assert learner.learn(learner.sample(10), np.zeros((10, 2, 5)), np.ones(10)).gradient_norm > 0


@pytest.mark.parametrize("noise", get_args(Noise))
@pytest.mark.parametrize("stage", [1, 2])
def test_the_step_is_the_gradient_of_the_objective_by_finite_differences(stage: int, noise: Noise) -> None:
    settings = LearnerSettings(rank_weight=0.7, noise_weight=3.0, align_weight=1.3, noise=noise)
    learner = Learner(TEAM, variant=RLOO, settings=settings, pruning=unpruned())
    if stage == 2:
        learner.next_stage()
    state = learner.state()
    generator = torch.Generator().manual_seed(9)
    drawn = {kind: torch.randn(1, 5, 5, generator=generator).numpy() for kind in ("spatial", "temporal")}
    state |= {f"logits.{kind}": theta for kind, theta in drawn.items()}
    same = np.array([m == "text" for m in TEAM])
    trained = (same[:, None] == same) == (stage == 1)
    wirings = learner.sample(6)

    def objective(logits: dict[str, np.ndarray]) -> float:
        learner.load(state | {f"logits.{kind}": theta for kind, theta in logits.items()})
        return learner.learn(wirings, np.zeros((6, 2, 5)), np.zeros(6)).objective

    start = {kind: state[f"logits.{kind}"] for kind in ("spatial", "temporal")}
    objective(start)
    gradient = {kind: first_gradient(learner, kind) for kind in start}
    for kind, theta in start.items():
        for sender, receiver in product(range(5), repeat=2):
            nudge = np.zeros_like(theta)
            nudge[0, sender, receiver] = 0.02
            slope = (objective(start | {kind: theta + nudge}) - objective(start | {kind: theta - nudge})) / 0.04
            exists = trained[sender, receiver] and (kind == "temporal" or sender != receiver)
            assert gradient[kind][0, sender, receiver].item() == pytest.approx(slope if exists else 0, abs=1e-3)


def test_an_edge_that_matters_survives_pruning_and_ranks_first() -> None:
    learner = Learner(["text"] * 4, rounds=1, variant=RLOO, pruning=PruningSettings(rate=0.2, steps=40))
    for _ in range(40):
        wirings = learner.sample(20)
        learner.learn(wirings, np.zeros((20, 1, 4)), wirings.spatial[:, 0, 3, 1])
    assert learner.edges_left()["text>text spatial"] < 9
    assert learner.inference().spatial[3, 1]
    assert learner.edge_scores().spatial.argmax() == 3 * 4 + 1


def test_stage_one_keeps_the_modalities_apart_and_stage_two_leaves_its_result_alone() -> None:
    learner = Learner(TEAM, variant=RLOO)
    visual = np.array([m == "visual" for m in TEAM])
    across = visual[:, None] != visual
    for step in train(learner, 10):
        assert step.stage == 1
        assert step.alignment == 0
    wirings = learner.sample(5)
    assert not (wirings.allowed.spatial | wirings.allowed.temporal)[..., across].any()
    before = learner.probabilities()
    left = learner.edges_left()
    learner.next_stage()
    assert (learner.stage, learner.step, learner.finished) == (2, 0, False)
    assert ((learner.probabilities().spatial > 0) >= across).all()
    train(learner, 10)
    after = learner.probabilities()
    for one, other in zip(before, after, strict=True):
        np.testing.assert_array_equal(one[~across], other[~across])
        assert (other[across] == 0).any()
        assert (other[across] != 0.5).all()
    assert left.items() <= learner.edges_left().items()
    wirings = learner.sample(50)
    assert wirings.spatial[..., ~across].any()
    assert wirings.spatial[..., across].any()
    learner.next_stage()
    assert learner.finished
    train(learner, 1)  # to learn on is no mistake
    assert learner.finished


@hypothesis_settings(max_examples=15)
@given(
    team=st.lists(st.sampled_from(["text", "visual"]), min_size=1, max_size=6),
    rate=st.floats(0, 0.9),
    decision=st.sampled_from(get_args(Decision)),
    rounds=st.integers(1, 3),
)
def test_masks_only_shrink_keep_an_edge_and_all_wirings_are_acyclic(
    team: list[str], rate: float, decision: Decision, rounds: int
) -> None:
    pruning = PruningSettings(rate=rate, steps=4)
    learner = Learner(team, rounds=rounds, variant=RLOO, settings=LearnerSettings(decision=decision), pruning=pruning)
    while not learner.finished:
        for _ in range(4):
            before = learner.state()
            report = train(learner, 1, k=3)[0]
            assert min(report.edges.values(), default=1) >= 1
            for kind in ("spatial", "temporal", "decision"):
                mask = learner.state()[f"mask.{kind}"]
                assert not (mask & ~before[f"mask.{kind}"]).any()
            assert np.isfinite([report.rank, report.noise, report.alignment, report.gradient_norm]).all()
            check(learner, learner.sample(2))
            check(learner, learner.inference_wirings())
        learner.next_stage()


def check(learner: Learner, wirings: Wirings) -> None:
    mask = learner.state()["mask.spatial"], learner.state()["mask.temporal"]
    for taken, allowed, present in zip((wirings.spatial, wirings.temporal), wirings.allowed, mask, strict=True):
        assert not (taken & ~allowed).any()
        assert not (allowed & ~present).any()
    assert not wirings.temporal[:, 0].any()
    assert not (wirings.decision & ~wirings.decision_allowed).any()
    for spatial, order in zip(
        wirings.spatial.reshape(-1, *mask[0].shape), wirings.order.reshape(-1, len(mask[0])), strict=True
    ):
        graph = nx.from_numpy_array(spatial, create_using=nx.DiGraph)
        assert nx.is_directed_acyclic_graph(graph)
        position = np.argsort(order)
        assert all(position[sender] < position[receiver] for sender, receiver in graph.edges)


def test_the_pruning_rate_decays_and_restarts_with_the_stage() -> None:
    pruning = PruningSettings(rate=0.2, inter_rate=0.3, steps=10, cuts=10)
    learner = Learner(TEAM, variant=RLOO, pruning=pruning)
    rates = [report.pruning_rate for report in train(learner, 3)]
    assert rates == pytest.approx([0.2 * np.exp(-t * (t + 1) / 20) for t in (1, 2, 3)])
    learner.next_stage()
    assert train(learner, 1)[0].pruning_rate == pytest.approx(0.3 * np.exp(-0.1))


def test_cuts_are_spread_over_the_stage_and_leave_what_one_cut_at_the_end_leaves() -> None:
    left = {}
    for rule in (PROGRESSIVE, ONCE):
        learner = Learner(["text"] * 5, variant=replace(RLOO, staged=False, rule=rule))
        left[rule] = [report.edges for report in train(learner, 40)]
    numbers = [sum(edges.values()) for edges in left[PROGRESSIVE]]
    assert [step for step in range(1, 40) if numbers[step] < numbers[step - 1]] == [4, 9, 14, 19, 24, 29]
    assert [*left[PROGRESSIVE][-1].values()] == [10, 12]  # .491 of 20 and 25
    assert [*left[ONCE][-1].values()] == [10, 12]


def test_the_second_stage_starts_its_optimiser_anew_and_moves_no_frozen_logit() -> None:
    learner = Learner(TEAM, variant=RLOO, pruning=unpruned())
    train(learner, 10)
    learner.next_stage()
    before = learner.state()
    train(learner, 3)
    same = np.array([[one == other for other in TEAM] for one in TEAM])
    for kind in ("spatial", "temporal"):
        moved = learner.state()[f"logits.{kind}"][0] - before[f"logits.{kind}"][0]
        assert not moved[same].any(), kind
        assert moved[~same].any()
    # Adam's first step is as long as the learning rate, whatever the gradient.
    learner.load(before)
    train(learner, 1)
    first = np.abs(learner.state()["logits.temporal"][0] - before["logits.temporal"][0])[~same]
    assert first.tolist() == pytest.approx([0.1] * len(first), abs=1e-3)


@pytest.mark.parametrize(("noise", "matters"), [("rms", False), ("squared", True)])
def test_epsilon_has_no_effect_unless_the_noise_is_squared(noise: Noise, matters: bool) -> None:
    states = []
    for epsilon in (0.1, 0.3):
        learner = Learner(TEAM, variant=M3PRUNE, settings=LearnerSettings(noise=noise, epsilon=epsilon))
        train(learner, 40)
        states.append(learner.state()["logits.spatial"])
    assert np.array_equal(*states) is not matters


def test_scores_rank_later_cuts_above_earlier_ones_and_below_what_is_left() -> None:
    learner = Learner(["text"] * 6, variant=RLOO, pruning=PruningSettings(rate=0.2, cuts=40))
    cut: list[tuple[int, float]] = []
    for step in range(6):
        before = learner.probabilities().spatial
        train(learner, 1)
        gone = (before > 0) & (learner.probabilities().spatial == 0)
        cut += [(step, score) for score in learner.edge_scores().spatial[gone]]
    scores = learner.edge_scores().spatial
    present = learner.probabilities().spatial > 0
    assert len(cut) > 10
    assert max(score for _, score in cut) < 0 < scores[present].min()
    assert max(s for step, s in cut if step < 3) < min(s for step, s in cut if step >= 3)
    assert np.isneginf(np.diag(scores)).all()
    assert len(cut) + present.sum() == 30


def test_inference_takes_edges_in_descending_probability_unless_they_close_a_cycle() -> None:
    learner = Learner(["text"] * 3, variant=RLOO)
    state = learner.state()
    state["logits.spatial"] = np.array([[[0.0, 3.0, -2.0], [1.0, 0.0, 2.0], [2.5, -1.0, 0.0]]], dtype=np.float32)
    learner.load(state)
    edges = learner.inference()
    # In turn: 0>1 and 2>0 in; 1>2 and 1>0 would close a cycle; 2>1 in; 0>2 would close one.
    assert np.argwhere(edges.spatial).tolist() == [[0, 1], [2, 0], [2, 1]]
    wirings = learner.inference_wirings()
    assert wirings.order[0, 0].tolist() == [2, 0, 1]
    assert edges.temporal.all()


def test_a_learned_decision_column_is_learned_and_pruned_in_the_last_stage() -> None:
    learner = Learner(
        ["text", "text", "visual"],
        variant=RLOO,
        settings=LearnerSettings(**UTILITY_ALONE, decision="learned"),
        pruning=PruningSettings(rate=0.2, steps=40),
    )
    train(learner, 2)
    assert learner.sample(3).decision.all()
    learner.next_stage()
    for _ in range(40):
        wirings = learner.sample(20)
        learner.learn(wirings, np.zeros((20, 2, 3)), 0.5 + 0.5 * wirings.decision[:, 1] - 0.5 * wirings.decision[:, 2])
    p = learner.decision_probabilities()
    assert p[1] > 0.7
    assert p[2] == 0
    assert learner.edges_left()["agents>decision"] < 3
    assert learner.inference_wirings().decision[0].tolist() == (p > 0).tolist()


@pytest.mark.parametrize("variant", [RLOO, EFFECTS, AGENTPRUNE, GPTSWARM, AGENTDROPOUT, COMPETENCE])
def test_a_learner_resumed_from_its_state_goes_on_identically(variant: Variant, tmp_path: Path) -> None:
    settings = LearnerSettings(decision="learned")
    whole = Learner(TEAM, seed=4, variant=variant, settings=settings)
    train(whole, 5)
    whole.next_stage()
    train(whole, 3)
    save_file(whole.state(), tmp_path / "topology.safetensors")
    resumed = Learner(TEAM, seed=4, variant=variant, settings=settings)
    resumed.load(load_file(tmp_path / "topology.safetensors"))
    assert train(whole, 4) == train(resumed, 4)
    for name, array in whole.state().items():
        np.testing.assert_array_equal(array, resumed.state()[name], name)
    assert np.array_equal(whole.edge_scores().spatial, resumed.edge_scores().spatial)


def test_sampling_depends_on_seed_stage_step_and_draw_alone() -> None:
    one, other = Learner(TEAM, variant=RLOO, seed=1), Learner(TEAM, variant=RLOO, seed=1)
    first = one.sample(4)
    one.sample(4, draw=3)
    assert np.array_equal(one.sample(4).spatial, first.spatial)
    assert np.array_equal(other.sample(4).spatial, first.spatial)
    assert not np.array_equal(one.sample(4, draw=1).spatial, first.spatial)
    assert not np.array_equal(Learner(TEAM, variant=RLOO, seed=2).sample(4).spatial, first.spatial)
    learner = Learner(TEAM, variant=RLOO, seed=1, pruning=unpruned(), settings=LearnerSettings(learning_rate=1e-12))
    train(learner, 1)
    assert not np.array_equal(learner.sample(4).order, first.order)


def test_without_an_inter_graph_there_is_one_stage_and_no_edge_across() -> None:
    learner = Learner(TEAM, variant=replace(RLOO, inter=False))
    train(learner, 2)
    learner.next_stage()
    assert learner.finished
    assert sorted(learner.edges_left()) == [
        f"{m}>{m} {kind}" for m, kind in product(["text", "visual"], ["spatial", "temporal"])
    ]
    assert not learner.inference().spatial[:3, 3:].any()


@pytest.mark.parametrize(
    ("scores", "utilities", "groups", "said"),
    [
        (np.zeros((4, 2, 5)), [0, 1, np.inf, 0], None, "^utilities .*NaN"),
        (np.zeros((4, 2, 5)), [0, 1, 0], None, "^utilities .*shape"),
        (np.zeros((4, 2, 4)), [0, 1, 0, 1], None, "^turn_scores "),
        (np.zeros((4, 2, 5)), [0, 1, 0, 1], [0, 0, 1], "^groups "),
        (np.zeros((4, 2, 5)), [0, 1, 0, 1], [0, 0, 0, 1], "at least two samples"),
    ],
)
def test_bad_scores_are_refused_and_leave_the_learner_as_it_was(
    scores: np.ndarray, utilities: list[float], groups: list[int] | None, said: str
) -> None:
    learner = Learner(TEAM, variant=RLOO)
    before = learner.state()
    with pytest.raises(ValueError, match=said):
        learner.learn(learner.sample(4), scores, utilities, groups)
    assert all(np.array_equal(array, before[name]) for name, array in learner.state().items())


def test_arrays_that_crossed_a_process_are_read_only_and_teach_the_same() -> None:
    one, other = Learner(TEAM, variant=RLOO), Learner(TEAM, variant=RLOO)
    wirings = other.sample(4)
    for array in (wirings.spatial, wirings.temporal, *wirings.allowed, wirings.decision, wirings.decision_allowed):
        array.flags.writeable = False
    utilities = np.array([0.0, 1.0, 1.0, 0.0])
    utilities.flags.writeable = False
    questions = ["a", "a", "b", "b"]
    first = one.learn(one.sample(4), np.zeros((4, 2, 5)), utilities, [0, 0, 1, 1])
    assert other.learn(wirings, np.zeros((4, 2, 5)), utilities, questions) == first


def test_wirings_of_another_team_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^wirings\.spatial .*\(4, 2, 3, 3\).*\(4, 2, 5, 5\)"):
        Learner(TEAM, variant=RLOO).learn(
            Learner(["text"] * 3, variant=RLOO).sample(4), np.zeros((4, 2, 5)), np.zeros(4)
        )


def test_a_state_that_does_not_fit_is_refused_and_changes_nothing() -> None:
    learner = Learner(TEAM, variant=RLOO)
    before = learner.state()
    with pytest.raises(ValueError, match="this learner needs"):
        learner.load(Learner(TEAM[:4], variant=RLOO).state())
    with pytest.raises(ValueError, match="lacks stage"):
        learner.load({})
    other = Learner(TEAM, variant=RLOO).state() | {"stage": np.array(3)}
    with pytest.raises(ValueError, match="stage 3"):
        learner.load(other)
    assert all(np.array_equal(array, before[name]) for name, array in learner.state().items())


@pytest.mark.parametrize(
    ("team", "arguments", "said"),
    [
        (["text", "both"], {}, "both"),
        ([], {}, "no agents"),
        (TEAM, {"rounds": 0}, "rounds"),
        (TEAM, {"settings": LearnerSettings(learning_rate=0)}, "learner.learning_rate"),
        (TEAM, {"settings": LearnerSettings(early_stop=2.0)}, "learner.early_stop"),
        (TEAM, {"settings": LearnerSettings(early_stop=0.1), "pruning": PruningSettings(interim=0)}, "pruning.interim"),
        (TEAM, {"pruning": PruningSettings(rate=1.0)}, "pruning.rate"),
        (TEAM, {"pruning": PruningSettings(steps=0)}, "pruning.steps"),
    ],
)
def test_bad_settings_are_refused(team: list[str], arguments: dict[str, object], said: str) -> None:
    with pytest.raises(UserError, match=said):
        Learner(team, **arguments)  # type: ignore[arg-type]
