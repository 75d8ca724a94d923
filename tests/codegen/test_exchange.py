"""What generated code of one language produces to Kafka is read by that of the others, and landed by the pipeline."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, Producer
from tests.brokers.program import Broker
from tests.codegen.conftest import DOCUMENT, GROUP
from tests.codegen.go import test_package as go
from tests.codegen.java import test_package as java
from tests.codegen.packages import generated, imported
from tests.codegen.rust import test_package as rust
from tests.codegen.typescript import test_package as typescript
from tests.pipeline.commands.test_stream import PATIENT
from tests.pipeline.conftest import spark_session

from signalbook.codegen.kafka import TypedConsumer, TypedProducer
from signalbook.pipeline import Job, run
from signalbook.values import dump_json

__all__ = ["spark_session"]
# What a language's program is started with, before the topic, what it does, and its argument.
Command = Callable[[str, str, str], list[str]]


def in_python(tmp_path: Path, servers: str, topic: str, count: int) -> list[Any]:
    """Two orders of a shop produced; all of the topic read, once there are ``count``."""
    generated(tmp_path, DOCUMENT)
    received: list[Any] = []
    with imported(tmp_path) as modules:
        placed = modules[GROUP + "order.placed"]
        from messages.definitions import handlers  # type: ignore[import-not-found] # made just now

        order = placed._types.OrderPlaced(kind="new", total=2.5, buyer=placed._types.Buyer(e_mail="python@example.com"))
        for mode in ("binary", "structured"):
            endpoint = {"protocol": "KAFKA", "protocoloptions": {"topic": topic}, "envelopeoptions": {"mode": mode}}
            producer = TypedProducer(Producer({"bootstrap.servers": servers}), endpoint)
            producer.send(placed.build(order, shop="python"))
            producer.flush()
        table = handlers("/messagegroups/shop.orders")
        table.on(placed.MESSAGE)(lambda message: received.append([message.context["shop"], message.data]))
        consumer = Consumer({"bootstrap.servers": servers, "group.id": topic, "auto.offset.reset": "earliest"})
        consumer.subscribe([topic])
        typed = TypedConsumer(consumer, table)
        for _ in range(120):
            typed.poll(0.5)
            if len(received) == count:
                break
        consumer.close()
    return received


def in_typescript(tmp_path: Path, servers: str) -> Command:
    folder = tmp_path / "typescript"
    typescript.compiled(folder, {"shop": DOCUMENT})
    program = Path(typescript.__file__).with_name("exchange.mjs")
    clients = typescript.MODULES.parent.parent / "clients"
    return lambda topic, action, argument: [
        "node", str(program), str(folder / "js"), str(clients), servers, topic, action, argument]  # fmt: skip


def in_java(tmp_path: Path, servers: str) -> Command:
    folder = tmp_path / "java"
    java.compiled(folder, {"shop": DOCUMENT}, str(Path(java.__file__).with_name("Exchange.java")))
    return lambda topic, action, argument: [
        "java", "-cp", java.class_path(folder), "Exchange", servers, topic, action, argument]  # fmt: skip


def in_go(tmp_path: Path, servers: str) -> Command:
    program = go.exchange(tmp_path / "go")
    return lambda topic, action, argument: [program, servers, topic, action, argument]


def in_rust(tmp_path: Path, servers: str) -> Command:
    program = rust.exchange()
    return lambda topic, action, argument: [program, servers, topic, action, argument]


def started(command: list[str]) -> list[Any]:
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return [json.loads(line) for line in ran.stdout.split("\n")[:-1]]


@pytest.mark.merge
@pytest.mark.usefixtures("spark_session")
def test_languages_read_each_other_and_the_pipeline_lands_their_records(kafka: Broker, tmp_path: Path) -> None:
    servers, topic = f"127.0.0.1:{kafka.ports['plain']}", f"exchange-{uuid4().hex[:8]}"
    languages = {"typescript": in_typescript(tmp_path, servers), "java": in_java(tmp_path, servers),
                 "go": in_go(tmp_path, servers), "rust": in_rust(tmp_path, servers)}  # fmt: skip
    for name, command in languages.items():
        assert started(command(topic, "produce", name)) == []
    count = 2 * (len(languages) + 1)
    expected = sorted(
        2 * [[name, {"kind": "new", "total": 2.5, "buyer": {"e-mail": f"{name}@example.com"}}]
             for name in ("python", *languages)], key=str)  # fmt: skip
    assert sorted(in_python(tmp_path, servers, topic, count), key=str) == expected
    for command in languages.values():
        assert sorted(started(command(topic, "consume", str(count))), key=str) == expected
    (tmp_path / "registry.json").write_bytes(dump_json(DOCUMENT))
    report = run(Job(
        registry=str(tmp_path / "registry.json"), inputs=(f"kafka://{servers}/{topic}?{PATIENT}",),
        input_format="kafka", output=tmp_path / "out", table_format="parquet", partition="none",
    ))  # fmt: skip
    assert (report.tally.read, report.tally.landed.total(), report.tally.reasons) == (count, count, {})
