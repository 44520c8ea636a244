"""`job=planted`: compares learners on teams of an opinion model, where the truth is known."""

from dataclasses import asdict

from experiments.planning.learners import check_samples
from experiments.planning.plan import Job, Plan
from experiments.records.recorder import RunFolder
from experiments.records.tracking import Tracker
from topologies.learning.spec import LearnerSpec
from topologies.learning.variants import VARIANTS


class PlantedJob(Job):
    """Explores worlds of simulated opinions, without agents and models."""

    name = "planted"
    reads = ("learner", "planted")
    learns = False

    def check(self, plan: Plan) -> None:
        config = plan.config
        for name in config.planted.learners:
            variant = VARIANTS[name]
            check_samples(variant, config.training.samples)
            LearnerSpec(["text", "visual"], variant=variant, settings=config.learner, pruning=config.pruning).check()

    def run(self, plan: Plan, folder: RunFolder) -> bool:
        config = plan.config
        from experiments.studies.planted import testbed  # imports PyTorch and matplotlib

        with Tracker(folder.path, asdict(config), config.wandb) as tracker:
            testbed.run(folder, config, tracker)
        return True
