"""`job=scaling`: counts the discussions that learners need to rank a liar's edges, by the size of the team."""

from dataclasses import asdict
from functools import partial
from itertools import product
from typing import Annotated

from pydantic import Field, TypeAdapter

from actors.errors import UserError
from experiments.planning.learners import check_samples
from experiments.planning.plan import Job, Plan
from experiments.records.recorder import RunFolder
from experiments.records.tracking import Tracker
from topologies.learning.variants import VARIANTS


class ScalingJob(Job):
    """Trains learners on teams of simulated opinions, without agents and models."""

    name = "scaling"
    reads = ("learner", "scaling")
    learns = False

    def check(self, plan: Plan) -> None:
        for name in plan.config.scaling.learners:
            check_samples(VARIANTS[name], plan.config.training.samples)
        from experiments.studies.planted.scenarios import SCENARIOS  # imports PyTorch

        influence = plan.config.scaling.influence
        if SCENARIOS[influence].ranked != "below":
            raise UserError(f"scaling.influence={influence.value}: its special agents do no harm; choose `answers`")

    def run(self, plan: Plan, folder: RunFolder) -> bool:
        config = plan.config
        # These import PyTorch and matplotlib.
        from experiments.studies.planted.testbed import outcomes_of, write_results
        from experiments.studies.scaling.scaled_team import Reached, ScaledTeam, measure
        from experiments.studies.scaling.scaling_figure import draw_scaling
        from experiments.studies.scaling.scaling_summary import scaling_metrics, scaling_table, summarise

        with Tracker(folder.path, asdict(config), config.wandb) as tracker:
            # Large teams take longest, and come first: else the last one keeps the other cores waiting.
            sizes = sorted(config.scaling.agents, reverse=True)
            teams = [ScaledTeam(size, number) for size, number in product(sizes, range(config.scaling.seeds))]
            tasks = {team: partial(measure, team, config) for team in teams}
            outcomes = outcomes_of(folder, tasks, TypeAdapter(Annotated[list[Reached], Field(min_length=1)]))
            summaries = summarise(outcomes, config.scaling, config.seed)
            write_results(folder, "scaling.json", config.scaling, outcomes, summaries)
            tracker.summary(scaling_metrics(summaries), draw_scaling(folder.figures, summaries))
            print()
            scaling_table(summaries, config.scaling).print()
        return True
