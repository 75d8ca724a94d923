"""The client itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, Self, TypedDict, Unpack

from signalbook.client import feed, requests
from signalbook.client.answers import Document, NotFound, document, json_object
from signalbook.client.feed import Events
from signalbook.client.pipelines import Pipelines
from signalbook.client.requests import Query, ReadFlags, Target
from signalbook.client.subscriptions import Subscriptions
from signalbook.client.transport import Transport
from signalbook.documents import Upload, aim, extend_model
from signalbook.values import JSON, JSONObject, dump_json
from signalbook.verdict import Verdict
from signalbook.xid import ROOT

MAX_ANSWER_BYTES: Final = 256 * 1024 * 1024
ATTEMPTS: Final = 4


class WriteFlags(TypedDict, total=False):
    """Request flags of a write: what to ``ignore`` in its body, and which Version becomes the default one."""

    ignore: Sequence[str]
    setdefaultversionid: str


class Client:
    """Connections to one registry; a context manager.

    ``base_url`` is the URL of the registry's root, ``timeout`` seconds for each step of a request, ``max_bytes`` the
    largest answer taken, ``headers`` what goes with every request. GET, PUT and DELETE are tried up to ``attempts``
    times when the server cannot be reached or is busy (503); nothing else is ever sent twice. Every method raises
    ``Unreachable``, ``BadAnswer`` or ``Refused``.
    """

    def __init__(
        self,
        base_url: str,
        *,
        timeout: float = 30.0,
        max_bytes: int = MAX_ANSWER_BYTES,
        attempts: int = ATTEMPTS,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self._transport = Transport(
            base_url, timeout=timeout, max_bytes=max_bytes, attempts=attempts, headers=headers or {}
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
        return self._object("GET", requests.path(target), query=requests.reading(**flags))

    def items(
        self, target: Target, *, limit: int | None = None, **flags: Unpack[ReadFlags]
    ) -> Iterator[tuple[str, JSONObject]]:
        """The members of a collection in its order, page after page, at most ``limit`` in one (pagination/spec.md)."""
        query = requests.reading(**flags) | ({} if limit is None else {"limit": str(limit)})
        for answer in self._transport.pages(requests.path(target), query=query):
            yield from json_object(answer).items()

    def put(self, target: Target, body: JSONObject, **flags: Unpack[WriteFlags]) -> JSONObject:
        """Create or replace an entity."""
        return self._object("PUT", requests.path(target), query=requests.writing(**flags), body=body)

    def patch(self, target: Target, body: JSONObject, **flags: Unpack[WriteFlags]) -> JSONObject:
        """Create an entity, or change the attributes in ``body``, null removing one."""
        return self._object("PATCH", requests.path(target), query=requests.writing(**flags), body=body)

    def post(self, target: Target, body: JSONObject, **flags: Unpack[WriteFlags]) -> JSONObject:
        """Add to a collection, or a Version to a Resource."""
        return self._object("POST", requests.path(target), query=requests.writing(**flags), body=body)

    def delete(self, target: Target, *, epoch: int | None = None) -> None:
        """Delete an entity, or every member of a collection; an entity only if it has this ``epoch``, if given."""
        query = {} if epoch is None else {"epoch": str(epoch)}
        self._transport.send("DELETE", requests.path(target), query=query)

    def delete_members(self, collection: Target, ids: Iterable[str]) -> None:
        """Delete these members of a collection, as far as they are there; no others."""
        body = dump_json({name: {} for name in ids})
        headers = {"Content-Type": "application/json"}
        self._transport.send("DELETE", requests.path(collection), content=body, headers=headers)

    # Documents, as bytes

    def document(self, target: Target) -> Document:
        """The document of a Resource or Version."""
        return document(self._transport.send("GET", requests.path(target, details=False)))

    def put_document(
        self,
        target: Target,
        content: bytes,
        *,
        contenttype: str | None = None,
        attributes: Mapping[str, str | None] | None = None,
    ) -> Document:
        """Store the document of a Resource or Version, with attributes beside it (None deletes one)."""
        return self._write_document("PUT", target, content, contenttype, attributes or {})

    def post_document(
        self,
        target: Target,
        content: bytes,
        *,
        contenttype: str | None = None,
        attributes: Mapping[str, str | None] | None = None,
    ) -> Document:
        """Add a Version with this document to a Resource."""
        return self._write_document("POST", target, content, contenttype, attributes or {})

    # The registry as a whole

    def offers(self, path: str) -> bool:
        """Whether the server has something at a path below the root, for instance another API."""
        try:
            self._transport.send("HEAD", path)
        except NotFound:
            return False
        return True

    def model(self) -> JSONObject:
        """The full model."""
        return self._object("GET", "/model")

    def modelsource(self) -> JSONObject:
        """The model as it was supplied."""
        return self._object("GET", "/modelsource")

    def put_modelsource(self, source: JSONObject) -> JSONObject:
        """Replace the model."""
        return self._object("PUT", "/modelsource", body=source)

    def capabilities(self) -> JSONObject:
        """The capabilities in force."""
        return self._object("GET", "/capabilities")

    def export(self, target: Target = ROOT) -> JSONObject:
        """``target`` and all beneath it as one document that ``import_document`` takes (core/spec.md "Doc Flag").

        The whole registry comes with its capabilities and model.
        """
        xid = requests.xid(target)
        if xid == ROOT:
            return self._object("GET", "/export")
        if xid.is_collection:
            return dict(self.items(xid, inline=["*"], doc=True))
        return self.get(xid, inline=["*"], doc=True)

    def export_stream(self, target: Target = ROOT) -> Iterator[bytes]:
        """The JSON text of ``export``, piece by piece as the server sends it, whatever its size."""
        xid = requests.xid(target)
        if xid == ROOT:
            return self._transport.stream("/export")
        return self._transport.stream(requests.path(xid), query=requests.reading(inline=["*"], doc=True))

    def import_document(self, document: JSON, *, ignore: Sequence[str] = ()) -> Upload:
        """Create or change what ``document`` names, in one request; what it does not name stays as it is.

        Epochs in it are not compared; a model in it extends the registry's. ``ignore`` names more to leave out
        (``capabilities``, ``modelsource``, ...). Returns what was sent. Raises ``DocumentError`` too.
        """
        upload = aim(document)
        if "modelsource" in upload.body and upload.target == ROOT and "modelsource" not in ignore:
            upload = extend_model(upload, self.modelsource())
        self.patch(upload.target, upload.body, ignore=[*upload.ignore, *ignore])
        return upload

    # What changed

    def events(self, after: int = 0, *, limit: int | None = None) -> Events:
        """Changes committed behind the position ``after``, at most ``limit`` of them, as CloudEvents.

        Not every server has a change feed: then ``NotFound``.
        """
        return feed.read(self._transport, after, limit)

    def last_event(self) -> int:
        """The position behind all changes there are: where to follow from for who has read the registry itself."""
        return feed.last(self._transport)

    def wait_for_event(self, after: int, seconds: float) -> bool:
        """Whether there is a change behind the position ``after``, once there is, or within ``seconds``."""
        return feed.wait(self._transport, after, seconds)

    @property
    def pipelines(self) -> Pipelines:
        """Pipelines that tell of their batches here. Not every server has them: then ``NotFound``."""
        return Pipelines(self._transport)

    @property
    def subscriptions(self) -> Subscriptions:
        """Who is told of changes. Not every server has subscriptions: then ``NotFound``."""
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
        """Whether a write would be accepted; nothing changes. Not every server can tell: then ``NotFound``.

        The write is one of metadata (``body``) or, with ``content``, of a document, as with ``put_document``. With
        ``compatibility`` it is judged as if that were the rule of the Resource.
        """
        query = requests.writing(**flags) | ({} if compatibility is None else {"compatibility": compatibility})
        headers = {f"xRegistry-{name}": requests.encode(value) for name, value in (attributes or {}).items()}
        if content is None and body is not None:
            content_type: str | None = "application/json"
            sent: bytes | None = dump_json(body)
        else:
            content_type, sent = contenttype, content
        headers |= {} if content_type is None else {"Content-Type": content_type}
        url = "/check" + requests.path(target, details=content is None)
        return Verdict.from_json(
            json_object(self._transport.send(method, url, query=query, content=sent, headers=headers))
        )

    def check_document(self, document: JSON, *, ignore: Sequence[str] = ()) -> Verdict:
        """Whether ``import_document`` would be accepted. Raises ``DocumentError`` too."""
        upload = aim(document)
        if "modelsource" in upload.body and upload.target == ROOT and "modelsource" not in ignore:
            upload = extend_model(upload, self.modelsource())
        return self.check("PATCH", upload.target, upload.body, ignore=[*upload.ignore, *ignore])

    # Below: from requests to answers

    def _object(self, method: str, path: str, *, query: Query | None = None, body: JSON = None) -> JSONObject:
        content = None if body is None else dump_json(body)
        headers = {} if body is None else {"Content-Type": "application/json"}
        return json_object(self._transport.send(method, path, query=query, content=content, headers=headers))

    def _write_document(
        self, method: str, target: Target, content: bytes, contenttype: str | None, attributes: Mapping[str, str | None]
    ) -> Document:
        headers = {f"xRegistry-{name}": requests.encode(value) for name, value in attributes.items()}
        if contenttype is not None:
            headers["Content-Type"] = contenttype
        url = requests.path(target, details=False)
        return document(self._transport.send(method, url, content=content, headers=headers))
