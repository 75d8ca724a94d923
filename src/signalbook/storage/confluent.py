"""Schema ids, soft-deleted Versions and settings of subjects, for the Confluent-compatible API (decision 145).

Each content gets one number in each Group, from 1 on, and keeps it. Clients that import schemas can claim numbers: a
claim may give a content another number, and may reassign a number that no Version uses any more. Groups are named by
their folded ids.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any, Final, Literal, TypeAlias

from sqlalchemy import bindparam, delete, exists, func, literal_column, select

from signalbook.errors import SignalbookError
from signalbook.storage.dialect import Dialect
from signalbook.storage.schema import (
    SCHEMA_IDS,
    SOFT_DELETED,
    SUBJECT_SETTINGS,
    dump_text,
    instant,
    load_json,
    microseconds,
)
from signalbook.storage.transaction import SqlReader, SqlWriting
from signalbook.values import JSONObject

MOST: Final = 2**31 - 1
"""The highest number. Message headers have four bytes for the number, and Java clients read them as signed."""
SettingKind: TypeAlias = Literal["config", "mode", "reference", "association"]
_BEHIND_ALL: Final = "g"
"""Sorts after any hexadecimal digit."""


class NoIdLeft(SignalbookError):
    """A Group has no free number left."""


class IdTaken(SignalbookError):
    """A client claimed a number that another content has, or that is not a valid id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SoftDeleted:
    """A soft-deleted Version: only requests that ask for deleted Versions see it.

    ``schema`` is the id of its Resource, ``group`` the folded id of its Group. ``attributes`` and ``document`` are
    those that it had when it was deleted at ``deletedat``.
    """

    group: str
    schema: str
    version: int
    schemaid: int
    deletedat: datetime
    attributes: JSONObject
    document: bytes


class ConfluentStatements:
    """The SQL text for one dialect."""

    def __init__(self, dialect: Dialect) -> None:
        i, d, s = SCHEMA_IDS.c, SOFT_DELETED.c, SUBJECT_SETTINGS.c
        of_group: Any = i.group == bindparam("group")
        of_contents = (of_group, dialect.member(i.content, "contents"))
        self.ids = dialect.text(select(i.content, func.min(i.id)).where(*of_contents).group_by(i.content))
        self.all_ids = dialect.text(select(i.id).where(of_group, i.content == bindparam("content")).order_by(i.id))
        self.content = dialect.text(select(i.content).where(of_group, i.id == bindparam("id")))
        between = (i.content >= bindparam("first"), i.content < bindparam("last"))
        self.places = dialect.page(select(i.group, i.id).where(*between).order_by(i.content, i.group, i.id))
        highest = func.coalesce(func.max(i.id), literal_column("0"))
        self.highest = dialect.text(select(highest).where(of_group))
        after = SCHEMA_IDS.alias("after").c
        followed = exists().where(after.group == i.group, after.id == i.id + literal_column("1"))
        before_gap = select(i.id).where(of_group, i.id < bindparam("below"), ~followed).order_by(i.id.desc())
        self.before_gap = dialect.page(before_gap)
        self.next_taken = dialect.text(select(func.min(i.id)).where(of_group, i.id > bindparam("after")))
        number = dialect.insert_many(SCHEMA_IDS)
        changed = {"content": number.excluded.content}
        self.add = dialect.text(number.on_conflict_do_update(index_elements=[i.group, i.id], set_=changed))
        rows = select(*d)
        self.gone_of_group = dialect.page(
            rows.where(d.group == bindparam("group"), d.schema > bindparam("after")).order_by(d.schema, d.version)
        )
        of_schema = (d.group == bindparam("group"), d.schema == bindparam("schema"))
        of_schemas = (dialect.member(d.group, "groups"), dialect.member(d.schema, "schemas"))
        self.gone_of_schemas = dialect.text(rows.where(*of_schemas).order_by(d.version))
        with_id = rows.where(d.group == bindparam("group"), d.schemaid == bindparam("id"))
        self.gone_with_id = dialect.page(with_id.order_by(d.schema, d.version))
        gone = dialect.insert_many(SOFT_DELETED)
        again = {column.name: gone.excluded[column.name] for column in d if not column.primary_key}
        keys = [d.group, d.schema, d.version]
        self.put_gone = dialect.text(gone.on_conflict_do_update(index_elements=keys, set_=again))
        self.drop_gone = dialect.text(delete(SOFT_DELETED).where(*of_schema, dialect.member(d.version, "versions")))
        named = (s.kind == bindparam("kind"), s.scope == bindparam("scope"))
        self.setting = dialect.text(select(s.value).where(*named))
        here = (s.kind.in_([literal_column("'config'"), literal_column("'mode'")]), dialect.member(s.scope, "scopes"))
        self.in_force = dialect.text(select(s.kind, s.scope, s.value).where(*here))
        page = select(s.scope, s.value).where(s.kind == bindparam("kind"), s.scope > bindparam("after"))
        of_gone_group: Any = d.group == bindparam("group")
        self.settings = dialect.page(page.order_by(s.scope))
        beginnings = dialect.elements("scopes")
        behind = (s.kind == bindparam("kind"), s.scope > beginnings.c.value)
        nearest = select(func.min(s.scope)).where(*behind).correlate(beginnings).scalar_subquery()
        nearest_of_all = select(nearest).select_from(beginnings)
        self.following = dialect.text(select(s.value).where(s.kind == bindparam("kind"), s.scope.in_(nearest_of_all)))
        value = dialect.insert_many(SUBJECT_SETTINGS)
        changed = {"value": value.excluded.value}
        size = func.coalesce(func.sum(func.length(s.value)), literal_column("0"))
        between_scopes = (s.kind == bindparam("kind"), s.scope >= bindparam("first"), s.scope < bindparam("last"))
        self.settings_usage = dialect.text(
            select(func.count(), size).select_from(SUBJECT_SETTINGS).where(*between_scopes)
        )
        size = func.coalesce(func.sum(func.length(d.document)), literal_column("0"))
        self.gone_usage = dialect.text(select(func.count(), size).select_from(SOFT_DELETED).where(of_gone_group))
        self.put_setting = dialect.text(value.on_conflict_do_update(index_elements=[s.kind, s.scope], set_=changed))
        self.drop_setting = dialect.text(delete(SUBJECT_SETTINGS).where(*named))


class ConfluentReader(SqlReader[ConfluentStatements]):
    """Reads the numbers of contents, soft-deleted Versions, and settings of subjects."""

    def ids(self, group: str, contents: Collection[str]) -> dict[str, int]:
        """Return the number of each of ``contents`` in a Group; the lowest if there are several. Contents without a
        number are absent."""
        if not contents:
            return {}
        parameters = {"group": group, "contents": self._transaction.array(list(contents))}
        return dict(self._transaction.rows(self._sql.ids, parameters))

    def all_ids(self, group: str, content: str) -> list[int]:
        """Return all numbers that a content has in a Group, in ascending order."""
        return [number for (number,) in self._transaction.rows(self._sql.all_ids, {"group": group, "content": content})]

    def content(self, group: str, id: int) -> str | None:
        """Return the content that has the number ``id`` in a Group, or None."""
        records = self._transaction.rows(self._sql.content, {"group": group, "id": id})
        return str(records[0][0]) if records else None

    def places(self, beginning: str, limit: int = 1000) -> list[tuple[str, int]]:
        """Return (group, number) of up to ``limit`` contents whose hexadecimal digest starts with ``beginning``."""
        parameters = {"first": beginning, "last": beginning + _BEHIND_ALL, "limit": limit}
        return [(group, number) for group, number in self._transaction.rows(self._sql.places, parameters)]

    def highest(self, group: str) -> int:
        """Return the highest number assigned in a Group, or 0 if there is none."""
        return int(self._transaction.rows(self._sql.highest, {"group": group})[0][0])

    def soft_deleted(self, groups: Collection[str], schemas: Collection[str]) -> list[SoftDeleted]:
        """Return the soft-deleted Versions of these schemas in these Groups, by Version number."""
        array = self._transaction.array
        return self._read_gone(
            self._sql.gone_of_schemas, {"groups": array(list(groups)), "schemas": array(list(schemas))}
        )

    def soft_deleted_of(self, group: str, after: str, limit: int) -> list[SoftDeleted]:
        """Return up to ``limit`` soft-deleted Versions of a Group with schema ids after ``after``, by schema and
        number."""
        return self._read_gone(self._sql.gone_of_group, {"group": group, "after": after, "limit": limit})

    def soft_deleted_with(self, group: str, id: int, limit: int = 1000) -> list[SoftDeleted]:
        """Return up to ``limit`` soft-deleted Versions of a Group with the number ``id``, by schema and Version."""
        return self._read_gone(self._sql.gone_with_id, {"group": group, "id": id, "limit": limit})

    def setting(self, kind: SettingKind, scope: str) -> JSONObject | None:
        """Return the setting of ``scope``: the registry (""), a context or a subject. None if there is no setting."""
        records = self._transaction.rows(self._sql.setting, {"kind": kind, "scope": scope})
        return load_json(records[0][0]) if records else None

    def in_force(self, scopes: Collection[str]) -> dict[tuple[str, str], JSONObject]:
        """Return the configs and modes stored for these scopes, by (kind, scope)."""
        records = self._transaction.rows(self._sql.in_force, {"scopes": self._transaction.array(list(scopes))})
        return {(kind, scope): load_json(value) for kind, scope, value in records}

    def settings(self, kind: SettingKind, after: str, limit: int) -> dict[str, JSONObject]:
        """Return up to ``limit`` settings of one kind, by scope, starting after the scope ``after``."""
        records = self._transaction.rows(self._sql.settings, {"kind": kind, "after": after, "limit": limit})
        return {scope: load_json(value) for scope, value in records}

    def following(self, kind: SettingKind, scopes: Collection[str]) -> list[JSONObject]:
        """Return the first stored setting after each of ``scopes``, without duplicates. One query reads all."""
        parameters = {"kind": kind, "scopes": self._transaction.array(list(scopes))}
        return [load_json(value) for (value,) in self._transaction.rows(self._sql.following, parameters)]

    def soft_deleted_usage(self, group: str) -> tuple[int, int]:
        """Return the number of soft-deleted Versions of a Group, and the total bytes of their documents."""
        return self._read_usage(self._sql.gone_usage, {"group": group})

    def settings_usage(self, kind: SettingKind, first: str, last: str) -> tuple[int, int]:
        """Return the number and the total characters of the settings with scopes from ``first`` up to, excluding,
        ``last``."""
        return self._read_usage(self._sql.settings_usage, {"kind": kind, "first": first, "last": last})

    def _read_usage(self, sql: str, parameters: Mapping[str, Any]) -> tuple[int, int]:
        ((count, size),) = self._transaction.rows(sql, parameters)
        return int(count), int(size)

    def _read_gone(self, sql: str, parameters: Mapping[str, Any]) -> list[SoftDeleted]:
        return [
            SoftDeleted(
                group=group,
                schema=schema,
                version=version,
                schemaid=schemaid,
                deletedat=instant(deletedat),
                attributes=load_json(attributes),
                document=bytes(document),
            )
            for group, schema, version, schemaid, deletedat, attributes, document in self._transaction.rows(
                sql, parameters
            )
        ]


class ConfluentWriter(ConfluentReader):
    """Reads and writes in a write transaction. Only one writer runs at a time, so no other writer assigns numbers."""

    def __init__(self, transaction: SqlWriting, sql: ConfluentStatements) -> None:
        super().__init__(transaction, sql)
        self._writing = transaction
        # The highest number by Group. Numbers of writes that were undone are skipped, not used again.
        self._last: dict[str, int] = {}
        # Free numbers by Group, for Groups in which this transaction has to search for gaps.
        self._free: dict[str, Iterator[int]] = {}
        # Numbers assigned or claimed by (Group, content), the latest last. The transaction's layers say which are still
        # valid.
        self._numbers: dict[tuple[str, str], list[int]] = {}
        self._used: set[tuple[str, int]] = set()

    def ids(self, group: str, contents: Collection[str]) -> dict[str, int]:
        """Return the number of each content, as ``ConfluentReader.ids``, including the numbers of this transaction.

        If a content has several numbers, the number that was claimed last is returned.
        """
        numbers_by_content = {
            content: numbers[-1] for content in contents if (numbers := self._list_claimed(group, content))
        }
        stored = super().ids(group, [content for content in contents if content not in numbers_by_content])
        for content, number in stored.items():
            if self._is_still(group, number, content):
                numbers_by_content[content] = number
            elif other_numbers := self.all_ids(group, content):
                numbers_by_content[content] = other_numbers[0]
        return numbers_by_content

    def all_ids(self, group: str, content: str) -> list[int]:
        """Return all numbers that a content has in a Group, in ascending order, including the numbers of this
        transaction."""
        stored = [number for number in super().all_ids(group, content) if self._is_still(group, number, content)]
        return sorted({*stored, *self._list_claimed(group, content)})

    def content(self, group: str, id: int) -> str | None:
        """Return the content that has the number ``id`` in a Group, including the numbers of this
        transaction, or None."""
        return self._find_claimant(group, id) or super().content(group, id)

    def _find_claimant(self, group: str, id: int) -> str | None:
        """Return the content that got the number ``id`` in this transaction, or None."""
        layers = reversed(self._writing.layers)
        return next((layer.schemaids[group, id] for layer in layers if (group, id) in layer.schemaids), None)

    def _list_claimed(self, group: str, content: str) -> list[int]:
        numbers = self._numbers.get((group, content), ())
        return [number for number in numbers if self._find_claimant(group, number) == content]

    def _is_still(self, group: str, id: int, content: str) -> bool:
        """Return True unless this transaction gave the stored number of ``content`` to another content."""
        return self._find_claimant(group, id) in (None, content)

    def give(self, group: str, contents: Sequence[str]) -> dict[str, int]:
        """Return the numbers of ``contents`` in a Group. Contents without a number get the next free numbers, in this
        order."""
        ids = self.ids(group, contents)
        fresh = [content for content in dict.fromkeys(contents) if content not in ids]
        if fresh:
            new_ids = dict(zip(fresh, self._choose_next(group, len(fresh)), strict=True))
            self._take(group, new_ids)
            ids |= new_ids
        return ids

    def claim(self, group: str, content: str, id: int, *, is_free: bool = False) -> None:
        """Assign the number ``id`` to a content. ``give`` then returns this number in this transaction, even if there
        are others.

        ``is_free`` means that no Version has the number, so it may be reassigned. Raises ``IdTaken``.
        """
        if not 0 < id <= MOST:
            raise IdTaken(f"{id} can be no id: ids are numbers from 1 to {MOST}")
        if not is_free and self.content(group, id) not in (None, content):
            raise IdTaken(f"{id} is the id of another schema")
        self._read_highest(group)
        self._take(group, {content: id})

    def _choose_next(self, group: str, count: int) -> Sequence[int]:
        """Return ``count`` numbers after the highest one; if claims leave no room there, return free numbers from gaps.

        Raises ``NoIdLeft``.
        """
        first = self._read_highest(group) + 1
        if first + count - 1 <= MOST:
            return range(first, first + count)
        numbers = list(islice(self._free.setdefault(group, self._find_free_numbers(group)), count))
        if len(numbers) < count:
            raise NoIdLeft(f"all {MOST} schema ids of the group {group} are used: register in another group")
        return numbers

    def _find_free_numbers(self, group: str) -> Iterator[int]:
        """Yield the free numbers, starting with the gap nearest to the highest number, and ascending within a gap.

        A claimed number near the end has below it a gap that starts after the numbers that were assigned in order. So
        the first query finds where to continue, however many numbers there are.
        """
        below = MOST
        while below:
            rows = self._transaction.rows(self._sql.before_gap, {"group": group, "below": below, "limit": 1})
            below = int(rows[0][0]) if rows else 0
            end = self._transaction.rows(self._sql.next_taken, {"group": group, "after": below})[0][0]
            for number in range(below + 1, MOST + 1 if end is None else int(end)):
                if (group, number) not in self._used:  # given or claimed in this transaction
                    yield number

    def _read_highest(self, group: str) -> int:
        if group not in self._last:
            self._last[group] = self.highest(group)
        return self._last[group]

    def _take(self, group: str, new_ids: Mapping[str, int]) -> None:
        for content, number in new_ids.items():
            self._writing.pending.schemaids[group, number] = content
            self._numbers.setdefault((group, content), []).append(number)
            self._used.add((group, number))
        self._last[group] = max(self._last[group], *new_ids.values())

    def put_soft_deleted(self, versions: Sequence[SoftDeleted]) -> None:
        """Store soft-deleted Versions. A stored Version with the same number is replaced."""
        self._writing.pending.touched = True
        self._writing.run_bulk(
            self._sql.put_gone,
            [
                {
                    "group": version.group,
                    "schema": version.schema,
                    "version": version.version,
                    "schemaid": version.schemaid,
                    "deletedat": microseconds(version.deletedat),
                    "attributes": dump_text(version.attributes),
                    "document": version.document,
                }
                for version in versions
            ],
        )

    def drop_soft_deleted(self, group: str, schema: str, versions: Collection[int]) -> None:
        """Remove these soft-deleted Versions of a schema."""
        self._writing.pending.touched = True
        parameters = {"group": group, "schema": schema, "versions": self._writing.array(versions)}
        self._writing.run(self._sql.drop_gone, parameters)

    def put_setting(self, kind: SettingKind, scope: str, value: JSONObject | None) -> None:
        """Store a setting for the registry (scope ""), a context or a subject. The value None removes the setting."""
        self.put_settings(kind, {scope: value})

    def put_settings(self, kind: SettingKind, values: Mapping[str, JSONObject | None]) -> None:
        """Store several settings of one kind by scope. The value None removes a setting."""
        gone = [{"kind": kind, "scope": scope} for scope, value in values.items() if value is None]
        stored = [
            {"kind": kind, "scope": scope, "value": dump_text(value)}
            for scope, value in values.items()
            if value is not None
        ]
        # Running a statement first writes this part's pending rows, which are otherwise written together with other
        # parts' rows. So run none for an empty list.
        if gone:
            self._writing.run_many(self._sql.drop_setting, gone)
        if stored:
            self._writing.run_bulk(self._sql.put_setting, stored)
        self._writing.pending.touched |= bool(values)

    def finish(self) -> None:
        """Write the assigned numbers before the commit."""
        new_ids = self._writing.layers[0].schemaids
        rows = [{"group": group, "content": content, "id": number} for (group, number), content in new_ids.items()]
        self._writing.run_bulk(self._sql.add, rows)
