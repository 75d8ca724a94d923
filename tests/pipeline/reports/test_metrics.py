"""What Prometheus gets: the sums of the reports, and nothing without bounds."""

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families

from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.report import Report, Span, Tally
from signalbook.pipeline.reports.metrics import Metrics
from signalbook.values import Finding

XID = "/messagegroups/g/messages/a"
PREFIX = "signalbook_pipeline_"


def report(batch: str = "b1") -> Report:
    """Five read: two landed, two dead letters, one dropped."""
    tally = Tally(read=5, dropped=1, bytes=50)
    time = int(datetime(2026, 1, 2, tzinfo=UTC).timestamp()) * 1_000_000
    tally.land(XID, 2, Span(oldest=time, newest=time))
    tally.reject("schema_violation", [XID])
    tally.reject("no_match", [])
    findings = [Finding(path="/secret", rule="type", message="no")]
    tally.violations.record(XID, findings, source="f", position=0, original=b"{}")
    finished = datetime(2026, 1, 2, 0, 0, 9, tzinfo=UTC)
    return Report(batch=batch, fingerprint="f", tally=tally, seconds=0.5, written=7, finished=finished)


def samples(metrics: Metrics) -> dict[tuple[str, ...], float]:
    """Values by name and labels but the pipeline's."""
    families = text_string_to_metric_families(metrics.format_text().decode())
    values = {}
    for sample in (sample for family in families for sample in family.samples):
        labels = {name: value for name, value in sample.labels.items() if name != "pipeline"}
        assert sample.labels["pipeline"] == "lake"
        values[sample.name.removeprefix(PREFIX), *labels.values()] = sample.value
    return values


def test_sums_of_all_batches() -> None:
    """No content of messages is a label (K-48)."""
    metrics = Metrics("lake")
    metrics.add(report())
    metrics.add(report("b2"))
    assert b"secret" not in metrics.format_text()
    values = samples(metrics)
    assert values["batches_total",] == 2
    assert values["read_messages_total",] == 10
    assert values["landed_messages_total", XID] == 4
    assert values["rejected_messages_total", XID, "schema_violation"] == 2
    assert values["rejected_messages_total", "", "no_match"] == 2
    assert (values["dropped_messages_total",], values["dead_letter_messages_total",]) == (2, 4)
    assert (values["read_bytes_total",], values["written_bytes_total",]) == (100, 14)
    assert values["newest_event_timestamp_seconds", XID] == datetime(2026, 1, 2, tzinfo=UTC).timestamp()
    assert (values["lag_seconds",], values["last_batch_messages",]) == (9, 5)
    assert values["left_out_definitions",] == 0
    metrics.add(replace(report("b3"), left_out={"/m": ("why",)}))
    assert samples(metrics)["left_out_definitions",] == 1
    ends = {f"{end}_messages_total" for end in ("landed", "rejected", "dropped")}
    assert values["read_messages_total",] == sum(value for (name, *_), value in values.items() if name in ends)


def test_before_the_first_batch_and_of_former_programs() -> None:
    metrics = Metrics("lake")
    assert samples(metrics)["batches_total",] == 0
    old = Tally(read=2, dead_lettered=2, rejected=Counter({XID: 1}), reasons=Counter({"no_match": 2}))
    metrics.add(replace(report(), tally=old, finished=None))
    values = samples(metrics)
    assert values["rejected_messages_total", "", "no_match"] == 2
    assert ("lag_seconds",) not in values


def test_hostile_names_are_quoted() -> None:
    metrics, tally = Metrics("lake"), Tally()
    tally.land('/x"\n} 1\\', 3)
    metrics.add(replace(report(), tally=tally))
    assert samples(metrics)["landed_messages_total", '/x"\n} 1\\'] == 3


def test_a_file_is_replaced(tmp_path: Path) -> None:
    metrics, path = Metrics("lake"), tmp_path / "signalbook.prom"
    for number in (1, 2):
        metrics.add(report(f"b{number}"))
        metrics.write(path)
    assert path.read_bytes() == metrics.format_text()
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(PipelineError, match="cannot write to"):
        metrics.write(tmp_path / "none" / "x.prom")


def test_over_http() -> None:
    metrics = Metrics("lake")
    metrics.add(report())
    server = metrics.serve("127.0.0.1", 0)
    try:
        with pytest.raises(PipelineError, match=f"cannot serve metrics at 127.0.0.1:{server.port}"):
            metrics.serve("127.0.0.1", server.port)
        with urlopen(f"http://127.0.0.1:{server.port}/metrics") as answer:
            assert answer.read() == metrics.format_text()
            assert answer.headers["Content-Type"].startswith("text/plain")
    finally:
        server.close()
