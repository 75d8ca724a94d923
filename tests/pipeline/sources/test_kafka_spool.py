"""A part of Kafka topics is copied to files, which commands without Spark read."""

import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pyarrow.parquet as pq
import pytest
from kafka import KafkaAdminClient, KafkaProducer, TopicPartition
from kafka.errors import UnsupportedCodecError
from tests.brokers.program import Broker
from tests.brokers.servers import USER
from tests.events.sinks.test_kafka import make_topic

from signalbook.brokers.connection import BrokerSettings
from signalbook.brokers.kafka import KafkaReader, PartitionRange
from signalbook.pipeline import PipelineError, TopicExcerpt, spool_inputs
from signalbook.pipeline.sources.kafka_spool import _choose_shares, _parse_options, _write_records
from signalbook.pipeline.sources.schema_ids import SchemaIdsFound


@dataclass
class ConsumerRecord:
    """A record as the library returns it."""

    topic: str
    partition: int
    offset: int
    timestamp: int = -1
    key: bytes | None = None
    value: bytes | None = b"{}"
    headers: tuple[tuple[str, bytes], ...] = ()


LOGIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="{}" password="{}";'
PATIENCE = {"bootstrap_timeout_ms": 300_000, "max_block_ms": 300_000}


@pytest.fixture(scope="module")
def shop(kafka: Broker) -> str:
    """A topic of 90 events in three partitions."""
    name = f"spooled.{uuid4().hex}"
    make_topic(kafka, name)
    with KafkaProducer(bootstrap_servers=f"127.0.0.1:{kafka.ports['plain']}", **PATIENCE) as producer:
        for number in range(90):
            event = {"event": "signup", "user": number} if number % 2 else {"event": "purchase", "amount": number / 4}
            producer.send(name, json.dumps(event).encode(), key=b"k", headers=[("h", b"v")], partition=number % 3)
        producer.send(name, None, key=b"k", partition=0)
    return name


def url(broker: Broker, topic: str, listener: str = "plain") -> str:
    return f"kafka://127.0.0.1:{broker.ports[listener]}/{topic}"


def read_offsets(folder: Path) -> dict[int, list[int]]:
    tables = [pq.read_table(path) for path in sorted(folder.glob("*.parquet"))]
    return {table["partition"][0].as_py(): table["offset"].to_pylist() for table in tables}


def test_records_are_copied_as_captures(kafka: Broker, shop: str, tmp_path: Path) -> None:
    with spool_inputs([url(kafka, shop)], "", TopicExcerpt(), folder=tmp_path / "spool") as (inputs, input_format):
        assert (inputs, input_format) == ((str(tmp_path / "spool"),), "kafka-captures")
    assert read_offsets(tmp_path / "spool") == {0: list(range(31)), 1: list(range(30)), 2: list(range(30))}
    row = pq.read_table(next((tmp_path / "spool").glob("*-0.parquet"))).to_pylist()[0]
    assert (row["topic"], row["key"], row["headers"]) == (shop, b"k", [{"key": "h", "value": b"v"}])
    assert json.loads(row["value"]) == {"event": "purchase", "amount": 0}
    assert row["timestamp"] is not None


def test_old_copies_are_replaced_and_other_files_stay(kafka: Broker, shop: str, tmp_path: Path) -> None:
    for name in ("records-7.parquet", "mine.txt"):
        (tmp_path / name).touch()
    with spool_inputs([url(kafka, shop)], "", TopicExcerpt(max_messages=1), folder=tmp_path):
        pass
    assert {path.name for path in tmp_path.iterdir()} == {"records-0.parquet", "mine.txt"}


def test_temporary_copies_are_private(kafka: Broker, shop: str) -> None:
    with spool_inputs([url(kafka, shop)], "", TopicExcerpt(max_messages=3)) as ((folder,), _):
        assert Path(folder).stat().st_mode & 0o077 == 0


def test_records_deleted_in_the_meantime_are_skipped(kafka: Broker) -> None:
    topic = f"spooled.{uuid4().hex}"
    make_topic(kafka, topic)
    server = f"127.0.0.1:{kafka.ports['plain']}"
    with KafkaProducer(bootstrap_servers=server, **PATIENCE) as producer:
        for number in range(5):
            producer.send(topic, b"%d" % number, partition=0)
    admin = KafkaAdminClient(bootstrap_servers=server, bootstrap_timeout_ms=300_000)
    admin.delete_records({TopicPartition(topic, 0): 2})
    admin.close()
    settings = BrokerSettings(servers=(("127.0.0.1", kafka.ports["plain"]),), secure=False)
    reader = KafkaReader(settings, client_id="test")
    try:
        batches = list(reader.read(PartitionRange(topic, 0, 0, 5)))
    finally:
        reader.close()
    assert [record.offset for batch in batches for record in batch] == [2, 3, 4]


@pytest.mark.parametrize("codec", ["gzip", "lz4", "snappy", "zstd"])
def test_compressed_records_are_read(kafka: Broker, codec: str, tmp_path: Path) -> None:
    topic = f"spooled.{uuid4().hex}"
    make_topic(kafka, topic)
    values = [b'{"event": "signup", "user": %d}' % number for number in range(100)]
    server = f"127.0.0.1:{kafka.ports['plain']}"
    with KafkaProducer(bootstrap_servers=server, compression_type=codec, linger_ms=50, **PATIENCE) as producer:
        for value in values:
            producer.send(topic, value, partition=0)
    with spool_inputs([url(kafka, topic)], "", TopicExcerpt(), folder=tmp_path):
        assert pq.read_table(tmp_path / "records-0.parquet")["value"].to_pylist() == values


def test_a_topic_with_schema_ids_is_not_copied(kafka: Broker, tmp_path: Path) -> None:
    topic = f"spooled.{uuid4().hex}"
    make_topic(kafka, topic)
    with KafkaProducer(bootstrap_servers=f"127.0.0.1:{kafka.ports['plain']}", **PATIENCE) as producer:
        producer.send(topic, b"\0\0\0\0\7avro")
    folder = tmp_path / "spool"
    with (
        pytest.raises(SchemaIdsFound, match=f"messages in {topic} name their schemas by ids"),
        spool_inputs([url(kafka, topic)], "", TopicExcerpt(), folder=folder),
    ):
        pass
    assert not folder.exists()
    with spool_inputs([url(kafka, topic)], "", TopicExcerpt(), folder=folder, has_definitions=True):
        assert len(read_offsets(folder)) == 1


def test_missing_decompression_is_reported(kafka: Broker, shop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def poll(*_: object, **__: object) -> None:
        raise UnsupportedCodecError("Libraries for lz4 compression codec not found")

    monkeypatch.setattr("kafka.KafkaConsumer.poll", poll)
    with (
        pytest.raises(PipelineError, match=r"lz4 .* not found; pip install 'kafka-python\[lz4,snappy\]'$"),
        spool_inputs([url(kafka, shop)], "", TopicExcerpt()),
    ):
        pass


def test_excerpt_is_spread_over_the_partitions(kafka: Broker, shop: str) -> None:
    notices: list[str] = []
    excerpt = TopicExcerpt(max_messages=9, newest=True)
    with spool_inputs([url(kafka, shop)], "kafka", excerpt, notify=notices.append) as ((folder,), _):
        assert read_offsets(Path(folder)) == {0: [28, 29, 30], 1: [27, 28, 29], 2: [27, 28, 29]}
    assert not Path(folder).exists()
    assert notices == ["the newest 9 of 91 messages are read: --max-messages reads more"]


@pytest.mark.parametrize(
    ("topic", "listener", "options", "words"),
    [
        ("nothing.here", "plain", {}, r"has no topic 'nothing.here', or does not show it; there are: .*"),
        ("spooled.void", "plain", {}, "the topic 'spooled.void' of .* is empty"),
        ("spooled.void", "password", {}, r"cannot be read: .*demand TLS or a login"),
        ("spooled.void", "tls", {}, r"cannot be read: .*demand TLS or a login"),
        (
            "spooled.void",
            "password",
            {"kafka.security.protocol": "SASL_PLAINTEXT", "kafka.sasl.jaas.config": LOGIN.format(USER, "wrong")},
            "does not take the user and the password",
        ),
    ],
)
def test_unreadable_topics_are_reported(
    kafka: Broker, shop: str, tmp_path: Path, topic: str, listener: str, options: dict[str, str], words: str
) -> None:
    if topic == "spooled.void" and listener == "plain":
        make_topic(kafka, topic)
    excerpt = TopicExcerpt(options=options)
    with (
        pytest.raises(PipelineError, match=words),
        spool_inputs([url(kafka, topic, listener)], "", excerpt, folder=tmp_path / "spool"),
    ):
        pass
    assert not (tmp_path / "spool").exists()


@pytest.mark.parametrize(
    ("inputs", "input_format", "excerpt", "words"),
    [
        (["kafka://127.0.0.1:1/a"], "", TopicExcerpt(), "Kafka at 127.0.0.1:1 cannot be read"),
        (["kafka://no.such.host.invalid/a"], "", TopicExcerpt(), "cannot be read"),
        (["kafka://127.0.0.1:x/a"], "", TopicExcerpt(), "is no address of a Kafka broker"),
        (["kafka://127.0.0.1:1/?pattern=a.*"], "", TopicExcerpt(), "by their names"),
        (["kafka://127.0.0.1:1/a", "b.jsonl"], "", TopicExcerpt(), "'b.jsonl' is no address of Kafka topics"),
        (["kafka://127.0.0.1:1/a"], "json", TopicExcerpt(), "the input format of topics is kafka, not json"),
        (["kafka://127.0.0.1:1/a?kafka.security.protocol=TLS"], "", TopicExcerpt(), "is 'TLS'"),
        (["events.jsonl"], "", TopicExcerpt(max_messages=3), "no input is a topic"),
        (["kafka://127.0.0.1:1/a"], "", TopicExcerpt(options={"kafka.x": "1"}), "has no option 'kafka.x'"),
    ],
)
def test_impossible_inputs_are_reported(
    inputs: list[str], input_format: str, excerpt: TopicExcerpt, words: str
) -> None:
    with pytest.raises(PipelineError, match=words), spool_inputs(inputs, input_format, excerpt):
        pass


def test_missing_client_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "kafka", None)
    monkeypatch.delitem(sys.modules, "signalbook.brokers.kafka")
    with (
        pytest.raises(PipelineError, match=r"takes the package 'kafka': pip install \./native '\.\[local,kafka\]'"),
        spool_inputs(["kafka://127.0.0.1:1/a"], "", TopicExcerpt()),
    ):
        pass


def test_files_are_read_where_they_are() -> None:
    with spool_inputs(["events.jsonl"], "json", TopicExcerpt()) as result:
        assert result == (("events.jsonl",), "json")


def test_partitions_have_shares_by_size() -> None:
    partitions = [PartitionRange("a", 0, 100, 101), PartitionRange("a", 1, 0, 98), PartitionRange("b", 0, 5, 6)]
    oldest = _choose_shares(partitions, TopicExcerpt(max_messages=50))
    assert oldest == [(partitions[1], 49), (partitions[2], 1)]
    newest = _choose_shares(partitions, TopicExcerpt(max_messages=50, newest=True))
    assert newest == [(PartitionRange("a", 1, 49, 98), 49), (partitions[2], 1)]
    everything = _choose_shares(partitions, TopicExcerpt(max_messages=0))
    assert everything == [(partitions[0], 1), (partitions[1], 98), (partitions[2], 1)]


def test_offsets_without_messages_do_not_count(tmp_path: Path) -> None:
    batches = ([ConsumerRecord("t", 0, offset) for offset in offsets] for offsets in ([3, 70], [71, 90], [99]))
    assert sum(_write_records(tmp_path / "a.parquet", batches, 3, assumed=False)) == 3
    assert pq.read_table(tmp_path / "a.parquet")["offset"].to_pylist() == [3, 70, 71]


def test_options_are_those_of_sparks_connector() -> None:
    options = {
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
        "kafka.sasl.jaas.config": LOGIN.format("me", "secret"),
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.location": "ca.pem",
    }
    expected = BrokerSettings(
        servers=(("a", 9092), ("::1", 9)), secure=True, user="me", password="secret", ca="ca.pem", timeout=10.0
    )
    assert _parse_options("a,[::1]:9", options) == (expected, "SCRAM-SHA-512")


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("kafka.security.protocol", "TLS", "is 'TLS'; without Spark it is one of: PLAINTEXT, SSL"),
        ("kafka.security.protocol", "SASL_SSL", "the option kafka.sasl.jaas.config of SASL_SSL states no username"),
        ("kafka.sasl.mechanism", "GSSAPI", "is 'GSSAPI'"),
        ("kafka.ssl.truststore.type", "JKS", "only PEM"),
        ("assume", "json", "is 'json'"),
    ],
)
def test_options_without_a_counterpart_are_rejected(name: str, value: str, words: str) -> None:
    with pytest.raises(PipelineError, match=re.escape(words)):
        _parse_options("a", {name: value})
