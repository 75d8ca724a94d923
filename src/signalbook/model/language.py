"""A model source as a whole: Group and Resource types, their names and aspects (core/model.md "Registry Model").

This includes ``ximportresources`` (Resource types used by other Group types, "Reuse of Resource Definitions") and
``typemap`` (how a document with a certain content type is shown in JSON, core R102, R103).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, TypeAlias, get_args

from signalbook.model import spec_attributes
from signalbook.model.constraints import Ground, check_constraints
from signalbook.model.definitions import Setting, overlay
from signalbook.model.findings import ModelPosition
from signalbook.model.spec_attributes import SpecTable
from signalbook.model.types import (
    CHARSET_RULES,
    EXTENDED_NAME,
    KEY_RULE,
    STRICT_NAME,
    EntityTypes,
    describe,
    find_scalar_check,
)
from signalbook.values import JSON, JSONObject

_REFERENCE: Final = re.compile(r"/([^/]+)/([^/]+)")


def entity_types(groups: Mapping[str, JSONObject], place: ModelPosition) -> EntityTypes:
    """Return the types that the Group definitions ``groups`` define, with imports resolved (core R111).

    ``place`` is the position of ``groups`` in the model source. Problems are reported there.
    """
    imports = {plural: _parse_references(group, place.at(plural)) for plural, group in groups.items()}
    own_types = {plural: tuple(group.get("resources") or ()) for plural, group in groups.items()}
    origins = _Origins(own_types, imports)
    types = {}
    for plural in groups:
        here = place.at(plural, "ximportresources")
        types[plural] = {name: f"/{plural}/{name}" for name in own_types[plural]}
        for index, (group, resource) in imports[plural].items():
            origin = origins.find(group, resource)
            if origin is None:
                here.report(f"/{group}/{resource} leads to no Resource type, or round in a circle", index)
            elif resource in types[plural]:
                here.report(f'the Group type has a Resource type "{resource}" already', index)
            else:
                types[plural][resource] = origin
    return EntityTypes(groups=types)


def _parse_references(group: JSONObject, place: ModelPosition) -> dict[int, tuple[str, str]]:
    imports: JSON = group.get("ximportresources") or []
    here = place.at("ximportresources")
    if not isinstance(imports, list):
        here.report(f"must be an array, not {describe(imports)}")
        return {}
    references = {}
    for index, item in enumerate(imports):
        match = _REFERENCE.fullmatch(item) if isinstance(item, str) else None
        if match is None:
            here.report(f"{describe(item)} is not of the form /GROUPS/RESOURCES", index)
        elif match[1] == place.path[-1]:
            here.report("a Group type cannot import from itself", index)
        else:
            references[index] = (match[1], match[2])
    return references


class _Origins:
    """The paths where Resource types are defined, following imports of imported types."""

    def __init__(
        self, own_types: Mapping[str, tuple[str, ...]], imports: Mapping[str, Mapping[int, tuple[str, str]]]
    ) -> None:
        self._own = own_types
        self._imports = {group: {name: source for source, name in i.values()} for group, i in imports.items()}
        self._known: dict[tuple[str, str], str | None] = {}

    def find(self, group: str, resource: str) -> str | None:
        """Return the path where ``/group/resource`` is defined.

        None if it does not exist or its imports form a cycle.
        """
        trail: set[tuple[str, str]] = set()
        origin, source = None, (group, resource)
        while source not in trail and source not in self._known:  # ends if there is no further import, too
            trail.add(source)
            if resource in self._own.get(source[0], ()):
                origin = f"/{source[0]}/{resource}"
            elif resource in self._imports.get(source[0], {}):
                source = (self._imports[source[0]][resource], resource)
        origin = self._known.get(source, origin)
        self._known |= dict.fromkeys(trail, origin)
        return origin


DocumentType: TypeAlias = Literal["binary", "json", "string"]

IMPLICIT: Final[Mapping[str, DocumentType]] = {"application/json": "json", "*+json": "json", "text/plain": "string"}


def check_typemap(typemap: JSON, place: ModelPosition) -> dict[str, DocumentType]:
    """Return the map with its values in lower case. Problems are reported at ``place``."""
    if not isinstance(typemap, dict):
        place.report(f"must be an object, not {describe(typemap)}")
        return {}
    result: dict[str, DocumentType] = {}
    for key, value in typemap.items():
        kind = next((k for k in get_args(DocumentType) if isinstance(value, str) and k == value.lower()), None)
        if not key or key.count("*") > 1:
            place.report("a media type is not empty and has at most one *", key)
        if kind is None:
            place.report(f"{describe(value)} is none of binary, json, string", key)
        else:
            result[key] = kind
    return result


def compile_typemap(typemap: Mapping[str, DocumentType]) -> Callable[[str], DocumentType]:
    """Return a function that maps a content type (with parameters) to the form in which its documents are shown in
    JSON.
    """
    entries = {**IMPLICIT, **{key.lower(): value for key, value in typemap.items()}}
    patterns = [
        (re.compile(".*".join(map(re.escape, key.split("*"))), re.DOTALL), value) for key, value in entries.items()
    ]

    def type_of(contenttype: str) -> DocumentType:
        media_type = contenttype.partition(";")[0].strip().lower()
        kinds = {value for pattern, value in patterns if pattern.fullmatch(media_type)}
        return kinds.pop() if len(kinds) == 1 else "binary"

    return type_of


VERSION_MODES: Final = ("manual", "createdat", "modifiedat", "semver")
# Paths of the API itself, now or in the future. A Group type with such a name could not be reached.
_RESERVED_GROUPS: Final = frozenset(
    {
        *("capabilitiesoffered", "check", "compat", "events", "export", "health", "impact", "metrics", "pipelines"),
        *("search", "subscriptions", "ui"),
    }
)
_MAX_SHORT_NAME: Final = 57
_MAX_NAME: Final = 63
_ROOT_TEXTS: Final = {"description": "string", "documentation": "url"}
_TYPE_TEXTS: Final = {**_ROOT_TEXTS, "icon": "url", "modelversion": "string", "modelcompatiblewith": "uri"}
_FLAGS: Final = {
    "setversionid": True,
    "hasdocument": True,
    "singleversionroot": False,
    "validateformat": False,
    "validatecompatibility": False,
    "strictvalidation": False,
}
_ROOT_KEYS: Final = {*_ROOT_TEXTS, "labels", "attributes", "groups", "$schema"}
_GROUP_KEYS: Final = {*_TYPE_TEXTS, "labels", "plural", "singular", "attributes", "constraints", "resources"}
_RESOURCE_KEYS: Final = {
    *(_TYPE_TEXTS | _FLAGS),
    *("labels", "plural", "singular", "maxversions", "versionmode", "typemap"),
    *("attributes", "resourceattributes", "metaattributes"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FullModel:
    """A full model as JSON (as ``GET /model`` returns it) with its entity types."""

    document: JSONObject
    types: EntityTypes


def complete(source: JSONObject, place: ModelPosition) -> FullModel:
    """Return the full model of ``source``, whose includes must be resolved. Problems are reported at ``place``.

    The result can be used only if no problem was reported.
    """
    source = _drop_nulls(source)
    _check_keys(source, _ROOT_KEYS, place)
    groups = {
        plural: group | {"resources": _read_objects(group.get("resources"), place.at("groups", plural, "resources"))}
        for plural, group in _read_objects(source.get("groups"), place.at("groups")).items()
    }
    types = entity_types(groups, place.at("groups"))
    resources = {
        f"/{plural}/{name}": _complete_resource(name, resource, types, place.at("groups", plural, "resources", name))
        for plural, group in groups.items()
        for name, resource in group["resources"].items()
    }
    full = {
        plural: _complete_group(plural, group, resources, types, place.at("groups", plural))
        for plural, group in groups.items()
    }
    _check_group_names(full, place.at("groups"))
    document = {
        **_check_texts(source, _ROOT_TEXTS, place),
        "attributes": overlay(
            spec_attributes.registry_attributes(full),
            source.get("attributes", {}),
            _make_setting(place, types, "attributes"),
        ),
        **({"groups": full} if full else {}),
    }
    return FullModel(document=document, types=types)


def _make_setting(place: ModelPosition, types: EntityTypes, *steps: str) -> Setting:
    return Setting(findings=place.findings, path=(*place.path, *steps), types=types)


def _complete_group(
    plural: str, group: JSONObject, resources: Mapping[str, JSONObject], types: EntityTypes, place: ModelPosition
) -> JSONObject:
    _check_keys(group, _GROUP_KEYS | {"ximportresources"}, place)
    singular = _check_names(plural, group, place, longest_singular=_MAX_NAME)
    own_resources = {name: resources[origin] for name, origin in types.groups[plural].items()}
    _check_unique(own_resources, place.at("resources"))
    _check_implicit(
        _collect_own_names(spec_attributes.group_attributes("", ())),
        [f"{singular}id", *(name for resource in own_resources for name in _collection_names(resource))],
        place,
    )
    attributes = overlay(
        spec_attributes.group_attributes(singular, own_resources),
        group.get("attributes", {}),
        _make_setting(place, types, "attributes"),
    )
    full = {"plural": plural, "singular": singular, **_check_texts(group, _TYPE_TEXTS, place), "attributes": attributes}
    if "constraints" in group:
        versions = {name: resource["attributes"] for name, resource in own_resources.items()}
        ground = Ground(group=attributes, resources=versions, types=types)
        full["constraints"] = check_constraints(group["constraints"], ground, place.at("constraints"))
    return full | ({"resources": own_resources} if own_resources else {})


def _complete_resource(plural: str, resource: JSONObject, types: EntityTypes, place: ModelPosition) -> JSONObject:
    _check_keys(resource, _RESOURCE_KEYS, place)
    singular = _check_names(plural, resource, place, longest_singular=_MAX_SHORT_NAME)
    aspects = _complete_aspects(resource, place)
    version = spec_attributes.version_attributes(singular, hasdocument=aspects["hasdocument"])
    beside = spec_attributes.resource_attributes(singular)
    _check_implicit(
        _collect_own_names(
            spec_attributes.version_attributes("", hasdocument=False),
            spec_attributes.resource_attributes(""),
            spec_attributes.meta_attributes(""),
        ),
        [f"{singular}id", *([singular, f"{singular}url", f"{singular}base64"] if aspects["hasdocument"] else [])],
        place,
    )
    lists: dict[str, tuple[SpecTable, dict[str, Any]]] = {
        "attributes": (version, {"matching": True, "reserved": beside.keys() - version.keys()}),
        "resourceattributes": (beside, {"closed": True}),
        "metaattributes": (spec_attributes.meta_attributes(singular), {}),
    }
    return {
        "plural": plural,
        "singular": singular,
        **_check_texts(resource, _TYPE_TEXTS, place),
        **aspects,
        **{
            name: overlay(spec, resource.get(name, {}), replace(_make_setting(place, types, name), **options))
            for name, (spec, options) in lists.items()
        },
    }


def _complete_aspects(resource: JSONObject, place: ModelPosition) -> JSONObject:
    """Return the aspects of a Resource type with their defaults filled in (core R93 to R102)."""
    flags = {name: _read_flag(resource, name, default, place) for name, default in _FLAGS.items()}
    maxversions = resource.get("maxversions", 0)
    if not isinstance(maxversions, int) or isinstance(maxversions, bool) or maxversions < 0:
        place.report("must be an integer of 0 or more", "maxversions")
    mode = resource.get("versionmode", "manual")
    if not isinstance(mode, str) or mode.lower() not in VERSION_MODES:
        place.report(f"must be one of: {', '.join(VERSION_MODES)}", "versionmode")
        mode = "manual"
    if mode.lower() != "manual":
        # These modes order all Versions in one line, so the flag is implied. Setting it to false is an error.
        if resource.get("singleversionroot") is False:
            place.report(f"must be true with versionmode {mode}", "singleversionroot")
        flags["singleversionroot"] = True
    if flags["validatecompatibility"] and not flags["validateformat"]:
        place.report("needs validateformat to be true", "validatecompatibility")
    typemap = check_typemap(resource.get("typemap", {}), place.at("typemap"))
    return {
        "maxversions": maxversions,
        "setversionid": flags.pop("setversionid"),
        "hasdocument": flags.pop("hasdocument"),
        "versionmode": mode.lower(),
        **flags,
        **({"typemap": typemap} if typemap else {}),
    }


def _read_flag(resource: JSONObject, name: str, default: bool, place: ModelPosition) -> bool:
    value = resource.get(name, default)
    if not isinstance(value, bool):
        place.report("must be true or false", name)
    return bool(value)


def _drop_nulls(members: JSONObject) -> JSONObject:
    """Return ``members`` without nulls."""
    return {name: value for name, value in members.items() if value is not None}


def _read_objects(value: JSON, place: ModelPosition) -> dict[str, JSONObject]:
    """Return the members of a map of types. Members that are not objects are reported and left out."""
    if value is not None and not isinstance(value, dict):
        place.report(f"must be an object, not {describe(value)}")
    members = value if isinstance(value, dict) else {}
    for name, member in members.items():
        if not isinstance(member, dict):
            place.report(f"must be an object, not {describe(member)}", name)
    return {name: _drop_nulls(member) for name, member in members.items() if isinstance(member, dict)}


def _check_keys(members: JSONObject, allowed: Collection[str], place: ModelPosition) -> None:
    """Report keys that are not in ``allowed`` (core R68)."""
    for key in members:
        if key not in allowed:
            place.report("is not part of the model language", key)


def _check_names(plural: str, definition: JSONObject, place: ModelPosition, *, longest_singular: int) -> str:
    """Check plural and singular names (core R90).

    Returns the singular, or a name made from the plural if it is missing.
    """
    if not STRICT_NAME.fullmatch(plural) or len(plural) > _MAX_SHORT_NAME:
        place.report(f"{CHARSET_RULES['strict']}; a plural has at most {_MAX_SHORT_NAME}")
    if definition.get("plural", plural) not in (plural, ""):  # the tool xr writes an empty plural if there was none
        place.report(f'must be the key "{plural}"', "plural")
    singular = definition.get("singular")
    if not isinstance(singular, str):
        place.report("is required" if singular is None else "must be a string", "singular")
        return f"{plural}_"
    if not STRICT_NAME.fullmatch(singular) or len(singular) > longest_singular:
        place.report(f"{CHARSET_RULES['strict']}; this one has at most {longest_singular}", "singular")
    return singular


def _check_unique(types: Mapping[str, JSONObject], place: ModelPosition) -> None:
    """Report names, plural or singular, that occur twice among these types."""
    seen: set[str] = set()
    for plural, definition in types.items():
        singular = definition["singular"]
        for name in (plural, singular):
            if name in seen or plural == singular:
                place.report(f'the name "{name}" is taken already', plural)
        seen |= {plural, singular}


def _check_group_names(groups: Mapping[str, JSONObject], place: ModelPosition) -> None:
    _check_unique(groups, place)
    for plural in groups.keys() & _RESERVED_GROUPS:
        place.report("is a path of the API itself", plural)
    names = [name for plural in groups for name in _collection_names(plural)]
    _check_implicit(_collect_own_names(spec_attributes.registry_attributes(())), names, place)


def _collection_names(plural: str) -> tuple[str, str, str]:
    return plural, f"{plural}url", f"{plural}count"


def _collect_own_names(*tables: SpecTable) -> set[str]:
    """Return the names of the specification's attributes, without the ``id`` that stands for ``<SINGULAR>id``."""
    return {name for table in tables for name in table} - {"id"}


def _check_implicit(taken_names: set[str], names: Iterable[str], place: ModelPosition) -> None:
    """Report attribute names made from type names that the specification already uses otherwise (core R17)."""
    for name in names:
        if name in taken_names:
            place.report(f'the name makes an attribute "{name}", which the specification defines otherwise')
        taken_names.add(name)


def _check_texts(definition: JSONObject, types: Mapping[str, str], place: ModelPosition) -> JSONObject:
    """Check the descriptive aspects (core R91) and return them in the order of ``types``, then ``labels``."""
    for name, kind in types.items():
        try:
            if name in definition:
                find_scalar_check(kind, EntityTypes())(definition[name])
        except ValueError as error:
            place.report(str(error), name)
    labels = definition.get("labels", {})
    if not isinstance(labels, dict):
        place.report("must be an object of strings", "labels")
        labels = {}
    for key, value in labels.items():
        if not EXTENDED_NAME.fullmatch(key):
            place.report(f"{KEY_RULE}, not {describe(key)}", "labels")
        if not isinstance(value, str):
            place.report(f'the value of "{key}" must be a string, not {describe(value)}', "labels")
    return {name: definition[name] for name in (*types, "labels") if name in definition}
