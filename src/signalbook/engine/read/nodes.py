"""The entities in a response, loaded level by level (core/spec.md "Inline Flag").

Loading takes a few queries per type, however many entities there are.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from signalbook.batches import batched
from signalbook.errors import RegistryError
from signalbook.model import Model, ResourceType
from signalbook.storage.base import Reader, Row
from signalbook.xid import Kind, Xid

CONFIGURATION: Final = ("capabilities", "model", "modelsource")
"""Parts of the Registry that ``*`` does not inline; they must be named (R199)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inline:
    """The collections to inline at one level, by name, each with those to inline inside it.

    ``everything`` means ``*``.
    """

    names: Mapping[str, Inline] = field(default_factory=dict)
    everything: bool = False

    def __contains__(self, name: str) -> bool:
        return name in self.names or (self.everything and name not in CONFIGURATION)

    def select(self, name: str) -> Inline:
        """Return the collections to inline inside the collection ``name``."""
        return ALL if self.everything else self.names.get(name, NOTHING)

    def __or__(self, other: Inline) -> Inline:
        names = {
            name: self.names.get(name, NOTHING) | other.names.get(name, NOTHING)
            for name in dict.fromkeys((*self.names, *other.names))
        }
        return Inline(names=names, everything=self.everything or other.everything)


NOTHING: Final = Inline()
ALL: Final = Inline(everything=True)
EXPORT: Final = Inline(names={"capabilities": NOTHING, "modelsource": NOTHING}, everything=True)
"""The collections and parts of the configuration that ``/export`` inlines unless the request names others (R274)."""


def parse_inline(values: Iterable[str], target: Xid, model: Model, *, subject: str) -> Inline:
    """Parse the flag's ``values``, one per occurrence, each a comma-separated list of paths (R198-R201).

    Paths are relative to ``target``, the entity that the response shows, or to the members if ``target`` is a
    collection. Its types must exist in ``model``. Raises ``bad_inline`` for bad syntax and ``inline_noninlineable`` for
    a name that cannot be inlined (R202); both errors are about ``subject``.
    """
    result = NOTHING
    for value in values:
        for path in value.split(",") if value else ("*",):
            result |= _build_tree(_parse_steps(path, value, subject), target, model, subject)
    return result


def _parse_steps(path: str, value: str, subject: str) -> list[str]:
    steps = path.strip().split(".")
    problem = ""
    if not all(steps):
        problem = "a path has names between its dots and commas"
    elif any("*" in step for step in steps[:-1]) or ("*" in steps[-1] and steps[-1] != "*"):
        problem = "* stands alone, as the last part of a path"
    if problem:
        raise RegistryError("bad_inline", subject=subject, value=value, error_detail=problem)
    return steps


def _build_tree(steps: list[str], target: Xid, model: Model, subject: str) -> Inline:
    """Return a path as nested ``Inline`` levels.

    Raises ``inline_noninlineable`` for a step that the model does not allow.
    """
    types = list(target.parts[0:4:2])
    kind = _ENTITY.get(target.kind, target.kind)
    for step in steps:
        if step == "*" and (kind is not Kind.META or len(steps) == 1):
            continue  # * inlines everything at its level; inside a leaf that is nothing
        if step not in _list_inlineable(kind, types, model):
            raise RegistryError("inline_noninlineable", subject=subject, name=".".join(steps))
        kind = _find_kind(kind, step)
        if kind in (Kind.GROUP, Kind.RESOURCE):
            types.append(step)
    result = NOTHING
    for step in reversed(steps):
        result = ALL if step == "*" else Inline(names={step: result})
    return result


_ENTITY: Final = {Kind.GROUPS: Kind.GROUP, Kind.RESOURCES: Kind.RESOURCE, Kind.VERSIONS: Kind.VERSION}
_BELOW: Final = {Kind.REGISTRY: Kind.GROUP, Kind.GROUP: Kind.RESOURCE, Kind.RESOURCE: Kind.VERSION}


def _find_kind(kind: Kind, name: str) -> Kind:
    """Return the kind of the entities that ``name`` leads to.

    META stands for every leaf, which has nothing to inline.
    """
    if name in CONFIGURATION or kind is Kind.VERSION or (kind is Kind.RESOURCE and name != "versions"):
        return Kind.META
    return _BELOW[kind]


def _list_inlineable(kind: Kind, types: list[str], model: Model) -> Collection[str]:
    """Return the names that can be inlined in an entity of this kind (R197)."""
    if kind is Kind.REGISTRY:
        return {*CONFIGURATION, *model.groups}
    if kind is Kind.GROUP:
        return set(model.groups[types[0]].resources)
    if kind is Kind.META:
        return ()
    document = _list_document_names(model.groups[types[0]].resources[types[1]])
    return document if kind is Kind.VERSION else {"meta", "versions", *document}


def _list_document_names(type: ResourceType) -> set[str]:
    return {type.singular} if type.hasdocument else set()


_ENTITY_BYTES: Final = 300
"""The minimum size of an entity in a response. Together with the documents' sizes it gives an early lower bound."""
_DOCUMENTS_AT_ONCE: Final = 64


@dataclass(slots=True, kw_only=True)
class Remainder:
    """The part of an entity that a filter leaves.

    ``whole`` means everything. Otherwise ``counts`` has the number of remaining members by collection, and ``members``
    the remaining members of inlined collections by storage key. ``passed`` are the numbers of the filter's alternatives
    that matched. ``queries`` has, by collection, the query for its URL that shows the same members (R193).
    """

    whole: bool = False
    counts: dict[str, int] = field(default_factory=dict)
    members: dict[str, dict[int, Remainder]] = field(default_factory=dict)
    passed: set[int] = field(default_factory=set)
    queries: dict[str, str] = field(default_factory=dict)

    def contains(self, plural: str, key: int) -> bool:
        """Return True if the filter leaves the member with storage key ``key`` of the inlined collection ``plural``."""
        return self.whole or key in self.members.get(plural, ())

    def select(self, plural: str, key: int) -> Remainder:
        """Return the part that the filter leaves of a member for which ``contains`` is True."""
        return WHOLE if self.whole else self.members[plural][key]


WHOLE: Final = Remainder(whole=True)


@dataclass(slots=True, kw_only=True)
class EntityNode:
    """An entity in a response.

    ``xid`` is the xid that clients see; under a cross reference it differs from the stored one. For a Resource,
    ``shown`` is the row whose meta and Versions appear (its own or its xref's target, None if that is missing) and
    ``default`` is the row of the default Version. For a Version, ``shown`` is the row of its Resource. ``collections``
    are the inlined collections and ``content`` is the document if it is inlined. ``remainder`` is what the filter
    leaves, None without a filter. ``through`` is the storage key of the cross reference that a Version is seen through,
    or None.
    """

    xid: Xid
    row: Row
    shown: Row | None = None
    default: Row | None = None
    counts: dict[str, int] = field(default_factory=dict)
    collections: dict[str, dict[str, EntityNode]] = field(default_factory=dict)
    meta: bool = False
    content: bytes | None = None
    remainder: Remainder | None = None
    through: int | None = None

    @property
    def folded(self) -> str:
        """The id in the form used for sorting."""
        return self.xid.id.lower()

    @property
    def whole(self) -> bool:
        """True if everything under the entity may be shown, because no filter removes a part of it."""
        return self.remainder is None or self.remainder.whole


class ResponseBudget:
    """The maximum size of a response in bytes. ``subject`` is the xid in the error."""

    def __init__(self, limit: int, subject: str) -> None:
        self._left = limit
        self._limit = limit
        self._subject = subject

    def spend(self, size: int) -> None:
        """Count ``size`` more bytes. Raises ``too_large`` if the limit is exceeded (R203)."""
        self._left -= size
        if self._left < 0:
            detail = f"it would have more than {self._limit} bytes; ask for parts of it, or inline less"
            raise RegistryError("too_large", subject=self._subject, detail=detail)


class NodeLoader:
    """A loader of the data under nodes of one type. With ``doc`` it loads what document view shows (R270, R271)."""

    def __init__(self, reader: Reader, model: Model, budget: ResponseBudget, *, doc: bool) -> None:
        self._reader = reader
        self._model = model
        self._budget = budget
        self._doc = doc

    def fill(self, nodes: Sequence[EntityNode], inline: Inline) -> None:
        """Load the collections and documents that ``inline`` names into ``nodes``, which must be of one kind and type.

        Raises ``too_large``.
        """
        self._budget.spend(_ENTITY_BYTES * len(nodes))
        self._fill(nodes, inline)

    def _fill(self, nodes: Sequence[EntityNode], inline: Inline) -> None:
        if nodes:
            _FILL_BY_KIND[nodes[0].xid.kind](self, nodes, inline)

    def resolve(self, nodes: Collection[EntityNode]) -> None:
        """Set ``shown`` of Resources to their own row or the target of their cross reference.

        A target that is missing or itself a cross reference is not followed; ``shown`` is then None (R267, R268). In
        document view ``shown`` is None for every cross reference.
        """
        xrefs = {node.row.xref for node in nodes if node.row.xref is not None}
        targets = self._reader.get_many(xrefs) if xrefs and not self._doc else {}
        for node in nodes:
            node.shown = node.row if node.row.xref is None else targets.get(node.row.xref)
            if node.shown is not None and node.shown.xref is not None:
                node.shown = None

    def _fill_registry(self, nodes: Sequence[EntityNode], inline: Inline) -> None:
        self._fill_owners(nodes, self._model.groups, inline)

    def _fill_groups(self, nodes: Sequence[EntityNode], inline: Inline) -> None:
        self._fill_owners(nodes, self._model.groups[nodes[0].xid.group_type].resources, inline)

    def _fill_owners(self, nodes: Sequence[EntityNode], plurals: Iterable[str], inline: Inline) -> None:
        """Fill the Registry or Groups: all counts in one query, and each inlined collection in another."""
        by_key = {node.row.key: node for node in nodes}
        # Empty collections are shown too, but ``counts`` has no entry for them.
        counts = self._reader.counts(by_key)
        for plural in plurals:
            for key, node in by_key.items():
                node.counts[plural] = _count(node, plural, counts.get((key, plural), 0))
            if plural in inline:
                self._inline(by_key, plural, inline.select(plural))

    def _inline(self, by_key: Mapping[int, EntityNode], plural: str, inline: Inline) -> None:
        for node in by_key.values():
            node.collections[plural] = {}
        children = []
        for row in list_member_rows(self._reader, by_key.items(), plural):
            self._budget.spend(_ENTITY_BYTES)
            child = make_member_node(by_key[row.parent], row, plural)
            by_key[row.parent].collections[plural][row.xid.id] = child
            children.append(child)
        self._fill(children, inline)

    def _fill_resources(self, nodes: Sequence[EntityNode], inline: Inline) -> None:
        resource_type = self._find_type(nodes[0].xid)
        self.resolve(nodes)
        present = [node for node in nodes if node.shown is not None]
        for node in nodes:
            node.meta = "meta" in inline
        if "versions" in inline:
            self._inline_versions(present, inline.select("versions"))
        else:
            self._count_versions(present)
        if not self._doc:
            self._load_defaults(present)
            if resource_type.singular in inline:
                self._load_documents(
                    [(node, node.default) for node in present if node.default is not None], resource_type
                )

    def _inline_versions(self, nodes: Sequence[EntityNode], inline: Inline) -> None:
        # Several Resources may show the same Versions: cross references and their target.
        showing: dict[int, list[EntityNode]] = {}
        for node in nodes:
            node.collections["versions"] = {}
            showing.setdefault(_find_key(node.shown), []).append(node)
        versions = []
        for row in list_member_rows(self._reader, [(_find_key(node.shown), node) for node in nodes], "versions"):
            for node in showing[row.parent]:
                members = node.collections["versions"]
                if row.xid.id in members or not (
                    node.remainder is None or node.remainder.contains("versions", row.key)
                ):
                    continue
                self._budget.spend(_ENTITY_BYTES)
                members[row.xid.id] = make_member_node(node, row, "versions")
                versions.append(members[row.xid.id])
        for node in nodes:
            node.counts["versions"] = len(node.collections["versions"])
        self._fill(versions, inline)

    def _count_versions(self, nodes: Sequence[EntityNode]) -> None:
        counts = self._reader.counts({_find_key(node.shown) for node in nodes})
        for node in nodes:
            node.counts["versions"] = _count(node, "versions", counts.get((_find_key(node.shown), "versions"), 0))

    def _load_defaults(self, nodes: Sequence[EntityNode]) -> None:
        # If all Versions are inlined, the default Version is already loaded.
        version_xids = {node.shown.default_version for node in nodes if not _lists_all(node) and node.shown}
        rows = self._reader.get_many(version_xids) if version_xids else {}
        for node in nodes:
            if _lists_all(node) and node.shown is not None:
                version = node.collections["versions"].get(node.shown.defaultversionid or "")
                node.default = version.row if version else None
            elif node.shown is not None:
                node.default = rows.get(node.shown.default_version)

    def _fill_versions(self, nodes: Sequence[EntityNode], inline: Inline) -> None:
        resource_type = self._find_type(nodes[0].xid)
        if resource_type.singular in inline:
            self._load_documents([(node, node.row) for node in nodes], resource_type)

    def _load_documents(self, pairs: Iterable[tuple[EntityNode, Row]], type: ResourceType) -> None:
        """Set ``content`` of nodes whose document is stored in the registry, not behind a ``<RESOURCE>url``."""
        if not type.hasdocument:
            return
        by_digest: dict[str, list[EntityNode]] = {}
        for node, version in pairs:
            if version.document is not None:
                by_digest.setdefault(version.document, []).append(node)
            elif f"{type.singular}url" not in version.attributes:
                node.content = b""
        for batch in batched(by_digest, _DOCUMENTS_AT_ONCE):
            for digest, content in self._reader.documents(batch).items():
                self._budget.spend(len(content) * len(by_digest[digest]))
                for node in by_digest[digest]:
                    node.content = content

    def _find_type(self, xid: Xid) -> ResourceType:
        return self._model.groups[xid.group_type].resources[xid.resource_type]


_FILL_BY_KIND: Final[dict[Kind, Callable[[NodeLoader, Sequence[EntityNode], Inline], None]]] = {
    Kind.REGISTRY: NodeLoader._fill_registry,
    Kind.GROUP: NodeLoader._fill_groups,
    Kind.RESOURCE: NodeLoader._fill_resources,
    Kind.VERSION: NodeLoader._fill_versions,
}


def make_version_node(resource: Row, shown_row: Row | None, row: Row) -> EntityNode:
    """Return the node of a Version as clients see it under ``resource``, which shows the Versions of ``shown_row``."""
    if shown_row is None or shown_row.key == resource.key:
        return EntityNode(xid=row.xid, row=row, shown=shown_row)
    return EntityNode(xid=resource.xid / "versions" / row.xid.id, row=row, shown=shown_row, through=resource.key)


def make_member_node(owner: EntityNode, row: Row, plural: str) -> EntityNode:
    """Return the node of ``row``, a member of the collection ``plural`` of ``owner``.

    The filter must leave this member.
    """
    version = row.xid.kind is Kind.VERSION
    node = make_version_node(owner.row, owner.shown, row) if version else EntityNode(xid=row.xid, row=row)
    node.remainder = owner.remainder and owner.remainder.select(plural, row.key)
    return node


def list_member_rows(reader: Reader, owners: Iterable[tuple[int, EntityNode]], plural: str) -> Iterator[Row]:
    """Yield the rows of the collection ``plural`` that filters leave.

    ``owners`` are the storage keys and nodes of the owners. If two entities show the same row and only one of them
    shows all members, the row may come twice.
    """
    whole: set[int] = set()
    selected: set[int] = set()
    for key, node in owners:
        if node.whole:
            whole.add(key)
        elif node.remainder is not None:
            selected.update(node.remainder.members.get(plural, ()))
    if whole:
        yield from reader.children(whole, plural)
    if selected:
        yield from reader.by_key(selected)


def _count(node: EntityNode, plural: str, stored_count: int) -> int:
    return stored_count if node.remainder is None or node.remainder.whole else node.remainder.counts.get(plural, 0)


def _lists_all(node: EntityNode) -> bool:
    """Return True if all Versions are inlined, so that the default Version is among them."""
    return "versions" in node.collections and node.whole


def _find_key(row: Row | None) -> int:
    return row.key if row else 0
