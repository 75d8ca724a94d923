"""Traces and logs for OpenTelemetry: off, and free of cost, unless the environment (``OTEL_*``) says where they go.

A trace goes on through the outbox: the correlation id of a write is then the trace and span of its request, by which
its deliveries belong to the same trace, whichever server makes them (docs/operations.md, Traces).
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from signalbook.errors import SignalbookError
from signalbook.plugins import install

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from opentelemetry.context import Context
    from opentelemetry.trace import Span, Tracer

_WHERE: Final = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_{}_ENDPOINT", "OTEL_{}_EXPORTER")
_EXPORTERS: Final = ("otlp", "console", "none")
_CORRELATION: Final = re.compile(r"(?P<trace>[0-9a-f]{32})-(?P<span>[0-9a-f]{16})", re.ASCII)

Attributes = Mapping[str, str | int]


class TracingError(SignalbookError):
    """The environment asks for what cannot be done; the message says what to do."""


class _State:
    """The one of this process; ``tracer`` is None while there are no traces."""

    tracer: Tracer | None = None


def wanted(environ: Mapping[str, str], signal: str) -> str:
    """Return where ``signal``, TRACES or LOGS, goes: otlp, console, or "". Raises ``TracingError``."""
    if environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return ""
    if not any(environ.get(name.format(signal)) for name in _WHERE):
        return ""
    name = f"OTEL_{signal}_EXPORTER"
    exporter = environ.get(name, "otlp")
    if exporter not in _EXPORTERS:
        raise TracingError(f"{name} is one of {', '.join(_EXPORTERS)}, not {exporter!r}")
    protocol = environ.get(f"OTEL_EXPORTER_OTLP_{signal}_PROTOCOL") or environ.get("OTEL_EXPORTER_OTLP_PROTOCOL", "")
    if exporter == "otlp" and protocol == "grpc":
        raise TracingError(
            "OTEL_EXPORTER_OTLP_PROTOCOL is http/protobuf here, not grpc: name the collector's HTTP port"
        )
    return "" if exporter == "none" else exporter


def check(environ: Mapping[str, str]) -> None:
    """Raise ``TracingError`` if the environment asks for what is not installed or not there."""
    if (wanted(environ, "TRACES") or wanted(environ, "LOGS")) and find_spec("opentelemetry") is None:
        raise TracingError(f"OTEL_* is set, which needs OpenTelemetry: {install('otel')}")


def begin(environ: Mapping[str, str], version: str) -> Callable[[], None]:
    """Begin to trace and to send logs, as the environment says. Returns what sends the rest and ends it.

    Raises as ``check``.
    """
    check(environ)
    traces, logs = wanted(environ, "TRACES"), wanted(environ, "LOGS")
    if not traces and not logs:
        return lambda: None
    from opentelemetry.sdk.resources import Resource

    resource = Resource.create(
        {"service.name": environ.get("OTEL_SERVICE_NAME", "signalbook"), "service.version": version}
    )
    ends = [_begin_traces(traces, resource)] if traces else []
    ends += [_begin_logs(logs, resource)] if logs else []

    def end() -> None:
        _State.tracer = None
        for end_part in ends:
            end_part()

    return end


@contextmanager
def program(name: str, environ: Mapping[str, str], version: str) -> Iterator[None]:
    """A program that is a trace of its own, if the environment says so. Raises as ``check``."""
    end = begin(environ, version)
    try:
        with span(name):
            yield
    finally:
        end()


def _begin_traces(exporter: str, resource: Any) -> Callable[[], None]:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter

    provider = TracerProvider(resource=resource)
    provider.add_span_processor(
        BatchSpanProcessor(ConsoleSpanExporter() if exporter == "console" else OTLPSpanExporter())
    )
    _State.tracer = provider.get_tracer("signalbook")
    return provider.shutdown


def _begin_logs(exporter: str, resource: Any) -> Callable[[], None]:
    from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
    from opentelemetry.sdk._logs import LoggerProvider, LoggingHandler
    from opentelemetry.sdk._logs.export import BatchLogRecordProcessor, ConsoleLogRecordExporter

    provider = LoggerProvider(resource=resource)
    sending = ConsoleLogRecordExporter() if exporter == "console" else OTLPLogExporter()
    provider.add_log_record_processor(BatchLogRecordProcessor(sending))
    handler = LoggingHandler(logger_provider=provider)
    logging.getLogger().addHandler(handler)

    def end() -> None:
        logging.getLogger().removeHandler(handler)
        provider.shutdown()

    return end


def tracing() -> bool:
    """Return True if there are traces. Check this before any work for them."""
    return _State.tracer is not None


def current() -> Context | None:
    """Return the context of this thread or task for another one, or None without traces."""
    if _State.tracer is None:
        return None
    from opentelemetry.context import get_current

    return get_current()


@contextmanager
def within(context: Context | None) -> Iterator[None]:
    """Go on with what ``current`` returned elsewhere."""
    if context is None:
        yield
        return
    from opentelemetry.context import attach, detach

    token = attach(context)
    try:
        yield
    finally:
        detach(token)


def span(
    name: str, attributes: Attributes | None = None, *, parent: Context | None = None, links: Iterable[Context] = ()
) -> AbstractContextManager[Span | None]:
    """A part of what goes on, None while there are no traces; an exception that leaves it is noted."""
    if _State.tracer is None:
        return nullcontext()
    from opentelemetry.trace import Link, get_current_span

    spans = [get_current_span(context).get_span_context() for context in links]
    valid_links = [Link(linked) for linked in spans if linked.is_valid]
    return _State.tracer.start_as_current_span(name, parent, attributes=dict(attributes or {}), links=valid_links)


def describe(span: Span | None, attributes: Attributes, links: Iterable[Context | None]) -> None:
    """Say more of a span, and with which others it is connected."""
    if span is None:
        return
    from opentelemetry.trace import get_current_span

    span.set_attributes(dict(attributes))
    for context in links:
        span.add_link(get_current_span(context).get_span_context())


@contextmanager
def serving(
    method: str, path: str, api: str, headers: Iterable[tuple[bytes, bytes]]
) -> Iterator[Callable[[int], None]]:
    """A request as a span, which goes on with the trace of its ``traceparent``. What is yielded takes the status.

    The query is left out: it may hold what is nobody's business.
    """
    from opentelemetry.trace import SpanKind, StatusCode
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    assert _State.tracer is not None
    carrier = {name.decode("latin-1"): value.decode("latin-1") for name, value in headers if name.startswith(b"trace")}
    parent = TraceContextTextMapPropagator().extract(carrier)
    attributes = {"http.request.method": method, "url.path": path, "signalbook.api": api}
    with _State.tracer.start_as_current_span(
        f"{method} {api}", parent, kind=SpanKind.SERVER, attributes=attributes
    ) as span:

        def answered(status: int) -> None:
            span.set_attribute("http.response.status_code", status)
            if status >= 500:
                span.set_status(StatusCode.ERROR)

        yield answered


def correlationid() -> str:
    """The trace and span that go on here as the id of an interaction, ``""`` without."""
    if _State.tracer is None:
        return ""
    from opentelemetry.trace import format_span_id, format_trace_id, get_current_span

    here = get_current_span().get_span_context()
    return f"{format_trace_id(here.trace_id)}-{format_span_id(here.span_id)}" if here.is_valid else ""


def correlated(ids: Iterable[str]) -> list[Context]:
    """The requests that correlation ids name, as far as those are any's, each once."""
    if _State.tracer is None:
        return []
    from opentelemetry.context import Context
    from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context

    contexts = []
    for id_text in dict.fromkeys(ids):
        match = _CORRELATION.fullmatch(id_text)
        if match:
            trace, span_id = int(match["trace"], 16), int(match["span"], 16)
            where = SpanContext(trace, span_id, is_remote=True, trace_flags=TraceFlags(TraceFlags.SAMPLED))
            contexts.append(set_span_in_context(NonRecordingSpan(where), Context()))
    return contexts


def outgoing() -> dict[str, str]:
    """The headers by which another program goes on with this trace (W3C Trace Context); none without."""
    if _State.tracer is None:
        return {}
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    headers: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(headers)
    return headers
