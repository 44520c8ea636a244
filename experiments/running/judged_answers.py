"""Has the recorded answers of a run judged."""

from functools import partial

from experiments.judging.judge import Judge
from experiments.judging.judgements import answers_of, judge_file, scenes_of
from experiments.judging.rubric import SAME_SCENE
from experiments.records.recorder import JUDGEMENTS, SCENES
from experiments.running.run_context import RunContext


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
