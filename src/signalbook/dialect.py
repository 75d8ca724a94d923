"""The base class of the dialects of other APIs: what they need of the Versions that any API writes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Literal, Protocol, TypeAlias

from signalbook.values import JSON, JSONObject
from signalbook.xid import Xid

SettingRange: TypeAlias = tuple[Literal["config", "mode", "association"], str, str]
"""A kind of stored settings with a range of their scopes, from the first one to before the last one."""


class StoredEntity(Protocol):
    """A Resource or Version as the registry stores it; see ``storage.base.Row``."""

    @property
    def key(self) -> int: ...
    @property
    def xid(self) -> Xid: ...
    @property
    def attributes(self) -> JSONObject: ...
    @property
    def versioncounter(self) -> int: ...
    @property
    def xref(self) -> Xid | None: ...
    @property
    def uri(self) -> str | None: ...


class EntityIndex(Protocol):
    """The queries to the store that a dialect needs. ``storage.base.Reader`` implements them."""

    def get(self, xid: Xid) -> StoredEntity | None: ...
    def get_many(self, xids: Collection[Xid]) -> Mapping[Xid, StoredEntity]: ...
    def children(
        self, parents: Collection[int], type: str | None = None, *, ids: Collection[str] | None = None
    ) -> Iterator[StoredEntity]: ...
    def named(self, uris: Collection[str], limit: int) -> Sequence[StoredEntity]: ...
    def holders(self, parent: int, document: str, limit: int) -> Sequence[StoredEntity]: ...


class Dialect:
    """A dialect that needs nothing. A dialect overrides the methods for what it needs.

    The engine calls these methods for every write, whichever API it comes from.
    """

    def compute_uri_digest(self, groups: str, attributes: JSONObject) -> str | None:  # noqa: ARG002
        """Return the digest by which a Version below the Group type ``groups`` is looked up, None without one."""
        return None

    def find_taken_uri(
        self,
        reader: EntityIndex,  # noqa: ARG002
        groups: str,  # noqa: ARG002
        claims: Mapping[Xid, Mapping[str, JSON]],  # noqa: ARG002
        root: str,  # noqa: ARG002
    ) -> tuple[Xid, str, Xid] | None:
        """Return a Version in ``claims`` that must not have its URI, that URI, and its owner; None if all are allowed.

        ``claims`` are attributes of stored Versions below the Group type ``groups``. ``root`` is the registry's URL.
        """
        return None

    def keeps_numbers(self, resource: Xid) -> bool:  # noqa: ARG002
        """Return True if the numbers of the Versions of a deleted Resource must not be used again."""
        return False

    def compute_content_key(
        self,
        version: Xid,  # noqa: ARG002
        attributes: Mapping[str, JSON],  # noqa: ARG002
        document: str | None,  # noqa: ARG002
    ) -> str | None:
        """Return a key of the content for which a Version gets a schema id, or None if it gets none.

        ``document`` is the digest of its document. Versions with equal keys share an id.
        """
        return None

    def name_resource(self, resource: Xid, attributes: JSONObject) -> Xid:  # noqa: ARG002
        """Return the xid by which rights on a Resource are checked, in addition to its own.

        ``attributes`` are those of one of its Versions.
        """
        return resource

    def list_setting_ranges(self, group: Xid, default_group: str) -> Sequence[SettingRange]:  # noqa: ARG002
        """Return the ranges of stored settings that count for the quotas of a Group. Empty if it can have none.

        ``default_group`` is the setting ``confluent_group``.
        """
        return ()
