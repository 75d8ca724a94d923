"""The direct and indirect dependents of an entity, found by following links backward level by level."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from signalbook.access.decisions import Access
from signalbook.engine.schemanames import NAME, make_referable_schema
from signalbook.engine.search.links import IMPORT, PINNED
from signalbook.errors import RegistryError
from signalbook.formats.references import find_identity, is_indexable
from signalbook.storage.base import Reader, Row
from signalbook.storage.index import IndexReader, Referrer
from signalbook.storage.schema import stored_xid
from signalbook.storage.words import CURRENT
from signalbook.values import JSONObject
from signalbook.xid import Kind, Xid

MAX_DEPTH: Final = 10
MAX_DEPENDENTS: Final = 1_000
"""The maximum number of dependents in a result."""
_GROUPS: Final = "messagegroups"
_MESSAGES: Final = "messages"


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependent:
    """An entity that depends on another entity, ``on``, by a ``relation``. ``depth`` is 1 for direct dependents.

    ``xid`` is a Resource if its default Version has the link, and a Version if another Version has it. ``source`` is
    the entity that is stored with the link, which may be the default Version.
    """

    xid: Xid
    relation: str
    on: Xid
    depth: int
    source: Xid

    def to_json(self) -> JSONObject:
        """Return the dependent as the JSON object that clients receive."""
        return {"xid": str(self.xid), "relation": self.relation, "on": str(self.on), "depth": self.depth}


@dataclass(frozen=True, slots=True, kw_only=True)
class Impact:
    """The dependents of ``xid``, the nearest first. If not ``complete``, there are more."""

    xid: Xid
    dependents: tuple[Dependent, ...]
    complete: bool


def find_impact(index: IndexReader, reader: Reader, xid: Xid, access: Access, depth: int = MAX_DEPTH) -> Impact:
    """Find the dependents of a Group, Resource or Version, up to ``depth`` steps away, that ``access`` can read.

    Hidden entities are not followed, so their dependents are not found through them. Takes three queries per level.
    Raises ``not_found``.
    """
    if xid.kind not in (Kind.GROUP, Kind.RESOURCE, Kind.VERSION) or reader.get(xid) is None:
        raise RegistryError("not_found", subject=str(xid))
    links = BackwardLinks(index=index, reader=reader, access=access)
    dependents: list[Dependent] = []
    seen = {xid, xid.resource if xid.kind is Kind.VERSION else xid}
    level = [xid]
    complete = True
    for step in range(1, depth + 1):
        next_level: list[Xid] = []
        for dependent in links.follow(level, step):
            if dependent.xid in seen:
                continue
            if len(dependents) == MAX_DEPENDENTS:
                return Impact(xid=xid, dependents=tuple(dependents), complete=False)
            seen.add(dependent.xid)
            dependents.append(dependent)
            next_level.append(dependent.xid)
        level = next_level
        if not level:
            break
    else:
        complete = not any(dependent.xid not in seen for dependent in links.follow(level, depth + 1))
    return Impact(xid=xid, dependents=tuple(dependents), complete=complete)


def find_direct_dependents(
    index: IndexReader, reader: Reader, xid: Xid, access: Access, max_links: int
) -> tuple[Dependent, ...]:
    """Return the direct dependents of an existing Group or Resource, from the first ``max_links`` links.

    Links from the Resource to itself or to one of its Versions are left out.
    """
    links = BackwardLinks(index=index, reader=reader, access=access)
    dependents: dict[Xid, Dependent] = {}
    for dependent in islice(links.follow([xid], 1), max_links):
        if dependent.xid.resource != xid:
            dependents.setdefault(dependent.xid, dependent)
    return tuple(dependents.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class BackwardLinks:
    """Links followed backward, from a target to the entities that refer to it and that ``access`` can read.

    ``groups`` makes a message group a step of its own between its messages and the endpoints that use it. ``moved`` is
    a Resource that is about to get another default Version, so links that name one of its Versions are ignored.
    """

    index: IndexReader
    reader: Reader
    access: Access
    groups: bool = False
    moved: Xid | None = None

    def follow(self, nodes: Collection[Xid], depth: int) -> Iterator[Dependent]:
        """Yield the entities that refer to one of ``nodes``, once for each link. ``depth`` is stored in the results."""
        resources = {node.resource for node in nodes if node.kind is not Kind.GROUP}
        rows = load_rows_with_defaults(
            self.reader, {*resources, *(resource.owner for resource in resources)}, resources
        )
        targets: dict[str, Xid] = {}
        identities = self._load_identities(rows.values())
        for node in nodes:
            for target in _list_targets(node, rows, identities, through_groups=not self.groups):
                targets.setdefault(target, node)
        for referrer in self.index.referrers(targets):
            source = stored_xid(referrer.xid)
            on = targets[referrer.target]
            if self.access.is_readable(source) and self._is_about(referrer, on):
                relation = referrer.kind.removesuffix(PINNED)
                yield Dependent(
                    xid=_choose_shown_xid(source, referrer), relation=relation, on=on, depth=depth, source=source
                )
        for node in nodes:
            owner = node.resource.owner if node.kind is not Kind.GROUP else node
            # An endpoint contains messages itself.
            contains = node.group_type == "endpoints" or (self.groups and node.resource_type == _MESSAGES)
            if node.kind is not Kind.GROUP and contains and self.access.is_readable(owner):
                yield Dependent(xid=owner, relation=_MESSAGES, on=node, depth=depth, source=owner)

    def _load_identities(self, rows: Iterable[Row]) -> dict[int, list[str]]:
        """Return the names that documents give themselves, by the storage key of their Version."""
        identities: dict[int, list[str]] = defaultdict(list)
        keys = [row.key for row in rows if row.xid.kind is Kind.VERSION]
        for key, link in self.index.links(keys) if keys else ():
            if link.kind == NAME and (identity := find_identity(link.target)):
                identities[key].append(identity)
        return identities

    def _is_about(self, referrer: Referrer, on: Xid) -> bool:
        """Return True if the link ``referrer``, which was found for ``on``, really refers to ``on``."""
        if referrer.target == str(on):
            return on != self.moved or not referrer.kind.endswith(PINNED)
        if referrer.kind == IMPORT:
            return True
        if referrer.target == str(on.resource.owner):
            return referrer.kind == _GROUPS
        # A Version depends on links to its Resource, because it is the default one. Links that name another Version do
        # not count.
        return not referrer.kind.endswith(PINNED)


def load_rows_with_defaults(reader: Reader, xids: Collection[Xid], resources: Collection[Xid]) -> dict[Xid, Row]:
    """Return the rows of ``xids`` that exist, and the default Versions of ``resources``, in two queries.

    ``resources`` must be among ``xids``.
    """
    rows = reader.get_many(xids)
    resource_rows = (row for xid in resources if (row := rows.get(xid)) is not None)
    return rows | reader.get_many({row.default_version for row in resource_rows if row.defaultversionid})


def _list_targets(
    node: Xid, rows: dict[Xid, Row], identities: Mapping[int, Sequence[str]], *, through_groups: bool
) -> Iterator[str]:
    """Yield the targets of links that count as links to an entity.

    These are its xid, for a default Version its Resource, for a message also its Group, and the names of its schema.
    """
    yield str(node)
    if node.kind is Kind.GROUP:
        return
    resource = rows.get(node.resource)
    default = None if resource is None else resource.defaultversionid
    if node.kind is Kind.VERSION:
        if node.id != default:
            return
        yield str(node.resource)
    if through_groups and node.resource_type == _MESSAGES and node.group_type == _GROUPS:
        yield str(node.resource.owner)
    default_row = None if resource is None else rows.get(resource.default_version)
    group = rows.get(node.resource.owner)
    if default_row is not None and group is not None:
        document_names = identities.get(default_row.key, ())
        schema = make_referable_schema(node.resource, default_row.attributes, group.attributes, document_names)
        yield from filter(is_indexable, schema.list_names())


def _choose_shown_xid(source: Xid, referrer: Referrer) -> Xid:
    return source.resource if source.kind is Kind.VERSION and referrer.flags & CURRENT else source
