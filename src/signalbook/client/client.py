"""The client: entities and documents, the change feed, subscriptions, pipeline reports (core/http.md)."""

from __future__ import annotations

import time
from abc import ABC
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import ClassVar, Final, Self, TypedDict, Unpack
from urllib.parse import parse_qs, quote, urlencode, urlsplit

import httpx

from signalbook.client import transport
from signalbook.client.access import Access
from signalbook.client.registry import plan_upload
from signalbook.client.responses import BadResponse, Document, Events, NotFound, document, parse_object, parse_objects
from signalbook.client.transport import Query, ReadFlags, Target, Transport
from signalbook.documents import Parts, Upload
from signalbook.values import JSON, JSONObject
from signalbook.verdict import Verdict
from signalbook.xid import ROOT

_EVENTS: Final = "/events"
_STREAM: Final = "text/event-stream"


def _read_until(deadline: float, lines: Iterator[str]) -> Iterator[str]:
    for line in lines:
        yield line
        if time.monotonic() > deadline:
            return


def _parse_after(url: str, response: httpx.Response) -> int:
    return _parse_position("".join(parse_qs(urlsplit(url).query).get("after", ())), response)


def _parse_position(text: str, response: httpx.Response) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise BadResponse(f"{response.url}: {text[:40]!r} is no position of a change feed")
    return int(text)


class _Listed(ABC):
    """A list of entities at one path of the server, each with an id.

    ``called`` is the plural name of the entities in error messages. Methods raise the same errors as ``Client``.
    """

    path: ClassVar[str]
    called: ClassVar[str]

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def __iter__(self) -> Iterator[JSONObject]:
        """Iterate over all entities. Pages are loaded as needed."""
        return self._iterate_pages(self.path)

    def get(self, id: str) -> JSONObject:
        """Return the entity with this ``id``. Raises ``NotFound`` if it does not exist."""
        return parse_object(self._transport.send("GET", self._path_of(id)))

    def delete(self, id: str) -> None:
        """Delete the entity with this ``id`` and everything that belongs to it."""
        self._transport.send("DELETE", self._path_of(id))

    def _path_of(self, id: str) -> str:
        return f"{self.path}/{quote(id, safe='')}"

    def _iterate_pages(self, url: str) -> Iterator[JSONObject]:
        for response in self._transport.pages(url):
            yield from parse_objects(response, self.called)


class Tokens(_Listed):
    """The API tokens of a server (``Client.tokens``). Iterating yields every token, without its secret."""

    path = "/access/tokens"
    called = "API tokens"

    def add(self, token: JSONObject) -> JSONObject:
        """Create a token from ``{"subject": ..., "groups": [...], "scopes": [...], "expires": ..., "note": ...}``.

        The returned object contains the secret in its member ``token``. The server never shows the secret again.
        """
        return parse_object(self._transport.send("POST", self.path, json=token))


class Pipelines(_Listed):
    """The pipelines that report to a server (``Client.pipelines``).

    Iterating yields all pipelines by name, each with a summary of its newest report; ``get`` returns the whole newest
    report. Reports are JSON objects, as ``signalbook pipeline run --json`` prints them.
    """

    path = "/pipelines"
    called = "pipelines or reports"

    def reports(self, name: str) -> Iterator[JSONObject]:
        """Yield the stored reports of the pipeline ``name``, newest first. Pages are loaded as needed."""
        return self._iterate_pages(f"{self._path_of(name)}/reports")

    def add(self, name: str, report: JSONObject) -> JSONObject:
        """Upload the report of a batch, and return the server's answer with the ``number`` of the report.

        A repeated upload changes nothing. A different report of the same batch replaces the stored one.
        """
        return parse_object(self._transport.send("POST", f"{self._path_of(name)}/reports", json=report))


class SubscriptionOptions(TypedDict, total=False):
    """The optional members of a subscription, in addition to its sink."""

    source: str
    types: list[str]
    filters: list[JSON]
    config: JSONObject
    protocolsettings: JSONObject
    sinkcredential: JSONObject


class Subscriptions(_Listed):
    """The subscriptions of a server (``Client.subscriptions``). Iterating yields them in order of creation.

    A subscription is a JSON object with its ``id`` and the ``status`` of its deliveries, without secrets. After a
    subscription is deleted, nothing more is delivered to its sink.
    """

    path = "/subscriptions"
    called = "subscriptions"

    def create(self, sink: str, *, protocol: str = "HTTP", **wanted: Unpack[SubscriptionOptions]) -> JSONObject:
        """Subscribe the URI ``sink`` to change events, and return the new subscription."""
        return self.add({"sink": sink, "protocol": protocol, **wanted})

    def add(self, document: JSONObject) -> JSONObject:
        """Create a subscription from ``document``, and return it as the server stored it."""
        return parse_object(self._transport.send("POST", self.path, json=document))

    def replace(self, id: str, document: JSONObject) -> JSONObject:
        """Replace the subscription ``id`` by ``document``, and return it as the server stored it.

        Secrets that ``document`` leaves out are kept. Deliveries that the server had given up are tried again.
        """
        return parse_object(self._transport.send("PUT", self._path_of(id), json=document))


class SearchOptions(TypedDict, total=False):
    """Options that narrow a search.

    ``type``, ``group``, ``format``, ``protocol`` and ``envelope`` list the accepted values of a facet. ``versions``
    searches all Versions instead of the default ones. ``limit`` is the number of results per page.
    """

    type: Sequence[str]
    group: Sequence[str]
    format: Sequence[str]
    protocol: Sequence[str]
    envelope: Sequence[str]
    deprecated: bool
    versions: bool
    limit: int


class Found(Iterable[JSONObject]):
    """The result of a search. Iterating yields all matching entities, best first; pages are loaded as needed.

    A match is a JSON object with ``xid``, ``kind``, ``name``, ``score`` and ``snippets`` (the matching texts).
    ``count`` and ``facets`` cover all matches; if ``complete`` is False, they cover only the first thousand.
    """

    def __init__(self, pages: Iterator[httpx.Response]) -> None:
        self._first = _read_found_page(next(pages))
        self._rest = pages
        self.count: int = self._first["count"]
        self.complete: bool = self._first["complete"]
        self.facets: dict[str, dict[str, int]] = {
            name: {entry["value"]: entry["count"] for entry in values} for name, values in self._first["facets"].items()
        }

    @property
    def hits(self) -> list[JSONObject]:
        """The matching entities on the first page."""
        return list(self._first["hits"])

    def __iter__(self) -> Iterator[JSONObject]:
        """Iterate over all matching entities."""
        yield from self._first["hits"]
        for page in self._rest:
            yield from _read_found_page(page)["hits"]


_FOUND: Final[Mapping[str, type]] = {"count": int, "complete": bool, "hits": list, "facets": dict}


def _read_found_page(response: httpx.Response) -> JSONObject:
    page = parse_object(response)
    if not all(isinstance(page.get(name), kind) for name, kind in _FOUND.items()):
        raise BadResponse(f"{response.url}: this is no page of what a search found")
    return page


MAX_RESPONSE_BYTES: Final = 256 * 1024 * 1024
ATTEMPTS: Final = 4


class WriteFlags(TypedDict, total=False):
    """Request flags of a write.

    ``ignore`` names parts of the body that the server leaves out (``epoch``, ``capabilities``, ...).
    ``setdefaultversionid`` is the id of the Version that becomes the default one.
    """

    ignore: Sequence[str]
    setdefaultversionid: str


class DocumentMetadata(TypedDict, total=False):
    """The metadata of a document: its ``contenttype``, and its ``attributes``. The value None deletes an attribute."""

    contenttype: str | None
    attributes: Mapping[str, str | None] | None


class Client:
    """A client of one registry. Use it as a context manager to close its connections.

    ``base_url`` is the URL of the registry's root. ``timeout`` is the limit in seconds for each step of a request,
    ``max_bytes`` the largest accepted response, and ``headers`` are sent with every request. If the server cannot be
    reached or is busy (503), GET, PUT and DELETE are tried up to ``attempts`` times. Other methods are sent only once.
    Every method raises ``Unreachable``, ``BadResponse`` or ``Refused``.

    ``token`` is an API token or JWT, ``${NAME}`` or ``file:PATH``. If it is None, the client uses ``SIGNALBOOK_TOKEN``
    or the stored credentials of ``signalbook login``. Credentials are sent only to the server of ``base_url``.
    """

    def __init__(
        self,
        base_url: str,
        *,
        timeout: float = 30.0,
        max_bytes: int = MAX_RESPONSE_BYTES,
        attempts: int = ATTEMPTS,
        headers: Mapping[str, str] | None = None,
        token: str | None = None,
    ) -> None:
        self._transport = Transport(
            base_url, timeout=timeout, max_bytes=max_bytes, attempts=attempts, headers=headers or {}, token=token
        )

    @property
    def base_url(self) -> str:
        """The URL of the registry's root, without a slash at its end."""
        return self._transport.base_url

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._transport.close()

    # Entities and collections, as JSON

    def get(self, target: Target = ROOT, **flags: Unpack[ReadFlags]) -> JSONObject:
        """Return the metadata of the entity ``target``, or one page of a collection."""
        return self._send_object("GET", transport.path_of(target), query=transport.read_query(**flags))

    def items(
        self, target: Target, *, limit: int | None = None, **flags: Unpack[ReadFlags]
    ) -> Iterator[tuple[str, JSONObject]]:
        """Yield the ids and bodies of a collection's members in the server's order (pagination/spec.md).

        Pages are loaded as needed. ``limit`` is the largest number of members per page.
        """
        query = transport.read_query(**flags) | ({} if limit is None else {"limit": str(limit)})
        for response in self._transport.pages(transport.path_of(target), query=query):
            yield from parse_object(response).items()

    def put(self, target: Target, body: JSONObject, **flags: Unpack[WriteFlags]) -> JSONObject:
        """Create or replace an entity, and return it."""
        return self._send_object("PUT", transport.path_of(target), query=transport.write_query(**flags), body=body)

    def patch(self, target: Target, body: JSONObject, **flags: Unpack[WriteFlags]) -> JSONObject:
        """Create an entity, or change the attributes in ``body``; null removes an attribute. Returns the entity."""
        return self._send_object("PATCH", transport.path_of(target), query=transport.write_query(**flags), body=body)

    def post(self, target: Target, body: JSONObject, **flags: Unpack[WriteFlags]) -> JSONObject:
        """Add the members in ``body`` to a collection, or add a Version to a Resource. Returns what was written."""
        return self._send_object("POST", transport.path_of(target), query=transport.write_query(**flags), body=body)

    def delete(self, target: Target, *, epoch: int | None = None) -> None:
        """Delete an entity, or every member of a collection.

        If ``epoch`` is given, the server refuses to delete an entity with another epoch.
        """
        query = {} if epoch is None else {"epoch": str(epoch)}
        self._transport.send("DELETE", transport.path_of(target), query=query)

    def delete_members(self, collection: Target, ids: Iterable[str]) -> None:
        """Delete the members of a collection with these ``ids``. Ids that do not exist are ignored."""
        self._transport.send("DELETE", transport.path_of(collection), json={name: {} for name in ids})

    # Documents, as bytes

    def document(self, target: Target) -> Document:
        """Return the document of a Resource or Version."""
        return document(self._transport.send("GET", transport.path_of(target, details=False)))

    def put_document(self, target: Target, content: bytes, **beside: Unpack[DocumentMetadata]) -> Document:
        """Store ``content`` as the document of a Resource or Version, and return the stored document."""
        return self._write_document("PUT", target, content, **beside)

    def post_document(self, target: Target, content: bytes, **beside: Unpack[DocumentMetadata]) -> Document:
        """Add a Version with the document ``content`` to a Resource. Returns the stored document."""
        return self._write_document("POST", target, content, **beside)

    # The registry as a whole

    def offers(self, path: str) -> bool:
        """Return True if the server answers at ``path`` below the root, for instance with another API."""
        try:
            self._transport.send("HEAD", path)
        except NotFound:
            return False
        return True

    def model(self) -> JSONObject:
        """Return the full model, with the attributes that the server adds."""
        return self._send_object("GET", "/model")

    def modelsource(self) -> JSONObject:
        """Return the model as it was supplied to the server."""
        return self._send_object("GET", "/modelsource")

    def put_modelsource(self, source: JSONObject) -> JSONObject:
        """Replace the model by ``source``, and return the new model source."""
        return self._send_object("PUT", "/modelsource", body=source)

    def capabilities(self) -> JSONObject:
        """Return the capabilities in force."""
        return self._send_object("GET", "/capabilities")

    def export(self, target: Target = ROOT, *, parts: Parts | None = None) -> JSONObject:
        """Return ``target`` and everything under it as one document for ``import_document`` (core/spec.md "Doc Flag").

        The export of the whole registry includes its capabilities and model. With ``parts``, parts of the registry that
        did not change since the previous export with the same ``parts`` are the same Python objects.
        """
        xid = transport.to_xid(target)
        if xid == ROOT:
            return parse_object(self._transport.send("GET", "/export"), parts=parts)
        if xid.is_collection:
            return dict(self.items(xid, inline=["*"], doc=True))
        return self.get(xid, inline=["*"], doc=True)

    def export_stream(self, target: Target = ROOT) -> Iterator[bytes]:
        """Yield the JSON text of ``export`` in chunks as the server sends it. The size is not limited."""
        xid = transport.to_xid(target)
        if xid == ROOT:
            return self._transport.stream("/export")
        return self._transport.stream(transport.path_of(xid), query=transport.read_query(inline=["*"], doc=True))

    def import_document(self, document: JSON, *, ignore: Sequence[str] = ()) -> Upload:
        """Create or change the entities in ``document`` in one request, and return what was sent.

        Other entities stay as they are. Epochs are not compared, and a model in the document extends the registry's.
        ``ignore`` names parts to leave out (``capabilities``, ``modelsource``, ...). Also raises ``DocumentError``.
        """
        upload = plan_upload(document, self.modelsource, ignore)
        self.patch(upload.target, upload.body, ignore=[*upload.ignore, *ignore])
        return upload

    def search(self, query: str = "", **options: Unpack[SearchOptions]) -> Found:
        """Search for words, phrases in quotes, or ``field:NAME``.

        Raises ``NotFound`` if the server has no search API.
        """
        parameters: list[tuple[str, str]] = [("q", query)]
        for name, value in options.items():
            if isinstance(value, bool):
                text = ("all" if value else "default") if name == "versions" else str(value).lower()
                parameters.append((name, text))
            else:
                parameters += [
                    (name, str(choice)) for choice in (value if isinstance(value, list | tuple) else [value])
                ]
        return Found(self._transport.pages(f"/search?{urlencode(parameters)}"))

    def impact(self, target: Target, *, depth: int | None = None) -> JSONObject:
        """Return what depends on an entity, up to ``depth`` steps away, with affected pipelines and subscriptions.

        Raises ``NotFound`` if there is no such entity, or the server does not have this API.
        """
        query = {"xid": str(transport.to_xid(target))} | ({} if depth is None else {"depth": str(depth)})
        return self._send_object("GET", "/impact", query=query)

    def try_impact(
        self,
        target: Target,
        content: bytes,
        *,
        contenttype: str | None = None,
        format: str = "",
        compatibility: str | None = None,
    ) -> JSONObject:
        """Return what the schema document ``content`` would break, directly and indirectly, without storing it.

        For a Resource, the document is tried as a new Version; for a Version, as its new document. ``safe`` is true in
        the answer if nothing would break. ``compatibility`` replaces the rule of every schema. Raises like ``impact``.
        """
        options = {"format": format, "compatibility": compatibility or ""}
        query = {"xid": str(transport.to_xid(target))} | {name: text for name, text in options.items() if text}
        headers = _build_headers(contenttype=contenttype)
        return parse_object(self._transport.send("POST", "/impact", query=query, content=content, headers=headers))

    # What changed

    def events(self, after: int = 0, *, limit: int | None = None) -> Events:
        """Return up to ``limit`` changes committed after the position ``after``, as CloudEvents.

        Raises ``NotFound`` if the server has no change feed.
        """
        query = {"after": str(after)} | ({} if limit is None else {"limit": str(limit)})
        response = self._transport.send("GET", _EVENTS, query=query)
        events = parse_objects(response, "change events")
        following = response.links.get("next", {}).get("url")
        # If there is a next page, this page covers all positions up to the start of the next page. That start may be
        # later than the last event on this page.
        last = after if not events else _parse_position(str(events[-1].get("id", "")), response)
        position = last if following is None else _parse_after(following, response)
        return Events(events=tuple(events), position=max(after, position), more=following is not None)

    def last_event(self) -> int:
        """Return the position of the newest change. Callers that read the whole registry now follow from there."""
        response = self._transport.send("GET", _EVENTS, query={"limit": "1"})
        link = response.links.get("last", {}).get("url")
        if link is None:
            raise BadResponse(f"{response.url}: the change feed does not say where it ends")
        return _parse_after(link, response)

    def wait_for_event(self, after: int, seconds: float) -> bool:
        """Wait up to ``seconds`` for a change after the position ``after``. Return True if there is one."""
        deadline = time.monotonic() + seconds
        lines = self._transport.lines(
            _EVENTS, query={"after": str(after)}, headers={"Accept": _STREAM}, timeout=seconds
        )
        try:
            with closing(lines):
                # Comments only keep the connection alive.
                return any(line.startswith("data:") for line in _read_until(deadline, lines))
        except httpx.ReadTimeout:
            return False

    @property
    def pipelines(self) -> Pipelines:
        """The pipelines that report to this server. Its methods raise ``NotFound`` if the server has no such API."""
        return Pipelines(self._transport)

    @property
    def tokens(self) -> Tokens:
        """The API tokens of the server. Its methods raise ``NotFound`` if the server has no such API."""
        return Tokens(self._transport)

    @property
    def access(self) -> Access:
        """The access policy and audit. Its methods raise ``NotFound`` if the server has no such API."""
        return Access(self._transport)

    @property
    def subscriptions(self) -> Subscriptions:
        """The subscriptions to change events. Its methods raise ``NotFound`` if the server has no such API."""
        return Subscriptions(self._transport)

    # Checks of writes

    def check(
        self,
        method: str,
        target: Target,
        body: JSON = None,
        *,
        content: bytes | None = None,
        contenttype: str | None = None,
        attributes: Mapping[str, str | None] | None = None,
        compatibility: str | None = None,
        **flags: Unpack[WriteFlags],
    ) -> Verdict:
        """Return whether the server would accept a write, without changing anything.

        The write is a ``method`` request with the metadata ``body`` or, if given, the document ``content``.
        ``compatibility`` replaces the rule of the Resource. Raises ``NotFound`` if the server has no such API.
        """
        query = transport.write_query(**flags) | ({} if compatibility is None else {"compatibility": compatibility})
        headers = _build_headers(contenttype=contenttype, attributes=attributes)
        url = "/check" + transport.path_of(target, details=content is None)
        json = body if content is None else None
        response = self._transport.send(method, url, query=query, content=content, json=json, headers=headers)
        return Verdict.from_json(parse_object(response))

    def check_document(self, document: JSON, *, ignore: Sequence[str] = ()) -> Verdict:
        """Return whether the server would accept ``import_document``. Also raises ``DocumentError``."""
        upload = plan_upload(document, self.modelsource, ignore)
        return self.check("PATCH", upload.target, upload.body, ignore=[*upload.ignore, *ignore])

    # Helpers that send requests

    def _send_object(self, method: str, path: str, *, query: Query | None = None, body: JSON = None) -> JSONObject:
        return parse_object(self._transport.send(method, path, query=query, json=body))

    def _write_document(
        self, method: str, target: Target, content: bytes, **beside: Unpack[DocumentMetadata]
    ) -> Document:
        url = transport.path_of(target, details=False)
        return document(self._transport.send(method, url, content=content, headers=_build_headers(**beside)))


def _build_headers(**beside: Unpack[DocumentMetadata]) -> dict[str, str]:
    """Return the request headers for the document's metadata."""
    attributes, contenttype = beside.get("attributes") or {}, beside.get("contenttype")
    headers = {f"xRegistry-{name}": transport.quote_header(value) for name, value in attributes.items()}
    return headers if contenttype is None else {**headers, "Content-Type": contenttype}
