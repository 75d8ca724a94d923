"""Sends messages to a broker of MQTT or AMQP, each with the time at which it was sent, as a process of its own."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator

from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from tests.brokers.amqp.receiver import SocketStream

from signalbook.brokers.amqp.connection import AMQPConnection, AMQPSender
from signalbook.brokers.amqp.messages import AMQPMessage, to_bytes

SIZE = 500
"""Bytes of a message."""
_HOST = "127.0.0.1"


def message() -> bytes:
    """One that says when it was made, in nanoseconds since 1970."""
    return str(time.time_ns()).encode().ljust(SIZE, b"x")


def sent_at(value: bytes) -> int:
    """When a message was made."""
    return int(value.rstrip(b"x"))


def _paced(count: int, rate: int) -> Iterator[None]:
    """So many times, at a rate a second; 0 is at once."""
    began = time.monotonic()
    for number in range(count):
        if rate:
            time.sleep(max(began + number / rate - time.monotonic(), 0))
        yield


def by_mqtt(port: int, topic: str, count: int, rate: int) -> None:
    """Publish with quality of service 1."""
    client = Client(CallbackAPIVersion.VERSION2, protocol=MQTTProtocolVersion.MQTTv5)
    client.max_inflight_messages_set(1000)
    client.connect(_HOST, port)
    client.loop_start()
    sent = [client.publish(topic, message(), 1) for _ in _paced(count, rate)]
    for each in sent:
        each.wait_for_publish(300)
    client.disconnect()
    client.loop_stop()


def by_amqp(port: int, queue: str, count: int, rate: int) -> None:
    """Send, with a wait for each message only at a rate."""
    with SocketStream(port) as stream:
        connection = AMQPConnection(stream, host=_HOST, container="bench")
        sender = AMQPSender(connection, address=queue, name="bench")
        if rate:
            for _ in _paced(count, rate):
                list(sender.publish([to_bytes(AMQPMessage(body=message()))]))
        else:
            list(sender.publish([to_bytes(AMQPMessage(body=message())) for _ in range(count)]))
        connection.close(drain=True)


def main() -> None:
    """Send."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("protocol", choices=["mqtt", "amqp"])
    parser.add_argument("port", type=int)
    parser.add_argument("name", help="topic or queue")
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--rate", type=int, default=0, help="messages a second; all at once without")
    options = parser.parse_args()
    {"mqtt": by_mqtt, "amqp": by_amqp}[options.protocol](options.port, options.name, options.count, options.rate)


if __name__ == "__main__":
    main()
