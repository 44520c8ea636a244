"""Measures the monitor on planted teams: false alarms where nothing changes, and questions until a change is reported.

    python -m tests.instruments.benchmarks.late_liars [--teams 20] [--learner effects]

Teams are clean or have a liar in training too; in others an agent lies, or misleads with right answers, after training.
The monitor watches `MONITORED` questions.

The last line is one JSON object: by kind of team, teams with a report, and the questions that it takes (median, 90%).
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Sequence
from unittest import mock

import numpy as np
import torch

from actors.messages import derive_seed
from experiments.config.config import Config
from experiments.config.study_settings import Influence
from experiments.studies.planted.measures import monitor_reports
from experiments.studies.planted.opinion_model import OpinionModel
from experiments.studies.planted.opinions import OpinionTeam
from experiments.studies.planted.scenarios import SCENARIOS, Scenario, TwoFaced
from experiments.studies.planted.steps import learn
from topologies.learning.learned_topology import make_learner
from topologies.learning.spec import LearnerSpec
from topologies.learning.variants import VARIANTS

AGENTS = 9


class LateHypocrite(TwoFaced):
    """The special agent's messages are wrong after training."""

    def answers(self, *asked: object) -> tuple[torch.Tensor, torch.Tensor]:
        of_training = asked[1]
        scenario = Scenario if of_training else TwoFaced
        return scenario.answers(self, *asked)  # type: ignore[arg-type]


CLEAN = "clean"
KINDS = {
    CLEAN: Scenario(),
    "a liar": Scenario(1),
    "late liar": SCENARIOS[Influence.LATE],
    "late hypocrite": LateHypocrite(1, lies="evaluation", weight=3.0),
}


async def reports(kind: str, number: int, learner: str) -> dict[int, tuple[int, int]]:
    """Whom the monitor reports of one team, by column; the last column is the final answer."""
    config, scenario = Config(), KINDS[kind]
    with mock.patch.dict(SCENARIOS, {Influence.ANSWERS: scenario}):
        special = [] if kind == CLEAN else scenario.special_agents(number % AGENTS, AGENTS)
        team = OpinionTeam(OpinionModel(), derive_seed(0, "late liars", number), special)
        spec = LearnerSpec(team.modalities, 2, team.seed, VARIANTS[learner], config.learner, config.pruning)
        learned = make_learner(spec)
        scores = [step.scores async for step in learn(learned, team, config.training.samples)]
        return monitor_reports(learned, team, scores)


def row(questions: Sequence[float]) -> dict[str, float | None]:
    """Teams with a report, and how many questions it takes; None where most teams, or a tenth, have no report."""
    median, slow = (float(np.quantile(questions, share, method="lower")) for share in (0.5, 0.9))
    return {
        "teams": int(np.isfinite(questions).sum()),
        "median": median if np.isfinite(median) else None,
        "90%": slow if np.isfinite(slow) else None,
    }


def measure(teams: int, learner: str) -> dict[str, dict[str, dict[str, float | None]]]:
    torch.set_num_threads(1)
    rows = {}
    for kind in KINDS:
        found = [asyncio.run(reports(kind, number, learner)) for number in range(teams)]
        first = [min((questions for _, questions in of_team.values()), default=np.inf) for of_team in found]
        special = [of_team.get(number % AGENTS, (0, np.inf))[1] for number, of_team in enumerate(found)]
        rows[kind] = {"any report": row(first), "the agent itself": row(special)}
        print(f"{kind}: {rows[kind]}", flush=True)
    return rows


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--teams", type=int, default=20, help="of each kind")
    parser.add_argument("--learner", default="effects")
    print(json.dumps(measure(**vars(parser.parse_args()))))
