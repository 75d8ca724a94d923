"""Documents of catalogs among those that are read, as documents of the registry (domain.md C-14, L-19, L-38)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import Final

from signalbook.cncf.messagecatalog import definitions, documents, groups, validation
from signalbook.cncf.messagecatalog.definitions import Posted
from signalbook.cncf.messagecatalog.documents import Group, Reading
from signalbook.cncf.messagecatalog.formats import ALIASES
from signalbook.cncf.paths import entity_id
from signalbook.documents import DocumentError, Repair, Source
from signalbook.documents.catalogs import Shape, shape_of
from signalbook.values import Finding, JSONObject

_REGISTRY: Final = frozenset(
    {"$schema", "capabilities", "endpoints", "messagegroups", "modelsource", "registryid", "schemagroups", "xid"}
)
_SHOWN: Final = 20


def adopt(sources: Sequence[Source]) -> list[Source]:
    """``sources`` with every catalog's document among them as one of the registry.

    A definition or version that stands alone belongs to the group whose document is in its folder, or the next one
    above; without any, to a group named like its folder. Where there are documents of catalogs, others that are no
    registry's either are left out, which a repair tells. Raises ``DocumentError`` with every fault.
    """
    shapes = [shape_of(source.document) for source in sources]
    if not any(shapes):
        return list(sources)
    adopting = _Adopting()
    kept: list[Source] = []
    ignored: list[str] = []
    for source, shape in zip(sources, shapes, strict=True):
        if shape is not None:
            adopting.take(source, shape)
        elif isinstance(source.document, dict) and _REGISTRY & source.document.keys():
            kept.append(source)
        else:
            ignored.append(source.name)
    return [*kept, *_told(adopting.sources(), ignored)]


@dataclass(slots=True)
class _Shelf:
    """One group: what its document says, the versions found for it, and which documents that were."""

    group: Group
    owner: str
    posted: list[Posted] = field(default_factory=list)
    sources: list[Source] = field(default_factory=list)


class _Adopting:
    def __init__(self) -> None:
        self._shelves: dict[str, _Shelf] = {}
        self._places: dict[PurePath, list[str]] = {}
        self._loose: list[tuple[Source, JSONObject]] = []
        self._faults: list[str] = []

    def take(self, source: Source, shape: Shape) -> None:
        """Read a document; what belongs to a group elsewhere waits."""
        reading = Reading()
        match shape:
            case Shape.ROOT:
                found = reading.root(source.document)
            case Shape.GROUP:
                found = [reading.group(source.document)]
                self._places.setdefault(PurePath(source.name).parent, []).extend(group.id for group in found)
            case _:
                found = []
                self._loose.append((source, source.document))
        self._note(source, reading.faults)
        for group in found:
            self._shelve(group, source)

    def sources(self) -> list[Source]:
        """A source for each group. Raises ``DocumentError``."""
        for source, document in self._loose:
            self._place(source, document)
        for shelf in self._shelves.values():
            whole = replace(shelf.group, posted=tuple(sorted(shelf.posted, key=lambda each: each.number or 0)))
            self._faults += map(str, documents.check(whole, groups.stated_format(whole.document), ()))
            shelf.group = whole
        if self._faults:
            raise DocumentError("\n  ".join(["documents of a message catalog are not right:", *self._faults[:_SHOWN]]))
        return [_source(shelf) for shelf in self._shelves.values()]

    def _shelve(self, group: Group, source: Source) -> None:
        other = self._shelves.get(entity_id(group.id))
        if other is not None:
            raise DocumentError(f"{other.owner} and {source.name} both have the group {group.id}")
        shelf = _Shelf(group=group, owner=source.name, sources=[source])
        shelf.posted += _named(group.posted, source)
        self._shelves[entity_id(group.id)] = shelf

    def _place(self, source: Source, document: JSONObject) -> None:
        """A definition or version that stands alone."""
        folder = PurePath(source.name).parent
        near = next((self._places[place] for place in (folder, *folder.parents) if place in self._places), [])
        if len(near) > 1:
            names = ", ".join(near)
            raise DocumentError(f"{source.name}: it may belong to any of the groups beside it: {names}")
        groupid = entity_id(near[0] if near else folder.name)
        if not groupid:
            raise DocumentError(f"{source.name}: a definition belongs to a group: put it into the document of one")
        if groupid not in self._shelves:
            implied: JSONObject = {"id": folder.name, "format": document.get("format")}
            self._note(source, groups.faults(implied))
            self._shelves[groupid] = _Shelf(
                group=Group(id=folder.name, document=implied, posted=()), owner=source.name, sources=[]
            )
        shelf = self._shelves[groupid]
        reading = Reading()
        shelf.posted += _named(reading.definition(document, groups.stated_format(shelf.group.document)), source)
        shelf.sources.append(source)
        self._note(source, reading.faults)

    def _note(self, source: Source, faults: Iterable[Finding]) -> None:
        self._faults += [f"{source.name}: {fault}" for fault in faults]


def _named(posted: Iterable[Posted], source: Source) -> list[Posted]:
    """With paths that say which document they are of."""
    return [replace(each, path=f"{source.name}: {each.path}") for each in posted]


def _source(shelf: _Shelf) -> Source:
    """The document of the registry, with what was put right in it, and a label that tells so (L-38)."""
    named = ", ".join(source.name for source in shelf.sources[:3])
    read = (repair for source in shelf.sources for repair in source.repairs)
    repairs = tuple(dict.fromkeys((*read, *_repairs(shelf))))
    body = documents.entities(shelf.group)
    if repairs:
        rules = ",".join(sorted({repair.rule for repair in repairs}))
        source = PurePath(shelf.owner).name
        body["labels"] = {**body.get("labels", {}), "import.source": source, "import.repairs": rules}
    return Source(
        name=named or shelf.owner,
        document={"messagegroups": {entity_id(shelf.group.id): body}},
        repairs=repairs,
        lenient=all(source.lenient for source in shelf.sources),
    )


def _repairs(shelf: _Shelf) -> Iterator[Repair]:
    """What is taken though it is not right, or not understood (B-3, C-21, J-17, L-19)."""
    xid = f"/messagegroups/{entity_id(shelf.group.id)}"
    if shelf.group.document.get("format") in ALIASES:
        yield Repair(message="the format is called CloudEvents", path=f"{xid}#format", rule="B-3")
    for posted in shelf.posted:
        path = f"{xid}/messages/{entity_id(posted.id)}"
        for fault in definitions.strict_faults(posted):
            name = fault.path.rpartition(" ")[2].rpartition(".")[2]
            yield Repair(message=f"{fault.message}; taken as it is", path=f"{path}#{name}", rule="L-19")
        for doubt in validation.doubts(groups.stated_format(shelf.group.document), posted.definition):
            yield Repair(message=doubt.message, path=f"{path}#{doubt.path}", rule=doubt.rule)


def _told(sources: list[Source], ignored: list[str]) -> list[Source]:
    if not ignored:
        return sources
    repairs = tuple(
        Repair(message="left out, since it is no document of a catalog or registry", path=name, rule="C-14")
        for name in ignored
    )
    return [replace(sources[0], repairs=(*sources[0].repairs, *repairs)), *sources[1:]]
