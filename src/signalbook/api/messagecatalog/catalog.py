"""Read and write the messages of the registry in the form of the Message Catalog drafts (A-45, B-6, C-7, C-10)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice, zip_longest
from typing import Final

from signalbook.api.cncf import CncfPath, CncfRequest, CncfRoute, find_route
from signalbook.api.kernel.errors import Conflict
from signalbook.api.kernel.responses import Response
from signalbook.cncf.ids import MOUNTS, draft_id, entity_id, message_path
from signalbook.cncf.lookup import UriBases, find_by_uri, find_latest_number, list_version_numbers
from signalbook.cncf.messagecatalog import definitions, originals
from signalbook.cncf.messagecatalog.definitions import PostedVersion
from signalbook.cncf.messagecatalog.metaschemas import format_of
from signalbook.engine.engine import Session
from signalbook.engine.read.nodes import EntityNode
from signalbook.engine.read.pages import ListedPage, PageRequest, Position
from signalbook.engine.read.view import View, ViewOptions
from signalbook.engine.write.commands import Command, Method
from signalbook.errors import RegistryError
from signalbook.messages.definitions.normalise import find_stated_base, materialise
from signalbook.values import JSON, Finding, JSONObject
from signalbook.xid import ID, ROOT, Kind, Xid, named, version_number

FIRST, V01 = MOUNTS["messagegroups"]
CATALOG: Final = "/messagecatalog"
GROUP: Final = "/messagecatalog/{}"
DEFINITIONS: Final = "/messagecatalog/{}/messagedefinitions"
DEFINITION: Final = "/messagecatalog/{}/messagedefinitions/{}"
VERSIONS: Final = "/messagecatalog/{}/messagedefinitions/{}/versions"
VERSION: Final = "/messagecatalog/{}/messagedefinitions/{}/versions/{}"
LOOKUP: Final = "/messagedefinition"
GROUPS: Final = ROOT / "messagegroups"
_XIDS: Final = {
    CATALOG: (),
    GROUP: (),
    DEFINITIONS: ("messages",),
    DEFINITION: ("messages",),
    VERSIONS: ("messages", "versions"),
    VERSION: ("messages", "versions"),
    LOOKUP: (),
}
"""The collections that follow the ids in the xid of a path, by the template of the path."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogPath(CncfPath):
    """A path of either API. ``xid`` is the xid of the entity at this path."""

    xid: Xid = GROUPS

    @property
    def group(self) -> Xid:
        """The xid of the group in the path."""
        return Xid(self.xid.parts[:2])


def parse_path(text: str) -> CatalogPath:
    """Parse the percent-encoded path ``text``.

    Raises ``api_not_found`` for an unknown path, ``malformed_id`` and ``not_found`` for an id that no entity can have.
    """
    template, ids = find_route(_XIDS, text)
    xid = GROUPS
    for part, collection in zip_longest(ids[:2], _XIDS[template]):
        xid = xid / _parse_entity_id(part, text) if part is not None else xid
        xid = xid / collection if collection is not None else xid
    if template == VERSION:
        if version_number(ids[2]) is None:
            raise RegistryError("not_found", subject=text)
        xid = xid / ids[2]
    return CatalogPath(template=template, text=text, xid=xid, id=ids[:2][-1] if ids else "")


def _parse_entity_id(part: str, text: str) -> str:
    parsed_id = entity_id(part)
    if not ID.fullmatch(parsed_id):
        detail = "an id is a segment of a path without colon, and not too long"
        raise RegistryError("malformed_id", subject=text, id=part[:200], error_detail=detail)
    return parsed_id


@dataclass(frozen=True, kw_only=True)
class CatalogRequest(CncfRequest[CatalogPath]):
    """A request to one of the two Message Catalog APIs."""

    @property
    def places(self) -> UriBases:
        """The base URLs from which the URIs of versions are built."""
        return UriBases(groups="messagegroups", root=self.root)

    def url(self, xid: Xid) -> str:
        """Return the URL of an entity in this API."""
        return f"{self.base}{message_path(xid)}"


BATCH: Final = 500
"""The number of members of a collection that are read together."""


class CatalogView:
    """The message catalog that a ``request`` reads, in a ``view`` of the registry.

    Raises ``api_not_found`` if the model has no messages. Its methods raise ``not_found`` for missing entities.
    """

    def __init__(self, view: View, request: CatalogRequest) -> None:
        messagegroups = view.model.groups.get("messagegroups")
        if messagegroups is None or "messages" not in messagegroups.resources:
            detail = "the model of this registry has no messages"
            raise RegistryError("api_not_found", subject="/messagecatalog", detail=detail)
        self.view = view
        self._root = request.root
        self.options = ViewOptions(max_bytes=request.settings.max_response_bytes)

    def group(self, xid: Xid) -> JSONObject:
        """Return a group in xRegistry's form."""
        return self.view.render_entity(xid, self.options)

    def format(self, xid: Xid) -> str:
        """Return the format of a group."""
        return format_of(self.group(xid))

    def latest(self, xid: Xid) -> JSONObject:
        """Return the version of a message with the highest number (A-18)."""
        version = self.find_latest(xid)
        if version is None:
            raise RegistryError("not_found", subject=str(xid), detail="none of its versions has a number")
        return version

    def find_latest(self, xid: Xid) -> JSONObject | None:
        """Return the ``latest`` version, or None if no version has a number (J-10)."""
        number = find_latest_number(self.view, xid)
        return None if number is None else self.version(xid / "versions" / str(number))

    def version(self, xid: Xid) -> JSONObject:
        """Return a version of a message, completed by the message it derives from (J-18)."""
        return self._complete_version(self.view.render_entity(xid, self.options))

    def numbers(self, xid: Xid) -> list[int]:
        """Return the numbers of a message's versions, ascending."""
        return list_version_numbers(self.view, xid)

    def versions(self, xid: Xid) -> list[JSONObject]:
        """Return the versions of a message that have numbers, the newest first."""
        collection = self.view.render_collection(xid / "versions", self.options)
        numbered = {version_number(versionid): version for versionid, version in collection.items()}
        return [self._complete_version(numbered[number]) for number in sorted(filter(None, numbered), reverse=True)]

    def newest(self, xid: Xid, most: int) -> Iterator[JSONObject]:
        """Yield the stored versions of a message with the ``most`` highest numbers, the newest first."""
        row = self.view.reader.get(xid)
        if row is None:
            return
        # Read by descending numbers in batches, because a definition may have thousands of versions.
        for first in range(row.versioncounter, max(row.versioncounter - most, 0), -BATCH):
            versionids = [str(number) for number in range(first, max(first - BATCH, 0), -1)]
            rows = {
                version.xid.id: version for version in self.view.reader.children([row.key], "versions", ids=versionids)
            }
            yield from (
                {**rows[versionid].attributes, "versionid": versionid} for versionid in versionids if versionid in rows
            )

    def page(self, collection: Xid, page: PageRequest) -> tuple[list[Xid], ListedPage[EntityNode]]:
        """Return the groups of the catalog, or the visible definitions of a group, on a page, and the page itself."""
        listed = self.view.list_members(collection, self.options, page)
        return [node.xid for node in listed.members if self._is_seen(node)], listed

    def members(self, collection: Xid, after: str = "") -> Iterator[Xid]:
        """Yield the members that ``page`` shows after the folded id ``after``."""
        position = Position(id=after) if after else None
        while True:
            xids, listed = self.page(
                collection, PageRequest(limit=BATCH, after=position, total=0 if position else None)
            )
            yield from xids
            if listed.following is None:
                return
            position = listed.following

    def _complete_version(self, version: JSONObject) -> JSONObject:
        if find_stated_base(version):
            version = {**materialise(version, self._load_base).definition, "messageid": version["messageid"]}
        other = version.get("relatedto")
        # A relation to a deleted definition is left out, whichever API deleted it (C-15).
        if isinstance(other, str) and not self.view.exists(Xid.parse(version["xid"]).resource.parent / other):
            return {name: value for name, value in version.items() if name != "relatedto"}
        return version

    def _is_seen(self, node: EntityNode) -> bool:
        """Return True if a definition is visible: it has a version with a number (J-10)."""
        default = node.row.defaultversionid
        # The default Version of most definitions has a number, so no further query is needed.
        if node.xid.kind is Kind.GROUP or (default is not None and version_number(default) is not None):
            return True
        try:
            return find_latest_number(self.view, node.xid) is not None
        except RegistryError:  # a cross reference to nothing
            return False

    def _load_base(self, reference: str) -> Mapping[str, JSON] | None:
        xid = named(reference, self._root)
        if xid is None or self.view.model.resource_type(xid) is None:
            return None
        try:
            return self.view.render_entity(xid, self.options)
        except RegistryError:
            return None


_MOST_FAULTS: Final = 100
_COMPARED: Final = 1000
"""The number of versions that are compared to find an identical one, the newest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """The result of a write: the entity, and whether it is new."""

    xid: Xid
    created: bool


class CatalogWriter:
    """Executes a write in its transaction. Raises ``RegistryError`` and ``Conflict``."""

    def __init__(self, session: Session, request: CatalogRequest) -> None:
        self._session = session
        self._request = request

    @property
    def catalog(self) -> CatalogView:
        """The catalog, including the changes of this transaction."""
        return CatalogView(self._session.view, self._request)

    def put_group(self, xid: Xid, body: JSONObject, *, fixed: bool) -> Written:
        """Create or change a group. With ``fixed``, its format cannot change even if it has no definitions (C-2)."""
        new = not self._session.view.exists(xid)
        if not new:
            self._check_format(xid, definitions.read_format(body), fixed=fixed)
        before = {} if new else self.catalog.group(xid)
        attributes = definitions.group_attributes(body, before) if fixed else definitions.first_group_attributes(body)
        changed = {name: value for name, value in attributes.items() if before.get(name) != value}
        if new or changed:
            self._execute(Method.PATCH, xid, changed)
        return Written(xid=xid, created=new)

    def delete(self, xid: Xid) -> None:
        """Delete an entity with everything below it, or all members of a collection."""
        # Deleting an empty collection succeeds, but its owner has to exist.
        if not xid.is_collection or not self._session.view.exists(xid):
            self.catalog.view.render_entity(xid.owner if xid.is_collection else xid, self.catalog.options)
        self._session.execute(Command(method=Method.DELETE, target=xid))

    def add(self, group: Xid, posted: PostedVersion) -> Written:
        """Add a version to a definition, which is created if it is new. Return the version.

        If the definition already has an identical version, return that version and write nothing.
        """
        catalog = self.catalog
        owner = catalog.group(group)
        form = format_of(owner)
        xid = group / "messages" / entity_id(posted.id)
        exists = catalog.view.exists(xid)
        before = catalog.find_latest(xid) if exists else None
        same = self._find_identical(form, xid, posted) if exists else None
        if same is not None:
            return Written(xid=xid / "versions" / same, created=False)
        attributes = definitions.build_definition_attributes(form, posted, owner, before)
        result = self._execute(Method.POST, xid, attributes)
        return Written(xid=result, created=True)

    def _check_format(self, xid: Xid, requested: str, *, fixed: bool) -> None:
        there = self.catalog.format(xid)
        if requested != there and (fixed or next(self.catalog.members(xid / "messages"), None) is not None):
            raise Conflict(str(xid), f"the group has the format {there}, which cannot become {requested}")

    def _execute(self, method: Method, target: Xid, body: JSONObject) -> Xid:
        command = Command(method=method, target=target, body=body, base_url=self._request.root, counts_on=True)
        return self._session.execute(command).target

    def _find_identical(self, format: str, xid: Xid, posted: PostedVersion) -> str | None:
        """Return the number of the newest version that is identical to the posted one (A-45), or None.

        Versions that derive from another message are never identical, because the drafts cannot post such versions.
        """
        candidates = (version for version in self.catalog.newest(xid, _COMPARED) if _has_uri(version, posted))
        if posted.content is not None:
            name = draft_id(xid.id)
            matches = (
                v
                for v in candidates
                if originals.render_content(format, name, int(v["versionid"]), v) == posted.content
                and _has_members(posted.document, definitions.describe(v))
            )
        else:
            shared = definitions.describe(self.catalog.find_latest(xid) or {})
            if not _has_members(posted.document, shared):
                return None
            matches = (v for v in candidates if originals.restore_definition(format, v) == posted.definition)
        version = next(matches, None)
        return None if version is None else str(version["versionid"])


def refuse(subject: str, faults: Iterable[Finding]) -> None:
    """Raise ``bad_request`` with all ``faults``, at most a hundred."""
    findings = list(islice(faults, _MOST_FAULTS))
    if findings:
        detail = "one thing is wrong" if len(findings) == 1 else f"{len(findings)} things are wrong"
        raise RegistryError("bad_request", subject=subject, error_detail=f"{detail} with the document", faults=findings)


def check_type(xid: Xid, format: str, posted: PostedVersion, before: JSONObject) -> None:
    """Check that the identity of the message does not change (B-6)."""
    old = definitions.criteria(format, originals.restore_definition(format, before))
    new = definitions.criteria(format, posted.definition)
    if old is not None and new is not None and old != new:
        raise Conflict(str(xid), f"the definition is of type {old!r}, which no version of it changes")


def check_authority(xid: Xid, posted: PostedVersion, before: JSONObject) -> None:
    """Check that the authority of a definition does not change (C-3)."""
    authority, there = posted.document.get("authority"), before.get("authority")
    if authority and there and authority != there:
        raise Conflict(str(xid), f"the definition has the authority {there}, which no version of it changes")


def _has_members(document: JSONObject, shared: JSONObject) -> bool:
    """Return True if the definition already has the attributes that a document states about it."""
    ignored = definitions.SERVER | {"versionuri"}
    return all(shared.get(name) == value for name, value in document.items() if name not in ignored)


def _has_uri(version: JSONObject, posted: PostedVersion) -> bool:
    """Return True if a version may be the posted one: a version with another URI never is."""
    uri = posted.document.get("versionuri")
    return not uri or uri == version.get("globaluri")


Read = Callable[[CatalogView, CatalogRequest], Response]
Write = Callable[[CatalogWriter, CatalogRequest], Response]
Routes = Mapping[str, CncfRoute[Read, Write]]


def delete(writing: CatalogWriter, request: CatalogRequest) -> Response:
    """Delete the entity or the members of the collection in the path."""
    writing.delete(request.path.xid)
    return Response(status=204)


def lookup(catalog: CatalogView, request: CatalogRequest) -> Xid:
    """Return the xid of the version that the parameter ``uri`` names (A-43b, A-54).

    Raises ``bad_request`` without the parameter, and ``not_found`` if no version has this URI.
    """
    uri = request.uri
    xid = find_by_uri(catalog.view, uri, request.places)
    if xid is None:
        raise RegistryError("not_found", subject=request.path.text, detail=f"no version has the URI {uri[:500]}")
    return xid
