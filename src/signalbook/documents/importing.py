"""Find the entity that a document describes, plan the request that imports it, and leave out unchanged parts.

PATCH gives every entity in its body a new epoch and causes an event. So entities without changes are left out.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from signalbook.documents.errors import DocumentError
from signalbook.values import JSON, JSONError, JSONObject, parse_json
from signalbook.xid import ROOT, Kind, Xid, XidError

_EXAMPLE: Final = '{"messagegroups": {...}}'
_JSON_TYPE_NAMES: Final = {str: "text", list: "a list", bool: "true or false", type(None): "null"}
_MODEL_KEYS: Final = frozenset({"$schema", "attributes", "description", "documentation", "groups", "icon", "labels"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """A document as the body of a PATCH on ``target`` (an entity or a collection).

    PATCH creates and changes the entities in its body and leaves other entities unchanged (R50, R144). ``ignore`` is
    the request flag of that name. Epochs are ignored because they are out of date, and the id of another registry too.
    """

    target: Xid
    body: JSONObject
    ignore: tuple[str, ...] = ("epoch",)


def make_upload(document: JSON, *, to: Xid | None = None) -> Upload:
    """Return ``document`` as the body of a PATCH on ``to`` or, if ``to`` is None, on the entity that it describes.

    ``document`` may be an exported registry, Group, Resource, Version or collection, which is recognised by its
    ``xid``. It may also be a model source. Any other document is the body of the Registry. Raises ``DocumentError``.
    """
    if not isinstance(document, dict):
        kind = _JSON_TYPE_NAMES.get(type(document), "a number")
        raise DocumentError(f"a registry document is a JSON object, such as {_EXAMPLE}, but this is {kind}")
    if to is not None:
        return Upload(target=to, body=_strip_identity(document, to))
    if is_model(document):
        return Upload(target=ROOT, body={"modelsource": document})
    target = target_of(document)
    if target == ROOT and "registryid" in document:
        return Upload(target=ROOT, body=document, ignore=("epoch", "id"))
    return Upload(target=target, body=document)


def extend_model(upload: Upload, current: JSONObject) -> Upload:
    """Return ``upload`` with its ``modelsource`` merged into ``current``, the model source of the registry.

    Without merging, it would replace the whole model of the registry. It is left out if it changes nothing.
    """
    source = upload.body["modelsource"]
    if not isinstance(source, dict):
        return upload
    # Merge only one level deep: a Group type in the document replaces the Group type with the same name.
    merged = {**current, **source}
    for name in ("groups", "attributes"):
        if isinstance(source.get(name), dict) and isinstance(current.get(name), dict):
            merged[name] = {**current[name], **source[name]}
    body = {name: value for name, value in upload.body.items() if name != "modelsource"}
    return replace(upload, body=body if merged == current else {"modelsource": merged, **body})


def _strip_identity(document: JSONObject, to: Xid) -> JSONObject:
    """Return ``document`` without its ids, so that it can become the entity ``to``.

    Raises ``DocumentError`` if it describes another kind of entity than ``to``.
    """
    own_xid = target_of(document)
    if own_xid != ROOT and own_xid.kind is not to.kind:
        raise DocumentError(f"{own_xid} in the document and {to} differ in kind: {own_xid.kind} and {to.kind}")
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
    """Return the xid of the entity or collection that ``document`` describes, by the ``xid`` in it.

    Return the Registry if there is no ``xid``. Raises ``DocumentError`` for an invalid ``xid``.
    """
    if isinstance(document.get("xid"), str):
        return _parse_xid(document["xid"])
    members = [value.get("xid") if isinstance(value, dict) else None for value in document.values()]
    xids = [_parse_xid(xid) for xid in members if isinstance(xid, str)]
    parents = {xid.parent for xid in xids}
    # The document is an exported collection only if all members are entities of the same collection.
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
    """Yield the names of attributes of a Registry or Group that contain entities: objects whose members are objects."""
    for name in list(body):
        value = body[name]
        if name not in _NO_COLLECTIONS and isinstance(value, dict) and all(isinstance(x, dict) for x in value.values()):
            yield name


def entities(document: JSON, *, without: Container[int] = ()) -> Iterator[tuple[Xid, JSONObject]]:
    """Yield every Group, Resource and Version in ``document`` with its xid.

    Entities whose Python ``id`` is in ``without`` are skipped with everything in them. Raises ``DocumentError`` for an
    invalid ``xid``.
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

# Attributes that the server sets, or that repeat other attributes.
_SERVER: Final = frozenset(
    {"self", "shortself", "xid", "epoch", "modifiedat", "isdefault", "metaurl", "versionsurl", "versionscount"}
    | {"defaultversionurl", "formatvalidated", "formatvalidatedreason", "compatibilityvalidated", "$schema"}
    | {"compatibilityvalidatedreason", "specversion", "registryid", "model", "meta", "versions"}
)


@dataclass(slots=True, kw_only=True)
class ImportPlan:
    """The new part of a document, and its effect on each entity. ``upload`` is None if nothing is new."""

    upload: Upload | None = None
    created: list[Xid] = field(default_factory=list)
    changed: list[Xid] = field(default_factory=list)
    unchanged: list[Xid] = field(default_factory=list)


def compare(upload: Upload, find: Find, collections: Collections, fill_defaults: FillDefaults) -> ImportPlan:
    """Return the part of ``upload`` that is new.

    ``find`` returns an entity in document view with all entities under it and documents as base64, or None if it does
    not exist. For the Registry, its attributes are enough. ``collections`` returns the names of the collections that
    the model gives an entity. ``fill_defaults`` adds the model's defaults to the attributes of an entity, as the
    registry does. So an attribute that differs only by a default is not new.
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
        """Return the part of ``body`` that differs from the stored entity ``current``, or None if nothing is new."""
        if current is None:
            self._record_created(xid, body)
            return body
        plurals = tuple(self._collections(xid))
        stored = _select_own_attributes(_add_default_version(body, current), xid, plurals)
        attributes = _select_own_attributes(body, xid, plurals)
        news: JSONObject = {name: body[name] for name in self._find_changed_attributes(xid, attributes, stored)}
        # PATCH keeps attributes that only the registry has, so such attributes are not a difference.
        if "meta" in attributes and _meta_differs(attributes["meta"], stored.get("meta")):
            news["meta"] = body["meta"]
        if attributes or xid.kind is not Kind.REGISTRY:  # a document of Groups does not concern the Registry
            (self.work.changed if news else self.work.unchanged).append(xid)
        for plural in plurals:
            members = self.compare_members(xid / plural, body.get(plural), current.get(plural) or {})
            news |= {plural: members} if members else {}
        return news or None

    def compare_members(self, collection: Xid, bodies: JSON, current: JSONObject | None) -> JSONObject | None:
        """Return the new part of a collection, or None if nothing is new.

        ``current`` are the stored members. If it is None, each member is looked up.
        """
        if not isinstance(bodies, dict):
            refused: JSONObject | None = bodies  # the registry will refuse it
            return refused
        news = {}
        for name, body in bodies.items():
            news[name] = body
            if isinstance(body, dict):
                xid = collection / name
                # Groups are loaded one by one, because a whole registry may be too large for memory, and most imports
                # contain few Groups.
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
    """Return True if the stored entity ``there`` has the same value for the attribute ``name`` as ``attributes``.

    The document of a Resource is stored as base64. It is compared as text or as JSON, depending on its content type
    (R248).
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
    """Return ``current`` with the attributes of the Version that ``body`` names, or else of the default Version."""
    versions = current.get("versions") or {}
    default = (current.get("meta") or {}).get("defaultversionid")
    version = versions.get(body.get("versionid", default))
    # Exports repeat the attributes of the default Version in the Resource. Without adding them here, they would always
    # look new.
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
