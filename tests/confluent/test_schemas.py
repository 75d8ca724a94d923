"""What makes a content of a schema, and the names it has."""

from typing import Any
from uuid import UUID

import pytest

from signalbook.confluent.schemas import compute_content_key, content_beginning, guid, schema_type


@pytest.mark.parametrize(
    ("stated", "expected"),
    [
        ("Avro/1.11", "AVRO"),
        ("avro", "AVRO"),
        ("JsonSchema/draft-07", "JSON"),
        ("PROTOBUF/3", "PROTOBUF"),
        ("XSD/1.0", None),
        ("", None),
        (5, None),
        (None, None),
    ],
)
def test_types(stated: Any, expected: str | None) -> None:
    assert schema_type({"format": stated}) == expected
    assert (compute_content_key({"format": stated}, "d") is None) is (expected is None)


def test_equal_contents_have_equal_keys() -> None:
    key = compute_content_key({"format": "Avro/1.11", "metadata": {"a": 1, "b": 2}}, "d")
    assert key == compute_content_key({"metadata": {"b": 2, "a": 1}, "format": "Avro/1.9", "name": "n"}, "d")
    assert key != compute_content_key({"format": "JsonSchema", "metadata": {"a": 1, "b": 2}}, "d")
    assert compute_content_key({"format": "Avro/1.11"}, None) is None


def test_a_guid_leads_to_the_content() -> None:
    key = compute_content_key({"format": "Avro/1.11"}, "d")
    assert key is not None
    assert UUID(guid(key)).hex == key[:32] == content_beginning(guid(key).upper())
    assert content_beginning("no uuid") is None
