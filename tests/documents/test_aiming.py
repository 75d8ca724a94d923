"""What a document is about."""

from __future__ import annotations

import pytest

from signalbook.documents import DocumentError, Upload, aim, extend_model
from signalbook.values import JSON
from signalbook.xid import ROOT, Xid

GROUP_TYPES = {"groups": {"dirs": {"singular": "dir"}}}


@pytest.mark.parametrize(
    ("document", "target", "ignore"),
    [
        ({}, "/", ("epoch",)),
        ({"dirs": {"d": {}}}, "/", ("epoch",)),
        ({"name": "n", "dirs": {}}, "/", ("epoch",)),
        ({"registryid": "r", "xid": "/", "dirs": {}}, "/", ("epoch", "id")),
        ({"dirid": "d", "xid": "/dirs/d"}, "/dirs/d", ("epoch",)),
        ({"xid": "/dirs/d/files/f/versions/1"}, "/dirs/d/files/f/versions/1", ("epoch",)),
        ({"d": {"xid": "/dirs/d"}, "e": {"xid": "/dirs/e"}}, "/dirs", ("epoch",)),
        ({"1": {"xid": "/dirs/d/files/f/versions/1"}}, "/dirs/d/files/f/versions", ("epoch",)),
        ({"d": {"xid": "/dirs/d"}, "e": {"xid": "/books/e"}}, "/", ("epoch",)),
        ({"d": {"xid": "/dirs/d"}, "e": {}}, "/", ("epoch",)),
        ({"groups": {"g": {"description": "a Group of a type that is called groups"}}}, "/", ("epoch",)),
    ],
)
def test_where_a_document_belongs(document: JSON, target: str, ignore: tuple[str, ...]) -> None:
    assert aim(document) == Upload(target=Xid.parse(target), body=document, ignore=ignore)


@pytest.mark.parametrize("extra", [{}, {"$schema": "x"}, {"attributes": {}, "description": "d"}])
def test_a_model(extra: JSON) -> None:
    assert aim({**GROUP_TYPES, **extra}).body == {"modelsource": {**GROUP_TYPES, **extra}}


@pytest.mark.parametrize("document", [None, 1, "x", [], {"xid": "dirs"}, {"d": {"xid": "nope"}}])
def test_what_is_no_document(document: JSON) -> None:
    with pytest.raises(DocumentError):
        aim(document)


def extended(given: JSON, current: JSON) -> JSON:
    return extend_model(Upload(target=ROOT, body={"modelsource": given, "name": "n"}), current).body.get("modelsource")


def test_a_model_extends_the_one_there() -> None:
    current = {"groups": {"dirs": {"singular": "dir"}, "books": {"singular": "book"}}, "attributes": {"a": 1}}
    given = {"groups": {"dirs": {"singular": "folder"}}, "description": "d"}
    groups = {"dirs": {"singular": "folder"}, "books": {"singular": "book"}}
    assert extended(given, current) == {"groups": groups, "attributes": {"a": 1}, "description": "d"}


@pytest.mark.parametrize("given", [{}, GROUP_TYPES, {"groups": {}}])
def test_a_model_that_adds_nothing_is_not_sent(given: JSON) -> None:
    assert extended(given, GROUP_TYPES) is None


def test_what_is_no_model_is_left_to_the_registry() -> None:
    assert extended("nonsense", GROUP_TYPES) == "nonsense"
