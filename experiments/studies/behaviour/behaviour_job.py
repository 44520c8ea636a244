"""`job=behaviour`: measures what irrelevant evidence and wrong colleagues do to one agent."""

from __future__ import annotations

from actors.errors import UserError
from actors.spawned import cores
from experiments.config.config import Config
from experiments.config.study_settings import BehaviourConfig, BehaviourSettings
from experiments.datasets.item import Dataset
from experiments.planning.plan import Plan
from experiments.records.recorder import RunFolder
from experiments.records.tracking import Tracker
from experiments.running.conclude import conclude, draws_figures
from experiments.running.discussion_job import DiscussionJob
from experiments.running.discussions import Discussions
from experiments.studies.behaviour import behaviour_table
from experiments.studies.behaviour.measure import Behaviour, conditions


class BehaviourJob(DiscussionJob):
    """Asks one agent every question under every condition."""

    name = "behaviour"
    learns = False

    def check(self, plan: Plan) -> None:
        if plan.config.attack.kind != "none":
            raise UserError(f"attack={plan.config.attack.kind}: job=behaviour has none; leave it out")
        if plan.models.judge:
            raise UserError(f"judge={plan.models.judge.settings.kind}: job=behaviour has none; leave it out")

    def check_counted(self, plan: Plan) -> None:
        asked = len(conditions(_settings(plan.config)))
        raise UserError(
            f"job=behaviour is not counted: it takes one turn per question under each of {asked} conditions; "
            "experiment=mmqa_prune methods=[single] dry_run=true with the same settings counts one"
        )

    async def discuss(self, discussions: Discussions) -> None:
        await discussions.prepare()
        await Behaviour(discussions, _settings(discussions.context.config)).run()

    def conclude(self, plan: Plan, folder: RunFolder, dataset: Dataset, answering: str, tracker: Tracker) -> None:
        config = plan.config
        about = behaviour_table.about(config, _settings(config), dataset, answering)
        at_once = cores() if draws_figures(config) else 0
        behaviour_table.show(folder, *conclude(plan, folder, about, tracker, at_once), about)


def _settings(config: Config) -> BehaviourSettings:
    assert isinstance(config, BehaviourConfig)
    return config.behaviour
