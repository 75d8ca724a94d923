"""Use a registry over HTTP through the interface of ``client.registry``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from itertools import islice
from typing import Final, Unpack

from signalbook.client.client import Client
from signalbook.client.registry import (
    PAGE,
    URI_APIS,
    NoHistory,
    Pruned,
    Refusal,
    Registry,
    TooLarge,
    WriteChecks,
    mark_of,
    refuse_doubts,
)
from signalbook.client.responses import BadResponse, ClientError, Events, NotFound, Refused, Unreachable
from signalbook.client.transport import ReadFlags
from signalbook.values import Finding, JSONObject
from signalbook.verdict import Verdict
from signalbook.xid import ROOT, Kind, Xid

MAX_BYTES: Final = 128 * 1024 * 1024
"""The largest response that replication holds at once."""
_EVENTS: Final = 10_000
_ITEMS: Final = 100
_BUSY: Final = (HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.BAD_GATEWAY)
_LISTS: Final = {"schemas": "/schemagroups", "messages": "/messagecatalog?limit=1"}


class RemoteRegistry:
    """A registry that is used over HTTP. It implements ``registry.Registry``."""

    partial: Final = False

    def __init__(self, client: Client) -> None:
        self._client = client
        self._url: str | None = None

    @property
    def url(self) -> str:
        if self._url is None:
            shown = self._client.get(ROOT).get("self")
            self._url = shown.rstrip("/") if isinstance(shown, str) else self._client.base_url
        return self._url

    def bases(self) -> Mapping[str, str]:
        """Return the URLs of the CNCF APIs by type of Resource. Only Signalbook servers have them."""
        apis = URI_APIS.items()
        return {kind: self.url + path for kind, path in apis if self._client.offers(f"{path}{_LISTS[kind]}")}

    def model(self) -> JSONObject:
        return self._client.model()

    def modelsource(self) -> JSONObject:
        return self._client.modelsource()

    def find(self, xid: Xid, *, deep: bool) -> JSONObject | None:
        try:
            return self._client.get(xid, **_choose_flags(xid.kind, deep=deep))
        except NotFound:
            return None
        except ClientError as error:
            raise _explain_read_error(error) from None

    def members(self, collection: Xid, *, deep: bool, page: int = PAGE) -> Iterator[tuple[str, JSONObject]]:
        """Yield the ids and bodies of the members, loading a page at a time; nothing if the collection is missing."""
        kind = {Kind.GROUPS: Kind.GROUP, Kind.RESOURCES: Kind.RESOURCE}.get(collection.kind, Kind.VERSION)
        try:
            yield from self._client.items(collection, limit=page, **_choose_flags(kind, deep=deep))
        except NotFound:
            return
        except ClientError as error:
            raise _explain_read_error(error) from None

    def get(self, xid: Xid, **flags: Unpack[ReadFlags]) -> JSONObject:
        return self._client.get(xid, **flags)

    def items(
        self, xid: Xid, *, limit: int | None = None, **flags: Unpack[ReadFlags]
    ) -> Iterator[tuple[str, JSONObject]]:
        """Return an iterator over at most ``limit`` members, loading a page at a time."""
        page = _ITEMS if limit is None else min(_ITEMS, limit)
        return islice(self._client.items(xid, limit=page, **flags), limit)

    def export(self, target: Xid) -> Iterator[bytes]:
        return self._client.export_stream(target)

    def patch(self, target: Xid, body: JSONObject, *, ignore: Sequence[str] = ()) -> None:
        try:
            self._client.patch(target, body, ignore=["epoch", *ignore])
        except Refused as error:
            raise _explain_write_error(error) from None

    def patch_reviewed(
        self, target: Xid, body: JSONObject, *, ignore: Sequence[str] = (), strict: bool = False
    ) -> tuple[Finding, ...]:
        """Check the write on the server to get its findings, then write. Answers to writes contain no findings."""
        findings = self._review(target, body, ignore, strict=strict).findings
        self.patch(target, body, ignore=ignore)
        return findings

    def _review(self, target: Xid, body: JSONObject, ignore: Sequence[str], *, strict: bool) -> Verdict:
        """Return the server's verdict on a PATCH, or an empty verdict if the server cannot check writes.

        With ``strict``, findings or a server that cannot check raise ``Refusal``.
        """
        try:
            verdict = self._client.check("PATCH", target, body, ignore=["epoch", *ignore])
        except NotFound:
            if strict:
                raise Refusal("this server does not check writes (/check), which a strict import needs") from None
            return Verdict()
        if strict and verdict.accepted:
            refuse_doubts(verdict)
        return verdict

    def add_version(self, resource: Xid, content: bytes, attributes: JSONObject) -> Xid:
        other_attributes = {name: value for name, value in attributes.items() if name != "contenttype"}
        try:
            stored = self._client.post_document(
                resource, content, contenttype=attributes.get("contenttype"), attributes=other_attributes
            )
        except Refused as error:
            raise _explain_write_error(error) from None
        return resource / "versions" / stored.attributes["versionid"]

    def delete(self, collection: Xid, ids: Sequence[str]) -> None:
        try:
            self._client.delete_members(collection, ids)
        except NotFound:
            return
        except Refused as error:
            raise _explain_write_error(error) from None

    def replace_model(self, source: JSONObject) -> None:
        try:
            self._client.put_modelsource(source)
        except Refused as error:
            raise _explain_write_error(error) from None

    @contextmanager
    def consistent(self) -> Iterator[Registry]:
        """Yield this registry itself, because a server cannot keep its content unchanged for a client."""
        yield self

    @contextmanager
    def trying(self) -> Iterator[Registry]:
        """Yield a registry that only checks writes on the server and never makes them."""
        yield _Trial(self._client)

    @contextmanager
    def checking(self) -> Iterator[WriteChecks]:
        """Yield checks by the server. Each write is checked alone: earlier writes do not count for later checks."""
        yield RemoteChecks(self._client)

    def position(self) -> int:
        try:
            return self._client.last_event()
        # A server without a change feed may return a web page there instead of 404.
        except (NotFound, BadResponse) as error:
            raise NoHistory(
                f"{self.url} has no change feed to follow: copy it every so many seconds ({error})"
            ) from None

    def changes(self, after: int) -> Events:
        try:
            return self._client.events(after, limit=_EVENTS)
        except Refused as error:
            if error.status == HTTPStatus.GONE:
                raise Pruned(str(error)) from None
            raise

    def mark(self, position: int) -> str:
        if not position:
            return ""
        try:
            return mark_of(self._client.events(position - 1, limit=1).events, position)
        except Refused:
            return ""

    def wait(self, after: int, seconds: float) -> None:
        self._client.wait_for_event(after, seconds)

    def hides(self, xid: Xid) -> bool:
        """Return True if the server says that this client may not read ``xid``.

        Only Signalbook servers report rights. For other servers, False is returned.
        """
        caller = self._find_caller(xid)
        return bool(caller.get("restricted")) and "read" not in caller["may"]

    def rights(self) -> str:
        caller = self._find_caller(ROOT)
        return f"{caller.get('policy', 0)} {caller['name']}" if caller.get("restricted") else ""

    def _find_caller(self, xid: Xid) -> JSONObject:
        try:
            return self._client.access.whoami(str(xid))
        except (NotFound, BadResponse):
            return {}


class _Trial(RemoteRegistry):
    """A remote registry whose writes are only checked by the server, if it has the API for that."""

    _asked = False

    def patch(self, target: Xid, body: JSONObject, *, ignore: Sequence[str] = ()) -> None:
        self.patch_reviewed(target, body, ignore=ignore)

    def patch_reviewed(
        self, target: Xid, body: JSONObject, *, ignore: Sequence[str] = (), strict: bool = False
    ) -> tuple[Finding, ...]:
        """Check a PATCH and return its findings. Raises like a write that the server refuses.

        Only the first write is checked. A later one may depend on it, and the server does not keep checked writes.
        """
        was_asked, self._asked = self._asked, True
        if was_asked:
            return ()
        verdict = self._review(target, body, ignore, strict=strict)
        for error in verdict.errors:
            raise _explain_write_error(Refused(int(error.get("status", HTTPStatus.BAD_REQUEST)), error))
        return verdict.findings

    def add_version(self, resource: Xid, content: bytes, attributes: JSONObject) -> Xid:
        """Raise ``NotImplementedError``, because there is no new Version whose xid could be returned."""
        raise NotImplementedError("a trial adds no Version; ask checking().version")


class RemoteChecks:
    """Checks of writes by a server. It implements ``registry.WriteChecks``."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def patch(self, target: Xid, body: JSONObject, *, ignore: Sequence[str] = ()) -> Verdict:
        return self._client.check("PATCH", target, body, ignore=["epoch", *ignore])

    def version(self, xid: Xid, content: bytes, format: str, compatibility: str | None) -> Verdict:
        attributes = {"format": format}
        return self._client.check("POST", xid, content=content, attributes=attributes, compatibility=compatibility)

    def format_of(self, xid: Xid) -> str:
        try:
            return str(self._client.get(xid).get("format") or "")
        except NotFound:
            return ""


def _choose_flags(kind: Kind, *, deep: bool) -> ReadFlags:
    """Return the request flags for reading an entity of this ``kind``. A Version always includes its document."""
    flags: ReadFlags = {"doc": True, "binary": True}
    if kind is Kind.REGISTRY:
        flags["inline"] = ["capabilities"]
    elif deep or kind is Kind.VERSION:
        flags["inline"] = ["*"]
    elif kind is Kind.RESOURCE:
        flags["inline"] = ["meta"]
    return flags


def _explain_read_error(error: ClientError) -> Exception:
    """Return the error to raise for a failed read: ``TooLarge`` if the response was too large, else ``error``."""
    if isinstance(error, BadResponse) and "larger than" in str(error):
        return TooLarge(str(error))
    if isinstance(error, Refused) and error.code == "too_large":
        return TooLarge(str(error))
    return error


def _explain_write_error(error: Refused) -> Exception:
    """Return the error to raise for a failed write.

    ``Unreachable`` means that the server is busy and the write may be repeated, ``Refusal`` that it was rejected.
    """
    if error.status in _BUSY:
        return Unreachable(str(error))
    return Refusal(str(error), status=error.status, subject=error.subject, faults=error.faults)
