"""All metrics of a server. Declare new metrics here, and describe them in docs/operations.md.

The server processes share a folder of counts (prometheus-client's multiprocess mode), so that each of them can return
the metrics of all. Labels must have few values: never an id, a path or a user. Counting takes 1 us, or 4 us for a
histogram, which is too slow for cached reads. Requests are counted in ``HTTP`` and added to the metrics once a second.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Metric,
    ProcessCollector,
    multiprocess,
    values,
)
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

FOLDER: Final = "PROMETHEUS_MULTIPROC_DIR"
"""The environment variable with the shared folder. prometheus-client and child processes read it."""
REGISTRY: Final = CollectorRegistry()
_DURATION_BUCKETS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_WRITES: Final = (1, 2, 4, 8, 16, 32, 64, 128)


class _Histogram(Histogram):
    """A histogram that takes many observations at once."""

    def add(self, counts: Iterable[int], total: float) -> None:
        """Add the numbers of observations in each bucket. ``total`` is the sum of the observed values."""
        self._sum.inc(total)
        for bucket, count in zip(self._buckets, counts, strict=True):
            if count:
                bucket.inc(count)


_METRICS: Final[list[Any]] = []


def _add_histogram(name: str, text: str, *labels: str, buckets: Sequence[float] = _DURATION_BUCKETS) -> _Histogram:
    metric = _Histogram(f"signalbook_{name}", text, labels, buckets=buckets, registry=REGISTRY)
    _METRICS.append(metric)
    return metric


def _add_counter(name: str, text: str, *labels: str) -> Counter:
    metric = Counter(f"signalbook_{name}", text, labels, registry=REGISTRY)
    _METRICS.append(metric)
    return metric


def _add_gauge(name: str, text: str, *labels: str, sum: bool = True) -> Gauge:
    """Declare a gauge. It reports the ``sum`` over all server processes, or else the value that was set last."""
    mode: Final = "livesum" if sum else "livemostrecent"
    metric = Gauge(f"signalbook_{name}", text, labels, registry=REGISTRY, multiprocess_mode=mode)
    _METRICS.append(metric)
    return metric


REQUESTS: Final = _add_histogram(
    "http_request_duration_seconds",
    "Time until a response begins, by API, method and class of the status.",
    "api",
    "method",
    "status",
)
CACHED_READS: Final = _add_counter("cache_requests", "Reads of entities, by whether memory had the response.", "result")
WRITE_QUEUE: Final = _add_gauge("write_queue_length", "Writes that wait for their turn.")
WRITE_WAIT: Final = _add_histogram("write_wait_seconds", "Time the first write of a commit waited for its turn.")
WRITE_BATCH: Final = _add_histogram("write_batch_size", "Writes that share a commit.", buckets=_WRITES)
COMMIT: Final = _add_histogram("commit_duration_seconds", "Time of a transaction that writes, its commit included.")
DATABASE_ERRORS: Final = _add_counter(
    "database_errors", "Errors of the database: busy (a lock timed out) or error.", "kind"
)
DELIVERY_ATTEMPTS: Final = _add_counter(
    "delivery_attempts",
    "Attempts to deliver, by protocol and result: delivered, failed or rejected.",
    "protocol",
    "result",
)
DELIVERED_EVENTS: Final = _add_counter("delivered_events", "Events that sinks took, by protocol.", "protocol")
REPLICATION_FAILING: Final = _add_gauge(
    "replication_failing", "1 while something keeps a registry from being followed or pushed to.", "peer", sum=False
)
REPLICATION_SYNCED: Final = _add_gauge(
    "replication_synced_timestamp_seconds", "When all changes of a registry were last copied.", "peer", sum=False
)
REFUSED: Final = _add_counter(
    "refused_requests",
    "Requests refused, by reason: credentials, policy, quota, the limit of requests, writes, reads or logins, or what "
    "they came by: host or origin.",
    "reason",
)
WORKERS: Final = _add_gauge("workers", "Server processes.")
MEMORY: Final = _add_gauge("resident_memory_bytes", "Memory of all server processes.")
OPEN_FILES: Final = _add_gauge("open_fds", "Open files and connections of all server processes.")
CPU: Final = _add_counter("cpu_seconds", "Processor time of all server processes.")

_APIS: Final = {
    **{each: each for each in ("events", "subscriptions", "notifications", "pipelines", "check", "access", "audit")},
    **{each: each for each in ("search", "impact", "ui")},
    "health": "operations",
    "metrics": "operations",
    "apis": "confluent",
}
_COMPAT: Final = ("schemaregistry", "messagecatalog", "confluent")
_METHODS: Final = frozenset({"GET", "HEAD", "PUT", "PATCH", "POST", "DELETE", "OPTIONS"})


def api_of(path: str) -> str:
    """Return the name of the API that ``path`` belongs to, for labels. Unknown paths belong to ``xregistry``."""
    first, _, remaining = path[1:].partition("/")
    if first != "compat":
        return _APIS.get(first, "xregistry")
    second = remaining.partition("/")[0]
    return second if second in _COMPAT else "xregistry"


def share(folder: str) -> None:
    """Store counts in ``folder`` from now on, also in processes forked from this one. Earlier counts are lost.

    prometheus-client reads the folder only when it is imported, which happens long before the server has a folder.
    """
    for metric in _METRICS:
        metric.clear()
    os.environ[FOLDER] = folder
    values.ValueClass = values.MultiProcessValue()  # type: ignore[no-untyped-call]
    for metric in _METRICS:
        if not metric._labelnames:
            metric._metric_init()


class HttpCounts:
    """The counts of requests of one server process that have not been added to the metrics yet.

    Only the event loop of the process may use it.
    """

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str, int], _Counts] = {}
        self._known: dict[tuple[str, str, int], _Counts] = {}
        self.hits = 0
        self.misses = 0

    def add(self, path: str, method: str, status: int, seconds: float) -> None:
        """Count a request. ``seconds`` is the time until the response began."""
        # Finding the labels of a path takes longer than counting, so they are remembered until the next flush.
        counts = self._known.get((path, method, status)) or self._find(path, method, status)
        counts.buckets[bisect_left(_DURATION_BUCKETS, seconds)] += 1
        counts.total += seconds

    def flush(self) -> None:
        """Add the counts to the metrics, and start again from zero."""
        counted, self._counts, self._known = self._counts, {}, {}
        for (api, method, status), counts in counted.items():
            REQUESTS.labels(api, method, f"{status}xx").add(counts.buckets, counts.total)
        for result, count in (("hit", self.hits), ("miss", self.misses)):
            CACHED_READS.labels(result).inc(count)
        self.hits = self.misses = 0

    def _find(self, path: str, method: str, status: int) -> _Counts:
        labels = (api_of(path), method if method in _METHODS else "other", status // 100)
        counts = self._counts.setdefault(labels, _Counts())
        self._known[path, method, status] = counts
        return counts


class _Counts:
    __slots__ = ("buckets", "total")

    def __init__(self) -> None:
        self.buckets = [0] * (len(_DURATION_BUCKETS) + 1)
        self.total = 0.0


HTTP: Final = HttpCounts()


class Process:
    """Measures the resources that this server process uses. Without ``/proc`` they are reported as 0."""

    def __init__(self) -> None:
        self._collector = ProcessCollector(registry=None)
        self._cpu = 0.0

    def measure(self) -> None:
        """Update the metrics of memory, open files and processor time."""
        WORKERS.set(1)
        values = {sample.name: sample.value for metric in self._collector.collect() for sample in metric.samples}
        MEMORY.set(values.get("process_resident_memory_bytes", 0))
        OPEN_FILES.set(values.get("process_open_fds", 0))
        cpu = values.get("process_cpu_seconds_total", 0.0)
        CPU.inc(cpu - self._cpu)
        self._cpu = cpu


def exposition(accept: str, state: Iterable[Metric] = ()) -> tuple[str, bytes]:
    """Return the media type and text of all metrics in the format that the header ``accept`` asks for.

    ``state`` are additional metrics to include.
    """
    registry = CollectorRegistry()
    folder = os.environ.get(FOLDER)
    if folder:
        _bury(Path(folder))
        multiprocess.MultiProcessCollector(registry, folder)  # type: ignore[no-untyped-call]
    else:
        registry.register(REGISTRY)
    registry.register(_Given(state))
    encode, media_type = choose_encoder(accept)
    return media_type, encode(registry)


class _Given(Collector):
    """A collector that returns metrics which were made before."""

    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self._metrics


def _bury(folder: Path) -> None:
    """Remove the gauges of server processes that have ended. Their counters and histograms are kept."""
    for pid in {int(file.stem.rpartition("_")[2]) for file in folder.glob("gauge_live*.db")}:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            with suppress(FileNotFoundError):  # another process has already removed them
                multiprocess.mark_process_dead(pid, str(folder))  # type: ignore[no-untyped-call]
