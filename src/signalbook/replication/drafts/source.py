"""A registry that speaks a draft, as a source: its content as that of a registry (``registry.Source``)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from signalbook.cncf.paths import draft_id, entity_id
from signalbook.replication.drafts.base import Draft
from signalbook.replication.registry import PAGE, Changes, NoHistory
from signalbook.values import JSONObject
from signalbook.xid import Kind, Xid


class DraftSource:
    """Groups, Resources and Versions of a draft's registry. It says nothing of meta, and has no change feed."""

    partial: Final = True

    def __init__(self, draft: Draft) -> None:
        self._draft = draft

    @property
    def url(self) -> str:
        """As the protocol says."""
        return self._draft.url

    def bases(self) -> Mapping[str, str]:
        """As the protocol says: URIs are made for the API itself."""
        return {self._draft.kinds[1]: self._draft.url}

    def model(self) -> JSONObject:
        """As the protocol says."""
        groups, members = self._draft.kinds
        return {"groups": {groups: {"singular": groups[:-1], "resources": {members: {"singular": members[:-1]}}}}}

    def modelsource(self) -> JSONObject:
        """As the protocol says: there is nothing that a registry would lack."""
        return {}

    def find(self, xid: Xid, *, deep: bool) -> JSONObject | None:  # noqa: ARG002 - there is but one view
        """As the protocol says; a Resource always comes with all its Versions."""
        group = draft_id(xid.group_id)
        if xid.kind is Kind.GROUP:
            return self._draft.group(group)
        versions = self._versions(group, draft_id(xid.resource_id))
        if xid.kind is Kind.VERSION:
            return versions.get(xid.version_id)
        return {"meta": None, "versions": versions} if versions else None

    def members(
        self,
        collection: Xid,
        *,
        deep: bool,
        page: int = PAGE,  # noqa: ARG002 - there are no pages
    ) -> Iterator[tuple[str, JSONObject]]:
        """As the protocol says."""
        listed = self._draft.groups if collection.kind is Kind.GROUPS else self._members(collection)
        for name in sorted(map(entity_id, listed()), key=str.lower):
            shown = self.find(collection / name, deep=deep)
            if shown is not None:
                yield name, shown

    def position(self) -> int:
        """As the protocol says."""
        raise NoHistory(f"{self.url} speaks a draft, which has no change feed: copy it every so many seconds")

    def changes(self, after: int) -> Changes:
        """As the protocol says."""
        return Changes(events=(), position=after, more=False)

    def mark(self, position: int) -> str:  # noqa: ARG002 - there is no history
        """As the protocol says."""
        return ""

    def wait(self, after: int, seconds: float) -> None:  # noqa: ARG002 - nothing tells of changes
        """As the protocol says."""
        time.sleep(seconds)

    def _members(self, collection: Xid) -> Callable[[], Sequence[str]]:
        if collection.kind is Kind.VERSIONS:
            resource = collection.owner
            return lambda: list(self._versions(draft_id(resource.group_id), draft_id(resource.resource_id)))
        return lambda: self._draft.members(draft_id(collection.group_id))

    def _versions(self, group: str, member: str) -> JSONObject:
        return {str(number): version for number, version in self._draft.versions(group, member)}
