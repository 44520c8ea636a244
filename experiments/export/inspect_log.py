"""Logs of inspect_ai, one for each method, whose samples are the evaluated discussions.

A sample has a message and an agent's span for each turn. A question with a failed turn has an error and no scores, as
it is in no mean. A model event's input is the question and the messages that the agent heard, not its whole prompt.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from inspect_ai import event as ie
from inspect_ai import log as il
from inspect_ai import model as im
from inspect_ai.scorer import Score

from actors.messages import Message
from experiments.export.source import Discussion, RunSource
from experiments.records.records import by_question

SCORES = ("utility", "f1", "strict_em")
FACTS = ("method", "edges", "calls", "failed_turns", "cut_turns", "attack_success")
TURN = ("agent", "round", "confidence", "heard", "tampered", "cut", "error")


def write(run: Path, target: Path) -> str:
    """Writes `<method>.eval` for each method into a new folder; returns what was written."""
    target.mkdir()
    samples = 0
    for log in logs(RunSource(run)):
        il.write_eval_log(log, target / f"{log.eval.solver}.eval")
        samples += len(log.samples or ())
    return f"{samples:,} samples"


def logs(run: RunSource) -> Iterator[il.EvalLog]:
    """Makes a log for each method. Raises UserError for damaged records."""
    for method, scored in run.scored.items():
        discussions = list(run.discussions(method))
        samples = [_sample(run.model, one) for one in discussions]
        created = _time(min(one.started_s for one in discussions)).isoformat()
        counted = [one for one in by_question(scored) if not one.failed_calls]
        means = {name: [getattr(one, name) for one in counted] for name in SCORES[:2] if counted}
        used = sum((sample.model_usage[run.model] for sample in samples), im.ModelUsage())
        yield il.EvalLog(
            status="success",
            eval=il.EvalSpec(
                **{"eval_id": f"{run.id}-{method}", "run_id": run.id, "created": created, "model": run.model},
                **{"task": run.config.experiment, "task_args": {"method": method}, "solver": method},
                dataset=il.EvalDataset(name=run.config.data.kind, samples=len(samples)),
                config=il.EvalConfig(),
                metadata={"run": run.folder.name, "seed": run.config.seed},
            ),
            results=il.EvalResults(
                total_samples=len(samples),
                completed_samples=sum(sample.error is None for sample in samples),
                scores=[_mean(name, values) for name, values in means.items()],
            ),
            stats=il.EvalStats(started_at=created, model_usage={run.model: used}),
            samples=samples,
        )


def _mean(name: str, values: list[float]) -> il.EvalScore:
    mean = il.EvalMetric(name="mean", value=math.fsum(values) / len(values))
    return il.EvalScore(name=name, scorer=name, scored_samples=len(values), metrics={"mean": mean})


def _sample(model: str, discussion: Discussion) -> il.EvalSample:
    id, scored, _, turns = discussion
    values = {} if scored.failed_calls else {name: getattr(scored, name) for name in SCORES}
    # Ids of messages differ in all logs: `messages_df` takes equal ones for one message.
    question = im.ChatMessageUser(id=id, content=scored.text, source="input")
    said = {turn.id: _message(model, turn, f"{id}/{turn.id}") for turn, *_ in turns}
    return il.EvalSample(
        **{"id": scored.question, "uuid": id, "epoch": 1, "input": scored.text, "target": list(scored.gold)},
        messages=[question, *said.values()],
        output=im.ModelOutput.from_content(model, scored.answer or ""),
        scores={n: Score(value=v, answer=scored.answer) for n, v in values.items() if v is not None},
        error=il.EvalError(message="a turn failed", traceback="", traceback_ansi="") if scored.failed_calls else None,
        metadata={**scored.tags, **{name: getattr(scored, name) for name in FACTS}},
        model_usage={model: _usage(scored.prompt_tokens, scored.completion_tokens)},
        events=list(_events(model, discussion, question, said)),
    )


def _events(
    model: str, discussion: Discussion, question: im.ChatMessageUser, said: dict[str, im.ChatMessageAssistant]
) -> Iterator[ie.Event]:
    for turn, time, _ in discussion.turns:
        begun, ended = (
            {"timestamp": _time(discussion.started_s + s), "working_start": s, "span_id": turn.id}
            for s in (time.start, time.start + time.seconds)
        )
        id, usage = f"{discussion.id}/{turn.id}", _usage(turn.prompt_tokens, turn.completion_tokens)
        choice = im.ChatCompletionChoice(message=said[turn.id])
        yield ie.SpanBeginEvent(id=turn.id, uuid=f"{id}/begin", name=turn.agent, type="agent", **begun)
        yield ie.ModelEvent(
            **{"uuid": id, "model": model, "tools": [], "tool_choice": "none", "error": turn.error or None, **begun},
            input=[question, *(said[other] for other in turn.heard if other in said)],
            config=im.GenerateConfig(seed=turn.seed),
            output=im.ModelOutput(model=model, choices=[choice], usage=usage),
            completed=ended["timestamp"],
            working_time=time.seconds,
        )
        yield ie.SpanEndEvent(id=turn.id, uuid=f"{id}/end", **ended)


def _message(model: str, turn: Message, id: str) -> im.ChatMessageAssistant:
    answer = "" if turn.answer is None else f"\n\nAnswer: {turn.answer}"
    content = f"**{turn.agent}, round {turn.round}**\n\n{turn.content}{answer}"
    known = {"status": turn.status.value, **{name: value for name in TURN if (value := getattr(turn, name))}}
    return im.ChatMessageAssistant(id=id, content=content, model=model, source="generate", metadata=known)


def _usage(read: int, written: int) -> im.ModelUsage:
    return im.ModelUsage(input_tokens=read, output_tokens=written, total_tokens=read + written)


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
