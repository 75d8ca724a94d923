"""The attributes that xRegistry itself defines, by kind of entity (core/spec.md, core R53 to R57, R64, R65).

Each attribute has its definition from the full model and properties that only the text states: whether the server
supplies the value, whether an empty string is allowed, whether case matters, and which type values must have if it
differs from the definition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from signalbook.values import JSON, JSONObject, parse_timestamp

SPECVERSION: Final = "1.0-rc4"
COMPATIBILITIES: Final = (
    "backward",
    "backward_transitive",
    "forward",
    "forward_transitive",
    "full",
    "full_transitive",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecAttribute:
    """An attribute that the specification defines.

    ``managed`` means that the server supplies the value, so clients can omit it even if it is required. ``value_type``
    is the type by which values are checked if it differs from the type in the definition. ``further`` checks the value
    as a whole and returns the wrong member and the reason, or None.
    """

    definition: JSONObject
    managed: bool = False
    caseless: bool = False
    nonempty: bool = False
    value_type: str = ""
    further: Callable[[JSONObject], tuple[str, str] | None] | None = None


SpecTable: TypeAlias = Mapping[str, SpecAttribute]

_ANYTHING: Final[JSONObject] = {"*": {"name": "*", "type": "any"}}


def _define(name: str, type: str, flags: str = "", **aspects: JSON) -> tuple[str, JSONObject]:
    """Return a definition. ``flags``: r = readonly, i = immutable, q = required."""
    words = {"r": "readonly", "i": "immutable", "q": "required"}
    return name, {"name": name, "type": type, **{words[flag]: True for flag in flags}, **aspects}


def _make_client_attributes(
    *definitions: tuple[str, JSONObject], nonempty: bool = False, caseless: bool = False
) -> dict[str, SpecAttribute]:
    return {
        name: SpecAttribute(definition=definition, nonempty=nonempty, caseless=caseless)
        for name, definition in definitions
    }


def _make_managed_attributes(*definitions: tuple[str, JSONObject]) -> dict[str, SpecAttribute]:
    return {name: SpecAttribute(definition=definition, managed=True) for name, definition in definitions}


def _check_removal(deprecated: JSONObject) -> tuple[str, str] | None:
    """Return the wrong member of ``deprecated`` and the reason, or None (core R45)."""
    effective, removal = deprecated.get("effective"), deprecated.get("removal")
    try:
        early = effective and removal and parse_timestamp(removal) < parse_timestamp(effective)
    except (ValueError, TypeError):
        return None  # the checks of the members report this
    return ("removal", "must not be before effective") if early else None


_SELF: Final = _make_managed_attributes(
    _define("self", "url", "riq"), _define("shortself", "url", "ri"), _define("xid", "xid", "riq")
)
_EPOCH_ATTRIBUTE: Final = _make_managed_attributes(_define("epoch", "uinteger", "rq"))
_NAME_ATTRIBUTE: Final = _make_client_attributes(_define("name", "string"), nonempty=True)
_DESCRIPTION: Final = _make_client_attributes(_define("description", "string"))
_LINKS: Final = _make_client_attributes(_define("documentation", "url"), _define("icon", "url"), nonempty=True)
_LABELS: Final = _make_client_attributes(_define("labels", "map", item={"type": "string"}))
_TIME_ATTRIBUTES: Final = _make_managed_attributes(
    _define("createdat", "timestamp", "q"), _define("modifiedat", "timestamp", "q")
)
_COMMON_ATTRIBUTES: Final = {**_NAME_ATTRIBUTE, **_DESCRIPTION, **_LINKS, **_LABELS, **_TIME_ATTRIBUTES}
_DEPRECATED: Final = {
    "deprecated": SpecAttribute(
        definition={
            "name": "deprecated",
            "type": "object",
            "attributes": dict(
                (
                    _define("alternative", "url"),
                    _define("documentation", "url"),
                    _define("effective", "timestamp"),
                    _define("removal", "timestamp"),
                    ("*", _ANYTHING["*"]),
                )
            ),
        },
        further=_check_removal,
    )
}
_CONSTRAINTS: Final = _make_client_attributes(
    _define(
        "constraints",
        "map",
        item={
            "type": "object",
            "attributes": dict(
                (_define("default", "any"), _define("enum", "array", item={"type": "any"}), _define("equals", "string"))
            ),
        },
    )
)


def _make_collections(plurals: Iterable[str]) -> dict[str, SpecAttribute]:
    definitions = []
    for plural in plurals:
        definitions += [
            _define(f"{plural}url", "url", "riq"),
            _define(f"{plural}count", "uinteger", "rq"),
            _define(plural, "map", item={"type": "object", "attributes": _ANYTHING}),
        ]
    return _make_managed_attributes(*definitions)


def registry_attributes(group_plurals: Iterable[str]) -> SpecTable:
    """Return the attributes of the Registry entity, with a collection for each Group type."""
    return {
        **_make_managed_attributes(
            _define("specversion", "string", "rq", default=SPECVERSION),
            _define("registryid", "string", "riq"),
        ),
        **_SELF,
        **_EPOCH_ATTRIBUTE,
        **_COMMON_ATTRIBUTES,
        **_make_managed_attributes(
            _define("capabilities", "object", attributes=_ANYTHING),
            _define("model", "object", "r", attributes=_ANYTHING),
            _define("modelsource", "object", attributes=_ANYTHING),
        ),
        **_make_collections(group_plurals),
    }


def group_attributes(singular: str, resource_plurals: Iterable[str]) -> SpecTable:
    """Return the attributes of a Group, with a collection for each Resource type."""
    return {
        **_make_managed_attributes(_define(f"{singular}id", "string", "iq")),
        **_SELF,
        **_EPOCH_ATTRIBUTE,
        **_COMMON_ATTRIBUTES,
        **_DEPRECATED,
        **_CONSTRAINTS,
        **_make_collections(resource_plurals),
    }


def version_attributes(singular: str, *, hasdocument: bool) -> SpecTable:
    """Return the attributes of a Version, including those of its document if the type has documents."""
    return {
        **_make_managed_attributes(_define(f"{singular}id", "string", "iq"), _define("versionid", "string", "iq")),
        **_SELF,
        **_EPOCH_ATTRIBUTE,
        **_NAME_ATTRIBUTE,
        **_make_managed_attributes(_define("isdefault", "boolean", "rq", default=False)),
        **_DESCRIPTION,
        **_LINKS,
        **_LABELS,
        **_TIME_ATTRIBUTES,
        **_make_managed_attributes(_define("ancestorid", "string", "q")),
        **_make_client_attributes(_define("contenttype", "string")),
        **_make_client_attributes(_define("format", "string"), nonempty=True, caseless=True),
        **_make_managed_attributes(
            _define("formatvalidated", "boolean", "r"),
            _define("formatvalidatedreason", "string", "r"),
            _define("compatibilityvalidated", "boolean", "r"),
            _define("compatibilityvalidatedreason", "string", "r"),
        ),
        **(_make_document(singular) if hasdocument else {}),
    }


def _make_document(singular: str) -> dict[str, SpecAttribute]:
    url = f"{singular}url"
    return {
        # The text allows any URI (core R251), also a URN; the full model shows a url.
        url: SpecAttribute(definition=_define(url, "url")[1], value_type="uri", nonempty=True),
        **_make_managed_attributes(_define(singular, "any"), _define(f"{singular}base64", "string")),
    }


def resource_attributes(singular: str) -> SpecTable:
    """Return the attributes that a Resource has in addition to those of its default Version."""
    return {
        **_make_managed_attributes(_define(f"{singular}id", "string", "iq")),
        **_SELF,
        **_make_managed_attributes(_define("metaurl", "url", "riq"), _define("meta", "object", attributes=_ANYTHING)),
        **_make_collections(["versions"]),
    }


def meta_attributes(singular: str) -> SpecTable:
    """Return the attributes of a Resource's meta."""
    return {
        **_make_managed_attributes(_define(f"{singular}id", "string", "iq")),
        **_SELF,
        **_make_managed_attributes(_define("xref", "url")),
        **_EPOCH_ATTRIBUTE,
        **_LABELS,
        **_TIME_ATTRIBUTES,
        **_make_managed_attributes(_define("readonly", "boolean", "rq", default=False)),
        **_make_client_attributes(
            _define("compatibility", "string", enum=list(COMPATIBILITIES), strict=True), caseless=True
        ),
        **_DEPRECATED,
        **_make_managed_attributes(
            _define("defaultversionid", "string", "q"),
            _define("defaultversionurl", "url", "rq"),
            _define("defaultversionsticky", "boolean", "q", default=False),
        ),
    }
