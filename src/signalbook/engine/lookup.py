"""The value of any attribute of an entity, as a client would see it in API view, without rendering all of it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, partial
from typing import Final

from signalbook.engine.comparing import Value, as_instant
from signalbook.engine.definitions import is_made
from signalbook.engine.dotpath import Steps, Wild, find
from signalbook.engine.filters import Expression
from signalbook.engine.view_render import Renderer
from signalbook.engine.view_tree import Node
from signalbook.model import Model
from signalbook.storage.base import Row
from signalbook.values import JSON, JSONObject
from signalbook.xid import Kind

_TIMES: Final = ("createdat", "modifiedat")


class Lookup:
    """Finds attributes of nodes that have their rows, and their counts where these are asked for."""

    def __init__(self, model: Model, base_url: str) -> None:
        self.model = model
        self._renderer = Renderer(model, base_url, doc=False, binary=False)
        self._made = cache(partial(is_made, model))

    def values(self, node: Node, steps: Steps, *, timestamp: bool) -> Iterator[Value]:
        """All values at ``steps`` (R189), timestamps as instants if it is known that they are some."""
        found = self._found(node, steps)
        return map(as_instant, found) if timestamp else found

    def accepts(self, node: Node, expression: Expression) -> bool:
        """Whether the entity that ``expression`` is about passes it."""
        return expression.accepts(self.values(node, expression.steps, timestamp=expression.timestamp))

    def value(self, node: Node, steps: Steps, *, timestamp: bool) -> Value:
        """The value at ``steps``, None without one."""
        return next(self.values(node, steps, timestamp=timestamp), None)

    def _found(self, node: Node, steps: Steps) -> Iterator[Value]:
        first, *rest = steps
        if first is Wild.KEY:
            return find(self._whole(node), steps)
        if not isinstance(first, str):
            return iter(())
        if first == "meta" and node.xid.kind is Kind.RESOURCE:
            return find(self._renderer.meta(node), rest)
        return find(self._attribute(node, first), rest)

    def _whole(self, node: Node) -> JSONObject:
        shown = self._renderer.entity(node)
        return {**shown, "meta": self._renderer.meta(node)} if node.xid.kind is Kind.RESOURCE else shown

    def _attribute(self, node: Node, name: str) -> Value:
        row = node.default if node.xid.kind is Kind.RESOURCE else node.row
        if row is not None:
            if name in row.attributes:
                return row.attributes[name]
            if name in _TIMES or name == "epoch":
                return _column(row, name)
        return self._renderer.entity(node).get(name) if self._made(node.xid.parts[0::2], (name,)) else None


def _column(row: Row, name: str) -> JSON:
    return row.epoch if name == "epoch" else row.createdat if name == "createdat" else row.modifiedat
