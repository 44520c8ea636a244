"""Holds a recorded discussion again: its topology asks the same turns, and the recorded messages answer them.

The turns are those that agents received, with attacks, defences and tampered messages. The wiring of a training
discussion is drawn again by a learner that learns again from all discussions before it.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, fields, replace
from itertools import islice
from typing import Any

from actors.errors import UserError, first_of
from actors.messages import Message, Question, Trace, Turn, TurnResult
from actors.runtime.inline import Local
from experiments.attacks.attack import Attack
from experiments.datasets.item import Item
from experiments.inspection.opened_run import OpenedRun
from experiments.planning.topologies import further_topology, known_of, make_topology, recorded_for
from experiments.records.recorder import RunFolder
from experiments.running.calibration import CALIBRATION
from experiments.running.evaluation import at_question
from experiments.running.inputs import watched_items
from experiments.running.learned_graphs import learned_topologies, learner_makers
from experiments.running.recorded_learner import score_step
from experiments.running.speakers import attacked_discussion
from experiments.running.training_questions import TrainingQuestions
from topologies.learning.course import Course
from topologies.learning.learned_topology import LearnedTopology
from topologies.topology import Speaker, Topology
from topologies.wiring import Floats

Recorded = tuple[Topology, Item, int, int]


@dataclass(frozen=True)
class HeldAgain:
    """Recorded discussion, and the turns and own memories of its agents by the turn's id.

    folder, phase: those of its traces. note: what could not be held as it was recorded; empty for nothing.
    discuss: holds it with another team, under its `attack` or one that spares turns.
    """

    folder: RunFolder
    phase: str
    trace: Trace
    turns: Mapping[str, Turn]
    memories: Mapping[str, Message]
    note: str
    item: Item
    question: Question
    attack: Attack
    discuss: Callable[[Speaker, Attack], Awaitable[Trace]]


class HeldDiscussions:
    """Holds the discussions of a run again. Raises UserError for one that is not recorded, or damaged."""

    def __init__(self, opened: OpenedRun) -> None:
        self._opened = opened
        self._plan, self._dataset, self._run = opened.plan, opened.dataset, opened.run
        settings, attackable = self._plan.config.attack, self._plan.roles.attackable
        self._attack = Attack(settings, attackable, self._dataset, self._plan.config.seed)
        self._attack.prepare(opened.evidence)
        self._evaluated: dict[tuple[str, bool], Topology] = {}
        self._trained: dict[str, dict[tuple[int, int], Recorded]] = {}

    async def hold(self, group: str, line: int) -> HeldAgain:
        """Holds the discussion in a line (from 1) of a group, an evaluation or `<method>.train-<stage>`, again."""
        learner, _, stage = group.rpartition(".train-")
        known = learner in self._plan.learners and stage in ("1", "2")
        if not known and group not in self._plan.evaluated:
            raise UserError(f"{self._run.path}: {group} is neither an evaluation of this run nor a stage of learning")
        folder, phase = (self._run.learned(learner), f"train-{stage}") if learner else (self._run, f"evaluate-{group}")
        trace = next(folder.traces(phase, only={line - 1}), None)
        if trace is None:
            raise UserError(f"{folder.path / 'traces' / phase}.jsonl has no line {line}")
        attack = self._attack
        if learner:
            if (int(stage), line) not in self._trained.get(learner, ()):
                made, source = self._learner(learner), self._plan.shared_from.get(learner)
                if source:
                    await self._taught(source, self._learner(source), made[1])
                self._trained[learner] = await self._taught(learner, made)
            topology, item, number, sample = self._trained[learner][int(stage), line]
        else:
            items = {item.question.id: item for item in self._dataset.evaluate()}
            if trace.question not in items:
                raise UserError(f"question {trace.question} is not in the data set of {self._run.path}")
            number, item, sample = list(items).index(trace.question), items[trace.question], 0
            [evaluation] = [each for each in self._plan.evaluations if each.name == group]
            topology = await self._method(evaluation.method.name, clean=evaluation.kind == "clean")
            if evaluation.kind != "method":
                records = recorded_for(evaluation, self._plan, self._run)
                store = self._opened.evidence.store
                seed = self._plan.config.seed
                topology = further_topology(evaluation, topology, *records, store, seed, ended=True)
                attack = attack.absent() if evaluation.kind == "clean" else attack
            topology = at_question(topology, number, list(items), folder.traces(phase))
        team, seed, question = _Answering(trace), self._plan.config.seed, await self._opened.evidence.question(item)

        async def discuss(speaker: Speaker, attack: Attack) -> Trace:
            during: Any = "train" if learner else "evaluate"
            return await attacked_discussion(
                attack, topology, item, question, speaker, seed, phase=during, number=number, sample=sample
            )

        try:
            note = differing("the discussion", await discuss(team, attack), trace)
        except* UserError as errors:
            note = str(first_of(UserError, errors))
        return HeldAgain(folder, phase, trace, team.turns, team.memories, note, item, question, attack, discuss)

    async def _method(self, name: str, clean: bool) -> Topology:
        if (name, clean) not in self._evaluated:
            plan, library, evidence = self._plan, self._opened.library, self._attack.evidence
            library = library.over(evidence) if evidence and not clean else library
            [method] = [method for method in plan.methods if method.name == name]
            graphs = {}
            if method.needs_graph or name in plan.learners:
                learned = name if name in plan.learners else next(iter(plan.learners))
                graphs[learned], learner = self._learner(learned)
                if checkpoint := self._run.learned(learned).checkpoint():
                    learner.load(checkpoint.state)
                await graphs[learned].freeze()
            items = watched_items(self._dataset, plan.watched_questions)
            questions = {item.question.id: item.question for item in items}
            watched = [(questions[trace.question], trace) for trace in self._run.traces(CALIBRATION)]
            known = known_of(method, plan, self._dataset, self._run, True, clean)
            topology = make_topology(method, plan.config, plan.roles.agents, graphs, library, watched, known)
            self._evaluated[name, clean] = topology
        return self._evaluated[name, clean]

    async def _taught(
        self, name: str, made: tuple[LearnedTopology, Any], other: Any = None
    ) -> dict[tuple[int, int], Recorded]:
        """Teaches a learner by its record, and an `other` along with it.

        Returns the topology, item, number and sample of each of its discussions, by stage and line.
        """
        held: dict[tuple[int, int], Recorded] = {}
        config = self._plan.config
        graph, learner = made
        training = TrainingQuestions(self._plan, self._dataset, self._opened.evidence)

        async def features(stage: int, number: int) -> Floats | None:
            return await graph.features(await training.questions(stage, number)) if graph.by_question else None

        course = Course(
            Local(learner),
            [Local(other)] if other else [],
            samples=config.training.samples,
            questions=config.training.questions_per_step,
            features=features,
        )
        async for stage in course.stages():
            traces = self._run.learned(name).traces(f"train-{stage}")
            steps = course.steps()
            progress = await anext(steps)
            while progress.steps:
                [step] = progress.steps
                items = training.items(stage, step.number)
                topologies = graph.along(step)
                of_step = list(islice(traces, len(topologies)))
                if len(of_step) < len(topologies):
                    return held
                line = 1 + sum(1 for of_stage, _ in held if of_stage == stage)
                before = ((stage - 1) * config.pruning.steps + step.number - 1) * len(items)
                for i, topology in enumerate(topologies):
                    place, sample = divmod(i, step.samples)
                    held[stage, line + i] = topology, items[place], before + place, sample
                progress = await steps.asend(score_step(self._plan, self._dataset, items, of_step))
        return held

    def _learner(self, name: str) -> tuple[LearnedTopology, Any]:
        plan, evidence = self._plan, self._opened.evidence
        learner = learner_makers(plan, evidence.store.encoder)[name]()
        return learned_topologies(plan, {name: Local(learner)}, evidence.features)[name], learner


def differing(what: str, again: Any, recorded: Any) -> str:
    """Names the fields in which a value made again differs from the recorded one. Empty for none."""
    names = [each.name for each in fields(recorded) if getattr(again, each.name) != getattr(recorded, each.name)]
    return f"{what} made again differs from the recorded one in {', '.join(names)}" if names else ""


class _Answering:
    """A team that answers with recorded messages, and keeps each turn with what its agent remembers of it."""

    def __init__(self, trace: Trace) -> None:
        self.turns: dict[str, Turn] = {}
        self.memories: dict[str, Message] = {}
        self._messages = {message.id: message for message in trace.turns}

    async def take(self, turn: Turn) -> TurnResult:
        id = f"{turn.round}/{turn.agent}"
        if id not in self._messages:
            raise UserError(f"turn {id} was never recorded: the data, the settings or the program are others now")
        # The trace lists sent messages, and the turn arrived ones. A topology may count rounds anew.
        heard = tuple(heard.message.id for heard in turn.heard)
        message = replace(self._messages[id], round=turn.round)
        self.turns[id], self.memories[id] = turn, replace(message, heard=heard, tampered=())
        return TurnResult(message)

    def close(self, discussion: str) -> None:
        """Does nothing: the turns are kept."""
