"""Effects of edges: unbiased estimates of a randomised experiment, shrunk to their sender, and learned from quickly."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from topologies.learning.effects import (
    Estimate,
    among_peers,
    credited_sum,
    excess_variance,
    posterior,
    raw_effects,
    sender_effects,
    sender_means,
    surprise,
)
from topologies.learning.learner import Learner
from topologies.learning.learner_settings import LearnerSettings, PruningSettings
from topologies.learning.objective import leave_one_out
from topologies.learning.variants import EFFECTS, RLOO
from topologies.wiring import Wirings

HARMFUL = 1
UNCONFIRMED = LearnerSettings(confirm=0)


def doubles(*values: object) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def drawn_with(probability: Tensor, beta: Tensor, groups: int, k: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """A receiver's score is its question's, plus beta over the senders it hears, plus noise; [groups * k, 1, ...]."""
    generator = torch.Generator().manual_seed(3)
    n = len(beta)
    allowed = torch.rand(groups * k, 1, n, n, generator=generator) < 0.8
    taken = allowed & (torch.rand(allowed.shape, generator=generator) < probability)
    question = torch.randn(groups, 1, n, generator=generator).repeat_interleave(k, 0)
    noise = 0.1 * torch.randn(groups * k, 1, n, generator=generator)
    scores = question + (taken * beta).sum(2) + noise
    return taken, allowed, scores, torch.arange(groups).repeat_interleave(k)


@pytest.mark.slow
def test_the_raw_effect_is_unbiased_whatever_the_probabilities_and_however_few_samples_a_question_has() -> None:
    beta = torch.tensor([[0.0, 0.3, -0.2], [0.1, 0.0, 0.5], [-0.4, 0.2, 0.1]])
    probability = torch.tensor([[0.5, 0.2, 0.7], [0.4, 0.5, 0.6], [0.3, 0.8, 0.5]])
    taken, allowed, scores, groups = drawn_with(probability, beta, groups=40_000, k=2)
    credit = leave_one_out(scores, groups)
    unforeseen = surprise(taken, allowed, probability[None])
    found = raw_effects(credited_sum(unforeseen, credit)[0], (unforeseen**2).sum(0)[0], credit.var())
    assert ((found.mean - beta).abs() < 4 * found.variance.sqrt()).all()
    assert found.variance.max() < 0.01**2 * 2


def test_an_edge_that_could_not_be_drawn_counts_for_nothing_and_stays_unknown() -> None:
    allowed = torch.tensor([[[[False, True], [False, False]]]])
    unforeseen = surprise(allowed, allowed, torch.full((1, 2, 2), 0.5))
    products, squares = credited_sum(unforeseen, torch.ones(1, 1, 2)), (unforeseen**2).sum(0)
    assert squares.tolist() == [[[0.0, 0.25], [0.0, 0.0]]]
    found = raw_effects(products, squares, torch.tensor(1.0))
    assert found.mean.tolist() == [[[0.0, 2.0], [0.0, 0.0]]]
    assert found.variance.isinf().sum() == 3


def test_a_sender_mean_weighs_edges_by_precision() -> None:
    found = sender_means(Estimate(doubles([1, 4]), doubles([1, 2])))
    assert found.mean.item() == pytest.approx(2)
    assert found.variance.item() == pytest.approx(2 / 3)
    nothing = sender_means(Estimate(doubles([0, 0]), doubles([torch.inf, torch.inf])))
    assert (nothing.mean.item(), nothing.variance.item()) == (0, torch.inf)


def test_scatter_beyond_the_variances_is_found_and_none_is_never_certain() -> None:
    generator = torch.Generator().manual_seed(1)
    variance = torch.rand(4000, generator=generator).double() + 0.5
    noise = torch.randn(4000, generator=generator).double()
    wide = Estimate(noise * (variance + 2).sqrt(), variance)
    assert excess_variance(wide, torch.zeros(()).double(), 0).item() == pytest.approx(2, rel=0.1)
    narrow = Estimate(noise * 0.1, variance)
    assert 0 < excess_variance(narrow, torch.zeros(()).double(), 0).item() < 0.02


def test_a_sender_with_little_evidence_is_judged_by_its_own_score() -> None:
    scores = doubles(0.1, 0.2, 0.3, 0.4, 0.5, 0.6)
    means = (scores - 0.35) * 0.4
    variance = torch.full((6,), 1e-4).double()
    means[0], variance[0] = 1.0, torch.inf
    found = sender_effects(Estimate(means[:, None], variance[:, None]), scores - 0.35)
    assert found.mean[0].item() == pytest.approx(-0.1, abs=0.01)


def test_the_posterior_is_closer_to_the_truth_than_the_raw_effects() -> None:
    generator = torch.Generator().manual_seed(7)
    gains = []
    for _ in range(20):
        scores = torch.rand(9, generator=generator).double()
        sender = 0.1 * (scores - 0.5) + 0.02 * torch.randn(9, generator=generator).double()
        truth = sender[:, None] + 0.01 * torch.randn(9, 9, generator=generator).double()
        raw = Estimate(truth + 0.08 * torch.randn(9, 9, generator=generator), torch.full((9, 9), 0.08**2).double())
        found = posterior(raw, sender_effects(raw, among_peers(scores, torch.arange(9) > 4)))
        gains.append(((found.mean - truth) ** 2).mean().item() / ((raw.mean - truth) ** 2).mean().item())
        assert ((found.mean - truth).abs() < 3 * found.variance.sqrt()).double().mean() > 0.85
    assert np.mean(gains) < 0.1


def answers(wirings: Wirings, generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Whoever hears agent 1 is right less often; the final answer is right as often as those that are read, or less
    when agent 1 is among them."""
    k, rounds, n = wirings.order.shape
    hears = wirings.spatial[:, :, HARMFUL] | wirings.temporal[:, :, HARMFUL]
    chance = np.full((k, rounds, n), 0.6) - 0.4 * hears
    chance[:, :, HARMFUL] = 0.1
    right = (generator.random(chance.shape) < chance).astype(float)
    read = wirings.decision
    share = (right[:, -1] * read).sum(1) / np.maximum(read.sum(1), 1)
    return right, (generator.random(k) < share - 0.4 * read[:, HARMFUL]).astype(float)


def taught(steps: int = 40, **options: PruningSettings) -> Learner:
    learner = Learner(["text"] * 3 + ["visual"] * 2, seed=2, **options)
    generator = np.random.default_rng(0)
    while not learner.finished:
        for _ in range(steps):
            wirings = learner.sample(10)
            learner.learn(wirings, *answers(wirings, generator))
        learner.next_stage()
    return learner


def test_a_misleading_agent_ranks_last_and_is_heard_by_nobody_after_the_paper_s_budget() -> None:
    learner = taught()
    for kind, scores in learner.edge_scores()._asdict().items():
        others = np.delete(np.arange(5), HARMFUL)
        harmful = scores[HARMFUL, others]
        honest = np.array([scores[j, i] for j in others for i in others if i != j])
        assert (harmful[:, None] < honest).mean() > 0.97, kind
    edges = learner.inference()
    assert not np.delete(edges.spatial[HARMFUL], HARMFUL).any()
    assert not np.delete(edges.temporal[HARMFUL], HARMFUL).any()
    read = learner.inference_wirings().decision[0]
    assert not read[HARMFUL]
    assert read.any()


def test_probabilities_follow_the_evidence_and_ranks_agree_with_them() -> None:
    learner = taught()
    p, scores = learner.probabilities(), learner.edge_scores()
    for mine, ranked in zip(p, scores, strict=True):
        # At the end of a stage, what is left has a positive effect, or is of a receiver that would lose more than half.
        assert (mine[mine > 0] > 0.4).all()
        assert np.array_equal(mine[mine > 0], ranked[mine > 0])
        assert (ranked[(mine == 0) & np.isfinite(ranked)] < 0).all()


def test_without_interim_analyses_a_stage_cuts_at_its_end_and_leaves_at_most_the_paper_s_share() -> None:
    learner = Learner(["text"] * 4, pruning=PruningSettings(rate=0.2, steps=10, interim=0), settings=UNCONFIRMED)
    generator = np.random.default_rng(1)
    for step in range(10):
        assert learner.edges_left() == {"text>text spatial": 12, "text>text temporal": 16, "agents>decision": 4}, step
        wirings = learner.sample(10)
        report = learner.learn(wirings, *answers(wirings, generator))
    share = learner.pruning.schedule(0.2)[-1].share
    assert share == pytest.approx(np.prod([1 - 0.2 * np.exp(-t * (t + 1) / 16) for t in range(1, 9)]))
    assert report.edges["text>text spatial"] <= round(12 * share)
    assert report.edges["text>text temporal"] <= round(16 * share)
    left = learner.edges_left()
    learner.next_stage()
    assert learner.finished
    assert learner.edges_left() == left  # the last step had already done it


def test_the_decision_agent_keeps_a_reader_even_where_all_are_harmful() -> None:
    learner = Learner(["text"] * 3, pruning=PruningSettings(rate=0.0))
    generator = np.random.default_rng(1)
    for _ in range(30):
        wirings = learner.sample(10)
        final = generator.random(10) < 0.9 - 0.3 * wirings.decision.sum(1)
        learner.learn(wirings, np.zeros((10, 2, 3)), final)
    learner.next_stage()
    assert learner.inference_wirings().decision.sum() == 1


def test_where_nothing_ever_scored_nothing_speaks_against_an_edge() -> None:
    learner = Learner(["text"] * 3, pruning=PruningSettings(rate=0.0))
    for _ in range(3):
        learner.learn(learner.sample(4), np.zeros((4, 2, 3)), np.ones(4))
    learner.next_stage()
    assert learner.edges_left() == {"text>text spatial": 6, "text>text temporal": 9, "agents>decision": 3}
    assert (learner.probabilities().temporal == 0.5).all()


def test_what_is_known_of_a_sender_carries_over_to_its_edges_of_the_next_stage() -> None:
    learner = Learner(
        ["text"] * 3 + ["visual"] * 2,
        variant=replace(EFFECTS, staged=True),
        pruning=PruningSettings(rate=0.0, interim=0),
    )
    generator = np.random.default_rng(0)
    for _ in range(40):
        wirings = learner.sample(10)
        learner.learn(wirings, *answers(wirings, generator))
    learner.next_stage()
    p = learner.probabilities().spatial
    assert p[HARMFUL, 3:].max() < 0.2 < p[[0, 2], 3:].min()
    assert wirings_are_fair(learner.sample(2000))


def wirings_are_fair(wirings: Wirings) -> bool:
    """What is learned on is drawn with probability one half, whatever is believed."""
    share = wirings.temporal[:, 1].sum(0) / np.maximum(wirings.allowed.temporal[:, 1].sum(0), 1)
    drawn = share[wirings.allowed.temporal[0, 1]]
    return bool((np.abs(drawn - 0.5) < 0.06).all())


def test_later_steps_of_a_stage_can_be_sampled_before_they_come_and_those_of_a_gradient_cannot() -> None:
    learner = Learner(["text"] * 3, pruning=PruningSettings(steps=3, interim=0), settings=UNCONFIRMED)
    ahead_of_time = [learner.sample(4, ahead=ahead) for ahead in range(3)]
    assert learner.lookahead() == 2
    for step, wirings in enumerate(ahead_of_time):
        assert np.array_equal(learner.sample(4).spatial, wirings.spatial)
        assert (learner.chances().temporal == 0.5).all()
        learner.learn(wirings, np.arange(24).reshape(4, 2, 3) / 24, np.arange(4) / 4)
        assert learner.lookahead() == max(0, 1 - step)
    by_gradient = Learner(["text"] * 3, variant=RLOO)
    assert by_gradient.lookahead() == 0
    with pytest.raises(ValueError, match=r"^ahead .*\b1\b"):
        by_gradient.sample(4, ahead=1)


def test_steps_can_be_sampled_up_to_the_next_interim_analysis() -> None:
    learner = Learner(["text"] * 3, pruning=PruningSettings(steps=10, interim=3), settings=UNCONFIRMED)
    seen = []
    for _ in range(10):
        seen.append(learner.lookahead())
        learner.learn(learner.sample(2), np.zeros((2, 2, 3)), np.zeros(2))
    assert seen == [3, 2, 1, 0, 2, 1, 0, 2, 1, 0]


@given(st.integers(1, 60), st.integers(1, 60))
def test_interim_analyses_and_cuts_of_one_number_come_after_the_same_steps_evenly_and_the_last_at_the_end(
    steps: int, times: int
) -> None:
    settings = PruningSettings(steps=steps, interim=times, cuts=times, rate=0.5)
    interim = [step + 1 for step in range(steps) if settings.steps_to_interim(step) == 1]
    shares = [1.0, *(cut.share for cut in settings.schedule(0.5))]
    assert interim == [step for step in range(1, steps + 1) if shares[step] < shares[step - 1]]
    assert len(interim) == min(times, steps)
    assert interim[-1] == steps
    gaps = np.diff([0, *interim])
    assert gaps.max() - gaps.min() <= 1


def test_what_is_certain_to_harm_goes_while_the_stage_lasts_with_what_leads_to_it_and_ranks_last() -> None:
    learner = Learner(["text"] * 3 + ["visual"] * 2, seed=2)
    generator = np.random.default_rng(0)
    left = [sum(learner.edges_left().values())]
    for _ in range(30):
        wirings = learner.sample(10)
        learner.learn(wirings, *answers(wirings, generator))
        left.append(sum(learner.edges_left().values()))
    # At an interim analysis, each ten steps after the last; on the way nothing is cut.
    cuts = [step for step, (before, now) in enumerate(pairwise(left), 1) if now < before]
    assert cuts
    assert set(cuts) <= {10, 20, 30}
    drawn = learner.sample(500)
    for taken in (drawn.spatial[:, :, HARMFUL], drawn.temporal[:, :, HARMFUL], drawn.decision[:, HARMFUL]):
        assert not taken.any()
    assert not drawn.spatial[..., HARMFUL].any()  # nobody hears it: what it hears is no matter
    scores = learner.edge_scores().temporal
    others = np.delete(np.arange(5), HARMFUL)
    assert scores[HARMFUL, others].max() < scores[np.ix_(others, others)].min()


def noise(learner: Learner, seed: int) -> Learner:
    """A learner of discussions in which nothing that anybody hears matters."""
    generator = np.random.default_rng(seed)
    while not learner.finished:
        wirings = learner.sample(10)
        learner.learn(wirings, generator.random((10, 2, 5)) < 0.5, generator.random(10) < 0.5)
    return learner


@pytest.mark.slow
def test_where_nothing_matters_nothing_is_certain_and_a_simple_graph_is_left_in_all_but_few_runs() -> None:
    learned = [noise(Learner(["text"] * 3 + ["visual"] * 2, seed=seed), seed) for seed in range(20)]
    edges_left = [sum(learner.edges_left().values()) for learner in learned]
    # All edges, or those to the decision agent alone where they did better by chance on the confirming questions.
    assert edges_left.count(50) + edges_left.count(5) >= 18
    assert edges_left.count(50) > 10
    assert sum(learner.without_evidence() is None for learner in learned) <= 2


@pytest.mark.slow
def test_where_own_answers_score_nothing_the_final_one_s_utility_decides() -> None:
    learner = Learner(["text"] * 3 + ["visual"] * 2, seed=2)
    generator = np.random.default_rng(0)
    while not learner.finished:
        wirings = learner.sample(10)
        learner.learn(wirings, np.zeros((10, 2, 5)), answers(wirings, generator)[1])
    assert learner.evidence() < 0.05
    read = learner.inference_wirings().decision[0]
    assert read.any()
    assert not read[HARMFUL]


def test_specialists_of_the_modality_with_fewer_questions_are_not_held_to_be_worse() -> None:
    visual = torch.arange(6) > 3
    scores = doubles(0.3, 0.5, 0.7, 0.9, 0.1, 0.2)
    means = doubles(0.01, 0.03, 0.05, 0.07, 0.04, 0.04)  # the visual ones help as much, and less is known of them
    variance = torch.where(visual, 1e-2, 1e-3).double()
    edges = Estimate(means[:, None].expand(6, 4), variance[:, None].expand(6, 4))
    among_their_own = sender_effects(edges, among_peers(scores, visual)).mean[visual]
    among_all = sender_effects(edges, scores - scores.mean()).mean[visual]
    assert among_their_own.min() > 0.03 > among_all.min()
