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
    """The entities listed at a path of the server, one per id. Every method raises as those of ``Client``."""

    path: ClassVar[str]
    called: ClassVar[str]

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def __iter__(self) -> Iterator[JSONObject]:
        """Iterate over all of them; pages are loaded as needed."""
        return self._iterate_pages(self.path)

    def get(self, id: str) -> JSONObject:
        """Return one of them."""
        return parse_object(self._transport.send("GET", self._path_of(id)))

    def delete(self, id: str) -> None:
        """Delete one of them, with all that belongs to it."""
        self._transport.send("DELETE", self._path_of(id))

    def _path_of(self, id: str) -> str:
        return f"{self.path}/{quote(id, safe='')}"

    def _iterate_pages(self, url: str) -> Iterator[JSONObject]:
        for response in self._transport.pages(url):
            yield from parse_objects(response, self.called)


class Tokens(_Listed):
    """``Client.tokens``: iterate over it for all there are, each without its secret."""

    path = "/access/tokens"
    called = "API tokens"

    def add(self, token: JSONObject) -> JSONObject:
        """Make one, ``{"subject": ..., "groups": [...], "scopes": [...], "expires": ..., "note": ...}``.

        What is returned has the member ``token``, the token itself: nobody can show it again.
        """
        return parse_object(self._transport.send("POST", self.path, json=token))


class Pipelines(_Listed):
    """``Client.pipelines``: iterate over it for all there are, by name, each with the gist of its newest report.

    One by itself comes with its whole newest report. Reports are JSON objects, as ``signalbook pipeline run --json``
    prints them.
    """

    path = "/pipelines"
    called = "pipelines or reports"

    def reports(self, name: str) -> Iterator[JSONObject]:
        """The reports that are kept of one, the newest first, page after page as they are asked for."""
        return self._iterate_pages(f"{self._path_of(name)}/reports")

    def add(self, name: str, report: JSONObject) -> JSONObject:
        """Report a batch; the same report again changes nothing, another one replaces it. Returns its ``number``."""
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
    """``Client.subscriptions``: iterate over it for all there are, in the order they were created in.

    A subscription is a JSON object as the server shows it: with its ``id`` and the ``status`` of its deliveries, and
    without secrets. To the sink of one that is deleted nothing more is delivered.
    """

    path = "/subscriptions"
    called = "subscriptions"

    def create(self, sink: str, *, protocol: str = "HTTP", **wanted: Unpack[SubscriptionOptions]) -> JSONObject:
        """Subscribe ``sink`` to change events. Returns the subscription."""
        return self.add({"sink": sink, "protocol": protocol, **wanted})

    def add(self, document: JSONObject) -> JSONObject:
        """Create the subscription that a document says. Returns it as it is now."""
        return parse_object(self._transport.send("POST", self.path, json=document))

    def replace(self, id: str, document: JSONObject) -> JSONObject:
        """Replace one, keeping its secrets if it leaves them out; what was given up is tried again."""
        return parse_object(self._transport.send("PUT", self._path_of(id), json=document))


class SearchOptions(TypedDict, total=False):
    """Options that narrow a search: accepted values by facet; ``versions`` searches all Versions."""

    type: Sequence[str]
    group: Sequence[str]
    format: Sequence[str]
    protocol: Sequence[str]
    envelope: Sequence[str]
    deprecated: bool
    versions: bool
    limit: int


class Found(Iterable[JSONObject]):
    """The result of a search. Iterate over it for all hits, the best first; pages are loaded as needed.

    ``count`` and ``facets`` cover all hits, or the first thousand if they are not ``complete``. A hit is a JSON object
    with ``xid``, ``kind``, ``name``, ``score`` and ``snippets`` (the matching texts).
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
        """The hits of the first page."""
        return list(self._first["hits"])

    def __iter__(self) -> Iterator[JSONObject]:
        """Iterate over all hits."""
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
    """Request flags of a write: what to ``ignore`` in its body, and which Version becomes the default one."""

    ignore: Sequence[str]
    setdefaultversionid: str


class DocumentMetadata(TypedDict, total=False):
    """The metadata of a document: its ``contenttype``, and ``attributes``, where None deletes one."""

    contenttype: str | None
    attributes: Mapping[str, str | None] | None


class Client:
    """Connections to one registry; a context manager.

    ``base_url`` is the URL of the registry's root, ``timeout`` seconds for each step of a request, ``max_bytes`` the
    largest response taken, ``headers`` what goes with every request. GET, PUT and DELETE are tried up to ``attempts``
    times when the server cannot be reached or is busy (503); nothing else is ever sent twice. Every method raises
    ``Unreachable``, ``BadResponse`` or ``Refused``.

    ``token`` is an API token or JWT, ``${NAME}`` or ``file:PATH``; without one ``SIGNALBOOK_TOKEN`` is used, or the
    login that ``signalbook login`` made. Credentials go to the server of ``base_url`` alone.
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
        """An entity's metadata, or one page of a collection."""
        return self._send_object("GET", transport.path_of(target), query=transport.read_query(**flags))

    def items(
        self, target: Target, *, limit: int | None = None, **flags: Unpack[ReadFlags]
    ) -> Iterator[tuple[str, JSONObject]]:
        """The members of a collection in its order, page after page, at most ``limit`` in one (pagination/spec.md)."""
        query = transport.read_query(**flags) | ({} if limit is None else {"limit": str(limit)})
        for response in self._transport.pages(transport.path_of(target), query=query):
            yield from parse_object(response).items()

    def put(self, target: Target, body: JSONObject, **flags: Unpack[WriteFlags]) -> JSONObject:
        """Create or replace an entity."""
        return self._send_object("PUT", transport.path_of(target), query=transport.write_query(**flags), body=body)

    def patch(self, target: Target, body: JSONObject, **flags: Unpack[WriteFlags]) -> JSONObject:
        """Create an entity, or change the attributes in ``body``, null removing one."""
        return self._send_object("PATCH", transport.path_of(target), query=transport.write_query(**flags), body=body)

    def post(self, target: Target, body: JSONObject, **flags: Unpack[WriteFlags]) -> JSONObject:
        """Add to a collection, or a Version to a Resource."""
        return self._send_object("POST", transport.path_of(target), query=transport.write_query(**flags), body=body)

    def delete(self, target: Target, *, epoch: int | None = None) -> None:
        """Delete an entity, or every member of a collection; an entity only if it has this ``epoch``, if given."""
        query = {} if epoch is None else {"epoch": str(epoch)}
        self._transport.send("DELETE", transport.path_of(target), query=query)

    def delete_members(self, collection: Target, ids: Iterable[str]) -> None:
        """Delete these members of a collection, as far as they are there; no others."""
        self._transport.send("DELETE", transport.path_of(collection), json={name: {} for name in ids})

    # Documents, as bytes

    def document(self, target: Target) -> Document:
        """The document of a Resource or Version."""
        return document(self._transport.send("GET", transport.path_of(target, details=False)))

    def put_document(self, target: Target, content: bytes, **beside: Unpack[DocumentMetadata]) -> Document:
        """Store the document of a Resource or Version."""
        return self._write_document("PUT", target, content, **beside)

    def post_document(self, target: Target, content: bytes, **beside: Unpack[DocumentMetadata]) -> Document:
        """Add a Version with this document to a Resource."""
        return self._write_document("POST", target, content, **beside)

    # The registry as a whole

    def offers(self, path: str) -> bool:
        """Return True if the server has something at a path below the root, for instance another API."""
        try:
            self._transport.send("HEAD", path)
        except NotFound:
            return False
        return True

    def model(self) -> JSONObject:
        """The full model."""
        return self._send_object("GET", "/model")

    def modelsource(self) -> JSONObject:
        """The model as it was supplied."""
        return self._send_object("GET", "/modelsource")

    def put_modelsource(self, source: JSONObject) -> JSONObject:
        """Replace the model."""
        return self._send_object("PUT", "/modelsource", body=source)

    def capabilities(self) -> JSONObject:
        """The capabilities in force."""
        return self._send_object("GET", "/capabilities")

    def export(self, target: Target = ROOT, *, parts: Parts | None = None) -> JSONObject:
        """``target`` and all beneath it as one document that ``import_document`` takes (core/spec.md "Doc Flag").

        The whole registry comes with its capabilities and model; of that, what the export before had of ``parts``, too,
        are the same objects.
        """
        xid = transport.to_xid(target)
        if xid == ROOT:
            return parse_object(self._transport.send("GET", "/export"), parts=parts)
        if xid.is_collection:
            return dict(self.items(xid, inline=["*"], doc=True))
        return self.get(xid, inline=["*"], doc=True)

    def export_stream(self, target: Target = ROOT) -> Iterator[bytes]:
        """The JSON text of ``export``, piece by piece as the server sends it, whatever its size."""
        xid = transport.to_xid(target)
        if xid == ROOT:
            return self._transport.stream("/export")
        return self._transport.stream(transport.path_of(xid), query=transport.read_query(inline=["*"], doc=True))

    def import_document(self, document: JSON, *, ignore: Sequence[str] = ()) -> Upload:
        """Create or change what ``document`` names, in one request; what it does not name stays as it is.

        Epochs in it are not compared; a model in it extends the registry's. ``ignore`` names more to leave out
        (``capabilities``, ``modelsource``, ...). Returns what was sent. Raises ``DocumentError`` too.
        """
        upload = plan_upload(document, self.modelsource, ignore)
        self.patch(upload.target, upload.body, ignore=[*upload.ignore, *ignore])
        return upload

    def search(self, query: str = "", **options: Unpack[SearchOptions]) -> Found:
        """Search for words, phrases in quotes, or ``field:NAME``.

        Raises ``NotFound`` if the server has no search.
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
        """Return what a document for a schema would break, transitively, without a change. Raises like ``impact``.

        The document becomes a new Version of a Resource, or replaces that of a Version. ``safe`` in the answer means
        that there is no objection. ``compatibility`` replaces the rule of every schema.
        """
        options = {"format": format, "compatibility": compatibility or ""}
        query = {"xid": str(transport.to_xid(target))} | {name: text for name, text in options.items() if text}
        headers = _build_headers(contenttype=contenttype)
        return parse_object(self._transport.send("POST", "/impact", query=query, content=content, headers=headers))

    # What changed

    def events(self, after: int = 0, *, limit: int | None = None) -> Events:
        """Changes committed behind the position ``after``, at most ``limit`` of them, as CloudEvents.

        Not every server has a change feed: then ``NotFound``.
        """
        query = {"after": str(after)} | ({} if limit is None else {"limit": str(limit)})
        response = self._transport.send("GET", _EVENTS, query=query)
        events = parse_objects(response, "change events")
        following = response.links.get("next", {}).get("url")
        # A page with a successor reaches to where that begins, which may be behind its last event.
        last = after if not events else _parse_position(str(events[-1].get("id", "")), response)
        position = last if following is None else _parse_after(following, response)
        return Events(events=tuple(events), position=max(after, position), more=following is not None)

    def last_event(self) -> int:
        """The position behind all changes there are: where to follow from for who has read the registry itself."""
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
        """Pipelines that report their batches here. Not every server has them: then ``NotFound``."""
        return Pipelines(self._transport)

    @property
    def tokens(self) -> Tokens:
        """API tokens. Not every server has them: then ``NotFound``."""
        return Tokens(self._transport)

    @property
    def access(self) -> Access:
        """The access policy and audit. Raises ``NotFound`` if the server does not have them."""
        return Access(self._transport)

    @property
    def subscriptions(self) -> Subscriptions:
        """The subscriptions to change events. Raises ``NotFound`` if the server does not have them."""
        return Subscriptions(self._transport)

    # What would become of a write

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
        """Return whether a write would be accepted, without a change. Raises ``NotFound`` if there is no such API.

        The write is one of metadata (``body``) or, with ``content``, of a document, as with ``put_document``.
        ``compatibility`` replaces the rule of the Resource.
        """
        query = transport.write_query(**flags) | ({} if compatibility is None else {"compatibility": compatibility})
        headers = _build_headers(contenttype=contenttype, attributes=attributes)
        url = "/check" + transport.path_of(target, details=content is None)
        json = body if content is None else None
        response = self._transport.send(method, url, query=query, content=content, json=json, headers=headers)
        return Verdict.from_json(parse_object(response))

    def check_document(self, document: JSON, *, ignore: Sequence[str] = ()) -> Verdict:
        """Return whether ``import_document`` would be accepted. Raises ``DocumentError`` too."""
        upload = plan_upload(document, self.modelsource, ignore)
        return self.check("PATCH", upload.target, upload.body, ignore=[*upload.ignore, *ignore])

    # Below: from requests to responses

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
