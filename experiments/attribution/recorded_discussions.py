"""Opens recorded discussions of a run. The topology of a training discussion is the wiring of its trace."""

from collections.abc import Mapping
from itertools import chain

from actors.errors import UserError
from actors.messages import Trace
from experiments.attribution.made_topologies import MadeTopologies
from experiments.attribution.opened_run import OpenedRun
from experiments.attribution.recorded_discussion import RecordedDiscussion
from experiments.attribution.recorded_wiring import wiring_of
from experiments.inspection.turns import folder_of
from experiments.planning.plan import Evaluation
from experiments.planning.topologies import further_topology, recorded_for
from experiments.records.turn_log import turns_of_trace
from experiments.running.evaluation import at_question
from experiments.running.training_questions import TrainingQuestions
from topologies.learning.learned_topology import TRAINING
from topologies.topology import Wired


class RecordedDiscussions:
    """Opens discussions of a run. Raises UserError for one that is not recorded, or damaged."""

    def __init__(self, opened_run: OpenedRun) -> None:
        self._opened = opened_run
        self._plan = opened_run.plan
        self._made = MadeTopologies(opened_run)
        self._training = TrainingQuestions(self._plan, opened_run.dataset, opened_run.evidence)

    async def open(self, group: str, line: int) -> RecordedDiscussion:
        """Opens the discussion in a line (from 1) of a group, an evaluation or `<method>.train-<stage>`."""
        folder, phase = folder_of(self._opened.run, group)
        trace = next(folder.traces(phase, only={line - 1}), None)
        place = f"{folder.trace_file(phase)}, line {line}"
        if trace is None:
            raise UserError(f"{place}: there is no such line")
        if folder is not self._opened.run:
            weights = {}
            turns = turns_of_trace(folder, phase, trace)
            if turns:
                weights = {id: turn.weights for id, turn in turns.turns.items()}
            return await self._of_training(place, folder.name, int(phase.removeprefix("train-")), trace, weights)
        [evaluation] = [evaluation for evaluation in self._plan.evaluations if evaluation.name == group]
        return await self._of_evaluation(place, evaluation, trace)

    async def _of_training(
        self, place: str, method: str, stage: int, trace: Trace, weights: Mapping[str, Mapping[str, float]]
    ) -> RecordedDiscussion:
        config = self._plan.config
        items = list(chain.from_iterable(self._training.steps(stage)))
        ids = [item.question.id for item in items]
        if trace.question not in ids:
            raise UserError(f"{place}: its question is not among the training questions any more")
        number = ids.index(trace.question)
        item = items[number]
        wiring = wiring_of(trace, config.topology.rounds, weights)
        return RecordedDiscussion(
            place=place,
            trace=trace,
            topology=Wired(f"{TRAINING}{method}", trace.agents, wiring, every_turn=True),
            item=item,
            question=await self._opened.evidence.question(item),
            attack=self._made.attack,
            phase="train",
            number=(stage - 1) * len(items) + number,
            sample=trace.sample,
        )

    async def _of_evaluation(self, place: str, evaluation: Evaluation, trace: Trace) -> RecordedDiscussion:
        opened_run = self._opened
        items = {item.question.id: item for item in opened_run.dataset.evaluate()}
        if trace.question not in items:
            raise UserError(f"{place}: its question is not in the data set any more")
        is_clean = evaluation.kind == "clean"
        attack = self._made.attack
        if is_clean:
            attack = attack.absent()
        topology = await self._made.topology(evaluation.method.name, clean=is_clean)
        if evaluation.kind != "method":
            method_traces, control_traces = recorded_for(evaluation, self._plan, opened_run.run)
            topology = further_topology(
                evaluation,
                topology,
                method_traces,
                control_traces,
                store=opened_run.evidence.store,
                seed=self._plan.config.seed,
                ended=True,
            )
        traces = opened_run.run.traces(f"evaluate-{evaluation.name}")
        seed = self._plan.config.seed
        topology, number = at_question(topology, trace.question, list(items.values()), seed, traces)
        item = items[trace.question]
        return RecordedDiscussion(
            place=place,
            trace=trace,
            topology=topology,
            item=item,
            question=await opened_run.evidence.question(item),
            attack=attack,
            phase="evaluate",
            number=number,
            sample=trace.sample,
        )
