"""A way to a catalog on which requests or answers get lost, or the catalog dies, exactly when a table is committed."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx

Answer = tuple[int, bytes]
# Gives the request to the catalog, and tells what that answered.
Deliver = Callable[[], Answer]
# What becomes of a request: an answer, or none but the end of the connection.
Fate = Callable[[Deliver], Answer | None]


@dataclass(slots=True)
class Passage:
    """A proxy of a catalog: it applies fates to the next commits of tables, and forwards all other requests."""

    catalog: str
    url: str = ""
    fates: list[Fate] = field(default_factory=list)
    commits: int = 0

    def take(self, method: str, path: str, deliver: Deliver) -> Answer | None:
        """Return the response to a request."""
        if method != "POST" or "/tables/" not in path:
            return deliver()
        self.commits += 1
        return self.fates.pop(0)(deliver) if self.fates else deliver()


def lost(deliver: Deliver) -> None:
    """The table is committed, and nobody notified."""
    deliver()


def never_came(_: Deliver) -> None:
    """The request is lost."""


def timed_out(deliver: Deliver) -> Answer:
    """The table is committed, and what stands before the catalog says that it does not know."""
    deliver()
    return 504, b'{"error": {"message": "slow", "type": "GatewayTimeout", "code": 504}}'


def sent_twice(deliver: Deliver) -> Answer:
    """Send the request twice, as a proxy in front of the catalog does, and return the second response."""
    deliver()
    return deliver()


@contextmanager
def passage(catalog: str) -> Iterator[Passage]:
    """A way to the catalog at the URL ``catalog``."""
    new_passage = Passage(catalog)

    class Handler(BaseHTTPRequestHandler):
        def _pass(self) -> None:
            length = int(self.headers.get("content-length") or 0)
            body = self.rfile.read(length)
            headers = {"content-type": self.headers.get("content-type") or "application/json"}

            def deliver() -> Answer:
                answer = httpx.request(
                    self.command, new_passage.catalog + self.path, content=body, headers=headers, timeout=600
                )
                return answer.status_code, answer.content

            answer = new_passage.take(self.command, self.path, deliver)
            self.close_connection = True
            if answer is not None:
                self.send_response(answer[0])
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(answer[1])))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(answer[1])

        do_GET = do_POST = do_DELETE = do_HEAD = _pass  # noqa: N815

        def log_message(self, format: str, *args: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        new_passage.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield new_passage
        finally:
            server.shutdown()
            thread.join()
