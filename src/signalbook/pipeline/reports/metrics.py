"""Totals of the batches of an output folder, as Prometheus metrics.

All numbers come from the reports of batches. The labels are the name of the pipeline, the definitions (at most as many
as the registry has) and the reasons (K-44).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest, start_http_server, write_to_textfile
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from signalbook.pipeline.errors import PipelineError, build_disk_error
from signalbook.pipeline.report import Report, Tally, Violations

_PREFIX: Final = "signalbook_pipeline_"
_PIPELINE: Final = "pipeline"


class Metrics(Collector):
    """The totals of all batches of one pipeline, and gauges of its newest batch. Threads may share an instance."""

    def __init__(self, pipeline: str) -> None:
        self._pipeline = pipeline
        self._lock = threading.Lock()
        self._tally = Tally()
        self._batches = 0
        self._seconds = 0.0
        self._written = 0
        self._last: Report | None = None

    def add(self, report: Report) -> None:
        """Add the report of a batch. Call this once for each batch, in the order of the commits."""
        with self._lock:
            self._tally.add(replace(report.tally, violations=Violations()))
            self._batches += 1
            self._seconds += report.seconds
            self._written += report.written
            self._last = report

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics for Prometheus."""
        with self._lock:
            metrics = [*self._collect_totals(), *self._collect_by_definition(), *self._collect_newest()]
        yield from metrics

    def format_text(self) -> bytes:
        """Return the metrics in the text exposition format."""
        return generate_latest(self._build_registry())

    def write(self, path: Path) -> None:
        """Write the metrics in the text exposition format to the file ``path``, which is replaced atomically.

        Raises ``PipelineError`` if the file cannot be written.
        """
        try:
            write_to_textfile(str(path), self._build_registry())
        except OSError as error:
            raise build_disk_error(error, path) from error

    def serve(self, host: str, port: int) -> Server:
        """Start a server for the metrics at this address. Raises ``PipelineError`` if it cannot listen there."""
        return Server(self._build_registry(), host, port)

    def _build_registry(self) -> CollectorRegistry:
        registry = CollectorRegistry()
        registry.register(self)
        return registry

    def _collect_totals(self) -> Iterator[Metric]:
        tally = self._tally
        yield self._build_counter("batches", "Batches committed.", self._batches)
        yield self._build_counter("read_messages", "Messages read: landed, dead letters and dropped.", tally.read)
        yield self._build_counter("dead_letter_messages", "Messages among the dead letters.", tally.dead_lettered)
        yield self._build_counter("dropped_messages", "Messages dropped by policy.", tally.dropped)
        yield self._build_counter("read_bytes", "Bytes of messages read.", tally.bytes)
        yield self._build_counter("written_bytes", "Bytes of files written.", self._written)
        yield self._build_counter("processing_seconds", "Time spent on batches.", self._seconds)

    def _collect_by_definition(self) -> Iterator[Metric]:
        tally = self._tally
        landed = self._build_counters("landed_messages", "Messages in tables.", "definition")
        for xid, count in sorted(tally.landed.items()):
            landed.add_metric([self._pipeline, xid], count)
        yield landed
        rejected = self._build_counters(
            "rejected_messages", "Dead letters; no definition where it is in doubt.", "definition", "reason"
        )
        for (xid, reason), count in sorted(_count_rejected(tally).items()):
            rejected.add_metric([self._pipeline, xid, reason], count)
        yield rejected
        newest = self._build_gauges(
            "newest_event_timestamp_seconds", "Time of the newest event that landed.", "definition"
        )
        for xid, time in sorted(tally.times.items()):
            newest.add_metric([self._pipeline, xid], time.newest / 1e6)
        yield newest

    def _collect_newest(self) -> Iterator[Metric]:
        last = self._last
        if last is None:
            return
        gauges: dict[str, tuple[str, float | None]] = {
            "last_batch_messages": ("Messages read by the newest batch.", last.tally.read),
            "last_batch_seconds": ("Time that the newest batch took.", last.seconds),
            "last_batch_timestamp_seconds": (
                "When the newest batch was committed.",
                last.finished.timestamp() if last.finished else None,
            ),
            "left_out_definitions": ("Definitions that the newest batch could not use.", len(last.left_out)),
            "lag_seconds": ("Age of the newest event when the newest batch was committed.", last.lag_seconds),
        }
        for name, (text, value) in gauges.items():
            if value is not None:
                gauge = self._build_gauges(name, text)
                gauge.add_metric([self._pipeline], value)
                yield gauge

    def _build_counter(self, name: str, text: str, value: float) -> Metric:
        counter = self._build_counters(name, text)
        counter.add_metric([self._pipeline], value)
        return counter

    def _build_counters(self, name: str, text: str, *labels: str) -> CounterMetricFamily:
        return CounterMetricFamily(_PREFIX + name, text, labels=[_PIPELINE, *labels])

    def _build_gauges(self, name: str, text: str, *labels: str) -> GaugeMetricFamily:
        return GaugeMetricFamily(_PREFIX + name, text, labels=[_PIPELINE, *labels])


class Server:
    """An HTTP server for metrics that runs in a thread until it is closed.

    The attribute ``port`` is the port in use, also if the argument was 0 for any free port.
    """

    def __init__(self, registry: CollectorRegistry, host: str, port: int) -> None:
        try:
            self._server, self._thread = start_http_server(port, addr=host, registry=registry)
        except (OSError, OverflowError) as error:
            raise PipelineError(f"cannot serve metrics at {host}:{port}: {error}; choose another port") from error
        self.port = self._server.server_port

    def close(self) -> None:
        """Stop the server and wait for the end of its thread."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _count_rejected(tally: Tally) -> dict[tuple[str, str], int]:
    """Return the number of dead letters by definition and reason.

    The definition is empty for dead letters that are charged to no definition.
    """
    counts = {(xid, reason): count for xid, reasons in tally.blamed.items() for reason, count in reasons.items()}
    for reason, count in tally.reasons.items():
        unassigned = count - sum(reasons[reason] for reasons in tally.blamed.values())
        if unassigned:
            counts["", reason] = unassigned
    return counts
