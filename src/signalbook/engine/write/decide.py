"""The decision about one command: which entities it changes, in which order, and what the response shows."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from typing import Final

from signalbook.access.base import Action, Forbidden
from signalbook.batches import batched
from signalbook.engine.write.apply import WriteResult
from signalbook.engine.write.commands import Command, GroupIntent, Intent, Method, ResourceIntent, WriteMode
from signalbook.engine.write.compatibility import load_compared_documents
from signalbook.engine.write.context import Context, CrossReferences
from signalbook.engine.write.entities import (
    GroupConstraints,
    check_constraints,
    check_epoch,
    check_id,
    find_group_constraints,
    write_group,
    write_registry,
)
from signalbook.engine.write.load import Deletion
from signalbook.engine.write.resources import finish_resource, settle_resource, write_resource
from signalbook.engine.write.workingcopies import (
    OwnerCopy,
    ResourceCopy,
    VersionCopy,
    WorkingCopy,
    WorkingTree,
    check_siblings,
)
from signalbook.errors import RegistryError
from signalbook.model import Constraints, ResourceType
from signalbook.storage.base import Row
from signalbook.values import JSONObject, format_timestamp, parse_timestamp
from signalbook.xid import Kind, Xid

FINISHED_AT_ONCE: Final = 50
"""The number of Resources whose documents are loaded together for comparison."""


@dataclass(slots=True, kw_only=True)
class _GroupDecision:
    """The decision about a Group before its Resources are decided: the Resources to write and the Group's constraints.

    ``error`` is an error in the Group itself, reported before those of its Resources.
    """

    copy: OwnerCopy | None = None
    writable: list[ResourceIntent] = field(default_factory=list)
    limits: GroupConstraints = field(default_factory=lambda: GroupConstraints(constraints=Constraints(), group={}))
    changed: bool = False
    error: RegistryError | None = None


class CommandDecision:
    """A decision about a write of entities, made from loaded data. ``tree`` holds the result; nothing is stored yet."""

    def __init__(self, command: Command, tree: WorkingTree, context: Context) -> None:
        self._command = command
        self._context = context
        self._unfinished: list[tuple[ResourceCopy, ResourceType]] = []
        self._other_resources: dict[Xid, list[ResourceCopy]] = {}
        self.tree = tree

    def add(self, intent: Intent) -> WriteResult:
        """Decide a PUT, PATCH or POST. Raises one ``RegistryError`` with all findings."""
        problems = self._context.problems
        if intent.body is not None:
            with problems:
                registryid = self.tree.registry.attributes["registryid"]
                write_registry(self.tree.registry, intent.body, intent.mode, registryid, self._context)
        # The Registry and Groups are decided before their Resources, because Groups have constraints and defaults for
        # them. All Groups come before all Resources, so that the data for changed Groups is loaded together.
        plans = [self._decide_group(group) for group in intent.groups]
        changed = tuple(plan.copy for plan in plans if plan.copy is not None and plan.changed and plan.limits)
        if changed:
            self._other_resources = self._context.loader.list_other_resources(changed)
        skipped = set[Xid]()
        for group, plan in zip(intent.groups, plans, strict=True):
            skipped |= self._decide_resources(group, plan)
        self._finish()
        # The next checks need the whole tree and make sense only if every part of it is valid.
        problems.raise_any()
        check_siblings(self.tree)
        self._check_references(self._context.loader.find_cross_references(self._other_resources))
        processed = tuple(xid for xid in intent.processed if xid not in skipped)
        return self._make_result(intent, processed)

    def delete(self, deletion: Deletion) -> WriteResult:
        """Decide a DELETE. Raises the errors of ``check_deletion``, ``readonly`` and ``bad_request``."""
        target = self._command.target
        rows = check_deletion(deletion, self._find_singular(deletion.collection), self._context)
        if deletion.collection.kind is Kind.VERSIONS:
            self._delete_versions(deletion.collection.owner, rows)
        else:
            rows = select_writable_rows(rows, deletion.beneath, self._context, explicit=not target.is_collection)
            remove(self.tree, rows, deletion.beneath, self._context)
        self._finish()
        self._context.problems.raise_any()
        return WriteResult(target=target)

    def _decide_group(self, intent: GroupIntent) -> _GroupDecision:
        """Write the Group itself.

        An error is stored in the decision, to be reported before errors in the Group's Resources.
        """
        plan = _GroupDecision()
        try:
            plan.writable = [resource for resource in intent.resources if not self._is_locked(resource)]
            if intent.body is None and intent.resources and not plan.writable:
                return plan
            plan.copy = copy = self.tree.ensure_group(intent.xid, self._context.now)
            before = copy.attributes
            write_group(copy, intent, self._context)
            plan.limits = check_constraints(copy, intent)
            plan.changed = copy.before is not None and copy.attributes != before
        except RegistryError as error:
            plan.error = error
        return plan

    def _decide_resources(self, intent: GroupIntent, plan: _GroupDecision) -> set[Xid]:
        """Write the Resources of a Group.

        Returns the xids of Resources that were skipped because they are read-only (R207).
        """
        problems = self._context.problems
        # An error in the Group must not hide errors in its Resources, so these are checked without constraints.
        limits = plan.limits
        with problems:
            if plan.error is not None:
                raise plan.error
            if plan.changed and limits:
                limits = GroupConstraints(constraints=Constraints(), group={})
                self._check_other_resources(intent.xid, plan.limits)
                limits = plan.limits
        for resource in plan.writable:
            with problems:
                copy = self.tree.ensure_resource(resource.xid, self._context.now)
                if copy.before is None and self._command.target.kind is Kind.VERSIONS and not resource.versions:
                    raise RegistryError("missing_versions", subject=str(self._command.target))
                self._write_resource(copy, resource, limits)
        return {resource.xid for resource in intent.resources} - {resource.xid for resource in plan.writable}

    def _check_other_resources(self, group: Xid, limits: GroupConstraints) -> None:
        """Check that Resources of a changed Group that this write does not contain still meet its
        constraints (R109).
        """
        for copy in self._other_resources.get(group, ()):
            self._check_shown(copy.xid, copy, limits)

    def _check_references(self, references: CrossReferences) -> None:
        """Check Versions against the constraints of the Groups that show them through ``xref`` (R110)."""
        owners = {**references.groups, **self.tree.groups}
        resources = {**references.resources, **self.tree.resources}
        for source, target in references.targets.items():
            target_copy = resources.get(target)
            if target_copy is not None:
                limits = find_group_constraints(owners[source.owner], self._context.model.groups[source.group_type])
                self._check_shown(source, target_copy, limits)

    def _check_shown(self, resource: Xid, target: ResourceCopy, limits: GroupConstraints) -> None:
        """Check a Resource that this write does not contain against constraints; ``target`` holds the Versions it
        shows.

        Raises ``constraint_failure``, or ``Forbidden`` if the caller cannot read the Resource.
        """
        try:
            limits.check(resource, [version.attributes for version in target.versions.values()])
        except RegistryError:
            if self._context.access.is_readable(resource):
                raise
            raise Forbidden(Action.UPDATE, self._command.target) from None

    def _write_resource(self, copy: ResourceCopy, intent: ResourceIntent, limits: GroupConstraints) -> None:
        if not write_resource(copy, intent, limits, self._context):
            return
        if copy.partial:
            self._context.loader.add_neighbours(copy, intent.type.versionmode)
        if settle_resource(copy, intent, limits, self._context):
            self._unfinished.append((copy, intent.type))

    def _finish(self) -> None:
        for batch in batched(self._unfinished, FINISHED_AT_ONCE):
            # A single Resource requests its documents itself, and often needs none.
            if len(batch) > 1:
                load_compared_documents(batch, self._context)
            for copy, resource_type in batch:
                with self._context.problems:
                    finish_resource(copy, resource_type, self._context)

    def _is_locked(self, intent: ResourceIntent) -> bool:
        """Return True if a Resource must be skipped because it is read-only for this client.

        Raises ``readonly`` if the request does not ignore this (R261), and ``bad_flag`` for an explicit target (R207).
        """
        copy = self.tree.resources.get(intent.xid)
        if copy is None or not copy.readonly or self._context.admin:
            return False
        if not self._context.is_ignored("readonly"):
            raise RegistryError("readonly", subject=str(intent.xid))
        if intent.explicit:
            raise RegistryError("bad_flag", subject=str(self._command.target), flag="ignore")
        return True

    def _delete_versions(self, xid: Xid, rows: tuple[Row, ...]) -> None:
        """Remove Versions as a write to their Resource. If no Version is left, the Resource is deleted too (R173)."""
        copy = self.tree.resources[xid]
        group = self._context.model.groups[xid.group_type]
        intent = ResourceIntent(
            xid=xid,
            type=group.resources[xid.resource_type],
            group=group,
            mode=WriteMode.MERGE,
            remove=tuple(row.xid.id for row in rows),
            explicit=True,
        )
        self._is_locked(intent)
        # A Resource without Versions cannot exist: it is deleted with its last Version, and no default has to be
        # chosen.
        if copy.before is not None and rows and len(rows) == copy.size:
            del self.tree.resources[xid]
            remove(self.tree, (copy.before,), rows, self._context)
        elif rows or self._context.flags.setdefaultversionid is not None:
            limits = find_group_constraints(self.tree.groups[xid.owner], group)
            self._write_resource(copy, intent, limits)

    def _find_singular(self, collection: Xid) -> str:
        if collection.kind is Kind.VERSIONS:
            return "version"
        group = self._context.model.groups[collection.group_type]
        return group.singular if collection.kind is Kind.GROUPS else group.resources[collection.resource_type].singular

    def _make_result(self, intent: Intent, processed: tuple[Xid, ...]) -> WriteResult:
        """Return the result from which the response is built.

        For a POST to a Resource the target is the Version (R147).
        """
        target = self._command.target
        if target.is_collection or not target.parts:
            return WriteResult(target=target, processed=processed)
        if target.kind is Kind.GROUP:
            return WriteResult(target=target, processed=processed, created=self.tree.groups[target].before is None)
        copy = self.tree.resources[target.resource]
        new_xids = [version.xid for version in copy.versions.values() if version.before is None]
        result = WriteResult(
            target=target,
            created=copy.before is None,
            processed=processed,
            version=new_xids[0] if len(new_xids) == 1 else None,
        )
        if target.kind is Kind.VERSION:
            return replace(result, target=_find_written_version(copy, target.id), created=target in new_xids)
        if self._command.method is not Method.POST:
            return result
        versionid = next(intent.list_resources()).versions[0].id
        posted = _find_written_version(copy, versionid or "".join(xid.id for xid in new_xids))
        return replace(result, target=posted, created=posted in new_xids)


def _find_written_version(copy: ResourceCopy, versionid: str) -> Xid:
    """Return the xid of the written Version.

    Raises ``bad_request`` if the Version was pruned at once, because it is the oldest of more than allowed (R93).
    """
    if versionid in copy.versions:
        return copy.versions[versionid].xid
    detail = "as the oldest of more Versions than maxversions allows, this one would be deleted at once"
    raise RegistryError("bad_request", subject=str(copy.xid), error_detail=detail)


def check_deletion(deletion: Deletion, singular: str, context: Context) -> tuple[Row, ...]:
    """Return the rows to delete whose ids and epochs match the request.

    Raises ``mismatched_id``, ``mismatched_epoch`` and ``misplaced_epoch``.
    """
    rows = []
    for row in deletion.rows:
        with context.problems:
            entry = deletion.entries.get(row.xid.id, {})
            check_id(entry, singular, row.xid.id, row.xid)
            meta = entry.get("meta")
            if row.xid.kind is Kind.RESOURCE and isinstance(meta, dict):
                check_id(meta, singular, row.xid.id, row.xid)
            _check_entry_epoch(entry, row, context)
            rows.append(row)
    context.problems.raise_any()
    return tuple(rows)


def select_writable_rows(
    rows: tuple[Row, ...], beneath: Collection[Row], context: Context, *, explicit: bool
) -> tuple[Row, ...]:
    """Return ``rows`` without read-only Resources if the request ignores these (R207), else raise ``readonly`` (R261).

    A Group that contains a read-only Resource counts as read-only. ``explicit`` means that the request targets one
    entity: if that is read-only, ignoring it raises ``bad_flag``.
    """
    if context.admin:
        return rows
    # An explicit target must not be skipped silently, but an entry of a collection may.
    deleted = {row.xid for row in rows}
    locked = {row.xid for row in rows if row.attributes.get("readonly")}
    inner = (row for row in beneath if row.xid.kind is Kind.RESOURCE and row.attributes.get("readonly"))
    locked |= {row.xid.owner for row in inner} & deleted
    for xid in sorted(locked):
        if not context.is_ignored("readonly"):
            raise RegistryError("readonly", subject=str(xid))
        if explicit:
            raise RegistryError("bad_flag", subject=str(xid), flag="ignore")
    return tuple(row for row in rows if row.xid not in locked)


def remove(tree: WorkingTree, rows: tuple[Row, ...], beneath: Iterable[Row], context: Context) -> None:
    """Add the Groups or Resources ``rows`` and everything under them to the deletions of ``tree`` (R172).

    ``beneath`` are the rows under them, owners first. A Registry or Group that loses members counts as changed (R37).
    Reports ``bad_request`` for each entity whose announced removal date has not come yet (R46, GAP 28).
    """
    if not rows:
        return
    owner = tree.find_owner(rows[0].xid.owner)
    if isinstance(owner, OwnerCopy):
        owner.change_members(rows[0].xid.parts[-2], context.now)
    removed_rows = [*rows]
    keys = {row.key for row in rows}
    for row in beneath:  # level by level: owners come before what they own
        if row.parent in keys:
            keys.add(row.key)
            removed_rows.append(row)
    for copy in (_make_copy(row) for row in removed_rows):
        tree.deleted.append(copy)
        with context.problems:
            _check_removal(copy, context)


def _make_copy(row: Row) -> WorkingCopy:
    kinds: dict[Kind, type[WorkingCopy]] = {Kind.VERSION: VersionCopy, Kind.RESOURCE: ResourceCopy}
    return kinds.get(row.xid.kind, OwnerCopy).from_row(row)


def _check_entry_epoch(entry: JSONObject, row: Row, context: Context) -> None:
    if context.is_ignored("epoch"):
        return
    epoch, subject = entry.get("epoch"), row.xid
    if row.xid.kind is Kind.RESOURCE:
        meta = entry.get("meta")
        inner = meta.get("epoch") if isinstance(meta, dict) else None
        if epoch is not None and inner is None:
            raise RegistryError("misplaced_epoch", subject=str(row.xid))
        epoch, subject = inner, row.xid / "meta"
    check_epoch(epoch, row.epoch, subject)


def _check_removal(copy: WorkingCopy, context: Context) -> None:
    """Raise ``bad_request`` if the announced removal date of the entity has not come yet (R46)."""
    if copy.xid.kind is Kind.VERSION:
        return
    removal = copy.attributes.get("deprecated", {}).get("removal")
    if removal is None or parse_timestamp(removal) <= context.now:
        return
    until = format_timestamp(parse_timestamp(removal))
    detail = f'"{copy.xid}" is promised to stay until {until} (deprecated.removal)'
    raise RegistryError("bad_request", subject=str(copy.xid), error_detail=detail)
