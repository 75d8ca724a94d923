"""What both drafts write: groups, and versions that come to definitions (domain.md A-45, B-6, C-7, C-10)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Final

from signalbook.api.messagecatalog.catalog import Catalog
from signalbook.api.messagecatalog.requests import Request
from signalbook.api.problems import Conflict
from signalbook.cncf.ids import compose, draft_id, entity_id, message_path
from signalbook.cncf.messagecatalog import definitions, originals
from signalbook.cncf.messagecatalog.definitions import Posted
from signalbook.cncf.messagecatalog.metaschemas import format_of
from signalbook.engine import uris
from signalbook.engine.commands import Command, Method
from signalbook.engine.engine import Session
from signalbook.engine.view import View
from signalbook.errors import RegistryError
from signalbook.values import Finding, JSONObject
from signalbook.xid import Xid

_MOST_FAULTS: Final = 100
_COMPARED: Final = 1000
"""Versions that are looked at for an identical one, the newest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What became of an entity: where it is, and whether it is new."""

    xid: Xid
    created: bool


class Writing:
    """One request that writes, in its transaction. Raises ``RegistryError`` and ``Conflict``."""

    def __init__(self, session: Session, request: Request) -> None:
        self._session = session
        self._request = request

    @property
    def catalog(self) -> Catalog:
        """The catalog with what was written so far."""
        return open_catalog(self._session.view, self._request)

    def put_group(self, xid: Xid, body: JSONObject, *, fixed: bool) -> Written:
        """Create a group or change it; ``fixed`` tells that its format stays even without definitions (C-2)."""
        new = not self._session.view.exists(xid)
        if not new:
            self._check_format(xid, definitions.stated_format(body), fixed=fixed)
        before = {} if new else self.catalog.group(xid)
        attributes = definitions.group_attributes(body, before) if fixed else definitions.first_group_attributes(body)
        changed = {name: value for name, value in attributes.items() if before.get(name) != value}
        if new or changed:
            self._execute(Method.PATCH, xid, changed)
        return Written(xid=xid, created=new)

    def delete(self, xid: Xid) -> None:
        """Delete an entity with all beneath it, or all members of a collection."""
        if not xid.is_collection or not self._session.view.exists(xid):
            self.catalog.view.entity(xid.owner if xid.is_collection else xid, self.catalog.options)
        self._session.execute(Command(method=Method.DELETE, target=xid))

    def add(self, group: Xid, posted: Posted) -> Written:
        """A new version of a definition, the first one of a new definition, or the identical one that is there."""
        catalog = self.catalog
        owner = catalog.group(group)
        form = format_of(owner)
        xid = group / "messages" / entity_id(posted.id)
        exists = catalog.view.exists(xid)
        before = catalog.find_latest(xid) if exists else None
        same = self._identical(form, xid, posted) if exists else None
        if same is not None:
            return Written(xid=xid / "versions" / same, created=False)
        attributes = definitions.definition_attributes(form, posted, owner, before)
        if attributes.get("globaluri"):
            self._check_unique(attributes)
        result = self._execute(Method.POST, xid, attributes)
        return Written(xid=result, created=True)

    def _check_format(self, xid: Xid, wanted: str, *, fixed: bool) -> None:
        there = self.catalog.format(xid)
        if wanted != there and (fixed or next(self.catalog.members(xid / "messages"), None) is not None):
            raise Conflict(str(xid), f"the group has the format {there}, which cannot become {wanted}")

    def _execute(self, method: Method, target: Xid, body: JSONObject) -> Xid:
        command = Command(method=method, target=target, body=body, base_url=self._request.root)
        return self._session.execute(command).target

    def _identical(self, format: str, xid: Xid, posted: Posted) -> str | None:
        """The number of the newest version that is what was posted (A-45), None if none is.

        One that derives from another message is never what a draft was given.
        """
        known = (version for version in self.catalog.newest(xid, _COMPARED) if _has_uri(version, posted))
        if posted.content is not None:
            name = draft_id(xid.id)
            found = (
                v for v in known if originals.render_content(format, name, int(v["versionid"]), v) == posted.content
            )
        else:
            shared = definitions.describe(self.catalog.find_latest(xid) or {})
            if not _says(posted.document, shared):
                return None
            found = (v for v in known if originals.sent_definition(format, v) == posted.definition)
        version = next(found, None)
        return None if version is None else str(version["versionid"])

    def _check_unique(self, attributes: JSONObject) -> None:
        """No two versions have one URI (A-21)."""
        base = self._request.base
        uri = compose(str(attributes.get("authority") or ""), attributes["globaluri"], base)
        found = uris.find(self._session.view, uri, self._request.places)
        if found is not None:
            raise Conflict(str(found), f"the version {message_path(found)} has the URI {uri} already")


def open_catalog(view: View, request: Request) -> Catalog:
    """The catalog that a request is about."""
    return Catalog(view, request.root, request.settings.max_response_bytes)


def refuse(subject: str, faults: Iterable[Finding]) -> None:
    """Raise ``bad_request`` with all ``faults`` there are, up to a hundred."""
    found = list(islice(faults, _MOST_FAULTS))
    if found:
        detail = "one thing is wrong" if len(found) == 1 else f"{len(found)} things are wrong"
        raise RegistryError("bad_request", subject=subject, error_detail=f"{detail} with the document", faults=found)


def check_type(xid: Xid, format: str, posted: Posted, before: JSONObject) -> None:
    """What identifies the message stays (B-6)."""
    old = definitions.criteria(format, originals.sent_definition(format, before))
    new = definitions.criteria(format, posted.definition)
    if old is not None and new is not None and old != new:
        raise Conflict(str(xid), f"the definition is of type {old!r}, which no version of it changes")


def check_authority(xid: Xid, posted: Posted, before: JSONObject) -> None:
    """The authority of a definition stays (C-3)."""
    wanted, there = posted.document.get("authority"), before.get("authority")
    if wanted and there and wanted != there:
        raise Conflict(str(xid), f"the definition has the authority {there}, which no version of it changes")


def _says(document: JSONObject, shared: JSONObject) -> bool:
    """Whether what a document says of its definition is so already."""
    own = definitions.SERVER | {"versionuri"}
    return all(shared.get(name) == value for name, value in document.items() if name not in own)


def _has_uri(version: JSONObject, posted: Posted) -> bool:
    """Whether a version may be what was posted: one with another URI is another version, whatever is in it."""
    wanted = posted.document.get("versionuri")
    return not wanted or wanted == version.get("globaluri")
