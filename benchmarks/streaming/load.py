"""Events for a topic, as fast as they go or at a steady rate, by a process of its own.

    python -m benchmarks.streaming.load SERVERS TOPIC FILE [--count N] [--rate N]

It sends structured CloudEvents, lines of FILE over and over, and ends when Kafka has them.
"""

from __future__ import annotations

import argparse
import time
from itertools import cycle, islice
from pathlib import Path

from confluent_kafka import Producer

_HEADERS: list[tuple[str, str | bytes | None]] = [("content-type", b"application/cloudevents+json")]
PARTITIONS = 3
_TICK = 0.01


def main() -> None:
    """Send."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("servers")
    parser.add_argument("topic")
    parser.add_argument("file", type=Path)
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--rate", type=int, default=0, help="events a second; 0 is as fast as they go")
    options = parser.parse_args()
    producer = Producer(
        {
            "bootstrap.servers": options.servers,
            "linger.ms": 5,
            "queue.buffering.max.kbytes": 1 << 20,
            "enable.idempotence": True,  # what is measured waits for so many records: none may come twice
        }
    )
    lines = islice(cycle(options.file.read_bytes().splitlines()), options.count)
    begin, late, sent = time.monotonic(), 0.0, 0
    while sent < options.count:
        due = options.count if not options.rate else int((time.monotonic() - begin) * options.rate) + 1
        for line in islice(lines, due - sent):
            _send(producer, options.topic, line, sent % PARTITIONS)
            sent += 1
        if options.rate:
            late = max(late, time.monotonic() - begin - sent / options.rate)
            producer.poll(_TICK)
    producer.flush()
    print(f"{sent} events in {time.monotonic() - begin:.1f} s, at most {late * 1000:.0f} ms late")


def _send(producer: Producer, topic: str, line: bytes, partition: int) -> None:
    while True:
        try:
            producer.produce(topic, line, partition=partition, headers=_HEADERS)
            return
        except BufferError:
            producer.poll(_TICK)


if __name__ == "__main__":
    main()
