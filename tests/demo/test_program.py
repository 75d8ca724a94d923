"""Programs beside the demonstration: on ports of their own, and gone with it however it ends."""

from __future__ import annotations

import os
import select
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.brokers.program import Broker
from tests.serving import kept_port

from signalbook.demo import program
from signalbook.demo.program import NotStarted, Ports, Program, end, keep

OWNER = """
import sys, time
from pathlib import Path
from tests.demo.test_program import pages
server = pages(Path(sys.argv[1]))
server.open()
print(server.ports["http"], flush=True)
time.sleep(3600)
"""
STUBBORN = """
import signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"])
print("up", flush=True)
time.sleep(3600)
"""


def pages(folder: Path) -> Broker:
    """A server of files."""

    def configure(folder: Path, ports: Ports) -> list[str]:
        return [sys.executable, "-u", "-m", "http.server", "--bind", "127.0.0.1", str(ports["http"])]

    return Broker("pages", folder, configure, "Serving HTTP", ("http",))


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_program_restarts_on_the_same_port(tmp_path: Path) -> None:
    server = pages(tmp_path)
    server.open()
    port = server.ports["http"]
    assert listens(port)
    server.stop()
    server.stop()
    assert not server.runs
    server.start()
    assert server.ports == {"http": port}
    assert listens(port)
    server.stop()
    assert not listens(port)


def test_a_port_that_is_taken_in_between_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other, kept_port() as free:
        ports = [other.getsockname()[1], free]
        monkeypatch.setattr(program, "_find_free_ports", lambda count, among: [ports.pop(0)])
        server = pages(tmp_path)
        server.open()
        server.stop()
        assert server.ports == {"http": free}


def test_occupied_port_is_detected_in_long_output(tmp_path: Path) -> None:
    tries: list[Ports] = []

    def configure(folder: Path, ports: Ports) -> list[str]:
        tries.append(ports)
        return [sys.executable, "-c", "exit('Address already in use' + ' and so on' * 1000)"]

    with pytest.raises(NotStarted):
        Program("it", tmp_path, configure, "never", ()).open()
    assert len(tries) == program._TRIES


def test_failed_start_is_reported(tmp_path: Path) -> None:
    refusing = Program("it", tmp_path, lambda folder, ports: [sys.executable, "-c", "exit('no folder')"], "never", ())
    with pytest.raises(NotStarted, match=f"it does not start; the end of {tmp_path / 'log'}:\nno folder"):
        refusing.open()


def test_program_ends_with_its_killed_owner(tmp_path: Path) -> None:
    command = [sys.executable, "-c", OWNER, str(tmp_path)]
    with subprocess.Popen(command, cwd=Path(__file__).parents[2], stdout=subprocess.PIPE) as owner:
        assert owner.stdout is not None
        port = int(owner.stdout.readline())
        owner.kill()
    deadline = time.monotonic() + 300
    while listens(port) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not listens(port)


def test_exit_code_of_a_program_is_returned(tmp_path: Path) -> None:
    """The supervisor still waits for input and must end as well, without output."""
    log = tmp_path / "log"
    with log.open("wb") as out, keep([sys.executable, "-c", "exit(3)"], tmp_path, out, out) as process:
        assert process.wait(300) == 3
    assert log.read_text() == ""


def test_stubborn_program_is_killed_with_its_children(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hasty = tmp_path / "supervise.py"
    hasty.write_text(
        program._SUPERVISOR.read_text().replace("_TIMEOUT_SECONDS: Final = 120.0", "_TIMEOUT_SECONDS: Final = 0.0")
    )
    monkeypatch.setattr(program, "_SUPERVISOR", hasty)
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as output, os.fdopen(writing, "wb") as out:
        process = keep([sys.executable, "-c", STUBBORN], tmp_path, out, out)
        out.close()
        assert output.readline() == b"up\n"
        end(process)
        assert select.select([output], [], [], 300)[0]
        assert output.read() == b"", "an end only when nobody is left that could write"
