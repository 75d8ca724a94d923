"""A real Kafka: a cluster of one process, from jars that ``tools/setup`` fetched."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from signalbook.demo.program import Ports, Program
from signalbook.errors import SignalbookError

PLACE: Final = Path(sys.prefix) / "brokers"
"""Where ``tools/setup`` lays the jars, a folder for each program."""
# Up in seconds, and small: nobody here looks for the last bit of speed.
_OPTIONS: Final = ("-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")


class NotInstalled(SignalbookError):
    """Something is not on this machine; the message says how to get it."""


def jars(name: str) -> Path:
    """The folder with the jars of ``name``. Raises ``NotInstalled``."""
    folder = PLACE / name
    if not (folder / "pom.xml").is_file():  # which is put there last
        raise NotInstalled(
            f"there is no {name} in {folder}: in a checkout, tools/setup demo "
            "(tools/setup test for what only tests start) fetches it with Maven"
        )
    return folder


def command(name: str, *arguments: str) -> list[str]:
    """A Java machine with the jars of ``name``, its options and class in ``arguments``. Raises ``NotInstalled``."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if java is None:
        raise NotInstalled("there is no Java: apt-get install openjdk-17-jre-headless, or set JAVA_HOME")
    return [java, *_OPTIONS, "-cp", f"{jars(name)}/*", *arguments]


READY: Final = "Kafka Server started"
LISTENERS: Final = ("plain", "control")
_COMMON: Final = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "listener.security.protocol.map": "PLAIN:PLAINTEXT,CONTROL:PLAINTEXT",
    "controller.listener.names": "CONTROL",
    "inter.broker.listener.name": "PLAIN",
    "num.partitions": "3",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    # its controller, which is in the same process, takes a broker that was held up for 9 s to be dead
    "broker.session.timeout.ms": "600000",
}
_IDENTITY: Final = "version=1\ncluster.id=MkU3OEVBNTcwNTJENDM2Qk\nnode.id=1\ndirectory.id=kQ6bTTyaRNOjOOvmVbvD3g\n"


def cluster(folder: Path) -> Program:
    """Return a cluster for anybody on this machine, at the port ``plain``, with its data in ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    return Program("Kafka", folder, configure, READY, LISTENERS)


def configure(folder: Path, ports: Ports, settings: Mapping[str, str] = {}) -> list[str]:
    """Lay a cluster out in ``folder``, with ``settings`` beside the common ones; the command that starts it.

    Raises ``NotInstalled``.
    """
    places = {
        "log.dirs": str(folder / "data"),
        "controller.quorum.voters": f"1@127.0.0.1:{ports['control']}",
        "listeners": f"PLAIN://127.0.0.1:{ports['plain']},CONTROL://127.0.0.1:{ports['control']}",
        "advertised.listeners": f"PLAIN://127.0.0.1:{ports['plain']}",
    }
    configuration = {**_COMMON, **places, **settings}
    (folder / "conf").write_text("".join(f"{name}={value}\n" for name, value in configuration.items()))
    identity = folder / "data" / "meta.properties"
    if not identity.exists():  # what its own tool for that would write, without starting another Java
        identity.parent.mkdir(exist_ok=True)
        identity.write_text(_IDENTITY)
    return command("kafka", "kafka.Kafka", str(folder / "conf"))
