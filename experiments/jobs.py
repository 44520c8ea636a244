"""Kinds of run that `job=` can name. A new one is a file with its class, and an entry here."""

from actors.backends.redaction import keep_secret
from experiments.config.config import Config
from experiments.config.references import keys_of
from experiments.planning.checks import check_plan
from experiments.planning.plan import Plan, make_plan
from experiments.running.prune import Prune
from experiments.studies.behaviour.behaviour_job import BehaviourJob
from experiments.studies.game.game_job import GameJob
from experiments.studies.planted.planted_job import PlantedJob
from experiments.studies.recall import RecallJob
from experiments.studies.redundancy.redundancy_job import RedundancyJob
from experiments.studies.scaling.scaling_job import ScalingJob

JOBS = {
    job.name: job
    for job in (Prune(), RecallJob(), PlantedJob(), ScalingJob(), RedundancyJob(), BehaviourJob(), GameJob())
}


def plan_of(config: Config) -> Plan:
    """Makes the plan of a configuration. From then on this process removes its keys from replies.

    Raises UserError for anything that would end the run at its start or later.
    """
    keep_secret(keys_of(config))
    plan = make_plan(config, JOBS[config.job])
    check_plan(plan)
    plan.job.check(plan)
    return plan
