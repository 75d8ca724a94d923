"""What the CNCF drafts need of the Versions that any API writes: URIs, and numbers that are never used again."""

from __future__ import annotations

from collections.abc import Mapping

from signalbook.cncf.ids import MOUNTS, api_path, compute_uri_digest
from signalbook.cncf.lookup import UriBases, find_taken_uri
from signalbook.dialect import Dialect, EntityIndex
from signalbook.values import JSON, JSONObject
from signalbook.xid import Xid


class CNCFDialect(Dialect):
    """The dialect of the Schema Registry and Message Catalog drafts."""

    def compute_uri_digest(self, groups: str, attributes: JSONObject) -> str | None:
        """Return the digest of the attribute ``globaluri``."""
        return compute_uri_digest(groups, attributes)

    def find_taken_uri(
        self, reader: EntityIndex, groups: str, claims: Mapping[Xid, Mapping[str, JSON]], root: str
    ) -> tuple[Xid, str, Xid] | None:
        """Return the first conflict of URIs: see ``lookup.find_taken_uri``."""
        return find_taken_uri(reader, claims, UriBases(groups=groups, root=root)) if groups in MOUNTS else None

    def keeps_numbers(self, resource: Xid) -> bool:
        """Return True for Resources that a draft shows (A-19)."""
        return api_path(resource) is not None
