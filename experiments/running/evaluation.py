"""Evaluates the methods of a run, and has their answers judged."""

from __future__ import annotations

from actors.messages import Trace
from actors.runtime.in_order import in_order
from experiments.attacks.attack import Attack
from experiments.attacks.attack_metrics import Harm
from experiments.datasets.item import Item
from experiments.judging import judgements
from experiments.judging.judge import Judge
from experiments.judging.judgements import HasCaptions, judge_scenes
from experiments.records.usage import EVALUATING, UsageLog
from experiments.running.context import RunContext
from experiments.running.discussion_slots import CountedTeam, Slots
from experiments.running.launching import MeteredTeam
from topologies.topology import Topology


async def evaluate(
    topology: Topology,
    context: RunContext,
    team: MeteredTeam,
    attack: Attack,
    slots: Slots,
    usage: UsageLog,
    questions: int,
) -> None:
    """Answers every evaluated question once, along one topology; `questions` is their number."""
    config = context.config
    done = context.recorder.done(topology.method)
    bar = context.progress.phase(f"evaluating {topology.method}", total=questions, done=len(done))
    metered = team.metered()
    counted = CountedTeam(metered, bar)

    async def answer(numbered: tuple[int, Item]) -> Trace:
        number, item = numbered
        question = await context.evidence.question(item)
        async with slots.slot(learning=False):
            return await attack.run_discussion(
                topology, item, question, counted, config.seed, phase="evaluate", number=number
            )

    # Numbered before the filter: a resumed run must give a question the number that it had.
    items = (pair for pair in enumerate(context.dataset.evaluate()) if pair[1].question.id not in done)
    # In the questions' order: traces and scores of a method are in one order in their files.
    with usage.phase(f"{EVALUATING}{topology.method}", lambda: metered.usage):
        async for (_, item), trace in in_order(items, answer, config.concurrency):
            score, harm = context.dataset.score(item, trace.answer), Harm.of(trace, item, context.dataset)
            context.recorder.evaluated(trace, item, score, harm)
            bar.advance()


async def judge_answers(context: RunContext, judge: Judge) -> None:
    """Judges every recorded answer, and descriptions of pictures where people described them too."""
    folder, dataset, plan = context.recorder.run, context.dataset, context.plan
    items = {item.question.id: item for item in dataset.evaluate()}
    most = plan.config.concurrency
    await judgements.judge_run(folder, judge, items, most, context.progress, plan.rubric)
    if isinstance(dataset, HasCaptions):
        methods = [method.name for method in plan.methods]
        await judge_scenes(folder, judge, dataset.captions(), methods, most, context.progress)
