"""Use a registry with an API of a CNCF draft as source or target of copies, with the attributes of xRegistry."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import ClassVar, Final
from urllib.parse import quote

import httpx

from signalbook.client import BadResponse, ClientError, Events, NotFound, Refused
from signalbook.client.registry import PAGE, NoHistory, ReadableRegistry, Refusal
from signalbook.client.transport import Transport
from signalbook.cncf.ids import compose, draft_id, entity_id
from signalbook.replication.comparing import (
    ComparedResource,
    Types,
    group_attributes,
    read_resource,
    read_resources,
    read_versions,
)
from signalbook.replication.copying import HIDDEN, Hints
from signalbook.replication.link import API_PATHS, Link, is_within
from signalbook.replication.report import CopyOutcome, CopyReport
from signalbook.values import JSON, JSONError, JSONObject, parse_json
from signalbook.xid import ROOT, Kind, Xid, XidError, check_id

MAX_BYTES: Final = 64 * 1024 * 1024
_MAX_JSON_DEPTH: Final = 64
_SEGMENT: Final = "!$&'()*+,;=@:%"


class CncfApi(ABC):
    """An API of a draft. Ids are those of the API. The attributes of a Version include its document.

    Methods raise ``ClientError``. ``Refused``, one of its subclasses, means that a write was rejected.
    """

    kinds: ClassVar[tuple[str, str]]
    """The plural names of its Group type and Resource type in xRegistry."""
    paths: ClassVar[tuple[str, str]]
    """The names of the collections of both in its paths."""
    lookup: ClassVar[str]
    """The path of the lookup of versions by URI."""

    def __init__(self, requests: Requests) -> None:
        self._requests = requests

    @property
    def url(self) -> str:
        """The URL of the API, which is the base of the URIs of its versions."""
        return self._requests.url

    def groups(self) -> Sequence[str]:
        """Return the ids of all groups."""
        return self._requests.ids(self.paths[0])

    @abstractmethod
    def group(self, group: str) -> JSONObject | None:
        """Return the attributes of a group, or None if it does not exist."""

    @abstractmethod
    def put_group(self, group: str, attributes: Mapping[str, JSON]) -> None:
        """Create a group."""

    def members(self, group: str) -> Sequence[str]:
        """Return the ids of the schemas or definitions of a group: none if the group does not exist."""
        return self._requests.ids(self.paths[0], group, self.paths[1])

    @abstractmethod
    def versions(self, group: str, member: str) -> Iterator[tuple[int, JSONObject]]:
        """Yield the numbers and attributes of all versions, in ascending order: none if ``member`` does not exist."""

    def holds(self, uri: str) -> bool:
        """Return True if a version with this URI exists (D-5, D-6)."""
        return self._requests.holds(self.lookup, uri)

    @abstractmethod
    def post(self, group: str, member: str, version: JSONObject) -> None:
        """Add a version, with its authority, and with its URI as its id (D-17)."""

    def delete(self, group: str, member: str, number: int) -> None:
        """Delete a version."""
        self._requests.delete(*self._build_versions_path(group, member), str(number))

    def _build_versions_path(self, group: str, member: str) -> tuple[str, ...]:
        return self.paths[0], group, self.paths[1], member, "versions"

    def _load_documents(self, group: str, member: str) -> Iterator[tuple[int, httpx.Response, str]]:
        """Yield each version of a member with its number, its document and its path."""
        path = self._build_versions_path(group, member)
        for number in self._requests.numbers(*path):
            address = route(*path, str(number))
            try:
                response = self._requests.transport.send("GET", address)
            except NotFound:
                continue  # it was deleted after the numbers were listed (D-21)
            yield number, response, address


class Requests:
    """Sends requests to an API at a URL. Methods that read return None for what does not exist."""

    def __init__(self, url: str, *, timeout: float, headers: Mapping[str, str], token: str | None = None) -> None:
        self.transport = Transport(url, timeout=timeout, max_bytes=MAX_BYTES, attempts=4, headers=headers, token=token)
        self.url = self.transport.base_url

    def close(self) -> None:
        """Close the connections."""
        self.transport.close()

    def json(self, *path: str) -> JSON:
        """Return the JSON value at a path, or None if nothing is there."""
        try:
            response = self.transport.send("GET", route(*path))
        except NotFound:
            return None
        try:
            return parse_json(response.content, max_depth=_MAX_JSON_DEPTH)
        except JSONError as error:
            raise BadResponse(f"{response.url}: this is no JSON: {error}") from None

    def ids(self, *path: str) -> list[str]:
        """Return the ids in a list of ids or of objects. Entries that cannot be an id in xRegistry are left out."""
        entries = self.json(*path) or []
        if not isinstance(entries, list):
            raise BadResponse(f"{self.url}{route(*path)}: a list is expected")
        ids = (entry.get("id") if isinstance(entry, dict) else entry for entry in entries)
        return [text for text in ids if isinstance(text, str) and _is_usable(text)]

    def numbers(self, *path: str) -> list[int]:
        """Return a list of version numbers, in ascending order."""
        numbers = self.json(*path) or []
        if not isinstance(numbers, list) or not all(isinstance(number, int) for number in numbers):
            raise BadResponse(f"{self.url}{route(*path)}: a list of numbers is expected")
        return sorted(numbers)

    def holds(self, path: str, uri: str) -> bool:
        """Return True if an entity with this URI exists."""
        try:
            self.transport.send("HEAD", f"/{path}?uri={quote(uri, safe='')}")
        except NotFound:
            return False
        return True

    def features(self) -> bool:
        """Return True if the API reports its features, as only Message Catalog 0.1 does (C-27)."""
        try:
            response = self.transport.send("OPTIONS", "/messagecatalog")
        except ClientError:
            return False
        return b"filterattributes" in response.content

    def delete(self, *path: str) -> None:
        """Delete the entity at a path, if it exists."""
        try:
            self.transport.send("DELETE", route(*path))
        except NotFound:
            return


def route(*path: str) -> str:
    """Return the path with these segments. Characters that are not allowed in a path are percent-encoded."""
    return "".join(f"/{quote(part, safe=_SEGMENT)}" for part in path)


def _is_usable(text: str) -> bool:
    try:
        check_id(entity_id(text))
    except XidError:
        return False
    return True


class CncfSource:
    """The Groups, Resources and Versions of a registry of a draft. It has no meta and no change feed."""

    partial: Final = True

    def __init__(self, draft: CncfApi) -> None:
        self._draft = draft

    @property
    def url(self) -> str:
        return self._draft.url

    def bases(self) -> Mapping[str, str]:
        """Return the URL of the API as the base of URIs."""
        return {self._draft.kinds[1]: self._draft.url}

    def model(self) -> JSONObject:
        groups, members = self._draft.kinds
        return {"groups": {groups: {"singular": groups[:-1], "resources": {members: {"singular": members[:-1]}}}}}

    def modelsource(self) -> JSONObject:
        """Return an empty model source, so that the target's model never lacks a type."""
        return {}

    def find(self, xid: Xid, *, deep: bool) -> JSONObject | None:  # noqa: ARG002 - there is but one view
        """Find an entity. A Resource always comes with all its Versions."""
        group = draft_id(xid.group_id)
        if xid.kind is Kind.GROUP:
            return self._draft.group(group)
        versions = self._load_versions(group, draft_id(xid.resource_id))
        if xid.kind is Kind.VERSION:
            return versions.get(xid.version_id)
        return {"meta": None, "versions": versions} if versions else None

    def members(
        self,
        collection: Xid,
        *,
        deep: bool,
        page: int = PAGE,  # noqa: ARG002 - there are no pages
    ) -> Iterator[tuple[str, JSONObject]]:
        listed = self._draft.groups if collection.kind is Kind.GROUPS else self._choose_lister(collection)
        for name in sorted(map(entity_id, listed()), key=str.lower):
            entity = self.find(collection / name, deep=deep)
            if entity is not None:
                yield name, entity

    def position(self) -> int:
        raise NoHistory(f"{self.url} has the API of a CNCF draft, without a change feed: copy it every so many seconds")

    def changes(self, after: int) -> Events:
        return Events(events=(), position=after, more=False)

    def mark(self, position: int) -> str:  # noqa: ARG002 - there is no history
        return ""

    def wait(self, after: int, seconds: float) -> None:  # noqa: ARG002 - there is no change feed
        time.sleep(seconds)

    def hides(self, xid: Xid) -> bool:  # noqa: ARG002 - a draft does not say
        return False

    def rights(self) -> str:
        return ""

    def _choose_lister(self, collection: Xid) -> Callable[[], Sequence[str]]:
        if collection.kind is Kind.VERSIONS:
            resource = collection.owner
            return lambda: list(self._load_versions(draft_id(resource.group_id), draft_id(resource.resource_id)))
        return lambda: self._draft.members(draft_id(collection.group_id))

    def _load_versions(self, group: str, member: str) -> JSONObject:
        return {str(number): version for number, version in self._draft.versions(group, member)}


class CncfCopy:
    """Copies from ``source`` to ``target`` what a draft can express.

    It works like ``copying.Copy``, but finds existing versions by their URIs, because the target numbers versions
    itself.
    """

    def __init__(self, source: ReadableRegistry, target: CncfApi, link: Link, report: CopyReport) -> None:
        self._source = source
        self._target = target
        self._link = link
        self._report = report
        self._types = Types(source.model())
        self._groups = ROOT / target.kinds[0]
        self._kind = target.kinds[1]

    def everything(self) -> None:
        """Compare everything. A Group stays at the target even if all its members are deleted."""
        if not self._link.scope.reaches(self._groups) or self._groups.group_type not in self._types.groups():
            return
        for name, group in self._source.members(self._groups, deep=False):
            if self._link.scope.reaches(self._groups / name):
                self._copy_group(self._groups / name, group)
        for there in (self._groups / name for name in map(entity_id, self._target.groups())):
            here = self._link.scope.here(there)
            if here is not None and self._link.scope.reaches(here) and self._source.find(here, deep=False) is None:
                self._drop_rest(here, there, set())

    def changed(self, hints: Hints) -> None:
        """Compare the Resources in ``hints``."""
        for collection, members in hints.resources.items():
            if collection.group_type == self._groups.group_type and collection.resource_type == self._kind:
                for name in sorted(members):
                    if self._link.scope.holds(collection / name):
                        self._copy_one(collection / name)

    def _copy_group(self, xid: Xid, group: JSONObject) -> None:
        there = self._link.scope.there(xid)
        if there is None:
            self._report.refuse(xid, "another group was renamed to its name")
            return
        self._ensure(xid, there, group)
        seen: set[str] = set()
        for name, resource in read_resources(self._source, xid / self._kind, self._types):
            if self._link.scope.holds(xid / self._kind / name):
                seen.add(name)
                self._copy_resource(xid / self._kind / name, there / self._kind / name, resource)
        self._drop_rest(xid, there, seen)

    def _ensure(self, xid: Xid, there: Xid, group: JSONObject) -> None:
        """Create a Group at the target if it does not exist. An existing Group is not changed."""
        if self._target.group(draft_id(there.id)) is not None:
            return
        try:
            self._target.put_group(draft_id(there.id), group_attributes(group, xid, self._types))
            self._report.count(CopyOutcome.CREATED, Kind.GROUP)
        except Refused as error:
            self._report.refuse(xid, str(error))

    def _copy_one(self, xid: Xid) -> None:
        there = self._link.scope.there(xid)
        if there is None:
            return
        resource = read_resource(self._source, xid, self._types)
        if resource is not None:
            group = self._source.find(Xid(xid.parts[:2]), deep=False)
            self._ensure(Xid(xid.parts[:2]), Xid(there.parts[:2]), group or {})
            self._copy_resource(xid, there, resource)
        else:
            self._drop(xid, there)

    def _copy_resource(self, xid: Xid, there: Xid, resource: ComparedResource) -> None:
        uris: set[str] = set()
        # The oldest first, because the target numbers versions in the order in which they arrive.
        for name, version in sorted(read_versions(self._source, xid, resource, self._types), key=_make_age_key):
            copied = self._link.copy(version, xid / "versions" / name, named=True)
            uris.add(str(copied["globaluri"]))
            self._copy_version(xid / "versions" / name, there, version, copied)
        self._prune(there, uris)

    def _copy_version(self, xid: Xid, there: Xid, version: JSONObject, copied: JSONObject) -> None:
        if reason := self._link.returns(version):
            self._report.skip(xid, reason)
        elif reason := self._link.bars(version, xid):
            self._report.refuse(xid, reason)
        # Look the version up by its URI, because the target numbers versions itself.
        elif self._target.holds(str(copied["globaluri"])):
            self._report.count(CopyOutcome.UNCHANGED, Kind.VERSION)
        else:
            try:
                self._target.post(draft_id(there.group_id), draft_id(there.resource_id), copied)
                self._report.count(CopyOutcome.CREATED, Kind.VERSION)
            except (Refused, Refusal) as error:
                self._report.refuse(xid, str(error))

    def _drop_rest(self, xid: Xid, there: Xid, seen: set[str]) -> None:
        """Delete the members of a Group at the target that are not among ``seen``."""
        for name in map(entity_id, self._target.members(draft_id(there.id))):
            if name not in seen and self._link.scope.holds(xid / self._kind / name):
                self._drop(xid / self._kind / name, there / self._kind / name)

    def _drop(self, xid: Xid, there: Xid) -> None:
        """Delete the copies of a Resource that the source does not have. Keep them if the source may only hide it."""
        if self._source.hides(xid):
            self._report.skip(xid, HIDDEN)
        else:
            self._prune(there, set())

    def _prune(self, there: Xid, uris: set[str]) -> None:
        """Delete versions whose URI is under the source's authority and not in ``uris`` (D-9)."""
        group, member = draft_id(there.group_id), draft_id(there.resource_id)
        # List all versions first: deleting while they are listed might skip some.
        for number, version in list(self._target.versions(group, member)):
            path = str(API_PATHS[self._kind](there / "versions" / str(number)))
            reference = str(version.get("globaluri") or path)
            uri = compose(str(version.get("authority") or ""), reference, self._target.url)
            if uri not in uris and is_within(uri, self._link.base(self._kind)):
                self._target.delete(group, member, number)
                self._report.count(CopyOutcome.DELETED, Kind.VERSION)


def _make_age_key(version: tuple[str, JSONObject]) -> tuple[int, str, str]:
    """Return the sort key for the order in which Versions were made: by number, then time."""
    name, attributes = version
    return (int(name) if name.isdigit() else 0, str(attributes.get("createdat", "")), name)
