"""`job=redundancy`: measures which edges can go (Definition 1), whether learners cut them, and prints the results."""

from __future__ import annotations

import json

from actors.errors import UserError
from experiments.config.config import Config
from experiments.config.study_settings import RedundancyConfig
from experiments.datasets.item import Dataset
from experiments.planning.plan import Plan
from experiments.records.recorder import RunFolder
from experiments.records.tracking import Tracker
from experiments.records.usage import total
from experiments.running.discussion_job import DiscussionJob
from experiments.running.discussions import Discussions
from experiments.studies.redundancy.redundancy_summary import FILE, write
from experiments.studies.redundancy.redundancy_table import tables, usage_lines
from experiments.studies.redundancy.removal import Redundancy


class RedundancyJob(DiscussionJob):
    """Learns graphs, then takes every edge of the full graph away in turn."""

    name = "redundancy"
    asks_team = True
    holds_out = True

    def check_counted(self, plan: Plan) -> None:
        # The full graph, and one without each spatial, decision and temporal edge.
        n, rounds = len(plan.roles.team), plan.config.topology.rounds
        least = (1 + n * (n - 1) // 2 + n + (n * n if rounds > 1 else 0)) * _questions(plan.config)
        raise UserError(
            f"job=redundancy is not counted: after learning it holds {least:,} to {2 * least:,} discussions of nearly "
            "the full graph; experiment=mmqa_prune methods=[full] dry_run=true with the same settings counts one"
        )

    async def discuss(self, discussions: Discussions) -> None:
        await discussions.prepare()
        context = discussions.context
        write(context, await Redundancy(discussions, _questions(context.config)).run())

    def conclude(self, plan: Plan, folder: RunFolder, dataset: Dataset, answering: str, tracker: Tracker) -> bool:
        """Draws the figure, logs the W&B summary and prints the tables, from redundancy.json."""
        from experiments.studies.redundancy.redundancy_figure import draw  # imports matplotlib

        metrics = json.loads((folder.path / FILE).read_text())
        drawn = draw(folder, metrics)
        # Put among the paired tests, which the tracker logs unchanged.
        groups = {f"redundancy/{kind}": row for kind, row in metrics["kinds"].items()}
        for learner, kinds in metrics["learners"].items():
            groups |= {f"redundancy/{learner}/{kind}": row for kind, row in kinds.items()}
        tracker.summary({**metrics, "paired": {**metrics["paired"], **groups}}, drawn, total(folder))
        print()
        # Costs belong below the last table, after its notes.
        *before, last = tables(metrics)
        for table in before:
            table.print()
        last.print(further=usage_lines(folder))
        return True


def _questions(config: Config) -> int:
    assert isinstance(config, RedundancyConfig)
    return config.redundancy.questions
