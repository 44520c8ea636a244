"""Learning that stops early: when what is left of a stage would hardly change its cut, and never for noise alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Generator

from topologies.learning.candidate_graphs import around, graph_of
from topologies.learning.effects import Estimate
from topologies.learning.learner import Learner
from topologies.learning.list_learner import ListLearner
from topologies.learning.settings import Estimator, Graph, LearnerSettings, PruningSettings, Rule
from topologies.learning.settling import EndCut, end_of_climb, end_of_estimate, misjudged

TEAM = ["text"] * 3
MIXED = ["text", "text", "visual", "visual"]
STEPS = 12
LOOKS = PruningSettings(rate=0.4, steps=STEPS, looks=4, cuts=4)


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


def test_an_estimate_changes_sides_as_often_as_foreseen() -> None:
    noise, steps, left = Generator().manual_seed(0), 30, 10
    effect = torch.randn(400_000, generator=noise)
    seen = effect + torch.randn(400_000, generator=noise) / steps**0.5
    rest = effect + torch.randn(400_000, generator=noise) / left**0.5
    whole = (steps * seen + left * rest) / (steps + left)
    really = float(((seen < 0) != (whole < 0)).double().mean())
    end = end_of_estimate(seen * steps**0.5, steps, left)
    foreseen = end.mean + end.variance.sqrt() * torch.randn(400_000, generator=noise)
    assert float(((seen < 0) != (foreseen < 0)).double().mean()) == pytest.approx(really, rel=0.05)
    assert really > 0.02


@pytest.mark.parametrize(("seen", "share"), [(0.25, 0.12), (0.5, 0.09), (0.75, 0.05)])
def test_of_noise_alone_this_much_is_misjudged(seen: float, share: float) -> None:
    logits = torch.randn(5_000, generator=Generator().manual_seed(0))
    end = end_of_estimate(logits, round(100 * seen), round(100 * (1 - seen)))
    wrong, whole = misjudged(logits, end, EndCut(5_000, True), Generator().manual_seed(1))
    assert wrong / whole == pytest.approx(share, abs=0.008)


@pytest.mark.parametrize("adam", [False, True])
def test_the_end_of_a_climb_is_foreseen_with_its_spread(adam: bool) -> None:
    noise, steps, left, walks = Generator().manual_seed(1), 30, 10, 50_000
    drift = 0.05 * torch.randn(walks, generator=noise).double()
    gradients = drift + 0.2 * torch.randn(steps + left, walks, generator=noise).double()
    size = (gradients[:steps] ** 2).mean(0).sqrt() if adam else 1.0
    now, total = (0.1 * gradients[:number].sum(0) / size for number in (steps, steps + left))
    sums = gradients[:steps].sum(0), (gradients[:steps] ** 2).sum(0)
    end = end_of_climb(now, *sums, steps, left, 0.1, adam)
    surprise = (total - end.mean) / end.variance.sqrt()
    assert float(surprise.mean()) == pytest.approx(0, abs=0.02)
    # A t distribution of so many steps: as wide as it says, or a little wider.
    assert float(surprise.std()) == pytest.approx(1.03, abs=0.04)


def learned(settings: LearnerSettings, harm: float, noise: float, seed: int = 0) -> tuple[Learner, int]:
    """A learner of agents of whom hearing the first does `harm`; it stops where it says that all has settled."""
    learner, draw, steps = Learner(TEAM, settings=settings, pruning=LOOKS, seed=seed), np.random.default_rng(seed), 0
    while not learner.finished:
        wirings = learner.sample(8)
        heard = wirings.spatial[:, :, 0] + (1.0 * wirings.temporal[:, :, 0])
        scores = 0.5 - harm * heard + noise * draw.standard_normal((8, 2, 3))
        learner.learn(wirings, scores, scores.mean((1, 2)))
        steps += 1
        if learner.settled():
            learner.next_stage()
    return learner, steps


@pytest.mark.parametrize("estimator", ["effects", "reinforce", "rloo"])
def test_what_is_plain_settles_and_cuts_as_the_whole_stage_would(estimator: str) -> None:
    settings = {"estimator": estimator, "staged": False, "decision": "all", "learning_rate": 0.3}
    whole, all_steps = learned(LearnerSettings(**settings), 0.4, 0.02)
    early, steps = learned(LearnerSettings(**settings, settled=0.2), 0.4, 0.02)
    assert all_steps == STEPS
    assert steps < STEPS
    assert early.finished
    # The same number of edges of each matrix, the harmful ones not among them.
    if estimator != "effects":
        assert early.edges_left() == whole.edges_left()
    gone = ~early.inference().temporal[0]
    assert gone.any()
    if estimator == "effects":
        assert gone.all()


@pytest.mark.parametrize("estimator", ["effects", "rloo"])
def test_noise_does_not_settle_before_three_quarters(estimator: str) -> None:
    settings = LearnerSettings(estimator=estimator, staged=False, decision="all", settled=0.03)
    steps = [learned(settings, 0.0, 0.3, seed)[1] for seed in range(5)]
    assert min(steps) >= 9
    assert steps.count(STEPS) >= 4


def test_it_is_asked_at_looks_only_and_answers_by_the_state_alone() -> None:
    settings = LearnerSettings(estimator="rloo", staged=False, decision="all", settled=1.0)
    learner, draw = Learner(TEAM, settings=settings, pruning=LOOKS), np.random.default_rng(0)
    asked = []
    for _ in range(STEPS):
        learner.learn(learner.sample(4), np.zeros((4, 2, 3)), draw.random(4))
        again = Learner(TEAM, settings=settings, pruning=LOOKS)
        again.load(learner.state())
        assert again.settled() == learner.settled()
        asked.append(learner.settled())
    assert [step for step, settled in enumerate(asked, start=1) if settled] == [3, 6, 9]


def test_settings_that_could_never_settle_are_refused() -> None:
    with pytest.raises(ValueError, match="pruning looks is 0"):
        Learner(TEAM, settings=LearnerSettings(settled=0.1), pruning=PruningSettings(looks=0))
    with pytest.raises(ValueError, match="settled must be from 0 to 1"):
        Learner(TEAM, settings=LearnerSettings(settled=2.0))


@pytest.mark.parametrize(
    ("settings", "rule"),
    [
        ({"estimator": "reinforce"}, "progressive"),
        ({"estimator": "rloo", "per_round": True}, "progressive"),
        ({"estimator": "effects", "per_round": True}, "progressive"),
        ({"estimator": "reinforce", "staged": False, "optimiser": "ascent"}, "once"),
        ({"estimator": "reinforce", "staged": False, "decision": "learned"}, "likely"),
        ({"estimator": "reinforce", "staged": False, "per_round": True}, "agents"),
    ],
)
def test_every_rule_can_be_asked_and_leaves_what_its_whole_stages_would(settings: dict[str, Any], rule: str) -> None:
    """With `settled` of 1 any cut will do, so that stages end at their first look."""
    pruning, draw = PruningSettings(rate=0.4, steps=4, looks=2, cuts=2, rule=Rule(rule)), np.random.default_rng(0)
    left, steps = [], []
    for settled in (None, 1.0):
        learner = Learner(MIXED, settings=LearnerSettings(**settings, settled=settled), pruning=pruning)
        steps.append(0)
        while not learner.finished:
            wirings = learner.sample(6)
            scores = 0.5 - 0.3 * wirings.temporal[:, :, 0] + 0.01 * draw.standard_normal((6, 2, 4))
            learner.learn(wirings, scores, scores.mean((1, 2)))
            steps[-1] += 1
            if learner.settled():
                learner.next_stage()
        left.append(sum(learner.edges_left().values()))
    assert steps == [8, 8 if settings["estimator"] == "effects" and (learner.evidence() or 0) > 0.05 else 4]
    if rule in ("progressive", "once") and settings["estimator"] != "effects":
        assert left[0] == left[1]


def test_edges_in_lists_settle_too() -> None:
    settings = LearnerSettings(estimator=Estimator.RLOO, staged=False, settled=1.0, shared_orders=True)
    pruning = PruningSettings(steps=4, looks=2, cuts=2, rate=0.4)
    pairs = around(graph_of(Graph.RING, 4, seed=0))
    learner = ListLearner(MIXED, candidates=pairs, settings=settings, pruning=pruning)
    asked = []
    for _ in range(4):
        wirings = learner.sample(4)
        learner.learn(wirings, np.zeros((4, 2, 4)), np.random.default_rng(0).random(4))
        asked.append(learner.settled())
    assert asked == [False, True, False, False]
