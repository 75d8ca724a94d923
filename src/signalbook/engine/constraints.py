"""What a Group demands of the Resources in it, applied to drafts (core/model.md "constraints")."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from signalbook.engine.drafts import OwnerCopy, ResourceCopy
from signalbook.engine.tree import WorkingTree, load_entities
from signalbook.errors import RegistryError
from signalbook.model import Constraints, GroupType, Model
from signalbook.storage.base import Reader
from signalbook.values import JSONObject
from signalbook.xid import Xid


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConstraints:
    """The constraints in force in one Group, with the Group's own attributes that ``equals`` compares with."""

    constraints: Constraints
    group: JSONObject

    def __bool__(self) -> bool:
        """Whether there is anything to check."""
        return len(self.constraints) > 0

    def fill(self, plural: str, version: JSONObject) -> JSONObject:
        """``version`` with the Group's defaults where it has no value (R105)."""
        return self.constraints.fill(plural, version) if self.constraints else version

    def check(self, resource: Xid, versions: Iterable[JSONObject]) -> None:
        """Hold all Versions' attributes of one Resource to the constraints (R109), else ``constraint_failure``."""
        if not self.constraints:
            return
        for version in versions:
            for violation in self.constraints.violations(resource.resource_type, version, self.group):
                raise RegistryError(
                    "constraint_failure", subject=str(resource), path=violation.path, kind=violation.kind
                )


def group_constraints(draft: OwnerCopy, type: GroupType) -> GroupConstraints:
    """What the Group ``draft``, whose own constraints have been checked, demands of its Resources."""
    constraints, _ = type.narrowed(draft.attributes.get("constraints"))
    return GroupConstraints(constraints=constraints, group=draft.attributes)


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
