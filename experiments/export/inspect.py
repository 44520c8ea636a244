"""Logs of inspect_ai, one for each method, whose samples are the evaluated discussions.

A sample has a message and an agent's span for each turn. A question with a failed turn has an error and no scores, as
it is in no mean. A model event's input is the question and the messages that the agent heard, not its whole prompt.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from itertools import groupby
from pathlib import Path
from statistics import fmean

from inspect_ai import event as ie
from inspect_ai import log as il
from inspect_ai import model as im
from inspect_ai.scorer import Score

from experiments.config.saved import read
from experiments.export.source import TimedDiscussion, discussions
from experiments.records.recorder import RunFolder
from experiments.records.records import by_question

FACTS = ("method", "edges", "calls", "failed_turns", "cut_turns", "attack_success")
utc = partial(datetime.fromtimestamp, tz=UTC)  # from Unix time
TURN = ("status", "agent", "round", "confidence", "heard", "tampered", "cut", "error")


def write(run: Path, target: Path) -> str:
    """Writes `<method>.eval` for each method into a new folder; returns what was written."""
    target.mkdir()
    samples = 0
    for log in logs(RunFolder.open(run)):
        il.write_eval_log(log, target / f"{log.eval.solver}.eval")
        samples += len(log.samples or ())
    return f"{samples:,} samples"


def logs(run: RunFolder) -> Iterator[il.EvalLog]:
    """Makes a log for each method. Raises UserError for damaged records."""
    config = read(run.config)
    model = config.models_named
    for method, of_method in groupby(discussions(run), key=lambda one: one.scored.method):
        held = list(of_method)
        samples = [_sample(model, one) for one in held]
        created = utc(min(one.started_s for one in held))
        completed = utc(max(one.started_s + s.total_time for one, s in zip(held, samples, strict=True)))
        utilities = [one.utility for one in by_question(each.scored for each in held) if not one.failed_calls]
        mean = {"mean": il.EvalMetric(name="mean", value=fmean(utilities))} if utilities else {}
        used = sum((sample.model_usage[model] for sample in samples), im.ModelUsage())
        yield il.EvalLog(
            status="success",
            eval=il.EvalSpec(
                eval_id=held[0].id,
                created=created,
                task=config.experiment,
                task_args={"method": method, "run": run.name},
                solver=method,
                dataset=il.EvalDataset(name=config.data.kind, samples=len(samples)),
                model=model,
                config=il.EvalConfig(),
            ),
            results=il.EvalResults(
                total_samples=len(samples),
                completed_samples=sum(sample.error is None for sample in samples),
                scores=[il.EvalScore(name="utility", scorer="utility", scored_samples=len(utilities), metrics=mean)],
            ),
            stats=il.EvalStats(started_at=created, completed_at=completed, model_usage={model: used}),
            samples=samples,
        )


def _sample(model: str, discussion: TimedDiscussion) -> il.EvalSample:
    id, scored, started_s, turns = discussion
    # Ids of messages differ in all logs: `messages_df` takes equal ones for one message.
    question = im.ChatMessageUser(id=id, content=scored.text, source="input")
    said: dict[str, im.ChatMessageAssistant] = {}
    events: list[ie.Event] = []
    for turn, time, _ in turns:
        answer = "" if turn.answer is None else f"\n\nAnswer: {turn.answer}"
        said[turn.id] = im.ChatMessageAssistant(
            id=f"{id}/{turn.id}",
            content=f"**{turn.agent}, round {turn.round}**\n\n{turn.content}{answer}",
            model=model,
            source="generate",
            metadata={name: value for name in TURN if (value := getattr(turn, name)) not in ("", None, ())},
        )
        begun = {"timestamp": utc(started_s + time.start), "working_start": time.start, "span_id": turn.id}
        ended = {**begun, "timestamp": utc(started_s + time.start + time.seconds)}
        choice = im.ChatCompletionChoice(message=said[turn.id])
        spent = {"input_tokens": turn.prompt_tokens, "output_tokens": turn.completion_tokens}
        usage = im.ModelUsage(**spent, total_tokens=turn.tokens)
        events += [
            ie.SpanBeginEvent(id=turn.id, name=turn.agent, type="agent", **begun),
            ie.ModelEvent(
                model=model,
                input=[question, *(said[other] for other in turn.heard if other in said)],
                tools=[],
                tool_choice="none",
                config=im.GenerateConfig(seed=turn.seed),
                output=im.ModelOutput(model=model, choices=[choice], usage=usage),
                completed=ended["timestamp"],
                **begun,
            ),
            ie.SpanEndEvent(id=turn.id, **ended),
        ]
    spent = {"input_tokens": scored.prompt_tokens, "output_tokens": scored.completion_tokens}
    used = im.ModelUsage(**spent, total_tokens=scored.tokens)
    scores = {name: getattr(scored, name) for name in ("utility", "f1", "strict_em") if not scored.failed_calls}
    return il.EvalSample(
        id=scored.question,
        uuid=id,
        epoch=1,
        input=scored.text,
        target=list(scored.gold),
        messages=[question, *said.values()],
        output=im.ModelOutput.from_content(model, scored.answer or ""),
        scores={name: Score(value=value, answer=scored.answer) for name, value in scores.items() if value is not None},
        error=il.EvalError(message="a turn failed", traceback="", traceback_ansi="") if scored.failed_calls else None,
        metadata={**scored.tags, **{name: getattr(scored, name) for name in FACTS}},
        model_usage={model: used},
        events=events,
        total_time=max((time.start + time.seconds for _, time, _ in turns), default=0.0),
    )
