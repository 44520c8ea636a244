"""`job=game`: plays attacks against defences, and solves the game. Then an attacker responds that knows the defence."""

import json
from itertools import islice

from actors.errors import UserError
from experiments.analysis.run_table import game_table
from experiments.datasets.item import Dataset, TitlesOf
from experiments.evidence.library import LabelledLibrary
from experiments.planning.plan import Plan
from experiments.planning.topologies import make_topology
from experiments.records.recorder import RunFolder, Scoring
from experiments.records.tracking import Tracker
from experiments.running.calibration import calibrate
from experiments.running.conclude import conclude
from experiments.running.discussion_job import DiscussionJob
from experiments.running.discussions import Discussions
from experiments.studies.game.attacker import without_search
from experiments.studies.game.game import ROUNDS, play


class GameJob(DiscussionJob):
    """Evaluates every defence without an attack, under each, and under its best response."""

    name = "game"
    reads = (*DiscussionJob.reads, "ablation", "topology", "game")
    learns = False
    holds_out = True
    is_counted = True

    def check(self, plan: Plan) -> None:
        if plan.config.attack.kind != "none" or plan.models.judge:
            raise UserError("job=game has its attacks in game.attacks, and no judge: leave out attack= and judge=")
        if other := [one.name for one in plan.methods if one.needs_graph or one.learner or one.needs_library]:
            raise UserError(f"methods: job=game has no {other[0]}, which learns or searches; name a graph:<file>")
        without_search(plan)

    def discussions(self, plan: Plan, questions: int) -> int:
        game, attacks = plan.config.game, len(plan.config.game.attacks) + ROUNDS
        return questions * (attacks + 3) + game.training * (attacks + (ROUNDS + 2) * game.tries)

    def scoring(self, plan: Plan, dataset: Dataset) -> Scoring:
        return Scoring(dataset, with_training=True)

    async def discuss(self, discussions: Discussions) -> None:
        await discussions.prepare()
        context, config = discussions.context, discussions.context.config
        training = list(islice(context.dataset.train(), config.game.training))
        if len(training) < config.game.training:
            raise UserError(f"game.training={config.game.training}: there are {len(training)} questions; lower it")
        library = LabelledLibrary(context.evidence, ())
        # An attacker that knows the defence is honest while agents are watched.
        watched = await calibrate(context) if context.plan.watched_questions else ()
        made = (make_topology(one, config, context.agents, {}, library, watched) for one in context.plan.methods)
        found = await play(discussions, list(made), training)
        (context.recorder.run.path / "game.json").write_text(json.dumps(found, indent=1) + "\n")

    def conclude(self, plan: Plan, folder: RunFolder, dataset: Dataset, titles_of: TitlesOf, tracker: Tracker) -> bool:
        found = json.loads((folder.path / "game.json").read_text())
        pairs = tuple((f"{name}.{row['response']}", f"{name}.none") for name, row in found["defences"].items())
        methods = tuple(name for pair in pairs for name in reversed(pair))
        *_, lacking = conclude(plan, folder, dataset, titles_of, tracker, (methods, pairs), True, {"game": found})
        print()
        game_table(found, dataset.metric).print()
        return not lacking
