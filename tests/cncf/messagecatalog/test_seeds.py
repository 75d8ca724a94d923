"""Definitions as the drafts print them, damaged as they are, and ours with the same damage."""

import json
from pathlib import Path
from typing import Any

import pytest

from signalbook.cncf.messagecatalog import definitions, documents
from signalbook.documents import repair_json
from signalbook.values import JSONObject

FIRST = "message-catalog-draft-2022-01-17.md"
V01 = "message-catalog-0.1-2022-01-28.md"


def printed(shared_data: Path, name: str, after: str, before: str = "") -> str:
    """The first JSON object between two passages of a draft's text, damaged as it is."""
    text = (shared_data.parent / "seeds" / name).read_text(encoding="utf-8").partition(after)[2]
    text = text[text.index("{\n") :]
    return text.partition(before)[0] if before else text


def read(document: Any) -> documents.CatalogGroup:
    """A group of CloudEvents with the definition of ``document``, in which there is nothing to find."""
    reading = documents.CatalogReader()
    posted = reading.read_definition(document, "CloudEvents")
    group = documents.CatalogGroup(id="g", document={"format": "CloudEvents"}, posted=tuple(posted))
    assert (reading.findings, list(documents.validate_group_document(group, "CloudEvents", ()))) == ([], [])
    return group


def shown(group: documents.CatalogGroup, id: str, number: int) -> JSONObject:
    """A version of a definition alone, as it is shown once the group is stored."""
    versions = documents.build_registry_group(group)["messages"][id]["versions"]
    times = {"createdat": "c", "modifiedat": "m"}
    stored = [{"messageid": id, "versionid": name, **times, **message} for name, message in versions.items()]
    return definitions.render_definition("CloudEvents", stored[-1], stored[number - 1])


@pytest.mark.others("the draft's sample with two versions", ours="test_a_version_alone_is_part_of_the_whole")
def test_the_sample_with_two_versions(shared_data: Path) -> None:
    """The second version alone equals the one printed in the draft (C-11, L-20)."""
    whole = json.loads(printed(shared_data, V01, "example of a message definition version", 'For version "2"'))
    alone = json.loads(printed(shared_data, V01, "the standalone message definition version document", "The API is"))
    group = read(whole)
    assert [posted_version.number for posted_version in group.posted] == [1, 2]
    second = shown(group, whole["id"], 2)
    assert {name: second[name] for name in alone} == alone
    added = {"specversion", "createdtimeutc", "updatedtimeutc"}  # L-20: the draft leaves them out
    assert second.keys() - alone.keys() == added


KIND = {"value": "workshop.closed", "required": True}
WHOLE = {
    "id": "workshop.closed",
    "authority": "urn:workshop",
    "description": "A workshop closes",
    "format": "CloudEvents",
    "versions": [
        {"version": 1, "definition": {"attributes": {"type": KIND}}},
        {"version": 2, "definition": {"attributes": {"type": KIND, "subject": {"required": True}}}},
    ],
}


@pytest.mark.parametrize("number", [1, 2])
def test_a_version_alone_is_part_of_the_whole(number: int) -> None:
    """A version consists of the shared attributes and its own definition, as it was sent (C-9, C-11, C-20)."""
    group = read(WHOLE)
    assert [posted_version.number for posted_version in group.posted] == [1, 2]
    assert shown(group, "workshop.closed", number) == {
        "id": "workshop.closed",
        "authority": "urn:workshop",
        "description": "A workshop closes",
        "format": "CloudEvents",
        "specversion": "0.1",
        "createdtimeutc": "c",
        "updatedtimeutc": "m",
        **WHOLE["versions"][number - 1],  # type: ignore[dict-item]
    }


EXPRESSED = "This definition expressed as a CloudEvents message definition:"
SAMPLES: list[Any] = [
    pytest.param(FIRST, "Message catalog object deleted event:", "```", id="L-1 deleted"),
    pytest.param(FIRST, '"storage object created" event:', "```", id="L-1 created"),
    pytest.param(V01, "3.2.3. Examples", "Fictitious", id="C-25"),
    pytest.param(V01, '"storage object created" event:', "The same as above", id="L-15"),
    pytest.param(V01, "with an inlined JSON Schema describing the payload", "3.3. OASIS", id="L-16"),
    pytest.param(V01, EXPRESSED, "io.cloudevents.messagecatalog.deleted.v1\nThis", id="L-17 updated"),
    pytest.param(V01, '"subject" : "/messagecatalog/5/messagedefinitions/78"', "", id="L-17 deleted"),
]


@pytest.mark.others("the definitions that the drafts print", ours="test_repaired_text_has_the_expected_attributes")
@pytest.mark.parametrize(("name", "after", "before"), SAMPLES)
def test_samples_are_valid_after_repair(shared_data: Path, name: str, after: str, before: str) -> None:
    """The samples are read like by ``import --lenient`` (L-1, L-15 to L-18, C-20, C-21)."""
    document, _ = repair_json(printed(shared_data, name, after, before), max_depth=64)
    assert list(documents.build_registry_group(read(document))["messages"]) == [document["id"]]


TYPE = '"type" : { "value" : "workshop.opened", "required" : true'
TEXTS = [
    pytest.param('"attributes" : { "specversion" : "1.0", "type" : "workshop.opened", }', {}, id="L-1 comma at end"),
    pytest.param(
        """"attributes" : { "type" : "workshop.opened", "subject" : "/{hall}/{bench}"
        "datacontenttype" : "application/json" }""",
        {"subject": {"value": "/{hall}/{bench}"}, "datacontenttype": {"value": "application/json"}},
        id="L-1 no comma between",
    ),
    pytest.param(
        f""""definition" : {{ "attributes" : {{ {TYPE}, "description" : "its type", }},
        "datacontenttype" : {{ "value" : "application/json"
        "required" : true }} }} }}""",
        {"datacontenttype": {"value": "application/json", "required": True}},
        id="L-15",
    ),
    pytest.param(
        f""""definition" : {{ "attributes" : {{ {TYPE} }},
        "dataschema" : {{ "schematype" : "JSON", "schema" : {{
        {{ "$schema" : "http://json-schema.org/draft-07/schema", "Opened" : {{ "type" : "object" }} }} }} }},
        "datacontenttype" : {{ "value" : "application/json", "required" : true, }} }}""",
        {"datacontenttype": {"value": "application/json", "required": True}},
        id="L-16 an object without a name, a brace too few",
    ),
    pytest.param(
        f""""definition" : {{ "attributes" : {{ {TYPE} }},
        "source" : {{ "description" : "no value, \n and a line break" }},
        "subject" : {{ "value" : "/halls/{{hall-id}}" }} }} }}""",
        {"source": {"description": "no value, \n and a line break"}, "subject": {"value": "/halls/{hall-id}"}},
        id="L-17, L-18, C-20, C-21",
    ),
]


@pytest.mark.parametrize(("text", "expected"), TEXTS)
def test_repaired_text_has_the_expected_attributes(text: str, expected: JSONObject) -> None:
    """The definitions are our own, with the same damage (L-1, L-15 to L-18, C-20, C-21)."""
    head = '{ "id" : "workshop.opened", "format" : "CloudEvents", "version" : 1, '
    document, repairs = repair_json(head + text + "}", max_depth=64)
    assert repairs
    attributes = shown(read(document), "workshop.opened", 1)["definition"]["attributes"]
    assert attributes["type"]["value"] == "workshop.opened"
    assert {name: attributes[name] for name in expected} == expected
