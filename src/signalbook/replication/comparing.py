"""Compare Groups and Resources of two registries, without the attributes that each registry sets itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar

from signalbook.client import BadResponse
from signalbook.client.registry import PAGE, ReadableRegistry, TooLarge
from signalbook.replication.link import strip_origin
from signalbook.values import JSON, JSONObject
from signalbook.xid import Xid

_IDENTITY_MEMBERS: Final = frozenset({"self", "shortself", "xid", "epoch"})
_OF_VERSION: Final = _IDENTITY_MEMBERS | {
    "versionid",
    "isdefault",
    # Each registry validates for itself.
    "formatvalidated",
    "formatvalidatedreason",
    "compatibilityvalidated",
    "compatibilityvalidatedreason",
}
_OF_META: Final = _IDENTITY_MEMBERS | {"readonly", "defaultversionurl", "modifiedat"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedResource:
    """A Resource to compare: its ``meta``, and its Versions by id.

    ``meta`` is None if the registry does not show it. ``versions`` is None if they are too large to hold in memory.
    """

    meta: JSONObject | None
    versions: Mapping[str, JSONObject] | None = field(default_factory=dict)


class Types:
    """The parts of a registry's model that matter for copies. ``model`` is the full model as the API shows it."""

    def __init__(self, model: JSONObject) -> None:
        self._groups: JSONObject = model.get("groups") or {}

    def groups(self) -> Iterable[str]:
        """Return the plural names of all Group types."""
        return self._groups

    def resources(self, group: str) -> Iterable[str]:
        """Return the plural names of a Group type's Resource types."""
        resources: JSONObject = self._groups.get(group, {}).get("resources") or {}
        return resources

    def singular(self, xid: Xid) -> str:
        """Return the singular name of the type of a Group or Resource.

        For an entity under a Resource, it is the Resource's.
        """
        group = self._groups[xid.group_type]
        return str((group["resources"][xid.resource_type] if xid.resource_type else group)["singular"])

    def takes(self, xid: Xid, name: str) -> bool:
        """Return True if Versions of the Resource ``xid`` can have an attribute ``name``."""
        return bool({name, "*"} & (self._find_resource(xid).get("attributes") or {}).keys())

    def has_rule(self, xid: Xid) -> bool:
        """Return True if the Resource ``xid`` can have a rule of compatibility."""
        return "compatibility" in (self._find_resource(xid).get("metaattributes") or {})

    def _find_resource(self, xid: Xid) -> JSONObject:
        resource_type: JSONObject = self._groups.get(xid.group_type, {}).get("resources", {}).get(xid.resource_type, {})
        return resource_type


def group_attributes(entity: JSONObject, xid: Xid, types: Types) -> JSONObject:
    """Return the attributes of a Group to compare. ``createdat`` is left out, because registries may differ in it."""
    derived = {f"{plural}{suffix}" for plural in types.resources(xid.group_type) for suffix in ("", "url", "count")}
    hidden = _IDENTITY_MEMBERS | derived | {f"{types.singular(xid)}id", "createdat"}
    return {name: value for name, value in entity.items() if name not in hidden}


def resource_attributes(entity: JSONObject, xid: Xid, types: Types) -> ComparedResource:
    """Return a Resource to compare from its document view, which includes meta and, if possible, the Versions."""
    singular = types.singular(xid)
    versions = entity.get("versions")
    shown_meta = entity.get("meta", {})
    meta = None if shown_meta is None else _select_meta(shown_meta, singular)
    # A Resource without Versions and without a count refers to another Resource.
    if versions is None and not entity.get("versionscount"):
        versions = {}
    if versions is None:
        return ComparedResource(meta=meta, versions=None)
    return ComparedResource(
        meta=meta, versions={name: version_attributes(body, singular) for name, body in versions.items()}
    )


def version_attributes(entity: JSONObject, singular: str) -> JSONObject:
    """Return the attributes of a Version to compare, with its document as text or base64."""
    hidden = {f"{singular}id"}
    return {name: value for name, value in entity.items() if name not in _OF_VERSION and name not in hidden}


def _select_meta(entity: JSONObject, singular: str) -> JSONObject:
    meta = {name: value for name, value in entity.items() if name not in _OF_META and name != f"{singular}id"}
    if not meta.get("defaultversionsticky"):
        # Each registry chooses its newest Version itself.
        meta.pop("defaultversionid", None)
    return meta


def is_same(first: JSONObject, second: JSONObject) -> bool:
    """Return True if both are equal, except for their origin and ``modifiedat``."""
    return _strip_times(first) == _strip_times(second)


def has_all(there: JSONObject, required: JSONObject) -> bool:
    """Return True if ``there`` has all members of ``required``, at any depth. It may have more.

    The origin, ``createdat`` and ``modifiedat`` are not compared.
    """
    return _has_all_members(
        _strip_times(there), {name: value for name, value in _strip_times(required).items() if name != "createdat"}
    )


def build_difference(
    required: JSONObject, there: JSONObject, singular: str = "", *, partial: bool = False
) -> JSONObject:
    """Return the PATCH that makes ``there`` equal to ``required``. If ``partial``, other members of ``there`` stay.

    A document of ``singular`` is replaced as a whole.
    """
    news: JSONObject = {name: value for name, value in required.items() if there.get(name) != value}
    gone = [name for name in there if name not in required and name != "modifiedat" and not partial]
    document = {singular, f"{singular}base64", f"{singular}url"} if singular else set()
    # A new document replaces the old one even if it has another form, so the old attribute need not be removed.
    if document & news.keys():
        gone = [name for name in gone if name not in document]
    return news | dict.fromkeys(gone)


def _strip_times(entity: JSONObject) -> JSONObject:
    return {name: value for name, value in strip_origin(entity).items() if name != "modifiedat"}


def _has_all_members(there: JSON, required: JSON) -> bool:
    """Return True if every member of ``required``, at any depth, is in ``there`` too."""
    if isinstance(there, dict) and isinstance(required, dict):
        return all(name in there and _has_all_members(there[name], value) for name, value in required.items())
    return bool(there == required)


_SMALLER: Final = 10
T = TypeVar("T")


def read_resources(registry: ReadableRegistry, collection: Xid, types: Types) -> Iterator[tuple[str, ComparedResource]]:
    """Yield the Resources of a collection by id, with their Versions if these are not too large."""
    last = ""
    try:
        for name, entity in registry.members(collection, deep=True):
            yield name, resource_attributes(entity, collection / name, types)
            last = name.lower()
    except TooLarge:
        # Continue one by one after the last Resource that was yielded.
        for name, entity in _read_shallow(registry, collection):
            if name.lower() > last:
                xid = collection / name
                yield name, read_resource(registry, xid, types) or resource_attributes(entity, xid, types)


def read_resource(registry: ReadableRegistry, xid: Xid, types: Types) -> ComparedResource | None:
    """Return the Resource ``xid`` to compare, or None if it does not exist."""
    try:
        entity = registry.find(xid, deep=True)
    except TooLarge:
        entity = registry.find(xid, deep=False)
    return None if entity is None else resource_attributes(entity, xid, types)


def read_versions(
    registry: ReadableRegistry, xid: Xid, resource: ComparedResource | None, types: Types
) -> Iterator[tuple[str, JSONObject]]:
    """Yield the Versions of a Resource by id. If ``resource`` is None, there are none."""
    if resource is None:
        return
    if resource.versions is not None:
        yield from sorted(resource.versions.items(), key=lambda item: item[0].lower())
        return
    singular = types.singular(xid)
    for name, entity in _read_shallow(registry, xid / "versions"):
        yield name, version_attributes(entity, singular)


def join_by_id(
    ours: Iterable[tuple[str, T]], theirs: Iterable[tuple[str, T]]
) -> Iterator[tuple[str, T | None, T | None]]:
    """Yield the entities of both sides by id, ignoring case, with None for a side that lacks the entity.

    Raises ``BadResponse`` if one side is not sorted by id, because a missing entity could come later.
    """
    our_members, their_members = _check_order(ours), _check_order(theirs)
    ours_next, theirs_next = next(our_members, None), next(their_members, None)
    while ours_next is not None or theirs_next is not None:
        order = _compare(ours_next, theirs_next)
        if order < 0 and ours_next is not None:
            yield ours_next[0], ours_next[1], None
            ours_next = next(our_members, None)
        elif order > 0 and theirs_next is not None:
            yield theirs_next[0], None, theirs_next[1]
            theirs_next = next(their_members, None)
        elif ours_next is not None and theirs_next is not None:
            yield ours_next[0], ours_next[1], theirs_next[1]
            ours_next, theirs_next = next(our_members, None), next(their_members, None)


def _read_shallow(registry: ReadableRegistry, collection: Xid) -> Iterator[tuple[str, JSONObject]]:
    """Yield the members of a collection without their own members. Pages become smaller if they are too large."""
    last, page = "", PAGE
    while True:
        try:
            for name, entity in registry.members(collection, deep=False, page=page):
                if name.lower() > last:
                    yield name, entity
                    last = name.lower()
            return
        except TooLarge:
            # A single member that is too large cannot be read at all.
            if page == 1:
                raise
            page = max(1, page // _SMALLER)


def _compare(first: tuple[str, T] | None, second: tuple[str, T] | None) -> int:
    """Compare the ids of two entities, ignoring case.

    The result is negative if ``first`` comes first; None comes last.
    """
    if first is None or second is None:
        return (first is None) - (second is None)
    first_id, second_id = first[0].lower(), second[0].lower()
    return (first_id > second_id) - (first_id < second_id)


def _check_order(members: Iterable[tuple[str, T]]) -> Iterator[tuple[str, T]]:
    last = ""
    for name, member in members:
        if name.lower() <= last:
            raise BadResponse(f"a collection does not come by id: {name} after {last}")
        last = name.lower()
        yield name, member
