"""Queues of a real AMQP broker: what lands, and that all of it does once it is received."""

import json
import os
import signal
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from tests.brokers.amqp.receiver import SocketStream
from tests.brokers.certificates import Certificates
from tests.brokers.program import Broker
from tests.brokers.servers import PASSWORD, USER
from tests.pipeline.commands.following import (
    all_once,
    build_stream_job,
    dying_at,
    landed_rows,
    number_events,
    places,
    read_contents,
    sent,
    until,
)
from tests.pipeline.lake import folder

from signalbook.brokers.amqp.connection import AMQPConnection, AMQPSender
from signalbook.brokers.amqp.messages import AMQPMessage, to_bytes
from signalbook.pipeline import Job, PipelineError
from signalbook.pipeline.commands.stream import MicroBatches

pytestmark = [pytest.mark.usefixtures("spark_session"), pytest.mark.merge]
PATIENT = {"timeout": "300"}
_numbers = count(1)


class Queue:
    """A queue with events numbered through, in structured and binary mode, of which each tenth is wrong."""

    def __init__(self, broker: Broker, parcels: Any) -> None:
        self.name = f"parcels-{os.getpid()}-{next(_numbers)}"
        self.broker = broker
        self.url = f"amqp://127.0.0.1:{broker.ports['plain']}/{self.name}"
        self.sent = 0
        self._parcels = parcels

    def put(self, *messages: AMQPMessage) -> None:
        """Send messages; the broker has them then."""
        with SocketStream(self.broker.ports["plain"]) as stream:
            connection = AMQPConnection(stream, host="127.0.0.1", container=f"tests-{self.name}")
            sender = AMQPSender(connection, address=self.name, name="s")
            list(sender.publish([to_bytes(message) for message in messages]))
            connection.close(drain=True)

    def send(self, number: int) -> None:
        """Send so many events."""
        events = number_events(self._parcels, self.sent, number)
        self.put(*(self._message(event, binary=binary) for event, binary in events))
        self.sent += number

    def _message(self, event: dict[str, Any], *, binary: bool) -> AMQPMessage:
        if not binary:
            stated = {"content-type": "application/cloudevents+json"}
            return AMQPMessage(body=json.dumps(event).encode(), properties=stated)
        data, stated = json.dumps(event.pop("data")).encode(), {"content-type": "application/json"}
        attributes = {f"cloudEvents_{name}": value for name, value in event.items()}
        return AMQPMessage(body=data, properties=stated, application_properties=attributes)


@pytest.fixture
def queue(artemis: Broker, parcels: Any) -> Queue:
    return Queue(artemis, parcels)


@pytest.fixture
def job(tmp_path: Path, definitions: Path, queue: Queue) -> Job:
    return build_stream_job(definitions, tmp_path / "out", queue.url, "amqp", options=PATIENT)


def test_every_message_lands_exactly_once(
    job: Job, queue: Queue, definitions: Path, parcels: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Messages that a killed driver has read stay in the spool (K-7, K-21, K-26)."""
    document = parcels.catalogue()
    document["messagegroups"]["parcels"]["messages"]["parcel.weighed"] = {
        "protocol": "AMQP/1.0",
        "protocoloptions": {
            "properties": {"subject": {"value": "weighed", "required": True}},
            "application-properties": {"grams": {"type": "integer", "value": "500", "required": True}},
        },
    }
    definitions.write_text(json.dumps(document))
    queue.send(10)
    monkeypatch.setattr(MicroBatches, "take", dying_at("processing"))
    with pytest.raises(PipelineError, match=f"the driver ended by -{signal.SIGKILL.value}"):
        until(job, 10)
    monkeypatch.undo()
    queue.send(10)
    properties = {"subject": "weighed", "to": "scales"}
    queue.put(AMQPMessage(body=b"1", properties=properties, application_properties={"grams": 500}))
    reports = until(job, 21)
    assert all_once(folder(job), 21)
    landed = sum((report.tally.landed for report in reports), start=reports[0].tally.landed.__class__())
    assert landed["/messagegroups/parcels/messages/parcel.weighed"] == 1
    assert landed.total() == 19
    rows = landed_rows(job)
    assert {row["_protocol"] for row in rows} == {"AMQP/1.0"}
    (weighed,) = (row for row in rows if row["_address"] == "scales")
    assert dict(weighed["_headers"]) == {"grams": "500"}


def test_full_spool_stops_the_receiver(job: Job, queue: Queue) -> None:
    small = replace(job, options=PATIENT | {"maxSpoolBytes": "4000"})
    queue.send(30)
    reports = until(small, 30)
    assert max(report.tally.read for report in reports) < 20
    # Where a link ends before the queue knows what was accepted, it comes again: to the folder at least once.
    assert sent(folder(job)) == {f"e-{number}" for number in range(30)}
    assert set(places(folder(job)).values()) == {1}


def test_a_login_with_tls_leaves_no_trace(job: Job, queue: Queue, certificates: Certificates) -> None:
    queue.send(3)
    url = f"amqps://127.0.0.1:{queue.broker.ports['tls']}/{queue.name}"
    secret = replace(
        job, inputs=(url,), options=PATIENT | {"user": USER, "password": PASSWORD, "ca": str(certificates.authority)}
    )
    until(secret, 3)
    assert all_once(folder(job), 3)
    assert PASSWORD.encode() not in read_contents(job)
