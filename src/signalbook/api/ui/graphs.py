"""Layered graphs as values: boxes in columns and curves between them, which a template writes as SVG.

The columns are given, so the layout only orders the boxes in each column. A box is placed at the mean row of the boxes
that it is linked to in the neighbouring column. Columns are ordered repeatedly until their order is stable, for a
limited number of sweeps (docs/decisions/147-explorer.md).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

BOX_WIDTH: Final = 168
BOX_HEIGHT: Final = 40
_GAP: Final = 64
_ROW: Final = 54
_MARGIN: Final = 12
_SWEEPS: Final = 6
_CENTRED: Final = 900
"""The height up to which columns are centred. In a taller graph, centred boxes would be out of sight."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphNode:
    """A box: its column, its two lines of text, and its link, if any."""

    id: str
    column: int
    kind: str
    label: str
    title: str
    href: str = ""
    mark: str = ""
    """An additional CSS class that changes the look of the box."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphBox:
    """A box with its position in the graph."""

    node: GraphNode
    x: int
    y: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphCurve:
    """An arrow: its path, and its label."""

    path: str
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LayeredGraph:
    """A graph with the positions of all its parts."""

    width: int
    height: int
    box_width: int
    box_height: int
    boxes: tuple[GraphBox, ...]
    curves: tuple[GraphCurve, ...]


def build_layered_graph(nodes: Sequence[GraphNode], links: Collection[tuple[str, str, str]]) -> LayeredGraph:
    """Return the layout of ``nodes`` in their columns, with an arrow for each of ``links``: (source, target, label)."""
    columns = _order_columns(nodes, {(source, target) for source, target, _ in links})
    tallest = max(len(column) for column in columns)
    height = tallest * _ROW - (_ROW - BOX_HEIGHT) + 2 * _MARGIN
    boxes: dict[str, GraphBox] = {}
    for place, column in enumerate(columns):
        free = (tallest - len(column)) * _ROW // 2 if height <= _CENTRED else 0
        for row, node in enumerate(column):
            x, y = _MARGIN + place * (BOX_WIDTH + _GAP), _MARGIN + free + row * _ROW
            boxes[node.id] = GraphBox(node=node, x=x, y=y)
    texts_by_link: dict[tuple[str, str], list[str]] = defaultdict(list)
    for source, target, text in links:
        texts_by_link[source, target].append(text)
    return LayeredGraph(
        width=len(columns) * (BOX_WIDTH + _GAP) - _GAP + 2 * _MARGIN,
        height=height,
        box_width=BOX_WIDTH,
        box_height=BOX_HEIGHT,
        boxes=tuple(boxes.values()),
        curves=tuple(
            GraphCurve(path=_build_curve(boxes[source], boxes[target]), title=", ".join(sorted(set(texts))))
            for (source, target), texts in texts_by_link.items()
        ),
    )


def _order_columns(nodes: Sequence[GraphNode], links: Collection[tuple[str, str]]) -> list[list[GraphNode]]:
    """Return the nodes by column from left to right, each column in an order in which few links cross."""
    by_column: dict[int, list[GraphNode]] = defaultdict(list)
    for node in nodes:
        by_column[node.column].append(node)
    columns = [by_column[column] for column in sorted(by_column)]
    near: dict[str, set[str]] = defaultdict(set)
    for source, target in links:
        near[source].add(target)
        near[target].add(source)
    for sweep in range(_SWEEPS):
        # To the right and back again: each column is ordered by the one that was ordered before it.
        ways = range(1, len(columns)) if sweep % 2 == 0 else range(len(columns) - 2, -1, -1)
        before = [[node.id for node in column] for column in columns]
        for place in ways:
            beside = columns[place - 1 if sweep % 2 == 0 else place + 1]
            columns[place] = _order_column(columns[place], {node.id: row for row, node in enumerate(beside)}, near)
        if sweep and before == [[node.id for node in column] for column in columns]:
            break
    return columns


def _order_column(
    column: Sequence[GraphNode], beside: Mapping[str, int], near: Mapping[str, Collection[str]]
) -> list[GraphNode]:
    """Order by the mean row of linked nodes in the column ``beside``. Nodes without links keep their rows."""

    def find_middle(row: int, node: GraphNode) -> float:
        rows = [beside[neighbour] for neighbour in near.get(node.id, ()) if neighbour in beside]
        return sum(rows) / len(rows) if rows else float(row)

    places = {node.id: (find_middle(row, node), row) for row, node in enumerate(column)}
    return sorted(column, key=lambda node: places[node.id])


def _build_curve(source: GraphBox, target: GraphBox) -> str:
    """Return a curve from the right side of a box to the left side of another, or to its right side."""
    forward = target.x > source.x
    x1, y1 = source.x + BOX_WIDTH, source.y + BOX_HEIGHT // 2
    x2, y2 = target.x if forward else target.x + BOX_WIDTH, target.y + BOX_HEIGHT // 2
    bend = _GAP // 2
    return f"M{x1} {y1}C{x1 + bend} {y1} {x2 - bend if forward else x2 + bend} {y2} {x2} {y2}"
