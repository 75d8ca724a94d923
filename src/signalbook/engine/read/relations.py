"""Relations of an entity: the entities that refer to it and that it refers to, step by step, and the
links among these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

from signalbook.engine.read.impact import BackwardLinks, load_rows_with_defaults
from signalbook.engine.read.schemas import SchemaReferences
from signalbook.engine.read.view import View
from signalbook.engine.schemanames import NAME
from signalbook.engine.search.links import IMPORT, PINNED
from signalbook.errors import RegistryError
from signalbook.formats.imports import is_built_in
from signalbook.storage.base import Row
from signalbook.xid import Kind, Xid, XidError

MAX_STEPS: Final = 10
MAX_ENTITIES: Final = 200
"""The maximum number of entities that are shown, including the one in the middle."""
MAX_ENTITIES_PER_STEP: Final = 60
"""The maximum number of entities that are shown per step, so that there is room for the next step."""
# Entities of a step beyond this number are not counted.
_MAX_COUNTED: Final = 1_000
_MAX_LINKS: Final = 1_000
_MESSAGES: Final = "messages"


@dataclass(frozen=True, slots=True, kw_only=True)
class RelatedEntity:
    """An entity or the path of a Protobuf file, with the number of steps from the entity in the middle.

    ``steps`` is below 0 for entities that refer to the middle, and above 0 for those that it refers to. ``readable`` is
    false if the entity cannot be read, whether it is missing or hidden.
    """

    id: str
    xid: Xid | None
    steps: int
    readable: bool = True


@dataclass(frozen=True, slots=True, order=True, kw_only=True)
class Relation:
    """A link from one entity to another one, by their ids."""

    source: str
    kind: str
    target: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UnshownEntities:
    """The number of entities of one step that are left out. ``more`` is true if not all of them were counted."""

    steps: int
    entities: int
    more: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Relations:
    """The entities around ``xid``: the entity itself first, then the others by number of steps.

    ``left_out`` counts entities that are not shown.
    """

    xid: Xid
    entities: tuple[RelatedEntity, ...]
    relations: tuple[Relation, ...]
    left_out: tuple[UnshownEntities, ...]
    farther: bool
    """True if further entities can be reached with more steps."""


def find_relations(view: View, xid: Xid, base_url: str, steps: int) -> Relations:
    """Find the readable entities up to ``steps`` steps around a Group, Resource or Version.

    Takes six queries per step, however many entities there are. Raises ``not_found``.
    """
    if xid.kind not in (Kind.GROUP, Kind.RESOURCE, Kind.VERSION) or view.reader.get(xid) is None:
        raise RegistryError("not_found", subject=str(xid))
    backward = BackwardLinks(index=view.index, reader=view.reader, access=view.access, groups=True)
    forward = _ForwardLinks(view, SchemaReferences(view, base_url), middle=xid)
    neighbourhood = _Neighbourhood(xid)
    # Links that were followed backward. ``find_among`` does not find all of them, because the path of an import leads
    # to every file of that name.
    followed = set[Relation]()

    def find_referrers(level: list[RelatedEntity], step: int) -> Iterator[RelatedEntity]:
        for dependent in backward.follow([entity.xid for entity in level if entity.xid], step):
            followed.add(Relation(source=str(dependent.xid), kind=dependent.relation, target=str(dependent.on)))
            yield RelatedEntity(id=str(dependent.xid), xid=dependent.xid, steps=-step)

    def find_targets(level: list[RelatedEntity], step: int) -> Iterator[RelatedEntity]:
        links = forward.follow([entity for entity in level if entity.readable])
        return (replace(target, steps=step) for _, _, target in links)

    for step in range(1, steps + 1):
        neighbourhood.extend(-step, find_referrers)
        neighbourhood.extend(step, find_targets)
    farther = neighbourhood.has_more(-steps, find_referrers) or neighbourhood.has_more(steps, find_targets)
    ids = neighbourhood.entities.keys()
    visible = {link for link in followed if {link.source, link.target} <= ids and link.source != link.target}
    relations = sorted(visible.union(forward.find_among(neighbourhood.entities)))
    return Relations(
        xid=xid,
        entities=tuple(neighbourhood.entities.values()),
        relations=tuple(relations[:_MAX_LINKS]),
        left_out=tuple(neighbourhood.left_out),
        farther=farther,
    )


_Step = Callable[[list[RelatedEntity], int], Iterable[RelatedEntity]]


class _Neighbourhood:
    """The entities found so far around the one in the middle."""

    def __init__(self, middle: Xid) -> None:
        middle_entity = RelatedEntity(id=str(middle), xid=middle, steps=0)
        self.entities = {middle_entity.id: middle_entity}
        self.left_out: list[UnshownEntities] = []
        # If the middle is a Version, its Resource is the middle as well.
        start = {middle_entity.id, str(middle.resource)} if middle.kind is Kind.VERSION else {middle_entity.id}
        # By direction, True for steps above 0. An entity on a cycle is found in both directions, and each direction
        # continues from it.
        self._seen = {True: set(start), False: set(start)}
        self._levels: dict[int, list[RelatedEntity]] = {0: [middle_entity]}

    def extend(self, steps: int, step: _Step) -> None:
        """Find the entities of step number ``steps``, which is below 0 in the direction of referrers."""
        level = self._levels.get(steps - 1 if steps > 0 else steps + 1, [])
        unseen = list(islice(self._list_unseen(level, steps, step), _MAX_COUNTED)) if level else []
        new = [entity for entity in unseen if entity.id not in self.entities]
        room = min(MAX_ENTITIES_PER_STEP, MAX_ENTITIES - len(self.entities))
        shown_entities = new[: max(0, room)]
        self._levels[steps] = [*shown_entities, *(entity for entity in unseen if entity.id in self.entities)]
        self.entities |= {entity.id: entity for entity in shown_entities}
        if len(new) > len(shown_entities):
            self.left_out.append(
                UnshownEntities(steps=steps, entities=len(new) - len(shown_entities), more=len(unseen) == _MAX_COUNTED)
            )

    def has_more(self, steps: int, step: _Step) -> bool:
        """Return True if there are entities after step number ``steps``."""
        level = self._levels.get(steps, [])
        following = steps + 1 if steps > 0 else steps - 1
        return bool(level) and any(
            entity.id not in self.entities for entity in self._list_unseen(level, following, step)
        )

    def _list_unseen(self, level: list[RelatedEntity], steps: int, step: _Step) -> Iterator[RelatedEntity]:
        seen = self._seen[steps > 0]
        for entity in step(level, abs(steps)):
            if entity.id not in seen:
                seen.add(entity.id)
                yield entity


class _ForwardLinks:
    """Finds links from entities to their targets, and from a Group to its members."""

    def __init__(self, view: View, references: SchemaReferences, middle: Xid) -> None:
        self._view = view
        self._references = references
        self._middle = middle

    def follow(self, nodes: list[RelatedEntity]) -> Iterator[tuple[str, str, RelatedEntity]]:
        """Yield the references of these entities as referrer, kind and target, one for each link."""
        rows = self._load_rows(nodes)
        links = list(self._list_links(nodes, rows))
        readable = self._view.reader.get_many({xid for _, _, _, xid in links if xid is not None})
        for source, kind, name, xid in links:
            target = xid if xid is None or xid in readable else None
            yield source, kind, RelatedEntity(id=name, xid=target, steps=0, readable=target is not None)
        yield from self._list_contents(nodes, rows)

    def find_among(self, entities: Mapping[str, RelatedEntity]) -> set[Relation]:
        """Return all links between the given entities."""
        readable_entities = [entity for entity in entities.values() if entity.readable]
        rows = self._load_rows(readable_entities)
        # A Resource stands for its default Version if only the Resource is shown, and the other way round.
        representatives: dict[str, str] = {}
        for entity in readable_entities:
            row = rows.get(entity.xid.resource) if entity.xid is not None and entity.xid.resource_id else None
            if row is None or entity.xid is None:
                continue
            default = str(row.default_version)
            representatives |= {default: entity.id} if entity.xid.kind is Kind.RESOURCE else {}
            representatives |= {str(row.xid): entity.id} if entity.id == default else {}
        relations = set[Relation]()
        for source, kind, name, _ in self._list_links(readable_entities, rows):
            target = name if name in entities else representatives.get(name)
            if target is not None and target != source:
                relations.add(Relation(source=source, kind=kind, target=target))
        for entity in readable_entities:
            if entity.xid is None or entity.xid.kind is Kind.GROUP:
                continue
            owner = str(entity.xid.resource.owner)
            if owner in entities:
                relations.add(Relation(source=owner, kind=entity.xid.resource_type, target=entity.id))
        return relations

    def _load_rows(self, nodes: Iterable[RelatedEntity]) -> dict[Xid, Row]:
        """Return the rows of the entities.

        For a Version its Resource is included, and for a Resource its default Version.
        """
        xids = [node.xid for node in nodes if node.xid is not None]
        resources = [xid for xid in xids if xid.kind is Kind.RESOURCE]
        with_resources = {*xids, *(xid.resource for xid in xids if xid.resource_id)}
        return load_rows_with_defaults(self._view.reader, with_resources, resources)

    def _list_links(
        self, nodes: Iterable[RelatedEntity], rows: Mapping[Xid, Row]
    ) -> Iterator[tuple[str, str, str, Xid | None]]:
        """Yield each link as its referrer, its kind, its target as text, and its target as an xid (None if it is not
        one).
        """
        sources: dict[int, tuple[str, Xid]] = {}
        for node in nodes:
            row = rows.get(node.xid) if node.xid is not None else None
            if row is None:
                continue
            if row.xid.kind is Kind.RESOURCE and row.xref is None:
                row = rows.get(row.default_version, row)
            sources[row.key] = (node.id, row.xid)
        links = self._view.index.links(sources) if sources else []
        order = {key: position for position, key in enumerate(sources)}
        for key, link in sorted(links, key=lambda pair: (order[pair[0]], pair[1].kind, pair[1].target)):
            source, xid = sources[key]
            if link.kind == IMPORT:
                imported = self._references.find(xid, link.target)
                # A $ref is stored under two names, a URI and a path. If one of them leads nowhere, the schema may still
                # be found by the other.
                is_missing = link.target.endswith(".proto") and not is_built_in(link.target)
                if imported is not None or is_missing:
                    yield source, link.kind, str(imported or link.target), imported
            elif link.kind != NAME and not link.kind.endswith(PINNED):
                yield source, link.kind, link.target, _parse_xid(link.target)

    def _list_contents(
        self, nodes: Iterable[RelatedEntity], rows: Mapping[Xid, Row]
    ) -> Iterator[tuple[str, str, RelatedEntity]]:
        """Yield the contents of Groups: their messages, and for the Group in the middle all Resources."""
        node_rows = (rows.get(node.xid) for node in nodes if node.xid is not None)
        groups = [row for row in node_rows if row is not None and row.xid.kind is Kind.GROUP]
        middle = [row for row in groups if row.xid == self._middle]
        other_groups = [row for row in groups if row.xid != self._middle]
        for parents, plural in ((middle, None), (other_groups, _MESSAGES)):
            owners = {row.key: str(row.xid) for row in parents}
            for row in self._view.reader.children(list(owners), plural, limit=_MAX_COUNTED) if owners else ():
                yield owners[row.parent], row.xid.resource_type, RelatedEntity(id=str(row.xid), xid=row.xid, steps=0)


def _parse_xid(text: str) -> Xid | None:
    try:
        return Xid.parse(text)
    except XidError:
        return None
