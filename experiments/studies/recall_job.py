"""`job=recall`: measures how well retrieval finds the evidence."""

from __future__ import annotations

import json
from dataclasses import asdict

from actors.errors import UserError
from experiments.planning.plan import Job, Plan
from experiments.records.progress import Progress
from experiments.records.recorder import RunFolder
from experiments.running.inputs import open_cache, open_dataset, open_store
from experiments.studies import recall


class RecallJob(Job):
    """Searches for the evidence of every question, without agents."""

    name = "recall"
    learns = False

    def check_counted(self, plan: Plan) -> None:
        raise UserError("job=recall calls no model: there is nothing to count")

    def run(self, plan: Plan, folder: RunFolder) -> None:
        config = plan.config
        cache = open_cache(config)
        dataset = open_dataset(plan, cache)
        store = open_store(plan.retrieval, dataset, cache)
        with Progress() as progress:
            rows = recall.recall_report(dataset, store, limit=config.data.limit, progress=progress, seed=config.seed)
        (folder.path / "recall.json").write_text(json.dumps([asdict(row) for row in rows], indent=2) + "\n")
        print()
        recall.table(rows).print()
