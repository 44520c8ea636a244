"""Evaluates the methods of a run, has their answers judged, and before that watches unlabelled discussions.

Some defences choose the agents that they silence from what was watched.
"""

from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from functools import partial
from itertools import groupby
from typing import cast

from actors.messages import Question, Trace
from actors.runtime.in_order import in_order
from experiments.attacks.attack_metrics import Harm
from experiments.datasets.item import Item
from experiments.judging.judge import Judge
from experiments.judging.judgements import answers_of, judge_file, scenes_of
from experiments.judging.rubric import SAME_SCENE
from experiments.records.recorder import JUDGEMENTS, SCENES
from experiments.records.timings import TimingLog
from experiments.records.usage import EVALUATING
from experiments.running.inputs import watched_items
from experiments.running.run_context import CountedTeam, RunContext
from topologies.baselines import complete_wiring
from topologies.topology import InBlocks, Topology, Wired

CALIBRATION = "calibrate"


def watched_topology(agents: Sequence[str], rounds: int) -> Topology:
    """Makes the complete graph, in which every agent hears all others."""
    return Wired(CALIBRATION, agents, complete_wiring(len(agents), rounds))


async def calibrate(context: RunContext) -> Sequence[tuple[Question, Trace]]:
    """Holds the discussions of a run's calibration, attacked as in training. Records and returns all at once.

    A run that was killed in between repeats them, from the completion cache. Raises TooManyFailures.
    """
    config, recorder = context.config, context.recorder
    items = watched_items(context.dataset, context.plan.watched_questions)
    traces = list(recorder.run.traces(CALIBRATION))
    if not traces:
        topology = watched_topology(context.agents, config.topology.rounds)
        bar = context.progress.phase("watching unlabelled discussions", total=len(items))
        team = CountedTeam(context.team, bar, context.breaker)

        async def discuss(numbered: tuple[int, Item]) -> Trace:
            number, item = numbered
            asked = topology, item, await context.evidence.question(item), team, config.seed
            return await context.attack.run_discussion(*asked, phase="train", number=number)

        # In the questions' order, so that the record is the same whichever ends first.
        async for _, trace in in_order(enumerate(items), discuss, config.concurrency):
            traces.append(trace)
            bar.advance()
        context.breaker.check("watching unlabelled discussions", traces)
        recorder.calibrated(traces)
    questions = {item.question.id: item.question for item in items}
    return [(questions[trace.question], trace) for trace in traces]


async def evaluate(topology: Topology, context: RunContext, items: Sequence[Item], counted: bool = True) -> None:
    """Answers every question once along a topology, unless its answer is recorded.

    counted: the usage is recorded as a phase; False within a phase of several evaluations.
    """
    config, recorder = context.config, context.recorder
    done = recorder.done(topology.method)
    bar = context.progress.phase(f"evaluating {topology.method}", total=len(items), done=len(done))
    timings, phase = TimingLog(recorder.run), f"evaluate-{topology.method}"
    # A killed run has the discussions of earlier blocks in its records.
    size = topology.block if isinstance(topology, InBlocks) else 0
    suspicion = {trace.question: trace.suspicion for trace in recorder.run.traces(phase)} if size else {}
    metered = context.team.metered(timings.turn)
    team = CountedTeam(metered, bar, context.breaker)

    async def answer(numbered: tuple[int, Item]) -> Trace:
        number, item = numbered
        # The slot first, so that discussions begin in the questions' order: a twin's wait for those before them.
        async with context.slots.slot(learning=False):
            asked = topology, item, await context.evidence.question(item), team, config.seed
            return await context.attack.run_discussion(*asked, phase="evaluate", number=number)

    name = f"{EVALUATING}{topology.method}"
    with context.usage.phase(name, lambda: metered.usage) if counted else nullcontext():
        # Numbered before the filter: a resumed run must give a question the number that it had.
        for place, block in groupby(enumerate(items), lambda pair: pair[0] // (size or len(items))):
            left = (pair for pair in block if pair[1].question.id not in done)
            # In the questions' order: traces and scores of a method are in one order in their files.
            async for (_, item), trace in in_order(left, answer, config.concurrency):
                score, harm = context.dataset.score(item, trace.answer), Harm.of(trace, item, context.dataset)
                recorder.evaluated(trace, item, score, harm)
                timings.ended(phase, trace)
                bar.advance()
                if size:
                    suspicion[item.question.id] = trace.suspicion
            if size and isinstance(topology, InBlocks):
                of_block = items[place * size : (place + 1) * size]
                topology = topology.after([suspicion[item.question.id] for item in of_block])


def at_question(topology: Topology, number: int, ids: Sequence[str], traces: Iterable[Trace]) -> Topology:
    """Returns the topology that held question `number` (from 0) of `ids`. traces: its recorded discussions."""
    size = topology.block if isinstance(topology, InBlocks) else 0
    suspicion = {trace.question: trace.suspicion for trace in traces} if size else {}
    for end in range(size, number + 1, size) if size else ():
        topology = cast(InBlocks, topology).after([suspicion[id] for id in ids[end - size : end]])
    return topology


async def judge_answers(context: RunContext, judge: Judge) -> None:
    """Judges every recorded answer, and descriptions of pictures where people described them too."""
    folder, dataset, plan = context.recorder.run, context.dataset, context.plan
    items = {item.question.id: item for item in dataset.evaluate()}
    asked = [(JUDGEMENTS, partial(answers_of, folder, items), plan.rubric)]
    # Of a data set whose knowledge graph has pictures that people described.
    if captions := getattr(dataset, "captions", None):
        asked.append((SCENES, partial(scenes_of, folder, captions(), plan.evaluated), SAME_SCENE))
    limits = plan.config.concurrency, context.progress, context.breaker
    for file, judged, rubric in asked:
        await judge_file(folder.path / file, judged, judge, rubric, *limits)
