"""Quotas of Groups (Resources, Versions, bytes of documents) and the maximum size of an entity."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from itertools import chain
from typing import Final, TypeAlias

from signalbook import dialects
from signalbook.engine.write.workingcopies import WorkingCopy, WorkingTree
from signalbook.errors import RegistryError
from signalbook.settings import Settings
from signalbook.storage.entity_writing import EntityWriter
from signalbook.storage.store import WriteTransaction
from signalbook.values import dump_json
from signalbook.xid import ROOT, Xid

_Claim: TypeAlias = tuple[Xid, int, str, int, str]
"""A Group that grew: its xid, the new amount, the name of the quantity, the limit, and the setting that states the
limit.
"""
_RESOURCES_LABEL: Final = "Resources"
_BYTES_LABEL: Final = "bytes of documents"


class QuotaExceeded(RegistryError):
    """The error for a write that would exceed the quota of a Group."""


def check_sizes(tree: WorkingTree, limit: int) -> None:
    """Raise ``bad_request`` if a changed entity would have more than ``limit`` bytes of attributes, without its
    document.

    Every read or change of an entity loads all of its attributes, so an entity of 50 MB would delay all clients each
    time. An entity that was larger before may shrink.
    """
    resources = tree.resources.values()
    versions = (version for resource in resources for version in resource.versions.values())
    copies: Iterator[WorkingCopy] = chain((tree.registry,), tree.groups.values(), resources, versions)
    for copy in copies:
        before = {} if copy.before is None else copy.before.attributes
        if copy.attributes == before or (size := len(dump_json(copy.attributes))) <= limit:
            continue
        # An entity that was larger before may shrink.
        if size > len(dump_json(before)):
            detail = f'the attributes of "{copy.xid}" take more than {limit} bytes (setting max_entity_bytes)'
            raise RegistryError("bad_request", subject=str(copy.xid), error_detail=detail)


@dataclass(frozen=True, slots=True, kw_only=True)
class SubjectUsage:
    """The usage of a schema group in addition to its entities: settings of its subjects and softly deleted versions."""

    settings: int
    versions: int
    bytes: int


_NO_USAGE: Final = SubjectUsage(settings=0, versions=0, bytes=0)


def check_quotas(tree: WorkingTree, transaction: WriteTransaction, settings: Settings) -> None:
    """Raise ``QuotaExceeded`` if a write increased a quantity of a Group that now exceeds its limit.

    Numbers of entities are taken from the store without counting. Data of the Confluent-compatible API is counted. A
    Group that exceeded a limit before may shrink but not grow.
    """
    for claim in _list_claims(tree, transaction, settings):
        _check_claim(claim)


def check_subject_quotas(group: Xid, transaction: WriteTransaction, settings: Settings, *, is_new: bool) -> None:
    """Raise ``QuotaExceeded`` if a written Confluent setting makes its Group exceed a limit. The Group need not exist.

    A setting counts with its bytes, and as a Resource if ``is_new``.
    """
    if not (settings.max_group_resources or settings.max_group_bytes):
        return
    # A setting may name the Group in other case.
    writer = transaction.entities
    root = writer.get(ROOT)
    rows = () if root is None else writer.children((root.key,), group.group_type, ids=(group.group_id.lower(),))
    row = next(iter(rows), None)
    group = group if row is None else row.xid
    subject_usage = _count_subject_usage(group, transaction, settings)
    if is_new and (limit := settings.max_group_resources):
        counts = {} if row is None else writer.counts([row.key])
        _check_claim(
            (group, sum(counts.values()) + subject_usage.settings, _RESOURCES_LABEL, limit, "max_group_resources")
        )
    if limit := settings.max_group_bytes:
        size = writer.usage(group).bytes + subject_usage.bytes
        _check_claim((group, size, _BYTES_LABEL, limit, "max_group_bytes"))


def _check_claim(claim: _Claim) -> None:
    group, has, label, limit, setting = claim
    if has > limit:
        # The new amount is not stated, because part of it may be hidden from the caller.
        detail = f'"{group}" would exceed its limit of {limit} {label} (setting {setting})'
        raise QuotaExceeded("bad_request", subject=str(group), error_detail=detail)


def _list_claims(tree: WorkingTree, transaction: WriteTransaction, settings: Settings) -> Iterator[_Claim]:
    writer = transaction.entities
    subject_usage: Callable[[Xid], SubjectUsage] = cache(
        partial(_count_subject_usage, transaction=transaction, settings=settings)
    )
    if limit := settings.max_group_resources:
        for group, count in _count_resources(tree, writer).items():
            yield group, count + subject_usage(group).settings, _RESOURCES_LABEL, limit, "max_group_resources"
    if settings.max_group_versions or settings.max_group_bytes:
        for group, (gained, has) in writer.growth().items():
            if gained.versions > 0 and (limit := settings.max_group_versions):
                yield group, has.versions + subject_usage(group).versions, "Versions", limit, "max_group_versions"
            if gained.bytes > 0 and (limit := settings.max_group_bytes):
                yield group, has.bytes + subject_usage(group).bytes, _BYTES_LABEL, limit, "max_group_bytes"


def _count_subject_usage(group: Xid, transaction: WriteTransaction, settings: Settings) -> SubjectUsage:
    """Return the number and bytes of the Confluent settings and softly deleted versions of a schema group.

    Other Groups have none. They are counted, so the time grows with their number.
    """
    ranges = dialects.list_setting_ranges(group, settings.confluent_group)
    if not ranges:
        return _NO_USAGE
    ids = transaction.confluent
    parts = [ids.settings_usage(*scopes) for scopes in ranges]
    versions, size = ids.soft_deleted_usage(group.group_id.lower())
    return SubjectUsage(
        settings=sum(count for count, _ in parts), versions=versions, bytes=size + sum(size for _, size in parts)
    )


def _count_resources(tree: WorkingTree, reader: EntityWriter) -> dict[Xid, int]:
    """Return the number of Resources of all types in each Group that gained a Resource."""
    grown = {xid.owner for xid, copy in tree.resources.items() if copy.before is None}
    groups = {row.key: xid for xid, row in reader.get_many(grown).items()}
    total = dict.fromkeys(groups.values(), 0)
    for (key, _), count in reader.counts(groups).items():
        total[groups[key]] += count
    return total
