"""The definitions a run holds its messages to: read once, frozen, fingerprinted, shipped to every worker."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Final

import msgspec

from signalbook.client import Client
from signalbook.documents import aim, read_folder, read_source
from signalbook.messages import Contract, Policy, Reason, SchemaDocument
from signalbook.messages.matching.contract import Book, Deferred, Outline, compile_all
from signalbook.pipeline import catalogue
from signalbook.pipeline.collecting import uncollected
from signalbook.pipeline.failures import PipelineError
from signalbook.values import JSONObject, canonical_json, digest

# Registry documents, each with a name.
Documents = Iterable[tuple[str, JSONObject]]
_URL: Final = ("http://", "https://")
# Twice as long as a server waits for its database: its word on that is better than ours.
_PATIENCE: Final = 120.0
_SHOWN: Final = 20
_SCHEMA_GROUPS: Final = ("/schemagroups/",)
_MESSAGE_GROUPS: Final = ("/messagegroups/", "/endpoints/")


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """Message definitions by xid, and schemas by the xid of their Version; that of their Resource names a Version.

    ``selected`` are the xids of the definitions that messages are matched with; the others may be bases of those.
    ``outlines`` are those of all the selected ones, if they have been found sound.
    """

    messages: Mapping[str, JSONObject]
    schemas: Mapping[str, JSONObject]
    selected: tuple[str, ...]
    outlines: tuple[Outline, ...] = field(default=(), compare=False)

    @classmethod
    @uncollected()
    def load(cls, registry: str, groups: Sequence[str] = (), versions: Sequence[str] = ()) -> Snapshot:
        """Read the definitions of ``registry``: the URL of one, a document, or a folder of documents.

        ``groups`` are xids of message groups or endpoints; with none every message is selected. ``versions`` are xids
        of Versions of messages and schemas that stand for the default ones. Raises ``PipelineError`` if there are no
        messages, and what the reader raises.
        """
        return cls.of_registry(registry, read_documents(registry), groups, versions)

    @classmethod
    def of_registry(
        cls, registry: str, documents: Documents, groups: Sequence[str] = (), versions: Sequence[str] = ()
    ) -> Snapshot:
        """The same out of documents that were read from ``registry``."""
        snapshot = cls.of_documents(documents, groups, versions)
        if not snapshot.selected:
            where = f"in {', '.join(groups)} of {registry}" if groups else f"in {registry}"
            raise PipelineError(f"there are no message definitions {where}")
        return snapshot

    @classmethod
    def of_documents(cls, documents: Documents, groups: Sequence[str] = (), versions: Sequence[str] = ()) -> Snapshot:
        """The snapshot of registry documents, each with its name. Raises ``PipelineError`` where two disagree."""
        messages: dict[str, JSONObject] = {}
        schemas: dict[str, JSONObject] = {}
        parents: set[str] = set()
        there: set[str] = set()
        pinned: dict[str, JSONObject] = {}
        for name, document in documents:
            _merge(messages, dict(catalogue.messages_of(document)), name)
            _merge(schemas, {xid: _slim(schema) for xid, schema in catalogue.schemas_of(document)}, name)
            parents |= catalogue.reach(document, groups)
            there |= catalogue.groups_of(document)
            pinned |= {xid: found for xid in versions if (found := catalogue.version_of(document, xid)) is not None}
        for group in groups:
            if group not in there:
                raise PipelineError(f"there is no message group or endpoint {group} among the definitions")
        for xid in versions:
            if xid not in pinned:
                raise PipelineError(f"there is no Version {xid} of a message or schema among the definitions")
            resource = xid.partition("/versions/")[0]
            if resource in messages:
                messages[resource] = pinned[xid]
            else:
                schemas[resource] = {"versionid": pinned[xid]["versionid"]}
        wanted = sorted(xid for xid in messages if not groups or group_of(xid) in parents)
        return cls(messages=messages, schemas=schemas, selected=tuple(wanted))

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over everything in it: equal snapshots judge alike."""
        return digest(canonical_json(self._text))

    def to_json(self) -> bytes:
        """Canonical JSON, for shipping."""
        return canonical_json({**self._text, "outlines": self.outlines})

    @cached_property
    def _text(self) -> JSONObject:
        parts = {"messages": dict(self.messages), "schemas": dict(self.schemas), "selected": self.selected}
        return {name: msgspec.Raw(canonical_json(part)) for name, part in parts.items()}

    @classmethod
    def from_json(cls, text: bytes) -> Snapshot:
        """What ``to_json`` wrote; a message or schema is read when it is first asked for."""
        found = msgspec.json.decode(text, type=_Shipped)
        return cls(
            messages=Deferred(found.messages, msgspec.json.decode),
            schemas=Deferred(found.schemas, msgspec.json.decode),
            selected=found.selected,
            outlines=found.outlines,
        )

    def message(self, reference: str) -> JSONObject | None:
        """The message an xid names; a URL or fragment by the xid in it, whatever the host."""
        return self.messages.get(_xid(reference, _MESSAGE_GROUPS))

    def schema(self, reference: str) -> SchemaDocument | None:
        """The schema an xid names; a URL by the xid in it, whatever the host: nothing is fetched (domain.md K-39)."""
        xid = _xid(reference, _SCHEMA_GROUPS)
        schema = self.schemas.get(xid)
        if schema is not None and "/versions/" not in xid:
            xid = f"{xid.partition('?')[0]}/versions/{schema['versionid']}"
            schema = self.schemas.get(xid)
        content = None if schema is None else catalogue.contents(schema)
        if schema is None or content is None:
            return None
        return SchemaDocument(content=content, format=str(schema.get("format") or ""), xid=xid)

    def compile(self, policy: Policy) -> Contract:
        """The contract of the selected definitions; of a checked snapshot each is compiled when a message needs it."""
        book = self._book()
        if self.outlines:
            return Contract.outlined(self.outlines, book, policy)
        return Contract.compile(book.definitions, book.schemas, policy, bases=book.bases)

    def _book(self) -> Book:
        definitions = Deferred({xid: xid for xid in self.selected}, self.messages.__getitem__)
        return Book(definitions=definitions, schemas=self.schema, bases=self.message)

    @uncollected()
    def check(self, policy: Policy) -> Snapshot:
        """Compile every definition and schema. Raises ``PipelineError`` naming those that do not, and why.

        Returns the snapshot with the outlines of its definitions, so that nobody under this policy does it again.

        A schema that is not there stops nobody else's messages: its own wait among the dead letters (domain.md K-45).
        A policy for a group or definition that is not among them is refused too: it would be without effect.
        """
        strangers = policy.strangers(self.selected)
        if strangers:
            raise PipelineError(f"there is a policy for {', '.join(strangers)}, but no definition it is about")
        compiled = compile_all(self._book(), policy)
        uses = {xid: definition.schema_use for xid, definition in compiled.definitions.items()}
        broken = {
            xid: findings
            for xid, findings in compiled.verify().items()
            if xid not in uses or uses[xid].reason is not Reason.SCHEMA_NOT_FOUND
        }
        if broken:
            shown = [f"  {xid}: {'; '.join(map(str, findings))}" for xid, findings in broken.items()]
            more = [f"  and {len(shown) - _SHOWN} more"] if len(shown) > _SHOWN else []
            raise PipelineError("\n".join(["these definitions cannot be used:", *shown[:_SHOWN], *more]))
        return replace(self, outlines=compiled.outlines)


class _Shipped(msgspec.Struct):
    """A snapshot as JSON."""

    messages: dict[str, msgspec.Raw]
    schemas: dict[str, msgspec.Raw]
    selected: tuple[str, ...]
    outlines: tuple[Outline, ...] = ()


def read_documents(registry: str) -> list[tuple[str, JSONObject]]:
    """The registry documents behind a URL, a document or a folder, each with a name. Raises ``PipelineError``."""
    if registry.startswith(_URL):
        with Client(registry, timeout=_PATIENCE) as client:
            return [(registry, client.export())]
    path = Path(registry)
    if not path.exists():
        raise PipelineError(f"the definitions {registry} are not there: give a registry's URL, a document or a folder")
    sources = read_folder(path) if path.is_dir() else [read_source(path)]
    return [(source.name, catalogue.whole(aim(source.document))) for source in sources]


def _merge(into: dict[str, JSONObject], found: Mapping[str, JSONObject], name: str) -> None:
    for xid, entity in found.items():
        if into.setdefault(xid, entity) != entity:
            raise PipelineError(f"{name} says something else of {xid} than a document before it")


def _slim(schema: JSONObject) -> JSONObject:
    """Of a schema Version what decides on payloads."""
    return {name: schema[name] for name in ("format", "schema", "schemabase64", "versionid") if name in schema}


def _xid(reference: str, groups: Sequence[str]) -> str:
    """A reference as an xid: what precedes the first type of Group in it is host and base path, or a ``#``."""
    starts = [start for group in groups if (start := reference.find(group)) >= 0]
    return reference[min(starts) :] if starts else reference


def group_of(xid: str) -> str:
    """The xid of the Group that a message or schema is in."""
    return "/".join(xid.split("/")[:3])
