"""Send traces and logs to OpenTelemetry if environment variables (``OTEL_*``) name a destination.

A trace continues through the outbox. The correlation id of a write contains the trace and span of its request, so that
deliveries belong to the same trace, whichever server makes them (docs/operations.md, Traces).
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
    """The error for ``OTEL_*`` variables that cannot be satisfied. The message contains advice."""


class _State:
    """The tracing state of this process. ``tracer`` is None while tracing is off."""

    tracer: Tracer | None = None


def wanted(environ: Mapping[str, str], signal: str) -> str:
    """Return the exporter for ``signal``, which is ``TRACES`` or ``LOGS``: ``otlp``, ``console``, or ``""`` for none.

    Raises ``TracingError`` for an unsupported exporter or protocol.
    """
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
    """Raise ``TracingError`` if ``environ`` asks for an unsupported exporter, or OpenTelemetry is not installed."""
    if (wanted(environ, "TRACES") or wanted(environ, "LOGS")) and find_spec("opentelemetry") is None:
        raise TracingError(f"OTEL_* is set, which needs OpenTelemetry: {install('otel')}")


def begin(environ: Mapping[str, str], version: str) -> Callable[[], None]:
    """Start to send traces and logs as ``environ`` says. ``version`` is the version of the service.

    Return a function that sends the remaining data and stops. Raises like ``check``.
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
    """Record the block as one trace with the name ``name``, if ``environ`` turns tracing on. Raises like ``check``."""
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
    """Return True if tracing is on. Call this before doing any work for traces."""
    return _State.tracer is not None


def current() -> Context | None:
    """Return the trace context of this thread or task, to pass it to another one, or None if tracing is off."""
    if _State.tracer is None:
        return None
    from opentelemetry.context import get_current

    return get_current()


@contextmanager
def within(context: Context | None) -> Iterator[None]:
    """Use ``context``, which ``current`` returned in another thread or task, within the block. None has no effect."""
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
    """Return a context that records a span. The span is None if tracing is off.

    ``parent`` is the context of the parent span (by default the current one), and ``links`` are contexts of related
    spans. An exception that leaves the block is recorded.
    """
    if _State.tracer is None:
        return nullcontext()
    from opentelemetry.trace import Link, get_current_span

    spans = [get_current_span(context).get_span_context() for context in links]
    valid_links = [Link(linked) for linked in spans if linked.is_valid]
    return _State.tracer.start_as_current_span(name, parent, attributes=dict(attributes or {}), links=valid_links)


def describe(span: Span | None, attributes: Attributes, links: Iterable[Context | None]) -> None:
    """Add ``attributes`` and ``links`` to ``span``. Do nothing if it is None."""
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
    """Record a request as a span that continues the trace in its header ``traceparent``.

    Yield a function that takes the status of the response. The query of the URL is not recorded, because it may contain
    private data.
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
    """Return a correlation id made of the current trace and span, or ``""`` if there is no current span."""
    if _State.tracer is None:
        return ""
    from opentelemetry.trace import format_span_id, format_trace_id, get_current_span

    here = get_current_span().get_span_context()
    return f"{format_trace_id(here.trace_id)}-{format_span_id(here.span_id)}" if here.is_valid else ""


def correlated(ids: Iterable[str]) -> list[Context]:
    """Return the trace contexts of the requests that ``ids`` refer to, each once.

    Ids that were not made by ``correlationid`` are left out. Return an empty list if tracing is off.
    """
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
    """Return the headers with which another program continues this trace (W3C Trace Context), or no headers."""
    if _State.tracer is None:
        return {}
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    headers: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(headers)
    return headers
