from typing import Any

import pytest
import yaml

from signalbook.cncf.messagecatalog import definitions
from signalbook.cncf.messagecatalog.definitions import PostedVersion
from signalbook.cncf.messagecatalog.originals import Content

GROUP = {"envelope": "CloudEvents/1.0"}
DEFINITION = {"attributes": {"type": {"value": "a.b", "required": True}}}
STAMPS = {"createdat": "2026-01-01T00:00:00Z", "modifiedat": "2026-01-02T00:00:00Z"}


def posted(**document: Any) -> PostedVersion:
    return PostedVersion(id="a.b", document=document, definition=DEFINITION)


def stored(number: int, attributes: Any) -> Any:
    return {"messageid": "a.b", "versionid": str(number), **STAMPS, **attributes}


def test_attributes_common_to_versions_are_of_the_definition() -> None:
    """The attributes are returned with the names they had (C-3, C-4, J-16)."""
    document = yaml.safe_load("""
    {authority: "https://x.example", description: d, documentation: "# Long", relatedto: "other!", relatedvia: type,
      relation: reply, tags: "b,a", owner: us}
    """)
    message = definitions.build_definition_attributes("CloudEvents", posted(**document), GROUP)
    assert message["documentationtext"] == "# Long"
    assert message["relatedto"] == "other~21"
    rendered = definitions.render_definition("CloudEvents", stored(2, message), stored(1, message))
    assert {name: rendered[name] for name in document} == document
    assert (rendered["version"], rendered["format"], rendered["specversion"]) == (1, "CloudEvents", "0.1")
    assert (rendered["createdtimeutc"], rendered["updatedtimeutc"]) == (STAMPS["createdat"], STAMPS["modifiedat"])


def test_new_version_keeps_unnamed_attributes() -> None:
    """A new version replaces the attributes that it states and keeps the others (C-10)."""
    before = {"description": "old", "name": "N", "labels": {"a": "", "team": "x"}, "globaluri": "urn:x:1"}
    message = definitions.build_definition_attributes(
        "CloudEvents", posted(description="new", tags=None), GROUP, before
    )
    assert (message["description"], message["name"], message["labels"]) == ("new", "N", {"team": "x"})
    assert "globaluri" not in message


@pytest.mark.parametrize(
    ("document", "wrong"),
    [
        pytest.param({"format": "AMQP"}, ["format"], id="B-4 C-10 the group's format"),
        pytest.param({"format": "CloudsEvents"}, [], id="B-3"),
        pytest.param({"specversion": "0.2"}, ["specversion"], id="C-3"),
        pytest.param({"tags": ["a"]}, ["tags"], id="C-3 one string"),
        pytest.param({"relatedto": "a b"}, ["relatedto"], id="C-15 a segment"),
        pytest.param({"relatedvia": "colour"}, ["relatedvia"], id="C-17"),
        pytest.param({"relatedvia": "type", "relation": "our own"}, [], id="C-16 others are allowed"),
        pytest.param({"relatedto": "x"}, [], id="C-16 a relation is recommended only"),
    ],
)
def test_faults_of_members(document: Any, wrong: list[str]) -> None:
    assert [fault.path for fault in definitions.validate_definition("CloudEvents", posted(**document))] == wrong


def test_relations_are_to_what_the_group_has() -> None:
    """A relation to a message that the Group lacks is a finding (C-15)."""
    findings = list(definitions.validate_relations(posted(relatedto="x!"), {"x"}))
    assert [fault.path for fault in findings] == ["relatedto"]
    assert not list(definitions.validate_relations(posted(relatedto="x!"), {"x~21"}))


def test_an_authority_is_an_absolute_uri() -> None:
    """The rule applies to the API (A-13, L-19)."""
    assert [f.path for f in definitions.validate_strictly(posted(authority="cloudevents.io"))] == ["authority"]
    assert not list(definitions.validate_strictly(posted(authority="urn:example:x")))


@pytest.mark.parametrize(
    ("body", "attributes", "wrong"),
    [
        ({"id": "a.b", "version": 99, "attributes": {"type": "a.b"}}, {}, []),
        ({"id": "c", "attributes": {"type": "a.b"}}, {}, ["id"]),
        ({"format": "AMQP", "attributes": {"type": "a.b"}}, {"format": "MQTT"}, ["format", "format"]),
        ({"description": "x", "attributes": {"type": "a.b"}}, {"description": "y"}, ["description"]),
        ({"attributes": {"type": {"value": "a.b"}}}, {}, ["attributes.type"]),
        ([], {}, [""]),
        ({"attributes": {"type": "a.b"}}, {"authority": "x", "versionuri": "a b"}, ["authority", "id"]),
    ],
)
def test_faults_of_the_first_drafts_documents(body: Any, attributes: Any, wrong: list[str]) -> None:
    """B-23, B-4."""
    findings = definitions.validate_first_definition("CloudEvents", "a.b", body, attributes)
    assert [fault.path for fault in findings] == wrong


def test_nats_of_the_first_draft_has_no_metaschema() -> None:
    """The definition may be any JSON object (B-2)."""
    assert not list(definitions.validate_first_definition("NATS", "a", {"anything": {"x": 1}}, {}))
    content = Content(body=b"{}", contenttype=None)
    first = definitions.read_first_draft("a", "NATS", {"pub": {"subject": "s"}}, content, {"description": "d"})
    assert (first.definition, first.document) == ({"pub": {"subject": {"value": "s"}}}, {"description": "d"})


def test_criteria_of_cloudevents_is_the_type() -> None:
    """The drafts name no criterion for other formats (B-6)."""
    assert definitions.criteria("CloudEvents", DEFINITION) == "a.b"
    assert definitions.criteria("AMQP", {"properties": {}}) is None


@pytest.mark.parametrize(
    ("tags", "labels"),
    [
        ("a,b", {"a": "", "b": ""}),
        ("b, a", {"a": "", "b": "", "tags": "b, a"}),
        ("Not a key", {"tags": "Not a key"}),
        ("", {"tags": ""}),
        ("team", {"tags": "team"}),
    ],
)
def test_tags_are_labels_without_value(tags: str, labels: Any) -> None:
    """The tags are returned as they were written if the labels do not determine that (J-16)."""
    labels_found = definitions.add_tag_labels({"team": "x", "old": ""}, tags)
    assert labels_found == {"team": "x", **labels}
    assert definitions.read_tags(labels_found) == tags
