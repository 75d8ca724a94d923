"""Traces and logs: one trace from a request to its deliveries, and nothing at all where nobody asks for it."""

import gzip
import json
import logging
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import httpx
import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from tests.serving import BIN, answers, kept_port, serving_answers

from signalbook import tracing
from signalbook.logs import JsonFormatter
from signalbook.tracing import TracingError, check, wanted

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = "b7ad6b7169203331"
PATIENCE = 120


class Collector:
    """An OTLP collector, and a web hook."""

    def __init__(self) -> None:
        self.spans: list[Any] = []
        self.logs: list[Any] = []
        self.hooked: list[tuple[dict[str, str], Any]] = []

    def take(self, path: str, headers: dict[str, str], body: bytes) -> None:
        if path == "/v1/traces":
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                self.spans += [span for scope in resource.scope_spans for span in scope.spans]
        elif path == "/v1/logs":
            for resource_logs in ExportLogsServiceRequest.FromString(body).resource_logs:
                self.logs += [
                    record.body.string_value for scope in resource_logs.scope_logs for record in scope.log_records
                ]
        else:
            self.hooked.append((headers, json.loads(body)))


@pytest.fixture
def collector() -> Iterator[tuple[Collector, str]]:
    """Yield a collector and its URL."""
    collector = Collector()

    def take(request: BaseHTTPRequestHandler, body: bytes) -> tuple[int, dict[str, str], bytes]:
        if request.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        collector.take(request.path, {name.lower(): value for name, value in request.headers.items()}, body)
        return 200, {}, b""

    with serving_answers(take) as url:
        yield collector, url


def test_one_trace_from_a_request_to_its_delivery(collector: tuple[Collector, str], tmp_path: Path) -> None:
    seen, endpoint = collector
    options = ["--allow-sinks", "127.0.0.0/8", "--sink-consent", "assumed", "--log-format", "json"]
    environ = {**os.environ, "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, "OTEL_BSP_SCHEDULE_DELAY": "200"}
    with kept_port() as port:
        url = f"http://127.0.0.1:{port}"
        command = [str(BIN / "signalbook"), "serve", "--port", str(port), *options]
        process = subprocess.Popen(
            command, cwd=tmp_path, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        try:
            while not answers(url):
                assert process.poll() is None, "the server ended"
            subscription = {"protocol": "HTTP", "sink": f"{endpoint}/hook"}
            assert httpx.post(f"{url}/subscriptions", json=subscription, timeout=PATIENCE).status_code == 201
            headers = {"traceparent": f"00-{TRACE}-{PARENT}-01"}
            httpx.get(f"{url}/schemagroups?filter=name=secret", headers=headers, timeout=PATIENCE)
            answer = httpx.put(f"{url}/schemagroups/a", json={}, headers=headers, timeout=PATIENCE)
            deadline = time.monotonic() + PATIENCE
            while len(seen.hooked) < 1 or not {"commit", "deliver"} <= {span.name for span in seen.spans}:
                assert time.monotonic() < deadline, [span.name for span in seen.spans]
                time.sleep(0.05)
        finally:
            process.terminate()
            log = process.communicate(timeout=PATIENCE)[1]
    here = [span for span in seen.spans if span.trace_id.hex() == TRACE]
    requests = {span.span_id.hex(): span for span in here if span.name == "PUT xregistry"}
    correlation = answer.headers["xRegistry-xregcorrelationid"]
    trace, request = correlation.split("-")
    assert trace == TRACE
    assert requests[request].parent_span_id.hex() == PARENT
    attributes = {attribute.key: attribute.value for attribute in requests[request].attributes}
    assert attributes["http.response.status_code"].int_value == 201
    assert "secret" not in str(seen.spans)
    links = {link.span_id.hex() for span in seen.spans if span.name == "commit" for link in span.links}
    assert request in links
    dispatched = {link.span_id.hex() for span in seen.spans if span.name == "dispatch" for link in span.links}
    assert request in dispatched
    delivered = {span.span_id.hex(): span for span in here if span.name == "deliver"}
    assert {span.parent_span_id.hex() for span in delivered.values()} <= requests.keys()
    for headers, event in seen.hooked:
        _, trace, span_id, _ = headers["traceparent"].split("-")
        assert (trace, span_id in delivered) == (TRACE, True)
        assert event["xregcorrelationid"].startswith(TRACE)
    assert log == "" or all(json.loads(line)["level"] for line in log.splitlines())


def test_opentelemetry_is_loaded_on_demand() -> None:
    program = (
        "import sys, signalbook.server; from signalbook import tracing;"
        "assert tracing.begin({}, '1')() is None and tracing.current() is None and tracing.outgoing() == {};"
        "assert tracing.correlationid() == '' and not tracing.tracing() and tracing.correlated(['a']) == [];"
        "\nwith tracing.span('x') as span: assert span is None\n"
        "sys.exit('opentelemetry' in sys.modules)"
    )
    environ = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    assert subprocess.run([sys.executable, "-c", program], env=environ).returncode == 0


@pytest.mark.parametrize(
    ("environ", "traces", "logs"),
    [
        ({}, "", ""),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c"}, "otlp", "otlp"),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c"}, "otlp", ""),
        ({"OTEL_TRACES_EXPORTER": "console"}, "console", ""),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_LOGS_EXPORTER": "none"}, "otlp", ""),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_SDK_DISABLED": "true"}, "", ""),
    ],
)
def test_signals_of_the_environment(environ: dict[str, str], traces: str, logs: str) -> None:
    assert (wanted(environ, "TRACES"), wanted(environ, "LOGS")) == (traces, logs)


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        ({"OTEL_TRACES_EXPORTER": "jaeger"}, "OTEL_TRACES_EXPORTER is one of otlp, console, none, not 'jaeger'"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "c", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "not grpc"),
    ],
)
def test_unsupported_setting_is_an_error(environ: dict[str, str], words: str) -> None:
    with pytest.raises(TracingError, match=words):
        check(environ)


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracing, "find_spec", lambda _: None)
    check({})
    with pytest.raises(TracingError, match=re.escape("[otel]")):
        check({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c"})


def test_a_log_line_is_an_object() -> None:
    formatter = JsonFormatter()
    try:
        raise ValueError("x\ny")
    except ValueError:
        record = logging.LogRecord("a.b", logging.WARNING, "f", 1, "of %s\n\u2028", ("é",), sys.exc_info())
    line = formatter.format(record)
    assert "\n" not in line
    log_entry = json.loads(line)
    assert (log_entry["level"], log_entry["logger"], log_entry["message"]) == ("warning", "a.b", "of é\n\u2028")
    assert log_entry["time"].endswith("Z")
    assert "ValueError: x\ny" in log_entry["exception"]
    assert "trace_id" not in log_entry
