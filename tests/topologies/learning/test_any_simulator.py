"""The learner with a simulator of another kind: its documented loop, and whatever else may be asked of it."""

from typing import Any

import numpy as np
import pytest

from tests.support.paths import ROOT
from topologies.learning.learner import Learner, PruningSettings
from topologies.learning.variants import EFFECTS, M3PRUNE, Variant
from topologies.wiring import Wirings

TEAM = ["text", "text", "text", "visual", "visual"]


class Simulator:
    """Noisy answers: who hears the misleading agent is less often right, and who hears another is more often."""

    def __init__(self, misleading: int = 1, smooth: bool = False) -> None:
        self.misleading, self.smooth, self.generator = misleading, smooth, np.random.default_rng(0)

    def __call__(self, wirings: Wirings) -> tuple[np.ndarray, np.ndarray]:
        hears = wirings.spatial[:, :, self.misleading] | wirings.temporal[:, :, self.misleading]
        others = np.delete(wirings.spatial | wirings.temporal, self.misleading, axis=2).any(2)
        chance = 0.5 - 0.3 * hears + 0.15 * others
        chance[:, :, self.misleading] = 0.05
        easy = self.generator.normal(0, 0.15)
        scores = np.clip(chance + easy + self.generator.normal(0, 0.15, chance.shape), 0, 1)
        if not self.smooth:
            scores = (self.generator.random(scores.shape) < scores).astype(float)
        return scores, scores[:, -1].mean(1)


def auc(learner: Learner, misleading: int = 1) -> float:
    """How surely an edge of the misleading agent to another ranks below one between others."""
    others = [agent for agent in range(learner.agents) if agent != misleading]
    kinds = []
    for scores in learner.edge_scores():
        honest = np.array([scores[j, i] for j in others for i in others if i != j])
        kinds.append((scores[misleading, others][:, None] < honest).mean())
    return float(np.mean(kinds))


def test_the_documented_example_runs_as_printed_and_silences_the_misleading_agent() -> None:
    text = (ROOT / "docs" / "learning.md").read_text().split("```python\n")[1].split("```")[0]
    names: dict[str, Any] = {"simulate": Simulator()}
    exec(text, names)
    learner, spatial, temporal = names["learner"], names["spatial"], names["temporal"]
    assert isinstance(learner, Learner)
    assert learner.finished
    assert auc(learner) > 0.95
    others = np.delete(np.arange(learner.agents), 1)
    assert not spatial[1, others].any()
    assert not temporal[1, others].any()
    assert spatial.any()
    assert temporal.any()


def taught(steps: int, k: int = 10, smooth: bool = False, explicit: int | None = None, **options: Any) -> Learner:
    learner, discuss = Learner(TEAM, **options), Simulator(smooth=smooth)
    for step in range(steps):
        wirings = learner.sample(k)
        learner.learn(wirings, *discuss(wirings))
        if explicit and (step + 1) % explicit == 0:
            learner.next_stage()
    return learner


@pytest.mark.parametrize(("explicit", "smooth"), [(None, False), (30, True), (40, False)])
def test_whoever_calls_next_stage_or_nobody_the_misleading_agent_is_found(smooth: bool, explicit: int | None) -> None:
    learner = taught(80, smooth=smooth, explicit=explicit)
    assert learner.finished
    assert auc(learner) > 0.95


@pytest.mark.parametrize("variant", [EFFECTS, M3PRUNE])
@pytest.mark.parametrize(
    ("team", "rounds", "k"),
    [(["text"], 2, 4), (["visual"], 1, 1), (["text"] * 3, 1, 5), (TEAM, 3, 1), (["text"] * 15 + ["visual"] * 15, 2, 4)],
)
def test_any_team_any_rounds_and_one_sample_will_do(variant: Variant, team: list[str], rounds: int, k: int) -> None:
    learner = Learner(np.array(team), rounds=rounds, variant=variant, pruning=PruningSettings(steps=2))
    generator = np.random.default_rng(1)
    while not learner.finished:
        wirings = learner.sample(k)
        report = learner.learn(wirings, generator.random((k, rounds, len(team))).tolist(), generator.random(k).tolist())
        assert np.isfinite([report.gradient_norm, report.objective]).all()
    edges = learner.inference()
    assert edges.spatial.shape == edges.temporal.shape == (len(team), len(team))
    assert not np.isnan(learner.edge_scores().spatial).any()
    assert learner.inference_wirings().decision.any()
