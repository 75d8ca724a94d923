"""One command from its intent to a changed tree: which entities, in which order, and what the answer is about."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from signalbook.engine import deletion, owners, resources
from signalbook.engine.changes import WriteResult
from signalbook.engine.commands import METHODS, Command, Method
from signalbook.engine.constraints import GroupConstraints, check_references, group_constraints
from signalbook.engine.context import Context
from signalbook.engine.drafts import ResourceCopy
from signalbook.engine.intents import GroupIntent, Intent, ResourceIntent, WriteMode
from signalbook.engine.references import resolver
from signalbook.engine.tree import WorkingTree, check_siblings, load, load_versions
from signalbook.engine.vicinity import needs_some
from signalbook.errors import RegistryError
from signalbook.model import Constraints, Model, ResourceType
from signalbook.storage.base import Reader, Row
from signalbook.xid import Kind, Xid

_ONE_RESOURCE: Final = frozenset({Kind.RESOURCE, Kind.META, Kind.VERSIONS, Kind.VERSION})


def check_command(command: Command, model: Model) -> None:
    """The target's types exist, the method fits and the flags do too.

    Raises ``not_found`` (GAP 14), ``action_not_supported``, ``bad_flag``, ``bad_defaultversionid``.
    """
    target = command.target
    group = model.groups.get(target.group_type)
    if target.parts and (group is None or (target.resource_type and target.resource_type not in group.resources)):
        raise RegistryError("not_found", subject=str(target))
    if command.method not in METHODS[target.kind]:
        raise RegistryError("action_not_supported", subject=str(target), action=command.method.value)
    _check_default_flag(command)
    if command.flags.epoch is not None and (command.method is not Method.DELETE or target.is_collection):
        raise RegistryError("bad_flag", subject=str(target), flag="epoch")


def _check_default_flag(command: Command) -> None:
    """``setdefaultversionid`` only with a write to one Resource, ``request`` only with POST to it (R208-R211)."""
    flag, target = command.flags.setdefaultversionid, command.target
    if flag is None:
        return
    to_resource = target.kind is Kind.RESOURCE
    wrong = target.kind not in _ONE_RESOURCE or (to_resource and command.method is Method.DELETE)
    misused = flag == "request" and not (to_resource and command.method is Method.POST)
    if misused and not wrong and _versions_in(command) > 1:
        raise RegistryError("too_many_versions", subject=str(target))
    if wrong or misused:
        raise RegistryError("bad_flag", subject=str(target), flag="setdefaultversionid")
    if not flag:
        detail = "it needs to be a versionid, null or request"
        raise RegistryError("bad_defaultversionid", subject=str(target), value='""', error_detail=detail)


def _versions_in(command: Command) -> int:
    """How many Versions the request message has in a map."""
    body = command.body if isinstance(command.body, dict) else {}
    versions = body if command.target.kind is Kind.VERSIONS else body.get("versions")
    return len(versions) if isinstance(versions, dict) else 0


class Writing:
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
        self.tree = load(self._reader, intent, needs_some(self._command, self._context))
        if intent.body is not None:
            with self._context.problems:
                registryid = self.tree.registry.attributes["registryid"]
                owners.write_registry(self.tree.registry, intent.body, intent.mode, registryid, self._context)
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
        self.tree, doomed = deletion.load(self._reader, self._command, needs_some(self._command, self._context))
        rows = deletion.check(doomed, self._singular(doomed.collection), self._context)
        explicit = not target.is_collection
        if doomed.collection.kind is Kind.VERSIONS:
            self._delete_versions(doomed.collection.owner, rows)
        else:
            rows = deletion.check_readonly(self._reader, rows, self._context, explicit=explicit)
            deletion.remove(self._reader, self.tree, rows, self._context)
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
            owners.write_group(draft, intent, self._context)
            limits = owners.limits(draft, intent)
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
        if resources.write_resource(draft, intent, limits, self._context, lambda: self._epoch(draft.before)):
            self._unfinished.append((draft, intent.type))

    def _finish(self) -> None:
        for draft, kind in self._unfinished:
            with self._context.problems:
                resources.finish_resource(draft, kind, self._context)

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
            deletion.remove(self._reader, self.tree, (draft.before,), self._context)
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
            return replace(result, target=_kept(draft, target.id), created=target in new)
        if self._command.method is not Method.POST:
            return result
        named = next(intent.resources()).versions[0].id
        posted = _kept(draft, named or "".join(xid.id for xid in new))
        return replace(result, target=posted, created=posted in new)


def _kept(draft: ResourceCopy, versionid: str) -> Xid:
    """The Version written, unless it was the oldest of more than there may be (R93): there is nothing to answer."""
    if versionid in draft.versions:
        return draft.versions[versionid].xid
    detail = "as the oldest of more Versions than maxversions allows, this one would be deleted at once"
    raise RegistryError("bad_request", subject=str(draft.xid), error_detail=detail)
