"""The learners of a run are small enough that Ray can start their process again."""

from pathlib import Path

import cloudpickle

from experiments.config.loading import load
from experiments.jobs import plan_of
from experiments.running.inputs import open_dataset, open_store
from experiments.running.learned_graphs import learner_makers

INLINED_BYTES = 100_000  # of an argument; Ray keeps a larger one in an object store, which a node's loss empties
BY_QUESTION = ["effects", "g_designer", "agp", "eib_learner"]


def test_learners_of_graphs_by_question_share_what_describes_the_team(tmp_path: Path) -> None:
    config = load(["experiment=mmqa_prune", f"methods=[{','.join(BY_QUESTION)}]", "data.limit=1"])
    plan = plan_of(config)
    dataset = open_dataset(plan, tmp_path)
    store = open_store(config.retrieval, dataset, tmp_path)

    makers = learner_makers(plan, store.encoder)

    assert set(makers) == set(BY_QUESTION)
    assert len(cloudpickle.dumps(makers)) < INLINED_BYTES
