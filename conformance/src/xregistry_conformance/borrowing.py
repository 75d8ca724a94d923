"""Types of a server's own model for cases to write to, and the attributes that these types require."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

from xregistry_conformance.matching import ABSENT, Variables
from xregistry_conformance.values import JSON, JSONObject

_MOST_VERSIONS: Final = 5
"""As many Versions of one Resource as a case may make."""
_AS_NOTES: Final = {"files": "notes", "file": "note"}
_SERVERS_OWN: Final = frozenset(
    {"self", "shortself", "xid", "epoch", "createdat", "modifiedat", "isdefault", "ancestorid", "versionid"}
)
_WITH_DETAILS: Final = frozenset({"GET", "PUT", "PATCH", "POST"})
_EXAMPLES: Final[Mapping[str, JSON]] = {
    "any": "kit",
    "array": [],
    "boolean": False,
    "decimal": 1,
    "integer": 1,
    "map": {},
    "string": "kit",
    "timestamp": "2030-01-01T00:00:00Z",
    "uinteger": 1,
    "uri": "https://example.com/kit",
    "uriabsolute": "https://example.com/kit",
    "urirelative": "kit",
    "uritemplate": "https://example.com/{kit}",
    "url": "https://example.com/kit",
    "urlabsolute": "https://example.com/kit",
    "urlrelative": "kit",
    "xidtype": "/",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cast:
    """The types of one case: ``names`` as variables, what each ``required`` by its plural; or why there are none.

    ``details`` tells that the ``notes`` have documents: their metadata are found with ``$details``.
    """

    names: Variables = field(default_factory=dict)
    required: Mapping[str, JSONObject] = field(default_factory=dict)
    details: bool = False
    reason: str = ""


def borrow(model: JSONObject, roles: frozenset[str], *, wants: frozenset[str]) -> Cast:
    """The first Group type of ``model`` with Resource types for ``roles`` (``files``, ``notes``).

    ``wants`` may ask for ``versions``: Resources that may have several, with ids that a client chooses; for types that
    are ``closed``: without a ``*`` attribute; and for ``plain`` notes, which have no documents indeed.
    """
    objections: list[str] = []
    for plural, group in model.get("groups", {}).items():
        cast = _cast_group(plural, group, roles - {"dirs"}, wants=wants)
        if not cast.reason:
            return cast
        objections.append(cast.reason)
    if "notes" in roles and "files" not in roles and "plain" not in wants:
        # What is asked of Resources without documents holds for the metadata of those with.
        cast = borrow(model, roles - {"notes"} | {"files"}, wants=wants)
        if not cast.reason:
            names = {_AS_NOTES.get(name, name): value for name, value in cast.names.items()}
            return replace(cast, names=names, details=True)
    return Cast(reason="no type of the server's model will do: " + ("; ".join(objections) or "it has none"))


def _cast_group(plural: str, group: JSONObject, roles: frozenset[str], *, wants: frozenset[str]) -> Cast:
    group_required = _list_required(group)
    if isinstance(group_required, str):
        return Cast(reason=f"{plural} {group_required}")
    if "closed" in wants and not roles and _is_open(group):
        return Cast(reason=f"{plural} takes any attribute")
    names: Variables = {"dirs": plural, "dir": group.get("singular")}
    required = {plural: group_required}
    for role in sorted(roles):
        objections = []
        for name, resource in group.get("resources", {}).items():
            attributes = _list_required(resource)
            objection = _find_objection(resource, role, wants=wants)
            if not objection and "closed" in wants and _is_open(resource):
                objection = "takes any attribute"
            if not objection and not isinstance(attributes, str):
                names |= {role: name, role.removesuffix("s"): resource.get("singular")}
                required[name] = attributes
                break
            objections.append(f"{plural}/{name} {objection or attributes}")
        else:
            return Cast(reason=", ".join(objections) or f"{plural} has no Resource types")
    return Cast(names=names, required=required)


def _find_objection(resource: JSONObject, role: str, *, wants: frozenset[str]) -> str:
    """Return why a Resource type cannot play ``role``, or ``""``."""
    limit = resource.get("maxversions", 0)
    documents = resource.get("hasdocument", True)
    if documents is not (role == "files"):
        return "has documents" if documents else "has no documents"
    if documents and resource.get("typemap"):
        return "has a typemap"
    if documents and resource.get("strictvalidation"):
        return "validates documents strictly"
    if "versions" not in wants:
        return ""
    if 0 < limit < _MOST_VERSIONS:
        return f"keeps {limit} Version{'s' * (limit > 1)}"
    if not resource.get("setversionid", True):
        return "chooses versionids itself"
    if resource.get("singleversionroot"):
        return "has one root"
    mode = str(resource.get("versionmode", "manual")).lower()
    return "" if mode == "manual" else f"orders Versions by {mode}"


def _is_open(definition: JSONObject) -> bool:
    return "*" in definition.get("attributes", {})


def _list_required(definition: JSONObject) -> JSONObject | str:
    """Return the required attributes of a Group or Resource type, or why no values can be made up for them."""
    excluded = {f"{definition.get('singular', '')}id", *_SERVERS_OWN}
    values = {
        name: _build_example(name, attribute)
        for name, attribute in definition.get("attributes", {}).items()
        if _is_demanded(attribute) and name not in excluded
    }
    unknown = [name for name, value in values.items() if value is ABSENT]
    return f"requires {', '.join(unknown)}, which the kit has no value for" if unknown else values


def _is_demanded(attribute: JSONObject) -> bool:
    return bool(attribute.get("required")) and "default" not in attribute and not attribute.get("readonly")


def _build_example(name: str, attribute: JSONObject) -> JSON:
    """Return a value that an attribute takes; ``ABSENT`` for a kind that depends on what there is."""
    kind = attribute.get("type")
    if attribute.get("enum") and kind != "array":
        return attribute["enum"][0]
    if kind == "object":
        members = {
            key: _build_example(key, item)
            for key, item in attribute.get("attributes", {}).items()
            if _is_demanded(item)
        }
        return ABSENT if ABSENT in members.values() else members
    # A name and version of a format that no server validates.
    return "kit/1.0" if name == "format" and kind == "string" else _EXAMPLES.get(str(kind), ABSENT)


def complete(cast: Cast, method: str, target: str, body: JSON) -> JSON:
    """``body`` with what the types of ``cast`` require, wherever it has entities of them."""
    if method == "DELETE" or not any(cast.required.values()):
        return body
    path, details = _split_target(target)
    match path:
        case []:
            return _fill_nested(cast, body, attributes={})
        case [plural] if plural in cast.required:
            return _map_members(body, partial(_fill_member, cast, plural))
        case [_, _]:
            return _fill_nested(cast, body, attributes={} if method == "POST" else cast.required.get(path[0], {}))
        case [_, _, resources] | [_, _, resources, _, "versions"]:
            return _map_members(body, lambda entity: _fill_entity(cast.required.get(resources, {}), entity))
        case [_, _, resources, _] | [_, _, resources, _, "versions", _] if details or not _is_document(cast, resources):
            return _fill_entity(cast.required.get(resources, {}), body)
    return body


def required_headers(cast: Cast, method: str, target: str) -> Iterator[tuple[str, str]]:
    """Yield the required headers of a request with a document."""
    path, details = _split_target(target)
    entity = len(path) == 4 or (len(path) == 6 and path[4] == "versions")
    if method in ("PUT", "POST") and entity and not details and _is_document(cast, path[2]):
        for name, value in cast.required.get(path[2], {}).items():
            yield f"xRegistry-{name}", str(value).lower() if isinstance(value, bool) else str(value)


def with_details(cast: Cast, method: str, target: str) -> str:
    """``target`` with ``$details`` where ``cast`` has documents and the case does not know of them."""
    path, _ = _split_target(target)
    entity = len(path) == 4 or (len(path) == 6 and path[4] == "versions")
    if not cast.details or not entity or path[2] != cast.names["notes"] or method not in _WITH_DETAILS:
        return target
    before, mark, query = target.partition("?")
    return f"{before}$details{mark}{query}"


def _is_document(cast: Cast, resources: str) -> bool:
    return resources == cast.names.get("files")


def _split_target(target: str) -> tuple[list[str], bool]:
    path = target.partition("?")[0]
    return [part for part in path.removesuffix("$details").split("/") if part], path.endswith("$details")


def _fill_nested(cast: Cast, body: JSON, *, attributes: JSONObject) -> JSON:
    """Fill the ``attributes`` of a Registry or a Group, and the entities in its maps."""
    if not isinstance(body, dict):
        return body
    filled: dict[str, Any] = {**attributes, **body}
    for plural in cast.required.keys() & filled.keys():
        filled[plural] = _map_members(filled[plural], partial(_fill_member, cast, plural))
    return filled


def _fill_member(cast: Cast, plural: str, body: JSON) -> JSON:
    attributes = cast.required[plural]
    return (
        _fill_nested(cast, body, attributes=attributes)
        if plural == cast.names.get("dirs")
        else _fill_entity(attributes, body)
    )


def _fill_entity(required: JSONObject, body: JSON) -> JSON:
    """A Resource or a Version. A Resource that refers to another, or has Versions, has no attributes of its own."""
    if not isinstance(body, dict) or (isinstance(body.get("meta"), dict) and "xref" in body["meta"]):
        return body
    if body.get("versions"):
        return {**body, "versions": _map_members(body["versions"], lambda version: _fill_entity(required, version))}
    return {**required, **body}


def _map_members(body: JSON, change: Callable[[JSON], JSON]) -> JSON:
    return {key: change(item) for key, item in body.items()} if isinstance(body, dict) else body
