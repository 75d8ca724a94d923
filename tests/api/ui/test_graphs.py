"""Layered graphs: each node in its column, no box over another, few crossings."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signalbook.api.ui.graphs import (
    BOX_HEIGHT,
    BOX_WIDTH,
    GraphNode,
    LayeredGraph,
    add_passages,
    build_layered_graph,
    cut_middle,
)

LINKS = st.sets(st.tuples(st.integers(0, 19), st.integers(0, 19)), max_size=40)


def node(id: str, column: int) -> GraphNode:
    return GraphNode(id=id, column=column, kind="schema", label=id, title=id)


def rows(graph: LayeredGraph) -> dict[str, int]:
    return {box.node.id: box.y for box in graph.boxes}


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=20), LINKS)
def test_boxes_are_apart_and_inside(columns: list[int], links: set[tuple[int, int]]) -> None:
    nodes = [node(str(at), column) for at, column in enumerate(columns)]
    joined = {(str(a), str(b), "x") for a, b in links if a < len(nodes) and b < len(nodes)}
    graph = build_layered_graph(nodes, joined)
    assert {box.node.id for box in graph.boxes} == {node_.id for node_ in nodes}
    assert len(graph.curves) == len(joined)
    places = [(box.x, box.y) for box in graph.boxes]
    for at, (x, y) in enumerate(places):
        assert 0 < x < x + BOX_WIDTH < graph.width
        assert 0 < y < y + BOX_HEIGHT < graph.height
        assert all(abs(x - a) > BOX_WIDTH or abs(y - b) > BOX_HEIGHT for a, b in places[at + 1 :])
    order = {box.node.id: box.x for box in graph.boxes}
    assert all(order[a.id] < order[b.id] for a in nodes for b in nodes if a.column < b.column)


def test_nodes_are_ordered_by_their_neighbours() -> None:
    nodes = [node(name, column) for column, names in enumerate(("abcd", "hgfe")) for name in names]
    at = rows(build_layered_graph(nodes, {("a", "e", ""), ("b", "f", ""), ("c", "g", ""), ("d", "h", "")}))
    assert sorted("efgh", key=at.__getitem__) == ["e", "f", "g", "h"]
    assert [at[a] for a in "abcd"] == [at[b] for b in "efgh"]


def test_several_links_are_one_arrow() -> None:
    graph = build_layered_graph(
        [node("a", 0), node("b", 1)], [("a", "b", "schema"), ("a", "b", "references"), ("b", "a", "xref")]
    )
    assert [curve.title for curve in graph.curves] == ["references, schema", "xref"]


def test_a_tall_column_begins_where_the_others_do() -> None:
    nodes = [node("middle", 0), *(node(str(at), 1) for at in range(60))]
    at = rows(build_layered_graph(nodes, ()))
    assert at["middle"] == min(at.values())
    few = rows(build_layered_graph(nodes[:4], ()))
    assert few["middle"] == few["1"]


def test_arrow_through_several_columns_does_not_run_behind_a_box() -> None:
    nodes = [node(name, column) for column, name in enumerate("abc")]
    links = [("a", "b", "x"), ("b", "c", "x"), ("a", "c", "long")]
    graph = build_layered_graph(*add_passages(nodes, links))
    assert [box.node.id for box in graph.boxes] == ["a", "b", "c"]
    assert [(curve.title, curve.tip) for curve in graph.curves] == [
        ("x", True),
        ("x", True),
        ("long", False),
        ("long", True),
    ]
    passage, box = graph.curves[2].path, graph.boxes[1]
    height = int(passage.split("h")[0].split()[-1])
    assert not box.y <= height <= box.y + BOX_HEIGHT


@pytest.mark.parametrize(
    ("text", "cut"), [("12345", "12345"), ("123456", "12…56"), ("order.was.placed", "or…ed"), ("", "")]
)
def test_long_text_is_cut_in_the_middle(text: str, cut: str) -> None:
    assert cut_middle(text, 5) == cut
