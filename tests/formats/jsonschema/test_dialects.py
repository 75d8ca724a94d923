import pytest

from signalbook.formats.jsonschema.dialects import DEFAULT, choose_dialect, find_by_format, find_by_schema_uri


@pytest.mark.parametrize(
    ("uri", "version"),
    [
        ("http://json-schema.org/draft-07/schema#", "draft-07"),
        ("https://json-schema.org/draft-07/schema", "draft-07"),
        ("http://json-schema.org/draft-04/schema", "draft-04"),
        ("https://json-schema.org/draft/2020-12/schema#", "draft/2020-12"),
    ],
)
def test_schema_uris_vary(uri: str, version: str) -> None:
    """A trailing # and the choice of http or https do not matter (G-14)."""
    dialect = find_by_schema_uri(uri)
    assert dialect is not None
    assert dialect.version == version


def test_format_and_schema_must_agree() -> None:
    """The member $schema must agree with the format (G-14)."""
    dialect, findings = choose_dialect(
        {"$schema": "https://json-schema.org/draft/2020-12/schema"}, "JsonSchema/draft-07"
    )
    assert [(f.path, f.rule) for f in findings] == [("/$schema", "$schema")]
    assert "draft/2020-12" in findings[0].message
    assert dialect.version == "draft-07"


def test_unknown_versions_are_refused() -> None:
    assert choose_dialect({"$schema": "https://example.com/my-own"}, "JsonSchema")[1]
    assert find_by_format("JsonSchema/Unknown") is None


def test_a_document_may_speak_for_itself() -> None:
    dialect, findings = choose_dialect({"$schema": "http://json-schema.org/draft-06/schema#"}, "JsonSchema")
    assert (dialect.version, findings) == ("draft-06", [])
    assert choose_dialect(True, "JsonSchema") == (DEFAULT, [])
