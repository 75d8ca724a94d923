"""What the Confluent-compatible API needs of the Versions that any API writes: schema ids and names of subjects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from signalbook.confluent.naming import GROUPS, context_of, read_subject_name
from signalbook.confluent.schemas import compute_content_key
from signalbook.confluent.settings import list_scope_ranges
from signalbook.dialect import Dialect, SettingRange
from signalbook.values import JSON, JSONObject
from signalbook.xid import Xid


class ConfluentDialect(Dialect):
    """The dialect of Confluent's Schema Registry."""

    def compute_content_key(self, version: Xid, attributes: Mapping[str, JSON], document: str | None) -> str | None:
        """Return the key of a schema's content, None for formats that the API lacks."""
        return compute_content_key(attributes, document) if version.group_type == GROUPS else None

    def name_resource(self, resource: Xid, attributes: JSONObject) -> Xid:
        """Return the xid with the name of the schema's subject as its id, even if the name cannot be an id."""
        if resource.group_type != GROUPS:
            return resource
        name = read_subject_name(resource, attributes)
        return resource if name == resource.id else resource.parent / name

    def list_setting_ranges(self, group: Xid, default_group: str) -> Sequence[SettingRange]:
        """Return the scopes of the context that a schema group is."""
        if group.group_type != GROUPS:
            return ()
        return list_scope_ranges(context_of(group.group_id, default_group))
