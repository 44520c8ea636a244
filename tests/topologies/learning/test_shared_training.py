"""Learning from wirings that another learner drew: unbiased whatever their probabilities, and only for who may."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from topologies.learning.learner import Learner
from topologies.learning.learner_settings import LearnerSettings, PruningSettings
from topologies.learning.randomised import Effects
from topologies.learning.sampling import draws_of
from topologies.learning.spec import shared_training
from topologies.learning.variants import AGENTDROPOUT, AGENTPRUNE, EFFECTS, GPTSWARM, M3PRUNE, RLOO, Variant
from topologies.wiring import Wirings

TEAM = ["text"] * 3 + ["visual"] * 2
MISLEADS = 1


def made(variant: Variant, team: list[str] | None = None, rounds: int = 2, **changes: object) -> Learner:
    pruning = PruningSettings(**changes)  # type: ignore[arg-type]
    return Learner(team or TEAM, rounds=rounds, seed=4, variant=variant, pruning=pruning)


def estimator(student: Learner) -> Effects:
    assert isinstance(student._estimator, Effects)
    return student._estimator


def planted(n: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The effect of hearing each agent within a round and from the round before [sender, receiver]."""
    generator = torch.Generator().manual_seed(5)
    return 0.3 * torch.randn(n, n, generator=generator), 0.3 * torch.randn(n, n, generator=generator)


def discussed(wirings: Wirings, generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """A receiver's score is the sum of what it hears, plus noise; utility is that of agent 0 in the last round, and
    grows with every edge from agent 0 and shrinks with the others, which drives a gradient's probabilities apart."""
    k, _, n = wirings.order.shape
    spatial, temporal = (effect.numpy() for effect in planted(n))
    scores = (wirings.spatial * spatial).sum(2) + (wirings.temporal * temporal).sum(2)
    scores = scores + 0.1 * generator.standard_normal(scores.shape)
    edges = wirings.spatial.sum(1) + wirings.temporal.sum(1)
    utility = edges[:, 0].sum(1) - edges[:, 1:].sum((1, 2))
    return scores, 0.05 * utility + 0.01 * generator.standard_normal(k)


def taught(source: Learner, students: list[Learner], samples: int, steps: int, alone: bool = False) -> list[float]:
    """Has all learn from what the source draws; returns the standard deviation of its probabilities, step by step.

    alone: every sample has a question of its own.
    """
    generator, spread = np.random.default_rng(1), []
    for _ in range(steps):
        wirings = source.sample(samples)
        spread.append(float(wirings.chances["temporal"].std()))
        scores = discussed(wirings, generator)
        for student in (*students, source):
            student.learn(wirings, *scores, np.arange(samples) if alone else None)
    return spread


@pytest.mark.slow
@pytest.mark.parametrize("alone", [False, True])
def test_effects_are_unbiased_on_wirings_whose_probabilities_drift_away_from_one_half(alone: bool) -> None:
    """Also where each question has one sample, which is compared with those of earlier steps, drawn otherwise."""
    # Without pruning: every edge is drawn to the end.
    source = made(M3PRUNE, TEAM[:3], rate=0.0, steps=61)
    student = made(EFFECTS, TEAM[:3], interim=0, rate=0.0, steps=61)
    spread = taught(source, [student], samples=200, steps=60, alone=alone)
    assert spread[0] == 0
    assert np.mean(spread) > 0.15
    sums, truth = estimator(student).state, planted(3)
    for kind, effect in zip(("spatial", "temporal"), truth, strict=True):
        squares, products = sums[f"sums.{kind}"][:2, 0]
        known = squares > 0
        found = products[known] / squares[known]
        slope = float((found * effect[known]).sum() / (effect[known] ** 2).sum())
        assert slope == pytest.approx(1, abs=0.06), kind
        squared, number = sums["spread.spatial"][:, 0]
        assert ((found - effect[known]).abs() < 4.5 * (squared / number / squares[known]).sqrt()).all(), kind


def test_the_chances_of_wirings_are_those_that_they_were_drawn_with() -> None:
    source = made(AGENTDROPOUT)
    taught(source, [], 10, 30)
    wirings = source.sample(4_000)
    assert wirings.chances.keys() == {"spatial", "temporal"}
    for kind, tensors in draws_of(wirings).items():
        allowed, taken = (tensor.numpy() for tensor in tensors)
        if kind == "decision":  # everyone is read: that is no draw
            continue
        tried = allowed.sum(0)
        share = (taken.sum(0) / np.maximum(tried, 1))[tried > 500]
        p = np.broadcast_to(wirings.chances[kind], tried.shape)[tried > 500]
        assert np.abs(share - p).max() < 0.07, kind
        assert p.std() > 0.1
    assert len(wirings.chances["spatial"]) == 2  # each round has its own


def test_what_the_source_has_cut_is_known_as_well_as_before_and_not_taken_to_harm() -> None:
    source, student = made(M3PRUNE, rate=0.6), made(EFFECTS, rate=0.0, interim=0)
    taught(source, [student], 10, 20)
    cut = torch.from_numpy(source.edge_scores().spatial < 0) & torch.from_numpy(source.edge_scores().spatial > -1)
    assert cut.any()
    before = {name: total.clone() for name, total in estimator(student).state.items()}
    taught(source, [student], 10, 15)
    after = estimator(student).state
    assert torch.equal(after["sums.spatial"][:, 0, cut], before["sums.spatial"][:, 0, cut])
    assert not torch.equal(after["sums.spatial"], before["sums.spatial"])
    assert not (estimator(student).certain_harm()["spatial"] & cut & (planted(5)[0] > 0)).any()
    assert torch.isfinite(student._edges.logits["spatial"]).all()


def test_an_interim_analysis_cuts_from_the_learners_own_graph_and_the_source_goes_on_drawing() -> None:
    def misled(wirings: Wirings, generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        hears = wirings.spatial[:, :, MISLEADS] | wirings.temporal[:, :, MISLEADS]
        right = (generator.random(hears.shape) < 0.7 - 0.5 * hears).astype(float)
        return right, (generator.random(len(right)) < right[:, -1].mean(1)).astype(float)

    source, student = made(AGENTPRUNE), made(EFFECTS)
    generator = np.random.default_rng(2)
    left = [sum(student.edges_left().values())]
    for _ in range(30):
        wirings = source.sample(10)
        scores = misled(wirings, generator)
        for one in (student, source):
            one.learn(wirings, *scores)
        left.append(sum(student.edges_left().values()))
    others = [0, 2, 3, 4]
    assert left[0] == left[9] > left[30]
    assert not student.inference().temporal[MISLEADS, others].any()
    assert source.sample(50).temporal[:, 1, MISLEADS][:, others].any()


def test_effects_learn_from_the_first_that_tries_all_edges_and_nobody_else_does() -> None:
    every = {str(one.name): made(one).spec for one in (EFFECTS, GPTSWARM, RLOO, M3PRUNE)}
    assert shared_training(every) == {"effects": "m3prune_rloo"}
    assert shared_training({"effects": every["effects"]}) == {}
    # GPTSwarm tries no temporal edge.
    assert shared_training({"effects": every["effects"], "gptswarm": every["gptswarm"]}) == {}
    # A team of one modality has one stage, and AgentDropout two.
    alone = {str(one.name): made(one, ["text"] * 3).spec for one in (AGENTDROPOUT, EFFECTS)}
    assert shared_training(alone) == {}


def test_wirings_that_nobody_drew_teach_no_effects() -> None:
    student = made(EFFECTS)
    undrawn = replace(student.sample(4), chances={})
    with pytest.raises(ValueError, match=r"\bchances\b"):
        student.learn(undrawn, np.zeros((4, 2, 5)), np.zeros(4))
    wrong = replace(student.sample(4), chances={"spatial": np.full((1, 3, 3), 0.5)})
    with pytest.raises(ValueError, match=r"wirings\.chances\[spatial\] .*\(1, 3, 3\)"):
        student.learn(wrong, np.zeros((4, 2, 5)), np.zeros(4))


@pytest.mark.slow
def test_a_source_that_learns_whom_to_read_teaches_that_too() -> None:
    source = Learner(TEAM, seed=1, variant=M3PRUNE, settings=LearnerSettings(decision="learned"))
    student = made(EFFECTS)
    generator = np.random.default_rng(0)
    while not source.finished:
        for _ in range(40):
            wirings = source.sample(10)
            read = wirings.decision[:, MISLEADS]
            for one in (student, source):
                one.learn(wirings, np.zeros((10, 2, 5)), 0.8 - 0.6 * read + 0.1 * generator.random(10))
        source.next_stage()
        student.next_stage()
    assert not student.inference_wirings().decision[0, MISLEADS]
    assert student.inference_wirings().decision[0].any()
