"""The updates that write a decided tree to the store, and the changes that events report.

Changes are found by comparing each working copy with its stored row, attribute by attribute. Events report them
(core/events.md, R293-R308).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Final, Self

from msgspec import structs

from signalbook import dialects
from signalbook.access.decisions import Access
from signalbook.batches import batched
from signalbook.engine.write.context import Documents
from signalbook.engine.write.searchindex import DocumentDescription, describe, index_tree
from signalbook.engine.write.workingcopies import (
    OwnerCopy,
    ResourceCopy,
    UriTaken,
    VersionCopy,
    WorkingCopy,
    WorkingTree,
)
from signalbook.errors import RegistryError
from signalbook.model import Model
from signalbook.storage.base import Reader, Row
from signalbook.storage.confluent import NoIdLeft
from signalbook.storage.entity_writing import EntityWriter
from signalbook.storage.schema import fold
from signalbook.storage.store import WriteTransaction
from signalbook.values import Finding, JSONObject, format_timestamp, parse_timestamp
from signalbook.xid import Kind, Xid, version_number

_CLAIMS_AT_ONCE: Final = 500


def apply_tree(
    tree: WorkingTree,
    documents: Documents,
    transaction: WriteTransaction,
    *,
    root: str,
    described: Mapping[Xid, DocumentDescription] | None = None,
) -> None:
    """Write the changes of ``tree`` to the store and the search index, and assign schema ids. Raises ``DuplicateId``.

    ``root`` is the registry's URL from the settings, or empty. ``described`` are descriptions of documents that were
    already made; None makes them here. Deletes come first, so that ids can be reused, and so that a document of this
    write is stored even if a delete has just removed the same content.
    """
    described = describe(tree, documents) if described is None else described
    writer = transaction.entities
    deleted = [copy.before.key for copy in (*tree.deleted, *_list_removed_versions(tree)) if copy.before is not None]
    if deleted:
        writer.delete(deleted)
    # The last version numbers of deleted Resources are kept, so that no number is reused.
    numbers = {copy.xid: copy.versioncounter for copy in tree.deleted if isinstance(copy, ResourceCopy)}
    kept_numbers = {xid: number for xid, number in numbers.items() if number and dialects.keeps_numbers(xid)}
    if kept_numbers:
        writer.keep_numbers(kept_numbers)
    # The document of a Version that the same command replaced again or pruned is not stored.
    used = {version.document for version in _list_versions(tree)}
    new_documents = {name: content for name, content in documents.new.items() if name in used}
    if new_documents:
        writer.put_documents(new_documents)
    ids = _assign_schema_ids(tree, transaction)
    inserted, replaced = (_set_schema_ids(rows, ids) for rows in _make_rows(tree, writer))
    for rows, store in ((inserted, writer.insert), (replaced, writer.update)):
        if rows:
            store(rows)
            index_tree(tree, rows, described, transaction, root)


def check_uris(tree: WorkingTree, reader: Reader, root: str, access: Access) -> None:
    """Check that no written Version has the same URI as another Version (A-21), else raise ``UriTaken``.

    ``root`` is the registry's URL for clients. The check runs after the write, so that deletions and moves of the same
    request are considered. Other writers wait, so nothing else changes. Stored URIs that do not change are not
    checked. Hidden Versions are checked too, but an error does not name a Version that ``access`` cannot read.
    """
    claims: dict[str, dict[Xid, JSONObject]] = {}
    for version in _list_versions(tree):
        if version.claims_uri:
            claims.setdefault(version.xid.group_type, {})[version.xid] = version.attributes
    for groups, versions in claims.items():
        for batch in batched(versions.items(), _CLAIMS_AT_ONCE):
            conflict = dialects.find_taken_uri(reader, groups, dict(batch), root)
            if conflict is not None:
                xid, uri, holder = conflict
                raise UriTaken(xid, uri, holder if access.is_readable(holder) else None)


def _list_versions(tree: WorkingTree) -> Iterator[VersionCopy]:
    for resource in tree.resources.values():
        yield from resource.versions.values()


def _list_removed_versions(tree: WorkingTree) -> Iterator[WorkingCopy]:
    for resource in tree.resources.values():
        yield from resource.removed.values()


def _make_rows(tree: WorkingTree, writer: EntityWriter) -> tuple[tuple[Row, ...], tuple[Row, ...]]:
    """Return the rows to insert, parents first, and the rows to replace."""
    copies: list[WorkingCopy] = [tree.registry, *tree.groups.values(), *tree.resources.values(), *_list_versions(tree)]
    new_copies = [copy for copy in copies if copy.before is None]
    new_keys = iter(writer.reserve(len(new_copies)) if new_copies else ())
    # All keys are reserved before the first insert, so that one statement inserts a whole level.
    keys = {copy.xid: copy.before.key if copy.before else next(new_keys) for copy in copies}
    inserted, replaced = [], []
    for copy in copies:
        if copy.before is None:
            inserted.append(copy.to_row(keys[copy.xid], keys[copy.xid.owner]))
        elif copy.changed:  # rows that did not change are not written
            replaced.append(copy.to_row(copy.before.key, copy.before.parent))
    return tuple(inserted), tuple(replaced)


def _assign_schema_ids(tree: WorkingTree, transaction: WriteTransaction) -> dict[Xid, int]:
    """Return the schema ids of the written schemas. New ids are assigned in the order of the write.

    Raises ``bad_request`` if no id is left.
    """
    contents: dict[str, dict[Xid, str]] = {}
    ids: dict[Xid, int] = {}
    for version in _list_versions(tree):
        if version.changed:
            content, before = _compute_content_key(version), version.before
            if content is None:
                continue
            # The same content may have several ids. A Version whose content did not change keeps its id.
            if before is not None and before.schemaid and _compute_content_key(before) == content:
                ids[version.xid] = before.schemaid
            else:
                contents.setdefault(fold(version.xid.parts[1]), {})[version.xid] = content
    for group, contents_by_xid in contents.items():
        try:
            ids_by_content = transaction.confluent.give(group, list(contents_by_xid.values()))
        except NoIdLeft as error:
            owner = next(iter(contents_by_xid)).owner.owner
            raise RegistryError("bad_request", subject=str(owner), error_detail=str(error)) from None
        ids.update((xid, ids_by_content[content]) for xid, content in contents_by_xid.items())
    return ids


def _compute_content_key(version: VersionCopy | Row) -> str | None:
    return dialects.compute_content_key(version.xid, version.attributes, version.document)


def _set_schema_ids(rows: tuple[Row, ...], ids: Mapping[Xid, int]) -> tuple[Row, ...]:
    return tuple(structs.replace(row, schemaid=ids[row.xid]) if row.xid in ids else row for row in rows)


class ChangeAction(StrEnum):
    """The last part of an event's type (R293)."""

    CREATED = "created"
    UPDATED = "updated"
    DEPRECATION = "deprecation"
    DELETED = "deleted"


class EventEntity(StrEnum):
    """The kind of subject of an event (R293). A changed meta is reported as a change of its Resource."""

    REGISTRY = "registry"
    MODEL = "model"
    MODELSOURCE = "modelsource"
    CAPABILITIES = "capabilities"
    GROUP = "group"
    RESOURCE = "resource"
    VERSION = "version"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change of one subject in one interaction (R297).

    ``xid`` is the subject; it can also be ``/model``, ``/capabilities`` or ``/modelsource``. ``changed`` names the
    top-level attributes that were added, modified or removed (R298); attributes of a Resource's meta have the prefix
    ``meta.`` (R305). ``cascaded`` means that the subject was deleted because its owner was. ``time`` is the change time
    that clients of the CNCF drafts see (D-18); xRegistry clients may set it. If ``time`` is None, the time of the
    interaction is used.
    """

    xid: str
    entity: EventEntity
    action: ChangeAction
    changed: tuple[str, ...] = ()
    cascaded: bool = False
    time: datetime | None = None

    def to_json(self) -> JSONObject:
        """Return the change as the outbox stores it."""
        document: JSONObject = {
            "xid": self.xid,
            "entity": self.entity.value,
            "action": self.action.value,
            "changed": list(self.changed),
        }
        if self.time is not None:
            document["time"] = format_timestamp(self.time)
        return {**document, "cascaded": True} if self.cascaded else document

    @classmethod
    def from_json(cls, value: JSONObject) -> Self:
        """Return the change that ``to_json`` wrote as ``value``."""
        return cls(
            xid=value["xid"],
            entity=EventEntity(value["entity"]),
            action=ChangeAction(value["action"]),
            changed=tuple(value["changed"]),
            cascaded=value.get("cascaded", False),
            time=parse_timestamp(value["time"]) if "time" in value else None,
        )


_STRONGEST: Final = (ChangeAction.DELETED, ChangeAction.CREATED, ChangeAction.UPDATED, ChangeAction.DEPRECATION)


def coalesce(changes: Iterable[Change]) -> list[Change]:
    """Return ``changes`` of one interaction merged per subject (R297), in the order of their first appearance.

    A deletion replaces a creation, and a creation replaces updates. Several updates become one with all changed names.
    Changes of deprecation are merged separately.
    """
    merged: dict[tuple[str, bool], Change] = {}
    for change in changes:
        key = (change.xid, change.action is ChangeAction.DEPRECATION)
        merged[key] = _merge(merged[key], change) if key in merged else change
    return list(merged.values())


def _merge(first: Change, second: Change) -> Change:
    strongest = min(first.action, second.action, key=_STRONGEST.index)
    has_names = strongest in (ChangeAction.UPDATED, ChangeAction.DEPRECATION)
    names = tuple(dict.fromkeys((*first.changed, *second.changed))) if has_names else ()
    return replace(first, action=strongest, changed=names, cascaded=first.cascaded or second.cascaded, time=second.time)


_ENTITIES = {
    Kind.REGISTRY: EventEntity.REGISTRY,
    Kind.GROUP: EventEntity.GROUP,
    Kind.RESOURCE: EventEntity.RESOURCE,
    Kind.VERSION: EventEntity.VERSION,
}

_VERSION_ATTRIBUTES = ("versionid", "self", "xid", "epoch", "isdefault", "createdat", "modifiedat", "ancestorid")


def list_changes(tree: WorkingTree, model: Model, now: datetime, config: Collection[str] = ()) -> tuple[Change, ...]:
    """Return all changes in ``tree``, owners before their members.

    ``now`` is the time of the interaction. ``config`` names the changed parts of the configuration.
    """
    changes = _list_changes(tree, model, config)
    return tuple(replace(change, time=None) if change.time == now else change for change in changes)


def _list_changes(tree: WorkingTree, model: Model, config: Collection[str]) -> list[Change]:
    changes: list[Change] = [*_compare_owner(tree.registry, config)]
    for group in tree.groups.values():
        changes += _compare_owner(group)
    for resource in tree.resources.values():
        singular = model.groups[resource.xid.group_type].resources[resource.xid.resource_type].singular
        changes += _compare_resource(resource, singular)
        for version in resource.versions.values():
            changes += _compare_version(version, singular)
        changes += [_make_change(version, ChangeAction.DELETED) for version in resource.removed.values()]
    return [*changes, *_list_deletions(tree)]


def _make_change(copy: WorkingCopy, action: ChangeAction, changed: Collection[str] = ()) -> Change:
    return Change(
        xid=str(copy.xid),
        entity=_ENTITIES[copy.xid.kind],
        action=action,
        changed=tuple(dict.fromkeys(changed)),
        time=None if action is ChangeAction.DELETED else _find_shown_time(copy),
    )


def _find_shown_time(copy: WorkingCopy) -> datetime | None:
    """Return the time of the last change as the CNCF drafts show it, or None if there is no Version to take it from.

    For a Version this is its creation time. For a Resource it is the time of its latest Version: of a stored Resource
    the default Version is taken, so that other Versions need not be loaded. For a Group and the Registry it is their
    own ``modifiedat``.
    """
    if isinstance(copy, VersionCopy):
        return copy.createdat
    if isinstance(copy, ResourceCopy):
        latest = copy.versions.get(copy.defaultversionid or "")
        if copy.before is None:
            latest = max(copy.versions.values(), key=lambda version: version_number(version.id) or 0, default=None)
        return None if latest is None else latest.modifiedat
    return copy.modifiedat


def _list_deletions(tree: WorkingTree) -> Iterator[Change]:
    deleted_xids = {copy.xid for copy in tree.deleted}
    for copy in tree.deleted:
        yield replace(_make_change(copy, ChangeAction.DELETED), cascaded=copy.xid.owner in deleted_xids)


def _compare_owner(copy: OwnerCopy, config: Collection[str] = ()) -> Iterator[Change]:
    if copy.before is None:
        yield _make_change(copy, ChangeAction.CREATED)
        yield from _compare_deprecation(copy)
        return
    changed = _compare_stamps(copy, copy.before.createdat, copy.before.modifiedat)
    changed += _compare_attributes(copy.before.attributes, copy.attributes)
    for plural in sorted(copy.collections):
        changed += [plural, f"{plural}count"]
    changed += config
    if changed:
        yield _make_change(copy, ChangeAction.UPDATED, changed)
    yield from _compare_deprecation(copy)


def _compare_resource(copy: ResourceCopy, singular: str) -> Iterator[Change]:
    before = copy.before
    if before is None:
        yield _make_change(copy, ChangeAction.CREATED)
        yield from _compare_deprecation(copy)
        return
    changed = [f"meta.{name}" for name in _compare_stamps(copy, before.createdat, before.modifiedat)]
    changed += [f"meta.{name}" for name in _compare_attributes(before.attributes, copy.attributes)]
    if before.xref != copy.xref and "meta.epoch" not in changed:
        changed.append("meta.epoch")  # clients see another epoch: that of the new target (R269)
    pairs = (
        ("xref", before.xref, copy.xref),
        ("defaultversionid", before.defaultversionid, copy.defaultversionid),
        ("defaultversionsticky", before.defaultversionsticky, copy.defaultversionsticky),
    )
    changed += [f"meta.{name}" for name, old, new in pairs if old != new]
    if copy.removed or any(version.before is None for version in copy.versions.values()):
        changed += ["versions", "versionscount"]
    changed += _compare_default_version(copy, singular)
    if changed:
        yield _make_change(copy, ChangeAction.UPDATED, changed)
    yield from _compare_deprecation(copy)


def _compare_default_version(copy: ResourceCopy, singular: str) -> list[str]:
    """Return the names of changed attributes of the default Version.

    If another Version became the default one, return all attributes of the old and the new default Version (R299,
    R305).
    """
    old_id = copy.before.defaultversionid if copy.before else None
    if old_id == copy.defaultversionid:
        # A Resource shows the attributes of its default Version as its own, so they change together.
        current = copy.versions.get(old_id or "")
        return _compare_version_attributes(current, singular) if current else []
    both = [copy.versions.get(old_id or "") or copy.removed.get(old_id or "")]
    both.append(copy.versions.get(copy.defaultversionid or ""))
    return [name for version in both if version for name in _list_shown_attributes(version, singular)]


def _list_shown_attributes(version: VersionCopy, singular: str) -> list[str]:
    """Return the names of the attributes that a Version shows, including its document if it has one."""
    return [f"{singular}id", *_VERSION_ATTRIBUTES, *version.attributes, *([singular] if version.document else [])]


def _compare_version(copy: VersionCopy, singular: str) -> Iterator[Change]:
    if copy.before is None:
        yield _make_change(copy, ChangeAction.CREATED)
        return
    changed = _compare_version_attributes(copy, singular)
    if changed:
        yield _make_change(copy, ChangeAction.UPDATED, changed)


def _compare_version_attributes(copy: VersionCopy, singular: str) -> list[str]:
    before = copy.before
    if before is None:
        return _list_shown_attributes(copy, singular)
    changed = _compare_stamps(copy, before.createdat, before.modifiedat)
    changed += _compare_attributes(before.attributes, copy.attributes)
    pairs = (("ancestorid", before.ancestorid, copy.ancestorid), (singular, before.document, copy.document))
    return changed + [name for name, old, new in pairs if old != new]


def _compare_stamps(copy: WorkingCopy, createdat: datetime, modifiedat: datetime) -> list[str]:
    names = ["epoch"] if copy.before is None or copy.epoch != copy.before.epoch else []
    names += ["createdat"] if copy.createdat != createdat else []
    return names + (["modifiedat"] if copy.modifiedat != modifiedat else [])


def _compare_attributes(before: JSONObject, after: JSONObject) -> list[str]:
    return [name for name in {**before, **after} if before.get(name) != after.get(name)]


def _compare_deprecation(copy: WorkingCopy) -> Iterator[Change]:
    """Yield a separate change if ``deprecated`` changed, naming its changed members (R303).

    Applies to new entities too.
    """
    old = (copy.before.attributes if copy.before else {}).get("deprecated")
    new = copy.attributes.get("deprecated")
    if old != new:
        yield _make_change(copy, ChangeAction.DEPRECATION, _compare_attributes(old or {}, new or {}))


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteResult:
    """The result of a write, from which an API builds its response.

    ``target`` is the entity to render. It is the command's target, except that a POST to a Resource returns the Version
    (R147). ``created`` is True if ``target`` is new. ``processed`` lists, in request order, the entities that a write
    to a collection (or a POST to the Registry or a Group) changed (R146), and the collections that it sent empty.
    ``version`` is the only new Version of a write to one Resource, for ``Content-Location`` (R152). ``findings`` did
    not stop the write: those of validation and comparison, and those about messages and endpoints (``domainrules``).
    """

    target: Xid
    created: bool = False
    processed: tuple[Xid, ...] = ()
    version: Xid | None = None
    changes: tuple[Change, ...] = ()
    findings: tuple[Finding, ...] = ()
