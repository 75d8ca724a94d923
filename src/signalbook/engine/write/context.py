"""The context of a write: its loaded entities and documents, the loader of more of them, and its errors."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final, Protocol

from signalbook.access.decisions import UNRESTRICTED, Access
from signalbook.engine.schemanames import NameLookup, StoredNames, import_root, make_referable_schema
from signalbook.engine.write.commands import Flags
from signalbook.engine.write.workingcopies import OwnerCopy, ResourceCopy, VersionCopy
from signalbook.errors import RegistryError
from signalbook.formats.base import extract_text
from signalbook.formats.references import (
    ReferableSchema,
    find_reference_targets,
    follow_references,
    index_keys,
    is_referable,
    list_identities,
    lookup_keys,
    read_as_xids,
)
from signalbook.model import Model
from signalbook.settings import Settings
from signalbook.storage.base import Row
from signalbook.values import Finding, JSONObject, digest
from signalbook.xid import Kind, Xid, named

# This many errors are enough to repair a document, and a hostile document must not fill memory with errors.
MAX_ERRORS: Final = 100
MAX_LOADED: Final = 100
"""The number of stored documents loaded together for several Resources.

The same limit applies to referenced documents.
"""


class Problems:
    """Errors found so far. One wrong entity does not hide the next: all errors are reported at once.

    As a context manager (``with problems:``) it stores a ``RegistryError`` raised in the block and suppresses it.
    """

    def __init__(self) -> None:
        self.errors: list[RegistryError] = []
        self.count = 0

    def __enter__(self) -> None:
        """Begin a block whose ``RegistryError`` is to be stored."""

    def __exit__(self, type: type[BaseException] | None, error: BaseException | None, trace: object) -> bool:
        """Store the block's error if fewer than ``MAX_ERRORS`` are stored. ``count`` counts every error.

        Returns True, which suppresses the error, if it is a ``RegistryError``.
        """
        if not isinstance(error, RegistryError):
            return False
        self.count += 1
        if len(self.errors) < MAX_ERRORS:
            self.errors.append(error)
        return True

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings of all errors. Each path starts with the entity that the finding is about."""
        return tuple(finding for error in self.errors for finding in _list_findings(error))

    def raise_any(self) -> None:
        """Raise the first error, with the findings of all errors. Do nothing if there is no error."""
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
    """Return the findings of one error. Each path starts with the entity that the finding is about."""
    if not error.faults:
        return [Finding(path=error.subject, rule=error.code, message=error.title)]
    return [replace(finding, path=_locate_path(error.subject, finding.path)) for finding in error.faults]


def _locate_path(subject: str, path: str) -> str:
    """Return ``path`` with the xid ``subject`` in front, unless it already starts with it."""
    if not path or path.startswith(f"{subject}/"):
        return path or subject
    return f"{subject}#{path}"


class DocumentNotStored(Exception):
    """An error for a document that is not in the store. Its text is the digest of the document."""


class Documents:
    """Document bytes by digest: ``new`` ones from this command, and stored ones as far as they were ``loaded``.

    Digests of documents that were read but are not loaded are collected in ``missing``: see ``Context.take_missing``.
    """

    def __init__(self) -> None:
        self.new: dict[str, bytes] = {}
        self.loaded: dict[str, bytes] = {}
        self.missing: set[str] = set()

    def keep(self, content: bytes) -> str | None:
        """Remember ``content`` as a new document. Returns its digest, or None for the empty document."""
        if not content:
            return None
        name = digest(content)
        self.new[name] = content
        return name

    def read(self, name: str | None) -> bytes:
        """Return the document with the digest ``name``. Empty if ``name`` is None or the document is not loaded yet."""
        content = b"" if name is None else self.new.get(name, self.loaded.get(name))
        if content is None:
            self.missing.add(name or "")
        return content or b""

    def find_absent(self, names: Iterable[str | None]) -> set[str]:
        """Return those of the digests ``names`` whose documents are not loaded yet."""
        return {name for name in names if name is not None and name not in self.new and name not in self.loaded}

    def forget(self) -> None:
        """Drop loaded documents if there are many, because a Resource may have more of them than fit in memory."""
        if len(self.loaded) > 2 * MAX_LOADED:
            self.loaded.clear()


@dataclass(slots=True)
class RenamedSchemas:
    """The Resources whose names this write may change, and their new names by the keys of ``index_keys``.

    ``pending`` are Resources whose names are not read yet.
    """

    resources: frozenset[Xid]
    pending: list[Xid]
    by_key: dict[str, list[ReferableSchema]] = field(default_factory=lambda: defaultdict(list))


class Stored:
    """The stored data that was loaded for a decision, in addition to the tree that the decision changes.

    ``written`` are the Resources of that tree and ``owners`` its Groups. ``names`` finds schemas by name. ``entities``
    maps an xid to its row, or to None if it does not exist. ``base_url`` is the URL of the registry's root as clients
    know it: URLs that start with it refer to this registry.
    """

    def __init__(self, base_url: str = "") -> None:
        self.base_url = base_url
        self.names = StoredNames()
        self.renamed: RenamedSchemas | None = None
        self.written: dict[Xid, ResourceCopy] = {}
        self.owners: dict[Xid, OwnerCopy] = {}
        self.entities: dict[Xid, Row | None] = {}
        self.missing: set[Xid] = set()
        self._xid_by_uri: dict[str, Xid | None] = {}

    def find_named(self, uri: str) -> Xid | None:
        """Return the Resource or Version that ``uri`` refers to, or None if it refers to none in this registry."""
        if uri not in self._xid_by_uri:  # cached, because each URI is looked up at least twice
            self._xid_by_uri[uri] = named(uri, self.base_url)
        return self._xid_by_uri[uri]

    def find_entity(self, xid: Xid) -> Row | None:
        """Return the stored row of an entity, or None if it does not exist or is not loaded yet.

        An entity that is not loaded is added to ``missing``: see ``Context.take_missing``.
        """
        if xid not in self.entities:
            self.missing.add(xid)
        return self.entities.get(xid)

    def find_shown(self, xid: Xid) -> Row | None:
        """Return the stored Version that clients see at ``xid``, or None if there is none or it is not loaded yet.

        For a Resource this is the default Version, following its cross reference.
        """
        row = self.find_entity(xid)
        if row is None or xid.kind is Kind.VERSION:
            return row
        row = row if row.xref is None else self.find_entity(row.xref)
        return None if row is None or not row.defaultversionid else self.find_entity(row.default_version)

    def find_version(self, xid: Xid) -> VersionCopy | None:
        """Return the Version at ``xid`` of a Resource in the tree, as this write leaves it, or None.

        If ``xid`` names the Resource, return its default Version.
        """
        resource = self.written[xid.resource]
        versionid = (xid.id if xid.kind is Kind.VERSION else resource.defaultversionid) or ""
        if versionid in resource.versions or versionid in resource.removed or not resource.partial:
            return resource.versions.get(versionid)
        row = self.find_entity(resource.xid / "versions" / versionid)
        return None if row is None else VersionCopy.from_row(row)

    def find_shown_after_write(self, xid: Xid) -> Row | VersionCopy | None:
        """Return the Version that clients will see at ``xid`` after this write, or None: see ``find_shown``."""
        resource = self.written.get(xid.resource)
        if xid.kind is Kind.VERSION:
            return self.find_entity(xid) if resource is None else self.find_version(xid)
        row = self.find_entity(xid) if resource is None else resource
        target = xid if row is None or row.xref is None else row.xref
        return self.find_version(target) if target in self.written else self.find_shown(target)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookup:
    """Entities and documents to load by xid and digest, and schemas to load by name.

    ``defaults`` also loads the default Versions that Resources show. ``contents`` also loads the documents of all
    Versions.
    """

    entities: frozenset[Xid] = frozenset()
    documents: frozenset[str] = frozenset()
    names: frozenset[NameLookup] = frozenset()
    defaults: bool = True
    contents: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CrossReferences:
    """Cross references that a write can affect: ``targets`` by source, and ``groups`` and ``resources`` at both ends.

    Groups and Resources of the tree are left out.
    """

    targets: dict[Xid, Xid] = field(default_factory=dict)
    groups: dict[Xid, OwnerCopy] = field(default_factory=dict)
    resources: dict[Xid, ResourceCopy] = field(default_factory=dict)


class Loader(Protocol):
    """The loader of the stored data that a decision needs. Each method takes a limited number of queries.

    ``stored`` and ``documents`` hold what was loaded. ``load.WriteLoader`` loads it from the store, and tests can load
    it from memory.
    """

    @property
    def stored(self) -> Stored: ...
    @property
    def documents(self) -> Documents: ...

    def load(self, lookup: Lookup) -> None:
        """Load the data of ``lookup`` into ``stored`` and ``documents``.

        Raises ``DocumentNotStored``.
        """

    def load_snapshot(self, lookup: Lookup) -> None:
        """Load what is committed, after the turn of the write. It may be outdated in the next turn.

        Raises ``DocumentNotStored`` for a document that was removed, or that this write has not stored yet.
        """

    def add_neighbours(self, resource: ResourceCopy, mode: str) -> None:
        """Add to a partial Resource the Versions that determine the order of its Versions after the request."""

    def add_compared(self, resource: ResourceCopy, changed: Collection[str]) -> None:
        """Add to a partial Resource the children of its ``changed`` Versions, and the parents of moved Versions.

        A Version moved if it is changed or has another ancestor than before.
        """

    def list_other_resources(self, groups: Collection[OwnerCopy]) -> dict[Xid, list[ResourceCopy]]:
        """Return the stored Resources of these Groups that are not in the tree, with their Versions, by Group."""

    def find_cross_references(self, other_resources: Mapping[Xid, Collection[ResourceCopy]]) -> CrossReferences:
        """Return the cross references that this write can affect, and the Groups and Resources at both ends.

        ``other_resources`` is the result of ``list_other_resources`` for the Groups that the write changes.
        """

    def list_messages(
        self, groups: Collection[Row], types: Collection[tuple[str, str]], limit: int
    ) -> dict[Xid, list[Xid]]:
        """Return the xids of the messages in these Groups, by Group. Of a Group with many Resources, up to ``limit``.

        ``types`` are the Group and Resource types of messages.
        """

    def list_members(self, group: Row, plural: str, after: str | None, limit: int) -> list[Row]:
        """Return up to ``limit`` Resources of a type in a Group, in the order of their ids, after the id ``after``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """The context of one command. ``now`` is the instant of all its timestamps (R42).

    ``admin`` means that the caller may set ``readonly`` and write to read-only entities (R261). ``compatibility``
    replaces the rule of every Resource for a trial and is never stored. ``settings`` define rules beyond the
    specification. ``findings`` do not stop the write. Errors must not name entities that ``access`` cannot read.
    ``accepted_rules`` are those of the command. ``loader`` loads stored data that the decision needs.
    """

    model: Model
    capabilities: JSONObject
    flags: Flags
    target: Xid
    now: datetime
    loader: Loader
    admin: bool = False
    compatibility: str | None = None
    settings: Settings = field(default_factory=Settings)
    access: Access = UNRESTRICTED
    problems: Problems = field(default_factory=Problems)
    findings: list[Finding] = field(default_factory=list)
    accepted_rules: frozenset[str] = frozenset()

    @property
    def stored(self) -> Stored:
        """The stored data that ``loader`` loaded."""
        return self.loader.stored

    @property
    def documents(self) -> Documents:
        """The new documents of the command, and the stored ones that ``loader`` loaded."""
        return self.loader.documents

    def is_ignored(self, name: str) -> bool:
        """Return True if the request's ``ignore`` flag contains ``name`` (R204)."""
        return name in self.flags.ignore

    def find_referred(self, referring: Xid, uri: str) -> str | None:
        """Return the digest of the document that ``referring`` refers to as ``uri``, as this write leaves it.

        Nothing is fetched from the network. None if there is no such document, or if its Version is not loaded yet
        (``missing``).
        """
        stated = self._find_reference(referring, uri)
        if stated is not None:
            return self._find_document(stated)
        for xid in map(self.stored.find_named, read_as_xids(uri)):
            # The path of a file may look like an xid, so check that its types exist.
            if xid is not None and self.model.resource_type(xid) is not None:
                document = self._find_document(xid)
                if document is not None or xid in self.stored.missing or not uri.endswith(".proto"):
                    return document
        return self._find_document(self.stored.names.find(uri, referring, self._apply_renames))

    def _find_reference(self, schema: Xid, name: str) -> Xid | None:
        """Return the Version that the attribute ``references`` of ``schema``, or of a schema it refers to, calls
        ``name``.

        None if no reference has this name.
        """
        # The referring schema is being checked, so it is loaded unless it has no references.
        is_loaded = schema.resource in self.stored.written or schema in self.stored.entities
        return follow_references(schema, name, self._list_targets) if is_loaded else None

    def _list_targets(self, xid: Xid) -> Mapping[str, Xid]:
        version = self.stored.find_shown_after_write(xid)
        return {} if version is None else find_reference_targets(version.attributes)

    def _apply_renames(self, lookup: NameLookup, schemas: Iterable[ReferableSchema]) -> list[ReferableSchema]:
        """Return the schemas found by ``lookup`` after this write: stored ones it does not rename, and those it
        renames.
        """
        scope, name = lookup
        depth = len(scope.parts)
        renamed = self._load_renamed()
        stored = (schema for schema in schemas if Xid.parse(schema.xid) not in renamed.resources)
        new = {schema for key in lookup_keys(name) for schema in renamed.by_key.get(key, ())}
        new = {schema for schema in new if Xid.parse(schema.xid).parts[:depth] == scope.parts}
        return [self._set_import_root(schema) for schema in (*stored, *new)]

    def _load_renamed(self) -> RenamedSchemas:
        """Return the schemas whose names this write changes.

        If something is ``missing``, the result must not be used.
        """
        stored = self.stored
        if stored.renamed is None:
            xids = [xid for xid in stored.written if not self._keeps_names(xid)]
            renamed = RenamedSchemas(frozenset(xids), xids)
            if stored.missing:
                return renamed
            stored.renamed = renamed
        pending, by_key = stored.renamed.pending, stored.renamed.by_key
        # In parts, because their documents may have to be loaded and do not all fit in memory.
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
        """Return True if this write does not change the names by which the Resource ``xid`` can be referred to."""
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
            # The identities in the document are names of the target, not of the cross reference.
            return make_referable_schema(xid, version.attributes, {})
        text = extract_text(self.documents.read(version.document), format)
        return make_referable_schema(xid, version.attributes, {}, list_identities(text, format))

    def _set_import_root(self, schema: ReferableSchema) -> ReferableSchema:
        """Return ``schema`` with the import root that its Group has after this write."""
        owner = self.stored.owners.get(Xid.parse(schema.group))
        root = schema.root if owner is None else import_root(owner.attributes)
        return ReferableSchema(schema.xid, schema.format, schema.name, root, schema.identities)

    def _find_document(self, xid: Xid | None) -> str | None:
        version = None if xid is None else self.stored.find_shown_after_write(xid)
        return None if version is None else version.document

    def take_missing(self, *, contents: bool = False) -> Lookup | None:
        """Return a lookup of the data requested since the last call that is not loaded yet, or None if nothing is
        missing.

        The caller must load the data and repeat every step that was computed without it. ``contents`` as in ``Lookup``.
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
