"""All commands with inputs and outputs in stores, whose workers share nothing else with the driver."""

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from tests.brokers.servers import ACCOUNT_KEY, AZURITE, PASSWORD
from tests.pipeline.commands.following import follow
from tests.pipeline.commands.test_replay import relax
from tests.pipeline.commands.test_stream import Topic, producer, topic  # noqa: F401 - fixtures
from tests.pipeline.s3 import SERVERS, place
from tests.pipeline.sources.test_protobuf import delimited

from signalbook.messages.cloudevents import CloudEvent
from signalbook.messages.eventformats import find_format
from signalbook.messages.eventformats.avro import CLOUDEVENTS_SCHEMA
from signalbook.pipeline import (
    BacktestJob,
    Job,
    PipelineError,
    Place,
    ReplayJob,
    backfill,
    backtest,
    compact,
    exposition,
    profile,
    read,
    replay,
    run,
    status,
    views,
)
from signalbook.pipeline.journal import TableFormat
from signalbook.pipeline.sources import base
from signalbook.values import JSONObject

pytestmark = [pytest.mark.usefixtures("spark_session"), pytest.mark.merge]
ACCEPTED = "/messagegroups/parcels/messages/parcel.accepted"


def job_for(root: Place, definitions: Path, table_format: TableFormat, **more: Any) -> Job:
    """A job that lands the inputs at ``root`` there."""
    return Job(
        registry=str(definitions),
        inputs=(f"{root}/in/",),
        output=str(root / "lake"),
        storage=root.storage,
        table_format=table_format,
        **more,
    )


# The others by make clouds.
ALL: list[Any] = [("s3proxy", "iceberg"), ("hdfs", "parquet")]
SOAKED = [("s3mock", "parquet"), ("s3proxy", "delta")]
if AZURITE.exists():
    ALL += [
        (server, table_format)
        for server in ("azurite", "google", "hdfs")
        for table_format in ("iceberg", "parquet", "delta")
        if (server, table_format) not in ALL
    ]
ALL += [pytest.param(*each, marks=pytest.mark.soak) for each in SOAKED]


@pytest.mark.parametrize(("server", "table_format"), ALL)
def test_all_commands_work_in_a_store(
    server: str,
    table_format: TableFormat,
    definitions: Path,
    parcels: Any,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    spark_session: SparkSession,
) -> None:
    root = place(server, tmp_path, request)
    more: dict[int, JSONObject] = {3: {"data": {"id": "P3", "weight": 1.5, "colour": "red"}}, 7: {"data": {"id": 7}}}
    events = [parcels.event(n, **more.get(n, {})) for n in range(20)]
    (root / "in/a.jsonl").write(parcels.lines(*events[:10]))
    (root / "in/b.jsonl").write(parcels.lines(*events[10:]))
    job = job_for(root, definitions, table_format, batch_id="b1")
    report = run(job)
    assert (report.tally.read, report.landed, report.tally.reasons) == (20, 19, {"schema_violation": 1})
    assert "committed before" in run(job).note
    assert run(replace(job, batch_id="b2")).landed == 19
    assert read(spark_session, job.place, ACCEPTED).count() == 38
    assert [view["definition"] for view in views(job.place)] == [ACCEPTED]
    assert [(item.rows, item.columns[0].nulls) for item in profile(job.place)] == [(38, 0)]
    assert {result.files_after for result in compact(job.place)} == {1}
    relax(definitions)
    candidate = BacktestJob(
        registry=str(definitions), output=job.output, storage=job.storage, candidate=str(definitions)
    )
    assert backtest(candidate).broken.messages == 0
    replayed = replay(ReplayJob(registry=str(definitions), output=job.output, storage=job.storage))
    assert (replayed.report.landed, replayed.report.tally.dead_lettered) == (2, 0)
    declare(definitions, "colour")
    assert [(result.filled, result.files) for result in backfill(job.place, str(definitions))] == [(2, 1)]
    table = read(spark_session, job.place, ACCEPTED)
    assert table.groupBy("ce_id").count().where("count <> 2").count() == 0
    assert (table.count(), table.where("colour = 'red'").count()) == (40, 2)
    assert [item.tally.read for item in status(job.place).reports[:2]] == [20, 20]
    assert b"signalbook_pipeline" in exposition(job.place, "p")
    _check_objects(job.place)


def declare(path: Path, member: str) -> None:
    """Declare a text member of parcels."""
    document = json.loads(path.read_text())
    version = document["schemagroups"]["parcels"]["schemas"]["parcel"]["versions"]["1"]
    version["schema"]["properties"][member] = {"type": "string"}
    path.write_text(json.dumps(document))


def _check_objects(lake: Place) -> None:
    """Check that no temporary objects remain, and that no object contains the keys."""
    paths = [entry.path for entry in lake.list_files(deep=True)]
    assert not [path for path in paths if path.startswith((".staging", "batches/prepared"))]
    for path in paths:
        content = (lake / path).read()
        assert not [key for key in (PASSWORD, ACCOUNT_KEY, "PRIVATE KEY") if key.encode() in content], path


def as_jsonl(events: Sequence[JSONObject]) -> bytes:
    return "".join(json.dumps(event) + "\n" for event in events).encode()


def as_requests(events: Sequence[JSONObject]) -> bytes:
    head = {"method": "POST", "path": "/", "headers": {"content-type": "application/cloudevents+json"}}
    return as_jsonl([{**head, "body": json.dumps(event)} for event in events])


def encoded(form: str, events: Sequence[JSONObject]) -> list[bytes]:
    """Return the events in an event format, with their data as JSON."""
    events_ = []
    for event in events:
        attributes: dict[str, Any] = {**event, "datacontenttype": "application/json"}
        events_.append(CloudEvent(body=json.dumps(attributes.pop("data")).encode(), attributes=attributes))
    return [find_format(f"application/cloudevents+{form}").encode(event_) for event_ in events_]


def as_avro(events: Sequence[JSONObject]) -> bytes:
    content = BytesIO()
    schema = fastavro.parse_schema(CLOUDEVENTS_SCHEMA)
    fastavro.writer(
        content,
        schema,
        [fastavro.schemaless_reader(BytesIO(event_bytes), schema) for event_bytes in encoded("avro", events)],
    )
    return content.getvalue()


def as_protobuf(events: Sequence[JSONObject], tag: bytes = b"") -> bytes:
    return delimited(*encoded("protobuf", events), tag=tag)


def as_parquet(events: Sequence[JSONObject], **more: Any) -> bytes:
    content = BytesIO()
    pq.write_table(pa.table({"value": [json.dumps(event).encode() for event in events], **more}), content)
    return content.getvalue()


def as_records(events: Sequence[JSONObject]) -> bytes:
    head = [("content-type", b"application/cloudevents+json")]
    kind = pa.map_(pa.string(), pa.binary())
    offsets = pa.array(range(70, 70 + len(events)), pa.uint64())
    return as_parquet(events, headers=pa.array([head] * len(events), kind), offset=offsets)


FORMATS: dict[str, tuple[str, Callable[[Sequence[JSONObject]], bytes]]] = {
    "cloudevents-jsonl": (".jsonl", as_jsonl),
    "cloudevents-batch": (".json", lambda events: json.dumps(events).encode()),
    "cloudevents-avro": (".avro", as_avro),
    "cloudevents-protobuf": (".pb", as_protobuf),
    "cloudevents-protobuf-batch": (".pb", partial(as_protobuf, tag=b"\x0a")),
    "http-jsonl": (".log", as_requests),
    "cloudevents-captures": (".parquet", as_parquet),
    "kafka-captures": (".parquet", as_records),
}


def test_every_format_of_files_is_covered() -> None:
    formats = {name for name in base._list_offered() if not isinstance(base.find_source(name), base.RecordSource)}
    # Plain JSON has the readers of lines and arrays, and no events.
    assert FORMATS.keys() == formats - {"json"} | {"cloudevents-captures", "kafka-captures"}


@pytest.mark.parametrize("input_format", FORMATS)
def test_inputs_of_each_format(
    input_format: str, definitions: Path, parcels: Any, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """The input is a prefix with folders as Kafka sinks create them, and contains an invalid message, which becomes
    a dead letter.
    """
    root = place("s3proxy", tmp_path, request)
    events = [parcels.event(n, **({"data": {"id": 1}} if n == 9 else {})) for n in range(10)]
    ending, write = FORMATS[input_format]
    for number in range(2):
        folder = root / f"in/topic=orders/partition={number}"
        (folder / f"a{ending}").write(write(events[5 * number : 5 * number + 5]))
        (folder / "_SUCCESS").write(b"")
    output = tmp_path / "lake"  # so that what is read here is the store alone
    report = run(replace(job_for(root, definitions, "parquet", input_format=input_format), output=output))
    assert (report.landed, report.tally.reasons) == (9, {"schema_violation": 1})
    stored = pq.read_table(output / "tables/parcels/parcel.accepted").to_pylist()
    places = {row["ce_id"]: (row["_source"], row["_position"]) for row in stored}
    assert sorted(places) == [f"e-{n}" for n in range(9)]
    file = f"{root}/in/topic=orders/partition=1/a{ending}"
    kafka = input_format == "kafka-captures"
    assert places["e-5"] == (("kafka:orders/1", 70) if kafka else (file, 0))
    assert places["e-6"][0] == places["e-5"][0]
    (letter,) = pq.read_table(output / "dead_letters").to_pylist()
    assert letter["source"] == places["e-5"][0]


@pytest.mark.parametrize("server", [server for server in SERVERS if server == "s3proxy" or AZURITE.exists()])
def test_a_stream(
    server: str,
    topic: Topic,  # noqa: F811
    definitions: Path,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    spark_session: SparkSession,
) -> None:
    """The stream continues after the last batch in the journal when the local files are lost."""
    monkeypatch.setenv("SIGNALBOOK_STATE", str(tmp_path / "state"))
    root = place(server, tmp_path, request)
    job = replace(job_for(root, definitions, "parquet"), inputs=(topic.url,), input_format="kafka")
    topic.send(20)
    assert sum(report.tally.read for report in follow(job, most=12)) == 20
    shutil.rmtree(tmp_path / "state")
    topic.send(10)
    assert [report.tally.read for report in follow(job)] == [10]
    table = read(spark_session, job.place, ACCEPTED)
    assert (table.count(), table.select("ce_id").distinct().count()) == (27, 27)
    assert [state.tally.read for state in status(job.place).streams] == [30]


def test_unsupported_outputs_are_rejected(definitions: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    job = Job(registry=str(definitions), inputs=("in",), output="webhdfs://name:9000/lake")
    with pytest.raises(PipelineError, match=r"^webhdfs://name:9000/lake: webhdfs is not supported: write hdfs://"):
        run(job)
    assert not (tmp_path / "webhdfs:").exists()
