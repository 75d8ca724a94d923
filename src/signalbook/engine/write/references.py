"""Documents by digest, and those that a schema may refer to: by xid or by URL of this registry (domain.md G-16)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Final
from urllib.parse import unquote

from signalbook.engine.write.workingcopies import ResourceCopy
from signalbook.formats.base import Resolve
from signalbook.formats.registry import family
from signalbook.storage.base import Reader
from signalbook.values import JSONError, digest, parse_json
from signalbook.xid import Kind, Xid, XidError

_DETAILS: Final = "$details"


def resolver(
    reader: Reader, drafts: Callable[[], Mapping[Xid, ResourceCopy]], documents: Documents, base_url: str
) -> Resolve:
    """Finds the documents that schemas refer to; never on a network.

    ``drafts`` are the Resources this very request writes: they come before what is stored. ``base_url`` is the URL of
    the registry's root as clients know it: what begins with it is here.
    """

    def resolve(uri: str) -> bytes | None:
        xid = named(uri, base_url)
        digest = None if xid is None else _drafted(xid, drafts()) or _stored(xid, reader, drafts())
        return None if digest is None else schema_text(documents.read(digest))

    return resolve


def named(uri: str, base_url: str) -> Xid | None:
    """The Resource or Version that ``uri`` names: an xid, such as a local fragment or URL of this registry too."""
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


def _drafted(xid: Xid, drafts: Mapping[Xid, ResourceCopy]) -> str | None:
    resource = drafts.get(xid.resource)
    if resource is None:
        return None
    wanted = xid.id if xid.kind is Kind.VERSION else resource.defaultversionid
    resource.find(wanted or "")
    version = resource.versions.get(wanted or "")
    return None if version is None else version.document


def _stored(xid: Xid, reader: Reader, drafts: Mapping[Xid, ResourceCopy]) -> str | None:
    if xid.resource in drafts:  # as it will be counts, not as it was
        return None
    if xid.kind is Kind.RESOURCE:
        row = reader.get(xid)
        if row is not None and row.xref is not None:
            row = reader.get(row.xref)
        if row is None or row.defaultversionid is None:
            return None
        xid = row.xid / "versions" / row.defaultversionid
    found = reader.get(xid)
    return None if found is None else found.document


def schema_text(content: bytes, format: str = "") -> bytes:
    """What a format reads of a document: of one that is a JSON string, the text in it.

    A schema that is no JSON (Protobuf, XSD) sent inline without a ``contenttype`` is a JSON string by R248; what it
    says is in the string. To Avro a string that holds no JSON is a schema: the name of a type.
    """
    if not content.startswith(b'"'):
        return content
    try:
        value = parse_json(content)
    except JSONError:
        return content
    if not isinstance(value, str) or (family(format) == "avro" and not value.lstrip().startswith(("{", "[", '"'))):
        return content
    return value.encode("utf-8")


class Documents:
    """Document bytes by digest: those this command brings, and stored ones when a check needs them."""

    def __init__(self, stored: Callable[[Collection[str]], Mapping[str, bytes]]) -> None:
        self.new: dict[str, bytes] = {}
        self._stored = stored

    def keep(self, content: bytes) -> str | None:
        """Remember ``content``; returns its digest, None for the empty document."""
        if not content:
            return None
        name = digest(content)
        self.new[name] = content
        return name

    def read(self, name: str | None) -> bytes:
        """The bytes behind a digest; no digest is the empty document."""
        if name is None:
            return b""
        return self.new[name] if name in self.new else self._stored([name])[name]
