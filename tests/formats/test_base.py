import pickle

import pytest

from signalbook.formats import PayloadError
from signalbook.formats.base import MAX_DOCUMENT_BYTES, check_size, format_pointer, is_json, parse_media_type, shorten
from signalbook.values import Finding


@pytest.mark.parametrize(
    "text", ["application/json", "Application/JSON; charset=utf-8", "text/json", "application/a+json"]
)
def test_json_by_any_name(text: str) -> None:
    assert is_json(text)


@pytest.mark.parametrize("text", ["", "application/xml", "application/jsonl", "json", "avro/binary"])
def test_other_content_types_are_not_json(text: str) -> None:
    assert not is_json(text)


def test_media_type_has_no_parameters() -> None:
    assert parse_media_type(" Text/XML ; charset=utf-8") == "text/xml"


def test_pointers_escape() -> None:
    assert format_pointer(["a/b", 0, "~"]) == "/a~1b/0/~0"
    assert format_pointer([]) == ""


def test_documents_have_limits() -> None:
    """Empty and too large documents have findings (G-23)."""
    assert [finding.rule for finding in check_size(b" \n")] == ["empty"]
    assert [finding.rule for finding in check_size(b"x" * (MAX_DOCUMENT_BYTES + 1))] == ["size"]
    assert check_size(b"{}") == []


def test_long_messages_are_truncated() -> None:
    assert len(shorten("x" * 10_000)) == 300


def test_payload_errors_travel_between_processes() -> None:
    error = PayloadError("decode_error", [Finding(path="/a", rule="type", message="no")])
    again = pickle.loads(pickle.dumps(error))
    assert (again.reason, again.findings, str(again)) == (error.reason, error.findings, str(error))
