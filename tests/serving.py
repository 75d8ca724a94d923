"""Servers that tests start, in processes of their own or in this one, and ports for them."""

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import uvicorn

from signalbook.api.kernel.connection import HTTPConnection
from signalbook.server import build
from signalbook.settings import Settings
from signalbook.storage import open_store

BIN = Path(sys.executable).parent
Answer = Callable[[BaseHTTPRequestHandler, bytes], tuple[int, Mapping[str, str], bytes]]
"""What makes status, headers and body of an answer from a request and its body."""


@contextmanager
def kept_port() -> Iterator[int]:
    """A port of 127.0.0.1 for a server of the test: nobody else is given it, before the server listens or after.

    What keeps it is bound and does not listen, which leaves the port to programs that say SO_REUSEADDR and name it, as
    servers do, and to no other.
    """
    with socket.socket() as keeper:
        keeper.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        keeper.bind(("127.0.0.1", 0))
        yield int(keeper.getsockname()[1])


@contextmanager
def serving(folder: Path, *options: str, program: Sequence[str] = (str(BIN / "signalbook"),)) -> Iterator[str]:
    """The URL of ``signalbook serve`` with ``options`` in ``folder``; it answers, until the end of the block."""
    with kept_port() as port:
        command = [*program, "serve", "--port", str(port), *options]
        if "--db" not in options:  # this process copies an empty database, which the server would migrate
            open_store(f"sqlite:///{folder / 'signalbook.db'}").close()
        process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL)
        url = f"http://127.0.0.1:{port}"
        try:
            while not answers(url):
                assert process.poll() is None, "the server ended"
            yield url
        finally:
            process.terminate()
            process.wait(300)


@contextmanager
def serving_in_thread(settings: Settings) -> Iterator[str]:
    """Serve a registry in a thread of this process until the end of the block, and yield its URL.

    A process of its own would first import everything, which takes a hundred times as long. If ``settings.port`` is 0,
    the system chooses a port. Connections stay open, since a server that closes one loses a request that just comes.
    """
    config = uvicorn.Config(
        build(settings),
        port=settings.port,
        interface="asgi3",
        http=HTTPConnection,
        ws="none",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=300,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive(), "the server ended"
            time.sleep(0.01)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()


def answers(url: str) -> bool:
    """Return True if the server at ``url`` is ready; if it is not, wait a moment first."""
    try:
        if httpx.get(f"{url}/health/ready", timeout=60).is_success:
            return True
    except httpx.TransportError:
        pass
    time.sleep(0.05)
    return False


@contextmanager
def serving_answers(answer: Answer) -> Iterator[str]:
    """The URL of a server in this process that answers as ``answer`` says, until the end of the block."""

    class Handler(BaseHTTPRequestHandler):
        def respond(self) -> None:
            status, headers, body = answer(self, self.rfile.read(int(self.headers.get("Content-Length") or 0)))
            self.send_response(status)
            for name, value in {"Content-Length": str(len(body)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_PUT = do_POST = do_PATCH = do_DELETE = respond  # noqa: N815  names that the base class looks for

        def log_message(self, *_: object) -> None:
            """Write nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
