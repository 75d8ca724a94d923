"""Attribute definitions of a model source: check them and overlay them on the specification's own.

The result is the form that the full model shows (core/model.md "attributes", core R65 to R89).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from signalbook.model.findings import ModelPosition
from signalbook.model.spec_attributes import SpecTable
from signalbook.model.types import (
    CHARSET_RULES,
    CHARSETS,
    SCALARS,
    TARGETED,
    TYPES,
    EntityTypes,
    describe,
    find_scalar_check,
    parse_target,
)
from signalbook.values import JSON, JSONObject
from signalbook.work import spend

_WORK: Final = 20
"""The number of work units that checking one definition costs the request that brings the model."""
_FLAGS: Final = ("readonly", "immutable", "required", "strict", "matchversions")
_ITEM_ASPECTS: Final = {"type", "target", "namecharset", "attributes", "item"}
_ASPECTS: Final = {"name", "description", *_ITEM_ASPECTS, *_FLAGS, "enum", "default", "ifvalues"}
_VALUE_ASPECTS: Final = ("enum", "default", "ifvalues")


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting(ModelPosition):
    """The position of definitions in a model source, and what their checks depend on in addition to the definitions.

    ``matching`` means that ``matchversions`` may be used here (core R81). ``taken`` are names of the surrounding level
    that definitions in ``ifvalues`` must not repeat. ``reserved`` are names that the specification uses elsewhere on
    the same entity. ``closed`` means that only the specification's own attributes are allowed (core R92). ``inside``
    means within an object.
    """

    types: EntityTypes
    charset: str = "strict"
    matching: bool = False
    taken: Collection[str] = ()
    reserved: Collection[str] = ()
    closed: bool = False
    inside: bool = False


def overlay(spec: SpecTable, definitions: JSON, setting: Setting) -> JSONObject:
    """Return the full definitions of an entity: those of ``spec`` with ``definitions`` on top (core R66, R67).

    Problems are reported to ``setting``.
    """
    checked = define(definitions, replace(setting, reserved={*setting.reserved, *spec}))
    result = {}
    for name, attribute in spec.items():
        narrowed = checked.pop(name, None)
        result[name] = _merge(attribute.definition, narrowed, setting.at(name)) if narrowed else attribute.definition
    for name, definition in checked.items():
        if setting.closed:
            setting.report("only the specification's own attributes are possible here", name)
        if name in setting.reserved:
            setting.report("is a name of the specification and cannot be an extension", name)
        _check_extension(definition, setting.at(name))
    return result | checked


def define(definitions: JSON, setting: Setting) -> JSONObject:
    """Return the full form of a map of attribute definitions.

    Entries that are not objects are reported and left out.
    """
    if not isinstance(definitions, dict):
        setting.report(f"must be an object of attribute definitions, not {describe(definitions)}")
        return {}
    result = {}
    spend(_WORK * len(definitions))
    for name, definition in definitions.items():
        here = setting.at(name)
        _check_name(name, definition, here)
        if name in setting.taken:
            here.report("is defined at this level already")
        if not isinstance(definition, dict):
            here.report(f"must be an attribute definition, not {describe(definition)}")
        elif _check_type(definition, here):
            result[name] = _complete_definition({"name": name, **definition}, here)
    switches = {name: definition for name, definition in result.items() if "ifvalues" in definition}
    taken_names = {*setting.taken, *setting.reserved, *result} if switches else set()
    for name, definition in switches.items():
        definition["ifvalues"] = _check_branches(definition, replace(setting.at(name), taken=taken_names))
    return result


def _check_name(name: str, definition: JSON, here: Setting) -> None:
    if name != "*" and not CHARSETS[here.charset].fullmatch(name):
        # Core R79 defines a separate error for names inside an object.
        here.report(CHARSET_RULES[here.charset], rule="invalid_attribute" if here.inside else "model_error")
    if isinstance(definition, dict) and definition.get("name", name) != name:
        here.report(f'must be the key "{name}"', "name")


def _check_type(definition: JSONObject, here: Setting) -> str | None:
    kind = definition.get("type")
    if isinstance(kind, str) and kind in TYPES:
        return kind
    here.report("is required" if kind is None else f"{describe(kind)} is not a type of the model language", "type")
    return None


def _complete_definition(definition: JSONObject, here: Setting, aspects: Collection[str] = _ASPECTS) -> JSONObject:
    """Return the full definition of an attribute or item with a valid type.

    ``aspects`` are the aspects that are allowed.
    """
    for aspect in definition:
        if aspect not in aspects:
            here.report("is not part of the model language", aspect)
    result = {aspect: value for aspect, value in definition.items() if aspect in aspects and value is not None}
    if "enum" in aspects:
        _move_item_enum(result)
    _check_flags(result, here)
    if not isinstance(result.get("description", ""), str):
        here.report("must be a string", "description")
    _check_target(result, here)
    _check_values(result, here)
    _check_nested(result, here)
    return result


def _move_item_enum(result: JSONObject) -> None:
    """Move an ``enum`` from the item of an array to the array.

    Earlier versions of Signalbook stored it in the item, which the model language does not allow.
    """
    item = result.get("item")
    if result["type"] == "array" and isinstance(item, dict) and "enum" in item:
        result["item"] = {aspect: value for aspect, value in item.items() if aspect not in ("enum", "strict")}
        for aspect in ("enum", "strict"):
            if aspect in item:
                result.setdefault(aspect, item[aspect])


def _check_flags(result: JSONObject, here: Setting) -> None:
    for flag in _FLAGS:
        value = result.get(flag)
        if value is not None and not isinstance(value, bool):
            here.report("must be true or false", flag)
            del result[flag]
    if result.get("name") == "*":
        for aspect in ("readonly", "required", "ifvalues"):
            if result.pop(aspect, None):
                here.report("is not possible on *", aspect)
    if result.get("matchversions"):
        if not here.matching or result.get("name") == "*":
            here.report(
                "is only possible on named attributes of Versions, not in arrays, maps or ifvalues", "matchversions"
            )
        elif result["type"] not in SCALARS:
            here.report("is only possible on scalar types", "matchversions")


def _check_target(result: JSONObject, here: Setting) -> None:
    if "target" not in result:
        return
    if result["type"] not in TARGETED:
        here.report("is only possible on the types uri, url and xid", "target")
    else:
        try:
            parse_target(result["target"], here.types)
            return
        except ValueError as error:
            here.report(str(error), "target")
    del result["target"]


def _check_values(result: JSONObject, here: Setting) -> None:
    """Check ``enum``, ``default`` and ``ifvalues``: only scalars have them, with values of their type (core R80, R85,
    R88).
    """
    if result["type"] not in SCALARS:
        kept_aspects = _check_item_enum(result, here)
        for aspect in _VALUE_ASPECTS:
            if aspect not in kept_aspects and result.pop(aspect, None) is not None:
                if aspect == "default":
                    here.report("only a scalar attribute can have a default", rule="model_scalar_default")
                else:
                    here.report("is only possible on scalar types", aspect)
        return
    if "enum" in result:
        result["enum"] = _check_enum(result["enum"], result["type"], here.at("enum"))
    if "default" in result:
        result["default"] = _check_default(result, here)
    if not isinstance(result.get("ifvalues", {}), dict):
        here.report("must be an object", "ifvalues")
        del result["ifvalues"]


def _check_item_enum(result: JSONObject, here: Setting) -> Collection[str]:
    """Check the ``enum`` of an array of scalars, which applies to its items. Returns ``("enum",)``, or () without one.

    The specification allows an enum for scalars only (core R80), but its endpoint model (rc4) has such an array.
    """
    item = result.get("item")
    kind = item.get("type") if isinstance(item, dict) else None
    if result["type"] != "array" or kind not in SCALARS or "enum" not in result:
        return ()
    result["enum"] = _check_enum(result["enum"], kind, here.at("enum"))
    return ("enum",)


def _check_enum(enum: JSON, type: str, here: Setting) -> list[JSON]:
    if not isinstance(enum, list):
        here.report(f"must be an array, not {describe(enum)}")
        return []
    check = find_scalar_check(type, here.types)
    values = []
    for index, value in enumerate(enum):
        try:
            values.append(check(value))
        except ValueError as error:
            here.report(str(error), index)
    return values


def _check_default(result: JSONObject, here: Setting) -> JSON:
    value = result["default"]
    if not result.get("required"):
        here.report("an attribute with a default must be required", rule="model_required_true")
    try:
        value = find_scalar_check(result["type"], here.types)(value)
    except ValueError as error:
        here.report(str(error), "default")
    else:
        if result.get("enum") and result.get("strict", True) and value not in result["enum"]:
            here.report(f"{describe(value)} is not in the enum", "default")
    return value


def _check_nested(result: JSONObject, here: Setting) -> None:
    """Check ``namecharset`` and ``attributes`` of objects, and ``item`` of maps and arrays (core R79, R86, R87)."""
    kind = result["type"]
    if kind != "object":
        for aspect in ("namecharset", "attributes"):
            if result.pop(aspect, None) is not None:
                here.report("is only possible on type object", aspect)
    else:
        charset = result.get("namecharset", "strict")
        if not isinstance(charset, str) or charset.lower() not in CHARSETS:
            here.report("must be strict or extended", "namecharset")
            charset = "strict"
        inner = replace(here.at("attributes"), charset=charset.lower(), taken=(), reserved=(), inside=True)
        if "attributes" in result:
            result["attributes"] = define(result["attributes"], inner)
    if kind in ("map", "array"):
        result["item"] = _complete_item(result.get("item"), replace(here.at("item"), matching=False))
    elif result.pop("item", None) is not None:
        here.report("is only possible on the types map and array", "item")


def _complete_item(item: JSON, here: Setting) -> JSONObject:
    if not isinstance(item, dict):
        here.report("is required on the types map and array" if item is None else "must be an object")
    elif _check_type(item, here):
        return _complete_definition(item, here, _ITEM_ASPECTS)
    return {"type": "any"}


def _check_branches(definition: JSONObject, here: Setting) -> JSONObject:
    """Check ``ifvalues`` (core R88, R89). Names of siblings must differ from the names of the surrounding level."""
    seen: set[str] = set()
    result = {}
    allowed = {str(value).casefold() for value in definition.get("enum") or ()}
    for value, branch in definition["ifvalues"].items():
        inner = here.at("ifvalues", value)
        if not value or value.startswith("^"):
            inner.report("a value must not be empty nor start with ^")
        if value.casefold() in seen:
            inner.report("differs from another value in case only")
        if allowed and definition.get("strict", True) and value.casefold() not in allowed:
            inner.report("is not in the enum")
        seen.add(value.casefold())
        result[value] = _check_branch(branch, inner)
    return result


def _check_branch(branch: JSON, here: Setting) -> JSONObject:
    if not isinstance(branch, dict):
        here.report(f"must be an object, not {describe(branch)}")
        return {}
    for key in branch:
        if key != "siblingattributes":
            here.report("is not part of the model language", key)
    siblings = branch.get("siblingattributes", {})
    return {"siblingattributes": define(siblings, replace(here.at("siblingattributes"), matching=False))}


def _check_extension(definition: JSONObject, here: Setting) -> None:
    if definition.get("immutable"):
        here.report("is only for attributes of the specification", "immutable")


def _merge(spec: JSONObject, source: JSONObject, here: Setting) -> JSONObject:
    """Return a specification's attribute with the source's changes, which may narrow it but not widen it (core R67)."""
    if source["type"] != spec["type"]:
        here.report(f"the specification defines the type {spec['type']}", "type")
        return spec
    for flag in ("required", "readonly"):
        if spec.get(flag) and source.get(flag) is False:
            here.report("the specification says true", flag)
    result = spec | source
    if "attributes" in spec:
        result["attributes"] = _merge_nested(spec["attributes"], source.get("attributes", {}), here.at("attributes"))
    if "item" in spec:
        result["item"] = _merge({"name": "item", **spec["item"]}, source["item"], here.at("item"))
        del result["item"]["name"]
    if spec.get("enum") and spec.get("strict", True):
        if "enum" in source and not set(source["enum"]) <= set(spec["enum"]):
            here.report("must be among the values of the specification", "enum")
        if not result.get("strict", True):
            here.report("the specification allows the listed values only", "strict")
    return result


def _merge_nested(spec: Mapping[str, JSONObject], sources: JSONObject, here: Setting) -> JSONObject:
    merged = {
        name: _merge(item, sources[name], here.at(name)) if name in sources else item for name, item in spec.items()
    }
    extensions = {name: item for name, item in sources.items() if name not in spec}
    for name, item in extensions.items():
        _check_extension(item, here.at(name))
    return {
        **{k: v for k, v in merged.items() if k != "*"},
        **extensions,
        **{k: v for k, v in merged.items() if k == "*"},
    }


def find(definitions: JSONObject, path: Sequence[str | int]) -> JSONObject | None:
    """Return the statically defined attribute at ``path``, or None.

    Only objects are followed, not ``ifvalues``, ``*``, maps or arrays.
    """
    definition: JSONObject = {"attributes": definitions}
    for step in path:
        members = definition.get("attributes", {})
        if step == "*" or step not in members:
            return None
        definition = members[step]
    return definition
