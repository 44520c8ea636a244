"""Spans of a run, as a collector receives them and as a file holds them."""

import gzip
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("opentelemetry.exporter.otlp.proto.http")

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes

from actors.messages import Trace
from experiments.records.recorder import RunFolder
from run import main
from tests.experiments.export.conftest import FAILED, TIMED


class Collector(ThreadingHTTPServer):
    """Receives spans of OTLP over HTTP; answers with `status`."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.status = 200
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1/traces"


class _Handler(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        request = ExportTraceServiceRequest.FromString(body)
        self.server.spans += [s for of in request.resource_spans for scope in of.scope_spans for s in scope.spans]
        self.send_response(self.server.status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def collector() -> Iterator[Collector]:
    server = Collector()
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def attributes(span: Span) -> dict[str, Any]:
    return {one.key: getattr(one.value, which) for one in span.attributes if (which := one.value.WhichOneof("value"))}


def recorded(folder: RunFolder) -> dict[tuple[str, str], Trace]:
    return {
        (scored.method, scored.question): trace
        for scored in folder.scores()
        for trace in folder.traces(f"evaluate-{scored.method}")
        if trace.question == scored.question
    }


def test_a_collector_gets_a_trace_for_each_discussion(folder: RunFolder, collector: Collector) -> None:
    assert main([f"export={folder.path}", "export.format=otel", f"export.to={collector.address}"]) == 0
    roots = {span.trace_id: span for span in collector.spans if not span.parent_span_id}
    expected = recorded(folder)
    assert len(roots) == len(expected)
    for root in roots.values():
        own = attributes(root)
        question = own["gen_ai.conversation.id"].split("/")[2]
        trace = expected[own["gen_ai.workflow.name"], question]
        turns = [
            span for span in collector.spans if (span.trace_id, span.parent_span_id) == (root.trace_id, root.span_id)
        ]
        by_turn = {attributes(span)["agora.id"]: span for span in turns}
        assert list(by_turn) == [turn.id for turn in trace.turns]
        for turn in trace.turns:
            span, found = by_turn[turn.id], attributes(by_turn[turn.id])
            assert (found["gen_ai.agent.name"], found["gen_ai.operation.name"]) == (turn.agent, "invoke_agent")
            assert found["gen_ai.usage.input_tokens"] == turn.prompt_tokens
            assert found["gen_ai.usage.output_tokens"] == turn.completion_tokens
            assert found["gen_ai.request.model"] == "reader"
            assert {link.span_id for link in span.links} == {by_turn[other].span_id for other in turn.heard}
            assert all(link.trace_id == root.trace_id for link in span.links)
            assert (span.status.code == 2) == (turn.status != "ok")
            assert root.start_time_unix_nano <= span.start_time_unix_nano <= span.end_time_unix_nano
            assert span.end_time_unix_nano <= root.end_time_unix_nano
        assert len(root.events) == (0 if (trace.method, question) == ("m3prune", FAILED) else 1)


def test_names_of_attributes_are_those_of_the_conventions(folder: RunFolder, collector: Collector) -> None:
    assert main([f"export={folder.path}", "export.format=otel", f"export.to={collector.address}"]) == 0
    known = {value for name, value in vars(gen_ai_attributes).items() if name.startswith("GEN_AI_")}
    used = {name for span in collector.spans for name in attributes(span) if name.startswith("gen_ai.")}
    assert used <= known
    operations = {attributes(span)["gen_ai.operation.name"] for span in collector.spans}
    assert operations <= {value.value for value in gen_ai_attributes.GenAiOperationNameValues}


def test_times_are_the_recorded_ones_and_others_are_marked(folder: RunFolder, collector: Collector) -> None:
    assert main([f"export={folder.path}", "export.format=otel", f"export.to={collector.address}"]) == 0
    of_question = [
        span for span in collector.spans if f"/m3prune/{TIMED}" in attributes(span)["gen_ai.conversation.id"]
    ]
    root, *turns = of_question
    assert root.start_time_unix_nano == 1_700_000_000 * 10**9
    assert [span.start_time_unix_nano for span in turns] == [(1_700_000_000 + 2 * n) * 10**9 for n in range(len(turns))]
    assert {span.end_time_unix_nano - span.start_time_unix_nano for span in turns} == {1_500_000_000}
    marks = [attributes(span).get("agora.times") for span in collector.spans]
    assert marks.count("recorded") == len(turns)
    assert marks.count("made_up") > 0


def test_a_second_export_is_the_same_and_a_file_has_the_same_spans(
    folder: RunFolder, collector: Collector, target: Path
) -> None:
    for _ in range(2):
        assert main([f"export={folder.path}", "export.format=otel", f"export.to={collector.address}"]) == 0
    half = len(collector.spans) // 2
    assert collector.spans[:half] == collector.spans[half:]
    assert main([f"export={folder.path}", "export.format=otel", f"export.to={target}"]) == 0
    requests = [json.loads(line) for line in target.read_text().splitlines()]
    in_file = [span for request in requests for span in request["resourceSpans"][0]["scopeSpans"][0]["spans"]]
    assert [(span["traceId"], span["spanId"], span.get("parentSpanId", "")) for span in in_file] == [
        (span.trace_id.hex(), span.span_id.hex(), span.parent_span_id.hex()) for span in collector.spans[:half]
    ]
    assert [[link["spanId"] for link in span.get("links", [])] for span in in_file] == [
        [link.span_id.hex() for link in span.links] for span in collector.spans[:half]
    ]


def test_an_endpoint_that_refuses_spans_is_one_line(
    folder: RunFolder, collector: Collector, capsys: pytest.CaptureFixture[str]
) -> None:
    collector.status = 404
    assert main([f"export={folder.path}", "export.format=otel", f"export.to={collector.address}"]) == 2
    said = capsys.readouterr()
    assert (said.out, said.err.count("\n")) == ("", 1)
    assert "404" in said.err
