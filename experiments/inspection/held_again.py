"""Holds a recorded discussion again: its topology asks the same turns, and the recorded messages answer them.

The turns are those that agents received, with attacks, defences and tampered messages. The wiring of a training
discussion is drawn again by a learner that learns again from all discussions before it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from itertools import islice

from actors.errors import UserError, first_of
from actors.messages import Message, Trace, Turn, Usage
from actors.runtime.inline import Local
from experiments.attacks.attack import Attack, Phase
from experiments.datasets.item import Item
from experiments.inspection.opened_run import OpenedRun
from experiments.planning.topologies import learned_topologies, make_topology
from experiments.records.recorder import RunFolder
from experiments.running.evaluation import CALIBRATION
from experiments.running.inputs import training_items, watched_items
from experiments.running.step_scores import score_step
from topologies.learning.making import make_learner
from topologies.topology import Topology


@dataclass(frozen=True)
class HeldAgain:
    """A recorded discussion, and the turns and own memories of its agents by the turn's id.

    folder, phase: those of its traces. differing: what could not be held as it was recorded; empty for nothing.
    """

    folder: RunFolder
    phase: str
    trace: Trace
    turns: Mapping[str, Turn]
    memories: Mapping[str, Message]
    differing: str


class Discussions:
    """Holds the discussions of a run again. Raises UserError for one that is not recorded, or damaged."""

    def __init__(self, opened: OpenedRun) -> None:
        self._opened = opened
        self._plan, self._dataset, self._run = opened.plan, opened.dataset, opened.run
        self._attack = Attack(self._plan.config.attack, self._plan.attackable, self._dataset, self._plan.config.seed)
        self._evaluated: dict[str, Topology] = {}
        self._trained: dict[str, list[tuple[Topology, Item, int, int]]] = {}

    async def hold(self, group: str, line: int) -> HeldAgain:
        """Holds the discussion in a line (from 1) of a group, a method or `<method>.train-<stage>`, again."""
        learner, _, stage = group.rpartition(".train-")
        folder, phase = (self._run.learned(learner), f"train-{stage}") if learner else (self._run, f"evaluate-{group}")
        known = learner in self._plan.learners and stage in ("1", "2")
        if not known and group not in [method.name for method in self._plan.methods]:
            raise UserError(f"{self._run.path}: {group} is neither a method of this run nor a stage of its learning")
        trace = next(folder.traces(phase, only={line - 1}), None)
        if trace is None:
            raise UserError(f"{folder.path / 'traces' / phase}.jsonl has no line {line}")
        if learner:
            topology, item, number, sample = (await self._training(learner, int(stage), line))[line - 1]
        else:
            asked = enumerate(self._dataset.evaluate())
            pair = next(((n, each) for n, each in asked if each.question.id == trace.question), None)
            if pair is None:
                raise UserError(f"question {trace.question} is not in the data set of {self._run.path}")
            number, item = pair
            topology, sample = await self._method(group), 0
        during: Phase = "train" if learner else "evaluate"
        team, seed = _Answering(trace), self._plan.config.seed
        question = await self._opened.evidence.question(item)
        try:
            again = await self._attack.run_discussion(
                topology, item, question, team, seed, phase=during, number=number, sample=sample
            )
            names = [each.name for each in fields(Trace) if getattr(again, each.name) != getattr(trace, each.name)]
            differing = f"the discussion differs from the recorded one in {', '.join(names)}" if names else ""
        except* UserError as errors:
            differing = str(first_of(UserError, errors))
        return HeldAgain(folder, phase, trace, team.turns, team.memories, differing)

    async def _method(self, name: str) -> Topology:
        if name not in self._evaluated:
            plan, config = self._plan, self._plan.config
            [method] = [method for method in plan.methods if method.name == name]
            learners = {}
            if method.needs_graph or name in plan.learners:
                graph = name if name in plan.learners else next(iter(plan.learners))
                learners[graph] = make_learner(plan.learners[graph])
                if checkpoint := self._run.learned(graph).checkpoint():
                    learners[graph].load(checkpoint.state)
            graphs = learned_topologies(
                config.topology.inference, plan.roles.agents, {graph: Local(one) for graph, one in learners.items()}
            )
            for learned in graphs.values():
                await learned.freeze()
            items = watched_items(self._dataset, plan.watched_questions)
            questions = {item.question.id: item.question for item in items}
            watched = [(questions[trace.question], trace) for trace in self._run.traces(CALIBRATION)]
            self._evaluated[name] = make_topology(
                method, config, plan.roles.agents, graphs, self._opened.library, watched
            )
        return self._evaluated[name]

    async def _training(self, name: str, last: int, line: int) -> list[tuple[Topology, Item, int, int]]:
        """The topology, item, number and sample of each discussion of a stage; again where a run has gone on."""
        key = f"{name}.{last}"
        if line > len(self._trained.get(key, ())):
            config, learner = self._plan.config, make_learner(self._plan.learners[name])
            inference, agents = config.topology.inference, self._plan.roles.agents
            graph = learned_topologies(inference, agents, {name: Local(learner)})[name]
            k = config.training.samples
            for stage in range(1, last + 1):
                held = self._trained[f"{name}.{stage}"] = list[tuple[Topology, Item, int, int]]()
                traces = self._run.learned(name).traces(f"train-{stage}")
                steps = training_items(config, self._dataset, stage)
                for step, items in enumerate(steps):
                    if not (of_step := list(islice(traces, k * len(items)))):
                        break
                    wirings, topologies = await graph.sample(k * len(items), questions=len(items))
                    before = ((stage - 1) * len(steps) + step) * len(items)
                    held += [(each, items[i // k], before + i // k, i % k) for i, each in enumerate(topologies)]
                    if len(of_step) == len(topologies):
                        scores = score_step(self._plan, self._dataset, items, of_step)
                        learner.learn(wirings, scores.turns, scores.utilities, scores.groups)
                if stage < last and learner.stage == stage:
                    learner.next_stage()
        return self._trained[key]


class _Answering:
    """A team that answers with recorded messages, and keeps each turn with what its agent remembers of it."""

    recorded = False  # so that attacks change the turns again

    def __init__(self, trace: Trace) -> None:
        self.usage: dict[str, Usage] = {}
        self.turns: dict[str, Turn] = {}
        self.memories: dict[str, Message] = {}
        self._messages = {message.id: message for message in trace.turns}

    async def ask(self, turn: Turn) -> Message:
        id = f"{turn.round}/{turn.agent}"
        if id not in self._messages:
            raise UserError(f"turn {id} was never recorded: the data, the settings or the program are others now")
        # A trace lists the messages that were sent; the agent has those that arrived. A topology may count rounds anew.
        heard = tuple(heard.message.id for heard in turn.heard)
        message = replace(self._messages[id], round=turn.round)
        self.turns[id], self.memories[id] = turn, replace(message, heard=heard, tampered=())
        return message

    def close(self, discussion: str) -> None:
        """Does nothing: the turns are kept."""
