"""A registry behind the xRegistry API."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import Final

from signalbook.client import BadAnswer, Client, ClientError, NotFound, ReadFlags, Refused, Unreachable
from signalbook.replication.link import DOORS
from signalbook.replication.registry import PAGE, Changes, Closed, NoHistory, Pruned, Refusal, TooLarge, mark_of
from signalbook.values import JSONObject
from signalbook.xid import ROOT, Kind, Xid

MAX_BYTES: Final = 128 * 1024 * 1024
"""The largest answer that is held at once."""
_EVENTS: Final = 10_000
_BUSY: Final = (HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.BAD_GATEWAY)

_LISTS: Final = {"schemas": "/schemagroups", "messages": "/messagecatalog?limit=1"}
_CLOSED: Final = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.METHOD_NOT_ALLOWED)


class RemoteRegistry:
    """A registry behind its API, as ``registry.Registry`` says."""

    partial: Final = False

    def __init__(self, client: Client) -> None:
        self._client = client
        self._url: str | None = None

    @property
    def url(self) -> str:
        """As the protocol says."""
        if self._url is None:
            shown = self._client.get(ROOT).get("self")
            self._url = shown.rstrip("/") if isinstance(shown, str) else self._client.base_url
        return self._url

    def bases(self) -> Mapping[str, str]:
        """As the protocol says: the drafts' APIs, if it is a Signalbook."""
        return {kind: self.url + path for kind, path in DOORS.items() if self._client.offers(f"{path}{_LISTS[kind]}")}

    def model(self) -> JSONObject:
        """As the protocol says."""
        return self._client.model()

    def modelsource(self) -> JSONObject:
        """As the protocol says."""
        return self._client.modelsource()

    def replace_model(self, source: JSONObject) -> None:
        """As the protocol says."""
        try:
            self._client.put_modelsource(source)
        except Refused as error:
            raise _refusal(error) from None

    def find(self, xid: Xid, *, deep: bool) -> JSONObject | None:
        """As the protocol says."""
        try:
            return self._client.get(xid, **_flags(xid.kind, deep=deep))
        except NotFound:
            return None
        except ClientError as error:
            raise _too_large(error) from None

    def members(self, collection: Xid, *, deep: bool, page: int = PAGE) -> Iterator[tuple[str, JSONObject]]:
        """As the protocol says; a page at a time."""
        kind = {Kind.GROUPS: Kind.GROUP, Kind.RESOURCES: Kind.RESOURCE}.get(collection.kind, Kind.VERSION)
        try:
            yield from self._client.items(collection, limit=page, **_flags(kind, deep=deep))
        except NotFound:
            return
        except ClientError as error:
            raise _too_large(error) from None

    def patch(self, target: Xid, body: JSONObject) -> None:
        """As the protocol says."""
        try:
            self._client.patch(target, body, ignore=["epoch"])
        except Refused as error:
            raise _refusal(error) from None

    def delete(self, collection: Xid, ids: Sequence[str]) -> None:
        """As the protocol says."""
        try:
            self._client.delete_members(collection, ids)
        except NotFound:
            return
        except Refused as error:
            raise _refusal(error) from None

    def position(self) -> int:
        """As the protocol says."""
        try:
            return self._client.last_event()
        except (NotFound, BadAnswer) as error:
            raise NoHistory(
                f"{self.url} has no change feed to follow: copy it every so many seconds ({error})"
            ) from None

    def changes(self, after: int) -> Changes:
        """As the protocol says."""
        try:
            found = self._client.events(after, limit=_EVENTS)
        except Refused as error:
            if error.status == HTTPStatus.GONE:
                raise Pruned(str(error)) from None
            raise
        return Changes(events=found.events, position=found.position, more=found.more)

    def mark(self, position: int) -> str:
        """As the protocol says."""
        if not position:
            return ""
        try:
            return mark_of(self._client.events(position - 1, limit=1).events, position)
        except Refused:
            return ""

    def wait(self, after: int, seconds: float) -> None:
        """As the protocol says."""
        self._client.wait_for_event(after, seconds)


def _flags(kind: Kind, *, deep: bool) -> ReadFlags:
    """A Version always comes with its document."""
    flags: ReadFlags = {"doc": True, "binary": True}
    if deep or kind is Kind.VERSION:
        flags["inline"] = ["*"]
    elif kind is Kind.RESOURCE:
        flags["inline"] = ["meta"]
    return flags


def _too_large(error: ClientError) -> Exception:
    """What a failed read is: too large, or what it was."""
    if isinstance(error, BadAnswer) and "larger than" in str(error):
        return TooLarge(str(error))
    if isinstance(error, Refused) and error.code == "too_large":
        return TooLarge(str(error))
    return error


def _refusal(error: Refused) -> Exception:
    """What a failed write is: refused for good, or to be tried again."""
    if error.status in _CLOSED:
        return Closed(f"the target takes no copies: {error.status}: {error}")
    if error.status in _BUSY:
        return Unreachable(str(error))
    return Refusal(f"{error.status}: {error}")
