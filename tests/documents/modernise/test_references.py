import pytest

from signalbook.documents.entityrepairs import make_legal_id, modernise_reference
from signalbook.xid import check_id


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("#/definitionGroups/g/definitions/d", "/messagegroups/g/messages/d"),  # I-6
        ("#/schemagroups/g/schemas/s/versions/1", "/schemagroups/g/schemas/s/versions/1"),  # I-3
        ("/schemaGroups/g/schema/s/version/3", "/schemagroups/g/schemas/s/versions/3"),  # L-5
        (
            "/schemagroups/g/schemas/web hooks#/definitions/a~1b/version",
            "/schemagroups/g/schemas/web_hooks#/definitions/a~1b/version",
        ),
        ("#/schemaGroups/g/schema/s#/definitions/x", "/schemagroups/g/schemas/s#/definitions/x"),
        ("#/messagegroups/a~1b", "/messagegroups/a_b"),
        ("/messagegroups/g/messages/myMessage definition", "/messagegroups/g/messages/myMessage_definition"),  # L-4
        ("https://example.com/definitionGroups/g", "https://example.com/definitionGroups/g"),
        ("book.cereg#/messagegroups/g", "book.cereg#/messagegroups/g"),
        ("#/properties/x", "#/properties/x"),
        ("#", "#"),
        ("/", "/"),
        ("", ""),
    ],
)
def test_references(text: str, expected: str) -> None:
    assert modernise_reference(text) == expected


@pytest.mark.parametrize(
    ("id", "expected"),
    [
        ("sound.id", "sound.id"),
        ("myMessage definition", "myMessage_definition"),  # L-4
        ("[email protected]", "_email_protected_"),  # L-11
        (".hidden", "_.hidden"),
        ("", "_"),
        ("é", "_"),
        ("a" * 200, "a" * 128),
    ],
)
def test_ids(id: str, expected: str) -> None:
    assert make_legal_id(id) == check_id(expected) == expected
