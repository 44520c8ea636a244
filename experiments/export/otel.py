"""OpenTelemetry spans of a run, by the semantic conventions for generative AI.

A discussion is a trace: an `invoke_workflow` span with an `invoke_agent` span for each turn, linked to the turns that
it heard. Ids are digests of the record. `agora.times` is `recorded` or `made_up`.
"""

import base64
import hashlib
import json
import logging
from collections.abc import Iterator
from logging.handlers import BufferingHandler
from pathlib import Path
from typing import Any, cast

from google.protobuf.json_format import MessageToJson
from opentelemetry import trace as otel
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.trace.sampling import ALWAYS_ON

from actors.backends.model_settings import ModelSettings, model_name
from actors.errors import UserError
from actors.messages import Status
from experiments.config.saved import read
from experiments.export.source import TimedDiscussion, TimedTurn, discussions
from experiments.records.recorder import RunFolder

# Attributes of a turn's span, and the fields of its message.
TURN_ATTRIBUTES = {
    "gen_ai.agent.name": "agent",
    "gen_ai.request.seed": "seed",
    "output.value": "content",
    "gen_ai.usage.input_tokens": "prompt_tokens",
    "gen_ai.usage.output_tokens": "completion_tokens",
    "agora.id": "id",
    "agora.round": "round",
    "agora.calls": "calls",
    "agora.answer": "answer",
    "agora.confidence": "confidence",
}
IDS = ("traceId", "spanId", "parentSpanId")


class _Ids(IdGenerator):
    """Gives the ids that were set for the next span."""

    trace = span = 1

    def generate_trace_id(self) -> int:
        return self.trace

    def generate_span_id(self) -> int:
        return self.span


def spans(run: Path) -> Iterator[list[ReadableSpan]]:
    """Makes the spans of each evaluated discussion, the root first. Raises UserError for damaged records."""
    folder = RunFolder.open(run)
    config = read(folder.config)
    ids = _Ids()
    resource = Resource({"service.name": "agora-mm", "agora.run": folder.name})
    tracer = TracerProvider(ALWAYS_ON, resource, shutdown_on_exit=False, id_generator=ids).get_tracer("agora-mm")

    for discussion in discussions(folder):
        ids.trace = _digest(16, discussion.id)
        ids.span = _digest(8, discussion.id)
        root = _start_root(tracer, discussion)
        discussion_spans = [root]

        for turn in discussion.turns:
            message = turn.message
            ids.span = _digest(8, discussion.id, message.id)
            heard = [otel.SpanContext(ids.trace, _digest(8, discussion.id, id), False) for id in message.heard]
            span = tracer.start_span(
                f"invoke_agent {message.agent}",
                otel.set_span_in_context(root),
                links=[otel.Link(context) for context in heard],
                start_time=_nanoseconds(turn.begins_s),
            )
            model, _ = config.model_of_role(message.agent) or (config.model, None)
            span.set_attributes(_turn_attributes(discussion.id, turn, model))
            if message.status is not Status.OK:
                span.set_status(otel.StatusCode.ERROR, message.error)
                span.set_attribute("error.type", message.status)

            span.end(_nanoseconds(turn.ends_s))
            discussion_spans.append(span)

        ends_ns = _nanoseconds(discussion.ends_s)
        if not discussion.scored.failed_calls:
            score: dict[str, Any] = {"gen_ai.evaluation.name": "utility"}
            score["gen_ai.evaluation.score.value"] = discussion.scored.utility
            root.add_event("gen_ai.evaluation.result", score, ends_ns)

        root.end(ends_ns)
        yield cast(list[ReadableSpan], discussion_spans)


def _start_root(tracer: otel.Tracer, discussion: TimedDiscussion) -> otel.Span:
    scored = discussion.scored
    answer = scored.answer or ""
    root = tracer.start_span(
        f"invoke_workflow {scored.method}", Context(), start_time=_nanoseconds(discussion.started_s)
    )
    root.set_attributes(
        {
            "gen_ai.conversation.id": discussion.id,
            "gen_ai.operation.name": "invoke_workflow",
            "gen_ai.workflow.name": scored.method,
            "gen_ai.input.messages": _messages("user", scored.text),
            "gen_ai.output.messages": _messages("assistant", answer, finish_reason="stop"),
            "agora.gold": scored.gold,
            # OpenInference's names, which Phoenix shows.
            "openinference.span.kind": "CHAIN",
            "input.value": scored.text,
            "output.value": answer,
        }
    )
    return root


def _turn_attributes(discussion: str, turn: TimedTurn, model: ModelSettings) -> dict[str, Any]:
    message = turn.message
    finish_reason = "stop" if message.status is Status.OK else "error"
    attributes: dict[str, Any] = {
        "gen_ai.conversation.id": discussion,
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.provider.name": model.kind,
        "gen_ai.request.model": model_name(model),
        "gen_ai.output.messages": _messages(
            "assistant", message.content, name=message.agent, finish_reason=finish_reason
        ),
        "agora.times": "recorded" if turn.is_recorded else "made_up",
    }
    if turn.is_recorded:
        attributes["gen_ai.usage.cache_read.input_tokens"] = turn.cached_tokens
    for attribute, field in TURN_ATTRIBUTES.items():
        value = getattr(message, field)
        if value is not None:
            attributes[attribute] = value

    return attributes


def write(run: Path, target: Path) -> str:
    """Writes a run's spans to a file as OTLP's JSON, a discussion a line. Returns what was written."""
    number = 0
    with target.open("w") as file:
        for discussion_spans in spans(run):
            request = MessageToJson(encode_spans(discussion_spans), use_integers_for_enums=True)
            file.write(f"{json.dumps(json.loads(request, object_hook=_with_hexadecimal_ids))}\n")
            number += len(discussion_spans)
    return f"{number:,} spans"


def _with_hexadecimal_ids(fields: dict[str, Any]) -> dict[str, Any]:
    """Writes ids in hexadecimal: OTLP's JSON differs in them from JSON of other protocol buffers."""
    converted: dict[str, Any] = {}
    for key, value in fields.items():
        converted[key] = base64.b64decode(value).hex() if key in IDS else value
    return converted


def send(run: Path, address: str) -> str:
    """Sends a run's spans to an endpoint of OTLP over HTTP. Returns what was sent. Raises UserError where it fails."""
    handler = BufferingHandler(1_000)
    log = logging.getLogger("opentelemetry")
    log.addHandler(handler)
    log.propagate = False  # its reason is in the error
    exporter = OTLPSpanExporter(address)
    number = 0

    for discussion_spans in spans(run):
        if exporter.export(discussion_spans) is not SpanExportResult.SUCCESS:
            reason = handler.buffer[-1].getMessage() if handler.buffer else "no reason given"
            raise UserError(
                f"export.to={address} took {number:,} spans and refused the next ({reason}); expected a collector's "
                "address, such as http://localhost:4318/v1/traces"
            )
        number += len(discussion_spans)

    return f"{number:,} spans"


def _messages(role: str, text: str, **fields: str) -> str:
    return json.dumps([{"role": role, "parts": [{"type": "text", "content": text}], **fields}])


def _nanoseconds(seconds: float) -> int:
    return round(seconds * 1e9)


def _digest(size: int, *parts: str) -> int:
    return int.from_bytes(hashlib.blake2b("\x1f".join(parts).encode(), digest_size=size).digest())
