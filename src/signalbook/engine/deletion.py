"""DELETE of one entity or of a collection's entries (core/spec.md "Deleting Entities", R169-R174)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from signalbook.engine.attributes import check_epoch, check_id
from signalbook.engine.commands import Command
from signalbook.engine.context import Context
from signalbook.engine.crossreferences import elsewhere
from signalbook.engine.drafts import OwnerCopy, ResourceCopy, VersionCopy, WorkingCopy
from signalbook.engine.intents import require_object
from signalbook.engine.tree import WorkingTree, load_entities
from signalbook.engine.vicinity import NeedsSome
from signalbook.errors import RegistryError
from signalbook.storage.base import Reader, Row
from signalbook.values import JSON, JSONObject, format_timestamp, parse_timestamp
from signalbook.xid import Kind, Xid


@dataclass(frozen=True, slots=True, kw_only=True)
class Doomed:
    """Entities to delete from one collection, each with what the request says of it."""

    collection: Xid
    entries: dict[str, JSONObject]
    rows: tuple[Row, ...]


def load(reader: Reader, command: Command, partly: NeedsSome) -> tuple[WorkingTree, Doomed]:
    """The owners that a delete touches, and what is to go. Raises ``not_found`` (R171), ``bad_request`` (R266)."""
    collection = command.target if command.target.is_collection else command.target.parent
    owner = collection.owner
    groups = {Xid(owner.parts[:2])} if owner.parts else set()
    resources = {owner} if owner.kind is Kind.RESOURCE else set()
    tree = load_entities(reader, groups, resources, partly)
    found = owner if not owner.parts else (tree.resources.get(owner) or tree.groups.get(owner))
    if found is None:
        raise RegistryError("not_found", subject=str(command.target))
    parent = _owner(tree, owner)
    if isinstance(parent, ResourceCopy) and parent.xref is not None:
        raise elsewhere(owner)
    rows = tuple(_rows(reader, parent, command))
    if not command.target.is_collection and not rows:
        raise RegistryError("not_found", subject=str(command.target))
    return tree, Doomed(collection=collection, entries=_entries(command), rows=rows)


def check(doomed: Doomed, singular: str, context: Context) -> tuple[Row, ...]:
    """The rows that the request speaks rightly of. Raises mismatched_id, mismatched_epoch, misplaced_epoch."""
    rows = []
    for row in doomed.rows:
        with context.problems:
            entry = doomed.entries.get(row.xid.id, {})
            check_id(entry, singular, row.xid.id, row.xid)
            _check_epoch(entry, row, context)
            rows.append(row)
    context.problems.raise_any()
    return tuple(rows)


def remove(reader: Reader, tree: WorkingTree, rows: tuple[Row, ...], context: Context) -> None:
    """Take Groups or Resources out of ``tree``, with all beneath them listed, and touch their owner (R37, R172).

    Reports ``bad_request`` for each that was promised to stay, wherever the delete began (R46, GAP 28).
    """
    if not rows:
        return
    owner = _owner(tree, rows[0].xid.owner)
    if isinstance(owner, OwnerCopy):
        owner.membership_changed(rows[0].xid.parts[-2], context.now)
    gone: list[WorkingCopy] = [
        ResourceCopy.of(row) if row.xid.kind is Kind.RESOURCE else OwnerCopy.of(row) for row in rows
    ]
    gone += descendants(reader, rows)
    for draft in gone:
        with context.problems:
            _check_removal(draft, context)
    tree.deleted += gone


def descendants(reader: Reader, rows: tuple[Row, ...]) -> Iterator[WorkingCopy]:
    """Everything beneath these rows, level by level."""
    below = list(reader.children([row.key for row in rows]))
    for row in below:
        yield VersionCopy.of(row) if row.xid.kind is Kind.VERSION else ResourceCopy.of(row)
    if below and below[0].xid.kind is Kind.RESOURCE:
        yield from descendants(reader, tuple(below))


def _owner(tree: WorkingTree, xid: Xid) -> WorkingCopy:
    if not xid.parts:
        return tree.registry
    return tree.resources[xid] if xid.kind is Kind.RESOURCE else tree.groups[xid]


def _rows(reader: Reader, parent: WorkingCopy, command: Command) -> Iterator[Row]:
    """Stored entities to delete; ids that do not exist are passed over (R169)."""
    key = parent.before.key if parent.before else 0
    target = command.target
    if target.is_collection:
        ids = None if command.body is None else list(require_object(command.body, target, "the body"))
        rows = reader.children([key], target.parts[-1], ids=ids)
        yield from (row for row in rows if ids is None or row.xid.id in ids)
    else:
        yield from (row for row in reader.children([key], target.parts[-2], ids=[target.id]) if row.xid == target)


def _entries(command: Command) -> dict[str, JSONObject]:
    if not command.target.is_collection:
        return {command.target.id: _flagged(command)}
    body: JSON = {} if command.body is None else command.body
    return {
        key: require_object(entry, command.target, f'"{key}"')
        for key, entry in require_object(body, command.target, "the body").items()
    }


def _flagged(command: Command) -> JSONObject:
    """The ``epoch`` flag of a delete of one entity, as an entry of a map would say it (R179)."""
    epoch = command.flags.epoch
    if epoch is None:
        return {}
    return {"meta": {"epoch": epoch}} if command.target.kind is Kind.RESOURCE else {"epoch": epoch}


def _check_epoch(entry: JSONObject, row: Row, context: Context) -> None:
    if context.ignores("epoch"):
        return
    given = entry.get("epoch")
    if row.xid.kind is Kind.RESOURCE:
        meta = entry.get("meta")
        inner = meta.get("epoch") if isinstance(meta, dict) else None
        if given is not None and inner is None:
            raise RegistryError("misplaced_epoch", subject=str(row.xid))
        given = inner
    check_epoch(given, row.epoch, row.xid)


def _check_removal(draft: WorkingCopy, context: Context) -> None:
    """An announced removal date has come (R46)."""
    if draft.xid.kind is Kind.VERSION:
        return
    removal = draft.attributes.get("deprecated", {}).get("removal")
    if removal is None or parse_timestamp(removal) <= context.now:
        return
    until = format_timestamp(parse_timestamp(removal))
    detail = f'"{draft.xid}" is promised to stay until {until} (deprecated.removal)'
    raise RegistryError("bad_request", subject=str(draft.xid), error_detail=detail)


def check_readonly(reader: Reader, rows: tuple[Row, ...], context: Context, *, explicit: bool) -> tuple[Row, ...]:
    """``rows`` without read-only Resources, if those are to be ignored (R207), else ``readonly`` (R261).

    A Group that holds a read-only Resource counts as one.
    """
    if context.admin:
        return rows
    locked = {row.xid for row in rows if row.attributes.get("readonly")}
    groups = [row.key for row in rows if row.xid.kind is Kind.GROUP]
    locked |= {row.xid.owner for row in reader.children(groups) if row.attributes.get("readonly")} if groups else set()
    for xid in sorted(locked):
        if not context.ignores("readonly"):
            raise RegistryError("readonly", subject=str(xid))
        if explicit:
            raise RegistryError("bad_flag", subject=str(xid), flag="ignore")
    return tuple(row for row in rows if row.xid not in locked)
