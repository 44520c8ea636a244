"""Has the recorded answers of a run judged."""

from collections.abc import Callable, Iterator
from functools import partial

from experiments.judging.judge import Judge
from experiments.judging.judgements import GradingTask, described_scenes, judge_file, recorded_answers
from experiments.judging.rubric import SAME_SCENE, Rubric
from experiments.records.recorder import JUDGEMENTS, SCENES
from experiments.running.run_context import RunContext


async def judge_answers(context: RunContext, judge: Judge) -> None:
    """Judges every recorded answer, and descriptions of pictures where people described them too."""
    folder = context.recorder.run
    plan = context.plan
    items = {item.question.id: item for item in context.dataset.evaluate()}
    await _judge(context, judge, JUDGEMENTS, partial(recorded_answers, folder, items), plan.rubric)
    # Of a data set whose knowledge graph has pictures that people described.
    if captions := getattr(context.dataset, "captions", None):
        await _judge(context, judge, SCENES, partial(described_scenes, folder, captions(), plan.evaluated), SAME_SCENE)


async def _judge(
    context: RunContext, judge: Judge, file: str, answers: Callable[[], Iterator[GradingTask]], rubric: Rubric
) -> None:
    await judge_file(
        context.recorder.run.path / file,
        answers,
        judge,
        rubric,
        concurrency=context.config.concurrency,
        progress=context.progress,
        breaker=context.breaker,
    )
