"""Trees of any size as JSON text, piece by piece in bounded memory: byte for byte what a view shows at once.

What fits is fetched and rendered together, a batch of siblings at a time, as in any other answer. Of an entity with
more beneath it than fits, the attributes come first and its collections after them, each in batches again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Final

from signalbook.engine.inline import NOTHING, Inline
from signalbook.engine.view_render import Renderer, ResponsePath, pointer
from signalbook.engine.view_tree import EntityNode, NodeLoader, ResponseBudget, member_node, member_rows, version_node
from signalbook.errors import RegistryError
from signalbook.model import Model
from signalbook.storage.base import Reader
from signalbook.values import JSONObject, dump_json
from signalbook.xid import Kind

_TOGETHER: Final = 64
_PIECE: Final = 600_000
"""What is fetched at once, as a ``Budget`` counts: 2000 entities without their documents."""
_UNLIMITED: Final = 1 << 62

Piece = Iterator[bytes]
Complete = Callable[[JSONObject], JSONObject]


class StreamedRendering:
    """Writes what nodes and their inlined collections look like. One for each response."""

    def __init__(self, reader: Reader, model: Model, renderer: Renderer, *, doc: bool) -> None:
        self._reader = reader
        self._model = model
        self._renderer = renderer
        self._doc = doc

    def entity(self, node: EntityNode, inline: Inline, complete: Complete, place: ResponsePath = "") -> Piece:
        """The Registry, a Group or a Resource; ``complete`` may add to what is shown of it alone."""
        plurals = self._shallow(node, inline)
        shown = complete(self._renderer.entity(node, place))
        return _object(shown, {plural: self._collection(node, plural, inline, place) for plural in plurals})

    def collections(self, node: EntityNode, inline: Inline) -> Piece:
        """The collections of the Registry or a Group alone (R177)."""
        plurals = self._shallow(node, inline)
        shown = self._renderer.collections(node)
        return _object(shown, {plural: self._collection(node, plural, inline, "") for plural in plurals})

    def members(self, nodes: Iterable[EntityNode], inline: Inline, place: ResponsePath = "") -> Piece:
        """A collection: ``nodes`` by id, all of one type."""
        separator, waiting = b"{", iter(nodes)
        while batch := list(islice(waiting, _TOGETHER)):
            for node, content in self._batch(batch, inline, place):
                yield separator + dump_json(node.xid.id) + b":"
                yield from content
                separator = b","
        yield b"{}" if separator == b"{" else b"}"

    def _batch(
        self, nodes: list[EntityNode], inline: Inline, place: ResponsePath
    ) -> Iterator[tuple[EntityNode, Iterable[bytes]]]:
        try:
            self._loader(_PIECE).fill(nodes, inline)
        except RegistryError as error:
            if error.code != "too_large":
                raise
            for node in nodes:
                yield node, self._alone(_fresh(node), inline, place + pointer(node.xid.id))
        else:
            for node in nodes:
                yield node, (dump_json(self._renderer.entity(node, place + pointer(node.xid.id))),)

    def _alone(self, node: EntityNode, inline: Inline, place: ResponsePath) -> Piece:
        """One of a batch that did not fit: in pieces of its own, but for a Version, which has none."""
        if node.xid.kind is not Kind.VERSION:
            return self.entity(node, inline, lambda shown: shown, place)
        self._loader(_UNLIMITED).fill([node], inline)
        return iter((dump_json(self._renderer.entity(node, place)),))

    def _shallow(self, node: EntityNode, inline: Inline) -> tuple[str, ...]:
        """Complete ``node`` but for its inlined collections, which are there, empty; returns their names."""
        own = {name: NOTHING for name in self._leaves(node) if name in inline}
        self._loader(_UNLIMITED).fill([node], Inline(names=own))
        plurals = tuple(plural for plural in self._plurals(node) if plural in inline)
        node.collections = {plural: {} for plural in plurals}
        if node.shown is not None and "versions" in plurals:
            self._name_default(node)
        return plurals

    def _name_default(self, node: EntityNode) -> None:
        """The default Version is in the response: document view needs to know (R233)."""
        shown = node.shown
        assert shown is not None
        default = self._reader.get(shown.xid / "versions" / (shown.defaultversionid or ""))
        if default is not None and (node.kept is None or node.kept.holds("versions", default.key)):
            node.collections["versions"] = {default.xid.id: version_node(node.xid, shown, default)}

    def _plurals(self, node: EntityNode) -> Iterable[str]:
        match node.xid.kind:
            case Kind.REGISTRY:
                return self._model.groups
            case Kind.GROUP:
                return self._model.groups[node.xid.group_type].resources
            case _:
                return () if node.shown is None else ("versions",)

    def _leaves(self, node: EntityNode) -> Iterable[str]:
        """What may be inlined in the entity itself."""
        if node.xid.kind is not Kind.RESOURCE:
            return ()
        return ("meta", self._model.groups[node.xid.group_type].resources[node.xid.resource_type].singular)

    def _collection(self, owner: EntityNode, plural: str, inline: Inline, place: ResponsePath) -> Piece:
        rows = member_rows(self._reader, [((owner.shown or owner.row).key, owner)], plural)
        nodes = (member_node(owner, row, plural) for row in rows)
        return self.members(nodes, inline.below(plural), place + pointer(plural))

    def _loader(self, budget: int) -> NodeLoader:
        return NodeLoader(self._reader, self._model, ResponseBudget(budget, ""), doc=self._doc)


def _object(shown: JSONObject, collections: Mapping[str, Piece]) -> Piece:
    """``shown`` with the text of ``collections`` in their places."""
    separator = b"{"
    for name, value in shown.items():
        yield separator + dump_json(name) + b":"
        yield from collections.get(name) or (dump_json(value),)
        separator = b","
    yield b"{}" if separator == b"{" else b"}"


def _fresh(node: EntityNode) -> EntityNode:
    """``node`` without what was fetched for it."""
    shown = node.shown if node.xid.kind is Kind.VERSION else None
    return EntityNode(xid=node.xid, row=node.row, shown=shown, kept=node.kept)
