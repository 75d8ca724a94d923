from typing import Any

import pytest

from signalbook.documents.messagecatalog import Shape, members, shape_of

_VERSION: Any = {"definition": {"pub": {}}}


@pytest.mark.parametrize(
    ("document", "shape"),
    [
        pytest.param({"specversion": "0.1", "groups": {"g": {"format": "NATS"}}}, Shape.ROOT, id="C-12 a map"),
        pytest.param({"groups": [{"id": "g", "format": "NATS"}]}, Shape.ROOT, id="C-12 a list"),
        pytest.param({"id": "g", "format": "NATS", "definitions": []}, Shape.GROUP, id="C-1"),
        pytest.param({"id": "d", "format": "NATS", "versions": [_VERSION]}, Shape.DEFINITION, id="C-9 (a)"),
        pytest.param({"id": "d", "versions": {"1": {"pub": {}}}}, Shape.DEFINITION, id="C-12 versions as a map"),
        pytest.param({"id": "d", **_VERSION}, Shape.VERSION, id="C-9 (b)"),
        pytest.param({"id": "d", "format": "CloudEvents", "attributes": {}}, Shape.VERSION, id="B-23"),
        pytest.param({"groups": {"g": {"singular": "x", "format": "y"}}}, None, id="a model"),
        pytest.param({"groups": {}}, None, id="nothing"),
        pytest.param({"schemagroups": {}, "id": "x", "format": "y"}, None, id="a registry"),
        pytest.param({"name": "left-pad", "version": "1.0"}, None, id="a package"),
        pytest.param({"id": "x", "versions": ["1"]}, None, id="no versions"),
        pytest.param([], None, id="a list of nothing"),
    ],
)
def test_shapes(document: Any, shape: Shape | None) -> None:
    """The shape of a document follows from its members (C-14)."""
    assert shape_of(document) is shape


def test_members_of_lists_and_maps() -> None:
    """Members of lists and maps are enumerated with their ids (C-12)."""
    assert list(members({"a": {"x": 1}, "b": 5})) == [("a", {"x": 1})]
    assert list(members([{"x": 1}, 5])) == [("", {"x": 1})]
    assert list(members("text")) == []
