"""The value of any attribute of an entity, as a client would see it in API view, without rendering all of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from typing import Final

from signalbook.engine.comparing import Value, as_instant
from signalbook.engine.definitions import is_made
from signalbook.engine.dotpath import Steps, Wild, find_values
from signalbook.engine.filters import FilterExpression
from signalbook.engine.view_render import Renderer
from signalbook.engine.view_tree import EntityNode
from signalbook.model import Model
from signalbook.storage.base import Row
from signalbook.values import JSONObject
from signalbook.xid import Kind

_COLUMNS: Final[dict[str, Callable[[Row], Value]]] = {
    "epoch": lambda row: row.epoch,
    "createdat": lambda row: row.createdat,
    "modifiedat": lambda row: row.modifiedat,
}
"""What is the same in a row and in what is shown of it."""


class AttributeLookup:
    """Finds attributes of nodes that have their rows, and their counts where these are asked for."""

    def __init__(self, model: Model, base_url: str) -> None:
        self.model = model
        self._renderer = Renderer(model, base_url, doc=False, binary=False)
        self._made = cache(partial(is_made, model))

    def values(self, node: EntityNode, steps: Steps, *, timestamp: bool) -> Iterator[Value]:
        """All values at ``steps`` (R189), timestamps as instants if it is known that they are some."""
        found = self._found(node, steps)
        return map(as_instant, found) if timestamp else found

    def accepts(self, node: EntityNode, expression: FilterExpression) -> bool:
        """Whether the entity that ``expression`` is about passes it."""
        return expression.accepts(self.values(node, expression.steps, timestamp=expression.timestamp))

    def _found(self, node: EntityNode, steps: Steps) -> Iterator[Value]:
        first, *rest = steps
        if first is Wild.KEY:
            return find_values(self._whole(node), steps)
        if not isinstance(first, str):
            return iter(())
        if first == "meta" and node.xid.kind is Kind.RESOURCE:
            return find_values(self._renderer.meta(node), rest)
        return find_values(self._attribute(node, first), rest)

    def _whole(self, node: EntityNode) -> JSONObject:
        shown = self._renderer.entity(node)
        return {**shown, "meta": self._renderer.meta(node)} if node.xid.kind is Kind.RESOURCE else shown

    def _attribute(self, node: EntityNode, name: str) -> Value:
        row = node.default if node.xid.kind is Kind.RESOURCE else node.row
        if row is not None:
            if name in row.attributes:
                return row.attributes[name]
            if name in _COLUMNS:
                return _COLUMNS[name](row)
            if name == "isdefault" and node.xid.kind is Kind.VERSION:
                return node.shown is not None and node.shown.defaultversionid == row.xid.id
        return self._renderer.entity(node).get(name) if self._made(node.xid.parts[0::2], (name,)) else None


@dataclass(frozen=True, slots=True)
class LoadedMember:
    """An entity whose node is there already, among others that are not."""

    node: EntityNode
    lookup: AttributeLookup

    @property
    def folded(self) -> str:
        """The folded id."""
        return self.node.folded

    def values(self, steps: Steps, *, timestamp: bool) -> Iterator[Value]:
        """As ``AttributeLookup.values``."""
        return self.lookup.values(self.node, steps, timestamp=timestamp)
