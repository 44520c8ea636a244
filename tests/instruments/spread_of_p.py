"""Spread of M3Prune's probabilities between modalities after learning, where edges matter and where all is chance.

M3Prune's Figs. 3 and 19 show such a spread. `python -m tests.instruments.spread_of_p` prints a row for each world: if
the rows are alike, a spread is no sign of learning.
"""

from dataclasses import replace

import numpy as np

from experiments.config.study_settings import Influence
from experiments.studies.planted.opinion_model import OpinionModel
from experiments.studies.planted.opinions import OpinionTeam
from experiments.studies.planted.steps import learn
from topologies.learning.learner import Learner
from topologies.learning.variants import M3PRUNE, RLOO, Variant

TEAMS = 4


def probabilities(variant: Variant, influence: Influence) -> np.ndarray:
    """All p of edges between modalities, pruned ones as they were last, of some teams with one adversary each."""
    found = []
    for number in range(TEAMS):
        adversaries = [] if influence == Influence.CHANCE else [2 * number]
        team = OpinionTeam(replace(OpinionModel(), influence=influence), number, adversaries)
        learner = Learner(team.modalities, rounds=team.model.rounds, seed=number, variant=variant)
        for _ in learn(learner, team, samples=10):
            pass
        state, text = learner.state(), np.array([str(modality) == "text" for modality in team.modalities])
        logits = np.stack([state[f"logits.{kind}"][0] for kind in ("spatial", "temporal")])
        found.append(1 / (1 + np.exp(-logits[:, text[:, None] != text])))
    return np.concatenate(found, axis=None)


def main() -> None:
    print(f"{'world':<10} {'learner':<14} {'mean':>6} {'sd':>6} {'below .2':>9} {'.2 to .5':>9} {'above .5':>9}")
    for influence in (Influence.ANSWERS, Influence.CHANCE):
        for variant in (M3PRUNE, RLOO):
            p = probabilities(variant, influence)
            shares = (p < 0.2).mean(), ((p >= 0.2) & (p < 0.5)).mean(), (p >= 0.5).mean()
            cells = " ".join(f"{share:>9.2f}" for share in shares)
            print(f"{influence:<10} {variant.name:<14} {p.mean():>6.3f} {p.std():>6.3f} {cells}", flush=True)


if __name__ == "__main__":
    main()
