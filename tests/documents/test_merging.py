"""Documents of a folder as one."""

from __future__ import annotations

import pytest

from signalbook.documents import DocumentError, SourceDocument, merge
from signalbook.values import JSON


def merged(*documents: JSON) -> SourceDocument:
    sources = [SourceDocument(name=f"{number}.json", document=document) for number, document in enumerate(documents)]
    return merge(sources, name="books")


@pytest.mark.parametrize(
    ("documents", "expected"),
    [
        ([{"dirs": {"a": {}}}, {"dirs": {"b": {}}, "name": "n"}], {"dirs": {"a": {}, "b": {}}, "name": "n"}),
        (
            [{"xid": "/dirs/a", "icon": "i"}, {"xid": "/dirs/a/files/f", "meta": {}}],
            {"dirs": {"a": {"xid": "/dirs/a", "icon": "i", "files": {"f": {"xid": "/dirs/a/files/f", "meta": {}}}}}},
        ),
        (
            [{"f": {"xid": "/dirs/a/files/f"}}, {"xid": "/dirs/a/files/f/versions/1"}],
            {"dirs": {"a": {"files": {"f": {"xid": "/dirs/a/files/f",
                                            "versions": {"1": {"xid": "/dirs/a/files/f/versions/1"}}}}}}},
        ),
        (
            [{"groups": {"a": {"singular": "x"}}}, {"groups": {"b": {"singular": "y"}}, "description": "d"}],
            {"modelsource": {"groups": {"a": {"singular": "x"}, "b": {"singular": "y"}}, "description": "d"}},
        ),
        ([{"dirs": {"a": {"icon": "i"}}}, {"dirs": {"a": {"icon": "i"}}}], {"dirs": {"a": {"icon": "i"}}}),
        ([{"dirs": {"a": {}}}, {"dirs": {}}], {"dirs": {"a": {}}}),
    ],
)  # fmt: skip
def test_each_in_its_place(documents: list[JSON], expected: JSON) -> None:
    found = merged(*documents)
    assert found.document == expected
    assert (found.name, len(found.parts)) == (f"books ({len(documents)} documents)", len(documents))


@pytest.mark.parametrize(
    ("one", "other", "message"),
    [
        ({"name": "a"}, {"name": "b"}, "0.json and 1.json do not agree on /#name"),
        ({"dirs": {"d": {"icon": "a"}}}, {"xid": "/dirs/d", "icon": "b"}, "do not agree on /dirs/d#icon"),
        ({"groups": {"a": {"singular": "x"}}}, {"groups": {"a": {"singular": "y"}}}, "on /modelsource/groups#a"),
        ({"dirs": {"d": {"labels": {"a": "1"}}}}, {"dirs": {"d": {"labels": {"b": "1"}}}}, "on /dirs/d#labels"),
        ({}, [], "1.json: a registry document is a JSON object"),
    ],
)
def test_what_they_do_not_agree_on(one: JSON, other: JSON, message: str) -> None:
    with pytest.raises(DocumentError) as caught:
        merged(one, other)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("xid", "names"),
    [
        ("/dirs/a", ["0.json"]),
        ("/dirs/a/files/g#name", ["0.json"]),
        ("/dirs/a/files/f/versions/1", ["0.json", "1.json"]),
        ("/dirs/c", []),
        ("/", []),
    ],
)
def test_which_speak_of_an_entity(xid: str, names: list[str]) -> None:
    book = merged({"dirs": {"a": {}, "b": {}}}, {"xid": "/dirs/a/files/f"})
    assert book.naming([xid]) == names
