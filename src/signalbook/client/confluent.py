"""A client of Confluent's Schema Registry API, which several registries offer, Signalbook included.

Replication reads and writes registries with this client. The pipeline reads subjects with it.
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
"""The first major release of Confluent's registry whose lists of schemas mark deleted versions."""
_ATTEMPTS: Final = 5
_FIRST_PAUSE_SECONDS: Final = 0.5
ABSENT: Final = frozenset({HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED, HTTPStatus.NOT_IMPLEMENTED})
_ANSWERS: Final = ABSENT | {
    HTTPStatus.BAD_REQUEST,
    HTTPStatus.FORBIDDEN,
    HTTPStatus.CONFLICT,
    HTTPStatus.UNPROCESSABLE_ENTITY,
}
"""Error statuses that concern only the object of a request. Other statuses concern the registry and end the work."""
_LET_IN: Final = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN})
_BUSY: Final = frozenset({429, 500, 502, 503, 504})
SettingKind = Literal["config", "mode"]
T = TypeVar("T")


class UnusableRegistry(ClientError):
    """The error for a registry that cannot be read or written. The message names the registry."""


class _ListMoved(Exception):
    """The error for a list that changed between two pages, so that later items have another offset."""


class ConfluentRegistry:
    """A client of the registry at ``url``, which may be used by several threads.

    A URL that ends with ``/contexts/.NAME`` gives access to that context only, any other URL to all contexts.
    ``timeout``, ``headers`` and ``token`` are those of ``Client``. Methods raise ``UnusableRegistry`` if the registry
    fails, and ``Refused`` if it rejects a request.
    """

    def __init__(self, url: str, *, timeout: float, headers: Mapping[str, str], token: str | None = "") -> None:
        # Like other clients, ask the registry to ignore members of a request that it does not know.
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
        """The context of subjects whose names contain no context."""
        self._everywhere = {} if match else {"subjectPrefix": ALL_CONTEXTS}
        self.hidden: set[tuple[str, int]] = set()
        """Subject and number of deleted versions that the registry lists but cannot return. Filled by ``versions``."""

    def close(self) -> None:
        """Close the connections."""
        self._pool.shutdown(cancel_futures=True)
        for transport in self._transports:
            transport.close()

    def map(self, function: Callable[[T], None], items: Iterable[T]) -> None:
        """Call ``function`` with each of the ``items``, in up to eight threads. Raises the first error of a call."""
        for chunk in batched(items, 32 * CONCURRENCY):
            for _ in self._pool.map(function, chunk):
                pass

    # Reads

    def speaks(self) -> bool:
        """Return True if a registry with Confluent's API answers at the URL."""
        try:
            return isinstance(parse_json(self._send("GET", "/schemas/types").content), list)
        except (Refused, JSONError):
            return False

    def versions(self) -> Iterator[SchemaVersion]:
        """Yield all versions, including soft-deleted ones.

        If other clients write at the same time, a version may be yielded twice.
        """
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
        """Return the numbers of all versions that are not deleted, by subject."""
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
        """Return a number that changes whenever a version is added or deleted. Settings do not change it."""
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
        """Return True if the version with this number exists in ``subject``, even if it is soft-deleted."""
        return self._is_of(subject, self._find(f"{_build_path(subject, version)}?deleted=true"))

    def contexts(self) -> list[str]:
        """Return the names of the registry's contexts, or an empty list if it does not support contexts."""
        names = self._find("/contexts")
        # Some registries return names with the colons that they have in subjects, as in ":.name:".
        return [name.strip(":") for name in names if isinstance(name, str)] if isinstance(names, list) else []

    def setting(self, kind: SettingKind, scope: str) -> JSONObject | None:
        """Return the ``kind`` of setting that is set for ``scope``, or None if none is set there.

        ``scope`` is ``""`` for the registry, ``:.name:`` for a context, or a subject. Inherited values are left out.
        """
        stated = self._find(_build_setting_path(kind, scope))
        if not isinstance(stated, dict):
            return None
        if scope and self._inherits(kind) and stated == self._find(_build_setting_path(kind, "")):
            return None
        if kind == "config" and stated.keys() - {"compatibilityLevel"} and scope:
            # The registry adds the inherited compatibility level to the settings of a scope: leave it out.
            holds = self._find(f"{_build_setting_path(kind, scope)}?defaultToGlobal=true")
            if isinstance(holds, dict) and holds.get("compatibilityLevel") != stated.get("compatibilityLevel"):
                stated = {name: value for name, value in stated.items() if name != "compatibilityLevel"}
        return {name: value for name, value in stated.items() if value is not None}

    def associations(self) -> list[Association] | None:
        """Return the associations of subjects with topics, or None if the registry does not support associations."""
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
        """Return True if looking up the schema of ``version`` in its subject returns the same number and id."""
        try:
            answer = self._parse_json(
                self._send("POST", f"/subjects/{_quote(version.subject)}?deleted=true", json=version.body)
            )
        except Refused:
            return False
        if not isinstance(answer, dict) or not self._is_of(version.subject, answer):
            return False
        return (answer.get("version"), answer.get("id")) == (version.version, version.id)

    # Writes

    def register(self, version: SchemaVersion) -> None:
        """Add ``version`` with its number and id. The subject must be in the mode IMPORT.

        Raises ``UnusableRegistry`` if the registry assigns another id.
        """
        body = {**version.body, "version": version.version, "id": version.id}
        answer = self._parse_json(self._send("POST", f"/subjects/{_quote(version.subject)}/versions", json=body))
        assigned_id = answer.get("id") if isinstance(answer, dict) else None
        if assigned_id != version.id:
            raise UnusableRegistry(
                f"{self.url} gave {version.subject} the id {assigned_id} instead of {version.id}: it cannot keep ids"
            )

    def delete(self, subject: str, version: int, *, permanent: bool = False) -> None:
        """Delete a version softly. With ``permanent``, remove a version that is already soft-deleted.

        A version that does not exist is ignored.
        """
        try:
            self._send("DELETE", _build_path(subject, version) + ("?permanent=true" if permanent else ""))
        except Refused as error:
            if error.status != HTTPStatus.NOT_FOUND and error.code not in _DELETED:
                raise

    def set(self, kind: SettingKind, scope: str, value: JSONObject | None, *, force: bool = False) -> None:
        """Set the ``kind`` of setting for ``scope`` as in ``setting``. If ``value`` is None, delete the setting.

        ``force`` tells the registry to change the mode even if it has schemas.
        """
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
        """Create an association, without a schema. A frozen association needs the mode IMPORT."""
        body: JSONObject = {**association.resource.to_json(), "associations": [association.info()]}
        self._send("POST", "/associations", json=body)

    def dissociate(self, association: Association) -> None:
        """Delete an association. If it is frozen, its subject is deleted too."""
        query = {"resourceType": association.resource.type, "associationType": association.type}
        cascade = {"cascadeLifecycle": "true"} if association.frozen else {}
        self._send("DELETE", f"/associations/resources/{_quote(association.resource.id)}", query={**query, **cascade})

    # Requests

    def _is_of(self, subject: str, version: JSON) -> bool:
        """Return True if ``version`` belongs to ``subject``, not to a subject of this name in another context."""
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
        """Return True if the registry's lists of schemas are complete.

        The lists of Karapace and Apicurio lack deleted schemas and others. These registries report no release.
        """
        if self._release is None:
            metadata = self._find("/v1/metadata/version")
            self._release = str(metadata.get("version", "")) if isinstance(metadata, dict) else ""
        return self._release != ""

    @property
    def _marked(self) -> bool | None:
        """The ``deleted`` flag of a listed version without a mark.

        False if the registry marks deleted versions in its lists, None (unknown) if it does not.
        """
        release = self._release or ""
        major = release.partition(".")[0]
        return False if release.startswith("signalbook-") or (major.isdigit() and int(major) >= _MARKING) else None

    def _inherits(self, kind: SettingKind) -> bool:
        """Return True if the registry returns inherited settings as if they were set for the subject itself."""
        if kind not in self._shows_all:
            try:
                self._send("GET", _build_setting_path(kind, _NOBODY))
                self._shows_all[kind] = True
            except Refused as error:
                # Another code means that the subject does not exist. Such a registry returns inherited settings for
                # every subject that exists.
                self._shows_all[kind] = error.code not in _NOT_SET
        return self._shows_all[kind]

    def _walk(self) -> Iterator[SchemaVersion]:
        """Yield the same versions as ``versions``, subject by subject, for registries without complete lists."""
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
        """Return the names of all subjects in order, including soft-deleted ones."""
        subjects: set[str] = set()
        for _ in range(_LISTS):
            with suppress(_ListMoved):
                # A registry without contexts may look for subjects whose names begin with the prefix, and find none:
                # then list without the prefix.
                for query in ({**self._everywhere, "deleted": "true"}, {"deleted": "true"}):
                    for page in [] if subjects else self._iterate_pages("/subjects", query, str):
                        subjects |= {subject for subject in page if isinstance(subject, str)}
                return sorted(subjects)
        raise UnusableRegistry(f"{self.url}: its subjects change too fast to be listed: try again")

    def _list_numbers(self, subject: str) -> tuple[str, Sequence[int], frozenset[int]]:
        """Return ``subject``, the numbers of its versions, and the numbers of versions that are not deleted."""
        path = f"/subjects/{_quote(subject)}/versions"
        # The order matters: a version registered between the two requests must not look deleted.
        both = [self._find(f"{path}?deleted=true"), self._find(path)]
        numbers = [
            [number for number in listed if is_number(number)] if isinstance(listed, list) else [] for listed in both
        ]
        return subject, sorted(numbers[0] or numbers[1]), frozenset(numbers[1])

    def _iterate_pages(
        self, path: str, query: Mapping[str, str], key: Callable[[JSON], object]
    ) -> Iterator[list[JSON]]:
        """Yield the items of the list at ``path``, page by page. ``key`` returns what identifies an item.

        Each page is requested with the last item of the previous page as its first item. If the first item is another
        one, the list has changed. Raises ``_ListMoved`` then, ``Refused``, and ``TooLong`` if an item exceeds any page.
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
                # A page that begins like the first one comes from a registry without paging: it always returns all.
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
        """Return the JSON at ``path``, or None if the registry has nothing there or does not support the path."""
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
        """Send a request, and repeat it while the registry is busy. Every request of this class may be repeated."""
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
        """Return the transport of the current thread, and create it on first use."""
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
    """Return a client of the registry at ``url``, which may begin with ``confluent+``.

    The API is looked for at ``url`` and at the paths below it where Signalbook, Apicurio and others mount it. Raises
    ``UnusableRegistry`` if no path has it, and ``ClientError`` if the server cannot be reached.
    """
    bare = url.removeprefix(URL_PREFIX).rstrip("/")
    # A Signalbook server has another API at its root, so its own mount is tried first.
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
    """Return True if both URLs lead to the same registry, even if its API is mounted at different paths."""
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
