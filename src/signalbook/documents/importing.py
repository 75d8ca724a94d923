"""What a document is about, the request that brings it into a registry, and what of it is new there.

PATCH touches every entity it names, and new epochs and events report it, so that what says nothing new is left out.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from signalbook.documents.errors import DocumentError
from signalbook.values import JSON, JSONError, JSONObject, parse_json
from signalbook.xid import ROOT, Kind, Xid, XidError

_MODEL_KEYS: Final = frozenset({"$schema", "attributes", "description", "documentation", "groups", "icon", "labels"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """A document as the body of a PATCH on ``target`` (an entity or a collection).

    PATCH creates and changes what it names and leaves the rest alone (R50, R144). ``ignore`` is the flag of that name:
    epochs are those of another day, and the id is that of another registry.
    """

    target: Xid
    body: JSONObject
    ignore: tuple[str, ...] = ("epoch",)


def aim(document: JSON, *, to: Xid | None = None) -> Upload:
    """Return the place for ``document``: ``to`` names it, else the document itself.

    It can be a registry's, a Group's, a Resource's, a Version's or a collection's (as exported: their ``xid`` tells), a
    model source, or, without any of these signs, a map of Groups. Raises ``DocumentError``.
    """
    if not isinstance(document, dict):
        raise DocumentError("a registry document is a JSON object")
    if to is not None:
        return Upload(target=to, body=_without_identity(document, to))
    if is_model(document):
        return Upload(target=ROOT, body={"modelsource": document})
    target = target_of(document)
    if target == ROOT and "registryid" in document:
        return Upload(target=ROOT, body=document, ignore=("epoch", "id"))
    return Upload(target=target, body=document)


def extend_model(upload: Upload, current: JSONObject) -> Upload:
    """``upload`` with a ``modelsource`` that keeps the Group types and attributes of ``current`` it does not name.

    Sent as it is, it would take the place of the registry's whole model. Left out if it changes nothing.
    """
    given = upload.body["modelsource"]
    if not isinstance(given, dict):
        return upload
    # One level deep: a Group type that is given replaces the one of that name, as the model language has it.
    wanted = {**current, **given}
    for name in ("groups", "attributes"):
        if isinstance(given.get(name), dict) and isinstance(current.get(name), dict):
            wanted[name] = {**current[name], **given[name]}
    body = {name: value for name, value in upload.body.items() if name != "modelsource"}
    return replace(upload, body=body if wanted == current else {"modelsource": wanted, **body})


def _without_identity(document: JSONObject, to: Xid) -> JSONObject:
    """``document`` under another name: its ids go. Raises ``DocumentError`` if it is no such thing as ``to``."""
    own = target_of(document)
    if own != ROOT and own.kind is not to.kind:
        raise DocumentError(f"it is a {own.kind} ({own}) and cannot become {to}, a {to.kind}")
    names = {"xid", "self", "shortself"}
    if own != ROOT and not own.is_collection:
        names |= {name for name, value in document.items() if name.endswith("id") and value == own.id}
    return {name: value for name, value in document.items() if name not in names}


def is_model(document: JSONObject) -> bool:
    """Return True if ``document`` is a model source and not an entity."""
    groups = document.get("groups")
    return (
        document.keys() <= _MODEL_KEYS
        and isinstance(groups, dict)
        and all(isinstance(group, dict) and group.keys() & {"singular", "resources"} for group in groups.values())
    )


def target_of(document: JSONObject) -> Xid:
    """The entity or collection that ``document`` is, by its own words; the Registry without any."""
    if isinstance(document.get("xid"), str):
        return _parse_xid(document["xid"])
    members = [value.get("xid") if isinstance(value, dict) else None for value in document.values()]
    xids = [_parse_xid(xid) for xid in members if isinstance(xid, str)]
    parents = {xid.parent for xid in xids}
    # Every member has to be an entity of one and the same collection: a map of anything else is no export of one.
    if len(xids) == len(members) and len(parents) == 1 and (parent := parents.pop()).is_collection:
        return parent
    return ROOT


def _parse_xid(text: str) -> Xid:
    try:
        return Xid.parse(text)
    except XidError as error:
        raise DocumentError(f"its xid {text!r} is none: {error}") from None


_NO_COLLECTIONS: Final = frozenset(
    {"capabilities", "constraints", "deprecated", "envelopemetadata", "envelopeoptions", "labels", "meta", "model"}
    | {"modelsource", "protocoloptions"}
)


def collections(body: JSONObject) -> Iterator[str]:
    """Attributes of a Registry or Group that hold entities: objects of objects."""
    for name in list(body):
        value = body[name]
        if name not in _NO_COLLECTIONS and isinstance(value, dict) and all(isinstance(x, dict) for x in value.values()):
            yield name


def entities(document: JSON, *, without: Container[int] = ()) -> Iterator[tuple[Xid, JSONObject]]:
    """Every Group, Resource and Version in ``document``. Raises ``DocumentError`` for an ``xid`` that is none.

    What has its id among those ``without`` is passed over, with all that is in it.
    """
    if isinstance(document, dict) and not is_model(document):
        target = target_of(document)
        make = _entities_of if target.is_collection else _entities_at
        yield from make(target, document, without)


def _entities_of(collection: Xid, members: JSON, without: Container[int]) -> Iterator[tuple[Xid, JSONObject]]:
    for name, body in members.items() if isinstance(members, dict) else ():
        if isinstance(body, dict) and id(body) not in without:
            yield from _entities_at(collection / name, body, without)


def _entities_at(xid: Xid, body: JSONObject, without: Container[int]) -> Iterator[tuple[Xid, JSONObject]]:
    if xid.kind in (Kind.GROUP, Kind.RESOURCE, Kind.VERSION):
        yield xid, body
    match xid.kind:
        case Kind.REGISTRY | Kind.GROUP:
            for plural in collections(body):
                yield from _entities_of(xid / plural, body[plural], without)
        case Kind.RESOURCE:
            yield from _entities_of(xid / "versions", body.get("versions"), without)


Find = Callable[[Xid], JSONObject | None]
Collections = Callable[[Xid], Iterable[str]]
FillDefaults = Callable[[Xid, JSONObject], JSONObject]

# What the server sets, or says in other words too.
_SERVER: Final = frozenset(
    {"self", "shortself", "xid", "epoch", "modifiedat", "isdefault", "metaurl", "versionsurl", "versionscount"}
    | {"defaultversionurl", "formatvalidated", "formatvalidatedreason", "compatibilityvalidated", "$schema"}
    | {"compatibilityvalidatedreason", "specversion", "registryid", "model", "meta", "versions"}
)


@dataclass(slots=True, kw_only=True)
class ImportPlan:
    """The new part of a document: ``upload``, None without any, and its effect on each entity."""

    upload: Upload | None = None
    created: list[Xid] = field(default_factory=list)
    changed: list[Xid] = field(default_factory=list)
    unchanged: list[Xid] = field(default_factory=list)


def compare(upload: Upload, find: Find, collections: Collections, fill_defaults: FillDefaults) -> ImportPlan:
    """Return the part of ``upload`` that is new.

    ``find`` returns an entity in document view with all entities under it and documents as base64, or None (of the
    Registry its own attributes are enough). ``collections`` returns the names of the collections that an entity has by
    the model. ``fill_defaults`` returns the attributes of an entity with the model's defaults, as the registry stores
    them: a document that leaves out a default says nothing new.
    """
    comparison = _Comparison(find, collections, fill_defaults)
    target = upload.target
    if target.is_collection:
        body: JSONObject | None = comparison.members(target, upload.body, None)
    else:
        body = comparison.entity(target, upload.body, find(target))
    comparison.work.upload = None if body is None else replace(upload, body=body)
    return comparison.work


class _Comparison:
    def __init__(self, find: Find, collections: Collections, fill_defaults: FillDefaults) -> None:
        self.work = ImportPlan()
        self._find = find
        self._collections = collections
        self._fill_defaults = fill_defaults

    def entity(self, xid: Xid, given: JSONObject, current: JSONObject | None) -> JSONObject | None:
        """Return the new part of ``given``."""
        if current is None:
            self._created(xid, given)
            return given
        plurals = tuple(self._collections(xid))
        there = _own_attributes(_effective(given, current), xid, plurals)
        wanted = _own_attributes(given, xid, plurals)
        news: JSONObject = {name: given[name] for name in self._changed_attributes(xid, wanted, there)}
        # Attributes that only the registry has stay, in PATCH: they are no difference.
        if "meta" in wanted and _meta_differs(wanted["meta"], there.get("meta")):
            news["meta"] = given["meta"]
        if wanted or xid.kind is not Kind.REGISTRY:  # a document of Groups says nothing of the Registry
            (self.work.changed if news else self.work.unchanged).append(xid)
        for plural in plurals:
            members = self.members(xid / plural, given.get(plural), current.get(plural) or {})
            news |= {plural: members} if members else {}
        return news or None

    def members(self, collection: Xid, given: JSON, current: JSONObject | None) -> JSONObject | None:
        """Return the new part of a collection.

        With ``current`` None each member is looked up, as for the Registry's Groups.
        """
        if not isinstance(given, dict):
            refused: JSONObject | None = given  # by the registry, in its words
            return refused
        news = {}
        for name, body in given.items():
            news[name] = body
            if isinstance(body, dict):
                xid = collection / name
                # Groups are fetched one by one: a registry in one piece may be too large for memory, and most imports
                # name few of them.
                known = self._find(xid) if current is None or xid.kind is Kind.GROUP else current.get(name)
                news[name] = self.entity(xid, body, known)
        return {name: body for name, body in news.items() if body is not None} or None

    def _changed_attributes(self, xid: Xid, given: JSONObject, stored: JSONObject) -> list[str]:
        changed = [name for name in given if name != "meta" and not _is_there(name, given, stored)]
        if changed:
            filled = self._fill_defaults(xid, {**stored, **given})
            changed = [name for name in changed if name not in stored or filled.get(name) != stored[name]]
        return changed

    def _created(self, xid: Xid, given: JSONObject) -> None:
        self.work.created.append(xid)
        for plural in self._collections(xid):
            members = given.get(plural)
            for name, body in members.items() if isinstance(members, dict) else ():
                if isinstance(body, dict):
                    self._created(xid / plural / name, body)


def _is_there(name: str, wanted: JSONObject, there: JSONObject) -> bool:
    """Return True if an attribute has the wanted value. JSON is equal in any spelling, base64 in one.

    A string is the text of a document, or JSON, depending on the content type that it will have (R248).
    """
    stored = there.get(f"{name}base64")
    if name in there or not isinstance(stored, str):
        return bool(wanted[name] == there.get(name))
    content = base64.b64decode(stored)
    if isinstance(wanted[name], str) and not _is_json(wanted.get("contenttype", there.get("contenttype"))):
        return bool(content == wanted[name].encode("utf-8"))
    try:
        return bool(parse_json(content) == wanted[name])
    except JSONError:
        return False


def _is_json(contenttype: JSON) -> bool:
    media_type = contenttype.partition(";")[0].strip().lower() if isinstance(contenttype, str) else ""
    return media_type == "application/json" or media_type.endswith("+json")


def _effective(given: JSONObject, current: JSONObject) -> JSONObject:
    """``current`` with the attributes that a Resource shows of its default Version, or of the one ``given`` names."""
    versions = current.get("versions") or {}
    default = (current.get("meta") or {}).get("defaultversionid")
    shown = versions.get(given.get("versionid", default))
    # Exports repeat the default Version's attributes at the Resource; compared without them, every import would look
    # new.
    return {**shown, **current} if shown else current


def _own_attributes(body: JSONObject, xid: Xid, plurals: tuple[str, ...]) -> JSONObject:
    derived = {f"{plural}{suffix}" for plural in plurals for suffix in ("", "url", "count")}
    own = {name: value for name, value in body.items() if name not in _SERVER and name not in derived}
    if xid.kind is Kind.RESOURCE and isinstance(body.get("meta"), dict):
        own["meta"] = _own_attributes(body["meta"], xid, ())
    return own


def _meta_differs(given: JSONObject, current: JSONObject | None) -> bool:
    there = current or {}
    return any(value != there.get(name) for name, value in given.items())
