"""The loader of a write. It reads from the store before the decision, and whenever the decision needs more data.

Of a Resource with many Versions only those that the write can affect are loaded: the requested Versions, their
ancestors, their neighbours and the newest ones. The decisions are the same as with all Versions loaded (see
``lineage``), because a Version that is not loaded keeps its ancestor, is not the newest, and was valid when it was
written. If this cannot be guaranteed, all Versions are loaded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import islice
from typing import Final, TypeAlias

from signalbook.engine.schemanames import load_named
from signalbook.engine.write.commands import ONE_RESOURCE, Command, Intent, ResourceIntent, require_object
from signalbook.engine.write.context import Context, CrossReferences, DocumentNotStored, Documents, Lookup, Stored
from signalbook.engine.write.lineage import ORDERED, rank
from signalbook.engine.write.workingcopies import (
    OwnerCopy,
    ResourceCopy,
    VersionCopy,
    WorkingCopy,
    WorkingTree,
    make_xref_error,
)
from signalbook.errors import RegistryError
from signalbook.formats.compatibility import is_transitive
from signalbook.storage.base import Reader, Row
from signalbook.storage.index import IndexReader
from signalbook.values import JSONObject
from signalbook.work import open_once
from signalbook.xid import ROOT, Kind, Xid

OpenSnapshot: TypeAlias = Callable[[], AbstractContextManager[tuple[Reader, IndexReader]]]
IsPartial: TypeAlias = Callable[[Row, int], bool]

MAX_WHOLE_VERSIONS: Final = 12
"""Resources with up to this many Versions are loaded completely, because selecting Versions takes longer."""
LARGE_GROUP_RESOURCES: Final = 1000
"""Groups with more Resources than this are read in a separate query each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deletion:
    """Entities to delete from ``collection``, as ``rows``, and the rows of everything under them, as ``beneath``.

    ``entries`` holds the part of the request for each entity, by id.
    """

    collection: Xid
    entries: dict[str, JSONObject]
    rows: tuple[Row, ...]
    beneath: tuple[Row, ...]


class WriteLoader:
    """A loader of the data for one command, in a number of queries that does not depend on the number of entities.

    ``read_tree`` and ``read_deletion`` return the tree. The decision then calls the methods of ``context.Loader``,
    which are described there. ``everything`` is an unrestricted reader for constraints that must also hold for entities
    hidden from ``reader``; None means that nothing is hidden. ``index`` finds schemas by name. ``open_snapshot`` opens
    readers of what is committed, for ``load_snapshot``; None means that it is not called.
    """

    def __init__(
        self,
        reader: Reader,
        index: IndexReader,
        stored: Stored,
        documents: Documents,
        *,
        everything: Reader | None = None,
        open_snapshot: OpenSnapshot | None = None,
    ) -> None:
        self._reader = reader
        self._index = index
        self._everything = everything or reader
        self._open_snapshot = open_snapshot
        self.stored = stored
        self.documents = documents
        self._tree: WorkingTree

    def read_tree(self, command: Command, intent: Intent, context: Context) -> WorkingTree:
        """Load all stored entities that ``intent`` can change, and return them as a tree."""
        groups = [group.xid for group in intent.groups]
        resource_intents = {resource.xid: resource for resource in intent.list_resources()}
        tree = self._load_entities(groups, resource_intents, command, context)
        if command.counts_on:
            tree.numbers = self._reader.last_numbers(resource_intents)
            for xid in tree.numbers.keys() & tree.resources.keys():
                tree.resources[xid].versioncounter = max(tree.resources[xid].versioncounter, tree.numbers[xid])
        for xid, resource in tree.resources.items():
            if resource.partial:
                self._load_named(resource, resource_intents[xid], context)
        return tree

    def read_deletion(self, command: Command, context: Context) -> tuple[WorkingTree, Deletion]:
        """Load the owners that a deletion changes and the rows to delete.

        Raises ``not_found`` (R171), ``bad_request`` (R50), and an error for deleting Versions of a cross reference.
        """
        collection = command.target if command.target.is_collection else command.target.parent
        owner = collection.owner
        groups = {Xid(owner.parts[:2])} if owner.parts else set()
        resources = {owner} if owner.kind is Kind.RESOURCE else set()
        tree = self._load_entities(groups, resources, command, context)
        parent = tree.find_owner(owner)
        if parent is None:
            raise RegistryError("not_found", subject=str(command.target))
        if isinstance(parent, ResourceCopy) and parent.xref is not None:
            if (
                command.target.kind is Kind.VERSION
                and self._reader.get(parent.xref / "versions" / command.target.id) is None
            ):
                raise RegistryError("not_found", subject=str(command.target))
            raise make_xref_error(owner)
        rows = tuple(self._list_deleted(parent, command))
        if not command.target.is_collection and not rows:
            raise RegistryError("not_found", subject=str(command.target))
        if isinstance(parent, ResourceCopy) and parent.partial:
            parent.add(VersionCopy.from_row(row) for row in rows)
            self._load_versions(parent, _list_default_candidates(parent, context))
        beneath = tuple(self._list_beneath(rows))
        return tree, Deletion(
            collection=collection, entries=_read_deletion_entries(command), rows=rows, beneath=beneath
        )

    def load(self, lookup: Lookup) -> None:
        loaded, documents = self.stored.entities, self.documents
        rows = self._fetch(lookup.entities)
        if lookup.defaults:
            # The Versions that Resources show are usually needed next, so load them now, in two queries for all
            # Resources.
            rows |= self._fetch({row.xref for row in rows.values() if row.xref is not None} - loaded.keys())
            rows |= self._fetch({row.default_version for row in rows.values() if row.defaultversionid} - loaded.keys())
        contents = (row.document for row in rows.values()) if lookup.contents else ()
        if lookup.names:
            self.stored.names.load(load_named(self._index, self._reader, lookup.names))
        if digests := lookup.documents | documents.find_absent(contents):
            stored = self._reader.documents(digests)
            if lost := digests - stored.keys():
                raise DocumentNotStored(min(lost))  # otherwise the decision would request it forever
            documents.loaded |= stored

    def load_snapshot(self, lookup: Lookup) -> None:
        if self._open_snapshot is None:
            raise AssertionError("work is postponed only in turns of the engine's sessions")
        reader, index = open_once(self._open_snapshot)
        WriteLoader(reader, index, self.stored, self.documents).load(lookup)

    def _fetch(self, xids: Collection[Xid]) -> dict[Xid, Row]:
        """Load these entities and return their rows. Missing entities are remembered as missing."""
        rows = self._reader.get_many(xids) if xids else {}
        self.stored.entities.update({xid: rows.get(xid) for xid in xids})
        return rows

    def list_other_resources(self, groups: Collection[OwnerCopy]) -> dict[Xid, list[ResourceCopy]]:
        keys = [group.before.key for group in groups if group.before is not None]
        rows = self._everything.children(keys) if keys else ()
        copies = [ResourceCopy.from_row(row) for row in rows if row.xid not in self._tree.resources]
        load_versions(self._everything, copies)
        by_group: dict[Xid, list[ResourceCopy]] = {}
        for copy in copies:
            by_group.setdefault(copy.xid.owner, []).append(copy)
        return by_group

    def list_messages(
        self, groups: Collection[Row], types: Collection[tuple[str, str]], limit: int
    ) -> dict[Xid, list[Xid]]:
        # All small Groups together take one query, and each large Group takes one query with a limit.
        sizes: Counter[int] = Counter()
        for (key, _), count in self._reader.counts([group.key for group in groups]).items():
            sizes[key] += count
        xids = {group.key: group.xid for group in groups if sizes[group.key] > 0}
        large = [[key] for key in xids if sizes[key] > LARGE_GROUP_RESOURCES]
        small = [key for key in xids if sizes[key] <= LARGE_GROUP_RESOURCES]
        messages: dict[Xid, list[Xid]] = {}
        for keys in (*large, small) if small else large:
            rows = (row for row in self._reader.children(keys) if _types_of(row.xid) in types)
            for row in rows if keys is small else islice(rows, limit):
                messages.setdefault(xids[row.parent], []).append(row.xid)
        return messages

    def list_members(self, group: Row, plural: str, after: str | None, limit: int) -> list[Row]:
        return list(self._reader.children([group.key], plural, after=after, limit=limit))

    def find_cross_references(self, other_resources: Mapping[Xid, Collection[ResourceCopy]]) -> CrossReferences:
        # These are the references in the tree, the references of ``other_resources`` in changed Groups, and stored
        # references to Resources in the tree.
        tree = self._tree
        # In the order of the request, not of the keys, because the first error found is the one in the response.
        copies = (copy for group in tree.groups for copy in other_resources.get(group, ()))
        targets = {copy.xid: copy.xref for copy in copies if copy.xref is not None}
        targets |= {xid: copy.xref for xid, copy in tree.resources.items() if copy.xref is not None}
        # The reference of a Resource in the tree is taken from the tree, because its stored xref may be outdated.
        for row in self._everything.referrers([xid for xid, copy in tree.resources.items() if copy.xref is None]):
            if row.xref is not None and row.xid not in tree.resources:
                targets[row.xid] = row.xref
        if not targets:
            return CrossReferences()
        groups = {source.owner for source in targets} - set(tree.groups)
        missing = {target for target in targets.values() if target not in tree.resources}
        ends = load_entities(self._everything, groups, missing)
        return CrossReferences(targets=targets, groups=ends.groups, resources=ends.resources)

    def add_neighbours(self, resource: ResourceCopy, mode: str) -> None:
        changed = [version for version in resource.versions.values() if _is_changed(version, mode)]
        removed = list(resource.removed.values())
        # Two Versions that move can be each other's neighbours, and in manual mode a Version that moves takes
        # descendants along. Such writes are rare, so all Versions are loaded for them.
        if len(changed) + len(removed) > 1 or (mode not in ORDERED and any(version.before for version in changed)):
            self._load_all(resource)
        elif mode in ORDERED:
            self._load_in_order(resource, changed, removed, mode)
        else:
            self._load_leaves(resource, changed, removed)
        resource.arrange()

    def add_compared(self, resource: ResourceCopy, changed: Collection[str]) -> None:
        moved = [v for v in resource.versions.values() if v.id in changed or v.relinked]
        self._load_versions(resource, [version.ancestorid for version in moved if version.ancestorid is not None])
        resource.add(_make_copies(self._reader.derived(resource.key, changed)))
        resource.arrange()

    def _load_entities(
        self, groups: Collection[Xid], resources: Collection[Xid], command: Command, context: Context
    ) -> WorkingTree:
        def is_partial(row: Row, count: int) -> bool:
            return _is_partial(row, count, command, context)

        self._tree = tree = load_entities(self._reader, groups, resources, is_partial)
        self.stored.written, self.stored.owners = tree.resources, tree.groups
        # If a reference is removed, the visible epoch must not decrease, so the epoch of the target is needed (R269).
        referring = [copy for copy in tree.resources.values() if copy.xref is not None]
        targets = self._reader.get_many({copy.xref for copy in referring if copy.xref is not None}) if referring else {}
        for copy in referring:
            target = targets.get(copy.xref) if copy.xref is not None else None
            copy.target_epoch = target.epoch if target is not None else 0
        return tree

    def _load_versions(self, resource: ResourceCopy, ids: Iterable[str]) -> None:
        """Load the existing Versions with these ids into a partially loaded Resource."""
        missing = {
            versionid for versionid in ids if versionid not in resource.versions and versionid not in resource.removed
        }
        if missing:
            rows = self._reader.get_many([resource.xid / "versions" / versionid for versionid in missing])
            resource.add(_make_copies(rows.values()))

    def _load_all(self, resource: ResourceCopy) -> None:
        resource.add(_make_copies(self._reader.children([resource.key], "versions")))
        # All Versions are loaded now, so every ancestor can be set and checked.
        resource.stored_count, resource.open, resource.inner = None, None, ()
        resource.arrange()

    def _load_named(self, resource: ResourceCopy, intent: ResourceIntent, context: Context) -> None:
        """Load the Versions that a request names or numbers, and those that are or may become the default Version."""
        generated = str(resource.versioncounter + 1)
        versionids = [version.id or generated for version in intent.versions]
        versionids += _list_default_candidates(resource, context, (intent.meta or {}).get("defaultversionid"))
        self._load_versions(resource, versionids)  # one query for all ids
        if any(version.id is None for version in intent.versions) and generated in resource.versions:
            self._load_all(resource)  # clients choose numbers too, so the next numbers may be in use

    def _load_in_order(
        self, resource: ResourceCopy, changed: list[VersionCopy], removed: list[VersionCopy], mode: str
    ) -> None:
        """Load, in an ordered mode, the neighbours of Versions that move, at their old and new positions."""
        moving = {version.id for version in (*changed, *removed)}
        resource.open = {version.id for version in changed}
        positions = [(rank(version, mode), version.id) for version in changed]
        stored = [(version.before, version.id) for version in (*changed, *removed)]
        positions += [(row.rank, name) for row, name in stored if row is not None and row.rank is not None]
        for position in positions:
            # Read two Versions on each side, because the nearest one may be the Version that moves.
            sides = (_make_copies(rows) for rows in self._reader.neighbours(resource.key, *position, 2))
            before, behind = ([version for version in side if version.id not in moving] for side in sides)
            resource.add((*before[:1], *behind[:1]))
            # The ancestor of a Version is the one before it, so it changes when a Version is inserted or removed in
            # between.
            resource.open |= {version.id for version in behind[:1]}
        # Whatever happens to a single Version, one of the two newest stored ones stays the newest stored one.
        resource.add(_make_copies(self._reader.newest(resource.key, 2)))

    def _load_leaves(self, resource: ResourceCopy, changed: list[VersionCopy], removed: list[VersionCopy]) -> None:
        """Load, in manual mode, the Versions that may gain or lose an ancestor: leaves, and children of removed
        Versions.
        """
        self._load_versions(resource, [v.ancestorid for v in (*changed, *removed) if v.ancestorid is not None])
        orphans = _make_copies(self._reader.derived(resource.key, [version.id for version in removed]))
        newest = _make_copies(self._reader.leaves(resource.key, 1))
        resource.add((*orphans, *newest))
        resource.open = {version.id for version in (*changed, *orphans)}
        loaded = (*resource.versions.values(), *removed)
        leaves = {leaf.id for leaf in newest}
        nothing_to_ask = all(version.before is None or version.id in leaves for version in loaded)
        resource.inner = () if nothing_to_ask else self._find_ancestors(loaded)
        # In a linear history there is no second leaf, and searching for it would read all Versions.
        leaf_position = _find_sure_leaf(resource, changed, removed)
        if any(_may_displace(version, newest) for version in (*changed, *removed)) and any(
            _is_after(leaf, leaf_position) for leaf in newest
        ):
            resource.add(_make_copies(self._reader.leaves(resource.key, 2, above=leaf_position)))

    def _find_ancestors(self, versions: Iterable[VersionCopy]) -> set[str]:
        """Return the ids of those ``versions`` that are the ancestor of a stored Version outside ``versions``."""
        ids = {version.before.key: version.id for version in versions if version.before is not None}
        return {ids[key] for key in self._reader.ancestors(ids)}

    def _list_deleted(self, parent: WorkingCopy, command: Command) -> Iterator[Row]:
        """Yield the stored entities to delete. Ids that do not exist are skipped (R169)."""
        target = command.target
        if target.is_collection:
            ids = None if command.body is None else list(require_object(command.body, target, "the body"))
            rows = self._reader.children([parent.key], target.parts[-1], ids=ids)
            yield from (row for row in rows if ids is None or row.xid.id in ids)
        else:
            # The store compares ids without regard to case, but a deletion must match the case.
            rows = self._reader.children([parent.key], target.parts[-2], ids=[target.id])
            yield from (row for row in rows if row.xid == target)

    def _list_beneath(self, rows: Collection[Row]) -> Iterator[Row]:
        """Yield the rows of everything under the Groups or Resources ``rows``, level by level."""
        owners = [row.key for row in rows if row.xid.kind is not Kind.VERSION]
        below = list(self._reader.children(owners)) if owners else []
        yield from below
        # Three levels at most: Groups, Resources, Versions.
        if below:
            yield from self._list_beneath(below)


def load_entities(
    reader: Reader, groups: Collection[Xid], resources: Collection[Xid], is_partial: IsPartial | None = None
) -> WorkingTree:
    """Load the Registry, these Groups, and these Resources with their Versions. Missing entities are left out.

    For ``is_partial`` see ``load_versions``.
    """
    rows = reader.get_many({ROOT, *groups, *resources})
    tree = WorkingTree(registry=OwnerCopy.from_row(rows[ROOT]))
    tree.groups = {xid: OwnerCopy.from_row(rows[xid]) for xid in groups if xid in rows}
    tree.resources = {xid: ResourceCopy.from_row(rows[xid]) for xid in resources if xid in rows}
    load_versions(reader, tree.resources.values(), is_partial)
    return tree


def load_versions(reader: Reader, resources: Collection[ResourceCopy], is_partial: IsPartial | None = None) -> None:
    """Load the Versions of all stored Resources in one query, except for Resources for which ``is_partial`` returns
    True.

    ``is_partial`` gets the Resource's row and its number of Versions. None loads all Versions.
    """
    by_key = {copy.key: copy for copy in resources if copy.before is not None and copy.xref is None}
    # Counting first costs one query, but avoids reading thousands of Versions.
    counts = reader.counts(by_key) if is_partial and by_key else {}
    for (key, _), count in counts.items():
        row = by_key[key].before
        if is_partial and row is not None and is_partial(row, count):
            by_key.pop(key).stored_count = count
    for row in reader.children(by_key, "versions") if by_key else ():
        by_key[row.parent].versions[row.xid.id] = VersionCopy.from_row(row)


def _is_partial(row: Row, count: int, command: Command, context: Context) -> bool:
    """Return True if a write to a Resource with ``count`` stored Versions needs only some of them.

    The write must be about this Resource alone, and its Versions must already be ordered by the current version mode.
    Limits on the number of Versions and rules that compare all of them need all Versions; an unchanged rule that
    compares neighbours does not (see ``compatibility``).
    """
    target = command.target
    if target.kind not in ONE_RESOURCE:
        return False
    resource_type = context.model.groups[target.group_type].resources[target.resource_type]
    body = command.body if isinstance(command.body, dict) else {}
    meta_in_body = body if target.kind is Kind.META else body.get("meta")
    meta = meta_in_body if isinstance(meta_in_body, dict) else {}
    rule = str(context.compatibility or row.attributes.get("compatibility") or "")
    compared = (rule or meta.get("compatibility")) and (resource_type.validatecompatibility or context.compatibility)
    return (
        count > MAX_WHOLE_VERSIONS
        and row.settled == resource_type.versionmode
        and meta.get("xref") is None  # a cross reference has no Versions, so all are removed
        and not (
            resource_type.singleversionroot and resource_type.versionmode not in ORDERED
        )  # in an ordered mode there is always one root
        and not (resource_type.maxversions and count >= resource_type.maxversions)
        and not (compared and (meta_in_body is not None or is_transitive(rule)))
    )


def _types_of(xid: Xid) -> tuple[str, str]:
    return xid.group_type, xid.resource_type


def _list_default_candidates(resource: ResourceCopy, context: Context, requested: object = None) -> list[str]:
    """Return the ids of Versions that are or may become the default Version. ``requested`` is the id in the request."""
    names = (resource.defaultversionid, requested, context.flags.setdefaultversionid)
    return [name for name in names if isinstance(name, str)]


def _make_copies(rows: Iterable[Row]) -> list[VersionCopy]:
    return [VersionCopy.from_row(row) for row in rows]


def _is_changed(version: VersionCopy, mode: str) -> bool:
    """Return True if the Version is new or its position or ancestor changed."""
    before = version.before
    return before is None or before.rank != rank(version, mode) or before.ancestorid != version.ancestorid


def _may_displace(version: VersionCopy, newest: list[VersionCopy]) -> bool:
    """Return True if ``version`` may replace the newest stored leaf, or become its child so that it is no leaf any
    more.
    """
    return any(leaf.id == version.id or version.ancestorid in (leaf.id, None) for leaf in newest)


def _is_after(leaf: VersionCopy, position: tuple[str, str]) -> bool:
    """Return True if the stored ``leaf`` comes after ``position``.

    If this is False for the newest leaf, no leaf does.
    """
    return (leaf.rank or "", leaf.id.casefold()) > (position[0], position[1].casefold())


def _find_sure_leaf(resource: ResourceCopy, changed: list[VersionCopy], removed: list[VersionCopy]) -> tuple[str, str]:
    """Return the position of a Version that will certainly be a leaf, so that no Version before it can be the newest.

    Two empty texts mean that no such Version is known.
    """
    above = [resource.versions.get(version.ancestorid or "") for version in removed]
    remaining = [version for version in above if version is not None and version.id not in resource.inner]
    return max(((rank(version, "manual"), version.id) for version in (*changed, *remaining)), default=("", ""))


def _read_deletion_entries(command: Command) -> dict[str, JSONObject]:
    """Return the part of the request for each entity to delete, by id.

    The ``epoch`` flag becomes such an entry (R179).
    """
    if command.target.is_collection:
        body = {} if command.body is None else command.body
        return {
            key: require_object(entry, command.target, f'"{key}"')
            for key, entry in require_object(body, command.target, "the body").items()
        }
    if command.flags.epoch is None:
        return {command.target.id: {}}
    epoch = {"epoch": command.flags.epoch}
    return {command.target.id: {"meta": epoch} if command.target.kind is Kind.RESOURCE else epoch}
