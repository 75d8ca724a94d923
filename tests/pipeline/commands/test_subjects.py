"""Topics of records in the form of Confluent's serializers, landed without any message definition."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from io import BytesIO
from itertools import count
from pathlib import Path
from typing import Any

import fastavro
import httpx
import pytest
from kafka import KafkaProducer
from tests.brokers.program import Broker
from tests.pipeline.commands.test_run import rows
from tests.pipeline.commands.test_stream import PATIENCE, PATIENT
from tests.serving import serving

from signalbook.pipeline import Job, run
from signalbook.pipeline.job.jobs import read

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

    def id(self, schema: str, type: str = "AVRO") -> bytes:
        """The prefix of records by a schema of this topic."""
        url, body = f"{self.registry}/subjects/{self.name}-value/versions", {"schema": schema, "schemaType": type}
        answer = httpx.post(url, json=body, timeout=60)
        return b"\0" + int(answer.json()["id"]).to_bytes(4, "big")

    def avro(self, schema: dict[str, Any], value: Any) -> bytes:
        stream = BytesIO(self.id(json.dumps(schema)))
        stream.seek(0, 2)
        fastavro.schemaless_writer(stream, schema, value)
        return stream.getvalue()

    def send(self, *values: bytes | None) -> None:
        sent = [self._producer.send(self.name, value, key=b"k", partition=0) for value in values]
        self._producer.flush()
        for each in sent:
            each.get()


@pytest.fixture(scope="module")
def producer(kafka: Broker) -> Iterator[KafkaProducer]:
    with KafkaProducer(bootstrap_servers=f"127.0.0.1:{kafka.ports['plain']}", **PATIENCE) as made:
        yield made


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(tmp_path_factory.mktemp("registry")) as url:
        yield url


@pytest.fixture
def topic(kafka: Broker, producer: KafkaProducer, registry: str) -> Topic:
    return Topic(producer, f"127.0.0.1:{kafka.ports['plain']}", registry)


def job(tmp_path: Path, topic: Topic, registry: str, *lines: str) -> Job:
    """That of a job file of ten lines at most."""
    file = tmp_path / "job.toml"
    output = tmp_path / "out"
    text = [f'registry = "{registry}"', f'inputs = ["{topic.url}"]', f'output = "{output}"', 'table_format = "parquet"']
    file.write_text("\n".join([*text, 'partition = "none"', *lines]))
    return read(file).job()


def landed(tmp_path: Path, topic: Topic) -> list[tuple[Any, ...]]:
    found = rows(tmp_path / "out", f"subjects/{topic.name}-value")
    return sorted((row["id"], row["amount"], row.get("note")) for row in found)


def test_a_topic_of_avro_lands_and_its_table_evolves(tmp_path: Path, topic: Topic, registry: str) -> None:
    """Records of both versions in one batch are rows of the latest; what no schema wrote is a dead letter."""
    wanted = job(tmp_path, topic, registry, 'subjects = "topic"')
    topic.send(topic.avro(ORDER, {"id": "a", "amount": 1}))
    assert run(wanted).tally.landed.total() == 1
    assert landed(tmp_path, topic) == [("a", 1, None)]
    later = topic.avro(WIDER, {"id": "b", "amount": 2, "note": "n"})
    unknown = b"\0\0\0\xff\xff" + later[5:]
    topic.send(topic.avro(ORDER, {"id": "c", "amount": 3}), later, unknown, b"plain", None)
    report = run(wanted)
    assert report.tally.read == 6
    assert report.tally.reasons == {"schema_not_found": 1, "decode_error": 1, "schema_violation": 1}
    assert landed(tmp_path, topic) == [("a", 1, None), ("a", 1, None), ("b", 2, "n"), ("c", 3, None)]


@pytest.mark.parametrize("user", ["", "me:secret@"])
def test_another_registry_with_confluents_api(tmp_path: Path, topic: Topic, registry: str, user: str) -> None:
    topic.send(topic.avro(ORDER, {"id": "a", "amount": 1}))
    url = f"confluent+{registry.replace('://', f'://{user}')}/compat/confluent"
    assert run(job(tmp_path, topic, url)).tally.landed.total() == 1
    assert landed(tmp_path, topic) == [("a", 1, None)]
    said = b"".join(path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file())
    assert b"secret" not in said
