"""What replication asks of a registry that speaks a draft. What it says comes and goes as attributes of xRegistry."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Protocol
from urllib.parse import quote

from signalbook.client import BadAnswer, ClientError, NotFound, Refused
from signalbook.client.transport import Transport
from signalbook.cncf.paths import entity_id
from signalbook.values import JSON, JSONError, JSONObject, parse_json
from signalbook.xid import XidError, check_id

MAX_BYTES: Final = 64 * 1024 * 1024
_MAX_DEPTH: Final = 64
_SEGMENT: Final = "!$&'()*+,;=@:%"


class Draft(Protocol):
    """An API of a draft. Ids are those of the API; a Version's attributes hold its document.

    Raises ``ClientError``, of which ``Refused`` says that a write was.
    """

    kinds: tuple[str, str]
    """Plural names of the types of Groups and Resources that it has in xRegistry."""

    @property
    def url(self) -> str:
        """Its URL, which URIs of its versions are made for."""

    def groups(self) -> Sequence[str]:
        """Ids of all groups."""

    def group(self, group: str) -> JSONObject | None:
        """A group's attributes, None if it is not there."""

    def put_group(self, group: str, attributes: Mapping[str, JSON]) -> None:
        """Create a group."""

    def members(self, group: str) -> Sequence[str]:
        """Ids of the schemas or definitions of a group; none if it is not there."""

    def versions(self, group: str, member: str) -> Iterator[tuple[int, JSONObject]]:
        """Numbers and attributes of all versions, in ascending order; none if there is no such member."""

    def holds(self, uri: str) -> bool:
        """Whether a version with this URI is there (D-5, D-6)."""

    def post(self, group: str, member: str, version: JSONObject) -> None:
        """Add a version, with its authority and its URI as its id (D-17)."""

    def delete(self, group: str, member: str, number: int) -> None:
        """Delete a version."""


class Requests:
    """Requests to an API at a URL; what is not there is None."""

    def __init__(self, url: str, *, timeout: float, headers: Mapping[str, str]) -> None:
        self.transport = Transport(url, timeout=timeout, max_bytes=MAX_BYTES, attempts=4, headers=headers)
        self.url = self.transport.base_url

    def close(self) -> None:
        """Close the connections."""
        self.transport.close()

    def json(self, *path: str) -> JSON:
        """The JSON at a path, None if nothing is there."""
        try:
            answer = self.transport.send("GET", route(*path))
        except NotFound:
            return None
        try:
            return parse_json(answer.content, max_depth=_MAX_DEPTH)
        except JSONError as error:
            raise BadAnswer(f"{answer.url}: this is no JSON: {error}") from None

    def ids(self, *path: str) -> list[str]:
        """A list of ids, of objects or as they are; what cannot be one in xRegistry is passed over."""
        found = self.json(*path) or []
        if not isinstance(found, list):
            raise BadAnswer(f"{self.url}{route(*path)}: a list is expected")
        named = (each.get("id") if isinstance(each, dict) else each for each in found)
        return [text for text in named if isinstance(text, str) and _usable(text)]

    def numbers(self, *path: str) -> list[int]:
        """A list of version numbers, in ascending order."""
        found = self.json(*path) or []
        if not isinstance(found, list) or not all(isinstance(each, int) for each in found):
            raise BadAnswer(f"{self.url}{route(*path)}: a list of numbers is expected")
        return sorted(found)

    def holds(self, path: str, uri: str) -> bool:
        """Whether there is something by this URI."""
        try:
            self.transport.send("HEAD", f"/{path}?uri={quote(uri, safe='')}")
        except NotFound:
            return False
        return True

    def features(self) -> bool:
        """Whether the API tells what it can do, as only Message Catalog 0.1 does (C-27)."""
        try:
            answer = self.transport.send("OPTIONS", "/messagecatalog")
        except ClientError:
            return False
        return b"filterattributes" in answer.content

    def delete(self, *path: str) -> None:
        """Delete what is at a path, if it is there."""
        try:
            self.transport.send("DELETE", route(*path))
        except NotFound:
            return


def route(*path: str) -> str:
    """The path of these segments, which are percent-encoded where ids are."""
    return "".join(f"/{quote(part, safe=_SEGMENT)}" for part in path)


def offers(requests: Requests, *path: str) -> JSON:
    """What is at a path, None if nothing usable is. Raises ``Unreachable``."""
    try:
        return requests.json(*path)
    except (BadAnswer, Refused):
        return None


def _usable(text: str) -> bool:
    try:
        check_id(entity_id(text))
    except XidError:
        return False
    return True
