"""Model migration: check and change stored entities when another model comes into force.

All stored entities are checked against the new model in one pass with bounded memory (core/model.md, R70). If all
comply, they are updated in the same transaction: new defaults, and the order and validation of Versions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from itertools import groupby, islice
from operator import attrgetter
from typing import Final

from signalbook.batches import batched
from signalbook.engine.write.apply import Change, apply_tree, list_changes
from signalbook.engine.write.context import Context, Stored
from signalbook.engine.write.entities import VALIDATION, GroupConstraints
from signalbook.engine.write.lineage import ORDERED
from signalbook.engine.write.load import WriteLoader, load_versions
from signalbook.engine.write.resources import resettle_resource
from signalbook.engine.write.workingcopies import OwnerCopy, ResourceCopy, WorkingCopy, WorkingTree
from signalbook.errors import RegistryError
from signalbook.model import AttributeSet, Constraints, GroupType, Model, ResourceType
from signalbook.storage.base import Reader, Row
from signalbook.storage.store import WriteTransaction
from signalbook.values import Finding, JSONObject
from signalbook.xid import ROOT, Xid

_ROWS_AT_ONCE: Final = 500
_MAX_FINDINGS: Final = 100


def check_compliance(reader: Reader, model: Model) -> None:
    """Raise ``model_compliance_error`` if stored entities violate ``model``, with the first hundred findings.

    Raises ``hasdocument_violation`` for documents of a type without documents (R96), and
    ``setdefaultversionsticky_false`` for a sticky default Version where ``maxversions`` is 1 (R94).
    """
    findings = list(islice(_check_registry(reader, model), _MAX_FINDINGS))
    if findings:
        raise make_compliance_error(findings)


def make_compliance_error(findings: Collection[Finding]) -> RegistryError:
    """Return ``model_compliance_error`` with these findings. Its detail lists the entities that they are about."""
    listed = ", ".join(dict.fromkeys(finding.path.partition("#")[0] for finding in findings))
    return RegistryError("model_compliance_error", subject="/model", detail=listed, faults=findings)


def _check_registry(reader: Reader, model: Model) -> Iterator[Finding]:
    root = reader.get(ROOT)
    if root is None:
        return
    yield from _check_attributes(root, model.attributes)
    for groups in batched(reader.children([root.key]), _ROWS_AT_ONCE):
        known_rows = [row for row in groups if row.xid.group_type in model.groups]
        yield from _check_types(groups, known_rows, "there is no such Group type")
        for row in known_rows:
            yield from _check_attributes(row, model.groups[row.xid.group_type].attributes)
        yield from _check_resources(reader, known_rows, model)


def _check_resources(reader: Reader, groups: list[Row], model: Model) -> Iterator[Finding]:
    owners = {row.key: row for row in groups}
    for resources in batched(reader.children(owners), _ROWS_AT_ONCE) if owners else ():
        known_rows = [row for row in resources if row.xid.resource_type in model.groups[row.xid.group_type].resources]
        yield from _check_types(resources, known_rows, "there is no such Resource type")
        for row, versions in _with_versions(reader, known_rows):
            yield from _check_resource(row, versions, model.groups[row.xid.group_type], owners[row.parent])
        yield from _check_references(reader, [row for row in known_rows if row.xref is not None], owners, model)


def _check_references(reader: Reader, sources: list[Row], owners: Mapping[int, Row], model: Model) -> Iterator[Finding]:
    """Yield findings about targets of ``xref``, which must satisfy the constraints of the referring Group (R110)."""
    targets = reader.get_many({row.xref for row in sources if row.xref is not None})
    versions_by_target: dict[int, list[JSONObject]] = {row.key: [] for row in targets.values()}
    for version in reader.children(versions_by_target) if versions_by_target else ():
        versions_by_target[version.parent].append(version.attributes)
    for row in sources:
        target = targets.get(row.xref) if row.xref is not None else None
        if target is not None:
            constraints, _ = model.groups[row.xid.group_type].narrowed(owners[row.parent].attributes.get("constraints"))
            yield from _check_constraints(row, versions_by_target[target.key], constraints, owners[row.parent])


def _with_versions(reader: Reader, resources: list[Row]) -> Iterator[tuple[Row, Iterable[Row]]]:
    """Yield each Resource with an iterator over its Versions, which must be read before the next Resource.

    This takes one query and does not hold all Versions in memory.
    """
    # ``groupby`` gives no empty groups. A Resource without Versions shows as a gap in the parents' keys.
    grouped = groupby(reader.children([row.key for row in resources]), attrgetter("parent")) if resources else iter(())
    ahead = next(grouped, None)
    for row in sorted(resources, key=attrgetter("key")):
        if ahead is not None and ahead[0] == row.key:
            yield row, ahead[1]
            ahead = next(grouped, None)
        else:
            yield row, ()


def _check_resource(row: Row, versions: Iterable[Row], group: GroupType, owner: Row) -> Iterator[Finding]:
    """Yield findings about a Resource. Its Versions are read one at a time, because there may be many."""
    resource_type = group.resources[row.xid.resource_type]
    _check_sticky(row, resource_type)
    if row.xref is None:
        yield from _check_attributes(
            row, resource_type.metaattributes, {"defaultversionsticky": row.defaultversionsticky}
        )
    constraints, problems = group.narrowed(owner.attributes.get("constraints"))
    for problem in problems:
        yield _make_finding(owner.xid, problem.code, problem.message, problem.path)
    count, roots, first, mismatched = 0, 0, None, set[str]()
    for version in versions:
        yield from _check_document(version, resource_type)
        yield from _check_attributes(version, resource_type.attributes)
        yield from _check_constraints(row, [version.attributes], constraints, owner)
        count, roots = count + 1, roots + (version.ancestorid == version.xid.id)
        first = first or version
        mismatched.update(resource_type.mismatched((first.attributes, version.attributes)))
    for name in sorted(mismatched):
        yield _make_finding(row.xid, "mismatched_version_attribute", f"{name} differs between Versions", name)
    yield from _check_lineage(row, count, roots, resource_type)


def _check_constraints(row: Row, versions: list[JSONObject], constraints: Constraints, owner: Row) -> Iterator[Finding]:
    try:
        GroupConstraints(constraints=constraints, group=owner.attributes).check(row.xid, versions)
    except RegistryError as error:
        yield _make_finding(row.xid, error.code, error.title, error.arguments["path"])


def _check_attributes(row: Row, rules: AttributeSet, columns: JSONObject | None = None) -> Iterator[Finding]:
    """Yield findings about attributes.

    ``columns`` are values that the model defines as attributes and the store keeps in columns.
    """
    stored = {name: value for name, value in row.attributes.items() if name not in VALIDATION}
    stored |= columns or {}
    for problem in rules.check(stored).findings:
        yield _make_finding(row.xid, problem.code, problem.message, problem.path)


def _check_lineage(row: Row, count: int, roots: int, kind: ResourceType) -> Iterator[Finding]:
    """Yield findings about the roots of Versions.

    In an ordered mode there are none, because migration sets the ancestors.
    """
    # Migration deletes Versions beyond ``maxversions``, possibly roots, so the remaining roots are checked then.
    pruned = kind.maxversions and count > kind.maxversions
    if kind.singleversionroot and roots > 1 and kind.versionmode not in ORDERED and not pruned:
        yield _make_finding(row.xid, "multiple_roots", f"{roots} Versions are roots")


def _check_sticky(row: Row, kind: ResourceType) -> None:
    if kind.maxversions == 1 and row.defaultversionsticky:
        raise RegistryError("setdefaultversionsticky_false", subject=str(row.xid))


def _check_document(row: Row, kind: ResourceType) -> Iterator[Finding]:
    if not kind.hasdocument and row.document is not None:
        raise RegistryError("hasdocument_violation", subject=str(row.xid), plural=kind.plural)
    if kind.hasdocument:  # under the old model the type may have had no documents
        for name in (kind.singular, f"{kind.singular}base64"):
            if name in row.attributes:
                yield _make_finding(row.xid, "hasdocument", "an extension has the name of the document", name)


def _check_types(rows: list[Row], known_rows: list[Row], message: str) -> Iterator[Finding]:
    xids = {row.xid for row in known_rows}
    yield from (_make_finding(row.xid, "type", message) for row in rows if row.xid not in xids)


def _make_finding(xid: Xid, rule: str, message: str, path: str = "") -> Finding:
    return Finding(path=f"{xid}#{path}" if path else str(xid), rule=rule, message=message)


def migrate(transaction: WriteTransaction, old: Model, context: Context) -> Iterator[Change]:
    """Update all Groups, Resources and Versions from the model ``old`` to ``context.model``. Yields the changes.

    Missing attributes that now have a default get it (R85); later changes of a default do not change them (R72).
    Versions beyond ``maxversions`` are deleted (R93). Ancestors and default Versions follow ``versionmode`` (R242).
    Documents are validated if the model now requires it (R99, R100): invalid ones raise ``model_compliance_error``.
    Types with an unchanged definition are skipped. Of other types one Resource at a time is in memory.
    """
    root = transaction.entities.get(ROOT)
    for plural, group in context.model.groups.items() if root else ():
        before = old.groups.get(plural)
        if root is not None and before is not None and _has_changed(before, group):
            for row in transaction.entities.children([root.key], plural):
                yield from _migrate_group(transaction, root, row, before, context)
    if context.problems.errors:
        raise make_compliance_error(context.problems.findings)


def fill_defaults(copy: WorkingCopy, rules: AttributeSet, now: datetime) -> None:
    """Set attributes of ``copy`` that are missing to their defaults. This counts as an update (R34)."""
    stored = {name: value for name, value in copy.attributes.items() if name not in VALIDATION}
    values = {**copy.attributes, **rules.check(stored).values}
    if values != copy.attributes:
        copy.attributes = values
        copy.touch(now)


def _has_changed(before: GroupType, after: GroupType) -> bool:
    return before.document["attributes"] != after.document["attributes"] or any(_list_changed_types(before, after))


def _list_changed_types(before: GroupType, after: GroupType) -> Iterator[ResourceType]:
    """Yield the Resource types that existed before and have another definition now."""
    for plural, resource_type in after.resources.items():
        old_type = before.resources.get(plural)
        if old_type is not None and old_type.document != resource_type.document:
            yield resource_type


def _migrate_group(
    transaction: WriteTransaction, root: Row, row: Row, before: GroupType, context: Context
) -> Iterator[Change]:
    group = context.model.groups[before.plural]
    copy = OwnerCopy.from_row(row)
    fill_defaults(copy, group.attributes, context.now)
    yield from _apply(transaction, WorkingTree(registry=OwnerCopy.from_row(root), groups={row.xid: copy}), context)
    for kind in _list_changed_types(before, group):
        for resource in transaction.entities.children([row.key], kind.plural):
            if resource.xref is None:
                tree = WorkingTree(
                    registry=OwnerCopy.from_row(root), resources={resource.xid: ResourceCopy.from_row(resource)}
                )
                _migrate_resource(transaction, tree.resources[resource.xid], kind, context)
                yield from _apply(transaction, tree, context)


def _migrate_resource(transaction: WriteTransaction, copy: ResourceCopy, kind: ResourceType, context: Context) -> None:
    load_versions(transaction.entities, [copy])
    fill_defaults(copy, kind.metaattributes, context.now)
    for version in copy.versions.values():
        fill_defaults(version, kind.attributes, context.now)
    # Data loaded for the previous Resource may be outdated, so start with an empty ``Stored``.
    loader = WriteLoader(transaction.entities, transaction.index, Stored(), context.documents)
    resettle_resource(copy, kind, replace(context, loader=loader))


def _apply(transaction: WriteTransaction, tree: WorkingTree, context: Context) -> tuple[Change, ...]:
    apply_tree(tree, context.documents, transaction, root=context.settings.base_url)
    return list_changes(tree, context.model, context.now)
