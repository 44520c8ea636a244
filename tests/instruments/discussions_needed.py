"""Counts the discussions that `effects` needs on planted worlds:

    python -m tests.instruments.discussions_needed [seeds] [worlds]

Each row: discussions until the special agents' edges rank apart from all others with an AUC of .95, for the first time
and for good (medians of teams; inf where most never do), all discussions, also those that confirm the graph, the final
AUC and utility, and runs with an edge that was cut as certain to harm. A world with `-clean` has no special agents.
"""

import sys
from dataclasses import replace

import numpy as np
import torch

from actors.messages import derive_seed
from experiments.config.study_settings import Influence
from experiments.studies.planted.measures import along, ranking
from experiments.studies.planted.opinions import OpinionModel, OpinionTeam
from experiments.studies.planted.scenarios import SCENARIOS
from experiments.studies.planted.steps import learn
from experiments.studies.planted.truth import true_effects, utility
from topologies.learning.learned_topology import make_learner
from topologies.learning.spec import LearnerSpec

K, EVALUATED, FOUND = 10, 1_500, 0.95
WORLDS = ("answers", "hypocrite", "saint", "collusion", "delayed", "answers-clean", "idle", "overload", "xor", "zero")


def learned(team: OpinionTeam) -> tuple[float, float, float, float, float, bool]:
    """First and last discussion from which on the AUC is reached (inf: never), discussions, AUC, utility, any harm."""
    learner, truth = make_learner(LearnerSpec(team.modalities, team.model.rounds, team.seed)), true_effects(team, 4_000)
    steps = [(step.turns, ranking(learner.edge_scores(), truth, team)) for step in learn(learner, team, K)]
    # Each discussion has a turn of every agent in every round, and one of the decision agent.
    used = np.cumsum([turns for turns, _ in steps]) / (team.agents * team.model.rounds + 1)
    reached = [aucs.get("auc_adversary") or 0.0 for _, aucs in steps]
    there = np.array(reached) >= FOUND
    first = used[there.argmax()] if there.any() else np.inf
    # One more than the last place where it is not reached.
    since = int(np.flatnonzero(~there).max(initial=-1)) + 1
    kept = used[since] if since < len(used) else np.inf
    value = utility(team, *along(learner, team, EVALUATED), EVALUATED)
    harm = any(bool(cut.any()) for cut in learner.certain_harm() or ())
    return first, kept, used[-1], reached[-1], value, harm


def main(seeds: int, worlds: tuple[str, ...]) -> None:
    """Prints a row for each world."""
    torch.set_num_threads(1)
    print(f"{'world':<14} first  kept  ended    AUC  utility  certain; {seeds} teams")
    for name in worlds:
        world, rows = Influence(name.removesuffix("-clean")), []
        for number in range(seeds):
            model = replace(OpinionModel(), influence=world)
            special = [] if name.endswith("-clean") else SCENARIOS[world].chosen(number % 9, model.text + model.visual)
            rows.append(learned(OpinionTeam(model, derive_seed(0, "planted", number), special)))
        first, kept, *_ = np.median(rows, axis=0)
        _, _, ended, auc, value, harm = np.mean(rows, axis=0)
        print(
            f"{name:<14} {first:5.0f} {kept:5.0f}  {ended:5.0f}  {auc:5.3f}    {value:.3f}  {harm * seeds:7.0f}",
            flush=True,
        )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 9, tuple(sys.argv[2:]) or WORLDS)
