"""Metrics: few labels, cheap counts, and one sum over several server processes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from signalbook import metrics
from signalbook.metrics import HttpCounts, api_of

COUNT = """
from signalbook import metrics
metrics.COMMIT.observe(0.2)
metrics.HTTP.add("/a", "GET", 200, 0.2)
metrics.HTTP.flush()
metrics.Process().measure()
"""


def samples(text: bytes) -> dict[tuple[str, tuple[str, ...]], float]:
    """Values by name and values of labels, in the order of the labels' names."""
    return {
        (sample.name, tuple(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }


@pytest.mark.parametrize(
    ("path", "api"),
    [
        ("/", "xregistry"),
        ("/schemagroups/g", "xregistry"),
        ("/compat/schemaregistry/v0.2/schemagroups", "schemaregistry"),
        ("/compat/anything", "xregistry"),
        ("/compat", "xregistry"),
        ("/events", "events"),
        ("/health/live", "operations"),
        ("", "xregistry"),
    ],
)
def test_the_api_of_a_path(path: str, api: str) -> None:
    assert api_of(path) == api


def test_number_of_request_labels_is_bounded() -> None:
    counts = HttpCounts()
    before = samples(metrics.exposition("")[1])
    for number in range(100):
        counts.add(f"/compat/{number}/x", f"M{number}", 400 + number % 5, 0.003)
    counts.add("/a", "GET", 200, 40.0)
    counts.flush()
    counts.flush()
    after = samples(metrics.exposition("")[1])
    name = "signalbook_http_request_duration_seconds"
    changed = {key: after[key] - before.get(key, 0) for key in after if key[0].startswith(name)}
    changed = {key: value for key, value in changed.items() if value}
    other = ("xregistry", "other", "4xx")
    assert changed[f"{name}_count", other] == 100
    assert changed[f"{name}_sum", other] == pytest.approx(0.3)
    assert changed[f"{name}_bucket", ("xregistry", "0.005", "other", "4xx")] == 100
    assert (f"{name}_bucket", ("xregistry", "0.0025", "other", "4xx")) not in changed
    assert changed[f"{name}_bucket", ("xregistry", "+Inf", "GET", "2xx")] == 1
    assert sum(sample == f"{name}_count" for sample, _ in changed) == 2


def test_metrics_include_all_processes_and_dead_ones(tmp_path: Path) -> None:
    environment = {**os.environ, metrics.FOLDER: str(tmp_path)}
    for _ in range(2):
        subprocess.run([sys.executable, "-c", COUNT], env=environment, check=True)
    ask = f"{COUNT}\nimport sys; sys.stdout.buffer.write(metrics.exposition('')[1])"
    text = subprocess.run([sys.executable, "-c", ask], env=environment, check=True, capture_output=True).stdout
    values = samples(text)
    assert values["signalbook_commit_duration_seconds_count", ()] == 3
    assert values["signalbook_http_request_duration_seconds_count", ("xregistry", "GET", "2xx")] == 3
    assert values["signalbook_workers", ()] == 1
    assert values["signalbook_resident_memory_bytes", ()] > 1e6
    assert values["signalbook_cpu_seconds_total", ()] > 0


def test_open_metrics_format_is_negotiated() -> None:
    media_type, text = metrics.exposition("application/openmetrics-text; version=1.0.0")
    assert media_type.startswith("application/openmetrics-text")
    assert text.endswith(b"# EOF\n")
