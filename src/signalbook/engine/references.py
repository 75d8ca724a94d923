"""What one schema document may refer to in the registry it is in: other schemas, by xid or by URL (domain.md G-16)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import unquote

from signalbook.engine.context import Documents
from signalbook.engine.documents import schema_text
from signalbook.engine.drafts import ResourceCopy
from signalbook.formats.base import Resolve
from signalbook.storage.base import Reader
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
