"""Rules of other APIs that every write has to follow.

A dialect is another form of the registry's entities, in which another API shows them: that of the CNCF drafts (Schema
Registry and Message Catalog), and that of Confluent's Schema Registry. The engine calls these functions for each write,
whichever API it comes from. It imports nothing else from the dialects.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from signalbook.cncf import ids, lookup
from signalbook.confluent import naming, schemas, settings
from signalbook.values import JSON, JSONObject
from signalbook.xid import Xid


def compute_uri_digest(group_type: str, attributes: JSONObject) -> str | None:
    """Return the digest by which a Version with its own URI is looked up, None if it has no such URI.

    ``attributes`` are those of the Version, which is in a Group of the type ``group_type``.
    """
    return ids.compute_uri_digest(group_type, attributes)


def find_taken_uri(
    reader: lookup.EntityIndex, group_type: str, claims: Mapping[Xid, Mapping[str, JSON]], root: str
) -> tuple[Xid, str, Xid] | None:
    """Return a Version in ``claims`` whose URI belongs to another Version, that URI, and the other Version.

    None if there is no such Version. ``claims`` are attributes of stored Versions, all in Groups of the type
    ``group_type``. ``root`` is the registry's URL.
    """
    return (
        lookup.find_taken_uri(reader, claims, lookup.UriBases(groups=group_type, root=root))
        if group_type in ids.MOUNTS
        else None
    )


def keeps_numbers(resource: Xid) -> bool:
    """Return True if the numbers of the Versions of a deleted Resource must not be used again (A-19)."""
    return ids.api_path(resource) is not None


def compute_content_key(version: Xid, attributes: Mapping[str, JSON], document: str | None) -> str | None:
    """Return the key of a Version's content, or None if the Version gets no schema id.

    ``document`` is the digest of its document. Versions with equal keys share a schema id.
    """
    return schemas.compute_content_key(attributes, document) if version.group_type == naming.GROUPS else None


def find_subject_xid(resource: Xid, attributes: JSONObject) -> Xid:
    """Return the xid by which rights on the Confluent subject of a Resource are checked.

    Its id is the name of the subject, even if that is not a valid id. The name is in the ``attributes`` of a Version.
    Return ``resource`` if it is not a schema, or if its id is the name.
    """
    if resource.group_type != naming.GROUPS:
        return resource
    name = naming.read_subject_name(resource, attributes)
    return resource if name == resource.id else resource.parent / name


def list_setting_ranges(group: Xid, default_group: str) -> Sequence[settings.SettingRange]:
    """Return the ranges of stored settings that count for the quotas of a Group. Empty if it cannot have settings.

    ``default_group`` is the setting ``confluent_group``.
    """
    if group.group_type != naming.GROUPS:
        return ()
    return settings.list_scope_ranges(naming.context_of(group.group_id, default_group))
