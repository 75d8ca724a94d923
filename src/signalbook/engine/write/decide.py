"""One command from its intent to changed working copies: which entities, in which order, what the response shows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from signalbook.engine.write.commands import (
    Command,
    GroupIntent,
    Intent,
    Method,
    ResourceIntent,
    WriteMode,
    WriteResult,
    require_object,
)
from signalbook.engine.write.context import Context
from signalbook.engine.write.load import NeedsSome, load_entities, load_intent, load_versions, needs_some
from signalbook.engine.write.processing import (
    GroupConstraints,
    check_epoch,
    check_id,
    checked_constraints,
    group_constraints,
    write_group,
    write_registry,
)
from signalbook.engine.write.references import resolver
from signalbook.engine.write.resources import elsewhere, finish_resource, write_resource
from signalbook.engine.write.workingcopies import (
    OwnerCopy,
    ResourceCopy,
    VersionCopy,
    WorkingCopy,
    WorkingTree,
    check_siblings,
)
from signalbook.errors import RegistryError
from signalbook.model import Constraints, Model, ResourceType
from signalbook.storage.base import Reader, Row
from signalbook.values import JSON, JSONObject, format_timestamp, parse_timestamp
from signalbook.xid import Kind, Xid


@dataclass(frozen=True, slots=True, kw_only=True)
class Doomed:
    """Entities to delete from one collection, each with what the request says of it."""

    collection: Xid
    entries: dict[str, JSONObject]
    rows: tuple[Row, ...]


def load_deletion(reader: Reader, command: Command, partly: NeedsSome) -> tuple[WorkingTree, Doomed]:
    """The owners that a delete touches, and what is to go. Raises ``not_found`` (R171), ``bad_request`` (R266)."""
    collection = command.target if command.target.is_collection else command.target.parent
    owner = collection.owner
    groups = {Xid(owner.parts[:2])} if owner.parts else set()
    resources = {owner} if owner.kind is Kind.RESOURCE else set()
    tree = load_entities(reader, groups, resources, partly)
    found = owner if not owner.parts else (tree.resources.get(owner) or tree.groups.get(owner))
    if found is None:
        raise RegistryError("not_found", subject=str(command.target))
    parent = _working_owner(tree, owner)
    if isinstance(parent, ResourceCopy) and parent.xref is not None:
        raise elsewhere(owner)
    rows = tuple(_deleted_rows(reader, parent, command))
    if not command.target.is_collection and not rows:
        raise RegistryError("not_found", subject=str(command.target))
    return tree, Doomed(collection=collection, entries=_deletion_entries(command), rows=rows)


def check_deletion(doomed: Doomed, singular: str, context: Context) -> tuple[Row, ...]:
    """The rows that the request speaks rightly of. Raises mismatched_id, mismatched_epoch, misplaced_epoch."""
    rows = []
    for row in doomed.rows:
        with context.problems:
            entry = doomed.entries.get(row.xid.id, {})
            check_id(entry, singular, row.xid.id, row.xid)
            _check_entry_epoch(entry, row, context)
            rows.append(row)
    context.problems.raise_any()
    return tuple(rows)


def remove(reader: Reader, tree: WorkingTree, rows: tuple[Row, ...], context: Context) -> None:
    """Take Groups or Resources out of ``tree``, with all beneath them listed, and touch their owner (R37, R172).

    Reports ``bad_request`` for each that was promised to stay, wherever the delete began (R46, GAP 28).
    """
    if not rows:
        return
    owner = _working_owner(tree, rows[0].xid.owner)
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


def _working_owner(tree: WorkingTree, xid: Xid) -> WorkingCopy:
    if not xid.parts:
        return tree.registry
    return tree.resources[xid] if xid.kind is Kind.RESOURCE else tree.groups[xid]


def _deleted_rows(reader: Reader, parent: WorkingCopy, command: Command) -> Iterator[Row]:
    """Stored entities to delete; ids that do not exist are passed over (R169)."""
    key = parent.before.key if parent.before else 0
    target = command.target
    if target.is_collection:
        ids = None if command.body is None else list(require_object(command.body, target, "the body"))
        rows = reader.children([key], target.parts[-1], ids=ids)
        yield from (row for row in rows if ids is None or row.xid.id in ids)
    else:
        yield from (row for row in reader.children([key], target.parts[-2], ids=[target.id]) if row.xid == target)


def _deletion_entries(command: Command) -> dict[str, JSONObject]:
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


def _check_entry_epoch(entry: JSONObject, row: Row, context: Context) -> None:
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


def check_references(reader: Reader, tree: WorkingTree, model: Model, stored: Mapping[Xid, Xid]) -> None:
    """Hold Versions to the constraints of the Groups that show them through ``xref`` (R110).

    Looks at references made in ``tree``, at ``stored`` ones (xid to target) of Groups that changed in it, and at stored
    ones to Resources that changed, or came to be where a reference led to nothing; three queries at most.
    """
    targets = {**stored, **{xid: draft.xref for xid, draft in tree.resources.items() if draft.xref is not None}}
    changed = [xid for xid, draft in tree.resources.items() if draft.xref is None]
    for row in reader.referrers(changed):
        if row.xref is not None and row.xid not in tree.resources:
            targets[row.xid] = row.xref
    if targets:
        _check_targets(reader, tree, targets, model)


def _check_targets(reader: Reader, tree: WorkingTree, targets: dict[Xid, Xid], model: Model) -> None:
    groups = {source.owner for source in targets}
    missing = {target for target in targets.values() if target not in tree.resources}
    stored = load_entities(reader, groups - set(tree.groups), missing)
    owners = {**stored.groups, **tree.groups}
    resources: dict[Xid, ResourceCopy] = {**stored.resources, **tree.resources}
    for source, target in targets.items():
        shown = resources.get(target)
        if shown is not None:
            limits = group_constraints(owners[source.owner], model.groups[source.group_type])
            limits.check(source, [version.attributes for version in shown.versions.values()])


class CommandDecision:
    """One write of entities over one reader. ``tree`` holds what it decided; nothing is stored yet."""

    def __init__(self, reader: Reader, command: Command, context: Context) -> None:
        self._reader = reader
        self._command = command
        self._context = replace(
            context, resolve=resolver(reader, lambda: self.tree.resources, context.documents, command.base_url)
        )
        self._references: dict[Xid, Xid] = {}
        self._unfinished: list[tuple[ResourceCopy, ResourceType]] = []
        self.tree: WorkingTree

    def add(self, intent: Intent) -> WriteResult:
        """Decide a PUT, PATCH or POST. Raises ``RegistryError`` for all that is wrong with it."""
        self.tree = load_intent(self._reader, intent, needs_some(self._command, self._context))
        if intent.body is not None:
            with self._context.problems:
                registryid = self.tree.registry.attributes["registryid"]
                write_registry(self.tree.registry, intent.body, intent.mode, registryid, self._context)
        skipped = {xid for group in intent.groups for xid in self._group(group)}
        self._finish()
        self._context.problems.raise_any()
        check_siblings(self.tree)
        check_references(self._reader, self.tree, self._context.model, self._references)
        processed = tuple(xid for xid in intent.processed if xid not in skipped)
        return self._result(intent, processed)

    def delete(self) -> WriteResult:
        """Decide a DELETE. Raises ``not_found`` and what ``deletion.check`` tells."""
        target = self._command.target
        self.tree, doomed = load_deletion(self._reader, self._command, needs_some(self._command, self._context))
        rows = check_deletion(doomed, self._singular(doomed.collection), self._context)
        explicit = not target.is_collection
        if doomed.collection.kind is Kind.VERSIONS:
            self._delete_versions(doomed.collection.owner, rows)
        else:
            rows = check_readonly(self._reader, rows, self._context, explicit=explicit)
            remove(self._reader, self.tree, rows, self._context)
        self._finish()
        self._context.problems.raise_any()
        return WriteResult(target=target)

    def _group(self, intent: GroupIntent) -> list[Xid]:
        """Apply one Group's intent; returns the Resources passed over since they are read-only (R207)."""
        with self._context.problems:
            writable = [resource for resource in intent.resources if not self._locked(resource)]
            if intent.body is None and intent.resources and not writable:
                return [resource.xid for resource in intent.resources]
            limits = self._limits(intent)
            for resource in writable:
                with self._context.problems:
                    self._resource(resource, limits)
            written = {resource.xid for resource in writable}
            return [resource.xid for resource in intent.resources if resource.xid not in written]
        return []

    def _limits(self, intent: GroupIntent) -> GroupConstraints:
        """Write the Group itself; returns what it demands of its Resources."""
        draft = self.tree.group(intent.xid, self._context.now)
        before = draft.attributes
        with self._context.problems:
            write_group(draft, intent, self._context)
            limits = checked_constraints(draft, intent)
            if draft.before is not None and draft.attributes != before:
                self._recheck(draft.before.key, limits)
            return limits
        return GroupConstraints(constraints=Constraints(), group={})

    def _recheck(self, group: int, limits: GroupConstraints) -> None:
        """A Group that changed: its other Resources must still fit its constraints (R109)."""
        if not limits:
            return
        others = [row for row in self._reader.children([group]) if row.xid not in self.tree.resources]
        self._references |= {row.xid: row.xref for row in others if row.xref is not None}
        drafts = {row.xid: ResourceCopy.of(row) for row in others}
        load_versions(self._reader, drafts.values())
        for xid, draft in drafts.items():
            limits.check(xid, [version.attributes for version in draft.versions.values()])

    def _resource(self, intent: ResourceIntent, limits: GroupConstraints) -> None:
        draft = self.tree.resource(intent.xid, self._context.now)
        if draft.before is None and self._command.target.kind is Kind.VERSIONS and not intent.versions:
            raise RegistryError("missing_versions", subject=str(self._command.target))
        self._write(draft, intent, limits)

    def _write(self, draft: ResourceCopy, intent: ResourceIntent, limits: GroupConstraints) -> None:
        if write_resource(draft, intent, limits, self._context, lambda: self._epoch(draft.before)):
            self._unfinished.append((draft, intent.type))

    def _finish(self) -> None:
        for draft, kind in self._unfinished:
            with self._context.problems:
                finish_resource(draft, kind, self._context)

    def _epoch(self, referrer: Row | None) -> int:
        """The epoch of the Resource that ``referrer`` points to, 0 if there is none (R269)."""
        target = self._reader.get(referrer.xref) if referrer is not None and referrer.xref is not None else None
        return target.epoch if target else 0

    def _locked(self, intent: ResourceIntent) -> bool:
        """Whether to pass over a Resource read-only to this client. Raises ``readonly`` (R261), ``bad_flag`` (R207)."""
        draft = self.tree.resources.get(intent.xid)
        if draft is None or not draft.readonly or self._context.admin:
            return False
        if not self._context.ignores("readonly"):
            raise RegistryError("readonly", subject=str(intent.xid))
        if intent.explicit:
            raise RegistryError("bad_flag", subject=str(self._command.target), flag="ignore")
        return True

    def _delete_versions(self, xid: Xid, rows: tuple[Row, ...]) -> None:
        """Remove Versions through the Resource's own processing; with the last one the Resource goes (R173)."""
        draft = self.tree.resources[xid]
        group = self._context.model.groups[xid.group_type]
        intent = ResourceIntent(
            xid=xid,
            type=group.resources[xid.resource_type],
            group=group,
            mode=WriteMode.MERGE,
            remove=tuple(row.xid.id for row in rows),
            explicit=True,
        )
        self._locked(intent)
        if draft.before is not None and rows and len(rows) == draft.size:
            del self.tree.resources[xid]
            remove(self._reader, self.tree, (draft.before,), self._context)
        elif rows or self._context.flags.setdefaultversionid is not None:
            limits = group_constraints(self.tree.groups[xid.owner], group)
            self._write(draft, intent, limits)

    def _singular(self, collection: Xid) -> str:
        if collection.kind is Kind.VERSIONS:
            return "version"
        group = self._context.model.groups[collection.group_type]
        return group.singular if collection.kind is Kind.GROUPS else group.resources[collection.resource_type].singular

    def _result(self, intent: Intent, processed: tuple[Xid, ...]) -> WriteResult:
        """What the door renders: the target, or of a POST to a Resource the Version (R147)."""
        target = self._command.target
        if target.is_collection or not target.parts:
            return WriteResult(target=target, processed=processed)
        if target.kind is Kind.GROUP:
            return WriteResult(target=target, processed=processed, created=self.tree.groups[target].before is None)
        draft = self.tree.resources[target.resource]
        new = [version.xid for version in draft.versions.values() if version.before is None]
        result = WriteResult(
            target=target, created=draft.before is None, processed=processed, version=new[0] if len(new) == 1 else None
        )
        if target.kind is Kind.VERSION:
            return replace(result, target=_written_version(draft, target.id), created=target in new)
        if self._command.method is not Method.POST:
            return result
        named = next(intent.resources()).versions[0].id
        posted = _written_version(draft, named or "".join(xid.id for xid in new))
        return replace(result, target=posted, created=posted in new)


def _written_version(draft: ResourceCopy, versionid: str) -> Xid:
    """The Version written, unless it was the oldest of more than there may be (R93): there is nothing to answer."""
    if versionid in draft.versions:
        return draft.versions[versionid].xid
    detail = "as the oldest of more Versions than maxversions allows, this one would be deleted at once"
    raise RegistryError("bad_request", subject=str(draft.xid), error_detail=detail)
