"""OpenTelemetry spans of a run, by the semantic conventions for generative AI.

A discussion is a trace: an `invoke_workflow` span with an `invoke_agent` span for each turn, linked to the turns that
it heard. Ids are digests of the record. `agora.times` is `recorded` or `made_up`.
"""

from __future__ import annotations

import base64
import hashlib
import json
import logging
from collections.abc import Iterator, Sequence
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

from actors.backends.model_settings import model_name
from actors.errors import UserError
from actors.messages import Message, Status
from experiments.config.layers import model_of_role
from experiments.export.source import RunSource
from experiments.records.records import Scored

EVALUATION = "gen_ai.evaluation"
IDS = ("traceId", "spanId", "parentSpanId")


class _Ids(IdGenerator):
    """Gives the ids that were set for the next span."""

    trace = span = 1

    def generate_trace_id(self) -> int:
        return self.trace

    def generate_span_id(self) -> int:
        return self.span


def spans(run: RunSource) -> Iterator[list[ReadableSpan]]:
    """Makes the spans of each evaluated discussion, the root first. Raises UserError for damaged records."""
    ids = _Ids()
    resource = Resource({"service.name": "agora-mm", "agora.run": run.folder.name})
    tracer = TracerProvider(ALWAYS_ON, resource, shutdown_on_exit=False, id_generator=ids).get_tracer("agora-mm")
    for id, scored, started_s, turns in (one for method in run.scored for one in run.discussions(method)):
        ids.trace, ids.span = _digest(16, id), _digest(8, id)
        started_ns = round(started_s * 1e9)
        all_have = {"gen_ai.conversation.id": id}
        root = tracer.start_span(f"invoke_workflow {scored.method}", Context(), start_time=started_ns)
        root.set_attributes(all_have | _workflow(scored))
        made, ends_ns = [root], [started_ns]
        for turn, time, is_recorded in turns:
            ids.span = _digest(8, id, turn.id)
            links = [otel.Link(otel.SpanContext(ids.trace, _digest(8, id, other), False)) for other in turn.heard]
            begins_ns = started_ns + round(time.start * 1e9)
            own = otel.set_span_in_context(root)
            span = tracer.start_span(f"invoke_agent {turn.agent}", own, links=links, start_time=begins_ns)
            span.set_attributes(all_have | _turn(run, turn))
            span.set_attribute("agora.times", "recorded" if is_recorded else "made_up")
            if is_recorded:
                span.set_attribute("gen_ai.usage.cache_read.input_tokens", time.cached_tokens)
            if turn.status is not Status.OK:
                span.set_status(otel.StatusCode.ERROR, turn.error)
            ends_ns.append(begins_ns + round(time.seconds * 1e9))
            span.end(ends_ns[-1])
            made.append(span)
        if not scored.failed_calls:
            score: dict[str, Any] = {f"{EVALUATION}.name": "utility", f"{EVALUATION}.score.value": scored.utility}
            root.add_event(f"{EVALUATION}.result", score, max(ends_ns))
        root.end(max(ends_ns))
        yield cast(list[ReadableSpan], made)


def json_line(made: Sequence[ReadableSpan]) -> str:
    """Encodes spans as a line of OTLP's JSON, in which ids are hexadecimal."""
    request = MessageToJson(encode_spans(made), use_integers_for_enums=True)
    return json.dumps(json.loads(request, object_hook=_hexadecimal), separators=(",", ":"))


def write(run: Path, target: Path) -> str:
    """Writes a run's spans to a file, a discussion a line; returns what was written."""
    with target.open("w") as file:
        number = sum(len(made) for made in spans(RunSource(run)) if file.write(f"{json_line(made)}\n"))
    return f"{number:,} spans"


def send(run: Path, address: str) -> str:
    """Sends a run's spans to an endpoint of OTLP over HTTP; returns what was sent. Raises UserError where it fails."""
    logged, log = BufferingHandler(1_000), logging.getLogger("opentelemetry")
    log.addHandler(logged)
    log.propagate = False  # its reason is in the error
    exporter, number = OTLPSpanExporter(address), 0
    for made in spans(RunSource(run)):
        if exporter.export(made) is not SpanExportResult.SUCCESS:
            reason = logged.buffer[-1].getMessage() if logged.buffer else "no reason given"
            raise UserError(
                f"export.to={address} took {number:,} spans and refused the next ({reason}); expected a collector's "
                "address, such as http://localhost:4318/v1/traces"
            )
        number += len(made)
    return f"{number:,} spans"


def _workflow(scored: Scored) -> dict[str, Any]:
    answer = scored.answer or ""
    return {
        "gen_ai.operation.name": "invoke_workflow",
        "gen_ai.workflow.name": scored.method,
        "gen_ai.input.messages": _messages("user", scored.text),
        "gen_ai.output.messages": _messages("assistant", answer, finish_reason="stop"),
        "agora.gold": scored.gold,
        # OpenInference's names, which Phoenix shows.
        **{"openinference.span.kind": "CHAIN", "input.value": scored.text, "output.value": answer},
    }


def _turn(run: RunSource, turn: Message) -> dict[str, Any]:
    model, _ = model_of_role(run.config, turn.agent) or (run.config.model, None)
    ended = "stop" if turn.status is Status.OK else turn.status.value
    attributes = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": turn.agent,
        "gen_ai.provider.name": model.kind,
        "gen_ai.request.model": model_name(model),
        "gen_ai.request.seed": turn.seed,
        "gen_ai.usage.input_tokens": turn.prompt_tokens,
        "gen_ai.usage.output_tokens": turn.completion_tokens,
        "gen_ai.output.messages": _messages("assistant", turn.content, name=turn.agent, finish_reason=ended),
        "error.type": None if turn.status is Status.OK else ended,
        "output.value": turn.content,
        **{f"agora.{name}": getattr(turn, name) for name in ("id", "round", "calls", "answer", "confidence")},
    }
    return {name: value for name, value in attributes.items() if value is not None}


def _messages(role: str, text: str, **more: str) -> str:
    return json.dumps([{"role": role, "parts": [{"type": "text", "content": text}], **more}])


def _hexadecimal(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: base64.b64decode(value).hex() if name in IDS else value for name, value in fields.items()}


def _digest(size: int, *parts: str) -> int:
    return int.from_bytes(hashlib.blake2b("\x1f".join(parts).encode(), digest_size=size).digest())
