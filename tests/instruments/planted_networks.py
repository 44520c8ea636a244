"""Utility and AUC of the networks on planted worlds: `python -m tests.instruments.planted_networks [seeds]`.

With all edges, no edges, `effects` and `gptswarm` to compare; each learner has 800 discussions, ten of each question.
Features of a question are its kind, one-hot, where the world shows it. Means and standard errors over teams.
"""

import sys
from dataclasses import replace

import numpy as np
import torch

from actors.messages import derive_seed
from experiments.attacks.attack_metrics import auc
from experiments.config.study_settings import Influence
from experiments.studies.planted.opinions import OpinionModel, OpinionTeam
from experiments.studies.planted.scenarios import SCENARIOS, unheard
from experiments.studies.planted.truth import random_wirings, utility
from topologies.learning.learned_topology import make_learner
from topologies.learning.learner_settings import PruningSettings
from topologies.learning.spec import LearnerSpec
from topologies.learning.variants import VARIANTS

WORLDS = (Influence.ANSWERS, Influence.MIXED, Influence.SHIFT, Influence.HYPOCRITE, Influence.COLLUSION)
LEARNERS = ("effects", "gptswarm", "g_designer", "agp", "eib_learner")
K, EVALUATED = 10, 2_000


def learned(team: OpinionTeam, name: str) -> tuple[float, float | None, float]:
    """Utility of a learner's graphs, AUC of the special agents' spatial edges, and spatial edges of a graph."""
    variant = VARIANTS[name]
    width = len(team.model.kinds) * variant.by_question
    spec = LearnerSpec(team.modalities, team.model.rounds, team.seed, variant, features=width)
    learner = make_learner(replace(spec, pruning=PruningSettings()))
    while not learner.finished:
        questions = team.questions(learner.pruning.steps, "learning", learner.stage)
        for step in range(learner.pruning.steps):
            features = questions.features[[step]].numpy() if width else None
            wirings = learner.sample(K, features=features)
            scores, utilities = team.discuss(questions, torch.full((K,), step), wirings, learner.chances())
            learner.learn(wirings, scores.numpy(), utilities.numpy())
        learner.next_stage()
    seen = team.questions(EVALUATED, "evaluation").features.numpy() if width else None
    graphs = learner.inference_wirings(seen)
    reached = utility(team, graphs, None if width else learner.reading(), EVALUATED)
    special = np.isin(np.arange(team.agents), team.special)
    compared = ~np.eye(team.agents, dtype=bool) & ~special
    ranks, of_special = learner.edge_scores().spatial, np.repeat(special[:, None], team.agents, 1)
    found = auc(ranks[of_special & compared], ranks[~of_special & compared])
    return reached, found, float(graphs.spatial[:, 0].sum((1, 2)).mean())


def main(seeds: int) -> None:
    """Prints a row for each world and graph."""
    torch.set_num_threads(1)
    print(f"{'world':<10} {'graph':<12} utility (s.e.)   AUC   spatial edges; {seeds} teams")
    for world in WORLDS:
        rows: dict[str, list[tuple[float, float | None, float]]] = {}
        for number in range(seeds):
            model = replace(OpinionModel(), influence=world)
            special = SCENARIOS[world].chosen(number % 9, model.text + model.visual)
            team = OpinionTeam(model, derive_seed(0, "planted", number), special)
            full = random_wirings(team, EVALUATED, 0, chances=(1.0, 1.0, 1.0))
            for name, graph in {"full": full, "none": unheard(full)}.items():
                of_graph = (utility(team, graph, None, EVALUATED), None, float(graph.spatial[:, 0].sum((1, 2)).mean()))
                rows.setdefault(name, []).append(of_graph)
            for name in LEARNERS:
                rows.setdefault(name, []).append(learned(team, name))
        for name, found in rows.items():
            values = np.array([row[0] for row in found])
            aucs = [row[1] for row in found if row[1] is not None]
            error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0.0
            mean = f"{np.mean(aucs):.2f}" if aucs else "  - "
            edges = np.mean([row[2] for row in found])
            print(f"{world:<10} {name:<12} {values.mean():.3f} ({error:.3f})    {mean}  {edges:5.1f}", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 6)
