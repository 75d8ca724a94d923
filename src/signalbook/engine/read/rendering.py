"""Entities as JSON: attributes in the specification's order, with URLs that are never stored (R47-R57, R249, R270).

Streamed rendering writes JSON text of any size in pieces and in bounded memory, with the same bytes as rendering at
once. Siblings that fit in memory are loaded and rendered in batches. For an entity that does not fit, its attributes
are written first and then its collections, again in batches.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, TypeAlias

from signalbook.batches import batched
from signalbook.engine.read.nodes import (
    NOTHING,
    EntityNode,
    Inline,
    NodeLoader,
    ResponseBudget,
    list_member_rows,
    make_member_node,
    make_version_node,
)
from signalbook.errors import RegistryError
from signalbook.largejson import parse_untrusted_json
from signalbook.model import SPECVERSION, Model, ResourceType
from signalbook.storage.base import Reader, Row
from signalbook.values import JSON, JSONError, JSONObject, dump_json, format_timestamp
from signalbook.xid import Kind, Xid, short_path

ResponsePath: TypeAlias = str
"""The JSON Pointer of an entity in the response; ``""`` is the response itself."""

EXCLUDE_ALL: Final = "?filter=excludeall"
_VALIDATION: Final = (
    "formatvalidated",
    "formatvalidatedreason",
    "compatibilityvalidated",
    "compatibilityvalidatedreason",
)


class Renderer:
    """A renderer of the nodes of one response.

    ``doc`` selects document view. ``binary`` shows inlined documents as base64 (R176). Without ``details`` the ``self``
    of a Resource or Version is the URL of its document (R30). ``short`` adds short URLs, except in document view.
    """

    def __init__(
        self, model: Model, base_url: str, *, doc: bool, binary: bool, details: bool = True, short: bool = False
    ) -> None:
        self._model = model
        self._base = base_url.rstrip("/")
        self._doc = doc
        self._binary = binary
        self._details = "$details" if details else ""
        self._short = short and not doc

    def render_entity(self, node: EntityNode, path: ResponsePath = "") -> JSONObject:
        """Render an entity with everything that its node holds. ``path`` is its position in the response.

        Inlined parts of the Registry's configuration are added by the caller.
        """
        return _RENDER[node.xid.kind](self, node, path)

    def render_collections(self, node: EntityNode, path: ResponsePath = "") -> JSONObject:
        """Render only the inlined collections of ``node`` (R177)."""
        return {name: self._render_map(members, f"{path}/{name}") for name, members in node.collections.items()}

    def render_meta(self, resource: EntityNode, path: ResponsePath = "") -> JSONObject:
        """Render the meta of a Resource (R56).

        Of a cross reference this is the meta of its target. In document view it is only the reference.
        """
        resource_type, xid, shown_row = self._find_type(resource.xid), resource.xid / "meta", resource.shown
        values: JSONObject = {
            f"{resource_type.singular}id": resource.xid.id,
            "self": self._build_relative_url(path) if self._doc else self._build_url(xid),
            **self._render_shortself(resource, "/meta"),
            "xid": str(xid),
        }
        if resource.row.xref is not None:
            values["xref"] = str(resource.row.xref)
        if shown_row is None or (self._doc and resource.row.xref is not None):
            return values
        values |= {"epoch": shown_row.epoch, "readonly": False, **shown_row.attributes, **_render_times(shown_row)}
        values["defaultversionid"] = shown_row.defaultversionid
        values["defaultversionurl"] = self._build_default_url(resource, shown_row, resource_type, path)
        values["defaultversionsticky"] = shown_row.defaultversionsticky
        return _sort_attributes(values, resource_type.metaattributes)

    def _build_default_url(self, resource: EntityNode, shown_row: Row, type: ResourceType, path: ResponsePath) -> str:
        """Return the URL of the default Version, relative if the response contains that Version (R233)."""
        version = shown_row.defaultversionid or ""
        if self._doc and version in resource.collections.get("versions", {}):
            return self._build_relative_url(path.removesuffix("/meta") + make_pointer("versions", version))
        return self._build_url(resource.xid / "versions" / version, type)

    def _render_registry(self, node: EntityNode, path: ResponsePath) -> JSONObject:
        values = {"specversion": SPECVERSION, **self._render_common(node, path), **node.row.attributes}
        return _sort_attributes(values, self._model.attributes) | self._render_members(node, self._model.groups, path)

    def _render_group(self, node: EntityNode, path: ResponsePath) -> JSONObject:
        group_type = self._model.groups[node.xid.group_type]
        values = {f"{group_type.singular}id": node.xid.id, **self._render_common(node, path), **node.row.attributes}
        return _sort_attributes(values, group_type.attributes) | self._render_members(node, group_type.resources, path)

    def _render_resource(self, node: EntityNode, path: ResponsePath) -> JSONObject:
        resource_type = self._find_type(node.xid)
        values: JSONObject = {
            f"{resource_type.singular}id": node.xid.id,
            **self._render_identity(node, path, resource_type),
        }
        if node.default is not None and not self._doc:
            values |= self._render_version_values(node.default, resource_type, node.content) | {"isdefault": True}
            values = _sort_attributes(values, resource_type.attributes)
        inside = self._doc and node.meta
        values["metaurl"] = self._build_relative_url(f"{path}/meta") if inside else self._build_url(node.xid / "meta")
        if node.meta:
            values["meta"] = self.render_meta(node, f"{path}/meta")
        return values if node.shown is None else values | self._render_members(node, ("versions",), path)

    def _render_version(self, node: EntityNode, path: ResponsePath) -> JSONObject:
        resource_type = self._find_type(node.xid)
        values = {
            f"{resource_type.singular}id": node.xid.resource_id,
            **self._render_identity(node, path, resource_type),
            **self._render_version_values(node.row, resource_type, node.content),
            "isdefault": node.shown is not None and node.shown.defaultversionid == node.xid.id,
        }
        return _sort_attributes(values, resource_type.attributes)

    def _render_version_values(self, row: Row, type: ResourceType, content: bytes | None) -> JSONObject:
        values = {"versionid": row.xid.id, "epoch": row.epoch, **row.attributes, **_render_times(row)}
        values["ancestorid"] = row.ancestorid
        if self._doc:
            for name in _VALIDATION:
                values.pop(name, None)
        if content is not None:
            name, value = render_document(content, values.get("contenttype"), type, binary=self._binary)
            values[name] = value
        return values

    def _render_common(self, node: EntityNode, path: ResponsePath) -> JSONObject:
        return {**self._render_identity(node, path), "epoch": node.row.epoch, **_render_times(node.row)}

    def _render_identity(self, node: EntityNode, path: ResponsePath, type: ResourceType | None = None) -> JSONObject:
        url = self._build_relative_url(path) if self._doc else self._build_url(node.xid, type)
        return {"self": url, **self._render_shortself(node), "xid": str(node.xid)}

    def _render_shortself(self, node: EntityNode, below: str = "") -> JSONObject:
        """Return ``shortself`` with the shorter one of the entity's two paths, or nothing if short URLs are off.

        Neither path changes while the entity exists (R32).
        """
        if not self._short:
            return {}
        full, short = f"{node.xid}{below}", f"{short_path(node.row.key)}{below}"
        if node.through is not None:
            short = f"{short_path(node.through)}/versions/{node.xid.id}"
        return {"shortself": self._base + min(full, short, key=len)}

    def _render_members(self, node: EntityNode, plurals: Iterable[str], path: ResponsePath) -> JSONObject:
        """Render the URL, the count and, if inlined, the members of each collection (R48, R49)."""
        values: JSONObject = {}
        for plural in plurals:
            members = node.collections.get(plural)
            if self._doc and members is not None:
                url = self._build_relative_url(f"{path}/{plural}")
            else:
                url = self._build_url(node.xid / plural) + _query(node, plural)
            values[f"{plural}url"] = url
            values[f"{plural}count"] = node.counts.get(plural, 0)
            if members is not None:
                values[plural] = self._render_map(members, f"{path}/{plural}")
        return values

    def _render_map(self, members: Mapping[str, EntityNode], path: ResponsePath) -> JSONObject:
        return {name: self.render_entity(member, path + make_pointer(name)) for name, member in members.items()}

    def _build_url(self, xid: Xid, type: ResourceType | None = None) -> str:
        """Return the absolute URL of an entity. It ends in ``$details`` if the ``type`` has documents (R29)."""
        return f"{self._base}{xid}{self._details if type and type.hasdocument else ''}"

    @staticmethod
    def _build_relative_url(path: ResponsePath) -> str:
        return f"#{path or '/'}"

    def _find_type(self, xid: Xid) -> ResourceType:
        return self._model.groups[xid.group_type].resources[xid.resource_type]


_RENDER: Final[dict[Kind, Callable[[Renderer, EntityNode, ResponsePath], JSONObject]]] = {
    Kind.REGISTRY: Renderer._render_registry,
    Kind.GROUP: Renderer._render_group,
    Kind.RESOURCE: Renderer._render_resource,
    Kind.VERSION: Renderer._render_version,
}


def render_document(content: bytes, contenttype: JSON, type: ResourceType, *, binary: bool = False) -> tuple[str, JSON]:
    """Return the name and value of the attribute that shows a document in JSON (R249).

    A document that cannot be shown as JSON or text is base64.
    """
    encoding = "binary" if binary or not content or not isinstance(contenttype, str) else type.type_of(contenttype)
    try:
        if encoding == "json":
            value = parse_untrusted_json(content)
            if value is not None:  # a null would read back as "no document" (R246)
                return type.singular, value
        if encoding == "string":
            return type.singular, content.decode("utf-8")
    except (JSONError, UnicodeDecodeError):
        pass
    return f"{type.singular}base64", base64.b64encode(content).decode("ascii")


def _query(node: EntityNode, plural: str) -> str:
    """Return the query for a collection's URL that selects the members that the filter leaves (R193, R194)."""
    if node.remainder is None:
        return ""
    return node.remainder.queries.get(plural, "") if node.counts.get(plural) else EXCLUDE_ALL


def _render_times(row: Row) -> JSONObject:
    return {"createdat": format_timestamp(row.createdat), "modifiedat": format_timestamp(row.modifiedat)}


def _sort_attributes(values: JSONObject, order: Iterable[str]) -> JSONObject:
    """Return ``values`` in the order ``order``, followed by the values that ``order`` does not list."""
    return {name: values[name] for name in order if name in values} | values


def make_pointer(*steps: str) -> ResponsePath:
    """Return the JSON Pointer of ``steps`` (RFC6901). In names and ids only the tilde needs escaping."""
    return "".join(f"/{step.replace('~', '~0')}" for step in steps)


_NODES_AT_ONCE: Final = 64
_BATCH_BYTES: Final = 600_000
"""The budget of one batch, in the units of ``ResponseBudget``: 2000 entities without their documents."""
_UNLIMITED: Final = 1 << 62

Piece = Iterator[bytes]
Complete = Callable[[JSONObject], JSONObject]


class StreamedRendering:
    """A renderer of nodes and their inlined collections as JSON text in pieces, for one response."""

    def __init__(self, reader: Reader, model: Model, renderer: Renderer, *, doc: bool) -> None:
        self._reader = reader
        self._model = model
        self._renderer = renderer
        self._doc = doc

    def stream_entity(self, node: EntityNode, inline: Inline, complete: Complete, path: ResponsePath = "") -> Piece:
        """Stream the Registry, a Group or a Resource.

        ``complete`` returns the attributes of that entity with additions.
        """
        plurals = self._fill_shallow(node, inline)
        attributes = complete(self._renderer.render_entity(node, path))
        return _write_object(
            attributes, {plural: self._stream_collection(node, plural, inline, path) for plural in plurals}
        )

    def stream_collections(self, node: EntityNode, inline: Inline) -> Piece:
        """Stream only the inlined collections of the Registry or a Group (R177)."""
        plurals = self._fill_shallow(node, inline)
        collections = self._renderer.render_collections(node)
        return _write_object(
            collections, {plural: self._stream_collection(node, plural, inline, "") for plural in plurals}
        )

    def stream_members(self, nodes: Iterable[EntityNode], inline: Inline, path: ResponsePath = "") -> Piece:
        """Stream a collection. ``nodes`` are its members by id, all of one type."""
        separator = b"{"
        for batch in batched(nodes, _NODES_AT_ONCE):
            for node, content in self._stream_batch(batch, inline, path):
                yield separator + dump_json(node.xid.id) + b":"
                yield from content
                separator = b","
        yield b"{}" if separator == b"{" else b"}"

    def _stream_batch(
        self, nodes: list[EntityNode], inline: Inline, path: ResponsePath
    ) -> Iterator[tuple[EntityNode, Iterable[bytes]]]:
        try:
            self._make_loader(_BATCH_BYTES).fill(nodes, inline)
        except RegistryError as error:
            if error.code != "too_large":
                raise
            for node in nodes:
                yield node, self._stream_alone(_copy_unfilled(node), inline, path + make_pointer(node.xid.id))
        else:
            for node in nodes:
                yield node, (dump_json(self._renderer.render_entity(node, path + make_pointer(node.xid.id))),)

    def _stream_alone(self, node: EntityNode, inline: Inline, path: ResponsePath) -> Piece:
        """Stream a member of a batch that did not fit in memory.

        A Version is rendered at once, because it has no members.
        """
        if node.xid.kind is not Kind.VERSION:
            return self.stream_entity(node, inline, lambda attributes: attributes, path)
        self._make_loader(_UNLIMITED).fill([node], inline)
        return iter((dump_json(self._renderer.render_entity(node, path)),))

    def _fill_shallow(self, node: EntityNode, inline: Inline) -> tuple[str, ...]:
        """Load everything for ``node`` except its inlined collections, which stay empty. Returns the names of these."""
        leaves = {name: NOTHING for name in self._list_leaves(node) if name in inline}
        self._make_loader(_UNLIMITED).fill([node], Inline(names=leaves))
        plurals = tuple(plural for plural in self._list_plurals(node) if plural in inline)
        node.collections = {plural: {} for plural in plurals}
        # Versions are loaded later, but the meta is written before them and contains the position of the default
        # Version.
        if node.shown is not None and "versions" in plurals:
            self._add_default(node)
        return plurals

    def _add_default(self, node: EntityNode) -> None:
        """Add the default Version to ``node``, because document view must know whether the response
        contains it (R233).
        """
        shown_row = node.shown
        assert shown_row is not None
        default = self._reader.get(shown_row.default_version)
        if default is not None and (node.remainder is None or node.remainder.contains("versions", default.key)):
            node.collections["versions"] = {default.xid.id: make_version_node(node.row, shown_row, default)}

    def _list_plurals(self, node: EntityNode) -> Iterable[str]:
        match node.xid.kind:
            case Kind.REGISTRY:
                return self._model.groups
            case Kind.GROUP:
                return self._model.groups[node.xid.group_type].resources
            case _:
                return () if node.shown is None else ("versions",)

    def _list_leaves(self, node: EntityNode) -> Iterable[str]:
        """Return the names that can be inlined in the entity itself, other than collections."""
        if node.xid.kind is not Kind.RESOURCE:
            return ()
        return ("meta", self._model.groups[node.xid.group_type].resources[node.xid.resource_type].singular)

    def _stream_collection(self, owner: EntityNode, plural: str, inline: Inline, path: ResponsePath) -> Piece:
        rows = list_member_rows(self._reader, [((owner.shown or owner.row).key, owner)], plural)
        nodes = (make_member_node(owner, row, plural) for row in rows)
        return self.stream_members(nodes, inline.select(plural), path + make_pointer(plural))

    def _make_loader(self, budget: int) -> NodeLoader:
        return NodeLoader(self._reader, self._model, ResponseBudget(budget, ""), doc=self._doc)


def _write_object(attributes: JSONObject, collections: Mapping[str, Piece]) -> Piece:
    """Yield the text of ``attributes``, with the text of each collection in ``collections`` instead of its value."""
    separator = b"{"
    for name, value in attributes.items():
        yield separator + dump_json(name) + b":"
        yield from collections.get(name) or (dump_json(value),)
        separator = b","
    yield b"{}" if separator == b"{" else b"}"


def _copy_unfilled(node: EntityNode) -> EntityNode:
    """Return a copy of ``node`` without loaded data."""
    shown_row = node.shown if node.xid.kind is Kind.VERSION else None
    return EntityNode(xid=node.xid, row=node.row, shown=shown_row, remainder=node.remainder, through=node.through)
