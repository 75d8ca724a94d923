"""A run: rounds of requests over several connections; between the rounds nothing but a look at the state."""

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx
from tests.fuzzing.grammar import Grammar, Request
from tests.fuzzing.hostile import SECRET
from tests.fuzzing.judging import faults, log_faults
from tests.fuzzing.servers import Health, Server
from tests.fuzzing.wire import Connection, Response, WireError

_ROUND: Final = 2000
_SAMPLE: Final = 60
"""Refused writes of a round that are sent again to see that they change nothing."""
_MOST_BYTES: Final = 4_000_000
"""Of an export; beyond, the registry is emptied."""
_MOST_FAULTS: Final = 200
_WARM: Final = 0.1
"""Of the requests, until the memory is looked at first: there are caches to be filled."""
_SHOWN_BYTES: Final = 3000
_STATE: Final = ("/export", "/modelsource", "/capabilities", "/access", "/pipelines")


@dataclass(kw_only=True)
class Summary:
    """The result of one case."""

    case: str
    requests: int = 0
    seconds: float = 0.0
    statuses: Counter[int] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    held: int = 0
    slowest: tuple[float, int] = (0.0, 0)
    """Seconds, and the number of the request."""
    warm: int = 0
    end: int = 0
    health: Health | None = None

    def look_at_log(self, log: Path, secrets: Iterable[bytes]) -> None:
        """Count what must not be in it."""
        self.faults.update(log_faults(log, (SECRET.encode(), *secrets)))

    def __str__(self) -> str:
        by = Counter[str]()
        for status, times in self.statuses.items():
            by[("none" if not status else f"{status // 100}xx") if status < 500 else str(status)] += times
        answers = ", ".join(f"{times} {name}" for name, times in sorted(by.items()))
        lines = [
            f"{self.case}: {self.requests} requests in {self.seconds:.0f} s ({answers})",
            f"  slowest {self.slowest[0]:.1f} s (number {self.slowest[1]})",
            f"  {self.held} refused writes sent again between two looks at the state",
            f"  memory {self.warm / 1e6:.0f} MB warm, {self.end / 1e6:.0f} MB at the end",
            f"  {self.health}",
            *(f"  {times} x {fault}" for fault, times in self.faults.most_common()),
        ]
        return "\n".join(lines)


class Run:
    """Requests to one server. What is wrong goes into the summary, and with the request into ``folder``."""

    def __init__(self, server: Server, *, seed: int, connections: int, folder: Path) -> None:
        self._server = server
        self._grammar = Grammar(seed, server.host, server.credentials)
        self._connections = connections
        self._folder = folder
        self._secrets = (SECRET.encode(), *server.secrets)
        self._lock = threading.Lock()
        self._refused: list[Request] = []
        self.summary = Summary(case=server.name)

    def run(self, numbers: range, *, show: Callable[[str], None] = lambda line: None) -> Summary:
        """Send the requests with these numbers."""
        began, summary = time.monotonic(), self.summary
        family = set(self._server.family()[:2])
        for start in numbers[::_ROUND]:
            self.round(range(start, min(start + _ROUND, numbers.stop)))
            if not summary.warm and start + _ROUND - numbers.start >= len(numbers) * _WARM:
                summary.warm = self._server.settled(seconds=15)
            summary.seconds = time.monotonic() - began
            memory, wrong = self._server.resident() / 1e6, sum(summary.faults.values())
            show(f"{summary.requests}/{len(numbers)} in {summary.seconds:.0f} s, {memory:.0f} MB, {wrong} faults")
            if sum(summary.faults.values()) > _MOST_FAULTS:
                break
        summary.end = self._server.settled(summary.warm * 1.2)
        if summary.end > summary.warm * 1.2:
            summary.faults["memory did not come back to within 20 %"] += 1
        if not family <= set(self._server.family()):
            summary.faults["a server process ended"] += 1
        return summary

    def round(self, numbers: range) -> None:
        """Send them over all connections at once; then look whether what was refused changed anything."""
        self._refused = []
        remaining = iter(numbers)
        threads = [threading.Thread(target=self._send, args=(remaining,)) for _ in range(self._connections)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self._hold()
        self._tidy()

    def _send(self, remaining: Iterator[int]) -> None:
        with Connection(self._server.port) as connection:
            while True:
                with self._lock:
                    number = next(remaining, None)
                if number is None:
                    return
                request = self._grammar.request(number)
                response = self._judged(connection, request)
                if response and 400 <= response.status < 500 and request.method not in ("", "GET", "HEAD", "OPTIONS"):
                    self._refused.append(request)

    def _judged(self, connection: Connection, request: Request) -> Response | None:
        response, wrong = None, []
        try:
            if request.opening:
                page = connection.ask(request.page)
                request = request.filled(page.body if page is not None else b"")
            response = connection.ask(request)
        except (WireError, ValueError) as error:
            connection.close()
            wrong = [f"no response: {error}"]
        if response is not None:
            wrong = list(faults(request, response, self._secrets))
        with self._lock:
            self.summary.requests += 1
            self.summary.statuses[response.status if response else 0] += 1
            if response:
                self.summary.slowest = max(self.summary.slowest, (response.seconds, request.number))
            for fault in wrong:
                self._keep(fault, request, response)
        return response

    def _keep(self, fault: str, request: Request, response: Response | None) -> None:
        self.summary.faults[fault] += 1
        sent = b"".join(request.parts)[:_SHOWN_BYTES]
        came = b"" if response is None else repr(response).encode() + b"\n" + response.body[:_SHOWN_BYTES]
        file = self._folder / f"{self._server.name}-{request.number}.txt"
        file.write_bytes(b"%s\n\n%s\n\n%s\n" % (fault.encode(), sent, came))

    def _hold(self) -> None:
        """Send refused writes again, with nobody else about: what is refused again must change nothing."""
        sample = [request for request in self._refused if request.whole][:: max(1, len(self._refused) // _SAMPLE)]
        with Connection(self._server.port) as connection, self._server.client() as client:
            before, pending = self._state(client), list[Request]()
            for request in sample[:_SAMPLE]:
                response = self._judged(connection, request)
                if response is not None and response.status < 400:  # it may be done now
                    before, pending = self._state(client), []
                else:
                    pending.append(request)
                    self.summary.held += 1
            after = self._state(client)
        for name in before:
            if pending and before[name] != after[name]:
                self._keep(f"a refused write changed {name}", pending[-1], None)

    def _state(self, client: httpx.Client) -> dict[str, Any]:
        """Return everything that a write could have changed, and the position of the events."""
        state: dict[str, Any] = {path: client.get(path).text for path in _STATE}
        state["/events"] = client.get("/events", params={"limit": 1}).headers.get("Link")
        state["/subscriptions"] = sorted(member["id"] for member in _members(client.get("/subscriptions")))
        state["/access/tokens"] = sorted(member["id"] for member in _members(client.get("/access/tokens")))
        return state

    def _tidy(self) -> None:
        """Let the next round find what it takes to get far: a small registry that takes writes."""
        with self._server.client() as client:
            if self._server.root is not None and client.get("/access").status_code != httpx.codes.OK:
                self._server.repair_access()
            if len(client.get("/export").content) > _MOST_BYTES:
                for collection in ("schemagroups", "messagegroups", "endpoints"):
                    client.delete(f"/{collection}")
            for token in _members(client.get("/access/tokens")):
                if token.get("subject") == "kim":
                    client.delete(f"/access/tokens/{token['id']}")


def _members(response: httpx.Response) -> list[dict[str, Any]]:
    try:
        body = response.json()
    except json.JSONDecodeError:
        return []
    members = body.values() if isinstance(body, dict) else body
    return [member for member in members if isinstance(member, dict) and "id" in member]
