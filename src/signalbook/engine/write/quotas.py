"""How much a Group may have: Resources, Versions, bytes of documents; and how large an entity may be."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import TypeAlias

from signalbook.engine.write.workingcopies import WorkingCopy, WorkingTree
from signalbook.errors import RegistryError
from signalbook.settings import Settings
from signalbook.storage.writing import EntityWriter
from signalbook.values import dump_json
from signalbook.xid import Xid

_Claim: TypeAlias = tuple[Xid, int, str, int, str]
"""A Group that grew, how much it has now of what, how much it may have, and the setting that says so."""


class QuotaExceeded(RegistryError):
    """A write that gives a Group more than it may have."""


def check_sizes(tree: WorkingTree, most: int) -> None:
    """Raise ``bad_request`` if what changes would have attributes of more than ``most`` bytes, without its document.

    Who reads an entity, or changes anything in it, has all of its attributes in memory: a single one of 50 MB would
    hold up everybody each time.
    """
    resources = tree.resources.values()
    versions = (version for resource in resources for version in resource.versions.values())
    copies: Iterator[WorkingCopy] = chain((tree.registry,), tree.groups.values(), resources, versions)
    for copy in copies:
        before = {} if copy.before is None else copy.before.attributes
        if copy.attributes == before or (size := len(dump_json(copy.attributes))) <= most:
            continue
        # One that was larger already may lose some.
        if size > len(dump_json(before)):
            detail = f'the attributes of "{copy.xid}" take more than {most} bytes (setting max_entity_bytes)'
            raise RegistryError("bad_request", subject=str(copy.xid), error_detail=detail)


def check_quotas(tree: WorkingTree, writer: EntityWriter, settings: Settings) -> None:
    """Raise ``QuotaExceeded`` if what was written gave a Group more of anything, and it has more than it may now.

    The numbers are those that the store keeps: none is counted here. A Group that had more already may lose some, and
    may not gain any.
    """
    for group, has, what, most, setting in _claims(tree, writer, settings):
        if has > most:
            # Not how much it would have: some of that may be hidden.
            detail = f'"{group}" may have {most} {what} (setting {setting}), and would have more'
            raise QuotaExceeded("bad_request", subject=str(group), error_detail=detail)


def _claims(tree: WorkingTree, writer: EntityWriter, settings: Settings) -> Iterator[_Claim]:
    if most := settings.max_group_resources:
        for group, count in _resources(tree, writer).items():
            yield group, count, "Resources", most, "max_group_resources"
    if settings.max_group_versions or settings.max_group_bytes:
        for group, (gained, has) in writer.growth().items():
            if gained.versions > 0 and (most := settings.max_group_versions):
                yield group, has.versions, "Versions", most, "max_group_versions"
            if gained.bytes > 0 and (most := settings.max_group_bytes):
                yield group, has.bytes, "bytes of documents", most, "max_group_bytes"


def _resources(tree: WorkingTree, reader: EntityWriter) -> dict[Xid, int]:
    """How many Resources of all types the Groups have that got new ones."""
    grown = {xid.owner for xid, copy in tree.resources.items() if copy.before is None}
    groups = {row.key: xid for xid, row in reader.get_many(grown).items()}
    total = dict.fromkeys(groups.values(), 0)
    for (key, _), count in reader.counts(groups).items():
        total[groups[key]] += count
    return total
