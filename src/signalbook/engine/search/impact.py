"""What depends on an entity, directly and through others: links followed back, level by level."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final

from signalbook.access.decisions import Access
from signalbook.engine.search.links import IMPORT, PINNED, can_be_kept
from signalbook.engine.write.imports import import_root, importable
from signalbook.errors import RegistryError
from signalbook.storage.base import Reader, Row
from signalbook.storage.index import IndexReader, Referrer
from signalbook.storage.schema import stored_xid
from signalbook.storage.words import CURRENT
from signalbook.values import JSONObject
from signalbook.xid import Kind, Xid

MAX_DEPTH: Final = 10
MOST: Final = 1_000
"""Dependents that are shown."""
_GROUPS: Final = "messagegroups"
_CONTAINS: Final = "messages"


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependent:
    """An entity that depends on another one, ``on``, by a ``relation``; ``depth`` is 1 if that is what was asked for.

    It is a Resource where its default Version refers to the other, and the Version where another one does.
    """

    xid: Xid
    relation: str
    on: Xid
    depth: int

    def to_json(self) -> JSONObject:
        """As clients get it."""
        return {"xid": str(self.xid), "relation": self.relation, "on": str(self.on), "depth": self.depth}


@dataclass(frozen=True, slots=True, kw_only=True)
class Impact:
    """What depends on ``xid``, the nearest first; not all of it if it is not ``complete``."""

    xid: Xid
    dependents: tuple[Dependent, ...]
    complete: bool


def find_impact(index: IndexReader, reader: Reader, xid: Xid, access: Access, depth: int = MAX_DEPTH) -> Impact:
    """What depends on a Group, Resource or Version, up to ``depth`` steps away, as far as ``access`` shows it.

    What is hidden leads to nothing: what depends on something through it is not found either. Three queries a level.
    Raises ``not_found``.
    """
    if xid.kind not in (Kind.GROUP, Kind.RESOURCE, Kind.VERSION) or reader.get(xid) is None:
        raise RegistryError("not_found", subject=str(xid))
    found: list[Dependent] = []
    seen = {xid, xid.resource if xid.kind is Kind.VERSION else xid}
    level = [xid]
    complete = True
    for step in range(1, depth + 1):
        following: list[Xid] = []
        for dependent in _level(index, reader, level, access, step):
            if dependent.xid in seen:
                continue
            if len(found) == MOST:
                return Impact(xid=xid, dependents=tuple(found), complete=False)
            seen.add(dependent.xid)
            found.append(dependent)
            following.append(dependent.xid)
        level = following
        if not level:
            break
    else:
        complete = not any(each.xid not in seen for each in _level(index, reader, level, access, depth + 1))
    return Impact(xid=xid, dependents=tuple(found), complete=complete)


def _level(
    index: IndexReader, reader: Reader, level: Collection[Xid], access: Access, depth: int
) -> Iterator[Dependent]:
    """What refers to the entities of a level."""
    rows = _rows(reader, level)
    targets: dict[str, Xid] = {}
    for node in level:
        for target in _targets(node, rows):
            targets.setdefault(target, node)
    for referrer in index.referrers(targets):
        if not access.readable(stored_xid(referrer.xid)):
            continue
        on = targets[referrer.target]
        source = _shown(referrer)
        if _counts(referrer, on):
            yield Dependent(xid=source, relation=referrer.kind.removesuffix(PINNED), on=on, depth=depth)
    for node in level:
        # An endpoint has messages of its own.
        if node.kind is not Kind.GROUP and node.group_type == "endpoints" and access.readable(node.resource.owner):
            yield Dependent(xid=node.resource.owner, relation=_CONTAINS, on=node, depth=depth)


def _rows(reader: Reader, level: Collection[Xid]) -> dict[Xid, Row]:
    """The Resources and Groups of a level, and the default Versions."""
    resources = {node.resource for node in level if node.kind is not Kind.GROUP}
    rows = reader.get_many({*resources, *(each.owner for each in resources)}) if resources else {}
    defaults = {
        xid / "versions" / row.defaultversionid
        for xid in resources
        if (row := rows.get(xid)) is not None and row.defaultversionid
    }
    return rows | (reader.get_many(defaults) if defaults else {})


def _targets(node: Xid, rows: dict[Xid, Row]) -> Iterator[str]:
    """What links to an entity lead to: itself; a Resource also stands for its default Version, and is in a Group."""
    yield str(node)
    if node.kind is Kind.GROUP:
        return
    resource = rows.get(node.resource)
    default = None if resource is None else resource.defaultversionid
    if node.kind is Kind.VERSION:
        if node.id != default:
            return
        yield str(node.resource)
    if node.resource_type == "messages" and node.group_type == _GROUPS:
        yield str(node.resource.owner)
    shown = rows.get(node.resource / "versions" / (default or ""))
    group = rows.get(node.resource.owner)
    if shown is not None and group is not None:
        for file in importable(node.resource, shown.attributes, import_root(group.attributes)):
            yield from filter(can_be_kept, file.paths())


def _counts(referrer: Referrer, on: Xid) -> bool:
    """Whether a link to one of the targets of ``on`` is about it."""
    if referrer.target == str(on):
        return True
    if referrer.kind == IMPORT:
        return True
    if referrer.target == str(on.resource.owner):
        return referrer.kind == _GROUPS
    # Of a Version: those who take whatever is the default one. Others have named theirs.
    return not referrer.kind.endswith(PINNED)


def _shown(referrer: Referrer) -> Xid:
    source = stored_xid(referrer.xid)
    return source.resource if source.kind is Kind.VERSION and referrer.flags & CURRENT else source
