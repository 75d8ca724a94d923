"""The data types of the model language (core/spec.md "Data Types"), each as a check of one JSON value.

A check returns the value to store (timestamps in UTC) and raises ``ValueError`` with a message for users.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from signalbook.model.findings import ReferenceCode
from signalbook.values import JSON, format_timestamp, parse_timestamp
from signalbook.xid import Kind, Xid, XidError

ScalarCheck: TypeAlias = Callable[[JSON], JSON]

STRICT_NAME: Final = re.compile(r"[a-z_][a-z0-9_]{0,62}", re.ASCII)
EXTENDED_NAME: Final = re.compile(r"[a-z0-9][a-z0-9:_.-]{0,62}", re.ASCII)
CHARSETS: Final = {"strict": STRICT_NAME, "extended": EXTENDED_NAME}
CHARSET_RULES: Final = {
    "strict": "a name has 1 to 63 characters of a-z 0-9 _ and does not start with a digit",
    "extended": "a name has 1 to 63 characters of a-z 0-9 : _ . - and starts with a letter or a digit",
}
KEY_RULE: Final = "a map key has 1 to 63 characters of a-z 0-9 : _ . - and starts with a letter or a digit"

_SCHEME: Final = r"[A-Za-z][A-Za-z0-9+.-]*:"
_CHARS: Final = r"(?:[A-Za-z0-9\-._~:/?@!$&'()*+,;=\[\]]|%[0-9A-Fa-f]{2})*"
_REST: Final = rf"{_CHARS}(?:\#{_CHARS})?"
_ABSOLUTE: Final = re.compile(rf"{_SCHEME}(?=[^#]){_REST}", re.ASCII)
_RELATIVE: Final = re.compile(rf"(?![^/?#]*:){_REST}", re.ASCII)
_TEMPLATE_NAME: Final = r"(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2})+(?:\.(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2})+)*"
_TEMPLATE_VARIABLE: Final = rf"{_TEMPLATE_NAME}(?::[1-9][0-9]{{0,3}}|\*)?"
_TEMPLATE: Final = re.compile(
    r"(?:[^\x00-\x20\"%<>\\^`{|}\x7f]|%[0-9A-Fa-f]{2}|"
    rf"\{{[+#./;?&=,!@|]?{_TEMPLATE_VARIABLE}(?:,{_TEMPLATE_VARIABLE})*\}})*"
)
_MAX_SHOWN_CHARS: Final = 200
_TARGET: Final = re.compile(r"/([^/\[\]]+)(?:/([^/\[\]]+)(/versions|\[/versions\])?)?")


def _check_string(value: JSON) -> JSON:
    if not isinstance(value, str):
        raise ValueError(f"must be a string, not {describe(value)}")
    return value


def _check_boolean(value: JSON) -> JSON:
    if not isinstance(value, bool):
        raise ValueError(f"must be true or false, not {describe(value)}")
    return value


def _check_integer(value: JSON) -> JSON:
    whole = _read_whole_number(value)
    if whole is None:
        raise ValueError(f"must be an integer, not {describe(value)}")
    return whole


def _check_uinteger(value: JSON) -> JSON:
    whole = _read_whole_number(value)
    if whole is None or whole < 0:
        raise ValueError(f"must be an integer of 0 or more, not {describe(value)}")
    return whole


def _read_whole_number(value: JSON) -> int | None:
    """Return ``value`` as an integer, or None if it is not one.

    JSON has a single number type, so 4.0 is the integer 4.
    """
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _check_decimal(value: JSON) -> JSON:
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        raise ValueError(f"must be a number, not {describe(value)}")
    return value


def _check_timestamp(value: JSON) -> JSON:
    return format_timestamp(parse_timestamp(_check_string(value)))


def _check_uri_absolute(value: JSON) -> JSON:
    if not _ABSOLUTE.fullmatch(_check_string(value)):
        raise ValueError(f"{describe(value)} is not an absolute URI (RFC 3986)")
    return value


def _check_uri_relative(value: JSON) -> JSON:
    if not _RELATIVE.fullmatch(_check_string(value)):
        raise ValueError(f"{describe(value)} is not a relative URI (RFC 3986)")
    return value


def _check_uri(value: JSON) -> JSON:
    if not (_RELATIVE.fullmatch(_check_string(value)) or _ABSOLUTE.fullmatch(value)):
        raise ValueError(f"{describe(value)} is not a URI (RFC 3986)")
    return value


def _make_url_check(check: ScalarCheck) -> ScalarCheck:
    """Return a check of URLs: URIs that pass ``check``, are not empty and do not start with ``urn:``
    (RFC 3986 1.1.3).
    """

    def url(value: JSON) -> JSON:
        check(value)
        if not value:
            raise ValueError("must be a URL, not an empty string")
        if value[:4].lower() == "urn:":
            raise ValueError(f"{describe(value)} is a name, not a URL")
        return value

    return url


def _check_uri_template(value: JSON) -> JSON:
    if not _TEMPLATE.fullmatch(_check_string(value)):
        raise ValueError(f"{describe(value)} is not a URI template (RFC 6570)")
    return value


_PLAIN_CHECKS: Final[dict[str, ScalarCheck]] = {
    "boolean": _check_boolean,
    "decimal": _check_decimal,
    "integer": _check_integer,
    "string": _check_string,
    "timestamp": _check_timestamp,
    "uinteger": _check_uinteger,
    "uri": _check_uri,
    "uriabsolute": _check_uri_absolute,
    "urirelative": _check_uri_relative,
    "uritemplate": _check_uri_template,
    "url": _make_url_check(_check_uri),
    "urlabsolute": _make_url_check(_check_uri_absolute),
    "urlrelative": _make_url_check(_check_uri_relative),
}
SCALARS: Final = frozenset({*_PLAIN_CHECKS, "xid", "xidtype"})
TYPES: Final = frozenset({*SCALARS, "any", "array", "map", "object"})
TARGETED: Final = frozenset({"uri", "url", "xid"})


def describe(value: JSON) -> str:
    """Return a short description of ``value`` for an error message."""
    if isinstance(value, str):
        return f'"{value[:60]}..."' if len(value) > 60 else f'"{value}"'
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        text = str(value)
        return text if len(text) <= 60 else f"{text[:60]}..."
    return "null" if value is None else "an array" if isinstance(value, list) else "an object"


class ReferenceFault(ValueError):
    """An error for a value that is not an xid or names an unknown type (core R33).

    The error catalog has codes for these. ``code`` is the name of the error in the catalog, and ``arguments`` are the
    parameters of its title.
    """

    def __init__(self, code: ReferenceCode, message: str, **arguments: str) -> None:
        super().__init__(message)
        self.code = code
        self.arguments = arguments


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityTypes:
    """The Group and Resource types of one model, by plural name.

    ``groups`` maps a Group type to its Resource types, and each of these to the path where it is defined (such as
    ``/messagegroups/messages``). An imported Resource type has the path of the original type.
    """

    groups: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def origin(self, group: str, resource: str) -> str | None:
        """Return the path at which the Resource type is defined, or None if there is no such type."""
        return self.groups.get(group, {}).get(resource)

    def check_xid(self, value: JSON) -> Xid:
        """Return ``value`` as an xid of an entity whose types exist; the entity itself need not exist (core R8).

        Raises ``ReferenceFault``, or ``ValueError`` if the value is not a string.
        """
        text = _check_string(value)
        try:
            xid = Xid.parse(text)
        except XidError as error:
            raise _make_malformed(text, f"is not an xid: {error}", str(error)) from None
        if xid.is_collection:
            raise _make_malformed(text, "names a collection, not an entity", "it names a collection, not an entity")
        self._check_names(xid.parts[0:3:2])
        return xid

    def check_xidtype(self, value: JSON) -> JSON:
        """Return ``value`` if it is an xidtype whose types exist (core R9), else raise ``ValueError``.

        The forms are ``/``, ``/GROUPS``, ``/GROUPS/RESOURCES`` and ``/GROUPS/RESOURCES/versions``.
        """
        parts = _check_string(value).split("/")
        if parts[0] or len(parts) > 4 or parts[3:] not in ([], ["versions"]):
            raise ValueError(f"{describe(value)} is not of the form /GROUPS/RESOURCES/versions")
        if value != "/":
            self._check_names(parts[1:3])
        return value

    def _check_names(self, names: Sequence[str]) -> None:
        if names and names[0] not in self.groups:
            raise ReferenceFault("unknown_group_type", f'there is no Group type "{names[0]}"', name=names[0])
        if len(names) > 1 and self.origin(names[0], names[1]) is None:
            message = f'Group type "{names[0]}" has no Resource type "{names[1]}"'
            raise ReferenceFault("unknown_resource_type", message, group=names[0], name=names[1])


def _make_malformed(value: str, message: str, detail: str) -> ReferenceFault:
    return ReferenceFault(
        "malformed_xid", f"{describe(value)} {message}", xid=value[:_MAX_SHOWN_CHARS], error_detail=detail
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AttributeTarget:
    """The target of an xid, URI or URL attribute (core/model.md ``target``).

    ``text`` is the target as written. ``origin`` is the path at which its Resource type is defined, empty for a Group.
    """

    text: str
    group: str
    origin: str
    kinds: frozenset[Kind]

    def admits(self, xid: Xid, types: EntityTypes) -> bool:
        """Return True if ``xid`` is of the target type. An imported Resource type counts as the original type."""
        if xid.kind not in self.kinds:
            return False
        if not self.origin:
            return xid.group_type == self.group
        return types.origin(xid.group_type, xid.resource_type) == self.origin


_TARGET_KINDS: Final = {
    None: frozenset({Kind.RESOURCE}),
    "/versions": frozenset({Kind.VERSION}),
    "[/versions]": frozenset({Kind.RESOURCE, Kind.VERSION}),
}


def parse_target(text: JSON, types: EntityTypes) -> AttributeTarget:
    """Parse a ``target`` (core R77). Raises ``ValueError`` if it has a wrong form or names an unknown type."""
    match = _TARGET.fullmatch(_check_string(text))
    if match is None:
        raise ValueError(f"{describe(text)} must be /GROUPS, /GROUPS/RESOURCES, or that with /versions or [/versions]")
    group, resource, versions = match.groups()
    if group not in types.groups:
        raise ValueError(f'there is no Group type "{group}"')
    if resource is None:
        return AttributeTarget(text=text, group=group, origin="", kinds=frozenset({Kind.GROUP}))
    origin = types.origin(group, resource)
    if origin is None:
        raise ValueError(f'Group type "{group}" has no Resource type "{resource}"')
    return AttributeTarget(text=text, group=group, origin=origin, kinds=_TARGET_KINDS[versions])


def find_scalar_check(type: str, types: EntityTypes, target: AttributeTarget | None = None) -> ScalarCheck:
    """Return the check for a scalar type. ``target`` is the attribute's target, or None."""
    if type == "xidtype":
        return types.check_xidtype
    if type == "xid":
        return _make_xid_check(types, target)
    plain = _PLAIN_CHECKS[type]
    return plain if target is None else _make_uri_check(plain, types, target)


def _make_xid_check(types: EntityTypes, target: AttributeTarget | None) -> ScalarCheck:
    def xid(value: JSON) -> JSON:
        parsed = types.check_xid(value)
        if target is not None and not target.admits(parsed, types):
            raise ValueError(f"{describe(value)} is not of type {target.text}")
        return value

    return xid


def _make_uri_check(plain: ScalarCheck, types: EntityTypes, target: AttributeTarget) -> ScalarCheck:
    """Return a check for URIs with a target: a value that starts with ``/`` must be an xid of that type (core R78)."""
    xid = _make_xid_check(types, target)

    def uri(value: JSON) -> JSON:
        plain(value)
        return xid(value) if value.startswith("/") else value

    return uri
