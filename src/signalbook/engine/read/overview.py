"""An overview of the registry: its number of entities, their owners, and definitions that need attention.

Everything is limited, so that an overview of a million Versions costs no more than one of a thousand.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from signalbook.access.base import Action
from signalbook.batches import batched
from signalbook.engine.read.impact import BackwardLinks
from signalbook.engine.read.view import View
from signalbook.model import Model
from signalbook.storage.base import Row
from signalbook.xid import ROOT, Xid

OWNER_LABELS: Final = ("owner", "team")
"""The labels of a Group that name its owner, the first one that it has counts."""
MAX_GROUPS: Final = 200
"""The number of Groups of each type that are read."""
MAX_DEFINITIONS: Final = 200
"""The number of definitions of each type that are read."""
MAX_COUNTED: Final = 2_000
"""The number of Resources after which no more are counted one by one, for callers who cannot read everything.

Groups are counted whole, so there may be more.
"""
_GROUPS_AT_ONCE: Final = 10
_MAX_LINKS: Final = 5_000
_MAX_OWNER_CHARS: Final = 100
_MESSAGES: Final = "messages"
_ENDPOINTS: Final = "endpoints"
_MESSAGE_GROUPS: Final = "messagegroups"


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """An owner: the ``label`` and its value that name it, and the number of Groups by Group type."""

    label: str
    value: str
    groups: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """A message or a Resource with a document. ``name`` is empty if it has no name."""

    xid: Xid
    name: str
    deprecated: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """The overview that a caller can see.

    ``groups`` are the numbers of Groups by type, ``resources`` those of Resources by Group type and type. If not
    ``counted``, there are more Resources. If not ``complete``, there are more Groups or definitions than were read for
    ``owners``, ``deprecated`` and ``unused``.
    """

    groups: Mapping[str, int]
    resources: Mapping[tuple[str, str], int]
    counted: bool
    owners: tuple[Owner, ...]
    deprecated: tuple[Definition, ...]
    unused: tuple[Definition, ...]
    complete: bool


def read_overview(view: View) -> Overview:
    """Return the overview of the registry."""
    root = view.reader.get(ROOT)
    if root is None:
        return Overview(groups={}, resources={}, counted=True, owners=(), deprecated=(), unused=(), complete=True)
    numbers = view.reader.counts([root.key])
    groups = {plural: numbers.get((root.key, plural), 0) for plural in view.model.groups}
    rows = [
        row
        for plural, number in groups.items()
        for row in (view.reader.children([root.key], plural, limit=MAX_GROUPS) if number else ())
    ]
    complete_groups = len(rows) == sum(groups.values())
    if view.access.reads_everything:
        resources, counted = view.index.count_resources(root.key), True
    else:
        resources, counted = _count_resources(view, rows)
        counted = counted and complete_groups
    totals = {types: number for types, number in resources.items() if _are_definitions(view.model, *types)}
    definitions = list(_list_definitions(view, rows, totals))
    # Without endpoints nothing can use a message.
    usable = [item.xid for item in definitions if groups.get(_ENDPOINTS) or item.xid.resource_type != _MESSAGES]
    unused = _find_unused(view, usable)
    return Overview(
        groups=groups,
        resources=resources,
        counted=counted,
        owners=_list_owners(rows),
        deprecated=tuple(definition for definition in definitions if definition.deprecated),
        unused=tuple(definition for definition in definitions if definition.xid in unused),
        complete=counted and complete_groups and len(definitions) == sum(totals.values()),
    )


def _count_resources(view: View, groups: Sequence[Row]) -> tuple[dict[tuple[str, str], int], bool]:
    """Return the number of readable Resources in ``groups`` by Group type and type, and True if all were counted.

    Groups in which everything is readable have stored numbers. In the others the Resources are counted one by one, up
    to a limit.
    """
    types = {row.key: row.xid.group_type for row in groups}
    open_keys = {row.key for row in groups if view.access.allows_everything_below(Action.READ, row.xid)}
    numbers = dict(view.reader.counts(open_keys))
    counted, complete = 0, True
    for keys in batched((key for key in types if key not in open_keys), _GROUPS_AT_ONCE):
        if counted >= MAX_COUNTED:
            complete = False
            break
        more = view.reader.counts(keys)
        counted += sum(more.values())
        numbers |= more
    resources = Counter[tuple[str, str]]()
    for (key, plural), number in numbers.items():
        resources[types[key], plural] += number
    return dict(resources), complete


def _list_owners(groups: Sequence[Row]) -> tuple[Owner, ...]:
    """Return the owners of Groups, those of most Groups first."""
    owners: dict[tuple[str, str], Counter[str]] = {}
    for row in groups:
        labels = row.attributes.get("labels") or {}
        owner = next(((name, str(labels[name])) for name in OWNER_LABELS if labels.get(name)), None)
        if owner is not None:
            owners.setdefault(owner, Counter())[row.xid.group_type] += 1
    ranked = sorted(owners.items(), key=lambda item: (-item[1].total(), item[0]))
    return tuple(
        Owner(label=label, value=value[:_MAX_OWNER_CHARS], groups=tuple(counts.items()))
        for (label, value), counts in ranked
    )


def _are_definitions(model: Model, group_type: str, resource_type: str) -> bool:
    """Return True if Resources of a type are messages or have documents."""
    kind = model.groups[group_type].resources.get(resource_type)
    return kind is not None and (kind.hasdocument or resource_type == _MESSAGES)


def _list_definitions(view: View, groups: Sequence[Row], types: Iterable[tuple[str, str]]) -> Iterator[Definition]:
    """Yield the first Resources in ``groups`` of each of ``types``, which are Group types with Resource types."""
    for group_type, resource_type in types:
        parents = [row.key for row in groups if row.xid.group_type == group_type]
        rows = list(view.reader.children(parents, resource_type, limit=MAX_DEFINITIONS))
        defaults = view.reader.get_many([row.default_version for row in rows if row.defaultversionid])
        for row in rows:
            shown = defaults.get(row.default_version, row)
            name = str(shown.attributes.get("name") or "")
            yield Definition(xid=row.xid, name=name, deprecated="deprecated" in row.attributes)


def _find_unused(view: View, definitions: Sequence[Xid]) -> set[Xid]:
    """Return the definitions to which no readable entity refers. Empty if too many links would have to be followed.

    A message is used if an endpoint uses its Group.
    """
    links = BackwardLinks(index=view.index, reader=view.reader, access=view.access)
    used: set[Xid] = set()
    for number, dependent in enumerate(links.follow(definitions, 1)):
        if number == _MAX_LINKS:
            return set()
        if dependent.xid.resource != dependent.on:
            # All messages of a Group share the link to it, which is reported for one of them.
            used.add(dependent.on.owner if dependent.relation == _MESSAGE_GROUPS else dependent.on)
    return {xid for xid in definitions if xid not in used and xid.owner not in used}
