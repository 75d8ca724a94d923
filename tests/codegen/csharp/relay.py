"""Gives Kafka the records of generated C#, and it those of Kafka: PROGRAM SERVERS TOPIC produce SHOP | consume COUNT.

Kafka's client for .NET comes from NuGet alone, so that the program has its records on standard output and input.
"""

from __future__ import annotations

import json
import subprocess
import sys
from base64 import b64decode, b64encode
from collections.abc import Iterator
from typing import Any

from confluent_kafka import Consumer, Producer


def main(program: str, servers: str, topic: str, what: str, argument: str) -> None:
    if what == "produce":
        records = answers(["mono", program, what, topic, argument], "")
        produce(servers, topic, map(json.loads, records.splitlines()))
    else:
        lines = [f"{json.dumps(each)}\n" for each in consumed(servers, topic, int(argument))]
        sys.stdout.write(answers(["mono", program, what], "".join(lines)))


def answers(command: list[str], lines: str) -> str:
    ran = subprocess.run(command, input=lines, capture_output=True, text=True, check=False)
    if ran.returncode:
        sys.exit(ran.stderr)
    return ran.stdout


def produce(servers: str, topic: str, records: Iterator[Any]) -> None:
    producer = Producer({"bootstrap.servers": servers})
    for each in records:
        headers: list[tuple[str, str | bytes | None]] = [(name, b64decode(value)) for name, value in each["headers"]]
        producer.produce(topic, key=each["key"], value=b64decode(each["value"]), headers=headers)
    assert producer.flush(60) == 0


def consumed(servers: str, topic: str, count: int) -> Iterator[Any]:
    """So many records of a topic, from its beginning."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": f"{topic}-csharp", "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    while count:
        message: Any = consumer.poll(60)
        assert message is not None
        assert message.error() is None
        headers = [(name, b64encode(value).decode()) for name, value in message.headers() or []]
        yield {"topic": topic, "headers": headers, "value": b64encode(message.value()).decode()}
        count -= 1
    consumer.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
