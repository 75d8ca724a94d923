"""The attributes that xRegistry itself defines, per kind of entity (core/spec.md, core R53 to R57, R64, R65).

Each is given as the full model shows it, with what the text says beyond that view: who supplies the value, whether an
empty string is allowed, whether case counts, and where the type that values must have differs from the type shown.
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
    """An attribute of the specification.

    ``managed`` means that the server supplies it, so clients can leave it out even if it is required. ``value_type`` is
    the type by which values are checked, if that is not the type shown.
    """

    definition: JSONObject
    managed: bool = False
    caseless: bool = False
    nonempty: bool = False
    value_type: str = ""
    further: Callable[[JSONObject], tuple[str, str] | None] | None = None


SpecTable: TypeAlias = Mapping[str, SpecAttribute]

_ANYTHING: Final[JSONObject] = {"*": {"name": "*", "type": "any"}}


def _spec(name: str, type: str, flags: str = "", **aspects: JSON) -> tuple[str, JSONObject]:
    """Return a definition. ``flags``: r = readonly, i = immutable, q = required."""
    words = {"r": "readonly", "i": "immutable", "q": "required"}
    return name, {"name": name, "type": type, **{words[flag]: True for flag in flags}, **aspects}


def _given(
    *definitions: tuple[str, JSONObject], nonempty: bool = False, caseless: bool = False
) -> dict[str, SpecAttribute]:
    return {
        name: SpecAttribute(definition=definition, nonempty=nonempty, caseless=caseless)
        for name, definition in definitions
    }


def _managed(*definitions: tuple[str, JSONObject]) -> dict[str, SpecAttribute]:
    return {name: SpecAttribute(definition=definition, managed=True) for name, definition in definitions}


def _removal_after_effective(deprecated: JSONObject) -> tuple[str, str] | None:
    """Core R45: the member that is wrong, and why."""
    effective, removal = deprecated.get("effective"), deprecated.get("removal")
    try:
        early = effective and removal and parse_timestamp(removal) < parse_timestamp(effective)
    except (ValueError, TypeError):
        return None  # the members' own checks have reported it
    return ("removal", "must not be before effective") if early else None


_SELF: Final = _managed(_spec("self", "url", "riq"), _spec("shortself", "url", "ri"), _spec("xid", "xid", "riq"))
_EPOCH: Final = _managed(_spec("epoch", "uinteger", "rq"))
_NAME: Final = _given(_spec("name", "string"), nonempty=True)
_DESCRIPTION: Final = _given(_spec("description", "string"))
_LINKS: Final = _given(_spec("documentation", "url"), _spec("icon", "url"), nonempty=True)
_LABELS: Final = _given(_spec("labels", "map", item={"type": "string"}))
_TIMES: Final = _managed(_spec("createdat", "timestamp", "q"), _spec("modifiedat", "timestamp", "q"))
_COMMON: Final = {**_NAME, **_DESCRIPTION, **_LINKS, **_LABELS, **_TIMES}
_DEPRECATED: Final = {
    "deprecated": SpecAttribute(
        definition={
            "name": "deprecated",
            "type": "object",
            "attributes": dict(
                (
                    _spec("alternative", "url"),
                    _spec("documentation", "url"),
                    _spec("effective", "timestamp"),
                    _spec("removal", "timestamp"),
                    ("*", _ANYTHING["*"]),
                )
            ),
        },
        further=_removal_after_effective,
    )
}
_CONSTRAINTS: Final = _given(
    _spec(
        "constraints",
        "map",
        item={
            "type": "object",
            "attributes": dict(
                (_spec("default", "any"), _spec("enum", "array", item={"type": "any"}), _spec("equals", "string"))
            ),
        },
    )
)


def _collections(plurals: Iterable[str]) -> dict[str, SpecAttribute]:
    definitions = []
    for plural in plurals:
        definitions += [
            _spec(f"{plural}url", "url", "riq"),
            _spec(f"{plural}count", "uinteger", "rq"),
            _spec(plural, "map", item={"type": "object", "attributes": _ANYTHING}),
        ]
    return _managed(*definitions)


def registry_attributes(group_plurals: Iterable[str]) -> SpecTable:
    """Attributes of the Registry entity, with a collection per Group type."""
    return {
        **_managed(
            _spec("specversion", "string", "rq", default=SPECVERSION),
            _spec("registryid", "string", "riq"),
        ),
        **_SELF,
        **_EPOCH,
        **_COMMON,
        **_managed(
            _spec("capabilities", "object", attributes=_ANYTHING),
            _spec("model", "object", "r", attributes=_ANYTHING),
            _spec("modelsource", "object", attributes=_ANYTHING),
        ),
        **_collections(group_plurals),
    }


def group_attributes(singular: str, resource_plurals: Iterable[str]) -> SpecTable:
    """Attributes of a Group, with a collection per Resource type."""
    return {
        **_managed(_spec(f"{singular}id", "string", "iq")),
        **_SELF,
        **_EPOCH,
        **_COMMON,
        **_DEPRECATED,
        **_CONSTRAINTS,
        **_collections(resource_plurals),
    }


def version_attributes(singular: str, *, hasdocument: bool) -> SpecTable:
    """Attributes of a Version; the document's only where the type has documents."""
    return {
        **_managed(_spec(f"{singular}id", "string", "iq"), _spec("versionid", "string", "iq")),
        **_SELF,
        **_EPOCH,
        **_NAME,
        **_managed(_spec("isdefault", "boolean", "rq", default=False)),
        **_DESCRIPTION,
        **_LINKS,
        **_LABELS,
        **_TIMES,
        **_managed(_spec("ancestorid", "string", "q")),
        **_given(_spec("contenttype", "string")),
        **_given(_spec("format", "string"), nonempty=True, caseless=True),
        **_managed(
            _spec("formatvalidated", "boolean", "r"),
            _spec("formatvalidatedreason", "string", "r"),
            _spec("compatibilityvalidated", "boolean", "r"),
            _spec("compatibilityvalidatedreason", "string", "r"),
        ),
        **(_document(singular) if hasdocument else {}),
    }


def _document(singular: str) -> dict[str, SpecAttribute]:
    url = f"{singular}url"
    return {
        # The text allows any URI (core R251), also a URN; the full model shows a url.
        url: SpecAttribute(definition=_spec(url, "url")[1], value_type="uri", nonempty=True),
        **_managed(_spec(singular, "any"), _spec(f"{singular}base64", "string")),
    }


def resource_attributes(singular: str) -> SpecTable:
    """Attributes that a Resource has beside those of its default Version."""
    return {
        **_managed(_spec(f"{singular}id", "string", "iq")),
        **_SELF,
        **_managed(_spec("metaurl", "url", "riq"), _spec("meta", "object", attributes=_ANYTHING)),
        **_collections(["versions"]),
    }


def meta_attributes(singular: str) -> SpecTable:
    """Attributes of a Resource's meta."""
    return {
        **_managed(_spec(f"{singular}id", "string", "iq")),
        **_SELF,
        **_managed(_spec("xref", "url")),
        **_EPOCH,
        **_LABELS,
        **_TIMES,
        **_managed(_spec("readonly", "boolean", "rq", default=False)),
        **_given(_spec("compatibility", "string", enum=list(COMPATIBILITIES), strict=True), caseless=True),
        **_DEPRECATED,
        **_managed(
            _spec("defaultversionid", "string", "q"),
            _spec("defaultversionurl", "url", "rq"),
            _spec("defaultversionsticky", "boolean", "q", default=False),
        ),
    }
