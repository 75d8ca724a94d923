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


def make_upload(document: JSON, *, to: Xid | None = None) -> Upload:
    """Return the place for ``document``: ``to`` names it, else the document itself.

    It can be a registry's, a Group's, a Resource's, a Version's or a collection's (as exported: their ``xid`` tells), a
    model source, or, without any of these signs, a map of Groups. Raises ``DocumentError``.
    """
    if not isinstance(document, dict):
        raise DocumentError("a registry document is a JSON object")
    if to is not None:
        return Upload(target=to, body=_strip_identity(document, to))
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
    source = upload.body["modelsource"]
    if not isinstance(source, dict):
        return upload
    # One level deep: a Group type that is given replaces the one of that name, as the model language has it.
    merged = {**current, **source}
    for name in ("groups", "attributes"):
        if isinstance(source.get(name), dict) and isinstance(current.get(name), dict):
            merged[name] = {**current[name], **source[name]}
    body = {name: value for name, value in upload.body.items() if name != "modelsource"}
    return replace(upload, body=body if merged == current else {"modelsource": merged, **body})


def _strip_identity(document: JSONObject, to: Xid) -> JSONObject:
    """Return ``document`` under another name: its ids go. Raises ``DocumentError`` if it is no such thing as ``to``."""
    own_xid = target_of(document)
    if own_xid != ROOT and own_xid.kind is not to.kind:
        raise DocumentError(f"it is a {own_xid.kind} ({own_xid}) and cannot become {to}, a {to.kind}")
    names = {"xid", "self", "shortself"}
    if own_xid != ROOT and not own_xid.is_collection:
        names |= {name for name, value in document.items() if name.endswith("id") and value == own_xid.id}
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
        make = _iterate_collection if target.is_collection else _iterate_entity
        yield from make(target, document, without)


def _iterate_collection(collection: Xid, members: JSON, without: Container[int]) -> Iterator[tuple[Xid, JSONObject]]:
    for name, body in members.items() if isinstance(members, dict) else ():
        if isinstance(body, dict) and id(body) not in without:
            yield from _iterate_entity(collection / name, body, without)


def _iterate_entity(xid: Xid, body: JSONObject, without: Container[int]) -> Iterator[tuple[Xid, JSONObject]]:
    if xid.kind in (Kind.GROUP, Kind.RESOURCE, Kind.VERSION):
        yield xid, body
    match xid.kind:
        case Kind.REGISTRY | Kind.GROUP:
            for plural in collections(body):
                yield from _iterate_collection(xid / plural, body[plural], without)
        case Kind.RESOURCE:
            yield from _iterate_collection(xid / "versions", body.get("versions"), without)


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
        body: JSONObject | None = comparison.compare_members(target, upload.body, None)
    else:
        body = comparison.compare_entity(target, upload.body, find(target))
    comparison.work.upload = None if body is None else replace(upload, body=body)
    return comparison.work


class _Comparison:
    def __init__(self, find: Find, collections: Collections, fill_defaults: FillDefaults) -> None:
        self.work = ImportPlan()
        self._find = find
        self._collections = collections
        self._fill_defaults = fill_defaults

    def compare_entity(self, xid: Xid, body: JSONObject, current: JSONObject | None) -> JSONObject | None:
        """Return the new part of ``body``."""
        if current is None:
            self._record_created(xid, body)
            return body
        plurals = tuple(self._collections(xid))
        stored = _select_own_attributes(_add_default_version(body, current), xid, plurals)
        attributes = _select_own_attributes(body, xid, plurals)
        news: JSONObject = {name: body[name] for name in self._find_changed_attributes(xid, attributes, stored)}
        # Attributes that only the registry has stay, in PATCH: they are no difference.
        if "meta" in attributes and _meta_differs(attributes["meta"], stored.get("meta")):
            news["meta"] = body["meta"]
        if attributes or xid.kind is not Kind.REGISTRY:  # a document of Groups says nothing of the Registry
            (self.work.changed if news else self.work.unchanged).append(xid)
        for plural in plurals:
            members = self.compare_members(xid / plural, body.get(plural), current.get(plural) or {})
            news |= {plural: members} if members else {}
        return news or None

    def compare_members(self, collection: Xid, bodies: JSON, current: JSONObject | None) -> JSONObject | None:
        """Return the new part of a collection.

        With ``current`` None each member is looked up, as for the Registry's Groups.
        """
        if not isinstance(bodies, dict):
            refused: JSONObject | None = bodies  # by the registry, in its words
            return refused
        news = {}
        for name, body in bodies.items():
            news[name] = body
            if isinstance(body, dict):
                xid = collection / name
                # Groups are fetched one by one: a registry in one piece may be too large for memory, and most imports
                # name few of them.
                stored = self._find(xid) if current is None or xid.kind is Kind.GROUP else current.get(name)
                news[name] = self.compare_entity(xid, body, stored)
        return {name: body for name, body in news.items() if body is not None} or None

    def _find_changed_attributes(self, xid: Xid, attributes: JSONObject, stored: JSONObject) -> list[str]:
        changed = [name for name in attributes if name != "meta" and not _is_there(name, attributes, stored)]
        if changed:
            filled = self._fill_defaults(xid, {**stored, **attributes})
            changed = [name for name in changed if name not in stored or filled.get(name) != stored[name]]
        return changed

    def _record_created(self, xid: Xid, entity: JSONObject) -> None:
        self.work.created.append(xid)
        for plural in self._collections(xid):
            members = entity.get(plural)
            for name, body in members.items() if isinstance(members, dict) else ():
                if isinstance(body, dict):
                    self._record_created(xid / plural / name, body)


def _is_there(name: str, attributes: JSONObject, there: JSONObject) -> bool:
    """Return True if an attribute has the wanted value. JSON is equal in any spelling, base64 in one.

    A string is the text of a document, or JSON, depending on the content type that it will have (R248).
    """
    stored = there.get(f"{name}base64")
    if name in there or not isinstance(stored, str):
        return bool(attributes[name] == there.get(name))
    content = base64.b64decode(stored)
    if isinstance(attributes[name], str) and not _is_json(attributes.get("contenttype", there.get("contenttype"))):
        return bool(content == attributes[name].encode("utf-8"))
    try:
        return bool(parse_json(content) == attributes[name])
    except JSONError:
        return False


def _is_json(contenttype: JSON) -> bool:
    media_type = contenttype.partition(";")[0].strip().lower() if isinstance(contenttype, str) else ""
    return media_type == "application/json" or media_type.endswith("+json")


def _add_default_version(body: JSONObject, current: JSONObject) -> JSONObject:
    """``current`` with the attributes that a Resource shows of its default Version, or of the one ``body`` names."""
    versions = current.get("versions") or {}
    default = (current.get("meta") or {}).get("defaultversionid")
    version = versions.get(body.get("versionid", default))
    # Exports repeat the default Version's attributes at the Resource; compared without them, every import would look
    # new.
    return {**version, **current} if version else current


def _select_own_attributes(body: JSONObject, xid: Xid, plurals: tuple[str, ...]) -> JSONObject:
    derived = {f"{plural}{suffix}" for plural in plurals for suffix in ("", "url", "count")}
    attributes = {name: value for name, value in body.items() if name not in _SERVER and name not in derived}
    if xid.kind is Kind.RESOURCE and isinstance(body.get("meta"), dict):
        attributes["meta"] = _select_own_attributes(body["meta"], xid, ())
    return attributes


def _meta_differs(meta: JSONObject, current: JSONObject | None) -> bool:
    stored = current or {}
    return any(value != stored.get(name) for name, value in meta.items())
