"""Compares teams of the opinion model with one agent that has the same tokens, by regime.

    python -m tests.instruments.benchmarks.planted_regimes [--teams 12]

A team of nine agents discusses along all edges, or along the graph that `effects` has learned. Its twin is the honest
agent with the highest skill, chosen with knowledge of the skills. The twin answers a question as often as the messages
of the full graph allow, a turn and a message that is read counting alike, and takes the plurality of its answers.

The opinion model has no repeated answers of an agent. Assumed is that a share r of an agent's questions is one where
all its answers are the same one, and that its answers to the other questions are independent given the kind of
question. Then

    twin = r * one agent + (1 - r) * plurality of independent answers,

and the team beats its twin where r is above

    break-even = (plurality - team) / (plurality - one agent).

Where agents see a part of the evidence, an agent answers right only if it has seen it, with its skill, and no answer of
the twin is right on the other questions.

The last line is one JSON object: by regime the means over teams, with 95% t intervals for team minus twin at
r = `ALIKE`, and the break-even r of the means. Where that is above 1, no twin is worse than the team.
"""

import argparse
import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pandas as pd
import torch
from scipy.stats import t
from torch import Generator, Tensor
from torch.nn.functional import one_hot

from actors.messages import derive_seed
from experiments.config.config import Config
from experiments.studies.planted.measures import learned_graph, price
from experiments.studies.planted.opinion_model import OpinionModel
from experiments.studies.planted.opinions import OpinionTeam
from experiments.studies.planted.steps import learn, learner_spec
from experiments.studies.planted.truth import random_wirings, utility
from topologies.learning.learned_topology import make_learner
from topologies.learning.variants import VARIANTS
from topologies.wiring import Floats

QUESTIONS = 2_000
ALIKE = 0.8
"""Share r of the table: close to that of the embedded reader's twin (docs/recipes.md)."""


@dataclass(frozen=True)
class Regime:
    """What differs from the default team.

    changes: parameters of the opinion model. strength: factor of all skills. evidence: share of the evidence that each
    agent sees. liars: number of agents that argue for one wrong answer.
    """

    changes: Mapping[str, Any] = field(default_factory=dict)
    strength: float = 1.0
    evidence: float = 1.0
    liars: int = 0


REGIMES = {
    "all agents see all evidence": Regime(),
    "each sees 3/4 of it": Regime(evidence=0.75),
    "each sees half of it": Regime(evidence=0.5),
    "each sees a quarter": Regime(evidence=0.25),
    "weak agents (half the skill)": Regime(strength=0.5),
    "strong agents (1.4 times the skill)": Regime(strength=1.4),
    "no specialists": Regime({"skill_own": 0.45, "skill_other": 0.45, "skill_both": 0.45}),
    "no noise": Regime({"noise": 0.0, "distraction": 0.0}),
    "three times the noise": Regime({"noise": 0.15, "distraction": 0.3}),
    "one round": Regime({"rounds": 1}),
    "four rounds": Regime({"rounds": 4}),
    "one of nine lies": Regime(liars=1),
    "two lie": Regime(liars=2),
    "four lie": Regime(liars=4),
    "half of it, and one lies": Regime(evidence=0.5, liars=1),
    "half of it, and four lie": Regime(evidence=0.5, liars=4),
}


def plurality(skill: Tensor, answers: int, options: int, seed: int) -> float:
    """Share of questions whose plurality of independent answers is right; skill: of each question [questions]."""
    generator = Generator().manual_seed(seed)
    shape = (len(skill), answers)
    is_right = torch.rand(shape, generator=generator) < skill[:, None]
    wrong_answers = torch.randint(1, options, shape, generator=generator)
    votes = one_hot(torch.where(is_right, 0, wrong_answers), options).sum(1)
    # Ties are broken at random.
    winners = (votes + torch.rand(votes.shape, generator=generator)).argmax(1)
    return float((winners == 0).double().mean())


def opinion_team(regime: Regime, number: int) -> OpinionTeam:
    """A team of the regime, whose agents know the answer if they have the skill and have seen the evidence."""
    model = replace(OpinionModel(), **regime.changes)
    agents = model.text + model.visual
    liars = [(number + place * agents // regime.liars) % agents for place in range(regime.liars)]
    team = OpinionTeam(model, derive_seed(0, "planted", number), liars)
    team.skill = (team.skill * regime.strength).clamp(max=0.95) * regime.evidence
    return team


async def learned_accuracy(team: OpinionTeam) -> float:
    """Accuracy along the graph that `effects` learns."""
    config = Config()
    learner = make_learner(learner_spec(VARIANTS["effects"], team, config))
    async for _ in learn(learner, team, config.training.samples):
        pass
    wirings, reading = learned_graph(learner, team, QUESTIONS)
    return utility(team, wirings, reading, QUESTIONS)


def accuracies(regime: Regime, number: int) -> dict[str, float]:
    """Accuracies of one agent, the plurality of its independent answers, its twin, and the team's two graphs."""
    team = opinion_team(regime, number)
    full = random_wirings(team, QUESTIONS, 0, chances=(1.0, 1.0, 1.0))
    questions = team.questions(QUESTIONS, "evaluation")

    skill = team.skill[:, questions.kind]
    skill[team.special] = 0.0
    single_skill = skill[skill.mean(1).argmax()]
    turns, readings = price(full)
    # With the decision agent's turn.
    answers = turns + 1 + readings
    seed = derive_seed(team.seed, "twin")
    voted = regime.evidence * plurality(single_skill / regime.evidence, answers, team.model.options, seed)
    single = float(single_skill.mean())
    return {
        "one agent": single,
        "plurality": voted,
        "twin": ALIKE * single + (1 - ALIKE) * voted,
        "full": utility(team, full, None, QUESTIONS),
        "effects": asyncio.run(learned_accuracy(team)),
    }


def gain(team: Floats, twin: Floats) -> list[float]:
    """Mean of team minus twin over teams, with a 95% interval."""
    differences = team - twin
    error = t.ppf(0.975, len(differences) - 1) * differences.std(ddof=1) / len(differences) ** 0.5
    mean = differences.mean()
    return [float(mean), float(mean - error), float(mean + error)]


def measure(teams: int, regimes: Sequence[str]) -> dict[str, dict[str, Any]]:
    torch.set_num_threads(1)
    rows: dict[str, dict[str, Any]] = {}
    for name in regimes:
        scores = pd.DataFrame([accuracies(REGIMES[name], number) for number in range(teams)])
        means = scores.mean()
        row: dict[str, Any] = means.to_dict()
        for graph in ("full", "effects"):
            row[f"{graph} minus twin"] = gain(scores[graph].to_numpy(), scores["twin"].to_numpy())
            even = (means["plurality"] - means[graph]) / (means["plurality"] - means["one agent"])
            row[f"{graph} breaks even"] = float(even)
        rows[name] = row
        print(f"{name:36} {json.dumps(row)}", flush=True)
    return rows


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--teams", type=int, default=12)
    parser.add_argument("--regimes", nargs="+", choices=REGIMES, default=list(REGIMES), metavar="REGIME")
    print(json.dumps(measure(**vars(parser.parse_args()))))
