"""Reading the registry: any entity or collection as the JSON a client sees (core/spec.md "API view", "Doc Flag")."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain
from typing import Final

from signalbook.access.audit import DONE
from signalbook.access.base import Action
from signalbook.access.decisions import UNRESTRICTED, Access
from signalbook.access.restricted import is_shown, restrict_reader
from signalbook.batches import batched
from signalbook.engine.capabilities import require_available
from signalbook.engine.read.evaluation import AttributeLookup, FilterEvaluation, LoadedMember, PathMember, PathWalk
from signalbook.engine.read.filters import Filter
from signalbook.engine.read.impact import MAX_DEPTH, Dependent, Impact, find_direct_dependents, find_impact
from signalbook.engine.read.nodes import (
    ALL,
    CONFIGURATION,
    EXPORT,
    NOTHING,
    EntityNode,
    Inline,
    NodeLoader,
    Remainder,
    ResponseBudget,
    make_member_node,
    make_version_node,
)
from signalbook.engine.read.pages import ListedPage, PageRequest, Sort, page_by_id, page_by_id_backward, page_sorted
from signalbook.engine.read.rendering import Renderer, StreamedRendering, make_pointer
from signalbook.engine.search.search import Search, SearchPage, search
from signalbook.errors import RegistryError
from signalbook.model import Model, ResourceType
from signalbook.storage.audit import AuditEntry, AuditQuery
from signalbook.storage.base import Row
from signalbook.storage.confluent import ConfluentReader
from signalbook.storage.index import Candidate, IndexReader
from signalbook.storage.outbox import Record
from signalbook.storage.reports import ReportReader
from signalbook.storage.store import ReadTransaction
from signalbook.storage.words import Text
from signalbook.values import JSONObject, dump_json
from signalbook.xid import ROOT, Kind, Xid

UNLIMITED: Final = 1 << 62
_NODES_AT_ONCE: Final = 1000
_RECORDS_AT_ONCE: Final = 500
_CANDIDATES_AT_ONCE: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewOptions:
    """Options of a read.

    ``base_url`` is the URL of the registry root. ``max_bytes`` limits the response (R203): this is an early estimate,
    and the encoder of the response checks the exact size. ``inline``, ``doc``, ``binary``, ``collections`` and
    ``filter`` are the request flags of these names (R176-R178). ``sort`` is the flag of that name, for collections
    only.
    """

    base_url: str = ""
    inline: Inline = NOTHING
    doc: bool = False
    binary: bool = False
    collections: bool = False
    filter: Filter | None = None
    sort: Sort | None = None
    max_bytes: int = UNLIMITED


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentView:
    """The document of a Resource or Version, with the attributes that a response sends in addition to it (R156-R159).

    ``url`` is the address of a document that is stored elsewhere (``<RESOURCE>url``); ``content`` is then empty.
    """

    content: bytes
    contenttype: str | None
    url: str | None
    attributes: JSONObject
    type: ResourceType

    @property
    def is_dangling(self) -> bool:
        """True for a Resource without a default Version, because its cross reference has no valid target (R268)."""
        return "versionid" not in self.attributes


class View:
    """The registry at one instant, or inside one write. ``model`` and ``capabilities`` are the ones in force.

    ``reader`` is for queries about stored rows instead of entities as clients see them, such as ``cncf.lookup``.
    Neither the view nor ``reader`` shows entities that ``access`` cannot read.
    """

    def __init__(
        self, transaction: ReadTransaction, model: Model, capabilities: JSONObject, access: Access = UNRESTRICTED
    ) -> None:
        self._transaction = transaction
        self._outbox = transaction.outbox
        self._entities = transaction.entities
        self.access = access
        self.reader = restrict_reader(transaction.entities, access)
        self.model = model
        self.capabilities = capabilities

    @property
    def confluent(self) -> ConfluentReader:
        """The schema ids and other data of the Confluent-compatible API. Access rights are not applied."""
        return self._transaction.confluent

    @property
    def index(self) -> IndexReader:
        """The index of references and search words. Access rights are not applied."""
        return self._transaction.index

    @property
    def reports(self) -> ReportReader:
        """The reports of pipelines, which are not part of the registry. Access rights are not applied."""
        return self._transaction.reports

    def search(self, request: Search) -> SearchPage:
        """Return the page of search results for ``request``. Entities that ``access`` cannot read are left out."""
        return search(self._transaction.index, self._transaction.entities, request, self.access)

    def list_indexed(self) -> Iterator[tuple[Candidate, list[Text]]]:
        """Yield the entities that a search finds by default, with their indexed texts.

        Access rights are not applied.
        """
        after = 0
        while candidates := self._transaction.index.current(after, _CANDIDATES_AT_ONCE):
            texts = self._transaction.index.texts([candidate.key for candidate in candidates])
            yield from ((candidate, texts.get(candidate.key, [])) for candidate in candidates)
            after = candidates[-1].key

    def find_impact(self, xid: Xid, depth: int = MAX_DEPTH) -> Impact:
        """Return the entities that depend on ``xid``, up to ``depth`` steps away. Raises ``not_found``."""
        return find_impact(self._transaction.index, self.reader, xid, self.access, depth)

    def find_direct_dependents(self, xid: Xid, most: int) -> tuple[Dependent, ...]:
        """Return the direct dependents of the existing Group or Resource ``xid``. Reads at most ``most`` links."""
        return find_direct_dependents(self._transaction.index, self.reader, xid, self.access, most)

    def modelsource(self) -> JSONObject:
        """Return the model source that a user supplied, or ``{}`` if there is none (R63)."""
        return self.model.source

    def state(self) -> str:
        """Return a name for the current state of the registry. While the name is the same, the entities are the same.

        The name is made from the last change: its position and its correlation id, which is unique across databases.
        """
        position = self._outbox.position()
        return "".join(f"{position} {record.correlationid}" for record in self._outbox.records(position - 1, 1))

    def position(self) -> int:
        """Return the position of the last change. A stream of later changes starts after it."""
        return self._outbox.position()

    def find_position(self, time: datetime) -> int:
        """Return the position of the first change made at ``time`` or later.

        If there is no such change, return the position that the next change will get.
        """
        return self._outbox.position_at(time)

    def list_changes(
        self, most: int, *, beneath: Xid = ROOT, first: int = 1, before: int = 0, among: int = 5000
    ) -> tuple[list[Record], int]:
        """Return the newest visible changes of the entity ``beneath`` and of everything under it, at most ``most``.

        Only positions from ``first`` to below ``before`` (0: no upper limit) are read, about ``among`` of them. The
        second value is the ``before`` to continue with, or 0 if there are no more changes.
        """
        changes: list[Record] = []
        top = before or self._outbox.position() + 1
        least = max(self._outbox.pruned() + 1, first)
        for _ in range(among // _RECORDS_AT_ONCE):
            start = max(top - _RECORDS_AT_ONCE, least)
            records = self._outbox.records(start - 1, _RECORDS_AT_ONCE)
            for record in reversed(records):
                if record.position < top and _is_beneath(record, beneath) and is_shown(record, self.access):
                    changes.append(record)
                    if len(changes) == most:
                        return changes, record.position if record.position > least else 0
            top = start
            if top <= least:
                return changes, 0
        return changes, top

    def find_authors(self, records: Collection[Record], *, most: int = 1000) -> dict[str, str]:
        """Return the authors of ``records`` by correlation id, from at most ``most`` audit entries.

        Empty if the caller may not read the audit.
        """
        if not self.access.allows_somewhere(Action.AUDIT):
            return {}
        entries = self._transaction.audit.at_times({record.time for record in records}, DONE, most)
        return {entry.correlationid: entry.who for entry in entries}

    def list_audit_entries(self, xid: Xid, most: int, *, among: int = 20_000) -> list[AuditEntry]:
        """Return the newest ``most`` audit entries about a Resource and its Versions, from the last ``among`` entries.

        Empty if the caller may not read the audit.
        """
        if not self.access.allows_somewhere(Action.AUDIT):
            return []
        reader, name = self._transaction.audit, str(xid).casefold()
        newest = next((entry.number for entry in reader.entries(AuditQuery(), 1)), 0)
        entries = reader.entries(AuditQuery(after=newest - among, outcome=DONE, xid=name), most)
        return [
            entry
            for entry in entries
            if any(f"{xid_text}/".casefold().startswith(f"{name}/") for xid_text in entry.xids)
        ]

    def render_entity(self, xid: Xid, options: ViewOptions) -> JSONObject:
        """Render the Registry, a Group, Resource, meta or Version.

        Raises ``not_found`` if the entity does not exist or the filter excludes it (R192), ``too_large``,
        ``cannot_doc_xref``, and ``bad_flag`` if ``collections`` is used for anything but the Registry and Groups.
        """
        _check_collections(xid, options)
        if options.collections:
            options = replace(options, inline=ALL)
        node = self._find(xid, doc=options.doc)
        node.remainder = self._find_remainder(xid, options)
        renderer = self._make_renderer(options)
        if xid.kind is Kind.META:
            self._make_loader(xid, options).resolve([node])
            return renderer.render_meta(node)
        self._make_loader(xid, options).fill([node], options.inline)
        if options.collections:
            return renderer.render_collections(node)
        attributes = renderer.render_entity(node)
        return self._with_configuration(attributes, options.inline) if xid == ROOT else attributes

    def render_collection(self, xid: Xid, options: ViewOptions) -> JSONObject:
        """Render the collection ``xid``.

        Raises ``not_found`` if its owner is missing, otherwise like ``render_entity``.
        """
        return self.render_members(xid, self.list_members(xid, options, PageRequest()), options)

    def list_members(self, xid: Xid, options: ViewOptions, page: PageRequest) -> ListedPage[EntityNode]:
        """Return the entities of a collection that pass the filter, sorted or else by id (R212-R215).

        ``page`` selects all of them or one page (R285-R292). Raises like ``render_collection``. The members are read
        lazily and end with the transaction.
        """
        _check_collections(xid, options)
        owner, plural = self._find_owner(xid, options), xid.parts[-1]
        if options.filter is None and options.sort is None:
            return self._list_by_id(owner, plural, page)
        members = self._find_matches(owner, plural, options, page)
        if options.sort is not None:
            listed = page_sorted(options.sort, members, page)
        else:
            listed = page_by_id_backward(members, page) if page.backward else page_by_id(members, page)
        nodes = self._fetch_nodes(owner, plural, listed.members)
        return ListedPage(members=nodes, following=listed.following, preceding=listed.preceding, total=listed.total)

    def render_members(self, xid: Xid, listed: ListedPage[EntityNode], options: ViewOptions) -> JSONObject:
        """Render the members that ``list_members`` returned for the collection ``xid``."""
        return self._render_nested(xid, listed.members, options)

    def stream(self, xid: Xid, options: ViewOptions, listed: ListedPage[EntityNode] | None = None) -> Iterator[bytes]:
        """Yield the JSON text of the entity ``xid``, or of the collection ``listed``, in pieces and in bounded memory.

        Raises like ``render_entity`` before the first piece. ``max_bytes`` limits only a meta or a Version, which are
        rendered at once; anything else never raises ``too_large``.
        """
        _check_collections(xid, options)
        # Not a generator itself: errors must be raised before the first byte of a response is sent.
        rendering = StreamedRendering(self.reader, self.model, self._make_renderer(options), doc=options.doc)
        if xid.is_collection:
            return rendering.stream_members(
                (listed or self.list_members(xid, options, PageRequest())).members, options.inline
            )
        if xid.kind in (Kind.META, Kind.VERSION):
            return iter((dump_json(self.render_entity(xid, options)),))
        inline = ALL if options.collections else options.inline
        node = self._find(xid, doc=options.doc)
        node.remainder = self._find_remainder(xid, replace(options, inline=inline))
        if options.collections:
            return rendering.stream_collections(node, ALL)
        return rendering.stream_entity(
            node,
            options.inline,
            lambda attributes: self._with_configuration(attributes, options.inline) if xid == ROOT else attributes,
        )

    def render_processed(self, target: Xid, xids: Collection[Xid], options: ViewOptions) -> JSONObject:
        """Render those of ``xids`` that exist and pass the filter, nested as a write to ``target`` sent them (R146).

        A collection in ``xids`` is shown even if it is empty.
        """
        _check_collections(target, options)
        rows = self.reader.get_many({*xids, *(xid.resource for xid in xids)})
        nodes = []
        for xid in dict.fromkeys(xids):
            if xid in rows and xid.kind is Kind.VERSION:
                nodes.append(make_version_node(rows[xid.resource], rows[xid.resource], rows[xid]))
            elif xid in rows:
                nodes.append(EntityNode(xid=xid, row=rows[xid]))
        collections = self._render_nested(target, self._filter_nodes(target, nodes, options), options)
        return {**{xid.parts[-1]: {} for xid in xids if xid.is_collection}, **collections}

    def _filter_nodes(self, target: Xid, nodes: list[EntityNode], options: ViewOptions) -> list[EntityNode]:
        """Return those of ``nodes`` that pass the filter, sorted if requested.

        All are members of collections at ``target``.
        """
        lookup = self._lookup(options)
        if options.filter is not None and nodes:
            plurals = dict.fromkeys(node.xid.parts[-2] for node in nodes)
            inline = Inline(names={plural: _select_inline(options.inline, (plural,)) for plural in plurals})
            inline = Inline(names=dict.fromkeys(plurals, options.inline)) if target.is_collection else inline
            base = self._load_base(target.owner if target.is_collection else target, options)
            evaluation = FilterEvaluation(self.reader, options.filter, lookup)
            remainder = evaluation.find_remainder(base, inline) or Remainder()
            nodes = [node for node in nodes if remainder.contains(node.xid.parts[-2], node.row.key)]
            for node in nodes:
                node.remainder = remainder.select(node.xid.parts[-2], node.row.key)
        if options.sort is not None:
            self._fill_nodes(nodes, options)
            listed = page_sorted(options.sort, [LoadedMember(node, lookup) for node in nodes], PageRequest())
            nodes = [member.node for member in listed.members]
        return nodes

    def _find_remainder(self, xid: Xid, options: ViewOptions) -> Remainder | None:
        """Return the parts of an entity that the filter leaves, or None if there is no filter.

        Raises ``not_found`` if the filter leaves nothing.
        """
        if options.filter is None:
            return None
        base = self._load_base(xid, options)
        evaluation = FilterEvaluation(self.reader, options.filter, self._lookup(options))
        remainder = evaluation.find_remainder(base, options.inline)
        if remainder is None:
            raise RegistryError("not_found", subject=str(xid))
        return remainder

    def _load_base(self, xid: Xid, options: ViewOptions) -> EntityNode:
        """Load the entity that a filter starts from, with its default Version and the counts of its collections."""
        node = self._find(xid, doc=False)
        self._fill_nodes([node], options)
        return node

    def _fill_nodes(self, nodes: list[EntityNode], options: ViewOptions) -> None:
        """Add default Versions and collection counts to ``nodes``, as in API view."""
        for members in _group_by_type(nodes):
            self._make_loader(members[0].xid, replace(options, doc=False)).fill(members, NOTHING)

    def _lookup(self, options: ViewOptions) -> AttributeLookup:
        return AttributeLookup(self.model, self._make_renderer(replace(options, doc=False, binary=False)))

    def load_document(self, xid: Xid, options: ViewOptions) -> DocumentView:
        """Return the document of the Resource or Version ``xid``, whose type must have documents.

        Raises like ``render_entity``, and ``data_retrieval_error`` if the store has lost the document.
        """
        resource_type = self.model.groups[xid.group_type].resources[xid.resource_type]
        self._find_remainder(xid, options)
        node = self._find(xid, doc=False)
        self._make_loader(xid, options).fill([node], NOTHING)
        version = node.row if xid.kind is Kind.VERSION else node.default
        attributes = self._make_renderer(replace(options, doc=False, binary=False), details=False).render_entity(node)
        return DocumentView(
            content=self._read_content(version, xid),
            contenttype=attributes.get("contenttype"),
            url=attributes.get(f"{resource_type.singular}url"),
            attributes=attributes,
            type=resource_type,
        )

    def export_options(self, options: ViewOptions) -> ViewOptions:
        """Return ``options`` changed to those of an export: document view, with everything inlined (R274).

        An ``inline`` that is not empty replaces the default, which inlines only available parts of the configuration.
        """
        available_names = {
            name: below for name, below in EXPORT.names.items() if name in self.capabilities["available"]
        }
        inline = replace(EXPORT, names=available_names) if options.inline == NOTHING else options.inline
        return replace(options, doc=True, inline=inline)

    def find_dangling_xref(self, xid: Xid) -> Xid | None:
        """Return the target of a Resource's cross reference if that target cannot be shown, else None.

        A target cannot be shown if it is missing, hidden, or itself a cross reference (R265, R268).
        """
        resource = self.reader.get(xid.resource)
        if resource is None or resource.xref is None:
            return None
        target = self.reader.get(resource.xref)
        return resource.xref if target is None or target.xref is not None else None

    def find_by_short_path(self, key: int) -> Xid | None:
        """Return the entity whose storage key is in a short path, or None if it was deleted (R32)."""
        return next((row.xid for row in self.reader.by_key([key])), None)

    def exists(self, xid: Xid) -> bool:
        """Return True if the entity ``xid``, or the owner of the collection ``xid``, exists and can be read."""
        try:
            self._find(xid.owner if xid.is_collection else xid, doc=False)
        except RegistryError:
            return False
        return True

    def can_see_group_id(self, group: Xid) -> bool:
        """Return True if the Group exists and the caller may know its id (A-9), even if the Group itself is hidden."""
        return self.access.can_see_all_ids(group.parent) and self._entities.get(group) is not None

    def list_group_ids(self, groups: Xid) -> list[str]:
        """Return the ids of the Groups of one type, by id.

        Includes hidden Groups if the caller may know all ids (A-9).
        """
        reader = self._entities if self.access.can_see_all_ids(groups) else self.reader
        root = reader.get(ROOT)
        return [] if root is None else [row.xid.id for row in reader.children([root.key], groups.parts[0])]

    def _with_configuration(self, registry: JSONObject, inline: Inline) -> JSONObject:
        """Return ``registry`` with the inlined parts of its configuration before its collections (R53).

        Raises ``not_available`` for a part that is switched off (R117).
        """
        parts = {"capabilities": self.capabilities, "model": self.model.document, "modelsource": self.model.source}
        requested_parts = {name: parts[name] for name in CONFIGURATION if name in inline}
        if not requested_parts:
            return registry
        for name in requested_parts:
            require_available(self.capabilities, name)
        derived = {f"{plural}{suffix}" for plural in self.model.groups for suffix in ("url", "count", "")}
        attributes = {name: value for name, value in registry.items() if name not in derived}
        return {**attributes, **requested_parts, **registry}

    def _find(self, xid: Xid, *, doc: bool) -> EntityNode:
        """Return the node of an entity, following a cross reference if needed (R265). Raises ``not_found``."""
        if xid.kind is Kind.VERSION:
            return self._find_version(xid, doc=doc)
        row = self.reader.get(xid.resource if xid.kind is Kind.META else xid)
        if row is None:
            raise RegistryError("not_found", subject=str(xid))
        return EntityNode(xid=row.xid, row=row)

    def _find_version(self, xid: Xid, *, doc: bool) -> EntityNode:
        rows = self.reader.get_many({xid, xid.resource})
        resource, version = rows.get(xid.resource), rows.get(xid)
        shown_row = resource
        if resource is not None and resource.xref is not None:
            _check_not_doc(resource, doc=doc)
            shown_row, version = self._load_target_version(resource.xref, xid.version_id)
        if resource is None or version is None:
            raise RegistryError("not_found", subject=str(xid))
        return make_version_node(resource, shown_row, version)

    def _load_target_version(self, target: Xid, versionid: str) -> tuple[Row | None, Row | None]:
        version_xid = target / "versions" / versionid
        rows = self.reader.get_many({target, version_xid})
        return rows.get(target), rows.get(version_xid)

    def _find_owner(self, collection: Xid, options: ViewOptions) -> EntityNode:
        """Return the owner of ``collection``. If the owner is a Resource, its cross reference is resolved.

        Raises ``not_found`` if there is nothing to show.
        """
        owner = self._find(collection.owner, doc=options.doc)
        if owner.xid.kind is Kind.RESOURCE:
            _check_not_doc(owner.row, doc=options.doc)
            self._make_loader(collection, options).resolve([owner])
            if owner.shown is None:
                raise RegistryError("not_found", subject=str(collection))
        return owner

    def _list_by_id(self, owner: EntityNode, plural: str, page: PageRequest) -> ListedPage[EntityNode]:
        """List members by the index, with the stored total: equally fast in large and small collections."""
        key, after = (owner.shown or owner.row).key, page.after.id if page.after is not None else None
        if page.backward:
            before = self.reader.preceding(key, plural, page.size + 1, upto=after)
            behind = () if after is None else self.reader.children([key], plural, after=after, limit=1)
            return page_by_id_backward(
                (make_member_node(owner, row, plural) for row in chain(before[::-1], behind)), page
            )
        preceded = after is not None and bool(self.reader.preceding(key, plural, 1, upto=after))
        # One member more than the page holds shows whether another page follows.
        rows = self.reader.children([key], plural, after=after, limit=page.limit and page.limit + 1)
        total = self.reader.counts([key]).get((key, plural), 0) if page.limit and page.total is None else None
        return page_by_id((make_member_node(owner, row, plural) for row in rows), page, total, preceded=preceded)

    def _find_matches(
        self, owner: EntityNode, plural: str, options: ViewOptions, page: PageRequest
    ) -> Iterator[PathMember]:
        """Yield the members that pass the filter, by id.

        Without a sort order they start where the page begins if possible.
        """
        lookup, sort_steps = self._lookup(options), None if options.sort is None else options.sort.steps
        if options.filter is None:
            walk = PathWalk(self.reader, lookup, owner, (plural,), {0: ()}, sort_steps=sort_steps)
            return walk.find_matches()
        seeks = page.after is not None and options.sort is None and not page.backward
        after = page.after.id if page.after is not None and seeks else None
        evaluation = FilterEvaluation(self.reader, options.filter, lookup)
        return evaluation.list_members(owner, plural, options.inline, after=after, sort_steps=sort_steps)

    def _fetch_nodes(self, owner: EntityNode, plural: str, members: Iterable[PathMember]) -> Iterator[EntityNode]:
        """Yield the nodes of ``members``. Their rows are loaded in batches."""
        for batch in batched(members, _NODES_AT_ONCE):
            rows = {row.key: row for row in self.reader.by_key([member.hit.key for member in batch])}
            for member in batch:
                node = make_member_node(owner, rows[member.hit.key], plural)
                node.remainder = member.remainder
                yield node

    def _render_nested(self, target: Xid, nodes: Iterable[EntityNode], options: ViewOptions) -> JSONObject:
        """Render ``nodes`` as nested maps that follow the path from ``target`` to each node."""
        by_type: dict[tuple[str, ...], list[EntityNode]] = {}
        depth = len(target.parts)
        for node in nodes:
            by_type.setdefault(node.xid.parts[depth:-1], []).append(node)
        loader, renderer = self._make_loader(target, options), self._make_renderer(options)
        result: JSONObject = {}
        for types, members in by_type.items():
            loader.fill(members, ALL if options.collections else _select_inline(options.inline, types))
            member = result
            for plural in types:
                member = member.setdefault(plural, {})
            for node in members:
                member[node.xid.id] = renderer.render_entity(node, make_pointer(*types, node.xid.id))
        return result

    def _read_content(self, version: Row | None, target: Xid) -> bytes:
        if version is None or version.document is None:
            return b""
        content = self.reader.documents([version.document]).get(version.document)
        if content is None:
            detail = f"the document of {version.xid} is not in the store"
            raise RegistryError("data_retrieval_error", subject=str(target), detail=detail)
        return content

    def _make_loader(self, xid: Xid, options: ViewOptions) -> NodeLoader:
        return NodeLoader(self.reader, self.model, ResponseBudget(options.max_bytes, str(xid)), doc=options.doc)

    def _make_renderer(self, options: ViewOptions, *, details: bool = True) -> Renderer:
        short = self.capabilities["shortself"]
        return Renderer(
            self.model, options.base_url, doc=options.doc, binary=options.binary, details=details, short=short
        )


def _is_beneath(record: Record, xid: Xid) -> bool:
    """Return True if the record is a change of the entity ``xid`` or of an entity under it."""
    changed = tuple(record.change["xid"].casefold().split("/")[1:])
    return changed[: len(xid.parts)] == tuple(part.casefold() for part in xid.parts)


def _group_by_type(nodes: Iterable[EntityNode]) -> list[list[EntityNode]]:
    """Return ``nodes`` in lists of the same kind and type."""
    by_type: dict[tuple[str, ...], list[EntityNode]] = {}
    for node in nodes:
        by_type.setdefault(node.xid.parts[0::2], []).append(node)
    return list(by_type.values())


def _select_inline(inline: Inline, types: Iterable[str]) -> Inline:
    for plural in types:
        inline = inline.select(plural)
    return inline


def _check_collections(xid: Xid, options: ViewOptions) -> None:
    """Raise ``bad_flag`` if the flag ``collections`` is used for anything but the Registry or a Group (R177)."""
    if options.collections and xid.kind not in (Kind.REGISTRY, Kind.GROUP):
        raise RegistryError("bad_flag", subject=str(xid), flag="collections")


def _check_not_doc(resource: Row, *, doc: bool) -> None:
    """Raise ``cannot_doc_xref`` for Versions of a cross reference in document view, where they do not exist (R271)."""
    if doc and resource.xref is not None:
        raise RegistryError("cannot_doc_xref", subject=str(resource.xid))
