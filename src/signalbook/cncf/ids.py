"""Convert ids, API paths and URIs of the drafts to ids and xids of xRegistry, and back (A-2, A-27 to A-32, J-19).

An id of a draft is one path segment without a colon (``segment-nz-nc`` of RFC3986). It may have ``!$&'()*+,;=`` and
percent-encoded bytes, which an id of xRegistry may not. An id of xRegistry may have ``:``, which becomes ``%3A``.
Characters that an id of xRegistry must not have become ``~`` and two hexadecimal digits for each byte of their UTF-8.
If the first character needs this, ``_`` is put before it. A ``~`` that looks like such an escape is itself escaped, so
that different ids stay different in both directions.

The URI of a version is composed of an authority and an id. This is not the resolution of a relative reference (RFC3986
5): the path of the authority is always kept.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final
from urllib.parse import quote, unquote, unquote_to_bytes

from signalbook.uris import is_uri, normal_uri
from signalbook.values import JSON, JSONObject, digest
from signalbook.xid import ID, Kind, Xid, version_number

_SEGMENT: Final = "!$&'()*+,;=@"

_UNESCAPED_BYTES: Final = rb"A-Za-z0-9._~:@-"
_FOREIGN: Final = b"|".join(
    b"%02X" % byte for byte in range(256) if not re.fullmatch(rb"[" + _UNESCAPED_BYTES + rb"]", bytes([byte]))
)
_TO_ESCAPE: Final = re.compile(rb"[^" + _UNESCAPED_BYTES + rb"]|~(?=(?:7E)*(?:" + _FOREIGN + rb"))")
_ESCAPED: Final = re.compile(rb"~(" + _FOREIGN + rb"|7E(?=(?:7E)*(?:" + _FOREIGN + rb")))")
# An id begins with a letter, a digit or "_", so other plain characters are escaped at the beginning, too.
_ESCAPED_FIRST: Final = re.compile(rb"_(?:~5F)*~(?:2D|2E|3A|40|7E|" + _FOREIGN + rb")")


def entity_id(segment: str) -> str:
    """Return the id in xRegistry for the id ``segment`` of a draft, percent-encoded as in a URL or a document (J-19).

    The result may be empty or too long. Check it with ``xid.check_id``.
    """
    raw = unquote_to_bytes(segment)
    text = _TO_ESCAPE.sub(lambda match: _escape(match[0]), raw)
    # Ids of xRegistry begin with a letter, a digit or "_": a "_" in front makes any other beginning legal.
    if raw and not re.match(rb"\w", raw, re.ASCII):
        text = b"_" + (text if _TO_ESCAPE.match(raw) else _escape(text[:1]) + text[1:])
    # The id only looks like such a beginning, so its own "_" is escaped, to be restored later.
    elif _ESCAPED_FIRST.match(text):
        text = b"_" + _escape(text[:1]) + text[1:]
    return text.decode("ascii")


def draft_id(id: str) -> str:
    """Return the id in a draft for an id of xRegistry, percent-encoded where a path segment needs it (J-19)."""
    # Nearly all ids need no conversion.
    if "~" not in id and ":" not in id:
        return id
    text, first = id.encode("ascii"), b""
    if _ESCAPED_FIRST.match(text):
        first, text = _unescape(text[2:4]), text[4:]
    return quote(first + _ESCAPED.sub(lambda match: _unescape(match[1]), text), safe=_SEGMENT)


def schema_path(xid: Xid) -> str | None:
    """Return the path of a schema group, schema or version in the Schema Registry API, else None (J-8)."""
    return _build_path(xid, ("schemagroups", "schemas"), ("schemagroups", "schemas"))


def message_path(xid: Xid) -> str | None:
    """Return the path of a message group, definition or version in the Message Catalog API, or None (J-11)."""
    return _build_path(xid, ("messagegroups", "messages"), ("messagecatalog", "messagedefinitions"))


def schema_xid(path: str) -> Xid | None:
    """Return the xid whose ``schema_path`` is this percent-encoded path, or None. The entity need not exist."""
    return _parse_path(path, ("schemagroups", "schemas"), ("schemagroups", "schemas"))


def message_xid(path: str) -> Xid | None:
    """Return the xid whose ``message_path`` is this path, or None."""
    return _parse_path(path, ("messagegroups", "messages"), ("messagecatalog", "messagedefinitions"))


MOUNTS: Final = {
    "schemagroups": ("/compat/schemaregistry/v0.2",),
    "messagegroups": ("/compat/messagecatalog/v0", "/compat/messagecatalog/v0.1"),
}
"""The paths of the drafts' APIs below the root of the registry, by Group type."""
_PATHS: Final[dict[str, Callable[[Xid], str | None]]] = {"schemagroups": schema_path, "messagegroups": message_path}


def api_path(xid: Xid) -> str | None:
    """Return the path of an entity in the drafts' APIs for its Group type, or None if no draft has it."""
    return _PATHS[xid.group_type](xid) if xid.group_type in _PATHS else None


XIDS: Final[dict[str, Callable[[str], Xid | None]]] = {"schemagroups": schema_xid, "messagegroups": message_xid}


def _build_path(xid: Xid, types: tuple[str, str], names: tuple[str, str]) -> str | None:
    """Return the API path of an entity, with ``names`` in place of its ``types``, or None if it has none."""
    if xid.kind not in (Kind.GROUP, Kind.RESOURCE, Kind.VERSION) or xid.parts[:4:2] != types[: len(xid.parts) // 2]:
        return None
    path = "".join(f"/{name}/{draft_id(part)}" for name, part in zip(names, xid.parts[1:4:2], strict=False))
    if xid.kind is not Kind.VERSION:
        return path
    number = version_number(xid.version_id)
    return None if number is None else f"{path}/versions/{number}"


def _parse_path(path: str, types: tuple[str, str], names: tuple[str, str]) -> Xid | None:
    """Return the xid for an API path, with ``types`` in place of ``names`` and ids in place of segments, or None."""
    parts = path.split("/")[1:]
    if len(parts) not in (2, 4, 6) or tuple(parts[::2]) != (*names, "versions")[: len(parts) // 2]:
        return None
    ids = [entity_id(segment) for segment in parts[1:4:2]]
    if not all(ID.fullmatch(part_id) for part_id in ids) or (len(parts) == 6 and version_number(parts[5]) is None):
        return None
    entities = (part for pair in zip(types, ids, strict=False) for part in pair)
    return Xid((*entities, *parts[4:]))


def _escape(text: bytes) -> bytes:
    return b"".join(b"~%02X" % byte for byte in text)


def _unescape(digits: bytes) -> bytes:
    return bytes.fromhex(digits.decode("ascii"))


_ANY_BASE: Final = "any:/base"
"""A placeholder for the URL of an API."""
_SEGMENTS: Final = 6  # /schemagroups/g/schemas/s/versions/1


def compose(authority: str, id: str, base: str) -> str:
    """Return the URI of a version with this ``id`` under this ``authority`` (A-28).

    ``id`` is a URI reference, or the version's path in the API if it has no id of its own (A-20). An empty
    ``authority`` means the API itself, whose URL is ``base`` (A-13).
    """
    text = id.replace(" ", "%20")
    if is_uri(text):
        return text
    return _join_authority(authority, text) if authority else f"{base.rstrip('/')}/{text.removeprefix('/')}"


def lookup_key(authority: str, id: str) -> str:
    """Return the key by which a version with its own ``id`` is found: its URI without the API's URL.

    The API's URL depends on the caller and the mount. Equal URIs have equal keys (``normal_uri``).
    """
    return normal_uri(compose(authority, id, _ANY_BASE)).removeprefix(f"{_ANY_BASE}/")


def lookup_keys(uri: str, bases: Iterable[str]) -> list[str]:
    """Return the ``lookup_key``s for the version with this ``uri`` in an API with the URLs ``bases``.

    A relative ``uri`` is relative to any of them.
    """
    text, starts = normal_uri(uri), [f"{normal_uri(base.rstrip('/'))}/" for base in bases]
    behind = [text.removeprefix(start) for start in starts if text.startswith(start)]
    if behind or is_uri(uri):
        return [text, *behind]
    key = lookup_key("", uri)
    return [key, *(f"{start}{key}" for start in starts)]


def compute_uri_digest(groups: str, attributes: JSONObject) -> str | None:
    """Return the digest under which a version with its own id (attribute ``globaluri``) is found by its URI.

    ``groups`` is the plural name of its Group type: the same URI below another type is another version.
    """
    stated_id = own_id(attributes)
    return key_digest(groups, lookup_key(authority_of(attributes), stated_id)) if stated_id else None


def key_digest(groups: str, key: str) -> str:
    """Return the digest under which a ``lookup_key`` is stored."""
    return digest(f"{groups} {key}".encode("utf-8", "surrogatepass"))


def own_id(attributes: Mapping[str, JSON]) -> str:
    """Return the id that was given to a version, or "" if it has none of its own (A-20)."""
    value = attributes.get("globaluri")
    return value if isinstance(value, str) else ""


def authority_of(attributes: Mapping[str, JSON]) -> str:
    """Return the ``authority``, or "" if there is none (A-13)."""
    authority = attributes.get("authority")
    return authority if isinstance(authority, str) else ""


def extract_path(uri: str) -> str:
    """Return the path in the API at the end of ``uri``, for the URI of a version without its own id (A-20).

    The text before it would be the authority. Use ``compose`` to check whether that is right.
    """
    return "/" + "/".join(uri.split("/")[-_SEGMENTS:])


def _join_authority(authority: str, id: str) -> str:
    path = authority.partition(":")[2]
    # An authority without a path, such as urn:example, goes on with a colon.
    if path and not path.startswith("/") and is_uri(authority):
        return f"{authority}:{id}"
    return f"{authority.removesuffix('/')}/{id.removeprefix('/')}"


SEGMENT: Final = re.compile(r"(?:[A-Za-z0-9._~!$&'()*+,;=@-]|%[0-9A-Fa-f]{2})+", re.ASCII)
"""``segment-nz-nc`` of RFC3986 3.3."""


def is_segment(text: object) -> bool:
    """Return True if ``text`` is a legal id of the drafts."""
    return isinstance(text, str) and SEGMENT.fullmatch(text) is not None


def same_id(id: str, other: str) -> bool:
    """Return True if two ids differ only in percent-encoding, which types of CloudEvents do not have (B-13)."""
    return id == other or unquote(id) == unquote(other)
