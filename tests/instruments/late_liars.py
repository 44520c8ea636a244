"""Measures the monitor: false alarms on planted teams that do not change, and questions until a change is reported.

    python -m tests.instruments.late_liars [teams of each kind] [learner]

Teams are clean, or have a liar in training too; then one lies, or misleads with right answers, after training only.
Alarms are agents and final answers that are reported within `MONITORED` questions.
"""

from __future__ import annotations

import sys
from unittest import mock

import numpy as np
import torch

from actors.messages import derive_seed
from experiments.config.config import Config
from experiments.config.study_settings import Influence
from experiments.studies.planted.measures import watched
from experiments.studies.planted.opinion_model import OpinionModel
from experiments.studies.planted.opinions import OpinionTeam
from experiments.studies.planted.scenarios import SCENARIOS, Scenario, TwoFaced
from experiments.studies.planted.steps import learn
from topologies.learning.learned_topology import make_learner
from topologies.learning.spec import LearnerSpec
from topologies.learning.variants import VARIANTS


class LateHypocrite(TwoFaced):
    """The special agent's messages are wrong after training."""

    def answers(self, *asked: object) -> tuple[torch.Tensor, torch.Tensor]:
        return (Scenario.answers if asked[1] else TwoFaced.answers)(self, *asked)  # type: ignore[arg-type]


KINDS: dict[str, tuple[Scenario, bool]] = {
    "clean": (Scenario(), False),
    "a liar": (Scenario(1), True),
    "late liar": (SCENARIOS[Influence.LATE], True),
    "late hypocrite": (LateHypocrite(1, lies="evaluation", weight=3.0), True),
}


def found(scenario: Scenario, special: bool, number: int, learner: str) -> dict[int, tuple[int, int]]:
    """Whom the monitor reports of one team, by column; the last column is the final answer."""
    config, model = Config(), OpinionModel()
    with mock.patch.dict(SCENARIOS, {Influence.ANSWERS: scenario}):
        chosen = scenario.chosen(number % 9 if special else None, 9)
        team = OpinionTeam(model, derive_seed(0, "late liars", number), chosen if special else ())
        variant = VARIANTS[learner]
        own = make_learner(LearnerSpec(team.modalities, 2, team.seed, variant, config.learner, config.pruning))
        steps = list(learn(own, team, config.training.samples))
        return watched(own, team, [step.scores for step in steps])


def main(teams: int = 20, learner: str = "effects") -> None:
    torch.set_num_threads(1)
    for kind, (scenario, special) in KINDS.items():
        runs = [found(scenario, special, number, learner) for number in range(teams)]
        after = [min((shown for _, shown in run.values()), default=np.inf) for run in runs]
        liar = [run.get(number % 9, (0, np.inf))[1] for number, run in enumerate(runs)]
        for name, shown in (("any report", after), ("the agent itself", liar)):
            median, slow = (np.quantile(shown, q, method="lower") for q in (0.5, 0.9))
            print(
                f"{kind:15} {name:17} in {np.isfinite(shown).sum():3} of {teams} teams, after {median:3.0f} questions "
                f"(90%: {slow:3.0f})",
                flush=True,
            )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]), *sys.argv[2:])
