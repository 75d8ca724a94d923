"""Clients of the registry under fault: writers that know what has to be there, readers that know how new it has to be.

A writer alone writes its group, one request at a time. Each write names the state it is for (``If-None-Match``, an
epoch), so that one of unknown outcome is simply sent again: the answer says whether it had been done, and it cannot
take effect any more later.
"""

import http.client
import json
import random
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import urlsplit

PATIENCE: Final = 100.0
_RETRY_SECONDS: Final = 0.2
_UNKNOWN: Final = "whether the write was kept is unknown"
_CORRELATION: Final = "xRegistry-xregcorrelationid"
SHARED: Final = "/schemagroups/shared"


def say(text: str) -> None:
    """Print a line with the time."""
    sys.stdout.write(f"{time.strftime('%H:%M:%S')} {text}\n")
    sys.stdout.flush()


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The result of one attempt. ``status`` is 0 if no server answered. In this case, with 502 and 504 of the load
    balancer, and with some 503, ``unknown`` means that a write may have been executed.
    """

    began: float
    ended: float
    status: int
    unknown: bool
    headers: dict[str, str]
    body: Any

    @property
    def done(self) -> bool:
        """Return True if the request is acknowledged."""
        return 200 <= self.status < 300 or self.status == HTTPStatus.NOT_MODIFIED

    @property
    def refused(self) -> bool:
        """Return True if servers or the database were unavailable, or the outcome is unknown."""
        return self.unknown or self.status == HTTPStatus.SERVICE_UNAVAILABLE


@dataclass
class Ledger:
    """The observations of all clients."""

    violations: list[str] = field(default_factory=list)
    acknowledged: list[tuple[int, float, float]] = field(default_factory=list)
    """Writes: the writer, when it sent the request, and when it had the answer."""
    correlations: set[str] = field(default_factory=set)
    unknown: int = 0
    refused: int = 0
    reads: int = 0
    unmodified: int = 0
    settled_done: int = 0
    """Writes of unknown outcome that turned out to have been done."""
    slowest: float = 0.0
    slow: list[tuple[float, float, str]] = field(default_factory=list)
    floors: dict[str, int] = field(default_factory=dict)
    """The newest epoch of a path that a writer has an acknowledgement for."""
    shared: set[int] = field(default_factory=set)
    shared_unknown: int = 0
    stop: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def violation(self, text: str) -> None:
        """Something that must not be."""
        with self.lock:
            self.violations.append(f"{time.strftime('%H:%M:%S')} {text}")
        say(f"VIOLATION {text}")

    def note(self, answer: Answer, description: str, *, writer: int | None) -> None:
        """Count an attempt; ``writer`` is whose, if it was one to write."""
        with self.lock:
            took = answer.ended - answer.began
            self.slowest = max(self.slowest, took)
            if took > 5:
                self.slow.append((answer.began, took, f"{description}: {answer.status}"))
            if writer is None:
                self.reads += 1
                self.unmodified += answer.status == HTTPStatus.NOT_MODIFIED
            elif answer.unknown:
                self.unknown += 1
            elif answer.done:
                self.acknowledged.append((writer, answer.began, answer.ended))
                self.correlations.add(answer.headers.get(_CORRELATION.lower(), ""))
            self.refused += answer.refused and not answer.unknown


class Client:
    """A connection to the load balancer, which is renewed when it breaks."""

    def __init__(self, url: str, ledger: Ledger) -> None:
        parts = urlsplit(url)
        self._place = (parts.hostname or "", parts.port or 0)
        self._ledger = ledger
        self._connection: http.client.HTTPConnection | None = None

    def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: dict[str, str] | None = None,
        *,
        writer: int | None = None,
    ) -> Answer:
        """Make one attempt."""
        began = time.monotonic()
        data = None if body is None else json.dumps(body)
        content_type = {"Content-Type": "application/json"} if data is not None else {}
        try:
            if self._connection is None:
                self._connection = http.client.HTTPConnection(*self._place, timeout=PATIENCE)
            self._connection.request(method, path, data, content_type | (headers or {}))
            with self._connection.getresponse() as response:
                content = response.read()
                headers_received = {name.lower(): value for name, value in response.getheaders()}
                if response.will_close:
                    self.close()
            answer = self._answer(began, response.status, headers_received, content)
        except (OSError, http.client.HTTPException) as error:
            self.close()
            if isinstance(error, TimeoutError):
                self._ledger.violation(f"{method} {path}: no answer in {PATIENCE:g} s")
            answer = Answer(began=began, ended=time.monotonic(), status=0, unknown=True, headers={}, body=None)
        if answer.status == HTTPStatus.INTERNAL_SERVER_ERROR:
            self._ledger.violation(f"{method} {path}: 500 {answer.body}")
        self._ledger.note(answer, f"{method} {path}", writer=writer)
        return answer

    def _answer(self, began: float, status: int, headers: dict[str, str], content: bytes) -> Answer:
        ours = "json" in headers.get("content-type", "") or not content
        unknown = status in (HTTPStatus.BAD_GATEWAY, HTTPStatus.GATEWAY_TIMEOUT)
        body: Any = None
        if ours and content:
            body = json.loads(content)
        if status == HTTPStatus.SERVICE_UNAVAILABLE and ours:
            unknown = _UNKNOWN in json.dumps(body)
            if "retry-after" not in headers:
                self._ledger.violation(f"503 without Retry-After: {body}")
        return Answer(began=began, ended=time.monotonic(), status=status, unknown=unknown, headers=headers, body=body)

    def insist(self, method: str, path: str, headers: dict[str, str] | None = None) -> Answer:
        """A read, again and again until it is answered."""
        deadline = time.monotonic() + PATIENCE
        while True:
            answer = self.send(method, path, headers=headers)
            if not answer.refused:
                return answer
            if time.monotonic() > deadline:
                self._ledger.violation(f"{method} {path}: refused for {PATIENCE:g} s")
                return answer
            time.sleep(_RETRY_SECONDS)

    def close(self) -> None:
        """Hang up."""
        if self._connection is not None:
            with suppress(OSError):
                self._connection.close()
            self._connection = None


@dataclass
class Version:
    """A version that a writer has written."""

    title: str
    epoch: int = 1
    name: str | None = None


class Writer(threading.Thread):
    """Creates schemas, adds Versions, updates them at expected epochs, deletes them, and looks after each write."""

    def __init__(self, number: int, url: str, ledger: Ledger, seed: int, pause: float) -> None:
        super().__init__(daemon=True)
        self.number = number
        self.group = f"/schemagroups/w{number:02}"
        self.schemas: dict[str, dict[str, Version]] = {}
        self._client = Client(url, ledger)
        self._ledger = ledger
        self._rng = random.Random(f"{seed} {number}")
        self._pause = pause
        self._made = 0
        self._etags: dict[str, tuple[str, str]] = {}

    def run(self) -> None:
        """Write until stopped; finish what was begun."""
        try:
            while not self._ledger.stop.is_set():
                self._turn()
                time.sleep(self._rng.uniform(0, 2 * self._pause))
        except Exception as error:
            self._ledger.violation(f"writer {self.number} ended: {error!r}")
        finally:
            self._client.close()

    def _turn(self) -> None:
        chance = self._rng.random()
        if not self.schemas or (chance < 0.3 and len(self.schemas) < 20):
            schema = self._create()
        elif chance < 0.5:
            schema = self._add()
        elif chance < 0.75:
            schema = self._update()
        elif chance < 0.85:
            schema = self._remove_version()
        elif chance < 0.95:
            schema = self._remove()
        else:
            self._contend()
            return
        self.look(schema)
        self._look_at_group()

    def _settle(
        self, method: str, path: str, body: Any, headers: dict[str, str], *, done_before: tuple[int, str], right: int
    ) -> Answer | None:
        """Write until it is known to be done: the acknowledgement, or None if an attempt of unknown outcome was it.

        ``done_before`` is the answer, status and part of its text, to a write that has been done already.
        """
        maybe, deadline = False, time.monotonic() + PATIENCE
        while True:
            answer = self._client.send(method, path, body, headers, writer=self.number)
            if answer.status == right:
                return answer
            status, text = done_before
            if answer.status == status and text in json.dumps(answer.body):
                if not maybe:
                    self._ledger.violation(f"{method} {path}: refused attempts were done: {answer.body}")
                with self._ledger.lock:
                    self._ledger.settled_done += 1
                return None
            if not answer.refused:
                self._ledger.violation(f"{method} {path}: {answer.status} {answer.body}")
                raise RuntimeError(f"cannot go on after {answer.status}")
            maybe = maybe or answer.unknown
            if time.monotonic() > deadline + PATIENCE:
                raise RuntimeError(f"{method} {path}: not possible for {2 * PATIENCE:g} s")
            time.sleep(_RETRY_SECONDS)

    def _document(self) -> dict[str, Any]:
        self._made += 1
        title = f"{self.number}.{self._made}.{self._rng.randrange(1 << 30)}"
        return {"format": "JsonSchema/draft-07", "schema": {"type": "object", "title": title}}

    def _create(self) -> str:
        schema, body = f"s{self._made}", self._document()
        once = {"If-None-Match": "*"}
        path = f"{self.group}/schemas/{schema}$details"
        self._settle("PUT", path, body, once, done_before=(412, "If-None-Match"), right=201)
        self.schemas[schema] = {"1": Version(body["schema"]["title"])}
        return schema

    def _add(self) -> str:
        schema, body = self._rng.choice(list(self.schemas)), self._document()
        version = f"v{self._made}"
        once = {"If-None-Match": "*"}
        path = f"{self.group}/schemas/{schema}/versions/{version}$details"
        self._settle("PUT", path, body, once, done_before=(412, "If-None-Match"), right=201)
        self.schemas[schema][version] = Version(body["schema"]["title"])
        return schema

    def _update(self) -> str:
        schema = self._rng.choice(list(self.schemas))
        version = list(self.schemas[schema].values())[-1]
        self._made += 1
        name, path = f"n{self._made}", f"{self.group}/schemas/{schema}$details"
        body = {"epoch": version.epoch, "name": name}
        answer = self._settle("PATCH", path, body, {}, done_before=(400, "mismatched_epoch"), right=200)
        version.epoch, version.name = version.epoch + 1, name
        if answer is not None and (answer.body["epoch"], answer.body["name"]) != (version.epoch, name):
            self._ledger.violation(f"PATCH {path} with {body}: {answer.body}")
        return schema

    def _remove_version(self) -> str:
        schema = self._rng.choice(list(self.schemas))
        if len(self.schemas[schema]) < 2:
            return self._add()
        newest = list(self.schemas[schema])[-1]
        path = f"{self.group}/schemas/{schema}/versions/{newest}"
        self._settle("DELETE", path, None, {}, done_before=(404, "not_found"), right=204)
        del self.schemas[schema][newest]
        return schema

    def _remove(self) -> str:
        schema = self._rng.choice(list(self.schemas))
        self._settle("DELETE", f"{self.group}/schemas/{schema}", None, {}, done_before=(404, "not_found"), right=204)
        del self.schemas[schema]
        return schema

    def _contend(self) -> None:
        """Update what all writers update, at the epoch that was read."""
        read = self._client.insist("GET", SHARED)
        if not read.done:
            return
        epoch = read.body["epoch"]
        body = {"epoch": epoch, "labels": {"by": f"{self.number}.{self._made}"}}
        answer = self._client.send("PATCH", SHARED, body, writer=self.number)
        with self._ledger.lock:
            if answer.status == 200:
                if answer.body["epoch"] != epoch + 1 or epoch + 1 in self._ledger.shared:
                    self._ledger.violations.append(f"two writers made epoch {epoch + 1} of {SHARED}")
                self._ledger.shared.add(epoch + 1)
                self._ledger.floors[SHARED] = max(self._ledger.floors.get(SHARED, 0), epoch + 1)
            elif answer.unknown:
                self._ledger.shared_unknown += 1
            elif not answer.refused and "mismatched_epoch" not in json.dumps(answer.body):
                self._ledger.violations.append(f"PATCH {SHARED}: {answer.status} {answer.body}")

    def look(self, schema: str) -> None:
        """Check that every server shows what was acknowledged."""
        path = f"{self.group}/schemas/{schema}$details"
        expected = self.expected(schema)
        answer = self._read(f"{path}?inline=schema", json.dumps(expected))
        if answer is None:
            return
        actual = None
        if answer.status == HTTPStatus.OK:
            body = answer.body
            actual = {
                "versionid": body["versionid"],
                "epoch": body["epoch"],
                "name": body.get("name"),
                "title": body["schema"]["title"],
                "versionscount": body["versionscount"],
            }
        elif answer.status != HTTPStatus.NOT_FOUND:
            self._ledger.violation(f"GET {path}: {answer.status} {answer.body}")
        if actual != expected:
            self._ledger.violation(f"GET {path} after its write: {actual}, not {expected}")

    def expected(self, schema: str) -> dict[str, Any] | None:
        """Return the expected representation of a schema; None means that it must not exist."""
        versions = self.schemas.get(schema)
        if versions is None:
            return None
        newest, version = list(versions.items())[-1]
        return {
            "versionid": newest,
            "epoch": version.epoch,
            "name": version.name,
            "title": version.title,
            "versionscount": len(versions),
        }

    def _look_at_group(self) -> None:
        answer = self._read(self.group, str(len(self.schemas)))
        if answer is not None and answer.body.get("schemascount") != len(self.schemas):
            self._ledger.violation(
                f"GET {self.group}: {answer.status}, {len(self.schemas)} schemas expected: {answer.body}"
            )
        if self._rng.random() < 0.1:
            listed = self._client.insist("GET", f"{self.group}/schemas")
            if listed.status != HTTPStatus.OK or set(listed.body) != set(self.schemas):
                self._ledger.violation(f"GET {self.group}/schemas: {listed.status}, {set(self.schemas)} expected")

    def _read(self, path: str, state: str) -> Answer | None:
        """Read with the ETag of the last read. Return None if it is still valid, which is allowed only if ``state``
        has not changed.
        """
        tag, was = self._etags.get(path, ("", ""))
        answer = self._client.insist("GET", path, {"If-None-Match": tag} if tag else None)
        if answer.status == HTTPStatus.NOT_MODIFIED:
            if was != state:
                self._ledger.violation(f"GET {path}: 304 for {was}, which is {state} by now")
            return None
        self._etags.pop(path, None)
        if answer.status == HTTPStatus.OK:
            self._etags[path] = (answer.headers["etag"], state)
        return answer


class Reader(threading.Thread):
    """Reads what others write: never older than what was acknowledged before, or what it saw itself."""

    def __init__(self, number: int, url: str, ledger: Ledger, seed: int) -> None:
        super().__init__(daemon=True)
        self._client = Client(url, ledger)
        self._ledger = ledger
        self._rng = random.Random(f"{seed} reader {number}")
        self._seen = 0
        self._tags: dict[str, int] = {}
        self._tag = ""

    def run(self) -> None:
        """Read until stopped."""
        while not self._ledger.stop.is_set():
            with self._ledger.lock:
                floor = max(self._seen, self._ledger.floors.get(SHARED, 0))
            use_tag = self._tag and self._rng.random() < 0.5
            answer = self._client.send("GET", SHARED, headers={"If-None-Match": self._tag} if use_tag else None)
            if answer.done:
                epoch = self._tags[self._tag] if answer.status == HTTPStatus.NOT_MODIFIED else answer.body["epoch"]
                if answer.status == HTTPStatus.OK:
                    self._tag = answer.headers["etag"]
                    self._tags[self._tag] = epoch
                if epoch < floor:
                    self._ledger.violation(f"GET {SHARED}: epoch {epoch} ({answer.status}), {floor} was acknowledged")
                self._seen = max(self._seen, epoch)
            time.sleep(self._rng.uniform(0.05, 0.25))
        self._client.close()
