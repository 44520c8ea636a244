"""`job=redundancy`: measures which edges can go (Definition 1 of M3Prune). Learners' cuts are compared with them."""

import json
from pathlib import Path

from experiments.records import sinks, usage
from experiments.running.conclude import RecordedRun
from experiments.running.discussion_job import DiscussionJob
from experiments.running.discussions import Discussions
from experiments.studies.redundancy.redundancy_tables import redundancy_tables
from experiments.studies.redundancy.removal import measure_redundancy

FILE = "redundancy.json"


class RedundancyJob(DiscussionJob):
    """Learns graphs, then takes every edge of the full graph away in turn."""

    name = "redundancy"
    reads = (*DiscussionJob.reads, "ablation", "topology", "learner", "judge", "judge_rubric", "redundancy")
    asks_team = True
    holds_out = True

    async def discuss(self, discussions: Discussions) -> None:
        context = discussions.context
        content = await measure_redundancy(discussions)
        context.recorder.run.write(FILE, json.dumps(content, indent=1) + "\n")

    def conclude(self, recorded: RecordedRun) -> bool:
        """Draws the figure, logs the W&B summary and prints the tables, from redundancy.json."""
        folder = recorded.folder
        metrics = folder.json(FILE)
        figures: list[Path] = []
        with sinks.beside("the figure", folder.path):
            from experiments.studies.redundancy.redundancy_figure import draw_edge_effects  # imports matplotlib

            figures = draw_edge_effects(folder, metrics)
        run_usage = usage.total(folder)
        # Put among the paired tests, which the tracker logs unchanged.
        groups = {f"redundancy/{kind}": row for kind, row in metrics["kinds"].items()}
        for learner, kinds in metrics["learners"].items():
            groups |= {f"redundancy/{learner}/{kind}": row for kind, row in kinds.items()}
        recorded.tracker.summary({**metrics, "paired": {**metrics["paired"], **groups}}, figures, run_usage)
        print()
        # Costs belong below the last table, after its notes.
        *tables_above, last_table = redundancy_tables(metrics)
        for table in tables_above:
            table.print()
        last_table.print(further=usage.notes(run_usage))
        return True
