"""Write entities and their documents: changes stay pending in the transaction until a query or the commit
needs them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from signalbook.storage.base import DuplicateId, Row
from signalbook.storage.entities import EntityReader, EntityStatements, deleted_counter
from signalbook.storage.schema import dump, findable, fold, load, position, stored_xid
from signalbook.storage.transaction import BYTES, VERSIONS, Pending, SqlWriting, add_counts
from signalbook.xid import ROOT, Kind, Xid

_SUSPECTS: Final = 10_000
"""The number of documents that are checked one by one after a row dropped its reference to them. If there are more, all
stored documents are checked."""
_KEYS: Final = 10_000
"""The maximum number of keys in one statement."""
_GROUP: Final = 2
_VERSION_DEPTH: Final = 6
"""The number of parts in a Version's xid."""
_MAX_CACHED_ROWS: Final = 2_000
"""The maximum number of rows cached in a transaction. An operation on more rows hardly reads the same row twice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupUsage:
    """The number of a Group's Versions, and the total bytes of their documents. A shared document counts once per
    Version."""

    versions: int
    bytes: int


def sum_usage(parts: Collection[GroupUsage]) -> GroupUsage:
    """Return the sum of several usages of one Group."""
    return GroupUsage(versions=sum(part.versions for part in parts), bytes=sum(part.bytes for part in parts))


@dataclass(slots=True)
class _Gone:
    """The rows that a deletion removes.

    ``keys`` are their storage keys, ``lost`` the number of removed children by parent key and type, ``groups`` the keys
    of the removed Groups by xid.
    """

    keys: set[int] = field(default_factory=set)
    lost: dict[int, dict[str, int]] = field(default_factory=dict)
    groups: dict[Xid, int] = field(default_factory=dict)


_NOTHING: Final = GroupUsage(versions=0, bytes=0)


class EntityWriter(EntityReader):
    """Reads and writes entities and their documents. Reads include the writes of the transaction."""

    def __init__(self, transaction: SqlWriting, sql: EntityStatements) -> None:
        super().__init__(transaction, sql)
        self._writing = transaction
        self._last_key: int | None = None
        self._refers: bool | None = None
        self._used: dict[int, GroupUsage] = {}
        """The usage of Groups before this transaction, by key, as far as it was read."""

    def _query(self, sql: str, parameters: Mapping[str, Any]) -> list[Any]:
        """Return all records, including those that this transaction has not written yet."""
        self._writing.flush()
        return super()._query(sql, parameters)

    def _stream(self, sql: str, parameters: Mapping[str, Any]) -> Iterator[tuple[Any, ...]]:
        """Return the records like ``_query``, a batch at a time in memory."""
        self._writing.flush()
        return super()._stream(sql, parameters)

    def get_many(self, xids: Collection[Xid]) -> dict[Xid, Row]:
        """Return the entities that exist among ``xids``. Rows that were read before are not read again."""
        self._writing.check()
        rows = self._find_cached(xids)
        missing = [xid for xid in xids if xid not in rows]
        if missing:
            read = self._read(missing)
            self._remember(read.values())
            rows |= read
        return rows

    def _find_cached(self, xids: Collection[Xid]) -> dict[Xid, Row]:
        """Return those of ``xids`` that are cached: rows that were read or written and not forgotten since."""
        # The layer of a savepoint comes after the layer of its transaction, so that its later writes win.
        layers = [rows for layer in self._writing.layers for rows in (layer.rows, layer.unwritten)]
        return {xid: row for rows in layers for xid in xids if (row := rows.get(xid)) is not None}

    def _read(self, xids: Collection[Xid]) -> dict[Xid, Row]:
        """Read stored entities. If all are in one collection, read them by place, which also reveals the
        vacant places."""
        collections = {xid.parent for xid in xids if xid.parts}
        collection = next(iter(collections), ROOT)
        parent = self._find_cached([collection.owner]).get(collection.owner) if len(collections) == 1 else None
        # ``xids`` may contain xids of collections, which are not stored as entities.
        if parent is None or ROOT in xids or not collection.is_collection:
            return super().get_many(xids)
        plural = collection.parts[-1]
        ids = {
            name
            for name in findable(fold(xid.id) for xid in xids)
            if (parent.key, plural, name) not in self._writing.vacant
        }
        if not ids:
            return {}
        place = {"parent": parent.key, "type": plural, "ids": self._writing.array(ids)}
        rows = [load(record) for record in self._writing.rows(self._sql.at_places, place)]
        empty = ids - {fold(row.xid.id) for row in rows}
        occupied = [layer.places for layer in self._writing.layers]
        self._writing.vacant.update({(parent.key, plural, name) for name in empty}.difference(*occupied))
        requested = set(xids)
        return {row.xid: row for row in rows if row.xid in requested}

    def is_vacant(self, parent: int, type: str, id: str) -> bool:
        """Return True if no child has this id. If the place is known to be vacant, no pending row has to be written
        first."""
        return (parent, type, fold(id)) in self._writing.vacant or super().is_vacant(parent, type, id)

    def _remember(self, rows: Collection[Row]) -> None:
        if sum(len(layer.rows) for layer in self._writing.layers) + len(rows) > _MAX_CACHED_ROWS:
            self._writing.flush()
            self._writing.forget_reads()
        if len(rows) <= _MAX_CACHED_ROWS:
            self._writing.pending.rows.update((row.xid, row) for row in rows)

    def counts(self, parents: Collection[int]) -> dict[tuple[int, str], int]:
        """Return the number of children by (parent key, type): the stored number, read once, plus the
        pending changes."""
        totals: dict[tuple[int, str], int] = {}
        self._count(parents)
        for parent in set(parents):
            total = dict(self._writing.counted[parent])
            for layer in self._writing.layers:
                add_counts(total, layer.members.get(parent, {}))
            totals.update(((parent, plural), count) for plural, count in total.items() if count > 0)
        return totals

    def _count(self, parents: Collection[int]) -> None:
        self._writing.check()
        if len(self._writing.counted) > _MAX_CACHED_ROWS:
            self._writing.counted.clear()
        unknown = [parent for parent in parents if parent not in self._writing.counted]
        self._writing.counted.update((parent, {}) for parent in unknown)
        stored = super().counts(unknown) if unknown else {}
        for (parent, plural), count in stored.items():
            self._writing.counted[parent][plural] = count

    def referrers(self, targets: Collection[Xid]) -> list[Row]:
        """Return the Resources whose xref is one of ``targets``. Skip the query if the registry has no
        cross reference."""
        if self._refers is None:
            self._refers = bool(self._writing.rows(self._sql.refers, {"limit": 1}))
        return super().referrers(targets) if self._refers else []

    def documents(self, digests: Collection[str]) -> dict[str, bytes]:
        """Return the exact bytes of documents by digest, including pending documents."""
        pending_documents = {
            name: layer.documents[name] for layer in self._writing.layers for name in digests if name in layer.documents
        }
        return pending_documents | super().documents([name for name in digests if name not in pending_documents])

    def reserve(self, count: int) -> Sequence[int]:
        """Return ``count`` new storage keys, so that a tree can be inserted level by level."""
        if self._last_key is None:
            self._last_key = int(self._writing.rows(self._sql.last_key, {})[0][0])
        # No other writer runs at the same time, so the counter in the database is raised once, at the commit.
        first = self._last_key + sum(layer.reserved for layer in self._writing.layers) + 1
        self._writing.pending.reserved += max(count, 0)
        return range(first, first + count)

    def insert(self, rows: Sequence[Row]) -> None:
        """Add ``rows``, parents first. Raises ``DuplicateId`` if a sibling has the same id, ignoring case.

        After this error, as after every database error, the transaction can only be rolled back: further calls and the
        commit raise ``StorageError``.
        """
        part = self._writing.pending
        part.touched = True
        if self._claim_places(rows):
            part.unwritten.update((row.xid, row) for row in rows)
        else:
            self._insert(rows)
        for row in rows:
            add_counts(part.members.setdefault(row.parent, {}), {position(row.xid)[0]: 1})
            if row.xid.kind is Kind.VERSION:
                self._use(row.xid, {VERSIONS: 1, **({row.document: 1} if row.document else {})})
        part.named.update(row.document for row in rows if row.document)
        self._keep(rows)

    def _claim_places(self, rows: Sequence[Row]) -> bool:
        """Return True if all places are known to be vacant, and then assign them to these rows."""
        part = self._writing.pending
        for row in rows:
            place = (row.parent, *position(row.xid))
            if place not in self._writing.vacant and (row.parent not in part.new or place in part.places):
                return False
            self._writing.vacant.discard(place)
            part.new.add(row.key)
            part.places.add(place)
        return True

    def _insert(self, rows: Sequence[Row]) -> None:
        self._writing.pending.new.difference_update(row.key for row in rows)
        # Some rows may have been inserted before another one failed, so these places are no longer vacant.
        self._writing.vacant.difference_update((row.parent, *position(row.xid)) for row in rows)
        self._writing.flush()
        # The statement ignores conflicts: on PostgreSQL an error would end the transaction, and would not name the id.
        if self._writing.run_bulk(self._sql.insert, [dump(row) for row in rows]) < len(rows):
            raise self._build_duplicate(rows)

    def _keep(self, rows: Sequence[Row]) -> None:
        if any(row.xref is not None for row in rows):
            self._refers = True
        self._remember(rows)

    def _build_duplicate(self, rows: Sequence[Row]) -> DuplicateId:
        stored = super().get_many([row.xid for row in rows])
        arrived = {row.key: row.xid for row in stored.values()}
        error = DuplicateId(next((row.xid for row in rows if arrived.get(row.key) != row.xid), rows[-1].xid))
        self._writing.end(f"an earlier failure ended this transaction: {error}")
        return error

    def update(self, rows: Sequence[Row]) -> None:
        """Replace the stored rows that have the keys of ``rows``; ``key``, ``parent`` and ``xid`` of a row never
        change.

        If one of the rows is not stored, ``StorageError`` is raised when the pending rows are written.
        """
        documents = {row.document for row in rows if row.document}
        part = self._writing.pending
        part.touched = True
        versions = [row for row in rows if row.xid.kind is Kind.VERSION]
        before = self._find_documents(versions)
        for row in versions:
            if (old := before.get(row.key)) != row.document:
                self._use(row.xid, {digest: sign for digest, sign in ((old, -1), (row.document, 1)) if digest})
        part.suspects |= set(before.values()) - documents
        part.unwritten.update((row.xid, row) for row in rows)
        part.named |= documents
        self._keep(rows)

    def _find_documents(self, rows: Sequence[Row]) -> dict[int, str]:
        """Return the digests of the current documents of ``rows`` by key. Rows without a document are absent."""
        met = self._find_cached([row.xid for row in rows])
        unknown = [row.key for row in rows if row.xid not in met]
        keys = {"keys": self._writing.array(unknown)}
        stored = self._writing.rows(self._sql.named_by_rows, keys) if unknown else ()
        return {row.key: row.document for row in met.values() if row.document} | dict(stored)

    def _use(self, xid: Xid, gained: Mapping[str, int], sign: int = 1) -> None:
        """Add ``gained`` to the usage of the Group that contains ``xid``; subtract it if ``sign`` is -1."""
        add_counts(self._writing.pending.usage.setdefault(Xid(xid.parts[:_GROUP]), {}), gained, sign)

    def delete(self, keys: Collection[int]) -> None:
        """Remove the rows with these keys and everything below them. The commit removes documents that no row refers
        to."""
        if not keys:
            return
        part = self._writing.pending
        part.touched = True
        gone = _Gone()
        self._writing.flush()
        # Delete level by level: a recursive query has no plan that is right for both one row and a million rows.
        level = self._collect_leaving(self._sql.leaving, keys, gone)
        while level:
            level = self._collect_leaving(self._sql.beneath, level, gone)
        self._drop_members(gone.keys, gone.lost)
        self._drop_usage(gone.groups)
        part.index.update(dict.fromkeys(gone.keys))
        for some in _split_keys(gone.keys):
            self._writing.run(self._sql.delete, {"keys": self._writing.array(some)})
        self._writing.forget_reads()

    def _collect_leaving(self, sql: str, keys: Collection[int], gone: _Gone) -> set[int]:
        """Return the keys of the selected rows that were not yet collected. Their documents may become unreferenced."""
        leaving_keys = set()
        suspects = self._writing.pending.suspects
        for some in _split_keys(keys):
            rows = self._writing.rows(sql, {"keys": self._writing.array(some)})
            for key, parent, plural, document, text, size in rows:
                if key in gone.keys:
                    continue
                gone.keys.add(key)
                leaving_keys.add(key)
                self._count_loss(
                    stored_xid(text), key, {BYTES: size} if size is not None else {document: 1}, gone.groups
                )
                add_counts(gone.lost.setdefault(parent, {}), {plural: 1})
                # One document above the limit is enough: the commit then checks all documents.
                if document is not None and len(suspects) <= _SUSPECTS:
                    suspects.add(document)
        return leaving_keys

    def _count_loss(self, xid: Xid, key: int, size: Mapping[str | None, int], groups: dict[Xid, int]) -> None:
        """Subtract a removed Version from the usage of its Group, unless the Group is removed, too.

        Documents of new Versions may not be stored yet, so they are counted by digest and get their size at the commit.
        """
        depth = len(xid.parts)
        if depth == _GROUP:
            groups[xid] = key
        elif depth == _VERSION_DEPTH and Xid(xid.parts[:_GROUP]) not in groups:
            self._use(xid, {VERSIONS: 1, **{name: count for name, count in size.items() if name}}, -1)

    def _drop_usage(self, groups: Mapping[Xid, int]) -> None:
        """Remove the usage of ``groups``, which are being deleted."""
        for some in _split_keys(groups.values()):
            self._writing.run(self._sql.drop_usage, {"parents": self._writing.array(some)})
        for group in groups:
            for gained in [dict(layer.usage.get(group, {})) for layer in self._writing.layers]:
                self._use(group, gained, -1)

    def _drop_members(self, gone: set[int], lost: Mapping[int, Mapping[str, int]]) -> None:
        """Reduce the member counts of parents that remain, and remove the member counts of deleted parents."""
        part = self._writing.pending
        for parent in lost.keys() - gone:
            add_counts(part.members.setdefault(parent, {}), lost[parent], -1)
        # This includes parents that lost all members before: their counts are still stored, as 0.
        for some in _split_keys(gone):
            self._writing.run(self._sql.drop_members, {"parents": self._writing.array(some)})
        for parent in {parent for layer in self._writing.layers for parent in layer.members.keys() & gone}:
            for gained in [dict(layer.members.get(parent, {})) for layer in self._writing.layers]:
                add_counts(part.members.setdefault(parent, {}), gained, -1)

    def put_documents(self, documents: Mapping[str, bytes]) -> None:
        """Store documents by digest (``values.digest``); a document that is already stored is kept.

        Documents may come before or after the rows that refer to them. The commit stores only documents that a row
        refers to.
        """
        self._writing.check()
        self._writing.pending.documents.update(documents)

    def keep_numbers(self, numbers: Mapping[Xid, int]) -> None:
        """Store the last version numbers of deleted Resources, unless a higher number is stored already."""
        self._writing.check()
        rows = [{"name": deleted_counter(xid), "value": number} for xid, number in numbers.items()]
        self._writing.run_many(self._sql.keep_numbers, rows)

    def growth(self) -> dict[Xid, tuple[GroupUsage, GroupUsage]]:
        """Return the usage of each Group that changed since the last savepoint, by xid: (change, new total).

        The totals are read from stored numbers, not counted.
        """
        part = self._writing.pending.usage
        gained = self._add_sizes(part)
        before = [layer.usage for layer in self._writing.layers[:-1]]
        layers = [gained, *(self._add_sizes({xid: some[xid] for xid in part if xid in some}) for some in before)]
        groups = self.get_many([xid for xid, some in gained.items() if some != _NOTHING])
        self._read_usage([row.key for row in groups.values()])
        changed_groups = {}
        for xid, row in groups.items():
            changed_groups[xid] = (
                gained[xid],
                sum_usage((self._used[row.key], *(layer.get(xid, _NOTHING) for layer in layers))),
            )
        return changed_groups

    def usage(self, group: Xid) -> GroupUsage:
        """Return the current usage of ``group``, including pending changes; zero if the Group does not exist."""
        row = self.get(group)
        if row is None:
            return _NOTHING
        self._read_usage([row.key])
        pending = (self._add_sizes(layer.usage, [group]).get(group, _NOTHING) for layer in self._writing.layers)
        return sum_usage((self._used[row.key], *pending))

    def _read_usage(self, keys: Collection[int]) -> None:
        unknown = [key for key in keys if key not in self._used]
        if unknown:
            records = self._writing.rows(self._sql.usage, {"parents": self._writing.array(unknown)})
            self._used.update(dict.fromkeys(unknown, _NOTHING))
            self._used.update((key, GroupUsage(versions=versions, bytes=size)) for key, versions, size in records)

    def _add_sizes(
        self, usage: Mapping[Xid, Mapping[str, int]], groups: Collection[Xid] | None = None
    ) -> dict[Xid, GroupUsage]:
        """Convert ``usage`` (counts by document digest) to versions and bytes. ``groups`` restricts the documents that
        are looked up."""
        some = usage if groups is None else {xid: usage[xid] for xid in groups if xid in usage}
        digests = {name for gained in some.values() for name, count in gained.items() if count}
        sizes = self._read_sizes(digests - {VERSIONS, BYTES}) | {BYTES: 1}
        return {
            xid: GroupUsage(
                versions=gained.get(VERSIONS, 0),
                bytes=sum(count * sizes.get(name, 0) for name, count in gained.items()),
            )
            for xid, gained in usage.items()
        }

    def _read_sizes(self, digests: Collection[str]) -> dict[str, int]:
        sizes = {
            name: len(layer.documents[name])
            for layer in self._writing.layers
            for name in digests
            if name in layer.documents
        }
        unknown = [name for name in digests if name not in sizes]
        return sizes | (
            dict(self._writing.rows(self._sql.sizes, {"digests": self._writing.array(unknown)})) if unknown else {}
        )

    def recount(self) -> None:
        """Count the usage of all Groups again, in case the stored numbers are wrong."""
        self._writing.flush()
        self._writing.run(self._sql.drop_all_usage, {})
        self._writing.run(self._sql.recount, {})

    def finish(self) -> None:
        """Write all pending changes before the commit.

        Unreferenced documents are deleted only now, because a document may lose its last row and get another within one
        transaction. A document that no row ever referred to is not stored at all.
        """
        self._writing.check()
        self._writing.flush()
        pending = self._writing.layers[0]
        documents = [
            {"digest": d, "content": content} for d, content in pending.documents.items() if d in pending.named
        ]
        self._writing.run_bulk(self._sql.put_document, documents)
        self._writing.run_bulk(self._sql.add_members, _list_gained(pending))
        self._writing.run_bulk(self._sql.add_usage, self._list_gained_usage(pending))
        if pending.reserved:
            self._writing.run(self._sql.reserve, {"count": pending.reserved})
        if len(pending.suspects) > _SUSPECTS:
            self._writing.run(self._sql.sweep_all, {})
        elif pending.suspects:
            self._writing.run(self._sql.sweep, {"digests": self._writing.array(pending.suspects)})

    def _list_gained_usage(self, pending: Pending) -> list[dict[str, Any]]:
        gained = {xid: usage for xid, usage in self._add_sizes(pending.usage).items() if usage != _NOTHING}
        return [
            {"parent": row.key, "versions": gained[xid].versions, "bytes": gained[xid].bytes}
            for xid, row in (self.get_many(gained) if gained else {}).items()
        ]


def _split_keys(keys: Collection[int]) -> Iterator[list[int]]:
    """Return ``keys`` in ascending lists of at most ``_KEYS``, which one statement handles well."""
    ordered = sorted(keys)
    return (ordered[start : start + _KEYS] for start in range(0, len(ordered), _KEYS))


def _list_gained(pending: Pending) -> list[dict[str, Any]]:
    """Return the change in the number of members of each collection that gained or lost members."""
    return [
        {"parent": parent, "type": plural, "count": count}
        for parent, gained in pending.members.items()
        for plural, count in gained.items()
        if count
    ]
