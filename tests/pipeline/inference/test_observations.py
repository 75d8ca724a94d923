"""Messages are sorted by what they are."""

import json
from typing import Any

import msgspec
import pytest

from signalbook.messages import Message
from signalbook.messages.bindings import kafka
from signalbook.pipeline.inference.discriminators import Discriminator
from signalbook.pipeline.inference.observations import Observations, build_path_shape, find_discriminator
from signalbook.pipeline.inference.summaries import MemoryBudget


def event(**more: Any) -> Message:
    body = {"specversion": "1.0", "id": "1", "source": "/s", "type": "a", "data": {"n": 1}, **more}
    return Message(content_type="application/cloudevents+json", body=json.dumps(body).encode())


def request(body: Any, path: str = "/hooks", content_type: str = "application/json", **headers: str) -> Message:
    pairs = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    sections = {"method": "POST", "path": path, "headers": pairs}
    return Message(protocol="HTTP", content_type=content_type, body=content, sections=sections)


def observed(*messages: Message, by: Discriminator | None = None) -> Observations:
    observations = Observations()
    for message in messages:
        observations.take(message, by or Discriminator())
    return observations


def test_events_are_distinguished_by_their_type() -> None:
    observations = observed(event(), event(type="b"), event(subject="x"))
    kinds = observations.kinds
    assert {kind.names[0]: kind.count for kind in kinds.values()} == {"a": 2, "b": 1}
    assert kinds["event a"].attributes["subject"].count == 1
    assert kinds["event a"].data.members["n"].integers == 2


def test_events_of_a_batch_are_counted_separately() -> None:
    batch = [json.loads(message.body or b"") for message in (event(), event(type="b"))]
    message = Message(content_type="application/cloudevents-batch+json", body=json.dumps(batch).encode())
    assert sorted(observed(message).kinds) == ["event a", "event b"]


def test_events_in_binary_mode_are_recognised() -> None:
    headers = {"ce_specversion": "1.0", "ce_id": "1", "ce_type": "a", "ce_source": "/s"}
    observations = observed(request({"n": 1}, **headers))
    assert observations.kinds["event a"].payloads == 1


@pytest.mark.parametrize(
    "message",
    [
        event(source=""),
        request(b"{", content_type="application/json"),
        Message(content_type="text/plain", body=b"x"),
        Message(protocol="NATS", content_type="application/json", body=b"{}", sections={"subject": "s"}),
        Message(protocol="PIGEON", body=b"x"),
        Message(content_type="application/cloudevents+json", body=b"{"),
    ],
    ids=["no event", "broken payload", "text of a file", "another protocol", "unknown protocol", "broken event"],
)
def test_unrecognised_messages_are_counted(message: Message) -> None:
    observations = observed(message)
    assert (observations.kinds, observations.unknown) == ({}, 1)


def test_requests_are_distinguished_by_a_header_or_by_their_path() -> None:
    messages = [request({}, "/a/1", x_event="push"), request({}, "/a/2", x_event="ping")]
    assert sorted(observed(*messages).kinds) == ["request POST /a/{}"]
    assert sorted(observed(*messages, by=Discriminator(header="x-event")).kinds) == [
        "request POST ping",
        "request POST push",
    ]


@pytest.mark.parametrize(
    ("path", "expected"), [("/a/b", "/a/b"), ("/a/17", "/a/{}"), ("/" + "x" * 40, "/{}"), ("/v1/x", "/{}/x")]
)
def test_shapes(path: str, expected: str) -> None:
    assert build_path_shape(path) == expected


def record(value: Any, topic: str = "", content_type: str = "") -> Message:
    """A message of a topic of Kafka, or of a file."""
    body = json.dumps(value).encode()
    if topic:
        return kafka.record(topic, body)
    return Message(content_type=content_type, body=body)


def test_plain_messages_are_distinguished_by_topic_and_member() -> None:
    messages = [record({"event": "a"}), record({"event": "b"}, "t"), record({"n": 1}, "u"), record({"n": 1})]
    by = Discriminator(members={"": "event", "t": "event"}, name="file")
    observations = observed(*messages, by=by)
    assert sorted(observations.kinds) == ["plain  a", "plain t b", "plain u "]
    assert observations.unknown == 1
    assert sorted(observed(*messages, by=Discriminator(name="file")).kinds) == ["plain  file", "plain t ", "plain u "]


def test_a_member_is_chosen_for_each_topic() -> None:
    shapes = [{"event": "a", "x": 1}, {"event": "b", "y": 1, "z": 2}]
    messages = [record(shapes[n % 2], "t") for n in range(60)] + [
        record({"event": "a", "x": n}, "u") for n in range(60)
    ]
    by, choices = find_discriminator(messages, "file")
    assert by == Discriminator(members={"t": "event"}, name="file")
    assert (choices["t"].values, choices["t"].share) == (2, 1)


def test_header_that_predicts_the_payload_is_the_discriminator() -> None:
    kinds = enumerate(["push", "ping"] * 15)
    messages = [request({about: 1}, x_event=about, x_shard=str(n % 3), x_id=str(n)) for n, about in kinds]
    assert find_discriminator(messages, "")[0].header == "x-event"


def test_occasional_header_is_no_discriminator() -> None:
    rare = [request({}, x_event=str(n % 2)) for n in range(9)] + [request({})]
    clients = [request({}, user_agent=str(n % 2)) for n in range(9)]
    assert [find_discriminator(messages, "")[0].header for messages in (rare, clients)] == ["", ""]


def test_merging_adds_up() -> None:
    observations, other = (
        observed(event(), event(type="b")),
        observed(event(subject="x"), event(type="c"), event(source="")),
    )
    observations.merge(other)
    assert {key: kind.count for key, kind in observations.kinds.items()} == {"event a": 2, "event b": 1, "event c": 1}
    assert (observations.unknown, observations.kinds["event a"].payloads) == (1, 2)


def test_strange_messages_do_not_fill_the_memory() -> None:
    observations = Observations(room=MemoryBudget(left=20_000))
    for number in range(500):
        data = {f"m{number}": [{f"n{number}": "x" * 100}]}
        more = {"datacontenttype": f"application/x{number}+json", "data": data, f"a{number}": "x" * 5000}
        observations.take(event(type="a", **more), Discriminator())
        observations.take(event(type="t" * 2000), Discriminator())
    assert (observations.kinds["event a"].count, observations.unknown) == (500, 500)
    assert len(msgspec.msgpack.encode(observations)) < 20_000
