"""Spread of M3Prune's probabilities between modalities after learning, where edges matter and where all is chance.

    python -m tests.instruments.benchmarks.spread_of_p [--teams 4]

M3Prune's Figs. 3 and 19 show such a spread. If the rows of both worlds are alike, a spread is no sign of learning.

The last line is one JSON object: mean, standard deviation and shares of the probabilities, by world and learner.
"""

import argparse
import asyncio
import json
from dataclasses import replace

import numpy as np

from experiments.config.study_settings import Influence
from experiments.studies.planted.opinion_model import OpinionModel
from experiments.studies.planted.opinions import OpinionTeam
from experiments.studies.planted.steps import learn
from topologies.learning.learner import Learner
from topologies.learning.variants import M3PRUNE, RLOO, Variant
from topologies.wiring import Floats

AGENTS = 9


async def probabilities(variant: Variant, influence: Influence, number: int) -> Floats:
    """All p of edges between modalities, pruned ones as they were last, of a team with an adversary, or of chance."""
    adversaries = [] if influence == Influence.CHANCE else [2 * number % AGENTS]
    team = OpinionTeam(replace(OpinionModel(), influence=influence), number, adversaries)
    learner = Learner(team.modalities, rounds=team.model.rounds, seed=number, variant=variant)
    async for _ in learn(learner, team, samples=10):
        pass

    state = learner.state()
    is_text = np.array([str(modality) == "text" for modality in team.modalities])
    logits = np.stack([state[f"logits.{kind}"][0] for kind in ("spatial", "temporal")])
    return 1 / (1 + np.exp(-logits[:, is_text[:, None] != is_text].ravel()))


def measure(teams: int) -> dict[str, dict[str, float]]:
    rows = {}
    for influence in (Influence.ANSWERS, Influence.CHANCE):
        for variant in (M3PRUNE, RLOO):
            p = np.concatenate([asyncio.run(probabilities(variant, influence, number)) for number in range(teams)])
            measures = {
                "mean": p.mean(),
                "sd": p.std(),
                "below .2": (p < 0.2).mean(),
                ".2 to .5": ((p >= 0.2) & (p < 0.5)).mean(),
                "above .5": (p >= 0.5).mean(),
            }
            key = f"{influence} {variant.name}"
            rows[key] = {name: round(float(value), 3) for name, value in measures.items()}
            print(f"{key:24} {rows[key]}", flush=True)
    return rows


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--teams", type=int, default=4, help="of each world and learner")
    print(json.dumps(measure(**vars(parser.parse_args()))))
