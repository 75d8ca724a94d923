"""Documents with embedded versions, in every shape."""

from __future__ import annotations

from typing import Any

import pytest

from signalbook.cncf.messagecatalog import definitions
from signalbook.cncf.messagecatalog.documents import CatalogReader, document_findings, registry_group

ONE = {"pub": {"subject": {"value": "a"}}}
TWO = {"pub": {"subject": {"value": "a"}, "replyto": {"value": "b"}}}
DATED = {"createdtimeutc": "2022-01-28T00:00:00Z"}
SPELT = [{"pub": {"subject": "a"}}, {"version": 2, **DATED, "pub": {"subject": "a", "replyto": "b"}}]
DEFINITION = {
    "id": "d",
    "description": "of both",
    "versions": [
        {"version": 1, "definition": ONE},
        {"version": 2, "definition": TWO, **DATED},
    ],
}


def read(document: Any) -> Any:
    reading = CatalogReader()
    group = reading.group({"id": "g", "format": "NATS", "definitions": document})
    return group, [fault.path for fault in reading.findings]


@pytest.mark.parametrize(
    "collection",
    [
        pytest.param([DEFINITION], id="a list"),
        pytest.param({"d": DEFINITION}, id="a map"),
        pytest.param({"d": {k: v for k, v in DEFINITION.items() if k != "id"}}, id="a map, ids as keys"),
        pytest.param(
            [{**DEFINITION, "versions": {"1": {"definition": ONE}, "2": {"definition": TWO, **DATED}}}],
            id="versions as a map",
        ),
        pytest.param([{**DEFINITION, "versions": SPELT}], id="B-5 as the first draft spells them"),
    ],
)
def test_every_shape_is_the_same_document(collection: Any) -> None:
    """C-9, C-12: for xRegistry versions keep their numbers, one after the other."""
    group, faults = read(collection)
    assert faults == [] == list(document_findings(group, "NATS", ()))
    found = registry_group(group)
    assert found["protocol"] == "NATS"
    versions = found["messages"]["d"]["versions"]
    assert {number: each["protocoloptions"] for number, each in versions.items()} == {
        "1": {"subject": "a"},
        "2": {"subject": "a", "reply-to": "b"},
    }
    assert [each["description"] for each in versions.values()] == ["of both", "of both"]
    assert (versions["2"]["ancestorid"], versions["2"]["createdat"]) == ("1", "2022-01-28T00:00:00Z")


@pytest.mark.parametrize(
    ("collection", "wrong"),
    [
        pytest.param({"x": DEFINITION}, ["definitions.x.id"], id="C-12 another key"),
        pytest.param([{**DEFINITION, "id": "a b"}], ["definitions[0].id"], id="L-4"),
        pytest.param([{**DEFINITION, "versions": []}], ["definitions[0].versions"], id="C-8"),
        pytest.param([{"id": "d"}], ["definitions[0].definition"], id="C-8 none"),
        pytest.param([{"id": "d", "definition": 5}], ["definitions[0].definition"], id="C-4"),
        pytest.param(
            [{**DEFINITION, "versions": [{"id": "e", "definition": ONE}]}], ["definitions[0].versions[0].id"], id="C-10"
        ),
        pytest.param([5], ["definitions"], id="C-9 objects"),
        pytest.param("text", ["definitions"], id="C-9 a list"),
    ],
)
def test_faults_have_paths(collection: Any, wrong: list[str]) -> None:
    assert read(collection)[1] == wrong


def test_a_whole_catalog() -> None:
    """C-12."""
    reading = CatalogReader()
    groups = reading.root(
        {"specversion": "0.2", "groups": {"g": {"format": "NATS", "messagedefinitions": [DEFINITION]}}}
    )
    assert [(group.id, len(group.posted)) for group in groups] == [("g", 2)]
    assert [fault.path for fault in reading.findings] == ["specversion"]


@pytest.mark.parametrize(
    ("others", "wrong"),
    [
        pytest.param([{"id": "e", "relatedto": "d", "definition": ONE}], [], id="C-15"),
        pytest.param(
            [{"id": "e", "relatedto": "f", "definition": ONE}, {"id": "f", "definition": ONE}], [], id="C-15 forward"
        ),
        pytest.param(
            [{"id": "e", "relatedto": "f", "definition": ONE}], ["definitions[1].relatedto"], id="C-15 dangling"
        ),
        pytest.param([{"id": "e", "relatedto": "e", "definition": ONE}], [], id="C-18"),
    ],
)
def test_relations_are_checked_when_all_is_there(others: Any, wrong: list[str]) -> None:
    group, _ = read([DEFINITION, *others])
    assert [fault.path for fault in document_findings(group, "NATS", ())] == wrong


def test_a_version_is_there_once() -> None:
    group, _ = read([{**DEFINITION, "versions": [{"version": 1, "definition": ONE}] * 2}])
    assert [fault.path for fault in document_findings(group, "NATS", ())] == ["definitions[0].versions[1].version"]


def test_what_identifies_a_message_is_the_same_in_all_versions() -> None:
    """B-6."""
    versions = [{"definition": {"attributes": {"type": {"value": value}}}} for value in ("a%20b", "a b")]
    group, _ = read([{"id": "a%20b", "versions": versions}])
    assert [fault.rule for fault in document_findings(group, "CloudEvents", ())] == ["criteria"]


def test_a_version_alone_and_among_others() -> None:
    """C-9."""
    shown = definitions.standalone(DEFINITION, 2)
    assert shown == {"id": "d", "description": "of both", **DEFINITION["versions"][1]}  # type: ignore[dict-item]
    assert definitions.standalone(DEFINITION, 3) is None
    common = {"id": "d", "specversion": "0.1", "format": "NATS"}
    versions = [{**common, "version": 1, "definition": ONE}, {**common, "version": 2, "definition": TWO}]
    assert definitions.embedded_definition(versions) == {
        "id": "d",
        "format": "NATS",
        "versions": [{"version": 1, "definition": ONE}, {"version": 2, "definition": TWO}],
    }
