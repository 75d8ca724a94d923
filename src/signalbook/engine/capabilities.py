"""The capabilities document: features of the server and which of them are switched on (core/spec.md "Registry
Capabilities").
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from typing import Any, Final

from signalbook.errors import RegistryError
from signalbook.formats import base as formats
from signalbook.formats.compatibility import RULES, find_comparison
from signalbook.model import SPECVERSION
from signalbook.values import JSON, JSONObject, dump_json, parse_json
from signalbook.xid import Xid

_SUBJECT: Final = "/capabilities"
_AVAILABLE: Final[dict[str, bool]] = {
    ".xregistry": False,
    "capabilities": True,
    "capabilitiesoffered": False,
    "entities": True,
    "export": False,
    "model": False,
    "modelsource": True,
}
"""The names that ``available`` may list, and whether each can be mutable."""
_ALWAYS_AVAILABLE: Final = ("capabilities", "entities", "model")
FLAGS: Final = (
    "binary",
    "collections",
    "doc",
    "epoch",
    "filter",
    "ignore",
    "inline",
    "setdefaultversionid",
    "sort",
    "specversion",
)
IGNORES: Final = (
    "capabilities",
    "defaultversionid",
    "defaultversionsticky",
    "epoch",
    "id",
    "modelsource",
    "readonly",
)
VERSIONMODES: Final = ("manual", "createdat", "modifiedat", "semver")


@dataclass(frozen=True, slots=True, kw_only=True)
class Capability:
    """A capability: its default in a replacing update, its offered values and its check.

    ``offer`` is its entry in ``/capabilitiesoffered`` (R130). ``initial`` is its value on a new server.
    """

    name: str
    default: JSON
    initial: JSON
    offer: JSONObject
    check: Callable[[Capability, Any], JSON]


def list_initial() -> JSONObject:
    """Return the capabilities of a new server: everything that is offered is switched on, except short URLs."""
    initial: JSONObject = parse_json(_dump_initial())
    return initial


@cache
def _dump_initial() -> bytes:
    # To parse this takes a hundredth of the time that copying the values takes.
    return dump_json({name: row.initial for name, row in load_table().items()})


def list_offered() -> JSONObject:
    """Return the document of ``/capabilitiesoffered`` (R130)."""
    return {name: copy.deepcopy(row.offer) for name, row in load_table().items()}


def replace(requested: JSON) -> JSONObject:
    """Return the capabilities after a ``PUT``: omitted ones are reset to the specification's default (R125)."""
    return _drop_unused_rules(
        {name: copy.deepcopy(row.default) for name, row in load_table().items()} | _check_document(requested)
    )


def merge(current: JSONObject, requested: JSON) -> JSONObject:
    """Return the capabilities after a ``PATCH``: named ones are replaced, and null resets one to its default (R126)."""
    return _drop_unused_rules(current | _check_document(requested))


def resolve_ignore(capabilities: JSONObject, values: Iterable[str], subject: Xid) -> frozenset[str]:
    """Return the names that the client's ``ignore`` values stand for.

    No value or ``*`` means all supported names (R204). Raises ``bad_ignore`` for an unsupported value.
    """
    supported = frozenset(capabilities["ignores"])
    names = {value.strip().lower() for value in values}
    for value in sorted(names - supported - {"", "*"}):
        detail = f"supported values are {', '.join(sorted(supported)) or 'none'}"
        raise RegistryError("bad_ignore", subject=str(subject), value=value, error_detail=detail)
    return supported if not names or names & {"", "*"} else frozenset(names)


def is_mutable(capabilities: JSONObject, name: str) -> bool:
    """Return True if ``available`` lists ``name`` as mutable."""
    return bool(capabilities["available"].get(name, {}).get("mutable", False))


def require_mutable(capabilities: JSONObject, name: str) -> None:
    """Raise ``not_available`` if ``available`` does not list ``name`` as mutable (GAP 7)."""
    if not is_mutable(capabilities, name):
        raise RegistryError("not_available", subject=name, detail=f'"{name}" is not mutable in the capabilities')


def require_available(capabilities: JSONObject, name: str) -> None:
    """Raise ``not_available`` if ``available`` does not list ``name`` (R117)."""
    if name not in capabilities["available"]:
        raise RegistryError("not_available", subject=name)


@cache
def load_table() -> dict[str, Capability]:
    """Return all capabilities by name. Built once, because the installed formats have to be looked up."""
    rows = (
        Capability(
            name="available",
            default={"capabilities": {"mutable": False}, "entities": {"mutable": True}, "model": {"mutable": False}},
            initial={name: {"mutable": mutable} for name, mutable in _AVAILABLE.items()},
            offer={
                "type": "object",
                "attributes": {
                    name: {"type": "object", "attributes": {"mutable": _describe_boolean(mutable)}}
                    for name, mutable in _AVAILABLE.items()
                },
            },
            check=_check_available,
        ),
        Capability(
            name="compatibilities",
            default={},
            initial=_list_families(),
            offer={
                "type": "object",
                "attributes": {name: _describe_array(RULES) for name in (*_list_families(), *_list_comparable())},
            },
            check=_check_compatibilities,
        ),
        _make_list("flags", FLAGS),
        Capability(
            name="formats",
            default=[],
            initial=list(formats.list_supported()),
            offer=_describe_array(formats.list_supported()),
            check=_check_formats,
        ),
        _make_list("ignores", IGNORES),
        _make_switch("pagination", on=True),
        _make_switch("shortself", on=False),
        Capability(
            name="specversions",
            default=[SPECVERSION],
            initial=[SPECVERSION],
            offer=_describe_array((SPECVERSION,)),
            check=_check_specversions,
        ),
        _make_list("versionmodes", VERSIONMODES, always=("manual",)),
    )
    return {row.name: row for row in rows}


def _make_list(name: str, values: tuple[str, ...], always: tuple[str, ...] = ()) -> Capability:
    def check(row: Capability, requested: Any) -> JSON:
        chosen = _choose(row, requested, values)
        for value in always:
            if value not in chosen:
                raise RegistryError("capability_missing_value", subject=_SUBJECT, name=name, value=value)
        return chosen

    return Capability(name=name, default=list(always), initial=list(values), offer=_describe_array(values), check=check)


def _describe_array(values: Iterable[str]) -> JSONObject:
    return {"type": "array", "enum": list(values), "item": {"type": "string"}}


def _describe_boolean(both: bool) -> JSONObject:
    return {"type": "boolean", "enum": [False, True] if both else [False]}


def _check_specversions(row: Capability, requested: Any) -> JSON:
    """Check versions of the specification. Patch numbers are ignored (core/spec.md "SpecVersion Flag")."""
    if not isinstance(requested, list) or "*" in requested:
        return _choose(row, requested, (SPECVERSION,))
    for value in requested:
        if not isinstance(value, str) or not is_same_specversion(value, SPECVERSION):
            raise _make_value_error(row.name, value, (SPECVERSION,))
    if not requested:
        raise RegistryError("capability_missing_value", subject=_SUBJECT, name=row.name, value=SPECVERSION)
    return requested


def is_same_specversion(first: str, second: str) -> bool:
    """Return True if two versions of the specification differ at most in patch number and case (core R180)."""
    return _drop_patch(first) == _drop_patch(second)


def _drop_patch(version: str) -> tuple[str, str]:
    numbers, _, suffix = version.casefold().removeprefix("v").partition("-")
    return ".".join(numbers.split(".")[:2]), suffix


def _make_switch(name: str, *, on: bool) -> Capability:
    """Return a boolean capability. ``on`` is its value on a new server."""

    def check(row: Capability, requested: Any) -> JSON:
        if not isinstance(requested, bool):
            raise _make_value_error(row.name, requested, ["false", "true"])
        return requested

    return Capability(name=name, default=False, initial=on, offer=_describe_boolean(True), check=check)


def _choose(row: Capability, requested: Any, values: tuple[str, ...]) -> list[str]:
    """Return the requested ones of ``values``, in their spelling and order. ``["*"]`` requests all (R115, R127)."""
    if not isinstance(requested, list) or not all(isinstance(item, str) for item in requested):
        raise _make_value_error(row.name, requested, values)
    if "*" in requested:
        if len(requested) > 1:
            raise RegistryError("capability_wildcard", subject=_SUBJECT, field=row.name)
        return list(values)
    chosen = {item.casefold(): item for item in requested}
    for folded, item in chosen.items():
        if folded not in {value.casefold() for value in values}:
            raise _make_value_error(row.name, item, values)
    return [value for value in values if value.casefold() in chosen]


def _check_formats(row: Capability, requested: Any) -> JSON:
    """Check formats: supported ones, and any other version of a supported format that can be read (R120)."""
    values = dict.fromkeys(formats.list_supported())
    for item in requested if isinstance(requested, list) else ():
        reader = formats.find(item) if isinstance(item, str) and "/" in item else None
        if reader is not None:
            values.setdefault(reader.canonical(item) or item)
    return _choose(row, requested, tuple(values))


def _check_available(row: Capability, requested: Any) -> JSON:
    if not isinstance(requested, dict):
        raise _make_value_error(row.name, requested, _AVAILABLE)
    chosen: JSONObject = {}
    for key, entry in requested.items():
        name = key.lower()
        if name not in _AVAILABLE:
            raise _make_value_error(row.name, key, _AVAILABLE)
        mutable = entry.get("mutable", False) if isinstance(entry, dict) and set(entry) <= {"mutable"} else None
        if not isinstance(mutable, bool):
            raise _make_value_error(f"{row.name}.{name}", entry, ['{"mutable": true}', '{"mutable": false}'])
        if mutable and not _AVAILABLE[name]:
            raise _make_value_error(f"{row.name}.{name}.mutable", "true", ["false"])
        chosen[name] = {"mutable": mutable}
    for name in _ALWAYS_AVAILABLE:
        if name not in chosen:
            raise RegistryError("capability_missing_value", subject=_SUBJECT, name=row.name, value=name)
    return {name: chosen[name] for name in _AVAILABLE if name in chosen}


def _check_compatibilities(row: Capability, requested: Any) -> JSON:
    """Check a map from formats (with wildcards) to some of the offered compatibility rules (R118, G-25)."""
    if not isinstance(requested, dict):
        raise _make_value_error(row.name, requested, ["{}"])
    keys = {key.casefold() for key in requested}
    if len(keys) < len(requested):
        raise RegistryError("capability_error", subject=_SUBJECT, error_detail="formats are named twice in other case")
    for key in requested:
        if not _is_comparable(key):
            comparable = ", ".join(_list_comparable())
            detail = f'no compatibility rule is offered for format "{key}"; there are some for {comparable}'
            raise RegistryError("capability_error", subject=_SUBJECT, error_detail=detail)
    return {
        key: _choose(dataclasses.replace(row, name=f"{row.name}.{key}"), rules, RULES)
        for key, rules in requested.items()
    }


def can_compare(capabilities: JSONObject, format: str, rule: str) -> bool:
    """Return True if the rule ``rule`` is switched on for documents of ``format``, under this name or an alias."""
    reader = formats.find(format)
    if reader is None or find_comparison(format) is None:
        return False
    names = (format, reader.canonical(format) or format)
    return any(
        rule.casefold() in rules and any(_covers(key, name) for name in names)
        for key, rules in capabilities["compatibilities"].items()
    )


def is_offered(listed: Iterable[str], format: str) -> bool:
    """Return True if one of the ``listed`` formats covers ``format`` or its canonical name (R120).

    A ``format`` without a version is covered if any version of it is listed.
    """
    reader = formats.find(format)
    names = (format, (reader and reader.canonical(format)) or format)
    if any(_covers(pattern, name) for pattern in listed for name in names):
        return True
    return "/" not in format and any(formats.find_family(pattern) == formats.find_family(format) for pattern in listed)


def _covers(pattern: str, name: str) -> bool:
    """Return True if ``pattern`` covers the format ``name``.

    ``*`` stands for anything, ``Avro/*`` covers ``Avro`` itself too, and ``Avro/1.11`` covers its patch releases.
    """
    literal, folded = pattern.casefold().replace("[", "[[]").replace("?", "[?]"), name.casefold()
    return any(fnmatchcase(*pair) for pair in ((folded, literal), (f"{folded}/", literal), (folded, f"{literal}.*")))


def _is_comparable(key: str) -> bool:
    """Return True if ``key`` covers, or is a version of, a format whose schemas can be compared."""
    return any(_covers(key, name) for name in _list_comparable()) or ("/" in key and find_comparison(key) is not None)


@cache
def _list_comparable() -> tuple[str, ...]:
    """Return the formats whose schemas can be compared."""
    return tuple(name for name in formats.list_supported() if find_comparison(name) is not None)


def _list_families() -> JSONObject:
    """Return all formats that can be compared, each with a wildcard for its versions, and all rules for each."""
    return {f"{name.partition('/')[0]}/*": list(RULES) for name in _list_comparable()}


def _check_document(document: JSON) -> JSONObject:
    if not isinstance(document, dict):
        raise RegistryError("capability_error", subject=_SUBJECT, error_detail="capabilities need to be a JSON object")
    rows = load_table()
    result = {}
    for name, value in document.items():
        row = rows.get(name)
        if row is None:
            raise RegistryError("capability_unknown", subject=_SUBJECT, field=name)
        result[name] = copy.deepcopy(row.default) if value is None else row.check(row, value)
    return result


def _drop_unused_rules(capabilities: JSONObject) -> JSONObject:
    """Return ``capabilities`` without compatibility rules for formats that are switched off (R118)."""
    used_rules = {
        key: rules
        for key, rules in capabilities["compatibilities"].items()
        if any(_covers(key, name) or _covers(name, key) for name in capabilities["formats"])
    }
    return {**capabilities, "compatibilities": used_rules}


def _make_value_error(field: str, value: Any, allowed: Iterable[str]) -> RegistryError:
    return RegistryError("capability_value", subject=_SUBJECT, value=value, field=field, list=", ".join(allowed))
