"""Loading: the part of the registry that one command can touch, in a few queries.

Of a Resource with many Versions those are loaded that the write is about: their ancestors, neighbours and the newest
ones. The decisions are those made with all Versions at hand (``lineage``): one that is left out keeps its ancestor, is
not the newest and was found right when it was written. Where that cannot be said, all of them are loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Final, TypeAlias

from signalbook.engine.write.commands import ONE_RESOURCE, Command, Intent, ResourceIntent
from signalbook.engine.write.context import Context
from signalbook.engine.write.lineage import ORDERED, rank
from signalbook.engine.write.workingcopies import (
    OwnerCopy,
    ResourceCopy,
    StoredVersions,
    VersionCopy,
    WorkingTree,
)
from signalbook.formats.compatibility import is_transitive
from signalbook.storage.base import Reader, Row
from signalbook.xid import ROOT, Kind, Xid

NeedsSome: TypeAlias = Callable[[Row, int], bool]

FEW: Final = 12
"""Versions that are loaded at once: finding the right ones among them takes longer."""


def needs_some(command: Command, context: Context) -> NeedsSome:
    """Whether a write to a Resource, stored with so many Versions, needs some of them only.

    It must be about that Resource alone, whose Versions must be in order by the present rules. What counts or compares
    all of them asks for all; a rule that stays as it is and looks at neighbours only does not (``compatibility``).
    """
    target = command.target
    if target.kind not in ONE_RESOURCE:
        return lambda _row, _count: False
    kind = context.model.groups[target.group_type].resources[target.resource_type]
    body = command.body if isinstance(command.body, dict) else {}
    meta = body if target.kind is Kind.META else body.get("meta")
    asked = (meta if isinstance(meta, dict) else {}).get("compatibility")

    def some(row: Row, count: int) -> bool:
        rule = str(context.compatibility or row.attributes.get("compatibility") or "")
        compared = (rule or asked) and (kind.validatecompatibility or context.compatibility)
        return (
            count > FEW
            and row.settled == kind.versionmode
            and not (kind.singleversionroot and kind.versionmode not in ORDERED)  # those have one root anyway
            and not (kind.maxversions and count >= kind.maxversions)
            and not (compared and (meta is not None or is_transitive(rule)))
        )

    return some


def gather(resource: ResourceCopy, intent: ResourceIntent, context: Context) -> None:
    """Load what the place of every Version depends on, once the Versions are as the request says, or everything."""
    if resource.stored is None:
        return
    mode = intent.type.versionmode
    changed = [version for version in resource.versions.values() if _changed(version, mode)]
    gone = list(resource.removed.values())
    if len(changed) + len(gone) > 1 or (mode not in ORDERED and any(version.before for version in changed)):
        resource.complete()
        return
    resource.find(*_named(resource, intent, context))
    if mode in ORDERED:
        _gather_line(resource, resource.stored, changed, gone, mode)
    else:
        _gather_leaves(resource, resource.stored, changed, gone)
    resource.arrange()


def _changed(version: VersionCopy, mode: str) -> bool:
    """Whether it is new, or may be in another place than it was."""
    before = version.before
    return before is None or before.rank != rank(version, mode) or before.ancestorid != version.ancestorid


def _named(resource: ResourceCopy, intent: ResourceIntent, context: Context) -> Iterator[str]:
    """Versions that are, or may become, the default one."""
    for name in (
        resource.defaultversionid,
        (intent.meta or {}).get("defaultversionid"),
        context.flags.setdefaultversionid,
    ):
        if isinstance(name, str):
            yield name


def _gather_line(
    resource: ResourceCopy, stored: StoredVersions, changed: list[VersionCopy], gone: list[VersionCopy], mode: str
) -> None:
    """All are in one line: what moves has neighbours where it was and where it will be, and one behind each of them."""
    moving = {version.id for version in (*changed, *gone)}
    resource.open = {version.id for version in changed}
    places = [(rank(version, mode), version.id) for version in changed]
    places += [(v.before.rank, v.id) for v in (*changed, *gone) if v.before is not None and v.before.rank is not None]
    for place in places:
        before, behind = (list(filter(lambda v: v.id not in moving, side)) for side in stored.neighbours(*place))
        resource.add((*before[:1], *behind[:1]))
        resource.open |= {version.id for version in behind[:1]}
    resource.add(stored.newest())


def _gather_leaves(
    resource: ResourceCopy, stored: StoredVersions, changed: list[VersionCopy], gone: list[VersionCopy]
) -> None:
    """Ancestors are what clients said: a new Version may end the line of one, one that goes leaves others without."""
    resource.find(*(version.ancestorid for version in (*changed, *gone) if version.ancestorid is not None))
    orphans = stored.derived([version.id for version in gone])
    newest = stored.leaves(1)
    resource.add((*orphans, *newest))
    resource.open = {version.id for version in (*changed, *orphans)}
    known = (*resource.versions.values(), *gone)
    leaves = {leaf.id for leaf in newest}
    nothing_to_ask = all(version.before is None or version.id in leaves for version in known)
    resource.inner = () if nothing_to_ask else stored.ancestors(known)
    # A single line of Versions has no second leaf, and looking for it would pass by all of them.
    sure = _sure_leaf(resource, changed, gone)
    if any(_displaces(version, newest) for version in (*changed, *gone)) and any(
        _behind(leaf, sure) for leaf in newest
    ):
        resource.add(stored.leaves(2, above=sure))


def _displaces(version: VersionCopy, newest: list[VersionCopy]) -> bool:
    """Whether the newest stored leaf may be the newest no more, or no leaf, by what becomes of ``version``."""
    return any(leaf.id == version.id or version.ancestorid in (leaf.id, None) for leaf in newest)


def _behind(leaf: VersionCopy, place: tuple[str, str]) -> bool:
    """Whether a stored leaf is behind this place: if the newest one is not, none is."""
    return (leaf.rank or "", leaf.id.casefold()) > (place[0], place[1].casefold())


def _sure_leaf(resource: ResourceCopy, changed: list[VersionCopy], gone: list[VersionCopy]) -> tuple[str, str]:
    """The place of a Version that will be a leaf: none that comes before it is the newest."""
    above = [resource.versions.get(version.ancestorid or "") for version in gone]
    left = [version for version in above if version is not None and version.id not in resource.inner]
    return max(((rank(version, "manual"), version.id) for version in (*changed, *left)), default=("", ""))


def load_intent(reader: Reader, intent: Intent, partly: NeedsSome) -> WorkingTree:
    """Everything stored that ``intent`` can touch: a few queries, however many entities it names."""
    groups = {group.xid for group in intent.groups}
    resources = {resource.xid for resource in intent.resources()}
    return load_entities(reader, groups, resources, partly)


def load_entities(
    reader: Reader, groups: Collection[Xid], resources: Collection[Xid], partly: NeedsSome | None = None
) -> WorkingTree:
    """The Registry, these Groups, and these Resources with their Versions, as far as they exist."""
    rows = reader.get_many({ROOT, *groups, *resources})
    tree = WorkingTree(registry=OwnerCopy.of(rows[ROOT]))
    tree.groups = {xid: OwnerCopy.of(rows[xid]) for xid in groups if xid in rows}
    tree.resources = {xid: ResourceCopy.of(rows[xid]) for xid in resources if xid in rows}
    load_versions(reader, tree.resources.values(), partly)
    return tree


def load_versions(reader: Reader, resources: Collection[ResourceCopy], partly: NeedsSome | None = None) -> None:
    """Give each stored Resource its Versions, in one query, but for those that ``partly`` says need some only."""
    by_key = {draft.before.key: draft for draft in resources if draft.before is not None and draft.xref is None}
    counts = reader.counts(by_key) if partly and by_key else {}
    for (key, _), count in counts.items():
        row = by_key[key].before
        if partly and row is not None and partly(row, count):
            by_key.pop(key).stored = StoredVersions(reader, row, count)
    for row in reader.children(by_key, "versions") if by_key else ():
        by_key[row.parent].versions[row.xid.id] = VersionCopy.of(row)
