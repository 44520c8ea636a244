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

from actors.backends.model_settings import model_name
from actors.errors import UserError
from actors.messages import Status
from experiments.config.saved import read
from experiments.export.source import discussions
from experiments.records.recorder import RunFolder

# Attributes of a turn's span, and the fields of its message.
FIELDS = {
    **{"gen_ai.agent.name": "agent", "gen_ai.request.seed": "seed", "output.value": "content"},
    **{"gen_ai.usage.input_tokens": "prompt_tokens", "gen_ai.usage.output_tokens": "completion_tokens"},
    **{f"agora.{name}": name for name in ("id", "round", "calls", "answer", "confidence")},
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
    folder, ids = RunFolder.open(run), _Ids()
    config = read(folder.config)
    resource = Resource({"service.name": "agora-mm", "agora.run": folder.name})
    tracer = TracerProvider(ALWAYS_ON, resource, shutdown_on_exit=False, id_generator=ids).get_tracer("agora-mm")
    for id, scored, started_s, turns in discussions(folder):
        ids.trace, ids.span = _digest(16, id), _digest(8, id)
        started_ns = ends_ns = round(started_s * 1e9)
        root = tracer.start_span(f"invoke_workflow {scored.method}", Context(), start_time=started_ns)
        answer = scored.answer or ""
        root.set_attributes(
            {
                "gen_ai.conversation.id": id,
                "gen_ai.operation.name": "invoke_workflow",
                "gen_ai.workflow.name": scored.method,
                "gen_ai.input.messages": _messages("user", scored.text),
                "gen_ai.output.messages": _messages("assistant", answer, finish_reason="stop"),
                "agora.gold": scored.gold,
                # OpenInference's names, which Phoenix shows.
                **{"openinference.span.kind": "CHAIN", "input.value": scored.text, "output.value": answer},
            }
        )
        made = [root]
        for turn, time, is_recorded in turns:
            ids.span = _digest(8, id, turn.id)
            links = [otel.Link(otel.SpanContext(ids.trace, _digest(8, id, other), False)) for other in turn.heard]
            begins_ns = started_ns + round(time.start * 1e9)
            own = otel.set_span_in_context(root)
            span = tracer.start_span(f"invoke_agent {turn.agent}", own, links=links, start_time=begins_ns)
            (model, _), ok = config.model_of_role(turn.agent) or (config.model, None), turn.status is Status.OK
            ended = {"name": turn.agent, "finish_reason": "stop" if ok else "error"}
            span.set_attributes(
                {
                    "gen_ai.conversation.id": id,
                    "gen_ai.operation.name": "invoke_agent",
                    "gen_ai.provider.name": model.kind,
                    "gen_ai.request.model": model_name(model),
                    "gen_ai.output.messages": _messages("assistant", turn.content, **ended),
                    **{name: value for name, field in FIELDS.items() if (value := getattr(turn, field)) is not None},
                }
            )
            span.set_attribute("agora.times", "recorded" if is_recorded else "made_up")
            if is_recorded:
                span.set_attribute("gen_ai.usage.cache_read.input_tokens", time.cached_tokens)
            if not ok:
                span.set_status(otel.StatusCode.ERROR, turn.error)
                span.set_attribute("error.type", turn.status)
            ends_ns = max(ends_ns, end_ns := begins_ns + round(time.seconds * 1e9))
            span.end(end_ns)
            made.append(span)
        if not scored.failed_calls:
            score: Any = {"gen_ai.evaluation.name": "utility", "gen_ai.evaluation.score.value": scored.utility}
            root.add_event("gen_ai.evaluation.result", score, ends_ns)
        root.end(ends_ns)
        yield cast(list[ReadableSpan], made)


def write(run: Path, target: Path) -> str:
    """Writes a run's spans to a file as OTLP's JSON, a discussion a line. Returns what was written."""
    number = 0
    with target.open("w") as file:
        for made in spans(run):
            request = MessageToJson(encode_spans(made), use_integers_for_enums=True)

            def hexadecimal(fields: dict[str, Any]) -> dict[str, Any]:
                """Writes ids in hexadecimal: OTLP's JSON differs in them from JSON of other protocol buffers."""
                return {key: base64.b64decode(of).hex() if key in IDS else of for key, of in fields.items()}

            file.write(f"{json.dumps(json.loads(request, object_hook=hexadecimal))}\n")
            number += len(made)
    return f"{number:,} spans"


def send(run: Path, address: str) -> str:
    """Sends a run's spans to an endpoint of OTLP over HTTP. Returns what was sent. Raises UserError where it fails."""
    logged, log = BufferingHandler(1_000), logging.getLogger("opentelemetry")
    log.addHandler(logged)
    log.propagate = False  # its reason is in the error
    exporter, number = OTLPSpanExporter(address), 0
    for made in spans(run):
        if exporter.export(made) is not SpanExportResult.SUCCESS:
            reason = logged.buffer[-1].getMessage() if logged.buffer else "no reason given"
            raise UserError(
                f"export.to={address} took {number:,} spans and refused the next ({reason}); expected a collector's "
                "address, such as http://localhost:4318/v1/traces"
            )
        number += len(made)
    return f"{number:,} spans"


def _messages(role: str, text: str, **more: str) -> str:
    return json.dumps([{"role": role, "parts": [{"type": "text", "content": text}], **more}])


def _digest(size: int, *parts: str) -> int:
    return int.from_bytes(hashlib.blake2b("\x1f".join(parts).encode(), digest_size=size).digest())
