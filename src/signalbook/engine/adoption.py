"""What stored entities become when another model comes into force: new defaults, order and validation of Versions.

Runs behind ``compliance.check`` and in the same transaction: whatever it meets does comply, documents aside.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from signalbook.engine import compliance, resources, tracking, updates
from signalbook.engine.changes import Change
from signalbook.engine.context import Context
from signalbook.engine.drafts import OwnerCopy, ResourceCopy, WorkingCopy
from signalbook.engine.tree import WorkingTree, load_versions
from signalbook.engine.versions import VALIDATION
from signalbook.model import AttributeSet, GroupType, Model, ResourceType
from signalbook.storage.base import Row, Writer
from signalbook.xid import ROOT


def migrate(writer: Writer, old: Model, context: Context) -> Iterator[Change]:
    """Bring what was written under ``old`` to ``context.model``; yields what changed.

    An attribute that now has a default gets it where it is missing: a default is always there to be read (R85), and
    later ones leave it alone (R72). Ancestors and default Versions follow ``versionmode`` (R242), documents are
    validated where that is asked for now (R99, R100): ``model_compliance_error`` if any does not hold. Types whose
    definition stayed the same are not looked at; of the others one Resource at a time is in memory.
    """
    root = writer.get(ROOT)
    for plural, group in context.model.groups.items() if root else ():
        before = old.groups.get(plural)
        if root is not None and before is not None and _differ(before, group):
            for row in writer.children([root.key], plural):
                yield from _migrate_group(writer, root, row, before, context)
    if context.problems.errors:
        raise compliance.refusal(context.problems.faults)


def fill_defaults(draft: WorkingCopy, rules: AttributeSet, now: datetime) -> None:
    """Give ``draft`` the defaults it lacks; that counts as an update (R34)."""
    stored = {name: value for name, value in draft.attributes.items() if name not in VALIDATION}
    values = {**draft.attributes, **rules.check(stored).values}
    if values != draft.attributes:
        draft.attributes = values
        draft.touch(now)


def _differ(before: GroupType, after: GroupType) -> bool:
    return before.document["attributes"] != after.document["attributes"] or any(_stale(before, after))


def _stale(before: GroupType, after: GroupType) -> Iterator[ResourceType]:
    """Resource types that were there before, with another definition."""
    for plural, kind in after.resources.items():
        known = before.resources.get(plural)
        if known is not None and known.document != kind.document:
            yield kind


def _migrate_group(writer: Writer, root: Row, row: Row, before: GroupType, context: Context) -> Iterator[Change]:
    group = context.model.groups[before.plural]
    draft = OwnerCopy.of(row)
    fill_defaults(draft, group.attributes, context.now)
    yield from _apply(writer, WorkingTree(registry=OwnerCopy.of(root), groups={row.xid: draft}), context)
    for kind in _stale(before, group):
        for resource in writer.children([row.key], kind.plural):
            if resource.xref is None:
                tree = WorkingTree(registry=OwnerCopy.of(root), resources={resource.xid: ResourceCopy.of(resource)})
                _migrate_resource(writer, tree.resources[resource.xid], kind, context)
                yield from _apply(writer, tree, context)


def _migrate_resource(writer: Writer, draft: ResourceCopy, kind: ResourceType, context: Context) -> None:
    load_versions(writer, [draft])
    fill_defaults(draft, kind.metaattributes, context.now)
    for version in draft.versions.values():
        fill_defaults(version, kind.attributes, context.now)
    resources.resettle_resource(draft, kind, context)


def _apply(writer: Writer, tree: WorkingTree, context: Context) -> tuple[Change, ...]:
    updates.store(tree, context.documents, writer)
    return tracking.changes(tree, context.model)
