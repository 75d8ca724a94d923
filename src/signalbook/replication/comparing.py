"""Two registries side by side: Groups and Resources without what each registry sets for itself, joined by id."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar

from signalbook.client import BadResponse
from signalbook.client.registry import PAGE, ReadableRegistry, TooLarge
from signalbook.replication.link import without_origin
from signalbook.values import JSON, JSONObject
from signalbook.xid import Xid

_OWN: Final = frozenset({"self", "shortself", "xid", "epoch"})
_OF_VERSION: Final = _OWN | {
    "versionid",
    "isdefault",
    # Each registry validates for itself.
    "formatvalidated",
    "formatvalidatedreason",
    "compatibilityvalidated",
    "compatibilityvalidatedreason",
}
_OF_META: Final = _OWN | {"readonly", "defaultversionurl", "modifiedat"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedResource:
    """A Resource: its ``meta``, None if it is not shown, and its Versions by id, None if these are too many to hold."""

    meta: JSONObject | None
    versions: Mapping[str, JSONObject] | None = field(default_factory=dict)


class Types:
    """The parts of a registry's model that matter for copies. ``model`` is the full model as the API shows it."""

    def __init__(self, model: JSONObject) -> None:
        self._groups: JSONObject = model.get("groups") or {}

    def groups(self) -> Iterable[str]:
        """Plural names of all Group types."""
        return self._groups

    def resources(self, group: str) -> Iterable[str]:
        """Plural names of a Group type's Resource types."""
        found: JSONObject = self._groups.get(group, {}).get("resources") or {}
        return found

    def singular(self, xid: Xid) -> str:
        """The singular name of the type of a Group or Resource (or what is beneath that)."""
        group = self._groups[xid.group_type]
        return str((group["resources"][xid.resource_type] if xid.resource_type else group)["singular"])

    def takes(self, xid: Xid, name: str) -> bool:
        """Return True if Versions of the Resource ``xid`` can have an attribute ``name``."""
        return bool({name, "*"} & (self._resource(xid).get("attributes") or {}).keys())

    def has_rule(self, xid: Xid) -> bool:
        """Return True if the Resource ``xid`` can have a rule of compatibility."""
        return "compatibility" in (self._resource(xid).get("metaattributes") or {})

    def _resource(self, xid: Xid) -> JSONObject:
        found: JSONObject = self._groups.get(xid.group_type, {}).get("resources", {}).get(xid.resource_type, {})
        return found


def group_attributes(shown: JSONObject, xid: Xid, types: Types) -> JSONObject:
    """The own attributes of a Group, but for when it was made: several registries may have made it."""
    derived = {f"{plural}{suffix}" for plural in types.resources(xid.group_type) for suffix in ("", "url", "count")}
    hidden = _OWN | derived | {f"{types.singular(xid)}id", "createdat"}
    return {name: value for name, value in shown.items() if name not in hidden}


def resource_attributes(shown: JSONObject, xid: Xid, types: Types) -> ComparedResource:
    """A Resource as the document view shows it, its meta inline, and its Versions unless there are too many."""
    singular = types.singular(xid)
    versions = shown.get("versions")
    shown_meta = shown.get("meta", {})
    meta = None if shown_meta is None else _meta(shown_meta, singular)
    # Neither shown nor counted: it is a reference to another Resource.
    if versions is None and not shown.get("versionscount"):
        versions = {}
    if versions is None:
        return ComparedResource(meta=meta, versions=None)
    return ComparedResource(
        meta=meta, versions={name: version_attributes(body, singular) for name, body in versions.items()}
    )


def version_attributes(shown: JSONObject, singular: str) -> JSONObject:
    """The own attributes of a Version; its document stays as it is, text or base64."""
    hidden = {f"{singular}id"}
    return {name: value for name, value in shown.items() if name not in _OF_VERSION and name not in hidden}


def _meta(shown: JSONObject, singular: str) -> JSONObject:
    meta = {name: value for name, value in shown.items() if name not in _OF_META and name != f"{singular}id"}
    if not meta.get("defaultversionsticky"):
        # Which Version is the newest, each registry finds out for itself.
        meta.pop("defaultversionid", None)
    return meta


def same(one: JSONObject, other: JSONObject) -> bool:
    """Return True if both are equal, except for their origin and times."""
    return _said(one) == _said(other)


def says(there: JSONObject, wanted: JSONObject) -> bool:
    """Return True if ``there`` has all that ``wanted`` has, perhaps with more, except for the time of creation."""
    return _covers(_said(there), {name: value for name, value in _said(wanted).items() if name != "createdat"})


def difference(wanted: JSONObject, there: JSONObject, singular: str = "", *, partial: bool = False) -> JSONObject:
    """Return the PATCH that makes ``there`` equal to ``wanted``. If ``partial``, other members of ``there`` stay.

    A document of ``singular`` is replaced as a whole.
    """
    news: JSONObject = {name: value for name, value in wanted.items() if there.get(name) != value}
    gone = [name for name in there if name not in wanted and name != "modifiedat" and not partial]
    document = {singular, f"{singular}base64", f"{singular}url"} if singular else set()
    # The new document, in whichever form, takes the place of the old one: nothing has to be removed.
    if document & news.keys():
        gone = [name for name in gone if name not in document]
    return news | dict.fromkeys(gone)


def _said(entity: JSONObject) -> JSONObject:
    return {name: value for name, value in without_origin(entity).items() if name != "modifiedat"}


def _covers(there: JSON, wanted: JSON) -> bool:
    """Return True if every member of ``wanted``, at any depth, is in ``there`` too."""
    if isinstance(there, dict) and isinstance(wanted, dict):
        return all(name in there and _covers(there[name], value) for name, value in wanted.items())
    return bool(there == wanted)


_SMALLER: Final = 10
T = TypeVar("T")


def read_resources(registry: ReadableRegistry, collection: Xid, types: Types) -> Iterator[tuple[str, ComparedResource]]:
    """The Resources of a collection by id, with their Versions where these can be held at once."""
    last = ""
    try:
        for name, shown in registry.members(collection, deep=True):
            yield name, resource_attributes(shown, collection / name, types)
            last = name.lower()
    except TooLarge:
        # On from where it broke off, one by one: what came before is taken already.
        for name, shown in _shallow(registry, collection):
            if name.lower() > last:
                xid = collection / name
                yield name, read_resource(registry, xid, types) or resource_attributes(shown, xid, types)


def read_resource(registry: ReadableRegistry, xid: Xid, types: Types) -> ComparedResource | None:
    """Return a Resource to compare, or None."""
    try:
        shown = registry.find(xid, deep=True)
    except TooLarge:
        shown = registry.find(xid, deep=False)
    return None if shown is None else resource_attributes(shown, xid, types)


def read_versions(
    registry: ReadableRegistry, xid: Xid, known: ComparedResource | None, types: Types
) -> Iterator[tuple[str, JSONObject]]:
    """The Versions of a Resource by id."""
    if known is None:
        return
    if known.versions is not None:
        yield from sorted(known.versions.items(), key=lambda item: item[0].lower())
        return
    singular = types.singular(xid)
    for name, shown in _shallow(registry, xid / "versions"):
        yield name, version_attributes(shown, singular)


def joined(ours: Iterable[tuple[str, T]], theirs: Iterable[tuple[str, T]]) -> Iterator[tuple[str, T | None, T | None]]:
    """Yield the entities of both by id in any case, with None for the side that lacks one.

    Raises ``BadResponse`` if one side is not sorted by id: a missing entity could come later.
    """
    left, right = _ordered(ours), _ordered(theirs)
    one, other = next(left, None), next(right, None)
    while one is not None or other is not None:
        order = _compare(one, other)
        if order < 0 and one is not None:
            yield one[0], one[1], None
            one = next(left, None)
        elif order > 0 and other is not None:
            yield other[0], None, other[1]
            other = next(right, None)
        elif one is not None and other is not None:
            yield one[0], one[1], other[1]
            one, other = next(left, None), next(right, None)


def _shallow(registry: ReadableRegistry, collection: Xid) -> Iterator[tuple[str, JSONObject]]:
    """The members of a collection alone, on pages as large as they can be."""
    last, page = "", PAGE
    while True:
        try:
            for name, shown in registry.members(collection, deep=False, page=page):
                if name.lower() > last:
                    yield name, shown
                    last = name.lower()
            return
        except TooLarge:
            # One alone that is too large cannot be had at all.
            if page == 1:
                raise
            page = max(1, page // _SMALLER)


def _compare(one: tuple[str, T] | None, other: tuple[str, T] | None) -> int:
    """Compare two ids; the result is below 0 if ``one`` comes first."""
    if one is None or other is None:
        return (one is None) - (other is None)
    left, right = one[0].lower(), other[0].lower()
    return (left > right) - (left < right)


def _ordered(members: Iterable[tuple[str, T]]) -> Iterator[tuple[str, T]]:
    last = ""
    for name, member in members:
        if name.lower() <= last:
            raise BadResponse(f"a collection does not come by id: {name} after {last}")
        last = name.lower()
        yield name, member
