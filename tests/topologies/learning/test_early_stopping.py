"""Early stopping: when the rest of a stage would hardly change its cut, and never for noise alone."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Generator

from topologies.learning.early_stopping import EndCut, end_of_climb, end_of_estimate, misjudged
from topologies.learning.effects import Estimate
from topologies.learning.learner import Learner
from topologies.learning.learner_settings import LearnerSettings, PruningSettings
from topologies.learning.variants import AGENTDROPOUT, AGENTPRUNE, EFFECTS, GPTSWARM, M3PRUNE, RLOO, Variant

TEAM = ["text"] * 3
MIXED = ["text", "text", "visual", "visual"]
STEPS = 12
PRUNING = PruningSettings(rate=0.4, steps=STEPS, interim=4, cuts=4)


def certain(values: list[float]) -> Estimate:
    return Estimate(torch.tensor(values).double(), torch.zeros(len(values)).double())


@pytest.mark.parametrize(("room", "by_sign"), [(2, False), (2, True), (4, True)])
def test_what_is_misjudged_is_measured_from_the_boundary(room: int, by_sign: bool) -> None:
    now, end = torch.tensor([3.0, 2.0, 1.0, -4.0]), [3.0, -1.0, 1.0, -4.0]
    wrong, whole = misjudged(now, certain(end), EndCut(room, by_sign), Generator())
    # In the end the first and the third are kept in every case; the boundary is between the last two of the ranking
    # that it parts, or zero.
    boundary = 0.0
    expected = {(2, False): 1 + 1, (2, True): 1 + 1, (4, True): 1}[room, by_sign]
    assert wrong / 400 == pytest.approx(expected)
    assert whole / 400 == pytest.approx(sum(abs(value - boundary) for value in end))


def test_a_cut_that_leaves_all_edges_misjudges_none() -> None:
    assert misjudged(torch.randn(5), certain([1.0, -1, 2, 0, 3]), EndCut(5, False), Generator()) == (0.0, 0.0)


def test_an_estimate_changes_sides_as_often_as_forecast() -> None:
    noise, steps, left = Generator().manual_seed(0), 30, 10
    effect = torch.randn(400_000, generator=noise)
    seen = effect + torch.randn(400_000, generator=noise) / steps**0.5
    rest = effect + torch.randn(400_000, generator=noise) / left**0.5
    whole = (steps * seen + left * rest) / (steps + left)
    really = float(((seen < 0) != (whole < 0)).double().mean())
    end = end_of_estimate(seen * steps**0.5, steps, left)
    forecast = end.mean + end.variance.sqrt() * torch.randn(400_000, generator=noise)
    assert float(((seen < 0) != (forecast < 0)).double().mean()) == pytest.approx(really, rel=0.05)
    assert really > 0.02


@pytest.mark.parametrize(("seen", "share"), [(0.25, 0.12), (0.5, 0.09), (0.75, 0.05)])
def test_of_noise_alone_this_much_is_misjudged(seen: float, share: float) -> None:
    logits = torch.randn(5_000, generator=Generator().manual_seed(0))
    end = end_of_estimate(logits, round(100 * seen), round(100 * (1 - seen)))
    wrong, whole = misjudged(logits, end, EndCut(5_000, True), Generator().manual_seed(1))
    assert wrong / whole == pytest.approx(share, abs=0.008)


def test_the_end_of_a_climb_is_forecast_with_its_spread() -> None:
    noise, steps, left, paths = Generator().manual_seed(1), 30, 10, 50_000
    drift = 0.05 * torch.randn(paths, generator=noise).double()
    gradients = drift + 0.2 * torch.randn(steps + left, paths, generator=noise).double()
    size = (gradients[:steps] ** 2).mean(0).sqrt()
    now, total = (0.1 * gradients[:number].sum(0) / size for number in (steps, steps + left))
    sums = gradients[:steps].sum(0), (gradients[:steps] ** 2).sum(0)
    end = end_of_climb(now, *sums, steps, left, 0.1)
    surprise = (total - end.mean) / end.variance.sqrt()
    assert float(surprise.mean()) == pytest.approx(0, abs=0.02)
    # A t distribution of so many steps: as wide as it says, or a little wider.
    assert float(surprise.std()) == pytest.approx(1.03, abs=0.04)


def learned(
    variant: Variant, early_stop: float | None, harm: float, noise: float, seed: int = 0, rate: float = 0.3
) -> tuple[Learner, int]:
    """A learner of agents whom hearing the first one does `harm`, and its steps; it stops where it may."""
    settings = LearnerSettings(early_stop=early_stop, confirm=0, decision="all", learning_rate=rate)
    learner = Learner(TEAM, variant=replace(variant, staged=False), settings=settings, pruning=PRUNING, seed=seed)
    draw, steps = np.random.default_rng(seed), 0
    while not learner.finished:
        wirings = learner.sample(8)
        heard = wirings.spatial[:, :, 0] + (1.0 * wirings.temporal[:, :, 0])
        scores = 0.5 - harm * heard + noise * draw.standard_normal((8, 2, 3))
        learner.learn(wirings, scores, scores.mean((1, 2)))
        steps += 1
        if learner.may_stop():
            learner.next_stage()
    return learner, steps


@pytest.mark.parametrize("variant", [EFFECTS, M3PRUNE, RLOO])
def test_plain_effects_end_a_stage_early_and_are_cut_as_after_the_whole_stage(variant: Variant) -> None:
    whole, all_steps = learned(variant, 0.0, 0.4, 0.02)
    early, steps = learned(variant, 0.2, 0.4, 0.02)
    assert all_steps == STEPS
    assert steps < STEPS
    assert early.finished
    gone = ~early.inference().temporal[0]
    if variant is EFFECTS:
        assert gone.all()
    else:  # the same number of edges of each matrix, the harmful ones not among them
        assert early.edges_left() == whole.edges_left()
        assert gone.any()


@pytest.mark.slow
@pytest.mark.parametrize("variant", [EFFECTS, RLOO])
def test_noise_does_not_end_a_stage_before_three_quarters(variant: Variant) -> None:
    steps = [learned(variant, 0.03, 0.0, 0.3, seed, rate=0.1)[1] for seed in range(5)]
    assert min(steps) >= 9
    assert steps.count(STEPS) >= 4


def learner_of(team: list[str], variant: Variant, pruning: PruningSettings, early_stop: float | None = 1.0) -> Learner:
    return Learner(team, variant=variant, settings=LearnerSettings(early_stop=early_stop), pruning=pruning)


def test_it_may_stop_at_interim_analyses_only_and_by_the_state_alone() -> None:
    learner, draw = learner_of(TEAM, RLOO, PRUNING), np.random.default_rng(0)
    asked = []
    for _ in range(STEPS):
        learner.learn(learner.sample(4), np.zeros((4, 2, 3)), draw.random(4))
        again = learner_of(TEAM, RLOO, PRUNING)
        again.load(learner.state())
        assert again.may_stop() == learner.may_stop()
        asked.append(learner.may_stop())
    assert [step for step, stops in enumerate(asked, start=1) if stops] == [3, 6, 9]


@pytest.mark.parametrize("variant", [M3PRUNE, RLOO, EFFECTS, AGENTPRUNE, GPTSWARM, AGENTDROPOUT])
def test_every_variant_can_stop_and_leaves_as_many_edges_as_whole_stages(variant: Variant) -> None:
    """With `early_stop` of 1 any cut will do, so that stages end at their first interim analysis."""
    pruning, draw = PruningSettings(rate=0.4, steps=4, interim=2, cuts=2), np.random.default_rng(0)
    left, steps = [], []
    for early_stop in (0.0, 1.0):
        learner = learner_of(MIXED, variant, pruning, early_stop)
        steps.append(0)
        while not learner.finished:
            wirings = learner.sample(6)
            scores = 0.5 - 0.3 * wirings.temporal[:, :, 0] + 0.01 * draw.standard_normal((6, 2, 4))
            learner.learn(wirings, scores, scores.mean((1, 2)))
            steps[-1] += 1
            if learner.may_stop():
                learner.next_stage()
        left.append(sum(learner.edges_left().values()))
    assert steps[0] == 8
    # Without evidence a stage lasts to its end, and the last one ends with two steps of confirmation.
    assert steps[1] in (range(4, 9) if variant is EFFECTS else (4,))
    if variant in (M3PRUNE, RLOO, AGENTPRUNE):
        assert left[0] == left[1]
