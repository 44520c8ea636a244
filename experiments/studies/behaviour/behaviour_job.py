"""`job=behaviour`: measures what irrelevant evidence and wrong colleagues do to one agent."""

import json

from actors.errors import UserError
from experiments.datasets.item import Dataset
from experiments.planning.plan import Plan
from experiments.records import usage
from experiments.records.recorder import Scoring
from experiments.running.conclude import RecordedRun, conclude
from experiments.running.discussion_job import DiscussionJob
from experiments.running.discussions import Discussions
from experiments.studies.behaviour.behaviour_table import behaviour, behaviour_table
from experiments.studies.behaviour.measure import NOTHING, RELEVANT, ask_every_question, conditions
from experiments.studies.behaviour.misled_scoring import MisledScoring

FILE = "behaviour.json"


class BehaviourJob(DiscussionJob):
    """Asks one agent every question under every condition."""

    name = "behaviour"
    reads = (*DiscussionJob.reads, "figures", "behaviour")
    learns = False

    def check(self, plan: Plan) -> None:
        if plan.config.attack.kind != "none":
            raise UserError(f"attack={plan.config.attack.kind}: job=behaviour has none; leave it out")
        if plan.models.judge:
            raise UserError(f"judge={plan.models.judge.settings.kind}: job=behaviour has none; leave it out")

    def scoring(self, plan: Plan, dataset: Dataset) -> Scoring:
        return MisledScoring(dataset, plan.config.seed)

    async def discuss(self, discussions: Discussions) -> None:
        config = discussions.context.config
        await discussions.prepare()
        await ask_every_question(discussions, config.behaviour)

    def conclude(self, recorded: RecordedRun) -> bool:
        config = recorded.plan.config
        folder = recorded.folder
        names = tuple(condition.name for condition in conditions(config.behaviour))
        pairs = tuple((name, RELEVANT) for name in names if name not in (NOTHING, RELEVANT))
        metrics, run_usage, lacking = conclude(recorded, (names, pairs))
        summary = behaviour(folder, metrics, config.seed)
        folder.write(FILE, json.dumps(summary, indent=2) + "\n")
        print()
        behaviour_table(summary, metrics, recorded.dataset.metric).print(further=usage.notes(run_usage))
        return not lacking
