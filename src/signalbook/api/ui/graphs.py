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
PASSAGE: Final = "passage"
"""The mark of a node that is drawn as a line: an arrow passes through its column between the boxes."""


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
    """An arrow: its path, and its label. Only the last part of an arrow through several columns has a tip."""

    path: str
    title: str
    tip: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class LayeredGraph:
    """A graph with the positions of all its parts."""

    width: int
    height: int
    box_width: int
    box_height: int
    boxes: tuple[GraphBox, ...]
    curves: tuple[GraphCurve, ...]


def cut_middle(text: str, length: int) -> str:
    """Return ``text`` with its middle left out if it is longer than ``length``, since names often differ at the end."""
    if len(text) <= length:
        return text
    head = length // 2
    return f"{text[:head]}…{text[head + 1 - length :]}"


def add_passages(
    nodes: Sequence[GraphNode], links: Collection[tuple[str, str, str]]
) -> tuple[list[GraphNode], list[tuple[str, str, str]]]:
    """Return nodes and links in which no arrow to the right skips a column, so that none runs behind a box.

    The arrows from one box share their passages.
    """
    column_of = {node.id: node.column for node in nodes}
    passages: dict[str, GraphNode] = {}
    parts: list[tuple[str, str, str]] = []
    for source, target, text in links:
        start = source
        for column in sorted(set(column_of.values())):
            if column_of[source] < column < column_of[target]:
                passage = f"{column} from {source}"
                node = GraphNode(id=passage, column=column, kind="", label="", title="", mark=PASSAGE)
                passages.setdefault(passage, node)
                parts.append((start, passage, text))
                start = passage
        parts.append((start, target, text))
    return [*nodes, *passages.values()], parts


def build_layered_graph(
    nodes: Sequence[GraphNode],
    links: Collection[tuple[str, str, str]],
    *,
    box_width: int = BOX_WIDTH,
    gap: int = _GAP,
) -> LayeredGraph:
    """Return the layout of ``nodes`` in their columns, with an arrow for each of ``links``: (source, target, label)."""
    columns = _order_columns(nodes, {(source, target) for source, target, _ in links})
    tallest = max(len(column) for column in columns)
    height = tallest * _ROW - (_ROW - BOX_HEIGHT) + 2 * _MARGIN
    boxes: dict[str, GraphBox] = {}
    for place, column in enumerate(columns):
        free = (tallest - len(column)) * _ROW // 2 if height <= _CENTRED else 0
        for row, node in enumerate(column):
            x, y = _MARGIN + place * (box_width + gap), _MARGIN + free + row * _ROW
            boxes[node.id] = GraphBox(node=node, x=x, y=y)
    texts_by_link: dict[tuple[str, str], list[str]] = defaultdict(list)
    for source, target, text in links:
        texts_by_link[source, target].append(text)
    return LayeredGraph(
        width=len(columns) * (box_width + gap) - gap + 2 * _MARGIN,
        height=height,
        box_width=box_width,
        box_height=BOX_HEIGHT,
        boxes=tuple(box for box in boxes.values() if box.node.mark != PASSAGE),
        curves=tuple(
            GraphCurve(
                path=_build_curve(boxes[source], boxes[target], box_width, gap),
                title=", ".join(sorted(set(texts))),
                tip=boxes[target].node.mark != PASSAGE,
            )
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


def _build_curve(source: GraphBox, target: GraphBox, box_width: int, gap: int) -> str:
    """Return a curve from the right side of a box to the left side of another, or to its right side.

    A curve to a passage goes through it.
    """
    forward = target.x > source.x
    x1, y1 = source.x + box_width, source.y + BOX_HEIGHT // 2
    x2, y2 = target.x if forward else target.x + box_width, target.y + BOX_HEIGHT // 2
    bend = gap // 2
    through = f"h{box_width}" if target.node.mark == PASSAGE else ""
    return f"M{x1} {y1}C{x1 + bend} {y1} {x2 - bend if forward else x2 + bend} {y2} {x2} {y2}{through}"
