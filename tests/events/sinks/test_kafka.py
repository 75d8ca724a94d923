"""Kafka against a cluster of one: records, keys, users, and addresses that a cluster names."""

from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition
from kafka.admin import NewTopic
from tests.brokers.certificates import Certificates
from tests.brokers.deliveries import EVENT_TYPE, events, parsed, plain, policy, subscription
from tests.brokers.program import Broker, StartBroker

from signalbook.events.sinks.base import DeliveryError
from signalbook.events.sinks.kafka import FACTORY
from signalbook.events.subscription import Credential
from signalbook.values import JSONObject

_PARTITIONS = 3
_PATIENCE = {"bootstrap_timeout_ms": 300_000, "request_timeout_ms": 300_000}


def address(broker: Broker, listener: str = "plain", scheme: str = "kafka", host: str = "127.0.0.1") -> str:
    return f"{scheme}://{host}:{broker.ports[listener]}"


@pytest.fixture
def topic(kafka: Broker, request: pytest.FixtureRequest) -> str:
    """A new topic with a few partitions."""
    name = "".join(letter if letter.isalnum() else "." for letter in request.node.name)
    make_topic(kafka, name)
    return name


def make_topic(broker: Broker, name: str) -> None:
    admin = KafkaAdminClient(bootstrap_servers=f"127.0.0.1:{broker.ports['plain']}", **_PATIENCE)
    admin.create_topics([NewTopic(name, _PARTITIONS, 1)])
    admin.close()


def deliver(
    broker: Broker, sent: list[JSONObject], place: str = "", credential: Credential | None = None, **settings: Any
) -> None:
    sink = FACTORY.open(subscription("KAFKA", place or address(broker), credential, **settings), policy(broker))
    try:
        sink.send(sent)
    finally:
        sink.close()


def records(broker: Broker, topic: str, count: int) -> list[Any]:
    """Return all records of a topic by partition, once there are ``count`` of them."""
    place = f"127.0.0.1:{broker.ports['plain']}"
    consumer = KafkaConsumer(bootstrap_servers=place, auto_offset_reset="earliest", **_PATIENCE)
    partitions = [TopicPartition(topic, number) for number in range(_PARTITIONS)]
    consumer.assign(partitions)
    records_by_partition: dict[Any, list[Any]] = {partition: [] for partition in partitions}
    for _ in range(300):
        for partition, more in consumer.poll(1000).items():
            records_by_partition[partition] += more
        if sum(map(len, records_by_partition.values())) >= count:
            break
    consumer.close()
    return [record for partition in partitions for record in records_by_partition[partition]]


def ids(bodies: list[bytes]) -> list[str]:
    return [event["id"] for event in parsed(bodies)]


def test_events_arrive_once_and_in_the_order_of_their_subject(kafka: Broker, topic: str) -> None:
    """D-30 topicname; without partitionkeyextractor the key is the subject."""
    deliver(kafka, events(250), topicname=topic)
    stored = records(kafka, topic, 250)
    assert sorted(ids([record.value for record in stored]), key=int) == [event["id"] for event in events(250)]
    for subject in {event["subject"] for event in events(3)}:
        of_one = [record for record in stored if record.key == subject.encode()]
        assert parsed([record.value for record in of_one]) == [e for e in events(250) if e["subject"] == subject]
        assert len({record.partition for record in of_one}) == 1


def test_record_has_the_content_type(kafka: Broker, topic: str) -> None:
    """The binding's 3.3.1: the header content-type."""
    deliver(kafka, events(1), f"{address(kafka)}/{topic}")
    (record,) = records(kafka, topic, 1)
    assert record.headers == [("content-type", EVENT_TYPE.encode())]


@pytest.mark.parametrize(
    ("extractor", "key"), [("partitionkey", b"tenant-7"), ("type", b"io.xregistry.updated"), ("dataschema", None)]
)
def test_the_key_is_the_attribute_that_is_named(kafka: Broker, topic: str, extractor: str, key: bytes | None) -> None:
    """The event keeps the attribute (D-30 partitionkeyextractor, section 3.1 of the binding)."""
    sent = events(1, partitionkey="tenant-7")
    deliver(kafka, sent, topicname=topic, partitionkeyextractor=extractor)
    (record,) = records(kafka, topic, 1)
    assert record.key == key
    assert parsed([record.value]) == sent


@pytest.mark.parametrize("acks", ["0", "1", "all", "-1", 1])
def test_fewer_acknowledgements_may_be_asked_for(kafka: Broker, topic: str, acks: str | int) -> None:
    """D-30 acks and clientid."""
    deliver(kafka, events(5), topicname=topic, clientid="changes", acks=acks)
    assert len(records(kafka, topic, 5)) == 5


def test_a_user_is_taken_by_the_password(kafka: Broker, topic: str) -> None:
    """D-31 PLAIN."""
    deliver(kafka, events(1), address(kafka, "password"), plain(), topicname=topic)
    assert len(records(kafka, topic, 1)) == 1


def test_wrong_password_is_reported(kafka: Broker) -> None:
    with pytest.raises(DeliveryError, match="the cluster does not take the user and the password") as caught:
        deliver(kafka, events(1), address(kafka, "password"), plain("not-it"), topicname="x")
    assert "not-it" not in str(caught.value)


def test_tls_checks_the_name(
    kafka: Broker, topic: str, certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = address(kafka, "tls", "kafkas", "localhost")
    with pytest.raises(DeliveryError, match="certificate verify failed"):
        deliver(kafka, events(1), place, topicname=topic)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificates.authority))
    deliver(kafka, events(1), place, topicname=topic)
    assert len(records(kafka, topic, 1)) == 1


def test_a_cluster_does_not_lead_to_places_that_are_not_allowed(kafka: Broker) -> None:
    """The policy applies to the advertised listeners as well as to the sink itself."""
    with pytest.raises(DeliveryError, match=r"the cluster names a broker: 127\.0\.0\.2:\d+ is neither public"):
        deliver(kafka, events(1), address(kafka, "away"), topicname="x")


def test_cluster_may_lead_to_allowed_addresses(kafka: Broker, topic: str) -> None:
    allowed = policy(kafka, f"127.0.0.2:{kafka.ports['far']}")
    sink = FACTORY.open(subscription("KAFKA", address(kafka, "away"), topicname=topic), allowed)
    sink.send(events(1))
    sink.close()
    assert len(records(kafka, topic, 1)) == 1


def test_missing_topic_is_not_created(kafka: Broker) -> None:
    place = subscription("KAFKA", address(kafka), topicname="nowhere")
    sink = FACTORY.open(place, policy(kafka, timeout=15))
    with pytest.raises(DeliveryError, match="the cluster has no topic 'nowhere'"):
        sink.send(events(1))
    sink.close()


def test_an_event_that_is_too_large_is_reported(kafka: Broker, topic: str) -> None:
    large = events(1, start=2, data="x" * 1_100_000)
    with pytest.raises(DeliveryError, match="the event is larger than the cluster takes") as caught:
        deliver(kafka, [*events(2), *large, *events(1, start=3)], topicname=topic)
    assert (caught.value.delivered, caught.value.rejected) == (2, True)
    assert sorted(ids([record.value for record in records(kafka, topic, 2)])) == ["0", "1"]


@pytest.mark.merge
def test_a_cluster_that_comes_back_is_used_again(own_server: StartBroker) -> None:
    kafka = own_server("kafka")
    make_topic(kafka, topic := "comes.back")
    sink = FACTORY.open(subscription("KAFKA", address(kafka), topicname=topic), policy(kafka))
    sink.send(events(1))
    kafka.stop()
    try:
        for _ in range(2):
            with pytest.raises(DeliveryError, match=r"127\.0\.0\.1:\d+: .*ECONNREFUSED"):
                sink.send(events(1, start=1))
    finally:
        kafka.start()
    sink.send(events(2, start=1))
    sink.close()
    assert sorted(ids([record.value for record in records(kafka, topic, 3)])) == ["0", "1", "2"]
