"""Documents of a catalog, all shapes, as what is posted and as documents of xRegistry (domain.md C-8 to C-14)."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import Final

from signalbook.cncf.messagecatalog import definitions, groups
from signalbook.cncf.messagecatalog.common import MEMBERS
from signalbook.cncf.messagecatalog.definitions import Posted
from signalbook.cncf.messagecatalog.formats import format_of
from signalbook.cncf.messagecatalog.ids import is_segment
from signalbook.cncf.messagecatalog.originals import BESIDE
from signalbook.cncf.messagecatalog.spelling import lift
from signalbook.cncf.paths import entity_id
from signalbook.documents.catalogs import DEFINITION, DEFINITIONS, GROUPS, VERSIONS, members
from signalbook.values import JSON, Finding, JSONObject, parse_timestamp

_MOST: Final = 100
_LAST: Final = 2**53


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A group's document: its own members, and every version of every definition in it, in order."""

    id: str
    document: JSONObject
    posted: tuple[Posted, ...]
    path: str = ""


class Reading:
    """Reads documents, and keeps all their ``faults``, up to a hundred."""

    def __init__(self) -> None:
        self.faults: list[Finding] = []

    def root(self, document: JSONObject) -> list[Group]:
        """The groups of a whole catalog."""
        self._add(*groups.specversion_faults(document))
        return [self.group(body, f"{GROUPS}.{key}" if key else GROUPS, key) for key, body in members(document[GROUPS])]

    def group(self, document: JSONObject, path: str = "", key: str = "") -> Group:
        """A group with the definitions it embeds."""
        named = self._id(document, key, path)
        here = [Finding(path=_below(path, f.path), rule=f.rule, message=f.message) for f in groups.faults(document)]
        self._add(*here)
        posted: list[Posted] = []
        for name in DEFINITIONS:
            for place, body in self._members(document.get(name), _below(path, name)):
                posted += self.definition(body, groups.stated_format(document), place[0], place[1])
        return Group(id=named, document=document, posted=tuple(posted), path=path)

    def definition(self, document: JSONObject, format: str, path: str = "", key: str = "") -> list[Posted]:
        """The versions of a definition in either shape, each with what is common to all (C-9)."""
        named = self._id(document, key, path)
        if VERSIONS not in document:
            return [self._version(named, document, document, format, path, None)]
        shared = {name: value for name, value in document.items() if name != VERSIONS}
        found: list[Posted] = []
        for place, body in self._members(document[VERSIONS], _below(path, VERSIONS)):
            self._add(*_overriding(body, {"id": named, "format": document.get("format") or format}, place[0]))
            found.append(self._version(named, {**shared, **_own(body)}, body, format, place[0], _number(place[1])))
        if not found:
            self._fault(_below(path, VERSIONS), "a definition has one version or more")
        return _numbered(found)

    def _version(
        self, id: str, document: JSONObject, body: JSONObject, format: str, path: str, number: int | None
    ) -> Posted:
        definition = body.get(DEFINITION)
        if definition is None:
            sections = {name: value for name, value in body.items() if name not in BESIDE | MEMBERS}
            document = {name: value for name, value in document.items() if name not in sections}
            definition = lift(format, sections)
            if not sections:
                self._fault(_below(path, DEFINITION), "a version has a definition")
        stated = body.get("version")
        known = isinstance(stated, int) and not isinstance(stated, bool) and 0 < stated < _LAST
        if not isinstance(definition, dict):
            self._fault(_below(path, DEFINITION), "it needs to be a JSON object")
            definition = {}
        return Posted(
            id=id,
            document=document,
            definition=definition,
            number=stated if known else number,
            created=_timestamp(body.get("createdtimeutc")),
            path=path,
        )

    def _members(self, collection: JSON, path: str) -> Iterator[tuple[tuple[str, str], JSONObject]]:
        """Entries of a list or map with their path and key. Anything else in it is a fault."""
        if collection is None:
            return
        if not isinstance(collection, dict | list):
            self._fault(path, "it needs to be a list, or an object with the ids as names")
            return
        found = list(members(collection))
        if len(found) != len(collection):
            self._fault(path, "every one in it needs to be an object")
        for position, (key, body) in enumerate(found):
            yield (f"{path}.{key}" if key else f"{path}[{position}]", key), body

    def _id(self, document: JSONObject, key: str, path: str) -> str:
        """The id, of a member of a map its key (C-12)."""
        named = document.get("id", key or None)
        if not is_segment(named):
            self._fault(_below(path, "id"), "it needs to be a segment of a path without colon (RFC3986 segment-nz-nc)")
            return ""
        if key and named != key:
            self._fault(_below(path, "id"), f"it is {named!r}, and the name of the member {key!r}")
        return str(named)

    def _fault(self, path: str, message: str) -> None:
        self._add(Finding(path=path, rule="document", message=message))

    def _add(self, *findings: Finding) -> None:
        self.faults = [*self.faults, *findings][:_MOST]


def check(group: Group, format: str, known: Collection[str]) -> Iterator[Finding]:
    """What is wrong with the versions in a group of ``format``; ``known`` are the definitions it has beside (C-15)."""
    there = {*known, *(entity_id(posted.id) for posted in group.posted)}
    fixed: dict[str, JSON] = {}
    seen: set[tuple[str, int]] = set()
    for posted in group.posted:
        if posted.number is not None and (posted.id, posted.number) in seen:
            message = f"there is another version {posted.number} of {posted.id}"
            yield posted.at(Finding(path="version", rule="document", message=message))
        seen.add((posted.id, posted.number or 0))
        yield from definitions.faults(format, posted)
        yield from definitions.relation_faults(posted, there)
        found = definitions.criteria(format, posted.definition)
        if fixed.setdefault(posted.id, found) != found:
            message = f"it is {found!r}, in another version {fixed[posted.id]!r}"
            yield posted.at(Finding(path="definition.attributes.type", rule="criteria", message=message))


def entities(group: Group) -> JSONObject:
    """A checked group and all in it, as a document of xRegistry: versions keep their numbers."""
    own = {name: value for name, value in groups.attributes(group.document, {}).items() if value is not None}
    messages: dict[str, JSONObject] = {}
    last: dict[str, tuple[str, JSONObject]] = {}
    for posted in group.posted:
        messageid = entity_id(posted.id)
        before = last.get(messageid, ("", {}))
        message = definitions.attributes(format_of(own), posted, own, before[1])
        number = str(posted.number or (int(before[0]) if before[0] else 0) + 1)
        last[messageid] = (number, message)
        dated = {"createdat": posted.created} if posted.created else {}
        version = {**message, "ancestorid": before[0] or number, **dated}
        messages.setdefault(messageid, {"versions": {}})["versions"][number] = version
    return {**own, "messages": messages} if messages else own


def _numbered(posted: list[Posted]) -> list[Posted]:
    """In the order of their numbers; one without has that behind the one before it in the document."""
    found: list[Posted] = []
    for each in posted:
        last = found[-1].number or 0 if found else 0
        found.append(replace(each, number=each.number or last + 1))
    return sorted(found, key=lambda each: each.number or 0)


def _overriding(body: JSONObject, document: JSONObject, path: str) -> Iterator[Finding]:
    """What a version must not say otherwise (C-10)."""
    for name in ("id", "format"):
        if body.get(name) is not None and body[name] != document[name]:
            message = f"the definition has {document[name]!r}, which a version does not change"
            yield Finding(path=_below(path, name), rule="document", message=message)


def _own(body: JSONObject) -> JSONObject:
    return {name: value for name, value in body.items() if name not in (DEFINITION, "id", "format")}


def _number(key: str) -> int | None:
    return int(key) if key.isascii() and key.isdigit() and 0 < len(key) < 16 and int(key) else None


def _timestamp(value: JSON) -> str | None:
    try:
        parse_timestamp(value if isinstance(value, str) else "")
    except ValueError:
        return None
    return str(value)


def _below(path: str, name: str) -> str:
    return f"{path}.{name}" if path and name else path or name
