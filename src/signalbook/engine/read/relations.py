"""The entities around one: what refers to it, what it refers to, in steps to either side, and all links among these."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

from signalbook.engine.read.impact import BackwardLinks, rows_with_defaults
from signalbook.engine.read.schemas import SchemaReferences
from signalbook.engine.read.view import View
from signalbook.engine.schemanames import NAME
from signalbook.engine.search.links import IMPORT, PINNED
from signalbook.errors import RegistryError
from signalbook.formats.imports import is_built_in
from signalbook.storage.base import Row
from signalbook.xid import Kind, Xid, XidError

MAX_STEPS: Final = 10
MOST: Final = 200
"""Entities around one."""
WIDTH: Final = 60
"""Entities of one step, so that there is room for the next one."""
_COUNTED: Final = 1_000
"""Of what is left out: beyond it there is only "more"."""
_MOST_LINKS: Final = 1_000
_CONTAINS: Final = "messages"


@dataclass(frozen=True, slots=True, kw_only=True)
class RelatedEntity:
    """An entity, so many ``steps`` behind the one in the middle (below 0: before it), or the path of a Protobuf file.

    ``there`` is false for what is named and cannot be read, be it missing or hidden.
    """

    id: str
    xid: Xid | None
    steps: int
    there: bool = True


@dataclass(frozen=True, slots=True, order=True, kw_only=True)
class Relation:
    """A link from one entity to another one, by their ids."""

    source: str
    kind: str
    target: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UnshownEntities:
    """The number of entities of one step that are left out; ``more`` if not all were counted."""

    steps: int
    entities: int
    more: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Relations:
    """The entities around ``xid``: itself first, then the nearest."""

    xid: Xid
    entities: tuple[RelatedEntity, ...]
    relations: tuple[Relation, ...]
    left_out: tuple[UnshownEntities, ...]
    farther: bool
    """Whether there are entities more steps away."""


def find_relations(view: View, xid: Xid, base_url: str, steps: int) -> Relations:
    """Find the readable entities up to ``steps`` steps around a Group, Resource or Version.

    Six queries for each step, whatever the number of entities. Raises ``not_found``.
    """
    if xid.kind not in (Kind.GROUP, Kind.RESOURCE, Kind.VERSION) or view.reader.get(xid) is None:
        raise RegistryError("not_found", subject=str(xid))
    backward = BackwardLinks(index=view.index, reader=view.reader, access=view.access, groups=True)
    forward = _ForwardLinks(view, SchemaReferences(view, base_url), middle=xid)
    around = _Around(xid)
    followed = set[Relation]()  # back: the path of an import leads to every file of that name

    def before(level: list[RelatedEntity], at: int) -> Iterator[RelatedEntity]:
        for each in backward.level([each.xid for each in level if each.xid], at):
            followed.add(Relation(source=str(each.xid), kind=each.relation, target=str(each.on)))
            yield RelatedEntity(id=str(each.xid), xid=each.xid, steps=-at)

    def behind(level: list[RelatedEntity], at: int) -> Iterator[RelatedEntity]:
        found = forward.level([each for each in level if each.there])
        return (replace(target, steps=at) for _, _, target in found)

    for at in range(1, steps + 1):
        around.extend(-at, before)
        around.extend(at, behind)
    farther = around.has_more(-steps, before) or around.has_more(steps, behind)
    ids = around.entities.keys()
    known = {each for each in followed if {each.source, each.target} <= ids and each.source != each.target}
    relations = sorted(known.union(forward.among(around.entities)))
    return Relations(
        xid=xid,
        entities=tuple(around.entities.values()),
        relations=tuple(relations[:_MOST_LINKS]),
        left_out=tuple(around.left_out),
        farther=farther,
    )


_Step = Callable[[list[RelatedEntity], int], Iterable[RelatedEntity]]


class _Around:
    """The entities found so far."""

    def __init__(self, middle: Xid) -> None:
        own = RelatedEntity(id=str(middle), xid=middle, steps=0)
        self.entities = {own.id: own}
        self.left_out: list[UnshownEntities] = []
        # The middle of a Version is the middle of what has it.
        start = {own.id, str(middle.resource)} if middle.kind is Kind.VERSION else {own.id}
        # By direction: an entity of a circle is found in both, and each direction goes on behind it.
        self._seen = {True: set(start), False: set(start)}
        self._levels: dict[int, list[RelatedEntity]] = {0: [own]}

    def extend(self, steps: int, step: _Step) -> None:
        """Take one step more in a direction."""
        level = self._levels.get(steps - 1 if steps > 0 else steps + 1, [])
        unseen = list(islice(self._unseen(level, steps, step), _COUNTED)) if level else []
        new = [entity for entity in unseen if entity.id not in self.entities]
        room = min(WIDTH, MOST - len(self.entities))
        taken = new[: max(0, room)]
        self._levels[steps] = [*taken, *(entity for entity in unseen if entity.id in self.entities)]
        self.entities |= {entity.id: entity for entity in taken}
        if len(new) > len(taken):
            self.left_out.append(
                UnshownEntities(steps=steps, entities=len(new) - len(taken), more=len(unseen) == _COUNTED)
            )

    def has_more(self, steps: int, step: _Step) -> bool:
        """Return True if there is anything after the last step."""
        level = self._levels.get(steps, [])
        following = steps + 1 if steps > 0 else steps - 1
        return bool(level) and any(entity.id not in self.entities for entity in self._unseen(level, following, step))

    def _unseen(self, level: list[RelatedEntity], steps: int, step: _Step) -> Iterator[RelatedEntity]:
        seen = self._seen[steps > 0]
        for entity in step(level, abs(steps)):
            if entity.id not in seen:
                seen.add(entity.id)
                yield entity


class _ForwardLinks:
    """Links that are followed from what has them to their ends, and from a Group to what is in it."""

    def __init__(self, view: View, references: SchemaReferences, middle: Xid) -> None:
        self._view = view
        self._references = references
        self._middle = middle

    def level(self, nodes: list[RelatedEntity]) -> Iterator[tuple[str, str, RelatedEntity]]:
        """Yield the references of these entities, with referrer and kind; once for each link."""
        rows = self._rows(nodes)
        found = list(self._links(nodes, rows))
        there = self._view.reader.get_many({xid for _, _, _, xid in found if xid is not None})
        for source, kind, name, xid in found:
            target = xid if xid is None or xid in there else None
            yield source, kind, RelatedEntity(id=name, xid=target, steps=0, there=target is not None)
        yield from self._contents(nodes, rows)

    def among(self, entities: Mapping[str, RelatedEntity]) -> set[Relation]:
        """Return all links among these entities."""
        there = [each for each in entities.values() if each.there]
        rows = self._rows(there)
        shown: dict[str, str] = {}  # what stands for what: a Resource for its default Version, and the other way round
        for each in there:
            row = rows.get(each.xid.resource) if each.xid is not None and each.xid.resource_id else None
            if row is None or each.xid is None:
                continue
            default = str(row.default_version)
            shown |= {default: each.id} if each.xid.kind is Kind.RESOURCE else {}
            shown |= {str(row.xid): each.id} if each.id == default else {}
        found = set[Relation]()
        for source, kind, name, _ in self._links(there, rows):
            target = name if name in entities else shown.get(name)
            if target is not None and target != source:
                found.add(Relation(source=source, kind=kind, target=target))
        for each in there:
            if each.xid is not None and each.xid.kind is not Kind.GROUP and str(each.xid.resource.owner) in entities:
                plural = each.xid.resource_type
                found.add(Relation(source=str(each.xid.resource.owner), kind=plural, target=each.id))
        return found

    def _rows(self, nodes: Iterable[RelatedEntity]) -> dict[Xid, Row]:
        """The entities, the Resources of Versions, the default Versions of Resources."""
        xids = [each.xid for each in nodes if each.xid is not None]
        resources = [xid for xid in xids if xid.kind is Kind.RESOURCE]
        wanted = {*xids, *(xid.resource for xid in xids if xid.resource_id)}
        return rows_with_defaults(self._view.reader, wanted, resources)

    def _links(
        self, nodes: Iterable[RelatedEntity], rows: Mapping[Xid, Row]
    ) -> Iterator[tuple[str, str, str, Xid | None]]:
        """Yield the links: referrer, kind, and target as text and, if possible, as an xid."""
        sources: dict[int, tuple[str, Xid]] = {}
        for node in nodes:
            row = rows.get(node.xid) if node.xid is not None else None
            if row is None:
                continue
            if row.xid.kind is Kind.RESOURCE and row.xref is None:
                row = rows.get(row.default_version, row)
            sources[row.key] = (node.id, row.xid)
        links = self._view.index.links(sources) if sources else []
        order = {key: place for place, key in enumerate(sources)}
        for key, link in sorted(links, key=lambda found: (order[found[0]], found[1].kind, found[1].target)):
            source, xid = sources[key]
            if link.kind == IMPORT:
                imported = self._references.find(xid, link.target)
                # A $ref has two names, a URI and a path: that one leads nowhere does not mean that a schema is missing.
                is_missing = link.target.endswith(".proto") and not is_built_in(link.target)
                if imported is not None or is_missing:
                    yield source, link.kind, str(imported or link.target), imported
            elif link.kind != NAME and not link.kind.endswith(PINNED):
                yield source, link.kind, link.target, _xid(link.target)

    def _contents(
        self, nodes: Iterable[RelatedEntity], rows: Mapping[Xid, Row]
    ) -> Iterator[tuple[str, str, RelatedEntity]]:
        """The messages of Groups; of the Group in the middle whatever it has."""
        found = (rows.get(each.xid) for each in nodes if each.xid is not None)
        groups = [row for row in found if row is not None and row.xid.kind is Kind.GROUP]
        middle = [row for row in groups if row.xid == self._middle]
        others = [row for row in groups if row.xid != self._middle]
        for parents, plural in ((middle, None), (others, _CONTAINS)):
            owners = {row.key: str(row.xid) for row in parents}
            for row in self._view.reader.children(list(owners), plural, limit=_COUNTED) if owners else ():
                yield owners[row.parent], row.xid.resource_type, RelatedEntity(id=str(row.xid), xid=row.xid, steps=0)


def _xid(text: str) -> Xid | None:
    try:
        return Xid.parse(text)
    except XidError:
        return None
