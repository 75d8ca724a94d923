"""Topics of records in the form of Confluent's serializers, landed without any message definition."""

import json
import os
from collections.abc import Iterator
from io import BytesIO
from itertools import count
from pathlib import Path
from typing import Any

import fastavro
import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from kafka import KafkaProducer
from tests.api.confluent.clients.test_clients import READ, SCHEMAS, descriptors, python
from tests.brokers.program import Broker
from tests.cli.conftest import Cli, cli  # noqa: F401 - a fixture
from tests.pipeline.commands.test_run import rows
from tests.pipeline.commands.test_stream import PATIENCE, PATIENT
from tests.pipeline.conftest import CONNECTORS
from tests.pipeline.local import replay
from tests.serving import serving

from signalbook.pipeline import Job, ReplayJob, backfill, run
from signalbook.pipeline.job.jobs import read

__all__ = ["descriptors"]
pytestmark = pytest.mark.usefixtures("spark_session")
FIELDS = [{"name": "id", "type": "string"}, {"name": "amount", "type": "int"}]
ORDER = {"type": "record", "name": "Order", "namespace": "shop", "fields": FIELDS}
WIDER = {**ORDER, "fields": [*FIELDS, {"name": "note", "type": ["null", "string"], "default": None}]}
_numbers = count(1)


class Topic:
    """A topic, and what writes to it as Kafka's clients do."""

    def __init__(self, producer: KafkaProducer, address: str, registry: str) -> None:
        self.name = f"subjects-{os.getpid()}-{next(_numbers)}"
        self.url = f"kafka://{address}/{self.name}?{PATIENT}"
        self.registry = f"{registry}/compat/confluent"
        self._producer = producer

    def id(self, schema: str, type: str = "AVRO", subject: str = "") -> bytes:
        """The prefix of records by a schema of a subject, else that of this topic."""
        url = f"{self.registry}/subjects/{subject or f'{self.name}-value'}/versions"
        body = {"schema": schema, "schemaType": type}
        answer = httpx.post(url, json=body, timeout=60)
        return b"\0" + int(answer.json()["id"]).to_bytes(4, "big")

    def set_level(self, level: str) -> None:
        """Set the compatibility level of the topic's subject."""
        url = f"{self.registry}/config/{self.name}-value"
        assert httpx.put(url, json={"compatibility": level}, timeout=60).is_success

    def avro(self, schema: dict[str, Any], value: Any) -> bytes:
        stream = BytesIO(self.id(json.dumps(schema)))
        stream.seek(0, 2)
        fastavro.schemaless_writer(stream, schema, value)
        return stream.getvalue()

    def send(self, *values: bytes | None, key: bytes = b"k") -> None:
        sent = [self._producer.send(self.name, value, key=key, partition=0) for value in values]
        self._producer.flush()
        for future in sent:
            future.get()


@pytest.fixture(scope="module")
def producer(kafka: Broker) -> Iterator[KafkaProducer]:
    with KafkaProducer(bootstrap_servers=f"127.0.0.1:{kafka.ports['plain']}", **PATIENCE) as kafka_producer:
        yield kafka_producer


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(tmp_path_factory.mktemp("registry")) as url:
        yield url


@pytest.fixture
def topic(kafka: Broker, producer: KafkaProducer, registry: str) -> Topic:
    return Topic(producer, f"127.0.0.1:{kafka.ports['plain']}", registry)


def job(tmp_path: Path, topic: Topic, registry: str, *lines: str) -> Job:
    """Return the job of a job file with at most ten lines."""
    file = tmp_path / "job.toml"
    output = tmp_path / "out"
    text = [f'registry = "{registry}"', f'inputs = ["{topic.url}"]', f'output = "{output}"', 'table_format = "parquet"']
    file.write_text("\n".join([*text, 'partition = "none"', *lines]))
    return read(file).job()


def landed(tmp_path: Path, topic: Topic) -> list[tuple[Any, ...]]:
    stored = rows(tmp_path / "out", f"subjects/{topic.name}-value")
    return sorted((row["id"], row["amount"], row.get("note")) for row in stored)


def test_a_topic_of_avro_lands_and_its_table_evolves(tmp_path: Path, topic: Topic, registry: str) -> None:
    """Records of both versions in one batch are rows of the latest; what no schema wrote is a dead letter."""
    job_ = job(tmp_path, topic, registry, 'subjects = "topic"')
    topic.send(topic.avro(ORDER, {"id": "a", "amount": 1}))
    assert run(job_).tally.landed.total() == 1
    assert landed(tmp_path, topic) == [("a", 1, None)]
    later = topic.avro(WIDER, {"id": "b", "amount": 2, "note": "n"})
    unknown = b"\0\0\0\xff\xff" + later[5:]
    topic.send(topic.avro(ORDER, {"id": "c", "amount": 3}), later, unknown, b"plain", None)
    report = run(job_)
    assert report.tally.read == 6
    assert report.tally.reasons == {"schema_not_found": 1, "decode_error": 1, "schema_violation": 1}
    assert landed(tmp_path, topic) == [("a", 1, None), ("a", 1, None), ("b", 2, "n"), ("c", 3, None)]


@pytest.mark.parametrize("user", [pytest.param("", marks=pytest.mark.merge), "me:secret@"])
def test_another_registry_with_confluents_api(tmp_path: Path, topic: Topic, registry: str, user: str) -> None:
    topic.send(topic.avro(ORDER, {"id": "a", "amount": 1}))
    url = f"confluent+{registry.replace('://', f'://{user}')}/compat/confluent"
    assert run(job(tmp_path, topic, url)).tally.landed.total() == 1
    assert landed(tmp_path, topic) == [("a", 1, None)]
    contents = b"".join(path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file())
    assert b"secret" not in contents


PROTO = """syntax = "proto3"; package shop;
message Line { string sku = 1; }
message Order { string id = 1; int32 amount = 2; }"""
MEMBERS = {"id": {"type": "string"}, "amount": {"type": "integer"}}
JSON = {"title": "Order", "type": "object", "properties": MEMBERS}


@pytest.mark.merge
def test_topics_of_confluents_clients(tmp_path: Path, kafka: Broker, registry: str, descriptors: Path) -> None:
    """Every topic that confluent-kafka writes, with references, has a table whose rows have the latest version."""
    address, begin = f"127.0.0.1:{kafka.ports['plain']}", f"clients-{os.getpid()}"
    where = {"registry": f"{registry}/compat/confluent", "brokers": address, "topics": begin}
    python("sync", {**where, "schemas": str(SCHEMAS), "descriptors": str(descriptors)})
    names = {name: f"{begin}-{name}" for name in ("avro", "json", "protobuf", "latest", "header")}
    output = tmp_path / "out"
    job_ = Job(
        registry=registry, subjects="topic", inputs=(f"kafka://{address}/{','.join(names.values())}?{PATIENT}",),
        input_format="kafka", output=output, table_format="parquet", partition="none",
    )  # fmt: skip
    assert run(job_).tally.reasons == {}
    for name, topic in names.items():
        stored = sorted(rows(output, f"subjects/{topic}-value"), key=lambda row: int(row["id"]))
        # Only Avro has a default for what the first version does not know.
        wanted_rows = READ["as 2" if name in ("avro", "latest", "header") else "as written"]
        assert [(row["id"], row["to"], row["note"]) for row in stored] == [
            (wanted_row["id"], wanted_row["to"], wanted_row.get("note")) for wanted_row in wanted_rows
        ], name


def test_unknown_schema_is_replayed_once_it_is_registered(tmp_path: Path, topic: Topic, registry: str) -> None:
    """A member without a column gets one from what was stored."""
    prefix = topic.id(json.dumps(JSON), "JSON")
    unknown = b"\0" + (int.from_bytes(prefix[1:], "big") + 1).to_bytes(4, "big")
    topic.send(prefix + b'{"id": "a", "amount": 1, "note": "n"}', unknown + b'{"id": "b", "amount": 2, "note": "m"}')
    output = tmp_path / "out"
    assert run(job(tmp_path, topic, registry, 'subjects = "topic"')).tally.reasons == {"schema_not_found": 1}
    wider = {**JSON, "properties": {**MEMBERS, "note": {"type": "string"}}}
    topic.set_level("NONE")
    assert topic.id(json.dumps(wider), "JSON") == unknown
    again = ReplayJob(registry=registry, output=output, subjects="topic")
    assert (replayed := replay(again)).report.tally.landed.total() == 1, replayed
    assert landed(tmp_path, topic) == [("a", 1, None), ("b", 2, "m")]
    assert [result.filled for result in backfill(output, registry, subjects="topic")] == [1]
    assert landed(tmp_path, topic) == [("a", 1, "n"), ("b", 2, "m")]


def test_keys_with_a_schema_become_a_column(tmp_path: Path, topic: Topic, registry: str) -> None:
    """The table gains it, also from records that are replayed."""
    topic.send(topic.avro(ORDER, {"id": "a", "amount": 1}))
    run(job(tmp_path, topic, registry, 'subjects = "topic"'))
    key = {"type": "record", "name": "Key", "doc": topic.name, "fields": [{"name": "id", "type": "int"}]}
    prefix = topic.id(json.dumps(key), subject=f"{topic.name}-key")
    unknown = b"\0" + (int.from_bytes(prefix[1:], "big") + 1).to_bytes(4, "big")
    topic.send(topic.avro(ORDER, {"id": "b", "amount": 2}), unknown + b"\2c\6\0", key=prefix + b"\x0e")
    job_ = job(tmp_path, topic, registry, 'subjects = "topic"')
    assert run(job_).tally.reasons == {"schema_not_found": 1}
    assert topic.id(json.dumps({**WIDER, "doc": topic.name})) == unknown
    replay(ReplayJob(registry=registry, output=job_.output, subjects="topic"))
    stored = rows(tmp_path / "out", f"subjects/{topic.name}-value")
    keys = sorted((row["id"], row["_key"], row.get("_decoded_key")) for row in stored)
    assert [stored for stored in keys if stored[0] != "a"] == [(name, prefix + b"\x0e", {"id": 7}) for name in "bc"]
    columns = pq.read_schema(tmp_path / "out" / f"tables/subjects/{topic.name}-value/_common_metadata")
    assert columns.field("_decoded_key").type == pa.struct([("id", pa.int32())])


def test_a_stream_of_the_command_line_follows_the_subject(
    tmp_path: Path,
    topic: Topic,
    registry: str,
    cli: Cli,  # noqa: F811
) -> None:
    """The tables are Iceberg tables, as by default."""
    options = ["--registry", registry, "--subjects", "topic", "--input", topic.url]
    command = ["pipeline", "stream", "--once", *options, "--output", tmp_path / "out", "--jars", CONNECTORS]
    for schema, value in ((ORDER, {"id": "a", "amount": 1}), (WIDER, {"id": "b", "amount": 2, "note": "n"})):
        topic.send(topic.avro(schema, value))
        ran = cli(*command)
        assert ran.code == 0, ran.err
        assert ": 1 read = 1 landed + 0 dead letters" in ran.out
    assert landed(tmp_path, topic) == [("a", 1, None), ("b", 2, "n")]


@pytest.mark.parametrize("strategy", ["topic-record", pytest.param("record", marks=pytest.mark.merge)])
def test_subjects_named_after_records(tmp_path: Path, topic: Topic, registry: str, strategy: str) -> None:
    """Several types of records on one topic, each in a table of its own."""
    begin = "" if strategy == "record" else f"{topic.name}-"
    avro = {**ORDER, "name": f"A{next(_numbers)}"}
    name = f"J{next(_numbers)}"
    numbers = [
        topic.id(json.dumps(avro), subject=f"{begin}shop.{avro['name']}"),
        topic.id(PROTO, "PROTOBUF", subject=f"{begin}shop.Order"),
        topic.id(json.dumps({**JSON, "title": name}), "JSON", subject=f"{begin}{name}"),
    ]
    payloads = [b"\x02a\x02", b"\x02\x02\x0a\x01b\x10\x02", b'{"id": "c", "amount": 3}']
    topic.send(*(number + payload for number, payload in zip(numbers, payloads, strict=True)))
    assert run(job(tmp_path, topic, registry, f'subjects = "{strategy}"')).tally.landed.total() == 3
    for table, row in ((f"shop.{avro['name']}", ("a", 1)), ("shop.Order", ("b", 2)), (name, ("c", 3))):
        stored = rows(tmp_path / "out", f"subjects/{begin}{table}")
        assert [(stored_row["id"], stored_row["amount"]) for stored_row in stored] == [row]
