"""Parse and build xids and ids of xRegistry (core/spec.md "xid", "<SINGULAR>id")."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Final
from urllib.parse import unquote

import msgspec

ID: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._~:@-]{0,127}", re.ASCII)
_VERSION_NUMBER: Final = re.compile(r"[1-9][0-9]{0,9}", re.ASCII)
LAST_VERSION: Final = 2**31 - 1
"""The highest number of a Version: the highest Integer of CloudEvents."""
_TYPE: Final = re.compile(r"[a-z_][a-z0-9_]{0,62}", re.ASCII)
_SHORT: Final = re.compile(r"~([1-9a-f][0-9a-f]{0,14})", re.ASCII)
_MAX_PARTS: Final = 6
_DETAILS: Final = "$details"


class Kind(StrEnum):
    """The kind of entity or collection that an xid names. The value is the word for it in messages."""

    REGISTRY = "registry"
    GROUPS = "groups"
    GROUP = "group"
    RESOURCES = "resources"
    RESOURCE = "resource"
    META = "meta"
    VERSIONS = "versions"
    VERSION = "version"


_KINDS_BY_LENGTH: Final = (
    Kind.REGISTRY,
    Kind.GROUPS,
    Kind.GROUP,
    Kind.RESOURCES,
    Kind.RESOURCE,
    Kind.VERSIONS,
    Kind.VERSION,
)
COLLECTIONS: Final = frozenset({Kind.GROUPS, Kind.RESOURCES, Kind.VERSIONS})


class XidError(ValueError):
    """The error for a string that is not an xid. The message contains the reason."""


def check_id(text: str) -> str:
    """Return ``text`` if it is a legal id. Raises ``XidError`` otherwise (core R25)."""
    if not ID.fullmatch(text):
        raise XidError(
            "an id has 1 to 128 characters of A-Z a-z 0-9 . _ ~ : @ - and starts with a letter, a digit or _"
        )
    return text


def version_number(versionid: str) -> int | None:
    """Return the id of a Version as a number, or None if it is not a valid number of a Version.

    Numbered Versions are the only ones that the CNCF drafts show (J-10).
    """
    number = int(versionid) if _VERSION_NUMBER.fullmatch(versionid) else 0
    return number if 0 < number <= LAST_VERSION else None


def short_path(key: int) -> str:
    """Return the short path of the entity with the storage key ``key``.

    It cannot be mistaken for an xid, because no Group type starts with a tilde (R32).
    """
    return f"/~{key:x}"


def short_key(part: str) -> int | None:
    """Return the storage key in ``part``, the first part of a path, or None if the path is not a short path."""
    match = _SHORT.fullmatch(part)
    return int(match[1], 16) if match else None


class Xid(msgspec.Struct, frozen=True, order=True):
    """A path below the registry root, such as ``/schemagroups/g/schemas/s/versions/1``; ``Xid(())`` is the root.

    ``parts`` alternates type names and ids; the fifth part is the literal ``meta`` or ``versions``.
    Collections (``/schemagroups``) are Xids too, by their ``kind``.
    """

    parts: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Xid:
        """Parse an xid. Raises ``XidError`` for a wrong form. Whether the types exist in a model is not checked."""
        if text == "/":
            return ROOT
        if not text.startswith("/"):
            raise XidError("an xid starts with /")
        parts = tuple(text[1:].split("/"))
        if len(parts) > _MAX_PARTS or (len(parts) == _MAX_PARTS and parts[4] == "meta"):
            raise XidError("an xid has at most the parts /GROUPS/gid/RESOURCES/rid/versions/vid")
        for position, part in enumerate(parts):
            if position == 4:
                if part not in ("meta", "versions"):
                    raise XidError(f'"{part}" must be "meta" or "versions"')
            elif position % 2 == 0:
                if not _TYPE.fullmatch(part):
                    raise XidError(f'"{part}" is not a type name')
            else:
                check_id(part)
        return cls(parts)

    def __str__(self) -> str:
        return "/" + "/".join(self.parts)

    @property
    def kind(self) -> Kind:
        """The kind of entity that the xid names."""
        return Kind.META if len(self.parts) == 5 and self.parts[4] == "meta" else _KINDS_BY_LENGTH[len(self.parts)]

    @property
    def is_collection(self) -> bool:
        """True if the xid names a collection instead of an entity."""
        return self.kind in COLLECTIONS

    @property
    def parent(self) -> Xid:
        """The xid without its last part: the collection of an entity, or the entity that has a collection or meta."""
        return Xid(self.parts[:-1])

    @property
    def owner(self) -> Xid:
        """The entity that contains this one: the Resource of a Version or meta, the Group of a Resource, the Registry.

        For a collection, it is the entity that has the collection.
        """
        return Xid(self.parts[:-1] if self.is_collection or self.kind is Kind.META else self.parts[:-2])

    @property
    def id(self) -> str:
        """The id of the entity, or ``""`` for the registry and for collections. For meta, it is the Resource's id."""
        parts = self.parts
        if len(parts) == 5:
            return parts[3] if parts[4] == "meta" else ""
        return parts[-1] if parts and len(parts) % 2 == 0 else ""

    @property
    def group_type(self) -> str:
        """The plural name of the Group type, or ``""`` for the registry."""
        return self.parts[0] if self.parts else ""

    @property
    def group_id(self) -> str:
        """The id of the Group, or ``""`` if the xid has none."""
        return self.parts[1] if len(self.parts) > 1 else ""

    @property
    def resource_type(self) -> str:
        """The plural name of the Resource type, or ``""`` if the xid has none."""
        return self.parts[2] if len(self.parts) > 2 else ""

    @property
    def resource_id(self) -> str:
        """The id of the Resource, or ``""`` if the xid has none."""
        return self.parts[3] if len(self.parts) > 3 else ""

    @property
    def version_id(self) -> str:
        """The id of the Version, or ``""`` if the xid has none."""
        return self.parts[5] if len(self.parts) > 5 else ""

    @property
    def resource(self) -> Xid:
        """The xid of the Resource that this entity belongs to. For a Resource, it is the same xid."""
        return Xid(self.parts[:4])

    def __truediv__(self, part: str) -> Xid:
        """Return this xid with one more part, which is not checked."""
        return Xid((*self.parts, part))


ROOT: Final = Xid()


def group_of(xid: str) -> str:
    """Return the xid of the Group in the xid of a Resource or Version. Both are text, and their form is not checked."""
    return "/".join(xid.split("/")[:3])


def named(uri: str, base_url: str) -> Xid | None:
    """Return the Resource or Version that ``uri`` names, or None if it names something else.

    ``uri`` may be an xid, a local fragment (``#/...``), or a URL below ``base_url``, the URL of this registry (G-16).
    """
    root = base_url.rstrip("/")
    text = uri.removeprefix("#")
    if root and text.startswith(f"{root}/"):
        text = text[len(root) :]
    elif "://" in text or text.startswith("//"):
        return None
    path = unquote(text.partition("#")[0].partition("?")[0]).removesuffix(_DETAILS)
    try:
        xid = Xid.parse(path if path.startswith("/") else f"/{path}")
    except XidError:
        return None
    return xid if xid.kind in (Kind.RESOURCE, Kind.VERSION) else None
