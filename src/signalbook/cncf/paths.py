"""Ids and API paths of the drafts, as ids and xids of xRegistry, and back.

A draft's id is one segment of a path without colon (``segment-nz-nc`` of RFC3986): it may have ``!$&'()*+,;=`` and
percent-encoded bytes, which an id of xRegistry may not; that may have ``:``, which becomes ``%3A``. What cannot stand
in an id of xRegistry stands there as ``~`` and the two hexadecimal digits of each byte of its UTF-8; where it is the
first character, behind a ``_``. A ``~`` that would be taken for such an escape is itself written as one, so that no two
ids of either kind become the same of the other.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import quote, unquote_to_bytes

from signalbook.xid import ID, Kind, Xid

_SEGMENT: Final = "!$&'()*+,;=@"
_VERSION: Final = re.compile(r"[1-9][0-9]{0,9}", re.ASCII)
LAST_VERSION: Final = 2**31 - 1
"""The highest number that an Integer of CloudEvents, and so a version of the drafts, may be."""

_PLAIN: Final = rb"A-Za-z0-9._~:@-"
_FOREIGN: Final = b"|".join(
    b"%02X" % byte for byte in range(256) if not re.fullmatch(rb"[" + _PLAIN + rb"]", bytes([byte]))
)
_TO_ESCAPE: Final = re.compile(rb"[^" + _PLAIN + rb"]|~(?=(?:7E)*(?:" + _FOREIGN + rb"))")
_ESCAPED: Final = re.compile(rb"~(" + _FOREIGN + rb"|7E(?=(?:7E)*(?:" + _FOREIGN + rb")))")
# An id begins with a letter, a digit or "_": other plain characters are escaped there, too.
_ESCAPED_FIRST: Final = re.compile(rb"_(?:~5F)*~(?:2D|2E|3A|40|7E|" + _FOREIGN + rb")")


def entity_id(segment: str) -> str:
    """The id in xRegistry of what has the id ``segment`` in a draft, percent-encoded as in a URL or a document (J-19).

    It may be empty, or too long: ``xid.check_id`` tells.
    """
    raw = unquote_to_bytes(segment)
    text = _TO_ESCAPE.sub(lambda match: _escape(match[0]), raw)
    if raw and not re.match(rb"\w", raw, re.ASCII):
        text = b"_" + (text if _TO_ESCAPE.match(raw) else _escape(text[:1]) + text[1:])
    elif _ESCAPED_FIRST.match(text):
        text = b"_" + _escape(text[:1]) + text[1:]
    return text.decode("ascii")


def draft_id(id: str) -> str:
    """The id in a draft, percent-encoded where a segment needs it, of what has this id in xRegistry (J-19)."""
    if "~" not in id and ":" not in id:
        return id
    text, first = id.encode("ascii"), b""
    if _ESCAPED_FIRST.match(text):
        first, text = _unescape(text[2:4]), text[4:]
    return quote(first + _ESCAPED.sub(lambda match: _unescape(match[1]), text), safe=_SEGMENT)


def version_number(versionid: str) -> int | None:
    """The number of a Version in a draft, None for one that has none: only counted Versions are seen there (J-10)."""
    number = int(versionid) if _VERSION.fullmatch(versionid) else 0
    return number if 0 < number <= LAST_VERSION else None


def schema_path(xid: Xid) -> str | None:
    """The path of a schema group, schema or version in the Schema Registry API, None for anything else (J-8)."""
    return _path(xid, ("schemagroups", "schemas"), ("schemagroups", "schemas"))


def message_path(xid: Xid) -> str | None:
    """The path of a message group, definition or version in the Message Catalog API, None for anything else (J-11)."""
    return _path(xid, ("messagegroups", "messages"), ("messagecatalog", "messagedefinitions"))


def schema_xid(path: str) -> Xid | None:
    """What ``schema_path`` has this path, percent-encoded; None if it is none, whether the entity exists or not."""
    return _xid(path, ("schemagroups", "schemas"), ("schemagroups", "schemas"))


def message_xid(path: str) -> Xid | None:
    """What ``message_path`` has this path; as ``schema_xid``."""
    return _xid(path, ("messagegroups", "messages"), ("messagecatalog", "messagedefinitions"))


def _path(xid: Xid, types: tuple[str, str], names: tuple[str, str]) -> str | None:
    """``names`` in place of the entity's ``types``."""
    if xid.kind not in (Kind.GROUP, Kind.RESOURCE, Kind.VERSION) or xid.parts[:4:2] != types[: len(xid.parts) // 2]:
        return None
    path = "".join(f"/{name}/{draft_id(part)}" for name, part in zip(names, xid.parts[1:4:2], strict=False))
    if xid.kind is not Kind.VERSION:
        return path
    number = version_number(xid.version_id)
    return None if number is None else f"{path}/versions/{number}"


def _xid(path: str, types: tuple[str, str], names: tuple[str, str]) -> Xid | None:
    """``types`` in place of the path's ``names``, ids in place of its segments."""
    parts = path.split("/")[1:]
    if len(parts) not in (2, 4, 6) or tuple(parts[::2]) != (*names, "versions")[: len(parts) // 2]:
        return None
    ids = [entity_id(segment) for segment in parts[1:4:2]]
    if not all(ID.fullmatch(each) for each in ids) or (len(parts) == 6 and version_number(parts[5]) is None):
        return None
    entities = (part for pair in zip(types, ids, strict=False) for part in pair)
    return Xid((*entities, *parts[4:]))


def _escape(text: bytes) -> bytes:
    return b"".join(b"~%02X" % byte for byte in text)


def _unescape(digits: bytes) -> bytes:
    return bytes.fromhex(digits.decode("ascii"))
