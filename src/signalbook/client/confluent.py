"""A registry that speaks Confluent's API, Signalbook's own included: what it has, page by page, and writing to it.

Replication reads and writes by it, the pipeline reads subjects.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from itertools import islice
from typing import Any, Final, Literal, TypeVar
from urllib.parse import quote, unquote, urlsplit

import httpx

from signalbook.batches import batched
from signalbook.client.responses import BadResponse, ClientError, NotAuthenticated, Refused, TooLong, Unreachable
from signalbook.client.schemaversions import SchemaVersion, is_number
from signalbook.client.transport import Transport
from signalbook.confluent.associations import TOPIC, Association
from signalbook.confluent.naming import ALL_CONTEXTS, DEFAULT_CONTEXT, URL_PREFIX, parse_subject
from signalbook.uris import without_user
from signalbook.values import JSON, JSONError, JSONObject, digest, dump_json, parse_json

CONCURRENCY: Final = 8
MAX_BYTES: Final = 64 * 1024 * 1024
_OWN_MOUNT: Final = "/compat/confluent"
_MOUNTS: Final = (_OWN_MOUNT, "/apis/ccompat/v7", "/apis/ccompat/v8")
_MOUNT: Final = re.compile(f"({'|'.join(_MOUNTS)})$")
_CONTEXT: Final = re.compile(r"/contexts/:?(\.[^/:]*):?/?$")
_MAX_JSON_DEPTH: Final = 128
_PAGE_ITEMS: Final = 1000
_SMALLEST_PAGE: Final = 2
_LISTS: Final = 3
_NOT_SET: Final = frozenset({"40408", "40409"})
_DELETED: Final = frozenset({"40404", "40406"})
_NOBODY: Final = "signalbook-asks-for-a-subject-that-nobody-has"
_MARKING: Final = 8
"""The release of Confluent's registry since which lists say which versions are deleted."""
_ATTEMPTS: Final = 5
_FIRST_PAUSE_SECONDS: Final = 0.5
ABSENT: Final = frozenset({HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED, HTTPStatus.NOT_IMPLEMENTED})
_ANSWERS: Final = ABSENT | {
    HTTPStatus.BAD_REQUEST,
    HTTPStatus.FORBIDDEN,
    HTTPStatus.CONFLICT,
    HTTPStatus.UNPROCESSABLE_ENTITY,
}
"""Statuses that are about what a request names; others are about the registry itself, and end the work."""
_LET_IN: Final = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN})
_BUSY: Final = frozenset({429, 500, 502, 503, 504})
SettingKind = Literal["config", "mode"]
T = TypeVar("T")


class UnusableRegistry(ClientError):
    """A registry that does not let itself be read or written; the message names it."""


class _ListMoved(Exception):
    """Something came or went before the place that a list was read to: what is behind it has moved."""


class ConfluentRegistry:
    """The registry at ``url``. Raises ``UnusableRegistry``, and ``Refused`` for what it does not take.

    A URL that ends with ``/contexts/.NAME`` is of that context alone, any other one of all. ``token`` is as that of a
    ``Client``. Requests may come from several threads; ``map`` sends up to eight at once.
    """

    def __init__(self, url: str, *, timeout: float, headers: Mapping[str, str], token: str | None = "") -> None:
        # What is not known in a request is passed over, as by all clients.
        headers = {"Confluent-Accept-Unknown-Properties": "true", **headers}
        self._connect = partial(
            Transport, url, timeout=timeout, max_bytes=MAX_BYTES, attempts=_ATTEMPTS, headers=headers, token=token
        )
        self._own = threading.local()
        self._transports: list[Transport] = []
        self._adding = threading.Lock()
        self._pool = ThreadPoolExecutor(CONCURRENCY, thread_name_prefix="confluent")
        self._release: str | None = None
        self._shows_all: dict[SettingKind, bool] = {}
        self.url = without_user(url).rstrip("/")
        match = _CONTEXT.search(unquote(urlsplit(self.url).path))
        self.context = match[1] if match else DEFAULT_CONTEXT
        """The context that names without one are of."""
        self._everywhere = {} if match else {"subjectPrefix": ALL_CONTEXTS}
        self.hidden: set[tuple[str, int]] = set()
        """Deleted versions that it names and does not show, after all were listed."""

    def close(self) -> None:
        """Close the connections."""
        self._pool.shutdown(cancel_futures=True)
        for transport in self._transports:
            transport.close()

    def map(self, function: Callable[[T], None], items: Iterable[T]) -> None:
        """Call ``function`` with all items, in several threads. Raises the first of its errors."""
        for chunk in batched(items, 32 * CONCURRENCY):
            for _ in self._pool.map(function, chunk):
                pass

    # What it has

    def speaks(self) -> bool:
        """Return True if there is a registry with this API."""
        try:
            return isinstance(parse_json(self._send("GET", "/schemas/types").content), list)
        except (Refused, JSONError):
            return False

    def versions(self) -> Iterator[SchemaVersion]:
        """Yield all versions, soft-deleted ones too. Some may come twice if others write meanwhile."""
        self.hidden.clear()
        if not self._has_lists():
            yield from self._walk()
            return
        query = {**self._everywhere, "deleted": "true"}
        for _ in range(_LISTS):
            try:
                for page in self._iterate_pages("/schemas", query, _make_version_key):
                    yield from (self._read_version(entry, self._marked) for entry in page)
                return
            except _ListMoved:
                continue
            except TooLong:
                break
        yield from self._walk()

    def live(self) -> dict[str, set[int]]:
        """The numbers of all versions that are not deleted, by subject."""
        numbers: dict[str, set[int]] = {}
        for _ in range(_LISTS):
            with suppress(_ListMoved):
                for page in self._iterate_pages("/schemas", self._everywhere, _make_version_key):
                    for entry in page:
                        version = self._read_version(entry, False)
                        numbers.setdefault(version.subject, set()).add(version.version)
                return numbers
        raise UnusableRegistry(f"{self.url}: its schemas change too fast to be listed: try again")

    def fingerprint(self) -> int:
        """A number that is another one when any version was added or deleted; settings do not count."""
        if not self._has_lists():
            subjects = iter(self._list_subjects())
            return sum(
                _hash([subject, list(numbers), sorted(live)])
                for chunk in iter(lambda: list(islice(subjects, CONCURRENCY)), [])
                for subject, numbers, live in self._pool.map(self._list_numbers, chunk)
            )
        total = sum(
            _hash([version.subject, version.version, version.id, version.deleted, version.body])
            for version in self.versions()
        )
        live = {} if self._marked is False else self.live()
        return total + sum(_hash([subject, sorted(numbers)]) for subject, numbers in live.items())

    def holds(self, subject: str, version: int) -> bool:
        """Return True if a version exists, soft-deleted or not."""
        return self._is_of(subject, self._find(f"{_build_path(subject, version)}?deleted=true"))

    def contexts(self) -> list[str]:
        """The contexts it names; none if it knows no contexts."""
        names = self._find("/contexts")
        # Some name them as subjects begin that are in them.
        return [name.strip(":") for name in names if isinstance(name, str)] if isinstance(names, list) else []

    def setting(self, kind: SettingKind, scope: str) -> JSONObject | None:
        """Return the setting of the registry (""), a context (``:.name:``) or a subject, or None."""
        stated = self._find(_build_setting_path(kind, scope))
        if not isinstance(stated, dict):
            return None
        if scope and self._inherits(kind) and stated == self._find(_build_setting_path(kind, "")):
            return None
        if kind == "config" and stated.keys() - {"compatibilityLevel"} and scope:
            # A level that only holds there is shown as if it was set there.
            holds = self._find(f"{_build_setting_path(kind, scope)}?defaultToGlobal=true")
            if isinstance(holds, dict) and holds.get("compatibilityLevel") != stated.get("compatibilityLevel"):
                stated = {name: value for name, value in stated.items() if name != "compatibilityLevel"}
        return {name: value for name, value in stated.items() if value is not None}

    def associations(self) -> list[Association] | None:
        """The associations of subjects with topics; None if it knows none. Raises ``UnusableRegistry``."""
        if not isinstance(self._find(f"/associations/subjects/{_NOBODY}"), list):
            return None
        query = {**self._everywhere, "resourceType": TOPIC, "latestOnly": "true"}
        for _ in range(_LISTS):
            with suppress(_ListMoved):
                pages = self._iterate_pages("/schemas", query, _make_version_key)
                return [
                    association
                    for page in pages
                    for version in page
                    for association in self._read_associations(version)
                ]
        raise UnusableRegistry(f"{self.url}: its associations change too fast to be listed: try again")

    def finds(self, version: SchemaVersion) -> bool:
        """Return True if the registry finds its version with this number and id by the schema."""
        try:
            answer = self._parse_json(
                self._send("POST", f"/subjects/{_quote(version.subject)}?deleted=true", json=version.body)
            )
        except Refused:
            return False
        if not isinstance(answer, dict) or not self._is_of(version.subject, answer):
            return False
        return (answer.get("version"), answer.get("id")) == (version.version, version.id)

    # What is written

    def register(self, version: SchemaVersion) -> None:
        """Add a version with its number and id, in the mode IMPORT. Raises ``UnusableRegistry`` for another id."""
        body = {**version.body, "version": version.version, "id": version.id}
        answer = self._parse_json(self._send("POST", f"/subjects/{_quote(version.subject)}/versions", json=body))
        assigned_id = answer.get("id") if isinstance(answer, dict) else None
        if assigned_id != version.id:
            raise UnusableRegistry(
                f"{self.url} gave {version.subject} the id {assigned_id} instead of {version.id}: it cannot keep ids"
            )

    def delete(self, subject: str, version: int, *, permanent: bool = False) -> None:
        """Delete a version, softly or, if it is that already, for good. What is gone is gone."""
        try:
            self._send("DELETE", _build_path(subject, version) + ("?permanent=true" if permanent else ""))
        except Refused as error:
            if error.status != HTTPStatus.NOT_FOUND and error.code not in _DELETED:
                raise

    def set(self, kind: SettingKind, scope: str, value: JSONObject | None, *, force: bool = False) -> None:
        """Set what holds for the registry, a context or a subject; None takes it away."""
        path = _build_setting_path(kind, scope)
        if value is not None:
            self._send("PUT", path + ("?force=true" if force else ""), json=value)
            return
        try:
            self._send("DELETE", path)
        except Refused as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise

    def associate(self, association: Association) -> None:
        """Make an association; one that is frozen in the mode IMPORT, without a schema."""
        body: JSONObject = {**association.resource.to_json(), "associations": [association.info()]}
        self._send("POST", "/associations", json=body)

    def dissociate(self, association: Association) -> None:
        """Take an association away, with its subject if it is frozen."""
        query = {"resourceType": association.resource.type, "associationType": association.type}
        cascade = {"cascadeLifecycle": "true"} if association.frozen else {}
        self._send("DELETE", f"/associations/resources/{_quote(association.resource.id)}", query={**query, **cascade})

    # How it is asked

    def _is_of(self, subject: str, version: JSON) -> bool:
        """Return True if a version that was asked for is of the subject, not of its namesake in another context."""
        name = version.get("subject") if isinstance(version, dict) else None
        return isinstance(name, str) and parse_subject(name, self.context) == parse_subject(subject, self.context)

    def _read_associations(self, version: JSON) -> Iterator[Association]:
        stated = version.get("associations") if isinstance(version, dict) else None
        for entry in stated or () if isinstance(stated, list | None) else ():
            try:
                yield Association.from_json(entry)
            except (KeyError, TypeError):
                raise UnusableRegistry(f"{self.url}: an association without topic or subject is listed") from None

    def _read_version(self, value: JSON, deleted: bool | None) -> SchemaVersion:
        try:
            return SchemaVersion.from_json(value, deleted)
        except BadResponse as error:
            raise UnusableRegistry(f"{self.url}: {error}") from None

    def _has_lists(self) -> bool:
        """Return True if its lists of schemas are complete. Karapace's and Apicurio's lack deleted ones, or more."""
        if self._release is None:
            metadata = self._find("/v1/metadata/version")
            self._release = str(metadata.get("version", "")) if isinstance(metadata, dict) else ""
        return self._release != ""

    @property
    def _marked(self) -> bool | None:
        """False if lists say of versions that are deleted that they are; None if they do not."""
        release = self._release or ""
        major = release.partition(".")[0]
        return False if release.startswith("signalbook-") or (major.isdigit() and int(major) >= _MARKING) else None

    def _inherits(self, kind: SettingKind) -> bool:
        """Return True if it shows inherited settings of a subject as its own."""
        if kind not in self._shows_all:
            try:
                self._send("GET", _build_setting_path(kind, _NOBODY))
                self._shows_all[kind] = True
            except Refused as error:
                # Another code is about the subject: it has to be there, and then something holds for it.
                self._shows_all[kind] = error.code not in _NOT_SET
        return self._shows_all[kind]

    def _walk(self) -> Iterator[SchemaVersion]:
        """The same as ``versions`` where there is no list of schemas: subject by subject."""
        for chunk in batched(self._list_subjects(), CONCURRENCY):
            listings = list(self._pool.map(self._list_numbers, chunk))
            keys = [(subject, number, number not in live) for subject, numbers, live in listings for number in numbers]
            for several in batched(keys, 4 * CONCURRENCY):
                for key, value in zip(several, self._pool.map(self._find_shown, several), strict=True):
                    if value is not None:
                        yield self._read_version(value, key[2])
                    elif key[2]:
                        self.hidden.add(key[:2])

    def _find_shown(self, key: tuple[str, int, bool]) -> JSON:
        return self._find(f"{_build_path(*key[:2])}?deleted=true")

    def _list_subjects(self) -> list[str]:
        """Return the names of all subjects, soft-deleted ones too."""
        subjects: set[str] = set()
        for _ in range(_LISTS):
            with suppress(_ListMoved):
                # Those that know no contexts may take the prefix for the beginning of a name.
                for query in ({**self._everywhere, "deleted": "true"}, {"deleted": "true"}):
                    for page in [] if subjects else self._iterate_pages("/subjects", query, str):
                        subjects |= {subject for subject in page if isinstance(subject, str)}
                return sorted(subjects)
        raise UnusableRegistry(f"{self.url}: its subjects change too fast to be listed: try again")

    def _list_numbers(self, subject: str) -> tuple[str, Sequence[int], frozenset[int]]:
        """Return the numbers of a subject's versions, and which of them are not deleted."""
        path = f"/subjects/{_quote(subject)}/versions"
        # In this order: what is registered in between is not taken for deleted.
        both = [self._find(f"{path}?deleted=true"), self._find(path)]
        numbers = [
            [number for number in listed if is_number(number)] if isinstance(listed, list) else [] for listed in both
        ]
        return subject, sorted(numbers[0] or numbers[1]), frozenset(numbers[1])

    def _iterate_pages(
        self, path: str, query: Mapping[str, str], key: Callable[[JSON], object]
    ) -> Iterator[list[JSON]]:
        """Yield the pages of a list.

        Raises ``_ListMoved``, ``Refused``, and ``TooLong`` for items too large for any page.

        Each page begins with the last item of the one before, by which it is seen whether anything has moved.
        """
        limit, offset = _PAGE_ITEMS, 0
        first: object = None
        last: object = None
        while True:
            try:
                page = self._load_page(path, {**query, "offset": str(offset), "limit": str(limit)})
            except TooLong:
                if limit <= _SMALLEST_PAGE:
                    raise
                limit = max(limit // 10, _SMALLEST_PAGE)
                continue
            if not page or (last is not None and key(page[0]) == first):
                # Pages that all begin in the same way are those of a registry that knows no pages.
                return
            if last is not None and key(page[0]) != last:
                raise _ListMoved
            yield page if last is None else page[1:]
            if len(page) > limit or (last is not None and len(page) == 1):
                return
            first, last = first or key(page[0]), key(page[-1])
            offset += len(page) - 1

    def _load_page(self, path: str, query: Mapping[str, str]) -> list[JSON]:
        page = self._parse_json(self._send("GET", path, query=query))
        if not isinstance(page, list):
            raise BadResponse(f"{self.url}{path}: a list is expected")
        return page

    def _find(self, path: str) -> JSON:
        """The JSON at a path, None if nothing is there or it has no such paths."""
        try:
            return self._parse_json(self._send("GET", path))
        except Refused as error:
            if error.status in ABSENT:
                return None
            raise UnusableRegistry(self._explain_failure(error)) from None

    def _parse_json(self, response: httpx.Response) -> JSON:
        try:
            return parse_json(response.content, max_depth=_MAX_JSON_DEPTH)
        except JSONError as error:
            raise UnusableRegistry(f"{response.url}: this is no JSON: {error}") from None

    def _send(self, method: str, path: str, **sent: Any) -> httpx.Response:
        """Send a request, again while the registry is busy: every request here may be repeated."""
        pause = _FIRST_PAUSE_SECONDS
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                return self._open_transport().send(method, path, **sent)
            except Refused as error:
                if error.status in _ANSWERS:
                    raise
                if error.status not in _BUSY or attempt == _ATTEMPTS:
                    raise UnusableRegistry(self._explain_failure(error)) from None
            except Unreachable:
                if method != "POST" or attempt == _ATTEMPTS:
                    raise
            time.sleep(pause)
            pause *= 2
        raise AssertionError("the last attempt returns or raises")

    def _explain_failure(self, error: Refused) -> str:
        words = error.title
        if error.status in _LET_IN:
            reason = (
                "who asks is not known there"
                if isinstance(error, NotAuthenticated)
                else "the right to do that is lacking"
            )
            return (
                f"{self.url} does not let us in ({words}): {reason}. Put USER:PASSWORD@ before the host in its URL, "
                "or ${NAME}@ for a token in that variable"
            )
        return f"{self.url}: {words} (HTTP {error.status})"

    def _open_transport(self) -> Transport:
        """Return the connection of this thread."""
        transport: Transport | None = getattr(self._own, "transport", None)
        if transport is None:
            transport = self._connect()
            self._own.transport = transport
            with self._adding:
                self._transports.append(transport)
        return transport


def connect(
    url: str, *, timeout: float, headers: Mapping[str, str] | None = None, token: str | None = ""
) -> ConfluentRegistry:
    """The registry at ``url``, which may begin with ``confluent+``, or below it where others have this API.

    Raises ``UnusableRegistry`` if it is none, ``ClientError`` if it cannot be reached.
    """
    bare = url.removeprefix(URL_PREFIX).rstrip("/")
    # A Signalbook has another API at its root.
    mounts = ("", *_MOUNTS) if url.startswith(URL_PREFIX) else (_OWN_MOUNT, "", *_MOUNTS[1:])
    for mount in mounts:
        registry = ConfluentRegistry(bare + mount, timeout=timeout, headers=headers or {}, token=token)
        try:
            if registry.speaks():
                return registry
        except BaseException:
            registry.close()
            raise
        registry.close()
    raise UnusableRegistry(
        f"{without_user(bare)} is no registry with Confluent's API: there is no /schemas/types, "
        f"nor below {' or '.join(_MOUNTS)}"
    )


def is_same_registry(left: ConfluentRegistry, right: ConfluentRegistry) -> bool:
    """Return True if both are the same registry, perhaps at different mounts."""
    first, second = (re.sub(_MOUNT, "", registry.url) for registry in (left, right))
    return first == second


def _hash(value: JSON) -> int:
    return int(digest(dump_json(value))[:32], 16)


def _make_version_key(value: JSON) -> object:
    return (value.get("subject"), value.get("version")) if isinstance(value, dict) else None


def _quote(subject: str) -> str:
    return quote(subject, safe="")


def _build_path(subject: str, version: int) -> str:
    return f"/subjects/{_quote(subject)}/versions/{version}"


def _build_setting_path(kind: SettingKind, scope: str) -> str:
    return f"/{kind}/{_quote(scope)}" if scope else f"/{kind}"
