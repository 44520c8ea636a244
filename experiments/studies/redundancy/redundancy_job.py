"""`job=redundancy`: measures which edges can go (Definition 1), and whether learners cut them."""

from __future__ import annotations

from actors.errors import UserError
from experiments.config.config import Config
from experiments.config.study_settings import RedundancyConfig
from experiments.datasets.item import Dataset
from experiments.planning.plan import Plan
from experiments.records.recorder import RunFolder
from experiments.records.tracking import Tracker
from experiments.running.discussion_job import DiscussionJob
from experiments.running.discussions import Discussions
from experiments.studies.redundancy import redundancy_summary, redundancy_table
from experiments.studies.redundancy.edges import edges_of, full_graph
from experiments.studies.redundancy.removal import Redundancy


class RedundancyJob(DiscussionJob):
    """Learns graphs, then takes every edge of the full graph away in turn."""

    name = "redundancy"
    asks_team = True
    holds_out = True

    def check_counted(self, plan: Plan) -> None:
        graphs = 1 + len(edges_of(full_graph(len(plan.roles.team), plan.config.topology.rounds)))
        least = graphs * _questions(plan.config)
        raise UserError(
            f"job=redundancy is not counted: after learning it holds {least:,} to {2 * least:,} discussions of nearly "
            "the full graph; experiment=mmqa_prune methods=[full] dry_run=true with the same settings counts one"
        )

    def draws(self, config: Config) -> bool:
        return True

    async def discuss(self, discussions: Discussions) -> None:
        await discussions.prepare()
        context = discussions.context
        redundancy_summary.write(context, await Redundancy(discussions, _questions(context.config)).run())

    def conclude(self, plan: Plan, folder: RunFolder, dataset: Dataset, answering: str, tracker: Tracker) -> None:
        redundancy_table.conclude(folder, tracker)


def _questions(config: Config) -> int:
    assert isinstance(config, RedundancyConfig)
    return config.redundancy.questions
