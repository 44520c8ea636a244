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
from typing import Any

from inspect_ai import event as ie
from inspect_ai import log as il
from inspect_ai import model as im
from inspect_ai.scorer import Score

from actors.messages import Message
from experiments.config.saved import read
from experiments.export.source import TimedDiscussion, TimedTurn, discussions
from experiments.records.recorder import RunFolder
from experiments.records.records import Scored, by_question

SCORES = ("utility", "f1", "strict_em")
SAMPLE_FIELDS = ("method", "edges", "calls", "failed_turns", "cut_turns", "attack_success")
TURN_FIELDS = ("status", "agent", "round", "confidence", "heard", "tampered", "cut", "error")
utc = partial(datetime.fromtimestamp, tz=UTC)  # from Unix time


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
    for method, method_discussions in groupby(discussions(run), key=lambda discussion: discussion.scored.method):
        timed = list(method_discussions)
        samples = [_sample(model, discussion) for discussion in timed]
        created = utc(min(discussion.started_s for discussion in timed))
        completed = utc(max(discussion.ends_s for discussion in timed))
        usage = sum((sample.model_usage[model] for sample in samples), im.ModelUsage())
        yield il.EvalLog(
            status="success",
            eval=il.EvalSpec(
                eval_id=timed[0].id,
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
                completed_samples=len([sample for sample in samples if sample.error is None]),
                scores=[_mean_utility([discussion.scored for discussion in timed])],
            ),
            stats=il.EvalStats(started_at=created, completed_at=completed, model_usage={model: usage}),
            samples=samples,
        )


def _mean_utility(scores: list[Scored]) -> il.EvalScore:
    utilities = [scored.utility for scored in by_question(scores) if not scored.failed_calls]
    metrics = {"mean": il.EvalMetric(name="mean", value=fmean(utilities))} if utilities else {}
    return il.EvalScore(name="utility", scorer="utility", scored_samples=len(utilities), metrics=metrics)


def _sample(model: str, discussion: TimedDiscussion) -> il.EvalSample:
    scored = discussion.scored
    # Ids of messages differ in all logs: `messages_df` takes equal ones for one message.
    question = im.ChatMessageUser(id=discussion.id, content=scored.text, source="input")
    replies: dict[str, im.ChatMessageAssistant] = {}
    events: list[ie.Event] = []

    for turn in discussion.turns:
        message = turn.message
        reply = _reply(model, discussion.id, message)
        heard = [replies[id] for id in message.heard if id in replies]
        events += _events(model, turn, discussion.started_s, [question, *heard], reply)
        replies[message.id] = reply

    scores: dict[str, Score] = {}
    error = None
    if scored.failed_calls:
        error = il.EvalError(message="a turn failed", traceback="", traceback_ansi="")
    else:
        for name, value in _fields(scored, SCORES).items():
            scores[name] = Score(value=value, answer=scored.answer)

    return il.EvalSample(
        id=scored.question,
        uuid=discussion.id,
        epoch=1,
        input=scored.text,
        target=list(scored.gold),
        messages=[question, *replies.values()],
        output=im.ModelOutput.from_content(model, scored.answer or ""),
        scores=scores,
        error=error,
        metadata={**scored.tags, **{name: getattr(scored, name) for name in SAMPLE_FIELDS}},
        model_usage={model: _usage(scored)},
        events=events,
        total_time=discussion.ends_s - discussion.started_s,
    )


def _reply(model: str, discussion: str, message: Message) -> im.ChatMessageAssistant:
    answer = "" if message.answer is None else f"\n\nAnswer: {message.answer}"
    return im.ChatMessageAssistant(
        id=f"{discussion}/{message.id}",
        content=f"**{message.agent}, round {message.round}**\n\n{message.content}{answer}",
        model=model,
        source="generate",
        metadata=_fields(message, TURN_FIELDS),
    )


def _events(
    model: str, turn: TimedTurn, started_s: float, heard: list[im.ChatMessage], reply: im.ChatMessageAssistant
) -> list[ie.Event]:
    """Makes an agent's span around one call of its model."""
    message = turn.message
    common: dict[str, Any] = {"working_start": turn.begins_s - started_s, "span_id": message.id}
    choice = im.ChatCompletionChoice(message=reply)
    return [
        ie.SpanBeginEvent(id=message.id, name=message.agent, type="agent", timestamp=utc(turn.begins_s), **common),
        ie.ModelEvent(
            model=model,
            input=heard,
            tools=[],
            tool_choice="none",
            config=im.GenerateConfig(seed=message.seed),
            output=im.ModelOutput(model=model, choices=[choice], usage=_usage(message)),
            completed=utc(turn.ends_s),
            timestamp=utc(turn.begins_s),
            **common,
        ),
        ie.SpanEndEvent(id=message.id, timestamp=utc(turn.ends_s), **common),
    ]


def _usage(record: Scored | Message) -> im.ModelUsage:
    return im.ModelUsage(
        input_tokens=record.prompt_tokens, output_tokens=record.completion_tokens, total_tokens=record.tokens
    )


def _fields(record: object, names: tuple[str, ...]) -> dict[str, Any]:
    """Fields of a record that are not empty."""
    values: dict[str, Any] = {}
    for name in names:
        value = getattr(record, name)
        if value not in ("", None, ()):
            values[name] = value
    return values
