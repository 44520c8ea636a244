"""`job=game`: plays attacks against defences, and solves the game. Then an attacker responds that knows the defence."""

import json
from itertools import islice

from actors.errors import UserError
from experiments.analysis.run_table import game_table
from experiments.datasets.item import Dataset
from experiments.evidence.library import LabelledLibrary
from experiments.planning.plan import Plan
from experiments.planning.topologies import known_of, make_topology
from experiments.records.recorder import Scoring
from experiments.running.calibration import calibrate
from experiments.running.conclude import RecordedRun, conclude
from experiments.running.discussion_job import DiscussionJob
from experiments.running.discussions import Discussions
from experiments.studies.game.attacker import without_search
from experiments.studies.game.game import ROUNDS, play

FILE = "game.json"


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
        for method in plan.methods:
            if method.needs_graph or method.learner or method.needs_library:
                raise UserError(
                    f"methods: job=game has no {method.name}, which learns or searches; name a graph:<file>"
                )
        without_search(plan)

    def discussions(self, plan: Plan, questions: int) -> int:
        game = plan.config.game
        attacks = len(game.attacks) + ROUNDS
        return questions * (attacks + 3) + game.training * (attacks + (ROUNDS + 2) * game.tries)

    def scoring(self, plan: Plan, dataset: Dataset) -> Scoring:
        return Scoring(dataset, with_training=True)

    async def discuss(self, discussions: Discussions) -> None:
        await discussions.prepare()
        context = discussions.context
        config = context.config
        training = list(islice(context.dataset.train(), config.game.training))
        if len(training) < config.game.training:
            raise UserError(f"game.training={config.game.training}: there are {len(training)} questions; lower it")
        library = LabelledLibrary(context.evidence, ())
        # An attacker that knows the defence is honest while agents are watched.
        watched = await calibrate(context) if context.plan.watched_questions else ()
        defences = []
        for method in context.plan.methods:
            method_facts = known_of(method, context.plan, context.dataset, context.recorder.run, ended=False)
            defences.append(make_topology(method, config, context.agents, {}, library, watched, method_facts))
        game = await play(context, defences, training)
        context.recorder.run.write(FILE, json.dumps(game, indent=1) + "\n")

    def conclude(self, recorded: RecordedRun) -> bool:
        game = recorded.folder.json(FILE)
        methods: list[str] = []
        pairs = []
        for name, row in game["defences"].items():
            attacked = f"{name}.{row['response']}"
            clean = f"{name}.none"
            methods += [clean, attacked]
            pairs.append((attacked, clean))
        compared = (tuple(methods), tuple(pairs))
        *_, lacking = conclude(recorded, compared, trial=True, further={"game": game})
        print()
        game_table(game, recorded.dataset.metric).print()
        return not lacking
