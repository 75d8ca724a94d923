"""Streams of a real NATS server: what lands, and that it does once whoever dies when."""

import asyncio
import json
import os
import re
import signal
from collections.abc import Awaitable, Callable
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import nats as client
import pytest
from nats.js import JetStreamContext
from tests.brokers.certificates import Certificates
from tests.brokers.program import Broker
from tests.brokers.servers import PASSWORD, USER
from tests.pipeline.commands.following import (
    all_once,
    build_stream_job,
    dying_at,
    follow,
    landed_rows,
    number_events,
    read_contents,
)
from tests.pipeline.lake import folder

from signalbook.pipeline import Job, PipelineError, run
from signalbook.pipeline.commands.stream import MicroBatches

pytestmark = [pytest.mark.usefixtures("spark_session"), pytest.mark.merge]
PATIENCE = 300
PATIENT = {"timeout": "300"}
_numbers = count(1)


class Stream:
    """A stream with events numbered through, in structured and binary mode, of which each tenth is wrong."""

    def __init__(self, broker: Broker, parcels: Any) -> None:
        self.name = f"PARCELS-{os.getpid()}-{next(_numbers)}"
        self.place = f"127.0.0.1:{broker.ports['plain']}"
        self.url = f"nats://{self.place}/{self.name}"
        self.sent = 0
        self._parcels = parcels

    def do(self, work: Callable[[JetStreamContext], Awaitable[Any]]) -> None:
        """Work on the server."""

        async def done() -> None:
            connection = await client.connect(f"nats://{self.place}", connect_timeout=PATIENCE)
            await work(connection.jetstream(timeout=PATIENCE))
            await connection.close()

        asyncio.run(done())

    def make(self, **config: Any) -> None:
        """Make the stream."""
        self.do(lambda streams: streams.add_stream(name=self.name, subjects=[f"{self.name}.>"], **config))

    def send(self, number: int) -> None:
        """Send so many events."""

        async def publish(streams: JetStreamContext) -> None:
            events = number_events(self._parcels, self.sent, number)
            for place, (event, binary) in enumerate(events, self.sent):
                payload, headers = self._message(event, binary=binary)
                await streams.publish(f"{self.name}.depot.{place % 2}", payload, headers=headers)

        self.do(publish)
        self.sent += number

    def purge(self, before: int) -> None:
        """Drop the messages before one."""
        self.do(lambda streams: streams.purge_stream(self.name, seq=before))

    def _message(self, event: dict[str, Any], *, binary: bool) -> tuple[bytes, dict[str, str]]:
        if not binary:
            return json.dumps(event).encode(), {"Content-Type": "application/cloudevents+json"}
        data = json.dumps(event.pop("data")).encode()
        return data, {**{f"ce-{name}": value for name, value in event.items()}, "Content-Type": "application/json"}


@pytest.fixture
def stream(nats: Broker, parcels: Any) -> Stream:
    return Stream(nats, parcels)


@pytest.fixture
def job(tmp_path: Path, definitions: Path, stream: Stream) -> Job:
    return build_stream_job(definitions, tmp_path / "out", stream.url, "nats", options=PATIENT)


def test_stream_continues_where_it_ended(job: Job, stream: Stream) -> None:
    """K-7, K-21."""
    stream.make()
    stream.send(20)
    first = follow(job, most=12)
    assert [report.tally.read for report in first] == [12, 8]
    stream.send(10)
    (second,) = follow(job)
    assert (second.tally.read, second.landed, second.tally.reasons) == (10, 9, {"schema_violation": 1})
    assert follow(job) == []
    assert all_once(folder(job), 30)
    rows = landed_rows(job)
    assert {row["_address"] for row in rows} == {f"{stream.name}.depot.{n}" for n in range(2)}
    assert {row["_source"] for row in rows} == {f"nats:{stream.name}"}
    assert {(row["_protocol"], row["_received_at"] is None) for row in rows} == {("NATS", False)}
    binary = next(row for row in rows if row["_position"] == 2)
    assert dict(binary["_headers"])["ce-id"] == binary["ce_id"] == "e-1"


def test_messages_of_a_subject_as_a_batch(job: Job, stream: Stream, definitions: Path, parcels: Any) -> None:
    """A native message is matched to its definition by its subject (K-16, K-35)."""
    document = parcels.catalogue()
    document["messagegroups"]["parcels"]["messages"]["parcel.seen"] = {
        "protocol": "NATS",
        "protocoloptions": {"subject": f"{stream.name}.{{depot}}.seen", "headers": [{"name": "Kind", "value": "x"}]},
        "dataschemaformat": "JsonSchema/draft-07",
        "dataschemauri": "/schemagroups/parcels/schemas/parcel",
    }
    definitions.write_text(json.dumps(document))
    stream.make()
    stream.send(4)
    payload = json.dumps({"id": "P", "weight": 2}).encode()
    stream.do(lambda streams: streams.publish(f"{stream.name}.north.seen", payload, headers={"kind": "x"}))
    report = run(replace(job, inputs=(f"nats://{stream.place}/{stream.name}.*.seen",)))
    assert report.tally.landed == {"/messagegroups/parcels/messages/parcel.seen": 1}
    assert run(job).tally.landed.total() == 5


def test_every_message_lands_exactly_once(job: Job, stream: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    """Micro-batches die at one stage after the other; what was planned is read again, and nothing else with it."""
    stream.make()
    for stage in ("processing", "committing", "committed"):
        stream.send(10)
        monkeypatch.setattr(MicroBatches, "take", dying_at(stage))
        with pytest.raises(PipelineError, match=f"the driver ended by -{signal.SIGKILL.value}"):
            follow(job)
    monkeypatch.undo()
    stream.send(10)
    follow(job)
    assert all_once(folder(job), 40)


def test_dropped_messages_are_an_error(job: Job, stream: Stream) -> None:
    stream.make()
    stream.send(5)
    follow(job)
    stream.send(10)
    stream.purge(before=8)
    with pytest.raises(PipelineError, match=r"begins with message 8, and 6 was to be next.*failOnDataLoss"):
        follow(job)
    follow(replace(job, options=PATIENT | {"failOnDataLoss": "false"}))
    assert all_once(folder(job), 13)


@pytest.mark.parametrize("count", [2, 9])
def test_recreated_stream_is_read_from_its_beginning(job: Job, stream: Stream, count: int) -> None:
    """The numbers begin at 1 again, even if the new stream is longer than the old one."""
    stream.make()
    stream.send(5)
    follow(job)
    stream.do(lambda streams: streams.delete_stream(stream.name))
    stream.make()
    stream.send(count)
    with pytest.raises(PipelineError, match=r"and the one that was read of 20.*: it was made anew; give the stream"):
        follow(job)


def test_a_login_with_tls_leaves_no_trace(
    job: Job, stream: Stream, certificates: Certificates, capfd: pytest.CaptureFixture[str]
) -> None:
    stream.make()
    stream.send(3)
    options = {"user": USER, "password": PASSWORD, "ca": str(certificates.authority), "startingOffsets": "earliest"}
    options |= PATIENT
    secure = replace(job, inputs=(stream.url.replace("nats:", "tls:"),), options=options)
    follow(secure)
    assert all_once(folder(job), 3)
    assert PASSWORD.encode() not in read_contents(job)
    with pytest.raises(PipelineError, match="Authorization Violation") as caught:
        follow(replace(secure, options=options | {"password": "not-it-3"}), name="other")
    assert "not-it-3" not in f"{caught.value}{''.join(capfd.readouterr())}"


@pytest.mark.parametrize(
    ("stream_options", "more", "words"),
    [
        ({}, {"inputs": ("nats://127.0.0.1/a.b?startingOffsets=now",)}, "startingOffsets is earliest or latest"),
        ({}, {"inputs": ("nats://127.0.0.1/",)}, "name the streams of 127.0.0.1:4222"),
        (None, {}, "has no stream"),
        ({"retention": client.js.api.RetentionPolicy.WORK_QUEUE}, {}, "(retention workqueue)"),
        ({}, {"options": {"timeout": "0.01"}, "inputs": ("nats://127.0.0.1:1/a",)}, "the broker 127.0.0.1:1: "),
    ],
)
def test_failed_start_is_explained(
    job: Job, stream: Stream, stream_options: dict[str, Any] | None, more: dict[str, Any], words: str
) -> None:
    if stream_options is not None:
        stream.make(**stream_options)
    with pytest.raises(PipelineError, match=re.escape(words)):
        follow(replace(job, **more))
