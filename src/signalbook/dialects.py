"""The needs of other APIs that every write meets.

A dialect is a form in which another API shows the registry's entities: that of the CNCF drafts (Schema Registry and
Message Catalog) and that of Confluent's Schema Registry. The engine calls these functions for each write, whichever API
it comes from, and imports nothing else of the dialects.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from signalbook.cncf import ids, lookup
from signalbook.confluent import naming, schemas, settings
from signalbook.values import JSON, JSONObject
from signalbook.xid import Xid


def compute_uri_digest(groups: str, attributes: JSONObject) -> str | None:
    """Return the digest by which a Version below the Group type ``groups`` is looked up, None without one."""
    return ids.compute_uri_digest(groups, attributes)


def find_taken_uri(
    reader: lookup.EntityIndex, groups: str, claims: Mapping[Xid, Mapping[str, JSON]], root: str
) -> tuple[Xid, str, Xid] | None:
    """Return a Version in ``claims`` that must not have its URI, that URI, and its owner; None if all are allowed.

    ``claims`` are attributes of stored Versions below the Group type ``groups``. ``root`` is the registry's URL.
    """
    return (
        lookup.find_taken_uri(reader, claims, lookup.UriBases(groups=groups, root=root))
        if groups in ids.MOUNTS
        else None
    )


def keeps_numbers(resource: Xid) -> bool:
    """Return True if the numbers of the Versions of a deleted Resource must not be used again (A-19)."""
    return ids.api_path(resource) is not None


def compute_content_key(version: Xid, attributes: Mapping[str, JSON], document: str | None) -> str | None:
    """Return a key of the content for which a Version gets a schema id, or None if it gets none.

    ``document`` is the digest of its document. Versions with equal keys share an id.
    """
    return schemas.compute_content_key(attributes, document) if version.group_type == naming.GROUPS else None


def find_subject_xid(resource: Xid, attributes: JSONObject) -> Xid:
    """Return the xid by which rights on the Confluent subject of a Resource are checked.

    Its id is the name of the subject that ``attributes`` of a Version state, even if the name cannot be an id. Return
    ``resource`` if it is not a schema, or if its id is the name.
    """
    if resource.group_type != naming.GROUPS:
        return resource
    name = naming.read_subject_name(resource, attributes)
    return resource if name == resource.id else resource.parent / name


def list_setting_ranges(group: Xid, default_group: str) -> Sequence[settings.SettingRange]:
    """Return the ranges of stored settings that count for the quotas of a Group. Empty if it can have none.

    ``default_group`` is the setting ``confluent_group``.
    """
    if group.group_type != naming.GROUPS:
        return ()
    return settings.list_scope_ranges(naming.context_of(group.group_id, default_group))
