"""Read documents of a catalog in all shapes, and convert them to documents of xRegistry (C-8 to C-14)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import Final

from signalbook.cncf.ids import entity_id, is_segment
from signalbook.cncf.messagecatalog import definitions, validation
from signalbook.cncf.messagecatalog.definitions import MEMBERS, PostedVersion
from signalbook.cncf.messagecatalog.metaschemas import ALIASES, format_of, select_sections, to_newer_spelling
from signalbook.cncf.messagecatalog.originals import BESIDE
from signalbook.documents import DocumentError, Repair, SourceDocument
from signalbook.documents.messagecatalog import DEFINITION, DEFINITIONS, GROUPS, VERSIONS, Shape, members, shape_of
from signalbook.values import JSON, Finding, JSONObject, parse_timestamp

_MAX_FINDINGS: Final = 100
_MAX_VERSION_NUMBER: Final = 2**53


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogGroup:
    """The document of a group: its own members, and every version of every definition in it, in order."""

    id: str
    document: JSONObject
    posted: tuple[PostedVersion, ...]
    path: str = ""


class CatalogReader:
    """Reads documents, and collects up to a hundred ``findings``."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []

    def read_root(self, document: JSONObject) -> list[CatalogGroup]:
        """Return the groups of a whole catalog."""
        self._add(*definitions.validate_specversion(document))
        return [
            self.read_group(body, f"{GROUPS}.{key}" if key else GROUPS, key) for key, body in members(document[GROUPS])
        ]

    def read_group(self, document: JSONObject, path: str = "", key: str = "") -> CatalogGroup:
        """Return a group with the definitions embedded in it."""
        group_id = self._read_id(document, key, path)
        here = [
            Finding(path=_join_path(path, f.path), rule=f.rule, message=f.message)
            for f in definitions.validate_group(document)
        ]
        self._add(*here)
        posted: list[PostedVersion] = []
        for name in DEFINITIONS:
            for place, body in self._read_members(document.get(name), _join_path(path, name)):
                posted += self.read_definition(body, definitions.read_format(document), place[0], place[1])
        return CatalogGroup(id=group_id, document=document, posted=tuple(posted), path=path)

    def read_definition(self, document: JSONObject, format: str, path: str = "", key: str = "") -> list[PostedVersion]:
        """Return the versions of a definition in either shape, each with the members all versions share (C-9)."""
        definition_id = self._read_id(document, key, path)
        if VERSIONS not in document:
            return [self._read_version(definition_id, document, document, format, path, None)]
        shared = {name: value for name, value in document.items() if name != VERSIONS}
        versions: list[PostedVersion] = []
        for place, body in self._read_members(document[VERSIONS], _join_path(path, VERSIONS)):
            self._add(
                *_find_overrides(body, {"id": definition_id, "format": document.get("format") or format}, place[0])
            )
            versions.append(
                self._read_version(
                    definition_id,
                    {**shared, **_select_own_members(body)},
                    body,
                    format,
                    place[0],
                    _parse_number(place[1]),
                )
            )
        if not versions:
            self._add_fault(_join_path(path, VERSIONS), "a definition has one version or more")
        return _assign_numbers(versions)

    def _read_version(
        self, id: str, document: JSONObject, body: JSONObject, format: str, path: str, number: int | None
    ) -> PostedVersion:
        definition = body.get(DEFINITION)
        # The first draft has sections next to members, so whatever is not a member is a section.
        if definition is None:
            sections = select_sections(format, body, BESIDE | MEMBERS)
            document = {name: value for name, value in document.items() if name not in sections}
            definition = to_newer_spelling(format, sections)
            if not sections:
                self._add_fault(_join_path(path, DEFINITION), "a version has a definition")
        stated = body.get("version")
        is_number = isinstance(stated, int) and not isinstance(stated, bool) and 0 < stated < _MAX_VERSION_NUMBER
        if not isinstance(definition, dict):
            self._add_fault(_join_path(path, DEFINITION), "it needs to be a JSON object")
            definition = {}
        return PostedVersion(
            id=id,
            document=document,
            definition=definition,
            number=stated if is_number else number,
            created=_check_timestamp(body.get("createdtimeutc")),
            path=path,
        )

    def _read_members(self, collection: JSON, path: str) -> Iterator[tuple[tuple[str, str], JSONObject]]:
        """Yield the entries of a list or map with their path and key. Other entries cause a finding."""
        if collection is None:
            return
        if not isinstance(collection, dict | list):
            self._add_fault(path, "it needs to be a list, or an object with the ids as names")
            return
        entries = list(members(collection))
        if len(entries) != len(collection):
            self._add_fault(path, "every one in it needs to be an object")
        for position, (key, body) in enumerate(entries):
            yield (f"{path}.{key}" if key else f"{path}[{position}]", key), body

    def _read_id(self, document: JSONObject, key: str, path: str) -> str:
        """Return the id. For a member of a map it must equal the key (C-12)."""
        stated_id = document.get("id", key or None)
        if not is_segment(stated_id):
            self._add_fault(
                _join_path(path, "id"), "it needs to be a segment of a path without colon (RFC3986 segment-nz-nc)"
            )
            return ""
        if key and stated_id != key:
            self._add_fault(_join_path(path, "id"), f"it is {stated_id!r}, and the name of the member {key!r}")
        return str(stated_id)

    def _add_fault(self, path: str, message: str) -> None:
        self._add(Finding(path=path, rule="document", message=message))

    def _add(self, *findings: Finding) -> None:
        self.findings = [*self.findings, *findings][:_MAX_FINDINGS]


def validate_group_document(group: CatalogGroup, format: str, other_ids: Collection[str]) -> Iterator[Finding]:
    """Yield findings about the versions in a group of ``format``. ``other_ids`` are its other definitions (C-15)."""
    there = {*other_ids, *(entity_id(posted.id) for posted in group.posted)}
    fixed: dict[str, JSON] = {}
    seen: set[tuple[str, int]] = set()
    for posted in group.posted:
        if posted.number is not None and (posted.id, posted.number) in seen:
            message = f"there is another version {posted.number} of {posted.id}"
            yield posted.at(Finding(path="version", rule="document", message=message))
        seen.add((posted.id, posted.number or 0))
        yield from definitions.validate_definition(format, posted)
        yield from definitions.validate_relations(posted, there)
        criteria = definitions.criteria(format, posted.definition)
        # The first version decides what identifies the message.
        if fixed.setdefault(posted.id, criteria) != criteria:
            message = f"it is {criteria!r}, in another version {fixed[posted.id]!r}"
            yield posted.at(Finding(path="definition.attributes.type", rule="criteria", message=message))


def build_registry_group(group: CatalogGroup) -> JSONObject:
    """Return a checked group with all its messages as a document of xRegistry. Versions keep their numbers."""
    attributes = {
        name: value for name, value in definitions.group_attributes(group.document, {}).items() if value is not None
    }
    messages: dict[str, JSONObject] = {}
    last: dict[str, tuple[str, JSONObject]] = {}
    for posted in group.posted:
        messageid = entity_id(posted.id)
        before = last.get(messageid, ("", {}))
        message = definitions.build_definition_attributes(format_of(attributes), posted, attributes, before[1])
        number = str(posted.number or (int(before[0]) if before[0] else 0) + 1)
        last[messageid] = (number, message)
        dated = {"createdat": posted.created} if posted.created else {}
        # The first version is its own ancestor.
        version = {**message, "ancestorid": before[0] or number, **dated}
        messages.setdefault(messageid, {"versions": {}})["versions"][number] = version
    return {**attributes, "messages": messages} if messages else attributes


def _assign_numbers(posted: list[PostedVersion]) -> list[PostedVersion]:
    """Return versions by number. A version without a number gets the next number after the one before it."""
    numbered: list[PostedVersion] = []
    for version in posted:
        last = numbered[-1].number or 0 if numbered else 0
        numbered.append(replace(version, number=version.number or last + 1))
    return sorted(numbered, key=lambda version: version.number or 0)


def _find_overrides(body: JSONObject, document: JSONObject, path: str) -> Iterator[Finding]:
    """Yield findings about members that a version must not override (C-10)."""
    for name in ("id", "format"):
        if body.get(name) is not None and body[name] != document[name]:
            message = f"the definition has {document[name]!r}, which a version does not change"
            yield Finding(path=_join_path(path, name), rule="document", message=message)


def _select_own_members(body: JSONObject) -> JSONObject:
    return {name: value for name, value in body.items() if name not in (DEFINITION, "id", "format")}


def _parse_number(key: str) -> int | None:
    return int(key) if key.isascii() and key.isdigit() and 0 < len(key) < 16 and int(key) else None


def _check_timestamp(value: JSON) -> str | None:
    try:
        parse_timestamp(value if isinstance(value, str) else "")
    except ValueError:
        return None
    return str(value)


def _join_path(path: str, name: str) -> str:
    return f"{path}.{name}" if path and name else path or name


_REGISTRY: Final = frozenset(
    {"$schema", "capabilities", "endpoints", "messagegroups", "modelsource", "registryid", "schemagroups", "xid"}
)
_MAX_SHOWN_FINDINGS: Final = 20


def adopt_catalog_documents(sources: Sequence[SourceDocument]) -> list[SourceDocument]:
    """Return ``sources`` with the documents of catalogs converted to documents of the registry.

    A separate definition or version belongs to the group whose document is in its folder, or in the nearest folder
    above. Without one, it belongs to a group with the name of its folder. If there are documents of catalogs, other
    documents that are not a registry's are left out, which a repair reports. Raises ``DocumentError`` with the
    findings.
    """
    shapes = [shape_of(source.document) for source in sources]
    # Without documents of catalogs, this module must not leave out any document.
    if not any(shapes):
        return list(sources)
    adopting = _Adoption()
    registry_sources: list[SourceDocument] = []
    ignored: list[str] = []
    for source, shape in zip(sources, shapes, strict=True):
        if shape is not None:
            adopting.take(source, shape)
        elif isinstance(source.document, dict) and _REGISTRY & source.document.keys():
            registry_sources.append(source)
        else:
            ignored.append(source.name)
    return [*registry_sources, *_with_repairs(adopting.build_sources(), ignored)]


@dataclass(slots=True)
class _GroupDocuments:
    """A group with its versions, and the documents that contained them."""

    group: CatalogGroup
    owner: str
    posted: list[PostedVersion] = field(default_factory=list)
    sources: list[SourceDocument] = field(default_factory=list)


class _Adoption:
    def __init__(self) -> None:
        self._groups: dict[str, _GroupDocuments] = {}
        self._places: dict[PurePath, list[str]] = {}
        self._loose: list[tuple[SourceDocument, JSONObject]] = []
        self._findings: list[str] = []

    def take(self, source: SourceDocument, shape: Shape) -> None:
        """Read a document. A definition or version of a group elsewhere is kept for ``build_sources``."""
        reading = CatalogReader()
        match shape:
            case Shape.ROOT:
                groups = reading.read_root(source.document)
            case Shape.GROUP:
                groups = [reading.read_group(source.document)]
                self._places.setdefault(PurePath(source.name).parent, []).extend(group.id for group in groups)
            case _:
                groups = []
                self._loose.append((source, source.document))
        self._note(source, reading.findings)
        for group in groups:
            self._add_group(group, source)

    def build_sources(self) -> list[SourceDocument]:
        """Return a source for each group. Raises ``DocumentError``."""
        for source, document in self._loose:
            self._add_loose_document(source, document)
        for entry in self._groups.values():
            # Versions of one definition may come from several files: their numbers give the order.
            whole = replace(entry.group, posted=tuple(sorted(entry.posted, key=lambda each: each.number or 0)))
            self._findings += map(str, validate_group_document(whole, definitions.read_format(whole.document), ()))
            entry.group = whole
        if self._findings:
            raise DocumentError(
                "\n  ".join(["documents of a message catalog are not right:", *self._findings[:_MAX_SHOWN_FINDINGS]])
            )
        return [_build_source(entry) for entry in self._groups.values()]

    def _add_group(self, group: CatalogGroup, source: SourceDocument) -> None:
        other = self._groups.get(entity_id(group.id))
        if other is not None:
            raise DocumentError(f"{other.owner} and {source.name} both have the group {group.id}")
        entry = _GroupDocuments(group=group, owner=source.name, sources=[source])
        entry.posted += _add_source_name(group.posted, source)
        self._groups[entity_id(group.id)] = entry

    def _add_loose_document(self, source: SourceDocument, document: JSONObject) -> None:
        """Add a separate definition or version to its group."""
        folder = PurePath(source.name).parent
        # Find the nearest folder, going up, with the document of a group.
        near = next((self._places[place] for place in (folder, *folder.parents) if place in self._places), [])
        if len(near) > 1:
            names = ", ".join(near)
            raise DocumentError(f"{source.name}: it may belong to any of the groups beside it: {names}")
        groupid = entity_id(near[0] if near else folder.name)
        if not groupid:
            raise DocumentError(f"{source.name}: a definition belongs to a group: put it into the document of one")
        if groupid not in self._groups:
            implied: JSONObject = {"id": folder.name, "format": document.get("format")}
            self._note(source, definitions.validate_group(implied))
            self._groups[groupid] = _GroupDocuments(
                group=CatalogGroup(id=folder.name, document=implied, posted=()), owner=source.name, sources=[]
            )
        entry = self._groups[groupid]
        reading = CatalogReader()
        entry.posted += _add_source_name(
            reading.read_definition(document, definitions.read_format(entry.group.document)), source
        )
        entry.sources.append(source)
        self._note(source, reading.findings)

    def _note(self, source: SourceDocument, findings: Iterable[Finding]) -> None:
        self._findings += [f"{source.name}: {finding}" for finding in findings]


def _add_source_name(posted: Iterable[PostedVersion], source: SourceDocument) -> list[PostedVersion]:
    """Return versions whose paths begin with the name of their document."""
    return [replace(version, path=f"{source.name}: {version.path}") for version in posted]


def _build_source(entry: _GroupDocuments) -> SourceDocument:
    """Return the document of the registry for a group, with repairs and a label that lists their rules (L-38)."""
    names = ", ".join(source.name for source in entry.sources[:3])
    read = (replace(repair, file=source.name) for source in entry.sources for repair in source.repairs)
    repairs = tuple(dict.fromkeys((*read, *_find_repairs(entry))))
    body = build_registry_group(entry.group)
    if repairs:
        rules = ",".join(sorted({repair.rule for repair in repairs}))
        source = PurePath(entry.owner).name
        body["labels"] = {**body.get("labels", {}), "import.source": source, "import.repairs": rules}
    return SourceDocument(
        name=names or entry.owner,
        document={"messagegroups": {entity_id(entry.group.id): body}},
        repairs=repairs,
        lenient=all(source.lenient for source in entry.sources),
    )


def _find_repairs(entry: _GroupDocuments) -> Iterator[Repair]:
    """Yield repairs of accepted mistakes and of members that were not understood (B-3, C-21, J-17, L-19)."""
    xid = f"/messagegroups/{entity_id(entry.group.id)}"
    if entry.group.document.get("format") in ALIASES:
        yield Repair(message="the format is called CloudEvents", path=f"{xid}#format", rule="B-3", file=entry.owner)
    for posted in entry.posted:
        path, file = f"{xid}/messages/{entity_id(posted.id)}", posted.path.rpartition(": ")[0]
        for finding in definitions.validate_strictly(posted):
            name = finding.path.rpartition(" ")[2].rpartition(".")[2]
            yield Repair(message=f"{finding.message}; taken as it is", path=f"{path}#{name}", rule="L-19", file=file)
        for doubt in validation.find_doubts(definitions.read_format(entry.group.document), posted.definition):
            yield Repair(message=doubt.message, path=f"{path}#{doubt.path}", rule=doubt.rule, file=file)


def _with_repairs(sources: list[SourceDocument], ignored: list[str]) -> list[SourceDocument]:
    if not ignored:
        return sources
    repairs = tuple(
        Repair(message="left out, since it is no document of a catalog or registry", file=name, rule="C-14")
        for name in ignored
    )
    return [replace(sources[0], repairs=(*sources[0].repairs, *repairs)), *sources[1:]]
