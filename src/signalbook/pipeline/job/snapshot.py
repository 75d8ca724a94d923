"""The definitions that a run checks its messages against, read once, with a fingerprint, and sent to every worker."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from signalbook.client import Client
from signalbook.client.responses import BadResponse, NotFound
from signalbook.documents import Parts, read_bytes, source_of
from signalbook.formats.references import ReferableSchema, SchemaNames, follow_references, read_as_xids
from signalbook.messages import Contract, Policy, SchemaDocument
from signalbook.messages.definitions.broken import LeftOut
from signalbook.messages.definitions.source import DefinitionSource, Outline, find_equal_outlines, leave_out
from signalbook.messages.matching.contract import Deferred
from signalbook.messages.policy import Override
from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.job import subjects
from signalbook.pipeline.job.definition_checks import CheckedDefinitions, Entities, Lookups, check
from signalbook.pipeline.job.documents import (
    MESSAGES,
    PATIENCE,
    SCHEMA_GROUPS,
    SCHEMAS,
    URL,
    VERSIONS,
    Documents,
    SchemaEntries,
    build_named_document,
    find_message,
    find_reachable_groups,
    find_schema_entries,
    find_version,
    find_xref,
    follow_xref,
    import_roots,
    is_dangling,
    is_foreign,
    iterate_resources,
    list_groups,
    read_contents,
    read_documents,
    resolve_message_xid,
    resolve_xid,
    with_bases,
)
from signalbook.pipeline.job.memory import Derived, Latest, pause_collection
from signalbook.pipeline.job.subjects import Strategy, Subjects
from signalbook.uris import without_user
from signalbook.values import JSONObject, canonical_json, digest
from signalbook.xid import group_of

_SCHEMAS_ONLY: Final = (
    "only schemas. Add a message whose dataschemauri names the schema. "
    "A pipeline can also use schemas as subjects (--subjects topic)"
)


def _encode_canonical(entity: JSONObject | None) -> msgspec.Raw:
    return msgspec.Raw(canonical_json(entity))


class DocumentCache:
    """A cache for reading successive states of a registry document.

    Entities whose text is unchanged in the next state are not parsed or encoded again.
    """

    def __init__(self) -> None:
        self.parts = Parts()
        # The digest of the file that was read last, and its snapshot.
        self.last: tuple[str, Snapshot] | None = None
        self.message: Derived[JSONObject | None] = Derived(find_message)
        self.schema: Derived[SchemaEntries | None] = Derived(find_schema_entries)
        self.canonical: Derived[msgspec.Raw] = Derived(_encode_canonical)

    def end_turn(self) -> None:
        """Drop cached entities that the document that was just read does not contain."""
        for derived in (self.message, self.schema, self.canonical):
            derived.end_turn()


_MAX_NOTES: Final = 20


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """The definitions and schemas of one state of a registry.

    ``messages`` has message definitions by xid. The xid of a message stands for its default Version; other Versions are
    included if definitions derive from them. A definition that is not an object is None. ``schemas`` has each schema
    Version by its xid; the entry of a schema Resource names its default Version. ``names`` are the names by which
    schemas can refer to each other. ``selected`` are the xids of the definitions that messages are matched with; other
    definitions may be their bases. ``subjects`` is the naming strategy of the definitions in the group
    ``subjects.GROUP``, empty if subjects are not used. ``origin`` identifies what was read: of a later state with the
    same origin only changes are checked. After ``check``, ``outlines`` are the outlines of the selected definitions and
    ``left_out`` the definitions that cannot be used. ``doubts`` are notes for people about definitions that are left
    out, hidden from the reader, or refer to missing entities.
    """

    messages: Mapping[str, JSONObject | None]
    schemas: Mapping[str, JSONObject]
    selected: tuple[str, ...]
    names: tuple[ReferableSchema, ...] = ()
    subjects: Strategy = ""
    origin: tuple[object, ...] = field(default=(), compare=False)
    outlines: tuple[Outline, ...] = field(default=(), compare=False)
    left_out: Mapping[str, LeftOut] = field(default_factory=dict, compare=False)
    doubts: tuple[str, ...] = field(default=(), compare=False)

    @classmethod
    @pause_collection()
    def load(
        cls, registry: str, groups: Sequence[str] = (), versions: Sequence[str] = (), subjects: Strategy = ""
    ) -> Snapshot:
        """Read the definitions of ``registry``: the URL of a registry, a document, or a folder of documents.

        ``groups`` are xids of message groups or endpoints; without any, all messages are selected. ``versions`` are
        xids of Versions of messages and schemas to use instead of the default Versions. With ``subjects`` the subjects
        of the registry become definitions, too; a registry with only Confluent's API has no others. Raises
        ``PipelineError`` if there are no messages, and errors of reading.
        """
        origin = registry, tuple(groups), tuple(versions), subjects
        path = None if is_foreign(registry) or registry.startswith(URL) else Path(registry)
        if path is not None and path.is_file() and not subjects:
            return cls._of_file(path, groups, versions, origin)
        doubts = describe_hidden(registry)
        try:
            if subjects or is_foreign(registry):
                documents = () if is_foreign(registry) else read_documents(registry)
                snapshot = cls.of_documents(documents, groups, versions).with_subjects(registry, subjects or "topic")
            elif registry.startswith(URL):
                snapshot = cls._of_url(registry, groups, versions, origin)
            else:
                snapshot = cls.of_registry(registry, read_documents(registry), groups, versions)
        except PipelineError as error:
            raise PipelineError("\n".join([str(error), *doubts])) from None
        return snapshot._with(origin=origin, doubts=(*doubts, *snapshot.doubts))

    @classmethod
    def _of_file(
        cls, path: Path, groups: Sequence[str], versions: Sequence[str], origin: tuple[object, ...]
    ) -> Snapshot:
        """Load the document at ``path``. Return the cached snapshot if an earlier batch read the same bytes."""
        content = read_bytes(path)
        seen = digest(content)
        cached = _documents.get(origin)
        if cached is not None and cached.last is not None and cached.last[0] == seen:
            return cached.last[1]
        # Take the cache out while it changes: no other thread may use it, and a failure must discard it.
        cache = _documents.take(origin) or DocumentCache()
        source = source_of(path, content, parts=cache.parts)
        snapshot = replace(
            cls.of_registry(str(path), [build_named_document(source)], groups, versions, cache), origin=origin
        )
        if not source.files:  # other files that the document includes may change while its own bytes stay the same
            snapshot._keep(cache)
            cache.last = seen, snapshot
        return snapshot

    @classmethod
    def _of_url(
        cls, registry: str, groups: Sequence[str], versions: Sequence[str], origin: tuple[object, ...]
    ) -> Snapshot:
        """Load the current state of the registry at the URL ``registry``."""
        cache = _documents.take(origin) or DocumentCache()
        documents = read_documents(registry, parts=cache.parts)
        snapshot = replace(cls.of_registry(registry, documents, groups, versions, cache), origin=origin)
        snapshot._keep(cache)
        return snapshot

    def _keep(self, cache: DocumentCache) -> None:
        """Store ``cache``, for reading the next state of the document."""
        vars(self)["_text"] = self._encode_parts(cache.canonical)
        cache.end_turn()
        _documents.keep(self.origin, cache, self._size)

    @property
    def _size(self) -> int:
        return sum(map(len, self._text.values()))

    def with_subjects(self, registry: str, strategy: Strategy) -> Snapshot:
        """Return this snapshot with the definitions that ``strategy`` finds in the subjects of ``registry``, a URL.

        Raises ``PipelineError`` if there are none, and errors of reading.
        """
        if not is_foreign(registry) and not registry.startswith(URL):
            raise PipelineError(f"{registry} has no subjects: give the URL of a registry, or confluent+ and a URL")
        messages, schemas = Subjects.read(registry).build_definitions(strategy)
        existing = next((xid for xid in self.messages if group_of(xid) == subjects.GROUP), None)
        if existing is not None:
            raise PipelineError(f"{subjects.GROUP} is the group of definitions by subjects, but {existing} is in it")
        if not messages and not self.selected:
            raise PipelineError(f"{without_user(registry)} has no subjects that are named by {strategy}")
        return replace(
            self,
            messages={**self.messages, **messages},
            schemas={**self.schemas, **schemas},
            selected=tuple(sorted({*self.selected, *messages})),
            subjects=strategy,
        )

    @classmethod
    def of_registry(
        cls,
        registry: str,
        documents: Documents,
        groups: Sequence[str] = (),
        versions: Sequence[str] = (),
        cache: DocumentCache | None = None,
    ) -> Snapshot:
        """Return the snapshot of documents that were read from ``registry``.

        Raises ``PipelineError`` if no message definition is selected.
        """
        snapshot = cls.of_documents(documents, groups, versions, cache)
        if not snapshot.selected:
            registry_name = without_user(registry)
            where = f"in {', '.join(groups)} of {registry_name}" if groups else f"in {registry_name}"
            advice = f", {_SCHEMAS_ONLY}" if snapshot.schemas and not groups else ""
            raise PipelineError(f"there are no message definitions {where}{advice}")
        return snapshot

    @classmethod
    def of_documents(
        cls,
        documents: Documents,
        groups: Sequence[str] = (),
        versions: Sequence[str] = (),
        cache: DocumentCache | None = None,
    ) -> Snapshot:
        """Return the snapshot of named registry documents. Unchanged entities are taken from ``cache``.

        Raises ``PipelineError`` for two documents with different contents for one entity, and for unknown ``groups``
        and ``versions``.
        """
        messages: dict[str, JSONObject | None] = {}
        schemas: dict[str, JSONObject] = {}
        parents: set[str] = set()
        existing_groups: set[str] = set()
        pinned: dict[str, JSONObject] = {}
        doubts: list[str] = []
        roots: dict[str, str] = {}
        names: dict[str, ReferableSchema] = {}
        documents, cache = list(documents), cache or DocumentCache()
        for name, document in documents:
            doubts += _find_dangling_xrefs(document)
            new_messages = {
                xid: cache.message(follow_xref(document, stored))
                for xid, stored in iterate_resources(document, MESSAGES)
            }
            _merge(messages, new_messages, name)
            entries: dict[str, JSONObject] = {}
            for xid, stored in iterate_resources(document, SCHEMAS):
                schema = cache.schema(follow_xref(document, stored))
                if schema is None:
                    if not is_dangling(document, stored):
                        doubts.append(f"the schema {xid} cannot be used: it must be an object")
                    continue
                for suffix, entity in schema.entries:
                    entries[xid + suffix] = entity
                if schema.names is not None:
                    names[xid] = schema.names
            _merge(schemas, entries, name)
            roots |= import_roots(document)
            parents |= find_reachable_groups(document, groups)
            existing_groups |= list_groups(document)
            pinned |= {xid: version for xid in versions if (version := find_version(document, xid)) is not None}
        for group in groups:
            if group not in existing_groups:
                raise PipelineError(f"there is no message group or endpoint {group} among the definitions")
        for xid in versions:
            if xid not in pinned:
                raise PipelineError(f"there is no Version {xid} of a message or schema among the definitions")
            resource = xid.partition(VERSIONS)[0]
            if resource in messages:
                messages[resource] = pinned[xid]
            else:
                schemas[resource] = {**schemas[resource], "versionid": pinned[xid]["versionid"]}
        selected = sorted(xid for xid in messages if not groups or group_of(xid) in parents)
        _check_case(selected)
        return cls(
            messages=with_bases(messages, documents),
            schemas=schemas,
            selected=tuple(selected),
            names=tuple(_build_referable(xid, name, roots) for xid, name in sorted(names.items())),
            doubts=tuple(doubts),
        )

    @cached_property
    def fingerprint(self) -> str:
        """The SHA-256 digest of the content. Snapshots with the same fingerprint give the same results."""
        return digest(canonical_json(self._text))

    def to_json(self) -> bytes:
        """Return the snapshot as canonical JSON, which ``from_json`` reads."""
        return canonical_json({**self._text, "outlines": self.outlines, "left_out": dict(self.left_out)})

    @cached_property
    def _text(self) -> JSONObject:
        return self._encode_parts(lambda entity: entity)

    def _encode_parts(self, canonical: Callable[[JSONObject | None], object]) -> JSONObject:
        """Return the canonical JSON of each part. ``canonical`` returns an entity unchanged or as canonical JSON."""
        parts: JSONObject = {
            "messages": {xid: canonical(entity) for xid, entity in self.messages.items()},
            "schemas": {xid: canonical(entity) for xid, entity in self.schemas.items()},
            "selected": self.selected,
        }
        if self.names:
            parts["names"] = msgspec.to_builtins(self.names)
        if self.subjects:
            parts["subjects"] = self.subjects
        return {name: msgspec.Raw(canonical_json(part)) for name, part in parts.items()}

    @classmethod
    def from_json(cls, text: bytes) -> Snapshot:
        """Return the snapshot of ``text``, the output of ``to_json``. Messages and schemas are decoded on first use."""
        shipped = msgspec.json.decode(text, type=_Shipped)
        return cls(
            messages=Deferred(shipped.messages, msgspec.json.decode),
            schemas=Deferred(shipped.schemas, msgspec.json.decode),
            selected=shipped.selected,
            names=shipped.names,
            subjects=shipped.subjects,
            outlines=shipped.outlines,
            left_out=shipped.left_out,
        )

    def find_message(self, reference: str) -> JSONObject | None:
        """Return the message or message Version that ``reference`` names, None if the snapshot has none.

        ``reference`` is an xid, or a URL or fragment that contains the xid.
        """
        return self.messages.get(resolve_message_xid(reference))

    def find_schema(self, reference: str) -> SchemaDocument | None:
        """Return the schema that ``reference`` names, None if it is unknown or has no document in the snapshot.

        ``reference`` is an xid or a URL that contains the xid. Nothing is fetched (K-39).
        """
        xid = resolve_xid(reference, SCHEMA_GROUPS)
        schema = self.schemas.get(xid)
        if schema is not None and VERSIONS not in xid:
            xid = f"{xid.partition('?')[0]}{VERSIONS}{schema['versionid']}"
            schema = self.schemas.get(xid)
        content = None if schema is None else read_contents(schema)
        if schema is None or content is None:
            return None
        versions = (self.schemas.get(xid.partition(VERSIONS)[0]) or {}).get("versions", ())
        return SchemaDocument(content=content, format=str(schema.get("format") or ""), xid=xid, versions=versions)

    def find_import(self, path: str, xid: str) -> bytes | None:
        """Return the document that the schema ``xid`` refers to as ``path`` (docs/references.md), None if unknown."""
        stated = follow_references(xid, path, self._find_references)
        names = (stated,) if stated is not None else read_as_xids(path)
        schema = next((candidate for name in names if (candidate := self.find_schema(name)) is not None), None)
        if schema is None and stated is None:
            schema = self.find_schema(self._by_name.find(path, group_of(xid)) or "")
        return None if schema is None else schema.content

    def _find_references(self, xid: str) -> Mapping[str, str]:
        schema = self.schemas.get(xid) or {}
        if "versionid" in schema and VERSIONS not in xid:
            schema = self.schemas.get(f"{xid}{VERSIONS}{schema['versionid']}") or {}
        references: Mapping[str, str] = schema.get("references") or {}
        return references

    @cached_property
    def _by_name(self) -> SchemaNames:
        return SchemaNames(self.names)

    def compile(self, policy: Policy) -> Contract:
        """Return the contract of the selected definitions.

        If the snapshot was checked, a definition is compiled only when a message needs it.
        """
        source, policy = self._build_source(), self._extend_policy(policy)
        if self.outlines or self.left_out:
            return Contract.outlined(self.outlines, source, policy, self.left_out)
        return Contract.of_source(source, policy)

    def _extend_policy(self, policy: Policy) -> Policy:
        """Return ``policy`` with the settings that all definitions made from subjects share."""
        if not self.subjects:
            return policy
        prefixed = Override(xid=subjects.GROUP, settings=(("wire_prefix", "confluent"),))
        return replace(policy, overrides=(prefixed, *policy.overrides))

    def _build_source(self) -> DefinitionSource:
        definitions = Deferred({xid: xid for xid in self.selected}, self.messages.__getitem__)
        return DefinitionSource(
            definitions=definitions, schemas=self.find_schema, bases=self.find_message, imports=self.find_import
        )

    # Garbage collection is useless here: thousands of definitions are compiled, and all stay in memory.
    @pause_collection()
    def check(self, policy: Policy) -> Snapshot:
        """Compile every definition and schema, and return the snapshot with the outlines of its definitions.

        With the outlines, workers under this policy need not check again. Definitions that do not compile are left out.
        Raises ``PipelineError`` with names and reasons if ``policy`` demands to stop for one of these definitions.

        A missing schema affects only its own messages, which become dead letters (K-45).
        ``PipelineError`` is also raised if the policy is for an unknown group or definition, where it has no effect.
        In later batches of the process, definitions are checked again only if something that they look up has changed.
        """
        key = self.origin, self.subjects, policy
        last = _checked.get(key)
        if last is None or last.fingerprint != self.fingerprint:
            last = self._check(policy, None if last is None else last.checked)
            _checked.keep(key, last, self._size)
        doubts = (*self.doubts, *last.doubts)
        return self._with(outlines=last.outlines, left_out=last.left_out, doubts=doubts)

    def _with(self, **changes: Any) -> Snapshot:
        """Return a copy with changed attributes. The definitions must stay the same."""
        changed = replace(self, **changes)
        # Copy the cached values, which take long to compute for thousands of definitions.
        vars(changed).update({name: vars(self)[name] for name in ("_text", "fingerprint") if name in vars(self)})
        return changed

    def _check(self, policy: Policy, before: CheckedDefinitions | None) -> _Outcome:
        unknown = policy.unknown_overrides(self.selected)
        if unknown:
            raise PipelineError(f"there is a policy for {', '.join(unknown)}, but no definition it is about")
        lookups = Lookups()
        noting = replace(self, messages=lookups.track(self.messages), schemas=lookups.track(self.schemas))
        vars(noting)["_by_name"] = lookups.track_names(self._by_name)
        source = replace(noting._build_source(), imports=lookups.track_imports(noting.find_import))
        entities = Entities(messages=self.messages, schemas=self.schemas, names=self.names)
        checked = check(source, self._extend_policy(policy), entities, lookups, before)
        verdicts = checked.verdicts
        # With outlines a worker compiles a definition only when a message needs it.
        outlines, left_out = leave_out(verdicts)
        needed = {xid: entry for xid, entry in left_out.items() if policy.of(xid).on_broken_definition == "stop"}
        if needed:
            lines = _limit_lines(f"  {xid}: {'; '.join(entry.reasons)}" for xid, entry in needed.items())
            raise PipelineError("\n".join(["these definitions cannot be used:", *lines]))
        doubts = _limit_lines(f"{xid}: {doubt.message}" for xid, entry in verdicts.items() for doubt in entry.doubts)
        equal = _limit_lines(f"{xid}: {doubt.message}" for xid, doubt in find_equal_outlines(outlines))
        notes = _limit_lines(map(_describe_left_out, left_out, left_out.values()))
        return _Outcome(self.fingerprint, checked, outlines, left_out, (*notes, *doubts, *equal))


def _find_dangling_xrefs(document: JSONObject) -> Iterator[str]:
    """Yield a sentence about each message and schema whose cross reference has no usable target."""
    for plural in (MESSAGES, SCHEMAS):
        for xid, resource in iterate_resources(document, plural):
            if is_dangling(document, resource):
                why = "which does not exist, which you cannot read, or which is a cross reference itself"
                yield f"{xid} refers to {find_xref(resource)}, {why}"


class _Outcome(NamedTuple):
    """The result of checking a snapshot."""

    fingerprint: str
    checked: CheckedDefinitions
    outlines: tuple[Outline, ...]
    left_out: Mapping[str, LeftOut]
    doubts: tuple[str, ...]


# Bytes of the JSON text of cached definitions; in memory they take several times as much.
_KEPT: Final = 32 * 1024 * 1024
_checked: Final = Latest[tuple[object, Strategy, Policy], _Outcome](_KEPT)
_documents: Final = Latest[tuple[object, ...], DocumentCache](_KEPT)
_compiled: Final[dict[tuple[str, Policy], Contract]] = {}
_CONTRACTS: Final = 2


def compile_cached(fingerprint: str, policy: Policy, load: Callable[[], Snapshot]) -> Contract:
    """Return the contract of the snapshot with ``fingerprint`` under ``policy``, cached for the next tasks of a worker.

    ``load`` returns the snapshot; it is called only if the contract is not cached.
    """
    key = fingerprint, policy
    contract = _compiled.pop(key, None)
    if contract is None:
        # Keep a few contracts for jobs that alternate, but not all: a stream whose definitions change would fill the
        # memory of the worker. Contracts contain reference cycles, and collection is off while a task works.
        if len(_compiled) >= _CONTRACTS:
            del _compiled[next(iter(_compiled))]
            gc.collect()
        contract = load().compile(policy)
    _compiled[key] = contract  # the latest is at the end
    return contract


class _Shipped(msgspec.Struct):
    """The JSON form of a snapshot that workers receive."""

    messages: dict[str, msgspec.Raw]
    schemas: dict[str, msgspec.Raw]
    selected: tuple[str, ...]
    names: tuple[ReferableSchema, ...] = ()
    subjects: Strategy = ""
    outlines: tuple[Outline, ...] = ()
    left_out: dict[str, LeftOut] = {}


_KNOWN_BY: Final = {
    "definition": "its messages are dead letters",
    "id": "events whose type is its id are dead letters",
    "nothing": "nothing in it says which messages are its own, which match no definition now",
}


def _describe_left_out(xid: str, entry: LeftOut) -> str:
    """Return a sentence for users about the definition ``xid`` that is left out because of ``entry``."""
    return f"{entry.finding(xid).message}; it is left out: {_KNOWN_BY[entry.known_by]}"


def _limit_lines(lines: Iterable[str]) -> list[str]:
    """Return the first ``_MAX_NOTES`` of ``lines``, and a line with the number of the remaining ones, if any."""
    all_lines = list(lines)
    return all_lines[:_MAX_NOTES] + (
        [f"  and {len(all_lines) - _MAX_NOTES} more"] if len(all_lines) > _MAX_NOTES else []
    )


def describe_hidden(registry: str) -> tuple[str, ...]:
    """Return a note if the access rules hide a part of the registry from this client, otherwise an empty tuple."""
    if not registry.startswith(URL):
        return ()
    with Client(registry, timeout=PATIENCE) as client:
        try:
            caller = client.access.whoami()
        except (NotFound, BadResponse):  # the server is not a Signalbook registry
            return ()
    if not caller.get("hidden"):
        return ()
    note = f"{caller['name']} may not read all of it: definitions and schemas that are hidden are not used"
    return (f"{without_user(registry)}: {note}",)


def _build_referable(xid: str, names: ReferableSchema, roots: Mapping[str, str]) -> ReferableSchema:
    """Return the names of the schema at ``xid``, with the import root of its group."""
    return ReferableSchema(xid, names.format, names.name, roots.get(group_of(xid), ""), names.identities)


_Entity = TypeVar("_Entity", JSONObject, JSONObject | None)


def _check_case(xids: Iterable[str]) -> None:
    """Raise ``PipelineError`` if two xids differ only in case, because in some stores they would share a table."""
    by_folded_xid: dict[str, str] = {}
    for xid in xids:
        other = by_folded_xid.setdefault(xid.casefold(), xid)
        if other != xid:
            raise PipelineError(f"{other} and {xid} differ only in case, which no registry accepts: rename one")


def _merge(into: dict[str, _Entity], additions: Mapping[str, _Entity], name: str) -> None:
    if not into:
        into.update(additions)
        return
    for xid, entity in additions.items():
        # Equal duplicates are fine: several documents may contain the same group.
        if into.setdefault(xid, entity) != entity:
            raise PipelineError(f"{name} says something else of {xid} than a document before it")
