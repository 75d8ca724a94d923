"""The server as a process: it starts, answers, stops, and says in one line why it cannot start."""

import asyncio
import base64
import gc
import http.client
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path

import httpx
import pytest
from starlette.applications import Starlette
from tests.serving import answers, kept_port

from signalbook import server
from signalbook.engine.engine import Engine
from signalbook.engine.write.commands import Command, Method
from signalbook.errors import SignalbookError
from signalbook.events.subscription import Credential, Subscription
from signalbook.events.subscriptions.store import SubscriptionStore
from signalbook.server import ServerError, build, check_secrets, run
from signalbook.settings import SettingError, Settings
from signalbook.storage import open_store
from signalbook.storage.base import StorageError
from signalbook.storage.outbox import Record
from signalbook.xid import ROOT

PROGRAM = """
import sys
from signalbook import server
from signalbook.settings import Settings
server._SHUTDOWN_SECONDS = 10_000  # a server that is slow to stop is not to be killed
server.run(Settings(port=int(sys.argv[1]), db=sys.argv[2], workers=int(sys.argv[3])))
"""

PATIENCE = 300


@contextmanager
def serving(db: str, *, workers: int = 1) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """A server process and its URL, once it answers."""
    open_store(db).close()  # this process copies an empty database, which the server would migrate
    with kept_port() as port:
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(port), db, str(workers)], stdout=subprocess.PIPE, text=True
        )
        url = f"http://127.0.0.1:{port}"
        try:
            wait_until(lambda: httpx.get(f"{url}/health/ready", timeout=PATIENCE).status_code == 200, process)
            yield url, process
        finally:
            process.terminate()
            process.communicate(timeout=PATIENCE)


def wait_until(answers: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        assert process.poll() is None, "the server stopped"
        try:
            if answers():
                return
        except httpx.TransportError:
            pass
        time.sleep(0.05)
    pytest.fail("the server does not answer")


@pytest.mark.parametrize("workers", [pytest.param(1, marks=pytest.mark.merge), 2])
def test_a_server_starts_answers_and_stops(store_url: str, workers: int) -> None:
    with serving(store_url, workers=workers) as (url, process):
        for number in range(10):
            path = f"{url}/schemagroups/g{number}"
            answer = httpx.put(path, json={"name": "é"}, headers={"Connection": "close"}, timeout=PATIENCE)
            assert (answer.status_code, answer.json()["name"]) == (201, "é")
            assert httpx.get(path, headers={"Connection": "close"}, timeout=PATIENCE).status_code == 200
        process.terminate()
        output, _ = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0
        assert output.splitlines() == [
            f'Signalbook serves the registry "signalbook" at {url}/',
            "It listens on this machine only (127.0.0.1).",
        ]
    with serving(store_url) as (url, _):
        assert len(httpx.get(f"{url}/schemagroups", timeout=PATIENCE).json()) == 10


@pytest.mark.merge
@pytest.mark.skipif(sys.platform != "linux", reason="forks there alone")
def test_a_server_process_begins_with_everything_imported(tmp_path: Path) -> None:
    """Importing everything takes most of the start and is done once. It is repeated at SIGHUP, because the version
    may have changed.
    """

    def programs() -> set[str]:
        listing = subprocess.run(["pgrep", "-a", "-P", str(process.pid)], capture_output=True, text=True).stdout
        return {line.partition(" ")[2] for line in listing.splitlines()}

    with serving(f"sqlite:///{tmp_path / 'r.db'}") as (_, process):
        assert not any("multiprocessing" in program for program in programs())
        process.send_signal(signal.SIGHUP)
        wait_until(lambda: any("multiprocessing" in program for program in programs()), process)


EVERYBODY = '{"rules": [{"who": ["subject:ann"], "role": "administrator"}]}'


def test_server_without_a_policy_is_local(tmp_path: Path) -> None:
    db = f"sqlite:///{tmp_path / 'r.db'}"
    for host in ("0.0.0.0", "::"):
        with kept_port() as port, pytest.raises(ServerError) as error:
            run(Settings(host=host, port=port, db=db))
        for way in ("--host 127.0.0.1", "signalbook access set", "--access-file", "--access open"):
            assert way in str(error.value)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--host", "0.0.0.0", "--access", "open"), "Everybody who can reach it may do everything"),
        (("--host", "0.0.0.0", "--access-file", "policy.json"), "Without TLS credentials can be read on the way"),
        pytest.param(("--host", "localhost"), "It listens on this machine only", marks=pytest.mark.merge),
    ],
)
def test_start_message_says_who_has_access(tmp_path: Path, options: tuple[str, ...], says: str) -> None:
    (tmp_path / "policy.json").write_text(EVERYBODY)
    with kept_port() as port:
        command = [sys.executable, "-m", "signalbook", "serve", "--port", str(port), *options]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=tmp_path) as process:
            assert process.stdout is not None
            assert "serves the registry" in process.stdout.readline()
            process.terminate()
            further_output = process.stdout.read()
    assert says in further_output


SLOW = """
import sys, time
from signalbook import server
from signalbook.settings import Settings

def build(settings):
    print("begins", flush=True)
    time.sleep(1000)

server._SHUTDOWN_SECONDS = 10_000
server.build = build  # in the server process too, which runs this file under another name
if __name__ == "__main__":
    server.run(Settings(port=int(sys.argv[1]), db=sys.argv[2]))
"""


def test_a_server_that_is_still_starting_stops(tmp_path: Path) -> None:
    """The processes of the server end without being killed."""
    program = tmp_path / "slow.py"
    program.write_text(SLOW)
    with kept_port() as port:
        command = [sys.executable, str(program), str(port), f"sqlite:///{tmp_path / 'r.db'}"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            lines = iter(process.stdout)
            assert "begins\n" in lines
            process.terminate()
            try:
                assert process.wait(PATIENCE) == 0
            finally:
                process.kill()


STUCK = """
import sys, time
from signalbook import server
from signalbook.settings import Settings

server._SHUTDOWN_SECONDS = 1
if __name__ == "__main__":  # not in the server process that comes at SIGHUP
    server.Audit.stop = lambda audit: time.sleep(10_000)
    server.run(Settings(port=int(sys.argv[1]), db=sys.argv[2]))
"""


@pytest.mark.merge
@pytest.mark.skipif(sys.platform != "linux", reason="forks there alone")
def test_hanging_server_process_is_replaced(tmp_path: Path) -> None:
    """The process is replaced at SIGHUP, and the server ends at SIGTERM afterwards."""
    program = tmp_path / "stuck.py"
    program.write_text(STUCK)
    with kept_port() as port:
        command = [sys.executable, str(program), str(port), f"sqlite:///{tmp_path / 'r.db'}"]
        with subprocess.Popen(command, text=True) as process:
            try:
                wait_until(lambda: answers(f"http://127.0.0.1:{port}"), process)
                before = children(process)
                process.send_signal(signal.SIGHUP)
                wait_until(lambda: not children(process) & before, process)
                assert answers(f"http://127.0.0.1:{port}")
                process.terminate()
                assert process.wait(PATIENCE) == 0
            finally:
                process.kill()


def children(process: subprocess.Popen[str]) -> set[int]:
    """The server processes, and Python's own that looks after what they share."""
    return {int(pid) for pid in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()}


def test_dead_server_process_is_replaced(tmp_path: Path) -> None:
    """Clients that connect meanwhile are answered by the next one."""
    with serving(f"sqlite:///{tmp_path / 'r.db'}") as (url, process):
        assert httpx.put(f"{url}/schemagroups/g", json={}, timeout=PATIENCE).status_code == 201
        before = children(process)
        for pid in before:
            os.kill(pid, signal.SIGKILL)
        assert httpx.get(f"{url}/schemagroups/g", timeout=PATIENCE).status_code == 200
        assert not children(process) & before


@pytest.mark.merge
def test_server_processes_end_with_their_parent(tmp_path: Path) -> None:
    """A restart after a crash needs the port."""
    with serving(f"sqlite:///{tmp_path / 'r.db'}", workers=2) as (url, process):
        remaining = children(process)
        assert remaining
        process.kill()
        process.wait()
        deadline = time.monotonic() + PATIENCE
        while answers(url) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert not answers(url)


def test_a_server_that_stops_ends_streams_and_finishes_requests(tmp_path: Path) -> None:
    """A stream of events has no end of its own; a body that is still coming is waited for."""
    put = b"PUT /schemagroups/g HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 12\r\n\r\n"
    with serving(f"sqlite:///{tmp_path / 'r.db'}") as (url, process):
        where = ("127.0.0.1", int(url.rpartition(":")[2]))
        events = httpx.stream("GET", f"{url}/events", headers={"Accept": "text/event-stream"}, timeout=PATIENCE)
        with events as stream, closing(socket.create_connection(where, timeout=PATIENCE)) as client:
            lines = stream.iter_lines()
            assert next(lines).startswith("retry:")
            client.sendall(put)
            assert b"100 Continue" in client.recv(1 << 16), "the handler reads"
            process.terminate()
            assert list(lines)[-2:] == [":", ""]
            client.sendall(b'{"name":"a"}')
            assert b"HTTP/1.1 201 Created" in client.recv(1 << 16)
        assert process.wait(PATIENCE) == 0


def test_history_is_pruned_by_the_setting(store_url: str) -> None:
    with closing(open_store(store_url)) as store:
        engine = Engine(store, settings=Settings())
        for number in range(3):
            with engine.writing() as session:
                session.execute(Command(method=Method.PATCH, target=ROOT, body={"name": str(number)}))
        application = build(Settings(db=store_url, event_retention=1e-9))

        async def until_forgotten() -> None:
            async with application.router.lifespan_context(application), asyncio.timeout(PATIENCE):
                while len(view()) > 1:
                    await asyncio.sleep(0.02)

        def view() -> list[Record]:
            with store.read() as reader:
                return reader.outbox.records()

        asyncio.run(until_forgotten())


def test_a_broken_policy_file_is_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "policy.yaml"
    settings = Settings(db=f"sqlite:///{tmp_path / 'signalbook.db'}", access_file=str(file), model="empty")

    async def start() -> None:
        async with build(settings).router.lifespan_context(Starlette()):
            pass

    file.write_text("rules: []\n")
    asyncio.run(start())
    file.write_text("rules: 1\n")
    asyncio.run(start())
    assert caplog.text.count("the policy stays as it was") == 1


def test_a_new_key_takes_over_at_the_start(tmp_path: Path) -> None:
    """Secrets sealed with the old key are sealed again, so that the old key can be removed."""
    settings = Settings(db=f"sqlite:///{tmp_path / 'r.db'}")
    secret = Credential(credentialtype="PLAIN", members={"identifier": "me"}, secrets={"secret": "correct horse"})
    with closing(open_store(settings.db)) as store:
        engine = Engine(store, settings=settings)
        with engine.writing() as session:
            subscription = Subscription(id="", protocol="HTTP", sink="https://sink.example/", credential=secret)
            SubscriptionStore.of(engine, settings).create(session, subscription)
    file, new = tmp_path / "r.db.key", base64.b64encode(b"n" * 32).decode("ascii")
    file.write_text(f"{new}\n{file.read_text()}")
    with serving(settings.db):
        file.write_text(new)
    with closing(open_store(settings.db)) as store:
        (stored,) = SubscriptionStore.of(Engine(store, settings=settings), settings).all().values()
    assert (stored.credential, stored.fault) == (secret, "")


def test_http_on_the_wire(tmp_path: Path) -> None:
    """Documents, HEAD, percent-encoded paths, and a body too large to wait for."""
    with serving(f"sqlite:///{tmp_path / 'r.db'}") as (url, _), httpx.Client(base_url=url, timeout=PATIENCE) as client:
        path = "/schemagroups/g/schemas/a%3Ab"
        sent = {"xRegistry-format": "X/1", "xRegistry-name": "a%20b"}
        assert client.put(path, content=b"\x00\xff", headers=sent).status_code == 201
        assert client.get(path).content == b"\x00\xff"
        assert client.get(f"{path}%24details").json()["schemaid"] == "a:b"
        head = client.head(path)
        assert (head.content, head.headers["Content-Length"], head.headers["xRegistry-name"]) == (b"", "2", "a%20b")
        assert client.delete("/schemagroups/g").status_code == 204
        assert status_of_announced_body(url, 1 << 40) == 400


def status_of_announced_body(url: str, size: int) -> int:
    """The status of the answer to a request whose body never comes."""
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=PATIENCE)
    connection.putrequest("PUT", "/schemagroups/g")
    connection.putheader("Content-Length", str(size))
    connection.endheaders()
    try:
        return connection.getresponse().status
    finally:
        connection.close()


def refused(error: type[SignalbookError], **settings: object) -> str:
    with pytest.raises(error) as caught:
        run(Settings(**settings))  # type: ignore[arg-type]
    return str(caught.value)


def test_occupied_port_is_an_error(tmp_path: Path) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        message = refused(ServerError, port=port, db=f"sqlite:///{tmp_path / 'r.db'}")
    assert message == f"cannot listen at 127.0.0.1:{port}: Address already in use; choose another --host or --port"


@pytest.mark.parametrize(
    ("error", "settings"),
    [
        (StorageError, {"db": "sqlite:////nonexistent/folder/r.db"}),
        (StorageError, {"db": "mysql://x"}),
        (SettingError, {"db": "sqlite://", "key_file": "/nonexistent/keys"}),
        (SettingError, {"threads": 0}),
        (SettingError, {"event_retention": -1}),
        (SettingError, {"event_retention": float("nan")}),
        (SettingError, {"log_level": "loud"}),
        (SettingError, {"port": 70000}),
        (ServerError, {"host": "256.0.0.1"}),
    ],
)
def test_invalid_settings_are_rejected(error: type[SignalbookError], settings: dict[str, object]) -> None:
    with kept_port() as port:
        message = refused(error, **{"port": port, **settings})
    assert message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("db", "environ", "refused"),
    [
        ("postgresql://u@h/d", {"PGPASSWORD": "REPLACE-ME"}, True),
        ("postgresql://u:change-me@h/d", {}, True),
        ("postgresql://u:good@h/d", {"PGPASSWORD": "good"}, False),
        ("sqlite:///r.db", {"PGPASSWORD": "change-me"}, False),
    ],
)
def test_passwords_of_examples_are_refused(db: str, environ: dict[str, str], refused: bool) -> None:
    with pytest.raises(SettingError, match="is that of an example") if refused else nullcontext():
        check_secrets(Settings(db=db), environ)


def test_any_server_process_shows_the_metrics_of_all(tmp_path: Path) -> None:
    with serving(f"sqlite:///{tmp_path / 'signalbook.db'}", workers=2) as (url, _):
        for _ in range(30):
            httpx.get(f"{url}/schemagroups", headers={"Connection": "close"}, timeout=PATIENCE)
        expected = 'signalbook_http_request_duration_seconds_count{api="xregistry",method="GET",status="2xx"} 30.0'
        deadline = time.monotonic() + PATIENCE
        while expected not in (metrics := httpx.get(f"{url}/metrics", timeout=PATIENCE).text):
            assert time.monotonic() < deadline, metrics
            time.sleep(0.1)
        assert "signalbook_workers 2.0" in metrics


def test_no_thread_keeps_requests_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every system call of the event loop releases the interpreter lock, and waits this long for a working thread."""
    for name in ("collect", "freeze", "set_threshold"):
        monkeypatch.setattr(gc, name, lambda *_: None)
    before = sys.getswitchinterval()
    try:
        server._favour_requests()
        assert sys.getswitchinterval() <= 0.001
    finally:
        sys.setswitchinterval(before)
