"""What it costs to take in what brokers give once: from MQTT and AMQP into a spool, in a folder and in a store.

    python -m benchmarks.receiving.bench [--messages 20000] [--rounds 3] [--rate 500] [--seconds 20] [--output FILE]

How fast messages are received that wait at the broker, and, while they come at a steady rate, how long it is from their
sending to their acknowledging, which is when they last. Brokers, s3proxy and what sends share the cores with it.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, Final

from benchmarks.receiving.load import SIZE, sent_at
from benchmarks.stores.bench import s3_server
from tests.brokers import servers
from tests.brokers.certificates import issue

from signalbook.pipeline import Place, place_of
from signalbook.pipeline.sources import amqp, mqtt
from signalbook.pipeline.sources.receiver import ReceivedMessage, ReceivingConnection, SpoolReceiver
from signalbook.pipeline.sources.spool import MessageSpool

RESULTS: Final = Path(__file__).parents[1] / "results" / "receiving.json"
PROTOCOLS: Final = {"mqtt": mqtt.MQTT5, "amqp": amqp.SOURCE}
_PATIENCE: Final = 300.0


@dataclass(slots=True)
class Timed:
    """A connection that notes how old messages are when they have been acknowledged, in nanoseconds."""

    inner: ReceivingConnection
    ages: list[int]
    groups: list[int]

    def receive(self, seconds: float) -> Sequence[ReceivedMessage]:
        """As the connection does."""
        return self.inner.receive(seconds)

    def confirm(self, messages: Sequence[ReceivedMessage]) -> None:
        """The same."""
        self.inner.confirm(messages)
        now = time.time_ns()
        self.groups.append(len(messages))
        self.ages.extend(now - sent_at(each.message.value) for each in messages)

    def keep_alive(self) -> None:
        """The same."""
        self.inner.keep_alive()

    def close(self) -> None:
        """The same."""
        self.inner.close()


@dataclass(slots=True)
class Measured:
    """What rounds of one protocol and place took: seconds and CPU a message, and ages at a steady rate."""

    seconds: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    ages: list[int] = field(default_factory=list)
    groups: list[int] = field(default_factory=list)

    def summary(self) -> dict[str, Any]:
        """Rates of messages that waited, and ages of those that came."""
        ages = statistics.quantiles((age / 1e6 for age in self.ages), n=100)
        return {
            "messages_per_second": round(1 / statistics.median(self.seconds)),
            "best_messages_per_second": round(1 / min(self.seconds)),
            "cpu_microseconds_per_message": round(statistics.median(self.cpu) * 1e6, 1),
            "milliseconds_until_acknowledged": {"p50": round(ages[49], 1), "p99": round(ages[98], 1)},
            "messages_written_together": statistics.median(self.groups),
        }


@dataclass(frozen=True, slots=True)
class Bench:
    """Both brokers, and both places for spools."""

    ports: dict[str, int]
    places: dict[str, Place]
    numbers: Iterator[int]

    def waiting(self, protocol: str, place: str, messages: int, found: Measured) -> None:
        """One round with messages that are at the broker already."""
        with self._spool(protocol, place) as (spool, name, connect):
            subprocess.run(self._load(protocol, name, messages, 0), check=True)
            cpu, began = time.process_time(), time.monotonic()
            self._receive(spool, connect, messages)
            found.seconds.append((time.monotonic() - began) / messages)
            found.cpu.append((time.process_time() - cpu) / messages)

    def coming(self, protocol: str, place: str, rate: int, seconds: int, found: Measured) -> None:
        """One round with messages that come at a rate."""
        messages = rate * seconds
        with (
            self._spool(protocol, place) as (spool, name, connect),
            subprocess.Popen(self._load(protocol, name, messages, rate)),
        ):
            self._receive(spool, lambda: Timed(connect(), found.ages, found.groups), messages)

    def _load(self, protocol: str, name: str, messages: int, rate: int) -> list[str]:
        options = ["--count", str(messages), "--rate", str(rate)]
        return [sys.executable, "-m", "benchmarks.receiving.load", protocol, str(self.ports[protocol]), name, *options]

    @contextmanager
    def _spool(
        self, protocol: str, place: str
    ) -> Iterator[tuple[MessageSpool, str, Callable[[], ReceivingConnection]]]:
        """A new spool, of what is sent to a name, and what connects it."""
        name = f"q{next(self.numbers)}"
        source = PROTOCOLS[protocol]
        inputs = (f"{protocol}://127.0.0.1:{self.ports[protocol]}/{name}",)
        with MessageSpool(self.places[place] / name) as spool:

            def connect() -> ReceivingConnection:
                return source.connect(inputs, {"timeout": str(int(_PATIENCE))}, spool)

            connect().close()  # so that the broker keeps what comes
            yield spool, name, connect

    def _receive(self, spool: MessageSpool, connect: Callable[[], ReceivingConnection], messages: int) -> None:
        receiver = SpoolReceiver(spool, connect, _PATIENCE)
        try:
            deadline = time.monotonic() + _PATIENCE
            while receiver.end < messages:
                assert time.monotonic() < deadline, f"{receiver.end} of {messages} messages came"
                time.sleep(0.01)
        finally:
            receiver.stop()


def measure(folder: Path, options: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """All figures, places in turns."""
    certificates = issue(folder)
    with ExitStack() as stack:
        ports = {}
        for protocol, start in (("mqtt", servers.mosquitto), ("amqp", servers.artemis)):
            home = folder / protocol
            home.mkdir()
            broker = start(home, certificates)
            broker.open()
            stack.callback(broker.stop)
            ports[protocol] = broker.ports["plain"]
        (folder / "server").mkdir()
        places = {"disk": place_of(folder / "spools"), "s3": stack.enter_context(s3_server(folder / "server"))}
        bench = Bench(ports, places, count())
        found = {(protocol, place): Measured() for protocol in PROTOCOLS for place in places}
        for _ in range(options.rounds):
            for (protocol, place), measured in found.items():
                bench.waiting(protocol, place, options.messages, measured)
        for (protocol, place), measured in found.items():
            bench.coming(protocol, place, options.rate, options.seconds, measured)
    return {f"{protocol}_{place}": measured.summary() for (protocol, place), measured in found.items()}


def main() -> None:
    """Measure and write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rate", type=int, default=500, help="messages a second")
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="signalbook-bench-") as name:
        series = measure(Path(name), options)
    found = {
        "taken": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "input": {"messages": options.messages, "bytes": SIZE, "rate": options.rate, "seconds": options.seconds},
        "ratios": {
            f"of_s3_to_disk_{protocol}": round(
                series[f"{protocol}_s3"]["best_messages_per_second"]
                / series[f"{protocol}_disk"]["best_messages_per_second"],
                2,
            )
            for protocol in PROTOCOLS
        },
        **series,
    }
    options.output.write_text(json.dumps(found, indent=2) + "\n")
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
