"""Documents: what is checked of them, and where their references lead."""

from __future__ import annotations

import time

import pytest

from signalbook.formats import SchemaError
from signalbook.formats.jsonschema import FORMAT
from signalbook.formats.jsonschema.document import load
from signalbook.values import dump_json

DRAFT_07 = "JsonSchema/draft-07"


@pytest.mark.parametrize(
    ("document", "path", "rule"),
    [
        (b"", "", "empty"),  # G-23
        (b"{", "", "json"),
        (b'{"a":1,}', "", "json"),
        (b"3", "", "metaschema"),
        (b'{"type":"foo"}', "/type", "metaschema"),
        (b'{"properties":{"a":{"minLength":"x"}}}', "/properties/a/minLength", "metaschema"),
        (b'{"$schema":"https://json-schema.org/draft/2020-12/schema"}', "/$schema", "$schema"),  # G-14
        (b'{"$ref":"#/definitions/none"}', "", "schema"),
        (b'{"pattern":"("}', "", "schema"),
        (b'{"pattern":"(?:(?:(?:a{100}){100}){100}){100}"}', "", "schema"),
        (b"[" * 500 + b"]" * 500, "", "json"),
        (b'{"items":' * 200 + b"{}" + b"}" * 200, "", "json"),
        (b'{"title":"\xff"}', "", "json"),
    ],
)
def test_broken_documents_are_told_apart(document: bytes, path: str, rule: str) -> None:
    """G-19: findings, each with a path."""
    findings = FORMAT.check(document, DRAFT_07)
    assert [(finding.path, finding.rule) for finding in findings] == [(path, rule)]
    with pytest.raises(SchemaError):
        FORMAT.parse(document, DRAFT_07)


@pytest.mark.parametrize("document", [b"{}", b"true", b'{"$ref":"other.json"}', b'{"$ref":"http://example.com/x#/a"}'])
def test_sound_documents_have_no_findings(document: bytes) -> None:
    """A document is judged by itself: other documents need not be at hand."""
    assert FORMAT.check(document, DRAFT_07) == []


@pytest.mark.parametrize("uri", ["http://127.0.0.1:9/x.json", "file:///etc/passwd", "https://h.example/a#/b", "x"])
def test_references_never_leave_the_process(uri: str) -> None:
    """K-39: no resolver, no document."""
    with pytest.raises(SchemaError, match="no such document"):
        FORMAT.parse(dump_json({"properties": {"a": {"$ref": uri}}}), DRAFT_07)


@pytest.mark.parametrize("name", ["$ref", "$dynamicRef", "$recursiveRef", "\\u0024ref", "$re\\u0066"])
def test_references_are_seen_however_they_are_spelt(name: str) -> None:
    """What has no reference by its text is not searched for any."""
    with pytest.raises(SchemaError, match="no such document"):
        FORMAT.parse(b'{"%s":"x.json"}' % name.encode(), "JsonSchema/draft/2020-12")


def test_references_go_through_the_resolver() -> None:
    others = {
        "/schemagroups/g/schemas/b": b'{"definitions":{"n":{"$ref":"c"}}}',
        "/schemagroups/g/schemas/c": b'{"type":"null"}',
    }
    asked: list[str] = []

    def resolve(uri: str) -> bytes | None:
        asked.append(uri)
        return others.get(uri)

    document = dump_json({"items": {"$ref": "/schemagroups/g/schemas/b#/definitions/n"}})
    schema = FORMAT.parse(document, DRAFT_07, resolve=resolve)
    assert asked == list(others)
    assert schema.validate([None]) == []
    assert [finding.path for finding in schema.validate([None, 1])] == ["/1"]


def test_relative_references_follow_the_id() -> None:
    document = dump_json({"$id": "http://example.com/a/b.json", "$ref": "c.json"})
    schema = FORMAT.parse(document, DRAFT_07, resolve={"http://example.com/a/c.json": b'{"type":"null"}'}.get)
    assert schema.validate(1)


def test_a_broken_document_referred_to_is_named() -> None:
    document = dump_json({"properties": {"a": {"$ref": "b.json"}}})
    with pytest.raises(SchemaError, match=r"cannot use /b\.json: .*not JSON") as caught:
        FORMAT.parse(document, DRAFT_07, resolve=lambda _: b"{")
    assert caught.value.findings[0].path == "/properties/a"


def test_documents_with_inner_ids_keep_their_references() -> None:
    document = {
        "definitions": {"a": {"$id": "http://example.com/a", "type": "integer"}},
        "$ref": "http://example.com/a",
    }
    schema = FORMAT.parse(dump_json(document), DRAFT_07)
    assert (schema.validate(1), bool(schema.validate("x"))) == ([], True)


def test_documents_are_read_once() -> None:
    document = dump_json({"definitions": {"a": {}, "b": {}}})
    assert load(document, DRAFT_07, None) is load(document, DRAFT_07, None)


def test_no_pattern_hangs_a_worker() -> None:
    """Backtracking is bounded: an hour of it would be over in an instant here."""
    schema = FORMAT.parse(dump_json({"pattern": "^(?=a)(a+)+\\1$"}), DRAFT_07)
    before = time.process_time()
    assert schema.validate("a" * 5000 + "!")
    assert time.process_time() - before < 60
