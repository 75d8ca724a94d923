"""Topics of a real MQTT broker: what lands, and that all of it does once it is received, whoever dies when."""

import json
import os
import signal
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import paho.mqtt.client as client
import pyarrow.parquet as pq
import pytest
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from tests.brokers.program import Broker
from tests.pipeline.commands.following import (
    all_once,
    build_stream_job,
    dying_at,
    follow,
    landed_rows,
    number_events,
    until,
)
from tests.pipeline.lake import folder

from signalbook.messages import Policy
from signalbook.pipeline import Job, PipelineError, Report, StreamJob, run, stream
from signalbook.pipeline.commands.stream import MicroBatches

pytestmark = [pytest.mark.usefixtures("spark_session"), pytest.mark.merge]
PATIENCE = 300
PATIENT = {"timeout": "300"}
_numbers = count(1)


class Topic:
    """A topic with events numbered through, in structured and binary mode, of which each tenth is wrong."""

    def __init__(self, broker: Broker, parcels: Any) -> None:
        self.name = f"parcels/{os.getpid()}/{next(_numbers)}"
        self.port = broker.ports["plain"]
        self.url = f"mqtt://127.0.0.1:{self.port}/{self.name}/#"
        self.sent = 0
        self._parcels = parcels

    def publish(self, *messages: tuple[str, bytes, Mapping[str, Any]]) -> None:
        """Send messages: the end of the topic, payload and properties of each; the broker has them then."""
        sender = client.Client(CallbackAPIVersion.VERSION2, protocol=MQTTProtocolVersion.MQTTv5)
        sender.connect("127.0.0.1", self.port)
        sender.loop_start()
        for level, payload, user_properties in messages:
            properties = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
            for name, value in user_properties.items():
                setattr(properties, name, value)
            sender.publish(f"{self.name}/{level}", payload, 1, properties=properties).wait_for_publish(PATIENCE)
        sender.disconnect()
        sender.loop_stop()

    def send(self, number: int) -> None:
        """Send so many events."""
        events = number_events(self._parcels, self.sent, number)
        self.publish(*(self._message(event, binary=binary) for event, binary in events))
        self.sent += number

    def _message(self, event: dict[str, Any], *, binary: bool) -> tuple[str, bytes, dict[str, Any]]:
        if not binary:
            return "depot", json.dumps(event).encode(), {"ContentType": "application/cloudevents+json"}
        data = json.dumps(event.pop("data")).encode()
        return "depot", data, {"ContentType": "application/json", "UserProperty": list(event.items())}


@pytest.fixture
def topic(mosquitto: Broker, parcels: Any) -> Topic:
    return Topic(mosquitto, parcels)


@pytest.fixture
def job(tmp_path: Path, definitions: Path, topic: Topic) -> Job:
    return build_stream_job(definitions, tmp_path / "out", topic.url, "mqtt5", options=PATIENT)


def test_stream_continues_where_it_ended(job: Job, topic: Topic) -> None:
    """K-7, K-21."""
    assert all(report.tally.read == 0 for report in follow(job))
    topic.send(20)
    reports = until(job, 20, most=12)
    topic.send(10)
    reports += until(job, 30, most=12)
    assert max(report.tally.read for report in reports) <= 12
    assert all_once(folder(job), 30)
    assert sum(report.landed for report in reports) == 27
    rows = landed_rows(job)
    assert {(row["_protocol"], row["_address"]) for row in rows} == {("MQTT/5.0", f"{topic.name}/depot")}
    assert {row["_source"].partition(":")[0] for row in rows} == {"mqtt5"}
    assert all(row["_received_at"] is not None for row in rows)
    structured, binary = ({**dict(row["_headers"])} for row in rows if row["ce_id"] in ("e-0", "e-1"))
    assert structured["content-type"] == "application/cloudevents+json"
    assert (binary["content-type"], binary["id"]) == ("application/json", "e-1")


def test_native_messages_land(job: Job, topic: Topic, definitions: Path, parcels: Any) -> None:
    """Topic and user property become attributes of the event; quality of service is no filter (K-27, K-36, K-43)."""
    document = parcels.catalogue()
    place = f"{topic.name}/store/{{store}}/cashierdesk/{{desk}}"
    document["messagegroups"]["parcels"]["messages"]["sale"] = {
        "envelope": "CloudEvents/1.0",
        "envelopemetadata": {
            "type": {"type": "uritemplate", "value": "{kind}"},
            "source": {"type": "uritemplate", "value": "{store}"},
            "subject": {"type": "uritemplate", "value": "{desk}"},
        },
        "protocol": "MQTT/5.0",
        "protocoloptions": {
            "topic_name": place,
            "qos": 2,
            "user_properties": [{"name": "eventType", "type": "uritemplate", "value": "{kind}"}],
        },
    }
    definitions.write_text(json.dumps(document))
    job = replace(job, policy=Policy(native_mapping=True))
    follow(job)
    user_properties = {"UserProperty": [("eventType", "com.ex.sale")]}
    text = user_properties | {"PayloadFormatIndicator": 1}
    level = "store/17/cashierdesk/4"
    topic.publish((level, b"{}", user_properties), (level, b"\xff", text))
    tallies = [report.tally for report in until(job, 2)]
    assert sum((tally.landed for tally in tallies), start=Counter()) == {"/messagegroups/parcels/messages/sale": 1}
    assert sum((tally.reasons for tally in tallies), start=Counter()) == {"decode_error": 1}
    (path,) = folder(job).glob("tables/**/*.parquet")
    (row,) = pq.ParquetFile(path).read().to_pylist()
    assert (row["ce_type"], row["ce_source"], row["ce_subject"]) == ("com.ex.sale", "17", "4")


def test_every_message_lands_exactly_once(job: Job, topic: Topic, monkeypatch: pytest.MonkeyPatch) -> None:
    """Micro-batches die at one stage after the other; what was received waits in the spool, and goes once landed."""
    follow(job)
    for number, stage in enumerate(("processing", "committed"), 1):
        topic.send(10)
        monkeypatch.setattr(MicroBatches, "take", dying_at(stage))
        with pytest.raises(PipelineError, match=f"the driver ended by -{signal.SIGKILL.value}"):
            until(job, 10 * number)  # what was sent may come after a stream that saw nothing
    monkeypatch.undo()
    until(job, 20)
    assert all_once(folder(job), 20)


def test_full_spool_stops_the_receiver(job: Job, topic: Topic) -> None:
    """The broker keeps it, the stream is notified, and all of it comes when there is room."""
    small = replace(job, options=PATIENT | {"maxSpoolBytes": "2000"})
    follow(small)
    topic.send(60)
    (report,) = (report_ for report_ in until(small, 1) if report_.tally.read)
    assert 0 < report.tally.read < 20
    stop, reports = threading.Event(), [report]
    late = threading.Timer(900, stop.set)
    late.daemon = True  # nobody waits for it where the stream fails
    late.start()

    def done(report: Report) -> None:
        reports.append(report)
        if sum(report_.tally.read for report_ in reports) >= 60:
            stop.set()

    stream(StreamJob(job=small, interval=0), stop, done=done)
    late.cancel()
    assert max(report_.tally.read for report_ in reports) < 20
    assert all_once(folder(job), 60)


def test_batch_input_is_rejected(job: Job) -> None:
    with pytest.raises(PipelineError, match=r"gives each message once.*pipeline stream --once"):
        run(job)
