"""The context of the steps of a write: loaded entities and documents, the needs they can yield, and errors."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Generator, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final, TypeAlias, TypeVar

from signalbook.access.decisions import UNRESTRICTED, Access
from signalbook.confluent.schemas import find_reference_targets
from signalbook.engine.schemanames import NameLookup, StoredNames, import_root, make_referable_schema
from signalbook.engine.write.commands import Flags
from signalbook.engine.write.workingcopies import OwnerCopy, ResourceCopy, VersionCopy
from signalbook.errors import RegistryError
from signalbook.formats.base import extract_text
from signalbook.formats.references import (
    ReferableSchema,
    follow_references,
    index_keys,
    is_referable,
    list_identities,
    lookup_keys,
    read_as_xids,
)
from signalbook.model import Model
from signalbook.storage.base import Row
from signalbook.values import Finding, JSONObject, digest
from signalbook.xid import Kind, Xid, named

# Enough to repair a document; a hostile document must not fill memory with errors.
MAX_ERRORS: Final = 100
MAX_LOADED: Final = 100
"""Stored documents loaded together for several Resources, and as many again that those refer to."""


class Problems:
    """Errors found so far. One bad entity does not hide the next: all are reported at once.

    As a context (``with problems:``) it keeps a ``RegistryError`` raised in the block and goes on behind it.
    """

    def __init__(self) -> None:
        self.errors: list[RegistryError] = []
        self.count = 0

    def __enter__(self) -> None:
        """Begin a block whose error is to be kept."""

    def __exit__(self, type: type[BaseException] | None, error: BaseException | None, trace: object) -> bool:
        """Keep the block's error, unless there are ``MAX_ERRORS`` already; ``count`` counts all."""
        if not isinstance(error, RegistryError):
            return False
        self.count += 1
        if len(self.errors) < MAX_ERRORS:
            self.errors.append(error)
        return True

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings of all errors, each with the entity it is in."""
        return tuple(finding for error in self.errors for finding in _list_findings(error))

    def raise_any(self) -> None:
        """Raise what was found, if anything: the first error, with the findings of all."""
        if len(self.errors) == 1:
            raise self.errors[0]
        if self.errors:
            first = self.errors[0]
            raise RegistryError(
                first.code,
                subject=first.subject,
                detail=first.detail,
                faults=self.findings,
                **first.arguments,
            )


def _list_findings(error: RegistryError) -> list[Finding]:
    """Return the findings of one error, each path led by the entity it is in."""
    if not error.faults:
        return [Finding(path=error.subject, rule=error.code, message=error.title)]
    return [replace(finding, path=_locate_path(error.subject, finding.path)) for finding in error.faults]


def _locate_path(subject: str, path: str) -> str:
    """Return ``path`` with its entity in front, unless it begins with that already."""
    if not path or path.startswith(f"{subject}/"):
        return path or subject
    return f"{subject}#{path}"


class Documents:
    """Document bytes by digest: those this command brings (``new``), and stored ones as far as they were loaded.

    One that is asked for and was not loaded is noted in ``missing``: see ``Context.take_missing``.
    """

    def __init__(self) -> None:
        self.new: dict[str, bytes] = {}
        self.loaded: dict[str, bytes] = {}
        self.missing: set[str] = set()

    def keep(self, content: bytes) -> str | None:
        """Remember ``content``; returns its digest, None for the empty document."""
        if not content:
            return None
        name = digest(content)
        self.new[name] = content
        return name

    def read(self, name: str | None) -> bytes:
        """Return the document with this digest; empty without a digest, and for now if it is missing."""
        content = b"" if name is None else self.new.get(name, self.loaded.get(name))
        if content is None:
            self.missing.add(name or "")
        return content or b""

    def find_absent(self, names: Iterable[str | None]) -> set[str]:
        """Return the names of documents that have yet to be loaded."""
        return {name for name in names if name is not None and name not in self.new and name not in self.loaded}

    def forget(self) -> None:
        """Give up stored documents once there are many: a Resource may have more of them than memory holds."""
        if len(self.loaded) > 2 * MAX_LOADED:
            self.loaded.clear()


@dataclass(slots=True)
class RenamedSchemas:
    """The Resources whose names this write may change, and their new names by the keys of ``index_keys``.

    The names of those in ``pending`` are not read yet.
    """

    resources: frozenset[Xid]
    pending: list[Xid]
    by_key: dict[str, list[ReferableSchema]] = field(default_factory=lambda: defaultdict(list))


class Stored:
    """The store as far as it was loaded: what a decision looks at beside the tree that it changes.

    ``written`` are the Resources of that tree, ``owners`` its Groups. ``names`` finds schemas by name.
    ``entities`` has None for what is not there; ``other_resources`` are by Group its
    Resources that are not in the tree, ``groups`` and ``resources`` the ends of the cross references ``references``,
    ``messages`` the messages in Groups, ``members`` the last page of a Group. ``base_url`` is the URL of the registry's
    root as clients know it: what begins with it is here.
    """

    def __init__(self, base_url: str = "") -> None:
        self.base_url = base_url
        self.names = StoredNames()
        self.renamed: RenamedSchemas | None = None
        self.written: dict[Xid, ResourceCopy] = {}
        self.owners: dict[Xid, OwnerCopy] = {}
        self.entities: dict[Xid, Row | None] = {}
        self.other_resources: dict[Xid, list[ResourceCopy]] = {}
        self.groups: dict[Xid, OwnerCopy] = {}
        self.resources: dict[Xid, ResourceCopy] = {}
        self.references: dict[Xid, Xid] = {}
        self.messages: dict[Xid, list[Xid]] = {}
        self.members: list[Row] = []
        self.missing: set[Xid] = set()
        self._xid_by_uri: dict[str, Xid | None] = {}

    def find_named(self, uri: str) -> Xid | None:
        """Return the Resource or Version that ``uri`` names."""
        if uri not in self._xid_by_uri:  # what is looked up is asked for at least twice: to load it, and then to see it
            self._xid_by_uri[uri] = named(uri, self.base_url)
        return self._xid_by_uri[uri]

    def find_entity(self, xid: Xid) -> Row | None:
        """Return an entity as it is stored; one that was not loaded is noted in ``missing``: see
        ``Context.take_missing``.
        """
        if xid not in self.entities:
            self.missing.add(xid)
        return self.entities.get(xid)

    def find_shown(self, xid: Xid) -> Row | None:
        """Return the stored Version that ``xid`` names; of a Resource its default one, or that of what it refers to."""
        row = self.find_entity(xid)
        if row is None or xid.kind is Kind.VERSION:
            return row
        row = row if row.xref is None else self.find_entity(row.xref)
        return None if row is None or not row.defaultversionid else self.find_entity(row.default_version)

    def find_version(self, xid: Xid) -> VersionCopy | None:
        """Return a Version of a Resource in the tree as it will be; ``xid`` may name the Resource for its default
        Version.
        """
        resource = self.written[xid.resource]
        versionid = (xid.id if xid.kind is Kind.VERSION else resource.defaultversionid) or ""
        if versionid in resource.versions or versionid in resource.removed or not resource.partial:
            return resource.versions.get(versionid)
        row = self.find_entity(resource.xid / "versions" / versionid)
        return None if row is None else VersionCopy.from_row(row)

    def find_shown_after_write(self, xid: Xid) -> Row | VersionCopy | None:
        """Return the Version that ``xid`` names as this write leaves it: see ``find_shown``."""
        resource = self.written.get(xid.resource)
        if xid.kind is Kind.VERSION:
            return self.find_entity(xid) if resource is None else self.find_version(xid)
        row = self.find_entity(xid) if resource is None else resource
        target = xid if row is None or row.xref is None else row.xref
        return self.find_version(target) if target in self.written else self.find_shown(target)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookup:
    """Entities and documents by name; with ``defaults`` the default Versions that Resources show, with ``contents`` the
    documents of them all; and schemas by name."""

    entities: frozenset[Xid] = frozenset()
    documents: frozenset[str] = frozenset()
    names: frozenset[NameLookup] = frozenset()
    defaults: bool = True
    contents: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbours:
    """The Versions of a partial Resource that decide on the place of every Version after the request."""

    resource: ResourceCopy
    mode: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """The Versions of a partial Resource next to those ``changed``, and before those with another ancestor."""

    resource: ResourceCopy
    changed: Collection[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherResources:
    """The stored Resources of these Groups that are not in the tree, with their Versions."""

    groups: tuple[OwnerCopy, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class References:
    """Cross references that the tree may have to do with, and the entities at both of their ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageIds:
    """The ids of the messages in Groups: Resources of these Group and Resource types, up to ``limit`` in a Group."""

    groups: tuple[Row, ...]
    types: frozenset[tuple[str, str]]
    limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Members:
    """A page of the stored Resources of one type in a Group, by id, behind the id ``after``."""

    group: Row
    plural: str
    after: str | None
    limit: int


Need: TypeAlias = Lookup | Neighbours | Compared | OtherResources | References | MessageIds | Members
"""What a decision can say only once part of it is made: the loader brings it, then the decision goes on."""


Result = TypeVar("Result")


Steps: TypeAlias = Generator[Need, None, Result]
"""A decision. It has no way to the store: where it has to know more it yields a ``Need``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """The context of one command. ``now`` is the one instant of all its timestamps (R42).

    ``admin`` means that the caller may set ``readonly`` and write to read-only entities (R261). ``compatibility``
    replaces the rule of every Resource; it is for questions and never stored. ``incompatible_changes`` and
    ``default_compatibility`` are the settings. ``findings`` do not stop the write. Errors for ``access`` may not name
    hidden entities. ``root`` is the registry's URL if settings state it. ``accepted_rules`` are those of the command.
    """

    model: Model
    capabilities: JSONObject
    flags: Flags
    target: Xid
    now: datetime
    admin: bool = False
    compatibility: str | None = None
    incompatible_changes: str = "warn"
    default_compatibility: str = ""
    documents: Documents = field(default_factory=Documents)
    stored: Stored = field(default_factory=Stored)
    access: Access = UNRESTRICTED
    problems: Problems = field(default_factory=Problems)
    findings: list[Finding] = field(default_factory=list)
    root: str = ""
    accepted_rules: frozenset[str] = frozenset()

    def is_ignored(self, name: str) -> bool:
        """Return True if the request asked to ignore ``name`` (R204)."""
        return name in self.flags.ignore

    def resolve(self, referring: Xid, uri: str) -> bytes | None:
        """Return the document that the schema ``referring`` refers to, as this write leaves it; never from a network.

        None if there is none, and for now if it was not loaded (``missing``).
        """
        stated = self._find_reference(referring, uri)
        if stated is not None:
            return self._read_document(stated)
        for xid in map(self.stored.find_named, read_as_xids(uri)):
            # A path may look like an xid of some type.
            if xid is not None and self.model.resource_type(xid) is not None:
                content = self._read_document(xid)
                if content is not None or xid in self.stored.missing or not uri.endswith(".proto"):
                    return content
        return self._read_document(self.stored.names.find(uri, referring, self._apply_renames))

    def _find_reference(self, schema: Xid, name: str) -> Xid | None:
        """Return what a Version calls by this name in ``references``, or one of the schemas that it refers to."""
        # The schema that refers is being checked: it is loaded already, or has no references.
        is_loaded = schema.resource in self.stored.written or schema in self.stored.entities
        return follow_references(schema, name, self._list_targets) if is_loaded else None

    def _list_targets(self, xid: Xid) -> Mapping[str, Xid]:
        version = self.stored.find_shown_after_write(xid)
        return {} if version is None else find_reference_targets(version.attributes)

    def _apply_renames(self, lookup: NameLookup, schemas: Iterable[ReferableSchema]) -> list[ReferableSchema]:
        """Return the stored schemas as this write changes them."""
        scope, name = lookup
        depth = len(scope.parts)
        renamed = self._load_renamed()
        stored = (schema for schema in schemas if Xid.parse(schema.xid) not in renamed.resources)
        new = {schema for key in lookup_keys(name) for schema in renamed.by_key.get(key, ())}
        new = {schema for schema in new if Xid.parse(schema.xid).parts[:depth] == scope.parts}
        return [self._set_import_root(schema) for schema in (*stored, *new)]

    def _load_renamed(self) -> RenamedSchemas:
        """Return the schemas whose names this write changes; the result is void if something is missing."""
        stored = self.stored
        if stored.renamed is None:
            xids = [xid for xid in stored.written if not self._keeps_names(xid)]
            renamed = RenamedSchemas(frozenset(xids), xids)
            if stored.missing:
                return renamed
            stored.renamed = renamed
        pending, by_key = stored.renamed.pending, stored.renamed.by_key
        # In parts: their documents may have to be loaded, and are not all kept in memory.
        while part := pending[-MAX_LOADED:]:
            schemas = [schema for xid in part if (schema := self._make_new_schema(xid)) is not None]
            if stored.missing or self.documents.missing:
                break
            for schema in schemas:
                for key in index_keys(schema):
                    by_key[key].append(schema)
            del pending[-MAX_LOADED:]
        return stored.renamed

    def _keeps_names(self, xid: Xid) -> bool:
        """Return True if the names of a Resource are the same before and after this write."""
        resource = self.stored.written[xid]
        before, target = resource.before, resource.xref
        if target is not None:
            return before is not None and before.xref == target and target not in self.stored.written
        version = self.stored.find_version(xid)
        if version is None or version.before is None or before is None:
            return False
        return (
            version.id == before.defaultversionid
            and version.document == version.before.document
            and all(version.attributes.get(key) == version.before.attributes.get(key) for key in ("name", "format"))
        )

    def _make_new_schema(self, xid: Xid) -> ReferableSchema | None:
        version = self.stored.find_shown_after_write(xid)
        if version is None or version.document is None:
            return None
        format = str(version.attributes.get("format") or "")  # noqa: A001  the spec's name
        if not is_referable(format):
            return None
        if self.stored.written[xid].xref is not None:
            # The identities are names of its target.
            return make_referable_schema(xid, version.attributes, {})
        text = extract_text(self.documents.read(version.document), format)
        return make_referable_schema(xid, version.attributes, {}, list_identities(text, format))

    def _set_import_root(self, schema: ReferableSchema) -> ReferableSchema:
        """Return a schema with the import root of its Group as this write leaves that."""
        owner = self.stored.owners.get(Xid.parse(schema.group))
        root = schema.root if owner is None else import_root(owner.attributes)
        return ReferableSchema(schema.xid, schema.format, schema.name, root, schema.identities)

    def _read_document(self, xid: Xid | None) -> bytes | None:
        if xid is None:
            return None
        version = self.stored.find_shown_after_write(xid)
        return (
            None if version is None or version.document is None else extract_text(self.documents.read(version.document))
        )

    def take_missing(self, *, contents: bool = False) -> Lookup | None:
        """Return what was requested since the last call and is not loaded, or None.

        Decisions based on it must be repeated.
        """
        stored, documents = self.stored, self.documents
        if not (stored.missing or stored.names.missing or documents.missing):
            return None
        lookup = Lookup(
            entities=frozenset(stored.missing),
            documents=frozenset(documents.missing),
            names=frozenset(stored.names.missing),
            contents=contents,
        )
        for names in (stored.missing, stored.names.missing, documents.missing):
            names.clear()
        return lookup
