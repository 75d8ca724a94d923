"""Which schema the payload has."""

from __future__ import annotations

from typing import Any

import pytest

from signalbook.cncf.messagecatalog.projection import project_message


@pytest.mark.parametrize(
    ("schema", "wanted"),
    [
        (
            {"value": "urn:x", "schematype": "JSON"},
            {"dataschemaformat": "JsonSchema/draft-07", "dataschemauri": "urn:x"},
        ),
        (
            {"schema": {"$schema": "https://json-schema.org/draft/2020-12/schema"}},
            {
                "dataschemaformat": "JsonSchema/draft/2020-12",
                "dataschema": {"$schema": "https://json-schema.org/draft/2020-12/schema"},
            },
        ),
        (
            {"value": "urn:x", "schema": {"type": "record"}},
            {"dataschemaformat": "Avro/1.11", "dataschema": {"type": "record"}},
        ),
        ({"schema": "<xs:schema/>"}, {"dataschemaformat": "XSD/1.0", "dataschema": "<xs:schema/>"}),
        ({"schema": "message A {}"}, {"dataschemaformat": "Protobuf/3", "dataschema": "message A {}"}),
        ({"value": "urn:x", "schematype": "XSD/1.1"}, {"dataschemaformat": "XSD/1.1", "dataschemauri": "urn:x"}),
        ({"value": "urn:x", "schematype": "ours"}, {}),
        ({"value": "urn:x"}, {}),
        ({"value": "urn:{x}", "schematype": "Avro"}, {}),
    ],
)
def test_data_schemas(schema: Any, wanted: Any) -> None:
    """C-23, J-14: inline wins; a format that cannot be told is not guessed."""
    message = project_message("NATS", {"payload": {"dataschema": schema}}, {})
    assert {name: value for name, value in message.items() if name.startswith("data")} == wanted


def test_the_content_type_tells_the_format_of_a_schema() -> None:
    """J-14."""
    definition = {
        "publish": {"contenttype": {"value": "application/json"}},
        "payload": {"dataschema": {"value": "urn:x"}},
    }
    assert project_message("MQTT", definition, {})["dataschemaformat"] == "JsonSchema/draft-07"
